"""The kinds of models, and which of them reads a model: told by its name or config, loaded by its kind."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, extras_named
from swapbias.files import file_sha256, is_there
from swapbias.models.kind import Kind, Request, short_name
from swapbias.models.loading import Code, is_pickle, module_file, split_revision, with_revision
from swapbias.models.scorer import (
    DEVICES,
    DTYPES,
    FLAGS,
    OF_WEIGHTS,
    QUANTIZATIONS,
    LoadOptions,
    Say,
    Scorer,
    is_callable,
    settable,
    written,
)
from swapbias.studies import Experiment

_KINDS = (
    "auto:MASKED",
    "auto:CLASSIFIER",
    "auto:REGRESSOR",
    "auto:CAUSAL",
    "clinical.kind:EMBEDDING",
    "chat.chat_kind:CHAT",
)
_ARGUMENTS = ("prompts", "reference", "group", "lexicon", "wordings", "revision", "out", "own_store")  # of an audit


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of model."""
    homes = (name.partition(":")[::2] for name in _KINDS)
    return tuple(getattr(import_module(f"swapbias.models.{module}"), name) for module, name in homes)


def kind_of(name: str) -> Kind:
    """The kind of that name.

    Raises:
        UsageError: naming the kinds there are.
    """
    for one in kinds():
        if one.name == name:
            return one
    raise UsageError(f"Unknown kind {name!r}: expected one of {', '.join(one.name for one in kinds())}.")


def model_kinds() -> tuple[str, ...]:
    """The kinds that the audited model itself can be of."""
    return tuple(one.name for one in kinds() if one.architectures)


@contextmanager
def arguments_named() -> Iterator[None]:
    """Errors raised inside name arguments of Python functions in place of options of the command line."""
    try:
        yield
    except ValueError as error:
        made: list[Any] = [LoadOptions, *(one.options for one in kinds() if one.options)]
        settings = [one.metadata.get("name", one.name) for each in made for one, _ in settable(each)]
        names = {written(name): name for name in (*FLAGS, *_ARGUMENTS, *settings)}
        names |= {f"--{name}": name for name in _ARGUMENTS} | {"--study": "studies"}
        for option in sorted(names, key=len, reverse=True) if len(error.args) == 1 else ():
            error.args = (str(error).replace(option, names[option]),)
        raise


@extras_named()
@arguments_named()
def load_scorer(
    model: Any,
    *,
    tokenizer: Any = None,
    name: str | None = None,
    kind: str | None = None,
    revision: str | None = None,
    options: LoadOptions | None = None,
    say: Say | None = None,
) -> Scorer:
    """A scorer for a model.

    >>> scorer = load_scorer(lambda texts: [0.9 if "She" in text else 0.8 for text in texts], name="toy")
    >>> scorer.model_id, scorer.kind
    ('toy', 'classifier')

    Args:
        model: a Hub id (``OWNER/NAME`` or ``OWNER/NAME@REVISION``) or local folder (transformers), ``vader``, or
            ``module:function`` (texts -> probabilities of positive sentiment); or in memory: a transformers model or
            pipeline, a scikit-learn pipeline of texts, a function, a scorer. A model in memory stays as it is (its
            hooks count), and is read on its device and in its own type.
        tokenizer: of a transformers model in memory.
        name: findings carry it, of a model in memory; its own name where None.
        kind: ``masked``, ``classifier``, ``regression`` (a text classifier's raw score) or ``causal``; found from the
            model's config where None.
        revision: of a model on the Hub, a branch, tag or commit; None: the one that its name has, else ``main``.
        options: device, dtype and batch size, and whether a pickle may be read.
        say: is told that reading a pickle runs what its maker put in it.

    Raises:
        UsageError: a kind that cannot be found or does not exist, a model of another kind, a pickle that is not
            allowed.
        ValueError: a model that cannot be loaded.
    """
    chosen = options or LoadOptions()
    check_load(chosen)
    if not isinstance(model, str | os.PathLike):
        if revision is not None:
            raise UsageError(f"Revision {revision!r} is of a model on the Hub, and this one is in memory. Drop it.")
        return _in_memory(model, tokenizer, name, kind, chosen)
    if tokenizer is not None or name is not None:
        raise UsageError(f"tokenizer and name are of models in memory, and {str(model)!r} is loaded here. Drop them.")
    place = str(model) if revision is None else with_revision(str(model), revision)
    request = Request(model=place, kind=kind, load=chosen)
    found: Scorer = kind_of(model_kind(place, kind, load=chosen)).load(
        place, request, (), say=say or (lambda sentence: None), bar=lambda title, total: lambda done: None
    )
    return found


