"""Findings about gaps: of two groups, between subsets, over all groups at once, of crossed factors."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.compared_units import Units, gap_units, group_levels, pair_gaps, pair_ids
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding, as_unmeasured
from swapbias.findings.repeats import is_binary
from swapbias.findings.scored_rows import ANSWERS, OTHER, condition_means
from swapbias.findings.terms import ALL_GAPS, EFFECTS, RARE, SPREAD
from swapbias.measures import Estimate, crossed_factors


def gap_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the gap of two groups by the inference of the design, then by the paper's own test.

    Args:
        context: of the gap.
        rows: scored rows.
    """
    experiment = context.experiment
    measure = experiment.compares.measure
    two = context.two(rows)
    units = gap_units(context, two)
    if units is None:
        return
    estimate = units.measured()
    published_rows = two
    if experiment.design.aggregate:
        published_rows = condition_means(experiment, two, context.score)
    published_baseline = _reference_mean(context, published_rows)
    baseline = published_baseline
    if experiment.design.equal_levels:
        baseline = units.mean_of(experiment.compares.reference)
    fields: dict[str, Any] = {**units.fields, **units.distances(), "baseline": baseline}
    if _are_rates(context, two):
        fields["is_rate"] = True
        # Of what is no mean rates have no ratio: rare ones do not pass then.
        if context.comparison.is_mean:
            fields |= _ratio_fields(context, two, estimate.value, baseline)
    finding = context.finding(estimate, measure, **context.gap_fields, **fields)
    yield _drop_unmeasured(finding, units)
    if ANSWERS not in experiment.shows.rates:
        yield context.finding(
            _published_gap(context, published_rows),
            measure,
            view=context.plain_view,
            baseline=published_baseline,
            **context.gap_fields,
        )


def _drop_unmeasured(finding: Finding, units: Units) -> Finding:
    """Return the finding; without its value where the units are such that its comparison says nothing."""
    reason = units.why_unmeasured
    return as_unmeasured(finding, reason) if reason else finding


def _are_rates(context: Context, rows: pd.DataFrame) -> bool:
    """Tell whether scores say how often something happens: by their unit, or because all are 0 or 1."""
    unit = context.score_unit
    if unit.is_rate or not unit.in_points:
        return unit.is_rate
    return is_binary(rows[context.score].to_numpy(dtype=np.float64), unit)


def _published_gap(context: Context, rows: pd.DataFrame) -> Estimate:
    """Estimate the gap, or of two models that of their gaps, by the paper's test, as if units were independent."""
    experiment = context.experiment
    comparison = context.comparison
    if OTHER in rows and comparison.is_paired:
        gaps = pair_gaps(replace(context, score="score"), rows)["gap"]
        gaps_of_other = pair_gaps(replace(context, score=OTHER), rows)["gap"]
        return comparison.published_difference(gaps.to_numpy(), gaps_of_other.to_numpy())
    return comparison.published(
        rows[context.score].to_numpy(),
        rows["group"].to_numpy(),
        pair_ids(rows),
        reference_group=experiment.compares.reference,
        test=experiment.compares.test,
    )


def _ratio_fields(
    context: Context, rows: pd.DataFrame, value: float, baseline: float
) -> dict[str, Any]:
    """Return the fields of the ratio of two groups' rates, with the error of its log by the delta method.

    Of rates whose mean lies above .9 it is the ratio of their complements.
    """
    unit = context.score_unit
    start = unit.low
    sign = 1.0
    if baseline + value / 2 - unit.low > (1 - RARE) * unit.span:
        start = unit.high
        sign = -1.0
    rate_of_reference = sign * (baseline - start)
    rate_of_group = sign * (baseline + value - start)
    if not rate_of_reference > 0:
        return {}
    if not rate_of_group > 0:
        return {"ratio": 0.0}
    is_reference = rows["group"] == context.experiment.compares.reference
    rate_of_row = is_reference.map({True: rate_of_reference, False: rate_of_group})
    relative = sign * (rows[context.score] - start) / rate_of_row
    units = gap_units(context, rows.assign(**{context.score: relative}))
    log = units.estimate() if units else Estimate(math.nan)
    return {
        "ratio": rate_of_group / rate_of_reference,
        "ratio_std_error": log.std_error,
        "ratio_df": log.df,
        "ratio_skewness": log.skewness,
    }


