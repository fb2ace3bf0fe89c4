"""Swap whole files: rows in, Parquet shards out, in bounded memory; a stopped job skips its finished shards."""

import json
import multiprocessing
import os
import platform
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import UsageError, quoted
from swapbias.files import (
    TEMPORARY,
    as_csv,
    is_left_over,
    json_file,
    parse_json,
    whole_file,
    write_whole,
)
from swapbias.models import progress
from swapbias.privacy import credentialed, why_credentialed, writing
from swapbias.studies import tables
from swapbias.swapping.cloned_datasets import local_folder
from swapbias.swapping.cluster import LOCAL, Engine, Part, Work, Workers, result_of, worker_pool
from swapbias.swapping.gender_columns import genders_in_words
from swapbias.swapping.genders import check_genders
from swapbias.swapping.label_spans import check_labels
from swapbias.swapping.readers import (
    SWAP_MANIFEST,
    SWAPPED_ROWS,
    Source,
    is_mimic,
    open_source,
    why_rows_credentialed,
)
from swapbias.swapping.swap_job import Job
from swapbias.swapping.swap_parts import cut_parts, made_ahead, write_planned_parts
from swapbias.swapping.swapped_rows import SPAN_FIELDS, Totals, by_count, schema_of, versions
from swapbias.swapping.swapper import Swapper

PART_BYTES = 16 << 20
BATCH_ROWS = 2000
_PEEKED = 1000  # rows in which a column of genders is looked at before anything is written
_COUNTS = "swapbias"  # key of a part's own counts in its Parquet metadata
_PLANNED = ".planned"  # folder of rows that wait for a worker
_WARNING = f"""
These rows come from credentialed data: they must not be published, uploaded or sent to an API.
{credentialed.HOW_TO_READ}
"""
_PROCESS_DIED = (
    "A worker process died, most likely for want of memory. Run the same command again with fewer --processes: "
    "finished parts are kept."
)


@dataclass(frozen=True, slots=True)
class SwapResult:
    """A finished job."""

    folder: Path
    """Where it was written to."""
    totals: Totals
    """Counts over all its rows."""
    credentialed_because: str
    """Why its rows are credentialed; empty: they are not."""


def swap_files(
    job: Job,
    out: Path,
    *,
    processes: int = 1,
    batch_rows: int = BATCH_ROWS,
    part_bytes: int = PART_BYTES,
    bar: progress.Bar = progress.no_bar,
    engine: Engine = LOCAL,
    uploaded_to: str | None = None,
) -> SwapResult:
    """Swap the texts of ``job.source`` into Parquet parts in ``out``.

    Rows keep their order; the rows written do not depend on ``processes``, ``batch_rows`` or ``engine``. Called again
    with the same job after a stop, it writes the parts that are missing or cannot be read.

    Args:
        job: what and how.
        out: a new or empty folder, or one where the same job was begun.
        processes: so many swap a part each; 1: this process.
        batch_rows: most rows that are swapped at once.
        part_bytes: a part ends with the row that brings its texts to so many bytes.
        bar: shows how much of the input is done, after each batch; with processes or a cluster after each part.
        engine: who swaps; the rows are the same.
        uploaded_to: where ``out`` is copied afterwards, unless that place is declared as the user's own.

    Raises:
        UsageError: no such input, column, table or mode; ``out`` complete or begun otherwise; credentialed rows and
            ``uploaded_to``.
        ValueError: an input that cannot be read.
        OSError: ``out`` cannot be written.
    """
    _check_workers(job, processes, batch_rows, engine)
    source = open_source(job.source, job.column, split=job.split)
    whose = job.whose or ("patient" if is_mimic(source) else "everyone")
    job = replace(job, whose=whose, classes=source.classes)
    job = replace(job, gender=_gender_column(job, whose, source))
    _check_spans(job, source)
    swapper = Swapper(job.table, whose=whose, spouses=job.spouses, resolver=job.resolver)
    credentialed_because = _why_credentialed(job, source)
    if credentialed_because:
        _refuse_sending(job, credentialed_because, uploaded_to)
    job = replace(job, credentialed=bool(credentialed_because))
    schema = schema_of(source.schema, job)
    settings = _settings(job, source, swapper, credentialed_because)
    settings["part_bytes"] = part_bytes
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, expected a folder. Choose another --out.")
    step = "Wait until it ends, or choose another --out."
    with writing(out, credentialed=job.credentialed, then=step):
        finished = _begin_or_resume(out, settings)
        parts = cut_parts(source.read(batch_rows), job.column, part_bytes)
        totals = sum(finished.values(), Totals())
        done_bytes = bar("Swapping (bytes)", source.size) if source.size else progress.silent
        planned = out / _PLANNED
        planned.mkdir(mode=0o700)
        with ExitStack() as ends:
            ends.callback(shutil.rmtree, planned, ignore_errors=True)
            waiting = made_ahead(write_planned_parts(planned, parts, finished, batch_rows))
            ends.enter_context(closing(waiting))
            spec = (out.resolve(), replace(job, resolver=None))
            pool = worker_pool(
                engine,
                part_swapper,
                spec,
                begin_here=lambda: partial(_swap_part, *spec, swapper),
                begin_processes=partial(_begin_processes, processes) if processes > 1 else None,
                cores=1,
                credentialed=job.credentialed,
                advance=lambda part, rows: done_bytes(part["bytes"] * rows / part["rows"]),
            )
            for part, done in ends.enter_context(pool)(waiting):
                (planned / part["name"]).unlink()
                totals += done["totals"]
        if not totals.rows_read and not finished:  # a part without rows still has the columns
            _write_part(out, 0, schema, job.column, [])
        _finish(out, settings, totals, source.identity.get("split", "train"))
    return SwapResult(out, totals, credentialed_because)


