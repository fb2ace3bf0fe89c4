"""What a run can find before it is made: the smallest gap, and how many levels of its random factors others need."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from swapbias.findings.analysis import experiment_findings
from swapbias.findings.compared_units import Units, primary_rows
from swapbias.findings.context import Context
from swapbias.findings.families import corrected_for_questions
from swapbias.findings.finding import Finding, primary_findings
from swapbias.findings.marking import with_primary
from swapbias.findings.planned_spreads import (
    Codes,
    EarlierRun,
    Spreads,
    declared_spreads,
    design_of,
    factors_of,
)
from swapbias.findings.question_findings import question_findings
from swapbias.findings.scored_rows import ANSWERS, CHANGE, condition_means, over_prompts
from swapbias.findings.terms import FEWEST, SPREAD
from swapbias.findings.unit_rows import gap_units
from swapbias.measures import MEASURES, Design, Unit, random_factors
from swapbias.studies import Experiment, Study

SHARES = (0.02, 0.05, 0.1)
"""Gaps of a plan's table: shares of the range of a unit, or what a margin makes of them."""
# Levels of one random factor on a side that are tried at most.
_MOST_LEVELS = 10_000
# Units of a design that is enlarged at most: more take seconds.
_MOST_UNITS = 200_000
# Times the units: more levels of all factors are not tried where the scarcest alone take no more.
_CHEAP = 2.0
# Share of the variance that one factor adds, below which another is not enlarged beside it.
_LEAST_SHARE = 0.25
Rows = Iterable[Mapping[str, Any]]
"""Prompts, one mapping of columns a row."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Size that a design must have to find a gap."""

    gap: float
    """The gap, in the unit of the score."""
    levels: Mapping[str, int]
    """By the name of a random factor the number of its levels, on all sides together."""
    times: float
    """Number of its units over that of the planned design."""
    is_found: bool = True
    """Whether that is enough; else no design finds the gap that has as many units as are tried."""


