"""Units that a gap is the mean of: one value a pair, prompt or condition, with their clusters and weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias import measures
from swapbias.errors import listed
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.scored_rows import by_sentence, over_prompts, row_shares
from swapbias.findings.terms import EFFECTS, LEVEL
from swapbias.measures import ComparedUnits, Estimate, Factors, Floats
from swapbias.studies import PLACEBO, Experiment, Study

_SCORE_OF = "score of "  # columns of pairs: the score of each group


@dataclass(frozen=True, slots=True)
class Units:
    """What a gap is the mean of: one value a pair or prompt, of one sample or a weighted sum of several."""

    rows: pd.DataFrame
    """A row a unit: ``value``, ``sample`` (from 0), columns of random factors and of ``aggregate``."""
    context: Context
    """Of the gap."""
    factors: Factors
    """The cluster of each unit in each random factor."""
    cluster_vars: str
    """Their names."""
    weights: tuple[float, ...] = (1.0,)
    """Of the samples' means."""
    n_unscored: int = 0
    """Units without a value, which are left out."""
    single: str = ""
    """A random factor of which there is one level."""
    fixed: str = ""
    """The levels that the gap is about alone."""

    @classmethod
    def of(
        cls, rows: pd.DataFrame, context: Context, weights: tuple[float, ...] = (1.0,)
    ) -> "Units":
        """The units of rows, those with a value."""
        factors, cluster_vars = context.random(rows)
        known = rows["value"].notna().to_numpy()
        scored = rows[known].reset_index(drop=True)
        of_scored = measures.rows_of(factors, known)
        unscored = int((~known).sum())
        return cls(
            scored,
            context,
            of_scored,
            cluster_vars,
            weights,
            unscored,
            context.single(rows),
            context.fixed(rows),
        )

    @property
    def columns(self) -> tuple[Floats, NDArray[np.intp]]:
        """Value and sample of each unit."""
        return self.rows["value"].to_numpy(np.float64), self.rows["sample"].to_numpy(np.intp)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a finding about the levels of its gap; the plain mean where these weigh alike."""
        plain = math.nan
        is_weighted = self.context.experiment.design.equal_levels and self.shares() is not None
        is_other = is_weighted or not self.context.comparison.is_mean
        if is_other and len(self.weights) == 1 and len(self.rows):
            plain = float(self.columns[0].mean())
        return {"cluster_vars": self.cluster_vars, "fixed": self.fixed, "row_mean": plain}

    def shares(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Floats | None:
        """Return the share of each unit in the mean of its sample; None where all of a sample weigh the same."""
        experiment = self.context.experiment
        sides = self.columns[1][chosen]
        if experiment.design.aggregate:
            weights = row_shares(experiment, self.rows[chosen], "value")
        elif experiment.design.equal_levels:
            weights = level_weights(sides, measures.rows_of(self.factors, chosen))
        else:
            return None
        return measures.shares_in(weights, np.ones(len(sides), dtype=bool), sides)

    def mean_of(self, group: str) -> float:
        """Return the mean score of a group over the units, weighted as the gap is; NaN of units that are no pairs."""
        column = f"{_SCORE_OF}{group}"
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
        """The estimate of some units by the inference of the design; the interval has coverage 1 - ``level``.

        Where all levels show one gap, its p-value is that of an exact test of the levels.
        """
        values, sides = self.columns
        values = values[chosen]
        sides = sides[chosen]
        factors = measures.rows_of(self.factors, chosen)
        varied = {name: codes for name, codes in factors.items() if len(codes) and np.ptp(codes)}
        factors = varied or factors
        estimate = self.context.comparison.estimate(
            values,
            sides,
            self.weights,
            factors,
            shares=self.shares(chosen),
            confidence=1 - level,
            n_unscored=self.n_unscored,
        )
        if self.single and len(values):
            return replace(estimate, fewest=1, fewest_of=self.single, independent=1)
        if (
            not self.cluster_vars
        ):  # no factor varies: a slice by the only one, or rows that lack the columns
            return replace(estimate, fewest=0, fewest_of="", independent=0)
        return estimate

    @property
    def why_unmeasured(self) -> str:
        """Why the comparison says nothing of these units; blank where it does."""
        values, sides = self.columns
        return self.context.comparison.why_unmeasured(values, sides) if len(values) else ""

    @property
    def value(self) -> float:
        """The gap alone, also of units of which ``why_unmeasured`` says that they say nothing."""
        values, sides = self.columns
        if not len(values):
            return math.nan
        return self.context.comparison.value(
            values, sides, self.weights, self.factors, self.shares()
        )

    def measured(self) -> Estimate:
        """The estimate of all units with its effect sizes."""
        estimate = self.estimate()
        values, sides = self.columns
        if len(self.weights) > 1:
            samples = [values[sides == side] for side in range(len(self.weights))]
            return replace(estimate, effect_size=_standardise(estimate.value, samples))
        groups = [self.rows[f"{_SCORE_OF}{group}"].to_numpy() for group in self.context.sides]
        z = _standardise(estimate.value, [values])
        return replace(estimate, effect_size=_standardise(estimate.value, groups), effect_size_z=z)

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


def level_weights(sides: NDArray[np.intp], factors: Factors) -> Floats:
    """Return a weight for each unit with which the levels of the scarcest factor count alike."""
    varied = {name: codes for name, codes in factors.items() if len(codes) and np.ptp(codes)}
    if not varied:
        return np.ones(len(sides))
    return measures.level_shares(sides, measures.scarcest_levels(sides, varied).codes)


def mean_weights(context: Context, rows: pd.DataFrame, score: str) -> Floats | None:
    """Return the weight of each row in the mean of its rows, as in a gap; None where all weigh the same."""
    if context.experiment.design.aggregate:
        return row_shares(context.experiment, rows.assign(group=""), score)
    if not context.experiment.design.equal_levels:
        return None
    scored = rows[score].notna().to_numpy()
    weights = np.zeros(len(rows))
    factors, _ = context.random(rows[scored])
    weights[scored] = level_weights(np.zeros(int(scored.sum()), dtype=np.intp), factors)
    return weights


def _standardise(value: float, samples: Sequence[Floats]) -> float:
    spread = measures.pooled_spread(samples)
    return value / spread if spread > 0 else math.nan


def pair_gaps(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """A row a pair: what its first row says, its ``gap`` (NaN where a score of it is) and each group's score."""
    _refuse_without_pairs(context, rows)
    units = measures.units_of_pairs(*_columns_of_units(context, context.two(rows)), context.sides)
    return (
        context.two(rows)
        .iloc[units.rows]
        .assign(gap=units.values, **_scores_by_group(context, units))
    )


