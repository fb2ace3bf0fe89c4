"""Sentiment systems: text classifiers of transformers, scikit-learn pipelines, Python functions, VADER."""

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.files import file_sha256, parse_json
from swapbias.models.base import RAW, REGRESSION, LoadOptions, Progress, Say, Scored, Scorer, not_finite, ranked
from swapbias.models.loading import check_pickle, first_line, is_pickle, load_extra, module_file
from swapbias.studies import Prompt

if TYPE_CHECKING:
    from torch import Tensor

    from swapbias.models.engine.encoder import Rounding

_ROUNDING = 1e-9  # sums of probabilities may pass 1 by so much
POSITIVE_NAMES = ("positive", "pos")


def head_kind(model: str, config: Any, *, kind: str | None = None, function: str | None = None) -> str:
    """Whether a transformers text classifier gives probabilities (``classifier``) or raw scores (``regression``).

    The ``function`` that a pipeline applies to its logits decides, then the config's ``problem_type``, then the
    user's ``kind``; else a head of several labels is a classifier. One logit could be either: a UsageError.
    """
    if function == "softmax" and config.num_labels == 1:
        raise UsageError(f"{model} applies softmax to one logit: 1 for every text. Apply sigmoid or none instead.")
    if function or config.problem_type:
        return REGRESSION if (function or config.problem_type) in ("none", "regression") else "classifier"
    if kind is None and config.num_labels == 1:
        raise UsageError(
            f"{model} gives one number for a text, and its config has no problem_type to say which. Pass "
            f"--kind {REGRESSION} for a raw score or --kind classifier for a probability (sigmoid)."
        )
    return kind or "classifier"


