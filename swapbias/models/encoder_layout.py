"""The layout of sentence-transformers: which files say how a model makes one vector of a text, and compares two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swapbias.errors import UsageError, listed, quoted
from swapbias.files import is_there
from swapbias.hub_http import offline_reason
from swapbias.models.base import LoadOptions
from swapbias.models.model_config import at_commit
from swapbias.models.model_files import read_model_json
from swapbias.models.model_names import short_name

_REMEDY = "Save the model again with sentence-transformers."
_LIBRARY = "sentence_transformers."
_SETTINGS = "config_sentence_transformers.json"
_RERANKER = "CrossEncoder"
_TRANSFORMER = "Transformer"
_POOLING = "Pooling"
_NORMALIZE = "Normalize"
FUNCTION_INSTEAD = "Give a Python function of queries and documents that runs it"
"""What to do about a model that is not read here."""
# How vectors of tokens become one, by what files of any version call it.
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "lasttoken": "last",
}
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
"""The measures that compare two vectors, the usual one first."""
# Settings by which vectors are others than those of the last states of all tokens, with the values that are plain.
_UNREAD: Mapping[str, Sequence[Any]] = {
    "truncate_dim": (None,),
    "transformer_task": (None, "feature-extraction"),
    "module_output_name": (None, "token_embeddings"),
    "processing_kwargs": (None, {}),
    "query_length": (None,),
    "document_length": (None,),
    "query_expansion": (None, False),
}
_INPUTS = "modality_config"
_PLAIN_TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}
"""How files say that a text is read as it stands, for the last states of its tokens."""
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")


@dataclass(frozen=True, slots=True)
class EncoderLayout:
    """The way in which a bi-encoder makes a vector of a text, and compares two."""

    subfolder: str
    """The folder of the encoder inside that of the model; empty: the same."""
    pooling: str
    """How vectors of tokens become one: ``mean``, ``cls``, ``max`` or ``last``."""
    is_normalized: bool
    """Whether vectors have length 1."""
    similarity: str
    """``cosine``, ``dot``, or the negative distance: ``euclidean``, ``manhattan``."""
    query_prompt: str
    """The text that is put before a query."""
    document_prompt: str
    """The text that is put before a document."""
    most_tokens: int | None
    """Most tokens of a text; None: those of the encoder."""
    is_lower_case: bool
    """Whether texts are read in lower case."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return what pins the layout down in the manifest."""
        entries: dict[str, Any] = {"pooling": self.pooling, "similarity": self.similarity}
        if self.is_normalized:
            entries["normalized"] = True
        if self.query_prompt or self.document_prompt:
            entries["prompts"] = [self.query_prompt, self.document_prompt]
        if self.most_tokens is not None:
            entries["most_tokens"] = self.most_tokens
        return entries


def has_modules(model: str, options: LoadOptions) -> bool:
    """Return whether a model is a bi-encoder in the layout of sentence-transformers.

    Args:
        model: a folder, or a Hub id with or without a revision.
        options: how it is loaded.

    Raises:
        ValueError: Its list of modules is no JSON.
    """
    return _read(at_commit(model), "modules.json", options.subfolder) is not None


def reranker_settings(model: str, options: LoadOptions) -> Mapping[str, Any] | None:
    """Read the settings of a reranker that is saved with a list of modules, as from version 5.4 of the library on.

    Args:
        model: a folder, or a Hub id with or without a revision.
        options: how it is loaded.

    Returns:
        The settings of its files; None for a model that is no reranker.

    Raises:
        UsageError: A part of it is not known here; the sentence names it.
        ValueError: A file is no JSON.
    """
    located = at_commit(model)
    settings = _read(located, _SETTINGS, options.subfolder)
    if not isinstance(settings, Mapping) or settings.get("model_type") != _RERANKER:
        return None
    name = short_name(model)
    modules = _modules(name, _read(located, "modules.json", options.subfolder))
    if modules != [(_TRANSFORMER, "")]:
        raise UsageError(
            f"The modules of the reranker {name} are {listed(kind for kind, _ in modules)}, expected "
            f"{_TRANSFORMER} alone. {FUNCTION_INSTEAD}."
        )
    if (settings.get("prompts") or {}).get(settings.get("default_prompt_name")):
        raise UsageError(
            f"The reranker {name} puts a prompt before its queries, which is not read here. {FUNCTION_INSTEAD}."
        )
    return settings


