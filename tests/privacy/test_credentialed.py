"""One rule recognises credentialed notes in every reader; files made of them are marked and
private."""

import gzip
import os
import shutil
import stat
import threading
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest
import typer

from swapbias.cli import app
from swapbias.errors import UsageError
from swapbias.files import CREDENTIALED
from swapbias.hub import own_study
from swapbias.models.clinical import NoteOptions
from swapbias.notes.load import local_notes
from swapbias.privacy import credentialed, for_owner_alone, is_credentialed, writing
from swapbias.runs.audit import resume, start
from swapbias.runs.run import Run
from swapbias.runs.settings import Settings
from swapbias.swapping import Job, swap_files
from tests.cli.test_cli import refused, swapbias
from tests.tables import write

TEXTS = ("She was seen for her knee.", "He was seen for his knee.")
CLASSIFIER = "tests.privacy.test_credentialed:fixed"


def fixed(texts):
    """A classifier of the user's own."""
    return [0.2 + (len(text) % 7) / 10 for text in texts]


def notes(name="own.csv", beside="", rows=({"a": "1"},), **options):
    """A function that writes two labelled notes with further columns, and a table beside them, into a folder."""
    columns = {
        "text": TEXTS,
        "label": "01",
        "gender": "FM",
        "group": "FM",
        "pair": "aa",
        "note_id": "xy",
        **options,
    }

    def make(folder):
        if beside:
            write(folder / beside, rows)
        return write(folder / name, {column: list(cells) for column, cells in columns.items()})

    return make


def marked(folder):
    folder.mkdir()
    credentialed.mark(folder)
    return notes("deep/own.csv")(folder)


def marked_by_column(folder):
    path = notes("data/own.parquet")(folder)
    (folder / "swap.json").write_text('{"credentialed": true}')
    return path


MIMIC4 = {"subject_id": "11", "charttime": ["2180-05-07"] * 2}
CREDENTIALED_NOTES = {
    "beside NOTEEVENTS.csv": notes(beside="NOTEEVENTS.csv"),
    "beside noteevents.csv.gz": notes(beside="noteevents.csv.gz"),
    "beside NoteEvents.parquet": notes(beside="NoteEvents.parquet"),
    "beside note/discharge.csv.gz": notes(beside="note/discharge.csv.gz"),
    "beside radiology.csv": notes(beside="radiology.csv"),
    "beside ADMISSIONS": notes(beside="ADMISSIONS.csv", rows=[{"SUBJECT_ID": "1", "HADM_ID": "2"}]),
    "beside hosp/patients.csv.gz": notes(
        beside="hosp/patients.csv.gz", rows=[{"subject_id": "1", "gender": "F"}]
    ),
    "HADM_ID alone": notes(HADM_ID="77"),
    "Hadm_Id of gz": notes("own.csv.gz", Hadm_Id="77"),
    "hadm_id of JSON lines": notes("own.jsonl", hadm_id="77"),
    "hadm_id of Parquet": notes("own.parquet", hadm_id="77"),
    "Hospital.Admission.ID": notes(**{"Hospital.Admission.ID": "77"}),
    "layout of MIMIC-IV-Note": notes("mine.csv", **MIMIC4, hadm_id="22"),
    "layout of MIMIC-IV-Note without hadm_id": notes("mine.csv", **MIMIC4),
    "a marked folder above": marked,
    "a swap.json above": marked_by_column,
    "column credentialed": notes(credentialed=["TRUE"] * 2),
}
OTHER_NOTES = {
    "own notes": notes(),
    "patients of another hospital beside": notes(
        beside="patients.csv", rows=[{"mrn": "1", "sex": "F"}]
    ),
    "subject_id": notes(subject_id="77"),
    "column credentialed": notes(credentialed=["false"] * 2),
}


@contextmanager
def open_umask():
    """Within the block a umask that hides nothing, which in the end must be as it was."""
    before = os.umask(0)
    try:
        yield
    finally:
        after = os.umask(before)
    assert after == 0


