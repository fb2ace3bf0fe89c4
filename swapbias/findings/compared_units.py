"""Units that a gap is the mean of: one value a pair, prompt or condition, with their clusters and weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.errors import listed
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.scored_rows import over_prompts, row_shares
from swapbias.findings.terms import EFFECTS, LEVEL
from swapbias.measures import (
    Estimate,
    Floats,
    crossed_factors,
    design,
    random_factors,
    spreads,
)
from swapbias.studies import PLACEBO, Experiment, Study

SCORE_OF = "score of "
"""Before the name of a group: the column of pairs that holds its score."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of each unit in the mean of its sample."""

    of_units: Floats | None
    """Shape (units,); None where all of a sample weigh the same."""


@dataclass(frozen=True, slots=True)
class Units:
    """Units that a gap is the mean of: one value a pair or prompt, of one sample or a weighted sum of several."""

    rows: pd.DataFrame
    """A row a unit: ``value``, ``sample`` (from 0), columns of random factors and of ``aggregate``."""
    context: Context
    """The context of the gap."""
    factors: random_factors.Factors
    """The cluster of each unit in each random factor."""
    cluster_vars: str
    """The names of the random factors (``templates + items``); blank where none varies."""
    weights: tuple[float, ...] = (1.0,)
    """Weights of the samples' means in the gap."""
    n_unscored: int = 0
    """Number of units without a value, which are left out."""
    single: str = ""
    """A random factor of which there is one level; blank for none."""
    fixed: str = ""
    """The fixed levels, beyond which the gap says nothing (``3 topics``); blank for none."""
    all_shares: Shares | None = None
    """The shares of all units, found once for further scores of them; None: found when they are read."""

    @classmethod
    def of(
        cls, rows: pd.DataFrame, context: Context, weights: tuple[float, ...] = (1.0,)
    ) -> "Units":
        """Return the units of rows, those with a value.

        Args:
            rows: a row a unit, with ``value`` (NaN: without one) and ``sample``.
            context: the context of the gap.
            weights: the weights of the samples' means in the gap.
        """
        factors, cluster_vars = context.random(rows)
        is_scored = rows["value"].notna().to_numpy()
        return cls(
            rows=rows[is_scored].reset_index(drop=True),
            context=context,
            factors=random_factors.rows_of(factors, is_scored),
            cluster_vars=cluster_vars,
            weights=weights,
            n_unscored=int((~is_scored).sum()),
            single=context.single(rows[is_scored]),
            fixed=context.fixed(rows),
        )

    @property
    def columns(self) -> tuple[Floats, NDArray[np.intp]]:
        """Return value and sample of each unit."""
        return self.rows["value"].to_numpy(np.float64), self.rows["sample"].to_numpy(np.intp)

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of a finding about the levels of its gap, and the plain mean where that is another."""
        row_mean = math.nan
        is_weighted = self.context.experiment.design.equal_levels and self.shares() is not None
        differs = is_weighted or not self.context.comparison.is_mean
        if differs and len(self.weights) == 1 and len(self.rows):
            row_mean = float(self.columns[0].mean())
        return {"cluster_vars": self.cluster_vars, "fixed": self.fixed, "row_mean": row_mean}

    def shares(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Floats | None:
        """Return the share of each unit in the mean of its sample; None where all of a sample weigh the same.

        Args:
            chosen: the units to take, shape (units,); all by default.
        """
        if self.all_shares is not None and isinstance(chosen, slice) and chosen == slice(None):
            return self.all_shares.of_units
        experiment = self.context.experiment
        sides = self.columns[1][chosen]
        if experiment.design.aggregate:
            columns = ["group", "value", *experiment.design.aggregate]
            weights = row_shares(experiment, self.rows.loc[chosen, columns], "value")
        elif experiment.design.equal_levels:
            weights = level_weights(sides, random_factors.rows_of(self.factors, chosen))
        else:
            return None
        return design.shares_in(weights, np.ones(len(sides), dtype=bool), sides)

    def scores_by_group(self) -> list[tuple[Floats, NDArray[np.bool_]]]:
        """Return the scores of each compared group, and which units have one: of pairs all."""
        values, sides = self.columns
        all_units = np.ones(len(values), dtype=bool)
        if f"{SCORE_OF}{self.context.experiment.compares.reference}" not in self.rows:
            return [(values[sides == side], sides == side) for side in range(len(self.weights))]
        columns = [f"{SCORE_OF}{group}" for group in self.context.sides]
        return [(self.rows[column].to_numpy(np.float64), all_units) for column in columns]

    def mean_of(self, group: str) -> float:
        """Return the mean score of a group over the units, weighted as the gap is; NaN of units that are no pairs.

        Args:
            group: one of the two that are compared.
        """
        column = f"{SCORE_OF}{group}"
        if column not in self.rows:
            return math.nan
        scores = self.rows[column].to_numpy(np.float64)
        if not len(scores):
            return math.nan
        shares = self.shares()
        return float(scores.mean() if shares is None else scores @ shares)

    def estimate(
        self, chosen: NDArray[np.bool_] | slice = slice(None), *, level: float = LEVEL
    ) -> Estimate:
        """Estimate the gap of some units by the inference of the design.

        Where all levels show one gap, its p-value is that of an exact test of the levels.

        Args:
            chosen: the units to take, shape (units,); all by default.
            level: 1 less the coverage of the interval.
        """
        values, sides = self.columns
        values = values[chosen]
        sides = sides[chosen]
        factors = random_factors.rows_of(self.factors, chosen)
        estimate = self.context.comparison.estimate(
            values,
            sides,
            self.weights,
            _varied(factors) or factors,
            shares=self.shares(chosen),
            confidence=1 - level,
            n_unscored=self.n_unscored,
        )
        if self.single and len(values):
            return replace(estimate, fewest=1, fewest_of=self.single, independent=1)
        if not self.cluster_vars:
            # No factor varies: a slice by the only one, or rows that lack the columns.
            return replace(estimate, fewest=0, fewest_of="", independent=0)
        return estimate

    @property
    def why_unmeasured(self) -> str:
        """Return why the comparison says nothing of these units; blank where it does."""
        values, sides = self.columns
        return self.context.comparison.why_unmeasured(values, sides) if len(values) else ""

    @property
    def value(self) -> float:
        """Return only the gap, also of units of which ``why_unmeasured`` says that they say nothing."""
        values, sides = self.columns
        if not len(values):
            return math.nan
        comparison = self.context.comparison
        return comparison.value(values, sides, self.weights, self.factors, self.shares())

    def measured(self) -> Estimate:
        """Estimate the gap of all units with its effect sizes."""
        estimate = self.estimate()
        values, sides = self.columns
        if len(self.weights) > 1:
            samples = [values[sides == side] for side in range(len(self.weights))]
            return replace(estimate, effect_size=_standardise(estimate.value, samples))
        groups = [self.rows[f"{SCORE_OF}{group}"].to_numpy() for group in self.context.sides]
        return replace(
            estimate,
            effect_size=_standardise(estimate.value, groups),
            effect_size_z=_standardise(estimate.value, [values]),
        )

    def distances(self) -> dict[str, float]:
        """Return how far pairs differ whatever the direction: mean, median, and the share of the rarer direction."""
        values, sides = self.columns
        if len(self.weights) > 1 or sides.any() or not len(values):
            return {}
        size = np.abs(values)
        differing = int((size > 0).sum())
        rarer = min(int((values > 0).sum()), int((values < 0).sum()))
        return {
            "mean_absolute": float(size.mean()),
            "median_absolute": float(np.median(size)),
            "minority_sign": rarer / differing if differing else math.nan,
        }


def _varied(factors: random_factors.Factors) -> dict[str, NDArray[np.intp]]:
    """Return the factors of which there are several levels."""
    return {name: codes for name, codes in factors.items() if len(codes) and np.ptp(codes)}


def level_weights(sides: NDArray[np.intp], factors: random_factors.Factors) -> Floats:
    """Return a weight for each unit with which the levels of the scarcest factor count alike.

    Args:
        sides: shape (units,): the sample of each unit, from 0.
        factors: the cluster of each unit in each random factor.
    """
    varied = _varied(factors)
    if not varied:
        return np.ones(len(sides))
    return design.level_shares(sides, design.scarcest_levels(sides, varied).codes)


def mean_weights(context: Context, rows: pd.DataFrame, score: str) -> Floats | None:
    """Return the weight of each row in the mean of its rows, as in a gap; None where all weigh the same.

    Args:
        context: the context of the mean.
        rows: scored rows.
        score: the score column; rows without a score weigh nothing.
    """
    if context.experiment.design.aggregate:
        return row_shares(context.experiment, rows.assign(group=""), score)
    if not context.experiment.design.equal_levels:
        return None
    is_scored = rows[score].notna().to_numpy()
    weights = np.zeros(len(rows))
    factors, _ = context.random(rows[is_scored])
    sides = np.zeros(int(is_scored.sum()), dtype=np.intp)
    weights[is_scored] = level_weights(sides, factors)
    return weights


def _standardise(value: float, samples: Sequence[Floats]) -> float:
    """Return a value over the pooled spread of samples; NaN without one."""
    spread = spreads.pooled_spread(samples)
    return value / spread if spread > 0 else math.nan


def group_levels(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the level of each group in each of the experiment's factors, a row a group.

    Args:
        experiment: the experiment with crossed factors of groups.
        rows: scored rows with the columns of the factors.

    Returns:
        No rows where not every combination of levels is there.

    Raises:
        ValueError: the rows lack a factor's column, or a group has two levels of a factor.
    """
    compared = rows[rows["group"].isin(experiment.compared)]
    factors = list(experiment.compares.factors)
    if lacking := [name for name in factors if name not in rows]:
        raise ValueError(
            f"the rows of {experiment.name} have no column {listed(map(repr, lacking))}, expected the level of "
            "each group in every factor. Add the columns to its configs, or leave them out of factors."
        )
    columns = list(dict.fromkeys(["group", *factors]))
    levels = compared[columns].astype(str).drop_duplicates()
    if ambiguous := levels.loc[levels["group"].duplicated(), "group"].tolist():
        raise ValueError(
            f"the group {ambiguous[0]!r} of {experiment.name} has several levels of {listed(factors)}, expected one "
            "of each. Name groups by their levels."
        )
    table = levels.set_index("group", drop=False)[factors]
    counts = table.nunique()
    has_levels = experiment.compares.reference in table.index and counts.min() > 1
    is_complete = has_levels and len(table.drop_duplicates()) == len(table) == counts.prod()
    return table if is_complete else table.iloc[:0]


