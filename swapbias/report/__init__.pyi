from .charts import FORMATS as FORMATS, draw_figures as draw_figures
from .model_comparison import (
    NO_RANKING as NO_RANKING,
    ComparedModel as ComparedModel,
    ComparisonPage as ComparisonPage,
    Quantity as Quantity,
    render_comparison as render_comparison,
    sentences as sentences,
)
from .page import Page as Page, render as render, render_summary as render_summary
from .text import (
    Verdict as Verdict,
    check_name as check_name,
    checked as checked,
    comparison_tables as comparison_tables,
    detects as detects,
    gated as gated,
    next_steps as next_steps,
    number as number,
    shown as shown,
    terminal as terminal,
    terminal_table as terminal_table,
    verdicts as verdicts,
)
