"""Pipelines of transformers in memory: read as what they return, by the fast engine only where it gives the same."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import (
    FillMaskPipeline,
    Pipeline,
    TextClassificationPipeline,
    TextGenerationPipeline,
    TokenClassificationPipeline,
    ZeroShotClassificationPipeline,
)

from swapbias.errors import UsageError, first_line
from swapbias.measures import units
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
    """Return what a pipeline applies to its logits by its own setting; None where its model decides.

    Args:
        pipeline: any pipeline.
    """
    chosen = pipeline._postprocess_params.get("function_to_apply")  # nothing public says it
    name = getattr(chosen, "value", chosen)
    return None if name is None else str(name)


def is_read_by_engine(pipeline: Pipeline) -> bool:
    """Return whether a pipeline adds nothing to its model and tokenizer: its class and its parameters are plain.

    Args:
        pipeline: any pipeline.

    Returns:
        True for text-classification, fill-mask, text-generation and token-classification as transformers has them.
        Which labels are shown (``top_k``), how answers are drawn, how tokens are put together and what is applied to
        logits is no part of what the model reads.

    Raises:
        UsageError: A pipeline that is not plain, and returns no labels for a text.
    """
    without_class = (FillMaskPipeline, TextGenerationPipeline, TokenClassificationPipeline)
    classes = (TextClassificationPipeline, *without_class)
    has_own_steps = type(pipeline) not in classes or bool(set(_STEPS) & set(vars(pipeline)))
    if not has_own_steps and not _changed_inputs(pipeline):
        return True
    if isinstance(pipeline, without_class):
        raise UsageError(
            f"This {type(pipeline).__name__} has steps or parameters of its own, which an audit "
            "cannot use. Give its model and tokenizer, or a function."
        )
    return False


def _changed_inputs(pipeline: Pipeline) -> list[str]:
    """Return the parameters of a plain class that change which tokens are read or which words are counted."""
    settings = pipeline._preprocess_params
    prepared = {name for name, value in settings.items() if value not in (None, "")}
    if isinstance(pipeline, TextGenerationPipeline):  # it has those of its answers as well
        prepared &= {"add_special_tokens", "prefix", "tokenizer_encode_kwargs", "truncation"}
    if settings.get("is_split_into_words") is False:  # token classification always has it
        prepared.discard("is_split_into_words")
    return sorted(prepared | (set(pipeline._postprocess_params) & {"target_ids"}))


def has_same_scores(pipeline: Pipeline, scorer: Scorer) -> bool:
    """Return whether the engine gives the pipeline's own numbers, tried on a few texts.

    Args:
        pipeline: a plain one.
        scorer: the scorer of its model and tokenizer.

    Returns:
        False where a score of a text classifier differs by more than rounding. Other pipelines return no such score,
        and a model in training mode none twice.
    """
    if not isinstance(scorer, TextClassifierScorer) or pipeline.model.training:
        return True
    limit = _EXACT if pipeline.model.dtype == torch.float32 else _ROUNDED
    results = scorer.labelled([Prompt(text=text) for text in _PROBES])
    for text, scored in zip(_PROBES, results, strict=True):
        if not math.isfinite(scored.score):  # too long, or no label is known to be positive
            continue
        try:
            returned = _scores_by_label(pipeline(text, top_k=None))
        except Exception:  # noqa: BLE001 - whatever a step of theirs raises: it is called then, and says it
            return False
        expected = _positive_score(returned, scorer.sides)
        if not abs(scored.score - expected) <= limit * max(1.0, abs(expected)):
            return False
    return True


def _positive_score(scores: _Labelled, sides: Sides) -> float:
    """Sum the scores of positive labels, by the scores that a pipeline returned; NaN where one is missing."""
    labels = sides.labels
    if len(labels) == 2 and len(scores) == 1:  # one output: its label, or not
        scores = {**scores, labels[1]: 1 - scores.get(labels[0], math.nan)}
    return sum(scores.get(labels[index], math.nan) for index in sides.positive)


class PipelineScorer(Scorer):
    """Score: what a pipeline returns for its positive label, called as it is: with its own steps and parameters."""

    kind = "classifier"
    unit = "probability of positive sentiment"
    opaque = True

    def __init__(
        self, pipeline: Pipeline, *, model_id: str, kind: str | None, options: LoadOptions
    ) -> None:
        """Call a pipeline on two texts to learn its labels.

        Args:
            pipeline: any pipeline.
            model_id: its name in findings.
            kind: what the user says of its model.
            options: batch size and labels.

        Raises:
            UsageError: It returns no labels, not all of them, or none that is known to be positive.
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
            self.unit = units.RAW_SCORE.name
        are_shares = all(
            math.isclose(sum(scores.values()), 1, abs_tol=0.01) for scores in (first, second)
        )
        sides = _sides(self._labels, options, pipeline.model.config)
        self.sides = replace(sides, are_independent=len(self._labels) > 1 and not are_shares)
        if self.sides.are_summed and not are_shares:
            raise UsageError(
                f"{model_id} gives each label a number of its own, and such numbers have no sum. "
                "Name one label with -M positive-label."
            )
        self.negative_label = None if self._is_raw else self.sides.negative_label
        identity: dict[str, Any] = {}
        if isinstance(pipeline.model, torch.nn.Module):
            identity = model_pins.loaded_pin(pipeline.model, pipeline.tokenizer)
        identity["kind"] = self.kind
        identity["pipeline"] = type(pipeline).__name__
        identity["positive_label"] = self.sides.positive_label
        self.identity: Mapping[str, Any] = identity

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the pipeline.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.

        Raises:
            UsageError: No label is known to be positive.
            ValueError: The pipeline fails, or returns other labels for a text.
        """
        self.sides.check_positive()
        return self.labelled(prompts, on_progress)

    def labelled(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score as ``score``, also where no label is known to be positive: scores are NaN then.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.
        """
        results: list[Scored] = []
        for start in range(0, len(prompts), _CHUNK):
            texts = [prompt.text for prompt in prompts[start : start + _CHUNK]]
            results += [self._scored(returned) for returned in self._returned(texts)]
            on_progress(len(texts))
        return results

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return what the pipeline's own preprocessing makes of each text; None where nothing shows it.

        Args:
            prompts: any number of them.
        """
        return [self._inputs.of_text(prompt.text) for prompt in prompts]

    def _scored(self, returned: _Labelled) -> Scored:
        """Score a text by the scores of its labels."""
        if set(returned) != set(self._labels):
            raise ValueError(_other_labels(self.model_id))
        values = np.array([returned[label] for label in self._labels])
        if self._is_raw:
            return Scored(float(values[self.sides.positive[0]]))
        if np.any((values < -_EXACT) | (values > 1 + _EXACT)):
            low = values.min()
            high = values.max()
            raise ValueError(
                f"{self.model_id} returned numbers from {low:g} to {high:g}, expected 0 to 1. {_WRAP}"
            )
        missing = len(self.sides.labels) - len(values)  # of one label: the label, or not
        return self.sides.scored(np.append(values, np.repeat(1 - values[0], missing)))

    def _gives_raw_scores(self, kind: str | None) -> bool:
        """Return whether it returns what its model gives, and that is a raw score."""
        if type(self.pipeline).postprocess is not TextClassificationPipeline.postprocess:
            return False
        function = function_to_apply(self.pipeline)
        config = self.pipeline.model.config
        return head_kind(self.model_id, config, kind=kind, function=function) == base.REGRESSION

    def _find_arguments(self) -> dict[str, Any]:
        """Return arguments with which it gives every label: ``top_k`` where it takes it."""
        try:
            returned = _scores_by_label(self.pipeline(_PROBES[0], top_k=None))
        except Exception:  # noqa: BLE001 - whatever a step of theirs raises
            return {}
        return {"top_k": None} if returned else {}

    def _is_same_for_lists(self) -> bool:
        """Return whether it reads several texts at once as it reads them one by one."""
        singly = self._read_singly(_PROBES)
        try:
            together = self._read_together(_PROBES)
        except Exception:  # noqa: BLE001 - whatever a step of theirs raises: it is asked one by one
            return False
        return len(together) == len(singly) and all(map(_are_close, together, singly))

    def _read_together(self, texts: Sequence[str]) -> list[_Labelled]:
        """Return the scores of each text by label, from one call."""
        return [_scores_by_label(item) for item in self.pipeline(list(texts), **self._arguments)]

    def _read_singly(self, texts: Sequence[str]) -> list[_Labelled]:
        """Return the scores of each text by label, from a call for each text."""
        return [self._read_text(text) for text in texts]

    def _read_text(self, text: str) -> _Labelled:
        """Return the scores of a text by label."""
        try:
            returned = self.pipeline(text, **self._arguments)
        except Exception as error:
            fault = f"{self.model_id} raised {type(error).__name__}: {first_line(error)}."
            raise ValueError(fault) from error
        scores = _scores_by_label(returned)
        if not scores:
            raise UsageError(f"{self.model_id} returns no labels with scores. {_WRAP}")
        return scores

    def _returned(self, texts: Sequence[str]) -> list[_Labelled]:
        """Return the scores of each text by label."""
        if not self._takes_lists:
            return self._read_singly(texts)
        try:
            returned = self._read_together(texts)
        except Exception:  # noqa: BLE001 - one by one says which error it is
            return self._read_singly(texts)
        return returned if len(returned) == len(texts) else self._read_singly(texts)


def _are_close(scores: _Labelled, other_scores: _Labelled) -> bool:
    """Return whether two texts have the same labels with the same scores, up to rounding of half precision."""
    return scores.keys() == other_scores.keys() and all(
        math.isclose(score, other_scores[label], abs_tol=_ROUNDED)
        for label, score in scores.items()
    )


class _Inputs:
    """The preprocessing of a pipeline, for what it makes of a text."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Look at a pipeline; one that changes texts before its preprocessing cannot be looked into."""
        stock = (TextClassificationPipeline, ZeroShotClassificationPipeline)
        calls = {vars(stock_class).get("__call__") for stock_class in stock} | {Pipeline.__call__}
        self._pipeline = pipeline if type(pipeline).__call__ in calls else None

    def of_text(self, text: str) -> bytes | None:
        """Return the tensors that the model gets, as bytes; None where they cannot be had."""
        if self._pipeline is None:
            return None
        try:
            settings = self._pipeline._preprocess_params  # nothing public has them
            inputs = self._pipeline.preprocess(text, **settings)
            parts = [inputs] if isinstance(inputs, Mapping) else list(inputs)
            return b"|".join(
                key.encode() + value.cpu().numpy().tobytes()
                for part in parts
                for key, value in sorted(part.items())
                if isinstance(value, torch.Tensor)
            )
        except Exception:  # noqa: BLE001 - whatever a step of theirs raises
            return None


