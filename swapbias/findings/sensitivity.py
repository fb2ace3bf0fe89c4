"""The units that a headline is the mean of; the headline without each item, over paraphrases, with missing scores."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.finding import EFFECTS, LEVEL, UNMEASURED, Context, Finding, looks_of
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
    shares_in,
)
from swapbias.studies import PLACEBO, PLACEBO_COLUMNS, Experiment, Study, load_lexicon

ORIGINAL = "0"  # the wording that the others paraphrase
HOLDS = 0.8  # share of paraphrases in which a headline must have its sign
CUT = "truncated"  # the score column of answers that reached the most tokens
LOST = "not_answered"  # the column of shares of prompts, or of their trials, without an answer
REPEATS = "repeats"  # the column of the first pair with the same texts as a pair of these rows
_TRIAL = r"/t\d+(?=$|/w)"  # what the ids of a prompt with several trials end in, before those of a paraphrase
_ROUNDING = 1e-12  # a gap below this share of its scores is none
_SIDES = (1.0, -1.0)  # a group and its reference, a set of conditions and the one subtracted
_NAMED = 3  # items that change a verdict, at most
_RATED = ("positive", "negative", "neutral")  # labels of a lexicon of sentiment
_NEAR = 0.01  # a score made of the stored tokens is the score, within the probability of rarer tokens


# --- prompts ------------------------------------------------------------------------------------------


def row_shares(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> Floats:
    """Weight of each row in the mean of its group, as in ``condition_means``; 0 without a score."""
    scored = rows[score].notna().to_numpy()
    used, shares = rows[scored], np.zeros(len(rows))
    sizes = 1 / used.groupby(["group", *experiment.aggregate], sort=False)["group"].transform("size").to_numpy()
    for place, column in enumerate(experiment.aggregate):
        within = ["group", *experiment.aggregate[place + 1 :]]
        sizes = sizes / used.groupby(within, sort=False)[column].transform("nunique").to_numpy()
    shares[scored] = sizes
    return shares


def condition_means(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """One row per unit of comparison: rows themselves, or means over ``aggregate`` columns, the finest first."""
    for start in range(len(experiment.aggregate)):
        keys = ["group", "label", *experiment.aggregate[start:]]
        rows = rows.groupby(keys, sort=False, as_index=False)[score].mean()
    return rows


def over_prompts(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """One row a prompt with its mean scores over trials; ``LOST`` is the share of its trials without a score.

    Pairs of the same texts are marked (``REPEATS``) for ``distinct``. Trials of answers compared by sentence stay.
    """
    if ANSWERS in experiment.rates:
        return rows
    if "trial" in rows:
        ids = {name: rows[name].str.replace(_TRIAL, "", regex=True) for name in ("prompt_id", "pair_id")}
        rows = _merged(experiment, rows.drop(columns="trial").assign(**ids), ["prompt_id"])
    known = REPEATS in rows or not len(rows) or not {"text", "pair_id"} <= set(rows)
    first = None if known else first_pairs(experiment, rows)
    return rows if first is None else _with_lost(rows).assign(**{REPEATS: rows["pair_id"].map(first)})


def distinct(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """Of pairs with the same texts one, with their mean scores: a repeated prompt is no further evidence."""
    if REPEATS not in rows or (rows["pair_id"] == rows[REPEATS]).all():
        return rows
    return _merged(experiment, rows, [one for one in (REPEATS, "group", *PLACEBO_COLUMNS) if one in rows])


def _with_lost(rows: pd.DataFrame) -> pd.DataFrame:
    return rows if LOST in rows else rows.assign(**{LOST: rows["score"].isna().astype(float)})


def _merged(experiment: Experiment, rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The first row of each key, with the mean scores of all, the share of them without one and most predictions."""
    scores = [name for name in (*experiment.scores, *experiment.reported, CUT) if name in rows]
    every = _with_lost(rows)
    means = every.groupby(keys, sort=False, dropna=False)[[*scores, LOST]].mean()
    made = every.drop_duplicates(keys).set_index(keys).assign(**{name: means[name] for name in means})
    if "predicted" in rows:
        made["predicted"] = (means["score"] > 0.5).astype(float).where(means["score"].notna())
    return made.reset_index()


