"""Findings of predictions, answers, cosines and rankings: flips, rates, leakage, direct bias, selection."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.picked_answers import balance_findings, exchange_findings
from swapbias.findings.scored_rows import ANSWERS, by_sentence
from swapbias.findings.unit_rows import gap_units, pair_gaps
from swapbias.measures import Estimate, Floats, direction, rates

BASELINE = "baseline"
"""The condition of answers without adjectives, which the others are compared with."""
RANDOM_DIRECT = "random words: mean |cosine|"
"""Contrast of the mean of the absolute cosines of random words, beside a direct bias."""
ROUNDED = "rates rounded first"
"""What the contrast of a ratio ends with whose rates were rounded to two decimals before they were divided."""
LARGEST_COSINE = "largest |cosine|"
"""Contrast of the largest absolute cosine of the words."""
MEDIAN_COSINE = "median |cosine|"
"""Contrast of the median of the absolute cosines of the words."""
SIGNED = ("flips", "ratios", "balance", "exchanges")
"""Rates with a direction, which cancels over slices of opposite signs."""
# Columns of answers that were not read as an option, with their names in findings.
_UNREAD_COLUMNS = {
    "said_unsure": "unsure",
    "said_other": "not readable",
    "strict_other": "not readable, strictly",
}


def _answer_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield unreadable and missing answers, the bias by the strict parser, and differences to the baseline."""
    cluster_vars = context.random(rows)[1]
    yield from _unread_shares(context, rows, cluster_vars)
    for gap in context.gaps():
        compared = gap.compared_rows(rows)
        strict_bias = _strict_bias(gap, compared, cluster_vars)
        if strict_bias is None:
            continue
        yield strict_bias
        baseline = compared[compared["condition"] == BASELINE]
        if context.slice_by != "all" or not len(baseline):
            continue
        answers_of_baseline = _Answers.of(gap, baseline)
        for condition, part in compared.groupby("condition", sort=False):
            if condition != BASELINE:
                of_condition = replace(gap, slice_by="adjectives", slice_value=str(condition))
                yield from _baseline_difference(of_condition, part, answers_of_baseline)


def _unread_shares(context: Context, rows: pd.DataFrame, cluster_vars: str) -> Iterator[Finding]:
    """Yield the percentages of answers that are unsure, not readable or missing."""
    percentages = {name: 100 * _column(rows, column) for column, name in _UNREAD_COLUMNS.items()}
    missing = 100 * rows["score"].isna().to_numpy(dtype=float)
    if 0 < missing.mean() < 100:  # where all are, every other row says so
        percentages["missing"] = missing
    clusters = context.random(rows.drop_duplicates("template"))[0]
    for name, percentage in percentages.items():
        means = rows.assign(share=percentage).groupby("template", sort=False)["share"].mean()
        estimate = measures.mean_score(means.to_numpy(), cluster_ids=clusters)
        yield context.finding(estimate, "mean", f"answers {name}", cluster_vars=cluster_vars)


def _strict_bias(context: Context, rows: pd.DataFrame, cluster_vars: str) -> Finding | None:
    """Return the bias by the strict parser; None where there are no units."""
    strict = _column(rows, "strict_correct")
    percentage = np.where(np.isnan(strict), strict, 100.0 * (strict > 0))
    units = gap_units(context, rows.assign(score=percentage))
    if units is None:
        return None
    fields = context.gap_fields
    fields["contrast"] = f"{fields['contrast']}, strict parser"
    return context.finding(units.measured(), "answer_bias", cluster_vars=cluster_vars, **fields)


def _column(rows: pd.DataFrame, name: str) -> Floats:
    """Return a column of answers; NaN where no answer at all was read."""
    if name not in rows:
        return np.full(len(rows), np.nan)
    values: Floats = rows[name].to_numpy(dtype=float)
    return values


@dataclass(frozen=True, slots=True)
class _Answers:
    """Answers under some adjectives, as those of the baseline are compared with them."""

    pairs: pd.DataFrame
    """A row a sentence, with its ``gap`` as ``score``."""
    bias_by_trial: list[float]
    """The bias of each trial in percentage points (``_bias_by_trial``)."""

    @classmethod
    def of(cls, context: Context, rows: pd.DataFrame) -> "_Answers":
        """Return the answers of scored rows of both sides."""
        pairs = pair_gaps(context, by_sentence(context.experiment, rows))
        return cls(pairs.assign(score=pairs["gap"]), _bias_by_trial(context, rows))


