"""One audit: planned, scored, concluded, written, and compared with others."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.audit.audit import resume as resume, start as start
    from swapbias.audit.compare import (
        Column as Column,
        ComparedRun as ComparedRun,
        Comparison as Comparison,
        Row as Row,
        comparison_table as comparison_table,
        read_run as read_run,
        scored_rows as scored_rows,
        side_by_side as side_by_side,
    )
    from swapbias.audit.plan import (
        Settings as Settings,
        default_folder as default_folder,
        load_notes as load_notes,
        told_plan as told_plan,
    )
    from swapbias.audit.result_files import parse_manifest as parse_manifest, parse_results as parse_results
    from swapbias.audit.results import (
        Results as Results,
        as_public as as_public,
        read_results as read_results,
        rebuild_report as rebuild_report,
        write_results as write_results,
    )
    from swapbias.audit.run import Run as Run, score_prompts as score_prompts

__getattr__ = front_door(
    __name__,
    {
        "audit": "resume start",
        "compare": "Column ComparedRun Comparison Row comparison_table read_run scored_rows side_by_side",
        "plan": "Settings default_folder load_notes told_plan",
        "result_files": "parse_manifest parse_results",
        "results": "Results as_public read_results rebuild_report write_results",
        "run": "Run score_prompts",
    },
)
