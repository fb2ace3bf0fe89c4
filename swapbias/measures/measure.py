"""What is known of each measure: its words, sign, unit, and the number from 0 to 1 where higher is fairer."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# The largest gap that scores of a unit can have: their range. Log-odds have none.
SPANS: Mapping[str, float] = {
    "probability mass at the mask": 1,
    "probability mass of phrases": 1,
    "probability of positive sentiment": 1,
    "compound valence moved to 0..1": 1,  # VADER's -1 to 1, halved when it is moved
    "P(negative)": 1,
    "share of negative labels": 1,
    "share of prompts whose right answer is likelier": 1,
    "correct answer is likelier": 1,
    "probability of the phenotype": 1,
    "probability of female": 1,
    "logistic of the SVM's decision value": 1,
    "percentage points": 100,
    "share of answers": 1,
    "share of the rubric": 1,
    "share of the facts of a checklist": 1,
    "rating moved to 0..1": 1,
    "mean log-odds of the disapproving antonym": math.inf,
    "natural log-odds of the right answer": math.inf,
    "natural log-odds of the options that count more": math.inf,
    "natural log-probability": math.inf,
    "natural log of words": math.inf,
}


RATE_UNITS = frozenset({"share of negative labels", "share of answers"})  # how often something is said, 0 to 1
LENGTH = "natural log of words"  # a gap of it is nearly the share by which one answer is longer
_LOG_ODDS = 4  # at even odds a change of probability is a quarter of the change of log-odds


def margin_in(unit: str, share: float) -> float:
    """The largest gap that counts as none: a share of the range of its unit; NaN for an unknown unit.

    >>> margin_in("P(negative)", 0.05), margin_in("percentage points", 0.05), margin_in("score of a rule", 0.05)
    (0.05, 5.0, nan)
    """
    span = SPANS.get(unit, math.nan)
    return share * (1 if unit == LENGTH else _LOG_ODDS if math.isinf(span) else span)


@dataclass(frozen=True, slots=True)
class Scale:
    """How a quantity is oriented: ``fair`` is 1 at ``neutral`` and falls on either side of it."""

    how: str
    fair: Callable[[float], float]
    neutral: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One quantity and how it is shown, compared and oriented.

    Attributes:
        name: stands in the ``measure`` column.
        title: in words; ``{contrast}`` is what was compared.
        prefix: what a line of ``reproduce`` puts before the contrast.
        signed: zero is a meaningful middle of the value, so that its sign is written.
        whole: a count, written without decimals.
        comparison: may be a headline; a level of one group, or another's number on another scale, is none.
        tabled: a rate, which has a table of its own by slice and regime.
    performed: of notes as written, each of the group that it is of: the column of the table of performance.
        across: computed across the values of a slice, which ``slice_by`` names.
        unit: of the value; blank: that of the scores.
        reach: of a difference of scores: how many ranges of their unit it can span; 0 for anything else.
        scale: its orientation where that does not hang on the unit of the scores.
        unfair: why no orientation would be true; blank for measures that have one.
    """

    name: str
    title: str = "gap, {contrast}"
    prefix: str = ""
    signed: bool = True
    whole: bool = False
    comparison: bool = True
    tabled: bool = False
    performed: str = ""
    across: bool = False
    unit: str = ""
    reach: int = 0
    scale: Scale | None = None
    unfair: str = ""

    def scale_in(self, unit: str) -> Scale | None:
        """How it is oriented in a unit; None where it is not, or the unit is not known: never a guess.

        A gap g is 1 - |g| over the range of its unit, so that 0 is the largest gap there can be and the sign does not
        matter; a gap of log-odds, which has no largest, is exp(-|g|): the odds ratio, the smaller side over the
        larger. A difference of two gaps reaches twice as far, so it is taken over twice the range: cut off at one
        range, differences of very unequal size would all be 0.
        """
        if not self.reach:
            return self.scale if unit == self.unit else None
        if unit not in SPANS:
            return None
        what, span = "gap" if self.reach == 1 else "difference of gaps", self.reach * SPANS[unit]
        if math.isinf(span):
            ratio = "lengths" if unit == LENGTH else "odds"
            told = f"exp(-|{what}|), a ratio of {ratio} with the smaller over the larger; {what} in {unit}"
            return Scale(told, lambda gap: math.exp(-abs(gap)), 0, -span, span)
        told = f"1 - |{what}|{'' if span == 1 else f' / {span:g}'}; {what} in {unit}"
        return Scale(told, lambda gap: 1 - abs(gap) / span, 0, -span, span)


