"""Sharing a run: what never leaves, what a rehearsal shows, and the commands."""

import pandas as pd
import pytest

from swapbias import Audit
from swapbias.errors import UsageError
from swapbias.hub.client import Hub
from swapbias.hub.shared_runs import COMMIT, ShareOptions, share_run as share
from swapbias.privacy import credentialed
from tests.hub.clients import command, writes
from tests.hub.own_runs import edited
from tests.hub.sharing_runs import MODEL, put, statuses

pytestmark = pytest.mark.usefixtures("packed_once")


def test_a_credentialed_run_is_refused_before_anything_is_asked_of_the_hub(hub, run, tmp_path):
    held = edited(run, tmp_path / "held")
    credentialed.mark(held.folder)
    for more in ({}, {"findings_only": True}, {"dry_run": True}, {"model": "alice/m", "how": COMMIT}):
        with pytest.raises(UsageError, match="credentialed clinical data"):
            put(held, **more)
    with pytest.raises(UsageError, match="credentialed clinical data"):
        put(edited(run, tmp_path / "said", credentialed=True))
    assert hub.log == []


def test_a_key_in_any_file_stops_the_share(hub, run, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_API_KEY", "is a doctor")  # stands in the texts of the scored prompts
    with pytest.raises(UsageError, match=r"items/occupation_sentiment\.parquet holds the value of SWAPBIAS_API_KEY"):
        put(run)
    with pytest.raises(UsageError, match="holds the value of SWAPBIAS_API_KEY"):
        put(run, dry_run=True)
    assert ("dataset", "alice/audits") not in hub.repositories  # no empty one is left behind


def test_a_rehearsal_refuses_what_the_share_refuses(hub, run, tmp_path):
    place = tmp_path / "place"
    told = [{"study": "occupation_sentiment", "experiment": "x", "reason": f"no file {place} here"}]
    held = edited(run, place, skipped=told)
    for more in ({}, {"dry_run": True}):
        with pytest.raises(UsageError, match="names a place of this machine"):
            put(held, **more)
    assert ("dataset", "alice/audits") not in hub.repositories


def test_a_dry_run_writes_nothing_and_names_every_file(models, run):
    said = []
    wanted = ShareOptions(results="alice/audits", dry_run=True)
    assert statuses(share(run, wanted, Hub(), say=said.append)) == ["would be created"]
    assert writes(models) == []
    put(run)
    there = {path for path in models.files("dataset", "alice/audits") if path != ".gitattributes"}
    assert {line.split()[1] for line in said if line.startswith("  A ")} == there


SHARE = ("--results", "alice/audits", "--model", "alice/m", "--audited", MODEL, "--commit")


def test_the_commands_share_and_compare(models, run, capsys, tmp_path):
    assert command("share", run.folder, *SHARE) == 0
    assert "alice/m: updated." in capsys.readouterr().out
    assert command("compare", run.folder, "alice/audits", "alice/gone", "--out", tmp_path / "c") == 0
    told = capsys.readouterr().out
    assert "not a ranking" in told
    assert "alice/gone is not there" in told
    table = pd.read_csv(tmp_path / "c" / "side_by_side.csv")
    assert table[f"{MODEL} @ alice/audits: value"][0] == pytest.approx(-0.1)
    assert command("share", run.folder, "--results", "alice/audits", "--commit") == 2
    assert "--commit needs --model" in capsys.readouterr().err
    assert command("share", run.folder, *SHARE, "--again") == 2
    assert "--again needs --create-pr" in capsys.readouterr().err


def test_a_shared_run_is_checked_and_is_a_baseline(models, run, capsys, tmp_path):
    assert command("share", run.folder, *SHARE) == 0
    capsys.readouterr()
    alone = command("check", run.folder)
    assert command("check", "alice/audits") == alone
    assert command("check", run.folder, "--baseline", "alice/audits") == 0
    assert "both models score these prompts the same" in capsys.readouterr().out
    Audit.open(run.folder).assert_below(0.05, baseline="alice/audits")
    assert command("check", run.folder, "--baseline", "alice/gone") == 2
    assert "alice/gone is no folder here, and no run on the Hub" in capsys.readouterr().err
    manifest = run.manifest()
    other = [{**one, "sha256": "0" * 64} for one in manifest["corpora"]]
    run.write_manifest({**manifest, "corpora": other})
    assert command("check", run.folder, "--baseline", "alice/audits") == 2
    assert "the runs read different prompts" in capsys.readouterr().err


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["plain", "debug"])
def test_trouble_is_one_sentence_and_never_shows_the_token(models, run, capsys, debug):
    models.fail("*", r"/api/", status=500, times=-1)
    assert command("share", run.folder, "--results", "alice/audits", *debug) == 1
    told = capsys.readouterr()
    assert "The Hub has trouble of its own" in told.err
    assert "hf_alice" not in told.err + told.out
    if not debug:
        assert told.err.count("\n") == 1
