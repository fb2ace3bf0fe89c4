from .client import (
    Change as Change,
    Commit as Commit,
    Hub as Hub,
    PullRequest as PullRequest,
    Repo as Repo,
    State as State,
    difference as difference,
)
from .corpora import pull_study as pull_study, push_dataset as push_dataset, push_study as push_study
from .proposals import COMMIT as COMMIT, PULL_REQUEST as PULL_REQUEST
from .pull import (
    DATASET as DATASET,
    METRIC as METRIC,
    RESULTS as RESULTS,
    pull_repo as pull_repo,
    wanted_repos as wanted_repos,
)
from .push import complain as complain, prepare_output as prepare_output, push_command as push_command, say as say
from .results_repo import is_shared_name as is_shared_name, load_all_shared as load_all_shared
from .share import Wanted as Wanted, share_run as share_run
from .spaces import check_release as check_release, push_metric as push_metric
