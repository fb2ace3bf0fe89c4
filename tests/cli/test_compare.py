"""swapbias compare: folders and repositories in one comparison."""

import csv
from dataclasses import replace

import pytest

from swapbias.cli.finished_runs import compare
from swapbias.cli.terminal import out
from swapbias.errors import UsageError
from swapbias.hub.shared_runs import shared_items
from swapbias.report import NO_RANKING
from swapbias.runs import Run
from tests.conftest import files_below
from tests.hub.clients import online
from tests.hub.server import LocalHub
from tests.hub.shared_runs import GAP, on_disk, shared


@pytest.fixture
def hub(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(out, "width", 160)
    with LocalHub() as running, online(monkeypatch, running, home=tmp_path / "hf-home"):
        yield running


def on_hub(hub, folder, repo="bob/audits", name="theirs", **more):
    """A run on disk in a repository, its scored rows as sharing makes them."""
    files = {f"runs/{name}/{path}": content for path, content in files_below(folder).items()}
    items = shared_items(Run(folder), {"gendered_stigma": Run(folder).items("gendered_stigma")})
    files |= {f"runs/{name}/{path}": content for path, content in items.items()}
    hub.add_repo("dataset", repo, files={**files, **more})


def printed(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_a_folder_and_a_repository_stand_in_one_comparison(hub, tmp_path, capsys):
    on_hub(hub, on_disk(tmp_path / "x", "other", 0.1), **shared("bad", status="running"))
    on_disk(tmp_path / "mine", "small", 0.3)
    compare(["mine", "bob/audits", "eve/gone"], tmp_path / "out")
    told = printed(capsys)
    assert "Left out: bob/audits/runs/bad is not complete." in told
    assert "Left out: eve/gone is not there" in told
    assert NO_RANKING in told
    with (tmp_path / "out" / "comparison.csv").open(newline="") as handle:
        found = [row for row in csv.DictReader(handle) if row["subset"] == "mental_health"]
    assert [row["cluster_vars"] or row["view"] for row in found[:2]] == ["templates + diagnoses", "as published"]
    assert float(found[0]["value"]) == pytest.approx(0.2)
    with (tmp_path / "out" / "side_by_side.csv").open(newline="") as handle:
        assert next(csv.DictReader(handle))["other @ bob/audits: value"] == "0.25"
    on_hub(hub, tmp_path / "mine", "lab/audits", "ours")
    compare(["bob/audits/theirs", "lab/audits"], tmp_path / "both")
    assert "other and small compared" in (tmp_path / "both" / "report.html").read_text()
    for number, names in enumerate((["mine", "bob/audits"], ["bob/audits", "mine"])):
        compare(names, tmp_path / str(number))
        with (tmp_path / str(number) / "side_by_side.csv").open(newline="") as handle:
            assert next(csv.DictReader(handle))["other @ bob/audits: value"] == "0.25"


def test_runs_without_scored_rows_stand_side_by_side_alone(hub, tmp_path, capsys):
    hub.add_repo("dataset", "bob/audits", files=shared("theirs", [replace(GAP, model_id="other")]))
    compare([str(on_disk(tmp_path / "mine")), "bob/audits/theirs@main"], tmp_path / "out")
    assert "other: gap, " in printed(capsys)
    assert not (tmp_path / "out" / "comparison.csv").exists()


def test_what_cannot_be_compared_is_one_sentence(hub, tmp_path):
    on_disk(tmp_path / "mine", "small")
    with pytest.raises(UsageError, match="1 run can be read, expected two or more"):
        compare(["mine"])
    with pytest.raises(UsageError, match="0 runs can be read, expected two or more: eve/gone is not there"):
        compare(["eve/gone"])
    with pytest.raises(UsageError, match="holds no run"):
        compare(["mine", "other"])
    hub.add_repo("dataset", "bob/audits", files=shared("theirs", [replace(GAP, subset="physical", unit="logit")]))
    with pytest.raises(UsageError, match="no experiment in common"):
        compare(["mine", "bob/audits"])
    with pytest.raises(UsageError, match="same run is named several times"):
        compare(["mine", "mine"])
