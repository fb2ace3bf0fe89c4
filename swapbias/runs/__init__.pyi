from .audit import resume as resume, start as start
from .compare import (
    check_run as check_run,
    compare_runs as compare_runs,
    write_comparison as write_comparison,
)
from .plan import plan_tasks as plan_tasks
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
from .run_figures import write_paper_figures as write_paper_figures
from .run_tables import paper_tables as paper_tables, write_tables as write_tables
from .settings import (
    PromptOptions as PromptOptions,
    Settings as Settings,
    StoreOptions as StoreOptions,
    setting_classes as setting_classes,
    settings_of as settings_of,
)
from .several_models import Several as Several, audit_several as audit_several
from .task import Skipped as Skipped, Task as Task
