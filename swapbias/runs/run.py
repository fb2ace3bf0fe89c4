"""A run on disk: its manifest, its scored items, and how a killed run goes on."""

import io
import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import UsageError
from swapbias.files import (
    SHA256,
    TEMPORARY,
    as_csv,
    as_json,
    checksum,
    checksum_file,
    file_sha256,
    is_sealed,
    parse_json,
    sealed,
    write_checked,
    write_whole,
)
from swapbias.models import Progress, Say, Scorer
from swapbias.privacy import FILE, is_left_over
from swapbias.studies import as_prompts, load_corpus, own_studies, reopen_study

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset

    from swapbias.runs.cache import ScoreCache
    from swapbias.store import Store

MANIFEST = "manifest.json"
ITEMS = "items"  # folder of the scored rows
STUDIES = "studies"  # folder of a run that holds the files of the user's own studies
_DRAWN = ("report.html", "figures/*.svg", "figures/*.png")
_RECORDED = (f"{ITEMS}/*.parquet", "phrases/*.parquet", "*.csv", "results.json", "explanations.json", *_DRAWN)
REQUIRED = ("swapbias", "status", "settings", "corpora", "skipped", "versions")


@dataclass(frozen=True, slots=True)
class Run:
    """A folder of results. Every file in it is written whole or not at all.

    Attributes:
        folder: on this machine.
        store: where the run lies, if not there: what is written goes to it at once, and the folder is a copy.
    """

    folder: Path
    store: "Store | None" = None

    @property
    def place(self) -> "Path | Store":
        """Where the run lies, for sentences."""
        return self.store or self.folder

    @staticmethod
    def check_new(folder: Path, store: "Store | None" = None) -> None:
        """Know before the work starts that a run can be written here.

        Raises:
            UsageError: the folder is a file or holds something.
            OSError: it cannot be written.
        """
        if store and (names := [name for name in store.names() if not is_left_over(Path(name))]):
            hint = f"Go on with --resume {store}, or choose" if MANIFEST in names else "Choose"
            raise UsageError(f"{store} is not empty. {hint} another --out.")
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, expected a folder. Choose another --out.")
        if folder.exists() and not all(map(_is_left_over, folder.iterdir())):
            hint = f"Go on with --resume {folder}, or choose" if (folder / MANIFEST).exists() else "Choose"
            raise UsageError(f"{folder} is not empty. {hint} another --out.")
        existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass

    @classmethod
    def create(cls, folder: Path, manifest: Mapping[str, Any], store: "Store | None" = None) -> "Run":
        """A new run in a new or empty folder.

        Raises:
            UsageError, OSError: as ``check_new``.
        """
        cls.check_new(folder, store)
        (folder / "items").mkdir(parents=True, exist_ok=True)
        run = cls(folder, store)
        run.sweep()
        if store and (folder / FILE).exists():
            store.write(FILE, (folder / FILE).read_bytes())
        run.write_manifest(manifest)
        return run

    @classmethod
    def open(cls, folder: Path, store: "Store | None" = None) -> "Run":
        """A run that was begun.

        Raises:
            UsageError: the folder holds no run.
        """
        run = cls(folder, store)
        if not (folder / MANIFEST).is_file():
            raise UsageError(f"{run.place} holds no run: it has no {MANIFEST}. Give the folder of a run.")
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
                reopen_study(place, str(origins[place.name]))

    def sweep(self) -> None:
        """Remove what a killed process left behind: temporary files, and parts of studies that are complete."""
        for path in self.folder.rglob(f".*{TEMPORARY}"):
            path.unlink(missing_ok=True)
        for parts in (self.folder / "items").glob(".*.parts"):
            name = f"{ITEMS}/{parts.name[1:].removesuffix('.parts')}.parquet"
            if (self.folder / name).exists() and self.is_whole(name):
                self.remove_parts(parts.name)

    def remove_parts(self, name: str) -> None:
        """Remove a folder of parts."""
        shutil.rmtree(self.folder / ITEMS / name, ignore_errors=True)  # a given-up worker may write there yet
        if self.store:
            self.store.remove_folder(f"{ITEMS}/{name}")

    def manifest(self) -> dict[str, Any]:
        """The manifest as written last.

        Raises:
            ValueError: it is no JSON object.
        """
        try:
            read = parse_json((self.folder / MANIFEST).read_text(encoding="utf-8"))
        except ValueError as error:  # not JSON, or not UTF-8
            raise ValueError(f"{self.place}/{MANIFEST} is no JSON ({error}). Start a new run.") from error
        missing = [key for key in REQUIRED if not isinstance(read, dict) or key not in read]
        if missing:
            raise ValueError(f"{self.place}/{MANIFEST} lacks {missing[0]!r}. Start a new run.")
        found: dict[str, Any] = read
        if not is_sealed(found, MANIFEST):
            raise ValueError(
                f"{self.place}/{MANIFEST} is damaged, or was edited: it is not what its sha256 says. Start a new "
                f"run, or take out its {SHA256!r} if the edit is meant."
            )
        return found

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest; one that records the sha256 of files records its own too."""
        self.write_json(MANIFEST, sealed(manifest, MANIFEST))

    def is_whole(self, name: str) -> bool:
        """Whether a file is what was written, by the sha256 beside it or in the manifest; older runs have none."""
        known = checksum(self.folder / name)
        if known is None:
            recorded = self._recorded()
            known = None if recorded is None else str(recorded.get(name))
        return known is None or file_sha256(self.folder / name) == known

    def check(self, name: str) -> None:
        """Refuse a damaged file of a finished run.

        Raises:
            ValueError: it is not what was written.
        """
        if not self.is_whole(name):
            raise ValueError(
                f"{self.place}/{name} is damaged: its sha256 is not the one that was recorded when it was written. "
                f"Take it from a copy, or make it again with swapbias audit --resume {self.place}."
            )

    def damaged(self) -> list[str]:
        """The files of a finished run, by their paths within it, that are gone, or not what was written."""
        known = {name: one for name, one in (self._recorded() or {}).items() if name != MANIFEST}
        paths = {name: self.folder / name for name in known}
        return [name for name, path in paths.items() if not path.is_file() or file_sha256(path) != known[name]]

    def _recorded(self) -> dict[str, str] | None:
        """The sha256 by name that the manifest has; None where it has none at all."""
        return self.manifest().get(SHA256) if (self.folder / MANIFEST).exists() else None

    def with_sha256(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest of a run that is complete, with the sha256 of every file that is read again."""
        if SHA256 not in manifest:  # begun by an older version
            return dict(manifest)
        return {**manifest, SHA256: self._hashes(_RECORDED)}

    def record_drawn(self) -> None:
        """Have the manifest of a finished run tell the figures and the report that were drawn again."""
        manifest = self.manifest()
        if SHA256 in manifest:
            self.write_manifest({**manifest, SHA256: {**manifest[SHA256], **self._hashes(_DRAWN)}})

    def _hashes(self, patterns: Sequence[str]) -> dict[str, str]:
        names = [path for pattern in patterns for path in sorted(self.folder.glob(pattern))]
        return {path.relative_to(self.folder).as_posix(): checksum(path) or file_sha256(path) for path in names}

    def drop_checksums(self) -> None:
        """Remove the sha256 beside files, once the manifest has them."""
        beside = [checksum_file(path) for path in (self.folder / ITEMS).glob("*.parquet")]
        for path in beside:
            path.unlink(missing_ok=True)
        if self.store:
            self.store.remove(path.relative_to(self.folder).as_posix() for path in beside)

    def write_json(self, name: str, content: Any) -> None:
        """A JSON file; NaN becomes null."""
        text = json.dumps(as_json(content), indent=2, ensure_ascii=False, allow_nan=False)
        self.write(name, (text + "\n").encode())

    def write_csv(self, name: str, table: "pd.DataFrame") -> None:
        """A CSV file (see ``as_csv``)."""
        self.write(name, as_csv(table))

    def write_parquet(self, name: str, table: "pd.DataFrame") -> None:
        """A Parquet file."""
        self.write(name, _parquet(pa.Table.from_pandas(table, preserve_index=False)))

    def write(self, name: str, content: bytes) -> None:
        """Any file, by its path within the run."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        checked = target.match(f"{ITEMS}/*.parquet")
        (write_checked if checked else write_whole)(target, content)
        if self.store:
            (self.store.write_checked if checked else self.store.write)(name, content)

    def items(self, study: str) -> "pd.DataFrame | None":
        """The scored rows of a study, or None while they are not complete.

        Raises:
            ValueError: they are damaged.
        """
        path = self.folder / ITEMS / f"{study}.parquet"
        if not path.exists():
            return None
        self.check(f"{ITEMS}/{study}.parquet")
        return _frame(pq.read_table(path))


def has_scores(folder: Path, store: "Store | None" = None) -> bool:
    """Whether scored rows or answers of a run, or of several in one folder, are saved there or in the store."""
    names = store.names() if store else (one.relative_to(folder).as_posix() for one in folder.rglob("*"))
    found = map(PurePosixPath, names)
    # Answers of a chat model are JSON lines, each of which is saved as it comes.
    return any(one.suffix == ".jsonl" or (one.suffix == ".parquet" and ITEMS in one.parts) for one in found)


def _frame(table: pa.Table) -> "pd.DataFrame":
    """The table for pandas. Its columns go one by one, so that rows are held once: it is not to be used again."""
    return table.to_pandas(self_destruct=True)


def _is_left_over(path: Path) -> bool:
    """As ``is_left_over``, and the folder of items without any."""
    if path.is_dir():
        return path.name == ITEMS and not any(path.iterdir())
    return is_left_over(path)


class Parts:
    """The scored rows of a study as they come: each chunk is written down at once, and scored once.

    A part on disk counts where its sha256 is the one that was recorded when it was written; a damaged one is named
    and scored again.

    Attributes:
        done: all rows, where the study is complete already.
    """

    def __init__(self, run: Run, study: str, say: Say = lambda sentence: None) -> None:
        """Of a run on disk, which may have been stopped."""
        self.run, self.study, self.say = run, study, say
        self.folder = _folder_of(run, study)
        self.names: list[str] = []
        self.hashed = SHA256 in run.manifest()
        self.whole: set[str] = set()  # looked into already
        self.done: pd.DataFrame | None = None
        name = f"{ITEMS}/{study}.parquet"
        if (run.folder / name).exists():
            if run.is_whole(name):
                self.done = run.items(study)
            else:
                say(f"{run.place}/{name} is damaged: it is scored again.")

    def has(self, beginning: str) -> bool:
        """Whether a chunk whose name begins so is on disk."""
        return any(self._rows(path) is not None for path in sorted(self.folder.glob(f"{beginning}*.parquet")))

    def known(self, name: str) -> int | None:
        """Rows of a chunk that is on disk; None: it must be scored. Chunks lie in the order of their names."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.names.append(name)
        return self._rows(self.folder / f"{name}.parquet")

    def _rows(self, path: Path) -> int | None:
        """Rows of a part on disk, or None where there is none that can be read: it is scored again."""
        if not path.exists():
            return None
        try:
            known = checksum(path)
            if path.name not in self.whole and (self.hashed if known is None else known != file_sha256(path)):
                self.say(
                    f"{self.run.place}/{path.relative_to(self.run.folder).as_posix()} is damaged: it is scored again."
                )
                path.unlink()
                return None
            self.whole.add(path.name)
            return int(pq.read_metadata(path).num_rows)
        except (OSError, pa.ArrowException):
            return None

    def until(self, trial: int) -> "pd.DataFrame":
        """The rows so far, of this trial and those before it."""
        rows = self._table().to_pandas() if self.done is None else self.done
        if "trial" not in rows:
            return rows
        return rows[~(rows["trial"].astype(float) > trial)]

    def _table(self) -> pa.Table:
        if store := self.run.store:  # those that workers have put there since it was opened
            names = [f"{ITEMS}/{self.folder.name}/{name}.parquet" for name in self.names]
            store.fetch_checked(self.run.folder, [name for name in names if not (self.run.folder / name).exists()])
        tables = [pq.read_table(self.folder / f"{name}.parquet") for name in sorted(self.names)]
        return pa.concat_tables(tables, promote_options="default")

    def close(self) -> "pd.DataFrame":
        """All rows, from now on in one file."""
        if self.done is None:
            table = self._table()
            self.run.write(f"{ITEMS}/{self.study}.parquet", _parquet(table))
            self.run.remove_parts(self.folder.name)
            self.done = _frame(table)
        return self.done


def write_part(run: Run, name: str, rows: "Sequence[Mapping[str, Any]]") -> None:
    """Write a part (study/name) down, whole or not at all; the same rows are the same bytes, whoever writes them."""
    study, _, own = name.partition("/")
    path, content = _folder_of(run, study) / f"{own}.parquet", _parquet(_table(rows))
    if run.store:
        run.store.write_checked(path.relative_to(run.folder).as_posix(), content)
    else:
        write_checked(path, content)


def _folder_of(run: Run, study: str) -> Path:
    return run.folder / ITEMS / f".{study}.parts"


def now() -> str:
    """The time of day as manifests have it: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


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


def chunks(rows: Sequence[Mapping[str, Any]], size: int) -> Iterator[range]:
    """The places of runs of about ``size`` rows that never part neighbours with one text (they share a pass)."""
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        while end < len(rows) and rows[end]["text"] == rows[end - 1]["text"]:
            end += 1
        yield range(start, end)
        start = end
