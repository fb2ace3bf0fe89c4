"""Table II of Sogancioglu et al.: the printed sizes, and the notes that runs tested."""

import pandas as pd

from swapbias.findings import disaggregate
from swapbias.models.clinical import NoteOptions
from swapbias.notes.load import load_notes
from swapbias.report.paper_tables import tables_of_page
from swapbias.runs.task_rows import note_rows
from swapbias.studies import corpus_dir, load_study, read_table
from tests.notes import mimic
from tests.runs.test_clinical import TEN_NOTES

NAME = "phenotype_fairness"


def table_of(data):
    """Table II beside a run of a classifier that calls every note negative, and the run's rows."""
    notes = load_notes(NoteOptions(data=str(data), classifier="own"), 0)
    experiment = load_study(NAME).experiments[0]
    rows = pd.DataFrame(note_rows(experiment, notes, notes.pairs(), trains=True)).assign(
        model_id="none", predicted=0.0, score=0.0, top_tokens="[]"
    )
    found = disaggregate(rows, NAME, expected={})
    named = {table.name: table for table in tables_of_page({}, found, {NAME: rows})}
    return named["table_2"], rows


def test_notes_counted_by_hand(tmp_path):
    """Of ten notes two of women and two of men are positive, three and three negative."""
    pd.DataFrame(TEN_NOTES, columns=["text", "label"]).to_csv(tmp_path / "notes.csv", index=False)
    table, _ = table_of(tmp_path / "notes.csv")
    assert table.flat_heads[-4:] == [
        "test, positive F",
        "test, positive M",
        "test, negative F",
        "test, negative M",
    ]
    assert table.lines[-1][1:] == ("this run", *"––––", "2", "2", "3", "3")


def test_printed_sizes(tmp_path):
    """The printed lines hold the texts of split_sizes.csv; notes of MIMIC-III are counted once, not by regime."""
    mimic.write_mimic3(tmp_path, notes=600)
    table, rows = table_of(tmp_path)
    columns = ("phenotype", "split", "gender", "label", "notes", "source")
    sizes = [
        row["notes"]
        for row in read_table(corpus_dir("clinical_notes") / "split_sizes.csv", columns)
    ]
    printed = [cell for line in table.lines if line[1] == "printed" for cell in line[2:]]
    assert (len(printed), sorted(printed)) == (32, sorted(sizes))
    of_run = [line for line in table.lines if line[1] == "this run"]
    assert len(of_run) == 4
    tested = sum(int(cell) for line in of_run for cell in line[6:])
    assert tested == len(rows) / 2 / rows["construct"].nunique()  # of two versions in each regime
