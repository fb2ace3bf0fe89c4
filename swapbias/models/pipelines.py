"""Pipelines of transformers in memory: read as what they return, by the fast engine only where it gives the same."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import (
    FillMaskPipeline,
    Pipeline,
    TextClassificationPipeline,
    TextGenerationPipeline,
    ZeroShotClassificationPipeline,
)

from swapbias.errors import UsageError, first_line
from swapbias.measures import RAW_SCORE
from swapbias.models import base, model_pins
from swapbias.models.base import LoadOptions
from swapbias.models.labels import Sides, binary, find_sides
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, Scorer
from swapbias.models.transformers_scorer import TextClassifierScorer, head_kind
from swapbias.studies import Prompt

_STEPS = ("preprocess", "forward", "_forward", "postprocess", "__call__", "_sanitize_parameters")
_PROBES = ("The doctor said that she was tired.", "Everybody knows that this is a very good film")
# differences of scores that are rounding, of float32 and of half precision
_EXACT = 1e-4
_ROUNDED = 0.02
_WRAP = "Give a function that returns the probability of positive for each text."
_CHUNK = 64  # texts between two reports on progress
_Labelled = dict[str, float]  # the scores of one text by label


def function_to_apply(pipeline: Pipeline) -> str | None:
    """Return what a pipeline applies to its logits by its own setting; None where its model decides."""
    chosen = pipeline._postprocess_params.get("function_to_apply")  # nothing public says it
    name = getattr(chosen, "value", chosen)
    return None if name is None else str(name)


def is_read_by_engine(pipeline: Pipeline) -> bool:
    """Return whether a pipeline adds nothing to its model and tokenizer: its class and its parameters are plain.

    Args:
        pipeline: any pipeline.

    Returns:
        True for text-classification, fill-mask and text-generation as transformers has them. Which labels are shown
        (``top_k``), how answers are drawn and what is applied to logits is no part of what the model reads.

    Raises:
        UsageError: a pipeline that is not plain, and returns no labels for a text.
    """
    classes = (TextClassificationPipeline, FillMaskPipeline, TextGenerationPipeline)
    is_plain = (
        type(pipeline) in classes
        and not set(_STEPS) & set(vars(pipeline))
        and not _changed_inputs(pipeline)
    )
    if not is_plain and isinstance(pipeline, FillMaskPipeline | TextGenerationPipeline):
        name = type(pipeline).__name__
        step = "Give its model and tokenizer, or a function"
        raise UsageError(
            f"This {name} has steps or parameters of its own, which an audit cannot use. {step}."
        )
    return is_plain


def _changed_inputs(pipeline: Pipeline) -> list[str]:
    """The parameters of a plain class that change which tokens are read or which words are counted."""
    prepared = {
        name for name, value in pipeline._preprocess_params.items() if value not in (None, "")
    }
    if isinstance(pipeline, TextGenerationPipeline):  # it has those of its answers as well
        prepared &= {"add_special_tokens", "prefix", "tokenizer_encode_kwargs", "truncation"}
    return sorted(prepared | (set(pipeline._postprocess_params) & {"target_ids"}))


def has_same_scores(pipeline: Pipeline, scorer: Scorer) -> bool:
    """Return whether the engine gives the pipeline's own numbers, tried on a few texts.

    Args:
        pipeline: a plain one.
        scorer: of its model and tokenizer.

    Returns:
        False where a score of a text classifier differs by more than rounding. Other pipelines return no such score,
        and a model in training mode none twice.
    """
    if not isinstance(scorer, TextClassifierScorer) or pipeline.model.training:
        return True
    limit = _EXACT if pipeline.model.dtype == torch.float32 else _ROUNDED
    labels = scorer.sides.labels
    positive = scorer.sides.positive
    for text, scored in zip(
        _PROBES, scorer.labelled([Prompt(text=text) for text in _PROBES]), strict=True
    ):
        if not math.isfinite(scored.score):  # too long, or no label is known to be positive
            continue
        try:
            returned = _labelled(pipeline(text, top_k=None))
        except Exception:  # noqa: BLE001 - whatever a step of theirs raises: it is called then, and says it
            return False
        if len(labels) == 2 and len(returned) == 1:  # one output: its label, or not
            returned[labels[1]] = 1 - returned.get(labels[0], math.nan)
        expected = sum(returned.get(labels[place], math.nan) for place in positive)
        if not abs(scored.score - expected) <= limit * max(1.0, abs(expected)):
            return False
    return True


class PipelineScorer(Scorer):
    """Score: what a pipeline returns for its positive label, called as it is: with its own steps and parameters."""

    kind = "classifier"
    unit = "probability of positive sentiment"
    opaque = True

    def __init__(
        self, pipeline: Pipeline, *, model_id: str, kind: str | None, options: LoadOptions
    ) -> None:
        """Call a pipeline on two texts to learn its labels.

        Raises:
            UsageError: it returns no labels, not all of them, or none that is known to be positive.
        """
        self.pipeline = pipeline
        self.model_id = model_id
        _refuse_without_labels(pipeline)
        self._arguments = self._find_arguments()
        self._takes_lists = self._is_same_for_lists()
        self._inputs = _Inputs(pipeline)
        first, second = (self._returned([text])[0] for text in _PROBES)
        if list(first) != list(second) and set(first) != set(second):
            raise UsageError(_other_labels(model_id))
        self._labels = sorted(first, key=_order_of(pipeline))
        self._is_raw = self._gives_raw_scores(kind)
        if self._is_raw:
            self.kind = base.REGRESSION
            self.unit = RAW_SCORE.name
        self.sides = _sides(self._labels, options, pipeline.model.config)
        if self.sides.are_summed and not math.isclose(sum(first.values()), 1, abs_tol=0.01):
            gives = f"{model_id} gives each label a number of its own, and such numbers have no sum"
            raise UsageError(f"{gives}. Name one label with -M positive-label.")
        self.negative_label = None if self._is_raw else self.sides.negative_label
        pin = (
            model_pins.loaded_pin(pipeline.model)
            if isinstance(pipeline.model, torch.nn.Module)
            else {}
        )
        named = {"pipeline": type(pipeline).__name__, "positive_label": self.sides.positive_label}
        self.identity: Mapping[str, Any] = {**pin, "kind": self.kind, **named}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """One Scored per prompt; a ValueError where the pipeline fails or returns other labels for a text."""
        self.sides.check_positive()
        return self.labelled(prompts, on_progress)

    def labelled(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """As ``score``, also where no label is known to be positive: its scores are NaN then."""
        results: list[Scored] = []
        for start in range(0, len(prompts), _CHUNK):
            texts = [prompt.text for prompt in prompts[start : start + _CHUNK]]
            results += [self._scored(returned) for returned in self._returned(texts)]
            on_progress(len(texts))
        return results

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """What the pipeline's own preprocessing makes of each text; None where nothing shows it."""
        return [self._inputs.of_text(prompt.text) for prompt in prompts]

    def _scored(self, returned: _Labelled) -> Scored:
        if set(returned) != set(self._labels):
            raise ValueError(_other_labels(self.model_id))
        values = np.array([returned[label] for label in self._labels])
        if self._is_raw:
            return Scored(float(values[self.sides.positive[0]]))
        if np.any((values < -_EXACT) | (values > 1 + _EXACT)):
            low, high = values.min(), values.max()
            raise ValueError(
                f"{self.model_id} returned numbers from {low:g} to {high:g}, expected 0 to 1. {_WRAP}"
            )
        missing = len(self.sides.labels) - len(values)  # of one label: the label, or not
        return self.sides.scored(np.append(values, [1 - values[0]] * missing))

    def _gives_raw_scores(self, kind: str | None) -> bool:
        if type(self.pipeline).postprocess is not TextClassificationPipeline.postprocess:
            return False
        function = function_to_apply(self.pipeline)
        config = self.pipeline.model.config
        return head_kind(self.model_id, config, kind=kind, function=function) == base.REGRESSION

    def _find_arguments(self) -> dict[str, Any]:
        """Arguments with which it returns every label: ``top_k`` where it takes it."""
        try:
            returned = _labelled(self.pipeline(_PROBES[0], top_k=None))
        except Exception:  # noqa: BLE001 - whatever a step of theirs raises
            return {}
        return {"top_k": None} if returned else {}

    def _is_same_for_lists(self) -> bool:
        """Whether it reads several texts at once as it reads them one by one."""
        one_by_one = [self._labelled_one(text) for text in _PROBES]
        try:
            together = [_labelled(item) for item in self.pipeline(list(_PROBES), **self._arguments)]
        except Exception:  # noqa: BLE001 - whatever a step of theirs raises: it is asked one by one
            return False
        return len(together) == len(one_by_one) and all(
            row.keys() == other.keys()
            and all(math.isclose(row[key], other[key], abs_tol=_ROUNDED) for key in row)
            for row, other in zip(together, one_by_one, strict=True)
        )

    def _labelled_one(self, text: str) -> _Labelled:
        try:
            returned = self.pipeline(text, **self._arguments)
        except Exception as error:
            what = f"{type(error).__name__}: {first_line(error)}"
            raise ValueError(f"{self.model_id} raised {what}.") from error
        labelled = _labelled(returned)
        if not labelled:
            raise UsageError(f"{self.model_id} returns no labels with scores. {_WRAP}")
        return labelled

    def _returned(self, texts: Sequence[str]) -> list[_Labelled]:
        """The scores of each text by label."""
        if not self._takes_lists:
            return [self._labelled_one(text) for text in texts]
        try:
            returned = [_labelled(item) for item in self.pipeline(list(texts), **self._arguments)]
        except Exception:  # noqa: BLE001 - one by one says which error it is
            return [self._labelled_one(text) for text in texts]
        return (
            returned
            if len(returned) == len(texts)
            else [self._labelled_one(text) for text in texts]
        )


