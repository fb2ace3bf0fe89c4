"""Keep rows of notes that are too many for memory as Arrow files in the cache folder, for their user alone."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from swapbias.files import (
    OWNER_FOLDER,
    atomic_directory,
    cache_dir,
    file_sha256,
    locked,
    rooms_sha256,
)
from swapbias.privacy import credentialed, for_owner_alone
from swapbias.studies import Config, catalogue

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1_000  # rows that are written at once
_WAIT = 3_600  # seconds for another process that writes the same rows
_ROOMS = ("notes", "studies", "swapping")  # whose code makes rows of tables


def stored_rows(config: Config, tables: Sequence[Path]) -> Path:
    """Write the rows of a config to the cache folder, where they are not there yet.

    The file is found by the content of the tables, the columns and the code that reads them, so that changed notes
    are read again, by another process too. It then takes the place of the older one. ``datasets`` keeps what ``map``
    and ``filter`` make of the rows beside it.

    Args:
        config: the config whose rows are made from the tables.
        tables: files of the user's machine.

    Returns:
        An Arrow file in a folder that its user alone can read, marked where a row is credentialed.

    Raises:
        ValueError: a broken table.
        OSError: the cache folder cannot be written.
    """
    cache = cache_dir() / "notes"
    cache.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
    cache.chmod(OWNER_FOLDER)
    source = [config.name, *(str(table.resolve()) for table in tables)]
    folder = cache / hashlib.sha256(json.dumps(source).encode()).hexdigest()[:16]
    schema: pa.Schema = catalogue.config_features(config).arrow_schema
    with locked(folder, file=Path(f"{folder}.lock"), wait=_WAIT):
        file = folder / f"{_content_key(config, tables, schema)}.arrow"
        if not file.exists():
            with for_owner_alone(True), atomic_directory(folder) as making:
                _write_rows(config, making / file.name, schema)
    return file


def _content_key(config: Config, tables: Sequence[Path], schema: "pa.Schema") -> str:
    """Return a sha256 over all that the rows depend on."""
    depends = {
        "code": rooms_sha256(*_ROOMS),
        "config": [config.name, config.description],
        "columns": str(schema),
        "tables": [[table.name, file_sha256(table)] for table in tables],
    }
    return hashlib.sha256(json.dumps(depends).encode()).hexdigest()


def _write_rows(config: Config, file: Path, schema: "pa.Schema") -> None:
    """Write the rows batch by batch, and mark their folder before the first credentialed one is written."""
    import pyarrow as pa

    is_marked = False
    with file.open("wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for rows in _row_batches(config):
            if not is_marked and any(row.get("credentialed") is True for row in rows):
                credentialed.mark(file.parent)
                is_marked = True
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def _row_batches(config: Config) -> Iterator[list[dict[str, object]]]:
    """Yield the rows of a config, so many at once as are written."""
    rows = config.publish_rows(config.rows())
    while batch := [*islice(rows, _BATCH)]:
        yield batch
