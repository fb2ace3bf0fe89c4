"""Findings as words, figures and one page."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.report.compare_figures import comparison_figures as comparison_figures
    from swapbias.report.figures import draw_figures as draw_figures, explanation_figures as explanation_figures
    from swapbias.report.page import Page as Page, environment as environment, render as render
    from swapbias.report.words import inert as inert, p_value as p_value, shown as shown

__getattr__ = front_door(
    __name__,
    {
        "compare_figures": "comparison_figures",
        "figures": "draw_figures explanation_figures",
        "page": "Page environment render",
        "words": "inert p_value shown",
    },
)
