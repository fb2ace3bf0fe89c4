from .audit import (
    Several as Several,
    audit_several as audit_several,
    resume as resume,
    start as start,
)
from .audit_file import named_in_file as named_in_file, read_request as read_request
from .compare import (
    check_run as check_run,
    compare_runs as compare_runs,
    write_comparison as write_comparison,
)
from .earlier import earlier_run as earlier_run
from .judge import announced as announced
from .plan import (
    default_folder as default_folder,
    partial_note as partial_note,
    plan_tasks as plan_tasks,
    repeat_notes as repeat_notes,
)
from .positive_control import control_note as control_note
from .remote_store import Store as Store
from .results import (
    Results as Results,
    read_run as read_run,
    rebuild_report as rebuild_report,
    write_figures as write_figures,
)
from .run import (
    MANIFEST as MANIFEST,
    REPORT as REPORT,
    Run as Run,
    score_prompts as score_prompts,
)
from .scorers import check_code as check_code, check_keys as check_keys
from .settings import (
    PromptOptions as PromptOptions,
    Settings as Settings,
    StoreOptions as StoreOptions,
    setting_classes as setting_classes,
    settings_of as settings_of,
)
from .task import Skipped as Skipped, Task as Task