class TextClassifierScorer(Scorer):
    """Score: what a transformers text classifier predicts for its positive label, read as its config says.

    Softmax where each text has one label, sigmoid where it may have several (``problem_type`` is
    ``multi_label_classification``) or the head has one logit: a probability, 0..1. Of a regression head the raw
    number, which has no range; it gives no label.
    """

    kind = "classifier"
    unit = "probability of positive sentiment"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        model_id: str,
        identity: Mapping[str, Any],
        options: LoadOptions | None = None,
        kind: str | None = None,
    ) -> None:
        """A UsageError where no label is known to be positive, or as of ``head_kind``."""
        from swapbias.models.engine.encoder import Engine

        options = options or LoadOptions()
        self.model, self.tokenizer, self.model_id = model.eval(), tokenizer, model_id
        self.engine = Engine(self.model, batch_size=options.batch_size)
        self.rounding: Rounding | None = None
        labels, function = model.config.id2label, options.function_to_apply
        self._labels = [str(labels[index]) for index in range(len(labels))]
        self.kind = head_kind(model_id, model.config, kind=kind, function=function)
        several = model.config.problem_type == "multi_label_classification" or len(labels) == 1
        self._function = function or ("sigmoid" if several else "softmax")
        if self.kind == REGRESSION:
            self._function, self.unit, self.negative_label = "none", RAW, None
        elif len(labels) == 1:
            self._labels.append(f"not {self._labels[0]}")
        unnamed = len(self._labels) == 1 or self._labels == ["LABEL_0", "not LABEL_0"]
        unnamed = unnamed and options.positive_label is None
        self._positive = 0 if unnamed else positive_index(self._labels, options.positive_label)
        if self.kind != REGRESSION:
            self.negative_label = find_negative(self._labels, self._positive, options.negative_label)
        self.identity: Mapping[str, Any] = {
            **identity,
            "kind": self.kind,
            "positive_label": self._labels[self._positive],
            **({} if self._function == "softmax" else {"function_to_apply": self._function}),
        }

    @classmethod
    def load(cls, model: str, options: LoadOptions, *, kind: str | None = None) -> Self:
        from transformers import AutoModelForSequenceClassification

        from swapbias.models.engine.encoder import Rounding
        from swapbias.models.loading import load_model, model_name, rounds_later

        loaded, tokenizer, pin = load_model(model, AutoModelForSequenceClassification, options, exact=True)
        accuracy = dev_accuracy_of(model)
        identity = pin if accuracy is None else {**pin, "dev_accuracy": accuracy}
        scorer = cls(loaded, tokenizer, model_id=model_name(model), identity=identity, options=options, kind=kind)
        scorer.rounding = Rounding(scorer.engine, options.dtype if rounds_later(options) else "float32")
        return scorer

    @classmethod
    def wrap(cls, model: Any, tokenizer: Any, model_id: str, options: LoadOptions, *, kind: str) -> Self:
        """From a loaded model, which stays as it is; it is read on its device and in its own type."""
        from swapbias.models.engine.encoder import twin
        from swapbias.models.loading import loaded_pin

        pin = loaded_pin(model)
        return cls(twin(model), tokenizer, model_id=model_id, identity=pin, options=options, kind=kind)

    @property
    def error_note(self) -> str:
        """What bfloat16 or float16 changed in the scores of a sample, once texts were scored; else blank."""
        return self.rounding.note(self.model_id, raw=self.kind == REGRESSION) if self.rounding else ""

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt; NaN where the text is longer than the model reads or a score is not finite."""
        from swapbias.models.loading import length_limit

        encoded = self.tokenizer([prompt.text for prompt in prompts])["input_ids"] if prompts else []
        limit = length_limit(self.tokenizer, self.model)
        fits = [index for index, ids in enumerate(encoded) if len(ids) <= limit]
        results = [Scored(float("nan"))] * len(prompts)
        if self.rounding:
            self.rounding.settle([encoded[index] for index in fits], self._outputs)
        for batch in self.engine.batches([len(encoded[index]) for index in fits]):
            members = [fits[index] for index in batch]
            outputs = self._outputs([encoded[index] for index in members]).cpu().numpy()
            for index, row in zip(members, outputs, strict=True):
                if self.kind != REGRESSION:
                    results[index] = of_labels(self._labels, self._positive, row)
                else:
                    finite = np.isfinite(row).all()
                    results[index] = Scored(float(row[self._positive])) if finite else not_finite()
            if on_progress:
                on_progress(len(members))
        return results

    def _outputs(self, encoded: Sequence[Sequence[int]]) -> "Tensor":
        """Probabilities of labels, or raw scores: shape (texts, labels), of texts that the engine reads together."""
        logits = self.engine.class_logits(encoded)
        if self._function == "none":
            return logits
        found = logits.sigmoid() if self._function == "sigmoid" else logits.softmax(dim=-1)
        if len(self._labels) > found.shape[1]:  # one logit: the label, or not
            found = found.expand(-1, 2).clone()
            found[:, 1] = 1 - found[:, 0]
        return found


def of_labels(labels: Sequence[str], positive: int, probabilities: NDArray[Any]) -> Scored:
    """The score of one text from the probabilities of its labels."""
    if not np.isfinite(probabilities).all():
        return not_finite()
    order = np.argsort(-probabilities, kind="stable")
    names = [labels[index] for index in order]
    return Scored(float(probabilities[positive]), names[0], ranked(names, probabilities[order].tolist()))


def in_batches(
    prompts: Sequence[Prompt],
    size: int,
    score: Callable[[list[str]], Sequence[Scored]],
    on_progress: Progress | None = None,
) -> list[Scored]:
    """One Scored per prompt by a function of at most ``size`` texts."""
    results: list[Scored] = []
    for start in range(0, len(prompts), size):
        texts = [prompt.text for prompt in prompts[start : start + size]]
        results += score(texts)
        if on_progress:
            on_progress(len(texts))
    return results


class ProbabilityScorer(Scorer):
    """Score: probability (0..1) that ``predict_proba`` of scikit-learn gives to the positive class of a text.

    The positive class is named so, or the second of two (0 and 1). NaN: the text is blank, or a probability is NaN.
    """

    kind = "classifier"
    unit = "probability of positive sentiment"

    def __init__(
        self,
        model: Any,
        *,
        model_id: str,
        options: LoadOptions,
        labels: Sequence[str] = (),
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap a fitted pipeline or classifier of texts; ``labels``: names for its classes.

        A UsageError where it is not fitted, or no class is known to be positive.
        """
        try:
            self._labels = list(labels) or [str(label) for label in model.classes_]
        except AttributeError as error:
            raise UsageError(f"{model_id} has no classes_: it is not fitted. Fit it on texts first.") from error
        numbered = options.positive_label is None and self._labels in (["0", "1"], ["-1", "1"], ["False", "True"])
        self._positive = 1 if numbered else positive_index(self._labels, options.positive_label)
        self.negative_label = find_negative(self._labels, self._positive, options.negative_label)
        self.model, self.model_id, self.batch_size = model, model_id, options.batch_size
        known = {"positive_label": self._labels[self._positive]} if identity is None else identity
        self.identity: Mapping[str, Any] = {"kind": self.kind, **known}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """A ValueError where the model failed, or returned another shape or numbers outside 0..1."""
        return in_batches(prompts, self.batch_size, self._scored, on_progress)

    def _scored(self, texts: list[str]) -> list[Scored]:
        try:
            found = np.asarray(self.model.predict_proba(texts), dtype=np.float64)
        except Exception as error:
            what = type(error).__name__  # its message often quotes the text
            raise ValueError(
                f"{self.model_id} cannot read texts ({what}). Give a pipeline with its vectorizer."
            ) from error
        wanted = (len(texts), len(self._labels))
        if found.shape != wanted or np.any((found < -_ROUNDING) | (found > 1 + _ROUNDING)):
            raise ValueError(
                f"{self.model_id} returned shape {found.shape} or numbers outside 0 to 1, expected probabilities of "
                f"shape {wanted}. Check its predict_proba."
            )
        return [
            of_labels(self._labels, self._positive, row) if text.strip() else Scored(float("nan"))
            for text, row in zip(texts, found, strict=True)
        ]


