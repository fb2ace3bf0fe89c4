"""A run on disk: its manifest, its scored items, and how a killed run goes on."""

import io
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import UsageError
from swapbias.files import LOCK, TEMPORARY, as_json, parse_json, write_whole
from swapbias.scorers import Progress, Scorer
from swapbias.studies import as_prompts, load_corpus, open_study, own_studies

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset

    from swapbias.audit.cache import ScoreCache

MANIFEST = "manifest.json"
STUDIES = "studies"  # folder of a run that holds the files of the user's own studies
REQUIRED = ("swapbias", "status", "settings", "corpora", "skipped", "versions")


@dataclass(frozen=True, slots=True)
class Run:
    """A folder of results. Every file in it is written whole or not at all."""

    folder: Path

    @staticmethod
    def check_new(folder: Path) -> None:
        """Know before the work starts that a run can be written here.

        Raises:
            UsageError: the folder is a file or holds something.
            OSError: it cannot be written.
        """
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, expected a folder. Choose another --out.")
        if folder.exists() and any(path.name != LOCK for path in folder.iterdir()):
            hint = f"Go on with --resume {folder}, or choose" if (folder / MANIFEST).exists() else "Choose"
            raise UsageError(f"{folder} is not empty. {hint} another --out.")
        existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass

    @classmethod
    def create(cls, folder: Path, manifest: Mapping[str, Any]) -> "Run":
        """A new run in a new or empty folder.

        Raises:
            UsageError, OSError: as ``check_new``.
        """
        cls.check_new(folder)
        (folder / "items").mkdir(parents=True, exist_ok=True)
        run = cls(folder)
        run.write_manifest(manifest)
        return run

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """A run that was begun.

        Raises:
            UsageError: the folder holds no run.
        """
        if not (folder / MANIFEST).is_file():
            raise UsageError(f"{folder} holds no run: it has no {MANIFEST}. Give the folder of a run.")
        run = cls(folder)
        run.open_studies()
        return run

    def keep_studies(self, names: Sequence[str]) -> dict[str, str]:
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
        kept = self.folder / STUDIES
        origins = self.manifest().get("own_studies") if kept.is_dir() else None
        if not isinstance(origins, dict):
            return
        for place in sorted(kept.iterdir()):
            if place.name in origins:
                origin = str(origins[place.name])
                open_study(place, origin="" if origin == "local" else origin)

    def sweep(self) -> None:
        """Remove what a killed process left behind: temporary files, and parts of studies that are complete."""
        for path in self.folder.rglob(f".*{TEMPORARY}"):
            path.unlink(missing_ok=True)
        for parts in (self.folder / "items").glob(".*.parts"):
            if (self.folder / "items" / f"{parts.name[1:].removesuffix('.parts')}.parquet").exists():
                shutil.rmtree(parts)

    def manifest(self) -> dict[str, Any]:
        """The manifest as written last.

        Raises:
            ValueError: it is no JSON object.
        """
        try:
            read = parse_json((self.folder / MANIFEST).read_text(encoding="utf-8"))
        except ValueError as error:  # not JSON, or not UTF-8
            raise ValueError(f"{self.folder / MANIFEST} is no JSON ({error}). Start a new run.") from error
        missing = [key for key in REQUIRED if not isinstance(read, dict) or key not in read]
        if missing:
            raise ValueError(f"{self.folder / MANIFEST} lacks {missing[0]!r}. Start a new run.")
        found: dict[str, Any] = read
        return found

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest."""
        self.write_json(MANIFEST, manifest)

    def write_json(self, name: str, content: Any) -> None:
        """A JSON file; NaN becomes null."""
        text = json.dumps(as_json(content), indent=2, ensure_ascii=False, allow_nan=False)
        self.write(name, (text + "\n").encode())

    def write_csv(self, name: str, table: "pd.DataFrame") -> None:
        """A CSV file; NaN becomes an empty cell."""
        self.write(name, table.to_csv(index=False, lineterminator="\n").encode())

    def write_parquet(self, name: str, table: "pd.DataFrame") -> None:
        """A Parquet file."""
        self.write(name, _parquet(pa.Table.from_pandas(table, preserve_index=False)))

    def write(self, name: str, content: bytes) -> None:
        """Any file, by its path within the run."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)

    def items(self, study: str) -> "pd.DataFrame | None":
        """The scored rows of a study, or None while they are not complete."""
        path = self.folder / "items" / f"{study}.parquet"
        return pq.read_table(path).to_pandas() if path.exists() else None


