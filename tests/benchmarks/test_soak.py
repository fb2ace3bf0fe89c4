"""The soak sees what it counts: faults come at their step, a lost or doubled row is one, the page is current."""

import errno
import io
import os
import signal

import pandas as pd
import pytest

from benchmarks.soak.faults import CLOCK, FULL, KILL, TORN, Faults
from benchmarks.soak.jobs import rows
from swapbias.files import write_whole


def lived(place, kind, at):
    """How a child ends that writes two files whole: the signal that killed it, or its exit code."""
    child = os.fork()
    if not child:
        code = 0
        try:
            faults = Faults(place, kind, at, place.parent / "steps")
            for name in ("a", "b"):
                write_whole(place / name, b"content")
            faults.at = 0
            faults.report()
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fault_comes_at_its_step(tmp_path):
    """A file written whole takes four: opened, flushed, renamed, and its temporary file looked for to be removed."""
    place = tmp_path / "run"
    place.mkdir()
    assert lived(place, KILL, 0) == 0
    steps = int((tmp_path / "steps").read_text())
    assert steps == 8
    assert {one.name for one in place.iterdir()} == {"a", "b"}
    for path in place.iterdir():
        path.unlink()
    assert lived(place, KILL, 3) == signal.SIGKILL  # before the first file has its name
    assert [one.suffix for one in place.iterdir()] == [".tmp"]
    assert lived(place, FULL, 7) == errno.ENOSPC
    assert {one.name for one in place.iterdir() if one.suffix != ".tmp"} == {"a"}
    assert lived(place, TORN, 6) == signal.SIGKILL
    assert sorted(one.stat().st_size for one in place.glob(".b*.tmp")) == [len(b"content") // 2]
    assert lived(place, CLOCK, 1) == 0


def test_rows_are_counted():
    def content(*values):
        buffer = io.BytesIO()
        pd.DataFrame({"a": values}).to_parquet(buffer)
        return {"x.parquet": buffer.getvalue(), "y.csv": "\n".join(map(str, values)).encode(), "z.svg": b"1"}

    whole, found = rows(content(1, 2, 3)), rows(content(1, 1, 3))
    assert (whole - found).total() == (found - whole).total() == 2  # in each of two tables
