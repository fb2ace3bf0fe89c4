"""Differences between models in what a study measures, and correlations of their scores."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.analysis import experiment_findings
from swapbias.findings.context import Context
from swapbias.findings.decision import with_verdicts
from swapbias.findings.families import corrected_for_rows
from swapbias.findings.finding import Finding, as_unmeasured
from swapbias.findings.marking import unread_swap_reason, with_primary
from swapbias.findings.question_findings import question_findings
from swapbias.findings.scored_rows import (
    ANSWERS,
    CHANGE,
    OTHER,
    ScoresOfTwo,
    condition_means,
    have_same_values,
    is_constant,
    one_per_prompt,
    rows_of_two,
    scores_of_two,
)
from swapbias.findings.terms import DIFFERENCE, EFFECTS
from swapbias.measures import MEASURES, Unit, intervals
from swapbias.studies import PLACEBO, Experiment, Study, load_study

MOST_DETAILED = 5
"""Pairs of models whose differences are given by slice, by subset and as published as well."""
# Fields that the difference of two models takes from the finding of the differences of their scores.
_SAME_FIELDS = (
    "study", "experiment", "model_id", "slice_by", "slice_value", "unit", "unit_low", "unit_high", "cluster_vars",
    "fixed", "view", "primary",
)  # fmt: skip


def compare(
    studies: Mapping[str, Mapping[str, pd.DataFrame]],
    *,
    reference: str = "",
    units_read: Mapping[tuple[str, str, str], Unit] | None = None,
) -> list[Finding]:
    """Find differences between models in what each study measures, and correlations of their scores.

    A difference is a model minus the reference, as its contrast says (``MODEL - REFERENCE``): the gap of the
    differences of their scores of each prompt, by the inference of the design;
    of a gap of pairs also the independent t test of the papers, and Cohen's d.
    Of studies of conditions likewise each group's mean.
    Of the two experiments of an ``agreement``: the correlation over conditions.

    Args:
        studies: scored rows by study and model.
        reference: the model whose value is subtracted from every other's; the first where a study does not have it.
        units_read: units of scores by study, experiment and model, where they may differ from those declared; models
            whose units have other ranges (a raw score, a probability) are not compared.

    Returns:
        Nothing where the models have no experiment in common; of more pairs than ``MOST_DETAILED`` the primary ones.
    """
    findings: list[Finding] = []
    for name, models in studies.items():
        study = load_study(name)
        differences: list[Finding] = []
        for experiment, rows_by_model in _comparable_models(study, models, units_read or {}):
            differences += _compare_models(study, experiment, rows_by_model, reference)
        experiments = {experiment.name for experiment in study.experiments}
        findings += corrected_for_rows(differences, study.correction, experiments)
        findings += _correlate_agreement(study, models)
    return with_verdicts(findings)


def _compare_models(
    study: Study,
    experiment: Experiment,
    rows_by_model: Mapping[str, pd.DataFrame],
    reference: str,
) -> list[Finding]:
    """Find the differences of every model to the reference in one experiment."""
    rows_by_model = _shared_prompts(experiment, rows_by_model)
    first = reference if reference in rows_by_model else next(iter(rows_by_model))
    others = [model for model in rows_by_model if model != first]
    constant = {
        model
        for model, rows in rows_by_model.items()
        if is_constant(experiment, rows) or unread_swap_reason(rows)
    }
    find = _detailed_differences if len(others) <= MOST_DETAILED else _primary_differences
    measured = {model: _without_placebo(rows) for model, rows in rows_by_model.items()}
    compared = {f"{model} - {first}": measured[model] for model in others}
    findings: list[Finding] = []
    for model, differences in zip(
        others, find(study.name, experiment, compared, measured[first]), strict=True
    ):
        if model in constant or first in constant:
            differences = [as_unmeasured(finding) for finding in differences]
        findings += differences
    return findings


def _shared_prompts(
    experiment: Experiment, rows_by_model: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Return a row a prompt of each model, over the trials that every model answered."""
    trials = [set(rows["trial"]) for rows in rows_by_model.values() if "trial" in rows]
    shared = set.intersection(*trials) if trials else set()
    prompts = {}
    for model, rows in rows_by_model.items():
        if "trial" in rows:
            rows = rows[rows["trial"].isin(shared)]
        prompts[model] = one_per_prompt(experiment, rows)
    return prompts