def positive_index(labels: Sequence[str], named: str | None = None) -> int:
    """Which label means positive sentiment; a UsageError if none is named so (LABEL_0) and the user named none.

    >>> positive_index(["NEGATIVE", "POSITIVE"])
    1
    """
    wanted = (named.lower(),) if named else POSITIVE_NAMES
    for index, label in enumerate(labels):
        if label.lower() in wanted:
            return index
    raise UsageError(
        f"The model's labels are {list(labels)}: none is {' or '.join(wanted)}. "
        "Pass -M positive-label with the one that means positive."
    )


def find_negative(labels: Sequence[str], positive: int, named: str | None = None) -> str | None:
    """Which label means negative sentiment: named so, or the other one of two; None if unknown.

    >>> find_negative(["neg", "neu", "pos"], 2), find_negative(["LABEL_0", "LABEL_1"], 1)
    ('neg', 'LABEL_0')
    """
    if named and named not in labels:
        raise UsageError(f"The model's labels are {list(labels)}: none is {named}. Correct -M negative-label.")
    other = [labels[1 - positive]] if len(labels) == 2 else []
    found = [label for label in labels if label.lower().startswith("neg")]
    return next(iter([*filter(None, [named]), *found, *other]), None)


class NegativeLabelScorer(Scorer):
    """Score: 1 where a sentiment system labels the text negative, else 0; NaN where it gives no label."""

    kind = "classifier"
    unit = "share of negative labels"

    def __init__(self, classifier: Scorer) -> None:
        """Read labels with a sentiment scorer; a UsageError if its labels do not tell which one is negative."""
        self.classifier, self.model_id, self.identity = classifier, classifier.model_id, classifier.identity
        self._negative = classifier.negative_label
        if self._negative is None:
            raise UsageError(
                f"The labels of {self.model_id} do not tell which one means negative. "
                "Pass -M negative-label with its name."
            )

    @property
    def error_note(self) -> str:
        return self.classifier.error_note

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt, with the probability of positive sentiment as a part."""
        return [
            replace(
                one,
                score=float("nan") if np.isnan(one.score) else float(one.answer == self._negative),
                parts={"positive_probability": one.score},
            )
            for one in self.classifier.score(prompts, on_progress)
        ]


class CallableScorer(Scorer):
    """Score: the probability (0..1) of positive sentiment that a Python function returns for each text."""

    kind = "classifier"
    unit = "probability of positive sentiment"

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        model_id: str,
        batch_size: int = 64,
        identity: Mapping[str, Any] | None = None,
        private: bool = False,
    ) -> None:
        """Wrap a function: list of n texts -> n probabilities, or (n, 2) with the positive class second.

        ``private``: errors of the function are not shown, because they may quote a note.
        """
        self.function, self.model_id, self.batch_size, self.private = function, model_id, batch_size, private
        self.identity: Mapping[str, Any] = {"kind": self.kind, **(identity or {})}

    @classmethod
    def load(cls, name: str, *, batch_size: int = 64) -> Self:
        """From ``module:function``, also of the current folder; a UsageError if there is none to be called."""
        module_name, _, function_name = name.partition(":")
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            function = getattr(importlib.import_module(module_name), function_name)
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__}: {error}"
            raise UsageError(f"{name}: {what}. Give an importable module and a function in it.") from error
        if not callable(function):
            raise UsageError(f"{name} is a {type(function).__name__}, expected a function of a list of texts.")
        plain = inspect.isfunction(function) or inspect.ismethod(function)  # what is built in has no file
        source = inspect.getsourcefile(function) if plain else None
        pin = {"sha256": file_sha256(Path(source))} if source and Path(source).exists() else {}
        named = module_file(module_name)  # may only import the function from elsewhere
        if named and str(named) != source and file_sha256(named) != pin.get("sha256"):
            pin["module_sha256"] = file_sha256(named)
        return cls(function, model_id=name, batch_size=batch_size, identity=pin)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """A ValueError where the function failed, or returned another shape or numbers outside 0..1."""
        return in_batches(prompts, self.batch_size, self._scored, on_progress)

    def _scored(self, texts: list[str]) -> list[Scored]:
        try:
            returned = self.function(texts)
        except Exception as error:
            if self.private:  # nor is the error to be found behind this one
                what = f"{type(error).__name__}: its text may quote a note and is not shown"
                raise ValueError(f"{self.model_id} raised {what}.") from None
            raise ValueError(f"{self.model_id} raised {type(error).__name__}: {error}.") from error
        wanted = f"expected {len(texts)} probabilities or shape ({len(texts)}, 2), one row per text"
        try:
            found = np.asarray(returned, dtype=np.float64)
        except Exception:  # noqa: BLE001 - whatever an object of theirs raises
            what = f"{self.model_id} returned {type(returned).__name__}, {wanted}."
            raise ValueError(what) from None  # what it cannot convert may be a text
        if found.shape == (len(texts), 2):
            found = np.where(np.isnan(found[:, 0]), np.nan, found[:, 1])
        if found.shape != (len(texts),):
            raise ValueError(f"{self.model_id} returned shape {found.shape}, {wanted}.")
        if np.any((found < 0) | (found > 1)):
            low, high = np.nanmin(found), np.nanmax(found)
            raise ValueError(f"{self.model_id} returned numbers from {low:g} to {high:g}, expected 0 to 1 (or NaN).")
        labels = ("negative", "positive")
        return [not_finite() if np.isnan(p) else Scored(p, labels[p > 0.5]) for p in found.tolist()]


class VaderScorer(Scorer):
    """Score: VADER's compound valence (-1..1) moved to 0..1; .5 is neutral. It is no probability."""

    kind = "classifier"
    unit = "compound valence moved to 0..1"
    model_id = "vader"

    def __init__(self) -> None:
        """Load the lexicon; a UsageError if vaderSentiment is not installed."""
        try:
            from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
        except ImportError as error:
            raise UsageError(
                "vader needs the package vaderSentiment. Install it with pip install 'swapbias[lexicon]'."
            ) from error
        self._analyzer = SentimentIntensityAnalyzer()
        revision = f"vaderSentiment {version('vaderSentiment')}"
        self.identity: Mapping[str, Any] = {"kind": self.kind, "revision": revision}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        return in_batches(prompts, 1, lambda texts: [self._scored(texts[0])], on_progress)

    def _scored(self, text: str) -> Scored:
        compound = self._analyzer.polarity_scores(text)["compound"]
        answer = "neutral" if abs(compound) < 0.05 else "positive" if compound > 0 else "negative"
        return Scored((compound + 1) / 2, answer) if np.isfinite(compound) else not_finite()