@pytest.mark.parametrize("case", CREDENTIALED_NOTES)
def test_readers_know_credentialed_notes(case, tmp_path, monkeypatch):
    """Every reader recognises credentialed notes."""
    monkeypatch.chdir(tmp_path)
    path = CREDENTIALED_NOTES[case](tmp_path / "in")
    assert all(row["credentialed"] == "True" for row in local_notes(path))
    done = swap_files(Job(str(path)), tmp_path / "out")
    assert done.credentialed_because
    assert "must not be published" in (done.folder / "README.md").read_text()
    assert set(pq.read_table(done.folder / "data").column("credentialed").to_pylist()) == {True}
    if path.suffix == ".csv":
        with pytest.raises(UsageError, match="may contain credentialed clinical notes"):
            own_study(path, reference="M")


@pytest.mark.parametrize("sign", [",", ";", "|", "\t"])
@pytest.mark.parametrize("first", ["", "sep={}\n"])
@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.csv.gz"])
def test_signs_between_columns(sign, first, name, tmp_path):
    """The columns of MIMIC are seen whatever sign is between cells, and whether the first line names it."""
    text = first.format(sign) + sign.join(['"text"', "hadm_id"]) + f"\nShe fell.{sign}7\n"
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert is_credentialed(tmp_path / name)
    assert is_credentialed(tmp_path)


@pytest.mark.parametrize("case", OTHER_NOTES)
def test_other_notes(case, tmp_path):
    """Other notes are not taken for credentialed ones."""
    path = OTHER_NOTES[case](tmp_path)
    assert {row["credentialed"] for row in local_notes(path)} == {"False"}
    with open_umask():
        done = swap_files(Job(str(path)), tmp_path / "out")
    assert done.credentialed_because == ""
    assert not is_credentialed(done.folder)
    assert "must not be published" not in (done.folder / "README.md").read_text()
    assert stat.S_IMODE(done.folder.stat().st_mode) == 0o777


@pytest.mark.parametrize(
    "cells", [("False", "True"), (False, True), ("False", "")], ids=["text", "booleans", "blank"]
)
def test_marked_row(cells, tmp_path):
    """One row that is marked as credentialed marks all that are swapped."""
    done = swap_files(
        Job(str(notes("own.parquet", credentialed=cells)(tmp_path))), tmp_path / "out"
    )
    found = pq.read_table(done.folder / "data").column("credentialed").to_pylist()
    assert found == ([True, True] if cells[1] else list(cells))


def open_to_others(*folders):
    """Paths below the folders, and they themselves, that anybody but the owner may read; links are none."""
    paths = [one for folder in folders for one in (folder, *folder.rglob("*"))]
    assert all(one.exists() for one in folders)
    return [str(one) for one in paths if stat.S_IMODE(one.stat().st_mode) & 0o077]


@pytest.fixture(scope="module")
def credentialed_runs(tmp_path_factory, quiet):
    """Two finished runs of credentialed notes, made with a umask that hides nothing."""
    folder = tmp_path_factory.mktemp("held")
    runs = []
    texts = [f"{text} Visit {number}." for number, text in enumerate(TEXTS * 12)]
    columns = {
        "text": texts,
        "label": [*"01" * 12],
        "gender": [*"FM" * 12],
        "hadm_id": [*map(str, range(24))],
    }
    path = write(folder / "notes" / "own.csv", columns)
    with open_umask():
        for seed in (0, 1):
            options = NoteOptions(data=str(path), classifier=CLASSIFIER, explain=0)
            settings = Settings(studies=("phenotype_fairness",), seed=seed, options=(options,))
            runs.append(start(settings, folder / "runs" / f"run-{seed}", **quiet)[0])
    return path, runs


def test_credentialed_run(credentialed_runs):
    """A run of credentialed notes is marked and open to its user alone."""
    _, runs = credentialed_runs
    for run in runs:
        assert run.manifest()["credentialed"] is True
        assert (run.folder / CREDENTIALED).is_file()
        assert open_to_others(run.folder) == []


@pytest.mark.parametrize("sign", ["kept", "removed"])
def test_resumed_run_is_closed(credentialed_runs, quiet, tmp_path, sign):
    """A run that was opened to others is closed again by a resume, finished or not, also where that is refused."""
    _, (finished, _) = credentialed_runs
    for status in ("complete", "running"):
        folder = shutil.copytree(finished.folder, tmp_path / status)
        run = Run(folder)
        run.write_manifest({**run.manifest(), "status": status, "swapbias": "another"})
        if status == "complete":
            run.write_manifest(finished.manifest())
        if sign == "removed":
            (folder / CREDENTIALED).unlink()
        folder.chmod(0o755)
        if status == "complete":
            assert resume(folder, **quiet)[0].folder == folder
        else:
            with pytest.raises(UsageError, match="begun with another swapbias"):
                resume(folder, trust=True, **quiet)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert (folder / CREDENTIALED).is_file()


