"""Clinical notes in local folders: read unchanged, labelled by vote, and never quoted in an
error."""

import json
import tracemalloc
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.models.clinical import NoteOptions
from swapbias.notes.annotations import VOTES
from swapbias.notes.diagnosis_codes import coded_notes, phenotypes_of_code
from swapbias.notes.load import kind_of_folder, load_notes, local_notes, own_notes, stream_notes
from swapbias.notes.note_rows import NOTE_COLUMNS, PHENOTYPES, named_rows
from swapbias.notes.subject_split import affordable_sizes, split_notes
from swapbias.swapping.row_formats import LONGEST
from tests.notes.mimic import CASES, write_mimic3, write_mimic4
from tests.tables import rows_of, write


@pytest.mark.parametrize("gz", [False, True])
def test_mimic3_notes(tmp_path, gz):
    """Notes of MIMIC-III come back as written."""
    write_mimic3(tmp_path / "in", notes=60, gz=gz)
    write_mimic3(tmp_path / "plain", notes=60)
    written = [row for row in rows_of(tmp_path / "plain/NOTEEVENTS.csv") if row["ISERROR"] != "1"]
    assert kind_of_folder(tmp_path / "in") == "mimic3"
    found = list(stream_notes(tmp_path / "in"))
    assert len(found) == 60 - 60 // 11
    for row, source in zip(found, written, strict=True):
        assert (row["note_id"], row["text"]) == (source["ROW_ID"], source["TEXT"])
        assert (row["hadm_id"], row["charttime"]) == (source["HADM_ID"], source["CHARTTIME"])
        assert row["gender"] == ("female" if int(source["SUBJECT_ID"]) % 2 == 0 else "male")
        assert row["credentialed"] == "True"
    assert any('"I feel fine", and' in row["text"] and "\n" in row["text"] for row in found)


@pytest.mark.parametrize("gz", [False, True])
def test_mimic4_notes(tmp_path, gz):
    """Notes of MIMIC-IV come back with the patient's gender."""
    write_mimic4(tmp_path, notes=30, gz=gz)
    assert kind_of_folder(tmp_path) == "mimic4"
    found = list(stream_notes(tmp_path))
    assert [row["note_id"] for row in found[:3]] == ["0-DS-1", "1-DS-2", "1-DS-3"]
    assert [row["gender"] for row in found[:3]] == ["female", "male", "male"]
    assert {row["credentialed"] for row in found} == {"True"}
    assert {row["note_type"] for row in found} == {"DS"}
    for path in (tmp_path / "hosp").iterdir():
        path.unlink()
    assert {row["gender"] for row in stream_notes(tmp_path)} == {""}


