"""Findings of predictions, answers, cosines and judge_findings: flips, rates, leakage, direct bias."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.compared_units import gap_units, pair_gaps
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.scored_rows import ANSWERS, by_sentence
from swapbias.measures import Estimate, Floats

BASELINE = "baseline"
_SHARES = (
    ("said_unsure", "unsure"),
    ("said_other", "not readable"),
    ("strict_other", "not readable, strictly"),
)
RANDOM_DIRECT = "random words: mean |cosine|"
SIGNED = ("flips", "ratios")  # rates with a direction, which cancels over slices of opposite signs


def _answers(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Unreadable and missing answers, the bias by the strict parser, and differences to the baseline."""
    over = context.random(rows)[1]
    missing = 100 * rows["score"].isna().to_numpy(dtype=float)
    shares = [(name, 100 * _column(rows, column)) for column, name in _SHARES]
    if 0 < missing.mean() < 100:  # where all are, every other row says so
        shares.append(("missing", missing))
    clusters = context.random(rows.drop_duplicates("template"))[0]
    for name, percent in shares:
        means = rows.assign(share=percent).groupby("template", sort=False)["share"].mean()
        share = measures.mean_score(means.to_numpy(), cluster_ids=clusters)
        yield context.finding(share, "mean", f"answers {name}", cluster_vars=over)
    for one in context.gaps():
        two = one.two(rows)
        contrast = one.gap_fields["contrast"]
        strict = _column(two, "strict_correct")
        units = gap_units(
            one, two.assign(score=np.where(np.isnan(strict), strict, 100.0 * (strict > 0)))
        )
        if units is None:
            continue
        fields = {**one.gap_fields, "contrast": f"{contrast}, strict parser"}
        yield context.finding(units.measured(), "answer_bias", cluster_vars=over, **fields)
        base = two[two["condition"] == BASELINE]
        for condition, part in (
            two.groupby("condition", sort=False) if context.slice_by == "all" and len(base) else ()
        ):
            if condition != BASELINE:
                here = replace(one, slice_by="adjectives", slice_value=str(condition))
                yield from _baseline_difference(here, part, base)


def _column(rows: pd.DataFrame, name: str) -> Floats:
    """A column of answers; NaN where no answer at all was read."""
    found: Floats = rows[name].to_numpy(dtype=float) if name in rows else np.full(len(rows), np.nan)
    return found


def _baseline_difference(
    context: Context, part: pd.DataFrame, base: pd.DataFrame
) -> Iterator[Finding]:
    """The bias under some adjectives minus the baseline's: paired by sentence, and over trials as published."""
    experiment = context.experiment
    contrast = f"{context.gap_fields['contrast']}, minus {BASELINE}"
    gaps = [
        pair_gaps(context, by_sentence(experiment, rows)).assign(
            group=name, score=lambda made: made["gap"]
        )
        for name, rows in (("condition", part), (BASELINE, base))
    ]  # a sentence that either lacks is NaN, and counted
    paired = experiment.changed(
        shows={"rates": ()},
        compares={"groups": ("condition", *experiment.compares.groups[1:]), "reference": BASELINE},
    )
    if (units := gap_units(replace(context, experiment=paired), pd.concat(gaps))) is not None:
        over = context.random(part)[1]
        yield context.finding(units.measured(), "bias_difference", contrast, cluster_vars=over)
    trials = [_by_trial(context, rows) for rows in (part, base)]
    names = ["condition"] * len(trials[0]) + [BASELINE] * len(trials[1])
    published = measures.group_gap(
        [*trials[0], *trials[1]], names, reference_group=BASELINE, test="t"
    )
    yield context.finding(published, "bias_difference", contrast, view=context.plain_view)


def _by_trial(context: Context, rows: pd.DataFrame) -> list[float]:
    """The bias of each trial in percentage points; NaN for one that lacks a side."""
    right = rows["score"].gt(0).astype(float).where(rows["score"].notna())
    sides = rows["group"] == context.experiment.compares.reference
    means = (
        right.groupby([rows["trial"], sides], sort=False)
        .mean()
        .unstack()
        .reindex(columns=[False, True])
    )
    return list(100.0 * means[False] - 100.0 * means[True])


def _subjects(rows: pd.DataFrame) -> tuple[list[str] | None, str]:
    """The subject of each row, whose notes are not independent, or None; and the random factor of notes."""
    known = rows.get("subject_id")
    if known is None or not known.astype(bool).all():
        return None, "notes"
    return known.astype(str).tolist(), "subjects"


def _notes(context: Context, rows: pd.DataFrame) -> tuple[dict[str, Any], str]:
    """What measures of predictions read of every note, and its random factor."""
    subjects, over = _subjects(rows)
    read = {
        "answers": rows["predicted"].to_numpy(np.float64),
        "groups": rows["group"].to_numpy(),
        "reference_group": context.experiment.compares.reference,
        "pair_ids": rows["pair_id"].to_numpy(),
        "cluster_ids": subjects,
    }
    return read, over


