"""How cost grows: ten and a hundred times the prompts or notes, one model more; each step in its own process.

``python -m benchmarks growth``; a step alone is ``python -m benchmarks.growth KIND SIZE FOLDER``.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.frame import Scale, Series, scaled
from benchmarks.measuring import peak, timed_process

STUDY = "gendered_stigma"
CONFIG = "rq1"
PROMPTS = 374
NOTES = 2_000
SIZES = (1, 10, 100)
REPORT = (
    "Radiology report. {sex} aged {age} years. He was admitted with chest pain; his wife says that she saw him fall. "
    "The patient denies fever. Impression: no acute disease. Mr. Smith will see his doctor in {weeks} weeks. "
)


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a step: what, how many, seconds, seconds for as much as the first step did, peak memory."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _save_models(folder)
        steps = [("prompts", scaled(PROMPTS, scale) * size) for size in SIZES]
        steps += [("notes", scaled(NOTES, scale) * size) for size in SIZES]
        steps += [("models", 1), ("models", 2)]
        rows: list[tuple[str, ...]] = []
        first: dict[str, int] = {}
        for kind, size in steps:
            told = [_step(kind, size, folder) for _ in range(repeat)]
            seconds, peak_mb = (
                statistics.median(one[key] for one in told) for key in ("seconds", "peak")
            )
            first.setdefault(kind, size)
            each = seconds / size * first[kind]
            rows.append((kind, f"{size:,}", f"{seconds:.2f}", f"{each:.3f}", f"{peak_mb:,.0f}"))
        return rows


def _save_models(folder: Path) -> None:
    """Two small random models that the steps read; at this size it is the package's own part that is measured."""
    from tests.tiny import save

    for name in ("one", "two"):
        (folder / name).mkdir()
        save("roberta", folder / name)  # type: ignore[no-untyped-call]


def _step(kind: str, size: int, folder: Path) -> dict[str, float]:
    _, said = timed_process(["-m", "benchmarks.growth", kind, str(size), str(folder)])
    told: dict[str, float] = json.loads(said.splitlines()[-1])
    return told


# --- a step, in its own process -----------------------------------------------------------------------


def _prompts(size: int, folder: Path) -> Callable[[], Any]:
    """Score so many different texts and write the rows down, as an audit does."""
    return _scored(["one"], size, folder)


def _models(size: int, folder: Path) -> Callable[[], Any]:
    """The published prompts on one model after the other."""
    return _scored(["one", "two"][:size], PROMPTS, folder)


def _scored(models: Sequence[str], texts: int, folder: Path) -> Callable[[], Any]:
    from swapbias.models.base import LoadOptions
    from swapbias.models.masked import MaskedScorer
    from swapbias.runs.run import Run
    from swapbias.runs.scoring import chunks
    from tests.scoring import score_rows

    rows = list(_texts(texts))

    def run() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            for name in models:
                scorer = MaskedScorer.load(str(folder / name), LoadOptions())
                work = [
                    lambda piece=piece, scorer=scorer: score_rows(
                        rows[piece.start : piece.stop], scorer
                    )
                    for piece in chunks(rows, scorer.chunk_rows)
                ]
                Run.create(Path(place) / name, {}).score_once(STUDY, work, lambda _: None)

    return run


def _texts(count: int) -> Iterator[dict[str, str]]:
    """The published rows over and over until there are so many texts, each copy with other words before it."""
    from swapbias.studies.catalogue import config_rows

    published = config_rows(STUDY, CONFIG)
    seen: set[str] = set()
    copy = 0
    while True:
        for row in published:
            text = row["text"] if not copy else f"{copy}. {row['text']}"
            if text not in seen and len(seen) == count:
                return
            seen.add(text)
            yield {
                **row,
                "text": text,
                "prompt_id": f"{row['prompt_id']}/{copy}",
                "pair_id": f"{row['pair_id']}/{copy}",
            }
        copy += 1


def _notes(size: int, folder: Path) -> Callable[[], Any]:
    """Swap a Parquet file of so many reports into Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from swapbias.swapping import Job, swap_files

    source = folder / f"notes-{size}.parquet"
    with pq.ParquetWriter(
        source, pa.schema([("text", pa.string())])
    ) as writer:  # the step itself holds no texts
        for start in range(0, size, NOTES):
            reports = [_report(number) for number in range(start, min(size, start + NOTES))]
            writer.write_table(pa.table({"text": reports}))

    def run() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            swap_files(Job(source=str(source)), Path(place) / "swapped")

    return run


def _report(number: int) -> str:
    facts = {
        "sex": ("Male", "Female")[number % 2],
        "age": str(20 + number % 70),
        "weeks": str(1 + number % 9),
    }
    return REPORT.format(**facts) * 8


def _main() -> None:
    kind, size, folder = sys.argv[1:]
    run = {"prompts": _prompts, "models": _models, "notes": _notes}[kind](int(size), Path(folder))
    begun = time.perf_counter()
    run()
    told = {"seconds": time.perf_counter() - begun, "peak": peak()}
    Console(soft_wrap=True, highlight=False).print(json.dumps(told), markup=False)


SERIES = Series(
    "growth",
    "How cost grows",
    ("what", "how many", "seconds", "seconds for as much as in the first step", "peak memory (MB)"),
    _rows,
)

if __name__ == "__main__":
    _main()
