"""A run on disk or in a store, with the sha256 of its files, and the loop that scores its prompts in rounds."""

import errno
import hashlib
import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias import files
from swapbias.errors import UsageError, arguments_named, first_line, listed
from swapbias.findings import SAME_INPUT
from swapbias.models import Progress, Scored, Scorer, checked_scores, progress
from swapbias.runs.cache import ScoreCache
from swapbias.runs.kept_studies import STUDIES, open_kept_studies
from swapbias.runs.same_inputs import find_same_inputs, without_same_inputs
from swapbias.runs.scorers import ScoredTask
from swapbias.studies import Row, as_prompts, catalogue, load_corpus
from swapbias.swapping import cluster

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset
    from pyarrow.fs import FileSystem

MANIFEST = "manifest.json"
SHA256 = "sha256"  # key of a manifest: the sha256 of each other file, by its path within the run
ITEMS = "items"  # folder of the scored rows
SCORES = (
    ".scores"  # folder of a run that is not complete: scores that the machine's cache may not hold
)
REPORT = "report.html"
ROUNDS = "rounds"  # key of a manifest
NON_FINITE = "non_finite"  # column of scored rows, where there is such a row: 1 where the model gave NaN or infinity
REQUIRED = ("swapbias", "status", "settings", "corpora", "skipped", "versions")
_RECORDED = (f"{ITEMS}/*.parquet", "*.csv", "results.json", "explanations.json", REPORT)
Rows = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Run:
    """A folder of results, each file written whole or not at all; ``address``: URL of the store it is copied to."""

    folder: Path
    address: str = ""

    @property
    def place(self) -> "Path | str":
        """Where the run lies, for sentences."""
        return self.address or self.folder

    @staticmethod
    def check_new(folder: Path, address: str = "") -> None:
        """Know before the work starts that files can be written here: a UsageError or OSError says why not."""
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, expected a folder. Choose another --out.")
        there = folder.iterdir() if folder.exists() else ()
        if not all(
            files.is_left_over(one) or (one.name == ITEMS and not any(one.iterdir()))
            for one in there
        ):
            raise UsageError(f"{address or folder} is not empty. Choose another --out.")
        existing = next(
            parent for parent in (folder, *folder.absolute().parents) if parent.exists()
        )
        with tempfile.TemporaryFile(dir=existing):
            pass

    @classmethod
    def create(cls, folder: Path, manifest: Mapping[str, Any], address: str = "") -> "Run":
        """A new run in a new or empty folder, with the user's own studies; raises as ``check_new``."""
        cls.check_new(folder, address)
        (folder / ITEMS).mkdir(parents=True, exist_ok=True)
        run = cls(folder, address)
        run.write_manifest(manifest)
        for study in manifest.get("own_studies", ()):
            for name, content in load_corpus(study).own.items():
                run.write(f"{STUDIES}/{study}/{name}", content)
        return run

    @classmethod
    def open(cls, folder: Path, address: str = "") -> "Run":
        """A run that was begun, else UsageError; the user's own studies are known as it read them."""
        run = cls(folder, address)
        if not (folder / MANIFEST).is_file():
            raise UsageError(
                f"{run.place} holds no run: it has no {MANIFEST}. Give the folder of a run."
            )
        run.open_studies()
        return run

    def open_studies(self) -> None:
        """Make the user's own studies known as this run read them."""
        open_kept_studies(self.folder, self.manifest())

    def manifest(self) -> dict[str, Any]:
        """The manifest as written last; a ValueError where it is no JSON object, or lacks a key of every run."""
        try:
            read = files.parse_json((self.folder / MANIFEST).read_text(encoding="utf-8"))
        except ValueError as error:  # not JSON, or not UTF-8
            raise ValueError(
                f"{self.place}/{MANIFEST} is no JSON ({error}). Start a new run."
            ) from error
        missing = [key for key in REQUIRED if not isinstance(read, dict) or key not in read]
        if missing:
            raise ValueError(f"{self.place}/{MANIFEST} lacks {missing[0]!r}. Start a new run.")
        return dict(read)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest."""
        self.write_json(MANIFEST, manifest)

    def checked(self, name: str) -> Path:
        """The path of a file of a complete run; a ValueError where it is missing, or not of its recorded sha256."""
        path = self.folder / name
        if not path.is_file():
            raise ValueError(
                f"{path} is missing, and a complete run has it. Audit again into another --out."
            )
        recorded = self.manifest().get(SHA256) if (self.folder / MANIFEST).exists() else None
        if recorded is not None and files.file_sha256(path) != recorded.get(name):
            damage = f"{self.place}/{name} is damaged: its sha256 is not the one in {MANIFEST}"
            raise ValueError(f"{damage}. Take it from a copy, or audit again into another --out.")
        return path

    def sums(self) -> dict[str, str]:
        """The sha256 of every file that is read again, by its path within the run."""
        paths = [path for pattern in _RECORDED for path in sorted(self.folder.glob(pattern))]
        return {path.relative_to(self.folder).as_posix(): files.file_sha256(path) for path in paths}

    def write_json(self, name: str, content: Any) -> None:
        """A JSON file, by its path within the run; NaN becomes null."""
        self.write(name, files.json_file(content))

    def write_csv(self, name: str, table: "pd.DataFrame") -> None:
        """A CSV file (see ``as_csv``)."""
        self.write(name, files.as_csv(table))

    def write_parquet(self, name: str, table: "pd.DataFrame | pa.Table") -> None:
        """A Parquet file."""
        made = (
            table
            if isinstance(table, pa.Table)
            else pa.Table.from_pandas(table, preserve_index=False)
        )
        sink = pa.BufferOutputStream()
        pq.write_table(made, sink)
        self.write(name, sink.getvalue().to_pybytes())

    def write(self, name: str, content: bytes) -> None:
        """Any file, by its path within the run."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(target, content)

    def items(self, study: str) -> "pd.DataFrame":
        """The scored rows of a study; a ValueError where they are not what an audit wrote."""
        path = self.checked(f"{ITEMS}/{study}.parquet")
        try:
            rows = _as_frame(pq.read_table(path))
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            raise ValueError(
                f"{path} is no Parquet file of texts and numbers. Its owner can audit again."
            ) from error
        if not {"experiment", "group", "model_id", "score", "text"} <= set(rows):
            raise ValueError(f"{path} lacks columns of scored rows. Audit again.")
        return rows


