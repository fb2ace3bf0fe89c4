"""Figures of a comparison: the gap of each model, the scatter of two kinds of score, and one of them by template."""

from collections.abc import Iterator, Mapping, Sequence

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from swapbias.findings import Finding, agreeing, condition_scores
from swapbias.report.figures import COLOURS, STYLE, Drawn, saved
from swapbias.report.words import plain, shown
from swapbias.studies import Experiment, load_study

MOST_GAPS = 60  # in one figure


def comparison_figures(found: Sequence[Finding], runs: Mapping[str, Mapping[str, pd.DataFrame]]) -> Iterator[Drawn]:
    """For each study its gap by model; where two kinds of score should agree, their scatter, and one by template.

    Args:
        found: findings of every model, which may have any name.
        runs: scored rows by study and model, where they are at hand.
    """
    with matplotlib.rc_context({**STYLE, "text.parse_math": False}):
        for study in dict.fromkeys(one.study for one in found):
            yield from _gaps(study, [one for one in found if one.study == study])
        for study, models in runs.items():
            kinds = agreeing(load_study(study))
            if kinds:
                yield from _scatter(study, kinds, condition_scores(load_study(study), models))
                yield from _by_template(study, kinds[1], models)


def _gaps(study: str, found: Sequence[Finding]) -> Iterator[Drawn]:
    for experiment in load_study(study).experiments:
        mine = [
            one
            for one in found
            if (one.experiment, one.measure, one.slice_by, one.score, one.robust)
            == (experiment.name, experiment.measure, "all", "score", "")
        ][:MOST_GAPS]
        if len({one.model_id for one in mine}) < 2:
            continue
        figure = Figure(figsize=(6.4, 0.9 + 0.32 * len(mine)), layout="constrained")
        axis = figure.subplots()
        axis.axvline(0, color="#999999", linewidth=0.8)
        for row, one in enumerate(mine):
            estimate = one.estimate
            axis.hlines(row, estimate.ci_low, estimate.ci_high, color=COLOURS[1], linewidth=1.3)
            axis.plot(estimate.value, row, "o", color=COLOURS[1], markersize=5)
        axis.set_yticks(range(len(mine)), [shown(f"{one.model_id} {plain(one.subset)}".strip()) for one in mine])
        axis.set_ylim(len(mine) - 0.5, -0.5)
        axis.set_xlabel(f"{plain(mine[0].contrast)}, {mine[0].unit}")
        caption = f"Gap ({plain(mine[0].contrast)}) by model, with 95 % intervals."
        yield saved(f"{study}-{experiment.name}-by-model", study, caption, figure)


def _scatter(study: str, kinds: Sequence[Experiment], scores: pd.DataFrame) -> Iterator[Drawn]:
    if not len(scores):
        return
    figure = Figure(figsize=(6.2, 4.6), layout="constrained")
    axis = figure.subplots()
    for colour, (group, part) in zip(COLOURS, scores.groupby("group", sort=False), strict=False):
        axis.plot(
            part[kinds[0].name], part[kinds[1].name], "o", markersize=4.5, alpha=0.75, color=colour, label=group
        )
    axis.set_xlabel(kinds[0].unit)
    axis.set_ylabel(kinds[1].unit)
    axis.legend(frameon=False, fontsize=8)
    caption = f"Each condition's {kinds[0].unit} ({kinds[0].name}) against its {kinds[1].unit} ({kinds[1].name})."
    yield saved(f"{study}-scatter", study, caption, figure)


def _by_template(study: str, experiment: Experiment, models: Mapping[str, pd.DataFrame]) -> Iterator[Drawn]:
    rows = [part[part["experiment"] == experiment.name] for part in models.values()]
    both = pd.concat(rows) if rows else pd.DataFrame()
    if not len(both):
        return
    table = both.pivot_table(index=["model_id", "template"], columns="group", values="score", sort=False)
    figure = Figure(figsize=(6.4, 1.0 + 0.42 * len(table)), layout="constrained")
    axis = figure.subplots()
    for shift, (colour, group) in enumerate(zip(COLOURS, table.columns, strict=False)):
        rows_at = [row + 0.25 * (shift - 1) for row in range(len(table))]
        axis.barh(rows_at, table[group], 0.22, color=colour, label=group)
    axis.set_yticks(range(len(table)), [shown(f"{model}: {template}") for model, template in table.index])
    axis.set_xlim(0, 1)
    axis.set_xlabel(experiment.unit)
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    caption = f"Mean {experiment.unit} by model and template."
    yield saved(f"{study}-{experiment.name}-shares", study, caption, figure)
