"""The last look at what is published: no credentialed text, no keys, nothing of the user's machine.

It reads the very bytes, whoever made them. A refusal names the file and what was found, never the thing itself.
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
from urllib.parse import quote

from swapbias.errors import UsageError
from swapbias.files import CREDENTIALED
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
_CREDENTIALED = re.compile(
    rb'"credentialed"\s*:\s*(true|"True")|' + re.escape(credentialed.WARNING.strip("*").encode()),
    re.IGNORECASE,
)
_KEEP = "Keep it on this machine"
_EMBEDDED = re.compile(rb"data:([\w/+.-]+);base64,([A-Za-z0-9+/=]+)")


def check_upload(files: Files, *, never: Iterable[str] = ()) -> None:
    """UsageError for files that hold credentialed text, a key, something of this machine or any of ``never``.

    ValueError: a table that cannot be looked into.
    """
    refused = {
        form: (f"holds the value of {name}", f"Take it out, or unset {name} if it is no secret")
        for name, value in os.environ.items()
        if _KEY_NAME.search(name) and len(value) >= SHORTEST_KEY
        for form in _forms(value)
    }
    places = {
        form for text in (*never, f"{Path.home()}/") if len(text) > 3 for form in _forms(text)
    }
    refused |= dict.fromkeys(
        places, ("names a place of this machine or a private address", "Take it out")
    )
    for path, content in files.items():
        if isinstance(content, Path):
            credentialed.refuse(content, "published")
        if Path(path).name == CREDENTIALED or credentialed.is_mimic_name(path):
            _stop(path, "is credentialed clinical data", _KEEP)
        for piece in _pieces(path, content if isinstance(content, bytes) else content.read_bytes()):
            if _CREDENTIALED.search(piece):
                _stop(path, "holds or comes from credentialed clinical data", _KEEP)
            if _KEYS.search(piece):
                _stop(
                    path, "holds what looks like an access key", "Take it out, and revoke the key"
                )
            if found := next((form for form in refused if form in piece), None):
                _stop(path, *refused[found])


def _stop(path: str, what: str, step: str) -> None:
    raise UsageError(f"{path} {what}: nothing was published. {step}.")


def _forms(text: str) -> set[bytes]:
    """A text as plain, JSON, HTML and address bytes."""
    forms = (text, json.dumps(text)[1:-1], html.escape(text), quote(text), quote(text, safe=""))
    return {one.encode() for one in forms}


def _pieces(path: str, data: bytes) -> Iterator[bytes]:
    """What is searched: the texts of Parquet; of other files the bytes, and what is embedded in them."""
    if path.lower().endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(io.BytesIO(data))
        except (pa.ArrowException, OSError):
            raise ValueError(
                f"{path} is no Parquet that can be read: nothing was published. Make it again."
            ) from None
        yield file.schema_arrow.serialize().to_pybytes()  # names, and what is noted beside tables and columns
        for batch in file.iter_batches(batch_size=10_000):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                texts = (
                    set()
                    if pa.types.is_floating(column.type)
                    else {str(one) for one in column.to_pylist()}
                )
                if name == "credentialed" and texts & {"True", "true", "1"}:
                    _stop(path, "holds credentialed clinical notes", _KEEP)
                yield "\n".join(texts).encode(errors="replace")
        return
    yield data
    for found in _EMBEDDED.finditer(data):
        try:
            piece = base64.b64decode(found[2])
            yield (
                zlib.decompress(piece) if found[1] == b"application/zlib" else piece
            )  # prompts of a report
        except binascii.Error:
            continue
        except zlib.error:
            _stop(path, "holds what cannot be unpacked", "Write the report again")
    if path.lower().endswith(".csv"):
        rows = csv.DictReader(io.StringIO(data.decode(errors="replace"), newline=""), strict=True)
        try:
            if any(row.get("credentialed") == "True" for row in rows):
                _stop(path, "holds credentialed clinical notes", _KEEP)
        except csv.Error:  # an open quote could hide a row
            _stop(path, "has quotes that are not closed", "Mend them")
