"""swapbias compare: folders and repositories in one comparison."""

from dataclasses import replace

import pandas as pd
import pytest

from swapbias.cli.finished_runs import compare
from swapbias.cli.terminal import out
from swapbias.errors import UsageError
from swapbias.hub.bundle import shared_items
from swapbias.report import NO_RANKING
from swapbias.runs import Run
from tests.conftest import files_below
from tests.hub.clients import online
from tests.hub.server import LocalHub
from tests.hub.shared_runs import GAP, on_disk, run_files


@pytest.fixture
def hub(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(out, "width", 160)
    with LocalHub() as running, online(monkeypatch, running, home=tmp_path / "hf-home"):
        yield running


def put_on_hub(hub, folder, repo="bob/audits", name="theirs", **options):
    """A run on disk in a repository, its scored rows as sharing makes them."""
    files = {f"runs/{name}/{path}": content for path, content in files_below(folder).items()}
    items = shared_items(Run(folder), {"gendered_stigma": Run(folder).items("gendered_stigma")})
    files |= {f"runs/{name}/{path}": content for path, content in items.items()}
    hub.add_repo("dataset", repo, files={**files, **options})


def printed(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_folder_and_repository(hub, tmp_path, capsys):
    """A folder and a repository stand in one comparison, and unreadable runs are left out by name."""
    put_on_hub(hub, on_disk(tmp_path / "x", "other", 0.1), **run_files("bad", status="running"))
    on_disk(tmp_path / "mine", "small", 0.3)
    compare(["mine", "bob/audits", "eve/gone"], tmp_path / "out")
    text = printed(capsys)
    for part in (
        "Left out: bob/audits/runs/bad is not complete.",
        "Left out: eve/gone is not there",
        NO_RANKING,
    ):
        assert part in text
    found = (
        pd.read_csv(tmp_path / "out" / "comparison.csv").query("subset == 'mental_health'").iloc[:2]
    )
    assert found["cluster_vars"].fillna(found["view"]).tolist() == [
        "templates + diagnoses",
        "as published",
    ]
    assert found["contrast"].unique().tolist() == ["other - small"]
    assert found["value"].iloc[0] == pytest.approx(-0.2)  # 0.1 - 0.3
    assert "\N{MINUS SIGN}20.0" in (tmp_path / "out" / "report.html").read_text()
    put_on_hub(hub, tmp_path / "mine", "lab/audits", "ours")
    compare(["bob/audits/theirs", "lab/audits"], tmp_path / "both")
    assert "other and small compared" in (tmp_path / "both" / "report.html").read_text()
    compare(["bob/audits", "mine"], tmp_path / "turned")
    for place in ("out", "turned"):
        assert (
            pd.read_csv(tmp_path / place / "side_by_side.csv")["other @ bob/audits: value"][0]
            == 0.25
        )


def test_runs_without_scored_rows(hub, tmp_path, capsys):
    """Runs without scored rows stand side by side without differences."""
    hub.add_repo(
        "dataset", "bob/audits", files=run_files("theirs", [replace(GAP, model_id="other")])
    )
    compare([str(on_disk(tmp_path / "mine")), "bob/audits/theirs@main"], tmp_path / "out")
    assert "other: gap, " in printed(capsys)
    assert not (tmp_path / "out" / "comparison.csv").exists()


def test_impossible_comparison(hub, tmp_path):
    """A comparison without two readable runs of equal quantities is refused in one sentence."""
    on_disk(tmp_path / "mine", "small")
    hub.add_repo(
        "dataset",
        "bob/audits",
        files=run_files("theirs", [replace(GAP, subset="physical", unit="logit")]),
    )
    for names, sentence in (
        (["mine"], "1 run can be read, expected two or more"),
        (["eve/gone"], "0 runs can be read, expected two or more: eve/gone is not there"),
        (["mine", "other"], "contains no run"),
        (["mine", "bob/audits"], "no experiment in common"),
        (["mine", "mine"], "same run is named several times"),
    ):
        with pytest.raises(UsageError, match=sentence):
            compare(names)
