"""A run on disk: its manifest with the sha256 of every file, its scored items, and how prompts are scored."""

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import UsageError
from swapbias.files import TEMPORARY, as_csv, as_json, file_sha256, parse_json, write_whole
from swapbias.models import Progress, Scored, Scorer
from swapbias.privacy import is_left_over
from swapbias.studies import as_prompts, load_corpus, own_studies, reopen_study

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset

MANIFEST = "manifest.json"
SHA256 = "sha256"  # key of a manifest: the sha256 of each other file, by its path within the run
ITEMS = "items"  # folder of the scored rows
STUDIES = "studies"  # folder of a run that holds the files of the user's own studies
SCORES = ".scores"  # folder of a run that is not complete: scores that the machine's cache may not hold
REPORT = "report.html"
_RECORDED = (f"{ITEMS}/*.parquet", "phrases/*.parquet", "*.csv", "results.json", "explanations.json", REPORT)
REQUIRED = ("swapbias", "status", "settings", "corpora", "skipped", "versions")


@dataclass(frozen=True, slots=True)
class Run:
    """A folder of results. Every file in it is written whole or not at all.

    Attributes:
        folder: on this machine.
        address: URL of the store that the folder is copied to; blank for a run of this machine.
    """

    folder: Path
    address: str = ""

    @property
    def place(self) -> "Path | str":
        """Where the run lies, for sentences."""
        return self.address or self.folder

    @staticmethod
    def check_new(folder: Path, address: str = "") -> None:
        """Know before the work starts that files can be written here.

        Raises:
            UsageError: the folder is a file or holds something.
            OSError: it cannot be written.
        """
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, expected a folder. Choose another --out.")
        if folder.exists() and not all(map(_is_left_over, folder.iterdir())):
            raise UsageError(f"{address or folder} is not empty. Choose another --out.")
        existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass

    @classmethod
    def create(cls, folder: Path, manifest: Mapping[str, Any], address: str = "") -> "Run":
        """A new run in a new or empty folder.

        Raises:
            UsageError, OSError: as ``check_new``.
        """
        cls.check_new(folder, address)
        (folder / ITEMS).mkdir(parents=True, exist_ok=True)
        run = cls(folder, address)
        run.write_manifest(manifest)
        return run

    @classmethod
    def open(cls, folder: Path, address: str = "") -> "Run":
        """A run that was begun.

        Raises:
            UsageError: the folder holds no run.
        """
        run = cls(folder, address)
        if not (folder / MANIFEST).is_file():
            raise UsageError(f"{run.place} holds no run: it has no {MANIFEST}. Give the folder of a run.")
        run.open_studies()
        return run

    def save_studies(self, names: Sequence[str]) -> dict[str, str]:
        """Copy the files of the user's own studies into the run, so that it is whole without them.

        Returns:
            By name where each comes from: OWNER/NAME@commit, or ``local``.
        """
        own = [load_corpus(name) for name in names if name in own_studies()]
        for corpus in own:
            for name, content in corpus.own.items():
                self.write(f"{STUDIES}/{corpus.name}/{name}", content)
        return {corpus.name: corpus.origin or "local" for corpus in own}

    def open_studies(self) -> None:
        """Make the user's own studies known as this run read them.

        Raises:
            ValueError: a copy that was edited and is no study any more.
        """
        copies = self.folder / STUDIES
        origins: Any = self.manifest().get("own_studies") if copies.is_dir() else None
        for place in sorted(copies.iterdir()) if isinstance(origins, dict) else ():
            if place.name in origins:
                reopen_study(place, str(origins[place.name]))

    def remove_temporary(self) -> None:
        """Remove the temporary files of a killed process."""
        for path in self.folder.rglob(f".*{TEMPORARY}"):
            path.unlink(missing_ok=True)

    def manifest(self) -> dict[str, Any]:
        """The manifest as written last.

        Raises:
            ValueError: it is no JSON object, or lacks a key that every run has.
        """
        try:
            read = parse_json((self.folder / MANIFEST).read_text(encoding="utf-8"))
        except ValueError as error:  # not JSON, or not UTF-8
            raise ValueError(f"{self.place}/{MANIFEST} is no JSON ({error}). Start a new run.") from error
        missing = [key for key in REQUIRED if not isinstance(read, dict) or key not in read]
        if missing:
            raise ValueError(f"{self.place}/{MANIFEST} lacks {missing[0]!r}. Start a new run.")
        found: dict[str, Any] = read
        return found

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest."""
        self.write_json(MANIFEST, manifest)

    def check(self, name: str) -> None:
        """Refuse a damaged file of a finished run, by the sha256 that the manifest has; older runs have none.

        Raises:
            ValueError: it is not what was written.
        """
        recorded = self.manifest().get(SHA256) if (self.folder / MANIFEST).exists() else None
        if recorded is not None and file_sha256(self.folder / name) != recorded.get(name):
            raise ValueError(
                f"{self.place}/{name} is damaged: its sha256 is not the one in {MANIFEST}. Take it from a copy, or "
                "audit again into another --out."
            )

    def sums(self) -> dict[str, str]:
        """The sha256 of every file that is read again, by its path within the run."""
        paths = [path for pattern in _RECORDED for path in sorted(self.folder.glob(pattern))]
        return {path.relative_to(self.folder).as_posix(): file_sha256(path) for path in paths}

    def write_json(self, name: str, content: Any) -> None:
        """A JSON file; NaN becomes null."""
        text = json.dumps(as_json(content), indent=2, ensure_ascii=False, allow_nan=False)
        self.write(name, (text + "\n").encode())

    def write_csv(self, name: str, table: "pd.DataFrame") -> None:
        """A CSV file (see ``as_csv``)."""
        self.write(name, as_csv(table))

    def write_parquet(self, name: str, table: "pd.DataFrame | pa.Table") -> None:
        """A Parquet file."""
        made = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
        sink = pa.BufferOutputStream()
        pq.write_table(made, sink)
        self.write(name, sink.getvalue().to_pybytes())

    def write(self, name: str, content: bytes) -> None:
        """Any file, by its path within the run."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)

    def items(self, study: str) -> "pd.DataFrame | None":
        """The scored rows of a study, or None while they are not complete.

        Raises:
            ValueError: they are damaged.
        """
        path = self.folder / ITEMS / f"{study}.parquet"
        if not path.exists():
            return None
        self.check(f"{ITEMS}/{study}.parquet")
        return as_frame(pq.read_table(path))


