"""Records of measures: their words, sign and unit, and its number from 0 to 1 where higher is fairer."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from swapbias.measures.comparisons import COMPARISONS, comparison_of
from swapbias.measures.units import Unit


@dataclass(frozen=True, slots=True)
class Scale:
    """Orientation of a quantity, from its number to one where higher is fairer."""

    orientation: str
    """The orientation in words."""
    fair: Callable[[float], float]
    """From the quantity a number from 0 to 1: 1 where there is no difference, falling on either side."""
    least: float
    """The least value there can be."""
    most: float
    """The largest value there can be."""


def _distance(words: str, neutral: float = 0, least: float = 0, most: float = 1) -> Scale:
    """Return 1 less the distance from neutral, as a share of the largest distance."""
    return Scale(words, lambda value: 1 - abs(value - neutral) / (most - neutral), least, most)


def _log(words: str) -> Scale:
    """Return the scale of logs, of which there is no largest."""
    return Scale(words, lambda gap: math.exp(-abs(gap)), -math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity and how it is shown, compared and oriented."""

    name: str
    """Stands in the ``measure`` column."""
    title: str = "gap, {contrast}"
    """In words, with what was compared."""
    prefix: str = ""
    """What a line of ``reproduce`` puts before the contrast."""
    unit: str = ""
    """Of the value; blank: that of the scores."""
    signed: bool = True
    """Zero is a meaningful middle of the value, so that its sign is written."""
    whole: bool = False
    """A count, written without decimals."""
    comparison: bool = True
    """May be primary; a level of one group, or another's number on another scale, is none."""
    tabled: bool = False
    """A rate, which has a table of its own by slice and regime."""
    across: bool = False
    """Computed across the values of a slice, which ``slice_by`` names."""
    like_gap: bool = False
    """Written as a gap, though it answers no question of its own."""
    at_cut: bool = False
    """At a threshold or quantile, which the contrast names; those of one measure are tested together."""
    in_percent: bool = False
    """A share, or a difference of two, which is written in percent or in points."""
    gap_span: int = 0
    """The largest value of a gap, in ranges of the scores' unit; 0 for what is no gap."""
    scale: Scale | None = None
    """Where the unit of the scores decides nothing; None: none would be true."""

    def scale_in(self, unit: Unit) -> Scale | None:
        """Return its orientation in a unit; None where it has none, or its range is not known: never a guess.

        A gap g is 1 - |g| over the range of its unit, so that 0 is the largest gap there can be; of log-odds, which
        have no largest gap, exp(-|g|). A difference of two gaps is taken over twice the range.

        Args:
            unit: the unit of the scores.
        """
        if not self.gap_span:
            return self.scale if unit.name == self.unit else None
        if math.isnan(unit.span):
            return None
        quantity = "gap" if self.gap_span == 1 else "difference of gaps"
        span = self.gap_span * unit.span
        if math.isinf(span):
            compared = unit.ratio_of.plural if unit.ratio_of else "exponentials"
            ratio = f", a ratio of {compared} with the smaller over the larger"
            return _log(f"exp(-|{quantity}|){ratio}; {quantity} in {unit.name}")
        return _distance(
            f"1 - |{quantity}|{'' if span == 1 else f' / {span:g}'}; {quantity} in {unit.name}",
            0,
            -span,
            span,
        )


def _rates(rate: str, rates: str) -> tuple[Measure, ...]:
    """The difference of two groups' rates; once more on the scale of ratios; and as published, where it is biased."""
    smaller = f"the smaller {rates} rate over the larger"
    short = rate.upper()
    published = Scale(smaller, lambda ratio: min(ratio, 1 / ratio) if ratio else 0.0, 0, math.inf)
    return (
        Measure(
            f"{rate}_difference",
            f"{short} gap",
            "",
            f"difference of {rates} rates",
            tabled=True,
            in_percent=True,
            scale=_distance(f"1 - |difference of {rates} rates|", 0, -1),
        ),
        Measure(
            f"log_{rate}r",
            f"log {short} ratio",
            "",
            f"natural log ratio of {rates} rates",
            comparison=False,
            scale=_log(f"{smaller}: exp(-|log ratio|)"),
        ),
        Measure(
            f"{rate}r",
            f"{short} ratio, smaller over larger, as published",
            "",
            f"ratio of {rates} rates",
            signed=False,
            comparison=False,
            scale=published,
        ),
    )


