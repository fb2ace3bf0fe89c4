"""The chart of the docs: seconds against the number of prompts, ours, the peers' and the hardware's limit."""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.table import Steps

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "swapbias",
}
# Okabe-Ito colours, a marker each: distinct with any vision and in grey.
_LINES = (("#0072B2", "o", "-"), ("#D55E00", "s", "-"), ("#009E73", "^", "-"), ("#000000", "", ":"))


def draw(cost: Steps, path: Path) -> None:
    """One line for each column of seconds; both axes are logarithmic."""
    prompts, *columns = zip(
        *([float(cell.replace(",", "")) for cell in row] for row in cost.rows), strict=True
    )
    with rc_context(_STYLE):
        figure = Figure(figsize=(6.5, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for name, seconds, (colour, marker, line) in zip(
            cost.columns[1:], columns, _LINES, strict=True
        ):
            axes.loglog(
                prompts,
                seconds,
                color=colour,
                marker=marker,
                linestyle=line,
                label=name.removesuffix(" (s)"),
            )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda tick, _: f"{tick:,g}")
        axes.set_xlabel("prompts")
        axes.set_ylabel("seconds")
        axes.legend(frameon=False)
        figure.savefig(path, dpi=150, metadata={})
