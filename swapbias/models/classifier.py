"""Sentiment systems without transformers: scikit-learn pipelines, Python functions, VADER; and labels of any."""

import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError, first_line, listed, need
from swapbias.files import file_sha256
from swapbias.measures import Unit, units
from swapbias.models import model_names
from swapbias.models.base import LoadOptions, need_vader
from swapbias.models.formats import SKOPS, refuse_pickle, training_facts
from swapbias.models.labels import Sides, find_sides
from swapbias.models.progress import Progress, silent
from swapbias.models.python_functions import import_function, without_tensors
from swapbias.models.scorer import DerivedScorer, Scored, Scorer, checked_labels, not_scored
from swapbias.studies import Prompt

_LARGEST = 1e100  # squares of larger numbers are infinite, and their intervals with them
_ROUNDING = 1e-9  # sums of probabilities may pass 1 by so much
_BINARY = Sides(("negative", "positive"), (1,), (0,))  # of a function that returns one probability
# Classes of which the second is positive.
_NUMBERED = (["0", "1"], ["0.0", "1.0"], ["-1", "1"], ["False", "True"])


class NegativeLabelScorer(DerivedScorer):
    """Score: 1 where a sentiment system labels the text negative, else 0; NaN where it gives no label."""

    kind = "classifier"
    unit = "share of negative labels"

    def __init__(self, classifier: Scorer) -> None:
        """Read labels with a sentiment scorer; a UsageError if its labels do not tell which one is negative."""
        super().__init__(classifier)
        if classifier.negative_label is None:
            raise UsageError(
                f"No label of {self.model_id} means negative for sure. Name it with -M negative-label."
            )

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by their label, with the probability of positive sentiment as a part.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.
        """
        return [
            self._labelled(scored) for scored in checked_labels(self.inner, prompts, on_progress)
        ]

    def _labelled(self, scored: Scored) -> Scored:
        """Return the score of a label, by what the sentiment scorer gave."""
        parts = {"positive_probability": scored.score}
        if not scored.answer:
            return replace(scored, score=math.nan, parts=parts)
        negative = self.inner.negative_label
        names = (negative,) if isinstance(negative, str) else negative
        return replace(scored, score=float(scored.answer in names), parts=parts)


class CallableScorer(Scorer):
    """Score: the number that a Python function returns for each text.

    Studies of the package take it as probability of positive sentiment, from 0 to 1; own prompts take any numbers
    (``reading_in``).
    """

    kind = "classifier"
    unit = "probability of positive sentiment"
    opaque = True
    own_unit: Unit | None = units.UNNAMED_SCORE
    """The unit of the function's own numbers."""
    limits = (0.0, 1.0)
    """Ends of the range of the numbers; NaN: any."""
    in_declared_unit = False
    """Whether the study says what the numbers are."""

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        model_id: str,
        batch_size: int = 64,
        identity: Mapping[str, Any] | None = None,
        private: bool = False,
        sides: Sides = _BINARY,
    ) -> None:
        """Wrap a function.

        Args:
            function: gives for n texts n probabilities, or one of each label of its ``sides`` (0 to 1).
            model_id: its name in findings.
            batch_size: texts in one call.
            identity: pins it down in the manifest.
            private: errors of the function are not shown, because they may quote a note.
            sides: its labels.
        """
        self.function = function
        self.model_id = model_id
        self.batch_size = batch_size
        self.private = private
        self.sides = sides
        self.identity: Mapping[str, Any] = {"kind": self.kind, **(identity or {})}

    @classmethod
    def load(cls, name: str, *, batch_size: int = 64) -> Self:
        """Import a function, also of the current folder.

        Args:
            name: ``module:function``.
            batch_size: texts in one call.

        Raises:
            UsageError: There is no such function.
        """
        function, pin = import_function(name, "a function of a list of texts")
        return cls(function, model_id=name, batch_size=batch_size, identity=pin)

    def reading_in(self, unit: Unit) -> Self:
        """Return the scorer whose function gives numbers in a unit.

        Args:
            unit: the unit as the study declares it; numbers are of any size where its range is not known.
        """
        return self._changed(unit=unit.name, limits=unit.ends, in_declared_unit=True)

    def reading_notes(self) -> Self:
        return self._changed(private=True)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the function.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.

        Raises:
            ValueError: The function failed, or returned another shape or numbers outside its range.
        """
        results: list[Scored] = []
        for start in range(0, len(prompts), self.batch_size):
            texts = [prompt.text for prompt in prompts[start : start + self.batch_size]]
            results += self._scored(texts)
            on_progress(len(texts))
        return results

    def _scored(self, texts: list[str]) -> list[Scored]:
        """Score a batch of texts."""
        numbers = self._numbers(texts)
        if numbers.ndim == 2:
            self._check_range(numbers, 0.0, 1.0)
            return [self.sides.scored(row) for row in numbers]
        self._check_range(numbers, *self.limits)
        if (largest := np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)) > _LARGEST:
            raise ValueError(
                f"{self.model_id} returned numbers up to {largest:g}, whose differences cannot be computed. "
                "Divide them by a constant."
            )
        if self.limits == (0.0, 1.0):
            return [self.sides.scored(row) for row in np.column_stack([1 - numbers, numbers])]
        return [
            Scored(float(number)) if np.isfinite(number) else not_scored(finite=False)
            for number in numbers
        ]

    def _call(self, texts: list[str]) -> Any:
        """Call the function, and return what it returns."""
        try:
            return self.function(texts)
        except Exception as error:
            error_name = type(error).__name__
            if self.private:  # nor is the error to be found behind this one
                raise ValueError(
                    f"{self.model_id} cannot read texts ({error_name}). It must take a list."
                ) from None
            raise ValueError(f"{self.model_id} raised {error_name}: {error}.") from error

    def _numbers(self, texts: list[str]) -> NDArray[np.float64]:
        """Call the function, and return its numbers, shape (texts,) or (texts, labels)."""
        returned = self._call(texts)
        count = len(texts)
        shape = (count, len(self.sides.labels))
        expected = f"expected {count} probabilities or shape {shape}, one row per text"
        try:
            numbers = np.asarray(without_tensors(returned), dtype=np.float64)
        except Exception:  # noqa: BLE001 - whatever an object of theirs raises
            fault = f"{self.model_id} returned {type(returned).__name__}, {expected}."
            raise ValueError(fault) from None  # what it cannot convert may be a text
        if numbers.shape not in ((count,), shape):
            raise ValueError(f"{self.model_id} returned shape {numbers.shape}, {expected}.")
        return numbers

    def _check_range(self, numbers: NDArray[np.float64], least: float, most: float) -> None:
        """Raise a ValueError for numbers outside a range, up to rounding."""
        margin = _ROUNDING * (most - least)
        if np.any((numbers < least - margin) | (numbers > most + margin)):
            low = np.nanmin(numbers)
            high = np.nanmax(numbers)
            raise ValueError(
                f"{self.model_id} returned numbers from {low:g} to {high:g}, "
                f"expected {least:g} to {most:g} (or NaN).{self._advice()}"
            )

    def _advice(self) -> str:
        """Return what to do about numbers that are out of range, a sentence after a blank."""
        if not self.in_declared_unit:
            return " This study takes them as probability of positive sentiment."
        return " Correct range, or the function."


class ProbabilityScorer(CallableScorer):
    """Score: probability (0..1) that ``predict_proba`` of scikit-learn gives to the positive class of a text.

    1 or 0 of a model that has ``predict`` alone. The positive class is named so, or the second of two (0 and 1). NaN:
    the text is blank, or a probability is NaN.
    """

    def __init__(
        self,
        model: Any,
        *,
        model_id: str,
        options: LoadOptions,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap a fitted pipeline of texts.

        Args:
            model: a model of scikit-learn.
            model_id: its name in findings.
            options: batch size and labels.
            identity: pins it down in the manifest.

        Raises:
            UsageError: It is not fitted, or as in ``find_sides``.
        """
        try:
            labels = [str(label) for label in model.classes_]
        except AttributeError as error:
            raise UsageError(
                f"{model_id} has no classes_: it is not fitted. Fit it on texts first."
            ) from error
        positive = options.positive_label
        if positive is None and options.negative_label is None and labels in _NUMBERED:
            positive = labels[1]
        sides = find_sides(labels, positive, options.negative_label)
        self.own_unit = sides.unit
        self.negative_label = sides.negative_label
        if identity is None:
            identity = {"positive_label": sides.positive_label}
        self._prepare = _steps_before(model)
        super().__init__(
            getattr(model, "predict_proba", None) or _predicted_shares(model),
            model_id=model_id,
            batch_size=options.batch_size,
            identity=identity,
            private=True,
            sides=sides,
        )

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return the features that the last step of a fitted pipeline gets; None for a model that is no pipeline.

        Args:
            prompts: any number of them.
        """
        nothing = [None] * len(prompts)
        if self._prepare is None or not prompts:
            return nothing
        try:
            features = self._prepare([prompt.text for prompt in prompts])
        except Exception:  # noqa: BLE001 - whatever steps of theirs raise: nothing shows what the model gets
            return nothing
        return _feature_rows(features) or nothing

    def _scored(self, texts: list[str]) -> list[Scored]:
        results = super()._scored(texts)
        for index, text in enumerate(texts):
            if not text.strip():
                results[index] = not_scored()
        return results


def _predicted_shares(model: Any) -> Callable[[list[str]], Any]:
    """Return a function that gives the predicted class of a text all of its probability."""
    return lambda texts: np.asarray(model.predict(texts))[:, None] == model.classes_


def _steps_before(model: Any) -> Callable[[list[str]], Any] | None:
    """Return what a fitted pipeline of scikit-learn does before its last step; None for another model."""
    library = sys.modules.get("sklearn.pipeline")
    model = getattr(model, "best_estimator_", model)  # of a search over settings
    if library is None or not isinstance(model, library.Pipeline) or len(model.steps) < 2:
        return None
    prepare: Callable[[list[str]], Any] = model[:-1].transform
    return prepare


def _feature_rows(features: Any) -> list[bytes]:
    """Return the rows of a table of numbers, sparse or not; none for features that are no numbers."""
    if hasattr(features, "tocsr"):
        table = features.tocsr()
        table.sort_indices()
        bounds = zip(table.indptr[:-1], table.indptr[1:], strict=True)
        spans = [slice(start, end) for start, end in bounds]
        return [table.indices[span].tobytes() + table.data[span].tobytes() for span in spans]
    rows = np.asarray(features)
    return [] if rows.dtype == object else [row.tobytes() for row in rows]


class VaderScorer(CallableScorer):
    """Score: VADER's compound valence (-1..1) moved to 0..1; .5 is neutral. It is no probability."""

    unit = "compound valence moved to 0..1"
    own_unit = None

    def __init__(self) -> None:
        """Load the lexicon; a UsageError if vaderSentiment is not installed."""
        need_vader()
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

        self._analyzer = SentimentIntensityAnalyzer()
        revision = f"vaderSentiment {version('vaderSentiment')}"
        function = self._analyzer.polarity_scores
        super().__init__(function, model_id="vader", batch_size=1, identity={"revision": revision})

    def _scored(self, texts: list[str]) -> list[Scored]:
        compound = self._analyzer.polarity_scores(*texts)["compound"]
        if not np.isfinite(compound):
            return [not_scored(finite=False)]
        answer = "positive" if compound > 0 else "negative"
        if abs(compound) < 0.05:
            answer = "neutral"
        return [Scored((compound + 1) / 2, answer)]


