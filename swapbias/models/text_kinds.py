"""Kinds of models that read texts as they are: masked, classifiers, regression heads, causal."""

from collections.abc import Iterator, Mapping
from typing import Any

from swapbias.errors import MODELS, need
from swapbias.measures import units
from swapbias.models import base, formats, model_names
from swapbias.models.base import Request, Training, need_vader
from swapbias.models.kind import Fit, Kind, Reading, imported
from swapbias.models.progress import Bar, Say, no_bar, silent
from swapbias.models.scorer import Scorer
from swapbias.studies import Experiment, catalogue

_MASS = "probability mass at the mask"
_POSITIVE = "probability of positive sentiment"
_OPTION = "probability of an option"
_LOG_PROBABILITY = "natural log-probability"
_OPTION_ODDS = "natural log-odds of the options that count more"
_DISAPPROVAL = "mean log-odds of the disapproving antonym"


class Masked(Kind):
    """Models that fill a mask; among them families whose head is named LMHeadModel.

    XLNet is one of them, and is filled at a hidden position.
    """

    name = "masked"
    title = "Masked language models (BERT, RoBERTa)"
    scorer = "masked:MaskedScorer"
    default = base.CALIBRATION
    architectures = ("ForMaskedLM",)
    model_types = ("flaubert", "xlm", "xlnet")
    readings: Mapping[str, Reading] = {
        "": Reading(
            {
                "score": _MASS,
                "closed_list_mass": _MASS,
                "matched_mass": _MASS,
                "log_odds": "natural log-odds of the words at the mask",
            }
        ),
        "phrases": Reading(
            {"score": "probability mass of phrases"},
            "phrase_scorer:PhraseScorer",
            passes=111,  # 1 + 10 + 100
        ),
        "attitude": Reading(
            {"score": "P(negative)", "antonym_log_odds": _DISAPPROVAL},
            "masked_readings:AttitudeScorer",
            columns=("unrated_mass", "top_mass"),
        ),
        "log_mass": Reading({"score": _LOG_PROBABILITY}, "masked_readings:LogMassScorer"),
        "named_words": Reading(
            {"score": _LOG_PROBABILITY, "conditional": _LOG_PROBABILITY},
            "named_words:MaskedWordsScorer",
            passes=40,
        ),
    }
    """The ways to read its models by the name that experiments declare, blank for the usual one."""

    def fits(
        self, experiment: Experiment, request: Request, model_kind: str | None
    ) -> Iterator[Fit]:
        """Find the models that read an experiment; by default the calibration model, of those it is trained for.

        Args:
            experiment: an experiment of this kind.
            request: the model that the user names, and settings.
            model_kind: the kind of ``request.model``; None: no model is named.
        """
        if model_kind is None and not experiment.reads.calibrated:
            names = ", ".join(trained.name for _, trained in catalogue.calibrated())
            yield Fit(
                why_not=f"the calibration model is trained for {names} alone; name a model to run it"
            )
        else:
            yield from super().fits(experiment, request, model_kind)

    def load(self, model: str, request: Request, *, say: Say = silent, bar: Bar = no_bar) -> Any:
        """Load a model; without a name a calibration model.

        Args:
            model: a name as ``fits`` yields it.
            request: says how it is loaded.
            say: called with sentences for the user.
            bar: begins a bar for the training of the calibration model.
        """
        if model not in (base.CALIBRATION, base.UNBIASED) or request.model is not None:
            return super().load(model, request)
        need("The calibration model", *MODELS, extra="models")
        say(f"{model} is a tiny model, which is trained here once and kept.")
        request.load.refuse_weights_settings("the calibration model")
        load_calibration = imported("calibration:load_calibration")
        return load_calibration(model, seed=request.seed, options=request.load, bar=bar)


