from .figures import (
    comparison_figures as comparison_figures,
    draw_figures as draw_figures,
    explanation_figures as explanation_figures,
)
from .page import Page as Page, environment as environment, render as render
from .words import checked as checked, gated as gated, inert as inert, p_value as p_value, shown as shown
