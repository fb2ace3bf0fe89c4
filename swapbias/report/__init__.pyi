from .charts import FORMATS as FORMATS, draw_figures as draw_figures
from .model_comparison import (
    NO_RANKING as NO_RANKING,
    ComparedModel as ComparedModel,
    ComparisonPage as ComparisonPage,
    Quantity as Quantity,
    render_comparison as render_comparison,
    sentences as sentences,
)
from .page import render as render, render_summary as render_summary
from .planning_text import (
    planned_basis as planned_basis,
    planned_counts as planned_counts,
    planned_power as planned_power,
    planned_table as planned_table,
    planned_time as planned_time,
    unknown_spreads as unknown_spreads,
    without_spreads as without_spreads,
)
from .text import (
    Verdict as Verdict,
    check_name as check_name,
    checked as checked,
    gated as gated,
    margin as margin,
    number as number,
    shown as shown,
    terminal as terminal,
    verdicts as verdicts,
)
