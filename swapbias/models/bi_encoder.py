"""Bi-encoders: a query and a document are a vector each, and the vectors are compared."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Self

import torch

from swapbias.measures import Floats
from swapbias.models import lengths, loading
from swapbias.models.bare_encoder import BareEncoder
from swapbias.models.base import LoadOptions
from swapbias.models.encoder_layout import EncoderLayout, read_layout
from swapbias.models.model_names import read_name
from swapbias.models.progress import Progress, silent
from swapbias.models.search_scorers import (
    SIMILARITY_UNITS,
    RetrievalScorer,
    Searched,
    searched_of,
    vector_similarity,
)
from swapbias.models.transformers_scorer import TransformersScorer
from swapbias.studies import Prompt


class BiEncoderScorer(RetrievalScorer, TransformersScorer):
    """Score: the similarity of the vectors of query and document, by the measure that the model's files name.

    NaN: a text with its prompt is longer than the model reads, or a vector is not finite.
    """

    auto_class = BareEncoder

    def __init__(
        self, model: Any, tokenizer: Any, *, layout: EncoderLayout, **settings: Any
    ) -> None:
        """Read an encoder by the layout of its folder."""
        super().__init__(model, tokenizer, **settings)
        self.layout = layout
        self.own_unit = SIMILARITY_UNITS[layout.similarity]
        self.identity = {**self.identity, **layout.identity}

    @classmethod
    def load(cls, model: str, options: LoadOptions, **settings: Any) -> Self:
        """Load a bi-encoder from a folder of sentence-transformers, without that library.

        Args:
            model: a folder, or a Hub id with or without a revision.
            options: device, type and the like.
            settings: further arguments of the class.

        Raises:
            UsageError: As of ``load_model``, or as of ``read_layout``.
            ValueError: As of ``load_model``.
        """
        layout = read_layout(model, options)
        of_encoder = replace(options, subfolder=layout.subfolder)
        loaded, tokenizer, pin = loading.load_model(model, cls.auto_class, of_encoder)
        return cls(
            loaded,
            tokenizer,
            layout=layout,
            model_id=read_name(model, pin),
            identity=pin,
            options=options,
            **settings,
        )

    @property
    def length_limit(self) -> int:
        """Return the largest number of tokens of a text that is read, by the encoder and its files."""
        of_encoder = lengths.length_limit(self.tokenizer, self.model)
        most = self.layout.most_tokens
        return of_encoder if most is None else min(of_encoder, most)

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return the tokens of query and document of each prompt.

        Args:
            prompts: any number of them.
        """
        queries, documents = self._texts([searched_of(prompt) for prompt in prompts])
        pairs = zip(self.encode(queries), self.encode(documents), strict=True)
        return [(tuple(query), tuple(document)) for query, document in pairs]

    def similarities(
        self, searched: Sequence[Searched], on_progress: Progress = silent
    ) -> list[float | None]:
        """Return how similar the vectors of queries and documents are.

        Args:
            searched: queries with documents.
            on_progress: called with the number of further ones that are done.
        """
        queries, documents = self._texts(searched)
        texts = list(dict.fromkeys([*queries, *documents]))
        share = len(searched) / len(texts) if texts else 1.0
        vectors = self._vectors(texts, lambda done: on_progress(done * share))
        return [
            vector_similarity(self.layout.similarity, vectors.get(query), vectors.get(document))
            for query, document in zip(queries, documents, strict=True)
        ]

    def _texts(self, searched: Sequence[Searched]) -> tuple[list[str], list[str]]:
        """Return queries and documents as the encoder reads them, with their prompts."""
        queries = [f"{self.layout.query_prompt}{pair.query}" for pair in searched]
        documents = [f"{self.layout.document_prompt}{pair.document}" for pair in searched]
        if self.layout.is_lower_case:
            return [text.lower() for text in queries], [text.lower() for text in documents]
        return queries, documents

    def _vectors(self, texts: Sequence[str], on_progress: Progress) -> dict[str, Floats]:
        """Return the vector of each text that is not too long."""
        vectors: dict[str, Floats] = {}
        for members, (pooled,) in self.outputs(texts, self._pooled):
            for index, vector in zip(members, pooled.double().cpu().numpy(), strict=True):
                vectors[texts[index]] = vector
            on_progress(len(members))
        return vectors

    def _pooled(self, encoded: Sequence[Sequence[int]]) -> tuple[torch.Tensor]:
        """Return the vectors of texts that are read together, shape (texts, d), alone in a tuple."""
        states = self.engine.hidden_states(encoded).float()
        of_texts = torch.split(states, [len(ids) for ids in encoded])
        pooled = torch.stack([self._pool(rows) for rows in of_texts])
        if self.layout.is_normalized:
            pooled = torch.nn.functional.normalize(pooled, dim=-1)
        return (pooled,)

    def _pool(self, states: torch.Tensor) -> torch.Tensor:
        """Return the vector of a text by the states of its tokens, shape (tokens, d)."""
        if self.layout.pooling == "mean":
            return states.mean(dim=0)
        if self.layout.pooling == "max":
            return states.max(dim=0).values
        return states[0] if self.layout.pooling == "cls" else states[-1]