def _comparable_models(
    study: Study,
    models: Mapping[str, pd.DataFrame],
    units_read: Mapping[tuple[str, str, str], Unit],
) -> Iterator[tuple[Experiment, dict[str, pd.DataFrame]]]:
    """Yield each experiment with the rows of the models that read it, separate for units of another range."""
    experiments = {model: set(rows["experiment"].unique()) for model, rows in models.items()}
    for experiment in study.experiments:
        declared = experiment.compares.unit
        by_range: dict[Any, dict[str, pd.DataFrame]] = {}
        units: dict[Any, Unit] = {}
        for model, rows in models.items():
            if experiment.name not in experiments[model]:
                continue
            unit = units_read.get((study.name, experiment.name, model), declared)
            key: Any = (unit.low, unit.high)
            if math.isnan(unit.span):
                key = unit.name
            elif key == (declared.low, declared.high):
                unit = declared
            units.setdefault(key, unit)
            if len(experiments[model]) > 1:  # copies of a hundred models take time
                rows = rows[rows["experiment"] == experiment.name]
            by_range.setdefault(key, {})[model] = rows
        for key, rows_by_model in by_range.items():
            yield experiment.in_unit(units[key]), rows_by_model


def _detailed_differences(
    study: str,
    experiment: Experiment,
    rows_by_models: Mapping[str, pd.DataFrame],
    reference: pd.DataFrame,
) -> Iterator[list[Finding]]:
    """Yield the findings of the differences of each model's scores of each prompt and the reference's.

    Models are named with the reference.
    """
    compared = _for_differences(experiment, brief=False)
    for models, rows in rows_by_models.items():
        both = rows_of_two(rows, reference)
        findings: list[Finding] = []
        if len(both):
            context = Context(study, models, compared, CHANGE)
            findings = _as_differences(experiment, experiment_findings(context, both))
        yield findings


def _primary_differences(
    study: str,
    experiment: Experiment,
    rows_by_models: Mapping[str, pd.DataFrame],
    reference: pd.DataFrame,
) -> Iterator[list[Finding]]:
    """Yield the primary findings alone; of models that share their rows what does not depend on scores once."""
    compared = _for_differences(experiment, brief=True)
    differences: dict[str, list[Finding]] = {}
    for rows, columns_by_models in _rows_alike(compared, rows_by_models, reference):
        contexts = [
            Context(study, models, compared, columns.change)
            for models, columns in columns_by_models.items()
        ]
        tested = {
            columns.change: (columns.score, columns.subtracted)
            for columns in columns_by_models.values()
        }
        if not _has_effect_size(experiment):
            tested = {}
        for context, findings in zip(
            contexts, question_findings(contexts, rows, tested), strict=True
        ):
            differences[context.model_id] = _as_differences(experiment, findings)
    for models in rows_by_models:
        yield [finding for finding in differences.get(models, ()) if finding.primary]


class _Columns(NamedTuple):
    """Names of the score columns of two models in a table of many."""

    change: str
    """The score of the first less that of the second."""
    score: str
    """The score of the first."""
    subtracted: str
    """The score of the second."""


