"""Findings beyond the mean: decisions that change at a threshold of the score, and gaps at its quantiles."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from swapbias.findings.compared_units import Units
from swapbias.findings.context import Context, unit_fields
from swapbias.findings.finding import Finding, as_unmeasured
from swapbias.findings.gap_findings import rate_fields
from swapbias.findings.terms import COARSE_SCORES, SAME_DECISION
from swapbias.findings.unit_rows import gap_units
from swapbias.measures import Estimate, Unit, quantiles, share_intervals

DECISIONS = Unit("share of positive decisions", 0.0, 1.0, is_rate=True)
"""The unit of decisions, each 0 or 1."""


def tail_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the findings at each threshold and each quantile that the experiment shows, of the score alone.

    They are about all rows, and where these are never pooled about each value of the slice that answers the question.

    Args:
        context: the context of the gap between two groups.
        rows: scored rows of the experiment; those of other groups are left out.
    """
    experiment = context.experiment
    if not experiment.shows.decisions and not experiment.shows.quantiles:
        return
    comparison = experiment.comparison
    slice_of_answer = experiment.compares.primary.slice if experiment.never_pooled else "all"
    if comparison is None or context.score != "score" or context.slice_by != slice_of_answer:
        return
    plain = replace(
        context,
        experiment=experiment.changed(
            compares={"measure": comparison.of_shares.name, "contrast": None},
            shows={"rates": ()},
        ),
    )
    compared = context.compared_rows(rows)
    for threshold in experiment.shows.decisions:
        yield from _decision_findings(plain, compared, threshold)
    for quantile in experiment.shows.quantiles:
        yield from _quantile_findings(plain, compared, quantile)


def _decision_findings(context: Context, rows: pd.DataFrame, threshold: float) -> Iterator[Finding]:
    """Yield how many pairs are decided otherwise, and how much more often a group is decided for."""
    scores = rows[context.score]
    decisions = scores.ge(threshold).astype(float).where(scores.notna())
    rows = rows.assign(**{context.score: decisions})
    context = replace(context, experiment=context.experiment.in_unit(DECISIONS))
    units = gap_units(context, rows)
    if units is None or not len(units.rows):
        return
    is_same = decisions.dropna().nunique() < 2
    fields = _fields_at(context, f"score of {threshold:g} or more")
    if context.comparison.is_paired:
        flips = context.finding(
            _share_of_flips(units), "decision_flips", fields["contrast"], **_fixed_fields(units)
        )
        yield as_unmeasured(flips, SAME_DECISION) if is_same else flips
    is_reference = rows["group"] == context.experiment.compares.reference
    baseline = float(decisions[is_reference].mean())
    if context.experiment.design.equal_levels:
        baseline = units.mean_of(context.experiment.compares.reference)
    estimate = units.estimate()
    gap = context.finding(
        estimate,
        "decision_gap",
        baseline=baseline,
        **fields,
        **_fixed_fields(units),
        **rate_fields(context, rows, estimate.value, baseline),
        **unit_fields(DECISIONS),
    )
    yield as_unmeasured(gap, SAME_DECISION) if is_same else gap


def _fields_at(context: Context, cut: str) -> dict[str, str]:
    """Return the fields of a finding that name its groups, and the threshold or quantile in the contrast."""
    fields = context.gap_fields
    return fields | {"contrast": f"{fields['contrast']}, {cut}"}


def _fixed_fields(units: Units) -> dict[str, str]:
    """Return the random factors of units, and the fixed levels that they are about."""
    return {"cluster_vars": units.cluster_vars, "fixed": units.fixed}


def _share_of_flips(units: Units) -> Estimate:
    """Return the share of pairs whose decisions differ, over the random factors."""
    values, _ = units.columns
    flips = share_intervals.share_over_factors(
        values != 0, units.factors, shares=units.shares(), n_unscored=units.n_unscored
    )
    if units.single or not units.cluster_vars:
        return replace(flips, ci_low=math.nan, ci_high=math.nan, interval="none")
    return flips


def _quantile_findings(context: Context, rows: pd.DataFrame, quantile: float) -> Iterator[Finding]:
    """Yield the gap between the quantiles of the two groups' scores."""
    units = gap_units(context, rows)
    if units is None or not len(units.rows):
        return
    groups = units.scores_by_group()
    shares = units.shares()
    shares_by_group = [None if shares is None else shares[chosen] for _, chosen in groups]
    linear = [
        quantiles.linearised_quantile(scores, quantile, of_group)
        for (scores, _), of_group in zip(groups, shares_by_group, strict=True)
    ]
    values = np.empty(len(units.rows))
    if context.comparison.is_paired:
        values = linear[0] - linear[1]
    else:
        for numbers, (_, is_of_group) in zip(linear, groups, strict=True):
            values[is_of_group] = numbers
    estimate = replace(units, rows=units.rows.assign(value=values)).estimate()
    fewest = min(len(scores) for scores, _ in groups)
    if not quantiles.has_tail(quantile, fewest, estimate.fewest):
        estimate = Estimate(
            estimate.value,
            n=estimate.n,
            n_unscored=estimate.n_unscored,
            test="none",
            interval="none",
            fewest=estimate.fewest,
            fewest_of=estimate.fewest_of,
            independent=estimate.independent,
        )
    finding = context.finding(
        estimate,
        "quantile_gap",
        baseline=float(np.average(linear[1], weights=shares_by_group[1])),
        **_fields_at(context, f"quantile {quantile:g}"),
        **_fixed_fields(units),
    )
    is_coarse = any(quantiles.is_coarse(scores) for scores, _ in groups)
    yield as_unmeasured(finding, COARSE_SCORES) if is_coarse else finding
