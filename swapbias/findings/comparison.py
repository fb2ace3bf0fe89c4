"""Two or more models side by side: differences between them, and whether two kinds of score agree."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.analysis import corrected, factor_findings, is_constant, of_effects_alone
from swapbias.findings.finding import AS_PUBLISHED, DIFFERENCE, EFFECTS, Context, Finding, looks_of, unmeasured
from swapbias.findings.gate import judged
from swapbias.findings.predictions import ANSWERS, over_trials, readable
from swapbias.findings.sensitivity import (
    REPEATS,
    Units,
    condition_means,
    first_pairs,
    headline_units,
    pair_gaps,
    paired_units,
)
from swapbias.measures import SPANS, Estimate
from swapbias.studies import PLACEBO, Experiment, Slice, Study, load_study

MOST_DETAILED = 5  # pairs of models whose differences are given by slice, by subset and as published as well
_ALL = Slice("", "all")
Pair = tuple[str, str]


def compare(
    studies: Mapping[str, Mapping[str, pd.DataFrame]],
    *,
    reference: str = "",
    every_pair: bool = False,
    units_read: Mapping[tuple[str, str, str], str] | None = None,
) -> list[Finding]:
    """Differences between models in what each study measures, and correlations of their scores.

    Paired studies: the gap of a pair of one model minus the other's, over the random factors of the design, and by
    independent t-test as published. Studies of conditions: likewise the score of each condition. What answers an
    experiment's question is a headline. Two experiments of an ``Agreement``: the correlation over conditions.

    Args:
        studies: scored rows by study and model.
        reference: the model whose value every other's is subtracted from; the first where a study does not have it.
        every_pair: the differences between every two models.
        units_read: units of scores by study, experiment and model, where they may differ from those declared; models
            whose units have other ranges (a raw score, a probability) are not compared.

    Returns:
        Nothing where the models have no experiment in common; of more pairs than ``MOST_DETAILED`` the headlines.
    """
    found: list[Finding] = []
    for name, models in studies.items():
        study = load_study(name)
        mine: list[Finding] = []
        for experiment, parts in _alike(study, models, units_read or {}):
            rows = _shared_prompts(
                experiment, {model: experiment_rows(part, experiment.name) for model, part in parts.items()}
            )
            pairs = model_pairs(list(rows), reference=reference, every_pair=every_pair)
            constant = {model for model, part in rows.items() if is_constant(experiment, part)}
            lost = {" - ".join(pair) for pair in pairs if constant & {*pair}}
            mine += [
                unmeasured(one) if one.model_id in lost else one
                for one in _of_experiment(name, experiment, rows, pairs)
            ]
        found += corrected(mine, study.correction, {one.name for one in study.experiments})
        found += _agreement(study, models)
    return judged(found)


def model_pairs(models: Sequence[str], *, reference: str = "", every_pair: bool = False) -> list[Pair]:
    """Which models are compared: each with the reference, or every two.

    >>> model_pairs(["a", "b", "c"]), model_pairs(["a", "b", "c"], reference="c")
    ([('a', 'b'), ('a', 'c')], [('c', 'a'), ('c', 'b')])
    """
    if every_pair:
        return list(combinations(models, 2))
    first = reference if reference in models else next(iter(models), "")
    return [(first, one) for one in models if one != first]


# --- the rows of each model ---------------------------------------------------------------------------


def experiment_rows(rows: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """The rows of an experiment; all as they are where there is no other: copies of a hundred models take time."""
    return _where(rows, rows["experiment"] == experiment)


def _where(rows: pd.DataFrame, chosen: pd.Series) -> pd.DataFrame:
    return rows if chosen.all() else rows[chosen]


def _swapped(rows: pd.DataFrame) -> pd.DataFrame:
    return _where(rows, rows["group"] != PLACEBO)


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


def _shared_prompts(experiment: Experiment, rows: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The rows of the trials that all models have, and of each pair the first one with the same texts.

    One model's rows with texts are enough.
    """
    made = dict(rows)
    trials = [set(part["trial"]) for part in rows.values() if "trial" in part]
    if any(one != trials[0] for one in trials):
        shared, looks = set.intersection(*trials), str(max(map(looks_of, rows.values())))
        for model, part in rows.items():
            if "trial" in part:
                made[model] = part[part["trial"].isin(shared)].assign(looks=looks)
    with_texts = next((part for part in made.values() if "text" in part), None)
    first = None if with_texts is None else first_pairs(experiment, with_texts)
    for model, part in made.items() if first is not None else ():
        made[model] = part.assign(**{REPEATS: part["pair_id"].map(first).fillna(part["pair_id"])})
    return made


