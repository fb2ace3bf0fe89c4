"""A run on disk, with the sha256 of its files, and prompts with their scores as columns."""

import math
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias import files
from swapbias.errors import UsageError
from swapbias.findings import terms
from swapbias.models import Progress, Scored, Scorer, checked_scores, progress
from swapbias.public_calls import public_call
from swapbias.runs.kept_studies import STUDIES, open_kept_studies
from swapbias.runs.same_inputs import find_same_inputs, without_same_inputs
from swapbias.studies import catalogue, load_corpus

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset

    from swapbias.runs.shared_columns import SharedColumns

MANIFEST = "manifest.json"
"""File of settings, versions and fingerprints."""
SHA256 = "sha256"
"""Key of a manifest: the sha256 of each other file, by its path within the run."""
ITEMS = "items"
"""Folder of the scored rows."""
SCORES = ".scores"
"""Folder of a run that is not complete: scores that the machine's cache may not hold."""
REPORT = "report.html"
"""File of the page."""
ROUNDS = "rounds"
"""Key of a manifest: how many trials were planned and scored whole, where a limit stopped the run."""
RELEASED = "released"
"""Key of a manifest: whose outputs the run is of, where no model was read."""
NON_FINITE = "non_finite"
"""Column of scored rows, where there is such a row: 1 where the model gave NaN or infinity."""
REQUIRED = (
    "swapbias", "status", "started", "settings", "corpora", "skipped", "versions", "credentialed",
)  # fmt: skip
"""Keys of every manifest."""
_OF_COMPLETE = ("models", "finished")  # keys of the manifest of a complete run
_COLUMNS = {"experiment", "group", "model_id", "score", "text"}  # of every table of scored rows
_RECORDED = (f"{ITEMS}/*.parquet", "*.csv", "results.json", "explanations.json", REPORT)


