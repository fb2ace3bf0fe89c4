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
from swapbias.measures import MEASURES, Estimate, Measure, Unit, intervals, record, units
from swapbias.studies import (
    JUDGED,
    Experiment,
    corpora,
    load_study,
    own_studies,
    published as paper_numbers,
)

_MINORITY = 0.25  # share of differing pairs: fewer in the other direction are exceptions
_WHOLE_MASS = "closed_list_mass"  # the score column of words however rare
_ROUNDING = 1e-6  # cosines and probabilities are stored as float32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finding(record.Record):
    """One estimate and everything needed to read it.

    Numbers are NaN, and texts blank, for measures that they are not of.

    >>> finding = Finding(
    ...     study="occupation_sentiment", experiment="control", model_id="toy", measure="paired_gap",
    ...     contrast="female - male", unit="probability of positive sentiment", estimate=Estimate(-0.02, n=20),
    ... )
    >>> finding.estimate.value, finding.row()["value"], finding.slice_by
    (-0.02, -0.02, 'all')
    """

    study: str
    """Name of the study whose prompts were scored."""
    experiment: str
    """Name of the experiment, one question of the study."""
    model_id: str
    """The model that was audited; of a difference of two models both (``MODEL - REFERENCE``)."""
    score: str = "score"
    """The score column: ``score`` is the published one."""
    measure: str
    """One of ``measures.MEASURES``."""
    contrast: str
    """The difference that is measured (``female - male``), or the group of a mean."""
    group: str = ""
    """Of a gap the first group; of an effect the first factor's level."""
    reference_group: str = ""
    """Of a gap the group that is subtracted; of an effect the first factor's level that is subtracted."""
    within: str = ""
    """Of a difference of gaps the first set of conditions; of an interaction the second factor's level."""
    against: str = ""
    """Of a difference of gaps the set that is subtracted; of an interaction the second's level that is subtracted."""
    subset: str = ""
    """Part of the rows that is analysed alone; ``a - b`` for a difference of gaps."""
    slice_by: str = "all"
    """``all``, or the name of the slice whose values are analysed one by one."""
    slice_value: str = ""
    """The value of the slice; blank for ``all``."""
    unit: str
    """Name of the unit of the scores."""
    unit_low: float = math.nan
    """The least score there can be; NaN where that is not known or has no end."""
    unit_high: float = math.nan
    """The largest score there can be; NaN where that is not known or has no end."""
    own_unit: str = ""
    """What the model itself gives, where its study takes that as its unit (``score``); blank: the same."""
    cluster_vars: str = ""
    """The random factors of interval and p-value (``templates + diagnoses``); blank: these rows only."""
    fixed: str = ""
    """The levels that the claim is about alone (``3 topics``), of own prompts; blank: none."""
    view: str = ""
    """``AS_PUBLISHED`` for the paper's own statistic, ``INDEPENDENT`` for that of a study of the user's, which has no
    paper; blank for that of the design."""
    primary: bool = False
    """Whether it answers the question of its experiment."""
    questions: int = 1
    """The number of findings over which interval and p-value are simultaneous. For a primary finding these are the
    primary questions of the run, for a row of a table its rows."""
    estimate: Estimate
    """Value, interval, p-value and counts; its fields are columns of their own in a table."""
    baseline: float = math.nan
    """Of a gap the mean score of the reference group, in the unit of the scores."""
    is_rate: bool = False
    """Of a gap: whether scores say how often something happens (0 and 1, or shares of such)."""
    ratio: float = math.nan
    """For a gap between rates: the group's rate divided by that of the reference group, 1 if they are equal. For
    rates whose mean lies above .9 it is the ratio of their complements."""
    ratio_std_error: float = math.nan
    """Standard error of the natural log of ``ratio``."""
    ratio_df: float = math.nan
    """Degrees of freedom of the natural log of ``ratio``."""
    ratio_skewness: float = 0.0
    """Skewness of the natural log of ``ratio``."""
    row_mean: float = math.nan
    """The plain mean of the pairs of a gap in which levels count alike, or that is no mean; NaN where that is the
    value."""
    mean_absolute: float = math.nan
    """Of a paired gap the mean of the pairs' distances from 0."""
    median_absolute: float = math.nan
    """Of a paired gap the median of the pairs' distances from 0."""
    minority_sign: float = math.nan
    """Of a paired gap the share of the differing pairs that differ in the rarer direction, 0 to .5."""
    repeated_share: float = math.nan
    """The share of the rows that have the commonest score or answer; NaN for scores of 0 and 1."""
    unread_share: float = math.nan
    """The share of the rows that are unread, refused, or look like an error."""
    minimum_detectable_effect: float = math.nan
    """The smallest gap that such an audit finds in four of five times, in the unit of the value."""
    margin: float = math.nan
    """A gap below it counts as none, in the unit of the value."""
    verdict: str = ""
    """``gap`` (the interval leaves out 0), also ``within the margin`` or ``not robust`` (to rewordings), ``no gap``
    (the interval is within the margin), ``undecided``, ``not measured``, ``too few levels``."""
    reason: str = ""
    """Why a finding is ``not measured``, one of ``UNMEASURED_REASONS``; blank for every other verdict."""
    loo_min: float = math.nan
    """Of a primary finding its least value without one template or condition at a time."""
    loo_max: float = math.nan
    """Of a primary finding its largest value without one template or condition at a time."""
    largest_influence: str = ""
    """Of a primary finding the item without which its value moves most, as JSON: factor, item and that value."""
    influential_items: str = ""
    """For a primary finding: what could change its verdict, as JSON of ``influences``; blank for nothing."""
    sign_agreement: float = math.nan
    """Of a primary finding: the share of paraphrases in which it has its sign."""
    missing_data_low: float = math.nan
    """The least value, whatever the scores that are missing."""
    missing_data_high: float = math.nan
    """The largest value, whatever the scores that are missing."""
    higher_group: str = ""
    """Of a rate: the group with the higher one, or with more positives; blank where they are equal."""
    only_group: float = math.nan
    """Of a flip rate: the number of notes that are positive in the version of the group alone."""
    only_reference: float = math.nan
    """Of a flip rate: the number of notes that are positive in the version of the reference group alone."""
    published: paper_numbers.Published | None = None
    """The published number beside it; None where there is none."""

    @property
    def scale(self) -> Unit:
        """Return the unit with its range."""
        unit = units.named_unit(self.unit, self.unit_low, self.unit_high)
        if unit.taken_from == self.own_unit:
            return unit
        return replace(unit, taken_from=self.own_unit)

    @property
    def level(self) -> float:
        """Return 1 less the coverage of its interval: .05, less where several questions share it."""
        return LEVEL / self.questions

    @property
    def ratio_interval(self) -> tuple[float, float]:
        """Return the ends of the interval of ``ratio``, of the same coverage as that of the gap; NaN without one."""
        if not self.ratio > 0:
            return math.nan, math.nan
        log = math.log(self.ratio)
        low, high = intervals.t_ends(
            log, self.ratio_std_error, self.ratio_df, 1 - self.level, self.ratio_skewness
        )
        return math.exp(low), math.exp(high)

    @property
    def mean_level(self) -> float:
        """Return the mean of the two rates of a gap between rates, from 0 to 1; NaN for other gaps."""
        if not self.is_rate:
            return math.nan
        return (self.baseline + self.estimate.value / 2 - self.scale.low) / self.scale.span

    @property
    def has_high_rate(self) -> bool:
        """Tell whether the mean of two rates lies above .9, so that the ratio of their complements is looked at."""
        return self.mean_level > 1 - RARE

    @property
    def has_rare_rate(self) -> bool:
        """Tell whether the mean of two rates lies below .1 or above .9, where points alone would let much pass."""
        return self.mean_level < RARE or self.has_high_rate

    def has_mixed_signs(self, margin: float) -> bool:
        """Tell whether most pairs differ by more than the margin, in both directions.

        Args:
            margin: a gap below it counts as none, in the unit of the value.
        """
        return self.median_absolute > margin and self.minority_sign >= _MINORITY

    def position(self, margin: float) -> str:
        """Return where the interval lies: ``within`` the margin, wholly ``beyond`` it, or ``across``.

        Rates whose mean lies below .1 or above .9 must lie within the margin and within a ratio of .8 to 1.25: 5
        points alone would let 2 % pass beside 6 %.

        Args:
            margin: a gap below it counts as none, in the unit of the value.
        """
        position_in_points = _position(
            (self.estimate.ci_low, self.estimate.ci_high), (-margin, margin)
        )
        if not self.has_rare_rate:
            return position_in_points
        positions = {position_in_points, _position(self.ratio_interval, RATIO_MARGIN)}
        if "beyond" in positions:
            return "beyond"
        return "within" if positions == {"within"} else "across"

    @property
    def tests_all_groups(self) -> bool:
        """Tell whether it is the test of all groups at once: of their means, or of their gaps in two sets."""
        return self.contrast in (ALL, ALL_GAPS)

    @property
    def bounds(self) -> list[float]:
        """Return ``missing_data_low`` and ``missing_data_high``; empty where they are not known."""
        ends = (self.missing_data_low, self.missing_data_high)
        return [end for end in ends if not math.isnan(end)]

    @property
    def influences(self) -> list[list[str]]:
        """Return what could turn a primary finding: change, factor and item, the largest first.

        The change is the verdict without the item, or ``sign`` for a gap in the other direction. Of a score with the
        other sign (``score``), or of another answer (``zero``), its name and value; ``more``: how many items
        more.
        """
        return json.loads(self.influential_items) if self.influential_items else []

    @property
    def carrier(self) -> tuple[str, str, float] | None:
        """Return ``largest_influence``: factor, item and the value without it; None for no such item."""
        if not self.largest_influence:
            return None
        factor, item, value = json.loads(self.largest_influence)
        return factor, item, float(value)

    def row(self) -> dict[str, Any]:
        """Return the finding as one flat row by column; numbers are native, NaN where undefined."""
        columns = _flat(self)
        del columns["estimate"], columns["published"]
        published = _flat(self.published or paper_numbers.Published())
        columns |= _flat(self.estimate)
        return columns | {f"published_{name}": value for name, value in published.items()}

    def key(self) -> tuple[str, ...]:
        """Return what a published number is matched on."""
        return (
            self.experiment,
            self.subset,
            self.measure,
            self.contrast,
            self.slice_by,
            self.slice_value,
        )

    @property
    def record(self) -> Measure:
        """Return what is known of its measure."""
        return MEASURES[self.measure]