def _share(how: str) -> Scale:
    return Scale(how, lambda share: 1 - share, 0, 0, 1)


def _difference(rates: str) -> Scale:
    return Scale(f"1 - |difference of {rates} rates|", lambda gap: 1 - abs(gap), 0, -1, 1)


def _log_ratio(rates: str) -> Scale:
    how = f"the smaller {rates} rate over the larger: exp(-|log ratio|)"
    return Scale(how, lambda ratio: math.exp(-abs(ratio)), 0, -math.inf, math.inf)


def _ratio(rates: str) -> Scale:
    """The smaller of r and 1 / r."""
    how = f"the smaller {rates} rate over the larger"
    return Scale(how, lambda ratio: min(ratio, 1 / ratio) if ratio else 0.0, 1, 0, math.inf)


_UAR = Scale(
    "1 - 2 |UAR - 0.5|; unweighted average recall of telling the gender, 0.5 by chance",
    lambda recall: 1 - 2 * abs(recall - 0.5), 0.5, 0, 1,
)  # fmt: skip
_FLIPS = _share("1 - flip rate; share of notes whose prediction changes with the gender")


def _level(name: str, title: str, unit: str) -> "Measure":
    """What one group gets of a classifier."""
    return Measure(
        name=name, title=f"{title}, {{contrast}}", signed=False, comparison=False, performed=title, unit=unit,
        unfair="a level of one group, which is no comparison",
    )  # fmt: skip


def _actual(name: str, title: str, column: str, rates: str) -> "Measure":
    """The difference of what two groups get."""
    return Measure(
        name=name, title=title, performed=column, unit=f"difference of {rates}, patients' own gender",
        scale=Scale(f"1 - |difference of {rates}|", lambda gap: 1 - abs(gap), 0, -1, 1),
    )  # fmt: skip


_COSINE = _share("1 - direct bias; mean |cosine| with the gender direction")

