"""One process at a time works on a run; no cell of a CSV file is a formula, and all cells
round-trip."""

import errno
import fcntl
import io
import math
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from swapbias.errors import UsageError
from swapbias.files import LOCK, as_csv, escape_csv_cell, locked, locked_place, unescape_csv_cell
from swapbias.hub import export_study
from swapbias.hub.datasets import build
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.models.training import FITS, TrainSettings, train_model
from swapbias.runs import (
    audit_several,
    compare_runs,
    read_run,
    rebuild_report,
    write_comparison,
    write_figures,
)
from swapbias.runs.audit import resume, start
from swapbias.runs.settings import Settings
from swapbias.studies import load_corpus
from swapbias.studies.own import new_study
from swapbias.swapping import Job, swap_files
from tests.conftest import QUIET, ROOT, files_below
from tests.models.chat.server import ChatServer

HOLDER_CODE = "import sys, time; from pathlib import Path; from swapbias.files import locked\n"
HOLDER_CODE += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


@pytest.fixture
def holder(tmp_path):
    """Another process that works on the folder."""
    command = [sys.executable, "-c", HOLDER_CODE, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def refused(folder):
    with pytest.raises(UsageError, match="is being worked on by another process"), locked(folder):
        raise AssertionError("two at once")


def test_second_lock_is_refused(tmp_path):
    """A second lock on a folder is refused until the first one ends."""
    with locked(tmp_path):
        refused(tmp_path)
        refused(tmp_path)  # a refusal takes nothing from the first
    with locked(tmp_path):
        refused(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass
    with pytest.raises(OSError, match=r"No such file|Not a directory"), locked(tmp_path / "gone"):
        raise AssertionError("nothing is there")


def test_killed_process_unlocks(tmp_path, holder):
    """The lock of a killed process keeps nobody out."""
    refused(tmp_path)
    holder.kill()
    holder.wait()
    assert (tmp_path / LOCK).exists()  # and locks nobody out
    with locked(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_removed_lock_file(tmp_path, monkeypatch):
    """A lock file that its holder removed meanwhile counts as no lock."""
    # Between opening and locking, the holder ends and removes the file: another would make and lock a new one.
    real = fcntl.flock
    calls = []

    def flock(file, how):
        if not calls:
            (tmp_path / LOCK).unlink()
        calls.append(how)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path):
        assert calls.count(fcntl.LOCK_EX | fcntl.LOCK_NB) == 2
        refused(tmp_path)


def test_file_system_without_locks(tmp_path, monkeypatch):
    """The work goes on where the file system has no locks."""

    def flock(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path), locked(tmp_path):  # as on some network file systems
        pass
    assert list(tmp_path.iterdir()) == []


def test_run_in_progress(tmp_path):
    """A run in progress can be neither resumed nor started again."""
    folder = tmp_path / "run"
    calls = []

    def answer(prompt):
        for again in (
            ()
            if calls
            else (lambda: resume(folder, **QUIET), lambda: start(settings, folder, **QUIET))
        ):
            with pytest.raises(UsageError) as raised:
                again()
            calls.append(str(raised.value))
        return "mechanic"

    with ChatServer(answer) as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1, concurrency=1)
        settings = Settings(studies=("adjective_coreference",), limit=8, options=(chat,))
        run, _ = start(settings, folder, **QUIET)
        assert len(server.requests) == 8
    assert ["is being worked on by another process" in one for one in calls] == [True, True]
    assert run.manifest()["status"] == "complete"
    assert not (folder / LOCK).exists()


SETTINGS = Settings(
    model="vader", studies=("social_distance:sentiment",), limit=40
)  # whose scores differ
# Every folder that is written, by what writes it there: a second process gets one sentence, and leaves what is there.
# The lock is of an open file, so that two of one process keep each other out as two processes do.
WRITERS = {
    "audit": lambda folder, _: start(SETTINGS, folder, **QUIET),
    "several": lambda folder, _: audit_several(["vader", "calibration"], SETTINGS, folder, **QUIET),
    "report": lambda folder, run: rebuild_report(run),
    "figures": lambda folder, run: write_figures(run, folder, kind="svg"),
    "compare": lambda folder, run: write_comparison(
        folder, compare_runs([read_run(run.folder), renamed(run)])
    ),
    "swap": lambda folder, _: swap_files(Job(str(ROOT / "tests/swapping/lines.csv")), folder),
    "export of a study": lambda folder, _: export_study("coreference_schemas", folder),
    "study new": lambda folder, _: new_study(folder),
}


def renamed(run):
    return replace(read_run(run.folder), name="other", place="other")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return start(SETTINGS, tmp_path_factory.mktemp("finished") / "run", **QUIET)[0]


@pytest.mark.parametrize("name", WRITERS)
def test_writers_lock_their_folder(name, finished, tmp_path):
    """Each function that writes a folder locks it against other processes."""
    folder = finished.folder if name == "report" else tmp_path / "out"
    folder.mkdir(exist_ok=True)
    before = files_below(folder)
    with locked(folder), pytest.raises(UsageError, match="is being worked on by another process"):
        WRITERS[name](folder, finished)
    assert files_below(folder) == before
    if name in ("swap", "export of a study", "study new"):  # other tests run the others
        (folder / LOCK).touch()  # of a process that was killed
        WRITERS[name](folder, finished)
        assert not (folder / LOCK).exists()
        assert list(folder.iterdir())


@pytest.mark.parametrize("name", ["build", "train"])
def test_folders_made_whole(name, tmp_path, monkeypatch):
    """A folder that appears when it is complete is made by one process at a time."""

    def fitted(*arguments):
        raise KeyError("enough")

    monkeypatch.setitem(FITS, "bow", fitted)
    target = tmp_path / "occupation_sentiment"
    sentences = tmp_path / "sentences"
    sentences.mkdir()
    for split in ("train", "dev"):
        (sentences / f"stsa.binary.{split}").write_text("1 good film\n0 bad film\n" * 4)
    make = {
        "build": lambda: list(build(load_corpus("occupation_sentiment"), tmp_path)),
        "train": lambda: train_model(
            TrainSettings(kind="bow", data=str(sentences)), target, bar=QUIET["bar"]
        ),
    }[name]
    left = tmp_path / f".{target.name}.new"  # of a process that was killed
    left.mkdir()
    with (
        locked_place(target),
        pytest.raises(UsageError, match="is being worked on by another process"),
    ):
        make()
    assert not target.exists()
    (tmp_path / f".{target.name}{LOCK}").touch()
    with pytest.raises(KeyError) if name == "train" else nullcontext():
        make()
    there = [one.name for one in tmp_path.iterdir() if one != sentences]
    assert there == ([target.name] if name == "build" else [])


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-x", "-1+1", "@x", " =1", "\t=1", "\rx", "\tx", "＝1", "'=1", "''@x"]
)
def test_formula_cells_are_escaped(text):
    """A cell that a spreadsheet would run as a formula begins with an apostrophe."""
    assert escape_csv_cell(text) == f"'{text}"
    assert unescape_csv_cell(escape_csv_cell(text)) == text