def _baseline_difference(
    context: Context, rows: pd.DataFrame, baseline: _Answers
) -> Iterator[Finding]:
    """Yield the bias under some adjectives minus the baseline's: paired by sentence, and over trials as published."""
    experiment = context.experiment
    contrast = f"{context.gap_fields['contrast']}, minus {BASELINE}"
    answers = _Answers.of(context, rows)
    gaps = [answers.pairs.assign(group="condition"), baseline.pairs.assign(group=BASELINE)]
    # A sentence that either lacks is NaN, and counted.
    paired = experiment.changed(
        shows={"rates": ()},
        compares={"groups": ("condition", *experiment.compares.groups[1:]), "reference": BASELINE},
    )
    units = gap_units(replace(context, experiment=paired), pd.concat(gaps))
    if units is not None:
        yield context.finding(
            units.measured(), "bias_difference", contrast, cluster_vars=context.random(rows)[1]
        )
    trials = answers.bias_by_trial
    baseline_trials = baseline.bias_by_trial
    published = measures.group_gap(
        [*trials, *baseline_trials],
        ["condition"] * len(trials) + [BASELINE] * len(baseline_trials),
        reference_group=BASELINE,
        test="t",
    )
    yield context.finding(published, "bias_difference", contrast, view=context.plain_view)
    # In the direction that was seen, as published: of no difference it lies below .05 twice as often as it should.
    one_sided = Estimate(published.p_value / 2, n=published.n, test="t, one-sided")
    yield context.finding(one_sided, "p_one_sided", contrast, view=context.plain_view)


def _bias_by_trial(context: Context, rows: pd.DataFrame) -> list[float]:
    """Return the bias of each trial in percentage points by the strict parser; NaN for one that lacks a side."""
    right = rows.get("strict_correct", rows["score"])
    is_right = right.gt(0).astype(float).where(rows["score"].notna())
    is_reference = rows["group"] == context.experiment.compares.reference
    shares = is_right.groupby([rows["trial"], is_reference], sort=False).mean()
    means = shares.unstack().reindex(columns=[False, True])
    return list(100.0 * means[False] - 100.0 * means[True])


@dataclass(frozen=True, slots=True)
class _Notes:
    """Columns that measures of predictions read of every note."""

    answers: Floats
    """The prediction, 1 for positive."""
    groups: Any
    """The group whose version of the note it is."""
    pairs: Any
    """The note whose versions are a pair."""
    subjects: list[str] | None
    """The subject, whose notes are not independent; None where it is not known."""
    cluster_vars: str
    """The random factor of notes."""

    @classmethod
    def of(cls, rows: pd.DataFrame) -> "_Notes":
        """Return the notes of scored rows."""
        subjects, cluster_vars = subjects_of(rows)
        return cls(
            answers=rows["predicted"].to_numpy(np.float64),
            groups=rows["group"].to_numpy(),
            pairs=rows["pair_id"].to_numpy(),
            subjects=subjects,
            cluster_vars=cluster_vars,
        )


def subjects_of(rows: pd.DataFrame) -> tuple[list[str] | None, str]:
    """Return the subject of each row, whose notes are not independent, or None; and the random factor of notes.

    Args:
        rows: scored rows of notes.
    """
    subjects = rows.get("subject_id")
    if subjects is None or not subjects.astype(bool).all():
        return None, "notes"
    return subjects.astype(str).tolist(), "subjects"


