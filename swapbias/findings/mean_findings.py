"""Findings about single groups and columns: means, rates, counts above a threshold, correlations."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.compared_units import mean_weights
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.predictions import RATES, SIGNED
from swapbias.findings.scored_rows import LOST, by_sentence, condition_means
from swapbias.findings.split_findings import SPLIT_RATES, has_splits
from swapbias.findings.unit_rows import pair_gaps
from swapbias.measures import Estimate, Floats, crossed_factors
from swapbias.studies import Covariate


def level_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield means over the units that gaps are made of, so that those of two groups differ by their gap.

    Args:
        context: the context of the rows.
        rows: scored rows.
    """
    experiment = context.experiment
    has_whole_question = experiment.compares.primary.slice == "all"
    if not experiment.compares.measure and context.slice_by == "all" and not has_whole_question:
        return  # means of questions that may cancel
    rows = by_sentence(experiment, rows, context.score)
    for level in experiment.shows.levels:
        chosen = rows if level == "all" else rows[rows["group"] == level]
        if not len(chosen):
            continue
        mean = mean_finding(
            context, chosen, level, weights=mean_weights(context, chosen, context.score)
        )
        yield bounded_mean(context, chosen, mean)
        if level == "all" and not math.isnan(mean.estimate.value):  # beside nothing stands nothing
            yield from _reported_means(context, chosen)
        if experiment.design.aggregate and context.slice_by == "all":
            published = measures.mean_score(chosen[context.score].to_numpy())
            yield context.finding(published, "mean", level, view=context.plain_view)


def mean_finding(
    context: Context, rows: pd.DataFrame, contrast: str, *, weights: Any = None, **fields: Any
) -> Finding:
    """Return the finding of a mean score with its interval over the random factors.

    Args:
        context: the context of the rows.
        rows: scored rows.
        contrast: the group, or ``all``.
        weights: the weights of the rows, shape (rows,); None: all weigh the same.
        fields: further fields of ``Finding``.
    """
    clusters, cluster_vars = context.random(rows)
    estimate = measures.mean_score(
        rows[context.score].to_numpy(), cluster_ids=clusters, weights=weights
    )
    return context.finding(estimate, "mean", contrast, cluster_vars=cluster_vars, **fields)


