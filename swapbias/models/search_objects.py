"""Objects in memory that search: embedding models with ``encode``, rerankers with ``predict``, called as they are."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from swapbias.errors import UsageError, first_line, listed, quoted
from swapbias.models import model_names, model_pins
from swapbias.models.encoder_layout import FUNCTION_INSTEAD, SIMILARITIES, prompts_of
from swapbias.models.progress import Progress, silent
from swapbias.models.python_functions import without_tensors
from swapbias.models.retrieval import RETRIEVAL
from swapbias.models.saved_weights import is_search_object_as_saved
from swapbias.models.search_scorers import (
    RELEVANCE,
    SIMILARITY_UNITS,
    FunctionRetriever,
    RetrievalScorer,
    Searched,
    vector_similarity,
)

ENCODE = "encode"
PREDICT = "predict"
_Encode = Callable[[list[str]], Any]


def search_method(model: Any, kind: str | None) -> str:
    """Return the method by which an object searches, of whatever library it is.

    Args:
        model: any object.
        kind: what the user says of it; None: nothing.

    Returns:
        ``encode`` of an object that makes vectors of texts (not of tokenizers, which decode as well); ``predict`` of
        one that ranks documents, or of which the user says that it searches; blank for other objects.
    """
    if kind not in (None, RETRIEVAL.name):
        return ""
    if _has(model, ENCODE) and not _has(model, "decode"):
        return ENCODE
    searches = kind == RETRIEVAL.name or _has(model, "rank")
    return PREDICT if searches and _has(model, PREDICT) else ""


def _has(model: Any, method: str) -> bool:
    """Return whether an object has a method."""
    return callable(getattr(model, method, None))


def wrap(model: Any, method: str, *, name: str | None, batch_size: int) -> RetrievalScorer:
    """Return the scorer of an object that searches.

    Args:
        model: the object, which stays as it is.
        method: the method by which it searches.
        name: its name in findings; None: that of the files that it is from, with ``(in memory)`` where it has other
            weights or modules, or of its class.
        batch_size: texts in one call.

    Raises:
        UsageError: It compares vectors in a way that is not known here.
    """
    config = getattr(model, "config", None)
    saved = str(getattr(config, "name_or_path", "") or "")
    model_id = name or type(model).__name__
    if saved and not name:
        is_changed = not is_search_object_as_saved(model, saved)
        model_id = model_names.read_name(saved, {"is_changed": is_changed})
    scorer = EmbedderScorer if method == ENCODE else RerankerScorer
    return scorer(model, model_id=model_id, batch_size=batch_size)


def _pin(model: Any) -> dict[str, Any]:
    """Return what identifies an object: its class, and of a module of torch its weights, device and type."""
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(model, torch.nn.Module)
    if is_module and hasattr(model, "device") and hasattr(model, "dtype"):
        return model_pins.loaded_pin(model, getattr(model, "tokenizer", None))
    return {"architecture": type(model).__name__}


class _Lengths:
    """Counts the tokens of texts by the tokenizer and the limit that an object shows, where it shows both."""

    def __init__(self, model: Any) -> None:
        transformers = sys.modules.get("transformers")
        tokenizer = getattr(model, "tokenizer", None)
        self.limit = getattr(model, "max_seq_length", None)
        is_usual = transformers and isinstance(tokenizer, transformers.PreTrainedTokenizerBase)
        self._tokenizer = tokenizer if is_usual and self.limit else None

    def fits(self, *texts: str) -> bool:
        """Tell whether a text, or a query with its document, is read whole; True where nothing shows it."""
        if self._tokenizer is None or self.limit is None:
            return True
        return bool(len(self._tokenizer(*texts, verbose=False)["input_ids"]) <= self.limit)


class EmbedderScorer(RetrievalScorer):
    """Score: the similarity of the vectors that an object gives for query and document, by the measure that it names.

    Queries go to ``encode_query`` and documents to ``encode_document`` where it has them, else all to ``encode``.
    NaN: a text is longer than the object says that it reads, or a vector is not finite.
    """

    opaque = True

    def __init__(self, model: Any, *, model_id: str, batch_size: int) -> None:
        """Wrap an object; a UsageError where it compares vectors in a way that is not known here."""
        self.model = model
        self.model_id = model_id
        self.batch_size = batch_size
        similarity = getattr(model, "similarity_fn_name", None) or SIMILARITIES[0]
        self.similarity = str(getattr(similarity, "value", similarity))
        if self.similarity not in SIMILARITIES:
            raise UsageError(
                f"{model_id} compares by {quoted(self.similarity)}, expected one of "
                f"{listed(SIMILARITIES)}. {FUNCTION_INSTEAD}."
            )
        self.own_unit = SIMILARITY_UNITS[self.similarity]
        self._lengths = _Lengths(model)
        settings = {
            "prompts": getattr(model, "prompts", None),
            "default_prompt_name": getattr(model, "default_prompt_name", None),
        }
        self._prompts = prompts_of(settings)
        identity = {**_pin(model), "kind": self.kind, "similarity": self.similarity}
        if any(self._prompts):
            identity["prompts"] = [*self._prompts]
        if self._lengths.limit:
            identity["most_tokens"] = self._lengths.limit
        self.identity: Mapping[str, Any] = identity

    def similarities(
        self, searched: Sequence[Searched], on_progress: Progress = silent
    ) -> list[float | None]:
        """Return how similar the vectors of queries and documents are.

        Args:
            searched: queries with documents.
            on_progress: called with the number of further ones that are done.

        Raises:
            ValueError: The object failed, or returned no vector for each text.
        """
        query_prompt, document_prompt = self._prompts
        queries = [pair.query for pair in searched]
        documents = [pair.document for pair in searched]
        share = len(searched) / max(len({*queries}) + len({*documents}), 1)

        def on_texts(done: float) -> None:
            on_progress(done * share)

        of_queries = self._vectors(queries, self._encoder("encode_query", query_prompt), on_texts)
        document_encoder = self._encoder("encode_document", document_prompt)
        of_documents = self._vectors(documents, document_encoder, on_texts)
        return [
            vector_similarity(self.similarity, of_queries.get(query), of_documents.get(document))
            for query, document in zip(queries, documents, strict=True)
        ]

    def _encoder(self, method: str, prompt: str) -> tuple[_Encode, str]:
        """Return what makes vectors of texts of a side, and the prompt that is put before them."""
        if _has(self.model, method):
            return getattr(self.model, method), prompt
        if prompt:
            return partial(self.model.encode, prompt=prompt), prompt
        return self.model.encode, prompt

    def _vectors(
        self, texts: Sequence[str], encoder: tuple[_Encode, str], on_progress: Progress
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Return the vector of each text that is not too long."""
        encode, prompt = encoder
        different = dict.fromkeys(texts)
        fitting = [text for text in different if self._lengths.fits(f"{prompt}{text}")]
        on_progress(len(different) - len(fitting))
        vectors: dict[str, np.ndarray[Any, Any]] = {}
        for start in range(0, len(fitting), self.batch_size):
            batch = fitting[start : start + self.batch_size]
            vectors.update(zip(batch, self._encoded(encode, batch), strict=True))
            on_progress(len(batch))
        return vectors

    def _encoded(self, encode: _Encode, batch: list[str]) -> np.ndarray[Any, Any]:
        """Call the object, and return its vectors, shape (texts, d)."""
        try:
            returned = np.asarray(without_tensors(encode(batch)), dtype=np.float64)
        except Exception as error:
            fault = f"{self.model_id} raised {type(error).__name__}: {first_line(error)}."
            raise ValueError(fault) from error
        if returned.ndim != 2 or len(returned) != len(batch):
            raise ValueError(
                f"{self.model_id} returned shape {returned.shape}, expected a vector for each of "
                f"{len(batch)} texts. {FUNCTION_INSTEAD}."
            )
        return returned


