"""Findings on gaps: between two groups, between subsets, over all groups at once, of crossed factors."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.compared_units import Units, group_levels
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding, as_unmeasured
from swapbias.findings.repeats import is_binary
from swapbias.findings.scored_rows import ANSWERS, OTHER, condition_means
from swapbias.findings.terms import ALL, ALL_GAPS, EFFECTS, RARE, SPREAD
from swapbias.findings.unit_rows import ComparedRows, gap_units, pair_gaps, pair_ids
from swapbias.measures import Estimate, Unit, crossed_factors


def gap_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the gap of two groups by the inference of the design (its random factors), then by the paper's own test.

    Args:
        context: the context of the gap.
        rows: scored rows of the experiment; those of other groups are left out.
    """
    experiment = context.experiment
    measure = experiment.compares.measure
    compared = context.compared_rows(rows)
    units = gap_units(context, compared)
    if units is None:
        return
    estimate = units.measured()
    rows_of_papers_test = compared
    if experiment.design.aggregate:
        rows_of_papers_test = condition_means(experiment, compared, context.score)
    baseline_of_papers_test = _reference_mean(context, rows_of_papers_test)
    baseline = baseline_of_papers_test
    if experiment.design.equal_levels:
        baseline = units.mean_of(experiment.compares.reference)
    fields: dict[str, Any] = {**units.fields, **units.distances(), "baseline": baseline}
    fields |= rate_fields(context, compared, estimate.value, baseline)
    finding = context.finding(estimate, measure, **context.gap_fields, **fields)
    yield _blank_if_unmeasured(finding, units)
    has_trials_by_sentence = ANSWERS in experiment.shows.rates
    if not has_trials_by_sentence:
        yield context.finding(
            _gap_by_papers_test(context, rows_of_papers_test),
            measure,
            view=context.plain_view,
            baseline=baseline_of_papers_test,
            **context.gap_fields,
        )


def gap_answer(context: Context, compared: ComparedRows, measure: str) -> Finding:
    """Return a gap, or a difference of gaps, by the inference of the design, without what is told beside it.

    Args:
        context: the context of the gap.
        compared: the rows of its groups.
        measure: what the finding is called.
    """
    units = compared.units(context)
    fields = {**units.fields, **context.gap_fields}
    return _blank_if_unmeasured(context.finding(units.estimate(), measure, **fields), units)


def _blank_if_unmeasured(finding: Finding, units: Units) -> Finding:
    """Return the finding; without its value where its comparison says nothing about such units."""
    reason = units.why_unmeasured
    return as_unmeasured(finding, reason) if reason else finding


def _are_rates(context: Context, rows: pd.DataFrame) -> bool:
    """Tell whether scores say how often something happens: by their unit, or because all are 0 or 1."""
    unit = context.score_unit
    if unit.is_rate or not unit.in_points:
        return unit.is_rate
    return is_binary(rows[context.score].to_numpy(dtype=np.float64), unit)


def _gap_by_papers_test(context: Context, rows: pd.DataFrame) -> Estimate:
    """Estimate the gap by the paper's test, as if units were independent; for two models the gap of their gaps."""
    experiment = context.experiment
    comparison = context.comparison
    if OTHER in rows and comparison.is_paired:
        gaps = pair_gaps(replace(context, score="score"), rows)["gap"]
        gaps_of_other = pair_gaps(replace(context, score=OTHER), rows)["gap"]
        return comparison.difference_by_papers_test(gaps.to_numpy(), gaps_of_other.to_numpy())
    return comparison.gap_by_papers_test(
        rows[context.score].to_numpy(),
        rows["group"].to_numpy(),
        pair_ids(rows),
        reference_group=experiment.compares.reference,
        test=experiment.compares.test,
    )


def rate_fields(
    context: Context, rows: pd.DataFrame, value: float, baseline: float
) -> dict[str, Any]:
    """Return the fields of a gap between rates, with their ratio where both are means; none of other scores.

    Without a ratio a gate does not pass rare rates.

    Args:
        context: the context of the gap.
        rows: scored rows of the two groups.
        value: the gap, in the unit of the scores.
        baseline: the mean score of the reference group.
    """
    if not _are_rates(context, rows):
        return {}
    if not context.comparison.is_mean:
        return {"is_rate": True}
    return {"is_rate": True, **_ratio_fields(context, rows, value, baseline)}


def _ratio_fields(
    context: Context, rows: pd.DataFrame, value: float, baseline: float
) -> dict[str, Any]:
    """Return the fields of the ratio of two groups' rates."""
    is_reference = rows["group"] == context.experiment.compares.reference

    def relative_gap(no_rate: float, of_group: float, of_reference: float) -> Estimate:
        """Estimate the gap of scores that are divided by a number for each group."""
        parts = is_reference.map({True: of_reference, False: of_group})
        relative = (rows[context.score] - no_rate) / parts
        units = gap_units(context, rows.assign(**{context.score: relative}))
        return units.estimate() if units else Estimate(math.nan)

    return _fields_of_ratio(context.score_unit, value, baseline, relative_gap)


