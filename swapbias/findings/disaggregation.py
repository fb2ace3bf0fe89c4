"""From scored prompts to the one long table of findings: overall, by subset and by slice."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.findings.finding import Context, Finding
from swapbias.findings.predictions import ANSWERS, RATES, bias, sentence_pairs
from swapbias.measures import adjust
from swapbias.studies import Experiment, Published, Slice, Study, load_study, published_for

if TYPE_CHECKING:
    from datasets import Dataset

_ALL = Slice("", "all")


def experiment_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    experiment = context.experiment
    rows = _read_columns(context, rows)
    for subset, part in _parts(rows, experiment.subset):
        for one in (_ALL, *experiment.slices):
            for value, sliced in _parts(part, one.column):
                where = {"slice_by": one.name, "slice_value": value}
                yield from _gaps(context, sliced, subset, where)
                yield from _levels(context, sliced, subset, where)
                yield from _rates(context, sliced, subset, where)
        yield from _counts(context, part, subset)
        yield from _correlations(context, part, subset)
    if experiment.contrast and set(experiment.contrast) <= set(rows[experiment.subset]):
        yield from _contrasts(context, rows)


def _read_columns(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """The columns that are read here: most of the time goes into cutting slices out of the others, as the texts."""
    experiment = context.experiment
    if experiment.rates:  # these read columns of their own
        return rows
    columns = {"group", "label", "pair_id", context.score, experiment.subset, experiment.cluster}
    columns |= {experiment.contrast_cluster, *experiment.aggregate, *(one.column for one in experiment.slices)}
    columns |= {one.column for one in experiment.covariates}
    return rows[[name for name in rows if name in columns]]


def _rates(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    for name in context.experiment.rates if context.score == "score" else ():
        yield from RATES[name](context, rows, subset, where)


def _correlations(context: Context, rows: pd.DataFrame, subset: str) -> Iterator[Finding]:
    for covariate in context.experiment.covariates:
        means = rows.groupby(covariate.column, sort=False)[context.score].mean()
        means = means[[str(name) in covariate.values for name in means.index]]
        numbers = [covariate.values[str(name)] for name in means.index]
        slices = context.experiment.slices
        label = next((one.name for one in slices if one.column == covariate.column), covariate.column)
        yield context.finding(
            measures.correlation(means.to_numpy(), numbers),
            "correlation",
            f"score ~ {covariate.name}",
            subset,
            slice_by=label,
            direction=f"above zero the score rises with {covariate.name}",
        )


def _parts(rows: pd.DataFrame, column: str) -> list[tuple[str, pd.DataFrame]]:
    if not column:
        return [("", rows)]
    if column not in rows:  # released outputs may lack a column that own prompts have
        return []
    return [(str(value), part) for value, part in rows.groupby(column, sort=False)]


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


def _gaps(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    """The paper's statistic, then the robust one: over clusters where they are not single rows or only one."""
    experiment = context.experiment
    two = rows[rows["group"].isin([experiment.group, experiment.reference_group])]
    if not experiment.measure or two["group"].nunique() < 2:
        return
    if experiment.aggregate:
        two = condition_means(experiment, two, context.score)
    if ANSWERS in experiment.rates:
        yield context.finding(
            bias(context, two), experiment.measure, f"{experiment.group} - {experiment.reference_group}", subset,
            direction=experiment.direction, **where,
        )  # fmt: skip
        return
    paired = experiment.measure == "paired_gap"
    units = two["pair_id"].nunique() if paired else len(two)
    arguments: list[Any] = [two[context.score].to_numpy(), two["group"].to_numpy()]
    if paired:
        arguments.append(two["pair_id"].to_numpy())
    views: dict[str, dict[str, Any]] = {"": {"test": experiment.test}}
    if experiment.aggregate:
        views["permutation"] = {"test": "permutation", "interval": "bootstrap"}
    elif experiment.cluster and 1 < two[experiment.cluster].nunique() < units:
        views[_clustered(experiment)] = {"cluster_ids": two[experiment.cluster].to_numpy()}
    for robust, options in views.items():
        gap = measures.paired_gap if paired else measures.group_gap
        estimate = gap(*arguments, reference_group=experiment.reference_group, seed=context.seed, **options)
        yield context.finding(
            estimate,
            experiment.measure,
            f"{experiment.group} - {experiment.reference_group}",
            subset,
            direction=experiment.direction,
            robust=robust,
            **where,
        )


def _clustered(experiment: Experiment) -> str:
    return f"clustered by {experiment.cluster}"


def _counts(context: Context, rows: pd.DataFrame, subset: str) -> Iterator[Finding]:
    """How many units of each group lie above a threshold; a threshold of 1 counts those that reach it."""
    experiment = context.experiment
    counted = experiment.thresholds and context.score == "score"
    units = condition_means(experiment, rows) if counted else rows.iloc[:0]
    for threshold in experiment.thresholds:
        for group in (experiment.group, experiment.reference_group):
            values = units.loc[units["group"] == group, context.score].to_numpy(dtype=float)
            if not len(values):
                continue
            share = measures.share_above(values, threshold=threshold)
            count = share.value if math.isnan(share.value) else float(round(share.value * share.n))
            # No interval: these are all conditions of the study, alike within their categories, and no sample.
            estimate = replace(share, value=count, ci_low=math.nan, ci_high=math.nan, interval="")
            sign = "=" if threshold >= 1 else ">"
            yield context.finding(
                estimate,
                "count_above",
                f"{group} {sign} {threshold:g}",
                subset,
                unit=f"{experiment.aggregate[-1] if experiment.aggregate else 'row'}s",
            )


