"""Publishing metrics: one commit, one tag, nothing the second time, and never other content under a tag."""

import re

from swapbias import __version__
from swapbias.hub import metric_spaces as spaces
from swapbias.hub.client import Hub
from swapbias.studies.catalogue import metrics
from tests.hub.clients import command

NAME = "leakage_uar"
REPO = f"lab/{NAME}"
TAG = f"v{__version__}"


def push(name=NAME, **options):
    lines = []
    done = spaces.push_metric(Hub(), name, namespace="lab", say=lines.append, **options)
    return done, lines


def published():
    """The files as a push writes them."""
    return spaces.space_files(NAME, namespace="lab", version=__version__)


def test_a_push_makes_a_space_with_one_commit_under_the_tag_of_the_release(hub):
    done, _ = push()
    commits = hub.commits("space", REPO)
    assert (done.status, hub.repo("space", REPO).sdk, hub.repo("space", REPO).private) == ("created", "gradio", False)
    assert [title for _, title in commits].count(f"Push {NAME} {TAG} with swapbias") == 1
    assert hub.tags("space", REPO) == {TAG: commits[0][0]}
    assert {path: data for path, data in hub.files("space", REPO).items() if path != ".gitattributes"} == published()


def test_the_command_pushes_all_metrics_and_says_so(hub, capsys):
    code = command("push", "metrics", "--namespace", "lab", "--private")
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert sorted(name for _, name in hub.repositories) == [f"lab/{name}" for name in metrics()]
    assert all(hub.tags("space", f"lab/{name}") for name in metrics())
    assert len(re.findall(rf"^lab/\w+: created \(private\), {TAG}", out, flags=re.MULTILINE)) == len(metrics())
