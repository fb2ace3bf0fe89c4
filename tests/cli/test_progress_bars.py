"""Bars on a terminal: one line, whoever moves them and whatever is printed meanwhile."""

import io
import os
import re
import sys
import threading

import pytest

from swapbias import audit
from swapbias.cli import progress_bars, terminal
from swapbias.models.progress import BarLine

COLUMNS = 60


@pytest.fixture(autouse=True)
def width(monkeypatch):
    """A terminal of 60 columns."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def screen(written):
    """The lines that a terminal shows of what was written to it, and whether a line was too long for it."""
    rows = []
    for line in written.replace("\r\n", "\n").split("\n"):
        row = ""
        for part in line.split("\r"):
            row = part + row[len(part) :]
            assert len(row) < COLUMNS or "% (" not in row or " interval " in row
        rows.append(row.rstrip())
    return rows


class Clock:
    """A clock that a test sets."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


class Terminal(io.StringIO):
    """A stream of a terminal."""

    def isatty(self):
        return True


def test_line_of_a_bar():
    """A quarter in 30 s leaves 90 s; a full bar says how long it took."""
    clock, stream = Clock(), Terminal()
    line = BarLine(stream, clock)
    advance = line.begin("study", 400)
    assert screen(stream.getvalue()) == ["study: 0 % (0 of 400)"]
    clock.seconds = 30
    advance(100)
    assert screen(stream.getvalue()) == ["study: 25 % (100 of 400), 2 min left"]
    clock.seconds = 50
    advance(299.9)
    assert screen(stream.getvalue()) == ["study: 99 % (399 of 400), 0 s left"]
    advance(0.1)
    assert screen(stream.getvalue()) == ["study: 100 % (400 of 400), 50 s", ""]


@pytest.mark.parametrize("moves", [(-5,), (3, -7), (900,), (2, 900, 5)])
def test_no_bar_leaves_its_ends(moves):
    """A bar that is moved back or too far stays between 0 and 100 %."""
    clock, stream = Clock(), Terminal()
    advance = BarLine(stream, clock).begin("study", 8)
    for move in moves:
        clock.seconds += 5
        advance(move)
    text = stream.getvalue()
    assert "-" not in text
    assert all(int(share) <= 100 for share in re.findall(r"(\d+) %", text))
    assert ("100 % (8 of 8)" in text) == (sum(moves) > 8)


def test_one_bar_at_a_time():
    """Another bar takes the line when the first is full, or has not moved for 2 s."""
    clock, stream = Clock(), Terminal()
    line = BarLine(stream, clock)
    first, second = line.begin("first", 4), line.begin("second", 4)
    clock.seconds = 1
    second(1)
    assert screen(stream.getvalue()) == ["first: 0 % (0 of 4)"]
    clock.seconds = 3
    second(1)
    assert screen(stream.getvalue()) == ["second: 50 % (2 of 4), 3 s left"]
    first(4)
    assert screen(stream.getvalue()) == ["first: 100 % (4 of 4), 3 s", ""]
    second(1)
    line.close()
    assert screen(stream.getvalue())[1:] == ["second: 75 % (3 of 4), 1 s left", ""]


def test_long_title_fits():
    """A title that is longer than the terminal is cut, and its numbers are not."""
    stream = Terminal()
    BarLine(stream).begin("model 1 of 2, a_study_with_a_name_that_fills_the_line_and_more", 9)
    (row,) = screen(stream.getvalue())
    assert row.endswith("…: 0 % (0 of 9)")
    assert len(row) == COLUMNS - 1


def test_bars_of_threads_keep_one_line():
    """Bars of four threads with printed lines between them: each line of the screen is one thing."""
    stream = Terminal()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stderr", stream)
        patched.setattr(sys, "stdout", stream)
        with progress_bars.show_bars() as bar:

            def work(number):
                advance = bar(f"study{number}", 200)
                for step in range(400):
                    advance(0.5)
                    if step % 100 == 50:
                        terminal.say(f"Model: m{number}.")
                        sys.stdout.write(f"shown {number}\n")

            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    rows = [row for row in screen(stream.getvalue()) if row]
    kinds = (r"study\d: 100 % \(200 of 200\), \d+ s", r"Model: m\d\.", r"shown \d")
    assert [row for row in rows if not any(re.fullmatch(kind, row) for kind in kinds)] == []
    assert sorted(row[:6] for row in rows if row.startswith("study")) == [
        "study0",
        "study1",
        "study2",
        "study3",
    ]
    assert sum(row.startswith("Model") for row in rows) == 16


def test_quiet_without_a_terminal(capsys):
    """In a log or pipe no bar is written."""
    with progress_bars.show_bars() as bar:
        bar("study", 3)(3)
    assert capsys.readouterr() == ("", "")


def test_audit_on_a_terminal(tmp_path):
    """An audit of two models on a real terminal: no glued line, no negative time, no line too long."""
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    (tmp_path / "pair.py").write_text(
        "def first(texts):\n    return [.5 + .01 * (len(text) % 7) for text in texts]\n"
        "def second(texts):\n    return [.4 + .02 * (len(text) % 5) for text in texts]\n"
    )
    words = ["audit", "pair:first", "pair:second", "--study", "occupation_sentiment:control"]
    code = f"import sys; sys.argv = {['swapbias', *words, '--out', 'all']}\n"
    code += "from swapbias.cli import main; main()"
    child, reader = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-c", code])
    written = b"".join(iter(lambda: _read(reader), b""))
    _, status = os.waitpid(child, 0)
    rows = screen(written.decode())
    assert status == 0, rows
    title = "occupation_sentiment: 100 % (40 of 40), 0 s"
    assert [re.sub(r"\d+ s$", "0 s", row) for row in rows[:6]] == [
        "Model 1 of 2: pair:first.",
        "Model: pair:first.",
        f"model 1 of 2, {title}",
        "Model 2 of 2: pair:second.",
        "Model: pair:second.",
        f"model 2 of 2, {title}",
    ]


def test_bars_in_python(monkeypatch, capsys):
    """A call in Python draws on a terminal alone, and ends its line."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    for progress in (True, False):
        audit(_even, "occupation_sentiment:control", limit=4, name="even", progress=progress)
    pairs = r"occupation_sentiment: 100 % \(\d+ of \d+\), \d+ s\n"
    assert re.fullmatch(pairs, "\n".join(screen(stream.getvalue())))
    assert capsys.readouterr().out == ""


def _even(texts):
    return [0.5 + len(text) % 7 / 50 for text in texts]


def _read(reader):
    """What the terminal has; nothing at its end, which Linux tells by an error."""
    try:
        return os.read(reader, 4096)
    except OSError:
        return b""
