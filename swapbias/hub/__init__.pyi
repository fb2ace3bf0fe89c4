from .builder_modules import builder_on_use as builder_on_use
from .client import Hub as Hub
from .commands import (
    own_study as own_study,
    pull_all as pull_all,
    push_all as push_all,
    push_study as push_study,
    study_name as study_name,
    study_names as study_names,
)
from .lm_eval import export_study as export_study
from .read_shared import find_run as find_run, find_runs as find_runs
from .share import ShareOptions as ShareOptions, share_run as share_run
