"""Social distance: 3,892 prompts, the 50 likeliest words of each."""

from benchmarks.filling import DEFAULT, OURS, ROUNDED, every, sides
from benchmarks.frame import Prepared, Scale, Workload, scaled
from benchmarks.made_models import prompts, roberta


def _prepare(scale: Scale) -> Prepared:
    texts = prompts(
        "social_distance", "template1", "template2", "template3", "template4", "baseline"
    )
    return sides(roberta("base"), every(texts, scaled(len(texts), scale)), slice_of=120)


WORKLOAD = Workload(
    "distance",
    "Social distance, RoBERTa base",
    {(OURS, DEFAULT): 3.8, (ROUNDED, DEFAULT): 7.0},
    _prepare,
)