def read_layout(model: str, options: LoadOptions) -> EncoderLayout:
    """Read how a bi-encoder works from its files.

    Args:
        model: a folder, or a Hub id with or without a revision.
        options: how it is loaded.

    Raises:
        UsageError: A part of it is not known here; the sentence names it.
        ValueError: A file is missing, or is no JSON.
    """
    name = short_name(model)
    located = at_commit(model)
    modules = _modules(name, _read(located, "modules.json", options.subfolder))
    kinds = [kind for kind, _ in modules]
    if kinds not in ([_TRANSFORMER, _POOLING], [_TRANSFORMER, _POOLING, _NORMALIZE]):
        raise UsageError(
            f"The modules of {name} are {listed(kinds)}, expected {_TRANSFORMER}, {_POOLING} and, "
            f"where there is one, {_NORMALIZE}. {FUNCTION_INSTEAD}."
        )
    folders = ["/".join(filter(None, (options.subfolder, path))) for _, path in modules]
    texts = _read(located, "sentence_bert_config.json", folders[0]) or {}
    settings = _read(located, _SETTINGS, options.subfolder) or {}
    _refuse_unread_settings(name, {**texts, **settings})
    pooling = _read(located, "config.json", folders[1])
    if not isinstance(pooling, Mapping):
        raise ValueError(f"{name} has no {modules[1][1]}/config.json. {_REMEDY}")
    query_prompt, document_prompt = prompts_of(settings)
    has_prompts = bool(query_prompt or document_prompt)
    if has_prompts and not pooling.get("include_prompt", True):
        raise UsageError(
            f"{name} leaves its prompts out of a text's vector, which is not read here. {FUNCTION_INSTEAD}."
        )
    return EncoderLayout(
        subfolder=folders[0],
        pooling=_pooling(name, pooling),
        is_normalized=_NORMALIZE in kinds,
        similarity=_similarity(name, settings),
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        most_tokens=texts.get("max_seq_length"),
        is_lower_case=bool(texts.get("do_lower_case")),
    )


def _refuse_unread_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raise a UsageError where files say that vectors are made in a way that is not read here."""
    unread = [key for key, plain in _UNREAD.items() if settings.get(key) not in plain]
    of_kinds = settings.get(_INPUTS)
    if isinstance(of_kinds, Mapping) and of_kinds.get("text") != _PLAIN_TEXT:
        unread.append(_INPUTS)
    if unread:
        raise UsageError(
            f"{name} sets {unread[0]} to {quoted(settings[unread[0]])}, which is not read here. {FUNCTION_INSTEAD}."
        )


def _read(located: str, file: str, subfolder: str) -> Any | None:
    """Read a JSON file of a folder or of a model at a commit; None where there is none."""
    offline = not is_there(located) and bool(offline_reason())
    return read_model_json(located, file, subfolder, offline=offline, remedy=_REMEDY)


def _modules(name: str, listing: Any) -> list[tuple[str, str]]:
    """Return the kind and the folder of each module; a UsageError for code that is not of the library."""
    modules: list[tuple[str, str]] = []
    if not isinstance(listing, list):
        return modules
    for module in listing:
        kind = str(module.get("type", ""))
        if not kind.startswith(_LIBRARY):
            raise UsageError(
                f"{name} has the module {quoted(kind)}, which is code of its own. {FUNCTION_INSTEAD}."
            )
        modules.append((kind.rpartition(".")[2], str(module.get("path", ""))))
    return modules


def _pooling(name: str, settings: Mapping[str, Any]) -> str:
    """Return how vectors of tokens become one."""
    mode = settings.get("pooling_mode")
    modes = [mode] if isinstance(mode, str) else list(mode or ())
    modes += [key for key, value in settings.items() if key.startswith("pooling_mode_") and value]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise UsageError(
            f"{name} pools by {listed(modes)}, expected one of mean, cls, max and lasttoken. "
            f"{FUNCTION_INSTEAD}."
        )
    return _POOLINGS[modes[0]]


def _similarity(name: str, settings: Mapping[str, Any]) -> str:
    """Return how two vectors are compared: by their cosine where nothing is said."""
    similarity = settings.get("similarity_fn_name") or "cosine"
    if similarity not in SIMILARITIES:
        raise UsageError(
            f"{name} compares by {quoted(similarity)}, expected one of {listed(SIMILARITIES)}. "
            f"{FUNCTION_INSTEAD}."
        )
    return str(similarity)


def prompts_of(settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the prompts before a query and a document; the default one where there is none of the name.

    Args:
        settings: ``prompts`` by name, and ``default_prompt_name``.
    """
    prompts = settings.get("prompts") or {}
    usual = prompts.get(settings.get("default_prompt_name"), "")
    of_documents = [prompts[key] for key in _DOCUMENT_PROMPTS if key in prompts]
    return prompts.get("query", usual) or "", next(iter(of_documents), usual) or ""
