"""Figures of clinical phenotyping: regimes by phenotypes, gender leakage, direct bias, and one note explained."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from swapbias.declaring import Experiment
from swapbias.finding import Finding
from swapbias.predictions import RANDOM_DIRECT, RANDOM_SIGNED
from swapbias.report.drawing import COLOURS, STYLE, Drawn, saved
from swapbias.report.words import RATE_NAMES, higher, plain
from swapbias.scorers.explain import Explained

_FAIR = {"tprr": 1.0, "fprr": 1.0, "flip_rate": 0.0}  # equal treatment; the others have no such value


def rate_figures(study: str, experiment: Experiment, found: Sequence[Finding]) -> Iterator[Drawn]:
    """Whatever an experiment's rates are drawn as: a grid for each model, or bars over all models."""
    models = list(dict.fromkeys(one.model_id for one in found))
    if "flips" in experiment.rates:
        for model in models:
            mine = [one for one in found if one.model_id == model]
            caption = (
                f"{model}: ratios of true and false positive rates (1: equal), flips (0: none) and macro F1 by how "
                "the training notes were treated; f or m: the group with the higher rate or more positives."
            )
            name = f"{study}-{experiment.name}-regimes" + ("" if len(models) == 1 else f"-{_safe(model)}")
            yield saved(name, study, caption, _grid(mine))
    if "leakage" in experiment.rates:
        caption = (
            "How well the gender is told from notes as written and neutralised, with 95 % intervals; 0.5: chance."
        )
        rows = [one for one in found if one.measure == "leakage_uar"]
        yield saved(
            f"{study}-{experiment.name}", study, caption, _bars(rows, "unweighted average recall", chance=0.5)
        )
    if "direction" in experiment.rates:
        rows = [one for one in found if one.slice_by == "all" and one.measure in ("direct_bias", "signed_mean")]
        caption = (
            "Direct bias of the words (mean absolute cosine with the gender direction) and their signed mean (above "
            "zero: toward female), with 95 % intervals over words; p and dotted lines: random words of like frequency"
        )
        null = {
            (one.model_id, "direct_bias" if one.contrast == RANDOM_DIRECT else "signed_mean"): one.estimate.value
            for one in found
            if one.slice_by == "all" and one.contrast in (RANDOM_DIRECT, RANDOM_SIGNED)
        }
        figure = _bars(rows, "cosine with the gender direction", null=null)
        yield saved(f"{study}-{experiment.name}", study, caption, figure)


def explanation_figures(explained: Sequence[Explained]) -> list[Drawn]:
    """A panel for each note: both versions side by side, the words that weigh most."""
    with matplotlib.rc_context(STYLE):
        return [_panel(one, number, len(explained)) for number, one in enumerate(explained)]


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name)


def _grid(found: Sequence[Finding]) -> Figure:
    sliced = [one for one in found if one.slice_by != "all" and one.measure in RATE_NAMES]
    regimes = list(dict.fromkeys(one.subset for one in sliced))
    phenotypes = list(dict.fromkeys(one.slice_value for one in sliced))
    measures = list(dict.fromkeys(one.measure for one in sliced))
    down = math.ceil(len(measures) / 2)
    size = (2.6 + 1.5 * len(phenotypes), down * (1.0 + 0.34 * len(regimes)) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, 2, squeeze=False, sharex=True, sharey=True).ravel()
    for axis in axes[len(measures) :]:
        axis.set_visible(False)
    for axis, measure in zip(axes, measures, strict=False):
        cells = {(one.subset, one.slice_value): one for one in sliced if one.measure == measure}
        values = np.array([[_value(cells.get((row, column))) for column in phenotypes] for row in regimes])
        axis.imshow(_shade(values, measure), aspect="auto", cmap="Oranges", vmin=0, vmax=1)
        for row, column in np.ndindex(*values.shape):
            axis.text(column, row, _cell(cells.get((regimes[row], phenotypes[column]))), ha="center", va="center",
                      fontsize=7.5)  # fmt: skip
        axis.set_xticks(
            range(len(phenotypes)), [plain(name) for name in phenotypes], rotation=30, ha="right", fontsize=7.5
        )
        axis.set_yticks(range(len(regimes)), [plain(name) for name in regimes])
        axis.tick_params(length=0)
        axis.set_title(RATE_NAMES[measure], fontsize=9)
        for side in ("left", "bottom"):
            axis.spines[side].set_visible(False)
    return figure