def _fields_of_ratio(
    unit: Unit,
    value: float,
    baseline: float,
    relative_gap: Callable[[float, float, float], Estimate],
) -> dict[str, Any]:
    """Return the fields of the ratio of two rates, with the error of its log by the delta method.

    Where the mean of the rates lies above 1 - ``RARE`` it is the ratio of their complements. ``relative_gap`` gets
    the score of no rate and what the scores of the first and of the second are divided by.
    """
    no_rate = unit.low
    sign = 1.0
    if baseline + value / 2 - unit.low > (1 - RARE) * unit.span:
        no_rate = unit.high
        sign = -1.0
    rate_of_reference = sign * (baseline - no_rate)
    rate_of_group = sign * (baseline + value - no_rate)
    if not rate_of_reference > 0:
        return {}
    if not rate_of_group > 0:
        return {"ratio": 0.0}
    # Each rate divided by itself: the standard error of this gap is that of the log of the ratio.
    gap = relative_gap(no_rate, sign * rate_of_group, sign * rate_of_reference)
    return {
        "ratio": rate_of_group / rate_of_reference,
        "ratio_std_error": gap.std_error,
        "ratio_df": gap.df,
        "ratio_skewness": gap.skewness,
    }


def _reference_mean(context: Context, rows: pd.DataFrame) -> float:
    """Return the mean score of the reference group."""
    is_reference = rows["group"] == context.experiment.compares.reference
    return float(rows.loc[is_reference, context.score].mean())


def gap_difference_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the difference of gaps between two subsets by the inference of the design, then as if independent.

    The second is a t test of independent samples for means; a comparison may have another.

    Args:
        context: the context of the gap, in an experiment with a contrast of two subsets.
        rows: scored rows of the two subsets.
    """
    units = gap_units(context, rows)
    if units is None:
        return
    subset = context.experiment.compares.subset
    within, against = context.experiment.compares.contrast or ("", "")
    fields: dict[str, Any] = {**context.gap_fields, "within": within, "against": against}
    fields["baseline"] = _reference_mean(context, rows)
    finding = context.finding(units.measured(), "gap_difference", **units.fields, **fields)
    yield _blank_if_unmeasured(finding, units)
    pairs = pair_gaps(context, rows)
    gaps_within = pairs.loc[pairs[subset] == within, "gap"].to_numpy()
    gaps_against = pairs.loc[pairs[subset] == against, "gap"].to_numpy()
    estimate = context.comparison.difference_by_papers_test(gaps_within, gaps_against)
    yield context.finding(estimate, "gap_difference", view=context.plain_view, **fields)


def omnibus_findings(context: Context, rows: pd.DataFrame, contrast: str) -> Iterator[Finding]:
    """Yield the test whether any of several groups differs; nothing where there are two groups or no such test.

    Nothing where groups are the levels of one factor, whose own test says it.

    Args:
        context: the context of the experiment.
        rows: scored rows of the experiment.
        contrast: ``ALL`` for the means of the groups, ``ALL_GAPS`` for their gaps in two subsets.
    """
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    groups = rows["group"].tolist()
    subsets = rows[experiment.compares.subset].tolist() if contrast == ALL_GAPS else None
    are_levels = len(experiment.compares.factors) == 1
    if not experiment.compares.measure or len(set(groups)) < 3 or are_levels:
        return
    if subsets and len(set(subsets)) < 2:
        return
    reference = experiment.compares.reference if experiment.compares.reference in groups else None
    tests_each_gap = experiment.is_paired and reference and not subsets
    if not context.comparison.is_mean and not tests_each_gap:
        return  # no test of several means
    clusters, cluster_vars = context.random(rows)
    omnibus = measures.omnibus(
        rows[context.score].to_numpy(),
        groups,
        pair_ids=rows["pair_id"].tolist() if experiment.is_paired else None,
        cluster_ids=clusters,
        sample_ids=subsets,
        reference_group=reference,
    )
    estimate = omnibus.estimate
    if tests_each_gap:
        gaps = _estimate_gaps(context, rows)
        estimate = omnibus.with_p_values([gap.p_value for gap in gaps]).estimate
        if not context.comparison.is_mean:
            # The SD of the gaps, the reference's own gap of 0 among them: medians have no means whose SD to take.
            spread = float(np.std([*(gap.value for gap in gaps), 0.0]))
            estimate = replace(estimate, value=spread)
    yield context.finding(estimate, SPREAD, contrast, cluster_vars=cluster_vars)


def _estimate_gaps(context: Context, rows: pd.DataFrame) -> list[Estimate]:
    """Estimate the gap of each group to the reference, by the design of each."""
    estimates = []
    for gap in context.gaps():
        units = gap_units(gap, rows)
        if units is not None:
            estimates.append(units.estimate())
    return estimates


def difference_of_levels_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield by how much each level of one factor differs from the mean of the others in one subset less another.

    Args:
        context: the context of the experiment, with a contrast of two subsets.
        rows: scored rows of the two subsets, paired, with the column of the factor.
    """
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    if len(experiment.compares.factors) != 1 or not experiment.is_paired or not len(rows):
        return
    table = group_levels(experiment, rows)
    if not len(table):
        return
    (factor,) = table
    clusters, cluster_vars = context.random(rows)
    within, against = experiment.compares.contrast or ("", "")
    factorial = crossed_factors.deviations(
        rows[context.score].to_numpy(),
        factor,
        rows["group"].map(table[factor]).tolist(),
        pair_ids=rows["pair_id"].tolist(),
        cluster_ids=clusters,
        sample_ids=(rows[experiment.compares.subset] == against).astype(int).tolist(),
    )
    for effect in factorial.effects:
        level, others = effect.levels[factor]
        yield context.finding(
            effect.estimate,
            "gap_difference",
            effect.title,
            cluster_vars=cluster_vars,
            group=level,
            reference_group=others,
            within=within,
            against=against,
        )
    omnibus = factorial.terms[factor].estimate
    yield context.finding(omnibus, SPREAD, ALL_GAPS, cluster_vars=cluster_vars)


