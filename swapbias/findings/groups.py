"""Findings of more than two groups: a test of all at once, and crossed group factors with their intersections."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias import measures
from swapbias.findings.finding import (
    ALL,
    ALL_GAPS,
    APART,
    EFFECTS,
    SPREAD,
    Context,
    Finding,
    further_toward,
)
from swapbias.findings.predictions import ANSWERS, POSITIVE, every_side, subjects, told_of
from swapbias.findings.robustness import crossed, effect_name
from swapbias.measures import Effect, Omnibus
from swapbias.studies import Experiment


def group_findings(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    """Whether any of several groups differs; nothing of two, whose gap says it."""
    experiment = context.experiment
    chosen = rows[rows["group"].isin(experiment.compared)]
    if chosen["group"].nunique() < 3:
        return
    if experiment.measure:
        over = context.random(chosen)[1]
        yield _spread(context, _omnibus(context, chosen), ALL, subset, over, where)
    if context.score == "score" and {"flips", "ratios"} & set(experiment.rates):
        yield from _of_predictions(context, chosen, subset, where)


def _of_predictions(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the share of positives differs between any groups: of all notes, of positive and of negative ones."""
    answers, groups, pairs = rows["predicted"].to_numpy(dtype=float), rows["group"].tolist(), rows["pair_id"].tolist()
    clusters, over, reference = subjects(rows), told_of(rows), compared_with(context.experiment, rows)
    if "flips" in context.experiment.rates:
        found = measures.omnibus(answers, groups, pair_ids=pairs, cluster_ids=clusters, reference_group=reference)
        yield _spread(context, found, f"{ALL}, positives", subset, over, where, unit="share of positives")
    if "ratios" in context.experiment.rates:
        positive = (rows["label"] == POSITIVE).to_numpy()
        for name, asked in (("true positive rate", positive), ("false positive rate", ~positive)):
            found = measures.omnibus_of_rates(
                answers, asked, groups, cluster_ids=clusters or pairs, reference_group=reference
            )
            yield _spread(context, found, f"{ALL}, {name}", subset, over, where, unit=name)


def _omnibus(context: Context, rows: pd.DataFrame) -> Omnibus:
    experiment = context.experiment
    if ANSWERS in experiment.rates:
        return every_side(context, rows)
    paired, reference = experiment.measure == "paired_gap", compared_with(experiment, rows)
    found = measures.omnibus(
        rows[context.score].to_numpy(), rows["group"].tolist(), pair_ids=rows["pair_id"].tolist() if paired else None,
        cluster_ids=context.random(rows)[0], reference_group=reference,
    )  # fmt: skip
    if not paired or reference is None:
        return found
    return found.of_contrasts([_p_value(one, rows) for one in context.gaps()])


def _p_value(context: Context, rows: pd.DataFrame) -> float:
    """That of a gap between two groups, by the inference of the design."""
    two = rows[rows["group"].isin([context.experiment.group, context.experiment.reference_group])]
    if two["group"].nunique() < 2:
        return math.nan
    return measures.paired_gap(
        two[context.score].to_numpy(), two["group"].tolist(), two["pair_id"].tolist(),
        reference_group=context.experiment.reference_group, cluster_ids=context.random(two)[0],
    ).p_value  # fmt: skip


def compared_with(experiment: Experiment, rows: pd.DataFrame) -> str | None:
    """The group that each other is compared with; None (every two are) where it is not among the rows."""
    return experiment.reference_group if experiment.reference_group in set(rows["group"]) else None


def _spread(
    context: Context, found: Omnibus, contrast: str, subset: str, over: str, where: Mapping[str, str], **more: str
) -> Finding:
    means = ", ".join(f"{name} {value:.3g}" for name, value in found.means.items())
    told = f"0: all are alike ({means})" if contrast.startswith(ALL) else "0: the term changes nothing"
    return context.finding(found.estimate, SPREAD, contrast, subset, inference=over, direction=told, **where, **more)


