"""Scorers of models that label words: whether they find the name that stands in a text."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from transformers import AutoModelForTokenClassification

from swapbias.errors import UsageError
from swapbias.models.classifier import CallableScorer
from swapbias.models.engine.transfers import Outputs
from swapbias.models.person_labels import entity_of, is_person, person_labels
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, not_scored
from swapbias.models.tagger import FOUND
from swapbias.models.transformers_scorer import TransformersScorer
from swapbias.studies import Prompt

_COVERED = "covered"
_IDEOGRAM = r"[\u3040-\u30ff\u3400-\u9fff]"  # no blanks stand between these words
_WORD = re.compile(rf"{_IDEOGRAM}|(?:(?!{_IDEOGRAM})\w)+")
_NO_NAME = "O"
_SPANS = "expected a list of (start, end, label) for each text"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text with a label."""

    start: int
    """Index of its first letter."""
    end: int
    """Index behind its last letter."""
    label: str
    """The label of the model."""


def name_letters(prompt: Prompt) -> list[int]:
    """List the places of the letters of the name that a prompt asks for, wherever the name stands in the text.

    Args:
        prompt: its first candidate is the name.

    Raises:
        UsageError: It has no candidate.
    """
    if not prompt.candidates:
        raise UsageError(
            f"The prompt {prompt.prompt_id} does not say which name to find. Give it as its candidate."
        )
    name = prompt.candidates[0].text
    mentions = re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", prompt.text) if name else ()
    return [
        index
        for mention in mentions
        for index in range(mention.start(), mention.end())
        if prompt.text[index].isalnum()
    ]


def score_spans(prompt: Prompt, spans: Iterable[Span], names: Sequence[str] = ()) -> Scored:
    """Score a text by the spans that a model found in it.

    Args:
        prompt: its first candidate is the name that stands in the text.
        spans: spans of any label.
        names: the labels that mean a person; none: those that ``is_person`` knows.

    Returns:
        1 where spans of persons cover every letter of the name, else 0, with the share of letters that they cover
        (``covered``), and the entity of its first letter as the answer. NaN where the name is not in the text.
    """
    letters = name_letters(prompt)
    if not letters:
        return not_scored([_COVERED])
    entities = {
        index: span.label for span in spans for index in range(span.start, span.end)
    }  # of two spans the last
    covered = [is_person(entities.get(index, _NO_NAME), names) for index in letters]
    share = sum(covered) / len(covered)
    answer = entity_of(entities.get(letters[0], _NO_NAME))
    return Scored(float(all(covered)), answer, parts={_COVERED: share})


