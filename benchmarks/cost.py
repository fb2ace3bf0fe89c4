"""Cost against prompts: masked prompts of RoBERTa-base's shape, ours and the peers', beside the hardware's limit."""

from benchmarks.filling import BATCHED, DEFAULT, OURS, every, sides
from benchmarks.frame import Scale, Series, measure, scaled
from benchmarks.made_models import prompts, roberta

_CONFIGS = ("template1", "template2", "template3", "template4", "baseline")
_SIZES = (10, 40, 160, 640)
_SLICE = 80  # the most texts that the default call of the pipeline fills; its time is extrapolated


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a size: prompts, then median seconds of each way and of the limit."""
    texts = [*prompts("gendered_stigma", "rq1"), *prompts("social_distance", *_CONFIGS)]
    rows = []
    for size in _SIZES:
        some = every(texts, scaled(size, scale, least=2))
        prepared = sides(
            roberta("base"), some, slice_of=min(_SLICE, len(some)), rounded=False, batched=True
        )
        measured = measure(prepared, repeat=repeat)
        seconds = [measured.median(side) for side in (OURS, DEFAULT, BATCHED)] + [
            measured.limits[OURS][0]
        ]
        rows.append((f"{len(some):,}", *(f"{value:.3g}" for value in seconds)))
    return rows


SERIES = Series(
    "cost",
    "Cost against prompts, RoBERTa base",
    ("prompts", "swapbias (s)", f"{DEFAULT} (s)", f"{BATCHED} (s)", "limit of the hardware (s)"),
    _rows,
)
