"""The chat experiments of every study as tasks of inspect_ai, and the answers that its logs hold.

``inspect eval swapbias/STUDY --model ...``: importing this registers the tasks; inspect_ai does so by the entry point
of this package.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Self

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.files import file_sha256
from swapbias.models.base import Progress, Say
from swapbias.models.chat.chat_kind import CHAT
from swapbias.models.chat.chat_options import ChatOptions, settings
from swapbias.models.chat.service import CUT_OFF, USAGE, Answer, AnsweringScorer, Groups, answer_key, unread
from swapbias.studies import (
    PROMPT_COLUMNS,
    Prompt,
    as_prompts,
    config_rows,
    load_corpus,
    load_study,
    studies,
    turns,
    unknown,
)

PACKAGE = "swapbias"  # before the names of its tasks
Turns = tuple[tuple[str, str], ...]
_MESSAGES: dict[str, Callable[..., ChatMessage]] = {
    "system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant,
}  # fmt: skip
_UNREAD = {"events", "store", "timelines", "events_data", "scores", "metadata"}  # parts of a sample


def chat_prompts(study: str, config: str = "") -> dict[str, list[Prompt]]:
    """The prompts of the chat experiments of a study, by config: the usual ones, or the one that is named.

    Raises:
        UsageError: an unknown study, or one without such a config.
    """
    found = [one for one in load_study(study).experiments if one.kind == CHAT.name]
    of_config = {name: one for one in found for name in (*one.configs, *one.alternatives)}
    usual = [name for one in found for name in one.configs]
    if config and config not in of_config:
        raise unknown(f"config of chat experiments of {study}", config, list(of_config))
    return {
        name: [replace(one, experiment=of_config[name].name) for one in as_prompts(config_rows(study, name))]
        for name in ([config] if config else usual)
    }


def study_task(study: str, config: str = "") -> Task:
    """The prompts of the chat experiments of a study, each text once, asked as ``swapbias audit --chat`` asks.

    Trials are epochs. Their number, temperature and most tokens are those of audits by default; ``--epochs``,
    ``--temperature`` and ``--max-tokens`` of ``inspect eval`` change that. Answers are read and compared by
    ``swapbias audit -M log=FILE``. Raises as ``chat_prompts``.
    """
    usual, found = ChatOptions(), [one for some in chat_prompts(study, config).values() for one in some]
    first = {prompt.text: prompt for prompt in reversed(found)}
    samples = [
        Sample(
            id=f"{prompt.experiment}/{prompt.prompt_id}",
            input=[_MESSAGES[one["role"]](content=one["content"]) for one in turns(prompt.text)],
        )
        for prompt in reversed(first.values())
    ]
    return Task(
        dataset=MemoryDataset(samples, name=study),
        epochs=usual.trials,
        config=GenerateConfig(temperature=usual.temperature, max_tokens=usual.max_tokens),
        version=load_corpus(study).version,
        metadata={"swapbias": __version__, "study": study, "config": config},
    )


def _register(study: str) -> None:
    def made(config: str = "") -> Task:
        return study_task(study, config)

    made.__doc__ = load_study(study).title
    task(made, name=study)


for _name in studies():
    if any(_one.kind == CHAT.name for _one in load_study(_name).experiments):
        _register(_name)


# --- the answers of a log ---------------------------------------------------------------------------------


def logged_options(options: ChatOptions) -> tuple[ChatOptions, tuple[str, ...]]:
    """The options of the log that these name, and the configs of its study as ``study:config``."""
    found, _, configs = read_header(Path(str(options.log)))
    return found, tuple(configs)


def read_header(path: Path) -> tuple[ChatOptions, dict[str, Any], dict[str, list[Prompt]]]:
    """How a log says that the model was asked, what identifies both, and the prompts by ``study:config``.

    Raises:
        UsageError: no such file, another task or version of its prompts, asked otherwise.
        ValueError: it cannot be read.
    """
    log = _read(path, header_only=True)
    spec, made = log.eval, log.eval.model_generate_config.merge(log.plan.config)  # as inspect asks: the task's wins
    package, _, study = (spec.task_registry_name or spec.task).rpartition("/")
    if package != PACKAGE:
        raise UsageError(
            f"{path.name} is a log of the task {spec.task!r}, expected one of swapbias. Give another log."
        )
    version, config = load_corpus(study).version, str(spec.task_args.get("config") or "")
    if str(spec.task_version) != version:
        raise UsageError(
            f"{path.name} asks version {spec.task_version} of {study}, and this swapbias has {version}. Run the task "
            "again, or install the swapbias that wrote it."
        )
    if made.system_message:
        raise UsageError(f"{path.name} was made with a system message of its own (--system-message). Run it without.")
    _, _, name = spec.model.partition("/")  # a place on a machine without the provider before it
    is_place = PurePath(name).is_absolute() or name.startswith((".", "~"))
    given: dict[str, Any] = {"temperature": made.temperature, "max_tokens": made.max_tokens}
    options = ChatOptions(
        model=name if is_place else spec.model, log=str(path), trials=spec.config.epochs or 1,
        **{name: value for name, value in given.items() if value is not None},
    )  # fmt: skip
    identity = {
        **settings(options), "seed": made.seed, "task": f"{PACKAGE}/{study}", "log_sha256": file_sha256(path),
        "inspect_ai": spec.packages.get("inspect_ai", ""),
    }  # fmt: skip
    if revision := spec.model_args.get("revision"):
        identity["revision"] = str(revision)
    return options, identity, {f"{study}:{name}": found for name, found in chat_prompts(study, config).items()}


def _read(path: Path, **more: Any) -> Any:
    if not path.is_file():
        raise UsageError(f"There is no log {path}. Name the .eval or .json file that inspect_ai wrote.")
    try:
        return read_eval_log(path, **more)
    except Exception as error:  # of a broken file a zip, JSON or schema error of five libraries
        raise ValueError(
            f"{path} cannot be read as a log of inspect_ai ({type(error).__name__}). Give another file, or run the "
            "task again."
        ) from error


class LoggedScorer(AnsweringScorer):
    """An ``AnsweringScorer`` of answers that inspect_ai logged: nothing is asked.

    NaN: the log has no answer, for the sample was not run, broke off with an error or was invalidated.
    """

    def __init__(
        self, model: str, options: ChatOptions, answers: Sequence[Answer], identity: Mapping[str, Any]
    ) -> None:
        """Read answers, each under the key of its request."""
        super().__init__(model, options, unread)
        self.log.known.update({one.key: one for one in answers})
        self.identity: Mapping[str, Any] = {**identity, "kind": self.kind}

    @classmethod
    def load(cls, path: Path, options: ChatOptions, prompts: Sequence[Prompt], *, say: Say) -> Self:
        """The answers of a log to these prompts; says how many have none.

        Raises:
            UsageError, ValueError: as ``read_header``, or its prompts are not those of the study.
        """
        _, identity, configs = read_header(path)
        texts = {
            tuple((turn["role"], turn["content"]) for turn in turns(one.text)): one.text
            for some in configs.values()
            for one in some
        }
        samples = _read(path, resolve_attachments="core", exclude_fields=_UNREAD).samples or []
        others = [one.id for one in samples if _input(one) not in texts or not _is_plain(one)]
        if others:
            raise UsageError(
                f"In {path.name} {len(others):,} of {len(samples):,} samples put something else than a prompt of "
                f"{identity['task']} before the model ({others[0]}). Run the task as it is, without another solver."
            )
        scorer = cls(options.model or "", options, list(_answers(samples, texts, options)), identity)
        lost = sum(key not in scorer.log for key in scorer._keys(prompts))
        if lost:
            errors = sum(one.error is not None for one in samples)
            broken = f" ({errors:,} samples broke off with an error)" if errors else ""
            say(f"{path.name} has no answer to {lost:,} of {len(prompts):,} prompts{broken}: they have no score.")
        return scorer

    def keep_answers(self, folder: Path, *, text: bool = True) -> None:
        """In a run's folder, as those of a model that is asked; a UsageError where text must not be stored."""
        if not text:
            raise UsageError("A log holds text of answers; of credentialed notes none is kept. Ask the model.")
        answers = list(self.log.known.values())
        super().keep_answers(folder, text=text)
        self.log.write(one for one in answers if one.key not in self.log)

    def _ask(self, missing: Groups, report: Progress, expected: int) -> None:
        report(sum(map(len, missing.values())))