class Parts:
    """The scored rows of a study as they come: each chunk is written down at once, and scored once.

    Attributes:
        done: all rows, where the study is complete already.
    """

    def __init__(self, run: Run, study: str) -> None:
        """Of a run on disk, which may have been stopped."""
        self.run, self.study, self.done = run, study, run.items(study)
        self.folder = run.folder / "items" / f".{study}.parts"
        self.names: list[str] = []

    def has(self, beginning: str) -> bool:
        """Whether a chunk whose name begins so is on disk."""
        return any(_rows_of(path) is not None for path in self.folder.glob(f"{beginning}*.parquet"))

    def add(self, name: str, score: Callable[[], list[dict[str, Any]]]) -> int:
        """Score a chunk, or take it from disk; how many rows were there. Chunks lie in the order of their names."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.names.append(name)
        path = self.folder / f"{name}.parquet"
        known = _rows_of(path)
        if known is None:
            write_whole(path, _parquet(_table(score())))
        return known or 0

    def until(self, trial: int) -> "pd.DataFrame":
        """The rows so far, of this trial and those before it."""
        rows = self._table().to_pandas() if self.done is None else self.done
        if "trial" not in rows:
            return rows
        return rows[~(rows["trial"].astype(float) > trial)]

    def _table(self) -> pa.Table:
        tables = [pq.read_table(self.folder / f"{name}.parquet") for name in sorted(self.names)]
        return pa.concat_tables(tables, promote_options="default")

    def close(self) -> "pd.DataFrame":
        """All rows, from now on in one file."""
        if self.done is None:
            table = self._table()
            self.run.write(f"items/{self.study}.parquet", _parquet(table))
            shutil.rmtree(self.folder)
            self.done = table.to_pandas()
        return self.done


def now() -> str:
    """The time of day as manifests have it: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _rows_of(path: Path) -> int | None:
    """Rows of a part on disk, or None where there is none that can be read: it is scored again."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowInvalid):
        return None


def _table(rows: "Sequence[Mapping[str, Any]]") -> pa.Table:
    """The rows with every column that any of them has: those of other wordings have two more."""
    columns = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in columns})


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


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
    rows: Sequence[Mapping[str, Any]],
    scorer: Scorer,
    on_progress: Progress | None = None,
    *,
    cache: "ScoreCache | None" = None,
) -> list[dict[str, Any]]:
    """``score_prompts`` on plain rows; with a cache, what an earlier audit scored is not scored again.

    Rows made from credentialed notes are never cached, whoever scores them.
    """
    prompts = as_prompts(rows)
    if cache is None or any(str(row.get("credentialed")) == "True" for row in rows):
        scored = scorer.score(prompts, on_progress)
    else:
        scored = cache.score(prompts, scorer, on_progress)
    lost = [not one.finite or math.isinf(one.score) for one in scored]
    return [
        {
            **row,
            "model_id": scorer.model_id,
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


def chunks(rows: Sequence[Mapping[str, Any]], size: int) -> Iterator[list[Mapping[str, Any]]]:
    """Runs of about ``size`` rows that never part neighbours with one text (they share a forward pass)."""
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        while end < len(rows) and rows[end]["text"] == rows[end - 1]["text"]:
            end += 1
        yield list(rows[start:end])
        start = end
