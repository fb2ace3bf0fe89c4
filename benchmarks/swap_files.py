"""Swapping gendered words from Parquet to Parquet, beside ``datasets.map`` with a regex and a callback."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.frame import Prepared, Scale, Side, Workload
from benchmarks.measuring import parquet_write_rate
from benchmarks.swapping import notes, peer
from swapbias.swapping import Job, swap_files

MEGABYTES = 200.0
OURS = "swapbias"
PAPER = "swapbias, the paper's terms"
TWO = "swapbias, two processes"
WORDS = "datasets.map, the paper's 11 terms"
SAME = "datasets.map, all terms"
_SHARES = {WORDS: 0.1, SAME: 0.01}
_LEAST = 0.95  # a few notes hold what the two treat differently on purpose, such as terms beside an underscore
_TERMS = {WORDS: "paper", SAME: "resolved"}


def _prepare(scale: Scale) -> Prepared:
    place = tempfile.TemporaryDirectory(prefix="swapbias-bench-")
    atexit.register(place.cleanup)
    folder = Path(place.name)
    texts = notes(MEGABYTES * scale * 1e6)
    table = pa.table({"id": range(len(texts)), "text": texts})
    parts = {
        name: table.slice(0, max(1, round(len(texts) * share))) for name, share in _SHARES.items()
    }
    pq.write_table(table, folder / "notes.parquet")

    def ours(terms: str, processes: int) -> Callable[[], Path]:
        def run() -> Path:
            out = _emptied(folder / f"swapped-{terms}-{processes}")
            swap_files(Job(str(folder / "notes.parquet"), table=terms), out, processes=processes)
            return out

        return run

    def check(outputs: Mapping[str, Any]) -> str:
        found = {name: _texts(path) for name, path in outputs.items()}
        if found[TWO] != found[OURS]:
            raise ValueError("two processes wrote other texts than one, expected the same.")
        alike = sum(one == two for one, two in zip(found[PAPER], found[WORDS], strict=False))
        given = len(parts[WORDS])
        if alike < _LEAST * given:
            raise ValueError(
                f"{alike} of {given} notes are as datasets.map has them, expected nearly all."
            )
        return (
            f"paper's terms: {alike:,} of {given:,} notes equal letter by letter (all terms: see Swapping notes in "
            "memory); two processes write what one does"
        )

    def side(name: str) -> Side:
        path = folder / f"{_TERMS[name]}.parquet"
        pq.write_table(parts[name], path)
        share = parts[name]["text"].nbytes / table["text"].nbytes
        return Side(name, _mapped(path, _TERMS[name]), share=share)

    return Prepared(
        ours=(
            Side(OURS, ours("resolved", 1)),
            Side(PAPER, ours("paper", 1)),
            Side(TWO, ours("resolved", 2)),
        ),
        peers=(side(WORDS), side(SAME)),
        check=check,
        limit=lambda: (
            table.nbytes / parquet_write_rate(table, compression="zstd"),
            "writing the Parquet file",
        ),
        size=f"{table['text'].nbytes / 1e6:,.0f} MB, {len(texts):,} notes",
    )


def _emptied(folder: Path) -> Path:
    """A folder that is gone: what earlier rounds wrote does not wait to be written to the disk."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _mapped(notes: Path, terms: str) -> Callable[[], Path]:
    swap = peer(terms)

    def run() -> Path:
        import datasets

        own = _emptied(notes.parent / f"mapped-{terms}")
        bars = datasets.is_progress_bar_enabled()
        datasets.disable_progress_bars()
        try:
            data = datasets.Dataset.from_parquet(str(notes), cache_dir=str(own))
            data.map(lambda row: {"text": swap(row["text"])}).to_parquet(
                str(own / "mapped.parquet")
            )
        finally:
            if bars:
                datasets.enable_progress_bars()
        return own / "mapped.parquet"

    return run


def _texts(path: Path) -> list[str]:
    files = [path] if path.is_file() else sorted((path / "data").glob("*.parquet"))
    return [
        text for file in files for text in pq.read_table(file, columns=["text"])["text"].to_pylist()
    ]


WORKLOAD = Workload(
    name="swap_files",
    title="Swapping notes, Parquet to Parquet",
    goals={(PAPER, WORDS): 5, (OURS, SAME): 5},  # each beside a regex of the same terms
    prepare=_prepare,
)