class Classifier(Kind):
    """Sentiment systems: text classifiers of transformers, models trained here, VADER, Python functions."""

    name = "classifier"
    title = "Classifiers, Python functions, vader"
    scorer = "transformers_scorer:TextClassifierScorer"
    function_scorer = "classifier:CallableScorer"
    default = base.VADER
    architectures = ("ForSequenceClassification",)
    readings: Mapping[str, Reading] = {
        "": Reading({"score": _POSITIVE}),
        "negative_label": Reading(
            {"score": "share of negative labels", "positive_probability": _POSITIVE},
            "classifier:NegativeLabelScorer",
        ),
    }
    """The ways to read its models by the name that experiments declare, blank for the usual one."""

    def fits(
        self, experiment: Experiment, request: Request, model_kind: str | None
    ) -> Iterator[Fit]:
        """Find the models that read an experiment; one with a raw score reads those that need no label.

        Args:
            experiment: an experiment of this kind.
            request: the model that the user names, and settings.
            model_kind: the kind of ``request.model``; None: no model is named.
        """
        if model_kind != base.REGRESSION:
            yield from super().fits(experiment, request, model_kind)
        elif experiment.reads.reading:
            name = model_names.short_name(request.model)
            yield Fit(why_not=f"it needs a label, and {name} gives a raw score")
        else:
            yield Fit(request.model or "")

    def check_installed(self, model: str, experiment: Experiment, request: Request) -> None:
        """Check that the lexicon of VADER is installed, where it is read.

        Args:
            model: a name as ``fits`` yields it.
            experiment: what is read.
            request: settings of the model.

        Raises:
            MissingExtraError: It is not.
        """
        if model == base.VADER:
            need_vader()

    def load(self, model: str, request: Request, **_progress: Any) -> Any:
        """Load a classifier: VADER, a saved model, a Python function or a model of transformers.

        Args:
            model: a name as ``fits`` yields it.
            request: says how it is loaded.
        """
        if model == base.VADER:
            return imported("classifier:VaderScorer")()
        if formats.is_saved(model):
            return imported("classifier:load_saved")(model, request.load)
        if model_names.is_callable(model):
            return super().load(model, request)
        return imported(self.scorer).load(model, request.load, kind=request.kind)

    def read_as(self, model: Any, reading: str) -> Scorer:
        """Return the scorer that reads a classifier in one of the ways of its kind.

        Args:
            model: a model that ``load`` returned.
            reading: name of the way; empty: by its positive label.

        Raises:
            UsageError: There is no such way, or no label is known to be positive.
        """
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
        """Return the scorer; a function's numbers are read in the unit of a study of the user's.

        Args:
            model: a model that ``load`` returned.
            experiment: what is read.
            request: settings of the model.
            corpus: name of the corpus whose rows are read.
            training: not read.
        """
        scorer = super().read(model, experiment, request, corpus=corpus, training=training)
        is_function = type(scorer) is imported("classifier:CallableScorer")
        if not is_function or experiment.reads.reading:
            return scorer
        if experiment.compares.unit == units.named_unit(scorer.unit):
            return scorer
        return scorer.reading_in(experiment.compares.unit)


class Regression(Classifier):
    """Text classifiers of transformers whose head gives a raw score; they read experiments that need no label."""

    name = base.REGRESSION
    function_scorer = ""
    title = "Classifiers with a raw score (the studies of classifiers that need no label)"
    default = ""
    readings: Mapping[str, Reading] = {"": Reading({"score": units.RAW_SCORE.name})}
    """The ways to read its models by the name that experiments declare, blank for the usual one."""


class Causal(Kind):
    """Models that continue a text."""

    name = "causal"
    title = "Causal language models (GPT-2, Llama)"
    scorer = "causal:CausalScorer"
    architectures = ("ForCausalLM", "LMHeadModel")
    readings: Mapping[str, Reading] = {
        "": Reading({"score": "log-probability"}),
        "named_words": Reading(
            {"score": "log-probability", "conditional": _LOG_PROBABILITY},
            "named_words:NamedWordsScorer",
            passes=2,
        ),
        "antonyms": Reading({"score": _DISAPPROVAL}, "causal:AntonymScorer", passes=40),
        "answers": Reading(
            {
                "score": "correct answer is more likely",
                "log_odds": "natural log-odds of the right answer",
            },
            "causal:AnswerOddsScorer",
            passes=2,
        ),
        "options": Reading(
            {"score": _OPTION, "per_character": _OPTION},
            "option_scorer:OptionScorer",
            passes=3,
        ),
        "option_odds": Reading(
            {"score": _OPTION_ODDS, "per_character": _OPTION_ODDS},
            "option_scorer:OptionOddsScorer",
            passes=2,
        ),
    }
    """The ways to read its models by the name that experiments declare, blank for the usual one."""


MASKED = Masked()
CLASSIFIER = Classifier()
REGRESSOR = Regression()
CAUSAL = Causal()
