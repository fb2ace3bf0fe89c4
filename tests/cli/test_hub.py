"""swapbias push and pull: what the scripts of a checkout do, for whoever installed a wheel."""

import json

from typer.testing import CliRunner

from swapbias.cli import app
from swapbias.runs import Run
from tests.hub.conftest import hub  # noqa: F401 - a fixture
from tests.hub.shared_runs import MANIFEST, on_disk

SMALL = "phenotype_fairness"


def swapbias(capfd, *arguments):
    """Exit code and what was said; jobs write to the streams themselves."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    return done.exit_code, done.output + "".join(capfd.readouterr())


def test_a_corpus_goes_there_and_comes_back(hub, capfd, tmp_path):  # noqa: F811
    code, told = swapbias(capfd, "push", "datasets", SMALL, "--namespace", "alice", "--private")
    assert (code, f"alice/{SMALL}: created (private), v3.0.0 at " in told) == (0, True)
    code, told = swapbias(capfd, "pull", "datasets", "alice", "--out", tmp_path, "--revision", "v3.0.0")
    assert (code, f"alice/{SMALL} v3.0.0" in told) == (0, True)
    assert hub.tags("dataset", f"alice/{SMALL}")["v3.0.0"][:8] in told
    assert (tmp_path / SMALL / "README.md").is_file()


def test_several_runs_go_to_one_repository_and_come_back(hub, capfd, tmp_path):  # noqa: F811
    settings = MANIFEST["settings"] | {"load": {"dtype": "float32"}}
    runs = [on_disk(tmp_path / str(seed), settings=settings | {"seed": seed}) for seed in (1, 2)]
    for run in runs:
        made = Run(run)
        made.write_manifest(made.manifest() | {"sha256": made.sums()})
        code, told = swapbias(capfd, "share", run, "--results", "alice/audits", "--findings-only")
        assert (code, "alice/audits: " in told) == (0, True), told
    code, told = swapbias(capfd, "pull", "results", "alice/audits", "--out", tmp_path / "out")
    assert (code, "open them as you would a page of a stranger's" in told) == (0, True)
    found = (tmp_path / "out/alice/audits/runs").iterdir()
    assert {json.loads((run / "manifest.json").read_text())["settings"]["seed"] for run in found} == {1, 2}
