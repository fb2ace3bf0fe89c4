"""Credentialed notes are in no cache of a library below HF_HOME, and the cache of notes is
private."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import swapbias
from swapbias.files import CREDENTIALED
from swapbias.hub.corpus_builder import CorpusBuilder
from swapbias.measures import CheckedInputs
from swapbias.models import TrainSettings
from swapbias.models.clinical import NoteOptions
from swapbias.notes import kind_of_folder, notes_content
from swapbias.notes.annotations import annotation_files
from swapbias.privacy import is_credentialed
from swapbias.studies import corpus_dir
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
    builder = swapbias.dataset_builder("clinical_notes", data_dir=notes)
    monkeypatch.setattr(notes_content, "rooms_sha256", lambda *rooms: "c" * 64)
    changed = swapbias.dataset_builder("clinical_notes", data_dir=notes)
    assert builder.hash != changed.hash


def test_changed_lexicon(notes, tmp_path, monkeypatch):
    """A changed table of the words that are swapped makes rows again."""
    before = notes_content.notes_key(notes)
    copies = tmp_path / "tables"
    for name in ("clinical_notes", "gender_lexicon"):
        shutil.copytree(corpus_dir(name), copies / name)
    monkeypatch.setattr(notes_content, "corpus_dir", copies.joinpath)
    assert notes_content.notes_key(notes) == before
    with (copies / "gender_lexicon" / "word_lists.csv").open("a") as table:
        table.write("further,words\n")
    assert notes_content.notes_key(notes) != before


def test_changed_labels(notes):
    """Pairs of changed annotations, and of notes that are marked credentialed, are made again."""
    mimic.write_mimic3(notes, notes=30)
    hashes = set()
    for change in (
        None,
        lambda: edit(annotations(notes), "1", "0"),
        notes.joinpath("CREDENTIALED").touch,
    ):
        if change:
            change()
        hashes.add(swapbias.dataset_builder("clinical_notes", "pairs", data_dir=notes).hash)
    assert len(hashes) == 2  # MIMIC is credentialed with the mark and without


def annotations(folder):
    (path,) = annotation_files(folder)
    return path


def test_cache_is_private(notes, tmp_path):
    """The cache is marked, open to its user alone and has the newest rows alone."""
    previous = os.umask(0)
    try:
        load_texts(notes)
        edit(notes / "NOTEEVENTS.csv", "fine", "sore")
        load_texts(notes)
    finally:
        os.umask(previous)
    (folder,) = (tmp_path / "cache" / "notes").iterdir()
    assert len([*folder.rglob("*.arrow")]) == 1
    assert (folder / CREDENTIALED).is_file()
    assert is_credentialed(folder)
    assert not (tmp_path / "cache" / "datasets").exists()
    for path in (folder.parent, *folder.parent.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_stored_rows(notes, monkeypatch):
    """Rows that are stored are not read again."""
    texts = load_texts(notes)
    monkeypatch.setattr(CorpusBuilder, "_split_generators", None)  # whoever called it would fail
    assert load_texts(notes) == texts


def test_notes_to_a_service(notes):
    """Notes are not written to a place on the network, and a folder of the user's gets the mark."""
    builder = swapbias.dataset_builder("clinical_notes", data_dir=notes)
    with pytest.raises(ValueError, match="s3://bucket/notes is no folder of this machine"):
        builder.download_and_prepare("s3://bucket/notes")
    folder = notes.parent / "elsewhere"
    builder.download_and_prepare(str(folder), file_format="parquet")
    assert is_credentialed(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_broken_table(notes, tmp_path):
    """A broken table is one sentence and leaves no file."""
    table = notes / "NOTEEVENTS.csv"
    table.write_text(table.read_text() + "1,2,3\n")
    with pytest.raises(ValueError, match=r"NOTEEVENTS.csv: row \d+ .* has 3 cells, expected 11"):
        load_texts(notes)
    assert [*(tmp_path / "cache" / "notes").rglob("*.arrow")] == []


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