def _in_memory(model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions) -> Scorer:
    """The scorer of an object, by what it is."""
    from swapbias.models.classifier import CallableScorer, ProbabilityScorer

    transformers, torch = sys.modules.get("transformers"), sys.modules.get("torch")
    if transformers and isinstance(model, transformers.Pipeline):
        chosen = getattr(model, "_postprocess_params", {}).get("function_to_apply")  # nothing public says it
        options = replace(options, function_to_apply=getattr(chosen, "value", chosen))
        return _in_memory(model.model, tokenizer or model.tokenizer, name, kind, options)
    if transformers and isinstance(model, transformers.PreTrainedModel):
        return _of_transformers(model, tokenizer, name, kind, options)
    if tokenizer is not None:
        raise UsageError(f"tokenizer is of transformers models, and this is a {type(model).__name__}. Drop it.")
    found: Scorer
    if Scorer in type(model).__mro__:
        found = model
    elif callable(getattr(model, "predict_proba", None)):
        found = ProbabilityScorer(model, model_id=name or type(model).__name__, options=options)
    elif callable(model) and not (torch and isinstance(model, torch.nn.Module)):
        told = name or str(getattr(model, "__name__", type(model).__name__))
        found = CallableScorer(model, model_id=told, batch_size=options.batch_size)
    else:
        raise UsageError(
            f"A {type(model).__name__} cannot be audited. Give a Hub id, a folder, a transformers model or pipeline, "
            "a scikit-learn pipeline with predict_proba, or a function of a list of texts."
        )
    if kind not in (None, found.kind):
        raise UsageError(f"{found.model_id} is of kind {found.kind}, not {kind}. Drop kind.")
    return found


def _of_transformers(model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions) -> Scorer:
    from swapbias.models.loading import model_name

    made = type(model).__name__
    if tokenizer is None:
        raise UsageError(f"{made} comes without its tokenizer. Pass tokenizer=.")
    own = LoadOptions()
    if any(getattr(options, one) != getattr(own, one) for one in OF_WEIGHTS):
        raise UsageError(
            f"{made} is read on its own device and in its own type. Drop device and dtype, or move it first."
        )
    place = model.config.name_or_path
    told = name or (model_name(place) if place else made)
    found = _kind_named(told, model.config, [made], Request(kind=kind, load=options))
    if found is None:
        raise UsageError(f"{made} has no head that an audit reads. Load it with AutoModelForMaskedLM or the like.")
    if kind not in (None, found):
        raise UsageError(f"{made} is of kind {found}, not {kind}. Drop kind.")
    return kind_of(found).wrap(model, tokenizer, model_id=told, load=options)


def check_load(options: LoadOptions) -> None:
    """Refuse a device or dtype that there is not, with a UsageError."""
    device = re.sub(r"^cuda:\d+$", "cuda:N", options.device)
    for what, value, known in (
        ("device", device, DEVICES),
        ("dtype", options.dtype, DTYPES),
        ("quantization", options.quantization or "8bit", QUANTIZATIONS),
    ):
        if value not in known:
            raise UsageError(f"Unknown {what} {value!r}: expected {', '.join(known)}.")


