"""From a name or an object to a model: the kinds that the audited model can be of, and which of them it is."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from swapbias import hub_http
from swapbias.errors import UsageError, extras_named, listed, quoted
from swapbias.files import is_there
from swapbias.models import (
    base,
    encoder_layout,
    formats,
    model_config,
    model_names,
    model_pins,
    wrappers,
)
from swapbias.models.base import LoadOptions, Request
from swapbias.models.kind import Kind, imported
from swapbias.models.retrieval import RETRIEVAL, is_reranker
from swapbias.models.saved_weights import is_as_saved
from swapbias.models.scorer import Scorer
from swapbias.models.text_kinds import CAUSAL, CLASSIFIER, MASKED
from swapbias.public_calls import public_call
from swapbias.registry import Registry

# A kind is one file and one line here, or an entry point of another distribution.
_BUILT_IN = {
    "masked": "swapbias.models.text_kinds:MASKED",
    "classifier": "swapbias.models.text_kinds:CLASSIFIER",
    "regression": "swapbias.models.text_kinds:REGRESSOR",
    "causal": "swapbias.models.text_kinds:CAUSAL",
    "tagger": "swapbias.models.tagger:TAGGER",
    "embedding": "swapbias.models.clinical.note_kind:NOTE_KIND",
    "chat": "swapbias.models.chat.chat_kind:CHAT",
    "retrieval": "swapbias.models.retrieval:RETRIEVAL",
}


def _check_is_kind(name: str, loaded: Any) -> None:
    """Raise a TypeError or ValueError where an entry point of a name gives no kind of that name."""
    if Kind not in type(loaded).__mro__:
        raise TypeError("it is no swapbias.models.Kind")
    if loaded.name != name:
        raise ValueError(f"its name is {loaded.name!r}")


KINDS = Registry("swapbias.kinds", "kind", lambda: _BUILT_IN, _check_is_kind)


@cache
def kinds() -> tuple[Kind, ...]:
    """Return every kind of model; one from outside that cannot be loaded is left out (``KINDS.faults``)."""
    return tuple(KINDS.load_all().values())


def kind_of(name: str) -> Kind:
    """Return the kind of a name.

    Args:
        name: the name as experiments and settings give it.

    Raises:
        UsageError: There is none, or its distribution cannot be loaded.
    """
    for kind in kinds():
        if kind.name == name:
            return kind
    loaded: Kind = KINDS.load(name)
    return loaded


def model_kinds() -> tuple[str, ...]:
    """Return the kinds that the audited model itself can be of."""
    return tuple(kind.name for kind in kinds() if kind.architectures)


@extras_named()
@public_call
def load_scorer(
    model: Any,
    *,
    tokenizer: Any = None,
    name: str | None = None,
    kind: str | None = None,
    options: LoadOptions | None = None,
) -> Scorer:
    """Load or wrap a model, and return the scorer that reads it.

    >>> scorer = load_scorer(lambda texts: [0.9 if "She" in text else 0.8 for text in texts], name="toy")
    >>> scorer.model_id, scorer.kind
    ('toy', 'classifier')

    Args:
        model: as in ``swapbias.audit``; a model in memory is read on its device and in its own type.
        tokenizer: a tokenizer of a transformers model in memory.
        name: name of a model in memory in findings; its own name where None.
        kind: ``masked``, ``classifier``, ``regression`` (a classifier's raw score), ``causal``, ``retrieval``; None:
            by its config.
        options: device, dtype, batch size and the like.

    Raises:
        UsageError: a kind that cannot be found or does not exist, a model of another kind.
        ValueError: a model that cannot be loaded.
    """
    load = LoadOptions() if options is None else options
    if not isinstance(load, LoadOptions):
        raise UsageError(
            f"options is {quoted(load)}, expected LoadOptions. Write options=LoadOptions(...)."
        )
    if not isinstance(model, str | os.PathLike):
        return _wrap(model, tokenizer, name, kind, load)
    path = str(model)
    if tokenizer is not None or name is not None:
        raise UsageError(
            f"tokenizer and name are of models in memory, and {path!r} is loaded here. Drop them."
        )
    request = Request(model=path, kind=kind, load=load)
    scorer: Scorer = kind_of(model_kind(path, kind, load=load)).load(path, request)
    return scorer


def _wrap(
    model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions
) -> Scorer:
    """Return the scorer of a model in memory, of whatever library."""
    transformers = sys.modules.get("transformers")
    if transformers and isinstance(model, transformers.Pipeline):
        return _wrap_pipeline(model, tokenizer, name, kind, options)
    is_scorer = isinstance(model, Scorer)
    if not is_scorer:
        model = wrappers.without_containers(model)
        is_pretrained = transformers and isinstance(model, transformers.PreTrainedModel)
        if is_pretrained or wrappers.is_adapted(model):
            return _wrap_transformers(model, tokenizer, name, kind, options)
    if tokenizer is not None:
        raise UsageError(
            f"tokenizer is of transformers models, and this is a {type(model).__name__}. Drop it."
        )
    scorer = model if is_scorer else _wrap_function(model, name, kind, options)
    _check_kind(scorer.model_id, scorer.kind, kind)
    return scorer


def _wrap_function(model: Any, name: str | None, kind: str | None, options: LoadOptions) -> Scorer:
    """Return the scorer of an object that searches, a scikit-learn model or a Python function.

    A UsageError for any other object.
    """
    torch = sys.modules.get("torch")
    class_name = type(model).__name__
    if method := imported("search_objects:search_method")(model, kind):
        _refuse_loading_options(class_name, options)
        wrap = imported("search_objects:wrap")
        searching: Scorer = wrap(model, method, name=name, batch_size=options.batch_size)
        return searching
    model_id = name or str(getattr(model, "__name__", class_name))
    scorer: Scorer
    if callable(getattr(model, "predict_proba", None)):
        wrap = imported("classifier:ProbabilityScorer")
        scorer = wrap(model, model_id=model_id, options=options)
    elif callable(model) and not (torch and isinstance(model, torch.nn.Module)):
        wrap = imported(_function_kind(kind).function_scorer)
        scorer = wrap(model, model_id=model_id, batch_size=options.batch_size)
    else:
        raise UsageError(
            f"A {class_name} cannot be audited. "
            "Give a Hub id, a folder, a model, a pipeline or a function."
        )
    return scorer


def _wrap_pipeline(
    pipeline: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions
) -> Scorer:
    """Read a pipeline's model and tokenizer where they give what it returns, else call the pipeline itself."""
    if tokenizer not in (None, pipeline.tokenizer):
        raise UsageError("A pipeline has a tokenizer of its own. Drop tokenizer.")
    from swapbias.models import pipelines  # which needs torch

    if pipelines.is_read_by_engine(pipeline):
        plain = replace(options, function_to_apply=pipelines.function_to_apply(pipeline))
        scorer = _wrap_transformers(pipeline.model, pipeline.tokenizer, name, kind, plain)
        if pipelines.has_same_scores(pipeline, scorer):
            return scorer
    model_id = name or type(pipeline).__name__
    called = pipelines.PipelineScorer(pipeline, model_id=model_id, kind=kind, options=options)
    _check_kind(model_id, called.kind, kind)
    return called


def _wrap_transformers(
    model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions
) -> Scorer:
    """Return the scorer of a model of transformers or PEFT, by the head that it has."""
    class_name = type(model).__name__
    if tokenizer is None:
        raise UsageError(f"{class_name} comes without its tokenizer. Pass tokenizer=.")
    _refuse_loading_options(class_name, options)
    pin: dict[str, Any] = {}
    if adapter := wrappers.adapter_name(model):
        pin["adapter"] = {"name": adapter}
    is_mixed = wrappers.has_mixed_adapters(model)
    if wrappers.is_adapted(model):
        model = wrappers.adapted_model(model, tokenizer)
        class_name = type(model).__name__
    pin.update(model_pins.quantization_of(model))
    saved = model.config.name_or_path
    if saved and not name:
        pin["is_changed"] = is_mixed or not is_as_saved(model, saved, tokenizer)
    model_id = name or model_names.read_name(saved or class_name, pin)
    found_kind = _kind_of_config(model_id, model.config, [class_name], kind, options)
    if found_kind is None and model.config.is_encoder_decoder:
        raise UsageError(_encoder_decoder(model_id, [class_name]))
    if found_kind is None:
        raise UsageError(
            f"{class_name} has no head that an audit reads. "
            "Load it with AutoModelForMaskedLM or the like."
        )
    _check_kind(class_name, found_kind, kind)
    wrap = imported(kind_of(found_kind).scorer).wrap
    scorer: Scorer
    if found_kind in (CLASSIFIER.name, base.REGRESSION):
        scorer = wrap(model, tokenizer, model_id, options, kind=found_kind)
    else:
        scorer = wrap(model, tokenizer, model_id, options)
    return scorer


def _refuse_loading_options(class_name: str, options: LoadOptions) -> None:
    """Raise a UsageError for settings of weights that are still to be loaded: those of this model are here."""
    remaining = replace(
        options,
        batch_size=64,
        positive_label=None,
        negative_label=None,
        function_to_apply=None,
    )
    if remaining != LoadOptions():
        raise UsageError(
            f"{class_name} keeps its own device and type. Drop device and dtype, or move it first."
        )


def _encoder_decoder(model: str, names: Sequence[str]) -> str:
    """Return the sentence that refuses a model that writes one text from another."""
    head = f" ({names[0]})" if names else ""
    return (
        f"{model} is an encoder-decoder model{head}, which is not supported. "
        "Serve it and name it with --chat, or audit a masked, causal or classifier model."
    )


def _check_kind(model: str, model_kind: str, kind: str | None) -> None:
    """Raise a UsageError where the user says that a model is of another kind."""
    if kind not in (None, model_kind):
        raise UsageError(f"{model} is of kind {model_kind}, not {kind}. Drop --kind.")


def planned_kind(
    model: str, kind: str | None = None, *, load: LoadOptions | None = None
) -> str | None:
    """Return the kind of a model that is not loaded now, by its config alone.

    Args:
        model: a Hub id, a folder, ``vader`` or ``module:function``.
        kind: what the user says of it.
        load: how it is loaded.

    Returns:
        Its kind. Where its config is not on this machine and the Hub cannot be reached, the user's, or None.

    Raises:
        UsageError: as in ``model_kind``.
        ValueError: as in ``model_kind``.
    """
    is_path = model.startswith((".", os.sep)) or model.count("/") > 1
    is_here = model == base.VADER or model_names.is_callable(model) or is_there(model) or is_path
    if is_here:
        return model_kind(model, kind, load=load)
    config = _cached_config(model)
    if config is None and hub_http.offline_reason():
        return None if kind is None else kind_of(kind).name
    return model_kind(config or model, kind, load=load)


def _is_only_a_scorer(kind: Kind) -> bool:
    """Return whether models of a kind are given in Python alone: no config, setting or default names one."""
    return not (kind.architectures or kind.options or kind.default)


def model_kind(model: str, kind: str | None = None, *, load: LoadOptions | None = None) -> str:
    """Return the kind of a model by its config, else the user's.

    Args:
        model: a Hub id, a folder, ``vader`` or ``module:function``.
        kind: what the user says of it.
        load: how it is loaded.

    Raises:
        UsageError: Neither says it, the two differ, or there is no such kind.
        ValueError: There is no model that can be read.
    """
    kind_names = model_kinds()
    load = load or LoadOptions()
    _check_user_kind(kind, kind_names)
    short_name = model_names.short_name(model)
    is_function = model_names.is_callable(model)
    if model == base.VADER or is_function or formats.is_saved(model):
        kind_name = _function_kind(kind).name if is_function else CLASSIFIER.name
        _check_kind(model, kind_name, kind)
        load.refuse_weights_settings(short_name)
        return kind_name
    may_search = kind in (None, RETRIEVAL.name)
    if may_search and formats.is_sentence_transformer(Path(model, load.subfolder)):
        return RETRIEVAL.name  # whose config may be in a folder of its own
    config = model_config.read_config(model, load)
    architectures = model_config.architectures(config)
    may_search = may_search and _may_have_modules(config, architectures)
    if may_search and encoder_layout.has_modules(model, load):
        return RETRIEVAL.name
    found_kind = _kind_of_config(short_name, config, architectures, kind, load)
    if found_kind is None and kind is None:
        if config.is_encoder_decoder:
            raise UsageError(_encoder_decoder(short_name, architectures))
        raise UsageError(
            f"The config of {model} does not tell what kind of model it is. "
            f"Pass --kind {' or '.join(kind_names)}."
        )
    if kind == RETRIEVAL.name != found_kind:
        raise UsageError(
            f"{short_name} has no modules.json of sentence-transformers and no head of one label. "
            "Give a Python function of queries and documents."
        )
    result = found_kind or str(kind)
    _check_kind(f"By its config {model}", result, kind)
    return result


def _may_have_modules(config: Any, names: Sequence[str]) -> bool:
    """Return whether a config may be that of a model of sentence-transformers, by its head.

    Embedding models have none, or keep the name of a language model's; rerankers have one label.
    """
    head = _kind_of_head(config, names)
    if head is CLASSIFIER:
        return bool(config.num_labels == 1)
    return head in (None, MASKED, CAUSAL)


def _function_kind(kind: str | None) -> Kind:
    """Return the kind of a Python function: the user's where functions can be of it, else classifiers."""
    if kind is not None and kind_of(kind).function_scorer:
        return kind_of(kind)
    return CLASSIFIER


def _check_user_kind(kind: str | None, kind_names: Sequence[str]) -> None:
    """Raise a UsageError for a kind of which no model can be named."""
    if kind is None or kind in kind_names:
        return
    if any(candidate.name == kind and _is_only_a_scorer(candidate) for candidate in kinds()):
        raise UsageError(
            f"No model that is named is of kind {kind!r}, which has no architectures. Give one to "
            "swapbias.audit in Python as a Scorer, or add architectures or default to the kind."
        )
    raise UsageError(f"Unknown kind {kind!r}: expected one of {listed(kind_names)}.")


def _cached_config(model: str) -> str | None:
    """Return the folder of a Hub id's config in the cache; None where it is not there."""
    from huggingface_hub import try_to_load_from_cache

    name, revision = model_names.split_revision(model)
    with suppress(ValueError):  # no Hub id
        config = try_to_load_from_cache(name, "config.json", revision=revision or None)
        if isinstance(config, str):
            return str(Path(config).parent)
    return None


def _kind_of_config(
    model: str, config: Any, names: Sequence[str], kind: str | None, options: LoadOptions
) -> str | None:
    """Return the kind of a family, its architectures and head; None if it is of no kind."""
    head = _kind_of_head(config, names)
    if head is None:
        return None
    if head is not CLASSIFIER:
        return head.name
    may_search = kind in (None, RETRIEVAL.name)
    if may_search and is_reranker(config, by_user=kind is not None):
        return RETRIEVAL.name
    head_kind = imported("transformers_scorer:head_kind")
    return str(head_kind(model, config, kind=kind, function=options.function_to_apply))


def _kind_of_head(config: Any, names: Sequence[str]) -> Kind | None:
    """Return the kind whose head a config names; of a family with one kind of language model, that one.

    XLNetLMHeadModel is of the kind of its family, XLNetForSequenceClassification of that of its head.
    """
    by_head = [kind for name in names for kind in kinds() if name.endswith(kind.architectures)]
    if names and not by_head:
        return None
    by_family = [kind for kind in kinds() if config.model_type in kind.model_types]
    is_language_model = not by_head or by_head[0] is CAUSAL
    reads_forward = getattr(config, "causal", False)  # XLM was trained in both ways
    candidates = by_head
    if is_language_model and not reads_forward:
        candidates = [*by_family, *by_head]
    return candidates[0] if candidates else None
