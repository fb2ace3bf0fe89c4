"""Publishing metrics: one commit, one tag, nothing the second time, and never other content under a tag."""

import re

import pytest

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


def test_a_new_version_is_a_new_commit_and_leaves_the_old_tag_alone(hub, monkeypatch):
    first, _ = push()
    monkeypatch.setattr(spaces, "__version__", "99.0.0")
    second, _ = push()
    assert second.status == "updated"
    assert hub.tags("space", REPO) == {TAG: first.commit, "v99.0.0": second.commit}
    old, new = (hub.files("space", REPO, revision=tag)["README.md"].decode() for tag in (TAG, "v99.0.0"))
    assert (f'revision="{__version__}"' in old, 'revision="99.0.0"' in new) == (True, True)


@pytest.fixture
def script(hub, capsys):
    """The command in this process: exit code, what it prints, what it complains of."""

    def run(*arguments):
        return command("push", "metrics", *arguments), *capsys.readouterr()

    return run


def test_the_script_pushes_all_metrics_and_says_so(hub, script):
    code, out, err = script("--namespace", "lab", "--private")
    assert (code, err) == (0, "")
    assert sorted(name for _, name in hub.repositories) == [f"lab/{name}" for name in metrics()]
    assert all(hub.tags("space", f"lab/{name}") for name in metrics())
    assert len(re.findall(rf"^lab/\w+: created \(private\), {TAG}", out, flags=re.MULTILINE)) == len(metrics())
