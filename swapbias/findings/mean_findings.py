"""Findings about single groups and columns: means, rates, counts above a threshold, correlations."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.compared_units import mean_weights, pair_gaps
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.predictions import RATES, SIGNED
from swapbias.findings.scored_rows import by_sentence, condition_means
from swapbias.findings.sensitivity import bounded_mean
from swapbias.measures import Estimate


def level_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Means over the units that gaps are made of, so that those of two groups differ by their gap."""
    experiment = context.experiment
    if (
        not experiment.compares.measure
        and context.slice_by == "all" != experiment.compares.primary.slice
    ):
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
    context: Context, rows: pd.DataFrame, contrast: str, *, weights: Any = None, **more: Any
) -> Finding:
    clusters, over = context.random(rows)
    estimate = measures.mean_score(
        rows[context.score].to_numpy(), cluster_ids=clusters, weights=weights
    )
    return context.finding(estimate, "mean", contrast, cluster_vars=over, **more)


def _reported_means(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Somebody else's mean answer to the same questions: a known number, of which nothing is a sample."""
    for one in context.experiment.shows.covariates if context.score == "score" else ():
        questions = rows[one.column].unique() if one.beside else []
        if len(questions) and set(questions) <= set(one.values):
            values = [one.values[name] for name in questions]
            known = Estimate(float(np.mean(values)), n=len(values), test="none")
            yield context.finding(known, "mean", one.name)


def rate_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    pooled = context.slice_by == "all" and context.experiment.never_pooled
    for name in context.experiment.shows.rates if context.score == "score" else ():
        if not (pooled and name in SIGNED):
            for one in context.gaps() if name in ("flips", "ratios") else [context]:
                yield from RATES[name](one, rows)


def count_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """The number of units of each group above a threshold; a threshold of 1 counts those that reach it."""
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
            share = measures.share_above(values, threshold=threshold)
            count = share.value if math.isnan(share.value) else float(round(share.value * share.n))
            # No interval: these are all conditions of the study, alike within their categories, and no sample.
            yield context.finding(
                replace(share, value=count, ci_low=math.nan, ci_high=math.nan, interval=""),
                "count_above",
                f"{group} {'=' if threshold >= 1 else '>'} {threshold:g}",
                unit=f"{unit}s",
            )


def correlation_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    experiment = context.experiment
    for covariate in (one for one in experiment.shows.covariates if not one.beside):
        scored = rows
        what = "score"
        column = context.score
        if covariate.of_gap:
            gap = context.gaps()[0]
            if not gap.whole(rows):
                continue
            scored = pair_gaps(gap, gap.two(rows))
            what = "gap"
            column = "gap"
        means = scored.groupby(covariate.column, sort=False)[column].mean()
        means = means[[str(name) in covariate.values for name in means.index]]
        numbers = [covariate.values[str(name)] for name in means.index]
        label = next(
            (one.name for one in experiment.shows.slices if one.column == covariate.column),
            covariate.column,
        )
        yield context.finding(
            measures.correlation(means.to_numpy(), numbers),
            "correlation",
            f"{what} ~ {covariate.name}",
            slice_by=label,
            cluster_vars=experiment.design.random.get(covariate.column, covariate.column),
        )