class TokenTagScorer(TransformersScorer):
    """Score: 1 where a token classifier labels every letter of the name in a text as a person's, else 0."""

    auto_class = AutoModelForTokenClassification
    kind = "tagger"
    unit = FOUND
    names: tuple[str, ...] = ()
    """Labels that the user named; none: those that are known."""
    pieces = "first"
    """What labels a word of several pieces."""

    def __init__(self, model: Any, tokenizer: Any, **settings: Any) -> None:
        """Read a token classifier; a UsageError where its tokenizer does not say where tokens are in a text."""
        super().__init__(model, tokenizer, **settings)
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError(
                f"The tokenizer of {self.model_id} does not say where its tokens are in a text. "
                "Wrap the model in a function that returns spans."
            )
        config = self.model.config
        self.labels = [str(config.id2label[index]) for index in range(len(config.id2label))]

    def finding(self, names: Sequence[str] = (), *, pieces: str = "first") -> Self:
        """Return the scorer that takes some labels for those of a person.

        Args:
            names: labels or entities; none: those that are known.
            pieces: ``first`` (the first piece of a word labels it) or ``each`` (each piece its own letters).

        Raises:
            UsageError: The model has no such label, or none that is known.
        """
        identity = {**self.identity, "person": list(person_labels(self.labels, names))}
        if pieces != "first":
            identity["pieces"] = pieces
        return self._changed(names=tuple(names), pieces=pieces, identity=identity)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts; NaN where the text is longer than the model reads or an output is not finite.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.

        Raises:
            UsageError: No label is known to mean a person, or a prompt has no name.
        """
        persons = person_labels(self.labels, self.names)
        results = [not_scored([_COVERED])] * len(prompts)
        texts = [prompt.text for prompt in prompts]
        for members, (labels, is_finite) in self.outputs(texts, self._token_labels):
            of_batch = [texts[index] for index in members]
            places = self.tokenizer(of_batch, return_offsets_mapping=True)["offset_mapping"]
            ends = np.cumsum([len(offsets) for offsets in places])[:-1]
            of_tokens = (np.split(part.numpy(), ends) for part in (labels, is_finite))
            rows = zip(members, places, *of_tokens, strict=True)
            for index, offsets, indices, finite in rows:
                if not finite.all():
                    results[index] = not_scored([_COVERED], finite=False)
                    continue
                names = [self.labels[label] for label in indices.tolist()]
                spans = self._spans(texts[index], offsets, names)
                results[index] = score_spans(prompts[index], spans, persons)
            on_progress(len(members))
        return results

    def _token_labels(self, encoded: Sequence[Sequence[int]]) -> Outputs:
        """Return the label of each token, and whether its outputs are finite, of texts that are read together."""
        logits = self.engine.token_logits(encoded)
        return logits.argmax(dim=-1), torch.isfinite(logits).all(dim=-1)

    def _spans(
        self, text: str, offsets: Sequence[tuple[int, int]], labels: Sequence[str]
    ) -> list[Span]:
        """Return the labelled pieces of a text, or its words with the label of the piece of their first letter."""
        pieces = [
            Span(start, end, label)
            for (start, end), label in zip(offsets, labels, strict=True)
            if end > start
        ]
        if self.pieces == "each":
            return pieces
        label_at = {
            index: piece.label for piece in pieces for index in range(piece.start, piece.end)
        }
        return [
            Span(word.start(), word.end(), label_at.get(word.start(), _NO_NAME))
            for word in _WORD.finditer(text)
        ]


class FunctionTagScorer(CallableScorer):
    """Score: 1 where the spans that a Python function returns for a text cover every letter of the name, else 0."""

    kind = "tagger"
    unit = FOUND
    own_unit = None
    names: ClassVar[tuple[str, ...]] = ()
    """Labels that the user named; none: those that are known."""

    def finding(self, names: Sequence[str] = (), *, pieces: str = "first") -> Self:
        """Return the scorer that takes some labels for those of a person.

        Args:
            names: labels or entities; none: those that are known.
            pieces: not read: a function gives spans of letters.
        """
        identity = {**self.identity, "person": list(names)}
        return self._changed(names=tuple(names), identity=identity)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the function.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.

        Raises:
            ValueError: The function failed, or returned no spans.
        """
        results: list[Scored] = []
        for start in range(0, len(prompts), self.batch_size):
            batch = prompts[start : start + self.batch_size]
            spans_of_batch = self._spans([prompt.text for prompt in batch])
            results += [
                score_spans(prompt, spans, self.names)
                for prompt, spans in zip(batch, spans_of_batch, strict=True)
            ]
            on_progress(len(batch))
        return results

    def _spans(self, texts: list[str]) -> list[list[Span]]:
        """Call the function, and return the spans of each text."""
        returned = self._call(texts)
        try:
            spans = [[_span_of(item) for item in of_text] for of_text in returned]
        except (AttributeError, KeyError, TypeError, ValueError):
            name = type(returned).__name__
            # what it returned may repeat a text
            raise ValueError(f"{self.model_id} returned {name}, {_SPANS}.") from None
        if len(spans) != len(texts):
            raise ValueError(
                f"{self.model_id} returned {len(spans)} lists for {len(texts)} texts, {_SPANS}."
            )
        return spans


def _span_of(item: Any) -> Span:
    """Return a span as a function gave it: a triple, or a mapping as pipelines of transformers return it."""
    if isinstance(item, Mapping):
        keys = ("label", "entity_group", "entity")
        label = next((item[key] for key in keys if key in item), None)
        start = item["start"]
        end = item["end"]
    else:
        start, end, label = item
    if not isinstance(label, str) or math.isnan(start) or math.isnan(end):
        raise TypeError("a span has places and a label")
    return Span(int(start), int(end), label)