def _flips(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """The share of notes whose prediction changes with the gender, and who gets more positives."""
    two = context.two(rows)
    if not context.whole(two):
        return
    notes, over = _notes(context, two)
    found = measures.flip_rate(**notes, seed=context.seed)
    yield context.finding(
        found.estimate,
        "flip_rate",
        " and ".join(context.sides),
        cluster_vars=over,
        higher_group=found.higher_group,
        only_group=float(found.more),
        only_reference=float(found.fewer),
    )


def _ratios(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """True and false positive rates: their difference, the log of their ratio, and the ratio as published."""
    two = context.two(rows)
    if not context.whole(two):
        return
    contrast, (notes, over) = context.gap_fields["contrast"], _notes(context, two)
    designed = {"cluster_vars": over}
    for rate in ("tpr", "fpr"):
        found = measures.rate_ratio(labels=two["label"] == "positive", rate=rate, **notes)
        for measure, estimate, name, more in (
            (f"{rate}_difference", found.difference, contrast, designed),
            (f"log_{rate}r", found.log_ratio, contrast, designed),
            (f"{rate}r", found.estimate, " and ".join(context.sides), {"view": context.plain_view}),
        ):
            higher = "" if math.isnan(estimate.value) else found.higher_group
            yield context.finding(estimate, measure, name, higher_group=higher, **more)


def _f1(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Macro F1 over both versions of every note."""
    notes, over = _notes(context, rows)
    read = {name: notes[name] for name in ("answers", "pair_ids", "cluster_ids")}
    estimate = measures.macro_f1(labels=rows["label"] == "positive", **read)
    yield context.finding(estimate, "macro_f1", "all", cluster_vars=over)


def _leakage(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """How well the gender is predicted from the notes: unweighted average recall, one half by chance."""
    subjects, over = _subjects(rows)
    answers, groups, notes = (rows[name].tolist() for name in ("answer", "group", "pair_id"))
    estimate = measures.uar(answers, groups, note_ids=notes, cluster_ids=subjects)
    yield context.finding(estimate, "leakage_uar", "gender", cluster_vars=over)


def _direction(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Direct bias and its sign, against random words and directions, and how clear the gender direction is."""
    others = rows.filter(regex=f"^{measures.WITHOUT_PAIR}[0-9]+$")
    dimensions = _constant(rows, "dimensions")
    drawn = [
        [cosine for _, cosine in json.loads(cell)] for cell in rows["top_tokens"]
    ]  # of random words
    sets = max(map(len, drawn), default=0)
    found = measures.from_cosines(
        rows["score"].to_numpy(dtype=float),
        np.array([row if len(row) == sets else [math.nan] * sets for row in drawn], dtype=float)
        if sets
        else None,
        without_pairs=others.to_numpy(dtype=float) if len(others.columns) else None,
        dimensions=None if math.isnan(dimensions) else int(dimensions),
        like_frequency=_constant(rows, "frequency_known") == 1,
    )
    yield context.finding(found.direct_bias, "direct_bias", "mean |cosine|", cluster_vars="words")
    yield context.finding(found.signed, "signed_mean", "mean cosine", cluster_vars="words")
    facts = [
        (RANDOM_DIRECT, found.null_mean, "cosine"),
        ("random words: mean cosine", found.null_signed_mean, "cosine"),
    ]
    if context.slice_by == "all":
        explained = _constant(rows, "explained_variance")
        facts.append(("direction at random: mean |cosine|", found.random_direction, "cosine"))
        facts.append(("variance explained by the gender direction", explained, "share of variance"))
    for name, value, unit in facts:
        if not math.isnan(value):
            yield context.finding(Estimate(value, test="none"), "mean", name, unit=unit)


def _constant(rows: pd.DataFrame, name: str) -> float:
    """The value of a column that is the same in all rows; NaN where it is not there or blank."""
    known = rows[name].dropna().tolist() if name in rows else []
    return float(known[0]) if known else math.nan


def _selection(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Of candidates who are chosen among each other the impact ratio of each group to the mean of all."""
    clusters, over = context.random(rows)
    if rows["group"].nunique() < len(context.experiment.compared):
        return
    groups = rows["group"].tolist()
    pairs = rows["pair_id"].tolist()
    found = measures.selection_rate(
        rows["score"].to_numpy(), groups, pair_ids=pairs, cluster_ids=clusters
    )
    for group in context.experiment.compared:
        yield context.finding(found[group][1], "impact_ratio", group, cluster_vars=over)


RATES: Mapping[str, Callable[[Context, pd.DataFrame], Iterator[Finding]]] = {
    "flips": _flips, "ratios": _ratios, "f1": _f1, "leakage": _leakage, "direction": _direction,
    "selection": _selection, ANSWERS: _answers,
}  # fmt: skip


def answer_counts(rows: pd.DataFrame) -> dict[str, int]:
    """How many answers are right, wrong, unsure, refused, unreadable or missing; every answer is of one class."""

    def marked(column: str) -> "pd.Series[bool]":
        return (
            rows[column].astype(float) > 0 if column in rows else pd.Series(False, index=rows.index)
        )

    wrong, unsure, other, refused = (
        marked(one) for one in ("said_incorrect", "said_unsure", "said_other", "refused")
    )
    silent = rows["said_other"].isna()
    text = (
        rows["answer"].fillna("").astype(str).str.strip()
        if "answer" in rows
        else pd.Series("", index=rows.index)
    )
    if (text != "").any():  # texts of credentialed notes are not stored
        silent |= other & (text == "")
    read = marked("said_correct") if "said_correct" in rows else ~other & ~unsure & ~silent
    classes = (read, wrong, unsure, other & ~silent & refused, other & ~silent & ~refused, silent)
    names = (
        "right",
        "wrong",
        "unsure",
        "refused",
        "unreadable",
        "no answer",
    )  # the last: nothing came
    return {name: int(one.sum()) for name, one in zip(names, classes, strict=True)}
