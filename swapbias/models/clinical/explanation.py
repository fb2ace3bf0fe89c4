"""Which words of a note speak for the phenotype: LIME on both versions of one note."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.models.clinical.features import load_extra

Probabilities = Callable[[list[str]], NDArray[np.float64]]
UNDECIDED = 0.5


@dataclass(frozen=True, slots=True)
class Explained:
    """One note in both versions.

    Attributes:
        study, model_id, phenotype, regime, pair_id: which note, by which classifier.
        scores: of each group's version.
        words: for each group's version, words and their weight toward the phenotype, heaviest first.
    """

    study: str
    model_id: str
    phenotype: str
    regime: str
    pair_id: str
    scores: Mapping[str, float]
    words: Mapping[str, Sequence[tuple[str, float]]]


def explain_pair(
    predict_proba: Probabilities,
    texts: Mapping[str, str],
    *,
    seed: int = 0,
    features: int = 10,
    samples: int = 1_000,
) -> dict[str, list[tuple[str, float]]]:
    """The words of each version of a note with their weights toward "positive", heaviest first.

    A weight is the change in probability that the local linear model gives to the word: above 0 it speaks for
    the phenotype, below 0 against it. Both versions are sampled with the same seed.

    Args:
        predict_proba: n texts -> shape (n, 2), the probability of "positive" second. A sampled text that cannot
            be scored (every known word removed) counts as undecided, .5.
        texts: version (original, swapped) -> text.
        seed: of the sampled texts.
        features: most words per version.
        samples: texts sampled around each version.

    Raises:
        UsageError: lime is not installed.
        ValueError: a version that itself cannot be scored.

    Source: Ribeiro et al. 2016, LIME.
    """
    explainers = load_extra("lime.lime_text", extra="explain")
    rows = np.asarray(predict_proba(list(texts.values())), dtype=np.float64)
    for (version, text), row in zip(texts.items(), rows, strict=True):
        if np.isnan(row).any():
            raise ValueError(f"Version {version!r} ({len(text)} characters) has no probability. Choose another note.")
    found = {}
    for version, text in texts.items():
        explainer = explainers.LimeTextExplainer(
            class_names=["negative", "positive"], split_expression=r"[\W\d_]+", random_state=seed
        )
        found[version] = _weights(explainer, text, predict_proba, features, samples)
    return found


def _weights(
    explainer: Any, text: str, predict_proba: Probabilities, features: int, samples: int
) -> list[tuple[str, float]]:
    def decided(sampled: list[str]) -> NDArray[np.float64]:
        rows = np.asarray(predict_proba(sampled), dtype=np.float64)
        return np.where(np.isnan(rows), UNDECIDED, rows)

    told = explainer.explain_instance(text, decided, labels=(1,), num_features=features, num_samples=samples)
    return [(str(word), float(weight)) for word, weight in told.as_list(label=1)]
