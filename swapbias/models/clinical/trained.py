"""Phenotype classifiers that a user brings along: a function, a saved scikit-learn model, a transformers model."""

import bisect
import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from swapbias.errors import UsageError
from swapbias.files import file_sha256
from swapbias.models.classifier import CallableScorer, TextClassifierScorer
from swapbias.models.clinical.phenotype import TARGETS, UNIT, predicted_scored
from swapbias.models.scorer import LoadOptions, Progress, Say, Scored, Scorer, is_callable
from swapbias.models.sentiment.models import read_saved
from swapbias.studies import Prompt

PROBES = (
    "The patient denies alcohol use and feels well.",
    "She was tearful and reports low mood for weeks.",
    "He drinks daily and was admitted for withdrawal.",
)
FILES = (".skops", ".joblib", ".pkl")  # a classifier that a user has saved


class ClassifierScorer(Scorer):
    """Score: probability that a user's own classifier gives to the phenotype; above .5 the answer is positive.

    It reads every phenotype and regime alike: it was trained elsewhere. Notes longer than a transformers model
    reads are cut at a word and counted (``truncated``).
    """

    kind = "phenotype"
    unit = UNIT

    def __init__(self, inner: Scorer, *, cut: Callable[[str], str] | None = None) -> None:
        """Read phenotypes with a scorer of probabilities; ``load_phenotype_classifier`` is the usual way."""
        self.inner, self.cut = inner, cut
        self.model_id = inner.model_id
        self.identity: Mapping[str, Any] = {**inner.identity, "kind": self.kind, "answers": self._fingerprint()}

    def _fingerprint(self) -> str:
        """sha256 of the answers to fixed sentences: a function may read a model from a file that changes."""
        answers = [f"{one:.6f}" for one in self.predict_proba(PROBES)[:, 1]]
        return hashlib.sha256(" ".join(answers).encode()).hexdigest()

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt; NaN where the classifier gives none."""
        read = [replace(one, text=self.cut(one.text)) for one in prompts] if self.cut else prompts
        results = []
        for prompt, shown, one in zip(prompts, read, self.inner.score(read, on_progress), strict=True):
            told = predicted_scored(
                one.score, one.score if np.isnan(one.score) else float(one.score > 0.5), TARGETS["label"]
            )
            parts = {**told.parts, "truncated": float(shown.text != prompt.text)}
            results.append(replace(told, parts=parts, finite=one.finite))
        return results


def load_phenotype_classifier(name: str, *, options: LoadOptions, say: Say | None = None) -> ClassifierScorer:
    """A user's own classifier.

    Args:
        name: ``module:function`` (texts -> probabilities or labels 1/0), ``module:object`` or a local file
            (.skops, .joblib, .pkl) with ``predict_proba`` or ``predict`` of texts, or a folder or Hub id of a
            transformers text classifier.
        options: device, dtype, batch size and labels of a transformers model; whether a pickle may be read.
        say: is told that reading a pickle runs what its maker put in it.

    Raises:
        UsageError: no such module, a pickle that is not allowed, a type that skops does not trust, or a missing
            package.
        ValueError: a file or model that cannot be loaded.
    """
    path = Path(name)
    if path.suffix in FILES:
        return ClassifierScorer(_from_file(path, options, say))
    if is_callable(name):
        return ClassifierScorer(_from_module(name, options.batch_size))
    scorer = TextClassifierScorer.load(name, options, kind="classifier")
    if scorer.kind != "classifier":
        raise UsageError(f"{scorer.model_id} gives a raw score, expected a probability. Name a classifier.")
    return ClassifierScorer(scorer, cut=lambda text: _cut(text, scorer))


def _from_module(name: str, batch_size: int) -> CallableScorer:
    module, _, attribute = name.partition(":")
    try:
        found = CallableScorer.load(name, batch_size=batch_size)
        found.private = True
        return found
    except UsageError:  # an object that cannot be called may still predict
        model = getattr(sys.modules.get(module), attribute, None)
        if not hasattr(model, "predict"):
            raise
    return _wrapped(model, name, Path(sys.modules[module].__file__ or ""), batch_size)


def _from_file(path: Path, options: LoadOptions, say: Say | None) -> CallableScorer:
    if not path.is_file():
        raise ValueError(f"{path} does not exist. Give a saved classifier ({', '.join(FILES)}).")
    remedy = "Save it again, with types of scikit-learn and NumPy alone."
    model = read_saved(path, extra="clinical", allow_pickle=options.allow_pickle, say=say, remedy=remedy)
    return _wrapped(model, path.stem, path, options.batch_size)


def _wrapped(model: Any, name: str, source: Path, batch_size: int) -> CallableScorer:
    """Texts -> probability of the positive class, or 1.0 and 0.0 of a model that gives labels alone."""
    if hasattr(model, "predict_proba"):
        column = [_truth(label) for label in getattr(model, "classes_", (0, 1))].index(1.0)
    elif not hasattr(model, "predict"):
        raise UsageError(f"{name} is a {type(model).__name__}, expected predict or predict_proba. Give a classifier.")

    def read(texts: list[str]) -> Any:
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(texts))[:, column]
        return [_truth(label) for label in model.predict(texts)]

    pin = {"sha256": file_sha256(source)} if source.is_file() else {}
    return CallableScorer(read, model_id=name, batch_size=batch_size, identity=pin, private=True)


def _truth(label: Any) -> float:
    for value, names in ((1.0, ("1", "1.0", "true", "positive")), (0.0, ("0", "0.0", "false", "negative"))):
        if str(label).lower() in names:
            return value
    raise ValueError(f"Class {str(label)!r} is none of 1, 0, true, false, positive, negative. Rename the classes.")


def _cut(text: str, scorer: TextClassifierScorer) -> str:
    """As many whole words of a text as the model reads; the text itself where even one word is too long."""
    from swapbias.models.loading import length_limit

    limit = length_limit(scorer.tokenizer, scorer.model)
    parts = [*(text[: word.end()] for word in re.finditer(r"\S+", text)), text]
    words = bisect.bisect_right(parts, limit, key=lambda part: len(scorer.tokenizer(part, verbose=False).input_ids))
    return parts[words - 1] if words else text
