"""Scorers over models of transformers: how they are loaded or wrapped, and text classifiers among them."""

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from transformers import AutoModelForSequenceClassification

from swapbias.errors import UsageError
from swapbias.measures import units
from swapbias.models import base, lengths, loading, model_pins
from swapbias.models.base import LoadOptions
from swapbias.models.engine import layer_choice
from swapbias.models.engine.encoder import Engine, twin
from swapbias.models.engine.fastest_layers import with_fastest_layers
from swapbias.models.engine.transfers import Outputs, is_asynchronous, received
from swapbias.models.formats import training_facts
from swapbias.models.labels import Sides, binary, find_sides
from swapbias.models.model_names import read_name
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, Scorer, not_scored
from swapbias.models.tokenising import tokens_ahead
from swapbias.models.tokens import (
    refuse_other_tokenizer,
    refuse_unknown_tokens,
    tokenizer_doubt,
)
from swapbias.models.weight_checks import refuse_hidden_nan
from swapbias.studies import Prompt, published as paper_numbers

# Texts that a thread tokenises while a GPU reads those before them; a processor would only be shared.
_TOKENISED_AHEAD = 2_048
_MORE_ROWS = 8  # times as many are scored on a GPU, which takes no longer, before they are saved


class TransformersScorer(Scorer):
    """A scorer of a transformers model."""

    auto_class: ClassVar[Any]
    """The class of transformers that loads it."""
    is_encoder: ClassVar[bool] = True
    """Whether the engine reads it."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        model_id: str,
        identity: Mapping[str, Any],
        options: LoadOptions | None = None,
        expected: Mapping[tuple[str, ...], paper_numbers.Published] | None = None,
    ) -> None:
        self.model, layers = with_fastest_layers(model.eval(), model_id)
        self.tokenizer = tokenizer
        self.model_id = model_id
        self.expected = expected
        self.batch_size = (options or LoadOptions()).batch_size
        self._tokenised_at_once = sys.maxsize
        if self.is_encoder:
            self.engine = Engine(self.model, batch_size=self.batch_size)
            if is_asynchronous(model.device):
                self._tokenised_at_once = _TOKENISED_AHEAD
                self.chunk_rows = _MORE_ROWS * self.chunk_rows
        self.identity = {**identity, "kind": self.kind}
        if layers:
            self.identity[layer_choice.KEY] = layers

    @classmethod
    def load(cls, model: str, options: LoadOptions, **settings: Any) -> Self:
        """Load a model, on the device and in the type of its options.

        Args:
            model: a folder, or a Hub id with or without a revision.
            options: device, type and the like.
            settings: further arguments of the class.

        Raises:
            UsageError: As of ``load_model``.
            ValueError: As of ``load_model``.
        """
        loaded, tokenizer, pin = loading.load_model(model, cls.auto_class, options)
        return cls(
            loaded,
            tokenizer,
            model_id=read_name(model, pin),
            identity={**pin, **training_facts(model)},
            options=options,
            **settings,
        )

    @classmethod
    def wrap(
        cls, model: Any, tokenizer: Any, model_id: str, options: LoadOptions, **settings: Any
    ) -> Self:
        """Wrap a loaded model, which stays as it is; it is read on its device and in its own type.

        Args:
            model: a model of transformers.
            tokenizer: the model's tokenizer.
            model_id: its name in findings.
            options: batch size and labels.
            settings: further arguments of the class.

        Raises:
            ValueError: The tokenizer knows more tokens than it or less than half of them, or a weight is NaN and its
                numbers do not show it.
        """
        copied = twin(model)
        refuse_other_tokenizer(model_id, copied, tokenizer)
        refuse_hidden_nan(model_id, copied, tokenizer)
        pin = model_pins.loaded_pin(model, tokenizer) | tokenizer_doubt(copied, tokenizer)
        return cls(copied, tokenizer, model_id=model_id, identity=pin, options=options, **settings)

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return the tokens of each prompt.

        Args:
            prompts: any number of them.
        """
        return [tuple(ids) for ids in self.encode([prompt.text for prompt in prompts])]

    @property
    def length_limit(self) -> int:
        """Return the largest number of tokens of a text that is read."""
        return lengths.length_limit(self.tokenizer, self.model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts, whole.

        Args:
            texts: any number of them.
        """
        return list(self.tokenizer(list(texts), verbose=False)["input_ids"]) if texts else []

    def outputs(
        self,
        texts: Sequence[str],
        read: Callable[[Sequence[Sequence[int]]], Outputs],
    ) -> Iterator[tuple[list[int], Outputs]]:
        """Read texts in batches; those that are too long or empty are in none.

        Args:
            texts: any number of them.
            read: gives what is wanted of texts that the engine reads together, by their token ids.

        Yields:
            The indices of the texts of a batch, and what is wanted of them, on the processor.
        """
        return received(self._started_batches(texts, read))

    def _started_batches(
        self,
        texts: Sequence[str],
        read: Callable[[Sequence[Sequence[int]]], Outputs],
    ) -> Iterator[tuple[list[int], Outputs]]:
        """Yield the batches of ``outputs`` on the model's device, which may still be computing them."""
        for first, encoded in tokens_ahead(self.encode, texts, self._tokenised_at_once):
            refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, encoded)
            fits = [index for index, ids in enumerate(encoded) if 0 < len(ids) <= self.length_limit]
            for batch in self.engine.batches([len(encoded[index]) for index in fits]):
                members = [fits[index] for index in batch]
                outputs = read([encoded[index] for index in members])
                yield [first + index for index in members], outputs


