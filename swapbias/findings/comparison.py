"""Two or more models side by side: differences between them, and whether two kinds of score agree."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.disaggregation import corrected, judged
from swapbias.findings.finding import AS_PUBLISHED, DIFFERENCE, EFFECTS, Context, Finding, looks_of, told_over
from swapbias.findings.groups import Crossing, crossed_findings, crossing
from swapbias.findings.predictions import ANSWERS, over_trials, readable
from swapbias.findings.robustness import Units, condition_means, headline_units, pair_gaps
from swapbias.studies import PLACEBO, Experiment, Slice, Study, load_study

MOST_DETAILED = 5  # pairs of models whose differences are told by slice, by subset and as published as well
_ALL = Slice("", "all")
_LONG = ("text", "candidates", "top_tokens", "answer", "prompt_id")  # columns that take time and are not compared
Pair = tuple[str, str]


def compare(
    studies: Mapping[str, Mapping[str, pd.DataFrame]], *, reference: str = "", every_pair: bool = False
) -> list[Finding]:
    """Differences between models in what each study measures, and correlations of their scores.

    Paired studies: the disparity (gap of a pair) of one model minus the other's, paired by prompt over the random
    factors of the design, and by independent t-test with equal variance as published. Studies of conditions: the
    score of each condition, likewise. What answers an experiment's question is a headline: its differences over all
    studies and models are corrected together, by Holm, and have a verdict. Two experiments of which the study
    declares an ``Agreement``: the correlation of their scores over conditions, and within each group.

    Args:
        studies: scored rows by study and model.
        reference: the model whose value every other's is subtracted from, by default the first of each study; of a
            study that it is not in, the first.
        every_pair: the differences between every two models, of which there are many.

    Returns:
        Nothing where the models have no experiment in common; where more than ``MOST_DETAILED`` pairs are compared,
        the headlines' differences alone.
    """
    found: list[Finding] = []
    for name, models in studies.items():
        study = load_study(name)
        mine: list[Finding] = []
        for experiment in study.experiments:
            rows = {model: _where(part, part["experiment"] == experiment.name) for model, part in models.items()}
            rows = _shared_trials({model: part for model, part in rows.items() if len(part)})
            pairs = model_pairs(list(rows), reference=reference, every_pair=every_pair)
            brief = len(pairs) > MOST_DETAILED
            for each in experiment.gaps if pairs and not (brief and _of_effects_alone(experiment)) else ():
                gap = f"{each.group} - {each.reference_group}" if experiment.groups else ""
                first = next(iter(rows.values()))
                needed = not brief or any(_answers(each, one, first) for one in _subsets(each, first))
                made = {model: units(each, part) for model, part in rows.items()} if needed else {}
                answers = {model: _answering(name, each, part) for model, part in rows.items()}
                looks = max(map(looks_of, rows.values()))
                for pair in pairs:
                    told: dict[str, Any] = {"gap": gap, "looks": looks}
                    mine += _differences(name, each, pair, made, brief=brief, **told) if made else ()
                    mine += _of_headline(name, each, pair, answers, **told)
            mine += _of_effects(name, experiment, pairs, rows) if _of_effects_alone(experiment) else ()
        found += corrected(mine, study.correction, {one.name for one in study.experiments})
        found += _agreement(study, models)
    return judged(found)


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


def model_pairs(models: Sequence[str], *, reference: str = "", every_pair: bool = False) -> list[Pair]:
    """Which models are compared: each with the reference, or every two.

    >>> model_pairs(["a", "b", "c"]), model_pairs(["a", "b", "c"], reference="c")
    ([('a', 'b'), ('a', 'c')], [('c', 'a'), ('c', 'b')])
    """
    if every_pair:
        return list(combinations(models, 2))
    first = reference if reference in models else next(iter(models), "")
    return [(first, one) for one in models if one != first]


def units(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """What is compared: a row per pair with its gap, or per condition with its mean; column ``unit_value``."""
    rows = _where(rows, rows["group"] != PLACEBO)
    if ANSWERS in experiment.rates:  # trials of one prompt are no further prompts
        rows = over_trials(readable(rows))
    if experiment.measure == "paired_gap":
        rows = _where(rows, rows["group"].isin([experiment.group, experiment.reference_group]))
        rows = rows.drop(columns=[name for name in _LONG if name in rows])
        context = Context("", "", experiment, "score")
        made = pair_gaps(context, rows).rename(columns={"pair_id": "unit", "gap": "unit_value"})
        kept = {
            "unit",
            "unit_value",
            experiment.subset,
            *experiment.random,
            *(one.column for one in experiment.slices),
        }
        return made[[name for name in made if name in kept]]
    named = rows[rows["group"].isin([experiment.group, experiment.reference_group])]
    means = condition_means(experiment, named)
    return means.assign(unit_value=means["score"], unit=means["group"] + "/" + means["condition"])


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
                for inference, estimate in islice(_tests(context, models, sliced, other), 1 if brief else None):
                    finding = _difference(context, models, str(subset), gap, inference, estimate)
                    headline = answers and one is _ALL and not finding.view
                    yield replace(finding, slice_by=one.name, slice_value=str(value), headline=headline)


def _difference(
    context: Context, models: Pair, subset: str, gap: str, inference: str, estimate: measures.Estimate
) -> Finding:
    experiment = context.experiment
    contrasted = subset and experiment.contrast and subset == " - ".join(experiment.contrast)
    direction = f"the gap is larger for {subset.replace(' - ', ' than for ')}" if contrasted else experiment.direction
    estimate, inference = context.held(estimate, inference)
    return Finding(
        study=context.study,
        experiment=experiment.name,
        model_id=" - ".join(models),
        measure=DIFFERENCE,
        contrast=f"{models[0]} - {models[1]}",
        subset=", ".join(filter(None, (subset, gap))),
        unit=experiment.unit,
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


def _answering(study: str, experiment: Experiment, rows: pd.DataFrame) -> Units | None:
    """The units of a headline that is no gap of pairs alone: of two sets of conditions, or of two groups of them."""
    measure, subset, slice_by = experiment.headline
    if slice_by != "all" or measure not in ("gap_difference", "group_gap"):
        return None
    if measure == "group_gap" and (subset or not experiment.aggregate):  # else rows of two models are no pairs
        return None
    rows = _where(rows, rows["group"] != PLACEBO)
    if measure == "gap_difference" and not set(experiment.contrast or ()) <= set(rows[experiment.subset]):
        return None
    return headline_units(Context(study, "", experiment, "score"), rows)


def _of_headline(
    study: str, experiment: Experiment, models: Pair, answers: Mapping[str, Units | None], *, gap: str, looks: int
) -> Iterator[Finding]:
    """The difference of two models in their headlines: of their units one by one, by the headline's inference."""
    first, second = (answers[model] for model in models)
    if first is None or second is None:
        return
    context = Context(study, " - ".join(models), experiment, "score", looks=looks)
    keys = ["group", "label", *experiment.aggregate[-1:]] if experiment.measure == "group_gap" else ["pair_id"]
    both = first.rows.merge(second.rows[[*keys, "value"]], on=keys, suffixes=("", "_of_other"))
    if not len(both):
        return
    units = Units(both.assign(value=both["value"] - both["value_of_other"]), first.context, first.weights)
    clusters, over = first.context.random(both)
    weights = dict(enumerate(first.weights))
    told = told_over(f"{over}, paired", units.rows["value"], both["sample"], weights, clusters)
    subset = " - ".join(experiment.contrast or ()) if experiment.headline[0] == "gap_difference" else ""
    yield replace(_difference(context, models, subset, gap, told, units.estimate()), headline=True)


