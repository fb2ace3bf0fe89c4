"""The units that a primary finding is the mean of; it without each item, over paraphrases, with missing scores."""

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

ORIGINAL = "0"  # the wording that the others paraphrase
_GAPS = (FOUND, SMALL, UNSTABLE)
_NAMED = 3  # items that change a verdict, at most


def with_sensitivity(
    finding: Finding, study: Study, rows: pd.DataFrame, model: str, margin: float
) -> Iterator[Finding]:
    """A primary finding with its sensitivity and findings about paraphrases and non-answers; others as they are.

    ``margin`` is that of its verdict, in the unit of its value.
    """
    if not finding.primary or not MEASURES[finding.measure].gap_span:
        yield finding
        return
    context, rows = primary_rows(finding, study, rows, model)
    answered = rows[rows["group"] != PLACEBO]
    is_measured = finding.verdict != UNMEASURED
    others = list[Finding]()
    if is_measured:
        others += [
            *_over_paraphrases(context, rows, finding),
            *_without_doubtful(context, answered, finding),
        ]
    same_sign = next((one.estimate.value for one in others if one.measure == "sign_kept"), math.nan)
    finding = replace(_with_bounds(context, answered, finding), sign_agreement=same_sign)
    units = gap_units(context, answered) if is_measured else None
    yield finding if units is None else _without_items(finding, units, margin)
    yield from others
    yield from _nonanswer_gaps(context, answered, finding)


def _without_items(primary: Finding, units: Units, margin: float) -> Finding:
    """The finding with its range over leaving out one item at a time, and the items that its verdict hinges on."""
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
            hinges += [*_hinges(primary, without, margin)]
    if not parts:
        return primary
    hinges.sort(reverse=True)
    influences = [influence for _, influence in hinges[:_NAMED]]
    if len(hinges) > _NAMED:
        influences.append(["more", "", str(len(hinges) - _NAMED)])
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
        p_adjusted = (
            min(1.0, primary.questions * part.p_value) if part.p_value == part.p_value else math.nan
        )
        again = _moved_bounds(primary, replace(part, p_adjusted=p_adjusted))
        verdict = decide(again, margin).verdict
        are_gaps = verdict in _GAPS and whole in _GAPS
        turns = are_gaps and primary.estimate.value * part.value < 0
        if turns or verdict != whole:
            yield (
                abs(part.value - primary.estimate.value),
                ["sign" if turns else verdict, name, item],
            )


def _moved_bounds(primary: Finding, part: Estimate) -> Finding:
    """Return the finding with the estimate of a part, and bounds of missing scores as far from its value."""
    away = part.value - primary.estimate.value
    low, high = primary.missing_data_low + away, primary.missing_data_high + away
    return replace(
        shifted_to(primary, part.value), estimate=part, missing_data_low=low, missing_data_high=high
    )


def _over_paraphrases(context: Context, rows: pd.DataFrame, primary: Finding) -> Iterator[Finding]:
    """The gap over all wordings, tested against their variation, and the share of paraphrases with its sign."""
    again = rows[rows["group"] == PLACEBO]
    if not len(again):
        return
    bases = set(again["pair_id"].str.rpartition("/w")[0])
    original = rows[(rows["group"] != PLACEBO) & rows["pair_id"].isin(bases)].assign(
        wording=ORIGINAL
    )
    parts = {}
    for wording, part in pd.concat([original, again.assign(group=again["side"])]).groupby(
        "wording", sort=True
    ):
        units = gap_units(context, part)
        if units is not None and len(units.rows):
            parts[str(wording)] = units
    gaps = [units.estimate().value for wording, units in parts.items() if wording != ORIGINAL]
    gaps = [gap for gap in gaps if not math.isnan(gap)]
    if len(gaps) < 2:
        return
    random = {**context.experiment.design.random, "wording": "wordings"}
    wider = replace(context, experiment=context.experiment.changed(design={"random": random}))
    together = pd.concat(
        [units.rows.assign(wording=name) for name, units in parts.items()], ignore_index=True
    )
    units = Units.of(together, wider, next(iter(parts.values())).weights)
    beyond = _beside(context, primary, "gap_beyond_wording", units)
    yield beyond
    if primary.estimate.value:  # else there is no sign
        alike = float(np.mean([gap * primary.estimate.value > 0 for gap in gaps]))
        share = Estimate(alike, n=len(gaps), test="none")
        unit = unit_fields(Unit("share of wordings"))
        yield replace(beyond, measure="sign_kept", cluster_vars="", estimate=share, **unit)


