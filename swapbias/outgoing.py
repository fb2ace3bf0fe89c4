"""The gate that everything published passes: no credentialed text, no keys, nothing of the user's machine.

What a run or a corpus may share is decided where it is packed; this is the last look at the very bytes, whoever made
them. A refusal names the file and what kind of thing was found, never the thing itself.
"""

import base64
import binascii
import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from swapbias import credentialed
from swapbias.errors import UsageError

Files = Mapping[str, bytes | Path]  # path in the repository -> its content, or a file on disk

SHORTEST_KEY = 8  # of a value in the environment: shorter ones are words
_KEY_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_KEYS = re.compile(
    rb"\bhf_[A-Za-z]{30,}|\bsk-[A-Za-z0-9_-]{20,}|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}|\bxox[abprs]-[\w-]{10,}"
    rb"|\bAIza[\w-]{35}|-----BEGIN [A-Z ]*PRIVATE KEY-----|\bBearer\s+[A-Za-z0-9._~+/-]{20,}"
)
_HELD = re.compile(rb'"credentialed"\s*:\s*(true|"True")', re.IGNORECASE)
_EMBEDDED = re.compile(rb"data:[\w/+.-]+;base64,([A-Za-z0-9+/=]+)")
_NOTE = credentialed.NOTE.strip("*").encode()


def check(files: Files, *, never: Iterable[str] = ()) -> None:
    """Refuse files that hold what must not leave this machine.

    Args:
        files: what would be published.
        never: strings that none of them may hold (paths of this machine, addresses, a token).

    Raises:
        UsageError: naming the file and the kind of thing: credentialed text, a key, something of this machine.
        ValueError: a table that cannot be looked into.
    """
    names = _environment_keys()
    banned = [text.encode() for text in never if len(text) > 3]
    home = f"{Path.home()}/".encode()
    for path, content in files.items():
        if isinstance(content, Path):
            credentialed.refuse(content, "published")
        if Path(path).name == credentialed.FILE or credentialed.is_mimic_name(path):
            _stop(path, "is credentialed clinical data", "Keep it on this machine")
        for piece in _pieces(path, content):
            if _NOTE in piece or _HELD.search(piece):
                _stop(path, "holds or comes from credentialed clinical data", "Keep it on this machine")
            if _KEYS.search(piece):
                _stop(path, "holds what looks like an access key", "Take it out, and revoke the key")
            for name, value in names.items():
                if value in piece:
                    _stop(path, f"holds the value of {name}", "Take it out")
            if (len(home) > 2 and home in piece) or any(text in piece for text in banned):
                _stop(path, "names a place of this machine or a private address", "Take it out")


def _stop(path: str, what: str, step: str) -> None:
    raise UsageError(f"{path} {what}: nothing was published. {step}.")


def _environment_keys() -> dict[str, bytes]:
    return {
        name: value.encode()
        for name, value in os.environ.items()
        if _KEY_NAME.search(name) and len(value) >= SHORTEST_KEY
    }


def _pieces(path: str, content: bytes | Path) -> Iterator[bytes]:
    """What is searched: the bytes, what is embedded in them, and the texts of compressed tables."""
    name = path.lower()
    if name.endswith(".parquet"):
        yield from _parquet_texts(path, content)
        return
    data = content.read_bytes() if isinstance(content, Path) else content
    yield data
    for found in _EMBEDDED.finditer(data):
        try:
            yield base64.b64decode(found[1])
        except binascii.Error:
            continue
    if name.endswith(".csv"):
        _refuse_held_rows(path, data)


def _parquet_texts(path: str, content: bytes | Path) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(content if isinstance(content, Path) else io.BytesIO(content))
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is no Parquet that can be read, so nothing was published. Make it again.") from error
    yield repr(file.schema_arrow).encode() + repr(file.metadata.metadata).encode()
    for batch in file.iter_batches(batch_size=10_000):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                continue
            texts = [text for text in pc.unique(column).to_pylist() if text]
            if name == "credentialed" and "True" in texts:
                _stop(path, "holds credentialed clinical notes", "Keep it on this machine")
            yield "\n".join(texts).encode()


def _refuse_held_rows(path: str, data: bytes) -> None:
    rows = csv.DictReader(io.StringIO(data.decode(errors="replace"), newline=""))
    if "credentialed" in (rows.fieldnames or ()) and any(row["credentialed"] == "True" for row in rows):
        _stop(path, "holds credentialed clinical notes", "Keep it on this machine")