def _tests(
    context: Context, models: tuple[str, str], first: pd.DataFrame, second: pd.DataFrame
) -> Iterator[tuple[str, measures.Estimate]]:
    """Paired over the units both models have, by the design; then the independent test of the papers."""
    both = pd.concat([first.assign(model=models[0]), second.assign(model=models[1])])
    shared = set(first["unit"]) & set(second["unit"])
    paired = both[both["unit"].isin(shared)]
    if len(shared):
        clusters, over = context.random(paired)
        estimate = measures.paired_gap(
            paired["unit_value"].to_numpy(), paired["model"].to_numpy(), paired["unit"].to_numpy(),
            reference_group=models[1], cluster_ids=clusters,
        )  # fmt: skip
        weights = {models[0]: 1.0, models[1]: -1.0}
        told = told_over(f"{over}, paired", paired["unit_value"], paired["model"], weights, clusters, paired["unit"])
        yield told, estimate
    if len(second):
        values, names = both["unit_value"].to_numpy(), both["model"].to_numpy()
        yield AS_PUBLISHED, measures.group_gap(values, names, reference_group=models[1], test="t")


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
        if known is None or experiment.aggregate:
            parts = both.groupby(experiment.subset, sort=False) if experiment.subset else [("", both)]
            known = [(str(subset), part.index, crossing(plain, part)) for subset, part in parts]
            if alike:
                shared[models[0]] = known
        for subset, index, found in known:
            if found is None:
                continue
            scores = found.scores if experiment.aggregate else both.loc[index, "score"][found.mine]
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
        tables = [units(experiment, part).set_index("unit") for part in parts if len(part)]
        if not tables:
            return pd.DataFrame()
        means = pd.concat([table["unit_value"] for table in tables]).groupby(level=0).mean()
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
