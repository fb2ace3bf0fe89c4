from .builder import CorpusBuilder as CorpusBuilder, dataset_builder as dataset_builder
from .client import (
    Change as Change,
    Commit as Commit,
    Hub as Hub,
    PullRequest as PullRequest,
    Repo as Repo,
    State as State,
    difference as difference,
)
from .corpora import pull_study as pull_study, push_study as push_study
from .harness import export_study as export_study
from .jobs import (
    complain as complain,
    prepare_output as prepare_output,
    pull_all as pull_all,
    push_datasets as push_datasets,
    push_metrics as push_metrics,
    push_results as push_results,
    push_space as push_space,
    say as say,
)
from .names import is_shared_name as is_shared_name, own_study as own_study, study_name as study_name
from .proposals import COMMIT as COMMIT, PULL_REQUEST as PULL_REQUEST
from .pull import DATASET as DATASET, METRIC as METRIC, RESULTS as RESULTS
from .results_repo import find_run as find_run, load_all_shared as load_all_shared
from .share import Wanted as Wanted, share_run as share_run
