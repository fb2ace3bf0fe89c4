"""Cross-encoders (rerankers): a model that reads query and document together and gives one number."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from swapbias.errors import UsageError, quoted
from swapbias.measures import Unit
from swapbias.models import lengths
from swapbias.models.progress import Progress, silent
from swapbias.models.search_scorers import RELEVANCE, RetrievalScorer, Searched, searched_of
from swapbias.models.tokens import refuse_unknown_tokens
from swapbias.models.transformers_scorer import TransformersScorer
from swapbias.studies import Prompt

_SIGMOID = "Sigmoid"
_IDENTITY = "Identity"
Tokens = Mapping[str, Sequence[Sequence[int]]]
"""What a tokenizer gives for queries with documents: a list for each of them by the name of the input."""


class CrossEncoderScorer(RetrievalScorer, TransformersScorer):
    """Score: the number that a head of one label gives for query and document, read together.

    Its sigmoid, unless the config names another activation. NaN: query and document are longer than the model reads,
    or the number is not finite.
    """

    auto_class = AutoModelForSequenceClassification
    is_encoder = False
    own_unit: Unit | None = RELEVANCE
    """The unit of the model's own numbers."""

    def __init__(
        self, model: Any, tokenizer: Any, *, activation: str = "", **settings: Any
    ) -> None:
        """Read a head of one label; a UsageError for one of several, or an activation that is not known.

        ``activation``: what its files apply to the number; blank: what its config says.
        """
        name = settings["model_id"]
        if model.config.num_labels != 1:
            raise UsageError(
                f"{name} has {model.config.num_labels} labels, and a reranker has one. "
                "Audit it as a classifier."
            )
        self.activation = _activation(name, model.config, activation)
        super().__init__(model, tokenizer, **settings)
        self.identity = {**self.identity, "activation": self.activation}

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return the tokens of each prompt, query and document together.

        Args:
            prompts: any number of them.
        """
        tokens = self._tokens([searched_of(prompt) for prompt in prompts])
        return [tuple(ids) for ids in tokens["input_ids"]]

    def similarities(
        self, searched: Sequence[Searched], on_progress: Progress = silent
    ) -> list[float | None]:
        """Return the numbers of the head.

        Args:
            searched: queries with documents.
            on_progress: called with the number of further ones that are done.
        """
        tokens = self._tokens(searched)
        ids = tokens["input_ids"]
        refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, ids)
        limit = lengths.length_limit(self.tokenizer, self.model)
        fits = [index for index, of_pair in enumerate(ids) if 0 < len(of_pair) <= limit]
        numbers: list[float | None] = [None] * len(searched)
        batches = lengths.length_batches([len(ids[index]) for index in fits], self._batch_size)
        for batch in batches:
            members = [fits[index] for index in batch]
            for index, number in zip(members, self._read(tokens, members), strict=True):
                numbers[index] = number
            on_progress(len(members))
        on_progress(len(searched) - len(fits))
        return numbers

    @property
    def _batch_size(self) -> int:
        """Return the number of pairs that are read together: one where the head needs padding to find the end."""
        padding = getattr(self.model.config.get_text_config(), "pad_token_id", None)
        return 1 if padding is None else self.batch_size

    def _tokens(self, searched: Sequence[Searched]) -> Tokens:
        """Return the tokens of queries with documents, whole."""
        if not searched:
            return {"input_ids": []}
        queries = [pair.query for pair in searched]
        documents = [pair.document for pair in searched]
        tokens: Tokens = self.tokenizer(queries, documents, verbose=False)
        return tokens

    def _read(self, tokens: Tokens, members: Sequence[int]) -> list[float]:
        """Return the numbers of some pairs of one length."""
        inputs = {
            name: torch.tensor([rows[index] for index in members], device=self.model.device)
            for name, rows in tokens.items()
        }
        with torch.inference_mode():
            logits = self.model(**inputs, return_dict=True).logits[:, 0].double()
        if self.activation == _SIGMOID:
            logits = logits.sigmoid()
        return [float(number) for number in logits.cpu()]


def _activation(name: str, config: Any, of_files: str) -> str:
    """Return what files or config apply to the logit: Sigmoid where they say nothing; a UsageError for others."""
    settings = getattr(config, "sentence_transformers", None)
    of_settings = settings.get("activation_fn") if isinstance(settings, Mapping) else None
    older = getattr(config, "sbert_ce_default_activation_function", None)
    function = str(of_files or of_settings or older or _SIGMOID).rpartition(".")[2]
    if function not in (_SIGMOID, _IDENTITY):
        raise UsageError(
            f"{name} applies {quoted(function)} to its number, expected {_SIGMOID} or {_IDENTITY}. "
            "Give a Python function of queries and documents that runs it."
        )
    return function
