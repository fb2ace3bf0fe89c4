from .builder import CorpusBuilder as CorpusBuilder, dataset_builder as dataset_builder
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
    pull_all as pull_all,
    push_datasets as push_datasets,
    push_metrics as push_metrics,
    push_results as push_results,
    push_space as push_space,
)
from .datasets import (
    own_study as own_study,
    pull_study as pull_study,
    push_study as push_study,
    study_name as study_name,
)
from .lm_eval import export_study as export_study
from .share import (
    COMMIT as COMMIT,
    PULL_REQUEST as PULL_REQUEST,
    ShareOptions as ShareOptions,
    share_run as share_run,
)
from .shared_runs import find_run as find_run, load_all_shared as load_all_shared