def _columns_of_units(
    context: Context, rows: pd.DataFrame
) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Scores of rows of the compared groups, the place of each row's group, and the number of its pair."""
    places = {group: place for place, group in enumerate(context.sides)}
    groups = rows["group"].map(places).to_numpy(np.intp)
    return rows[context.score].to_numpy(np.float64), groups, pd.factorize(pair_ids(rows))[0]


def pair_ids(rows: pd.DataFrame) -> NDArray[Any]:
    """The pair of each row; rows without the column, as means over prompts, are of no pair."""
    return rows["pair_id"].to_numpy() if "pair_id" in rows else np.arange(len(rows))


def _scores_by_group(context: Context, units: ComparedUnits) -> dict[str, Floats]:
    """The columns that hold the score of each group of a pair; none of units that are no pairs."""
    if units.scores is None:
        return {}
    return {
        f"{_SCORE_OF}{group}": units.scores[:, place] for place, group in enumerate(context.sides)
    }


def gap_units(context: Context, rows: pd.DataFrame) -> Units | None:
    """The units of the gap, or of the difference of two gaps, over these rows; None where it has no two groups."""
    experiment = context.experiment
    comparison = context.experiment.comparison
    if comparison is None or not context.whole(rows):
        return None
    chosen = by_sentence(experiment, context.two(rows), context.score)
    if comparison.is_paired:
        _refuse_without_pairs(context, chosen)
    units = comparison.units(*_columns_of_units(context, chosen), context.sides)
    made = chosen.iloc[units.rows].assign(
        value=units.values, sample=units.samples, **_scores_by_group(context, units)
    )
    weights = units.weights
    contrast = experiment.compares.contrast
    subset = experiment.compares.subset
    if comparison.is_paired and contrast and set(contrast) <= set(made[subset].unique()):
        weights = (1.0, -1.0)
        made = made[made[subset].isin(contrast)]
        made = made.assign(sample=(made[subset] == contrast[1]).astype(int))
    return Units.of(made, context, weights)


