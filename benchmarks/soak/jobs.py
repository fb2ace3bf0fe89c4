"""What is killed: small runs of each command that writes, as a user gives it, and what it leaves."""

import csv
import random
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Content = Mapping[str, bytes]
_TIMES = (
    "manifest.json",
    "report.html",
    "swap.json",
    "training.json",
    "summary.html",
    "comparison.html",
)
_ROWS = 500


@dataclass(frozen=True, slots=True)
class Job:
    """A command and what it makes.

    Attributes:
        name: as the table shows it.
        command: folder -> arguments of ``swapbias``, to begin.
        again: folder -> arguments to go on after a stop.
        made: folder -> what is there at the end by name, without what holds the time of day.
        reset: folder -> makes room for another run.
        whole: content -> whether it is all or nothing, at any moment.
    """

    name: str
    command: Callable[[Path], Sequence[str]]
    again: Callable[[Path], Sequence[str]]
    made: Callable[[Path], Content]
    reset: Callable[[Path], None] = lambda folder: None
    at_once: bool = False
    small: Mapping[str, Any] = field(default_factory=dict)


def run(arguments: Sequence[str]) -> int:
    """``swapbias`` in this process as on the command line; the exit code."""
    import swapbias.models.scorer as scorer
    import swapbias.swapping.jobs as files
    from swapbias.cli import main

    scorer.Scorer.chunk_rows = 64  # several parts of a small run
    files.swap_files.__kwdefaults__.update(part_bytes=4_000, batch_rows=40)
    sys.argv = ["swapbias", *arguments]
    try:
        main()
    except SystemExit as done:
        sys.stdout.flush(), sys.stderr.flush()
        return int(done.code or 0)
    return 0


def rows(content: Content) -> Counter[str]:
    """Every row of every table, as text: what is lost and doubled is counted in them."""
    import io

    found: Counter[str] = Counter()
    for name, data in content.items():
        if name.endswith(".parquet"):
            found.update(str(row) for row in pq.read_table(io.BytesIO(data)).to_pylist())
        elif name.endswith(".csv"):
            found.update(map(str, csv.reader(io.StringIO(data.decode()))))
    return found


def _files(folder: Path) -> Content:
    """Everything in a folder but what holds the time of day; hidden files count: none may be left."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in _TIMES and path.suffix != ".png"
    }


def _beside(folder: Path) -> Content:
    """The same, with hidden folders beside it, in which a command may have begun."""
    left = {path.name: b"" for path in folder.parent.glob(f".{folder.name}*")}
    return {**_files(folder), **left}


def jobs(place: Path, hub: Any, chat: Any) -> Iterator[Job]:
    """Every job; models, notes and a finished run are made here first."""
    from tests import tiny
    from tests.models.sentiment.test_training import write_stsa

    model = place / "model"
    notes = place / "notes.csv"
    model.mkdir()
    tiny.save("bert", model)
    draw = random.Random(1)
    with notes.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(("note_id", "text"))
        for number in range(_ROWS):
            writer.writerow(
                (
                    number,
                    f"She has pain {number}. " + "He told her of his wife. " * draw.randrange(1, 5),
                )
            )
    data = write_stsa(place / "sst")
    audit = (
        "audit",
        str(model),
        "--study",
        "gendered_stigma:rq1",
        "--limit",
        "200",
        "--no-wordings",
        "--no-cache",
    )

    def go_on(begin: Callable[[Path], Sequence[str]], mark: str) -> Callable[[Path], Sequence[str]]:
        return lambda folder: (
            ("audit", "--resume", str(folder), "--no-cache")
            if (folder / mark).exists()
            else begin(folder)
        )

    def begun(folder: Path) -> Sequence[str]:
        return (*audit, "--out", str(folder))

    def several(folder: Path) -> Sequence[str]:
        asked = ("--study", "occupation_sentiment:control", "--limit", "8", "--no-cache")
        return ("audit", "vader", "benchmarks.soak.jobs:scored", *asked, "--out", str(folder))

    def asked(folder: Path) -> Sequence[str]:
        url = (
            "--chat",
            "tiny",
            "--base-url",
            chat.base_url,
            "--trials",
            "1",
            "-M",
            "max-tokens=10",
        )
        return (
            "audit",
            *url,
            "--study",
            "stigma_vignettes:beliefs",
            "--limit",
            "60",
            "--no-wordings",
            "--no-cache",
            "--out",
            str(folder),
        )

    def swap(folder: Path) -> Sequence[str]:
        return ("swap", str(notes), "--out", str(folder))

    def train(folder: Path) -> Sequence[str]:
        return ("train", "bow", "--data", str(data), "--out", str(folder))

    def build(folder: Path) -> Sequence[str]:
        return ("build", "occupation_sentiment", "gender_lexicon", "--out", str(folder))

    def push(folder: Path) -> Sequence[str]:
        return ("push", "datasets", "occupation_sentiment", "--namespace", "alice")

    def share(folder: Path) -> Sequence[str]:
        return ("share", str(place / "shared"), "--results", "alice/audits")

    def published(name: str) -> Callable[[Path], Content]:
        def made(folder: Path) -> Content:
            if ("dataset", name) not in hub.repositories:
                return {}
            found = {
                path: data
                for path, data in hub.files("dataset", name).items()
                if path != ".gitattributes"
            }
            return found and {
                **found,
                "tags": str(sorted(hub.tags("dataset", name))).encode(),
                "commits": str(len(hub.commits("dataset", name))).encode(),
            }

        return made

    yield Job("audit", begun, go_on(begun, "manifest.json"), _files)
    yield Job("audit of several models", several, several, _files)
    yield Job(
        "audit of a chat service",
        asked,
        go_on(asked, "manifest.json"),
        lambda folder: _answers(_files(folder)),
    )
    yield Job("swap", swap, swap, _files)
    yield Job("train", train, train, _beside)
    yield Job("build", build, build, _beside)
    yield Job(
        "push",
        push,
        push,
        published("alice/occupation_sentiment"),
        lambda folder: hub.repositories.clear(),
        True,
    )
    yield Job(
        "share",
        share,
        share,
        published("alice/audits"),
        lambda folder: hub.repositories.clear(),
        True,
    )


def _answers(content: Content) -> Content:
    """Answers in no order and without their seconds: they come as they come."""
    import json

    lines = [json.loads(line) for line in content.get("answers.jsonl", b"").splitlines()]
    kept = sorted(json.dumps([one["key"], one["prompt_id"], one["answer"]]) for one in lines)
    return {**content, "answers.jsonl": "\n".join(kept).encode()}


def scored(texts: list[str]) -> list[float]:
    """A user's own function: probabilities of positive sentiment."""
    return [0.5 + 0.001 * (zlib.crc32(text.encode()) % 100) for text in texts]