def _refuse_without_labels(pipeline: Pipeline) -> None:
    """Raise a UsageError for pipelines whose task gives a text no label of its own."""
    is_zero_shot = isinstance(pipeline, ZeroShotClassificationPipeline)
    if is_zero_shot and "candidate_labels" not in pipeline._preprocess_params:
        raise UsageError(
            "A zero-shot pipeline has no labels of its own. Build it with "
            'candidate_labels=["positive", "negative"], or wrap it in a function.'
        )
    has_labels = isinstance(pipeline, TextClassificationPipeline | ZeroShotClassificationPipeline)
    is_of_library = type(pipeline).__module__.partition(".")[0] == "transformers"
    if is_of_library and not has_labels:
        raise UsageError(
            f"A {type(pipeline).__name__} gives a text no label with a probability. {_WRAP}"
        )


def _scores_by_label(returned: Any) -> _Labelled:
    """Return the scores of one text by label, from what a pipeline returned; empty where it is of another form."""
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
    """Return a key that puts labels in the order of the model's outputs, others behind by name."""
    labels = [str(label) for label in getattr(pipeline.model.config, "id2label", {}).values()]
    return lambda label: (labels.index(label) if label in labels else len(labels), label)


def _sides(labels: Sequence[str], options: LoadOptions, config: Any) -> Sides:
    """Return the sides of the labels; LABEL_0 alone is positive only where the model has no other label."""
    positive = options.positive_label
    negative = options.negative_label
    if len(labels) > 1:
        return find_sides(labels, positive, negative)
    if labels[0] == "LABEL_0" and getattr(config, "num_labels", 1) > 1:
        return find_sides((labels[0], f"not {labels[0]}"), positive, negative)
    return binary(labels[0], positive, negative)


def _other_labels(model_id: str) -> str:
    """Return the sentence on a pipeline that does not give the score of every label."""
    return (
        f"{model_id} returns other labels for one text than for another. "
        "Build the pipeline with top_k=None, so that it gives the score of every label."
    )
