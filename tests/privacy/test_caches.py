"""Credentialed notes are in no cache of a library below HF_HOME, and the cache of notes is
private."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import swapbias
from swapbias.files import CREDENTIALED
from swapbias.measures import CheckedInputs
from swapbias.models import TrainSettings
from swapbias.models.clinical import NoteOptions
from swapbias.notes import kind_of_folder, store
from swapbias.privacy import is_credentialed
from tests.conftest import ROOT
from tests.notes import mimic
from tests.privacy import reads_notes


@pytest.fixture(scope="module")
def files_by_call(tmp_path_factory):
    """By call where the planted word lies after it."""
    root = tmp_path_factory.mktemp("canary")
    for name in ("tmp", "home"):
        (root / name).mkdir()
    folders = {
        "HOME": root / "home",
        "TMPDIR": root / "tmp",
        "HF_HOME": root / "hf",
        "XDG_CACHE_HOME": root / "home" / ".cache",
        "SWAPBIAS_CACHE": root / "home" / ".cache" / "swapbias",
    }
    environment = {**os.environ, **{name: str(folder) for name, folder in folders.items()}}
    script = [sys.executable, "-m", "tests.privacy.reads_notes", str(root)]
    done = subprocess.run(
        script, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", reads_notes.CALLS)
def test_files_below_hf_home(name, files_by_call):
    """No file of credentialed notes is below HF_HOME or open to others."""
    assert files_by_call[name]["hub"] == []
    assert files_by_call[name]["open"] == []
    assert files_by_call[name]["held"] > 0


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "cache"))
    mimic.write_mimic3(tmp_path / "mimic", notes=30, annotated=False)
    return tmp_path / "mimic"


def load_texts(folder):
    return swapbias.load_prompts("clinical_notes", data=folder)["text"][:]


def edit(table, before, after):
    """Change notes so that neither size nor time of the file tells it."""
    times = table.stat()
    table.write_text(table.read_text().replace(before, after))
    os.utime(table, ns=(times.st_atime_ns, times.st_mtime_ns))


IN_ANOTHER_PROCESS = """
import sys, swapbias
print(sum("fine" in text for text in swapbias.load_prompts("clinical_notes", data=sys.argv[1])["text"]))
"""


def test_changed_notes(notes):
    """Changed notes are read again, in this process and in another."""
    before = load_texts(notes)
    assert any("fine" in text for text in before)
    edit(notes / "NOTEEVENTS.csv", "fine", "sore")
    after = load_texts(str(notes))
    assert after == [text.replace("fine", "sore") for text in before]
    edit(notes / "NOTEEVENTS.csv", "sore", "fine")
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(notes)]
    shown = subprocess.check_output(command, cwd=ROOT, text=True)
    assert int(shown) == sum("fine" in text for text in before)


def test_changed_patients(notes):
    """A changed table of patients is read again."""
    genders = swapbias.load_prompts("clinical_notes", data=notes)["gender"][:]
    edit(notes / "PATIENTS.csv", ",F,", ",M,")
    assert set(genders) == {"female", "male"}
    assert set(swapbias.load_prompts("clinical_notes", data=notes)["gender"]) == {"male"}


def test_changed_code(notes, monkeypatch):
    """Changed code that reads notes reads them again."""
    load_texts(notes)
    monkeypatch.setattr(store, "rooms_sha256", lambda *rooms: "c" * 64)
    monkeypatch.setattr(
        store,
        "_write_rows",
        lambda config, file, schema: pa.ipc.new_stream(str(file), schema).close(),
    )
    assert load_texts(notes) == []


def test_cache_is_private(notes, tmp_path):
    """The cache is marked, open to its user alone and holds the newest rows alone."""
    previous = os.umask(0)
    try:
        load_texts(notes)
        edit(notes / "NOTEEVENTS.csv", "fine", "sore")
        load_texts(notes)
    finally:
        os.umask(previous)
    (folder,) = (tmp_path / "cache" / "notes").iterdir()
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".arrow"]
    assert (folder / CREDENTIALED).is_file()
    assert is_credentialed(folder)
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *folder.iterdir())
    }
    assert modes == {0o700, 0o600}


def test_stored_rows(notes, monkeypatch):
    """Rows that are stored are not read again."""
    texts = load_texts(notes)
    monkeypatch.setattr(store, "_write_rows", None)  # whoever called it would fail
    assert load_texts(notes) == texts


def test_rows_in_batches(notes, monkeypatch):
    """Rows are written in batches, and none is missing."""
    texts = load_texts(notes)
    monkeypatch.setattr(store, "_BATCH", 7)
    monkeypatch.setattr(store, "rooms_sha256", lambda *rooms: "c" * 64)
    rows = swapbias.load_prompts("clinical_notes", data=notes)
    assert rows["text"][:] == texts
    assert len(rows.data.column("text").chunks) == -(-len(texts) // 7)
    assert rows.cache_files  # read from the file, not held in memory


def test_broken_table(notes, tmp_path):
    """A broken table is one sentence and leaves no file."""
    table = notes / "NOTEEVENTS.csv"
    table.write_text(table.read_text() + "1,2,3\n")
    with pytest.raises(ValueError, match=r"NOTEEVENTS.csv: row \d+ .* has 3 cells, expected 11"):
        load_texts(notes)
    assert [*(tmp_path / "cache" / "notes").iterdir()] == []


def test_folder_as_text_or_path(notes):
    """A folder of notes is accepted as text and as a path."""
    assert kind_of_folder(str(notes)) == kind_of_folder(notes) == "mimic3"
    for options in (NoteOptions, lambda **given: TrainSettings(kind="bow", **given)):
        assert options(data=notes).data == str(notes)
    assert NoteOptions(embeddings=(Path("a.bin"), "b.bin")).embeddings == ("a.bin", "b.bin")


def test_measures_keep_in_memory():
    """Measures keep their inputs in memory."""

    class Module:
        keep_in_memory = False

        def __init__(self, num_process=1):
            self.num_process = num_process

    class Checked(CheckedInputs, Module):
        pass

    assert Checked().keep_in_memory
    assert not Checked(
        num_process=2
    ).keep_in_memory  # processes find each other's inputs on disk alone