def first_pairs(experiment: Experiment, rows: pd.DataFrame) -> pd.Series | None:
    """Of each pair the first one with the same texts for the same groups, by its id; None where all pairs differ.

    Pairs of several subsets, values of the headline's slice, labels or versions are never the same. Those without
    texts are not compared.
    """
    if experiment.measure != "paired_gap" or not (rows["text"].notna() & rows["text"].ne("")).all():
        return None
    sides = rows["side"].where(rows["group"] == PLACEBO, rows["group"]) if "side" in rows else rows["group"]
    answered_by = next((one.column for one in experiment.slices if one.name == experiment.headline_slice), "")
    of_notes = ("label", "version") if experiment.rates else ()
    columns = ("text", "candidates", "wording", "trial", experiment.subset, answered_by, *of_notes)
    content = [one for one in dict.fromkeys(columns) if one in rows]
    if not rows[content].assign(side_of_pair=sides).duplicated().any():
        return None  # the usual case; comparing pairs is slow
    codes = rows.groupby(content, sort=False, dropna=False).ngroup()
    table = pd.DataFrame({"pair_id": rows["pair_id"], "side": sides, "content": codes})
    table = table.drop_duplicates(["pair_id", "side"]).pivot(index="pair_id", columns="side", values="content")
    table = table.loc[rows["pair_id"].unique()].fillna(-1)
    if not table.duplicated().any():
        return None
    same = table.reset_index().groupby(list(table.columns), sort=False)["pair_id"]
    return same.transform("first").set_axis(table.index)


# --- units of comparison ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Units:
    """What a headline is the mean of: one value a pair or prompt, of one sample or a weighted sum of several.

    ``rows`` has a row a unit: ``value``, ``sample`` (from 0), the columns of random factors and of ``aggregate``;
    ``weights`` are those of the samples' means.
    """

    rows: pd.DataFrame
    context: Context
    weights: tuple[float, ...] = (1.0,)

    @property
    def key(self) -> str:
        """The column that identifies a unit: a sentence, a prompt or a pair."""
        experiment = self.context.experiment
        if ANSWERS in experiment.rates:
            return "template"
        return "prompt_id" if experiment.measure == "group_gap" else "pair_id"

    def joined(self, other: "Units") -> pd.DataFrame:
        """The rows of the units that both have, with the other's value as ``value_of_other``."""
        return self.rows.merge(other.rows[[self.key, "value"]], on=self.key, suffixes=("", "_of_other"))

    @cached_property
    def columns(self) -> tuple[Floats, NDArray[np.intp], Factors]:
        """Value and sample of each unit, and its cluster in each random factor."""
        values, samples = self.rows["value"].to_numpy(np.float64), self.rows["sample"].to_numpy(np.intp)
        return values, samples, self.context.random(self.rows)[0]

    def estimate(self, chosen: NDArray[np.bool_] | slice = slice(None), *, level: float = LEVEL) -> Estimate:
        """The estimate of some units by the inference of the design; the interval has coverage 1 - ``level``."""
        values, sides, factors = self.columns
        values, sides, factors = values[chosen], sides[chosen], rows_of(factors, chosen)
        varied = {name: codes for name, codes in factors.items() if len(codes) and np.ptp(codes)}
        shares = None
        if self.context.experiment.aggregate:
            weights = row_shares(self.context.experiment, self.rows[chosen], "value")
            shares = shares_in(weights, np.ones(len(values), dtype=bool), sides)
        found = linear_contrast(values, sides, self.weights, varied or factors, shares=shares, confidence=1 - level)
        return replace(found, independent=0)


