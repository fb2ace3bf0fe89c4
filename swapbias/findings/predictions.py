"""Findings of predictions, answers and cosines: flips, ratios of rates, leakage, right answers, direct bias."""

import json
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.finding import AS_PUBLISHED, Context, Finding
from swapbias.measures import (
    WITHOUT_PAIR,
    Estimate,
    Omnibus,
    answer_bias,
    contrasts,
    difference_of_biases,
    flip_rate,
    from_cosines,
    macro_f1,
    mean_score,
    paired_gap,
    performance,
    rate_ratio,
    sentence_means,
    trial_biases,
    uar,
)

ANSWERS = "answers"  # among an experiment's rates: its prompts are asked several times over
BASELINE = "baseline"
STRICT = "strict_correct"
_SHARES = (("said_unsure", "unsure"), ("said_other", "not readable"), ("strict_other", "not readable, strictly"))
Where = Mapping[str, str]


def answers(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """Unreadable and missing answers, the bias by the strict parser, and differences to the baseline."""
    over = context.random(rows)[1]
    for column, name in _SHARES:
        share = _share(context, rows, 100 * _column(rows, column))
        yield context.finding(share, "mean", f"answers {name}", subset, inference=over, **where)
    missing = 100 * rows["score"].isna().to_numpy(dtype=float)
    if 0 < missing.mean() < 100:  # where all are, every other row says so
        share = _share(context, rows, missing)
        yield context.finding(share, "mean", "answers missing", subset, inference=over, **where)
    for one in context.gaps():
        two = _two(one, rows)
        estimate = bias(one, two.assign(score=_column(two, STRICT)))
        yield context.finding(
            estimate, "answer_bias", subset=subset, direction=context.experiment.direction, inference=over,
            **{**one.apart, "contrast": f"{one.apart['contrast']}, strict parser"}, **where,
        )  # fmt: skip
        if where["slice_by"] == "all":
            yield from _differences(one, two, subset)


def readable(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, without any score where not one answer of a model can be read: unreadable ones are no wrong ones."""
    if "said_other" in rows and (rows["said_other"].dropna() > 0).all():
        return rows.assign(score=math.nan)
    return rows


def over_trials(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per sentence, adjectives and side with its mean score over trials; NaN where no trial was answered.

    ``pair_id`` is that of the prompts, before they were asked several times.
    """
    means = rows.groupby(["template", "condition", "group"], sort=False, as_index=False)["score"].mean()
    return means.assign(pair_id=means["template"] + "/" + means["condition"])


def bias(context: Context, rows: pd.DataFrame) -> Estimate:
    """Right answers of both sides, over sentences; a score above 0 is a right answer."""
    return answer_bias(
        _classes(rows), rows["group"].tolist(), pair_ids=_asked(rows), trial_ids=rows["trial"].tolist(),
        sentence_ids=rows["template"].tolist(), reference_group=context.experiment.reference_group,
        cluster_ids=context.random(rows)[0],
    ).estimate  # fmt: skip


def every_side(context: Context, rows: pd.DataFrame) -> Omnibus:
    """Whether right answers differ between any of several sides, over sentences."""
    return contrasts(
        answer_bias, _classes(rows), rows["group"].tolist(), pair_ids=_asked(rows), trial_ids=rows["trial"].tolist(),
        sentence_ids=rows["template"].tolist(), cluster_ids=context.random(rows)[0],
        reference_group=context.experiment.reference_group,
    ).omnibus  # fmt: skip


def sentence_pairs(rows: pd.DataFrame, reference: str) -> pd.DataFrame:
    """A row a sentence, a column a side: ``sentence_means`` of the scores."""
    other = next(side for side in rows["group"] if side != reference)
    means = sentence_means(
        rows["score"], rows["group"].tolist(), _asked(rows), rows["template"].tolist(), reference_group=reference
    )
    return pd.DataFrame(means, columns=[other, reference], index=rows["template"].unique())


def _asked(rows: pd.DataFrame) -> list[str]:
    """The pair of each row, before it was asked several times."""
    return [
        f"{sentence}/{adjectives}" for sentence, adjectives in zip(rows["template"], rows["condition"], strict=True)
    ]


def _classes(rows: pd.DataFrame) -> list[str | None]:
    """Right answers by the score, and those that could not be read; any other is wrong."""
    unread = rows["said_other"] > 0 if "said_other" in rows else np.zeros(len(rows), dtype=bool)
    return [
        None if math.isnan(score) else "correct" if score > 0 else "other" if other else "incorrect"
        for score, other in zip(rows["score"], unread, strict=True)
    ]


def _column(rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """A column of answers; NaN where no answer at all was read."""
    found: NDArray[np.float64] = rows[name].to_numpy(dtype=float) if name in rows else np.full(len(rows), np.nan)
    return found


def _share(context: Context, rows: pd.DataFrame, percent: NDArray[np.float64]) -> Estimate:
    """The mean over sentences of what was answered to each, in percent; ``n`` counts sentences."""
    means = pd.Series(percent).groupby(rows["template"].to_numpy(), sort=False).mean()
    return mean_score(means.to_numpy(), cluster_ids=context.random(_sentences(rows))[0])


def _sentences(rows: pd.DataFrame) -> pd.DataFrame:
    """The first row of each sentence."""
    return rows.drop_duplicates("template")


def _differences(context: Context, rows: pd.DataFrame, subset: str) -> Iterator[Finding]:
    """Each condition's bias minus the baseline's: paired by sentence, and over trials as published."""
    reference = context.experiment.reference_group
    base = rows[rows["condition"] == BASELINE]
    trials = _by_trial(base, reference)
    for condition, part in rows.groupby("condition", sort=False):
        if condition == BASELINE or not len(base):
            continue
        where = {"slice_by": "adjectives", "slice_value": str(condition)}
        told = "above zero: more bias than without adjectives"
        contrast = f"{context.experiment.group} - {reference}, minus {BASELINE}"
        paired = _paired(context, part, base)
        over = context.random(part)[1]
        yield context.finding(paired, "bias_difference", contrast, subset, direction=told, inference=over, **where)
        published = difference_of_biases(_by_trial(part, reference), trials).estimate
        yield context.finding(
            published,
            "bias_difference",
            contrast,
            subset,
            direction=told,
            inference=AS_PUBLISHED,
            view=AS_PUBLISHED,
            **where,
        )


def _by_trial(rows: pd.DataFrame, reference: str) -> list[float]:
    found = trial_biases(
        _classes(rows), rows["group"].tolist(), trial_ids=rows["trial"].tolist(), reference_group=reference
    )
    return list(found.values())


def _paired(context: Context, part: pd.DataFrame, base: pd.DataFrame) -> Estimate:
    """The difference for each sentence, over its trials."""
    sides = context.experiment.group, context.experiment.reference_group
    gaps = []
    for some in (part, base):
        means = sentence_pairs(some, sides[1])
        gaps.append(means[sides[0]] - means[sides[1]])
    table = pd.concat(gaps, axis=1, keys=["condition", BASELINE])  # a sentence that either lacks is NaN, and counted
    groups = ["condition"] * len(table) + [BASELINE] * len(table)
    scores = np.concatenate([table["condition"], table[BASELINE]])
    facts = _sentences(pd.concat([part, base])).set_index("template").loc[table.index]
    clusters = {name: [*codes, *codes] for name, codes in context.random(facts)[0].items()}
    return paired_gap(scores, groups, [*table.index, *table.index], reference_group=BASELINE, cluster_ids=clusters)


POSITIVE = "positive"
RANDOM_DIRECT = "random words: mean |cosine|"
RANDOM_SIGNED = "random words: mean cosine"
RANDOM_DIRECTION = "direction at random: mean |cosine|"
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
        reference_group=reference, scores=two["score"].to_numpy(dtype=float), cluster_ids=subjects(two),
        seed=context.seed,
    )  # fmt: skip
    counts = f"positive in the {context.experiment.group} version alone: {found.more}, {reference}: {found.fewer}"
    yield context.finding(
        found.estimate,
        "flip_rate",
        _pair(context),
        subset,
        **_higher(found.higher_group if found.more != found.fewer else "", counts, found.estimate.value),
        inference=told_of(rows),
        **where,
    )


def ratios(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """True and false positive rates: their difference, the log of their ratio, and the ratio as published."""
    two = _two(context, rows)
    if two["group"].nunique() < 2:
        return
    for rate in ("tpr", "fpr"):
        found = rate_ratio(
            two["predicted"].to_numpy(dtype=float), (two["label"] == POSITIVE).to_numpy(), two["group"].to_numpy(),
            reference_group=context.experiment.reference_group, pair_ids=two["pair_id"].to_numpy(),
            cluster_ids=subjects(two), rate=rate, seed=context.seed,
        )  # fmt: skip
        rates = ", ".join(f"{group} {value:.3f}" for group, value in found.rates.items())
        apart = context.apart["contrast"]
        for measure, estimate, contrast in (
            (f"{rate}_difference", found.difference, apart),
            (f"log_{rate}r", found.log_ratio, apart),
            (f"{rate}r", found.estimate, _pair(context)),
        ):
            told = _higher(found.higher_group, rates, estimate.value)
            view = AS_PUBLISHED if measure == f"{rate}r" else ""
            over = view or told_of(two)
            yield context.finding(estimate, measure, contrast, subset, inference=over, view=view, **told, **where)


AS_WRITTEN = "original"  # the version of a note in its patient's own gender


def actual(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """How well each gender is served: of the notes as they were written, each of its patient's own gender.

    Nothing where notes are not told apart by version, or one of the two groups has none. Of labels alone (scores that
    are 0 or 1) there are the rates, and nothing of ranking and calibration.
    """
    two = _two(context, rows)
    mine = two[two["version"] == AS_WRITTEN] if "version" in two else two.iloc[:0]
    if mine["group"].nunique() < 2:
        return
    scores = mine["score"].to_numpy(dtype=float)
    graded = not np.isin(scores[~np.isnan(scores)], (0, 1)).all()
    found = performance(
        mine["predicted"].to_numpy(dtype=float), (mine["label"] == POSITIVE).to_numpy(), mine["group"].to_numpy(),
        reference_group=context.experiment.reference_group, scores=scores if graded else None,
        cluster_ids=subjects(mine), seed=context.seed,
    )  # fmt: skip
    over = f"{told_of(mine)} as written"
    for group, values in found.groups.items():
        for measure, estimate in values.items():
            yield context.finding(estimate, measure, group, subset, inference=over, **where)
    for measure, estimate in {**found.differences, "equalised_odds_difference": found.equalised_odds}.items():
        told = {
            "direction": "0: equal; patients of either gender in their own notes, which differ in more than words"
        }
        if measure in found.differences:
            told |= _higher_by(context, estimate.value)
        yield context.finding(
            estimate, measure, context.apart["contrast"], subset, inference=over, **told, **where,
        )  # fmt: skip


def _higher_by(context: Context, value: float) -> dict[str, str]:
    """The group that a difference of both says is higher; blank where they are equal."""
    return {
        "higher_group": context.experiment.group if value > 0 else context.experiment.reference_group * (value < 0)
    }


def f1(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """Macro F1 over both versions of every note."""
    estimate = macro_f1(
        rows["predicted"].to_numpy(dtype=float),
        (rows["label"] == POSITIVE).to_numpy(),
        pair_ids=rows["pair_id"].to_numpy(),
        cluster_ids=subjects(rows),
    )
    yield context.finding(estimate, "macro_f1", "all", subset, inference=told_of(rows), **where)


def leakage(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """How well the gender is told from the notes: unweighted average recall, one half by chance."""
    estimate = uar(
        rows["answer"].tolist(), rows["group"].tolist(), note_ids=rows["pair_id"].tolist(),
        cluster_ids=subjects(rows),
    )  # fmt: skip
    yield context.finding(
        estimate,
        "leakage_uar",
        "gender",
        subset,
        direction="0.5 is chance; 1 means that every note tells the gender",
        inference=told_of(rows),
        **where,
    )


def direction(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """Direct bias and its sign, against random words and directions, and how clear the gender direction is."""
    cosines, others = rows["score"].to_numpy(dtype=float), rows.filter(regex=f"^{WITHOUT_PAIR}[0-9]+$")
    dimensions, alike = _told(rows, "dimensions"), _told(rows, "frequency_known") == 1
    found = from_cosines(
        cosines, _null(rows), without_pairs=others.to_numpy(dtype=float) if len(others.columns) else None,
        dimensions=None if math.isnan(dimensions) else int(dimensions), like_frequency=alike,
    )  # fmt: skip
    told = "above zero toward female, below toward male"
    if not math.isnan(found.signed.value):
        told += f": toward {'female' if found.signed.value > 0 else 'male'}"
    yield context.finding(
        found.direct_bias, "direct_bias", "mean |cosine|", subset,
        direction="0: the words stand at right angles to the gender direction", inference="over words", **where,
    )  # fmt: skip
    yield context.finding(
        found.signed, "signed_mean", "mean cosine", subset, direction=told, inference="over words", **where
    )
    means = {RANDOM_DIRECT: found.null_mean, RANDOM_SIGNED: found.null_signed_mean}
    for name, value in means.items() if not math.isnan(found.null_mean) else ():
        estimate = Estimate(value, test="none")
        ranked = "of like place in the file, by which words are often ordered; it holds no frequencies"
        drawn = ranked if _told(rows, "frequency_known") == 0.5 else "of any frequency: none is known"
        drawn = "of like frequency" if alike else drawn
        yield context.finding(estimate, "mean", name, subset, unit="cosine", direction=drawn, **where)
    if where["slice_by"] == "all" and not math.isnan(found.random_direction):
        estimate = Estimate(found.random_direction, test="none")
        yield context.finding(estimate, "mean", RANDOM_DIRECTION, subset, unit="cosine", **where)
    explained = _told(rows, "explained_variance")
    if where["slice_by"] == "all" and not math.isnan(explained):
        estimate = Estimate(explained, test="none")
        yield context.finding(estimate, "mean", EXPLAINED, subset, unit="share of variance", **where)


def _told(rows: pd.DataFrame, name: str) -> float:
    """What a column says of all rows; NaN where it is not there or says nothing."""
    known = rows[name].dropna().tolist() if name in rows else []
    return float(known[0]) if known else math.nan


def _null(rows: pd.DataFrame) -> NDArray[np.float64] | None:
    """Cosines of the random words drawn for each word: (words, sets), NaN where a word had none."""
    drawn = [[cosine for _, cosine in json.loads(cell)] for cell in rows["top_tokens"]]
    width = max(map(len, drawn), default=0)
    if not width:
        return None
    return np.array([row if len(row) == width else [math.nan] * width for row in drawn], dtype=np.float64)


def subjects(rows: pd.DataFrame) -> list[str] | None:
    """The subject of each row, whose notes are not independent; None where the rows do not tell."""
    known = rows.get("subject_id")
    return None if known is None or not known.astype(bool).all() else known.astype(str).tolist()


def told_of(rows: pd.DataFrame) -> str:
    return "over notes" if subjects(rows) is None else "over subjects"


def _pair(context: Context) -> str:
    return f"{context.experiment.group} and {context.experiment.reference_group}"


SIGNED = ("flips", "ratios", "actual")  # rates with a direction, which cancels over slices that lean apart


def _higher(group: str, told: str, value: float) -> dict[str, str]:
    if math.isnan(value):
        return {"direction": f"not defined ({told})"}
    return {"direction": f"{group} higher ({told})" if group else f"equal ({told})", "higher_group": group}


RATES: Mapping[str, Callable[[Context, pd.DataFrame, str, Where], Iterator[Finding]]] = {
    "flips": flips,
    "ratios": ratios,
    "f1": f1,
    "actual": actual,
    "leakage": leakage,
    "direction": direction,
    ANSWERS: answers,
}
