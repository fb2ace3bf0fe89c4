"""From a name or an object to a model: the kinds that the audited model can be of, and which of them it is."""

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, extras_named
from swapbias.files import file_sha256, is_there
from swapbias.models.base import (
    FLAGS,
    RAW,
    REGRESSION,
    VADER,
    Bar,
    Column,
    Fit,
    Kind,
    LoadOptions,
    Reading,
    Request,
    Say,
    Scorer,
    imported,
    is_callable,
    settable,
    short_name,
    written,
)
from swapbias.models.loading import (
    architectures,
    is_sentiment_folder,
    model_name,
    module_file,
    read_config,
    split_revision,
    with_revision,
)
from swapbias.studies import Experiment, calibrated

CALIBRATION = "calibration"
_ARGUMENTS = ("prompts", "reference", "group", "lexicon", "wordings", "revision", "out", "own_store")  # of an audit
_ANY = (-math.inf, math.inf)
_MASS, _POSITIVE = "probability mass at the mask", "probability of positive sentiment"
_DISAPPROVAL, _RIGHT = "mean log-odds of the disapproving antonym", "natural log-odds of the right answer"
# Settings of weights that are still to be loaded.
_OF_WEIGHTS = (
    "device", "dtype", "device_map", "quantization", "attn_implementation", "subfolder", "adapter",
    "trust_remote_code",
)  # fmt: skip


class Masked(Kind):
    """Models that fill a mask; XLNet among them, which is named LMHeadModel and filled at a hidden position."""

    name = "masked"
    scorer = "masked:MaskedScorer"
    default = CALIBRATION
    architectures = ("ForMaskedLM",)
    model_types = ("xlnet",)
    readings: Mapping[str, Reading] = {
        "": Reading((
            Column("score", _MASS, "likelier words of the group"),
            Column("closed_list_mass", _MASS, "likelier words of the group, however rare"),
            Column("matched_mass", _MASS, "likelier words of the group, of those as frequent in both lists"),
        )),
        "phrases": Reading(
            (Column("score", "probability mass of phrases", "likelier phrases of the group"),),
            "recursive_masking:PhraseScorer", passes=111,  # 1, 10 and 100 by step
        ),
        "attitude": Reading(
            (
                Column("score", "P(negative)", "more disapproval"),
                Column("antonym_log_odds", _DISAPPROVAL, "more disapproval", *_ANY),
            ),
            "masked:AttitudeScorer",
        ),
        "log_mass": Reading(
            (Column("score", "natural log-probability", "likelier words", *_ANY),), "masked:LogMassScorer"
        ),
    }  # fmt: skip

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        if found is None and not experiment.calibrated:
            names = ", ".join(one.name for _, one in calibrated())
            yield "", f"the calibration model is trained for {names} alone; name a model to run it"
        else:
            yield from super().fits(experiment, request, found)

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        if model == CALIBRATION and request.model is None:
            from swapbias.models.calibration import STEPS, load_calibration

            say("Calibration model: a tiny masked language model with a planted bias, trained once and kept.")
            title = "training the calibration model"
            return load_calibration(seed=request.seed, options=request.load, bar=lambda: bar(title, STEPS))
        return super().load(model, request, rows, say=say, bar=bar)


class Classifier(Kind):
    """Sentiment systems: text classifiers of transformers, models trained here, VADER, Python functions."""

    name = "classifier"
    scorer = "transformers_scorer:TextClassifierScorer"
    default = VADER
    architectures = ("ForSequenceClassification",)
    readings: Mapping[str, Reading] = {
        "": Reading((Column("score", _POSITIVE, "more positive sentiment"),)),
        "negative_label": Reading(
            (
                Column("score", "share of negative labels", "negative label"),
                Column("positive_probability", _POSITIVE, "more positive sentiment"),
            ),
            "classifier:NegativeLabelScorer",
        ),
    }

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        if found != REGRESSION:
            yield from super().fits(experiment, request, found)
        elif experiment.reading:
            yield "", f"it needs a label, and {short_name(request.model)} gives a raw score"
        else:
            yield request.model or "", ""

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        if model == VADER:
            return imported("classifier:VaderScorer")()
        if is_sentiment_folder(model):
            return imported("sentiment.training:load_sentiment_model")(model, options=request.load)
        if is_callable(model):
            return imported("classifier:CallableScorer").load(model, batch_size=request.load.batch_size)
        return imported(self.scorer).load(model, request.load, kind=request.kind)