def _as_frame(table: pa.Table) -> "pd.DataFrame":
    """The table for pandas, which takes its columns one by one: do not use it again."""
    return table.to_pandas(self_destruct=True)


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of a store by its URL; ``own``: the user declared that credentialed notes may lie there."""

    url: str
    own: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        schemes = ("s3", "gs", "gcs", "abfs", "abfss")
        if parts.password or (parts.scheme in schemes[:3] and parts.username):
            raise UsageError(
                "The URL of a store holds a key, and URLs are printed. Leave it to the environment."
            )
        if parts.scheme not in schemes or not parts.netloc or not parts.path.strip("/"):
            raise UsageError(
                f"{self.url} names no folder of a store: expected s3://, gs:// or abfs://BUCKET/FOLDER."
            )
        known = ("endpoint_override", "region", "scheme")  # of an S3 URL
        if other := [name for name, _ in parse_qsl(parts.query) if name not in known]:
            raise UsageError(
                f"The URL of a store sets {other[0]}, expected {listed(known)} alone. Drop it."
            )

    @contextmanager
    def mirrored(self) -> Iterator[Path]:
        """A local copy of the folder, for one process of this machine; at the end the store becomes what it is.

        UsageError: the folder holds something else, or another process works on it. OSError: the store refuses.
        """
        from pyarrow.fs import copy_files  # takes long to import

        mirror = files.cache_dir() / "stores" / hashlib.sha256(self.url.encode()).hexdigest()[:16]
        mirror.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.locked_place(mirror):
            mirror.mkdir(mode=0o700, exist_ok=True)
            with self._named():
                there, root = _file_system(self.url)
                names = _names(there, root)
                if names and not {MANIFEST, "swap.json"} & {
                    *names
                }:  # one is in every folder that swapbias wrote
                    raise UsageError(f"{self.url} is not empty. Choose another --out.")
                if names:
                    copy_files(root, str(mirror), source_filesystem=there)
            try:
                yield mirror
            finally:
                with self._named():
                    made = {
                        one.relative_to(mirror).as_posix()
                        for one in mirror.rglob("*")
                        if one.is_file()
                    }
                    for name in set(names) - made:
                        there.delete_file(f"{root}/{name}")
                    if made:
                        there.create_dir(root, recursive=True)
                        copy_files(str(mirror), root, destination_filesystem=there)
                shutil.rmtree(mirror)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of the store name its folder, in one line."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise OSError(
                getattr(error, "errno", None) or errno.EIO, first_line(error), self.url
            ) from error


def _file_system(url: str) -> "tuple[FileSystem, str]":
    from pyarrow.fs import FileSystem

    found: tuple[FileSystem, str] = FileSystem.from_uri(url)
    return found


def _names(store: "FileSystem", root: str) -> list[str]:
    """The files below a folder of a store, by their paths from there."""
    from pyarrow.fs import FileSelector, FileType

    found = store.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    names = [
        one.path.removeprefix(f"{root.rstrip('/')}/") for one in found if one.type == FileType.File
    ]
    for name in names:
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
            raise UsageError(
                f"The store has a file {name!r}, which is no path of a run. Choose another folder."
            )
    return names


@arguments_named()
def score_prompts(
    prompts: "Dataset", scorer: Scorer, *, on_progress: Progress = progress.silent
) -> "Dataset":
    """The prompts with ``model_id``, ``score``, ``answer``, ``top_tokens`` and the scorer's further score columns.

    Rows keep their order and number; NaN marks what could not be scored. Where the model gave NaN or an infinite
    number for a row, there is a further column ``non_finite``, 1 for such rows and else 0. Where the model reads the
    texts of a pair as one input, they have no score, and there is a further column ``same_input``.

    >>> from swapbias import load_prompts, load_scorer
    >>> scorer = load_scorer(lambda texts: [0.9 if "He" in text else 0.8 for text in texts], name="toy")
    >>> score_prompts(load_prompts("occupation_sentiment", "sentences"), scorer)["score"][:2]
    [0.9, 0.8]
    """
    from datasets import Dataset

    rows = prompts.to_list()
    read = catalogue.published_prompts(rows)
    same = find_same_inputs(rows, read, scorer)
    scored = without_same_inputs(checked_scores(scorer, read, on_progress), same, scorer)
    return Dataset.from_list(with_scores(rows, scored, scorer.model_id, same))


def with_scores(
    rows: Sequence[Mapping[str, Any]],
    scored: Sequence[Scored],
    model_id: str,
    same: Collection[int] = (),
) -> list[dict[str, Any]]:
    """The rows with the columns that ``score_prompts`` adds; ``same``: places of rows of one input to the model."""
    lost = [not one.finite or math.isinf(one.score) for one in scored]
    return [
        {
            **row,
            "model_id": model_id,
            # Floats, for a chunk of whole numbers would become a column of another type; infinity has no mean.
            **{
                name: math.nan if math.isinf(value) else float(value)
                for name, value in {"score": one.score, **one.parts}.items()
            },
            **({NON_FINITE: float(non_finite)} if any(lost) else {}),
            **({SAME_INPUT: float(place in same)} if same else {}),
            "answer": one.answer,
            "top_tokens": one.top_tokens,
        }
        for place, (row, one, non_finite) in enumerate(zip(rows, scored, lost, strict=True))
    ]


def refuse_non_finite(rows: "pd.DataFrame", place: str) -> None:
    """ValueError where a model is broken, with NaN or infinity for over half of an experiment's rows in ``place``."""
    if NON_FINITE not in rows:
        return
    for (experiment, model_id), lost in rows.groupby(["experiment", "model_id"], sort=False)[
        NON_FINITE
    ]:
        if 2 * lost.sum() > len(lost):
            said = f"{model_id} gave NaN or infinite numbers for {lost.sum():.0f} of {len(lost)} prompts"
            kept = f"Check its weights and --dtype; what was scored is kept in {place}."
            raise ValueError(f"{said} of {experiment}, expected finite ones. {kept}")


