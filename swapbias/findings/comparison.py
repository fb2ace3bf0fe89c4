"""Two or more models side by side: differences between them, and whether two kinds of score agree."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.disaggregation import corrected, is_constant, judged
from swapbias.findings.finding import (
    AS_PUBLISHED,
    DIFFERENCE,
    EFFECTS,
    UNMEASURED,
    Context,
    Finding,
    further_toward,
    looks_of,
)
from swapbias.findings.groups import Crossing, crossed_findings, crossing
from swapbias.findings.predictions import ANSWERS, over_trials, readable
from swapbias.findings.robustness import (
    REPEATS,
    Pairing,
    Units,
    condition_means,
    first_pairs,
    headline_units,
    pair_gaps,
    paired_units,
    pairing,
)
from swapbias.measures import SPANS
from swapbias.studies import PLACEBO, Experiment, Slice, Study, load_study

MOST_DETAILED = 5  # pairs of models whose differences are told by slice, by subset and as published as well
_ALL = Slice("", "all")
_LONG = ("text", "candidates", "top_tokens", "answer", "prompt_id")  # columns that take time and are not compared
Pair = tuple[str, str]


def compare(
    studies: Mapping[str, Mapping[str, pd.DataFrame]],
    *,
    reference: str = "",
    every_pair: bool = False,
    units_read: Mapping[tuple[str, str, str], str] | None = None,
) -> list[Finding]:
    """Differences between models in what each study measures, and correlations of their scores.

    Paired studies: the disparity (gap of a pair) of one model minus the other's, paired by prompt over the random
    factors of the design, and by independent t-test with equal variance as published. Studies of conditions: the
    score of each condition, likewise. What answers an experiment's question is a headline: its differences over all
    models of a study hold at once and have a verdict. Two experiments of which the study
    declares an ``Agreement``: the correlation of their scores over conditions, and within each group.

    Args:
        studies: scored rows by study and model.
        reference: the model whose value every other's is subtracted from, by default the first of each study; of a
            study that it is not in, the first.
        every_pair: the differences between every two models, of which there are many.
        units_read: the units of scores by study, experiment and model, where they may differ from those that studies
            declare; models whose units have other ranges (a raw score, a probability) are not compared.

    Returns:
        Nothing where the models have no experiment in common; where more than ``MOST_DETAILED`` pairs are compared,
        the headlines' differences alone.
    """
    found: list[Finding] = []
    for name, models in studies.items():
        study = load_study(name)
        mine: list[Finding] = []
        for experiment, mine_of in _alike(study, models, units_read or {}):
            asked_of = {model: rows_asked(part, experiment.name) for model, part in mine_of.items()}
            rows = _with_repeats(experiment, _shared_trials(asked_of))
            pairs = model_pairs(list(rows), reference=reference, every_pair=every_pair)
            brief = len(pairs) > MOST_DETAILED
            for each in experiment.gaps if pairs and not (brief and _of_effects_alone(experiment)) else ():
                gap = f"{each.group} - {each.reference_group}" if experiment.groups else ""
                first = next(iter(rows.values()))
                needed = not brief or any(_answers(each, one, first) for one in _subsets(each, first))
                pairs_of = _pairs_of(each, rows)
                made = (
                    {model: units(each, part, pairs_of.get(model)) for model, part in rows.items()} if needed else {}
                )
                answers = {model: _answering(name, each, part, pairs_of.get(model)) for model, part in rows.items()}
                looks = max(map(looks_of, rows.values()))
                for pair in pairs:
                    told: dict[str, Any] = {"gap": gap, "looks": looks}
                    mine += _differences(name, each, pair, made, brief=brief, **told) if made else ()
                    mine += _of_headline(name, each, pair, answers, **told)
            mine += _of_effects(name, experiment, pairs, rows) if _of_effects_alone(experiment) else ()
            constant = {model for model, part in rows.items() if is_constant(experiment, part)}
            lost = {" - ".join(pair) for pair in pairs if constant & {*pair}}
            mine = [
                replace(one, verdict=UNMEASURED)
                if one.experiment == experiment.name and one.model_id in lost
                else one
                for one in mine
            ]
        found += corrected(mine, study.correction, {one.name for one in study.experiments})
        found += _agreement(study, models)
    return judged(found)


def _alike(
    study: Study, models: Mapping[str, pd.DataFrame], units_read: Mapping[tuple[str, str, str], str]
) -> Iterator[tuple[Experiment, dict[str, pd.DataFrame]]]:
    """Each experiment with the models that read it, separate for units of another range."""
    experiments = {model: set(part["experiment"].unique()) for model, part in models.items()}
    for one in study.experiments:
        by_unit: dict[str, dict[str, pd.DataFrame]] = {}
        for model in (model for model in models if one.name in experiments[model]):
            unit = units_read.get((study.name, one.name, model), one.unit)
            ranged = SPANS.get(unit, math.nan) == SPANS.get(one.unit, math.nan)
            by_unit.setdefault(one.unit if ranged else unit, {})[model] = models[model]
        yield from ((replace(one, unit=unit), mine) for unit, mine in by_unit.items())


def rows_asked(rows: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """The rows of an experiment; all as they are where there is no other: copies of a hundred models take time."""
    names = rows["experiment"].unique().tolist()
    return rows if names == [experiment] else rows[rows["experiment"] == experiment]


def _where(rows: pd.DataFrame, wanted: pd.Series) -> pd.DataFrame:
    """The rows that are wanted; all of them as they are, for of a hundred models copies take time and room."""
    return rows if wanted.all() else rows[wanted]


def _shared_trials(rows: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The rows of the trials that every model was asked in: one may have been asked fewer, by what it answered."""
    trials = [set(part["trial"]) for part in rows.values() if "trial" in part]
    if len(trials) < 2 or all(one == trials[0] for one in trials):
        return dict(rows)
    shared, looks = set.intersection(*trials), max(map(looks_of, rows.values()))
    return {
        model: part[part["trial"].isin(shared)].assign(looks=str(looks)) if "trial" in part else part
        for model, part in rows.items()
    }