# Every command, and what it does with what is made of credentialed notes: writes it for its user alone, refuses it,
# or writes nothing that is made of them. A new command stands in none of these, and fails the test.
WRITES = {
    "build": lambda notes, runs, out: ("build", "clinical_notes", "--data", notes, "--out", out),
    "swap": lambda notes, runs, out: ("swap", notes, "--out", out),
    "compare": lambda notes, runs, out: ("compare", *(one.folder for one in runs), "--out", out),
    "figures": lambda notes, runs, out: ("figures", runs[0].folder, "--out", out),
    "report": lambda notes, runs, out: ("report", runs[0].folder),
    "check": lambda notes, runs, out: (
        "check",
        runs[0].folder,
        "--max-gap",
        "1",
        "--junit",
        out / "junit.xml",
    ),
}
REFUSES = {
    "share": lambda notes, runs, out: (
        "share",
        runs[0].folder,
        "--results",
        "me/r",
        "--findings-only",
        "--dry-run",
    ),
    "export": lambda notes, runs, out: (
        "export",
        "every-eval-ever",
        runs[0].folder,
        "--out",
        out / "out",
    ),
    "study push": lambda notes, runs, out: ("study", "push", notes.parent, "me/study", "--dry-run"),
    "study check": None,  # reads; of credentialed prompts no study is made
}
TESTED_ELSEWHERE = {
    "audit": "test_credentialed_run",
    "train": "tests/models/sentiment/test_training.py",
    "tables": "tests/report/test_paper_tables.py",
}
WITHOUT_NOTES = {
    "list",
    "plan",
    "reproduce",
    "study new",
    "study test",
    "push",
    "pull",
    "help",
}


def commands(group=app, before=""):
    """The names of every command of the program."""
    click = typer.main.get_command(group) if isinstance(group, typer.Typer) else group
    for name, one in click.commands.items():
        yield from (
            commands(one, f"{before}{name} ") if hasattr(one, "commands") else [f"{before}{name}"]
        )


def test_commands_are_listed():
    """Every command is in a list that states what it does with credentialed notes."""
    assert sorted([*WRITES, *REFUSES, *TESTED_ELSEWHERE, *WITHOUT_NOTES]) == sorted(commands())


@pytest.mark.parametrize("name", WRITES)
def test_written_files(name, credentialed_runs, tmp_path):
    """A file that a command writes of credentialed notes is open to its user alone."""
    notes, runs = credentialed_runs
    out = tmp_path / "out"
    with open_umask():
        out.mkdir()
        done = swapbias(*WRITES[name](notes, runs, out))
    assert done.returncode == 0, done.stderr
    # In some folders only what they put there is theirs alone.
    place = {
        "report": runs[0].folder,
        "build": out / "clinical_notes",
        "check": out / "junit.xml",
    }.get(name, out)
    assert open_to_others(place) == []
    assert name == "check" or (is_credentialed(place) and len(list(place.rglob("*"))) > 1)


@pytest.mark.parametrize("name", [name for name, arguments in REFUSES.items() if arguments])
def test_refused_commands(name, credentialed_runs, tmp_path):
    """A command that would publish credentialed data is refused."""
    done = swapbias(*REFUSES[name](*credentialed_runs, tmp_path))
    refused(done, 2, "contains credentialed clinical data, which must not be")


def test_exception_restores_umask(tmp_path):
    """An exception leaves umask and folder as they should be."""
    with open_umask(), pytest.raises(KeyError), writing(tmp_path / "a" / "b", credentialed=True):
        raise KeyError
    assert open_to_others(tmp_path / "a") == []


def test_umask_of_threads(tmp_path):
    """While one thread still writes notes the end of another opens no file, and then the umask is the user's."""
    ended = threading.Event()
    begun = threading.Event()

    def write_longer():
        with for_owner_alone(True):
            begun.set()
            ended.wait()
            (tmp_path / "note").touch()

    with open_umask():
        thread = threading.Thread(target=write_longer)
        with for_owner_alone(True):
            thread.start()
            begun.wait()
        ended.set()
        thread.join()
        (tmp_path / "other").touch()
    assert open_to_others(tmp_path / "note", tmp_path / "other") == [str(tmp_path / "other")]
