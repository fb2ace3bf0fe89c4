"""How far effects on a gap vary, before a run: as an experiment declares it, or as an earlier run shows it."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.compared_units import Units, primary_rows
from swapbias.findings.finding import Finding, experiment_of, primary_findings
from swapbias.findings.scored_rows import one_per_prompt
from swapbias.findings.terms import UNMEASURED
from swapbias.findings.unit_rows import gap_units
from swapbias.measures import MEASURES, Design, intervals
from swapbias.studies import PLACEBO, Experiment, load_study, own_studies

Codes = NDArray[np.intp]
# Over the degrees of freedom: so much larger is the gap of an audit, which estimates its error.
_ESTIMATED = 0.8


@dataclass(frozen=True, slots=True)
class Spreads:
    """Spreads of the effects of each random factor on a gap."""

    sds: Mapping[str, float]
    """By the name of a factor the SD of its effects, in the unit of the score; blank: of what none explains."""
    study: str = ""
    """The study whose outputs they were computed from, where they are declared."""
    model: str = ""
    """The model whose outputs they were computed from, where they are declared."""
    run: str = ""
    """Where the run lies that they were computed from; blank: they are declared."""
    of_error: float = 1.0
    """The standard error of that run over the one that its spreads make expected: 1 but where one factor has levels
    of unequal size, or a gap is no mean."""
    of_df: float = 1.0
    """The degrees of freedom of that run over those that its spreads make expected."""
    are_released: bool = True
    """Whether the authors released these outputs, where they are declared; else they are of an audit."""

    def error(self, design: Design) -> tuple[float, float]:
        """Compute the standard error to expect of a design, and its degrees of freedom; NaN where unknown.

        Args:
            design: the design of the planned gap.
        """
        std_error, df = design.expected(self.sds, independent=bool(self.run))
        return std_error * self.of_error, df * self.of_df

    def detectable(self, design: Design, level: float) -> float:
        """Compute the smallest gap that a test finds in four of five runs; NaN where it is unknown.

        Args:
            design: the design of the planned gap.
            level: the level of the test.
        """
        std_error, df = self.error(design)
        if not self.run:  # those of a run are estimates already, as those of an audit are
            std_error *= 1 + _ESTIMATED / df
        return intervals.detectable_gap(std_error, df, level=level)


def factors_of(units: Units) -> dict[str, Codes]:
    """Return the random factors of units with the level of each unit, also one of which there is a single level.

    Args:
        units: the units that a gap is the mean of.
    """
    single = {units.single: np.zeros(len(units.rows), dtype=np.intp)} if units.single else {}
    return {**single, **units.factors}


def design_of(units: Units, *, single: bool = False) -> Design:
    """Return the design of units as their estimate has it: factors of one level are left out where others vary.

    Args:
        units: the units that a gap is the mean of.
        single: keep a random factor of one level, of which a larger design may have several.
    """
    _, sides = units.columns
    factors = {
        name: np.unique(codes, return_inverse=True)[1] for name, codes in factors_of(units).items()
    }
    varied = {name: codes for name, codes in factors.items() if len(codes) and np.ptp(codes)}
    kept = factors if single or not varied else varied
    return Design.of_means(sides, kept, units.weights, units.shares())


def declared_spreads(experiment: Experiment, units: Units) -> Spreads | None:
    """Return the spreads that an experiment declares, for units; None where it declares none.

    Effects of a random factor that is nested in another (each condition in one template) are part of what is left.
    Declared spreads are those of a gap between two groups; that of several grows with the squares of their weights.

    Args:
        experiment: the experiment that may declare spreads.
        units: the units that its gap is the mean of.
    """
    if not experiment.design.planned_sd:
        return None
    growth = gap_growth(units)
    sds = {
        experiment.design.random.get(column, column): growth * spread
        for column, spread in experiment.design.planned_sd.items()
    }
    if "" in sds:
        sds[""] = math.hypot(sds[""], growth * math.sqrt(_nested_variance(experiment, units)))
    study, model = experiment.design.planned_sd_of or ("", "")
    return Spreads(
        sds,
        study,
        model,
        are_released=experiment.design.sd_measured_by == "authors",
        of_error=1 / math.sqrt(units.context.comparison.efficiency),
    )


def gap_growth(units: Units) -> float:
    """Return by how much effects on a gap of several groups vary more than on one of two, whose effects are as large.

    Args:
        units: the units that the gap is the mean of.
    """
    return math.sqrt(sum(weight**2 for weight in units.context.sides.values()) / 2)


def _nested_variance(experiment: Experiment, units: Units) -> float:
    """Return the variance that effects of nested factors add to each unit, for the value to vary as much by them."""
    design = design_of(units)
    added = 0.0
    for column, spread in experiment.design.planned_sd.items():
        name = experiment.design.random.get(column, column)
        if column not in units.rows or name in factors_of(units):
            continue
        codes, levels = pd.factorize(units.rows[column])
        cluster_shares = np.zeros((len(levels), len(design.weights)))
        np.add.at(cluster_shares, (codes, design.sides), design.shares)
        if len(levels) > 1:  # else all units share it
            squares = float(((cluster_shares @ design.weights) ** 2).sum())
            added += spread**2 * squares / float(design.scales[-1])
    return added


@dataclass(frozen=True, slots=True)
class EarlierGap:
    """A primary gap of an earlier run."""

    finding: Finding
    """The finding as the run has it."""
    kind: str
    """The kind of model that its experiment needs."""
    is_own: bool
    """Whether its study is the user's own."""
    spreads: Spreads | None
    """How far effects vary; None: the run had no interval."""

    def fits(
        self, experiment: Experiment, planned: Finding, factors: Iterable[str], *, is_own: bool
    ) -> bool:
        """Tell whether a planned gap is this one, or one of own prompts with the same random factors.

        Args:
            experiment: the experiment of the planned gap.
            planned: its finding.
            factors: the names of its random factors.
            is_own: whether its study is the user's own.
        """
        same_factors = self.spreads is None or {*self.spreads.sds} - {""} == {*factors}
        if (self.finding.study, self.finding.experiment) == (planned.study, planned.experiment):
            return same_factors and self.finding.key() == planned.key()
        return same_factors and self.is_own and is_own and self.kind == experiment.kind


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A finished run, from which a plan takes spreads and time."""

    name: str
    """Its folder, or its name on the Hub."""
    gaps: tuple[EarlierGap, ...]
    """Its primary gaps."""
    rows: int = 0
    """The number of prompts that it scored, without those whose scores were saved before."""
    seconds: float = math.nan
    """Seconds that it took; NaN where it does not say."""
    unscored: Mapping[tuple[str, str], frozenset[str]] | None = None
    """By study and experiment the prompts without a score."""

    @property
    def seconds_a_prompt(self) -> float:
        """Return the seconds that a prompt took; NaN where that is not known."""
        return self.seconds / self.rows if self.rows > 0 and self.seconds > 0 else math.nan

    def gap(
        self, experiment: Experiment, planned: Finding, factors: Iterable[str]
    ) -> EarlierGap | None:
        """Return the gap of the run whose spreads a planned one takes; None: it has none like it.

        Args:
            experiment: the experiment of the planned gap.
            planned: its finding.
            factors: the names of its random factors.
        """
        is_own = planned.study in own_studies()
        names = [*factors]
        fits = [gap for gap in self.gaps if gap.fits(experiment, planned, names, is_own=is_own)]
        same_contrast = [gap for gap in fits if gap.finding.contrast == planned.contrast]
        return next(iter(same_contrast or fits), None)


def earlier_gaps(
    findings: Iterable[Finding], items: Mapping[str, pd.DataFrame], run: str
) -> Iterator[EarlierGap]:
    """Yield the primary gaps of a finished run with the spreads of their effects.

    Args:
        findings: the findings of the run.
        items: its scored rows by study.
        run: where it lies, for sentences.
    """
    for finding in primary_findings(findings):
        experiment = experiment_of(finding)
        is_gap = MEASURES[finding.measure].gap_span > 0
        if experiment is None or not is_gap or finding.study not in items:
            continue
        spreads = None
        if finding.verdict != UNMEASURED and finding.estimate.std_error > 0:
            rows = items[finding.study]
            is_of_experiment = rows["experiment"] == finding.experiment
            is_of_model = rows["model_id"] == finding.model_id
            spreads = _spreads_of_run(finding, rows[is_of_experiment & is_of_model], run)
        yield EarlierGap(finding, experiment.kind, finding.study in own_studies(), spreads)


def _spreads_of_run(finding: Finding, rows: pd.DataFrame, run: str) -> Spreads | None:
    """Return the spreads of effects on a gap of a run, from its scored rows; None where they allow no interval."""
    study = load_study(finding.study)
    experiment = experiment_of(finding)
    if experiment is None or not len(rows):
        return None
    scored = one_per_prompt(experiment, rows[rows["group"] != PLACEBO])
    units = gap_units(*primary_rows(finding, study, scored, finding.model_id))
    if units is None:
        return None
    design = design_of(units)
    values, sides = units.columns
    linear = units.context.comparison.linearised(values, sides, design.factors, units.shares())
    std_error, df, _ = design.spread(linear)
    plain = Spreads(design.components(values), finding.study, finding.model_id, run)
    expected, expected_df = plain.error(design)
    if not (std_error > 0 and expected > 0):
        return None
    return replace(plain, of_error=std_error / expected, of_df=df / expected_df)
