"""Findings of predictions over several train/test splits: flips, rates, macro F1 and leakage as means over splits."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.predictions import ROUNDED, subjects_of
from swapbias.measures import Estimate, Floats, rates, split_rates
from swapbias.studies import prompt

SPLITS = "train/test splits"
"""The random factor of several splits, as studies of notes call it."""
_SIDES = (1.0, -1.0)  # weights of a group and the reference
_UNIT = (0.0, 1.0)  # the ends of a share


def has_splits(rows: pd.DataFrame) -> bool:
    """Tell whether rows are of several train/test splits.

    Args:
        rows: scored rows of one experiment.
    """
    return prompt.SPLIT in rows and rows[prompt.SPLIT].nunique() > 1


def are_over_splits(findings: Iterable[Finding]) -> bool:
    """Tell whether any finding is over several train/test splits.

    Args:
        findings: findings of one experiment.
    """
    return any(SPLITS in finding.cluster_vars.split(" + ") for finding in findings)


@dataclass(frozen=True, slots=True)
class _Predictions:
    """Predictions of every split."""

    answers: Floats
    """The prediction, 1 for positive; NaN for none."""
    is_positive: NDArray[np.bool_]
    """Whether the label is positive."""
    is_side: NDArray[np.bool_]
    """Shape (rows, groups): whether the version is that of the group, the reference last."""
    rows: split_rates.SplitRows
    """Split, note and random factors of each row."""
    cluster_vars: str
    """The names of the random factors."""

    @classmethod
    def of(cls, context: Context, rows: pd.DataFrame) -> "_Predictions":
        """Return the predictions of scored rows."""
        factors, cluster_vars = context.random(rows)
        splits = pd.factorize(rows[prompt.SPLIT])[0]
        subjects, _ = subjects_of(rows)
        return cls(
            answers=rows["predicted"].to_numpy(np.float64),
            is_positive=(rows["label"] == "positive").to_numpy(),
            is_side=(rows["group"].to_numpy()[:, None] == list(context.sides)),
            rows=split_rates.SplitRows(
                splits=splits,
                units=pd.factorize(rows["pair_id"])[0],
                factors=factors,
                subjects=splits if subjects is None else pd.factorize(np.array(subjects))[0],
            ),
            cluster_vars=cluster_vars,
        )

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """Tell which rows have a prediction."""
        return ~np.isnan(self.answers)


def _flip_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the share of notes whose prediction changes with the gender, and who gets more positives."""
    compared = context.compared_rows(rows)
    if not context.has_all_groups(compared):
        return
    wide = compared.pivot(index="pair_id", columns="group", values="predicted")
    group, reference = context.sides
    difference = (wide[group] - wide[reference]).rename("difference")
    pairs = compared.drop_duplicates("pair_id").join(difference, on="pair_id")
    unscored = int(pairs["difference"].isna().sum())
    pairs = pairs[pairs["difference"].notna()]
    predictions = _Predictions.of(context, pairs)
    moved = pairs["difference"].to_numpy(np.float64)
    every = np.ones((len(moved), 1))
    flips = predictions.rows.mean(
        np.abs(moved)[:, None], every, (1.0,), ends=_UNIT, n_unscored=unscored
    )
    # As many flip one way as the other: the mean of their directions is 0.
    balance = predictions.rows.mean(moved[:, None], every, (1.0,), tested=True)
    yield context.finding(
        replace(flips, p_value=balance.p_value, test=balance.test),
        "flip_rate",
        " and ".join(context.sides),
        cluster_vars=predictions.cluster_vars,
        higher_group=rates.higher_group(balance.value, context.sides),
        only_group=float((moved > 0).sum()),
        only_reference=float((moved < 0).sum()),
    )