class RerankerScorer(FunctionRetriever):
    """Score: the number that an object predicts for a query with its document; larger is more relevant.

    NaN: the two are longer than the object says that it reads, or the number is not finite.
    """

    own_unit = RELEVANCE

    def __init__(self, model: Any, *, model_id: str, batch_size: int) -> None:
        """Wrap an object."""
        super().__init__(
            partial(_predict, model), model_id=model_id, batch_size=batch_size, identity=_pin(model)
        )
        self._lengths = _Lengths(model)

    def similarities(
        self, searched: Sequence[Searched], on_progress: Progress = silent
    ) -> list[float | None]:
        """Return the numbers of the object; None where query and document are longer than it reads.

        Args:
            searched: queries with documents.
            on_progress: called with the number of further ones that are done.

        Raises:
            ValueError: The object failed, or returned another shape.
        """
        fitting = [pair for pair in searched if self._lengths.fits(pair.query, pair.document)]
        on_progress(len(searched) - len(fitting))
        numbers = dict(zip(fitting, super().similarities(fitting, on_progress), strict=True))
        return [numbers.get(pair) for pair in searched]


def _predict(model: Any, queries: list[str], documents: list[str]) -> Any:
    """Let an object predict a number for each query with its document."""
    return model.predict(list(zip(queries, documents, strict=True)))
