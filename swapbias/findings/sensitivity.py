"""Sensitivity of primary findings: without each item, over paraphrases, with missing scores, to non-answers."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from swapbias.findings.compared_units import Units, gap_units, mean_weights, primary_rows
from swapbias.findings.context import Context, unit_fields
from swapbias.findings.decision import decide, nothing_moves, shifted_to
from swapbias.findings.finding import Finding
from swapbias.findings.scored_rows import (
    CUT,
    LOST,
    over_trials,
)
from swapbias.findings.terms import FEWEST, FOUND, SMALL, UNMEASURED, UNSTABLE
from swapbias.measures import MEASURES, Estimate, Floats, Unit
from swapbias.studies import DOUBTFUL, PLACEBO, Study

ORIGINAL = "0"
"""The wording that the others paraphrase."""
_GAPS = (FOUND, SMALL, UNSTABLE)
_MOST_NAMED = 3  # items that change a verdict, at most


def with_sensitivity(
    finding: Finding, study: Study, rows: pd.DataFrame, model: str, margin: float
) -> Iterator[Finding]:
    """Yield a primary finding with its sensitivity, and findings about paraphrases and non-answers; others unchanged.

    Args:
        finding: any finding of the study.
        study: whose experiment the finding is of.
        rows: scored rows of that experiment and of the model, one a prompt, with placebo ones.
        model: its name.
        margin: that of its verdict, in the unit of its value.
    """
    if not finding.primary or not MEASURES[finding.measure].gap_span:
        yield finding
        return
    context, rows = primary_rows(finding, study, rows, model)
    answered = rows[rows["group"] != PLACEBO]
    is_measured = finding.verdict != UNMEASURED
    others = list[Finding]()
    if is_measured:
        others += _over_paraphrases(context, rows, finding)
        others += _without_doubtful(context, answered, finding)
    sign_agreement = math.nan
    for companion in others:
        if companion.measure == "sign_kept":
            sign_agreement = companion.estimate.value
    finding = replace(_with_bounds(context, answered, finding), sign_agreement=sign_agreement)
    units = gap_units(context, answered) if is_measured else None
    yield finding if units is None else _without_items(finding, units, margin)
    yield from others
    yield from _nonanswer_gaps(context, answered, finding)


def _without_items(primary: Finding, units: Units, margin: float) -> Finding:
    """Return the finding with its range without one item at a time, and the items that its verdict hinges on."""
    whole = units.estimate(level=primary.level)
    if math.isnan(whole.std_error):
        return primary
    parts: list[tuple[str, str, Estimate]] = []
    hinges: list[tuple[float, list[str]]] = []
    for column, name in units.context.experiment.design.random.items():
        if column not in units.rows or units.rows[column].nunique() < 3 or column == "subject_id":
            continue  # patients are never named
        codes, items = pd.factorize(units.rows[column])
        without = [
            (name, str(item), units.estimate(codes != code, level=primary.level))
            for code, item in enumerate(items)
        ]
        parts += without
        if len(items) > FEWEST:  # else there are too few without any of them
            hinges += _hinges(primary, without, margin)
    if not parts:
        return primary
    hinges.sort(reverse=True)
    influences = [influence for _, influence in hinges[:_MOST_NAMED]]
    if len(hinges) > _MOST_NAMED:
        influences.append(["more", "", str(len(hinges) - _MOST_NAMED)])
    values = [part.value for _, _, part in parts if not math.isnan(part.value)] or [math.nan]
    items_named = json.dumps(influences, ensure_ascii=False) if influences else ""
    return replace(primary, loo_min=min(values), loo_max=max(values), influential_items=items_named)


def _hinges(
    primary: Finding, without: Sequence[tuple[str, str, Estimate]], margin: float
) -> Iterator[tuple[float, list[str]]]:
    """Yield the items without which the verdict is another or the gap turns, with how far the value moves."""
    if nothing_moves(primary, margin):  # one level fewer is fewer for each of them
        return
    whole = decide(primary, margin).verdict
    for name, item, part in without:
        p_adjusted = math.nan
        if not math.isnan(part.p_value):
            p_adjusted = min(1.0, primary.questions * part.p_value)
        moved = _moved_bounds(primary, replace(part, p_adjusted=p_adjusted))
        verdict = decide(moved, margin).verdict
        are_gaps = verdict in _GAPS and whole in _GAPS
        turns = are_gaps and primary.estimate.value * part.value < 0
        if turns or verdict != whole:
            distance = abs(part.value - primary.estimate.value)
            yield distance, ["sign" if turns else verdict, name, item]


def _moved_bounds(primary: Finding, part: Estimate) -> Finding:
    """Return the finding with the estimate of a part, and bounds of missing scores as far from its value."""
    away = part.value - primary.estimate.value
    return replace(
        shifted_to(primary, part.value),
        estimate=part,
        missing_data_low=primary.missing_data_low + away,
        missing_data_high=primary.missing_data_high + away,
    )


def _over_paraphrases(context: Context, rows: pd.DataFrame, primary: Finding) -> Iterator[Finding]:
    """Yield the gap over all wordings, tested against their variation, and the share of paraphrases with its sign."""
    units_by_wording = _units_by_wording(context, rows)
    gaps = []
    for wording, units in units_by_wording.items():
        gap = math.nan if wording == ORIGINAL else units.estimate().value
        if not math.isnan(gap):
            gaps.append(gap)
    if len(gaps) < 2:
        return
    random = {**context.experiment.design.random, "wording": "wordings"}
    wider = replace(context, experiment=context.experiment.changed(design={"random": random}))
    together = pd.concat(
        [units.rows.assign(wording=wording) for wording, units in units_by_wording.items()],
        ignore_index=True,
    )
    first = next(iter(units_by_wording.values()))
    all_units = Units.of(together, wider, first.weights)
    beyond = _companion(context, primary, "gap_beyond_wording", all_units)
    yield beyond
    if primary.estimate.value:  # else there is no sign
        share = float(np.mean([gap * primary.estimate.value > 0 for gap in gaps]))
        yield replace(
            beyond,
            measure="sign_kept",
            cluster_vars="",
            estimate=Estimate(share, n=len(gaps), test="none"),
            **unit_fields(Unit("share of wordings")),
        )


def _units_by_wording(context: Context, rows: pd.DataFrame) -> dict[str, Units]:
    """Return the units of the gap in each wording of the prompts that have paraphrases, the original among them."""
    paraphrases = rows[rows["group"] == PLACEBO]
    if not len(paraphrases):
        return {}
    bases = set(paraphrases["pair_id"].str.rpartition("/w")[0])
    original = rows[(rows["group"] != PLACEBO) & rows["pair_id"].isin(bases)]
    original = original.assign(wording=ORIGINAL)
    wordings = pd.concat([original, paraphrases.assign(group=paraphrases["side"])])
    units_by_wording = {}
    for wording, part in wordings.groupby("wording", sort=True):
        units = gap_units(context, part)
        if units is not None and len(units.rows):
            units_by_wording[str(wording)] = units
    return units_by_wording


def _companion(
    context: Context, primary: Finding, measure: str, units: Units, *, unit: Unit | None = None
) -> Finding:
    """Return other units' estimate for the two groups of a primary finding, in its unit or in another."""
    return context.finding(
        units.estimate(),
        measure,
        primary.contrast,
        cluster_vars=units.cluster_vars,
        group=primary.group,
        reference_group=primary.reference_group,
        **unit_fields(replace(unit or primary.scale, taken_from="")),
    )