def test_streaming(tmp_path):
    """Streaming holds a small part of the file in memory."""
    write_mimic3(tmp_path, notes=12_600, annotated=False)  # 24 MB
    tracemalloc.start()
    try:
        rows = sum(1 for _ in stream_notes(tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows > 10_000
    assert peak < 12e6  # a batch of rows, not 24 MB


def test_unknown_folder(tmp_path):
    """An unknown folder is refused with the files that were expected."""
    with pytest.raises(UsageError, match=r"Looked for NOTEEVENTS.csv and PATIENTS.csv"):
        kind_of_folder(tmp_path)
    write_mimic3(tmp_path, notes=5)
    with pytest.raises(UsageError, match="Give the folder that contains it"):
        kind_of_folder(tmp_path / "NOTEEVENTS.csv")
    (tmp_path / "PATIENTS.csv").unlink()
    with pytest.raises(UsageError, match="Looked for NOTEEVENTS"):
        kind_of_folder(tmp_path)
    write_mimic3(tmp_path, notes=5)
    (tmp_path / "PATIENTS.csv").write_text("SUBJECT_ID,SEX\n1,F\n")
    with pytest.raises(
        ValueError, match=r"PATIENTS.csv:1: no column 'gender', found SUBJECT_ID, SEX"
    ):
        list(stream_notes(tmp_path))


@pytest.mark.parametrize("by_row", [False, True])
def test_annotated_notes(tmp_path, by_row):
    """Annotated notes have the planted labels."""
    planted = write_mimic3(tmp_path, notes=120, by_row=by_row)
    texts = {row["note_id"]: row["text"] for row in stream_notes(tmp_path)}
    rows = local_notes(tmp_path)
    assert all(tuple(row) == NOTE_COLUMNS for row in rows)
    assert {row["credentialed"] for row in rows} == {"True"}
    for row in rows:
        assert row["text"] == texts[row["note_id"]]
        if row["phenotype"] in ("depression", "alcohol_abuse"):
            assert planted[row["phenotype"], row["note_id"]] == row["label"]
    found = {(row["phenotype"], row["note_id"]) for row in rows}
    depression = {key for key in planted if key[0] == "depression"}
    assert len(found & depression) > 0.7 * len(depression)  # the rest found no place in a split
    cases = [
        {int(note) % len(CASES) for _, note in some} for some in (found & depression, depression)
    ]
    assert cases[0] == cases[1]  # of votes


def no_subject_is_in_both_splits(rows):
    for phenotype in PHENOTYPES:
        mine = [row for row in rows if row["phenotype"] == phenotype]
        train, test = (
            {row["subject_id"] for row in mine if row["split"] == split}
            for split in ("train", "test")
        )
        assert train
        assert not train & test


@pytest.fixture
def folder(tmp_path):
    write_mimic3(tmp_path, notes=400)
    return tmp_path


def test_splits(folder):
    """Splits share no subject and depend on the seed alone."""
    before = local_notes(folder)
    no_subject_is_in_both_splits(before)
    assert local_notes(folder) == before
    assert local_notes(folder, seed=1) != before
    path = folder / "annotations.csv"
    write(
        path,
        [{name: cell for name, cell in row.items() if name != "None"} for row in rows_of(path)],
    )
    assert local_notes(folder) == before


def test_unusable_annotations(folder):
    """Annotations that cannot be used are refused with the reason."""
    path = folder / "annotations.csv"
    text = path.read_text()
    path.write_text(text.replace(",0,0", ",0,maybe", 1))
    with pytest.raises(
        ValueError, match=r"annotations.csv: row \d+, column .* 5 characters, expected 0 or 1"
    ):
        local_notes(folder)
    path.write_text(text.splitlines()[0] + "\n1,2,,Nursing Notes,0,0,1,0,0,0,0,0\n")
    with pytest.raises(ValueError, match="none of its 1 notes is in NOTEEVENTS"):
        local_notes(folder)
    (folder / "again.csv").write_text(text)
    with pytest.raises(
        UsageError, match=r"annotation files found: again.csv, annotations.csv, expected one CSV"
    ):
        local_notes(folder)
    for name in ("again.csv", "annotations.csv"):
        (folder / name).unlink()
    with pytest.raises(UsageError, match="annotation files found: none"):
        local_notes(folder)


def test_small_split():
    """A split with too few notes shrinks in proportion."""
    # 30 were wanted 20 : 10, nine are there: six and three.
    cell = ("female", "positive")
    plenty = ("male", "negative")
    wanted = {"train": {cell: 20, plenty: 2}, "test": {cell: 10, plenty: 1}}
    quota = affordable_sizes({cell: 9, plenty: 50}, wanted)
    assert quota == {"train": {cell: 6, plenty: 2}, "test": {cell: 3, plenty: 1}}
    rows = [{"subject_id": str(n), "gender": "female", "label": "positive"} for n in range(9)]
    rows += [{"subject_id": f"m{n}", "gender": "male", "label": "negative"} for n in range(50)]
    counts = Counter(
        (row["split"], (row["gender"], row["label"])) for row in split_notes(rows, wanted, seed="0")
    )
    assert counts == {(split, one): n for split, cells in quota.items() for one, n in cells.items()}


def test_first_report_of_an_admission(tmp_path):
    """The first report of an admission stands for its discharge summaries."""
    write_mimic3(tmp_path, notes=12)
    path = tmp_path / "NOTEEVENTS.csv"
    rows = rows_of(path)
    third = rows[2]  # the first discharge summary: positive for neither, negative for all
    addendum = {**third, "ROW_ID": "900", "DESCRIPTION": "Addendum", "TEXT": "Addendum."}
    write(path, [addendum, *rows, {**third, "ROW_ID": "901", "TEXT": "A second report."}])
    ids = {row["note_id"] for row in local_notes(tmp_path)}
    assert third["ROW_ID"] in ids
    assert not ids & {"900", "901"}


@pytest.mark.parametrize(
    ("code", "version", "wanted"),
    [
        ("F32.9", "10", {"depression"}),
        ("F329", "10", {"depression"}),
        (
            "F315",
            "10",
            {"depression", "psychiatric_disorders"},
        ),  # a depressive episode with psychotic symptoms
        ("F10", "9", set()),  # a code of the other version
        ("2910", "9", set()),  # Quan et al. leave delirium tremens out
        ("29181", "9", {"alcohol_abuse"}),
        ("30500", "9", {"alcohol_abuse"}),
        ("3051", "9", set()),  # tobacco
        ("F17210", "10", set()),  # tobacco
        ("F1120", "10", {"substance_abuse"}),
        ("29570", "9", {"psychiatric_disorders"}),
        ("", "10", set()),
    ],
    ids=[
        "depression",
        "without point",
        "two phenotypes",
        "other version",
        "delirium",
        "alcohol",
        "abuse of alcohol",
        "tobacco",
        "tobacco 10",
        "opioids",
        "psychosis",
        "none",
    ],
)
def test_codes_of_phenotypes(code, version, wanted):
    """Codes stand for phenotypes as published."""
    assert phenotypes_of_code(code, version) == wanted


@pytest.mark.parametrize("gz", [False, True])
def test_labels_of_mimic4(tmp_path, gz):
    """Notes of MIMIC-IV have the labels of their admission."""
    planted = write_mimic4(tmp_path, notes=240, gz=gz)
    texts = {row["note_id"]: row["text"] for row in stream_notes(tmp_path)}
    rows = local_notes(tmp_path)
    assert {row["phenotype"] for row in rows} == set(PHENOTYPES)
    assert {row["label"] for row in rows} == {"positive", "negative"}
    for row in rows:
        assert tuple(row) == NOTE_COLUMNS
        assert planted[row["phenotype"], row["note_id"]] == row["label"]
        assert row["text"] == texts[row["note_id"]]
        assert row["gender"] == ("female" if int(row["subject_id"]) % 2 == 0 else "male")
        assert row["credentialed"] == "True"
    no_subject_is_in_both_splits(rows)
    assert local_notes(tmp_path) == rows


def test_mimic4_without_codes(tmp_path):
    """Notes of MIMIC-IV without codes can be swapped, and labels are refused with what they need."""
    write_mimic4(tmp_path, notes=20)
    codes = tmp_path / "hosp" / "diagnoses_icd.csv"
    codes.write_text("subject_id,hadm_id,seq_num,icd_code,icd_version\n1,999999,1,F329,10\n")
    with pytest.raises(ValueError, match=r"it has none of the admissions of discharge.csv"):
        coded_notes(tmp_path)
    codes.unlink()
    with pytest.raises(
        UsageError, match=r"no diagnoses_icd.csv, which the labels of MIMIC-IV notes"
    ):
        local_notes(tmp_path)
    assert sum(1 for _ in stream_notes(tmp_path)) == 20


def test_too_long_texts(tmp_path):
    """Only texts that are read are refused as too long, by the length of the text and not of its
    encoding."""
    beside = {"text": ["one", "two"], "image": [b"x" * (LONGEST + 99)] * 2}
    pq.write_table(pa.table(beside), tmp_path / "beside.parquet", use_dictionary=False)
    assert [row["text"] for row in named_rows(tmp_path / "beside.parquet", ("text",))] == [
        "one",
        "two",
    ]
    text = "Она " * (
        LONGEST // 12
    )  # a third of its letters are blanks: seven bytes of it, 19 in ASCII
    (tmp_path / "spelled.jsonl").write_text(json.dumps({"text": text}) + "\n")
    assert (tmp_path / "spelled.jsonl").stat().st_size > LONGEST > len(text.encode())
    assert [row["text"] for row in named_rows(tmp_path / "spelled.jsonl", ("text",))] == [text]
    coded = pa.array(["short", "z" * (LONGEST + 1), "short"]).dictionary_encode()
    pq.write_table(pa.table({"text": coded}), tmp_path / "coded.parquet")
    with pytest.raises(
        ValueError, match=r"row 2 below the header, column 'text', is longer than 8 MB"
    ):
        list(named_rows(tmp_path / "coded.parquet", ("text",)))


OWN_NOTES = [
    {"Text": 'He said, "fine".\nShe left.', "label": "1", "gender": "F", "subject_id": "a"},
    {"Text": "He left.", "label": "false", "gender": "male", "subject_id": "b"},
]


@pytest.mark.parametrize("name", ["own.csv", "own.csv.gz", "own.jsonl", "own.parquet"])
def test_formats_of_own_notes(tmp_path, name):
    """Notes of a user are the same in every format."""
    path = write(tmp_path / name, OWN_NOTES)
    assert kind_of_folder(path) == "own"
    first, second = local_notes(path)
    assert tuple(first) == NOTE_COLUMNS
    assert (first["text"], first["label"], first["gender"]) == (
        OWN_NOTES[0]["Text"],
        "positive",
        "female",
    )
    assert (second["label"], second["gender"]) == ("negative", "male")
    assert [row["note_id"] for row in (first, second)] == ["1", "2"]
    for row in (first, second):
        assert (row["phenotype"], row["split"], row["credentialed"]) == ("own", "test", "False")


def test_train_and_test_files(tmp_path):
    """A folder with train and test files declares the split."""
    write(tmp_path / "train.csv", OWN_NOTES[:1])
    write(tmp_path / "test.csv", OWN_NOTES[1:])
    named = [(row["split"], row["note_id"]) for row in own_notes(tmp_path)]
    assert named == [("train", "train-1"), ("test", "test-1")]
    (row,) = own_notes(
        write(tmp_path / "own.csv", [{"text": "a", "label": 0, "phenotype": " falls\nat night"}])
    )
    assert (row["gender"], row["subject_id"], row["phenotype"]) == ("", "1", "falls at night")


def test_unknown_genders(tmp_path):
    """A note of unknown gender makes no pair and is counted; a blank cell is read from the text."""
    genders = ["F", "", "X", "other", "Unknown", "Prefer not to say", "undetermined"]
    rows = [{"text": "She fell.", "label": 1, "gender": gender} for gender in genders]
    path = write(tmp_path / "own.csv", rows)
    notes = load_notes(NoteOptions(data=str(path)), 0, trains=False)
    assert [note["gender"] for note in notes.rows] == ["female", "female", *[""] * 5]
    assert [row["pair_id"] for row in notes.pairs()] == ["own/1", "own/1", "own/2", "own/2"]
    assert "5 of 7 test notes left out: their gender is not known" in notes.remarks()


@pytest.mark.parametrize("columns", ["public", "admission", "mimic"])
def test_public_annotations(tmp_path, columns):
    """The public annotations are of the discharge summary of an admission and patient."""
    write_mimic3(tmp_path, notes=120)
    path = tmp_path / "annotations.csv"
    admission, subject = (
        ("HADM_ID", "SUBJECT_ID") if columns == "mimic" else ("Hospital.Admission.ID", "subject.id")
    )
    rows = []
    expected = set()
    for number, note in enumerate(rows_of(tmp_path / "NOTEEVENTS.csv")):
        is_summary = note["CATEGORY"] == "Discharge summary" and note["ISERROR"] != "1"
        key = {admission: note["HADM_ID"], subject: note["SUBJECT_ID"]}
        if columns == "public":
            key |= {"chart.time": "999999", "cohort": str(number % 2)}
        rows.append(key | dict.fromkeys(VOTES, "0") | {"Depression": "1", "Dementia": "0"})
        if is_summary:
            expected.add(note["ROW_ID"])
    write(path, rows)
    rows = local_notes(tmp_path)
    assert {row["label"] for row in rows} == {"positive"}
    assert {row["phenotype"] for row in rows} == {"depression"}
    labelled = {row["note_id"] for row in rows}
    assert labelled
    assert labelled <= expected


GOOD = {
    "text": "a", "label": "1", "gender": "F", "split": "test", "credentialed": "false",
    "note_id": "n1", "subject_id": "s",
}  # fmt: skip
WRONG = [
    ({"label": "2"}, "own.csv: row 2, column 'label': '2', expected 1, 0, positive"),
    ({"gender": "w"}, "own.csv: row 2, column 'gender': 'w', expected F, M, female or male"),
    ({"split": "dev"}, "own.csv: row 2, column 'split': 'dev', expected train or test"),
    ({"credentialed": "perhaps"}, "column 'credentialed': 7 characters, expected true or false"),
    ({"text": " "}, "own.csv: row 2, column 'text': blank, expected a note"),
    ({"note_id": "n1"}, "rows 1 and 2 have one note_id within a phenotype, expected two"),
    ({"split": "train", "subject_id": "s"}, "rows 1 and 2 have one subject_id, in train and test"),
]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        *(([GOOD, {**GOOD, "note_id": "n2", **changes}], sentence) for changes, sentence in WRONG),
        ([{"text": "a"}], "own.csv:1: no column 'label', found text"),
        ({"text": [], "label": []}, "own.csv: no rows"),
    ],
)
def test_wrong_cell_of_own_notes(tmp_path, rows, sentence):
    """A wrong cell or table of a user's notes is refused with its place."""
    with pytest.raises(ValueError, match=sentence):
        own_notes(write(tmp_path / "own.csv", rows))
