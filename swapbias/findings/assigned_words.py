"""Findings of answers that assign words to one of two options: their markedness (D), as papers print it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias import measures
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.scored_rows import split_rows
from swapbias.measures import Floats, markedness
from swapbias.studies import Slice

MARKEDNESS = "markedness"
"""The rate of these findings, in ``rates`` of an experiment, and their measure."""
QUESTION = "question"
"""The column that the words of one answer share."""
LIST = "list"
"""The column that questions share which differ in the order of their options alone."""
CODED = "coded_group"
"""The column of the group that the authors' code counts a word to; blank where it knows none."""
LABELLINGS = {"right labels": "group", "as coded": CODED}
"""The columns by which words are of a group, by the contrast of their findings."""


def assigned_word_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the mean markedness of answers, over all of them and by slice, by each labelling of their words.

    Args:
        context: the context of the experiment and the score of its words.
        rows: scored rows, a row a word of an answer; without the columns that say of which, nothing is yielded.
    """
    experiment = context.experiment
    if MARKEDNESS not in experiment.shows.rates or not {QUESTION, LIST} <= {*rows}:
        return
    compared = rows[rows["group"].isin(experiment.compared)]
    for cut in (Slice("", "all"), *experiment.shows.slices):
        for value, part in split_rows(compared, cut.column):
            sliced = replace(context, slice_by=cut.name, slice_value=value)
            for labelling, column in LABELLINGS.items():
                if column in part and part[column].isin(experiment.compared).all():
                    yield _mean_markedness(sliced, part, labelling)


def _mean_markedness(context: Context, rows: pd.DataFrame, labelling: str) -> Finding:
    """Return the mean over answers, in which each unit of the experiment counts the same.

    The interval is over the random factors that answers differ in, as stereotypes; where they differ in none, over
    the lists. An answer without a word that was read has no value, and is counted.
    """
    design = context.experiment.design
    keys = [QUESTION, "trial"] if "trial" in rows else [QUESTION]
    codes = rows.groupby(keys, sort=False).ngroup().to_numpy()
    is_marked = rows[LABELLINGS[labelling]] == context.experiment.compares.group
    values = markedness.markedness(rows[context.score], is_marked, codes)
    answers = rows.drop_duplicates(keys)
    shared = _factors_of_answers(design.random, rows, codes)
    of_answers = context.experiment.changed(design={"random": shared})
    clusters, cluster_vars = replace(context, experiment=of_answers).random(answers)
    if not cluster_vars:
        clusters = {LIST: pd.factorize(answers[LIST])[0]}
        cluster_vars = "lists"
    weights = None
    if design.aggregate:
        weights = _equal_weights(answers[design.aggregate[-1]], ~np.isnan(values))
    estimate = measures.mean_score(values, cluster_ids=clusters, weights=weights)
    low, high = np.clip([estimate.ci_low, estimate.ci_high], -1.0, 1.0)
    estimate = replace(estimate, ci_low=float(low), ci_high=float(high))
    view = "" if LABELLINGS[labelling] == "group" else context.plain_view
    return context.finding(estimate, MARKEDNESS, labelling, cluster_vars=cluster_vars, view=view)


def _factors_of_answers(
    random: Mapping[str, str], rows: pd.DataFrame, codes: NDArray[np.intp]
) -> dict[str, str]:
    """Return the random factors of which all words of an answer have one level."""
    return {
        column: name
        for column, name in random.items()
        if column in rows and rows.groupby(codes)[column].nunique().max() == 1
    }


def _equal_weights(units: "pd.Series[str]", is_scored: NDArray[np.bool_]) -> Floats:
    """Return weights of answers by which each unit that has some with a value counts the same."""
    codes = pd.factorize(units)[0]
    counts = np.bincount(codes[is_scored], minlength=int(codes.max(initial=0)) + 1)
    weights: Floats = 1.0 / np.maximum(counts[codes], 1)
    return weights
