"""Linear layers by torch's own product, as chosen here, and by oneDNN: in turns, seconds of the processor.

``OMP_NUM_THREADS=1 python -m benchmarks layers``: of one thread others on the machine take least.
"""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.filling import every, fill
from benchmarks.frame import Scale, Series, scaled
from benchmarks.made_models import distilbert, masked_scorer, prompts, roberta, tokenizer

WAYS = ("torch", "as chosen", "oneDNN")
# (inputs, outputs) of layers of base and large models, and rows of a product: few and many tokens
_SHAPES = ((768, 768), (768, 3_072), (3_072, 768), (1_024, 4_096))
_ROWS = (64, 512, 2_048)
_TRIED = {"torch": 1.0, "oneDNN": 2.0}  # how a trial comes out
_PROMPTS = 60
EQUAL = 1e-5


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a shape and number of rows, then one a model: least seconds of each way, smallest ratios to torch."""
    return [
        *(_product(*shape, rows, repeat) for shape in _SHAPES for rows in _ROWS),
        *_models(scale, repeat),
    ]


def _product(inside: int, outside: int, rows: int, repeat: int) -> tuple[str, ...]:
    """Time a layer of a shape; an audit would choose it by ``speed_of_onednn``."""
    import torch

    from swapbias.models.engine.linear_layers import OneDnnLinear, speed_of_onednn

    inputs = torch.rand(rows, inside)
    with torch.inference_mode(False), torch.no_grad():
        plain = torch.nn.Linear(inside, outside).eval()
        onednn = OneDnnLinear(plain)
        is_chosen = speed_of_onednn(inside, outside) > 1
        layers = {"torch": plain, "as chosen": onednn if is_chosen else plain, "oneDNN": onednn}
        runs = {way: (lambda layer=layer: layer(inputs)) for way, layer in layers.items()}
        apart = float((plain(inputs) - onednn(inputs)).abs().max())
        return _row(f"{rows:,} x {inside:,} x {outside:,}", runs, is_chosen, apart, repeat)


def _models(scale: Scale, repeat: int) -> Iterator[tuple[str, ...]]:
    """Time a masked model and a classifier of a base model's shape, over prompts."""
    from swapbias.models.transformers_scorer import TextClassifierScorer
    from swapbias.studies import Prompt

    count = scaled(_PROMPTS, scale, least=2)
    texts = every(prompts("gendered_stigma", "rq1"), count)
    scorers = {way: _read_by(way, lambda: masked_scorer(roberta("base"))) for way in WAYS}
    runs = {way: (lambda scorer=scorer: fill(scorer, texts)) for way, scorer in scorers.items()}
    tops = {way: [value for _, values in runs[way]() for value in values] for way in WAYS}
    yield _row(f"{count} prompts, RoBERTa base", runs, _uses(scorers), _apart(tops), repeat)
    sentences = every(prompts("occupation_sentiment", "sentences"), 2 * count)
    rows = [Prompt(prompt_id=text, text=text) for text in sentences]
    classifiers = {
        way: _read_by(
            way,
            lambda: TextClassifierScorer(
                copy.deepcopy(distilbert()), tokenizer(), model_id="DistilBERT", identity={}
            ),
        )
        for way in WAYS
    }
    runs = {way: (lambda scorer=scorer: scorer.score(rows)) for way, scorer in classifiers.items()}
    scores = {way: [row.score for row in runs[way]()] for way in WAYS}
    name = f"{len(rows)} sentences, DistilBERT"
    yield _row(name, runs, _uses(classifiers), _apart(scores), repeat)


def _read_by(way: str, make: Callable[[], Any]) -> Any:
    """Return a scorer whose layers were chosen as they are, or as told."""
    with _trial_of(way):
        return make()


@contextmanager
def _trial_of(way: str) -> Iterator[None]:
    """Let the trial come out for a way; as it comes where the way is an audit's."""
    from swapbias.models.engine import fastest_layers

    real = fastest_layers.speed_of_onednn
    if way in _TRIED:
        fastest_layers.speed_of_onednn = lambda inside, outside: _TRIED[way]
    try:
        yield
    finally:
        fastest_layers.speed_of_onednn = real


def _uses(scorers: dict[str, Any]) -> bool:
    """Return whether an audit would read by oneDNN here."""
    return "linear_layers" in scorers["as chosen"].identity


def _apart(outputs: dict[str, Sequence[float]]) -> float:
    """Return the largest difference of torch's scores and oneDNN's."""
    return max(abs(a - b) for a, b in zip(outputs["torch"], outputs["oneDNN"], strict=True))


def _row(
    name: str, runs: dict[str, Callable[[], Any]], is_chosen: bool, apart: float, repeat: int
) -> tuple[str, ...]:
    """Time the ways in turns.

    Raises:
        ValueError: oneDNN's numbers are not torch's.
    """
    if not apart <= EQUAL:
        raise ValueError(f"{name}: oneDNN is off by {apart:.1e}, expected at most {EQUAL:g}.")
    seconds: dict[str, list[float]] = {way: [] for way in runs}
    for _ in range(repeat + 1):
        for way, run in runs.items():
            begun = time.process_time()
            run()
            seconds[way].append(time.process_time() - begun)
    rounds = list(zip(*(values[1:] for values in seconds.values()), strict=True))  # after a warm-up
    least = [min(values) for values in zip(*rounds, strict=True)]
    ratios = [
        min(values[0] / values[1] for values in rounds),
        min(values[0] / values[2] for values in rounds),
    ]
    return (
        name,
        *(f"{1e3 * value:.3g}" for value in least),
        *(f"{ratio:.2f}" for ratio in ratios),
        "oneDNN" if is_chosen else "torch",
        f"{apart:.0e}",
    )


SERIES = Series(
    "layers",
    "Linear layers by torch's own product and by oneDNN, one thread",
    (
        "what",
        "torch (ms)",
        "as chosen (ms)",
        "oneDNN (ms)",
        "torch / as chosen, smallest",
        "torch / oneDNN, smallest",
        "chosen",
        "off",
    ),
    _rows,
)