@dataclass(frozen=True, slots=True)
class Run:
    """A folder of results, each file written whole or not at all."""

    folder: Path
    """Folder on this machine."""
    address: str = ""
    """URL of the store that it is copied to; blank for none."""

    @property
    def place(self) -> "Path | str":
        """Name of the run in sentences: its URL, else its folder."""
        return self.address or self.folder

    @staticmethod
    def check_new(folder: Path, address: str = "") -> None:
        """Make sure, before the work starts, that files can be written here.

        Args:
            folder: the folder of the run; new, or empty except what a stopped process left.
            address: URL of its store, for sentences.

        Raises:
            UsageError: the folder holds something else, is a file or lies below one, or is a link to nothing.
            OSError: it cannot be written.
        """
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, expected a folder. Choose another --out.")
        if folder.is_symlink() and not folder.exists():
            raise UsageError(f"{folder} is a link to nothing. Choose another --out.")
        if folder.exists() and not all(map(_is_left_over, folder.iterdir())):
            raise UsageError(f"{address or folder} is not empty. Choose another --out.")
        existing = next(
            parent for parent in (folder, *folder.absolute().parents) if parent.exists()
        )
        if not existing.is_dir():
            raise UsageError(f"{folder} lies below {existing}, a file. Choose another --out.")
        with tempfile.TemporaryFile(dir=existing):
            pass

    @classmethod
    def create(cls, folder: Path, manifest: Mapping[str, Any], address: str = "") -> "Run":
        """Begin a run, with the files of the user's own studies.

        Args:
            folder: new or empty.
            manifest: the manifest of the run.
            address: URL of its store; blank for none.

        Raises:
            UsageError: the folder holds something else, or is a file.
            OSError: it cannot be written.
        """
        cls.check_new(folder, address)
        (folder / ITEMS).mkdir(parents=True, exist_ok=True)
        run = cls(folder, address)
        run.write_manifest(manifest)
        for study in manifest.get("own_studies", ()):
            for name, content in load_corpus(study).own_files.items():
                run.write(f"{STUDIES}/{study}/{name}", content)
        return run

    @classmethod
    def open(cls, folder: Path, address: str = "") -> "Run":
        """Return a run that was begun; the user's own studies are known as it read them.

        Args:
            folder: the folder of the run.
            address: URL of its store; blank for none.

        Raises:
            UsageError: the folder holds no run.
        """
        run = cls(folder, address)
        if not (folder / MANIFEST).is_file():
            raise UsageError(
                f"{run.place} contains no run: it has no {MANIFEST}. Give the folder of a run."
            )
        run.open_studies()
        return run

    def open_studies(self) -> None:
        """Make the user's own studies known as this run read them."""
        open_kept_studies(self.folder, self.manifest())

    def manifest(self) -> dict[str, Any]:
        """Return the manifest as it was written last.

        Raises:
            ValueError: it is no JSON object, lacks a key of every run, or has settings that are none.
        """
        try:
            manifest = files.parse_json((self.folder / MANIFEST).read_text(encoding="utf-8"))
        except ValueError as error:  # not JSON, or not UTF-8
            raise ValueError(
                f"{self.place}/{MANIFEST} is no JSON ({error}). Start a new run."
            ) from error
        keys = manifest.keys() if isinstance(manifest, dict) else ()
        is_complete = "status" in keys and manifest["status"] == "complete"
        needed = (*REQUIRED, *_OF_COMPLETE) if is_complete else REQUIRED
        lacking = [key for key in needed if key not in keys]
        if lacking:
            raise ValueError(f"{self.place}/{MANIFEST} lacks {lacking[0]!r}. Start a new run.")
        if not isinstance(manifest["settings"], dict):
            raise ValueError(
                f"{self.place}/{MANIFEST}: 'settings' is no JSON object. Start a new run."
            )
        return dict(manifest)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest.

        Args:
            manifest: its whole content.
        """
        self.write_json(MANIFEST, manifest)

    def checked(self, name: str) -> Path:
        """Return the path of a file of a complete run.

        Args:
            name: path within the run.

        Raises:
            ValueError: the file is missing, or its sha256 is not the recorded one.
        """
        path = self.folder / name
        if not path.is_file():
            raise ValueError(
                f"{path} is missing, and a complete run has it. Audit again into another --out."
            )
        recorded = self.manifest().get(SHA256) if (self.folder / MANIFEST).exists() else None
        if recorded is not None and files.file_sha256(path) != recorded.get(name):
            raise ValueError(
                f"{self.place}/{name} is damaged: its sha256 is not the one in {MANIFEST}. Take it from a copy, or "
                "audit again into another --out."
            )
        return path

    def sums(self) -> dict[str, str]:
        """Return the sha256 of every file that is read again, by its path within the run."""
        paths = [path for pattern in _RECORDED for path in sorted(self.folder.glob(pattern))]
        return {path.relative_to(self.folder).as_posix(): files.file_sha256(path) for path in paths}

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file; NaN becomes null.

        Args:
            name: path within the run.
            content: lists, dicts, texts and numbers.
        """
        self.write(name, files.json_file(content))

    def write_csv(self, name: str, table: "pd.DataFrame") -> None:
        """Write a CSV file (see ``as_csv``).

        Args:
            name: path within the run.
            table: its rows.
        """
        self.write(name, files.as_csv(table))

    def write_parquet(self, name: str, table: "pd.DataFrame | pa.Table") -> None:
        """Write a Parquet file.

        Args:
            name: path within the run.
            table: its rows.
        """
        if not isinstance(table, pa.Table):
            table = pa.Table.from_pandas(table, preserve_index=False)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        self.write(name, sink.getvalue().to_pybytes())

    def write(self, name: str, content: bytes) -> None:
        """Write any file, whole or not at all.

        Args:
            name: path within the run.
            content: the content of the file.
        """
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(target, content)

    def items(
        self, study: str, *, without: Collection[str] = (), shared: "SharedColumns | None" = None
    ) -> "pd.DataFrame":
        """Return the scored rows of a study.

        Args:
            study: its name.
            without: columns that are not read.
            shared: holds the columns that further runs have alike; None: each run holds its own.

        Raises:
            ValueError: they are not what an audit wrote.
        """
        path = self.checked(f"{ITEMS}/{study}.parquet")
        try:
            with pq.ParquetFile(path) as file:
                names = file.schema_arrow.names
                table = file.read([name for name in names if name not in without])
            rows = take_frame(table) if shared is None else shared.frame(table, study)
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            raise ValueError(
                f"{path} is no Parquet file of texts and numbers. Its owner can audit again."
            ) from error
        if not set(names) >= _COLUMNS:
            raise ValueError(f"{path} lacks columns of scored rows. Audit again.")
        return rows


