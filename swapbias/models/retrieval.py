"""Models that search: bi-encoders and cross-encoders, which say how well a document fits a query."""

from collections.abc import Mapping
from typing import Any

from swapbias.errors import MODELS, need
from swapbias.models import encoder_layout, model_names
from swapbias.models.kind import Kind, Reading, imported

SIMILARITY = "similarity"
RANK = "share of other documents ranked lower"
# Keys that sentence-transformers writes into the config of a cross-encoder, today and before its version 4.
_WRITTEN_BY_LIBRARY = ("sentence_transformers", "sbert_ce_default_activation_function")


def is_reranker(config: Any, *, by_user: bool) -> bool:
    """Return whether the config of a text classifier is that of a cross-encoder, which has one label.

    Args:
        config: a model config of transformers.
        by_user: whether the user says that it searches; else sentence-transformers must have written the config.
    """
    if config.num_labels != 1:
        return False
    return by_user or any(hasattr(config, key) for key in _WRITTEN_BY_LIBRARY)


class Retrieval(Kind):
    """Models that search: folders of sentence-transformers, rerankers, and Python functions of query and document."""

    name = "retrieval"
    title = "Search: embeddings (sentence-transformers), rerankers"
    scorer = "cross_encoder:CrossEncoderScorer"
    function_scorer = "search_scorers:FunctionRetriever"
    architectures = ("ForSequenceClassification",)
    own_texts = "Ask it about documents that a run may keep: swapbias study new FOLDER --template retrieval."
    readings: Mapping[str, Reading] = {
        "": Reading({"score": SIMILARITY}),
        "rank": Reading({"score": RANK, SIMILARITY: SIMILARITY}, "search_scorers:RankScorer"),
    }
    """The ways to read its models by the name that experiments declare, blank for the usual one."""

    def load(self, model: str, request: Any, **_progress: Any) -> Any:
        """Load a bi-encoder, a cross-encoder or a Python function.

        Args:
            model: a name as ``fits`` yields it.
            request: says how it is loaded.

        Raises:
            UsageError: It is none of them, or its layout is not known.
            ValueError: It cannot be loaded.
        """
        load = request.load
        if model_names.is_callable(model):
            return super().load(model, request)
        need(f"The model {model_names.model_name(model)}", *MODELS, extra="models")
        settings: Mapping[str, Any] | None = {}
        if encoder_layout.has_modules(model, load):
            settings = encoder_layout.reranker_settings(model, load)
        if settings is None:
            return imported("bi_encoder:BiEncoderScorer").load(model, load)
        activation = str(settings.get("activation_fn") or "")
        return imported(self.scorer).load(model, load, activation=activation)


RETRIEVAL = Retrieval()