def _effect_weights(experiment: Experiment, rows: pd.DataFrame, contrast: str) -> dict[str, float]:
    """Return the weight of each group in an effect of crossed factors by its ``contrast``; none without it."""
    table = group_levels(experiment, rows)
    if not len(table):
        return {}
    cells = dict(zip(table.index, table.itertuples(index=False, name=None), strict=True))
    levels = {factor: table[factor].tolist() for factor in table}
    if len(levels) == 1:
        effects = crossed_factors.level_effects(*levels.popitem())
    else:
        reference = table.loc[experiment.compares.reference].to_dict()
        effects = crossed_factors.crossed_effects(levels, reference)
    for effect in effects:
        if effect.title == contrast:
            return {group: effect.weights[cell] for group, cell in cells.items()}
    return {}


def primary_rows(
    finding: Finding, study: Study, rows: pd.DataFrame, model: str
) -> tuple[Context, pd.DataFrame]:
    """Return the context of a primary finding and the scored rows that it is made of, placebo ones among them.

    Args:
        finding: a primary finding.
        study: the study that it is of.
        rows: scored rows of its experiment and model.
        model: its name.
    """
    experiment = next(part for part in study.experiments if part.name == finding.experiment)
    rows = over_prompts(experiment, rows)
    weights = dict[str, float]()
    if finding.measure in EFFECTS or finding.reference_group == crossed_factors.THE_OTHERS:
        weights = _effect_weights(experiment, rows[rows["group"] != PLACEBO], finding.contrast)
    else:
        experiment = _experiment_of_gap(experiment, finding)
    if finding.measure != "gap_difference":
        # One set of conditions was audited, or there is no contrast.
        experiment = experiment.changed(compares={"contrast": None})
        if finding.subset:
            rows = rows[rows[experiment.compares.subset] == finding.subset]
    if finding.slice_by != "all":
        slices = (part for part in experiment.shows.slices if part.name == finding.slice_by)
        rows = rows[rows[next(slices).column] == finding.slice_value]
    context = Context(
        study.name,
        model,
        experiment,
        "score",
        weights=weights,
        subset=finding.subset,
        slice_by=finding.slice_by,
        slice_value=finding.slice_value,
    )
    return context, rows


def _experiment_of_gap(experiment: Experiment, finding: Finding) -> Experiment:
    """Return the experiment with only the two groups of a finding; as it is where it does not compare these."""
    for gap in experiment.gaps:
        if (gap.compares.group, gap.compares.reference) == (
            finding.group,
            finding.reference_group,
        ):
            return gap
    return experiment