@dataclass(frozen=True, slots=True)
class PlannedGap:
    """A primary gap of a planned run."""

    finding: Finding
    """The finding that it will be, with a value that means nothing."""
    units: Units
    """The units that it will be the mean of."""
    spreads: Spreads | None
    """How far effects are taken to vary; None: nobody knows."""
    unit: Unit
    """The unit of the score; a range from 0 to 1 is assumed where none is declared."""
    is_assumed_range: bool = False
    """Whether that range was assumed."""
    of_conditions: bool = False
    """Whether units are means over the prompts about a condition."""
    is_matched: bool = False
    """Whether an earlier run has a gap like it."""

    @property
    def design(self) -> Design:
        """Return the design as the audit has it; a random factor of one level stays, for more may be added."""
        return design_of(self.units, single=True)

    @property
    def levels(self) -> dict[str, int]:
        """Return the number of levels of each random factor, on all sides together."""
        return {name: len(np.unique(codes)) for name, codes in factors_of(self.units).items()}

    @property
    def too_few(self) -> bool:
        """Tell whether a random factor has fewer levels on a side than a verdict takes."""
        return 0 < self.finding.estimate.fewest < FEWEST

    @property
    def unknown(self) -> list[str]:
        """Return the random factors whose spread nobody knows; blank among them: that of what none explains."""
        sds = self.spreads.sds if self.spreads else {}
        return [name for name in (*factors_of(self.units), "") if name not in sds]

    @property
    def is_known(self) -> bool:
        """Tell whether the spreads of all that varies are known, and are not 0."""
        return self.spreads is not None and not self.unknown and any(self.spreads.sds.values())

    @property
    def detectable(self) -> float:
        """Return the smallest gap that four of five runs find; infinite beyond the range, NaN where it is unknown."""
        if self.spreads is None:
            return math.nan
        gap = self.spreads.detectable(self.design, self.finding.level)
        return math.inf if gap > self.unit.span else gap

    @property
    def scarcest(self) -> list[str]:
        """Return the random factor that has the fewest levels on a side.

        Of several with as few the one that adds most to the variance, and those that add at least a quarter of that,
        as names of both groups do.
        """
        design = self.design
        counts = _levels_on_a_side(design)
        fewest = [name for name, count in counts.items() if count == min(counts.values())]
        sds = self.spreads.sds if self.spreads else {}
        added = {
            name: scale * sds.get(name, 1.0) ** 2
            for name, scale in zip(counts, design.scales, strict=False)
        }
        largest = max(added[name] for name in fewest)
        return [name for name in fewest if added[name] >= _LEAST_SHARE * largest]

    def gaps(self) -> list[float]:
        """Return the gaps of a table: 2, 5 and 10 points; nothing where points mean nothing."""
        gaps = [self.unit.margin(share) for share in SHARES]
        return [] if any(map(math.isnan, gaps)) else gaps

    def needed(self, gap: float) -> Needed:
        """Find the fewest levels with which a gap is found in four of five runs.

        More levels of the scarcest factors, or the same number of all factors that have fewer, where that takes less
        than half of the units.

        Args:
            gap: the gap in the unit of the score.
        """
        counts = _levels_on_a_side(self.design)
        scarcest = self.scarcest
        by_scarcest = self._needed(
            gap, lambda count: {name: count / counts[name] for name in scarcest}
        )
        if len(scarcest) == len(counts) or (by_scarcest.is_found and by_scarcest.times <= _CHEAP):
            return by_scarcest
        by_all = self._needed(
            gap, lambda count: {name: max(1.0, count / counts[name]) for name in counts}
        )
        is_cheaper = by_all.is_found and _CHEAP * by_all.times < by_scarcest.times
        return by_all if is_cheaper or not by_scarcest.is_found else by_scarcest

    def _needed(self, gap: float, times_of: Callable[[int], Mapping[str, float]]) -> Needed:
        """Find the fewest levels with which a gap is found; ``times_of``: by factor the growth to so many levels."""
        design = self.design
        level = self.finding.level

        def is_too_large(count: int) -> bool:
            return len(design.sides) * math.prod(times_of(count).values()) > _MOST_UNITS

        def finds(count: int) -> bool:
            larger = enlarged(design, times_of(count))
            return self.spreads is not None and self.spreads.detectable(larger, level) <= gap

        tried = range(FEWEST, _MOST_LEVELS + 1)
        limit = FEWEST + max(0, bisect_left(tried, True, key=is_too_large) - 1)
        low = FEWEST - 1
        high = FEWEST
        while high < limit and not finds(high):
            low = high
            high = min(2 * high, limit)
        is_found = high < limit or finds(limit)
        while is_found and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if finds(middle) else (middle, high)
        larger = enlarged(design, times_of(high))
        levels = {name: len(np.unique(codes)) for name, codes in larger.factors.items()}
        return Needed(gap, levels, len(larger.sides) / len(design.sides), is_found)


def enlarged(design: Design, times: Mapping[str, float]) -> Design:
    """Copy levels of factors, with their units, until there are so many times as many of them on each side.

    Args:
        design: the design to enlarge.
        times: by how much each factor's number of levels grows, by the name of the factor.
    """
    for name, factor_times in times.items():
        codes = design.factors[name]
        copies = _copies(design, name, factor_times)
        copies_of_unit = copies[codes]
        index = np.repeat(np.arange(len(codes)), copies_of_unit)
        first_of_unit = np.cumsum(copies_of_unit) - copies_of_unit
        number = np.arange(len(index)) - np.repeat(first_of_unit, copies_of_unit)
        factors = {factor: levels[index] for factor, levels in design.factors.items()}
        first_code = np.cumsum(copies) - copies  # codes of copies follow each other
        factors[name] = first_code[codes[index]] + number
        sides = design.sides[index]
        shares = design.shares[index]
        shares = shares / np.bincount(sides, shares)[sides]
        if not copies.all():  # levels of other factors may be left out with them
            factors = {
                factor: np.unique(levels, return_inverse=True)[1]
                for factor, levels in factors.items()
            }
        design = replace(design, sides=sides, shares=shares, factors=factors)
    return design


