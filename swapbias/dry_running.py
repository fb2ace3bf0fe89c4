"""What an audit would do, in sentences: no model is loaded, nobody is asked."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from swapbias.chatting import planned_requests
from swapbias.errors import UsageError
from swapbias.planning import CHAT, Settings, plan
from swapbias.scorers import KINDS, VADER, is_callable, model_kind


def told_plan(settings: Settings) -> Iterator[str]:
    """Sentences: each experiment with its prompts, what asking takes, and what would not run.

    Raises:
        UsageError, ValueError: as ``planning.plan``, and where only the Hub could tell what kind a model is.
    """
    kind = None if settings.model is None else _kind_at_hand(settings.model, settings.kind)
    tasks, skipped = plan(settings, kind=kind)
    for task in tasks:
        told = f"{task.study.name} {task.experiment.name}: {len(task.rows)} prompts for {task.model}"
        if task.experiment.kind == CHAT:
            told += f"; {planned_requests(task.rows, settings.chat, settings.seed)}"
        yield told
    for one in skipped:
        yield f"Not run: {one.study} {one.experiment}: {one.reason}."


def _kind_at_hand(model: str, kind: str | None) -> str:
    """The kind of a model by what is on this machine: a Hub id's config where the cache holds it, else ``--kind``."""
    if model == VADER or is_callable(model) or Path(model).exists():
        return model_kind(model, kind)
    from huggingface_hub import try_to_load_from_cache

    with suppress(ValueError):  # no Hub id
        config = try_to_load_from_cache(model, "config.json")
        if isinstance(config, str):
            return model_kind(str(Path(config).parent), kind)
    if kind in KINDS:
        return kind
    raise UsageError(
        f"{model} is not on this machine, and a dry run asks nobody what kind of model it is. "
        f"Pass --kind {' or '.join(KINDS)}."
    )
