"""How a headline holds up: without one template, condition or word, in other wordings, with non-answers at worst."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.finding import EFFECTS, Context, Finding
from swapbias.findings.predictions import ANSWERS, sentence_pairs
from swapbias.measures import (
    MEASURES,
    SPANS,
    Effect,
    Estimate,
    Factors,
    Floats,
    crossed_effects,
    linear_contrast,
    rows_of,
    sequential_adjust,
    shares_in,
)
from swapbias.studies import PLACEBO, PLACEBO_COLUMNS, Experiment, Lexicon, load_lexicon

ORIGINAL = "0"  # the wording that the others reword
HOLDS = 0.8  # share of wordings in which a headline must keep its sign
CUT = "truncated"  # the score column of answers that reached the most tokens
LOST = "not_answered"  # the column of shares of prompts, or of their trials, without an answer
REPEATS = "repeats"  # the column of the pair that first asks the same as a pair of these rows
_TRIAL = r"/t\d+(?=$|/w)"  # what the ids of a prompt that is asked several times end in, before those of a wording
_ROUNDING = 1e-12  # a gap below this share of its scores is none
_SIDES = (1.0, -1.0)  # a group and its reference, a set of conditions and the one subtracted
_NAMED = 3  # items that change a verdict, at most
_NEAR = 0.01  # a score made of the tokens that were kept is the score, within what tokens below them may hold


@dataclass(frozen=True)
class Units:
    """What a headline is the mean of: one value a pair or prompt, of one sample or a weighted sum of several.

    Attributes:
        rows: a row a unit: ``value``, ``sample`` (from 0), the columns of random factors and of the experiment's
            ``aggregate``.
        context: of the finding.
        weights: of the samples' means; of two the second is subtracted.
    """

    rows: pd.DataFrame
    context: Context
    weights: tuple[float, ...] = (1.0,)

    @cached_property
    def columns(self) -> tuple[Floats, NDArray[np.intp], Factors]:
        """Value and sample of each unit, and its cluster in each random factor."""
        values, samples = self.rows["value"].to_numpy(np.float64), self.rows["sample"].to_numpy(np.intp)
        return values, samples, self.context.random(self.rows)[0]

    def estimate(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Estimate:
        """The estimate of some units, by the inference of the design."""
        values, sides, factors = self.columns
        values, sides, factors = values[chosen], sides[chosen], rows_of(factors, chosen)
        varied = {name: codes for name, codes in factors.items() if len(codes) and np.ptp(codes)}
        shares = None
        if self.context.experiment.aggregate:
            weights = row_shares(self.context.experiment, self.rows[chosen], "value")
            shares = shares_in(weights, np.ones(len(values), dtype=bool), sides)
        return replace(linear_contrast(values, sides, self.weights, varied or factors, shares=shares), independent=0)

    def held(self, level: float, chosen: NDArray[np.bool_] | slice = slice(None)) -> Estimate:
        """The estimate of some units, with the interval that leaves out so much."""
        return sequential_adjust(self.estimate(chosen), 1, level=level)


def robust(context: Context, rows: pd.DataFrame, headline: Finding, units: Units) -> Finding:
    """The headline with its range over leaving out one item at a time, and the items that its verdict hinges on.

    Args:
        context: of the headline.
        rows: the scored rows that it is made of.
        headline: over all rows, or over those of one value of its slice.
        units: what it is the mean of.
    """
    whole = units.held(headline.level)
    if math.isnan(whole.error):
        return headline
    ranges, hinges = [], []
    for name, item, estimate in [*_without_each(units, headline.level), *_without_words(context, rows, whole)]:
        ranges.append(estimate.value)
        if changed := _change(whole, estimate):
            hinges.append((abs(estimate.value - whole.value), [changed, name, item]))
    if not ranges:
        return headline
    most = [one for _, one in sorted(hinges, reverse=True)[:_NAMED]]
    more = [["more", "", str(len(hinges) - _NAMED)]] if len(hinges) > _NAMED else []
    told = json.dumps(most + more, ensure_ascii=False) if hinges else ""
    return replace(headline, lowest=min(ranges), highest=max(ranges), hinges_on=told)


def _change(whole: Estimate, part: Estimate) -> str:
    """What changes in a part (see ``Finding.influences``); blank for nothing."""
    if whole.value * part.value < 0:
        return "sign"
    if _away(whole) and not _away(part):
        return "lost"
    return "gained" if _away(part) and not _away(whole) else ""


def _away(estimate: Estimate) -> bool:
    return estimate.ci_low > 0 or estimate.ci_high < 0


def _without_each(units: Units, level: float) -> Iterator[tuple[str, str, Estimate]]:
    """Of each random factor every item: what it is called, the item, the estimate without it."""
    for column, name in units.context.experiment.random.items():
        if column not in units.rows or units.rows[column].nunique() < 3 or column == "subject_id":
            continue  # patients are never named
        codes, items = pd.factorize(units.rows[column])
        for code, item in enumerate(items):
            yield name, str(item), units.held(level, codes != code)


def _without_words(context: Context, rows: pd.DataFrame, whole: Estimate) -> Iterator[tuple[str, str, Estimate]]:
    """Of the words counted at the mask each: the estimate with it taken off its list."""
    scored = _Counted.of(rows, context.score)
    if scored is None:
        return
    weights = units_weights(context, rows)
    for word in scored.places:
        value = whole.value + float(np.nansum(weights * scored.change(word)))
        # Its spread is taken to be that of the whole: one word of a list changes it little.
        low, high = (end + value - whole.value for end in (whole.ci_low, whole.ci_high))
        yield "word", word, replace(whole, value=value, ci_low=low, ci_high=high)


def units_weights(context: Context, rows: pd.DataFrame) -> Floats:
    """What each row's score weighs in the headline: the sum of weights times scores is its value; 0 where NaN."""
    experiment, sides = context.experiment, context.sides
    sign = rows["group"].map(sides).astype(float).fillna(0).to_numpy()
    if experiment.measure == "group_gap":
        return np.asarray(sign * row_shares(experiment, rows, context.score))
    scored = pd.Series(np.where(sign != 0, rows[context.score], math.nan))
    weights = np.where(scored.groupby(rows["pair_id"].to_numpy()).transform("count") == len(sides), sign, 0.0)
    samples = [np.ones(len(rows), dtype=bool)]
    if experiment.contrast:
        samples = [(rows[experiment.subset] == name).to_numpy() for name in experiment.contrast]
    total = np.zeros(len(rows))
    for sample, side in zip(samples, _SIDES, strict=False):
        mine = sample & (weights != 0)
        total[mine] = side * weights[mine] / max(1, rows.loc[mine, "pair_id"].nunique())
    return total