def _rows_alike(
    experiment: Experiment,
    rows_by_models: Mapping[str, pd.DataFrame],
    reference: pd.DataFrame,
) -> Iterator[tuple[pd.DataFrame, dict[str, _Columns]]]:
    """Yield rows that models share, with the score columns of all of them."""
    tables: list[_SharedRows] = []
    for models, rows in rows_by_models.items():
        both, scores = scores_of_two(rows, reference)
        if not len(both):
            continue
        columns_read = _columns_read(experiment, list(both))
        alike = (table for table in tables if table.has_rows(both, columns_read))
        table = next(alike, None)
        if table is None:
            table = _SharedRows(both, columns_read, {})
            tables.append(table)
        table.scores[models] = scores
    for shared, columns_read, scores_by_models in tables:
        columns: dict[str, _Columns] = {}
        values: dict[str, Any] = {}
        for models, scores in scores_by_models.items():
            numbered = (f"{name} {len(columns)}" for name in (CHANGE, "score", OTHER))
            columns[models] = _Columns(*numbered)
            values |= zip(columns[models], (scores.change, *scores), strict=True)
        plain = shared[columns_read].reset_index(drop=True)
        yield pd.concat([plain, pd.DataFrame(values)], axis=1), columns


class _SharedRows(NamedTuple):
    """Rows that models share, with their scores."""

    rows: pd.DataFrame
    """Scored rows of the first of them."""
    columns_read: list[str]
    """The columns that they have alike."""
    scores: dict[str, ScoresOfTwo]
    """The scores of the rows by the names of two models."""

    def has_rows(self, rows: pd.DataFrame, columns_read: Sequence[str]) -> bool:
        """Tell whether other rows are these, whatever their indexes and scores."""
        return self.columns_read == columns_read and all(
            have_same_values(self.rows[name], rows[name]) for name in columns_read
        )


def _columns_read(experiment: Experiment, columns: Sequence[str]) -> list[str]:
    """Return the columns of scored rows that the findings of a question read, besides scores."""
    if ANSWERS in experiment.shows.rates:  # means over sentences read what was answered
        return [name for name in columns if name not in ("score", OTHER, CHANGE)]
    compares = experiment.compares
    design = experiment.design
    read = {
        "group", "pair_id", "label", compares.subset, *compares.factors, *compares.slopes, *design.random,
        *design.fixed, *design.aggregate, *(part.column for part in experiment.shows.slices),
    }  # fmt: skip
    return [name for name in columns if name in read]