def _check_workers(job: Job, processes: int, batch_rows: int, engine: Engine) -> None:
    """Refuse settings of workers that do not fit together: UsageError."""
    if processes < 1 or batch_rows < 1:
        raise UsageError(
            f"processes {processes} and batch rows {batch_rows}: expected 1 or more. Give larger ones."
        )
    engine.check()
    if processes > 1 and not engine.local:
        raise UsageError(
            f"processes is {processes}, and workers of {engine.name} swap. Set workers instead."
        )
    if job.resolver and (processes > 1 or not engine.local):
        raise UsageError(
            "A resolver runs in one process of this machine. Drop --processes and -M engine."
        )


def _gender_column(job: Job, whose: str, source: Source) -> str | None:
    """Return the column of the patient's gender, None where the text tells it; UsageError: it cannot be used."""
    if job.max_doubt < 1 and whose != "patient":
        raise UsageError("--max-doubt is about whose words are the patient's. Add --whose patient.")
    if job.gender is not None and whose != "patient":
        raise UsageError(
            f"--gender {job.gender}: all words are swapped, whoever's they are. Add --whose patient."
        )
    columns = source.schema.names
    column = job.gender
    if column is not None and column not in columns:
        raise UsageError(
            f"There is no column {column!r}, there are {tables.shown_names(columns)}. Choose with --gender."
        )
    if column is None and whose == "patient":
        column = next((name for name in columns if name.lower() == "gender"), None)
    if column is not None:
        for batch, _ in islice(source.read(_PEEKED), 1):
            genders = batch.column(column).to_pylist()
            check_genders(genders_in_words(genders, column, job.classes), column)
    return column


def _check_spans(job: Job, source: Source) -> None:
    """Refuse a column of labelled spans that holds none: UsageError."""
    if job.spans is None:
        return
    if job.spans not in source.schema.names:
        names = tables.shown_names(source.schema.names)
        raise UsageError(
            f"There is no column {job.spans!r}, there are {names}. Choose with --spans."
        )
    for batch, _ in islice(source.read(_PEEKED), 1):
        check_labels(batch.column(job.spans).to_pylist(), job.spans)


def _why_credentialed(job: Job, source: Source) -> str:
    """Return why the rows of a job may not be shared, empty where they may."""
    if job.credentialed:
        return "--credentialed was given"
    path, _ = local_folder(job.source)
    reason = why_credentialed(path) if path.exists() else ""
    return reason or why_rows_credentialed(source)


