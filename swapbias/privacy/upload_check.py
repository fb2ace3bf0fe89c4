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
from typing import Any
from urllib.parse import quote

from swapbias.errors import UsageError
from swapbias.files import CREDENTIALED
from swapbias.privacy import credentialed

Files = Mapping[str, bytes | Path]  # path in the repository -> its content, or a file on disk

SHORTEST_KEY = 8  # of a value in the environment: shorter ones are words
SHORTEST_PLACE = 4  # of a path or a private string, for the same reason
_KEY_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_LETTERS_AND_DIGITS = rb"[A-Za-z0-9]{30,}"
_SLACK = rb"[\w-]{10,}"
_GITHUB = rb"[A-Za-z0-9]{36}"
_AWS = rb"[0-9A-Z]{16}\b"
# Access keys by how they begin, with what follows.
_KEYS = {
    b"hf_": _LETTERS_AND_DIGITS,  # Hugging Face
    b"api_org_": _LETTERS_AND_DIGITS,
    b"sk-": rb"[A-Za-z0-9_-]{20,}",  # OpenAI and its like
    b"AKIA": _AWS,
    b"ASIA": _AWS,
    b"ghp_": _GITHUB,
    b"gho_": _GITHUB,
    b"ghu_": _GITHUB,
    b"ghs_": _GITHUB,
    b"ghr_": _GITHUB,
    b"github_pat_": rb"\w{30,}",
    b"glpat-": rb"[\w-]{20,}",  # GitLab
    b"xoxa-": _SLACK,
    b"xoxb-": _SLACK,
    b"xoxp-": _SLACK,
    b"xoxr-": _SLACK,
    b"xoxs-": _SLACK,
    b"AIza": rb"[\w-]{35}",  # Google
    b"gsk_": _LETTERS_AND_DIGITS,  # Groq
    b"xai-": _LETTERS_AND_DIGITS,
    b"r8_": _LETTERS_AND_DIGITS,  # Replicate
    b"nvapi-": rb"[\w-]{30,}",  # NVIDIA
    b"Bearer": rb"\s+[A-Za-z0-9._~+/-]{20,}",
}
# The beginning comes first, and then that it begins a word: so the search skips to it.
_KEY_PATTERNS = {
    beginning: re.compile(beginning + rb"(?<!\w" + beginning + rb")" + following)
    for beginning, following in _KEYS.items()
}
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_CREDENTIALED = re.compile(rb'"credentialed"\s*:\s*(true|"true")')  # in lower case
_WARNING = credentialed.WARNING.strip("*").encode().lower()
_EMBEDDED = re.compile(rb"data:([\w/+.-]+);base64,([A-Za-z0-9+/=]+)")


def check_upload(files: Files, *, never: Iterable[str] = ()) -> None:
    """Refuse to publish files that hold credentialed text, a key or something of this machine.

    Args:
        files: content of each file, or where it is on disk, by its path in the repository.
        never: further texts that no file may hold.

    Raises:
        UsageError: a file holds such a thing, or what is embedded in it cannot be unpacked.
        ValueError: a Parquet file cannot be read.
    """
    refused = _refused_texts(never)
    for path, content in files.items():
        if isinstance(content, Path):
            credentialed.refuse(content, "published")
        if Path(path).name == CREDENTIALED or credentialed.is_mimic_name(path):
            raise UsageError(
                f"{path} is credentialed clinical data: nothing was published. Keep it on this machine."
            )
        data = content if isinstance(content, bytes) else content.read_bytes()
        for piece in _searched_pieces(path, data):
            _check_piece(path, piece, refused)


