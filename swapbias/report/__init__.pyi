from .compared_models import (
    ComparedModel as ComparedModel,
    Quantity as Quantity,
)
from .figure_files import FORMATS as FORMATS
from .finding_names import safe_line as safe_line
from .forest_figure import draw_figures as draw_figures
from .gate_text import (
    check_name as check_name,
    describe_check as describe_check,
    describe_gate as describe_gate,
)
from .model_comparison import (
    NO_RANKING as NO_RANKING,
    ComparisonPage as ComparisonPage,
    comparison_sentences as comparison_sentences,
    render_comparison as render_comparison,
)
from .page import render as render, render_summary as render_summary
from .paper_figures import draw_paper_figures as draw_paper_figures
from .paper_tables import (
    PaperTable as PaperTable,
    fill_tables as fill_tables,
    models_in as models_in,
)
from .table_files import TABLE_FORMS as TABLE_FORMS
from .terminal_text import render_terminal as render_terminal
from .verdicts import state_verdicts as state_verdicts