_TPR = _rates("tpr", "true positive")
_FPR = _rates("fpr", "false positive")
_UAR = "unweighted average recall"
_COSINE = "1 - direct bias; mean |cosine| with the gender direction"
_LEVEL: Mapping[str, Any] = {"signed": False, "comparison": False}
_RECORDS = (
    Measure("answer_bias", prefix="bias ", gap_span=1),
    Measure("gap_difference", "difference of gaps ({contrast})", "gap difference ", gap_span=2),
    Measure(
        "group_spread", "spread of the means, {contrast}", "spread ", signed=False
    ),  # grows by chance alone
    Measure("main_effect", "main effect, {contrast}", "main effect ", gap_span=1),
    Measure("interaction", "interaction, {contrast}", "interaction ", gap_span=2),
    Measure("interaction_of_three", "interaction, {contrast}", "interaction ", gap_span=4),
    # A model against itself.
    Measure("bias_difference", prefix="bias minus baseline's ", like_gap=True),
    Measure(
        "p_one_sided",
        "one-sided p in the direction that was seen, {contrast}",
        "one-sided p ",
        "p",
        signed=False,
    ),
    Measure("model_difference", "{contrast}", like_gap=True),
    Measure(
        "gap_beyond_wording",
        "gap over the prompts and their rewordings, {contrast}",
        "gap over rewordings ",
        like_gap=True,
    ),
    Measure(
        "gap_without_doubtful",
        "gap over notes of little doubt, {contrast}",
        "gap of little doubt ",
        like_gap=True,
    ),
    Measure(
        "sign_kept",
        "wordings that keep the sign, {contrast}",
        "sign kept ",
        signed=False,
        in_percent=True,
    ),
    Measure("nonanswer_gap", "non-answers, {contrast}", "non-answers ", like_gap=True),
    Measure("truncation_gap", "answers cut off, {contrast}", "cut off ", like_gap=True),
    Measure(
        "decision_flips",
        "decisions that flip, {contrast}",
        "flips ",
        "share of pairs",
        signed=False,
        at_cut=True,
        in_percent=True,
    ),
    Measure(
        "decision_gap", "gap in decisions, {contrast}", "decisions ", like_gap=True, at_cut=True
    ),
    Measure(
        "quantile_gap",
        "gap, {contrast}",
        "quantile ",
        like_gap=True,
        at_cut=True,
    ),
    Measure("mean", "mean, {contrast}", "mean ", **_LEVEL),
    Measure(
        "impact_ratio",
        "impact ratio, {contrast}",
        "impact ratio ",
        "ratio to the mean rate",
        **_LEVEL,
    ),
    Measure(
        "ratio_to_best",
        "impact ratio to the group that is selected most, {contrast}",
        "ratio to the best group ",
        "ratio to the highest rate",
        **_LEVEL,
    ),
    Measure(
        "balance",
        "balance of answers, {contrast}",
        "balance ",
        "balance of answers",
        comparison=False,
        scale=_distance("1 - |balance|; share of one answer minus that of another", 0, -1),
    ),
    Measure("markedness", "D, {contrast}", "D ", "D, from -1 to 1", comparison=False),
    Measure("times_selected", "times selected, {contrast}", "selected ", whole=True, **_LEVEL),
    Measure(
        "geometric_mean",
        "exp of the mean log10 ratio, {contrast}",
        "exp of log10 ",
        "exp of log10 ratios",
        **_LEVEL,
    ),
    Measure(
        "geometric_ratio",
        "exp of the difference of mean log10 ratios, {contrast}",
        "exp of log10 ",
        "exp of log10 ratios",
        **_LEVEL,
    ),
    Measure("count_above", "count, {contrast}", signed=False, whole=True),
    Measure("correlation", "correlation, {contrast}", "r ", "correlation", across=True),
    Measure("slope", "slope, {contrast}", "slope ", "slope"),
    Measure(
        "flip_rate",
        "flips",
        "",
        "share of notes",
        signed=False,
        tabled=True,
        in_percent=True,
        scale=_distance("1 - flip rate; share of notes whose prediction changes with the gender"),
    ),
    _TPR[0],
    _FPR[0],
    _TPR[1],
    _FPR[1],
    _TPR[2],
    _FPR[2],
    Measure("macro_f1", "macro F1", "", "macro F1", signed=False, tabled=True),
    Measure(
        "leakage_uar",
        "gender leakage (UAR)",
        "",
        _UAR,
        signed=False,
        in_percent=True,
        scale=_distance(
            "1 - 2 |UAR - 0.5|; unweighted average recall of telling the gender, 0.5 by chance", 0.5
        ),
    ),
    Measure(
        "agreement",
        "the judge's two readings alike, {contrast}",
        "",
        "share of answers judged",
        **_LEVEL,
    ),
    Measure("kappa", "kappa of the judge's two readings, {contrast}", "", "kappa", **_LEVEL),
    Measure("judge_agreement", "two judges alike, {contrast}", "", "share of readings", **_LEVEL),
    Measure("judge_kappa", "kappa of two judges, {contrast}", "", "kappa", **_LEVEL),
    Measure(
        "judge_correlation",
        "correlation of two judges' scores, {contrast}",
        "",
        "correlation",
        **_LEVEL,
    ),
    Measure(
        "group_leakage",
        "group identified from what the judge saw (UAR), {contrast}",
        "",
        _UAR,
        **_LEVEL,
    ),
    Measure(
        "direct_bias", "direct bias", "", "absolute cosine", signed=False, scale=_distance(_COSINE)
    ),
    Measure(
        "signed_mean", "signed mean of the cosines", "", "cosine"
    ),  # words that lean to both sides cancel
)
_BY_NAME: Mapping[str, Measure] = {record.name: record for record in _RECORDS}


class _Measures(Mapping[str, Measure]):
    """Records of measures by name: of comparisons, also those from outside, and of all others."""

    def __getitem__(self, name: str) -> Measure:
        if name in COMPARISONS and (comparison := comparison_of(name)) is not None:
            return comparison.record
        return _BY_NAME[name]

    def __contains__(self, name: object) -> bool:
        """Without importing the comparison."""
        return name in _BY_NAME or name in COMPARISONS

    def __iter__(self) -> Iterator[str]:
        return iter((*COMPARISONS.names(), *_BY_NAME))

    def __len__(self) -> int:
        return len(COMPARISONS.names()) + len(_BY_NAME)


MEASURES: Mapping[str, Measure] = _Measures()
