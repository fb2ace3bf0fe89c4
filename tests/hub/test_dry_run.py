"""A dry run of share and push needs neither token nor network, and shows unknown state as new."""

import pytest

from swapbias.studies.own import new_study
from tests.hub.clients import command, online, writes
from tests.hub.server import LocalHub


@pytest.fixture(params=["no token", "no network"])
def empty_hub(request, monkeypatch, tmp_path):
    """A Hub to which nobody is signed in, or one that is gone."""
    with LocalHub() as running:
        if request.param == "no token":
            with online(monkeypatch, running, home=tmp_path / "hf-home"):
                yield running
            return
    with online(monkeypatch, running, home=tmp_path / "hf-home"):
        yield running


def commands(run, folder):
    return {
        "results": ("share", run.folder, "--results", "alice/audits", "--dry-run"),
        "page": (
            "share",
            run.folder,
            "--results",
            "alice/audits",
            "--model",
            "alice/m",
            "--commit",
            "--audited",
            run.manifest()["models"][0]["model_id"],
            "--dry-run",
        ),
        "datasets": (
            "push",
            "datasets",
            "--namespace",
            "alice",
            "occupation_sentiment",
            "--dry-run",
        ),
        "metrics": ("push", "metrics", "--namespace", "alice", "paired_gap", "--dry-run"),
        "study": ("study", "push", folder, "alice/at_work", "--dry-run"),
    }


@pytest.mark.parametrize("name", ["results", "datasets", "metrics", "study"])
def test_dry_run_without_token_or_network(empty_hub, run, tmp_path, capsys, name):
    """A dry run shows what would be written without a token and without the network."""
    new_study(tmp_path / "at_work")
    assert command(*commands(run, tmp_path / "at_work")[name]) == 0
    printed, said = capsys.readouterr()
    assert "would be created" in printed + said
    assert "README.md (" in printed + said
    assert writes(empty_hub) == []


def test_dry_run_of_a_page_without_hub(monkeypatch, run, tmp_path, capsys):
    """A dry run without the Hub leaves the page of the model out and says so in one sentence."""
    with LocalHub() as gone:
        pass
    with online(monkeypatch, gone, home=tmp_path / "hf-home"):
        assert command(*commands(run, tmp_path)["page"]) == 0
    printed, said = capsys.readouterr()
    assert "The page of alice/m cannot be shown without the Hub." in printed + said
    assert "would be created" in printed + said


def test_share_needs_a_token(monkeypatch, run, tmp_path, capsys):
    """Without a token nothing is shared."""
    with LocalHub() as running, online(monkeypatch, running, home=tmp_path / "hf-home"):
        assert command("share", run.folder, "--results", "alice/audits") != 0
        assert writes(running) == []
    assert "token" in capsys.readouterr().err