def _refuse_sending(job: Job, reason: str, uploaded_to: str | None) -> None:
    """Refuse to send credentialed rows anywhere: UsageError."""
    if uploaded_to:
        raise UsageError(
            f"These rows are credentialed ({reason}), and {uploaded_to} was not declared as a place for them. Choose "
            "an --out on this machine, or add -M own-store where only those who may read them can read that place."
        )
    if job.resolver and job.resolver.sends_text:
        raise UsageError(
            f"{job.resolver.name} sends texts to a service, and these rows are credentialed ({reason}). Take a model "
            "in a local folder, or declare a service that is your own with -M own-address=ADDRESS."
        )


def _settings(job: Job, source: Source, swapper: Swapper, reason: str) -> dict[str, Any]:
    """Return what must be the same for a job to be resumed."""
    settings = {
        "swapbias": version("swapbias"),
        "mode": job.mode,
        "column": job.column,
        "table": Path(swapper.table_name).name,
        "table_sha256": swapper.sha256,
        "plausible": job.plausible,
        "credentialed": bool(reason),
        "credentialed_because": reason,
        "input": source.identity,
    }
    if job.spans:
        settings["spans"] = job.spans
    if job.whose == "patient":
        settings["whose"] = job.whose
        settings["spouses"] = job.spouses
        settings["gender"] = job.gender or "read from the text"
        settings["max_doubt"] = job.max_doubt
        settings["resolver"] = job.resolver.name if job.resolver else "rules"
    return settings


# The output folder: data/part-*.parquet, swap.json, and at the end report.csv and README.md


def _begin_or_resume(out: Path, settings: Mapping[str, Any]) -> dict[int, Totals]:
    """Begin, or check that the same job was begun there. Return the counts of whole parts; others are removed.

    UsageError: complete, begun with other settings, or holding something else.
    """
    if (out / SWAP_MANIFEST).is_file():
        _check_same(out, settings)
    elif not all(map(is_left_over, out.iterdir())):
        raise UsageError(f"{out} is not empty. Choose another --out.")
    else:
        write_whole(out / SWAP_MANIFEST, json_file({"status": "running", **settings}))
    (out / SWAPPED_ROWS).mkdir(exist_ok=True)
    shutil.rmtree(out / _PLANNED, ignore_errors=True)
    finished = {}
    for path in (*out.glob(f".*{TEMPORARY}"), *(out / SWAPPED_ROWS).iterdir()):
        counts = _read_counts(path) if path.suffix == ".parquet" else None
        if counts:
            finished[int(path.stem.partition("-")[2])] = counts
        else:
            path.unlink(missing_ok=True)
    return finished