def _flip_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the share of notes whose prediction changes with the gender, and who gets more positives."""
    compared = context.compared_rows(rows)
    if not context.has_all_groups(compared):
        return
    notes = _Notes.of(compared)
    flips = measures.flip_rate(
        notes.answers,
        notes.groups,
        notes.pairs,
        reference_group=context.experiment.compares.reference,
        cluster_ids=notes.subjects,
        seed=context.seed,
    )
    yield context.finding(
        flips.estimate,
        "flip_rate",
        " and ".join(context.sides),
        cluster_vars=notes.cluster_vars,
        higher_group=flips.higher_group,
        only_group=float(flips.more),
        only_reference=float(flips.fewer),
    )


def _ratio_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield true and false positive rates: their difference, the log of their ratio, and the ratio as published."""
    compared = context.compared_rows(rows)
    if not context.has_all_groups(compared):
        return
    notes = _Notes.of(compared)
    contrast = context.gap_fields["contrast"]
    for rate in ("tpr", "fpr"):
        ratio = measures.rate_ratio(
            notes.answers,
            compared["label"] == "positive",
            notes.groups,
            reference_group=context.experiment.compares.reference,
            pair_ids=notes.pairs,
            cluster_ids=notes.subjects,
            rate=rate,
        )

        def higher_group(estimate: Estimate, group: str = ratio.higher_group) -> str:
            return "" if math.isnan(estimate.value) else group

        yield context.finding(
            ratio.difference,
            f"{rate}_difference",
            contrast,
            higher_group=higher_group(ratio.difference),
            cluster_vars=notes.cluster_vars,
        )
        yield context.finding(
            ratio.log_ratio,
            f"log_{rate}r",
            contrast,
            higher_group=higher_group(ratio.log_ratio),
            cluster_vars=notes.cluster_vars,
        )
        yield context.finding(
            ratio.estimate,
            f"{rate}r",
            " and ".join(context.sides),
            higher_group=higher_group(ratio.estimate),
            view=context.plain_view,
        )
        yield _rounded_ratio(context, ratio, f"{rate}r")


def _rounded_ratio(context: Context, ratio: rates.RateRatio, measure: str) -> Finding:
    """Return the ratio of two rates as the authors' code has it: of rates that are rounded to two decimals."""
    first, second = (ratio.rates[group] for group in context.sides)
    difference = float(np.round(first, 2) - np.round(second, 2))
    return context.finding(
        replace(ratio.estimate, value=rates.ratio_of_rounded(first, second)),
        measure,
        f"{' and '.join(context.sides)}, {ROUNDED}",
        higher_group=rates.higher_group(difference, context.sides),
        view=context.plain_view,
    )


def _f1_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield macro F1 over both versions of every note."""
    notes = _Notes.of(rows)
    estimate = rates.macro_f1(
        notes.answers,
        rows["label"] == "positive",
        pair_ids=notes.pairs,
        cluster_ids=notes.subjects,
    )
    yield context.finding(estimate, "macro_f1", "all", cluster_vars=notes.cluster_vars)


def _leakage_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield how well the gender is predicted from the notes: unweighted average recall, one half by chance."""
    subjects, cluster_vars = subjects_of(rows)
    estimate = measures.uar(
        rows["answer"].tolist(),
        rows["group"].tolist(),
        note_ids=rows["pair_id"].tolist(),
        cluster_ids=subjects,
    )
    yield context.finding(estimate, "leakage_uar", "gender", cluster_vars=cluster_vars)


def _direction_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield direct bias and its sign, against random words and directions, and how clear the gender direction is."""
    without_pairs = rows.filter(regex=f"^{direction.WITHOUT_PAIR}[0-9]+$")
    dimensions = _constant(rows, "dimensions")
    bias = direction.from_cosines(
        rows["score"].to_numpy(dtype=float),
        _random_cosines(rows),
        without_pairs=without_pairs.to_numpy(dtype=float) if len(without_pairs.columns) else None,
        dimensions=None if math.isnan(dimensions) else int(dimensions),
        like_frequency=_constant(rows, "frequency_known") == 1,
    )
    yield context.finding(bias.direct_bias, "direct_bias", "mean |cosine|", cluster_vars="words")
    yield context.finding(bias.signed, "signed_mean", "mean cosine", cluster_vars="words")
    facts = [
        (RANDOM_DIRECT, bias.null_mean, "cosine"),
        ("random words: mean cosine", bias.null_signed_mean, "cosine"),
    ]
    absolute = np.abs(bias.cosines[~np.isnan(bias.cosines)])
    if len(absolute):  # with the signed mean the summaries of Sogancioglu et al.
        facts.append((LARGEST_COSINE, float(absolute.max()), "cosine"))
        facts.append((MEDIAN_COSINE, float(np.median(absolute)), "cosine"))
    if context.slice_by == "all":
        explained = _constant(rows, "explained_variance")
        facts.append(("direction at random: mean |cosine|", bias.random_direction, "cosine"))
        facts.append(("variance explained by the gender direction", explained, "share of variance"))
    for name, value, unit in facts:
        if not math.isnan(value):
            yield context.finding(Estimate(value, test="none"), "mean", name, unit=unit)


def _random_cosines(rows: pd.DataFrame) -> Floats | None:
    """Return the cosines of the random words drawn for each word, shape (rows, words); None where none were."""
    cosines = [[cosine for _, cosine in json.loads(cell)] for cell in rows["top_tokens"]]
    count = max(map(len, cosines), default=0)
    if not count:
        return None
    missing = [math.nan for _ in range(count)]
    return np.array([row if len(row) == count else missing for row in cosines], dtype=float)


def _constant(rows: pd.DataFrame, name: str) -> float:
    """Return the value of a column that is the same in all rows; NaN where it is not there or blank."""
    values = rows[name].dropna().tolist() if name in rows else []
    return float(values[0]) if values else math.nan


def _selection_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the impact ratio of each group to the mean of all, of candidates who are chosen among each other."""
    clusters, cluster_vars = context.random(rows)
    if rows["group"].nunique() < len(context.experiment.compared):
        return
    selection_rates = measures.selection_rate(
        rows["score"].to_numpy(),
        rows["group"].tolist(),
        pair_ids=rows["pair_id"].tolist(),
        cluster_ids=clusters,
    )
    for group in context.experiment.compared:
        _, impact_ratio = selection_rates[group]
        yield context.finding(impact_ratio, "impact_ratio", group, cluster_vars=cluster_vars)
    rate_of = {group: rate for group, (rate, _) in selection_rates.items()}
    if rows["score"].dropna().isin([0, 1]).all():  # answers that are repeated give shares
        yield from _times_selected(context, rate_of)
    yield from _ratios_to_best(context, rate_of)