def chunks(rows: Sequence[Mapping[str, Any]], size: int) -> Iterator[range]:
    """The places of runs of about ``size`` rows that never part neighbours with one text (they share a pass)."""
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        while end < len(rows) and rows[end]["text"] == rows[end - 1]["text"]:
            end += 1
        yield range(start, end)
        start = end


def _rows_of(one: ScoredTask, part: cluster.Part) -> Rows:
    return one.rounds[part["round"]][part["start"] : part["start"] + part["rows"]]


def score_part(
    every: Mapping[int, ScoredTask], part: cluster.Part, advance: Progress
) -> cluster.Result:
    """The scores of a part of one of the tasks, by their place in the plan."""
    one = every[part["place"]]
    return {"scored": checked_scores(one.reader, as_prompts(_rows_of(one, part)), advance)}


@dataclass(slots=True)
class Scoring:
    """Has the tasks scored, but for what is cached; ``stopped`` and ``stop``: what ended it early.

    In rounds: every prompt once before any twice, so that a stopped run has whole trials.
    """

    run: Run
    manifest: dict[str, Any]
    every: Mapping[int, ScoredTask]
    say: progress.Say
    bar: progress.Bar
    cache: ScoreCache
    stopped: str = ""
    stop: BaseException | None = None
    items: "dict[str, pd.DataFrame]" = field(default_factory=dict)
    advances: dict[str, Progress] = field(default_factory=dict)

    def advance(self, part: cluster.Part, more: float) -> None:
        """So many more rows of a part are done."""
        self.advances[self.every[part["place"]].task.study.name](more)

    def score(self, pool: cluster.WorkerPool) -> None:
        """Fill ``items``; ``pool`` scores what the cache does not have and is no chat model's."""
        last: dict[str, int] = {}  # round of each study
        sizes: Counter[str] = Counter()
        for one in self.every.values():
            name = one.task.study.name
            last[name] = max(last.get(name, 1), *one.rounds, 1)
            sizes[name] += len(one.task.rows)
        self.advances = {name: self.bar(name, sizes[name]) for name in last}
        planned = max(last.values())
        self.manifest.pop(ROUNDS, None)  # of a run that was stopped
        whole = 0
        for number in range(1, planned + 1):
            if number > 1 and not self._goes_on(number):
                break
            for study in last:
                try:
                    self._score_study(study, number, pool)
                except (KeyboardInterrupt, ValueError) as stop:
                    if not whole:
                        raise
                    self.stop_by(stop)
                    break
                if number == last[study]:  # a broken model stops the run before the next study
                    self._finish(study)
            if self.stop:
                break
            whole = number
            for spent in dict.fromkeys(
                filter(None, (one.reader.notes.get("spent") for one in self.every.values()))
            ):
                self.say(f"Trial {number} of {planned}: {spent}" if planned > 1 else spent)
        if self.stopped:
            note = f"Of {planned} planned trials of each prompt {whole} were run: {self.stopped.rstrip('.')}."
            self.manifest[ROUNDS] = {
                "planned": planned,
                "whole": whole,
                "trial_notes": [note],
                "stopped": self.stopped,
            }
            self.run.write_manifest(self.manifest)
            self.say(note)
            for scored_task in self.every.values():
                scored_task.drop_rounds_after(whole)
        for study in last:
            if self.stop or study not in self.items:
                self._finish(study)
        self.items = {study: self.items[study] for study in last}  # in the order of the plan

    def stop_by(self, error: BaseException) -> None:
        """Note what ends the run after the rounds that are scored: they are reported, and then it is raised."""
        self.stop = error
        self.stopped = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)

    def _goes_on(self, number: int) -> bool:
        """Whether this round is within the limits."""
        due = [one for one in self.every.values() if number in one.rounds]
        for reader in {one.reader.model_id: one.reader for one in due}.values():
            rows = [
                row
                for one in due
                if one.reader.model_id == reader.model_id
                for row in one.rounds[number]
            ]
            self.stopped = self.stopped or reader.beyond_limits(as_prompts(rows))
        return bool(due) and not self.stopped

    def _score_study(self, study: str, number: int, pool: cluster.WorkerPool) -> None:
        here: list[cluster.Part] = []
        elsewhere: list[cluster.Part] = []
        paths: dict[str, Path] = {}
        for place, one in self.every.items():
            rows_now = one.rounds.get(number, []) if one.task.study.name == study else []
            for some in chunks(
                rows_now, one.reader.chunk_rows
            ):  # which rows a part has depends on the plan alone
                name = f"{place}/{number}/{some.start}"
                rows = rows_now[some.start : some.stop]
                part: cluster.Part = {
                    "name": name,
                    "place": place,
                    "round": number,
                    "start": some.start,
                    "rows": len(some),
                }
                private = one.task.notes is not None or any(map(_is_credentialed, rows))
                path = self.cache.place(as_prompts(rows), one.reader, private=private)
                if path is None:
                    here.append(part)
                elif (scored := self.cache.read(path, len(rows))) is None:
                    paths[name] = path
                    elsewhere.append(part)
                else:
                    self._add(part, scored)
                    self.advance(part, len(rows))
        mine = ((part, score_part(self.every, part, partial(self.advance, part))) for part in here)
        for part, result in chain(pool(elsewhere) if elsewhere else (), mine):
            if part["name"] in paths:
                self.cache.write(paths[part["name"]], result["scored"])
            self._add(part, result["scored"])

    def _add(self, part: cluster.Part, scored: Sequence[Scored]) -> None:
        one = self.every[part["place"]]
        same = {place - part["start"] for place in one.find_same_inputs(part["round"])}
        same &= set(range(part["rows"]))
        measured = without_same_inputs(scored, same, one.reader)
        blank = {"text": "", **({"answer": ""} if one.reader.kind == "chat" else {})}
        rows = [  # the text of credentialed notes is not written, nor what a model wrote of it
            {**row, **blank} if _is_credentialed(row) else row
            for row in with_scores(_rows_of(one, part), measured, one.reader.model_id, same)
        ]
        # Rows of other wordings have two more; candidates are those of the corpus.
        columns = dict.fromkeys(name for row in rows for name in row if name != "candidates")
        cells = {name: [row.get(name) for row in rows] for name in columns}
        one.tables[part["round"], part["start"]] = pa.table(cells)

    def _table(self, study: str) -> pa.Table:
        """The rows of a study so far."""
        mine = (one.tables for one in self.every.values() if one.task.study.name == study)
        tables = [found[key] for found in mine for key in sorted(found)]
        return pa.concat_tables(tables, promote_options="default")

    def _finish(self, study: str) -> None:
        """Write the rows of a study down, also those of a broken model."""
        self.run.write_parquet(f"{ITEMS}/{study}.parquet", self._table(study))
        self.items[study] = _as_frame(self._table(study))
        refuse_non_finite(self.items[study], str(self.run.place))


def _is_credentialed(row: Mapping[str, Any]) -> bool:
    return str(row.get("credentialed")) == "True"
