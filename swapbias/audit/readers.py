"""The models of an audit, and the way each experiment reads its model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from swapbias.audit.clinical import expected_numbers, load_note_model, note_reader
from swapbias.audit.plan import CALIBRATION, CHAT, EMBEDDING, Settings, Task
from swapbias.errors import UsageError
from swapbias.scorers import Progress, Scorer, code_of, is_callable, load_scorer, read_as
from swapbias.scorers.chat import load_chat

Say = Callable[[str], None]
Bar = Callable[[str, int], Progress]  # title and total -> called with how many more are done


def load_readers(settings: Settings, tasks: Sequence[Task], *, say: Say, bar: Bar) -> list[Scorer]:
    """For each task the scorer that reads its model; each model is loaded once.

    Raises:
        UsageError: a model that sends texts away would read credentialed notes, or one that does not fit.
        ValueError: a model that cannot be loaded.
    """
    loaded: dict[tuple[str, str], Any] = {}
    readers = []
    for task in tasks:
        key = (task.model, task.experiment.kind)
        if key not in loaded:
            loaded[key] = _load(task.model, settings, tasks, say, bar, kind=task.experiment.kind)
        readers.append(_reader(loaded[key], task, settings))
        refuse_sending(task, readers[-1])
    _check_names(tasks, readers)
    return readers


def check_code(run: str, settings: Settings, pinned: Any, *, trust: bool) -> None:
    """Before a run goes on: its manifest may be anybody's, and the models that it names may run code.

    Args:
        run: for the error.
        settings: as the manifest has them; pickles that ``settings.load`` allows are trusted.
        pinned: the manifest's models with their sha256; None where it has none yet.
        trust: whether the code may run.

    Raises:
        UsageError: a pickle or Python function that is not trusted, or not the one that the run began with.
    """
    known = set(_hashes(pinned))
    own = () if settings.notes.trains else (settings.notes.classifier,)
    for model in (settings.model, *own, *settings.notes.embeddings):
        code = code_of(model) if model else None
        if code is None:
            continue
        if known and code.sha256 and code.sha256 not in known:
            raise UsageError(f"{run} was begun with another version of {code.name}. Start a new run.")
        if not (trust or (code.pickle and settings.load.allow_pickle)):
            runs = "a pickle, and reading" if code.pickle else "a Python function, and importing"
            raise UsageError(
                f"{run} names {code.name}, {runs} it runs what its maker wrote. Repeat with --trust if you trust who "
                "made this run and that code."
            )


def _hashes(pinned: Any) -> Iterator[str]:
    """Every text in the identities of models, however deep."""
    if isinstance(pinned, str):
        yield pinned
    elif isinstance(pinned, Mapping | list):
        for inner in pinned.values() if isinstance(pinned, Mapping) else pinned:
            yield from _hashes(inner)


def _check_names(tasks: Sequence[Task], readers: Sequence[Scorer]) -> None:
    """Two models of one name would be taken for one."""
    seen = set()
    for task, reader in zip(tasks, readers, strict=True):
        key = (task.study.name, task.experiment.name, reader.model_id)
        if key in seen:
            raise UsageError(f"{reader.model_id} is named twice. Name it once, or tell the two apart as NAME=PATH.")
        seen.add(key)


def refuse_sending(task: Task, reader: Scorer) -> None:
    """Stop before credentialed notes would leave this machine.

    Raises:
        UsageError: the scorer says that it sends texts to a service (``sends_text``).
    """
    if task.notes is not None and task.notes.credentialed and getattr(reader, "sends_text", False):
        raise UsageError(
            f"{reader.model_id} sends texts to a service, and these notes are credentialed: they must not leave this "
            "machine. Choose a model that runs here."
        )


def _load(model: str, settings: Settings, tasks: Sequence[Task], say: Say, bar: Bar, *, kind: str) -> Any:
    notes, chat = kind == EMBEDDING, kind == CHAT
    if chat:
        say(f"Chat model {model}.")
        rows = next(task.rows for task in tasks if task.experiment.kind == CHAT)
        return load_chat(settings.chat, settings.load, settings.seed, rows)
    if notes:
        held = any(task.notes is not None and task.notes.credentialed for task in tasks)
        if held and is_callable(model):
            say(f"These notes are credentialed: make sure that {model} sends nothing of them to a service.")
        say(f"Loading {model.rpartition('=')[2] if model != settings.notes.classifier else model}.")
        return load_note_model(model, settings.notes, settings.load, say)
    if model == CALIBRATION and settings.model is None:
        from swapbias.scorers import STEPS, load_calibration

        say("Calibration model: a tiny masked language model with a planted bias, trained once and kept.")
        return load_calibration(
            seed=settings.seed,
            options=settings.load,
            bar=lambda: bar("training the calibration model", STEPS),
        )
    say(f"Loading {model}.")
    return load_scorer(model, kind=settings.kind, options=settings.load, say=say)


def _reader(model: Any, task: Task, settings: Settings) -> Scorer:
    if task.experiment.kind != EMBEDDING:
        return read_as(model, task.experiment.reading, prune=settings.load.prune)
    reader: Any = note_reader(model, task.experiment, task.notes, settings.notes, settings.seed)
    expected = expected_numbers(task.study.name, task.notes, reader.model_id)
    if expected is not None:
        reader.expected = expected
    return reader  # type: ignore[no-any-return]


def identities(readers: Sequence[Scorer]) -> list[dict[str, Any]]:
    """What pins the models down, each once."""
    known: dict[str, dict[str, Any]] = {}
    for reader in readers:
        known.setdefault(reader.model_id, {"model_id": reader.model_id, **reader.identity})
    return list(known.values())
