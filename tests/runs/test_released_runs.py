"""Released outputs become runs, whose tables, figures and pages say that no model was read."""

import csv

import pytest
from typer.testing import CliRunner

from swapbias.cli import app
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.hub.bundle import bundle_run
from swapbias.privacy import public_manifest
from swapbias.runs import Run, read_run
from swapbias.runs.command import repeat_command
from swapbias.runs.released_runs import write_released_runs

STUDY = "gendered_stigma"
SOURCE = "LucilleN/MH-Stigma-in-Masked-LMs at commit f4ff3a7bceac"


def command(*words):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture(scope="module")
def folder(upstream, tmp_path_factory):
    """The folder of the runs that the command writes."""
    pytest.importorskip("torch", reason="needs the extra audit")
    folder = tmp_path_factory.mktemp("released") / "runs"
    done = command("reproduce", STUDY, "--out", folder)
    assert done.exit_code == 0, done.output
    assert "No model was read: these are released outputs." in done.output
    return folder


def test_tables_print_the_numbers_of_the_paper(folder, tmp_path):
    """Of the run of RoBERTa's released outputs all 200 cells of Tables 3 to 6 are as Lin et al. print them."""
    run = folder / f"{STUDY}-roberta-large"
    done = command("tables", run, "--out", tmp_path / "tables")
    assert done.exit_code == 0, done.output
    count = 0
    for number in (3, 4, 5, 6):
        text = (tmp_path / "tables" / f"{STUDY}-table_{number}.csv").read_text(encoding="utf-8")
        header, *lines = csv.reader(text.splitlines())
        numbers = header.index("numbers")
        cells = {"printed": {}, "released outputs": {}}
        for line in lines:
            if line[0] == "RoBERTa":
                cells[line[numbers]][(*line[:numbers],)] = line[numbers + 1 :]
        assert cells["printed"] == cells["released outputs"]
        count += sum(map(len, cells["printed"].values()))
    assert count == 200


def test_figures_of_released_outputs(folder, tmp_path):
    """Figures 3 and 4 of the paper are drawn of the run."""
    run = folder / f"{STUDY}-roberta-large"
    done = command(
        "figures", run, "--style", "paper", "--format", "svg", "--out", tmp_path / "drawn"
    )
    assert done.exit_code == 0, done.output
    names = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert names == {f"{STUDY}-figure_3.svg", f"{STUDY}-figure_4.svg"}


def test_run_says_that_no_model_was_read(folder):
    """Manifest and page say whose outputs they are, also where others see them."""
    run = Run.open(folder / f"{STUDY}-roberta-large")
    sentence = (
        f"Released outputs of RoBERTa, from {SOURCE}. No model was read here: the scores are those that the authors "
        "published."
    )
    manifest = run.manifest()
    assert manifest["released"] == sentence
    assert public_manifest(manifest)["released"] == sentence
    assert repeat_command(manifest) == f"swapbias reproduce {STUDY} --out FOLDER"
    assert [entry["rows"] for entry in manifest["corpora"]] == [1122, 1188]
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert sentence in page
    assert "released outputs" in page[page.index('id="tables"') :]
    assert "audit RUN/manifest.json" not in page
    assert "What differs from the paper" not in page


def test_released_outputs_are_not_shared(folder):
    """A run of what others released is no audit, and no results repository takes it."""
    with pytest.raises(UsageError, match="outputs that others released"):
        bundle_run(Run.open(folder / f"{STUDY}-roberta-large"), findings_only=True)


def test_rows_and_findings_are_read_again(folder):
    """The run holds each released score, and the paper's test of them."""
    results = read_run(folder / f"{STUDY}-roberta-large")
    items = results.items[STUDY]
    assert len(items) == 1122 + 1188
    mean = items[(items["experiment"] == "rq1") & (items["label"] == "mental_health")]
    assert round(mean[mean["group"] == "female"]["score"].mean(), 4) == 0.3206
    assert {finding.published.value for finding in results.found if finding.published} > {"0.3206"}


def test_outputs_of_which_there_is_no_run(audits, upstream, tmp_path, monkeypatch):
    """Counts are no run, a study without outputs is refused, and a folder that holds something too."""
    runs, left_out = write_released_runs(["social_distance"], tmp_path / "runs")
    assert len(runs) == 2
    counts = "social_distance, six masked models: counts were released, and no scored outputs."
    assert counts in left_out
    with pytest.raises(UsageError, match="phenotype_fairness released no scored outputs"):
        write_released_runs(["phenotype_fairness"], tmp_path / "none")
    with pytest.raises(UsageError, match="is not an empty folder"):
        write_released_runs(["social_distance"], tmp_path / "runs")
    assert isinstance(command("reproduce", "--out", tmp_path / "none").exception, UsageError)
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    with pytest.raises(UpstreamMissingError, match="No released output of gest was found"):
        write_released_runs(["gest"], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_folder_is_named_by_study_and_model(audits, upstream, tmp_path):
    """A name with brackets and spaces gives a folder that a shell takes as it is."""
    (run,), left_out = write_released_runs(["occupation_sentiment"], tmp_path / "runs")
    assert run.folder.name == "occupation_sentiment-bert-base-uncased-fine-tuned-on-SST-2"
    assert len(run.items("occupation_sentiment")) == 840
    assert len(left_out) == 2
