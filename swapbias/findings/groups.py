"""Findings of more than two groups: a test of all at once, and crossed group factors with their intersections."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from swapbias import measures
from swapbias.findings.finding import APART, Context, Finding
from swapbias.findings.predictions import ANSWERS, POSITIVE, every_side, subjects, told_of
from swapbias.findings.robustness import condition_means
from swapbias.measures import Effect, Omnibus

ALL = "all groups"
EFFECTS = ("main_effect", "interaction", "interaction_of_three")  # of one factor, of two, of three
SPREAD = "group_spread"


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
    clusters, over = subjects(rows), told_of(rows)
    if "flips" in context.experiment.rates:
        found = measures.omnibus(answers, groups, pair_ids=pairs, cluster_ids=clusters)
        yield _spread(context, found, f"{ALL}, positives", subset, over, where, unit="share of positives")
    if "ratios" in context.experiment.rates:
        positive = (rows["label"] == POSITIVE).to_numpy()
        for name, asked in (("true positive rate", positive), ("false positive rate", ~positive)):
            found = measures.omnibus_of_rates(answers, asked, groups, cluster_ids=clusters or pairs)
            yield _spread(context, found, f"{ALL}, {name}", subset, over, where, unit=name)


def _omnibus(context: Context, rows: pd.DataFrame) -> Omnibus:
    experiment = context.experiment
    if ANSWERS in experiment.rates:
        return every_side(context, rows)
    if experiment.aggregate:
        rows = condition_means(experiment, rows, context.score)
    pairs = rows["pair_id"].tolist() if experiment.measure == "paired_gap" else None
    return measures.omnibus(
        rows[context.score].to_numpy(), rows["group"].tolist(), pair_ids=pairs, cluster_ids=context.random(rows)[0]
    )


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
        cluster_ids=clusters, sample_ids=(chosen[experiment.subset] == second).tolist(),
    )  # fmt: skip
    yield _spread(context, found, f"{ALL}, gaps", f"{first} - {second}", over, where)


def factor_findings(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    """Main effects, interactions and intersections of the experiment's factors, where every intersection has rows."""
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    cells = rows.drop_duplicates("group").set_index("group")
    if not experiment.factors or not experiment.measure or experiment.reference_group not in cells.index:
        return
    named = cells[list(experiment.factors)].astype(str)
    if len(named.drop_duplicates()) < named.nunique().prod() or named.nunique().min() < 2:
        return
    if experiment.aggregate:
        rows = condition_means(experiment, rows, context.score)
    clusters, over = context.random(rows)
    found = measures.factorial(
        rows[context.score].to_numpy(),
        {factor: rows["group"].map(named[factor]).tolist() for factor in experiment.factors},
        reference=named.loc[experiment.reference_group].to_dict(),
        pair_ids=rows["pair_id"].tolist() if experiment.measure == "paired_gap" else None,
        cluster_ids=clusters,
    )
    for term, test in found.terms.items():
        effects = [one for one in found.effects if one.term == term]
        for one in effects:
            yield context.finding(
                one.estimate, EFFECTS[one.order - 1], f"{term}: {one.name}", subset,
                direction=_direction(one, experiment.direction), inference=over, **where,
            )  # fmt: skip
        if len(effects) > 1:
            yield _spread(context, test, term, subset, over, where)
    for cell in sorted(
        found.intersections, key=lambda one: -abs(one.gap)
    ):  # the furthest from the mean is named first
        side = "below" if cell.gap < 0 else "above"
        told = f"{cell.gap:+.3g} from the mean of all groups, its parts add up to {cell.parts:+.3g}"
        yield context.finding(
            cell.estimate, "intersection", " x ".join(experiment.factors), subset, slice_by="intersection",
            slice_value=cell.name, inference=over,
            direction=f"above zero {cell.name} lies further {side} the mean than its parts add up to: {told}",
        )  # fmt: skip


def _direction(effect: Effect, declared: str) -> str:
    """What the sign of an effect means."""
    if effect.order == 1:
        return f"above zero the first is higher, averaged over the other factors; of groups: {declared}"
    return "above zero the gap is larger for the first, 0: both factors add up"


def with_intersections(found: Sequence[Finding]) -> list[Finding]:
    """Headlines of all groups with the intersections named that are further from the mean than their parts."""
    told = list(found)
    for place, one in enumerate(found):
        if one.headline and one.measure == SPREAD and one.contrast == ALL:
            beyond = [
                f"{cell.slice_value} beyond the sum of its parts ({cell.direction.rpartition(': ')[2]})"
                for cell in found
                if cell.verdict == APART
                and (cell.experiment, cell.score, cell.subset) == (one.experiment, one.score, one.subset)
            ]
            if beyond:
                told[place] = replace(one, hinges_on="; ".join(filter(None, (one.hinges_on, *beyond))))
    return told
