"""On a GPU: masked prompts of RoBERTa-large shape a second in three types, beside the pipeline and its own limit."""

import copy
import time
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from benchmarks.filling import (
    BATCHED,
    EQUAL,
    OURS,
    Tops,
    differences,
    every,
    fill,
    fill_by,
    masked_texts,
    pipeline_of,
)
from benchmarks.frame import NotHereError, Scale, Series, scaled
from benchmarks.made_models import masked_scorer, prompts, roberta, tokenizer, weights
from benchmarks.measuring import gemm_rate, least_seconds

TYPES = ("float32", "bfloat16", "float16")
_CONFIGS = ("template1", "template2", "template3", "template4", "baseline")
_ROWS = 8_192  # tokens of the products whose rate is the limit
_SLICE = 800  # texts that the pipeline fills
_COMPARED = 200  # texts whose probabilities are compared, one by one


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """Two rows a type, the GPU's name in the first; ``NotHereError`` where torch can use none."""
    import torch

    if not torch.cuda.is_available():
        raise NotHereError("this machine has no CUDA device that torch can use")
    texts = [*prompts("gendered_stigma", "rq1"), *prompts("social_distance", *_CONFIGS)]
    texts = every(texts, scaled(len(texts), scale))
    rows = filled(roberta("large"), texts, device="cuda", repeat=repeat)
    return [(f"{torch.cuda.get_device_name()}: {rows[0][0]}", *rows[0][1:]), *rows[1:]]


def filled(model: Any, texts: Sequence[str], *, device: str, repeat: int) -> list[tuple[str, ...]]:
    """Ours and the pipeline in batches, in each type and in turns.

    Raises:
        ValueError: ours in float32 is not the pipeline's, or ours in another type is on average over 1.2 times as far
            from it as the pipeline in that type.
    """
    placed = copy.deepcopy(model).to(device)
    chosen = every(range(len(texts)), _COMPARED)
    exact = fill_by(pipeline_of(placed), [texts[index] for index in chosen])
    return [
        row for kind in TYPES for row in _rows_of_type(kind, placed, texts, chosen, exact, repeat)
    ]


def _rows_of_type(
    kind: str, placed: Any, texts: Sequence[str], chosen: Sequence[int], exact: Tops, repeat: int
) -> list[tuple[str, ...]]:
    import torch

    ours = masked_scorer(placed, dtype=kind)
    pipe = pipeline_of(copy.deepcopy(placed).to(getattr(torch, kind)))
    few = every(texts, _SLICE)
    batches = masked_texts(few)
    found = fill(ours, texts)
    off = {
        OURS: differences([found[index] for index in chosen], exact),
        BATCHED: differences(fill_by(pipe, [texts[index] for index in chosen]), exact),
    }
    if (kind == "float32" and max(off[OURS]) > EQUAL) or fmean(off[OURS]) > max(
        EQUAL, 1.2 * fmean(off[BATCHED])
    ):
        raise ValueError(
            f"{kind}: probabilities are off by up to {max(off[OURS]):.1e}, {fmean(off[OURS]):.1e} on average."
        )
    least = dict.fromkeys(off, float("inf"))
    for _ in range(
        repeat + 1
    ):  # outputs come back to the processor: nothing is still running at the end
        for name, run in (
            (OURS, lambda: fill(ours, texts)),
            (BATCHED, lambda: pipe(batches, batch_size=32)),
        ):
            begun = time.perf_counter()
            run()
            least[name] = min(least[name], time.perf_counter() - begun)
    layers, head = weights(placed)
    inside = placed.config.hidden_size
    outside = placed.config.intermediate_size
    rate = gemm_rate(
        [(_ROWS, inside, outside), (_ROWS, outside, inside)], dtype=kind, device=placed.device.type
    )
    rows = []
    for name, read in ((OURS, texts), (BATCHED, few)):
        tokens = sum(len(ids) for ids in tokenizer()(masked_texts(read))["input_ids"])
        limit = least_seconds(layers, tokens, rate) + least_seconds(head, len(read), rate)
        each = (
            f"{len(read):,}",
            f"{len(read) / least[name]:,.0f}",
            f"{fmean(off[name]):.1e}",
            f"{max(off[name]):.1e}",
        )
        rows.append((f"{name}, {kind}", *each, f"{rate / 1e12:,.3g}", f"{limit / least[name]:.0%}"))
    return rows


SERIES = Series(
    "gpu",
    "On a GPU, RoBERTa large",
    (
        "what",
        "prompts",
        "prompts a second",
        "off from float32, mean",
        "most",
        "matrix products (TFLOP/s)",
        "of that rate",
    ),
    _rows,
)