class Regression(Classifier):
    """Text classifiers of transformers whose head gives a raw score; they read experiments that need no label."""

    name = REGRESSION
    default = ""
    readings: Mapping[str, Reading] = {"": Reading((Column("score", RAW, "higher score", *_ANY),))}


class Causal(Kind):
    """Models that continue a text."""

    name = "causal"
    scorer = "causal:CausalScorer"
    architectures = ("ForCausalLM", "LMHeadModel")
    readings: Mapping[str, Reading] = {
        "": Reading((Column("score", "log-probability", "likelier text", *_ANY),)),
        "antonyms": Reading(
            (Column("score", _DISAPPROVAL, "more disapproval", *_ANY),), "causal:AntonymScorer", passes=40
        ),
        "answers": Reading(
            (
                Column("score", "correct answer is likelier", "the correct answer is likelier"),
                Column("log_odds", _RIGHT, "likelier correct answer", *_ANY),
                Column("log_odds_per_token", _RIGHT, "likelier correct answer", *_ANY),
            ),
            "causal:AnswerOddsScorer",
            passes=2,
        ),
    }


MASKED, CLASSIFIER, REGRESSOR, CAUSAL = Masked(), Classifier(), Regression(), Causal()
_ELSEWHERE = ("clinical.note_kind:EMBEDDING", "chat.chat_kind:CHAT")


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of model."""
    return (MASKED, CLASSIFIER, REGRESSOR, CAUSAL, *map(imported, _ELSEWHERE))


def kind_of(name: str) -> Kind:
    """The kind of that name; a UsageError naming the kinds there are."""
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
        name: of a model in memory in findings; its own name where None.
        kind: ``masked``, ``classifier``, ``regression`` (a classifier's raw score), ``causal``; None: by its config.
        revision: of a model on the Hub, a branch, tag or commit; None: the one that its name has, else ``main``.
        options: device, dtype, batch size and the like.

    Raises:
        UsageError: a kind that cannot be found or does not exist, a model of another kind.
        ValueError: a model that cannot be loaded.
    """
    chosen = options or LoadOptions()
    if not isinstance(model, str | os.PathLike):
        if revision is not None:
            raise UsageError(f"Revision {revision!r} is of a model on the Hub, and this one is in memory. Drop it.")
        return _in_memory(model, tokenizer, name, kind, chosen)
    if tokenizer is not None or name is not None:
        raise UsageError(f"tokenizer and name are of models in memory, and {str(model)!r} is loaded here. Drop them.")
    place = str(model) if revision is None else with_revision(str(model), revision)
    request = Request(model=place, kind=kind, load=chosen)
    quiet: Any = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
    found: Scorer = kind_of(model_kind(place, kind, load=chosen)).load(place, request, (), **quiet)
    return found


def _in_memory(model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions) -> Scorer:
    transformers, torch = sys.modules.get("transformers"), sys.modules.get("torch")
    if transformers and isinstance(model, transformers.Pipeline):
        chosen = getattr(model, "_postprocess_params", {}).get("function_to_apply")  # nothing public says it
        options = replace(options, function_to_apply=getattr(chosen, "value", chosen))
        model, tokenizer = model.model, tokenizer or model.tokenizer
    made, found = type(model).__name__, model
    label = name or str(getattr(model, "__name__", made))
    if transformers and isinstance(model, transformers.PreTrainedModel):
        return _of_transformers(model, tokenizer, name, kind, options)
    if tokenizer is not None:
        raise UsageError(f"tokenizer is of transformers models, and this is a {made}. Drop it.")
    if Scorer in type(model).__mro__:
        pass
    elif callable(getattr(model, "predict_proba", None)):
        found = imported("classifier:ProbabilityScorer")(model, model_id=label, options=options)
    elif callable(model) and not (torch and isinstance(model, torch.nn.Module)):
        found = imported("classifier:CallableScorer")(model, model_id=label, batch_size=options.batch_size)
    else:
        raise UsageError(
            f"A {made} cannot be audited. Give a Hub id, a folder, a transformers model or pipeline, "
            "a scikit-learn pipeline with predict_proba, or a function of a list of texts."
        )
    _check_kind(found.model_id, found.kind, kind)
    scorer: Scorer = found
    return scorer


