"""A dry run of share and push needs no token and no network: what the Hub cannot say is shown as new."""

import pytest

from swapbias.studies import new_study
from tests.hub.clients import command, online, writes
from tests.hub.server import LocalHub


@pytest.fixture(params=["no token", "no network"])
def without(request, monkeypatch, tmp_path):
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
def test_what_would_be_written_is_shown_without_token_or_network(
    without, run, tmp_path, capsys, name
):
    new_study(tmp_path / "at_work")
    assert command(*commands(run, tmp_path / "at_work")[name]) == 0
    printed, said = capsys.readouterr()
    assert "would be created" in printed + said
    assert "README.md (" in printed + said
    assert writes(without) == []


def test_without_the_hub_the_page_of_a_model_is_left_out_in_one_sentence(
    monkeypatch, run, tmp_path, capsys
):
    with LocalHub() as gone:
        pass
    with online(monkeypatch, gone, home=tmp_path / "hf-home"):
        assert command(*commands(run, tmp_path)["page"]) == 0
    printed, said = capsys.readouterr()
    assert "The page of alice/m cannot be shown without the Hub." in printed + said
    assert "would be created" in printed + said


def test_without_a_token_nothing_is_shared_in_earnest(monkeypatch, run, tmp_path, capsys):
    with LocalHub() as running, online(monkeypatch, running, home=tmp_path / "hf-home"):
        assert command("share", run.folder, "--results", "alice/audits") != 0
        assert writes(running) == []
    assert "token" in capsys.readouterr().err
