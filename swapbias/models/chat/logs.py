"""Answers that inspect_ai logged: how its log says the model was asked, and the scorer that reads them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any, Self

from swapbias.errors import UsageError
from swapbias.files import file_sha256, write_whole
from swapbias.models.base import Progress, Say, written
from swapbias.models.chat.answer_log import ANSWERS, CUT_OFF, Answer, as_line, unread
from swapbias.models.chat.chat_options import ChatOptions, settings
from swapbias.models.chat.service import AnsweringScorer, Groups, answer_key
from swapbias.studies import Experiment, Prompt, as_prompts, config_rows, load_corpus, load_study, turns, unknown

PACKAGE = "swapbias"  # before the names of its tasks
Turns = tuple[tuple[str, str], ...]
_CUT_OFF = ("max_tokens", "model_length")  # why inspect says that an answer ended at the most tokens
_UNREAD = frozenset({"events", "store", "timelines", "events_data", "scores", "metadata"})  # parts of a sample
_MOST_LISTED = 3


def chat_configs(study: str, config: str = "") -> dict[str, Experiment]:
    """The configs that the chat experiments of a study read, the usual ones or the one that is named.

    >>> list(chat_configs("gendered_stigma"))
    ['choices', 'completions']

    Raises:
        UsageError: an unknown study, or one without such a config.
    """
    found = [one for one in load_study(study).experiments if one.kind == "chat"]
    if not config:
        return {name: one for one in found for name in one.configs}
    known = {name: one for one in found for name in (*one.configs, *one.alternatives)}
    if config not in known:
        raise unknown(f"config of chat experiments of {study}", config, list(known))
    return {config: known[config]}


def chat_prompts(study: str, config: str = "") -> list[Prompt]:
    """What ``chat_configs`` hold, in order; several may have one text."""
    return [
        replace(prompt, experiment=experiment.name)
        for name, experiment in chat_configs(study, config).items()
        for prompt in as_prompts(config_rows(study, name))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What an eval log says of itself.

    Attributes:
        study, config: as its task was given them; the config blank for the usual ones.
        options: model, trials, temperature and most tokens.
        identity: what pins model and log down, for the manifest.
    """

    study: str
    config: str
    options: ChatOptions
    identity: Mapping[str, Any] = field(default_factory=dict)


def logged_options(options: ChatOptions) -> tuple[ChatOptions, tuple[str, ...]]:
    """The options of the log that these name, and the configs of its study as ``study:config``.

    Raises:
        UsageError: options beside the log, or a log of something else.
        ValueError: it cannot be read.
    """
    usual = ChatOptions(log=options.log)
    changed = [one.name for one in fields(ChatOptions) if getattr(options, one.name) != getattr(usual, one.name)]
    if changed:
        names = ", ".join(written("chat" if name == "model" else name) for name in changed)
        raise UsageError(f"-M log says how the model was asked, and {names} is given too. Drop it.")
    logged = read_header(Path(str(options.log)))
    configs = chat_configs(logged.study, logged.config)
    return logged.options, tuple(f"{logged.study}:{name}" for name in configs)


