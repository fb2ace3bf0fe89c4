"""The Finding; which findings a report shows first; findings as numbers where higher is fairer."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from swapbias.errors import UsageError
from swapbias.findings.terms import (
    ALL,
    ALL_GAPS,
    LEVEL,
    RARE,
    RATIO_MARGIN,
    SAME_SCORE,
    UNMEASURED,
)
from swapbias.measures import (
    MEASURES,
    Estimate,
    Record,
    Unit,
    named_unit,
    t_ends,
)
from swapbias.studies import JUDGED, Experiment, load_study, tables

_MINORITY = 0.25  # share of differing pairs: fewer in the other direction are exceptions
_WHOLE_MASS = "closed_list_mass"  # the score column of words however rare
_ROUNDING = 1e-6  # cosines and probabilities are stored as float32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finding(Record):
    """One estimate and everything needed to read it.

    >>> one = Finding(
    ...     study="occupation_sentiment", experiment="control", model_id="toy", measure="paired_gap",
    ...     contrast="female - male", unit="probability of positive sentiment", estimate=Estimate(-0.02, n=20),
    ... )
    >>> one.estimate.value, one.row()["value"], one.slice_by
    (-0.02, -0.02, 'all')

    Attributes:
        study, experiment, model_id: what was audited.
        score: the score column: ``score`` is the published one.
        measure: one of ``measures.MEASURES``.
        contrast: what is subtracted from what, or the group of a mean.
        group, reference_group: of a gap the group and the one that is subtracted; of an effect the first's levels.
        within, against: of a difference of gaps the two sets of conditions; of an interaction the second's levels.
        subset: part of the rows that is analysed alone; ``a - b`` for a difference of gaps.
        slice_by, slice_value: ``all``, or the slice and its value.
        cluster_vars: the random factors of interval and p-value (``templates + diagnoses``); blank: these rows only.
        fixed: the levels that the claim is about alone (``3 topics``), of own prompts; blank: none.
        view: ``AS_PUBLISHED`` for the paper's own statistic, ``INDEPENDENT`` for that of a study of the user's, which
            has no paper; blank for that of the design.
        primary: it answers the question of its experiment.
        questions: how many findings the interval and the p-value hold for at once: of a primary finding the primary
            questions of the run, of a row of a table its rows.
        baseline: of a gap the mean score of the reference group.
        is_rate: of a gap: whether scores say how often something happens (0 and 1, or shares of such).
        ratio: of a gap between rates: the group's rate over that of the reference group, and of rates whose mean lies
            above .9 of their complements; ``ratio_std_error``, ``ratio_df`` and ``ratio_skewness`` are of its
            natural log.
        row_mean: the plain mean of the pairs of a gap in which levels count alike, or that is no mean; NaN where that
            is the value.
        mean_absolute, median_absolute: of a paired gap the mean and the median of the pairs' distances from 0.
        minority_sign: of a paired gap the share of the differing pairs that differ in the rarer direction.
        repeated_share: the share of the rows that have the commonest score or answer; NaN for scores of 0 and 1.
        unread_share: the share of the rows that are unread, refused, or look like an error.
        minimum_detectable_effect: the smallest gap that such an audit finds in four of five times.
        margin: a gap below it counts as none, in the unit of the value.
        verdict: ``gap`` (the interval leaves out 0), also ``within the margin`` or ``not robust`` (to rewordings),
            ``no gap`` (the interval is within the margin), ``undecided``, ``not measured``, ``too few levels``.
        reason: why a finding is ``not measured``, one of ``UNMEASURED_REASONS``; blank for every other verdict.
        loo_min, loo_max: of a primary finding: the range of its value without one template or condition at a time.
        influential_items: of a primary finding: what could turn it, as JSON of ``influences``; blank for nothing.
        sign_agreement: of a primary finding: the share of paraphrases in which it has its sign.
        missing_data_low, missing_data_high: the least and the largest value, whatever the scores that are missing.
        higher_group: of a rate: the group with the higher one, or with more positives; blank where they are equal.
        only_group, only_reference: of a flip rate: the number of notes that are positive in the version of the group
            alone, and in that of the reference group alone.
        unit, unit_low, unit_high: what the scores are, and their range; NaN where that is not known or has no end.
        own_unit: what the model itself gives, where its study takes that as its unit (``score``); blank: the same.
        published: the published number beside it, if there is one.

    Numbers are NaN, and texts blank, for other measures.
    """

    study: str
    experiment: str
    model_id: str
    score: str = "score"
    measure: str
    contrast: str
    group: str = ""
    reference_group: str = ""
    within: str = ""
    against: str = ""
    subset: str = ""
    slice_by: str = "all"
    slice_value: str = ""
    unit: str
    unit_low: float = math.nan
    unit_high: float = math.nan
    own_unit: str = ""
    cluster_vars: str = ""
    fixed: str = ""
    view: str = ""
    primary: bool = False
    questions: int = 1
    estimate: Estimate
    baseline: float = math.nan
    is_rate: bool = False
    ratio: float = math.nan
    ratio_std_error: float = math.nan
    ratio_df: float = math.nan
    ratio_skewness: float = 0.0
    row_mean: float = math.nan
    mean_absolute: float = math.nan
    median_absolute: float = math.nan
    minority_sign: float = math.nan
    repeated_share: float = math.nan
    unread_share: float = math.nan
    minimum_detectable_effect: float = math.nan
    margin: float = math.nan
    verdict: str = ""
    reason: str = ""
    loo_min: float = math.nan
    loo_max: float = math.nan
    influential_items: str = ""
    sign_agreement: float = math.nan
    missing_data_low: float = math.nan
    missing_data_high: float = math.nan
    higher_group: str = ""
    only_group: float = math.nan
    only_reference: float = math.nan
    published: tables.Published | None = None

    @property
    def scale(self) -> Unit:
        """The unit with its range."""
        return replace(
            named_unit(self.unit, self.unit_low, self.unit_high), taken_from=self.own_unit
        )

    @property
    def level(self) -> float:
        """1 less the coverage of its interval: .05, less where several questions share it."""
        return LEVEL / self.questions

    @property
    def ratio_interval(self) -> tuple[float, float]:
        """Ends of the interval of ``ratio``, of the same coverage as that of the gap; NaN without one."""
        if not self.ratio > 0:
            return math.nan, math.nan
        log = math.log(self.ratio)
        low, high = t_ends(
            log, self.ratio_std_error, self.ratio_df, 1 - self.level, self.ratio_skewness
        )
        return math.exp(low), math.exp(high)

    @property
    def mean_level(self) -> float:
        """Of a gap between rates the mean of both, from 0 to 1; NaN for other gaps."""
        if not self.is_rate:
            return math.nan
        return (self.baseline + self.estimate.value / 2 - self.scale.low) / self.scale.span

    @property
    def has_high_rate(self) -> bool:
        """Whether the mean of two rates lies above .9, so that the ratio of their complements is looked at."""
        return self.mean_level > 1 - RARE

    @property
    def has_rare_rate(self) -> bool:
        """Whether the mean of two rates lies below .1 or above .9, where points alone would let much pass."""
        return self.mean_level < RARE or self.has_high_rate

    def has_mixed_signs(self, margin: float) -> bool:
        """Whether most pairs differ by more than the margin, in both directions."""
        return self.median_absolute > margin and self.minority_sign >= _MINORITY

    def position(self, margin: float) -> str:
        """Where the interval lies: ``within`` the margin, wholly ``beyond`` it, or ``across``.

        Rates whose mean lies below .1 or above .9 must lie within the margin and within a ratio of .8 to 1.25: 5
        points alone would let 2 % pass beside 6 %.
        """
        points = _position((self.estimate.ci_low, self.estimate.ci_high), (-margin, margin))
        if not self.has_rare_rate:
            return points
        both = {points, _position(self.ratio_interval, RATIO_MARGIN)}
        if "beyond" in both:
            return "beyond"
        return "within" if both == {"within"} else "across"

    @property
    def tests_all_groups(self) -> bool:
        """Whether it is the test of all groups at once: of their means, or of their gaps in two sets."""
        return self.contrast in (ALL, ALL_GAPS)

    @property
    def bounds(self) -> list[float]:
        """``missing_data_low`` and ``missing_data_high``; empty where they are not known."""
        return [
            end for end in (self.missing_data_low, self.missing_data_high) if not math.isnan(end)
        ]

    @property
    def influences(self) -> list[list[str]]:
        """What could turn a primary finding: change, factor and item, the largest first.

        The change is the verdict without the item, or ``sign`` for a gap in the other direction. Of a score with the
        other sign (``score``) its name and value; ``more``: how many items more.
        """
        return json.loads(self.influential_items) if self.influential_items else []

    def row(self) -> dict[str, Any]:
        """The finding as one flat row; numbers are native, NaN where undefined."""
        own = {
            name: value
            for name, value in _flat(self).items()
            if name not in ("estimate", "published")
        }
        published = {
            f"published_{name}": value
            for name, value in _flat(self.published or tables.Published()).items()
        }
        return {**own, **_flat(self.estimate), **published}

    def key(self) -> tuple[str, ...]:
        """What a published number is matched on."""
        return (
            self.experiment,
            self.subset,
            self.measure,
            self.contrast,
            self.slice_by,
            self.slice_value,
        )


def _position(interval: tuple[float, float], ends: tuple[float, float]) -> str:
    """Return where an interval lies beside a margin; ``across`` where there is no interval."""
    low, high = interval
    if ends[0] < low and high < ends[1]:
        return "within"
    return "beyond" if low > ends[1] or high < ends[0] else "across"


def _flat(record: Any) -> dict[str, Any]:
    """The fields of a record of plain values: ``asdict`` would copy each of them."""
    return {one.name: getattr(record, one.name) for one in fields(record)}


def primary_findings(found: Iterable[Finding]) -> list[Finding]:
    """The findings that answer the questions of their experiments, by the inference of their designs."""
    return [one for one in found if one.primary]


def comparisons(
    found: Iterable[Finding], *, rates: bool = False, views: bool = False
) -> list[Finding]:
    """The comparisons over all rows, primary ones first, those across a slice and those of a judge last; no means.

    ``rates``: with those that have a table of their own; ``views``: with the papers' statistics and other scores.
    """
    every = list(found)
    answers = {(one.study, one.model_id, *one.key()) for one in every if one.primary}

    def shown(one: Finding) -> bool:
        record = MEASURES[one.measure]
        whole = one.slice_by == "all" or record.across
        of_design = views or (one.score == "score" and not one.view)
        return (
            record.comparison
            and (one.primary or (whole and (rates or not record.tabled)))
            and of_design
        )

    def rank(one: Finding) -> int:
        if one.score == "score" and (one.study, one.model_id, *one.key()) in answers:
            return 0
        return 2 if MEASURES[one.measure].across or one.score == JUDGED else 1

    return sorted(filter(shown, every), key=rank)


def experiment_of(finding: Finding) -> Experiment | None:
    """What its study declares of a finding's experiment; None where this version does not know it."""
    try:
        study = load_study(finding.study)
    except UsageError:
        return None
    return next((one for one in study.experiments if one.name == finding.experiment), None)