def difference_findings(context: Context, rows: pd.DataFrame, where: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the gaps between several groups are the same in the two subsets that the experiment contrasts."""
    experiment = context.experiment
    first, second = experiment.contrast or ("", "")
    chosen = rows[rows["group"].isin(experiment.compared) & rows[experiment.subset].isin([first, second])]
    if chosen["group"].nunique() < 3 or chosen[experiment.subset].nunique() < 2:
        return
    clusters, over = context.random(chosen)
    found = measures.omnibus(
        chosen[context.score].to_numpy(), chosen["group"].tolist(), pair_ids=chosen["pair_id"].tolist(),
        cluster_ids=clusters, reference_group=compared_with(experiment, chosen),
        sample_ids=(chosen[experiment.subset] == second).tolist(),
    )  # fmt: skip
    yield _spread(context, found, ALL_GAPS, f"{first} - {second}", over, where)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Crossed factors in some rows: all but the scores is shared by models that read the same prompts.

    Attributes:
        mine: which of the rows are of compared groups.
        scores, groups: of each compared row, groups in few distinct values.
        named: the levels of each group; no rows where not every combination is there.
        levels: of each factor the level of each unit.
        clusters, over: as of ``Context.random``.
        pairs: of the units, where they are paired.
    """

    mine: NDArray[np.bool_]
    scores: pd.Series
    groups: pd.Series
    named: pd.DataFrame
    levels: Mapping[str, list[str]]
    clusters: Mapping[str, Any]
    over: str
    pairs: pd.Series | None


def crossing(context: Context, rows: pd.DataFrame) -> Crossing | None:
    """The factors that the experiment crosses in these rows; None where it crosses none, or no row is compared.

    Raises:
        ValueError: rows without the columns of the factors.
    """
    experiment = context.experiment
    mine = rows["group"].isin(experiment.compared)
    if not experiment.factors or not experiment.measure or ANSWERS in experiment.rates or not mine.any():
        return None
    rows = rows[mine]
    named = crossed(experiment, rows)
    if not len(named):
        return None
    clusters, over = context.random(rows)
    groups = rows["group"].astype("category")
    levels = {factor: rows["group"].map(named[factor]).tolist() for factor in named}
    pairs = rows["pair_id"] if experiment.measure == "paired_gap" else None
    return Crossing(mine.to_numpy(), rows[context.score], groups, named, levels, clusters, over, pairs)


def factor_findings(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    """Main effects, interactions and intersections of the experiment's factors, where every intersection has rows.

    Raises:
        ValueError: rows without the columns of the factors.
    """
    if shared := crossing(context, rows):
        yield from crossed_findings(context, shared, shared.scores, subset, where)


def crossed_findings(
    context: Context, shared: Crossing, scores: pd.Series, subset: str, where: Mapping[str, str]
) -> Iterator[Finding]:
    """``factor_findings`` of the scores of units whose crossing is known."""
    experiment, named = context.experiment, shared.named
    clusters, over, pairs = shared.clusters, shared.over, shared.pairs
    found = measures.factorial(
        scores.to_numpy(),
        shared.levels,
        reference=named.loc[experiment.reference_group].to_dict(),
        pair_ids=None if pairs is None else pairs.tolist(),
        cluster_ids=clusters,
    )
    for term, test in found.terms.items():
        mine = [one for one in found.effects if one.term == term]
        for one in mine:
            yield context.finding(
                one.estimate, EFFECTS[one.order - 1], effect_name(one), subset,
                direction=_direction(one, experiment.direction), **_levels(one), **where, inference=over,
            )  # fmt: skip
        if len(mine) > 1:
            yield _spread(context, test, term, subset, over, where)
    groups = {", ".join(levels): str(group) for group, *levels in named.itertuples(name=None)}
    # The furthest from the mean is named first.
    for cell in sorted(found.intersections, key=lambda one: -abs(one.gap)):
        side = "below" if cell.gap < 0 else "above"
        told = f"{cell.gap:+.3g} from the mean of all groups, its parts add up to {cell.parts:+.3g}"
        yield context.finding(
            cell.estimate, "intersection", " x ".join(experiment.factors), subset, slice_by="intersection",
            slice_value=cell.name, inference=over, intersection=cell.name, from_mean=cell.gap, parts=cell.parts,
            group=groups[cell.name],
            direction=f"above zero {cell.name} lies further {side} the mean than its parts add up to: {told}",
        )  # fmt: skip


def _levels(effect: Effect) -> dict[str, str]:
    """The two levels of a main effect, and those of the second factor of an interaction of two."""
    if effect.order > 2:
        return {}
    names = [level for pair in effect.levels.values() for level in pair]
    return dict(zip(("group", "reference_group", "within", "against"), names, strict=False))


def _direction(effect: Effect, declared: str) -> str:
    """What the sign of an effect means."""
    if effect.order == 1:
        return f"above zero the first is higher, averaged over the other factors; of groups: {declared}"
    told = further_toward(**_levels(effect)) if effect.order == 2 else "above zero toward the first of each factor"
    return f"{told}; 0: the factors add up"


def with_intersections(found: Sequence[Finding]) -> list[Finding]:
    """Headlines of all groups with the intersection that is further from the mean than its parts, if there is one.

    Of several the one that is furthest from the mean of all: in two factors of two levels all four lie equally far
    from their parts, by one test.
    """
    told = list(found)
    for place, one in enumerate(found):
        if one.headline and one.measure == SPREAD and one.contrast == ALL:
            beyond = [
                cell
                for cell in found
                if cell.verdict == APART
                and (cell.experiment, cell.score, cell.subset) == (one.experiment, one.score, one.subset)
            ]
            if beyond:
                most = max(beyond, key=lambda cell: abs(cell.from_mean))
                told[place] = replace(
                    one, intersection=most.intersection, group=most.group, from_mean=most.from_mean, parts=most.parts
                )
    return told
