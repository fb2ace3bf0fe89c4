"""Findings of predictions and true labels (flips, ratios of rates, F1, leakage) and of cosines (direct bias)."""

import json
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.answers import ANSWERS, answers
from swapbias.findings.finding import Context, Finding
from swapbias.measures import Estimate, flip_rate, from_cosines, macro_f1, rate_ratio, uar

Where = Mapping[str, str]
POSITIVE = "positive"
RANDOM_DIRECT = "random words of like frequency: mean |cosine|"
RANDOM_SIGNED = "random words of like frequency: mean cosine"
EXPLAINED = "variance explained by the gender direction"


def _two(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    groups = [context.experiment.group, context.experiment.reference_group]
    return rows[rows["group"].isin(groups)]


def flips(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """The share of notes whose prediction changes with the gender, and who gets more positives."""
    two = _two(context, rows)
    reference = context.experiment.reference_group
    if two["group"].nunique() < 2:
        return
    found = flip_rate(
        two["predicted"].to_numpy(dtype=float), two["group"].to_numpy(), two["pair_id"].to_numpy(),
        reference_group=reference, scores=two["score"].to_numpy(dtype=float), seed=context.seed,
    )  # fmt: skip
    counts = f"positive in the {context.experiment.group} version alone: {found.more}, {reference}: {found.fewer}"
    yield context.finding(
        found.estimate,
        "flip_rate",
        _pair(context),
        subset,
        **_higher(found.higher_group if found.more != found.fewer else "", counts, found.estimate.value),
        **where,
    )


def ratios(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """True and false positive rates: the smaller over the larger of the two groups."""
    two = _two(context, rows)
    if two["group"].nunique() < 2:
        return
    for rate in ("tpr", "fpr"):
        found = rate_ratio(
            two["predicted"].to_numpy(dtype=float), (two["label"] == POSITIVE).to_numpy(), two["group"].to_numpy(),
            reference_group=context.experiment.reference_group, pair_ids=two["pair_id"].to_numpy(), rate=rate,
            seed=context.seed,
        )  # fmt: skip
        rates = ", ".join(f"{group} {value:.3f}" for group, value in found.rates.items())
        yield context.finding(
            found.estimate,
            f"{rate}r",
            _pair(context),
            subset,
            **_higher(found.higher_group, rates, found.estimate.value),
            **where,
        )


def f1(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """Macro F1 over both versions of every note."""
    estimate = macro_f1(
        rows["predicted"].to_numpy(dtype=float),
        (rows["label"] == POSITIVE).to_numpy(),
        pair_ids=rows["pair_id"].to_numpy(),
        seed=context.seed,
    )
    yield context.finding(estimate, "macro_f1", "all", subset, **where)


def leakage(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """How well the gender is told from the notes: unweighted average recall, one half by chance."""
    estimate = uar(
        rows["answer"].tolist(), rows["group"].tolist(), note_ids=rows["pair_id"].tolist(), seed=context.seed
    )
    yield context.finding(
        estimate,
        "leakage_uar",
        "gender",
        subset,
        direction="0.5 is chance; 1 means that every note tells the gender",
        **where,
    )


def direction(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """Direct bias and its sign, against random words of like frequency, and how clear the gender direction is."""
    cosines = rows["score"].to_numpy(dtype=float)
    found = from_cosines(cosines, _null(rows), seed=context.seed)
    told = "above zero toward female, below toward male"
    if not math.isnan(found.signed.value):
        told += f": toward {'female' if found.signed.value > 0 else 'male'}"
    yield context.finding(
        found.direct_bias, "direct_bias", "mean |cosine|", subset,
        direction="0: the words stand at right angles to the gender direction", **where,
    )  # fmt: skip
    yield context.finding(found.signed, "signed_mean", "mean cosine", subset, direction=told, **where)
    means = {RANDOM_DIRECT: found.null_mean, RANDOM_SIGNED: found.null_signed_mean}
    for name, value in means.items() if not math.isnan(found.null_mean) else ():
        yield context.finding(Estimate(value, test="none"), "mean", name, subset, unit="cosine", **where)
    explained = rows["explained_variance"].dropna()
    if where["slice_by"] == "all" and len(explained):
        estimate = Estimate(float(explained.iloc[0]), test="none")
        yield context.finding(estimate, "mean", EXPLAINED, subset, unit="share of variance", **where)


def _null(rows: pd.DataFrame) -> NDArray[np.float64] | None:
    """Cosines of the random words drawn for each word: (words, sets), NaN where a word had none."""
    drawn = [[cosine for _, cosine in json.loads(cell)] for cell in rows["top_tokens"]]
    width = max(map(len, drawn), default=0)
    if not width:
        return None
    return np.array([row if len(row) == width else [math.nan] * width for row in drawn], dtype=np.float64)


def _pair(context: Context) -> str:
    return f"{context.experiment.group} and {context.experiment.reference_group}"


def _higher(group: str, told: str, value: float) -> dict[str, str]:
    if math.isnan(value):
        return {"direction": f"not defined ({told})"}
    return {"direction": f"{group} higher ({told})" if group else f"equal ({told})", "higher_group": group}


RATES: Mapping[str, Callable[[Context, pd.DataFrame, str, Where], Iterator[Finding]]] = {
    "flips": flips,
    "ratios": ratios,
    "f1": f1,
    "leakage": leakage,
    "direction": direction,
    ANSWERS: answers,
}