@dataclass(frozen=True, slots=True)
class _Counted:
    """The labelled words at the mask of each row, where their probabilities make up the score.

    Attributes:
        masses: of each row the probability of every label.
        places: of each word the rows that hold it, with its label and probability there.
        wanted: the label that a row's score is the mass of; blank where the score is the share of ``negative``.
    """

    masses: list[dict[str, float]]
    places: dict[str, dict[int, tuple[str, float]]]
    wanted: list[str]

    @classmethod
    def of(cls, rows: pd.DataFrame, score: str) -> "_Counted | None":
        """None where the scores are made of anything else, or of more words than the rows hold."""
        if score != "score" or not {"candidates", "top_tokens"} <= set(rows) or not len(rows):
            return None
        names = rows["candidates"].str.rpartition("/")
        if names[0].nunique() != 1 or not names[0].iloc[0]:
            return None
        lexicon, told = load_lexicon(str(names[0].iloc[0])), [json.loads(cell) for cell in rows["top_tokens"]]
        wanted = [""] * len(rows) if set(names[2]) == {"negative"} else names[2].tolist()
        for uncased in (False, True):
            made = cls._labelled(lexicon, told, wanted, uncased)
            again = np.array([made._score(place, masses) for place, masses in enumerate(made.masses)])
            if np.nanmax(np.abs(again - rows["score"].to_numpy(dtype=np.float64)), initial=0) < _NEAR:
                return made
        return None

    @classmethod
    def _labelled(cls, lexicon: Lexicon, told: list[Any], wanted: list[str], uncased: bool) -> "_Counted":
        words = list(dict.fromkeys(word for row in told for word, _ in row))
        label_of = dict(zip(words, lexicon.labels(words, uncased=uncased), strict=True))
        made = cls([{} for _ in told], {}, wanted)
        for place, row in enumerate(told):
            for word, p in row:
                label, masses = label_of[word], made.masses[place]
                if label != lexicon.rest:
                    masses[label] = masses.get(label, 0.0) + p
                    before = made.places.setdefault(word, {}).get(place, (label, 0.0))[1]
                    made.places[word][place] = label, before + p  # with a space before it and without
        return made

    def _score(self, place: int, masses: Mapping[str, float]) -> float:
        """What a row with these masses scores; NaN where no word is left to rate it by."""
        if self.wanted[place]:
            return masses.get(self.wanted[place], 0.0)
        rated = sum(masses.get(label, 0.0) for label in ("positive", "negative", "neutral"))
        return masses.get("negative", 0.0) / rated if rated > _ROUNDING else math.nan

    def change(self, word: str) -> Floats:
        """By how much each row's score changes with the word taken off its list."""
        changed = np.zeros(len(self.masses))
        for place, (label, p) in self.places[word].items():
            masses = self.masses[place]
            changed[place] = self._score(place, {**masses, label: masses[label] - p}) - self._score(place, masses)
        return changed