def _of_transformers(model: Any, tokenizer: Any, name: str | None, kind: str | None, options: LoadOptions) -> Scorer:
    made, own = type(model).__name__, LoadOptions()
    if tokenizer is None:
        raise UsageError(f"{made} comes without its tokenizer. Pass tokenizer=.")
    if any(getattr(options, one) != getattr(own, one) for one in _OF_WEIGHTS):
        raise UsageError(
            f"{made} is read on its own device and in its own type. Drop device and dtype, or move it first."
        )
    place = model.config.name_or_path
    label = name or (model_name(place) if place else made)
    found = _kind_of_config(label, model.config, [made], kind, options)
    if found is None:
        raise UsageError(f"{made} has no head that an audit reads. Load it with AutoModelForMaskedLM or the like.")
    _check_kind(made, found, kind)
    settings = {"kind": found} if found in (CLASSIFIER.name, REGRESSION) else {}
    scorer: Scorer = imported(kind_of(found).scorer).wrap(model, tokenizer, label, options, **settings)
    return scorer


def _check_kind(model: str, found: str, kind: str | None) -> None:
    if kind not in (None, found):
        raise UsageError(f"{model} is of kind {found}, not {kind}. Drop --kind.")


def model_kind(model: str, kind: str | None = None, *, ask_hub: bool = True, load: LoadOptions | None = None) -> str:
    """The kind of a model, without loading its weights: ``masked``, ``classifier``, ``regression`` or ``causal``.

    ``kind``: of the user; without ``ask_hub`` the only one of a Hub id whose config is not on this machine.

    Raises:
        UsageError: an unknown kind, or neither config nor user says it.
        ValueError: no such model.
    """
    known, load, found = model_kinds(), load or LoadOptions(), None
    if kind is not None and kind not in known:
        raise UsageError(f"Unknown kind {kind!r}: expected one of {', '.join(known)}.")
    if model == VADER or is_callable(model) or is_sentiment_folder(model):
        _check_kind(model, CLASSIFIER.name, kind)
        return CLASSIFIER.name
    place = model if ask_hub or is_there(model) else _cached_config(model)
    if place:
        config = read_config(place, load)
        found = _kind_of_config(short_name(place), config, architectures(config), kind, load)
    if found is None and kind is None:
        why = f"The config of {model} does not tell what kind of model it is."
        why = why if place else f"{model} is not on this machine, and a dry run asks nobody what kind of model it is."
        raise UsageError(f"{why} Pass --kind {' or '.join(known)}.")
    _check_kind(f"By its config {model}", found or str(kind), kind)
    return found or str(kind)


def _cached_config(model: str) -> str | None:
    """The folder of a Hub id's config in the cache; None where it is not there."""
    from huggingface_hub import try_to_load_from_cache

    name, revision = split_revision(model)
    with suppress(ValueError):  # no Hub id
        config = try_to_load_from_cache(name, "config.json", revision=revision or None)
        if isinstance(config, str):
            return str(Path(config).parent)
    return None


def _kind_of_config(
    model: str, config: Any, names: Sequence[str], kind: str | None, options: LoadOptions
) -> str | None:
    """The kind of a family, its architectures and head; None if it is of no kind."""
    by_type = [one for one in kinds() if config.model_type in one.model_types]
    named = [one for name in names for one in kinds() if name.endswith(one.architectures)]
    found = next(iter([*by_type, *named]), None)
    if found is not CLASSIFIER:
        return found.name if found else None
    head_kind = imported("transformers_scorer:head_kind")
    return str(head_kind(model, config, kind=kind, function=options.function_to_apply))


def unit_of(experiment: Experiment, score: str) -> str:
    """The unit of a score column of an experiment, as the kind of its model declares it; else that of its score."""
    columns = kind_of(experiment.kind).readings[experiment.reading].columns
    return next((one.unit for one in columns if one.name == score != "score"), experiment.unit)


def read_as(scorer: Scorer, reading: str) -> Scorer:
    """The scorer in another reading of its kind; a UsageError if there is none."""
    return kind_of(scorer.kind).read_as(scorer, reading)


@dataclass(frozen=True, slots=True)
class Code:
    """``module:function``, which loading it would import, and the sha256 of the file; None: it has no file."""

    name: str
    sha256: str | None


def code_of(model: str) -> Code | None:
    """The code that loading a model would run, found without running it; None for formats of numbers alone."""
    if not is_callable(model):
        return None
    source = module_file(model.partition(":")[0])
    return Code(model, file_sha256(source) if source else None)
