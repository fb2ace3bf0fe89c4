"""Findings of which of two answers is picked: how often, and whether it follows words that exchange their places."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.measures import Estimate

MIRROR = "mirror"
"""The column that two prompts share whose words exchange their places; blank where a prompt has none such."""
PICK = "pick"
"""The column of the group whose answer is picked; blank for neither."""
FOLLOWS = {
    "follows the words": "answers that follow the words, whose places are exchanged",
    "follows the places": "answers that follow the places of the words",
    "neither": "answers that follow neither words nor places",
}
"""What two answers to such prompts follow, with the names of their findings."""


def balance_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield by how much one answer is picked more often than another: of all answers, and of those that pick either.

    These are what papers print, without interval. An answer is picked that has the highest score of its pair.

    Args:
        context: the context of the rows.
        rows: scored rows, in which a pair has a row for each answer that counts for a group.
    """
    group = context.experiment.compares.group
    reference = context.experiment.compares.reference
    picks = picks_of_pairs(context, rows)[PICK]
    if not len(picks):
        return
    difference = int((picks == group).sum()) - int((picks == reference).sum())
    either = int(picks.isin([group, reference]).sum())
    contrast = f"{group} - {reference}"
    for name, count in (("all answers", len(picks)), ("answers that name either", either)):
        value = difference / count if count else math.nan
        estimate = Estimate(value, n=count, test="none")
        yield context.finding(
            estimate, "balance", f"{contrast}, of {name}", view=context.plain_view
        )


def exchange_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield whether answers follow the words or their places, of pairs of prompts in which these are exchanged.

    Args:
        context: the context of the rows.
        rows: scored rows, in which a pair has a row for each of two answers.
    """
    if MIRROR not in rows:
        return
    picks = picks_of_pairs(context, rows)
    by_mirror = picks[picks[MIRROR] != ""].groupby(MIRROR, sort=False)
    both = by_mirror.filter(lambda part: len(part) == 2)
    if not len(both):
        return
    firsts = both.drop_duplicates(MIRROR)
    followed = both.groupby(MIRROR, sort=False)[PICK].agg(_what_is_followed).to_numpy()
    clusters, cluster_vars = context.random(firsts)
    for name, contrast in FOLLOWS.items():
        share = (followed == name).astype(np.float64)
        estimate = measures.mean_score(share, cluster_ids=clusters)
        yield context.finding(
            estimate, "mean", contrast, cluster_vars=cluster_vars, unit="share of answers"
        )


def _what_is_followed(picks: "pd.Series[str]") -> str:
    """Return what two answers follow: the same group is the same word, and another one the same place."""
    first, second = picks
    if not first or not second:
        return "neither"
    return "follows the words" if first == second else "follows the places"


def picks_of_pairs(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the first row of each pair with all scores, with the group that is picked.

    One is picked that scores higher than the other, and than what is left for neither.

    Args:
        context: the context of the rows.
        rows: scored rows.
    """
    groups = [context.experiment.compares.group, context.experiment.compares.reference]
    compared = rows[rows["group"].isin(groups)]
    scores = compared.pivot(index="pair_id", columns="group", values=context.score)
    scores = scores.reindex(columns=groups).dropna()
    neither = 1 - scores.sum(axis=1)
    highest = scores.max(axis=1)
    is_tied = scores[groups[0]] == scores[groups[1]]
    picked = scores.idxmax(axis=1).where((highest > neither) & ~is_tied, "")
    first_rows = compared.drop_duplicates("pair_id").set_index("pair_id").loc[scores.index]
    return first_rows.assign(**{PICK: picked}).reset_index()
