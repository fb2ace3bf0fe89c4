"""Marks of findings: which answer a question, which measured nothing, which other scores contradict."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from swapbias.findings.finding import Finding, as_unmeasured
from swapbias.findings.repeats import commonest
from swapbias.findings.scored_rows import ANSWER_SCORES, is_constant, split_rows
from swapbias.findings.terms import (
    CONTROL,
    CONTROL_UNKNOWN,
    CONTROL_UNMOVED,
    EFFECTS,
    NO_CONTROL,
    SAME_INPUT,
    SAME_SCORE,
    SPREAD,
    UNNAMED_FILLS,
    UNREAD_SWAP,
)
from swapbias.measures import MEASURES
from swapbias.studies import PLACEBO, Experiment


def add_repeats(
    found: Sequence[Finding], experiments: Iterable[Experiment], rows: pd.DataFrame
) -> list[Finding]:
    """The findings of scores that were read, each with how many rows have the commonest answer and are unread."""
    units = {experiment.name: experiment.compares.unit for experiment in experiments}
    repeats = {
        name: commonest(part, units[name])
        for name, part in rows.groupby("experiment", sort=False)
        if name in units
    }
    marked = []
    for finding in found:
        repeated = repeats.get(finding.experiment)
        if repeated is not None and finding.score == "score" and not finding.view:
            finding = replace(
                finding, repeated_share=repeated.share, unread_share=repeated.unread_share
            )
        marked.append(finding)
    return marked


def with_primary(found: Iterable[Finding], experiments: Iterable[Experiment]) -> list[Finding]:
    """Mark the findings that answer an experiment's question; where all rows are of one subset its gap does."""
    marked = list(found)
    for experiment in experiments:
        name = (experiment.name, "score", "")
        mine = [
            at for at, one in enumerate(marked) if (one.experiment, one.score, one.view) == name
        ]
        subsets = {marked[at].subset for at in mine}
        wanted = [experiment.primary]
        if len(subsets) == 1:
            measure = experiment.compares.primary.measure or experiment.compares.measure
            wanted.append((measure, min(subsets), experiment.compares.primary.slice))
        effects_alone = experiment.compares.factors and not experiment.compares.contrast
        for measure, *place in wanted:
            here = [at for at in mine if [marked[at].subset, marked[at].slice_by] == place]
            if not any(marked[at].measure == measure for at in here):
                continue
            for at in here:
                own = marked[at].measure
                if own in (measure, SPREAD) or (
                    own in EFFECTS and not experiment.compares.contrast
                ):
                    # Of crossed factors the effects are the answer, not the gaps between two intersections.
                    marked[at] = replace(
                        marked[at],
                        primary=not (effects_alone and own == experiment.compares.measure),
                    )
            break
    return marked


def mark_unmeasured(
    found: Sequence[Finding], experiments: Iterable[Experiment], parts: Mapping[str, pd.DataFrame]
) -> list[Finding]:
    """Mark the findings made of one constant, of all rows or of a slice's value, and those of names not found."""
    constant: set[tuple[str, str]] = set()
    reasons: dict[str, str] = {}
    for experiment in experiments:
        reasons[experiment.name] = unread_swap_reason(parts[experiment.name]) or _same_input_reason(
            parts[experiment.name]
        )
        column = next(
            (
                one.column
                for one in experiment.shows.slices
                if one.name == experiment.compares.primary.slice
            ),
            "",
        )
        sliced = [
            ("", parts[experiment.name]),
            *(split_rows(parts[experiment.name], column) if column else ()),
        ]
        constant |= {
            (experiment.name, value) for value, part in sliced if is_constant(experiment, part)
        }

    unnamed = {experiment.name for experiment in experiments if experiment.design.unnamed_fills}

    def reason(finding: Finding) -> str:
        if not (finding.primary or MEASURES[finding.measure].gap_span):
            return ""
        places = {(finding.experiment, ""), (finding.experiment, finding.slice_value)}
        # What lacks its scores is not said to have equal ones.
        if finding.score == "score" and places & constant and finding.estimate.n:
            return SAME_SCORE
        if finding.score == "score" and reasons[finding.experiment]:
            return reasons[finding.experiment]
        return UNNAMED_FILLS if finding.experiment in unnamed else ""

    return [
        as_unmeasured(finding, why) if (why := reason(finding)) else finding for finding in found
    ]


def _same_input_reason(rows: pd.DataFrame) -> str:
    """Return the reason where no row of a group has a score, because the model reads one input for a pair's texts."""
    compared = rows[rows["group"] != PLACEBO]
    if SAME_INPUT not in rows or compared["score"].notna().any():
        return ""
    return SAME_INPUT if (compared[SAME_INPUT] == 1).any() else ""


def unread_swap_reason(rows: pd.DataFrame) -> str:
    """Return why equal scores of a black box say nothing, by its positive control; blank where they say something."""
    outcomes = set(rows[CONTROL]) if CONTROL in rows else set()
    if CONTROL_UNMOVED in outcomes:
        return UNREAD_SWAP
    return NO_CONTROL if CONTROL_UNKNOWN in outcomes else ""


def mark_disagreeing(found: Sequence[Finding]) -> list[Finding]:
    """Primary findings with the other scores of the same construct that give the gap another sign."""
    marked = list(found)
    for place, one in enumerate(found):
        for other in found if one.primary else ():
            same = (other.model_id, *other.key()) == (one.model_id, *one.key()) and not other.view
            if (
                same
                and other.score not in ("score", *ANSWER_SCORES)
                and other.estimate.value * one.estimate.value < 0
            ):
                turned = [
                    *marked[place].influences,
                    ["score", other.score, f"{other.estimate.value:+.3g}"],
                ]
                marked[place] = replace(
                    one, influential_items=json.dumps(turned, ensure_ascii=False)
                )
    return marked