# --- units of comparison ------------------------------------------------------------------------------


def row_shares(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> Floats:
    """What each row weighs in the mean of its group, shape (rows,): as in ``condition_means``; 0 without a score."""
    scored = rows[score].notna().to_numpy()
    used, shares = rows[scored], np.zeros(len(rows))
    sizes = 1 / used.groupby(["group", *experiment.aggregate], sort=False)["group"].transform("size").to_numpy()
    for place, column in enumerate(experiment.aggregate):
        within = ["group", *experiment.aggregate[place + 1 :]]
        sizes = sizes / used.groupby(within, sort=False)[column].transform("nunique").to_numpy()
    shares[scored] = sizes
    return shares


def condition_means(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """One row per unit of comparison: rows themselves, or means over the experiment's ``aggregate`` columns.

    Averaged from the finest column on, so that each rendering weighs the same within its condition; group and label
    are kept.
    """
    columns = experiment.aggregate
    for start in range(len(columns)):
        kept = ["group", "label", *columns[start:]]
        rows = rows.groupby(kept, sort=False, as_index=False)[score].mean()
    return rows


def over_prompts(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """Of each prompt that was asked several times one row with its mean scores over those trials that have one.

    ``LOST`` is the share of its trials without a score: further trials are no further prompts. Answers that are
    compared by sentence stay, for their trials are counted there. Pairs of the same texts are marked (``REPEATS``),
    for ``distinct`` to merge them where they stand together.
    """
    if "trial" not in rows or ANSWERS in experiment.rates:
        return _with_repeats(experiment, rows)
    ids = {name: rows[name].str.replace(_TRIAL, "", regex=True) for name in ("prompt_id", "pair_id")}
    every = rows.drop(columns="trial").assign(**ids)
    return _with_repeats(experiment, _merged(experiment, every, ["prompt_id"]))


def distinct(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """Of pairs with the same texts one, with their mean scores: what is asked twice says nothing twice."""
    if REPEATS not in rows:
        return rows
    again = rows["pair_id"] != rows[REPEATS]
    if not again.any():
        return rows
    return _merged(experiment, rows, [one for one in (REPEATS, "group", *PLACEBO_COLUMNS) if one in rows])


def _merged(experiment: Experiment, rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The first row of each key, with the mean scores of all and the share of them without one."""
    scores = [name for name in (*experiment.scores, *experiment.reported, CUT) if name in rows]
    every = rows if LOST in rows else rows.assign(**{LOST: rows["score"].isna().astype(float)})
    means = every.groupby(keys, sort=False, dropna=False)[[*scores, LOST]].mean()
    first = every.drop_duplicates(keys).set_index(keys)
    return first.assign(**{name: means[name] for name in means}, **_predicted(every, means)).reset_index()


def _with_repeats(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the pair that first asks the same as theirs, where any two pairs do."""
    if REPEATS in rows or not len(rows) or not {"text", "pair_id"} <= set(rows) or ANSWERS in experiment.rates:
        return rows
    first = first_pairs(experiment, rows)
    if first is None:
        return rows
    lost = {} if LOST in rows else {LOST: rows["score"].isna().astype(float)}
    return rows.assign(**{REPEATS: rows["pair_id"].map(first)}, **lost)


def first_pairs(experiment: Experiment, rows: pd.DataFrame) -> pd.Series | None:
    """Of each pair the first one with the same texts for the same groups, by its id; None where all pairs differ.

    Pairs of several subsets, or of several values of the slice by which a question is answered, are never the same:
    other models may read them. Nor are notes of other labels or whose patients have other genders; those whose texts
    were left out are not compared.
    """
    if experiment.measure != "paired_gap" or not (rows["text"].notna() & rows["text"].ne("")).all():
        return None
    sides = rows["side"].where(rows["group"] == PLACEBO, rows["group"]) if "side" in rows else rows["group"]
    answered_by = next((one.column for one in experiment.slices if one.name == experiment.headline_slice), "")
    of_notes = ("label", "version") if experiment.rates else ()
    columns = ("text", "candidates", "wording", "trial", experiment.subset, answered_by, *of_notes)
    content = [one for one in dict.fromkeys(columns) if one in rows]
    if not rows[content].assign(side_of_pair=sides).duplicated().any():
        return None  # of most studies no two rows are the same, and comparing pairs is slow
    codes = rows.groupby(content, sort=False, dropna=False).ngroup()
    table = pd.DataFrame({"pair_id": rows["pair_id"], "side": sides, "content": codes})
    table = table.drop_duplicates(["pair_id", "side"]).pivot(index="pair_id", columns="side", values="content")
    table = table.loc[rows["pair_id"].unique()].fillna(-1)
    if not table.duplicated().any():
        return None
    return table.reset_index().groupby(list(table.columns), sort=False)["pair_id"].transform("first").set_axis(
        table.index
    )  # fmt: skip


def _predicted(rows: pd.DataFrame, means: pd.DataFrame) -> dict[str, pd.Series]:
    """Of predictions of several trials that of most of them."""
    score = means["score"] if "predicted" in rows else pd.Series(dtype=float)
    return {"predicted": (score > 0.5).astype(float).where(score.notna())} if len(score) else {}


@dataclass(frozen=True, slots=True)
class Pairing:
    """The pairs of some rows, without their scores: what models share that read the same prompts.

    Attributes:
        facts: a row a pair, by its id: what its first row says.
        places: shape (groups, pairs): which of the rows is of this group; -1: none.
        weights: of the groups.
    """

    facts: pd.DataFrame
    places: NDArray[np.intp]
    weights: Floats

    def gaps(self, scores: Floats) -> Floats:
        """The gap of each pair, NaN where a score of it is; ``scores`` are those of the rows."""
        table = np.append(scores, math.nan)[self.places].T
        found = np.asarray(table @ self.weights)
        found[np.abs(found) <= _ROUNDING * (np.abs(table) @ np.abs(self.weights))] = 0.0  # rounding has no spread
        return found


def pairing(context: Context, rows: pd.DataFrame) -> Pairing:
    """The pairs of these rows, in the order of their ids."""
    at = pd.Series(np.arange(len(rows)), pd.MultiIndex.from_frame(rows[["pair_id", "group"]]))
    places = at.unstack("group", fill_value=-1)[list(context.sides)]
    facts = rows.drop_duplicates("pair_id").set_index("pair_id").loc[places.index]
    return Pairing(facts, places.to_numpy().T, np.array(list(context.sides.values())))


def pair_gaps(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """A row a pair with what its first row says and its ``gap``, NaN where a score of the pair is."""
    pairs = pairing(context, rows)
    return pairs.facts.assign(gap=pairs.gaps(rows[context.score].to_numpy(dtype=np.float64))).reset_index()


def headline_units(context: Context, rows: pd.DataFrame) -> Units | None:
    """The units of the headline over these rows; None where it is no mean of units, or has no two groups."""
    experiment, sides = context.experiment, context.sides
    chosen = rows[rows["group"].isin(list(sides))]
    if chosen["group"].nunique() < len(sides):
        return None
    weights: tuple[float, ...] = (1.0,)
    if ANSWERS in experiment.rates:
        means = sentence_pairs(chosen, experiment.reference_group)
        facts = chosen.drop_duplicates("template").set_index("template").loc[means.index]
        made = facts.assign(
            value=sum(weight * means[group] for group, weight in sides.items()), sample=0
        ).reset_index()
    elif experiment.measure == "group_gap":
        made, weights = chosen, tuple(sides.values())
        made = made.assign(value=made[context.score], sample=made["group"].map({g: n for n, g in enumerate(sides)}))
    elif experiment.measure == "paired_gap":
        return paired_units(context, pair_gaps(context, chosen))
    else:
        return None
    return Units(made[made["value"].notna()].reset_index(drop=True), context, weights)


def paired_units(context: Context, pairs: pd.DataFrame) -> Units:
    """The units of a headline over these pairs, as ``pair_gaps`` has them."""
    contrast, subset = context.experiment.contrast, context.experiment.subset
    made = pairs.assign(value=pairs["gap"], sample=0)
    weights: tuple[float, ...] = (1.0,)
    if contrast and set(contrast) <= set(pairs[subset].unique()):
        made, weights = made[made[subset].isin(contrast)], _SIDES
        made = made.assign(sample=(made[subset] == contrast[1]).astype(int))
    return Units(made[made["value"].notna()].reset_index(drop=True), context, weights)


def crossed(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """The level of each group in each of the experiment's factors; no rows where not every combination is there.

    Raises:
        ValueError: the rows lack a factor's column, or a group has two levels of a factor.
    """
    chosen, factors = rows[rows["group"].isin(experiment.compared)], list(experiment.factors)
    if lacking := [name for name in factors if name not in rows]:
        raise ValueError(
            f"the rows of {experiment.name} have no column {', '.join(map(repr, lacking))}, expected the level of "
            "each group in every factor. Add the columns to its configs, or leave them out of factors."
        )
    named = chosen[["group", *factors]].astype(str).drop_duplicates()
    if twice := named.loc[named["group"].duplicated(), "group"].tolist():
        raise ValueError(
            f"the group {twice[0]!r} of {experiment.name} has several levels of {', '.join(factors)}, expected one "
            "of each. Name groups by their levels."
        )
    table = named.set_index("group")
    levels = table.nunique()
    whole = experiment.reference_group in table.index and levels.min() > 1
    complete = whole and len(table.drop_duplicates()) == len(table) == levels.prod()
    return table if complete else table.iloc[:0]


def effects(experiment: Experiment, rows: pd.DataFrame) -> list[tuple[Effect, dict[str, float]]]:
    """Main effects and interactions of the experiment's factors, each with the weights of its groups."""
    named = crossed(experiment, rows)
    if not len(named):
        return []
    levels = {factor: named[factor].tolist() for factor in named}
    found = crossed_effects(levels, named.loc[experiment.reference_group].to_dict())
    cells = dict(zip(named.index, named.itertuples(index=False, name=None), strict=True))
    return [(one, {group: one.weights[cell] for group, cell in cells.items()}) for one in found]


def effect_name(effect: Effect) -> str:
    """What an effect is called in the ``contrast`` of its finding."""
    return f"{effect.term}: {effect.name}"


def asked(context: Context, headline: Finding, rows: pd.DataFrame) -> tuple[Context, pd.DataFrame]:
    """The scored rows that a headline is made of, placebo ones among them, and the context in which it was asked.

    Args:
        context: of the headline's experiment, with all its groups.
        headline: a gap, an effect or a difference of two sets of conditions, or of one set or value of a slice alone.
        rows: of the experiment and the headline's model.
    """
    experiment = context.experiment
    rows = over_prompts(experiment, rows)
    pair = headline.group, headline.reference_group
    weights: Mapping[str, float] = {}
    if headline.measure in EFFECTS:
        told = {effect_name(one): by_group for one, by_group in effects(experiment, rows[rows["group"] != PLACEBO])}
        weights = told.get(headline.contrast, {})
    else:
        experiment = next((one for one in experiment.gaps if (one.group, one.reference_group) == pair), experiment)
    if headline.measure != "gap_difference":  # one set of conditions was audited, or there is no contrast
        experiment = replace(experiment, contrast=None)
        rows = rows[rows[experiment.subset] == headline.subset] if headline.subset else rows
    if headline.slice_by != "all":
        column = next(one.column for one in experiment.slices if one.name == headline.slice_by)
        rows = rows[rows[column] == headline.slice_value]
    return replace(context, experiment=experiment, weights=weights), distinct(experiment, rows)


def influential(experiment: Experiment, headline: Finding, rows: pd.DataFrame) -> pd.DataFrame:
    """The units that a headline is the mean of, with what each adds to it, the largest influence first.

    Args:
        experiment, headline, rows: as for ``asked``.

    Returns:
        A row a pair, sentence or condition: its columns, ``value`` (its gap or score) and ``influence``, the headline
        minus what it would be without this unit; in the unit of the score. No rows where the headline is no mean.
    """
    context = Context(headline.study, headline.model_id, experiment, headline.score)
    context, rows = asked(context, headline, rows)
    rows = rows[rows["group"] != PLACEBO]
    if experiment.aggregate:  # conditions are what a reader knows
        rows = condition_means(experiment, rows, headline.score)
    units = headline_units(context, rows) if MEASURES[headline.measure].reach else None
    if units is None:
        return pd.DataFrame({"value": [], "influence": []})
    told = units.rows.copy()
    for sample, sign in enumerate(units.weights):
        mine = (told["sample"] == sample).to_numpy()
        values = told.loc[mine, "value"].to_numpy(dtype=np.float64)
        if len(values) > 1:  # without the only one there is no mean
            told.loc[mine, "influence"] = sign * (values - values.mean()) / (len(values) - 1)
    if "influence" not in told:
        return told.assign(influence=math.nan)
    return told.sort_values("influence", key=lambda one: -one.abs(), kind="stable").reset_index(drop=True)


# --- other wordings -----------------------------------------------------------------------------------


def _of(headline: Finding) -> dict[str, str]:
    """What a finding beside a headline shares with it."""
    return {name: getattr(headline, name) for name in ("slice_by", "slice_value", "group", "reference_group")}


def beyond_wording(context: Context, rows: pd.DataFrame, headline: Finding) -> Iterator[Finding]:
    """The headline's gap over its wordings, tested against what they change, and how many of them keep its sign.

    Args:
        context: of the headline.
        rows: those that it is made of, and placebo rows with the columns ``side`` and ``wording``.
        headline: what is reworded.
    """
    reworded = rows[rows["group"] == PLACEBO]
    if not len(reworded):
        return
    again = reworded.assign(group=reworded["side"])
    bases = set(again["pair_id"].str.rpartition("/w")[0])
    original = rows[(rows["group"] != PLACEBO) & rows["pair_id"].isin(bases)].assign(wording=ORIGINAL)
    crossed = replace(context.experiment, random={**context.experiment.random, "wording": "wordings"})
    wider = replace(context, experiment=crossed)
    parts = {}
    for wording, part in pd.concat([original, again]).groupby("wording", sort=True):
        units = headline_units(context, part)
        if units is not None and len(units.rows):
            parts[str(wording)] = units
    gaps = {wording: units.estimate().value for wording, units in parts.items()}
    others = [gap for wording, gap in gaps.items() if wording != ORIGINAL and not math.isnan(gap)]
    if len(others) < 2:
        return
    together = pd.concat([units.rows.assign(wording=name) for name, units in parts.items()], ignore_index=True)
    every = Units(together, wider, next(iter(parts.values())).weights)
    estimate = every.estimate()
    spread = float(np.std(list(gaps.values()), ddof=1))
    where = {**_of(headline), "unit": headline.unit}
    yield context.finding(
        estimate, "gap_beyond_wording", headline.contrast, headline.subset,
        inference=wider.random(every.rows)[1],
        direction=f"the gap over {len(gaps)} wordings, whose gaps have an SD of {spread:.3g}", **where,
    )  # fmt: skip
    if not headline.estimate.value:  # no sign to keep
        return
    kept = float(np.mean([gap * headline.estimate.value > 0 for gap in others]))
    yield context.finding(
        Estimate(kept, n=len(others), test="none"), "sign_kept", headline.contrast, headline.subset,
        inference="these wordings only", direction="share of other wordings in which the gap has its sign",
        **{**where, "unit": "share of wordings"},
    )  # fmt: skip


# --- what could not be scored -------------------------------------------------------------------------


def with_bounds(context: Context, rows: pd.DataFrame, headline: Finding) -> Finding:
    """The headline with its lowest and highest value, whatever the scores are that are missing.

    Unchanged where none is missing or all are, or where scores have no least and most.
    """
    span = SPANS.get(headline.unit, math.nan)
    two = rows[rows["group"].isin(list(context.sides))]
    lost = _lost(two, context.score)
    if not lost.any() or not math.isfinite(span) or two[context.score].isna().all():
        return headline
    ends, known = [], two[context.score].fillna(0).to_numpy(dtype=np.float64)
    for high in (False, True):
        gains = (two["group"].map(context.sides) > 0).to_numpy()
        if context.experiment.contrast:
            gains = gains == (two[context.experiment.subset] == context.experiment.contrast[0]).to_numpy()
        filled = (1 - lost) * known + lost * np.where(gains == high, span, 0.0)
        units = headline_units(context, two.assign(**{context.score: filled}))
        ends.append(units.estimate().value if units else math.nan)
    return replace(headline, worst_low=ends[0], worst_high=ends[1])


def bounded_mean(context: Context, rows: pd.DataFrame, mean: Finding) -> Finding:
    """A mean with its lowest and highest value, whatever the scores of these rows are that are missing.

    Unchanged where none is missing or all are, or where scores have no least and most.
    """
    span, scores = SPANS.get(mean.unit, math.nan), rows[context.score]
    lost = rows[LOST].to_numpy(dtype=np.float64) if LOST in rows else scores.isna().to_numpy(dtype=np.float64)
    if not lost.any() or scores.isna().all() or not math.isfinite(span):
        return mean
    low = scores.fillna(0).to_numpy(dtype=np.float64) * (1 - lost)
    shares = row_shares(context.experiment, rows.assign(group="", **{context.score: low}), context.score)
    ends = [float(shares @ filled) for filled in (low, low + span * lost)]
    return replace(mean, worst_low=ends[0], worst_high=ends[1])


def _lost(rows: pd.DataFrame, score: str, *, unsure: bool = False) -> Floats:
    """Of each row the share of its trials without a read answer, or, with ``unsure``, without a decided one."""
    if LOST in rows:
        return np.asarray(rows[LOST], dtype=np.float64)
    lost = rows[score].isna().to_numpy()
    for name in ("said_unsure", "said_other")[not unsure :]:
        if name in rows:
            lost = lost | (rows[name].to_numpy(dtype=np.float64) > 0)
    return np.asarray(lost, dtype=np.float64)


def nonanswer_gap(context: Context, rows: pd.DataFrame, headline: Finding) -> Iterator[Finding]:
    """How much more often one group's prompts get no answer, or one that is cut off.

    Nothing of either where no prompt does, or where none is scored.
    """
    two = rows[rows["group"].isin(list(context.sides))]
    if two["group"].nunique() < len(context.sides) or two[context.score].isna().all():
        return
    yield from _gap_of_shares(
        context, two, _lost(two, context.score, unsure=True), headline, "nonanswer_gap", "no answer"
    )
    if CUT in two and context.experiment.kind == "chat":
        cut = np.asarray(two[CUT].fillna(0), dtype=np.float64)
        yield from _gap_of_shares(context, two, cut, headline, "truncation_gap", "an answer that is cut off")


def _gap_of_shares(
    context: Context, rows: pd.DataFrame, lost: Floats, headline: Finding, measure: str, gets: str
) -> Iterator[Finding]:
    if not lost.any():
        return
    experiment = context.experiment
    marked = replace(context, score=LOST, experiment=replace(experiment, contrast=None, rates=()))
    part = rows.assign(**{LOST: lost})
    if "trial" in part:  # trials of one prompt are no further prompts
        keys = ["template", "condition", "group"]
        shares = part.groupby(keys, sort=False)[LOST].transform("mean")
        part = part.assign(**{LOST: shares, "pair_id": part["template"] + "/" + part["condition"]}).drop_duplicates(
            keys
        )
    units = headline_units(marked, part)
    if units is None or not len(units.rows):
        return
    yield context.finding(
        units.estimate(), measure, headline.contrast, "" if experiment.contrast else headline.subset,
        inference=context.random(units.rows)[1], **_of(headline),
        direction=f"above zero more {headline.group or 'of the first'} prompts get {gets}",
        unit="share of prompts",
    )  # fmt: skip