def read_header(path: Path) -> Logged:
    """What a log says of itself, once it is known to be of a task of this package and version of its prompts.

    Raises:
        UsageError: inspect_ai is not installed, no such file, another task, other prompts, asked otherwise.
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
    found: dict[str, Any] = {"temperature": made.temperature, "max_tokens": made.max_tokens}
    options = ChatOptions(
        model=_named(spec.model),
        log=str(path),
        trials=spec.config.epochs or 1,
        **{name: value for name, value in found.items() if value is not None},
    )
    revision = spec.model_args.get("revision")
    identity = {
        **settings(options),
        "seed": made.seed,
        "task": f"{PACKAGE}/{study}",
        "log_sha256": file_sha256(path),
        "inspect_ai": spec.packages.get("inspect_ai", ""),
        **({"revision": str(revision)} if revision else {}),
    }
    return Logged(study=study, config=config, options=options, identity=identity)


def _named(model: str) -> str:
    """The model as inspect names it (``openai/gpt-4o``); a place on a machine without the provider before it."""
    _, _, name = model.partition("/")
    return name if PurePath(name).is_absolute() or name.startswith((".", "~")) else model


def _read(path: Path, **more: Any) -> Any:
    """The log as inspect_ai reads it."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise UsageError(
            "Reading an eval log takes inspect_ai, which is not installed. Install it with "
            "pip install 'swapbias[inspect]'."
        ) from error
    if not path.is_file():
        raise UsageError(f"There is no log {path}. Name the .eval or .json file that inspect_ai wrote.")
    if path.suffix not in (".eval", ".json"):
        raise UsageError(f"{path} is no log of inspect_ai, expected a .eval or .json file. Name another.")
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
        """Read answers, each under the key of what was asked."""
        super().__init__(model, options, unread)
        self.answers = {one.key: one for one in answers}
        self.log.known.update(self.answers)
        self.identity: Mapping[str, Any] = {**identity, "kind": self.kind}

    @classmethod
    def load(cls, path: Path, options: ChatOptions, prompts: Sequence[Prompt], *, say: Say) -> Self:
        """The answers of a log to these prompts; says how many have none.

        Raises:
            UsageError, ValueError: as ``read_header``, or it asks what the study does not, or in another way.
        """
        logged, model = read_header(path), options.model or ""
        texts = {as_turns(turns(one.text)): one.text for one in chat_prompts(logged.study, logged.config)}
        samples = _read(path, resolve_attachments="core", exclude_fields=set(_UNREAD)).samples or []
        others = [str(one.id) for one in samples if _input(one) not in texts]
        _refuse(
            path.name,
            others,
            f"asks {{count}} prompts that {logged.study} does not have ({{shown}}). Run the task unedited.",
        )
        changed = [str(one.id) for one in samples if not _plain(one)]
        of = f"put more than the prompt before the model in {{count}} of {len(samples):,} samples ({{shown}})."
        _refuse(path.name, changed, f"{of} Run the task without another solver.")
        answers = list(_answers(samples, texts, model, options))
        scorer = cls(model, options, answers, logged.identity)
        lost = sum(key not in scorer.answers for key in scorer._keys(prompts))
        if lost:
            errors = sum(one.error is not None for one in samples)
            broken = f" ({errors:,} samples broke off with an error)" if errors else ""
            say(f"{path.name} has no answer to {lost:,} of {len(prompts):,} prompts{broken}: they have no score.")
        return scorer

    def keep_answers(self, folder: Path, *, text: bool = True) -> None:
        """In a run's folder, as those of a model that is asked.

        Raises:
            UsageError: answers whose text must not be kept: a log holds it.
        """
        if not text:
            raise UsageError("A log holds text of answers; of credentialed notes none is kept. Ask the model.")
        path = folder / ANSWERS
        if path not in self.logs and not path.exists():
            write_whole(path, b"".join(map(as_line, self.answers.values())))
        super().keep_answers(folder, text=text)

    def _ask(self, missing: Groups, report: Progress, expected: int) -> None:
        report(sum(map(len, missing.values())))


def as_turns(messages: Sequence[Mapping[str, str]]) -> Turns:
    """Role and content of each message, to be compared."""
    return tuple((one["role"], one["content"]) for one in messages)


def _input(sample: Any) -> Turns:
    if isinstance(sample.input, str):
        return (("user", sample.input),)
    return tuple((one.role, one.text) for one in sample.input)


def _plain(sample: Any) -> bool:
    """Whether the model read the prompt and nothing else before it answered, or did not answer at all."""
    if not sample.output.choices:
        return True
    said = tuple((one.role, one.text) for one in sample.messages)
    return said[:-1] == _input(sample) and [role for role, _ in said[-1:]] == ["assistant"]


def _answers(
    samples: Sequence[Any], texts: Mapping[Turns, str], model: str, options: ChatOptions
) -> Iterator[Answer]:
    blank = {one.name: "" for one in fields(Prompt)}
    for one in samples:
        if one.output.choices and one.invalidation is None:
            prompt = Prompt(**{**blank, "text": texts[_input(one)], "prompt_id": f"{one.id}/t{one.epoch}"})
            reason, used = str(one.output.stop_reason), one.output.usage
            yield Answer(
                key=answer_key(prompt, model=model, options=options),
                prompt_id=prompt.prompt_id,
                answer=one.output.completion.encode(errors="replace").decode(),
                finish_reason=CUT_OFF if reason in _CUT_OFF else "" if reason == "unknown" else reason,
                usage={
                    "prompt_tokens": used.input_tokens,
                    "completion_tokens": used.output_tokens,
                    "total_tokens": used.total_tokens,
                } if used else {},
                seconds=round(one.output.time or 0.0, 3),
                time=str(one.completed_at or ""),
            )  # fmt: skip


def _refuse(log: str, ids: Sequence[str], what: str) -> None:
    """Stop where samples are not what this package asks: ``what`` says how, with a place for their number."""
    if ids:
        shown = ", ".join(ids[:_MOST_LISTED]) + (", ..." if len(ids) > _MOST_LISTED else "")
        raise UsageError(f"{log} {what.format(count=f'{len(ids):,}', shown=shown)}")