def _position(interval: tuple[float, float], ends: tuple[float, float]) -> str:
    """Return where an interval lies beside a margin; ``across`` where there is no interval."""
    low, high = interval
    if ends[0] < low and high < ends[1]:
        return "within"
    return "beyond" if low > ends[1] or high < ends[0] else "across"


def _flat(record: Any) -> dict[str, Any]:
    """Return the fields of a record of plain values: ``asdict`` would copy each of them."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def as_unmeasured(finding: Finding, reason: str = SAME_SCORE) -> Finding:
    """Return the finding without value, interval and p-value, for the model measured nothing.

    Args:
        finding: any finding.
        reason: one of ``UNMEASURED_REASONS``.
    """
    estimate = finding.estimate
    counts = Estimate(
        math.nan,
        n=estimate.n,
        n_unscored=estimate.n_unscored,
        test="none",
        interval=estimate.interval,
    )
    return replace(finding, estimate=counts, verdict=UNMEASURED, reason=reason)


def primary_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that answer the questions of their experiments, by the inference of their designs.

    Args:
        findings: the findings of any runs.
    """
    return [finding for finding in findings if finding.primary]


def comparisons(
    findings: Iterable[Finding], *, rates: bool = False, views: bool = False
) -> list[Finding]:
    """Return the comparisons over all rows, primary ones first, those across a slice and those of a judge last.

    Means of one group are no comparisons.

    Args:
        findings: the findings of any runs.
        rates: with those that have a table of their own.
        views: with the papers' statistics and other scores.
    """
    all_findings = list(findings)
    answers = {
        (finding.study, finding.model_id, *finding.key())
        for finding in all_findings
        if finding.primary
    }

    def rank(finding: Finding) -> int:
        key = (finding.study, finding.model_id, *finding.key())
        if finding.score == "score" and key in answers:
            return 0
        return 2 if finding.record.across or finding.score == JUDGED else 1

    listed = [finding for finding in all_findings if _is_listed(finding, rates, views)]
    return sorted(listed, key=rank)


