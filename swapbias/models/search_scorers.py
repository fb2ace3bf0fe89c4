"""Scores of searches: how similar a document is to a query, its rank among others, and functions that tell."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np

from swapbias.measures import Floats, Unit
from swapbias.models.progress import Progress, silent
from swapbias.models.python_functions import import_function, without_tensors
from swapbias.models.retrieval import RANK, SIMILARITY
from swapbias.models.scorer import DerivedScorer, Scored, Scorer, not_scored
from swapbias.studies import Prompt

RELEVANCE = Unit("relevance score", has_no_range=True)
"""The unit of the numbers of a cross-encoder."""
SIMILARITY_UNITS: Mapping[str, Unit] = {
    "cosine": Unit("cosine similarity", has_no_range=True),
    "dot": Unit("dot product", has_no_range=True),
    "euclidean": Unit("negative Euclidean distance", has_no_range=True),
    "manhattan": Unit("negative Manhattan distance", has_no_range=True),
}
"""The unit of each measure that compares two vectors."""


def vector_similarity(measure: str, query: Floats | None, document: Floats | None) -> float | None:
    """Return the similarity of two vectors; None where one is missing.

    Args:
        measure: one of ``SIMILARITY_UNITS``; distances are negative, so that larger is more similar.
        query: shape (d,).
        document: shape (d,).
    """
    if query is None or document is None:
        return None
    if measure == "dot":
        return float(query @ document)
    if measure == "cosine":
        norms = float(np.linalg.norm(query) * np.linalg.norm(document))
        return float(query @ document) / norms if norms else 0.0
    order = 2 if measure == "euclidean" else 1
    return -float(np.linalg.norm(query - document, ord=order))


class Searched(NamedTuple):
    """A query and a document that it may find."""

    query: str
    """What is searched for."""
    document: str
    """What is compared with it."""


def searched_of(prompt: Prompt) -> Searched:
    """Return the query of a prompt, the first line of its text, and its document, the lines below.

    >>> searched_of(Prompt(text="a night nurse\\nMia has been a nurse for years."))
    Searched(query='a night nurse', document='Mia has been a nurse for years.')

    Args:
        prompt: a prompt of a study of searches.

    Raises:
        ValueError: There is no query, or no document.
    """
    query, _, document = prompt.text.partition("\n")
    searched = Searched(query.strip(), document.strip())
    if not all(searched):
        raise ValueError(
            f"{prompt.prompt_id}: the text is no query with a document. "
            "Write the query on the first line, and the document below it."
        )
    return searched


class RetrievalScorer(Scorer):
    """Score: how similar a document is to a query, by the model's own measure; larger is more similar.

    The first line of a prompt's text is the query, and the lines below are the document. NaN: one of the two is
    longer than the model reads, or the number is not finite.
    """

    kind = "retrieval"
    unit = SIMILARITY
    chunk_rows = 4_096

    @abstractmethod
    def similarities(
        self, searched: Sequence[Searched], on_progress: Progress = silent
    ) -> list[float | None]:
        """Return how similar each document is to its query.

        Args:
            searched: queries with documents.
            on_progress: called with the number of further ones that are done.

        Returns:
            A number each; None where a text is longer than the model reads, NaN where the model gave no number.
        """

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by similarity; a query with the same document is read once.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.

        Raises:
            ValueError: A prompt has no query, or no document.
        """
        searched = [searched_of(prompt) for prompt in prompts]
        similarities = similarities_by_text(self, searched, len(prompts), on_progress)
        return [_as_scored(similarities[pair]) for pair in searched]


def similarities_by_text(
    scorer: RetrievalScorer, searched: Iterable[Searched], count: int, on_progress: Progress
) -> dict[Searched, float | None]:
    """Return the similarity of each query and document, which is found once.

    Args:
        scorer: a scorer of searches.
        searched: queries with documents, some of them several times.
        count: the number of prompts that they are of.
        on_progress: called with the number of further prompts that are done.
    """
    unique = list(dict.fromkeys(searched))
    share = count / len(unique) if unique else 1.0
    similarities = scorer.similarities(unique, lambda done: on_progress(done * share))
    return dict(zip(unique, similarities, strict=True))


def _as_scored(similarity: float | None) -> Scored:
    """Return the score of a similarity."""
    if similarity is None:
        return not_scored()
    return Scored(similarity) if math.isfinite(similarity) else not_scored(finite=False)


