"""Short prompts through a model with a window of 512 tokens, which the pipeline pads them to."""

from benchmarks.filling import DEFAULT, OURS, every, sides
from benchmarks.frame import Prepared, Scale, Workload, scaled
from benchmarks.made_models import longformer, prompts


def _prepare(scale: Scale) -> Prepared:
    texts = prompts("gendered_stigma", "rq1")
    return sides(longformer(), every(texts, scaled(len(texts), scale)), slice_of=8, rounded=False)


WORKLOAD = Workload(
    "longformer", "Gender at a mask, Clinical-Longformer", {(OURS, DEFAULT): 30.0}, _prepare
)
