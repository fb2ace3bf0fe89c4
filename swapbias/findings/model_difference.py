"""Differences between models in what a study measures, and correlations of their scores."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.analysis import experiment_findings
from swapbias.findings.context import Context
from swapbias.findings.decision import with_verdicts
from swapbias.findings.families import corrected_for_rows
from swapbias.findings.finding import Finding, as_unmeasured
from swapbias.findings.marking import unread_swap_reason, with_primary
from swapbias.findings.scored_rows import (
    CHANGE,
    condition_means,
    is_constant,
    one_per_prompt,
    rows_of_two,
)
from swapbias.findings.terms import DIFFERENCE, EFFECTS
from swapbias.measures import MEASURES, Unit
from swapbias.studies import PLACEBO, Experiment, Study, load_study

MOST_DETAILED = (
    5  # pairs of models whose differences are given by slice, by subset and as published as well
)


def compare(
    studies: Mapping[str, Mapping[str, pd.DataFrame]],
    *,
    reference: str = "",
    units_read: Mapping[tuple[str, str, str], Unit] | None = None,
) -> list[Finding]:
    """Differences between models in what each study measures, and correlations of their scores.

    A difference is a model minus the reference, as its contrast says (``MODEL - REFERENCE``): the gap of the
    differences of their scores of each prompt, by the inference of the design;
    of a gap of pairs also the independent t test of the papers. Of studies of conditions likewise each group's mean.
    Of the two experiments of an ``agreement``: the correlation over conditions.

    Args:
        studies: scored rows by study and model.
        reference: the model whose value is subtracted from every other's; the first where a study does not have it.
        units_read: units of scores by study, experiment and model, where they may differ from those declared; models
            whose units have other ranges (a raw score, a probability) are not compared.

    Returns:
        Nothing where the models have no experiment in common; of more pairs than ``MOST_DETAILED`` the primary ones.
    """
    found: list[Finding] = []
    for name, models in studies.items():
        study = load_study(name)
        mine = list[Finding]()
        for experiment, parts in _comparable_models(study, models, units_read or {}):
            trials = [set(part["trial"]) for part in parts.values() if "trial" in part]
            shared = set.intersection(*trials) if trials else set()  # that every model answered
            rows = {
                model: one_per_prompt(
                    experiment, part[part["trial"].isin(shared)] if "trial" in part else part
                )
                for model, part in parts.items()
            }
            first = reference if reference in rows else next(iter(rows), "")
            pairs = [(model, first) for model in rows if model != first]
            constant = {
                model
                for model, part in rows.items()
                if is_constant(experiment, part) or unread_swap_reason(part)
            }
            for pair in pairs:
                context = Context(name, " - ".join(pair), experiment, CHANGE)
                made = _difference_findings(
                    context, rows[pair[0]], rows[pair[1]], brief=len(pairs) > MOST_DETAILED
                )
                mine += [as_unmeasured(one) for one in made] if constant & {*pair} else made
        found += corrected_for_rows(mine, study.correction, {one.name for one in study.experiments})
        found += _correlate_agreement(study, models)
    return with_verdicts(found)


def _comparable_models(
    study: Study,
    models: Mapping[str, pd.DataFrame],
    units_read: Mapping[tuple[str, str, str], Unit],
) -> Iterator[tuple[Experiment, dict[str, pd.DataFrame]]]:
    """Each experiment with the rows of the models that read it, separate for units of another range."""
    experiments = {model: set(part["experiment"].unique()) for model, part in models.items()}
    for one in study.experiments:
        by_range: dict[Any, dict[str, pd.DataFrame]] = {}
        units: dict[Any, Unit] = {}
        for model in (model for model in models if one.name in experiments[model]):
            unit = units_read.get((study.name, one.name, model), one.compares.unit)
            unranged = math.isnan(unit.span)
            key = unit.name if unranged else (unit.low, unit.high)
            same_range = not unranged and (one.compares.unit.low, one.compares.unit.high) == key
            units.setdefault(key, one.compares.unit if same_range else unit)
            rows = models[model]
            chosen = rows["experiment"] == one.name
            # Copies of a hundred models take time.
            by_range.setdefault(key, {})[model] = rows if chosen.all() else rows[chosen]
        yield from ((one.in_unit(units[key]), mine) for key, mine in by_range.items())


def _difference_findings(
    context: Context, first: pd.DataFrame, second: pd.DataFrame, *, brief: bool
) -> list[Finding]:
    """The findings of the differences of two models' scores of each prompt; ``brief``: the primary ones alone."""
    experiment = context.experiment
    both = rows_of_two(first[first["group"] != PLACEBO], second)
    slices = tuple(
        one
        for one in experiment.shows.slices
        if not brief or one.name == experiment.compares.primary.slice
    )
    levels = experiment.shows.levels if experiment.design.aggregate and not brief else ()
    levels = tuple(one for one in levels if one in experiment.compared)
    read = experiment.changed(shows={"slices": slices, "levels": levels, "covariates": ()})
    made = experiment_findings(replace(context, experiment=read), both) if len(both) else ()
    found = []
    for one in with_primary((replace(one, score="score") for one in made), [experiment]):
        gap = MEASURES[one.measure].gap_span and (
            one.slice_by == "all" or one.measure != "gap_difference"
        )
        is_of_pairs = one.measure == experiment.compares.measure and experiment.is_paired
        shown = is_of_pairs if one.view else gap or one.measure == "mean"
        if shown and (one.primary or not brief):
            found.append(
                _as_model_difference(
                    one,
                    several=len(experiment.compares.groups) > 1
                    or one.measure in (*EFFECTS, "mean"),
                )
            )
    return found