def _beside(
    context: Context, primary: Finding, measure: str, units: Units, *, unit: Unit | None = None
) -> Finding:
    """Other units' estimate for the two groups of a primary finding, in its unit or in another."""
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
    """The gap over the notes of which it is not doubtful whose words were swapped; nothing where none or all are."""
    clear = rows[rows[DOUBTFUL] == "0"] if DOUBTFUL in rows else rows
    units = gap_units(context, clear) if 0 < len(clear) < len(rows) else None
    if units is not None and len(units.rows):
        yield _beside(context, primary, "gap_without_doubtful", units)


def _with_bounds(context: Context, rows: pd.DataFrame, primary: Finding) -> Finding:
    """The finding with its lowest and highest value, whatever the scores are that are missing (not all of them)."""
    unit = primary.scale
    two = context.two(rows)
    lost = _lost(two, context.score)
    if not lost.any() or not unit.in_points or two[context.score].isna().all():
        return primary
    ends = []
    known = (1 - lost) * two[context.score].fillna(0).to_numpy(dtype=np.float64)
    gains = (two["group"].map(context.sides) > 0).to_numpy()
    if context.experiment.compares.contrast:
        gains = (
            gains
            == (
                two[context.experiment.compares.subset] == context.experiment.compares.contrast[0]
            ).to_numpy()
        )
    for high in (False, True):
        filled = known + lost * np.where(gains == high, unit.high, unit.low)
        units = gap_units(context, two.assign(**{context.score: filled}))
        ends.append(units.value if units else math.nan)
    return replace(primary, missing_data_low=ends[0], missing_data_high=ends[1])


def bounded_mean(context: Context, rows: pd.DataFrame, mean: Finding) -> Finding:
    """A mean with its lowest and highest value, as ``_with_bounds``."""
    unit = mean.scale
    scores = rows[context.score]
    lost = (
        rows[LOST].to_numpy(dtype=np.float64)
        if LOST in rows
        else scores.isna().to_numpy(dtype=np.float64)
    )
    if not lost.any() or scores.isna().all() or not unit.in_points:
        return mean
    known = scores.fillna(0).to_numpy(dtype=np.float64) * (1 - lost)
    filled = rows.assign(**{context.score: known})
    weights = mean_weights(context, filled, context.score)
    shares = np.full(len(rows), 1 / len(rows)) if weights is None else weights / weights.sum()
    low, high = (float(shares @ (known + end * lost)) for end in (unit.low, unit.high))
    return replace(mean, missing_data_low=low, missing_data_high=high)


def _lost(rows: pd.DataFrame, score: str, *, unsure: bool = False) -> Floats:
    """Of each row the share of its trials without a read answer, or, with ``unsure``, without a decided one."""
    if LOST in rows:
        return np.asarray(rows[LOST], dtype=np.float64)
    lost = rows[score].isna().to_numpy()
    for name in ("said_unsure", "said_other")[not unsure :]:
        if name in rows:
            lost = lost | (rows[name].to_numpy(dtype=np.float64) > 0)
    return np.asarray(lost, dtype=np.float64)


def _nonanswer_gaps(context: Context, rows: pd.DataFrame, primary: Finding) -> Iterator[Finding]:
    """How much more often one group's prompts get no answer, or a truncated one; nothing where no prompt does."""
    two = context.two(rows)
    if not context.whole(rows) or two[context.score].isna().all():
        return
    shares = {"nonanswer_gap": _lost(two, context.score, unsure=True)}
    if CUT in two and context.experiment.kind == "chat":
        shares["truncation_gap"] = np.asarray(two[CUT].fillna(0), dtype=np.float64)
    measure = context.comparison.of_shares.name
    plain = context.experiment.changed(
        compares={"contrast": None, "measure": measure}, shows={"rates": ()}
    )
    named = replace(context, subset="" if context.experiment.compares.contrast else context.subset)
    for measure, lost in shares.items():
        part = over_trials(two.assign(**{LOST: lost}), LOST)
        units = (
            gap_units(replace(context, score=LOST, experiment=plain), part) if lost.any() else None
        )
        if units is not None and len(units.rows):
            yield _beside(named, primary, measure, units, unit=Unit("share of prompts"))
