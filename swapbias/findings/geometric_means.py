"""Findings of ratios of probabilities: geometric means by level of a random factor, and their ratio by subset."""

import math
from collections.abc import Iterator

import pandas as pd

from swapbias import measures
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.unit_rows import pair_gaps
from swapbias.measures import Estimate, intervals

GEOMETRIC = "geometric"
"""The rate of these findings, in ``rates`` of an experiment."""
_IN_LOG10 = 1 / math.log(10)  # of a natural logarithm


def geometric_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield exp of the mean log10 ratio of two groups at each level, and its ratio between two subsets; 1: none.

    Levels are those of the first random factor, and count alike. The interval of the ratio is over levels, by Welch's
    t of their means. Where other random factors vary too it would be too narrow, and nothing is yielded. Of a
    model that gives every text one score nothing is yielded either: a ratio of 1 would say "no stereotype".

    Args:
        context: the context of the gap, of natural log-probabilities, in an experiment that contrasts two subsets.
        rows: scored rows of the two subsets.
    """
    experiment = context.experiment
    factor, plural = next(iter(experiment.design.random.items()))
    subset = experiment.compares.subset
    within, against = experiment.compares.contrast or ("", "")
    if context.random(rows)[1] != plural:
        return
    if rows["score"].nunique() < 2:
        return
    pairs = pair_gaps(context, rows)
    levels = pairs.groupby([factor, subset], sort=False)["gap"].agg(["mean", "count", "size"])
    levels = levels[levels["count"] > 0].reset_index()
    for level in levels.itertuples():
        estimate = Estimate(
            math.exp(level.mean * _IN_LOG10),
            n=level.count,
            n_unscored=level.size - level.count,
            test="none",
        )
        yield context.finding(estimate, "geometric_mean", str(getattr(level, factor)))
    if levels[subset].nunique() == 2:
        difference = measures.group_gap(
            levels["mean"] * _IN_LOG10, levels[subset].tolist(), reference_group=against
        )
        yield context.finding(
            _exponentiated(difference),
            "geometric_ratio",
            f"{within} / {against}",
            cluster_vars=plural,
            within=within,
            against=against,
        )


def _exponentiated(difference: Estimate) -> Estimate:
    """Return exp of a difference of logs and of the ends of its interval, without a test of its own."""
    return Estimate(
        math.exp(difference.value),
        intervals.exp_of_end(difference.ci_low),
        intervals.exp_of_end(difference.ci_high),
        n=difference.n,
        n_unscored=difference.n_unscored,
        test="none",
        interval=f"{difference.interval} of the log",
    )