def _times_selected(context: Context, rate_of: Mapping[str, Estimate]) -> Iterator[Finding]:
    """Yield in how many rankings each group is selected."""
    for group in context.experiment.compared:
        rate = rate_of[group]
        if rate.n:
            count = Estimate(float(round(rate.value * rate.n)), n=rate.n, test="none")
            yield context.finding(count, "times_selected", group, unit="rankings")


def _ratios_to_best(context: Context, rate_of: Mapping[str, Estimate]) -> Iterator[Finding]:
    """Yield the rate of each group over that of the group that is selected most, without interval.

    The highest of several rates lies above their mean by chance alone, and the ratio below 1.
    """
    best = max(rate.value for rate in rate_of.values())
    for group in context.experiment.compared:
        rate = rate_of[group]
        ratio = rate.value / best if best > 0 else math.nan
        estimate = Estimate(ratio, n=rate.n, n_unscored=rate.n_unscored, test="none")
        yield context.finding(estimate, "ratio_to_best", group)


RATES: Mapping[str, Callable[[Context, pd.DataFrame], Iterator[Finding]]] = {
    "flips": _flip_findings,
    "ratios": _ratio_findings,
    "f1": _f1_findings,
    "leakage": _leakage_findings,
    "direction": _direction_findings,
    "selection": _selection_findings,
    "balance": balance_findings,
    "exchanges": exchange_findings,
    ANSWERS: _answer_findings,
}
"""What makes the findings of each of an experiment's rates from its scored rows."""


def answer_counts(rows: pd.DataFrame) -> dict[str, int]:
    """Count the answers that are right, wrong, unsure, refused, unreadable or missing; each is of one class.

    Args:
        rows: scored rows of a chat model, a row an answer.

    Returns:
        The number of answers by class; ``no answer`` where nothing came.
    """

    def is_marked(column: str) -> "pd.Series[bool]":
        if column not in rows:
            return pd.Series(False, index=rows.index)
        return rows[column].astype(float) > 0

    wrong = is_marked("said_incorrect")
    unsure = is_marked("said_unsure")
    unread = is_marked("said_other")
    refused = is_marked("refused")
    is_silent = rows["said_other"].isna()
    texts = pd.Series("", index=rows.index)
    if "answer" in rows:
        texts = rows["answer"].fillna("").astype(str).str.strip()
    if (texts != "").any():  # texts of credentialed notes are not stored
        is_silent |= unread & (texts == "")
    right = is_marked("said_correct") if "said_correct" in rows else ~unread & ~unsure & ~is_silent
    classes = {
        "right": right,
        "wrong": wrong,
        "unsure": unsure,
        "refused": unread & ~is_silent & refused,
        "unreadable": unread & ~is_silent & ~refused,
        "no answer": is_silent,
    }
    return {name: int(is_member.sum()) for name, is_member in classes.items()}
