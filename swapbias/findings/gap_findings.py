"""Findings about gaps: of two groups, between subsets, over all groups at once, of crossed factors."""

import math
from collections.abc import Iterator
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
from swapbias.measures import Estimate


def gap_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """By the inference of the design, then by the paper's own test."""
    experiment = context.experiment
    two = context.two(rows)
    units = gap_units(context, two)
    if units is None:
        return
    estimate = units.measured()
    published = (
        condition_means(experiment, two, context.score) if experiment.design.aggregate else two
    )
    plain_baseline = _reference_mean(context, published)
    baseline = (
        units.mean_of(experiment.compares.reference)
        if experiment.design.equal_levels
        else plain_baseline
    )
    fields: dict[str, Any] = {**units.fields, **units.distances(), "baseline": baseline}
    if _are_rates(context, two):
        # Of what is no mean rates have no ratio: rare ones do not pass then.
        fields |= (
            _ratio_fields(context, two, estimate.value, baseline)
            if context.comparison.is_mean
            else {"is_rate": True}
        )
    yield _drop_unmeasured(
        context.finding(estimate, experiment.compares.measure, **context.gap_fields, **fields),
        units,
    )
    if ANSWERS not in experiment.shows.rates:
        plain = _published_gap(context, published)
        yield context.finding(
            plain,
            experiment.compares.measure,
            view=context.plain_view,
            baseline=plain_baseline,
            **context.gap_fields,
        )


def _drop_unmeasured(finding: Finding, units: Units) -> Finding:
    """The finding; without its value where the units are such that its comparison says nothing."""
    reason = units.why_unmeasured
    return as_unmeasured(finding, reason) if reason else finding


def _are_rates(context: Context, rows: pd.DataFrame) -> bool:
    """Tell whether scores say how often something happens: by their unit, or because all are 0 or 1."""
    unit = context.score_unit
    if unit.is_rate or not unit.in_points:
        return unit.is_rate
    return is_binary(rows[context.score].to_numpy(dtype=np.float64), unit)


def _published_gap(context: Context, rows: pd.DataFrame) -> Estimate:
    """The gap by the paper's own test, which treats units as independent; of two models between their gaps."""
    experiment = context.experiment
    comparison = context.comparison
    if OTHER in rows and comparison.is_paired:
        first, second = (
            pair_gaps(replace(context, score=name), rows)["gap"] for name in ("score", OTHER)
        )
        return comparison.published_difference(first.to_numpy(), second.to_numpy())
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
    """Of rates the ratio of the two groups', and the standard error of its log by the delta method.

    Of rates whose mean lies above .9 the ratio of their complements.
    """
    unit = context.score_unit
    start = unit.low
    sign = 1.0
    if baseline + value / 2 - unit.low > (1 - RARE) * unit.span:
        start = unit.high
        sign = -1.0
    of_reference = sign * (baseline - start)
    of_group = sign * (baseline + value - start)
    if not of_reference > 0:
        return {"is_rate": True}
    if not of_group > 0:
        return {"is_rate": True, "ratio": 0.0}
    is_reference = rows["group"] == context.experiment.compares.reference
    own = is_reference.map({True: of_reference, False: of_group})
    counted = sign * (rows[context.score] - start) / own
    units = gap_units(context, rows.assign(**{context.score: counted}))
    log = units.estimate() if units else Estimate(math.nan)
    return {
        "is_rate": True,
        "ratio": of_group / of_reference,
        "ratio_std_error": log.std_error,
        "ratio_df": log.df,
        "ratio_skewness": log.skewness,
    }


def _reference_mean(context: Context, rows: pd.DataFrame) -> float:
    return float(
        rows.loc[rows["group"] == context.experiment.compares.reference, context.score].mean()
    )


def gap_difference_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Difference of the pairs' gaps between two subsets: by the inference of the design, then by an independent t."""
    units, (first, second) = (
        gap_units(context, rows),
        context.experiment.compares.contrast or ("", ""),
    )
    if units is None:
        return
    fields: dict[str, Any] = {**context.gap_fields, "within": first, "against": second}
    fields["baseline"] = _reference_mean(context, rows)
    yield _drop_unmeasured(
        context.finding(units.measured(), "gap_difference", **units.fields, **fields), units
    )
    pairs = pair_gaps(context, rows)
    by_subset = [
        pairs.loc[pairs[context.experiment.compares.subset] == name, "gap"].to_numpy()
        for name in (first, second)
    ]
    estimate = context.comparison.published_difference(*by_subset)
    yield context.finding(estimate, "gap_difference", view=context.plain_view, **fields)


def spread_findings(context: Context, rows: pd.DataFrame, contrast: str) -> Iterator[Finding]:
    """Whether any of several groups differs, or with ``ALL_GAPS`` any gap in two subsets; nothing of two groups."""
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    groups = rows["group"].tolist()
    paired = experiment.is_paired
    samples = rows[experiment.compares.subset].tolist() if contrast == ALL_GAPS else None
    if (
        not experiment.compares.measure
        or len(set(groups)) < 3
        or (samples and len(set(samples)) < 2)
    ):
        return
    reference = experiment.compares.reference if experiment.compares.reference in groups else None
    by_gaps = paired and reference and not samples
    if not context.comparison.is_mean and not by_gaps:
        return  # no test of several means
    clusters, over = context.random(rows)
    found = measures.omnibus(
        rows[context.score].to_numpy(),
        groups,
        pair_ids=rows["pair_id"].tolist() if paired else None,
        cluster_ids=clusters,
        sample_ids=samples,
        reference_group=reference,
    )
    estimate = found.estimate
    if by_gaps:  # by the design of each
        each = [
            units.estimate()
            for one in context.gaps()
            if (units := gap_units(one, rows)) is not None
        ]
        estimate = found.with_p_values([gap.p_value for gap in each]).estimate
        if not context.comparison.is_mean:
            estimate = replace(estimate, value=float(np.std([*(gap.value for gap in each), 0.0])))
    yield context.finding(estimate, SPREAD, contrast, cluster_vars=over)


def factor_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Main effects and interactions of the experiment's factors, where every combination of levels has rows."""
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    table = (
        group_levels(experiment, rows)
        if experiment.compares.factors and experiment.compares.measure and len(rows)
        else rows[:0]
    )
    if not len(table):
        return
    clusters, over = context.random(rows)
    found = measures.factorial(
        rows[context.score].to_numpy(),
        {factor: rows["group"].map(table[factor]).tolist() for factor in table},
        reference=table.loc[experiment.compares.reference].to_dict(),
        cluster_ids=clusters,
        pair_ids=rows["pair_id"].tolist() if experiment.is_paired else None,
    )
    for term, test in found.terms.items():
        mine = [one for one in found.effects if one.term == term]
        for one in mine:
            levels = (
                [level for pair in one.levels.values() for level in pair]
                if len(one.levels) < 3
                else []
            )
            named = dict(
                zip(("group", "reference_group", "within", "against"), levels, strict=False)
            )
            yield context.finding(
                one.estimate, EFFECTS[len(one.levels) - 1], one.title, cluster_vars=over, **named
            )
        if len(mine) > 1:
            yield context.finding(test.estimate, SPREAD, term, cluster_vars=over)
