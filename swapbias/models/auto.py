"""From a name or an object to a model: the kinds that the audited model can be of, and which of them it is."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from swapbias import hub_http
from swapbias.errors import UsageError, arguments_named, extras_named, listed, quoted
from swapbias.files import is_there
from swapbias.measures import RAW_SCORE, Unit, named_unit
from swapbias.models import base, formats, loading, model_names, wrappers
from swapbias.models.base import Bar, LoadOptions, Request, Say, Training, need_vader, no_bar
from swapbias.models.kind import Fit, Kind, Reading, imported
from swapbias.models.scorer import Scorer, silent
from swapbias.registry import Registry
from swapbias.studies import JUDGED, Experiment, calibrated, range_of

CALIBRATION = "calibration"
_POSITIVE = "probability of positive sentiment"
_DISAPPROVAL = "mean log-odds of the disapproving antonym"


class Masked(Kind):
    """Models that fill a mask; among them families whose head is named LMHeadModel.

    XLNet is one of them, and is filled at a hidden position.
    """

    name = "masked"
    title = "Masked language models (BERT, RoBERTa)"
    scorer = "masked:MaskedScorer"
    default = CALIBRATION
    architectures = ("ForMaskedLM",)
    model_types = ("flaubert", "xlm", "xlnet")
    readings: Mapping[str, Reading] = {
        "": Reading(
            {
                **dict.fromkeys(
                    ("score", "closed_list_mass", "matched_mass"), "probability mass at the mask"
                ),
                "log_odds": "natural log-odds of the words at the mask",
            }
        ),
        "phrases": Reading(
            {"score": "probability mass of phrases"},
            "masked:PhraseScorer",
            passes=111,  # 1 + 10 + 100
        ),
        "attitude": Reading(
            {"score": "P(negative)", "antonym_log_odds": _DISAPPROVAL},
            "masked:AttitudeScorer",
            columns=("unrated_mass", "top_mass"),
        ),
        "log_mass": Reading({"score": "natural log-probability"}, "masked:LogMassScorer"),
    }

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        if found is None and not experiment.reads.calibrated:
            names = ", ".join(one.name for _, one in calibrated())
            yield "", f"the calibration model is trained for {names} alone; name a model to run it"
        else:
            yield from super().fits(experiment, request, found)

    def load(self, model: str, request: Request, *, say: Say = silent, bar: Bar = no_bar) -> Any:
        if model == CALIBRATION and request.model is None:
            say(
                "Calibration model: a tiny masked language model with a planted bias, trained once and kept."
            )
            request.load.refuse_weights_settings("the calibration model")
            make = imported("calibration:load_calibration")
            return make(seed=request.seed, options=request.load, bar=bar)
        return super().load(model, request)


class Classifier(Kind):
    """Sentiment systems: text classifiers of transformers, models trained here, VADER, Python functions."""

    name = "classifier"
    title = "Classifiers, Python functions, vader"
    scorer = "transformers_scorer:TextClassifierScorer"
    default = base.VADER
    architectures = ("ForSequenceClassification",)
    readings: Mapping[str, Reading] = {
        "": Reading({"score": _POSITIVE}),
        "negative_label": Reading(
            {"score": "share of negative labels", "positive_probability": _POSITIVE},
            "classifier:NegativeLabelScorer",
        ),
    }

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        if found != base.REGRESSION:
            yield from super().fits(experiment, request, found)
        elif experiment.reads.reading:
            yield "", f"it needs a label, and {base.short_name(request.model)} gives a raw score"
        else:
            yield request.model or "", ""

    def check_installed(self, model: str, experiment: Experiment, request: Request) -> None:
        if model == base.VADER:
            need_vader()

    def load(self, model: str, request: Request, **more: Any) -> Any:
        if model == base.VADER:
            return imported("classifier:VaderScorer")()
        if loading.is_saved(model):
            return imported("classifier:load_saved")(model, request.load)
        if base.is_callable(model):
            return imported("classifier:CallableScorer").load(
                model, batch_size=request.load.batch_size
            )
        return imported(self.scorer).load(model, request.load, kind=request.kind)

    def read_as(self, model: Any, reading: str) -> Scorer:
        sides = getattr(model, "sides", None)
        if sides is not None and not reading:
            sides.check_positive()
        return super().read_as(model, reading)

    def read(
        self,
        model: Any,
        experiment: Experiment,
        request: Request,
        *,
        corpus: str,
        training: Training,
    ) -> Scorer:
        """The scorer; a function's numbers are read in the unit of a study of the user's."""
        reader: Any = super().read(model, experiment, request, corpus=corpus, training=training)
        own = type(reader) is imported(
            "classifier:CallableScorer"
        ) and experiment.compares.unit != named_unit(reader.unit)
        scorer: Scorer = (
            reader.reading_in(experiment.compares.unit)
            if own and not experiment.reads.reading
            else reader
        )
        return scorer


class Regression(Classifier):
    """Text classifiers of transformers whose head gives a raw score; they read experiments that need no label."""

    name = base.REGRESSION
    title = "Classifiers with a raw score (the studies of classifiers that need no label)"
    default = ""
    readings: Mapping[str, Reading] = {"": Reading({"score": RAW_SCORE.name})}


class Causal(Kind):
    """Models that continue a text."""

    name = "causal"
    title = "Causal language models (GPT-2, Llama)"
    scorer = "causal:CausalScorer"
    architectures = ("ForCausalLM", "LMHeadModel")
    readings: Mapping[str, Reading] = {
        "": Reading({"score": "log-probability"}),
        "antonyms": Reading({"score": _DISAPPROVAL}, "causal:AntonymScorer", passes=40),
        "answers": Reading(
            {
                "score": "correct answer is likelier",
                "log_odds": "natural log-odds of the right answer",
            },
            "causal:AnswerOddsScorer",
            passes=2,
        ),
    }


MASKED = Masked()
CLASSIFIER = Classifier()
REGRESSOR = Regression()
CAUSAL = Causal()
# A kind is one file and one line here, or an entry point of another distribution.
_BUILT_IN = {
    "masked": "swapbias.models.auto:MASKED",
    "classifier": "swapbias.models.auto:CLASSIFIER",
    "regression": "swapbias.models.auto:REGRESSOR",
    "causal": "swapbias.models.auto:CAUSAL",
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
    is_here = model == base.VADER or base.is_callable(model) or is_there(model) or is_path
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
    if model == base.VADER or base.is_callable(model) or loading.is_saved(model):
        _check_kind(model, CLASSIFIER.name, kind)
        load.refuse_weights_settings(base.short_name(model))
        return CLASSIFIER.name
    config = loading.read_config(model, load)
    found = _kind_of_config(
        base.short_name(model), config, loading.architectures(config), kind, load
    )
    if found is None and kind is None:
        if formats.is_sentence_transformer(Path(model)):
            raise UsageError(formats.sentence_transformer(base.short_name(model)))
        if config.is_encoder_decoder:
            raise UsageError(
                _encoder_decoder(base.short_name(model), loading.architectures(config))
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


def unit_of(experiment: Experiment, score: str) -> Unit:
    """The unit of a score column of an experiment, as the kind of its model declares it; else that of its score."""
    units = kind_of(experiment.kind).readings[experiment.reads.reading].units
    if score == "score":
        return experiment.compares.unit
    if score not in units:
        return replace(experiment.compares.unit, taken_from="")
    if score == JUDGED and experiment.reads.rubric is not None:
        return named_unit(units[score], *range_of(experiment.reads.rubric.candidates))
    return named_unit(units[score])
