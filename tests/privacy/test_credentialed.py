"""One rule tells credentialed notes, whoever reads them; what is made of them is marked and its user's alone."""

import csv
import gzip
import json
import os
import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swapbias.cli import app
from swapbias.errors import UsageError
from swapbias.hub import own_study
from swapbias.models.clinical import NoteOptions
from swapbias.notes.load import local_notes
from swapbias.privacy import credentialed, is_credentialed, writing
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
from swapbias.swapping import Job, swap_files
from tests.cli.test_cli import refused, swapbias

TEXTS = ("She was seen for her knee.", "He was seen for his knee.")
OWN = [
    {"text": text, "label": str(number % 2), "gender": "FM"[number], "group": "FM"[number], "pair": "a"}
    for number, text in enumerate(TEXTS)
]
CLASSIFIER = "tests.privacy.test_credentialed:fixed"


def fixed(texts):
    """A classifier of the user's own."""
    return [0.2 + (len(text) % 7) / 10 for text in texts]


def table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.lower()
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif ".jsonl" in name:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        with gzip.open(path, "wt", newline="") if name.endswith(".gz") else path.open("w", newline="") as handle:
            writer = csv.DictWriter(handle, rows[0], delimiter="\t" if ".tsv" in name else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def with_column(**more):
    return [{**row, **more, "note_id": f"1-DS-{number}"} for number, row in enumerate(OWN)]


def beside(name, rows=({"a": "1"},)):
    def make(folder):
        table(folder / name, list(rows))
        return table(folder / "labelled.csv", OWN)

    return make


def columns(name, **more):
    return lambda folder: table(folder / name, with_column(**more))


def marked(folder):
    credentialed.mark(folder)
    return table(folder / "deep" / "own.csv", OWN)


def saying(folder):
    (folder / "swap.json").write_text('{"credentialed": true}')
    return table(folder / "data" / "own.parquet", OWN)


MIMIC4 = {"subject_id": "1", "hadm_id": "2", "charttime": "2180-05-07"}
HELD = {
    "beside NOTEEVENTS.csv": beside("NOTEEVENTS.csv"),
    "beside noteevents.csv.gz": beside("noteevents.csv.gz"),
    "beside NoteEvents.parquet": beside("NoteEvents.parquet"),
    "beside note/discharge.csv.gz": beside("note/discharge.csv.gz"),
    "beside radiology.csv": beside("radiology.csv"),
    "beside ADMISSIONS": beside("ADMISSIONS.csv", ({"SUBJECT_ID": "1", "HADM_ID": "2"},)),
    "beside hosp/patients.csv.gz": beside("hosp/patients.csv.gz", ({"subject_id": "1", "gender": "F"},)),
    "HADM_ID alone": columns("own.csv", HADM_ID="7"),
    "Hadm_Id of gz": columns("own.csv.gz", Hadm_Id="7"),
    "hadm_id of JSON lines": columns("own.jsonl", hadm_id="7"),
    "hadm_id of Parquet": columns("own.parquet", hadm_id="7"),
    "Hospital.Admission.ID": columns("own.csv", **{"Hospital.Admission.ID": "7"}),
    "layout of MIMIC-IV-Note": columns("mine.csv", **MIMIC4),
    "layout of MIMIC-IV-Note without hadm_id": columns("mine.csv", subject_id="1", charttime=""),
    "a marked folder above": marked,
    "a swap.json above": saying,
    "column credentialed": columns("own.csv", credentialed="TRUE"),
}
FREE = {
    "own notes": lambda folder: table(folder / "own.csv", OWN),
    "patients of another hospital beside": beside("patients.csv", ({"mrn": "1", "sex": "F"},)),
    "subject_id": columns("own.csv", subject_id="7"),
    "column credentialed": columns("own.csv", credentialed="false"),
}


@pytest.mark.parametrize("case", HELD)
def test_credentialed_notes_are_known_to_every_reader(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = HELD[case](tmp_path / "in" if case.startswith("layout") else tmp_path)
    assert all(row["credentialed"] == "True" for row in local_notes(path))
    done = swap_files(Job(str(path)), tmp_path / "out")
    assert done.credentialed_because
    assert set(pq.read_table(done.folder / "data").column("credentialed").to_pylist()) == {True}
    with pytest.raises(UsageError, match="may hold credentialed clinical notes"):
        own_study(
            path if path.suffix == ".csv" else table(tmp_path / "a.csv", with_column(hadm_id="1")), reference="M"
        )


@pytest.mark.parametrize("case", FREE)
def test_other_notes_are_not(case, tmp_path):
    path = FREE[case](tmp_path)
    assert {row["credentialed"] for row in local_notes(path)} == {"False"}
    assert swap_files(Job(str(path)), tmp_path / "out").credentialed_because == ""
    assert not is_credentialed(tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o777 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def open_to_others(*folders):
    """Paths below the folders, and they themselves, that anybody but the owner may read; links are none."""
    found = [one for folder in folders for one in (folder, *folder.rglob("*"))]
    assert all(one.exists() for one in folders)
    return [str(one) for one in found if stat.S_IMODE(one.stat().st_mode) & 0o077]


@pytest.fixture(scope="module")
def held(tmp_path_factory, quiet):
    """Two finished runs of credentialed notes, made with a umask that hides nothing."""
    place = tmp_path_factory.mktemp("held")
    notes = place / "notes"
    notes.mkdir()
    rows = [
        {
            "text": f"{text} Visit {number}.", "label": str(number % 2), "gender": "FM"[number % 2],
            "hadm_id": str(number),
        }
        for number, text in enumerate(TEXTS * 12)
    ]  # fmt: skip
    table(notes / "own.csv", rows)
    runs = []
    before = os.umask(0)
    try:
        for seed in (0, 1):
            options = NoteOptions(data=str(notes / "own.csv"), classifier=CLASSIFIER, explain=0)
            settings = Settings(studies=("phenotype_fairness",), seed=seed, options=(options,))
            runs.append(start(settings, place / "runs" / f"run-{seed}", **quiet)[0])
    finally:
        os.umask(before)
    return notes / "own.csv", runs


def test_a_run_of_credentialed_notes_is_marked_and_its_users_alone(held):
    _, runs = held
    for run in runs:
        assert run.manifest()["credentialed"] is True
        assert (run.folder / credentialed.MARKER).is_file()
        assert open_to_others(run.folder) == []


# Every command, and what it does with what is made of credentialed notes: writes it for its user alone, refuses it,
# or writes nothing that is made of them. A new command stands in none of these, and fails the test.
WRITES = {
    "build": lambda notes, runs, out: ("build", "clinical_notes", "--data", notes, "--out", out),
    "swap": lambda notes, runs, out: ("swap", notes, "--out", out),
    "compare": lambda notes, runs, out: ("compare", *(one.folder for one in runs), "--out", out),
    "figures": lambda notes, runs, out: ("figures", runs[0].folder, "--out", out),
    "report": lambda notes, runs, out: ("report", runs[0].folder),
    "check": lambda notes, runs, out: ("check", runs[0].folder, "--max-gap", "1", "--junit", out / "junit.xml"),
}
REFUSES = {
    "share": lambda notes, runs, out: ("share", runs[0].folder, "--results", "me/r", "--findings-only", "--dry-run"),
    "study push": lambda notes, runs, out: ("study", "push", notes.parent, "me/study", "--dry-run"),
    "study check": None,  # reads; of credentialed prompts no study is made
}
ELSEWHERE = {
    "audit": "test_a_run_of_credentialed_notes_is_marked_and_its_users_alone",
    "train": "tests/models/sentiment/test_training.py",
}
NOTHING = {
    "list", "plan", "reproduce", "study new", "push", "pull", "help", "export",
}  # fmt: skip


def commands():
    own = {one.name or one.callback.__name__.rstrip("_") for one in app.registered_commands}
    groups = [(group.name, group.typer_instance) for group in app.registered_groups]
    return own | {f"{name} {one.name}" for name, group in groups for one in group.registered_commands}


def test_every_command_is_in_a_list_that_says_what_it_does_with_credentialed_notes():
    known = [*WRITES, *REFUSES, *ELSEWHERE, *NOTHING]
    assert sorted(known) == sorted(commands())


@pytest.mark.parametrize("name", WRITES)
def test_what_a_command_writes_of_credentialed_notes_is_its_users_alone(name, held, tmp_path):
    notes, runs = held
    before = os.umask(0)
    out = tmp_path / "out"
    out.mkdir()
    try:
        done = swapbias(*WRITES[name](notes, runs, out))
    finally:
        assert os.umask(before) == 0  # as it was
    assert done.returncode == 0, done.stderr
    place = runs[0].folder if name == "report" else out
    if name in ("build", "check"):  # the folder is not theirs alone: what they put into it is
        inner = out / ("clinical_notes" if name == "build" else "junit.xml")
        assert open_to_others(inner) == []
        assert name == "check" or is_credentialed(inner)
        return
    assert open_to_others(place) == []
    assert is_credentialed(place)
    assert len(list(place.rglob("*"))) > 1


@pytest.mark.parametrize("name", [name for name, arguments in REFUSES.items() if arguments])
def test_what_would_leave_is_refused(name, held, tmp_path):
    done = swapbias(*REFUSES[name](*held, tmp_path))
    refused(done, 2, "holds credentialed clinical data, which must not be")


def test_an_exception_leaves_the_umask_and_the_folder_as_they_should_be(tmp_path):
    before = current_umask()
    with pytest.raises(KeyError), writing(tmp_path / "a" / "b", credentialed=True):
        raise KeyError
    assert current_umask() == before
    assert open_to_others(tmp_path / "a") == []