def load_saved(model: str, options: LoadOptions) -> ProbabilityScorer:
    """Read a scikit-learn model of texts.

    Args:
        model: a file of skops, or a folder of ``swapbias train``.
        options: batch size and labels.

    Raises:
        UsageError: It is a pickle, or has a type that skops distrusts.
        ValueError: There is no such file, or it cannot be read.
    """
    path = Path(model)
    name = path.stem
    remedy = "Save it again, with types of scikit-learn and NumPy alone."
    if path.is_dir():
        name = model_names.short_name(model)
        path = path / SKOPS
        remedy = "Train the model again."
    refuse_pickle(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist. Give a saved classifier (.skops).")
    need(path.name, "sklearn", "skops", extra="clinical")
    import skops.io

    try:
        untrusted = skops.io.get_untrusted_types(file=path)
        loaded = None if untrusted else skops.io.load(path)
    except Exception as error:
        raise ValueError(f"{path.name} cannot be read ({first_line(error)}). {remedy}") from error
    if untrusted:
        raise UsageError(
            f"{path.name} contains types that skops does not trust: {listed(untrusted)}. {remedy}"
        )
    identity = {"sha256": file_sha256(path), **training_facts(model)}
    return ProbabilityScorer(loaded, model_id=name, options=options, identity=identity)