def _refused_texts(never: Iterable[str]) -> dict[bytes, str]:
    """Return what no file may hold, with the rest of the sentence that begins with the file."""
    refused = {}
    for name, value in os.environ.items():
        if not _KEY_NAME.search(name) or len(value) < SHORTEST_KEY:
            continue
        for form in _encoded_forms(value):
            refused[form] = (
                f"contains the value of {name}: nothing was published. "
                f"Take it out, or unset {name} if it is no secret."
            )
    for text in (*never, f"{Path.home()}/"):
        if len(text) < SHORTEST_PLACE:
            continue
        for form in _encoded_forms(text):
            refused[form] = (
                "names a place of this machine or a private address: nothing was published. Take it out."
            )
    return refused


def _check_piece(path: str, piece: bytes, refused: Mapping[bytes, str]) -> None:
    """Refuse, with a UsageError, a piece of a file that holds something private."""
    lower = piece.lower()
    if _WARNING in lower or _CREDENTIALED.search(lower):
        raise UsageError(
            f"{path} contains or comes from credentialed clinical data: nothing was published. "
            "Keep it on this machine."
        )
    if _has_key(piece):
        raise UsageError(
            f"{path} contains what looks like an access key: nothing was published. "
            "Take it out, and revoke the key."
        )
    for form, sentence in refused.items():
        if form in piece:
            raise UsageError(f"{path} {sentence}")


def _has_key(piece: bytes) -> bool:
    """Tell whether a piece of a file holds what looks like an access key."""
    return bool(_PRIVATE_KEY.search(piece)) or any(
        beginning in piece and pattern.search(piece) for beginning, pattern in _KEY_PATTERNS.items()
    )


def _encoded_forms(text: str) -> set[bytes]:
    """Return a text as plain, JSON, HTML and address bytes."""
    forms = (text, json.dumps(text)[1:-1], html.escape(text), quote(text), quote(text, safe=""))
    return {form.encode() for form in forms}


def _searched_pieces(path: str, data: bytes) -> Iterator[bytes]:
    """Yield what is searched: the texts of Parquet; of other files the bytes, and what is embedded in them."""
    if path.lower().endswith(".parquet"):
        yield from _parquet_texts(path, data)
        return
    yield data
    yield from _embedded_pieces(path, data)
    if path.lower().endswith(".csv"):
        _check_csv(path, data)


def _parquet_texts(path: str, data: bytes) -> Iterator[bytes]:
    """Yield the schema of a Parquet file, and the different texts of each column of a batch."""
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
            texts = _texts_of_column(column)
            if name == "credentialed" and texts & {"True", "true", "1"}:
                raise _notes_error(path)
            yield "\n".join(texts).encode(errors="replace")


def _texts_of_column(column: Any) -> set[str]:
    """Return the different values of an Arrow array as texts; none of fractions, which hold nothing private."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return set()
    return {str(value) for value in column.to_pylist()}


def _embedded_pieces(path: str, data: bytes) -> Iterator[bytes]:
    """Yield what a page embeds, such as the prompts of a report, unpacked."""
    for match in _EMBEDDED.finditer(data):
        media_type, encoded = match.groups()
        try:
            piece = base64.b64decode(encoded)
        except binascii.Error:
            continue
        if media_type == b"application/zlib":
            piece = _unpack(path, piece)
        yield piece


def _unpack(path: str, piece: bytes) -> bytes:
    try:
        return zlib.decompress(piece)
    except zlib.error:
        raise UsageError(
            f"{path} contains what cannot be unpacked: nothing was published. Write the report again."
        ) from None


def _check_csv(path: str, data: bytes) -> None:
    """Refuse, with a UsageError, a table with credentialed rows, or with an open quote, which could hide a row."""
    rows = csv.DictReader(io.StringIO(data.decode(errors="replace"), newline=""), strict=True)
    try:
        is_credentialed = any(row.get("credentialed") == "True" for row in rows)
    except csv.Error:
        raise UsageError(
            f"{path} has quotes that are not closed: nothing was published. Correct them."
        ) from None
    if is_credentialed:
        raise _notes_error(path)


def _notes_error(path: str) -> UsageError:
    return UsageError(
        f"{path} contains credentialed clinical notes: nothing was published. Keep it on this machine."
    )
