"""Publishing metrics: one commit, one tag, nothing the second time, and never other content under a tag."""

import re
import subprocess

import pytest

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.hub import metric_spaces as spaces
from swapbias.hub.client import Hub
from swapbias.hub.metric_spaces import check_release
from swapbias.studies.catalogue import metrics
from tests.hub.clients import command, writes

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


def test_a_dry_run_writes_nothing_and_names_every_file(hub):
    done, lines = push(dry_run=True)
    assert done.status == "would be created"
    assert writes(hub) == []
    for path in (f"{NAME}.py", "README.md", "app.py", "requirements.txt"):
        assert any(path in line for line in lines), path


@pytest.fixture
def script(hub, capsys):
    """The command in this process: exit code, what it prints, what it complains of."""

    def run(*arguments):
        return command("push", "metrics", *arguments), *capsys.readouterr()

    return run


def test_the_script_pushes_all_metrics_and_says_so(hub, script):
    code, out, err = script("--namespace", "lab", "--private", "--untagged")
    assert (code, err) == (0, "")
    assert sorted(name for _, name in hub.repositories) == [f"lab/{name}" for name in metrics()]
    assert all(hub.tags("space", f"lab/{name}") for name in metrics())
    assert out.startswith(f"{TAG} is not checked: the pages name a release that may not be there.")
    assert len(re.findall(rf"^lab/\w+: created \(private\), {TAG}", out, flags=re.MULTILINE)) == len(metrics())


@pytest.mark.parametrize("wrong", [["no_such", "--namespace", "lab"], [NAME, "--namespace", "bob"]])
def test_the_script_refuses_what_cannot_be_meant_before_it_pushes(hub, script, wrong):
    code, _, err = script(*wrong)
    assert code == 2
    assert err.startswith("swapbias: ")
    assert "Traceback" not in err
    assert writes(hub) == []


def git(folder, *arguments):
    subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
        check=True,
        capture_output=True,
    )


def test_metrics_are_pinned_to_a_release_that_is_there(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "a.py").write_text("1\n")
    with pytest.raises(UsageError, match=r"is no unchanged checkout of v1\.0\.0"):
        check_release(tmp_path / "metrics", "1.0.0")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "tag", "v0.9.0")
    with pytest.raises(UsageError, match=r"is no unchanged checkout of v1\.0\.0"):
        check_release(tmp_path / "metrics", "1.0.0")
    git(tmp_path, "tag", "v1.0.0")
    (tmp_path / "notes.txt").write_text("not of the release")
    check_release(tmp_path / "metrics", "1.0.0")
    (tmp_path / "metrics" / "a.py").write_text("2\n")
    with pytest.raises(UsageError, match=r"is no unchanged checkout of v1\.0\.0"):
        check_release(tmp_path / "metrics", "1.0.0")


def test_the_script_asks_for_the_release_before_it_pushes(hub, script, monkeypatch):
    def untagged(folder, version):
        raise UsageError(f"{version} is not tagged.")

    monkeypatch.setattr("swapbias.hub.commands.check_release", untagged)
    assert script(NAME, "--namespace", "lab") == (2, "", f"swapbias: {__version__} is not tagged.\n")
    assert writes(hub) == []
