from .client import (
    Change as Change,
    Hub as Hub,
    Repo as Repo,
    State as State,
    difference as difference,
    is_shared_name as is_shared_name,
)
from .commands import (
    DATASET as DATASET,
    METRIC as METRIC,
    RESULTS as RESULTS,
    own_study as own_study,
    pull_all as pull_all,
    pull_study as pull_study,
    push_all as push_all,
    push_study as push_study,
    study_name as study_name,
    study_names as study_names,
)
from .lm_eval import export_study as export_study
from .read_shared import find_run as find_run, load_all_shared as load_all_shared
from .share import (
    COMMIT as COMMIT,
    PULL_REQUEST as PULL_REQUEST,
    ShareOptions as ShareOptions,
    share_run as share_run,
)