def pair_gaps(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """A row a pair, by its id: what its first row says and its ``gap``, NaN where a score of the pair is.

    Raises:
        ValueError: a pair has two rows of one group, or no pair has a row of one.
    """
    if rows.duplicated(["pair_id", "group"]).any() or not context.whole(rows):
        raise ValueError(f"rows of {context.experiment.name} are no pairs: expected one of each group in each pair.")
    codes, ids = pd.factorize(rows["pair_id"], sort=True)
    sides = rows["group"].map({group: place for place, group in enumerate(context.sides)}).to_numpy(np.float64)
    mine = ~np.isnan(sides)
    table = np.full((len(ids), len(context.sides)), math.nan)
    table[codes[mine], sides[mine].astype(np.intp)] = rows[context.score].to_numpy(np.float64)[mine]
    weights = np.array(list(context.sides.values()))
    gaps = table @ weights
    gaps[np.abs(gaps) <= _ROUNDING * (np.abs(table) @ np.abs(weights))] = 0.0  # rounding has no spread
    first = np.unique(codes, return_index=True)[1]
    return rows.iloc[first].set_index("pair_id").assign(gap=gaps).reset_index()


def headline_units(context: Context, rows: pd.DataFrame) -> Units | None:
    """The units of the headline over these rows; None where it is no mean of units, or has no two groups."""
    experiment, sides = context.experiment, context.sides
    if not context.whole(rows):
        return None
    chosen = context.two(rows)
    if ANSWERS in experiment.rates:
        means = sentence_pairs(chosen, experiment.reference_group)
        facts = chosen.drop_duplicates("template").set_index("template").loc[means.index].reset_index()
        values = sum(weight * means[group] for group, weight in sides.items())
        return _scored_units(facts.assign(value=np.asarray(values), sample=0), context)
    if experiment.measure == "group_gap":
        places = {group: place for place, group in enumerate(sides)}
        made = chosen.assign(value=chosen[context.score], sample=chosen["group"].map(places))
        return _scored_units(made, context, tuple(sides.values()))
    return paired_units(context, pair_gaps(context, chosen)) if experiment.measure == "paired_gap" else None


def _scored_units(made: pd.DataFrame, context: Context, weights: tuple[float, ...] = (1.0,)) -> Units:
    return Units(made[made["value"].notna()].reset_index(drop=True), context, weights)


def paired_units(context: Context, pairs: pd.DataFrame) -> Units:
    """The units of a headline over these pairs, as ``pair_gaps`` has them."""
    contrast, subset = context.experiment.contrast, context.experiment.subset
    made = pairs.assign(value=pairs["gap"], sample=0)
    if not contrast or not set(contrast) <= set(pairs[subset].unique()):
        return _scored_units(made, context)
    made = made[made[subset].isin(contrast)]
    return _scored_units(made.assign(sample=(made[subset] == contrast[1]).astype(int)), context, _SIDES)


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


def effect_name(effect: Effect) -> str:
    """The ``contrast`` of the finding of an effect."""
    return f"{effect.term}: {effect.name}"


def _effect_weights(experiment: Experiment, rows: pd.DataFrame, contrast: str) -> dict[str, float]:
    """The weight of each group in an effect of crossed factors, by its ``contrast``; none where it is not there."""
    named = crossed(experiment, rows)
    if not len(named):
        return {}
    levels = {factor: named[factor].tolist() for factor in named}
    cells = dict(zip(named.index, named.itertuples(index=False, name=None), strict=True))
    for one in crossed_effects(levels, named.loc[experiment.reference_group].to_dict()):
        if effect_name(one) == contrast:
            return {group: one.weights[cell] for group, cell in cells.items()}
    return {}


def headline_rows(
    finding: Finding, study: Study, rows: pd.DataFrame, model: str, seed: int = 0
) -> tuple[Context, pd.DataFrame]:
    """The context of a headline and the scored rows of its experiment that it is made of, placebo ones among them."""
    experiment = next(one for one in study.experiments if one.name == finding.experiment)
    looks, rows = looks_of(rows), over_prompts(experiment, rows)
    pair, weights = (finding.group, finding.reference_group), dict[str, float]()
    if finding.measure in EFFECTS:
        weights = _effect_weights(experiment, rows[rows["group"] != PLACEBO], finding.contrast)
    else:
        experiment = next((one for one in experiment.gaps if (one.group, one.reference_group) == pair), experiment)
    if finding.measure != "gap_difference":  # one set of conditions was audited, or there is no contrast
        experiment = replace(experiment, contrast=None)
        rows = rows[rows[experiment.subset] == finding.subset] if finding.subset else rows
    if finding.slice_by != "all":
        column = next(one.column for one in experiment.slices if one.name == finding.slice_by)
        rows = rows[rows[column] == finding.slice_value]
    context = Context(
        study.name, model, experiment, "score", seed, weights, looks, finding.subset, finding.slice_by,
        finding.slice_value,
    )  # fmt: skip
    return context, distinct(experiment, rows)


# --- how a headline holds up --------------------------------------------------------------------------


def with_sensitivity(finding: Finding, study: Study, rows: pd.DataFrame, model: str, seed: int) -> Iterator[Finding]:
    """A headline with its sensitivity and findings about paraphrases and non-answers; any other as it is."""
    if not finding.headline or not MEASURES[finding.measure].reach:
        yield finding
        return
    context, rows = headline_rows(finding, study, rows, model, seed)
    answered = rows[rows["group"] != PLACEBO]
    constant = finding.verdict == UNMEASURED
    others = [
        *(() if constant else _over_paraphrases(context, rows, finding)),
        *_nonanswer_gaps(context, answered, finding),
    ]
    same_sign = next((one.estimate.value for one in others if one.measure == "sign_kept"), math.nan)
    units = None if constant else headline_units(context, answered)
    if units is not None:
        finding = _without_items(context, answered, finding, units)
    yield replace(_with_bounds(context, answered, finding), signs_kept=same_sign)
    yield from others


def _without_items(context: Context, rows: pd.DataFrame, headline: Finding, units: Units) -> Finding:
    """The headline with its range over leaving out one item at a time, and the items that its verdict hinges on."""
    whole = units.estimate(level=headline.level)
    parts = [] if math.isnan(whole.error) else list(_without_each(context, rows, headline, units, whole))
    if not parts:
        return headline
    changed = [
        (abs(part.value - whole.value), [change, name, item])
        for name, item, part in parts
        if (change := _change(whole, part))
    ]
    most = [one for _, one in sorted(changed, reverse=True)[:_NAMED]]
    if len(changed) > _NAMED:
        most.append(["more", "", str(len(changed) - _NAMED)])
    values = [one.value for _, _, one in parts]
    hinges = json.dumps(most, ensure_ascii=False) if changed else ""
    return replace(headline, lowest=min(values), highest=max(values), hinges_on=hinges)


def _change(whole: Estimate, part: Estimate) -> str:
    """What changes in a part (see ``Finding.influences``); blank for nothing."""
    if whole.value * part.value < 0:
        return "sign"
    before, after = (one.ci_low > 0 or one.ci_high < 0 for one in (whole, part))
    return "" if before == after else "lost" if before else "gained"


def _without_each(
    context: Context, rows: pd.DataFrame, headline: Finding, units: Units, whole: Estimate
) -> Iterator[tuple[str, str, Estimate]]:
    """Factor, level and the estimate without it, of each random factor; likewise of each word at the mask."""
    for column, name in units.context.experiment.random.items():
        if column not in units.rows or units.rows[column].nunique() < 3 or column == "subject_id":
            continue  # patients are never named
        codes, items = pd.factorize(units.rows[column])
        for code, item in enumerate(items):
            yield name, str(item), units.estimate(codes != code, level=headline.level)
    for word, change in _word_changes(rows, context.score):
        value = whole.value + float(np.nansum(units_weights(context, rows) * change))
        # Its spread is taken to be that of the whole: one word of a list changes it little.
        low, high = (end + value - whole.value for end in (whole.ci_low, whole.ci_high))
        yield "word", word, replace(whole, value=value, ci_low=low, ci_high=high)


def units_weights(context: Context, rows: pd.DataFrame) -> Floats:
    """The weight of each row's score in the headline: the sum of weights times scores is its value; 0 where NaN."""
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


def _word_changes(rows: pd.DataFrame, score: str) -> Iterator[tuple[str, Floats]]:
    """Each labelled word at the mask, and how every score changes with it taken off its list.

    None where scores are not made of the probabilities of one lexicon's labels, or of more words than rows have.
    """
    if score != "score" or not {"candidates", "top_tokens"} <= set(rows) or not len(rows):
        return
    names = rows["candidates"].str.rpartition("/")
    if names[0].nunique() != 1 or not names[0].iloc[0]:
        return
    lexicon = load_lexicon(str(names[0].iloc[0]))
    tokens = [(place, *one) for place, cell in enumerate(rows["top_tokens"]) for one in json.loads(cell)]
    words = list(dict.fromkeys(word for _, word, _ in tokens))
    share = set(names[2]) == {"negative"}  # of the words that are rated, else the mass of a label
    for uncased in (False, True):
        label_of = dict(zip(words, lexicon.labels(words, uncased=uncased), strict=True))
        labels = dict.fromkeys([*_RATED, *names[2], *label_of.values()])
        places = {label: place for place, label in enumerate(labels)}
        masses, by_word = np.zeros((len(rows), len(places))), dict[str, Floats]()
        for place, word, p in tokens:
            if label_of[word] != lexicon.rest:
                masses[place, places[label_of[word]]] += p
                by_word.setdefault(word, np.zeros(len(rows)))[place] += p  # with a space before it and without
        wanted = names[2].map(places).to_numpy()
        scores = _scores_of(masses, wanted, share=share)
        if np.nanmax(np.abs(scores - rows["score"].to_numpy(dtype=np.float64)), initial=0) < _NEAR:
            for word, mass in by_word.items():
                changed = masses.copy()
                changed[:, places[label_of[word]]] -= mass
                yield word, np.where(mass > 0, _scores_of(changed, wanted, share=share) - scores, 0.0)
            return


def _scores_of(masses: Floats, wanted: NDArray[np.intp], *, share: bool) -> Floats:
    """Of each row the mass of its label; or the negative share of what is rated, NaN where nothing is."""
    if not share:
        return np.asarray(masses[np.arange(len(masses)), wanted])
    rated = masses[:, 0] + masses[:, 1] + masses[:, 2]
    return np.asarray(np.divide(masses[:, 1], rated, out=np.full(len(masses), math.nan), where=rated > _ROUNDING))


def _over_paraphrases(context: Context, rows: pd.DataFrame, headline: Finding) -> Iterator[Finding]:
    """The headline's gap over its wordings, tested against their variation, and the share of them with its sign."""
    again = rows[rows["group"] == PLACEBO]
    if not len(again):
        return
    bases = set(again["pair_id"].str.rpartition("/w")[0])
    original = rows[(rows["group"] != PLACEBO) & rows["pair_id"].isin(bases)].assign(wording=ORIGINAL)
    parts = {}
    for wording, part in pd.concat([original, again.assign(group=again["side"])]).groupby("wording", sort=True):
        units = headline_units(context, part)
        if units is not None and len(units.rows):
            parts[str(wording)] = units
    gaps = {wording: units.estimate().value for wording, units in parts.items()}
    others = [gap for wording, gap in gaps.items() if wording != ORIGINAL and not math.isnan(gap)]
    if len(others) < 2:
        return
    random = {**context.experiment.random, "wording": "wordings"}
    wider = replace(context, experiment=replace(context.experiment, random=random))
    together = pd.concat([units.rows.assign(wording=name) for name, units in parts.items()], ignore_index=True)
    estimate = Units(together, wider, next(iter(parts.values())).weights).estimate()
    fields = {name: getattr(headline, name) for name in ("group", "reference_group", "contrast")}
    over = wider.random(together)[1]
    yield context.finding(estimate, "gap_beyond_wording", cluster_vars=over, unit=headline.unit, **fields)
    if headline.estimate.value:  # else there is no sign
        share = Estimate(
            float(np.mean([gap * headline.estimate.value > 0 for gap in others])), n=len(others), test="none"
        )
        yield context.finding(share, "sign_kept", unit="share of wordings", **fields)


# --- missing scores -----------------------------------------------------------------------------------


def _with_bounds(context: Context, rows: pd.DataFrame, headline: Finding) -> Finding:
    """The headline with its lowest and highest value, whatever the scores are that are missing.

    Unchanged where none is missing or all are, or where scores have no least and most.
    """
    span, two = SPANS.get(headline.unit, math.nan), context.two(rows)
    lost = _lost(two, context.score)
    if not lost.any() or not math.isfinite(span) or two[context.score].isna().all():
        return headline
    ends, known = [], two[context.score].fillna(0).to_numpy(dtype=np.float64)
    gains = (two["group"].map(context.sides) > 0).to_numpy()
    if context.experiment.contrast:
        gains = gains == (two[context.experiment.subset] == context.experiment.contrast[0]).to_numpy()
    for high in (False, True):
        filled = (1 - lost) * known + lost * np.where(gains == high, span, 0.0)
        units = headline_units(context, two.assign(**{context.score: filled}))
        ends.append(units.estimate().value if units else math.nan)
    return replace(headline, worst_low=ends[0], worst_high=ends[1])


def bounded_mean(context: Context, rows: pd.DataFrame, mean: Finding) -> Finding:
    """A mean with its lowest and highest value, as ``_with_bounds``."""
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


def _nonanswer_gaps(context: Context, rows: pd.DataFrame, headline: Finding) -> Iterator[Finding]:
    """How much more often one group's prompts get no answer, or a truncated one; nothing where no prompt does."""
    two = context.two(rows)
    if not context.whole(rows) or two[context.score].isna().all():
        return
    shares = {"nonanswer_gap": _lost(two, context.score, unsure=True)}
    if CUT in two and context.experiment.kind == "chat":
        shares["truncation_gap"] = np.asarray(two[CUT].fillna(0), dtype=np.float64)
    plain = replace(context.experiment, contrast=None, rates=())
    named = replace(context, subset="" if context.experiment.contrast else context.subset)
    for measure, lost in shares.items():
        part = two.assign(**{LOST: lost})
        if "trial" in part:  # trials of one prompt are no further prompts
            keys = ["template", "condition", "group"]
            means = part.groupby(keys, sort=False)[LOST].transform("mean")
            pairs = part["template"] + "/" + part["condition"]
            part = part.assign(**{LOST: means, "pair_id": pairs}).drop_duplicates(keys)
        units = headline_units(replace(context, score=LOST, experiment=plain), part) if lost.any() else None
        if units is not None and len(units.rows):
            yield named.finding(
                units.estimate(), measure, headline.contrast, cluster_vars=context.random(units.rows)[1],
                group=headline.group, reference_group=headline.reference_group, unit="share of prompts",
            )  # fmt: skip