@given(st.text(alphabet="'=+-@\t\r\n 1.e x＝", max_size=6))
def test_escaped_cells_round_trip(text):
    """Each escaped cell is read back unchanged, and no cell but a negative number begins with a
    minus."""
    cell = escape_csv_cell(text)
    assert unescape_csv_cell(cell) == text
    if cell.lstrip().startswith(("=", "+", "-", "@")) or cell.startswith(("\t", "\r")):
        assert float(cell) < 0 or float(cell) == 0


def test_numbers_and_headers_in_csv():
    """Numbers stay numbers in CSV files, and headers are escaped like cells."""
    counts = pd.array([-1, None, 3], "Int64")
    table = pd.DataFrame({"=a": ["-0.12", "-x", None], "n": [-1.5, math.nan, 2.0], "k": counts})
    assert as_csv(table).decode() == "'=a,n,k\n-0.12,-1.5,-1\n'-x,,\n,2.0,3\n"
    assert table["=a"][1] == "-x"  # the table itself is as it was
    cells = ["x\ry", "\r", "=1\n2", 'a"b', "-1"]
    read = pd.read_csv(
        io.BytesIO(as_csv(pd.DataFrame({"a": cells}))), dtype=str, keep_default_na=False
    )
    assert read["a"].map(unescape_csv_cell).tolist() == cells