def _ratio_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield true and false positive rates: their difference, the log of their ratio, and the ratio as published."""
    compared = context.compared_rows(rows)
    if not context.has_all_groups(compared):
        return
    predictions = _Predictions.of(context, compared)
    for rate, of_label in (("tpr", True), ("fpr", False)):
        is_counted = (predictions.is_positive == of_label) & predictions.is_scored
        whole = is_counted[:, None] & predictions.is_side
        part = whole & (predictions.answers == 1)[:, None]
        unscored = int(((predictions.is_positive == of_label) & ~predictions.is_scored).sum())
        for measure, scale, ends in (
            (f"{rate}_difference", split_rates.PLAIN, (-1.0, 1.0)),
            (f"log_{rate}r", split_rates.LOG, (-math.inf, math.inf)),
        ):
            estimate = predictions.rows.mean(
                part, whole, _SIDES, scale=scale, ends=ends, n_unscored=unscored, tested=True
            )
            yield context.finding(
                estimate,
                measure,
                context.gap_fields["contrast"],
                higher_group=rates.higher_group(estimate.value, context.sides),
                cluster_vars=predictions.cluster_vars,
            )
        by_split = predictions.rows.shares(part, whole)
        plain = Estimate(
            math.nan,
            n=int(whole.any(axis=1).sum()),
            n_unscored=unscored,
            test="none",
            interval="none",
        )
        yield from _published_ratios(context, by_split, plain, f"{rate}r")


def _published_ratios(
    context: Context, by_split: Floats, plain: Estimate, measure: str
) -> Iterator[Finding]:
    """Yield the mean over splits of the smaller over the larger rate, without interval, and that of rounded rates.

    The smaller rate is always on top, so that the ratio of equal rates lies below 1 and has no interval that holds.
    """
    title = " and ".join(context.sides)
    ratios = [rates.smaller_over_larger(pair) for pair in by_split]
    rounded = [rates.ratio_of_rounded(*pair) for pair in by_split]
    for contrast, values, pairs in (
        (title, ratios, by_split),
        (f"{title}, {ROUNDED}", rounded, np.round(by_split, 2)),
    ):
        mean = float(np.mean(values))
        difference = math.nan if math.isnan(mean) else float(np.mean(pairs @ np.array(_SIDES)))
        yield context.finding(
            replace(plain, value=mean),
            measure,
            contrast,
            higher_group=rates.higher_group(difference, context.sides),
            view=context.plain_view,
        )


def _f1_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield macro F1 over both versions of every note."""
    predictions = _Predictions.of(context, rows)
    classes = predictions.is_positive[:, None] == [True, False]
    is_scored = predictions.is_scored[:, None]
    guesses = predictions.answers[:, None] == [1.0, 0.0]
    estimate = predictions.rows.mean(
        is_scored & classes & guesses,
        is_scored & (classes | guesses),
        (0.5, 0.5),
        scale=split_rates.F1,
        ends=_UNIT,
        n_unscored=int((~predictions.is_scored).sum()),
    )
    yield context.finding(estimate, "macro_f1", "all", cluster_vars=predictions.cluster_vars)


def _leakage_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield how well the gender is predicted from the notes: unweighted average recall, one half by chance."""
    predictions = _Predictions.of(context, rows)
    groups = rows["group"].to_numpy()
    guesses = rows["answer"].fillna("").to_numpy()
    classes = np.unique(groups)
    is_scored = guesses != ""
    whole = is_scored[:, None] & (groups[:, None] == classes)
    part = whole & (guesses == groups)[:, None]
    weights = (1 / len(classes),) * len(classes)
    estimate = predictions.rows.mean(
        part, whole, weights, ends=_UNIT, n_unscored=int((~is_scored).sum())
    )
    if len(classes) < 2:
        estimate = Estimate(math.nan, n=estimate.n, test="none", interval="none")
    yield context.finding(estimate, "leakage_uar", "gender", cluster_vars=predictions.cluster_vars)


SPLIT_RATES: Mapping[str, Callable[[Context, pd.DataFrame], Iterator[Finding]]] = {
    "flips": _flip_findings,
    "ratios": _ratio_findings,
    "f1": _f1_findings,
    "leakage": _leakage_findings,
}
"""What makes the findings of the rates that classifiers trained on several splits have."""