def _input(sample: Any) -> Turns:
    if isinstance(sample.input, str):
        return (("user", sample.input),)
    return tuple((one.role, one.text) for one in sample.input)


def _is_plain(sample: Any) -> bool:
    """Whether the model read the prompt and nothing else before it answered, or did not answer at all."""
    if not sample.output.choices:
        return True
    read = tuple((one.role, one.text) for one in sample.messages)
    return read[:-1] == _input(sample) and [role for role, _ in read[-1:]] == ["assistant"]


def _answers(samples: Sequence[Any], texts: Mapping[Turns, str], options: ChatOptions) -> Iterator[Answer]:
    blank = dict.fromkeys(PROMPT_COLUMNS, "")
    for one in samples:
        if one.output.choices and one.invalidation is None:
            prompt = Prompt(**{**blank, "text": texts[_input(one)], "prompt_id": f"{one.id}/t{one.epoch}"})
            reason, used = str(one.output.stop_reason), one.output.usage
            yield Answer(
                key=answer_key(prompt, model=options.model or "", options=options),
                prompt_id=prompt.prompt_id,
                answer=one.output.completion.encode(errors="replace").decode(),
                finish_reason={"max_tokens": CUT_OFF, "model_length": CUT_OFF, "unknown": ""}.get(reason, reason),
                usage=dict(zip(USAGE, (used.input_tokens, used.output_tokens, used.total_tokens), strict=True))
                if used
                else {},
                seconds=round(one.output.time or 0.0, 3),
                time=str(one.completed_at or ""),
            )  # fmt: skip