def _value(one: Finding | None) -> float:
    return one.estimate.value if one else math.nan


def _shade(values: Any, measure: str) -> Any:
    """Darker: farther from equal treatment; macro F1 is not shaded."""
    if measure not in _FAIR:
        return np.zeros_like(values)
    return np.clip(np.abs(values - _FAIR[measure]), 0, 0.6)


def _cell(one: Finding | None) -> str:
    if one is None or math.isnan(one.estimate.value):
        return "–"
    return f"{one.estimate.value:.2f} {higher(one)[:1]}".strip()


def _bars(
    found: Sequence[Finding],
    label: str,
    *,
    chance: float | None = None,
    null: Mapping[tuple[str, str], float] | None = None,
) -> Figure:
    """One bar a finding, grouped by model, with its interval."""
    names = [_bar_name(one) for one in found]
    figure = Figure(figsize=(6.6, 1.0 + 0.36 * len(found)), layout="constrained")
    axis = figure.subplots()
    kinds = list(dict.fromkeys(one.subset or one.measure for one in found))
    for row, one in enumerate(found):
        colour = COLOURS[kinds.index(one.subset or one.measure) % len(COLOURS)]
        axis.barh(row, one.estimate.value, 0.62, color=colour, alpha=0.75)
        axis.hlines(row, one.estimate.ci_low, one.estimate.ci_high, color="#222222", linewidth=1.2)
        if null and (one.model_id, one.measure) in null:
            at = null[one.model_id, one.measure]
            axis.vlines(at, row - 0.4, row + 0.4, color="#222222", linewidth=1.4, linestyle=":")
    axis.set_yticks(range(len(found)), names, fontsize=8)
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.axvline(
        0 if chance is None else chance, color="#777777", linewidth=0.9, linestyle="-" if chance is None else "--"
    )
    axis.set_xlabel(label)
    return figure


def _bar_name(one: Finding) -> str:
    what = (
        plain(one.subset) if one.subset else {"direct_bias": "direct bias", "signed_mean": "signed mean"}[one.measure]
    )
    p_value = one.estimate.p_value
    return f"{one.model_id}: {what}" + ("" if math.isnan(p_value) else f" (p {p_value:.2f})")


def _panel(one: Explained, number: int, total: int) -> Drawn:
    groups = list(one.words)
    longest = max(len(words) for words in one.words.values())
    figure = Figure(figsize=(8.4, 1.3 + 0.24 * longest), layout="constrained")
    axes = figure.subplots(1, len(groups), squeeze=False, sharex=True)[0]
    for axis, group in zip(axes, groups, strict=True):
        words = list(one.words[group])
        colours = [COLOURS[0] if weight > 0 else COLOURS[1] for _, weight in words]
        axis.barh(range(len(words)), [weight for _, weight in words], 0.7, color=colours)
        axis.set_yticks(range(len(words)), [word for word, _ in words], fontsize=8)
        axis.set_ylim(len(words) - 0.5, -0.5)
        axis.axvline(0, color="#777777", linewidth=0.8)
        axis.set_title(f"as {group}: score {one.scores[group]:.2f}", fontsize=9)
        axis.set_xlabel("weight toward the phenotype")
        axis.tick_params(axis="y", length=0)
    caption = (
        f"The most mismatched note of {one.model_id} ({plain(one.phenotype)}, training notes {one.regime}): words "
        "that weigh most in each version (LIME)."
    )
    name = "phenotype_fairness-explained" + ("" if total == 1 else f"-{number + 1}")
    return saved(name, "phenotype_fairness", caption, figure)