def _as_model_difference(finding: Finding, *, several: bool) -> Finding:
    """A finding of differences of scores as the difference of two models."""
    estimate = finding.estimate
    subset = ", ".join(filter(None, (finding.subset, finding.contrast * several)))
    estimate = replace(estimate, effect_size=math.nan)
    if finding.measure == "mean":
        p_value = measures.t_p(estimate.value, estimate.std_error, estimate.df, estimate.skewness)
        estimate = replace(estimate, p_value=p_value, test=estimate.interval)
    same = (
        "study", "experiment", "model_id", "slice_by", "slice_value", "unit", "unit_low", "unit_high", "cluster_vars",
        "fixed", "view", "primary",
    )  # fmt: skip
    fields: dict[str, Any] = {name: getattr(finding, name) for name in same}
    return Finding(
        measure=DIFFERENCE, contrast=finding.model_id, subset=subset, estimate=estimate, **fields
    )


def condition_scores(study: Study, models: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per condition: its group, and a column for each experiment of the agreement: its mean over models.

    Empty where the study declares none, or a kind of model is missing.
    """
    columns = []
    for experiment in (
        one for name in study.agreement for one in study.experiments if one.name == name
    ):
        parts = [part[part["experiment"] == experiment.name] for part in models.values()]
        context = Context(study.name, "", experiment, "score")
        tables = [condition_means(experiment, context.two(part)) for part in parts if len(part)]
        if not tables:
            return pd.DataFrame()
        every = pd.concat(tables)
        means = every["score"].groupby(every["group"] + "/" + every["condition"]).mean()
        columns.append(means.rename(experiment.name))
    joined = pd.concat(columns, axis=1, join="inner") if columns else pd.DataFrame()
    return joined.assign(group=[unit.split("/")[0] for unit in joined.index])


def _correlate_agreement(study: Study, models: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    scores = condition_scores(study, models)
    units = {one.name: one.compares.unit.name for one in study.experiments}
    for subset, part in [("", scores), *scores.groupby("group")] if len(scores) else ():
        first, second = (name for name in scores if name != "group")
        for method in ("pearson", "spearman"):
            x, y = (np.asarray(part[name], dtype=np.float64) for name in (first, second))
            yield Finding(
                study=study.name,
                experiment=f"{first} and {second}",
                model_id=" and ".join(models),
                measure="correlation",
                contrast=f"{units[first]} ~ {units[second]} ({method})",
                subset=str(subset),
                unit="correlation",
                cluster_vars="conditions",
                estimate=measures.correlation(x, y, method=method),
            )
