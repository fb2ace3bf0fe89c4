"""TODO: what this module holds."""

from collections.abc import Iterator, Mapping
from typing import Any

from swapbias.measures import RAW_SCORE, named_unit
from swapbias.models import base, loading, model_names
from swapbias.models.base import Request, Training, need_vader
from swapbias.models.kind import Fit, Kind, Reading, imported
from swapbias.models.progress import Bar, Say, no_bar, silent
from swapbias.models.scorer import Scorer
from swapbias.studies import Experiment, catalogue

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
            names = ", ".join(one.name for _, one in catalogue.calibrated())
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
            yield (
                "",
                f"it needs a label, and {model_names.short_name(request.model)} gives a raw score",
            )
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
        if model_names.is_callable(model):
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