def _copies(design: Design, name: str, times: float) -> Codes:
    """Return how often each level of a factor is taken, so that each set of levels on the same sides grows alike."""
    codes = design.factors[name]
    on_sides = np.zeros((int(codes.max()) + 1, len(design.weights)), dtype=bool)
    on_sides[codes, design.sides] = True
    copies = np.zeros(len(on_sides), dtype=np.intp)
    for pattern in np.unique(on_sides, axis=0):
        members = np.flatnonzero((on_sides == pattern).all(axis=1))
        total = math.ceil(len(members) * times - 1e-9)
        copies[members] = total // len(members) + (np.arange(len(members)) < total % len(members))
    return copies


def _levels_on_a_side(design: Design) -> dict[str, int]:
    """Return by the name of a factor the number of its levels on the side that has the fewest."""
    shares = zip(design.factors, design.cluster_shares, strict=True)
    return {name: int((share > 0).sum(axis=0).min()) for name, share in shares}


@dataclass(frozen=True, slots=True)
class PlannedExperiment:
    """An experiment of a planned run."""

    study: Study
    """The study that declares it."""
    experiment: Experiment
    """The experiment."""
    rows: Sequence[Mapping[str, Any]]
    """Its prompts."""
    model: str = ""
    """The name of the model."""


def plan_gaps(
    planned: Sequence[PlannedExperiment], earlier: EarlierRun | None = None
) -> list[list[PlannedGap]]:
    """Find the primary gaps of a planned run.

    Args:
        planned: all experiments that it asks: the intervals of one study's gaps hold at once.
        earlier: a run whose spreads are taken where it has the same gap; else, and without it, the declared ones.

    Returns:
        The gaps of each experiment, in the order of ``planned``; none where it compares no groups.
    """
    tables = [_planned_table(part, earlier) for part in planned]
    primary = [_primary_gaps(part, table) for part, table in zip(planned, tables, strict=True)]
    # As the audit does, over all of its findings at once.
    all_primary = [finding for findings in primary for finding in findings]
    corrected = iter(corrected_for_questions(all_primary))
    gaps = []
    for part, table, findings in zip(planned, tables, primary, strict=True):
        planned_gaps = [_planned_gap(part, table, next(corrected), earlier) for _ in findings]
        gaps.append([gap for gap in planned_gaps if gap is not None])
    return gaps


def _planned_table(planned: PlannedExperiment, earlier: EarlierRun | None) -> pd.DataFrame:
    """Return prompts with drawn scores, which stand for those of the run; none where the earlier one had none."""
    # Further trials are no further prompts.
    rows = [row for row in planned.rows if row.get("trial", "1") == "1"]
    table = pd.DataFrame(rows).assign(experiment=planned.experiment.name)
    scores = np.random.default_rng(0).normal(size=len(table))
    if len(table) and earlier and earlier.unscored:
        unscored = earlier.unscored.get((planned.study.name, planned.experiment.name), frozenset())
        scores[table["prompt_id"].isin(unscored)] = math.nan
    return table.assign(score=scores, **{CHANGE: scores})


def _primary_gaps(planned: PlannedExperiment, table: pd.DataFrame) -> list[Finding]:
    """Return the primary findings that an audit of these prompts makes: gaps, and tests of several groups."""
    experiment = planned.experiment
    if not experiment.compares.measure or not len(table):
        return []
    slices = tuple(
        part for part in experiment.shows.slices if part.name == experiment.compares.primary.slice
    )
    unread = {"levels": (), "covariates": (), "decisions": (), "quantiles": ()}
    read = experiment.changed(shows={"slices": slices, "scores": ("score",), **unread})
    context = Context(planned.study.name, planned.model, read, CHANGE)
    rows = _one_row_a_prompt(experiment, table)
    # Of one group there is no test of several to plan, which the shorter way leaves out.
    if len(experiment.compares.groups) == 1:
        (all_findings,) = question_findings([context], rows, {})
    else:
        all_findings = [*experiment_findings(context, rows)]
    findings = [replace(finding, score="score") for finding in all_findings]
    return [
        finding
        for finding in primary_findings(with_primary(findings, [experiment]))
        if MEASURES[finding.measure].gap_span or finding.measure == SPREAD
    ]