class _Inputs:
    """What a pipeline's own preprocessing makes of a text."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Look at a pipeline; one that changes texts before its preprocessing cannot be looked into."""
        stock = (TextClassificationPipeline, ZeroShotClassificationPipeline)
        calls = {vars(one).get("__call__") for one in stock} | {Pipeline.__call__}
        self._pipeline = pipeline if type(pipeline).__call__ in calls else None

    def of_text(self, text: str) -> bytes | None:
        """The tensors and texts that the model gets, as bytes; None where they cannot be had."""
        if self._pipeline is None:
            return None
        try:
            made = self._pipeline.preprocess(
                text, **self._pipeline._preprocess_params
            )  # nothing public has them
            parts = [made] if isinstance(made, Mapping) else list(made)
            return b"|".join(
                key.encode() + value.cpu().numpy().tobytes()
                for part in parts
                for key, value in sorted(part.items())
                if isinstance(value, torch.Tensor)
            )
        except Exception:  # noqa: BLE001 - whatever a step of theirs raises
            return None


def _refuse_without_labels(pipeline: Pipeline) -> None:
    """UsageError for pipelines whose task gives a text no label of its own."""
    if (
        isinstance(pipeline, ZeroShotClassificationPipeline)
        and "candidate_labels" not in pipeline._preprocess_params
    ):
        missing = "A zero-shot pipeline has no labels of its own"
        step = 'Build it with candidate_labels=["positive", "negative"], or wrap it in a function'
        raise UsageError(f"{missing}. {step}.")
    has_labels = isinstance(pipeline, TextClassificationPipeline | ZeroShotClassificationPipeline)
    is_of_library = type(pipeline).__module__.partition(".")[0] == "transformers"
    if is_of_library and not has_labels:
        raise UsageError(
            f"A {type(pipeline).__name__} gives a text no label with a probability. {_WRAP}"
        )