def units(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """What is compared: a row per pair with its gap, or per prompt with its score; column ``unit_value``."""
    context, rows = Context("", "", experiment, "score"), _swapped(rows)
    if ANSWERS in experiment.rates:  # trials of one prompt are no further prompts
        rows = over_trials(readable(rows))
    if experiment.measure != "paired_gap":
        named = context.two(rows)
        return named.assign(unit_value=named["score"], unit=named["prompt_id"])
    return (
        _pairs(context, rows)
        .rename(columns={"pair_id": "unit", "gap": "unit_value"})
        .drop(columns=["group", "score"])
    )


def _pairs(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """``pair_gaps`` with the columns compared here; of pairs with the same texts one, with their mean gap."""
    experiment = context.experiment
    columns = {"pair_id", "group", "score", REPEATS, experiment.subset, *experiment.random}
    columns |= {one.column for one in experiment.slices}
    pairs = pair_gaps(context, context.two(rows)[[name for name in rows if name in columns]])
    if REPEATS not in pairs:
        return pairs
    means = pairs.groupby(REPEATS, sort=False)["gap"].mean()
    return pairs.drop_duplicates(REPEATS).set_index(REPEATS).assign(gap=means).reset_index(drop=True)


# --- differences --------------------------------------------------------------------------------------


def _of_experiment(
    study: str, experiment: Experiment, rows: Mapping[str, pd.DataFrame], pairs: Sequence[Pair]
) -> Iterator[Finding]:
    """The differences of each two models in one experiment; of many pairs in the headlines alone."""
    brief, effects = len(pairs) > MOST_DETAILED, of_effects_alone(experiment)
    looks = max(map(looks_of, rows.values()), default=1)
    for each in experiment.gaps if pairs and not (brief and effects) else ():
        gap = f"{each.group} - {each.reference_group}" if experiment.groups else ""
        first = next(iter(rows.values()))
        subsets = [str(one) for one in first[each.subset].unique()] if each.subset else [""]
        made: dict[str, pd.DataFrame] = {}
        if not brief or any(_answers(each, one, first) for one in subsets):
            made = {model: units(each, part) for model, part in rows.items()}
        answers = {model: _headline_units(each, part) for model, part in rows.items()}
        for one, other in pairs:
            context = Context(study, f"{one} - {other}", each, "score", looks=looks)
            if made:
                yield from _differences(context, (one, other), made[one], made[other], gap=gap, brief=brief)
            yield from _of_headline(context, answers[one], answers[other], gap)
    for one, other in pairs if effects else ():
        looks = max(map(looks_of, (rows[one], rows[other])))
        context = Context(study, f"{one} - {other}", experiment, "score", looks=looks)
        yield from _of_effects(context, _swapped(rows[one]), _swapped(rows[other]))


def _difference(context: Context, estimate: Estimate, cluster_vars: str, gap: str, **more: Any) -> Finding:
    """A difference of two models; ``gap`` says of which groups, where an experiment has more than two."""
    return context.finding(
        estimate, DIFFERENCE, context.model_id, cluster_vars=cluster_vars,
        subset=", ".join(filter(None, (context.subset, gap))), **{"unit": context.experiment.unit, **more},
    )  # fmt: skip


def _differences(
    context: Context, models: Pair, first: pd.DataFrame, second: pd.DataFrame, *, gap: str = "", brief: bool = False
) -> Iterator[Finding]:
    """Of two groups by subset and slice; ``brief``: headlines alone."""
    experiment = context.experiment
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
                here = replace(context, subset=str(subset), slice_by=one.name, slice_value=str(value))
                for over, view, estimate in islice(_tests(here, models, sliced, other), 1 if brief else None):
                    answered = answers and one is _ALL and not view
                    yield _difference(here, estimate, over, gap, view=view, headline=answered)


def _answers(experiment: Experiment, subset: str, rows: pd.DataFrame) -> bool:
    """Whether the gap of a subset answers the question: it is the headline, or the only one there is."""
    measure, headline_subset, slice_by = experiment.headline
    if experiment.aggregate or of_effects_alone(experiment) or slice_by != "all":
        return False
    if (experiment.headline_measure or experiment.measure) != experiment.measure:
        return False
    alone = bool(experiment.subset) and rows[experiment.subset].nunique() == 1
    return alone or (measure, headline_subset) == (experiment.measure, subset)


def _tests(
    context: Context, models: Pair, first: pd.DataFrame, second: pd.DataFrame
) -> Iterator[tuple[str, str, Estimate]]:
    """The random factors, the view and the estimate: paired by unit, by the design; then the papers' own test."""
    experiment = context.experiment
    if experiment.aggregate:
        both = first.merge(second[["unit", "unit_value"]], on="unit", suffixes=("", "_of_other"))
        gaps = both.assign(value=both["unit_value"] - both["unit_value_of_other"], sample=0)
        gaps = gaps[gaps["value"].notna()].reset_index(drop=True)
        if len(gaps):
            yield context.random(gaps)[1], "", Units(gaps, context).estimate()
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
        columns = [name for name in experiment.random if name in first and name in second]
        clusters, over = context.random(pd.concat([first[columns], second[columns]])[shared])
        estimate = measures.paired_gap(
            values[shared], names[shared], unit[shared], reference_group=models[1], cluster_ids=clusters
        )
        yield over, "", estimate
    if len(second):
        yield "", AS_PUBLISHED, measures.group_gap(values, names, reference_group=models[1], test="t")


def _headline_units(experiment: Experiment, rows: pd.DataFrame) -> Units | None:
    """The units of a headline that is no gap of pairs alone: of two sets of conditions, or of two groups of them."""
    measure, subset, slice_by = experiment.headline
    context, rows = Context("", "", experiment, "score"), _swapped(rows)
    if slice_by != "all":
        return None
    if measure == "group_gap":  # without an aggregate the rows of two models are no pairs
        return headline_units(context, rows) if experiment.aggregate and not subset else None
    if measure != "gap_difference" or not set(experiment.contrast or ()) <= set(rows[experiment.subset].unique()):
        return None
    return paired_units(context, _pairs(context, rows)) if context.whole(rows) else None


def _of_headline(context: Context, first: Units | None, second: Units | None, gap: str) -> Iterator[Finding]:
    """The difference of two models in their headlines: of their units one by one, by the headline's inference."""
    if first is None or second is None:
        return
    both = first.joined(second)
    if not len(both):
        return
    made = replace(first, rows=both.assign(value=both["value"] - both["value_of_other"]))
    if context.experiment.headline[0] == "gap_difference":
        context = replace(context, subset=" - ".join(context.experiment.contrast or ()))
    yield _difference(context, made.estimate(), first.context.random(both)[1], gap, headline=True)


def _of_effects(context: Context, first: pd.DataFrame, second: pd.DataFrame) -> Iterator[Finding]:
    """The differences of two models in the effects of crossed factors: the effects on their scores' difference."""
    both = first.merge(second[["prompt_id", "score"]], on="prompt_id", suffixes=("", "_of_other"))
    both = both.assign(score=both["score"] - both["score_of_other"])
    subset = context.experiment.subset
    for name, part in both.groupby(subset, sort=False) if subset else [("", both)]:
        here = replace(context, subset=str(name))
        for one in factor_findings(replace(context, looks=1), part):
            if one.measure in EFFECTS:
                yield _difference(here, one.estimate, one.cluster_vars, one.contrast, unit=one.unit, headline=True)


# --- agreement of two kinds of score ------------------------------------------------------------------


def condition_scores(study: Study, models: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per condition: its group, and a column for each experiment of the agreement: its mean over models.

    Empty where the study declares none, or a kind of model is missing.
    """
    columns = []
    for experiment in _agreeing(study):
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


def _agreeing(study: Study) -> list[Experiment]:
    """The two experiments of a study's agreement; none where it declares none."""
    names = (study.agreement.first, study.agreement.second) if study.agreement else ()
    return [one for name in names for one in study.experiments if one.name == name]


def _agreement(study: Study, models: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    scores = condition_scores(study, models)
    if not len(scores):
        return
    first, second = _agreeing(study)
    for subset, part in [("", scores), *scores.groupby("group")]:
        for method in ("pearson", "spearman"):
            x, y = (np.asarray(part[one.name], dtype=np.float64) for one in (first, second))
            estimate = measures.correlation(x, y, method=method)
            if not math.isnan(estimate.value) or estimate.n:
                yield Finding(
                    study=study.name, experiment=f"{first.name} and {second.name}", model_id=" and ".join(models),
                    measure="correlation", contrast=f"{first.unit} ~ {second.unit} ({method})", subset=str(subset),
                    unit="correlation", cluster_vars="conditions", estimate=estimate,
                )  # fmt: skip
