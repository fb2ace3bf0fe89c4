"""How much memory a stream of notes takes, by its length: a process of its own each, and its peak."""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.frame import Scale, Series
from benchmarks.measuring import peak_of, timed_process

SIZES = (0.25, 0.5, 1.0, 2.0, 4.0)  # GB of notes; those above the scale are left out
MOST = 2 * 1024.0  # MB
_NOTE = "She is a 45 y/o woman. Her husband says that he told her of his pain; she denies it. "


def _lines(size: float) -> Iterator[str]:
    written, number = 0, 0
    while written < size * 1e9:
        row = f'{number},"{_NOTE * (10 + number % 40)}"\n'
        written, number = written + len(row), number + 1
        yield row


def _peak(size: float) -> None:
    from swapbias.swapping import Job, swap_files

    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes.csv"
        with notes.open("w", encoding="utf-8") as handle:
            handle.write("note_id,text\n")
            handle.writelines(_lines(size))
        before, peak = peak_of(lambda: swap_files(Job(str(notes)), Path(folder) / "out"))
    sys.stdout.write(json.dumps({"before": before, "peak": peak}) + "\n")


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    rows = []
    for size in SIZES:
        if size <= max(4 * scale, SIZES[0]):
            _, said = timed_process(["-m", "benchmarks.soak.memory", str(size)])
            peak = float(json.loads(said.splitlines()[-1])["peak"])
            rows.append((f"{size:g} GB", f"{peak:,.0f} MB", f"{MOST:,.0f} MB", "yes" if peak <= MOST else "no"))
    return rows


SERIES = Series(
    "memory", "Notes swapped, and the most memory that took", ("notes", "peak", "at most", "met"), _rows, timed=False
)


if __name__ == "__main__":
    _peak(float(sys.argv[1]))
