"""The table of social_distance that no single finding gives: conditions counted over several models."""

from collections.abc import Mapping, Sequence
from typing import Any

from swapbias.builders._paper_lines import NOTHING, put_beside, write_number
from swapbias.studies import load_study
from swapbias.studies.corpus import CalculatedTable
from swapbias.studies.paper import PaperRun
from swapbias.studies.published import PRINTED, published_rows

NAME = "social_distance"
_DECIMALS = 2
_GROUPS = ("stigmatized", "other")
_R = "P(negative) ~ share of negative labels (pearson)"
# By column the measure and the contrast in published.csv; the mass and the r of a group are not printed.
_PRINTED = {
    "stigmatized > .5": ("count_above", "stigmatized > 0.5"),
    "other > .5": ("count_above", "other > 0.5"),
    "stigmatized, all negative": ("count_above", "stigmatized = 1"),
    "other, all negative": ("count_above", "other = 1"),
    "stigmatized, mean": ("", ""),
    "other, mean": ("", ""),
    "difference": ("group_gap", "stigmatized - other"),
    "unrated mass": ("", ""),
    "r": ("correlation", _R),
    "r, stigmatized": ("", ""),
    "r, other": ("", ""),
}
_AVERAGED = (
    "six masked models",
    "four sentiment classifiers",
    "six masked models and four classifiers",
)


def counts_over_models(runs: Sequence[PaperRun]) -> CalculatedTable:
    """Calculate the counts and means over models, and the correlation of masked models with classifiers.

    Args:
        runs: the models of runs.

    Returns:
        The header and the lines: the paper's, then those of the runs; no line where no run has rows.
    """
    of_runs = _lines_of_runs([run for run in runs if run.rows is not None and len(run.rows)])
    heads = ["models", "numbers", *_PRINTED]
    return CalculatedTable(heads, put_beside(_printed_lines(), of_runs))


def _printed_lines() -> list[list[str]]:
    """Return the paper's lines, as printed."""
    rows = [row for row in published_rows(NAME) if row["slice_by"] == "all"]
    lines = []
    for model in _AVERAGED:
        texts = {
            (row["measure"], row["contrast"]): row["value"] for row in rows if row["model"] == model
        }
        cells = [texts.get(key, NOTHING) for key in _PRINTED.values()]
        lines.append([model, PRINTED, *cells])
    return lines


def _lines_of_runs(runs: Sequence[PaperRun]) -> list[list[str]]:
    """Return a line of each experiment that runs read, and one of both."""
    from swapbias.findings.model_counts import count_conditions

    study = load_study(NAME)
    lines = []
    for experiment in study.experiments:
        if experiment.name not in study.agreement:
            continue
        readers = [run for run in runs if experiment.name in set(run.rows["experiment"])]
        counts = count_conditions(study, experiment, _rows_by_model(readers))
        if counts:
            cells = _cells_of_counts(counts)
            mass = _mean_unrated_mass(readers, experiment.name)
            lines.append(_line(readers, {**cells, "unrated mass": mass}))
    correlations = _correlations(runs)
    if correlations:
        lines.append(_line(runs, correlations))
    return lines


def _rows_by_model(runs: Sequence[PaperRun]) -> dict[str, Any]:
    """Return the scored rows of each model of each run."""
    return {f"{run.label}: {run.model_id}": run.rows for run in runs}


def _line(runs: Sequence[PaperRun], cells: Mapping[str, str]) -> list[str]:
    """Return a line of the table: models, runs, and the cells that it has."""
    models = dict.fromkeys(run.title for run in runs)
    labels = dict.fromkeys(run.label for run in runs)
    return [", ".join(models), ", ".join(labels), *(cells.get(name, NOTHING) for name in _PRINTED)]


def _cells_of_counts(counts: Mapping[str, Any]) -> dict[str, str]:
    """Write counts and means of groups by column."""
    cells = {}
    for group, count in counts.items():
        cells[f"{group} > .5"] = str(count.above_half)
        cells[f"{group}, all negative"] = str(count.all_ones)
        cells[f"{group}, mean"] = write_number(count.mean, _DECIMALS)
    if set(counts) == set(_GROUPS):
        first, second = (counts[group].mean for group in _GROUPS)
        cells["difference"] = write_number(first - second, _DECIMALS)
    return cells


def _mean_unrated_mass(runs: Sequence[PaperRun], experiment: str) -> str:
    """Write the mean over models of the mass of words that the lexicon does not rate."""
    masses = []
    for run in runs:
        rows = run.rows[(run.rows["experiment"] == experiment) & run.rows["group"].isin(_GROUPS)]
        if "unrated_mass" in rows:
            masses.append(float(rows["unrated_mass"].mean()))
    return write_number(sum(masses) / len(masses), _DECIMALS) if masses else NOTHING


def _correlations(runs: Sequence[PaperRun]) -> dict[str, str]:
    """Write r over conditions, and within each group; nothing where only one kind of model is there."""
    from swapbias.findings.model_difference import condition_scores
    from swapbias.measures import correlation

    scores = condition_scores(load_study(NAME), _rows_by_model(runs))
    cells = {}
    if len(scores):
        first, second = (name for name in scores if name != "group")
        parts = {"r": scores}
        parts |= {f"r, {group}": scores[scores["group"] == group] for group in _GROUPS}
        for name, part in parts.items():
            estimate = correlation(part[first].to_numpy(), part[second].to_numpy())
            cells[name] = write_number(estimate.value, _DECIMALS)
    return cells