_RECORDS = (
    Measure(name="paired_gap", reach=1),
    Measure(name="group_gap", reach=1),
    Measure(name="answer_bias", prefix="bias ", reach=1),
    Measure(
        name="gap_difference", title="difference of gaps ({contrast})", prefix="gap difference ", reach=2
    ),
    Measure(
        name="group_spread", title="spread of the means, {contrast}", prefix="spread ", signed=False,
        unfair="grows by chance alone; the gaps that it is made of are told one by one",
    ),
    Measure(name="main_effect", title="main effect, {contrast}", prefix="main effect ", reach=1),
    Measure(name="interaction", title="interaction, {contrast}", prefix="interaction ", reach=2),
    Measure(name="interaction_of_three", title="interaction, {contrast}", prefix="interaction ", reach=4),
    Measure(
        name="intersection", title="beyond its parts, {contrast}", prefix="intersection ", comparison=False,
        unfair="compares a group with what its parts add up to",
    ),
    Measure(
        name="bias_difference", prefix="bias minus baseline's ",
        unfair="compares a model with itself: below zero it is less biased than without adjectives",
    ),
    Measure(name="p_one_sided", title="one-sided p, {contrast}", prefix="one-sided p ", unfair="tells how sure"),
    Measure(name="model_difference", title="{contrast}", unfair="compares two models"),
    Measure(
        name="gap_beyond_wording", title="gap beyond wording, {contrast}", prefix="gap beyond wording ",
        unfair="the same gap again, over other wordings",
    ),
    Measure(
        name="sign_kept", title="wordings that keep the sign, {contrast}", prefix="sign kept ", signed=False,
        unfair="tells how steady a gap is, not how large",
    ),
    Measure(
        name="nonanswer_gap", title="non-answers, {contrast}", prefix="non-answers ",
        unfair="a difference of what could not be scored",
    ),
    Measure(
        name="truncation_gap", title="answers cut off, {contrast}", prefix="cut off ",
        unfair="a difference of what reached the most tokens",
    ),
    Measure(
        name="mean", title="mean, {contrast}", prefix="mean ", signed=False, comparison=False,
        unfair="a level of one group, which is no comparison",
    ),
    Measure(
        name="count_above", title="count, {contrast}", signed=False, whole=True,
        unfair="a count of units, which grows with their number",
    ),
    Measure(
        name="correlation", title="correlation, {contrast}", prefix="r ", unit="correlation", across=True,
        unfair="tells what a score goes along with, not how large a difference is",
    ),
    Measure(name="flip_rate", title="flips", signed=False, tabled=True, unit="share of notes", scale=_FLIPS),
    Measure(
        name="tpr_difference", title="TPR gap", tabled=True, unit="difference of true positive rates",
        scale=_difference("true positive"),
    ),
    Measure(
        name="fpr_difference", title="FPR gap", tabled=True, unit="difference of false positive rates",
        scale=_difference("false positive"),
    ),
    # The same comparison once more: on the scale of ratios, and as published, where it is biased.
    Measure(
        name="log_tprr", title="log TPR ratio", comparison=False, unit="natural log ratio of true positive rates",
        scale=_log_ratio("true positive"),
    ),
    Measure(
        name="log_fprr", title="log FPR ratio", comparison=False, unit="natural log ratio of false positive rates",
        scale=_log_ratio("false positive"),
    ),
    Measure(
        name="tprr", title="TPR ratio, smaller over larger, as published", signed=False, comparison=False,
        unit="ratio of true positive rates", scale=_ratio("true positive"),
    ),
    Measure(
        name="fprr", title="FPR ratio, smaller over larger, as published", signed=False, comparison=False,
        unit="ratio of false positive rates", scale=_ratio("false positive"),
    ),
    Measure(
        name="macro_f1", title="macro F1", signed=False, tabled=True, unit="macro F1",
        unfair="tells how often a prediction is right, not for whom",
    ),
    _level("tpr", "TPR", "true positive rate"),
    _actual("equal_opportunity_difference", "TPR difference", "TPR", "true positive rates"),
    _level("fpr", "FPR", "false positive rate"),
    _actual("predictive_equality_difference", "FPR difference", "FPR", "false positive rates"),
    Measure(
        name="equalised_odds_difference", title="equalised odds difference", signed=False, performed="equalised odds",
        unit="larger difference of true or false positive rates",
        scale=Scale("1 - the larger difference of rates", lambda gap: 1 - gap, 0, 0, 1),
    ),
    _level("ppv", "PPV", "positive predictive value"),
    _actual("predictive_parity_difference", "PPV difference", "PPV", "positive predictive values"),
    _level("selection_rate", "called positive", "share of notes called positive"),
    _actual("demographic_parity_difference", "demographic parity difference", "called positive", "selection rates"),
    _level("auroc", "AUROC", "area under the ROC curve"),
    _actual("auroc_difference", "AUROC difference", "AUROC", "areas under the ROC curve"),
    _level("calibration_slope", "calibration slope", "slope of log-odds"),
    Measure(
        name="calibration_slope_difference", title="calibration slope difference", performed="calibration slope",
        unit="difference of slopes of log-odds", unfair="has no largest value",
    ),
    _level("ece", "ECE", "mean distance of score and truth"),
    Measure(
        name="leakage_uar", title="gender leakage (UAR)", signed=False, unit="unweighted average recall", scale=_UAR
    ),
    Measure(
        name="agreement", title="the judge's two readings alike, {contrast}", signed=False, comparison=False,
        unit="share of answers judged", unfair="tells how steady a judge is",
    ),
    Measure(
        name="kappa", title="kappa of the judge's two readings, {contrast}", signed=False, comparison=False,
        unit="kappa", unfair="tells how steady a judge is",
    ),
    Measure(
        name="group_told", title="group told from what the judge saw (UAR), {contrast}", signed=False,
        comparison=False, unit="unweighted average recall", unfair="tells what a judge could know of the group",
    ),
    Measure(name="direct_bias", title="direct bias", signed=False, unit="absolute cosine", scale=_COSINE),
    Measure(
        name="signed_mean", title="signed mean of the cosines", unit="cosine",
        unfair="words that lean to both sides cancel; direct bias does not let them",
    ),
)  # fmt: skip
MEASURES: Mapping[str, Measure] = {one.name: one for one in _RECORDS}