def model_kind(model: str, kind: str | None = None, *, ask_hub: bool = True, load: LoadOptions | None = None) -> str:
    """The kind of a model, without loading its weights: ``masked``, ``classifier``, ``regression`` or ``causal``.

    Args:
        model: as of ``load_scorer``.
        kind: what the user says.
        ask_hub: without it, a Hub id whose config is not on this machine is of the kind that the user says.
        load: how its config is found (subfolder, adapter).

    Raises:
        UsageError: an unknown kind, or nothing that tells and no ``kind`` given.
        ValueError: no such model.
    """
    known = model_kinds()
    if kind is not None and kind not in known:
        raise UsageError(f"Unknown kind {kind!r}: expected one of {', '.join(known)}.")
    for one in kinds():
        if one.claims(model):
            if kind not in (None, one.name):
                raise UsageError(f"{model} returns probabilities of a text, expected kind {one.name!r}. Drop --kind.")
            return one.name
    place = model if ask_hub or is_there(model) else _config_at_hand(model)
    if place is None and kind is None:
        raise UsageError(
            f"{model} is not on this machine, and a dry run asks nobody what kind of model it is. "
            f"Pass --kind {' or '.join(known)}."
        )
    found = _kind_of_config(place, kind, load or LoadOptions()) if place else None
    if found is None and kind is None:
        raise UsageError(
            f"The config of {model} does not tell what kind of model it is. Pass --kind {' or '.join(known)}."
        )
    if kind is not None and found is not None and found != kind:
        raise UsageError(f"Model {model} is of kind {found} by its config, not {kind}. Drop --kind.")
    return kind or found or ""


def _config_at_hand(model: str) -> str | None:
    """The folder of a Hub id's config in the cache; None where it is not there."""
    from huggingface_hub import try_to_load_from_cache

    name, revision = split_revision(model)
    with suppress(ValueError):  # no Hub id
        config = try_to_load_from_cache(name, "config.json", revision=revision or None)
        if isinstance(config, str):
            return str(Path(config).parent)
    return None


def _kind_of_config(model: str, kind: str | None, load: LoadOptions) -> str | None:
    from swapbias.models.loading import architectures, read_config

    config = read_config(model, load)
    return _kind_named(short_name(model), config, architectures(config), Request(model=model, kind=kind, load=load))


def _kind_named(model: str, config: Any, names: Sequence[str], request: Request) -> str | None:
    """The kind of a family and its architectures, and of the head; None where neither tells."""
    by_type = [one for one in kinds() if config.model_type in one.model_types]
    named = [one for name in names for one in kinds() if name.endswith(one.architectures)]
    found = next(iter([*by_type, *named]), None)
    return found.of_head(model, config, request) if found else None


def unit_of(experiment: Experiment, score: str) -> str:
    """The unit of a score column of an experiment, as the kind of its model declares it; else that of its score."""
    columns = kind_of(experiment.kind).readings[experiment.reading].columns
    return next((one.unit for one in columns if one.name == score != "score"), experiment.unit)


def read_as(scorer: Scorer, reading: str, *, prune: float = 0.0) -> Scorer:
    """The scorer, or another way to read the same model: one of its kind's readings; ``prune`` is of phrases.

    Raises:
        UsageError: a reading that its kind does not have.
    """
    return kind_of(scorer.kind).read_as(scorer, reading, LoadOptions(prune=prune))


def code_of(model: str) -> Code | None:
    """What loading a model would run, found without running it; None for formats that only hold numbers.

    Args:
        model: as a user names it: a file, a folder, ``NAME=PATH``, ``module:function``, a Hub id.
    """
    from swapbias.models.clinical.features import vectors_sha256
    from swapbias.models.sentiment.models import bow_file, folder_sha256, is_sentiment_folder

    place = Path(model) if is_there(model) else Path(model.partition("=")[2] or model)
    if not is_there(place):  # also a name that is too long for any file
        place = Path()
    if place.is_file() and is_pickle(place):
        return Code(place.name, True, vectors_sha256(place))
    if place.is_dir() and is_sentiment_folder(place) and is_pickle(bow_file(place)):
        return Code(f"{place.name}/{bow_file(place).name}", True, folder_sha256(place))
    if is_callable(model):
        source = module_file(model.partition(":")[0])
        return Code(model, False, file_sha256(source) if source else None)
    return None