class RankScorer(DerivedScorer):
    """Score: the share of the other documents of a query (``candidates``) that are less similar to it than its own.

    1: it is first; 0: it is last. One that is as similar counts half. NaN: a similarity is missing, or there are no
    other documents. ``similarity``: that of the document itself.
    """

    kind = "retrieval"
    unit = RANK
    chunk_rows = 4_096

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the rank of their document among the others of the query.

        Args:
            prompts: prompts whose candidates are the other documents.
            on_progress: called with the number of further prompts that are done.

        Raises:
            ValueError: A prompt has no query, no document or no other documents.
        """
        searched = [searched_of(prompt) for prompt in prompts]
        competitors = [
            _competitors_of(prompt, pair) for prompt, pair in zip(prompts, searched, strict=True)
        ]
        all_pairs = [*searched, *chain.from_iterable(competitors)]
        similarities = similarities_by_text(self.inner, all_pairs, len(prompts), on_progress)
        return [
            _ranked(similarities[pair], [similarities[competitor] for competitor in of_query])
            for pair, of_query in zip(searched, competitors, strict=True)
        ]


def _competitors_of(prompt: Prompt, searched: Searched) -> list[Searched]:
    """Return the other documents with the query of a prompt."""
    if not prompt.candidates:
        raise ValueError(
            f"{prompt.prompt_id}: there are no other documents to rank it among. Add some."
        )
    return [Searched(searched.query, candidate.text) for candidate in prompt.candidates]


def _ranked(similarity: float | None, competitors: Sequence[float | None]) -> Scored:
    """Return the rank of a document by its similarity and those of its competitors."""
    if similarity is None or None in competitors:
        return not_scored([SIMILARITY])
    numbers = np.array(competitors, dtype=np.float64)
    if not math.isfinite(similarity) or not np.isfinite(numbers).all():
        return not_scored([SIMILARITY], finite=False)
    rank = float(np.mean(numbers < similarity) + np.mean(numbers == similarity) / 2)
    return Scored(rank, parts={SIMILARITY: similarity})


class FunctionRetriever(RetrievalScorer):
    """Score: the number that a Python function returns for a query and a document; larger is more similar."""

    opaque = True

    def __init__(
        self,
        function: Callable[[list[str], list[str]], Any],
        *,
        model_id: str,
        batch_size: int = 64,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap a function.

        Args:
            function: gives for n queries and their n documents n numbers.
            model_id: its name in findings.
            batch_size: documents in one call.
            identity: pins it down in the manifest.
        """
        self.function = function
        self.model_id = model_id
        self.batch_size = batch_size
        self.identity = {"kind": self.kind, **(identity or {})}

    @classmethod
    def load(cls, name: str, *, batch_size: int = 64) -> Self:
        """Import a function, also of the current folder.

        Args:
            name: ``module:function``.
            batch_size: documents in one call.

        Raises:
            UsageError: There is no such function.
        """
        function, pin = import_function(name, "a function of queries and documents")
        return cls(function, model_id=name, batch_size=batch_size, identity=pin)

    def similarities(
        self, searched: Sequence[Searched], on_progress: Progress = silent
    ) -> list[float | None]:
        """Return the numbers of the function.

        Args:
            searched: queries with documents.
            on_progress: called with the number of further ones that are done.

        Raises:
            ValueError: The function failed, or returned another shape.
        """
        numbers: list[float | None] = []
        for start in range(0, len(searched), self.batch_size):
            batch = searched[start : start + self.batch_size]
            numbers += self._numbers(batch)
            on_progress(len(batch))
        return numbers

    def _numbers(self, batch: Sequence[Searched]) -> list[float]:
        """Call the function, and return its numbers."""
        try:
            returned = self.function(
                [searched.query for searched in batch], [searched.document for searched in batch]
            )
        except Exception as error:
            fault = f"{self.model_id} raised {type(error).__name__}: {error}."
            raise ValueError(fault) from error
        expected = f"expected {len(batch)} numbers, one for each query with its document"
        try:
            numbers = np.asarray(without_tensors(returned), dtype=np.float64)
        except Exception:  # noqa: BLE001 - whatever an object of theirs raises
            fault = f"{self.model_id} returned {type(returned).__name__}, {expected}."
            raise ValueError(fault) from None
        if numbers.shape != (len(batch),):
            raise ValueError(f"{self.model_id} returned shape {numbers.shape}, {expected}.")
        return [float(number) for number in numbers]
