from .breakdowns import answer_counts as answer_counts
from .comparison import (
    NO_RANKING as NO_RANKING,
    ComparedModel as ComparedModel,
    ComparisonPage as ComparisonPage,
    Quantity as Quantity,
    render_comparison as render_comparison,
    sentences as sentences,
)
from .figures import (
    FORMATS as FORMATS,
    STYLES as STYLES,
    Drawn as Drawn,
    comparison_figures as comparison_figures,
    draw_figures as draw_figures,
    explanation_figures as explanation_figures,
    headline_figure as headline_figure,
)
from .page import Page as Page, render as render, render_summary as render_summary
from .sentence import Answer as Answer, answer as answer, detects as detects, summary as summary
from .tables import headline_tables as headline_tables, terminal_table as terminal_table
from .words import checked as checked, gated as gated, p_value as p_value, shown as shown
