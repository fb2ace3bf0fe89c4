"""Sensitivity of primary findings: without each item, over rewordings, with missing scores, to non-answers."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from swapbias.findings.compared_units import Units, primary_rows
from swapbias.findings.context import Context, unit_fields
from swapbias.findings.decision import decide, nothing_moves, shifted_to
from swapbias.findings.finding import Finding
from swapbias.findings.scored_rows import (
    CUT,
    LOST,
    over_trials,
)
from swapbias.findings.terms import FEWEST, FOUND, SMALL, UNMEASURED, UNSTABLE
from swapbias.findings.unit_rows import gap_units
from swapbias.measures import MEASURES, Estimate, Floats, Unit
from swapbias.studies import DOUBTFUL, PLACEBO, Study

_SHARE = (
    "share_not_answered"  # column of the shares that are compared: without an answer, or truncated
)
ORIGINAL = "0"
"""The wording that the others reword."""
_GAPS = (FOUND, SMALL, UNSTABLE)
_MOST_NAMED = 3  # items that change a verdict, at most
# Random factors whose levels are never named: patients.
_PRIVATE_FACTORS = ("subject_id",)


class _Influence(NamedTuple):
    """An item without which a verdict changes, or the gap turns; influences sort by their distance."""

    distance: float
    """How far the value moves without the item, in the unit of the value."""
    change: str
    """The verdict without the item, or ``sign`` for a gap in the other direction."""
    factor: str
    """The name of the random factor."""
    item: str
    """Its level."""


class _Carrier(NamedTuple):
    """An item and what is left without it; carriers sort by their distance."""

    distance: float
    """How far the value moves without the item, in the unit of the value."""
    factor: str
    """The name of the random factor."""
    item: str
    """Its level."""
    value: float
    """The value without the item."""


def with_sensitivity(
    finding: Finding, study: Study, rows: pd.DataFrame, model: str, margin: float
) -> Iterator[Finding]:
    """Yield a primary gap with its sensitivity, then findings on rewordings and non-answers.

    Any other finding passes through as it is.

    Args:
        finding: any finding of the study.
        study: the study that has the finding's experiment.
        rows: scored rows of that experiment and of the model, one a prompt, with those of the group ``PLACEBO``
            (rewordings in which nothing is swapped).
        model: the name of the model.
        margin: the margin of the finding's verdict, in the unit of its value.
    """
    if not finding.primary or not MEASURES[finding.measure].gap_span:
        yield finding
        return
    context, rows = primary_rows(finding, study, rows, model)
    answered = rows[rows["group"] != PLACEBO]
    is_measured = finding.verdict != UNMEASURED
    companions: list[Finding] = []
    sign_agreement = math.nan
    if is_measured:
        companions += _over_rewordings(context, rows, finding)
        for companion in companions:
            if companion.measure == "sign_kept":
                sign_agreement = companion.estimate.value
        companions += _without_doubtful(context, answered, finding)
    finding = replace(_with_bounds(context, answered, finding), sign_agreement=sign_agreement)
    units = gap_units(context, answered) if is_measured else None
    yield finding if units is None else _without_items(finding, units, margin)
    yield from companions
    yield from _nonanswer_gaps(context, answered, finding)


def _without_items(primary: Finding, units: Units, margin: float) -> Finding:
    """Return the finding with its range without one item at a time, and the items that its verdict hinges on."""
    whole = units.estimate(level=primary.level)
    if math.isnan(whole.std_error):
        return primary
    estimates_without: list[Estimate] = []
    influences: list[_Influence] = []
    carriers: list[_Carrier] = []
    for column, factor in units.context.experiment.design.random.items():
        if column not in units.rows or column in _PRIVATE_FACTORS:
            continue
        codes, items = pd.factorize(units.rows[column])
        # A blank is no level: it stands in rows that the factor does not vary in.
        levels = {str(item): code for code, item in enumerate(items) if item != ""}
        if len(levels) < 3:
            continue
        without = {
            item: units.estimate(codes != code, level=primary.level)
            for item, code in levels.items()
        }
        estimates_without += without.values()
        carriers += _largest_influence(whole, factor, without)
        if len(levels) > FEWEST:  # else there are too few without any of them
            influences += _find_influences(primary, factor, without, margin)
    if not estimates_without:
        return primary
    values = [estimate.value for estimate in estimates_without]
    values = [value for value in values if not math.isnan(value)] or [math.nan]
    return replace(
        primary,
        loo_min=min(values),
        loo_max=max(values),
        largest_influence=_write_carrier(carriers),
        influential_items=_write_influences(influences),
    )


def _largest_influence(
    whole: Estimate, factor: str, without: Mapping[str, Estimate]
) -> list[_Carrier]:
    """Return the item of a factor without which the value moves most; none where nothing is left without it."""
    moved = [
        _Carrier(abs(estimate.value - whole.value), factor, item, estimate.value)
        for item, estimate in without.items()
        if not math.isnan(estimate.value)
    ]
    return [max(moved)] if moved else []


def _write_carrier(carriers: Sequence[_Carrier]) -> str:
    """Write the item without which the value moves most, as ``Finding.carrier`` reads it."""
    largest = max(carriers, default=None)
    if largest is None or not largest.distance > 0:
        return ""
    return json.dumps([largest.factor, largest.item, largest.value], ensure_ascii=False)


def _write_influences(influences: Sequence[_Influence]) -> str:
    """Write the largest influences, and how many more there are, as ``Finding.influences`` reads them."""
    if not influences:
        return ""
    largest = sorted(influences, reverse=True)[:_MOST_NAMED]
    entries = [[influence.change, influence.factor, influence.item] for influence in largest]
    if len(influences) > _MOST_NAMED:
        entries.append(["more", "", str(len(influences) - _MOST_NAMED)])
    return json.dumps(entries, ensure_ascii=False)


def _find_influences(
    primary: Finding, factor: str, without: Mapping[str, Estimate], margin: float
) -> Iterator[_Influence]:
    """Yield the items of a factor without which the verdict is another or the gap turns.

    ``without`` has the estimate without each item.
    """
    if nothing_moves(primary, margin):  # then leaving out any item only leaves one level fewer
        return
    verdict_of_all = decide(primary, margin).verdict
    for item, estimate in without.items():
        p_adjusted = math.nan
        if not math.isnan(estimate.p_value):
            p_adjusted = min(1.0, primary.questions * estimate.p_value)
        moved = _with_estimate(primary, replace(estimate, p_adjusted=p_adjusted))
        verdict = decide(moved, margin).verdict
        are_gaps = verdict in _GAPS and verdict_of_all in _GAPS
        turns = are_gaps and primary.estimate.value * estimate.value < 0
        if turns or verdict != verdict_of_all:
            distance = abs(estimate.value - primary.estimate.value)
            yield _Influence(distance, "sign" if turns else verdict, factor, item)


def _with_estimate(primary: Finding, estimate: Estimate) -> Finding:
    """Return the finding with the estimate of some of its rows, and its bounds of missing scores moved along."""
    away = estimate.value - primary.estimate.value
    return replace(
        shifted_to(primary, estimate.value),
        estimate=estimate,
        missing_data_low=primary.missing_data_low + away,
        missing_data_high=primary.missing_data_high + away,
    )


def _over_rewordings(context: Context, rows: pd.DataFrame, primary: Finding) -> Iterator[Finding]:
    """Yield the gap over all wordings, tested against their variation, and the share of rewordings with its sign."""
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
    # All wordings weigh the levels as the first of them does: the original, where it has rows.
    first = next(iter(units_by_wording.values()))
    all_units = Units.of(together, wider, first.weights)
    beyond = _finding_of_units(context, primary, "gap_beyond_wording", all_units)
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
    """Return the units of the gap in each wording of the prompts that are reworded, the original among them."""
    rewordings = rows[rows["group"] == PLACEBO]
    if not len(rewordings):
        return {}
    bases = set(rewordings["pair_id"].str.rpartition("/w")[0])
    original = rows[(rows["group"] != PLACEBO) & rows["pair_id"].isin(bases)]
    original = original.assign(wording=ORIGINAL)
    wordings = pd.concat([original, rewordings.assign(group=rewordings["side"])])
    units_by_wording = {}
    for wording, part in wordings.groupby("wording", sort=True):
        units = gap_units(context, part)
        if units is not None and len(units.rows):
            units_by_wording[str(wording)] = units
    return units_by_wording


def _finding_of_units(
    context: Context, primary: Finding, measure: str, units: Units, *, unit: Unit | None = None
) -> Finding:
    """Return a finding on the two groups of a primary one, estimated over other units, in its unit or another."""
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
        yield _finding_of_units(context, primary, "gap_without_doubtful", units)


def _with_bounds(context: Context, rows: pd.DataFrame, primary: Finding) -> Finding:
    """Return the finding with its lowest and highest value, whatever the missing scores are; not where all are."""
    unit = primary.scale
    compared = context.compared_rows(rows)
    lost = _lost_shares(compared, context.score)
    if not lost.any() or not unit.in_points or compared[context.score].isna().all():
        return primary
    scored = (1 - lost) * compared[context.score].fillna(0).to_numpy(dtype=np.float64)
    raises_value = (compared["group"].map(context.sides) > 0).to_numpy()
    compares = context.experiment.compares
    if compares.contrast:
        is_first_subset = (compared[compares.subset] == compares.contrast[0]).to_numpy()
        raises_value = raises_value == is_first_subset
    # A missing score at this end of the range makes the value the lowest, or the highest, that it can be.
    lowest = np.where(raises_value, unit.low, unit.high)
    highest = np.where(raises_value, unit.high, unit.low)
    return replace(
        primary,
        missing_data_low=_value_with(context, compared, scored + lost * lowest),
        missing_data_high=_value_with(context, compared, scored + lost * highest),
    )


def _value_with(context: Context, rows: pd.DataFrame, scores: Floats) -> float:
    """Return the gap of rows with other scores; NaN where there is none."""
    units = gap_units(context, rows.assign(**{context.score: scores}))
    return units.value if units else math.nan


def _lost_shares(rows: pd.DataFrame, score: str, *, unsure: bool = False) -> Floats:
    """Return each row's share of trials without a read answer; with ``unsure``, without an answer that decides.

    ``unsure`` has no effect on rows of several trials: their column ``LOST`` is the share of trials without a score,
    and an unsure answer has none.
    """
    if LOST in rows:
        return np.asarray(rows[LOST], dtype=np.float64)
    is_lost = rows[score].isna().to_numpy()
    columns = ("said_unsure", "said_other") if unsure else ("said_other",)
    for column in columns:
        if column in rows:
            is_lost = is_lost | (rows[column].to_numpy(dtype=np.float64) > 0)
    return np.asarray(is_lost, dtype=np.float64)


def _nonanswer_gaps(context: Context, rows: pd.DataFrame, primary: Finding) -> Iterator[Finding]:
    """Yield how much more often one group's prompts get no answer, or a cut one; nothing where all are whole."""
    compared = context.compared_rows(rows)
    if not context.has_all_groups(rows) or compared[context.score].isna().all():
        return
    shares = {"nonanswer_gap": _lost_shares(compared, context.score, unsure=True)}
    if CUT in compared and context.experiment.kind == "chat":
        shares["truncation_gap"] = np.asarray(compared[CUT].fillna(0), dtype=np.float64)
    # The shares are compared as a score of their own, without the contrast and the rates of the experiment.
    plain = context.experiment.changed(
        compares={"contrast": None, "measure": context.comparison.of_shares.name},
        shows={"rates": ()},
    )
    # A contrast compares two subsets; its non-answers are those of both.
    subset = "" if context.experiment.compares.contrast else context.subset
    for measure, share in shares.items():
        if not share.any():
            continue
        prompts = over_trials(compared.assign(**{_SHARE: share}), _SHARE)
        units = gap_units(replace(context, score=_SHARE, experiment=plain), prompts)
        if units is not None and len(units.rows):
            yield _finding_of_units(
                replace(context, subset=subset),
                primary,
                measure,
                units,
                unit=Unit("share of prompts"),
            )