def _reported_means(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield somebody else's mean answer to the same questions: a known number, of which nothing is a sample."""
    if context.score != "score":
        return
    for covariate in context.experiment.shows.covariates:
        questions = rows[covariate.column].unique() if covariate.beside else []
        if len(questions) and set(questions) <= set(covariate.values):
            values = [covariate.values[name] for name in questions]
            estimate = Estimate(float(np.mean(values)), n=len(values), test="none")
            yield context.finding(estimate, "mean", covariate.name)


def rate_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the findings of the experiment's rates; of signed ones not over slices that are never pooled.

    Args:
        context: the context of the rows.
        rows: scored rows.
    """
    if context.score != "score":
        return
    is_pooled = context.slice_by == "all" and context.experiment.never_pooled
    for name in context.experiment.shows.rates:
        if name not in RATES or (is_pooled and name in SIGNED):
            continue  # of two subsets at once
        contexts = context.gaps() if name in ("flips", "ratios") else [context]
        of_splits = SPLIT_RATES.get(name) if has_splits(rows) else None
        for part in contexts:
            yield from (of_splits or RATES[name])(part, rows)


def count_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the number of units of each group above a threshold; a threshold of 1 counts those that reach it.

    Args:
        context: the context of the rows.
        rows: scored rows.
    """
    experiment = context.experiment
    if not experiment.shows.thresholds or context.score != "score":
        return
    units = condition_means(experiment, rows)
    unit = experiment.design.aggregate[-1] if experiment.design.aggregate else "row"
    for threshold in experiment.shows.thresholds:
        for group in experiment.compared:
            values = units.loc[units["group"] == group, context.score].to_numpy(dtype=float)
            if not len(values):
                continue
            sign = "=" if threshold >= 1 else ">"
            yield context.finding(
                _count_above(values, threshold),
                "count_above",
                f"{group} {sign} {threshold:g}",
                unit=f"{unit}s",
            )


def _count_above(values: Floats, threshold: float) -> Estimate:
    """Count the values above a threshold, without an interval.

    These are all conditions of the study, alike within their categories, and no sample.
    """
    share = measures.share_above(values, threshold=threshold)
    count = share.value
    if not math.isnan(count):
        count = float(round(share.value * share.n))
    return replace(share, value=count, ci_low=math.nan, ci_high=math.nan, interval="")


def correlation_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the correlations of scores or gaps with the experiment's covariates.

    Args:
        context: the context of the rows.
        rows: scored rows.
    """
    for covariate in context.experiment.shows.covariates:
        if covariate.beside:
            continue
        if not covariate.of_gap:
            yield _correlate(context, covariate, rows, context.score, "score")
            continue
        gap = context.gaps()[0]
        if gap.has_all_groups(rows):
            yield _correlate(
                context, covariate, pair_gaps(gap, gap.compared_rows(rows)), "gap", "gap"
            )


def _correlate(
    context: Context, covariate: Covariate, rows: pd.DataFrame, column: str, quantity: str
) -> Finding:
    """Return the correlation of a covariate with the means of a column over its values."""
    means = rows.groupby(covariate.column, sort=False)[column].mean()
    means = means[[str(name) in covariate.values for name in means.index]]
    numbers = [covariate.values[str(name)] for name in means.index]
    slices = (
        part.name for part in context.experiment.shows.slices if part.column == covariate.column
    )
    return context.finding(
        measures.correlation(means.to_numpy(), numbers),
        "correlation",
        f"{quantity} ~ {covariate.name}",
        slice_by=next(slices, covariate.column),
        cluster_vars=context.experiment.design.random.get(covariate.column, covariate.column),
    )


def slope_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield how far scores follow a number of each group and item, by their interaction alone.

    Items are the values of the first random column; the slope is within the values of the others.

    Args:
        context: the context of the rows.
        rows: scored rows.
    """
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    item, *others = experiment.design.random or ("pair_id",)
    for column, name in experiment.compares.slopes.items():
        if column not in rows or rows["group"].nunique() < 2:
            continue
        blocks = rows[others].astype(str).agg("/".join, axis=1) if others else rows["experiment"]
        clusters, cluster_vars = context.random(rows)
        estimate = crossed_factors.interaction_slope(
            rows[context.score].to_numpy(dtype=np.float64),
            rows[column].to_numpy(dtype=np.float64),
            rows["group"].tolist(),
            rows[item].astype(str).tolist(),
            blocks.tolist(),
            clusters,
        )
        yield context.finding(estimate, "slope", f"score ~ {name}", cluster_vars=cluster_vars)


def bounded_mean(context: Context, rows: pd.DataFrame, mean: Finding) -> Finding:
    """Return a mean with its lowest and highest value, whatever the missing scores are.

    Where no score is missing, or every score is, it stays as it is.

    Args:
        context: the context of the mean.
        rows: the scored rows that it is the mean of.
        mean: the finding of the mean.
    """
    unit = mean.scale
    scores = rows[context.score]
    lost = (rows[LOST] if LOST in rows else scores.isna()).to_numpy(dtype=np.float64)
    if not lost.any() or scores.isna().all() or not unit.in_points:
        return mean
    scored = scores.fillna(0).to_numpy(dtype=np.float64) * (1 - lost)
    weights = mean_weights(context, rows.assign(**{context.score: scored}), context.score)
    shares = np.full(len(rows), 1 / len(rows)) if weights is None else weights / weights.sum()
    return replace(
        mean,
        missing_data_low=float(shares @ (scored + unit.low * lost)),
        missing_data_high=float(shares @ (scored + unit.high * lost)),
    )