def _levels(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    if ANSWERS in context.experiment.rates and rows["group"].nunique() == 2:
        sides = sentence_pairs(rows, context.experiment.reference_group)
        rows = sides.melt(var_name="group", value_name=context.score)
    for level in context.experiment.levels:
        chosen = rows if level == "all" else rows[rows["group"] == level]
        if len(chosen):
            values = chosen[context.score].to_numpy()
            yield context.finding(measures.mean_score(values), "mean", level, subset, **where)


def reported_means(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    for group in ("all", *context.experiment.levels):
        chosen = rows if group == "all" else rows[rows["group"] == group]
        if len(chosen):
            estimate = measures.mean_score(chosen[context.score].to_numpy())
            yield context.finding(estimate, "mean", group, "", unit="probability mass")


def _contrasts(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Difference of the pairs' gaps between two subsets, over all rows and by the slices both share."""
    experiment = context.experiment
    first, second = experiment.contrast or ("", "")
    both = rows[rows[experiment.subset].isin([first, second])]
    two = both[both["group"].isin([experiment.group, experiment.reference_group])]
    for one in (_ALL, *experiment.slices):
        for value, part in _parts(two, one.column):
            if part[experiment.subset].nunique() < 2:
                continue
            gaps, labels, clusters = _pair_gaps(context, part)
            for robust in ("", f"clustered by {experiment.contrast_cluster}"):
                if robust and not 1 < len(set(clusters)) < len(clusters):
                    continue
                estimate = measures.group_gap(
                    gaps, labels, reference_group=second, cluster_ids=clusters if robust else None
                )
                yield context.finding(
                    estimate,
                    "gap_difference",
                    f"{experiment.group} - {experiment.reference_group}",
                    f"{first} - {second}",
                    slice_by=one.name,
                    slice_value=value,
                    direction=f"above zero the gap is larger for {first} than for {second}",
                    robust=robust,
                )


def _pair_gaps(context: Context, rows: pd.DataFrame) -> tuple[np.ndarray, list[str], list[str]]:
    """Gap, subset and cluster of each pair; NaN where a score of the pair is."""
    experiment = context.experiment
    by_pair = rows.set_index(["pair_id", "group"])[context.score].unstack("group")
    gaps = by_pair[experiment.group] - by_pair[experiment.reference_group]
    facts = rows.drop_duplicates("pair_id").set_index("pair_id").loc[gaps.index]
    return gaps.to_numpy(), facts[experiment.subset].tolist(), facts[experiment.contrast_cluster].tolist()


def disaggregate(
    scores: "Dataset | pd.DataFrame",
    study: Study | str,
    *,
    expected: Mapping[tuple[str, ...], Published] | None = None,
    seed: int = 0,
) -> list[Finding]:
    """Every finding of a study from scored prompts: overall, by subset and by slice.

    Args:
        scores: rows of ``score_prompts`` (prompt columns, ``model_id`` and at least one score column).
        study: the study or its name.
        expected: numbers to join by ``Finding.key``; the paper's for this model by default.
        seed: of resampled intervals and permutation tests.

    Returns:
        Findings in the order experiment, score, subset, slice; p-values corrected within each family (same
        experiment, score, measure, contrast and slice).

    Raises:
        ValueError: no rows of the study, or rows of more than one model.
    """
    chosen = load_study(study) if isinstance(study, str) else study
    frame = scores if isinstance(scores, pd.DataFrame) else scores.to_pandas()
    models = sorted(set(frame["model_id"]))
    if len(models) != 1:
        raise ValueError(f"scores of the models {models}, expected rows of exactly one. Audit models apart.")
    found: list[Finding] = []
    for experiment in chosen.experiments:
        rows = frame[frame["experiment"] == experiment.name]
        for score in experiment.scores:
            if len(rows) and score in rows:
                found += experiment_findings(Context(chosen.name, models[0], experiment, score, seed), rows)
        for column in experiment.reported:
            if column in rows and len(rows):
                found += reported_means(Context(chosen.name, models[0], experiment, column, seed), rows)
    if not found:
        raise ValueError(f"no rows of {chosen.name}: experiments {sorted(set(frame['experiment']))}.")
    known = published_for(chosen.name, models[0]) if expected is None else expected
    return [_joined(finding, known) for finding in _corrected(found, chosen.correction)]


def _joined(finding: Finding, known: Mapping[tuple[str, ...], Published]) -> Finding:
    if finding.robust or finding.score != "score":
        return finding
    return replace(finding, published=known.get(finding.key()))


# --- families -----------------------------------------------------------------------------------------


def _corrected(found: Sequence[Finding], method: str) -> list[Finding]:
    families: dict[tuple[str, ...], list[int]] = {}
    for index, one in enumerate(found):
        if not math.isnan(one.estimate.p_value):
            key = (one.experiment, one.score, one.measure, one.contrast, one.robust, one.slice_by)
            families.setdefault(key, []).append(index)
    corrected = list(found)
    for family, members in families.items():
        adjusted = adjust([found[index].estimate.p_value for index in members], method)
        experiment, score, measure, _, robust, slice_by = family
        name = f"{experiment} {measure} of {score} by {slice_by}" + (" (robust)" if robust else "")
        name += f": {len(members)} tests, {method}"
        for index, p_adjusted in zip(members, adjusted, strict=True):
            estimate = replace(found[index].estimate, p_adjusted=float(p_adjusted), family=name)
            corrected[index] = replace(found[index], estimate=estimate)
    return corrected


def findings_table(found: Iterable[Finding]) -> pd.DataFrame:
    """Findings as one long table, one row each."""
    return pd.DataFrame([finding.row() for finding in found])