def _with_repeats(experiment: Experiment, rows: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The rows of each model with the pair that first asks the same as theirs; one model has the texts."""
    with_texts = next((part for part in rows.values() if "text" in part), None)
    first = None if with_texts is None else first_pairs(experiment, with_texts)
    if first is None:
        return dict(rows)
    pairs_of = {model: part["pair_id"] for model, part in rows.items()}
    return {
        model: part.assign(**{REPEATS: pairs_of[model].map(first).fillna(pairs_of[model])})
        for model, part in rows.items()
    }


def _distinct(pairs: pd.DataFrame) -> pd.DataFrame:
    """Of pairs with the same texts one, with the mean of their gaps."""
    if REPEATS not in pairs:
        return pairs
    means = pairs.groupby(REPEATS, sort=False)["gap"].mean()
    return pairs.drop_duplicates(REPEATS).set_index(REPEATS).assign(gap=means).reset_index(drop=True)


def model_pairs(models: Sequence[str], *, reference: str = "", every_pair: bool = False) -> list[Pair]:
    """Which models are compared: each with the reference, or every two.

    >>> model_pairs(["a", "b", "c"]), model_pairs(["a", "b", "c"], reference="c")
    ([('a', 'b'), ('a', 'c')], [('c', 'a'), ('c', 'b')])
    """
    if every_pair:
        return list(combinations(models, 2))
    first = reference if reference in models else next(iter(models), "")
    return [(first, one) for one in models if one != first]


def _pairs_of(experiment: Experiment, rows: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """``pair_gaps`` of each model that has both groups; of those that read the same prompts pairs are found once.

    Nothing of experiments that compare other units.
    """
    if experiment.measure != "paired_gap" or ANSWERS in experiment.rates:
        return {}
    found: dict[str, pd.DataFrame] = {}
    first: pd.DataFrame | None = None
    known: Pairing | None = None
    for model, part in rows.items():
        if first is None or known is None or not _asked_alike(experiment, first, part):
            first, known = part, _pairing(experiment, part)
        if known is not None:
            gaps = known.gaps(part["score"].to_numpy(dtype=np.float64))
            found[model] = _distinct(known.facts.assign(gap=gaps).reset_index())
    return found


def _told(experiment: Experiment, rows: pd.DataFrame) -> list[str]:
    """The columns that say what a row is of, besides the prompt: pair, group and what pairs are told apart by."""
    used = {REPEATS, experiment.subset, *experiment.random, *(one.column for one in experiment.slices)}
    return ["pair_id", "group", *(name for name in rows if name in used - {"pair_id", "group"})]


def _asked_alike(experiment: Experiment, first: pd.DataFrame, rows: pd.DataFrame) -> bool:
    names = _told(experiment, first)
    return (
        len(first) == len(rows)
        and names == _told(experiment, rows)
        and all(first[name].array.equals(rows[name].array) for name in names)
    )


def _pairing(experiment: Experiment, rows: pd.DataFrame) -> Pairing | None:
    """The pairs of an experiment's two groups, by their places in all the rows; None where one has no row."""
    groups = [experiment.group, experiment.reference_group]
    mine = rows["group"].isin(groups) & (rows["group"] != PLACEBO)
    chosen = rows.loc[mine, _told(experiment, rows)]
    if chosen["group"].nunique() < len(groups):
        return None
    made = pairing(Context("", "", experiment, "score"), chosen)
    places = np.append(np.flatnonzero(mine), -1)[made.places]
    return replace(made, facts=made.facts.drop(columns="group"), places=places)


def units(experiment: Experiment, rows: pd.DataFrame, pairs: pd.DataFrame | None = None) -> pd.DataFrame:
    """What is compared: a row per pair with its gap, or per prompt with its score; column ``unit_value``.

    ``pairs`` are those of the rows, where they are known, as ``pair_gaps`` has them.
    """
    if pairs is not None:
        return _units_of_pairs(experiment, pairs)
    rows = _where(rows, rows["group"] != PLACEBO)
    if ANSWERS in experiment.rates:  # trials of one prompt are no further prompts
        rows = over_trials(readable(rows))
    if experiment.measure == "paired_gap":
        rows = _where(rows, rows["group"].isin([experiment.group, experiment.reference_group]))
        rows = rows.drop(columns=[name for name in _LONG if name in rows])
        return _units_of_pairs(experiment, pair_gaps(Context("", "", experiment, "score"), rows))
    named = rows[rows["group"].isin([experiment.group, experiment.reference_group])]
    return named.assign(unit_value=named["score"], unit=named["prompt_id"])


def _units_of_pairs(experiment: Experiment, pairs: pd.DataFrame) -> pd.DataFrame:
    made = pairs.rename(columns={"pair_id": "unit", "gap": "unit_value"})
    slices = (one.column for one in experiment.slices)
    kept = {"unit", "unit_value", experiment.subset, *experiment.random, *slices}
    return made[[name for name in made if name in kept]]


def _differences(
    study: str,
    experiment: Experiment,
    models: Pair,
    made: Mapping[str, pd.DataFrame],
    *,
    gap: str = "",
    brief: bool = False,
    looks: int = 1,
) -> Iterator[Finding]:
    """Of two groups; ``gap`` says which in the subset, where an experiment has more; ``brief``: headlines alone."""
    first, second = (made[model] for model in models)
    context = Context(study, " - ".join(models), experiment, "score", looks=looks)
    split = experiment.subset or ("group" if experiment.aggregate else "")
    for subset, part in [("", first)] if not split else first.groupby(split, sort=False):
        answers = _answers(experiment, str(subset), first)
        if brief and not answers:
            continue
        for one in (_ALL, *(() if brief else experiment.slices)):
            if one.column and (one.column not in part or one.column not in second):
                continue
            for value, sliced in [("", part)] if not one.column else part.groupby(one.column, sort=False):
                other = second if one is _ALL and not split else second[second["unit"].isin(set(sliced["unit"]))]
                for inference, view, estimate in islice(_tests(context, models, sliced, other), 1 if brief else None):
                    finding = _difference(context, models, str(subset), gap, inference, estimate)
                    headline = answers and one is _ALL and not view
                    yield replace(finding, view=view, slice_by=one.name, slice_value=str(value), headline=headline)


def _difference(
    context: Context, models: Pair, subset: str, gap: str, inference: str, estimate: measures.Estimate
) -> Finding:
    experiment = context.experiment
    direction = experiment.direction
    if experiment.contrast and subset == " - ".join(experiment.contrast):
        direction = further_toward(experiment.group, experiment.reference_group, *experiment.contrast)
    estimate, inference = context.held(estimate, inference)
    return Finding(
        study=context.study,
        experiment=experiment.name,
        model_id=" - ".join(models),
        measure=DIFFERENCE,
        contrast=f"{models[0]} - {models[1]}",
        subset=", ".join(filter(None, (subset, gap))),
        unit=experiment.unit,
        looks=context.looks,
        direction=f"above zero {models[0]} is higher: {direction}",
        inference=inference,
        estimate=estimate,
    )


def _subsets(experiment: Experiment, rows: pd.DataFrame) -> Sequence[str]:
    return [str(one) for one in rows[experiment.subset].unique()] if experiment.subset else [""]


def _answers(experiment: Experiment, subset: str, rows: pd.DataFrame) -> bool:
    """Whether the gap of a subset answers the question: it is the headline, or the only one there is."""
    if experiment.aggregate or _of_effects_alone(experiment):
        return False
    if experiment.headline[2] != "all" or (experiment.headline_measure or experiment.measure) != experiment.measure:
        return False
    if experiment.subset and rows[experiment.subset].nunique() == 1:
        return True
    return experiment.headline == (experiment.measure, subset, "all")


def _answering(
    study: str, experiment: Experiment, rows: pd.DataFrame, pairs: pd.DataFrame | None = None
) -> Units | None:
    """The units of a headline that is no gap of pairs alone: of two sets of conditions, or of two groups of them.

    ``pairs`` as in ``units``.
    """
    measure, subset, slice_by = experiment.headline
    if slice_by != "all" or measure not in ("gap_difference", "group_gap"):
        return None
    if measure == "group_gap" and (subset or not experiment.aggregate):  # else rows of two models are no pairs
        return None
    context, rows = Context(study, "", experiment, "score"), _where(rows, rows["group"] != PLACEBO)
    if measure == "gap_difference" and not set(experiment.contrast or ()) <= set(rows[experiment.subset].unique()):
        return None
    return headline_units(context, rows) if pairs is None else paired_units(context, pairs)


def _of_headline(
    study: str, experiment: Experiment, models: Pair, answers: Mapping[str, Units | None], *, gap: str, looks: int
) -> Iterator[Finding]:
    """The difference of two models in their headlines: of their units one by one, by the headline's inference."""
    first, second = (answers[model] for model in models)
    if first is None or second is None:
        return
    context = Context(study, " - ".join(models), experiment, "score", looks=looks)
    keys = ["prompt_id"] if experiment.measure == "group_gap" else ["pair_id"]
    both = _joined(first.rows, second.rows, keys)
    if not len(both):
        return
    units = Units(both.assign(value=both["value"] - both["value_of_other"]), first.context, first.weights)
    told = f"{first.context.random(both)[1]}, paired"
    subset = " - ".join(experiment.contrast or ()) if experiment.headline[0] == "gap_difference" else ""
    yield replace(_difference(context, models, subset, gap, told, units.estimate()), headline=True)


def _joined(first: pd.DataFrame, second: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The units of one model that another has too, by their keys, with the other's ``value_of_other``."""
    alike = len(first) == len(second) and all(first[name].array.equals(second[name].array) for name in keys)
    if alike and not first.duplicated(keys).any():
        return first.assign(value_of_other=second["value"].to_numpy())
    return first.merge(second[[*keys, "value"]], on=keys, suffixes=("", "_of_other"))


def _tests(
    context: Context, models: tuple[str, str], first: pd.DataFrame, second: pd.DataFrame
) -> Iterator[tuple[str, str, measures.Estimate]]:
    """What inference is over, the view and the estimate: paired by unit, by the design; then the papers' own test."""
    experiment = context.experiment
    if experiment.aggregate:
        both = first.merge(second[["unit", "unit_value"]], on="unit", suffixes=("", "_of_other"))
        gaps = both.assign(value=both["unit_value"] - both["unit_value_of_other"], sample=0)
        gaps = gaps[gaps["value"].notna()].reset_index(drop=True)
        if len(gaps):
            yield f"{context.random(gaps)[1]}, paired", "", Units(gaps, context).estimate()
        first, second = (
            condition_means(experiment, one, "unit_value").assign(unit=lambda made: made["condition"])
            for one in (first, second)
        )
    values = np.concatenate([one["unit_value"].to_numpy(dtype=np.float64) for one in (first, second)])
    side = np.repeat([0, 1], [len(first), len(second)])
    names = np.array(models)[side]
    # Units by number: their names are long, and a hundred models have them all.
    unit = pd.factorize(pd.concat([first["unit"], second["unit"]]))[0]
    shared = np.isin(unit, np.intersect1d(unit[side == 0], unit[side == 1]))
    if shared.any() and not experiment.aggregate:
        told = [name for name in experiment.random if name in first and name in second]
        facts = pd.concat([first[told], second[told]])
        clusters, over = context.random(facts if shared.all() else facts[shared])
        mine, units_of = values[shared], unit[shared]
        estimate = measures.paired_gap(mine, names[shared], units_of, reference_group=models[1], cluster_ids=clusters)
        yield f"{over}, paired", "", estimate
    if len(second):
        yield AS_PUBLISHED, AS_PUBLISHED, measures.group_gap(values, names, reference_group=models[1], test="t")


def _of_effects_alone(experiment: Experiment) -> bool:
    """Whether the effects of crossed factors answer its question, and no gap does."""
    return bool(experiment.factors) and not experiment.contrast


def _of_effects(
    study: str, experiment: Experiment, pairs: Sequence[Pair], rows: Mapping[str, pd.DataFrame]
) -> Iterator[Finding]:
    """The differences of two models in the effects of crossed factors: the effects on their scores' difference.

    What two models share that read the very same prompts is found once for all pairs with the same first model.
    """
    shared: dict[str, list[tuple[str, pd.Index, Crossing | None]]] = {}
    for models in pairs:
        first, second = (_where(part, part["group"] != PLACEBO) for part in (rows[model] for model in models))
        plain = Context(study, " - ".join(models), experiment, "score")
        context = replace(plain, looks=max(map(looks_of, (first, second))))
        if alike := _same_prompts(first, second):
            both = first.assign(score=first["score"].to_numpy() - second["score"].to_numpy())
        else:
            both = first.merge(second[["prompt_id", "score"]], on="prompt_id", suffixes=("", "_of_other"))
            both = both.assign(score=both["score"] - both["score_of_other"])
        known = shared.get(models[0]) if alike else None
        if known is None:
            parts = both.groupby(experiment.subset, sort=False) if experiment.subset else [("", both)]
            known = [(str(subset), part.index, crossing(plain, part)) for subset, part in parts]
            if alike:
                shared[models[0]] = known
        for subset, index, found in known:
            if found is None:
                continue
            scores = both.loc[index, "score"][found.mine]
            for one in crossed_findings(plain, found, scores, "", {"slice_by": "all", "slice_value": ""}):
                if one.measure in EFFECTS:
                    told = f"{one.inference}, paired"
                    made = _difference(context, models, subset, one.contrast, told, one.estimate)
                    direction = f"above zero {models[0]} is higher: {one.direction}"
                    yield replace(made, unit=one.unit, direction=direction, headline=True)


def _same_prompts(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Whether two models read the same prompts in the same order, each once."""
    ids = first["prompt_id"].array
    alike = len(first) == len(second) and first.index.is_unique and ids.equals(second["prompt_id"].array)
    return bool(alike) and first["prompt_id"].is_unique


def condition_scores(study: Study, models: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per condition: its group, and a column for each experiment of the agreement: its mean over models.

    Empty where the study declares none, or a kind of model is missing.
    """
    columns = []
    for experiment in agreeing(study):
        parts = [part[part["experiment"] == experiment.name] for part in models.values()]
        tables = [condition_means(experiment, units(experiment, part)) for part in parts if len(part)]
        if not tables:
            return pd.DataFrame()
        every = pd.concat(tables)
        means = every["score"].groupby(every["group"] + "/" + every["condition"]).mean()
        columns.append(means.rename(experiment.name))
    if not columns:
        return pd.DataFrame()
    joined = pd.concat(columns, axis=1, join="inner")
    return joined.assign(group=[unit.split("/")[0] for unit in joined.index])


def agreeing(study: Study) -> list[Experiment]:
    """The two experiments of a study's agreement; none where it declares none."""
    names = (study.agreement.first, study.agreement.second) if study.agreement else ()
    return [one for name in names for one in study.experiments if one.name == name]


def _agreement(study: Study, models: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    scores = condition_scores(study, models)
    if not len(scores) or study.agreement is None:
        return
    first, second = agreeing(study)
    parts: list[tuple[str, pd.DataFrame]] = [("", scores), *scores.groupby("group")]
    for subset, part in parts:
        for method in ("pearson", "spearman"):
            x, y = (np.asarray(part[one.name], dtype=np.float64) for one in (first, second))
            estimate = measures.correlation(x, y, method=method)
            if math.isnan(estimate.value) and not estimate.n:
                continue
            yield Finding(
                study=study.name,
                experiment=f"{first.name} and {second.name}",
                model_id=" and ".join(models),
                measure="correlation",
                contrast=f"{first.unit} ~ {second.unit} ({method})",
                subset=str(subset),
                unit="correlation",
                direction=study.agreement.direction,
                estimate=estimate,
            )
