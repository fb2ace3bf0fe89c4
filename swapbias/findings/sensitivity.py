"""The units that a primary finding is the mean of; it without each item, over paraphrases, with missing scores."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias import measures
from swapbias.errors import listed
from swapbias.findings.decision import FEWEST, decide, nothing_moves, shifted_to
from swapbias.findings.finding import (
    EFFECTS,
    FOUND,
    LEVEL,
    SMALL,
    UNMEASURED,
    UNSTABLE,
    Context,
    Finding,
    unit_fields,
)
from swapbias.measures import MEASURES, ComparedUnits, Estimate, Factors, Floats, Unit
from swapbias.studies import DOUBTFUL, PLACEBO, Experiment, Study

ANSWERS = "answers"  # among an experiment's rates: its prompts have several trials
ORIGINAL = "0"  # the wording that the others paraphrase
LOST = "not_answered"  # the column of shares of prompts, or of their trials, without an answer
# columns of rows of two models: a score less the other model's; that
CHANGE = "change"
OTHER = "score_of_other"
_CUT = "truncated"  # the score column of answers that reached the most tokens
_SCORE_OF = "score of "  # columns of pairs: the score of each group
_TRIAL = r"/t\d+(?=$|/w)"  # what the ids of a prompt with several trials end in, before those of a paraphrase
_CONSTANT = 1e-6  # of the largest score: scores that differ by less are one number in float32
_SAME = 1e-9  # scores of two models closer than this share of them are the same: batches of other sizes add up so
_GAPS = (FOUND, SMALL, UNSTABLE)
_NAMED = 3  # items that change a verdict, at most


def row_shares(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> Floats:
    """Weight of each row in the mean of its group, as in ``condition_means``; 0 without a score."""
    scored = rows[score].notna().to_numpy()
    used = rows[scored]
    shares = np.zeros(len(rows))
    sizes = (
        1
        / used.groupby(["group", *experiment.design.aggregate], sort=False)["group"]
        .transform("size")
        .to_numpy()
    )
    for place, column in enumerate(experiment.design.aggregate):
        within = ["group", *experiment.design.aggregate[place + 1 :]]
        sizes = sizes / used.groupby(within, sort=False)[column].transform("nunique").to_numpy()
    shares[scored] = sizes
    return shares


def condition_means(
    experiment: Experiment, rows: pd.DataFrame, score: str = "score"
) -> pd.DataFrame:
    """One row per unit of comparison: rows themselves, or means over ``aggregate`` columns, the finest first."""
    for start in range(len(experiment.design.aggregate)):
        keys = ["group", "label", *experiment.design.aggregate[start:]]
        rows = rows.groupby(keys, sort=False, as_index=False)[score].mean()
    return rows


def over_prompts(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """One row a prompt with its mean scores over trials; ``LOST`` is the share of its trials without a score.

    Trials of answers that are compared by sentence stay.
    """
    if ANSWERS in experiment.shows.rates or "trial" not in rows:
        return rows
    ids = {
        name: rows[name].str.replace(_TRIAL, "", regex=True) for name in ("prompt_id", "pair_id")
    }
    every = rows.drop(columns="trial").assign(**ids, **{LOST: rows["score"].isna().astype(float)})
    scores = [
        name
        for name in (*experiment.shows.scores, *experiment.shows.reported, _CUT, LOST)
        if name in every
    ]
    means = every.groupby("prompt_id", sort=False)[scores].mean()
    made = (
        every.drop_duplicates("prompt_id")
        .set_index("prompt_id")
        .assign(**{name: means[name] for name in means})
    )
    if "predicted" in rows:
        made["predicted"] = (means["score"] > 0.5).astype(float).where(means["score"].notna())
    return made.reset_index()


def rows_of_two(rows: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The rows of prompts that both models have, with ``OTHER`` and ``CHANGE``."""
    both = rows.merge(other[["prompt_id", "score"]], on="prompt_id", suffixes=("", "_of_other"))
    change = both["score"] - both[OTHER]
    largest = np.maximum(both["score"].abs(), both[OTHER].abs())
    return both.assign(**{CHANGE: change.mask(change.abs() <= _SAME * largest, 0.0)})


