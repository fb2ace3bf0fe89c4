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
from swapbias.errors import UsageError, arguments_named, extras_named, listed, quoted
from swapbias.files import is_there
from swapbias.models import base, formats, loading, model_names, wrappers
from swapbias.models.base import LoadOptions, Request
from swapbias.models.kind import Kind, imported
from swapbias.models.scorer import Scorer
from swapbias.models.text_kinds import CAUSAL, CLASSIFIER
from swapbias.registry import Registry

# A kind is one file and one line here, or an entry point of another distribution.
_BUILT_IN = {
    "masked": "swapbias.models.text_kinds:MASKED",
    "classifier": "swapbias.models.text_kinds:CLASSIFIER",
    "regression": "swapbias.models.text_kinds:REGRESSOR",
    "causal": "swapbias.models.text_kinds:CAUSAL",
    "embedding": "swapbias.models.clinical.note_kind:EMBEDDING",
    "chat": "swapbias.models.chat.chat_kind:CHAT",
}


def _check_is_kind(name: str, loaded: Any) -> None:
    if Kind not in type(loaded).__mro__:
        raise TypeError("it is no swapbias.models.Kind")
    if loaded.name != name:
        raise ValueError(f"its name is {loaded.name!r}")


KINDS = Registry("swapbias.kinds", "kind", lambda: _BUILT_IN, _check_is_kind)


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of model; one from outside that cannot be loaded is left out (``KINDS.faults``)."""
    return tuple(KINDS.load_all().values())


def kind_of(name: str) -> Kind:
    """Return the kind of that name.

    Raises:
        UsageError: there is none, or its distribution cannot be loaded.
    """
    by_name = {kind.name: kind for kind in kinds()}
    kind: Kind = by_name[name] if name in by_name else KINDS.load(name)
    return kind


def model_kinds() -> tuple[str, ...]:
    """The kinds that the audited model itself can be of."""
    return tuple(one.name for one in kinds() if one.architectures)


@extras_named()
@arguments_named()
def load_scorer(
    model: Any,
    *,
    tokenizer: Any = None,
    name: str | None = None,
    kind: str | None = None,
    options: LoadOptions | None = None,
) -> Scorer:
    """A scorer for a model.

    >>> scorer = load_scorer(lambda texts: [0.9 if "She" in text else 0.8 for text in texts], name="toy")
    >>> scorer.model_id, scorer.kind
    ('toy', 'classifier')

    Args:
        model: as of ``swapbias.audit``; a model in memory is read on its device and in its own type.
        tokenizer: of a transformers model in memory.
        name: of a model in memory in findings; its own name where None.
        kind: ``masked``, ``classifier``, ``regression`` (a classifier's raw score), ``causal``; None: by its config.
        options: device, dtype, batch size and the like.

    Raises:
        UsageError: a kind that cannot be found or does not exist, a model of another kind.
        ValueError: a model that cannot be loaded.
    """
    chosen = LoadOptions() if options is None else options
    if not isinstance(chosen, LoadOptions):
        raise UsageError(
            f"options is {quoted(chosen)}, expected LoadOptions. Write options=LoadOptions(...)."
        )
    if not isinstance(model, str | os.PathLike):
        return _in_memory(model, tokenizer, name, kind, chosen)
    if tokenizer is not None or name is not None:
        raise UsageError(
            f"tokenizer and name are of models in memory, and {str(model)!r} is loaded here. Drop them."
        )
    place = str(model)
    request = Request(model=place, kind=kind, load=chosen)
    found: Scorer = kind_of(model_kind(place, kind, load=chosen)).load(place, request)
    return found


def _in_memory(
    model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions
) -> Scorer:
    transformers = sys.modules.get("transformers")
    torch = sys.modules.get("torch")
    if transformers and isinstance(model, transformers.Pipeline):
        return _of_pipeline(model, tokenizer, name, kind, options)
    is_scorer = isinstance(model, Scorer)
    model = model if is_scorer else wrappers.without_containers(model)
    made = type(model).__name__
    found = model
    label = name or str(getattr(model, "__name__", made))
    if (transformers and isinstance(model, transformers.PreTrainedModel)) or wrappers.is_adapted(
        model
    ):
        return _of_transformers(model, tokenizer, name, kind, options)
    if tokenizer is not None:
        raise UsageError(f"tokenizer is of transformers models, and this is a {made}. Drop it.")
    if callable(getattr(model, "predict_proba", None)) and not is_scorer:
        found = imported("classifier:ProbabilityScorer")(model, model_id=label, options=options)
    elif callable(model) and not is_scorer and not (torch and isinstance(model, torch.nn.Module)):
        found = imported("classifier:CallableScorer")(
            model, model_id=label, batch_size=options.batch_size
        )
    elif not is_scorer:
        raise UsageError(
            f"A {made} cannot be audited. Give a Hub id, a folder, a model, a pipeline or a function."
        )
    _check_kind(found.model_id, found.kind, kind)
    scorer: Scorer = found
    return scorer


def _of_pipeline(
    model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions
) -> Scorer:
    """A pipeline's model and tokenizer where they give what it returns, else the pipeline itself, which is called."""
    if tokenizer not in (None, model.tokenizer):
        raise UsageError("A pipeline has a tokenizer of its own. Drop tokenizer.")
    from swapbias.models import pipelines  # which needs torch

    if pipelines.is_read_by_engine(model):
        plain = replace(options, function_to_apply=pipelines.function_to_apply(model))
        scorer = _of_transformers(model.model, model.tokenizer, name, kind, plain)
        if pipelines.has_same_scores(model, scorer):
            return scorer
    label = name or type(model).__name__
    called = pipelines.PipelineScorer(model, model_id=label, kind=kind, options=options)
    _check_kind(label, called.kind, kind)
    return called


def _of_transformers(
    model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions
) -> Scorer:
    made = type(model).__name__
    if tokenizer is None:
        raise UsageError(f"{made} comes without its tokenizer. Pass tokenizer=.")
    read: Any = {
        "batch_size": 64,
        "positive_label": None,
        "negative_label": None,
        "function_to_apply": None,
    }
    if (
        replace(options, **read) != LoadOptions()
    ):  # the others are of weights that are still to be loaded
        raise UsageError(
            f"{made} keeps its own device and type. Drop device and dtype, or move it first."
        )
    adapter = wrappers.adapter_name(model)
    if wrappers.is_adapted(model):
        model = wrappers.adapted_model(model, tokenizer)
        made = type(model).__name__
    place = model.config.name_or_path
    adapters = {"adapter": {"name": adapter}} if adapter else {}
    label = name or model_names.read_name(
        place or made, {**adapters, **loading.quantization_of(model)}
    )
    found = _kind_of_config(label, model.config, [made], kind, options)
    if found is None and model.config.is_encoder_decoder:
        raise UsageError(_encoder_decoder(label, [made]))
    if found is None:
        raise UsageError(
            f"{made} has no head that an audit reads. Load it with AutoModelForMaskedLM or the like."
        )
    _check_kind(made, found, kind)
    settings = {"kind": found} if found in (CLASSIFIER.name, base.REGRESSION) else {}
    scorer: Scorer = imported(kind_of(found).scorer).wrap(
        model, tokenizer, label, options, **settings
    )
    return scorer


def _encoder_decoder(model: str, names: Sequence[str]) -> str:
    """The sentence that refuses a model that writes one text from another."""
    head = f" ({names[0]})" if names else ""
    what = f"{model} is an encoder-decoder model{head}, which is not supported"
    return (
        f"{what}. Serve it and name it with --chat, or audit a masked, causal or classifier model."
    )


def _check_kind(model: str, found: str, kind: str | None) -> None:
    if kind not in (None, found):
        raise UsageError(f"{model} is of kind {found}, not {kind}. Drop --kind.")


def planned_kind(
    model: str, kind: str | None = None, *, load: LoadOptions | None = None
) -> str | None:
    """Return the kind of a model that is not loaded now, by its config alone; raises as ``model_kind``.

    The user's ``kind``, or None, where the config is not on this machine and the Hub cannot be reached.
    """
    is_path = model.startswith((".", os.sep)) or model.count("/") > 1
    is_here = model == base.VADER or model_names.is_callable(model) or is_there(model) or is_path
    config = None if is_here else _cached_config(model)
    if not is_here and config is None and hub_http.offline_reason():
        return None if kind is None else kind_of(kind).name
    return model_kind(config or model, kind, load=load)


def _is_only_a_scorer(kind: Kind) -> bool:
    """Whether models of a kind are given in Python alone: no config, setting or default names one."""
    return not (kind.architectures or kind.options or kind.default)


def model_kind(model: str, kind: str | None = None, *, load: LoadOptions | None = None) -> str:
    """Return the kind of a model by its config, else the user's.

    UsageError: neither says it. ValueError: no model.
    """
    known = model_kinds()
    load = load or LoadOptions()
    found = None
    if kind is not None and any(one.name == kind and _is_only_a_scorer(one) for one in kinds()):
        given = "Give one to swapbias.audit in Python as a Scorer, or add architectures or default to the kind."
        raise UsageError(
            f"No model that is named is of kind {kind!r}, which has no architectures. {given}"
        )
    if kind is not None and kind not in known:
        raise UsageError(f"Unknown kind {kind!r}: expected one of {listed(known)}.")
    if model == base.VADER or model_names.is_callable(model) or loading.is_saved(model):
        _check_kind(model, CLASSIFIER.name, kind)
        load.refuse_weights_settings(model_names.short_name(model))
        return CLASSIFIER.name
    config = loading.read_config(model, load)
    found = _kind_of_config(
        model_names.short_name(model), config, loading.architectures(config), kind, load
    )
    if found is None and kind is None:
        if formats.is_sentence_transformer(Path(model)):
            raise UsageError(formats.sentence_transformer(model_names.short_name(model)))
        if config.is_encoder_decoder:
            raise UsageError(
                _encoder_decoder(model_names.short_name(model), loading.architectures(config))
            )
        why = f"The config of {model} does not tell what kind of model it is."
        raise UsageError(f"{why} Pass --kind {' or '.join(known)}.")
    _check_kind(f"By its config {model}", found or str(kind), kind)
    return found or str(kind)


def _cached_config(model: str) -> str | None:
    """The folder of a Hub id's config in the cache; None where it is not there."""
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
    """The kind of a family, its architectures and head; None if it is of no kind."""
    found = _kind_of_head(config, names)
    if found is not CLASSIFIER:
        return found.name if found else None
    head_kind = imported("transformers_scorer:head_kind")
    return str(head_kind(model, config, kind=kind, function=options.function_to_apply))


def _kind_of_head(config: Any, names: Sequence[str]) -> Kind | None:
    """The kind whose head a config names; of a family with one kind of language model, that one.

    XLNetLMHeadModel is of the kind of its family, XLNetForSequenceClassification of that of its head.
    """
    named = [kind for name in names for kind in kinds() if name.endswith(kind.architectures)]
    if names and not named:
        return None
    of_family = [kind for kind in kinds() if config.model_type in kind.model_types]
    is_language_model = not named or named[0] is CAUSAL
    reads_forward = getattr(config, "causal", False)  # XLM was trained in both ways
    candidates = [*of_family, *named] if is_language_model and not reads_forward else named
    return candidates[0] if candidates else None