# --- saved models -----------------------------------------------------------------------------------------

RECORD, SKOPS = "training.json", "model.skops"  # in folders of ``swapbias train``


def training_record(folder: str | Path) -> dict[str, Any]:
    """The record that ``swapbias train`` wrote into a folder; empty where there is none that can be read."""
    try:
        found = parse_json((Path(folder) / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_sentiment_folder(path: str | Path) -> bool:
    """Whether a folder holds a bag of words or bidirectional LSTM; an encoder is read like any transformers model."""
    return training_record(path).get("kind") in ("bow", "bilstm")


def dev_accuracy_of(folder: str | Path) -> float | None:
    """Accuracy on development sentences, 0..1, in a folder of ``swapbias train``; None for others and Hub ids."""
    found = training_record(folder).get("dev_accuracy")
    is_share = isinstance(found, float | int) and not isinstance(found, bool) and 0 <= found <= 1
    return float(found) if found is not None and is_share else None


def folder_sha256(folder: Path) -> str:
    """sha256 over the files of a model of ``swapbias train``."""
    files = sorted([*folder.glob("model.*"), *folder.glob("bilstm.json")])
    return hashlib.sha256("".join(f"{one.name} {file_sha256(one)}\n" for one in files).encode()).hexdigest()


def read_saved(path: Path, *, extra: str, allow_pickle: bool, say: Say | None, remedy: str) -> Any:
    """A scikit-learn model saved with skops, or with joblib where pickles are allowed.

    A UsageError for a pickle that is not allowed, a type that skops does not trust, or a missing package.
    """
    check_pickle(path, allowed=allow_pickle, say=say)
    load_extra("sklearn", extra=extra)
    library = load_extra("joblib" if is_pickle(path) else "skops.io", extra=extra)
    try:
        untrusted = [] if is_pickle(path) else library.get_untrusted_types(file=path)
        model = None if untrusted else library.load(path)
    except Exception as error:
        raise ValueError(f"{path.name} cannot be read ({first_line(error)}). {remedy}") from error
    if untrusted:
        raise UsageError(f"{path.name} holds types that skops does not trust: {', '.join(untrusted)}. {remedy}")
    return model
