"""The kinds that the audited model itself can be of: masked, classifier, regression, causal."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swapbias.files import is_there
from swapbias.models.kind import Column, Fit, Kind, Reading, Request, short_name
from swapbias.models.scorer import RAW, REGRESSION, VADER, Bar, LoadOptions, Say, Scorer, is_callable
from swapbias.studies import Experiment, calibrated

CALIBRATION = "calibration"
_ANY = (-math.inf, math.inf)
_MASS, _POSITIVE = "probability mass at the mask", "probability of positive sentiment"
_DISAPPROVAL, _RIGHT = "mean log-odds of the disapproving antonym", "natural log-odds of the right answer"


class Masked(Kind):
    """Models that fill a mask; XLNet among them, which is named LMHeadModel and filled at a hidden position."""

    name = "masked"
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
            "phrases:PhraseScorer", ("prune",), passes=111,  # 1, 10 and 100 by step
        ),
        "attitude": Reading(
            (
                Column("score", "P(negative)", "more disapproval"),
                Column("antonym_log_odds", _DISAPPROVAL, "more disapproval", *_ANY),
            ),
            "attitude:AttitudeScorer",
        ),
        "log_mass": Reading(
            (Column("score", "natural log-probability", "likelier words", *_ANY),), "masked:LogMassScorer"
        ),
    }  # fmt: skip

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        """The calibration model reads the experiments that it is trained for alone."""
        if found is None and not experiment.calibrated:
            names = ", ".join(one.name for _, one in calibrated())
            yield "", f"the calibration model is trained for {names} alone; name a model to run it"
        else:
            yield from super().fits(experiment, request, found)

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        """A checkpoint of transformers, or the calibration model."""
        if model == CALIBRATION and request.model is None:
            from swapbias.models.calibration import STEPS, load_calibration

            say("Calibration model: a tiny masked language model with a planted bias, trained once and kept.")
            title = "training the calibration model"
            return load_calibration(seed=request.seed, options=request.load, bar=lambda: bar(title, STEPS))
        from swapbias.models.loading import at_commit, read_config
        from swapbias.models.masked import MaskedScorer, PermutationScorer

        place = at_commit(model)  # the same one for its family and its weights
        permuted = read_config(place, request.load).model_type in self.model_types
        return (PermutationScorer if permuted else MaskedScorer).load(place, request.load)

    def wrap(self, model: Any, tokenizer: Any, *, model_id: str, load: LoadOptions) -> Scorer:
        """A model that fills a mask."""
        from swapbias.models.masked import MaskedScorer, PermutationScorer

        permuted = model.config.model_type in self.model_types
        return (PermutationScorer if permuted else MaskedScorer).wrap(model, tokenizer, model_id, load)


class Classifier(Kind):
    """Sentiment systems: text classifiers of transformers, models trained here, VADER, Python functions."""

    name = "classifier"
    default = VADER
    architectures = ("ForSequenceClassification",)
    readings: Mapping[str, Reading] = {
        "": Reading((Column("score", _POSITIVE, "more positive sentiment"),)),
        "negative_label": Reading(
            (
                Column("score", "share of negative labels", "negative label"),
                Column("positive_probability", _POSITIVE, "more positive sentiment"),
            ),
            "attitude:NegativeLabelScorer",
        ),
    }

    def of_head(self, model: str, config: Any, request: Request) -> str:
        """``regression`` where the head gives a raw score."""
        from swapbias.models.classifier import head_kind

        return head_kind(model, config, kind=request.kind, function=request.load.function_to_apply)

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        """A raw score does where no label is asked for."""
        if found == REGRESSION:
            yield (
                ("", f"it needs a label, and {short_name(request.model)} gives a raw score")
                if experiment.reading
                else (request.model or "", "")
            )
        else:
            yield from super().fits(experiment, request, found)

    def claims(self, model: str) -> bool:
        """VADER, ``module:function``, and folders of ``swapbias train``."""
        return model == VADER or is_callable(model) or is_trained_here(model)

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        """By the form of its name."""
        from swapbias.models import classifier

        load = request.load
        if model == VADER:
            return classifier.VaderScorer()
        if is_trained_here(model):
            from swapbias.models.sentiment.models import load_sentiment_model

            return load_sentiment_model(model, batch_size=load.batch_size, allow_pickle=load.allow_pickle, say=say)
        if is_callable(model):
            return classifier.CallableScorer.load(model, batch_size=load.batch_size)
        return classifier.TextClassifierScorer.load(model, load, kind=request.kind)

    def wrap(self, model: Any, tokenizer: Any, *, model_id: str, load: LoadOptions) -> Scorer:
        """A text classifier."""
        from swapbias.models.classifier import TextClassifierScorer

        return TextClassifierScorer.wrap(model, tokenizer, model_id, load, kind=self.name)


class Regression(Classifier):
    """Text classifiers of transformers whose head gives a raw score: regressions, reward models.

    They read the experiments of classifiers that need no label.
    """

    name = REGRESSION
    default = ""
    readings: Mapping[str, Reading] = {"": Reading((Column("score", RAW, "higher score", *_ANY),))}

    def claims(self, model: str) -> bool:
        """Only a config says so."""
        return False


class Causal(Kind):
    """Models that continue a text."""

    name = "causal"
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

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        """A checkpoint of transformers."""
        from swapbias.models.causal import CausalScorer

        return CausalScorer.load(model, request.load)

    def wrap(self, model: Any, tokenizer: Any, *, model_id: str, load: LoadOptions) -> Scorer:
        """A model that continues a text."""
        from swapbias.models.causal import CausalScorer

        return CausalScorer.wrap(model, tokenizer, model_id, load)


def is_trained_here(model: str) -> bool:
    """Whether a folder holds a model of ``swapbias train`` that transformers does not read (bow, bilstm)."""
    if not is_there(Path(model) / "training.json"):
        return False
    from swapbias.models.sentiment.models import is_sentiment_folder

    return is_sentiment_folder(model)


MASKED, CLASSIFIER, REGRESSOR, CAUSAL = Masked(), Classifier(), Regression(), Causal()
