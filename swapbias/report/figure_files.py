"""Looks of figures for papers, and figures as files: the same figure gives the same bytes."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe-Ito colours, and a shape for each: groups differ in grey and with any colour vision.
LOOKS = (("#D55E00", "o"), ("#0072B2", "s"), ("#777777", "D"), ("#009E73", "^"), ("#CC79A7", "X"))
FORMATS = ("pdf", "svg", "png")
# Text stays text, in fonts that journals take (TrueType, not Type 3); a dollar in a name is one.
STYLE: Mapping[Any, Any] = {
    "svg.hashsalt": "swapbias", "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 8.0,
    "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False,
}  # fmt: skip
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def figure_file(figure: "Figure", file_format: str, *, dots_per_inch: int) -> bytes:
    """Return a figure as a file without its date, to be called where ``STYLE`` is set.

    Args:
        figure: the figure.
        file_format: one of ``FORMATS``.
        dots_per_inch: resolution of PNG.
    """
    buffer = io.BytesIO()
    figure.savefig(
        buffer,
        format=file_format,
        dpi=dots_per_inch,
        bbox_inches="tight",
        metadata=_UNDATED.get(file_format),
    )
    return buffer.getvalue()