def _is_listed(finding: Finding, rates: bool, views: bool) -> bool:
    """Tell whether a finding stands among comparisons, with rates and views where these are wanted."""
    record = finding.record
    of_design = views or (finding.score == "score" and not finding.view)
    if not record.comparison or not of_design:
        return False
    if finding.primary:
        return True
    is_whole = finding.slice_by == "all" or record.across
    return is_whole and (rates or not record.tabled)


def experiment_of(finding: Finding) -> Experiment | None:
    """Return the experiment of a finding as its study declares it; None where this version does not know it.

    Args:
        finding: any finding.
    """
    if finding.study not in corpora() and finding.study not in own_studies():
        return None  # at once: an error would look for the nearest name
    try:
        study = load_study(finding.study)
    except UsageError:
        return None
    experiments = (
        experiment for experiment in study.experiments if experiment.name == finding.experiment
    )
    return next(experiments, None)


def with_every_word(finding: Finding, findings: Iterable[Finding]) -> Finding | None:
    """Return the same gap of the words' whole mass, where its study counts likely words alone and it is another gap.

    Args:
        finding: a primary gap.
        findings: the findings of its run.

    Returns:
        None where every word counts, or where the two gaps differ by the margin at most.
    """
    experiment = experiment_of(finding)
    if experiment is None or experiment.kind != "masked" or not experiment.reads.word_threshold:
        return None
    key = (finding.model_id, finding.study, *finding.key())
    for candidate in findings:
        if candidate.score != _WHOLE_MASS or candidate.view:
            continue
        if (candidate.model_id, candidate.study, *candidate.key()) != key:
            continue
        distance = abs(candidate.estimate.value - finding.estimate.value)
        is_alike = distance <= finding.margin or math.isnan(candidate.estimate.value)
        return None if is_alike else candidate
    return None


def oriented(finding: Finding) -> tuple[float, str] | None:
    """Return a finding from 0 (as unequal as can be) to 1 (no measured difference), and how it was made in words.

    Args:
        finding: any finding.

    Returns:
        None where nothing was measured, the measure has no orientation, or the unit is not known: never a guess.

    Raises:
        ValueError: a value outside the range of its unit.
    """
    value = finding.estimate.value
    scale = finding.record.scale_in(finding.scale)
    if scale is None or math.isnan(value) or finding.verdict == UNMEASURED:
        return None
    tolerance = _ROUNDING * min(2.0, scale.most - scale.least)
    if not scale.least - tolerance <= value <= scale.most + tolerance:
        raise ValueError(
            f"{finding.study} {finding.experiment}: {finding.measure} of {value:g} {finding.unit}, expected "
            f"{scale.least:g} to {scale.most:g}. Check the scores."
        )
    return min(1.0, max(0.0, scale.fair(float(value)))), scale.orientation
