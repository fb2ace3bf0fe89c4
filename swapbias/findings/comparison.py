"""Two or more models side by side: differences between them, and whether two kinds of score agree."""

import math
from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.finding import AS_PUBLISHED, Context, Finding, told_over
from swapbias.findings.predictions import ANSWERS, over_trials
from swapbias.findings.robustness import condition_means, pair_gaps
from swapbias.studies import PLACEBO, Experiment, Slice, Study, load_study

_ALL = Slice("", "all")


def compare(studies: Mapping[str, Mapping[str, pd.DataFrame]]) -> list[Finding]:
    """Differences between every two models in what each study measures, and correlations of their scores.

    Paired studies: the disparity (gap of a pair) of one model minus the other's, paired by prompt over the random
    factors of the design, and by independent t-test with equal variance as published. Studies of conditions: the
    score of each condition, likewise. Two experiments of which the study declares an ``Agreement``: the correlation
    of their scores over conditions, and within each group.

    Args:
        studies: scored rows by study and model.

    Returns:
        Nothing where the models have no experiment in common.
    """
    found: list[Finding] = []
    for name, models in studies.items():
        study = load_study(name)
        for experiment in study.experiments:
            rows = {model: part[part["experiment"] == experiment.name] for model, part in models.items()}
            rows = {model: part for model, part in rows.items() if len(part)}
            for one, other in combinations(rows, 2):
                for each in experiment.gaps:
                    gap = f"{each.group} - {each.reference_group}" if experiment.groups else ""
                    found += _differences(name, each, (one, other), rows, gap=gap)
        found += _agreement(study, models)
    return found


def units(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """What is compared: a row per pair with its gap, or per condition with its mean; column ``unit_value``."""
    rows = rows[rows["group"] != PLACEBO]
    if ANSWERS in experiment.rates:  # trials of one prompt are no further prompts
        rows = over_trials(rows)
    if experiment.measure == "paired_gap":
        return pair_gaps(Context("", "", experiment, "score"), rows).rename(
            columns={"pair_id": "unit", "gap": "unit_value"}
        )
    named = rows[rows["group"].isin([experiment.group, experiment.reference_group])]
    means = condition_means(experiment, named)
    return means.assign(unit_value=means["score"], unit=means["group"] + "/" + means["condition"])


def _differences(
    study: str,
    experiment: Experiment,
    models: tuple[str, str],
    rows: Mapping[str, pd.DataFrame],
    *,
    gap: str = "",
) -> Iterator[Finding]:
    """Of two groups; ``gap`` says which in the subset, where an experiment has more."""
    first, second = (units(experiment, rows[model]) for model in models)
    context = Context(study, " - ".join(models), experiment, "score")
    split = experiment.subset or ("group" if experiment.aggregate else "")
    for subset, part in [("", first)] if not split else first.groupby(split, sort=False):
        for one in (_ALL, *experiment.slices):
            if one.column and (one.column not in part or one.column not in second):
                continue
            for value, sliced in [("", part)] if not one.column else part.groupby(one.column, sort=False):
                other = second[second["unit"].isin(set(sliced["unit"]))]
                for inference, estimate in _tests(context, models, sliced, other):
                    yield Finding(
                        study=study,
                        experiment=experiment.name,
                        model_id=" - ".join(models),
                        measure="model_difference",
                        contrast=f"{models[0]} - {models[1]}",
                        subset=", ".join(filter(None, (str(subset), gap))),
                        slice_by=one.name,
                        slice_value=str(value),
                        unit=experiment.unit,
                        direction=f"above zero {models[0]} is higher: {experiment.direction}",
                        inference=inference,
                        estimate=estimate,
                    )


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
