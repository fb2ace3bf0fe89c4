"""The rows of a config as Parquet files: by split, with features that datasets reads, in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.studies import Config, Corpus, checked_rows

BATCH_ROWS = 1_000
SHARD_BYTES = 256 * 2**20  # of text in one file of a streamed config


@dataclass(slots=True)
class Part:
    """One split: its rows, their bytes in memory and in files."""

    rows: int = 0
    bytes: int = 0
    file_bytes: int = 0


@dataclass(slots=True)
class Written:
    """A config on disk."""

    columns: tuple[str, ...]
    splits: dict[str, Part] = field(default_factory=dict)
    credentialed: bool = False

    @property
    def rows(self) -> int:
        """Of all splits."""
        return sum(part.rows for part in self.splits.values())


def write_config(folder: Path, corpus: Corpus, config: Config) -> Written:
    """Write a config into a new folder as ``<split>-00000-of-00001.parquet``, streamed ones in several files.

    Raises:
        UpstreamMissingError: an upstream file it needs is not reachable; nothing is written.
        ValueError: a broken table.
    """
    made = Written(config.columns)
    if config.stream:
        folder.mkdir()
        _stream(folder, config, made)
        return made
    rows = checked_rows(corpus, config.name)
    folder.mkdir()
    by_split: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        by_split.setdefault(row[config.split_column] if config.split_column else config.split, []).append(row)
    for split, part in by_split.items():
        table = _table(part, config.columns)
        file = folder / f"{split}-00000-of-00001.parquet"
        pq.write_table(table, file)
        made.splits[split] = Part(len(part), table.nbytes, file.stat().st_size)
        made.credentialed |= _held(table)
    return made


def _stream(folder: Path, config: Config, made: Written) -> None:
    """Files of about ``SHARD_BYTES`` each, renamed once their number is known."""
    total = made.splits.setdefault(config.split, Part())
    shards: list[Path] = []
    batches = _batches(config.rows(), config.columns)
    for first in batches:
        shards.append(folder / f"{config.split}-{len(shards):05d}.parquet")
        with pq.ParquetWriter(shards[-1], first.schema) as writer:
            size = 0
            for table in chain([first], batches):  # leaves the rest open for the next file
                writer.write_table(table)
                size += table.nbytes
                total.rows += len(table)
                made.credentialed |= _held(table)
                if size >= SHARD_BYTES:
                    break
        total.bytes += size
        total.file_bytes += shards[-1].stat().st_size
    for number, shard in enumerate(shards):
        shard.rename(folder / f"{config.split}-{number:05d}-of-{len(shards):05d}.parquet")


def _batches(rows: Iterable[Mapping[str, str]], columns: tuple[str, ...]) -> Iterator[pa.Table]:
    waiting = iter(rows)
    while batch := list(islice(waiting, BATCH_ROWS)):
        yield _table(batch, columns)


def _table(rows: list[Mapping[str, str]], columns: tuple[str, ...]) -> pa.Table:
    """Columns of strings, with the features that datasets keeps in a schema."""
    from datasets import Features, Value

    schema = Features({name: Value("string") for name in columns}).arrow_schema
    data: dict[str, Any] = {name: [row[name] for row in rows] for name in columns}
    return pa.table(data, schema=schema)


def _held(table: pa.Table) -> bool:
    return "credentialed" in table.column_names and "True" in set(table["credentialed"].to_pylist())
