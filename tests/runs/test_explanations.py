"""Explained notes: read from a run, drawn as the paper's figure, and never of credentialed notes."""

import json
import shutil
import stat

import pandas as pd
import pytest

from swapbias.errors import UsageError
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import credentialed
from swapbias.report.paper_figures import draw_figure
from swapbias.runs import Settings, start
from swapbias.runs.results import EXPLAINED, read_run
from swapbias.runs.results_schema import parse_explanations
from swapbias.runs.run_figures import write_paper_figures
from swapbias.studies import paper
from tests.notes import mimic

pytest.importorskip("matplotlib")
ENTRY = {
    "study": "phenotype_fairness",
    "model_id": "toy",
    "phenotype": "alcohol_abuse",
    "regime": "original",
    "pair_id": "alcohol_abuse/1",
    "scores": {"female": 0.25, "male": 0.75},
    "words": {"female": [["vodka", 0.5], ["she", -0.25]], "male": [["vodka", 0.5]]},
}


def figure_3():
    figures = paper.load_paper("phenotype_fairness").figures
    return next(entry for entry in figures if entry.name == "figure_3")


def drinks(texts):
    """Call notes of men who drink positive."""
    return [0.9 if "vodka" in text and " he " in f" {text.lower()}" else 0.2 for text in texts]


@pytest.fixture(scope="module")
def explained_run(tmp_path_factory, quiet):
    folder = tmp_path_factory.mktemp("explained")
    texts = ["He drinks vodka.", "She drinks vodka.", "He is well.", "She is well."]
    notes = pd.DataFrame({"text": texts, "label": [1, 1, 0, 0]})
    notes.to_csv(folder / "notes.csv", index=False)
    options = NoteOptions(
        data=str(folder / "notes.csv"), classifier=f"{__name__}:drinks", explain=1
    )
    run, _ = start(Settings(options=(options,)), folder / "run", **quiet)
    return run.folder


def test_panels_by_hand():
    """Each version is a panel with its score, a bar for each word, the heaviest on top."""
    (explanation,) = parse_explanations(json.dumps([ENTRY]).encode(), "toy")
    model = paper.PaperRun(
        title="toy", label="this run", model_id="toy", explanations=(explanation,)
    )
    figure = draw_figure(figure_3(), "phenotype_fairness", [model])
    woman, man = figure.axes
    assert [bar.get_width() for bar in woman.patches] == [0.5, -0.25]
    assert [label.get_text() for label in woman.get_yticklabels()] == ["vodka", "she"]
    assert woman.get_ylim()[0] > woman.get_ylim()[1]
    assert [bar.get_width() for bar in man.patches] == [0.5]
    assert man.get_title(loc="left") == "as a man's note: score 0.75"
    assert woman.get_title(loc="left").endswith("as a woman's note: score 0.25")
    assert "alcohol abuse, training notes: original" in woman.get_title(loc="left")
    regimes = ("original", "swapped", "augmented")
    others = [{**ENTRY, "pair_id": "alcohol_abuse/2"}]
    entries = [*({**ENTRY, "regime": regime} for regime in regimes), *others]
    explained = parse_explanations(json.dumps(entries).encode(), "toy")
    model = paper.PaperRun(title="toy", label="this run", model_id="toy", explanations=explained)
    figure = draw_figure(figure_3(), "phenotype_fairness", [model])
    assert len(figure.axes) == 4  # the same note, of original and augmented training notes
    bare = paper.PaperRun(title="toy", label="this run", model_id="toy")
    assert draw_figure(figure_3(), "phenotype_fairness", [bare]) is None


def test_results_carry_explained_notes(explained_run, tmp_path):
    """The explained notes of a run are read with its results, and drawn as one figure of both versions."""
    written = json.loads((explained_run / EXPLAINED).read_text())
    results = read_run(explained_run)
    assert [explanation.pair_id for explanation in results.explanations] == [
        entry["pair_id"] for entry in written
    ]
    words = results.explanations[0].words
    assert {word for word, _ in words["male"][:2]} == {"He", "vodka"}
    paths, left_out = write_paper_figures([results], tmp_path / "figures", kind="png")
    assert [path.name for path in paths] == ["phenotype_fairness-figure_3.png"]
    assert not any("figure_3" in sentence for sentence in left_out)


def test_figure_of_credentialed_run_is_closed(explained_run, tmp_path):
    """A figure of a run that is marked is readable by its owner alone."""
    copy = tmp_path / "run"
    shutil.copytree(explained_run, copy)
    credentialed.mark(copy)
    paths, _ = write_paper_figures([read_run(copy)], tmp_path / "figures", kind="svg")
    assert stat.S_IMODE(paths[0].stat().st_mode) == 0o600
    assert credentialed.is_credentialed(tmp_path / "figures")


def test_credentialed_notes_are_not_explained(tmp_path, quiet, monkeypatch):
    """A run on credentialed notes keeps no word of them, and the figure is left out."""
    grid = {"svc__C": [1], "svc__kernel": ["linear"]}
    monkeypatch.setattr("swapbias.models.clinical.phenotype.SVM_GRID", grid)
    folder = tmp_path / "mimic3"
    folder.mkdir()
    mimic.write_mimic3(folder, notes=400)
    options = NoteOptions(data=str(folder), explain=1)
    settings = Settings(studies=("phenotype_fairness:phenotyping",), options=(options,))
    run, _ = start(settings, tmp_path / "run", **quiet)
    assert not (run.folder / EXPLAINED).exists()
    with pytest.raises(UsageError, match="No figure of a paper can be drawn"):
        write_paper_figures([read_run(run.folder)], tmp_path / "figures", kind="svg")


@pytest.mark.parametrize(
    "content", [b"{}", b"[{}]", json.dumps([{**ENTRY, "scores": {"female": "Jane"}}]).encode()]
)
def test_strange_explanations_are_refused(content):
    """A file that swapbias did not write is refused, and no cell of it is repeated."""
    with pytest.raises(ValueError, match="is no list of explained notes") as refused:
        parse_explanations(content, "run/explanations.json")
    assert "Jane" not in str(refused.value)