@dataclass(frozen=True, slots=True)
class FactorRows:
    """Rows of crossed factors of groups; what does not depend on the score is found once for all scores."""

    rows: pd.DataFrame
    """Scored rows of the compared groups."""
    cells: crossed_factors.CellRows
    """The levels of each row, its pair and its clusters."""
    cluster_vars: str
    """The names of the random factors."""

    @classmethod
    def of(cls, context: Context, rows: pd.DataFrame) -> "FactorRows | None":
        """Return the rows of the groups; None without factors, or where not every combination of levels is there.

        Args:
            context: the context of the experiment.
            rows: scored rows with the columns of the factors.
        """
        experiment = context.experiment
        if not experiment.compares.factors or not experiment.compares.measure:
            return None
        rows = rows[rows["group"].isin(experiment.compared)]
        if not len(rows):
            return None
        table = group_levels(experiment, rows)
        if not len(table):
            return None
        clusters, cluster_vars = context.random(rows)
        levels = {factor: rows["group"].map(table[factor]).tolist() for factor in table}
        units: dict[str, Any] = {
            "pair_ids": rows["pair_id"].tolist() if experiment.is_paired else None,
            "cluster_ids": clusters,
        }
        if len(levels) == 1:
            cells = crossed_factors.CellRows.of_levels(*levels.popitem(), **units)
        else:
            reference = table.loc[experiment.compares.reference].to_dict()
            cells = crossed_factors.CellRows.crossed(levels, reference, **units)
        return cls(rows, cells, cluster_vars)


def factor_findings(context: Context, factor_rows: FactorRows) -> Iterator[Finding]:
    """Yield main effects and interactions of the experiment's factors, where every combination of levels has rows.

    Of one factor each level is compared with the mean of the others.

    Args:
        context: the context of the experiment.
        factor_rows: scored rows of its groups.
    """
    experiment = context.experiment
    factorial = factor_rows.cells.factorial(factor_rows.rows[context.score].to_numpy())
    cluster_vars = factor_rows.cluster_vars
    are_rates = _are_rates(context, factor_rows.rows)
    for term, omnibus in factorial.terms.items():
        effects = [effect for effect in factorial.effects if effect.term == term]
        for effect in effects:
            fields: dict[str, Any] = _level_fields(effect)
            if are_rates and len(effect.levels) == 1:
                fields |= _rate_fields_of_effect(context, factorial, effect)
            yield context.finding(
                effect.estimate,
                EFFECTS[len(effect.levels) - 1],
                effect.title,
                cluster_vars=cluster_vars,
                **fields,
            )
        if len(effects) > 1:
            # Of one factor its levels are the groups.
            contrast = ALL if len(experiment.compares.factors) == 1 else term
            yield context.finding(omnibus.estimate, SPREAD, contrast, cluster_vars=cluster_vars)


def _rate_fields_of_effect(
    context: Context, factorial: crossed_factors.Factorial, effect: crossed_factors.Effect
) -> dict[str, Any]:
    """Return the fields of a main effect on rates, with the ratio of the two rates."""
    baseline = factorial.subtracted_mean(effect)
    ratio = _fields_of_ratio(
        context.score_unit,
        effect.estimate.value,
        baseline,
        lambda _, *divisors: factorial.relative(effect, *divisors),
    )
    return {"is_rate": True, "baseline": baseline, **ratio}


def _level_fields(effect: crossed_factors.Effect) -> dict[str, str]:
    """Return the fields of a finding that name the levels of an effect of one factor or two; none of three."""
    if len(effect.levels) > 2:
        return {}
    levels: Sequence[str] = [level for pair in effect.levels.values() for level in pair]
    names = ("group", "reference_group", "within", "against")
    return dict(zip(names, levels, strict=False))