def as_frame(table: pa.Table) -> "pd.DataFrame":
    """The table for pandas. Its columns go one by one, so that rows are in memory once: do not use it again."""
    return table.to_pandas(self_destruct=True)


def _is_left_over(path: Path) -> bool:
    """As ``is_left_over``, and the folder of items without any."""
    if path.is_dir():
        return path.name == ITEMS and not any(path.iterdir())
    return is_left_over(path)


def now() -> str:
    """The time of day as manifests have it: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def as_table(rows: "Sequence[Mapping[str, Any]]") -> pa.Table:
    """The rows with every column that any of them has: those of other wordings have two more."""
    columns = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in columns})


NON_FINITE = "non_finite"  # column of scored rows, where there is such a row: 1 where the model gave NaN or infinity


def score_prompts(prompts: "Dataset", scorer: Scorer, *, on_progress: Progress | None = None) -> "Dataset":
    """The prompts with ``model_id``, ``score``, ``answer``, ``top_tokens`` and the scorer's further score columns.

    Rows keep their order and number; NaN marks what could not be scored. Where the model gave NaN or an infinite
    number for a row, there is a further column ``non_finite``, 1 for such rows and else 0.

    >>> from swapbias import load_prompts, load_scorer
    >>> scorer = load_scorer(lambda texts: [0.9 if "He" in text else 0.8 for text in texts], name="toy")
    >>> score_prompts(load_prompts("occupation_sentiment", "sentences"), scorer)["score"][:2]
    [0.9, 0.8]
    """
    from datasets import Dataset

    rows = prompts.to_list()
    return Dataset.from_list(score_rows(rows, scorer, on_progress))


def score_rows(
    rows: Sequence[Mapping[str, Any]], scorer: Scorer, on_progress: Progress | None = None
) -> list[dict[str, Any]]:
    """``score_prompts`` on plain rows."""
    return with_scores(rows, scorer.score(as_prompts(rows), on_progress), scorer.model_id)


def with_scores(rows: Sequence[Mapping[str, Any]], scored: Sequence[Scored], model_id: str) -> list[dict[str, Any]]:
    """The rows with the columns that ``score_prompts`` adds."""
    lost = [not one.finite or math.isinf(one.score) for one in scored]
    return [
        {
            **row,
            "model_id": model_id,
            "score": _finite(one.score),
            **{name: _finite(value) for name, value in one.parts.items()},
            **({NON_FINITE: float(non_finite)} if any(lost) else {}),
            "answer": one.answer,
            "top_tokens": one.top_tokens,
        }
        for row, one, non_finite in zip(rows, scored, lost, strict=True)
    ]


def _finite(value: float) -> float:
    """A float, for a chunk of whole numbers would become a column of another type; NaN for what has no mean."""
    return math.nan if math.isinf(value) else float(value)


def refuse_non_finite(rows: "pd.DataFrame", place: str) -> None:
    """Stop where a model is broken: what few finite numbers are left would say nothing of it.

    Args:
        rows: the scored rows of a study.
        place: where they are kept.

    Raises:
        ValueError: a model gave NaN or infinite numbers for more than half of the rows of an experiment.
    """
    if NON_FINITE not in rows:
        return
    for (experiment, model_id), lost in rows.groupby(["experiment", "model_id"], sort=False)[NON_FINITE]:
        if 2 * lost.sum() > len(lost):
            raise ValueError(
                f"{model_id} gave NaN or infinite numbers for {lost.sum():.0f} of {len(lost)} prompts "
                f"of {experiment}, expected finite ones. Check its weights and --dtype; what was scored is kept "
                f"in {place}."
            )


def chunks(rows: Sequence[Mapping[str, Any]], size: int) -> Iterator[range]:
    """The places of runs of about ``size`` rows that never part neighbours with one text (they share a pass)."""
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        while end < len(rows) and rows[end]["text"] == rows[end - 1]["text"]:
            end += 1
        yield range(start, end)
        start = end