def head_kind(
    model: str, config: Any, *, kind: str | None = None, function: str | None = None
) -> str:
    """Find the kind of a head of a text classifier; one of several labels is by default a classifier.

    Args:
        model: its name for the sentence.
        config: a model config of transformers.
        kind: what the user says of it.
        function: what a pipeline applies to its logits, which goes before the config's ``problem_type``.

    Returns:
        ``classifier`` or ``regression``.

    Raises:
        UsageError: A head of one logit, which could be either, or whose probability would be 1 for every text.
    """
    if function == "softmax" and config.num_labels == 1:
        raise UsageError(
            f"{model} applies softmax to one logit: 1 for every text. Apply sigmoid or none instead."
        )
    declared = function or config.problem_type
    if declared:
        return base.REGRESSION if declared in ("none", "regression") else "classifier"
    if kind is None and config.num_labels == 1:
        raise UsageError(
            f"{model} gives one number for a text. Pass --kind regression or classifier (sigmoid)."
        )
    return kind or "classifier"


class TextClassifierScorer(TransformersScorer):
    """Score: what a transformers text classifier predicts for its positive label, read as its config says.

    Softmax where each text has one label, sigmoid where it may have several (``multi_label_classification``) or the
    head has one logit: a probability, 0..1. Of a regression head the raw number, without range or label.
    """

    auto_class = AutoModelForSequenceClassification
    kind = "classifier"
    unit = "probability of positive sentiment"

    def __init__(
        self, model: Any, tokenizer: Any, *, kind: str | None = None, **settings: Any
    ) -> None:
        """Read a text classifier by its config; a UsageError for labels that are unclear, or as in ``head_kind``."""
        options = settings.get("options") or LoadOptions()
        config = model.config
        function = options.function_to_apply
        self.kind = head_kind(settings["model_id"], config, kind=kind, function=function)
        super().__init__(model, tokenizer, **settings)
        labels = [str(config.id2label[index]) for index in range(len(config.id2label))]
        are_independent = config.problem_type == "multi_label_classification" or len(labels) == 1
        self._function = function or ("sigmoid" if are_independent else "softmax")
        is_raw = self.kind == base.REGRESSION
        if is_raw:
            self._function = "none"
            self.unit = units.RAW_SCORE.name
        self.sides = _sides(labels, options, is_raw=is_raw)
        if self.sides.are_summed and self._function != "softmax":
            raise UsageError(
                f"{self.model_id} gives each label a number of its own, and such numbers have no "
                "sum. Name one label with -M positive-label, and one with -M negative-label."
            )
        if self._function == "sigmoid" and len(labels) > 1:
            self.sides = replace(self.sides, are_independent=True)
        self.own_unit = None if is_raw else self.sides.unit
        self.negative_label = None if is_raw else self.sides.negative_label
        identity = {**self.identity, "positive_label": self.sides.positive_label}
        if self._function != "softmax":
            identity["function_to_apply"] = self._function
        self.identity = identity

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts; NaN where the text is longer than the model reads or a score is not finite.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.

        Raises:
            UsageError: No label is known to be positive.
        """
        self.sides.check_positive()
        return self.labelled(prompts, on_progress)

    def labelled(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score as ``score``, also where no label is known to be positive: scores are NaN then.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.
        """
        texts = [prompt.text for prompt in prompts]
        results = [not_scored()] * len(prompts)
        is_raw = self.kind == base.REGRESSION
        for members, (output,) in self.outputs(texts, self._outputs):
            for index, row in zip(members, output.numpy(), strict=True):
                if is_raw and np.isfinite(row).all():
                    results[index] = Scored(float(row[self.sides.positive[0]]))
                else:
                    results[index] = self.sides.scored(row)
            on_progress(len(members))
        return results

    def _outputs(self, encoded: Sequence[Sequence[int]]) -> Outputs:
        """Return probabilities of labels, or raw scores: shape (texts, labels), of texts that are read together."""
        logits = self.engine.class_logits(encoded)
        if self._function == "none":
            return (logits,)
        is_sigmoid = self._function == "sigmoid"
        probabilities = logits.sigmoid() if is_sigmoid else logits.softmax(dim=-1)
        if len(self.sides.labels) > probabilities.shape[1]:  # one logit: the label, or not
            probabilities = probabilities.expand(-1, 2).clone()
            probabilities[:, 1] = 1 - probabilities[:, 0]
        return (probabilities,)


def _sides(labels: Sequence[str], options: LoadOptions, *, is_raw: bool) -> Sides:
    """Return the sides of a head; of a raw score it may be that of one label, whatever it is called."""
    positive = options.positive_label
    negative = options.negative_label
    if len(labels) > 1:
        return find_sides(labels, positive, negative)
    if is_raw:
        return find_sides(labels, positive or labels[0])
    return binary(labels[0], positive, negative)