def _check_same(out: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a complete folder, or one of other settings: UsageError."""
    try:
        begun_with = parse_json((out / SWAP_MANIFEST).read_text(encoding="utf-8"))
        complete = begun_with["status"] == "complete"
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{out}/{SWAP_MANIFEST} was not written by swapbias. Choose another --out."
        ) from error
    if complete:
        raise UsageError(f"{out} is complete. Choose another --out.")
    for name, value in json.loads(json.dumps(settings)).items():
        before = begun_with.get(name)
        if before == value:
            continue
        if isinstance(value, dict | list):
            difference = "it is not what it was"
        else:
            difference = f"{quoted(before)}, now {quoted(value)}"
        raise UsageError(
            f"{out} was begun with another {name}: {difference}. "
            "Give what it was begun with, or choose another --out."
        )


def _read_counts(part: Path) -> Totals | None:
    """Return what a part says that it counted; None where it is not whole."""
    try:
        with pq.ParquetFile(part, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
            return Totals.read(json.loads(file.metadata.metadata[_COUNTS.encode()]))
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
        return None


def _write_part(
    out: Path,
    number: int,
    schema: pa.Schema,
    text_column: str,
    pieces: Iterable[tuple[pa.Table, Totals]],
    advance: Callable[[float], None] = lambda rows: None,
) -> Totals:
    """Write a part whole or not at all, with what was counted in its metadata and a checksum in each page.

    The column of texts gets no dictionary (hardly two are alike) and no statistics (the least and the greatest text
    would stand once more in the file's footer).
    """
    totals = Totals()
    others = [name for name in schema.names if name != text_column]
    with (
        whole_file(out / f"data/part-{number:05d}.parquet") as path,
        pq.ParquetWriter(
            path,
            schema,
            write_page_checksum=True,
            compression="zstd",
            use_dictionary=[*others, *SPAN_FIELDS],
            write_statistics=others,
        ) as writer,
    ):
        for table, counts in pieces:
            writer.write_table(table)
            totals += counts
            advance(counts.rows_read)
        writer.add_key_value_metadata({_COUNTS: json.dumps(totals.counts(), ensure_ascii=False)})
    return totals


def _finish(out: Path, settings: Mapping[str, Any], totals: Totals, split: str) -> None:
    """Write the report and the card, and then say that the job is complete."""
    import pandas as pd

    terms = [
        (term, kind, count)
        for kind, counts in totals.by_kind().items()
        for term, count in by_count(counts)
    ]
    write_whole(out / "report.csv", as_csv(pd.DataFrame(terms, columns=["term", "kind", "count"])))
    template = (files("swapbias.swapping") / "swapped_card.md").read_text(encoding="utf-8")
    card = template.format(
        column=settings["column"],
        mode=settings["mode"],
        table=settings["table"],
        split=split,
        warning=_WARNING if settings["credentialed"] else "",
    )
    write_whole(out / "README.md", card.encode())
    manifest = {"status": "complete", **settings}
    manifest["parts"] = len([*out.glob("data/*.parquet")])
    manifest["totals"] = totals.counts()
    write_whole(out / SWAP_MANIFEST, json_file(manifest))


def _begin_processes(count: int, job: bytes, started: ExitStack) -> Workers:
    """Begin processes of this machine, until ``started`` is closed."""
    # Not "fork": Arrow's threads would not live on in the child.
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _settle_process)
    started.callback(pool.shutdown, cancel_futures=True)
    return Workers(
        capacity=count + 1,
        submit=lambda part: pool.submit(result_of, job, (), part),
        died=BrokenProcessPool,
        sentence=_PROCESS_DIED,
    )


def _settle_process() -> None:
    """Leave Ctrl-C to the parent; a parent that was killed takes its processes along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent: Any = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def part_swapper(spec: tuple[Path, Job]) -> Work:
    """Return the worker of a swap, on whichever machine that sees the output folder.

    Args:
        spec: the output folder, and what and how.
    """
    out, job = spec
    swapper = Swapper(job.table, whose=job.whose or "everyone", spouses=job.spouses)
    return partial(_swap_part, out, job, swapper)


def _swap_part(
    out: Path, job: Job, swapper: Swapper, part: Part, advance: Callable[[float], None]
) -> Mapping[str, Any]:
    """Swap the rows of a part and write them; the result is its totals."""
    planned = out / _PLANNED / part["name"]
    if not planned.exists():
        raise UsageError(
            f"The worker on {platform.node()} does not see {out}. Choose an --out on a file system that all "
            "machines share."
        )
    with pa.memory_map(str(planned)) as rows, pa.ipc.open_stream(rows) as batches:
        schema = schema_of(batches.schema, job)
        swapped = _swap_batches(job, swapper, part["first"], batches)
        with closing(made_ahead(swapped)) as pieces:
            totals = _write_part(out, part["part"], schema, job.column, pieces, advance)
            return {"totals": totals}


def _swap_batches(
    job: Job, swapper: Swapper, first: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.Table, Totals]]:
    """Yield the output rows of batches and their counts; ``first`` is the number of the first row of the input."""
    mode = "neutralise" if job.mode == "neutralise" else "swap"
    for batch in batches:
        genders: list[Any] | None = None
        if job.gender:
            cells = batch.column(job.gender).to_pylist()
            genders = genders_in_words(cells, job.gender, job.classes)
            check_genders(genders, job.gender)
        swapped = swapper.run(batch.column(job.column), mode, genders=genders)
        yield versions(batch, first, swapped, job, swapper.table.groups)
        first += len(batch)