def with_every_word(finding: Finding, found: Iterable[Finding]) -> Finding | None:
    """The same gap of the words' whole mass, where its study counts likely words alone and that is another gap.

    Args:
        finding: a primary gap.
        found: the findings of its run.

    Returns:
        None where every word counts, or where the two gaps differ by the margin at most.
    """
    experiment = experiment_of(finding)
    if experiment is None or experiment.kind != "masked" or not experiment.reads.word_threshold:
        return None
    place = (finding.model_id, finding.study, *finding.key())
    for other in found:
        if (
            other.score == _WHOLE_MASS
            and not other.view
            and (other.model_id, other.study, *other.key()) == place
        ):
            distance = abs(other.estimate.value - finding.estimate.value)
            return None if distance <= finding.margin or math.isnan(other.estimate.value) else other
    return None


def oriented(finding: Finding) -> tuple[float, str] | None:
    """A finding from 0 (as unequal as can be) to 1 (no measured difference), and how it was made in words.

    None where nothing was measured, the measure has no orientation, or the unit is not known: never a guess.
    ValueError: a value outside the range of its unit.
    """
    value = finding.estimate.value
    scale = MEASURES[finding.measure].scale_in(finding.scale)
    if scale is None or math.isnan(value) or finding.verdict == UNMEASURED:
        return None
    room = _ROUNDING * min(2.0, scale.most - scale.least)
    if not scale.least - room <= value <= scale.most + room:
        raise ValueError(
            f"{finding.study} {finding.experiment}: {finding.measure} of {value:g} {finding.unit}, expected "
            f"{scale.least:g} to {scale.most:g}. Check the scores."
        )
    return min(1.0, max(0.0, scale.fair(float(value)))), scale.how


def as_unmeasured(finding: Finding, reason: str = SAME_SCORE) -> Finding:
    """Return the finding without value, interval and p-value: the model measured nothing, for ``reason``."""
    estimate = finding.estimate
    counts = Estimate(
        math.nan,
        n=estimate.n,
        n_unscored=estimate.n_unscored,
        test="none",
        interval=estimate.interval,
    )
    return replace(finding, estimate=counts, verdict=UNMEASURED, reason=reason)