def _is_left_over(path: Path) -> bool:
    """Return whether a file or folder is what a stopped process leaves behind."""
    is_empty_items = path.name == ITEMS and not any(path.iterdir())
    return files.is_left_over(path) or is_empty_items


def take_frame(table: pa.Table) -> "pd.DataFrame":
    """Return a table for pandas, which takes its columns one by one.

    Args:
        table: the table that cannot be used again.
    """
    return table.to_pandas(self_destruct=True)


@public_call
def score_prompts(
    prompts: "Dataset", scorer: Scorer, *, on_progress: Progress = progress.silent
) -> "Dataset":
    """Return the prompts with ``model_id``, ``score``, ``answer``, ``top_tokens`` and further score columns.

    Rows keep their order and number; NaN marks what could not be scored. Where the model gave NaN or an infinite
    number for a row, there is a further column ``non_finite``, 1 for such rows and else 0. Where the model reads the
    texts of a pair as one input, they have no score, and there is a further column ``same_input``.

    Args:
        prompts: rows of a corpus.
        scorer: reads them.
        on_progress: is called with the number of further rows that are scored.

    >>> from swapbias import load_prompts, load_scorer
    >>> scorer = load_scorer(lambda texts: [0.9 if "He" in text else 0.8 for text in texts], name="toy")
    >>> score_prompts(load_prompts("occupation_sentiment", "sentences"), scorer)["score"][:2]
    [0.9, 0.8]
    """
    from datasets import Dataset

    rows = prompts.to_list()
    published = catalogue.published_prompts(rows)
    same_inputs = find_same_inputs(rows, published, scorer)
    scores = checked_scores(scorer, published, on_progress)
    measured = without_same_inputs(scores, same_inputs, scorer)
    return Dataset.from_list(with_scores(rows, measured, scorer.model_id, same_inputs))


def with_scores(
    rows: Sequence[Mapping[str, Any]],
    scored: Sequence[Scored],
    model_id: str,
    same_inputs: Collection[int] = (),
) -> list[dict[str, Any]]:
    """Return the rows with the columns that ``score_prompts`` adds.

    Args:
        rows: prompts, each a row.
        scored: scores of the same rows.
        model_id: the model id of the scorer.
        same_inputs: indices of rows that the model reads as another row of their pair.
    """
    non_finite = [not score.finite or math.isinf(score.score) for score in scored]
    has_non_finite = any(non_finite)
    scored_rows = []
    for index, (row, score) in enumerate(zip(rows, scored, strict=True)):
        columns = {**row, "model_id": model_id}
        # Floats, for a chunk of whole numbers would become a column of another type; infinity has no mean.
        for name, value in {"score": score.score, **score.parts}.items():
            columns[name] = math.nan if math.isinf(value) else float(value)
        if has_non_finite:
            columns[NON_FINITE] = float(non_finite[index])
        if same_inputs:
            columns[terms.SAME_INPUT] = float(index in same_inputs)
        columns["answer"] = score.answer
        columns["top_tokens"] = score.top_tokens
        scored_rows.append(columns)
    return scored_rows
