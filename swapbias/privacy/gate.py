"""The gate that everything published passes: no credentialed text, no keys, nothing of the user's machine.

What a run or a corpus may share is decided where it is packed; this is the last look at the very bytes, whoever made
them. A refusal names the file and what kind of thing was found, never the thing itself.
"""

import base64
import binascii
import csv
import html
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swapbias.errors import UsageError
from swapbias.privacy import credentialed

Files = Mapping[str, bytes | Path]  # path in the repository -> its content, or a file on disk

SHORTEST_KEY = 8  # of a value in the environment: shorter ones are words
_KEY_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
# Access keys by how they begin: Hugging Face, OpenAI and its like, AWS, GitHub, GitLab, Slack, Google, Groq, xAI,
# Replicate, NVIDIA; and whatever says of itself that it is one.
_KEYS = re.compile(
    rb"\b(hf|api_org)_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{20,}|\bA[KS]IA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
    rb"|\bgithub_pat_\w{30,}|\bglpat-[\w-]{20,}|\bxox[abprs]-[\w-]{10,}|\bAIza[\w-]{35}|\bgsk_[A-Za-z0-9]{30,}"
    rb"|\bxai-[A-Za-z0-9]{30,}|\br8_[A-Za-z0-9]{30,}|\bnvapi-[\w-]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    rb"|\bBearer\s+[A-Za-z0-9._~+/-]{20,}"
)
_HELD = re.compile(rb'"credentialed"\s*:\s*(true|"True")', re.IGNORECASE)
_EMBEDDED = re.compile(rb"data:([\w/+.-]+);base64,([A-Za-z0-9+/=]+)")
_DEFLATED = b"application/zlib"  # the scored prompts of a report
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
    banned = [form for text in never if len(text) > 3 for form in _written(text)]
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
            for name, forms in names.items():
                if any(form in piece for form in forms):
                    _stop(path, f"holds the value of {name}", f"Take it out, or unset {name} if it is no secret")
            if (len(home) > 2 and home in piece) or any(text in piece for text in banned):
                _stop(path, "names a place of this machine or a private address", "Take it out")


def _stop(path: str, what: str, step: str) -> None:
    raise UsageError(f"{path} {what}: nothing was published. {step}.")


def _environment_keys() -> dict[str, set[bytes]]:
    return {
        name: _written(value)
        for name, value in os.environ.items()
        if _KEY_NAME.search(name) and len(value) >= SHORTEST_KEY
    }


def _written(text: str) -> set[bytes]:
    """A text as plain, JSON, HTML and address bytes."""
    return {
        one.encode() for one in (text, json.dumps(text)[1:-1], html.escape(text), quote(text), quote(text, safe=""))
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
            piece = base64.b64decode(found[2])
            yield zlib.decompress(piece) if found[1] == _DEFLATED else piece
        except binascii.Error:
            continue
        except zlib.error:
            _stop(path, "holds what cannot be unpacked", "Write the report again")
    if name.endswith(".csv"):
        _refuse_held_rows(path, data)


def _parquet_texts(path: str, content: bytes | Path) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(content if isinstance(content, Path) else io.BytesIO(content))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} is no Parquet that can be read, so nothing was published. Make it again."
        ) from error
    yield _metadata(file.schema_arrow)
    for batch in file.iter_batches(batch_size=10_000):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if _is_number(column.type):
                continue
            held = {str(one) for one in column.to_pylist() if one is not None}
            if name == "credentialed" and held & {"True", "true", "1"}:
                _stop(path, "holds credentialed clinical notes", "Keep it on this machine")
            yield "\n".join(held).encode(errors="replace")


def _metadata(schema: Any) -> bytes:
    """Names, types and whatever else stands in a schema, of fields as well."""
    parts = [str(schema).encode(), *_items(schema.metadata)]
    for field in schema:
        parts += [field.name.encode(), *_items(field.metadata)]
    return b"\n".join(parts)


def _items(metadata: Mapping[bytes, bytes] | None) -> Iterator[bytes]:
    for key, value in (metadata or {}).items():
        yield key + b" " + value


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_null(kind))


def _refuse_held_rows(path: str, data: bytes) -> None:
    rows = csv.DictReader(io.StringIO(data.decode(errors="replace"), newline=""), strict=True)
    try:
        held = "credentialed" in (rows.fieldnames or ()) and any(row["credentialed"] == "True" for row in rows)
    except csv.Error:  # an open quote could hide a row
        _stop(path, "has quotes that are not closed", "Mend them")
    if held:
        _stop(path, "holds credentialed clinical notes", "Keep it on this machine")