def _refuse_without_pairs(context: Context, rows: pd.DataFrame) -> None:
    if rows.duplicated(["pair_id", "group"]).any() or not context.whole(rows):
        raise ValueError(
            f"rows of {context.experiment.name} are no pairs: expected one of each group in each pair."
        )


def group_levels(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """The level of each group in each of the experiment's factors; no rows where not every combination is there.

    Raises:
        ValueError: the rows lack a factor's column, or a group has two levels of a factor.
    """
    chosen = rows[rows["group"].isin(experiment.compared)]
    factors = list(experiment.compares.factors)
    if lacking := [name for name in factors if name not in rows]:
        raise ValueError(
            f"the rows of {experiment.name} have no column {listed(map(repr, lacking))}, expected the level of "
            "each group in every factor. Add the columns to its configs, or leave them out of factors."
        )
    named = chosen[["group", *factors]].astype(str).drop_duplicates()
    if twice := named.loc[named["group"].duplicated(), "group"].tolist():
        raise ValueError(
            f"the group {twice[0]!r} of {experiment.name} has several levels of {listed(factors)}, expected one "
            "of each. Name groups by their levels."
        )
    table = named.set_index("group")
    levels = table.nunique()
    whole = experiment.compares.reference in table.index and levels.min() > 1
    complete = whole and len(table.drop_duplicates()) == len(table) == levels.prod()
    return table if complete else table.iloc[:0]


def _effect_weights(experiment: Experiment, rows: pd.DataFrame, contrast: str) -> dict[str, float]:
    """The weight of each group in an effect of crossed factors, by its ``contrast``; none where it is not there."""
    named = group_levels(experiment, rows)
    if not len(named):
        return {}
    cells = dict(zip(named.index, named.itertuples(index=False, name=None), strict=True))
    effects = measures.crossed_effects(
        {factor: named[factor].tolist() for factor in named},
        named.loc[experiment.compares.reference].to_dict(),
    )
    mine = next((one for one in effects if one.title == contrast), None)
    return {group: mine.weights[cell] for group, cell in cells.items()} if mine else {}


def primary_rows(
    finding: Finding, study: Study, rows: pd.DataFrame, model: str
) -> tuple[Context, pd.DataFrame]:
    """The context of a primary finding and the scored rows that it is made of, placebo ones among them."""
    experiment = next(one for one in study.experiments if one.name == finding.experiment)
    rows = over_prompts(experiment, rows)
    pair = (finding.group, finding.reference_group)
    weights = dict[str, float]()
    if finding.measure in EFFECTS:
        weights = _effect_weights(experiment, rows[rows["group"] != PLACEBO], finding.contrast)
    else:
        experiment = next(
            (
                one
                for one in experiment.gaps
                if (one.compares.group, one.compares.reference) == pair
            ),
            experiment,
        )
    if (
        finding.measure != "gap_difference"
    ):  # one set of conditions was audited, or there is no contrast
        experiment = experiment.changed(compares={"contrast": None})
        rows = rows[rows[experiment.compares.subset] == finding.subset] if finding.subset else rows
    if finding.slice_by != "all":
        column = next(one.column for one in experiment.shows.slices if one.name == finding.slice_by)
        rows = rows[rows[column] == finding.slice_value]
    context = Context(
        study.name,
        model,
        experiment,
        "score",
        0,
        weights,
        finding.subset,
        finding.slice_by,
        finding.slice_value,
    )
    return context, rows