def _as_differences(experiment: Experiment, all_findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of differences of scores that are shown as differences of two models."""
    findings = [replace(finding, score="score") for finding in all_findings]
    differences = []
    effect_sizes = _effect_sizes(experiment, findings)
    for finding in with_primary(findings, [experiment]):
        if not _is_shown(finding, experiment):
            continue
        several = len(experiment.compares.groups) > 1 or finding.measure in (*EFFECTS, "mean")
        effect_size = effect_sizes.get(finding.key(), math.nan)
        difference = _as_model_difference(finding, effect_size, with_contrast=several)
        differences.append(difference)
    return differences


def _without_placebo(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are no placebo; the rows themselves where none is."""
    is_measured = (rows["group"] != PLACEBO).to_numpy()
    return rows if is_measured.all() else rows[is_measured]


def _effect_sizes(
    experiment: Experiment, findings: Sequence[Finding]
) -> dict[tuple[str, ...], float]:
    """Return Cohen's d of two models by ``Finding.key``, of gaps of pairs alone.

    A unit is a pair: a prompt with one condition. d is the mean of a model's gaps less that of the reference's, over
    the pooled SD (ddof=1) of both models' gaps. The paper's test of two models gives it.
    """
    if not _has_effect_size(experiment):
        return {}
    return {
        finding.key(): finding.estimate.effect_size
        for finding in findings
        if finding.view and finding.measure == experiment.compares.measure
    }


def _has_effect_size(experiment: Experiment) -> bool:
    """Tell whether the difference of two models has Cohen's d: of mean gaps of pairs, as papers test them."""
    comparison = experiment.comparison
    if comparison is None or not comparison.is_paired or not comparison.is_mean:
        return False
    return not experiment.design.aggregate and ANSWERS not in experiment.shows.rates


def _for_differences(experiment: Experiment, *, brief: bool) -> Experiment:
    """Return the experiment with the slices and levels whose differences are shown."""
    slices = tuple(
        part
        for part in experiment.shows.slices
        if not brief or part.name == experiment.compares.primary.slice
    )
    levels: tuple[str, ...] = ()
    if experiment.design.aggregate and not brief:
        levels = tuple(level for level in experiment.shows.levels if level in experiment.compared)
    shows: dict[str, Any] = {"slices": slices, "levels": levels, "covariates": ()}
    return experiment.changed(shows=shows | {"decisions": (), "quantiles": ()})


def _is_shown(finding: Finding, experiment: Experiment) -> bool:
    """Tell whether the difference of two models is shown: of gaps and means, and of pairs as papers test it."""
    if finding.view:
        return finding.measure == experiment.compares.measure and experiment.is_paired
    if finding.measure == "mean":
        return True
    is_whole = finding.slice_by == "all" or finding.measure != "gap_difference"
    return MEASURES[finding.measure].gap_span > 0 and is_whole


def _as_model_difference(finding: Finding, effect_size: float, *, with_contrast: bool) -> Finding:
    """Return a finding of differences of scores as the difference of two models, with their Cohen's d."""
    # The finding's effect sizes are those of changes, and no paper's.
    estimate = replace(finding.estimate, effect_size=effect_size, effect_size_z=math.nan)
    subset = finding.subset
    if with_contrast:
        subset = ", ".join(filter(None, (finding.subset, finding.contrast)))
    if finding.measure == "mean":
        p_value = intervals.t_p(estimate.value, estimate.std_error, estimate.df, estimate.skewness)
        estimate = replace(estimate, p_value=p_value, test=estimate.interval)
    fields: dict[str, Any] = {name: getattr(finding, name) for name in _SAME_FIELDS}
    return Finding(
        measure=DIFFERENCE, contrast=finding.model_id, subset=subset, estimate=estimate, **fields
    )


def condition_scores(study: Study, models: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the mean score of each condition over models, for the two experiments of the study's agreement.

    Args:
        study: the study that may declare an agreement.
        models: scored rows by model.

    Returns:
        A row per condition: its group, and a column for each experiment. Empty where the study declares none, or a
        kind of model is missing.
    """
    columns = []
    for name in study.agreement:
        for experiment in study.experiments:
            if experiment.name != name:
                continue
            means = means_over_models(study, experiment, models)
            if means is None:
                return pd.DataFrame()
            columns.append(means)
    joined = pd.concat(columns, axis=1, join="inner") if columns else pd.DataFrame()
    return joined.assign(group=[unit.split("/")[0] for unit in joined.index])


def means_over_models(
    study: Study, experiment: Experiment, models: Mapping[str, pd.DataFrame]
) -> "pd.Series[float] | None":
    """Return the mean score of each condition over the models that read an experiment.

    Args:
        study: the study.
        experiment: an experiment of it.
        models: scored rows by model.

    Returns:
        Means by group and condition (``GROUP/CONDITION``); None where no model read it.
    """
    context = Context(study.name, "", experiment, "score")
    tables = []
    for rows in models.values():
        part = rows[rows["experiment"] == experiment.name]
        if len(part):
            tables.append(condition_means(experiment, context.compared_rows(part)))
    if not tables:
        return None
    joined = pd.concat(tables)
    conditions = joined["group"] + "/" + joined["condition"]
    return joined["score"].groupby(conditions).mean().rename(experiment.name)


def _correlate_agreement(study: Study, models: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """Yield the correlations over conditions of the two experiments of the study's agreement."""
    scores = condition_scores(study, models)
    if not len(scores):
        return
    units = {experiment.name: experiment.compares.unit.name for experiment in study.experiments}
    for subset, part in [("", scores), *scores.groupby("group")]:
        first, second = (name for name in scores if name != "group")
        for method in ("pearson", "spearman"):
            yield Finding(
                study=study.name,
                experiment=f"{first} and {second}",
                model_id=" and ".join(models),
                measure="correlation",
                contrast=f"{units[first]} ~ {units[second]} ({method})",
                subset=str(subset),
                unit="correlation",
                cluster_vars="conditions",
                estimate=measures.correlation(
                    np.asarray(part[first], dtype=np.float64),
                    np.asarray(part[second], dtype=np.float64),
                    method=method,
                ),
            )