def readable(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, without any score where not one answer of a model can be read: unreadable ones are no wrong ones."""
    if "said_other" in rows and (rows["said_other"].dropna() > 0).all():
        return rows.assign(score=math.nan)
    return rows


def scores_right_answers(experiment: Experiment) -> bool:
    """Return whether a score says if an answer is right: then equal scores may be those of a model without error."""
    return ANSWERS in experiment.shows.rates or experiment.compares.unit.is_right_answer


def is_constant(experiment: Experiment, rows: pd.DataFrame) -> bool:
    """Tell whether a model scores every prompt the same; not of right answers, of which all may be right."""
    scores = rows.loc[rows["group"] != PLACEBO, "score"].dropna().to_numpy(dtype=np.float64)
    if not len(scores) or scores_right_answers(experiment):
        return False
    return bool(np.ptp(scores) <= _CONSTANT * np.abs(scores).max())


def over_trials(rows: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """One row per sentence, adjectives and side with its mean score over trials; NaN where no trial was answered."""
    if "trial" not in rows:
        return rows
    keys = ["template", "condition", "group"]
    means = rows.groupby(keys, sort=False)[score].transform("mean")
    pairs = rows["template"] + "/" + rows["condition"]
    return (
        rows.assign(**{score: means, "pair_id": pairs}).drop(columns="trial").drop_duplicates(keys)
    )


def by_sentence(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """Of answers in trials one row per sentence and side, a pair; other rows as they are.

    Its score is the mean over trials first, then over adjectives of which both sides are scored.
    """
    if ANSWERS not in experiment.shows.rates or "trial" not in rows or rows["group"].nunique() != 2:
        return rows
    reference = experiment.compares.reference
    sides = [next(side for side in rows["group"] if side != reference), reference]
    pairs = (
        readable(rows)
        .groupby(["template", "condition", "group"], sort=False)[score]
        .mean()
        .unstack("group")
    )
    means = pairs.dropna().groupby("template").mean()
    first = rows.drop_duplicates("template").drop(columns="trial")
    first = first.assign(pair_id=first["template"])
    made = [
        first.assign(**{"group": side, score: first["template"].map(means[side])}) for side in sides
    ]
    return pd.concat(made, ignore_index=True)


@dataclass(frozen=True, slots=True)
class Units:
    """What a gap is the mean of: one value a pair or prompt, of one sample or a weighted sum of several."""

    rows: pd.DataFrame
    """A row a unit: ``value``, ``sample`` (from 0), columns of random factors and of ``aggregate``."""
    context: Context
    """Of the gap."""
    factors: Factors
    """The cluster of each unit in each random factor."""
    cluster_vars: str
    """Their names."""
    weights: tuple[float, ...] = (1.0,)
    """Of the samples' means."""
    n_unscored: int = 0
    """Units without a value, which are left out."""
    single: str = ""
    """A random factor of which there is one level."""
    fixed: str = ""
    """The levels that the gap is about alone."""

    @classmethod
    def of(
        cls, rows: pd.DataFrame, context: Context, weights: tuple[float, ...] = (1.0,)
    ) -> "Units":
        """The units of rows, those with a value."""
        factors, cluster_vars = context.random(rows)
        known = rows["value"].notna().to_numpy()
        scored = rows[known].reset_index(drop=True)
        of_scored = measures.rows_of(factors, known)
        unscored = int((~known).sum())
        return cls(
            scored,
            context,
            of_scored,
            cluster_vars,
            weights,
            unscored,
            context.single(rows),
            context.fixed(rows),
        )

    @property
    def columns(self) -> tuple[Floats, NDArray[np.intp]]:
        """Value and sample of each unit."""
        return self.rows["value"].to_numpy(np.float64), self.rows["sample"].to_numpy(np.intp)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a finding about the levels of its gap; the plain mean where these weigh alike."""
        plain = math.nan
        is_weighted = self.context.experiment.design.equal_levels and self.shares() is not None
        is_other = is_weighted or not self.context.comparison.is_mean
        if is_other and len(self.weights) == 1 and len(self.rows):
            plain = float(self.columns[0].mean())
        return {"cluster_vars": self.cluster_vars, "fixed": self.fixed, "row_mean": plain}

    def shares(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Floats | None:
        """Return the share of each unit in the mean of its sample; None where all of a sample weigh the same."""
        experiment = self.context.experiment
        sides = self.columns[1][chosen]
        if experiment.design.aggregate:
            weights = row_shares(experiment, self.rows[chosen], "value")
        elif experiment.design.equal_levels:
            weights = level_weights(sides, measures.rows_of(self.factors, chosen))
        else:
            return None
        return measures.shares_in(weights, np.ones(len(sides), dtype=bool), sides)

    def mean_of(self, group: str) -> float:
        """Return the mean score of a group over the units, weighted as the gap is; NaN of units that are no pairs."""
        column = f"{_SCORE_OF}{group}"
        if column not in self.rows:
            return math.nan
        scores = self.rows[column].to_numpy(np.float64)
        if not len(scores):
            return math.nan
        shares = self.shares()
        return float(scores.mean() if shares is None else scores @ shares)

    def estimate(
        self, chosen: NDArray[np.bool_] | slice = slice(None), *, level: float = LEVEL
    ) -> Estimate:
        """The estimate of some units by the inference of the design; the interval has coverage 1 - ``level``.

        Where all levels show one gap, its p-value is that of an exact test of the levels.
        """
        values, sides = self.columns
        values = values[chosen]
        sides = sides[chosen]
        factors = measures.rows_of(self.factors, chosen)
        varied = {name: codes for name, codes in factors.items() if len(codes) and np.ptp(codes)}
        factors = varied or factors
        estimate = self.context.comparison.estimate(
            values,
            sides,
            self.weights,
            factors,
            shares=self.shares(chosen),
            confidence=1 - level,
            n_unscored=self.n_unscored,
        )
        if self.single and len(values):
            return replace(estimate, fewest=1, fewest_of=self.single, independent=1)
        if (
            not self.cluster_vars
        ):  # no factor varies: a slice by the only one, or rows that lack the columns
            return replace(estimate, fewest=0, fewest_of="", independent=0)
        return estimate

    @property
    def why_unmeasured(self) -> str:
        """Why the comparison says nothing of these units; blank where it does."""
        values, sides = self.columns
        return self.context.comparison.why_unmeasured(values, sides) if len(values) else ""

    @property
    def value(self) -> float:
        """The gap alone, also of units of which ``why_unmeasured`` says that they say nothing."""
        values, sides = self.columns
        if not len(values):
            return math.nan
        return self.context.comparison.value(
            values, sides, self.weights, self.factors, self.shares()
        )

    def measured(self) -> Estimate:
        """The estimate of all units with its effect sizes."""
        estimate = self.estimate()
        values, sides = self.columns
        if len(self.weights) > 1:
            samples = [values[sides == side] for side in range(len(self.weights))]
            return replace(estimate, effect_size=_ratio(estimate.value, samples))
        groups = [self.rows[f"{_SCORE_OF}{group}"].to_numpy() for group in self.context.sides]
        z = _ratio(estimate.value, [values])
        return replace(estimate, effect_size=_ratio(estimate.value, groups), effect_size_z=z)

    def distances(self) -> dict[str, float]:
        """Return how far pairs differ whatever the direction: mean, median, and the share of the rarer direction."""
        values, sides = self.columns
        if len(self.weights) > 1 or sides.any() or not len(values):
            return {}
        size = np.abs(values)
        differing = int((size > 0).sum())
        rarer = min(int((values > 0).sum()), int((values < 0).sum()))
        return {
            "mean_absolute": float(size.mean()),
            "median_absolute": float(np.median(size)),
            "minority_sign": rarer / differing if differing else math.nan,
        }


def level_weights(sides: NDArray[np.intp], factors: Factors) -> Floats:
    """Return a weight for each unit with which the levels of the scarcest factor count alike."""
    varied = {name: codes for name, codes in factors.items() if len(codes) and np.ptp(codes)}
    if not varied:
        return np.ones(len(sides))
    return measures.level_shares(sides, measures.scarcest_levels(sides, varied).codes)


def mean_weights(context: Context, rows: pd.DataFrame, score: str) -> Floats | None:
    """Return the weight of each row in the mean of its rows, as in a gap; None where all weigh the same."""
    if context.experiment.design.aggregate:
        return row_shares(context.experiment, rows.assign(group=""), score)
    if not context.experiment.design.equal_levels:
        return None
    scored = rows[score].notna().to_numpy()
    weights = np.zeros(len(rows))
    factors, _ = context.random(rows[scored])
    weights[scored] = level_weights(np.zeros(int(scored.sum()), dtype=np.intp), factors)
    return weights


def _ratio(value: float, samples: Sequence[Floats]) -> float:
    spread = measures.pooled_spread(samples)
    return value / spread if spread > 0 else math.nan


def pair_gaps(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """A row a pair: what its first row says, its ``gap`` (NaN where a score of it is) and each group's score."""
    _refuse_without_pairs(context, rows)
    units = measures.units_of_pairs(*_columns_of_units(context, context.two(rows)), context.sides)
    return (
        context.two(rows)
        .iloc[units.rows]
        .assign(gap=units.values, **_scores_by_group(context, units))
    )


def _columns_of_units(
    context: Context, rows: pd.DataFrame
) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Scores of rows of the compared groups, the place of each row's group, and the number of its pair."""
    places = {group: place for place, group in enumerate(context.sides)}
    groups = rows["group"].map(places).to_numpy(np.intp)
    return rows[context.score].to_numpy(np.float64), groups, pd.factorize(pair_ids(rows))[0]


def pair_ids(rows: pd.DataFrame) -> NDArray[Any]:
    """The pair of each row; rows without the column, as means over prompts, are of no pair."""
    return rows["pair_id"].to_numpy() if "pair_id" in rows else np.arange(len(rows))


def _scores_by_group(context: Context, units: ComparedUnits) -> dict[str, Floats]:
    """The columns that hold the score of each group of a pair; none of units that are no pairs."""
    if units.scores is None:
        return {}
    return {
        f"{_SCORE_OF}{group}": units.scores[:, place] for place, group in enumerate(context.sides)
    }


def gap_units(context: Context, rows: pd.DataFrame) -> Units | None:
    """The units of the gap, or of the difference of two gaps, over these rows; None where it has no two groups."""
    experiment = context.experiment
    comparison = context.experiment.comparison
    if comparison is None or not context.whole(rows):
        return None
    chosen = by_sentence(experiment, context.two(rows), context.score)
    if comparison.is_paired:
        _refuse_without_pairs(context, chosen)
    units = comparison.units(*_columns_of_units(context, chosen), context.sides)
    made = chosen.iloc[units.rows].assign(
        value=units.values, sample=units.samples, **_scores_by_group(context, units)
    )
    weights = units.weights
    contrast = experiment.compares.contrast
    subset = experiment.compares.subset
    if comparison.is_paired and contrast and set(contrast) <= set(made[subset].unique()):
        weights = (1.0, -1.0)
        made = made[made[subset].isin(contrast)]
        made = made.assign(sample=(made[subset] == contrast[1]).astype(int))
    return Units.of(made, context, weights)


def _refuse_without_pairs(context: Context, rows: pd.DataFrame) -> None:
    if rows.duplicated(["pair_id", "group"]).any() or not context.whole(rows):
        raise ValueError(
            f"rows of {context.experiment.name} are no pairs: expected one of each group in each pair."
        )


def crossed(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """The level of each group in each of the experiment's factors; no rows where not every combination is there.

    Raises:
        ValueError: the rows lack a factor's column, or a group has two levels of a factor.
    """
    chosen = rows[rows["group"].isin(experiment.compared)]
    factors = list(experiment.compares.factors)
    if lacking := [name for name in factors if name not in rows]:
        raise ValueError(
            f"the rows of {experiment.name} have no column {listed(map(repr, lacking))}, expected the level of "
            "each group in every factor. Add the columns to its configs, or leave them out of factors."
        )
    named = chosen[["group", *factors]].astype(str).drop_duplicates()
    if twice := named.loc[named["group"].duplicated(), "group"].tolist():
        raise ValueError(
            f"the group {twice[0]!r} of {experiment.name} has several levels of {listed(factors)}, expected one "
            "of each. Name groups by their levels."
        )
    table = named.set_index("group")
    levels = table.nunique()
    whole = experiment.compares.reference in table.index and levels.min() > 1
    complete = whole and len(table.drop_duplicates()) == len(table) == levels.prod()
    return table if complete else table.iloc[:0]


def _effect_weights(experiment: Experiment, rows: pd.DataFrame, contrast: str) -> dict[str, float]:
    """The weight of each group in an effect of crossed factors, by its ``contrast``; none where it is not there."""
    named = crossed(experiment, rows)
    if not len(named):
        return {}
    cells = dict(zip(named.index, named.itertuples(index=False, name=None), strict=True))
    effects = measures.crossed_effects(
        {factor: named[factor].tolist() for factor in named},
        named.loc[experiment.compares.reference].to_dict(),
    )
    mine = next((one for one in effects if one.title == contrast), None)
    return {group: mine.weights[cell] for group, cell in cells.items()} if mine else {}


def primary_rows(
    finding: Finding, study: Study, rows: pd.DataFrame, model: str
) -> tuple[Context, pd.DataFrame]:
    """The context of a primary finding and the scored rows that it is made of, placebo ones among them."""
    experiment = next(one for one in study.experiments if one.name == finding.experiment)
    rows = over_prompts(experiment, rows)
    pair = (finding.group, finding.reference_group)
    weights = dict[str, float]()
    if finding.measure in EFFECTS:
        weights = _effect_weights(experiment, rows[rows["group"] != PLACEBO], finding.contrast)
    else:
        experiment = next(
            (
                one
                for one in experiment.gaps
                if (one.compares.group, one.compares.reference) == pair
            ),
            experiment,
        )
    if (
        finding.measure != "gap_difference"
    ):  # one set of conditions was audited, or there is no contrast
        experiment = experiment.changed(compares={"contrast": None})
        rows = rows[rows[experiment.compares.subset] == finding.subset] if finding.subset else rows
    if finding.slice_by != "all":
        column = next(one.column for one in experiment.shows.slices if one.name == finding.slice_by)
        rows = rows[rows[column] == finding.slice_value]
    context = Context(
        study.name,
        model,
        experiment,
        "score",
        0,
        weights,
        finding.subset,
        finding.slice_by,
        finding.slice_value,
    )
    return context, rows


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
    if _CUT in two and context.experiment.kind == "chat":
        shares["truncation_gap"] = np.asarray(two[_CUT].fillna(0), dtype=np.float64)
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
