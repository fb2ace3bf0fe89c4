"""On a GPU: masked prompts of RoBERTa-large shape a second, and how much of its rate of matrix products that is."""

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.filling import BATCHED, CHECKED, OURS, ROUNDED, compare, every, fill, masked_texts, pipeline_of
from benchmarks.frame import NotHereError, Scale, Series, scaled
from benchmarks.made_models import masked_scorer, prompts, roberta, tokenizer, weights
from benchmarks.measuring import gemm_rate, least_seconds

_CONFIGS = ("template1", "template2", "template3", "template4", "baseline")
_ROWS = 8_192  # tokens of the products whose rate is the limit
_SLICE = 400  # texts that the pipeline fills


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a way to fill masks, the GPU's name in the first; ``NotHereError`` where torch can use none."""
    import torch

    if not torch.cuda.is_available():
        raise NotHereError("this machine has no CUDA device that torch can use")
    texts = [*prompts("gendered_stigma", "rq1"), *prompts("social_distance", *_CONFIGS)]
    texts = every(texts, scaled(len(texts), scale))
    name = torch.cuda.get_device_name()
    rows = filled(roberta("large"), texts, device="cuda", repeat=repeat)
    return [(f"{name}: {rows[0][0]}", *rows[0][1:]), *rows[1:]]


def filled(model: Any, texts: Sequence[str], *, device: str, repeat: int) -> list[tuple[str, ...]]:
    """Ours in bfloat16 and float32, and the pipeline in batches; equal outputs first.

    Raises:
        ValueError: ours in float32 are not the pipeline's.
    """
    import torch

    placed = copy.deepcopy(model).to(device)
    exact, coarse = masked_scorer(placed), masked_scorer(placed, dtype="bfloat16")
    pipe, rounded = pipeline_of(placed), pipeline_of(copy.deepcopy(placed).to(torch.bfloat16))
    compare(pipe, texts, fill(exact, texts), min(CHECKED, len(texts)))
    few = masked_texts(every(texts, _SLICE))
    return [
        _row(ROUNDED, lambda: fill(coarse, texts), model, texts, "bfloat16", device, repeat),
        _row(OURS, lambda: fill(exact, texts), model, texts, "float32", device, repeat),
        _row(f"{BATCHED}, bfloat16", lambda: rounded(few, batch_size=32), model, few, "bfloat16", device, repeat),
        _row(BATCHED, lambda: pipe(few, batch_size=32), model, few, "float32", device, repeat),
    ]


def _row(
    what: str, run: Callable[[], Any], model: Any, texts: Sequence[str], dtype: str, device: str, repeat: int
) -> tuple[str, ...]:
    run()
    taken = []
    for _ in range(repeat):  # outputs come back to the processor: nothing is still running at the end
        begun = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun)
    seconds = statistics.median(taken)
    layers, head = weights(model)
    inside, outside = model.config.hidden_size, model.config.intermediate_size
    rate = gemm_rate([(_ROWS, inside, outside), (_ROWS, outside, inside)], dtype=dtype, device=device)
    tokens = sum(len(ids) for ids in tokenizer()(masked_texts(texts))["input_ids"])
    least = least_seconds(layers, tokens, rate) + least_seconds(head, len(texts), rate)
    return what, f"{len(texts):,}", f"{len(texts) / seconds:,.0f}", f"{rate / 1e12:,.3g}", f"{least / seconds:.0%}"


SERIES = Series(
    "gpu",
    "On a GPU, RoBERTa large",
    ("what", "prompts", "prompts a second", "matrix products (TFLOP/s)", "of that rate"),
    _rows,
)
