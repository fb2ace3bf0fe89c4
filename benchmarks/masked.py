"""Gender at a mask (RQ1 of the gendered-stigma study): 374 prompts, the shapes of RoBERTa base and large."""

from benchmarks.filling import BATCHED, DEFAULT, OURS, ROUNDED, every, sides
from benchmarks.frame import Prepared, Scale, Workload, scaled
from benchmarks.made_models import prompts, roberta


def _texts(scale: Scale) -> list[str]:
    texts = prompts("gendered_stigma", "rq1")
    return every(texts, scaled(len(texts), scale))


def _prepare_base(scale: Scale) -> Prepared:
    texts = _texts(scale)
    return sides(roberta("base"), texts, slice_of=len(texts), batched=True)


def _prepare_large(scale: Scale) -> Prepared:
    return sides(roberta("large"), _texts(scale), slice_of=94)


WORKLOAD = (
    Workload(
        "masked",
        "Gender at a mask, RoBERTa base",
        {(OURS, DEFAULT): 8.0, (OURS, BATCHED): 2.3, (ROUNDED, DEFAULT): 16.0},
        _prepare_base,
    ),
    Workload(
        "masked-large",
        "Gender at a mask, RoBERTa large",
        {(OURS, DEFAULT): 6.5, (ROUNDED, DEFAULT): 12.0},
        _prepare_large,
    ),
)