def _without_doubtful(context: Context, rows: pd.DataFrame, primary: Finding) -> Iterator[Finding]:
    """Yield the gap over notes whose swapped words are not in doubt; nothing where none or all of them are."""
    clear = rows[rows[DOUBTFUL] == "0"] if DOUBTFUL in rows else rows
    units = gap_units(context, clear) if 0 < len(clear) < len(rows) else None
    if units is not None and len(units.rows):
        yield _companion(context, primary, "gap_without_doubtful", units)


def _with_bounds(context: Context, rows: pd.DataFrame, primary: Finding) -> Finding:
    """Return the finding with its lowest and highest value, whatever the scores are that are missing (not all)."""
    unit = primary.scale
    two = context.two(rows)
    lost = _lost_shares(two, context.score)
    if not lost.any() or not unit.in_points or two[context.score].isna().all():
        return primary
    scored = (1 - lost) * two[context.score].fillna(0).to_numpy(dtype=np.float64)
    raises = (two["group"].map(context.sides) > 0).to_numpy()
    compares = context.experiment.compares
    if compares.contrast:
        is_first_subset = (two[compares.subset] == compares.contrast[0]).to_numpy()
        raises = raises == is_first_subset
    # A missing score at this end of the range makes the value the lowest, or the highest, that it can be.
    lowest = np.where(raises, unit.low, unit.high)
    highest = np.where(raises, unit.high, unit.low)
    return replace(
        primary,
        missing_data_low=_value_with(context, two, scored + lost * lowest),
        missing_data_high=_value_with(context, two, scored + lost * highest),
    )


def _value_with(context: Context, rows: pd.DataFrame, scores: Floats) -> float:
    """Return the gap of rows with other scores; NaN where there is none."""
    units = gap_units(context, rows.assign(**{context.score: scores}))
    return units.value if units else math.nan


def bounded_mean(context: Context, rows: pd.DataFrame, mean: Finding) -> Finding:
    """Return a mean with its lowest and highest value, whatever the scores are that are missing (not all of them).

    Args:
        context: of the mean.
        rows: scored rows that it is the mean of.
        mean: its finding.
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


def _lost_shares(rows: pd.DataFrame, score: str, *, unsure: bool = False) -> Floats:
    """Return each row's share of trials without a read answer, or, with ``unsure``, without a decided one."""
    if LOST in rows:
        return np.asarray(rows[LOST], dtype=np.float64)
    is_lost = rows[score].isna().to_numpy()
    columns = ("said_unsure", "said_other") if unsure else ("said_other",)
    for column in columns:
        if column in rows:
            is_lost = is_lost | (rows[column].to_numpy(dtype=np.float64) > 0)
    return np.asarray(is_lost, dtype=np.float64)


def _nonanswer_gaps(context: Context, rows: pd.DataFrame, primary: Finding) -> Iterator[Finding]:
    """Yield how much more often one group's prompts get no answer, or a truncated one; nothing where none does."""
    two = context.two(rows)
    if not context.whole(rows) or two[context.score].isna().all():
        return
    shares = {"nonanswer_gap": _lost_shares(two, context.score, unsure=True)}
    if CUT in two and context.experiment.kind == "chat":
        shares["truncation_gap"] = np.asarray(two[CUT].fillna(0), dtype=np.float64)
    plain = context.experiment.changed(
        compares={"contrast": None, "measure": context.comparison.of_shares.name},
        shows={"rates": ()},
    )
    subset = "" if context.experiment.compares.contrast else context.subset
    for measure, lost in shares.items():
        if not lost.any():
            continue
        prompts = over_trials(two.assign(**{LOST: lost}), LOST)
        units = gap_units(replace(context, score=LOST, experiment=plain), prompts)
        if units is not None and len(units.rows):
            yield _companion(
                replace(context, subset=subset),
                primary,
                measure,
                units,
                unit=Unit("share of prompts"),
            )