def _reference_mean(context: Context, rows: pd.DataFrame) -> float:
    """Return the mean score of the reference group."""
    is_reference = rows["group"] == context.experiment.compares.reference
    return float(rows.loc[is_reference, context.score].mean())


def gap_difference_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the difference of gaps between two subsets by the inference of the design, then by an independent t test.

    Args:
        context: of the gap, in an experiment with a contrast of two subsets.
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
    yield _drop_unmeasured(finding, units)
    pairs = pair_gaps(context, rows)
    gaps_within = pairs.loc[pairs[subset] == within, "gap"].to_numpy()
    gaps_against = pairs.loc[pairs[subset] == against, "gap"].to_numpy()
    estimate = context.comparison.published_difference(gaps_within, gaps_against)
    yield context.finding(estimate, "gap_difference", view=context.plain_view, **fields)


def spread_findings(context: Context, rows: pd.DataFrame, contrast: str) -> Iterator[Finding]:
    """Yield the test whether any of several groups differs; nothing where there are two groups or no such test.

    Args:
        context: of the experiment.
        rows: scored rows.
        contrast: ``ALL`` for the means of the groups, ``ALL_GAPS`` for their gaps in two subsets.
    """
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    groups = rows["group"].tolist()
    samples = rows[experiment.compares.subset].tolist() if contrast == ALL_GAPS else None
    if not experiment.compares.measure or len(set(groups)) < 3:
        return
    if samples and len(set(samples)) < 2:
        return
    reference = experiment.compares.reference if experiment.compares.reference in groups else None
    by_gaps = experiment.is_paired and reference and not samples
    if not context.comparison.is_mean and not by_gaps:
        return  # no test of several means
    clusters, cluster_vars = context.random(rows)
    omnibus = measures.omnibus(
        rows[context.score].to_numpy(),
        groups,
        pair_ids=rows["pair_id"].tolist() if experiment.is_paired else None,
        cluster_ids=clusters,
        sample_ids=samples,
        reference_group=reference,
    )
    estimate = omnibus.estimate
    if by_gaps:
        gaps = _estimate_gaps(context, rows)
        estimate = omnibus.with_p_values([gap.p_value for gap in gaps]).estimate
        if not context.comparison.is_mean:
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


def factor_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield main effects and interactions of the experiment's factors, where every combination of levels has rows.

    Args:
        context: of the experiment.
        rows: scored rows with the columns of the factors.
    """
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    if not experiment.compares.factors or not experiment.compares.measure or not len(rows):
        return
    table = group_levels(experiment, rows)
    if not len(table):
        return
    clusters, cluster_vars = context.random(rows)
    factorial = measures.factorial(
        rows[context.score].to_numpy(),
        {factor: rows["group"].map(table[factor]).tolist() for factor in table},
        reference=table.loc[experiment.compares.reference].to_dict(),
        cluster_ids=clusters,
        pair_ids=rows["pair_id"].tolist() if experiment.is_paired else None,
    )
    for term, omnibus in factorial.terms.items():
        effects = [effect for effect in factorial.effects if effect.term == term]
        for effect in effects:
            yield context.finding(
                effect.estimate,
                EFFECTS[len(effect.levels) - 1],
                effect.title,
                cluster_vars=cluster_vars,
                **_level_fields(effect),
            )
        if len(effects) > 1:
            yield context.finding(omnibus.estimate, SPREAD, term, cluster_vars=cluster_vars)


def _level_fields(effect: crossed_factors.Effect) -> dict[str, str]:
    """Return the fields of a finding that name the levels of an effect of one factor or two; none of three."""
    if len(effect.levels) > 2:
        return {}
    levels: Sequence[str] = [level for pair in effect.levels.values() for level in pair]
    names = ("group", "reference_group", "within", "against")
    return dict(zip(names, levels, strict=False))
