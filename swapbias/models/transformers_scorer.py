"""Scorers over models of transformers: how they are loaded or wrapped, and text classifiers among them."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from swapbias.errors import UsageError
from swapbias.measures import RAW_SCORE
from swapbias.models import base, lengths, loading, model_pins
from swapbias.models.base import LoadOptions
from swapbias.models.engine.encoder import Engine, twin
from swapbias.models.labels import Sides, binary, find_sides
from swapbias.models.model_names import read_name
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, Scorer, not_scored
from swapbias.models.tokens import refuse_unknown_tokens
from swapbias.studies import Prompt, tables


class TransformersScorer(Scorer):
    """A scorer of a transformers model that ``auto_class`` loads; ``is_encoder``: the engine reads it."""

    auto_class: ClassVar[Any]
    is_encoder: ClassVar[bool] = True

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        model_id: str,
        identity: Mapping[str, Any],
        options: LoadOptions | None = None,
        expected: Mapping[tuple[str, ...], tables.Published] | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.model_id = model_id
        self.expected = expected
        self.batch_size = (options or LoadOptions()).batch_size
        if self.is_encoder:
            self.engine = Engine(self.model, batch_size=self.batch_size)
        self.identity = {**identity, "kind": self.kind}

    @classmethod
    def load(cls, model: str, options: LoadOptions, **settings: Any) -> Self:
        """From a local folder or Hub id, on the device and in the type of ``options``."""
        loaded, tokenizer, pin = loading.load_model(model, cls.auto_class, options)
        return cls(
            loaded,
            tokenizer,
            model_id=read_name(model, pin),
            identity=pin,
            options=options,
            **settings,
        )

    @classmethod
    def wrap(
        cls, model: Any, tokenizer: Any, model_id: str, options: LoadOptions, **settings: Any
    ) -> Self:
        """From a loaded model, which stays as it is; it is read on its device and in its own type."""
        pin = model_pins.loaded_pin(model)
        return cls(
            twin(model), tokenizer, model_id=model_id, identity=pin, options=options, **settings
        )

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """The tokens of each prompt."""
        return [tuple(ids) for ids in self.encode([prompt.text for prompt in prompts])]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts, whole."""
        return list(self.tokenizer(list(texts))["input_ids"]) if texts else []

    def outputs(
        self,
        encoded: Sequence[Sequence[int]],
        read: Callable[[Sequence[Sequence[int]]], torch.Tensor],
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Batches: indices into ``encoded``, and what ``read`` gives; too long or empty texts are in none."""
        refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, encoded)
        limit = lengths.length_limit(self.tokenizer, self.model)
        fits = [index for index, ids in enumerate(encoded) if 0 < len(ids) <= limit]
        for batch in self.engine.batches([len(encoded[index]) for index in fits]):
            members = [fits[index] for index in batch]
            yield members, read([encoded[index] for index in members])


def head_kind(
    model: str, config: Any, *, kind: str | None = None, function: str | None = None
) -> str:
    """``classifier`` or ``regression``, by a pipeline's ``function``, the config's ``problem_type``, or ``kind``.

    Else a head of several labels is a classifier; one logit could be either, a UsageError.
    """
    if function == "softmax" and config.num_labels == 1:
        raise UsageError(
            f"{model} applies softmax to one logit: 1 for every text. Apply sigmoid or none instead."
        )
    if function or config.problem_type:
        return (
            base.REGRESSION
            if (function or config.problem_type) in ("none", "regression")
            else "classifier"
        )
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
        """A UsageError where no label is known to be positive, or as of ``head_kind``."""
        options = settings.get("options") or LoadOptions()
        config = model.config
        self.kind = head_kind(
            settings["model_id"], config, kind=kind, function=options.function_to_apply
        )
        super().__init__(model, tokenizer, **settings)
        labels = [str(config.id2label[index]) for index in range(len(config.id2label))]
        are_independent = config.problem_type == "multi_label_classification" or len(labels) == 1
        self._function = options.function_to_apply or ("sigmoid" if are_independent else "softmax")
        is_raw = self.kind == base.REGRESSION
        if is_raw:
            self._function = "none"
            self.unit = RAW_SCORE.name
        self.sides = _sides(labels, options, is_raw=is_raw)
        if self.sides.are_summed and self._function != "softmax":
            gives = f"{self.model_id} gives each label a number of its own, and such numbers have no sum"
            raise UsageError(
                f"{gives}. Name one label with -M positive-label, and one with -M negative-label."
            )
        self.own_unit = None if is_raw else self.sides.unit
        self.negative_label = None if is_raw else self.sides.negative_label
        applied = {} if self._function == "softmax" else {"function_to_apply": self._function}
        self.identity = {**self.identity, "positive_label": self.sides.positive_label, **applied}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """One Scored per prompt; NaN where the text is longer than the model reads or a score is not finite."""
        self.sides.check_positive()
        return self.labelled(prompts, on_progress)

    def labelled(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """As ``score``, also where no label is known to be positive: its scores are NaN then."""
        encoded = self.encode([prompt.text for prompt in prompts])
        results = [not_scored()] * len(prompts)
        for members, found in self.outputs(encoded, self._outputs):
            for index, row in zip(members, found.cpu().numpy(), strict=True):
                if self.kind == base.REGRESSION and np.isfinite(row).all():
                    results[index] = Scored(float(row[self.sides.positive[0]]))
                else:
                    results[index] = self.sides.scored(row)
            on_progress(len(members))
        return results

    def _outputs(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """Probabilities of labels, or raw scores: shape (texts, labels), of texts that the engine reads together."""
        logits = self.engine.class_logits(encoded)
        if self._function == "none":
            return logits
        found = logits.sigmoid() if self._function == "sigmoid" else logits.softmax(dim=-1)
        if len(self.sides.labels) > found.shape[1]:  # one logit: the label, or not
            found = found.expand(-1, 2).clone()
            found[:, 1] = 1 - found[:, 0]
        return found


def _sides(labels: Sequence[str], options: LoadOptions, *, is_raw: bool) -> Sides:
    """The sides of a head; of a raw score it may be that of one label, whatever it is called."""
    named = options.positive_label
    negative = options.negative_label
    if len(labels) > 1:
        return find_sides(labels, named, negative)
    if is_raw:
        return find_sides(labels, named or labels[0])
    return binary(labels[0], named, negative)