def _labelled(returned: Any) -> _Labelled:
    """The scores of one text by label, from what a pipeline returned; empty where it is of another form."""
    while isinstance(returned, list | tuple) and len(returned) == 1:
        returned = returned[0]
    rows = [returned] if isinstance(returned, Mapping) else returned
    try:
        if isinstance(returned, Mapping) and {"labels", "scores"} <= set(returned):
            pairs = zip(returned["labels"], returned["scores"], strict=True)
            return {str(label): float(score) for label, score in pairs}
        return {str(row["label"]): float(row["score"]) for row in rows}
    except (KeyError, TypeError, ValueError):
        return {}


def _order_of(pipeline: Pipeline) -> Any:
    """A key that puts labels in the order of the model's outputs, others behind by name."""
    labels = [str(label) for label in getattr(pipeline.model.config, "id2label", {}).values()]
    return lambda label: (labels.index(label) if label in labels else len(labels), label)


def _sides(labels: Sequence[str], options: LoadOptions, config: Any) -> Sides:
    """The sides of the returned labels; LABEL_0 alone is positive only where the model has no other label."""
    named = options.positive_label
    negative = options.negative_label
    if len(labels) > 1:
        return find_sides(labels, named, negative)
    if labels[0] == "LABEL_0" and getattr(config, "num_labels", 1) > 1:
        return find_sides((labels[0], f"not {labels[0]}"), named, negative)
    return binary(labels[0], named, negative)


def _other_labels(model_id: str) -> str:
    step = "Build the pipeline with top_k=None, so that it gives the score of every label"
    return f"{model_id} returns other labels for one text than for another. {step}."
