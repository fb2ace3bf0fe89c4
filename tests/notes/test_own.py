"""A user's own labelled notes: the same rows from every format, and sentences for what is wrong."""

import csv
import gzip
import json

import pytest

from swapbias.notes.load import kind_of_folder, local_notes, own_notes
from swapbias.notes.rows import NOTE_COLUMNS

OWN = [
    {"Text": 'He said, "fine".\nShe left.', "label": "1", "gender": "F", "subject_id": "a"},
    {"Text": "He left.", "label": "false", "gender": "male", "subject_id": "b"},
]


def write_own(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "wt", newline="") as handle:
            writer = csv.DictWriter(handle, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("name", ["own.csv", "own.csv.gz", "own.jsonl", "own.parquet"])
def test_own_notes_are_the_same_in_every_format(tmp_path, name):
    path = write_own(tmp_path / name, OWN)
    assert kind_of_folder(path) == "own"
    first, second = local_notes(path)
    assert tuple(first) == NOTE_COLUMNS
    assert (first["text"], first["label"], first["gender"]) == (OWN[0]["Text"], "positive", "female")
    assert (second["label"], second["gender"]) == ("negative", "male")
    assert [row["note_id"] for row in (first, second)] == ["1", "2"]
    for row in (first, second):
        assert (row["phenotype"], row["split"], row["credentialed"]) == ("own", "test", "False")


def test_a_folder_with_train_and_test_files_says_the_split(tmp_path):
    write_own(tmp_path / "train.csv", OWN[:1])
    write_own(tmp_path / "test.csv", OWN[1:])
    named = [(row["split"], row["note_id"]) for row in own_notes(tmp_path)]
    assert named == [("train", "train-1"), ("test", "test-1")]
    rows = own_notes(write_own(tmp_path / "own.csv", [{"text": "a", "label": 0}]))
    assert (rows[0]["gender"], rows[0]["subject_id"]) == ("", "1")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"label": "2"}, "own.csv: row 2, column 'label': '2', expected 1, 0, positive"),
        ({"gender": "x"}, "own.csv: row 2, column 'gender': 'x', expected F, M, female or male"),
        ({"split": "dev"}, "own.csv: row 2, column 'split': 'dev', expected train or test"),
        ({"credentialed": "perhaps"}, "column 'credentialed': 7 characters, expected true or false"),
        ({"text": " "}, "own.csv: row 2, column 'text': blank, expected a note"),
        ({"note_id": "n1"}, "rows 1 and 2 have one note_id within a phenotype, expected two"),
        ({"split": "train", "subject_id": "s"}, "rows 1 and 2 have one subject_id, in train and test"),
    ],
)
def test_a_wrong_cell_of_own_notes_is_named(tmp_path, changes, sentence):
    good = {
        "text": "a", "label": "1", "gender": "F", "split": "test", "credentialed": "false",
        "note_id": "n1", "subject_id": "s",
    }  # fmt: skip
    path = write_own(tmp_path / "own.csv", [good, {**good, "note_id": "n2", "subject_id": "s", **changes}])
    with pytest.raises(ValueError, match=sentence):
        own_notes(path)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("own.csv", "text\na\n", "own.csv:1: no column 'label', found text"),
        ("own.csv", "", "own.csv is empty, expected a header line"),
        ("own.csv", "text,label\n", "own.csv: no rows"),
        ("own.jsonl", '{"text": "a", "label": 1}\n{"text":\n', "own.jsonl:2: no JSON"),
        ("own.jsonl", '["a"]\n', "own.jsonl:1: a list, expected one JSON object"),
        ("own.jsonl", '{"text": "a"}\n', "own.jsonl:1: no column 'label'"),
        ("own.parquet", "text", "own.parquet is no whole Parquet file"),
    ],
)
def test_a_broken_own_file_is_named(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=sentence):
        own_notes(tmp_path / name)