def _one_row_a_prompt(experiment: Experiment, table: pd.DataFrame) -> pd.DataFrame:
    """Return a row a prompt, as an audit reads it."""
    if ANSWERS in experiment.shows.rates:
        return table.assign(trial="1")
    return over_prompts(experiment, table)


def _planned_gap(
    planned: PlannedExperiment, table: pd.DataFrame, finding: Finding, earlier: EarlierRun | None
) -> PlannedGap | None:
    """Return the planned gap of a primary finding; None for a test of several groups, or without units."""
    if finding.measure == SPREAD:
        return None
    context, rows = primary_rows(
        finding, planned.study, _one_row_a_prompt(planned.experiment, table), planned.model
    )
    units = gap_units(context, rows)
    if units is None or not len(units.rows):
        return None
    matched = earlier.gap(planned.experiment, finding, factors_of(units)) if earlier else None
    if matched is not None:
        return PlannedGap(finding, units, matched.spreads, matched.finding.scale, is_matched=True)
    if planned.experiment.design.aggregate:  # declared spreads are those of conditions
        plain = replace(context, experiment=context.experiment.changed(design={"aggregate": ()}))
        units = gap_units(plain, condition_means(planned.experiment, rows)) or units
    unit = planned.experiment.compares.unit.with_range_of((0.0, 1.0))
    is_assumed = unit != planned.experiment.compares.unit
    of_conditions = bool(planned.experiment.design.aggregate)
    spreads = declared_spreads(planned.experiment, units)
    return PlannedGap(finding, units, spreads, unit, is_assumed, of_conditions)


def planned_gap(study: Study, experiment: Experiment, rows: Rows) -> float:
    """Find the smallest gap that an audit of only these prompts finds in four of five runs, in its unit.

    Args:
        study: the study that declares the experiment.
        experiment: the experiment to plan.
        rows: its prompts.

    Returns:
        The largest one where the experiment has several gaps; NaN where that is not known, beyond the range, or too
        few levels of a random factor let nothing be found.
    """
    (gaps,) = plan_gaps([PlannedExperiment(study, experiment, [*rows])])
    if any(gap.too_few for gap in gaps):
        return math.nan
    detectable = max((gap.detectable for gap in gaps), default=math.nan)
    return detectable if math.isfinite(detectable) else math.nan


def planned_std_error(experiment: Experiment, rows: Rows) -> tuple[float, float]:
    """Compute the standard error and degrees of freedom to expect of the first gap, from the declared spreads.

    Args:
        experiment: the experiment whose spreads are declared.
        rows: its prompts.

    Returns:
        NaN, NaN where the spreads are not known or the rows allow no interval.
    """
    units = _first_units(experiment, rows)
    if units is None or not len(units.rows):
        return math.nan, math.nan
    spreads = declared_spreads(experiment, units)
    return (math.nan, math.nan) if spreads is None else spreads.error(design_of(units))


def planned_units(experiment: Experiment, rows: Rows) -> tuple[Codes, random_factors.Factors]:
    """Return whether each unit of the first gap is subtracted (1, else 0), and its clusters.

    Args:
        experiment: the experiment to plan.
        rows: its prompts.

    Returns:
        Shape (units,), of pairs, sentences or conditions; and by random factor the cluster of each unit.
    """
    units = _first_units(experiment, rows)
    if units is None:
        return np.empty(0, dtype=np.intp), {}
    return units.columns[1], units.factors


def _first_units(experiment: Experiment, rows: Rows) -> Units | None:
    """Return the units of the first gap of prompts without scores; None where it has no two groups."""
    table = pd.DataFrame(list(rows)).assign(score=0.0)
    if experiment.compares.primary.subset in set(table.get(experiment.compares.subset, ())):
        table = table[table[experiment.compares.subset] == experiment.compares.primary.subset]
    table = condition_means(experiment, _one_row_a_prompt(experiment, table))
    return gap_units(Context("", "", experiment.changed(design={"aggregate": ()}), "score"), table)
