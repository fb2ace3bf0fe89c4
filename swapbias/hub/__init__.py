"""The Hub: corpora, metrics, results and cards, pushed and pulled. ``client`` is the only file that talks to it."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.hub.client import (
        Change as Change,
        Commit as Commit,
        Hub as Hub,
        PullRequest as PullRequest,
        Repo as Repo,
        State as State,
        difference as difference,
    )
    from swapbias.hub.corpora import push_dataset as push_dataset
    from swapbias.hub.proposals import COMMIT as COMMIT, PULL_REQUEST as PULL_REQUEST
    from swapbias.hub.pull import (
        DATASET as DATASET,
        METRIC as METRIC,
        RESULTS as RESULTS,
        pull_repo as pull_repo,
        wanted_repos as wanted_repos,
    )
    from swapbias.hub.push import (
        complain as complain,
        prepare_output as prepare_output,
        push_command as push_command,
        say as say,
    )
    from swapbias.hub.results_repo import is_shared_name as is_shared_name, load_all_shared as load_all_shared
    from swapbias.hub.share import Wanted as Wanted, share_run as share_run
    from swapbias.hub.spaces import check_release as check_release, push_metric as push_metric

__getattr__ = front_door(
    __name__,
    {
        "client": "Change Commit Hub PullRequest Repo State difference",
        "corpora": "push_dataset",
        "proposals": "COMMIT PULL_REQUEST",
        "pull": "DATASET METRIC RESULTS pull_repo wanted_repos",
        "push": "complain prepare_output push_command say",
        "results_repo": "is_shared_name load_all_shared",
        "share": "Wanted share_run",
        "spaces": "check_release push_metric",
    },
)
