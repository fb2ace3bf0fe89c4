"""What all figures share: colours, style, and a figure as SVG and PNG."""

import io
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

# Okabe-Ito colours: told apart with any colour vision.
COLOURS = ("#D55E00", "#0072B2", "#777777", "#009E73", "#CC79A7")
STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "svg.hashsalt": "swapbias",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure as SVG and PNG, with the sentence that says what it shows."""

    name: str
    study: str
    caption: str
    svg: bytes
    png: bytes


def saved(name: str, study: str, caption: str, figure: Figure) -> Drawn:
    """The figure in both formats, the same bytes for the same drawing."""
    formats = {}
    for kind, metadata in (("svg", {"Date": None}), ("png", {})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
        formats[kind] = buffer.getvalue()
    return Drawn(name, study, caption, formats["svg"], formats["png"])
