"""The chart: how many times faster each workload is than what people use, with the goal marked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.table import Compared, Result
from swapbias.report.charts import STYLE

_MET, _UNMET, _GOAL = "#0072B2", "#D55E00", "#000000"  # Okabe-Ito: told apart with any vision


def draw(results: Sequence[Result], path: Path) -> None:
    """One bar for each comparison that has a goal, on a logarithmic axis from 1."""
    bars = [(one.title, pair) for one in results for pair in one.compared if pair.goal is not None]
    if not bars:
        return
    with rc_context(dict(STYLE)):
        figure = Figure(figsize=(8, 0.9 + 0.42 * len(bars)), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(bars))
        axes.barh(
            places,
            [max(pair.ratio, 1.0) - 1.0 for _, pair in bars],
            left=1.0,
            height=0.62,
            color=[_MET if pair.met == "yes" else _UNMET for _, pair in bars],
        )
        for place, (_, pair) in zip(places, bars, strict=True):
            _mark(axes, place, pair)
        axes.set_xscale("log")
        widest = max(max(pair.ratio, pair.goal or 1.0) for _, pair in bars)
        axes.set_xlim(1, widest * 2.8)
        axes.set_xticks([tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if tick <= widest * 2.8])
        axes.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}x")
        axes.minorticks_off()
        axes.set_yticks(
            list(places), [f"{title}\n{pair.ours} / {pair.against}" for title, pair in bars], fontsize=7.5
        )
        axes.invert_yaxis()
        axes.set_xlabel("times faster than what people use (black mark: the goal)")
        figure.savefig(path, dpi=150, metadata={})


def _mark(axes: Any, place: int, pair: Compared) -> None:
    """The number at the end of the bar and the goal across it."""
    goal = pair.goal or 1.0
    axes.plot([goal, goal], [place - 0.42, place + 0.42], color=_GOAL, linewidth=1.6)
    said = f"{pair.ratio:.1f}x" + ("" if pair.met == "yes" else f", goal {goal:g}x not met")
    axes.text(max(pair.ratio, goal) * 1.05, place, said, va="center", fontsize=8)
