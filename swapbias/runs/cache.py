"""What is kept on this machine between audits: scores of models that are known to the byte, and clearing it."""

import hashlib
import io
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias import __version__
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.files import cache_dir, file_sha256, write_whole
from swapbias.models import LoadOptions, Progress, Scored, Scorer, model_kinds
from swapbias.studies import Prompt, corpora, fingerprint, load_corpus, load_lexicon, own_studies

LIMIT = "SWAPBIAS_CACHE_LIMIT"
# What can be had again, by folder; labels that the user imported cannot, and stay.
CLEARED = {"scores": "scores", "upstream": "upstream", "models": "calibration-*"}
_DEFAULT_LIMIT = "2 GB"
_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([KMGT]?)B?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of one kind: entries (files; folders of models) and their bytes."""

    kind: str
    entries: int
    bytes: int


def kept() -> list[Kept]:
    """What is kept of each kind that can be cleared."""
    found = []
    for kind in CLEARED:
        files = [one for place in _places(kind) for one in _files(place)]
        entries = len(_places(kind)) if kind == "models" else len(files)
        found.append(Kept(kind, entries, sum(size for _, size, _ in files)))
    return found


def clear(kind: str) -> Kept:
    """Remove what is kept of one kind; says what was.

    Raises:
        UsageError: no such kind.
        OSError: something cannot be removed.
    """
    if kind not in CLEARED:
        raise UsageError(f"Nothing of kind {kind!r} is kept: expected {', '.join(CLEARED)} or all.")
    gone = next(one for one in kept() if one.kind == kind)
    for place in _places(kind):
        shutil.rmtree(place)
    return gone


def cache_limit() -> int:
    """Most bytes of scores that are kept: ``SWAPBIAS_CACHE_LIMIT``, as ``500 MB`` or a number of bytes.

    Raises:
        UsageError: it is no size.
    """
    given = os.environ.get(LIMIT, _DEFAULT_LIMIT)
    found = _SIZE.fullmatch(given)
    if not found:
        raise UsageError(f"{LIMIT} is {given!r}, expected a size like 500 MB or 2 GB (0: keep nothing). Correct it.")
    return int(float(found[1]) * 1_000 ** " KMGT".index(found[2].upper() or " "))


def trim(folder: Path, limit: int) -> int:
    """Remove the least recently used files until the others take at most ``limit`` bytes; the bytes left."""
    files = sorted(_files(folder))
    left = sum(size for _, size, _ in files)
    for _, size, path in files:
        if left <= limit:
            break
        path.unlink(missing_ok=True)  # another process may have been faster
        left -= size
    return left


def _places(kind: str) -> list[Path]:
    return sorted(path for path in cache_dir().glob(CLEARED[kind]) if path.is_dir() and not path.is_symlink())


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Time of last use, bytes and path of every file; what another process removes meanwhile is left out."""
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                state = path.stat()
                yield state.st_mtime, state.st_size, path


def bytes_in(folder: Path) -> int:
    """Bytes of all files below a folder; 0 where there is none."""
    return sum(size for _, size, _ in _files(folder))


_FORMAT = 1  # of the files
_COLUMNS = ("score", "answer", "top_tokens")
_PART = "part/"
_LIBRARIES = ("torch", "transformers", "tokenizers")  # another version may score otherwise


class ScoreCache:
    """Scores by everything that they hang on: same model, settings, code, word lists and prompts, or no hit.

    Only models that transformers loaded and a sha256 or revision pins down are kept: not chat models (whose answers
    have a log of their own), VADER (as fast without), callables (whose code may read anything) or what reads notes.
    Prompts for which a model gave NaN are scored again. No text of a prompt is kept. Files that cannot be read are
    dropped and scored again, and several processes may share them. Beyond ``SWAPBIAS_CACHE_LIMIT`` bytes (``2 GB``;
    0: nothing is kept) the least recently used go first.

    Attributes:
        rows: how many rows were taken from files.
    """

    def __init__(self, options: LoadOptions) -> None:
        """For models that are loaded with these options.

        Raises:
            UsageError: the limit is no size.
        """
        self.options, self.limit = options, cache_limit()
        self.rows = 0
        self._folder = cache_dir() / "scores"
        self._lexicons: dict[str, Mapping[str, str]] = {}
        self._size: int | None = None

    def score(self, prompts: Sequence[Prompt], scorer: Scorer, on_progress: Progress | None = None) -> list[Scored]:
        """What ``scorer.score`` returns, from files where they hold it."""
        if not self.limit or not is_pinned(scorer):
            return scorer.score(prompts, on_progress)
        key = self.key(prompts, scorer)
        path = self._folder / key[:2] / f"{key}.parquet"
        found = _read(path, len(prompts))
        if found is not None:
            self.rows += len(found)
            if on_progress:
                on_progress(len(found))
            return found
        scored = scorer.score(prompts, on_progress)
        if not all(one.finite for one in scored):  # what gave NaN may be the machine, which no key names
            return scored
        with suppress(OSError):  # a full or read-only disk costs the next audit its time, not this one its scores
            self._keep(path, scored)
        return scored

    def key(self, prompts: Sequence[Prompt], scorer: Scorer) -> str:
        """sha256 over all that the scores of these prompts hang on; the name of the model is not part of it."""
        depends = {
            "format": _FORMAT,
            "swapbias": __version__,
            "libraries": [_version(name) for name in _LIBRARIES],
            "machine": platform.machine(),
            "code": code_sha256(),
            "scorer": f"{type(scorer).__module__}.{type(scorer).__qualname__}",
            "unit": scorer.unit,
            "model": dict(scorer.identity),
            "options": asdict(self.options),
            "lexicons": {name: self._words(name) for name in _corpora_of(prompts)},
            "prompts": fingerprint(prompt.row() for prompt in prompts),
        }
        return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()

    def _words(self, corpus: str) -> Mapping[str, str]:
        """sha256 of every word list of a corpus, the user's own labels included."""
        if corpus not in self._lexicons:
            names = [f"{corpus}/{name}" for name in load_corpus(corpus).lexicons]
            self._lexicons[corpus] = {name: _lexicon_sha256(name) for name in names}
        return self._lexicons[corpus]

    def _keep(self, path: Path, scored: Sequence[Scored]) -> None:
        content = _packed(scored)
        if self._size is None:
            self._size = bytes_in(self._folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
        self._size += len(content)
        if self._size > self.limit:
            self._size = trim(self._folder, self.limit)


def is_pinned(scorer: Scorer) -> bool:
    """Whether a scorer reads prompts with a model that transformers loaded and that is known to the byte."""
    identity = scorer.identity
    loaded = {"architecture", "device", "dtype"} <= set(identity)
    known = bool(identity.get("sha256") or identity.get("revision"))
    return scorer.kind in model_kinds() and loaded and known


@cache
def code_sha256() -> str:
    """sha256 of the code that scores: what is edited without a new version counts as new."""
    folder = Path(__file__).parent.parent
    rooms = ("measures", "models", "studies")  # masses of words are measured, and words and prompts are studies'
    files = sorted(path for room in rooms for path in (folder / room).rglob("*.py"))
    named = [f"{path.relative_to(folder).as_posix()} {file_sha256(path)}\n" for path in files]
    return hashlib.sha256("".join(named).encode()).hexdigest()


def _version(name: str) -> str:
    with suppress(PackageNotFoundError):
        return f"{name} {version(name)}"
    return name


def _corpora_of(prompts: Sequence[Prompt]) -> list[str]:
    """The corpora whose word lists prompts name; two answers to choose from name none."""
    return sorted({prompt.candidates.partition("/")[0] for prompt in prompts} & {*corpora(), *own_studies()})


def _lexicon_sha256(name: str) -> str:
    try:
        lexicon = load_lexicon(name)
    except UpstreamMissingError:  # who reads it says so
        return "not at hand"
    return fingerprint([{"words": json.dumps([*lexicon.words.items()]), "rest": lexicon.rest}, lexicon.proper])


# --- the files ----------------------------------------------------------------------------------------


def _packed(scored: Sequence[Scored]) -> bytes:
    """Scores as Parquet with a checksum of each page."""
    names = list(dict.fromkeys(name for one in scored for name in one.parts))
    columns: dict[str, Any] = {
        "score": pa.array([one.score for one in scored], pa.float64()),
        "answer": pa.array([one.answer for one in scored], pa.string()),
        "top_tokens": pa.array([one.top_tokens for one in scored], pa.string()),
        **{f"{_PART}{name}": pa.array([one.parts.get(name) for one in scored], pa.float64()) for name in names},
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


def _read(path: Path, rows: int) -> list[Scored] | None:
    """The scores of a file, which counts as used now; None where it is not there, or damaged and removed."""
    try:
        table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
        os.utime(path)
        if table.num_rows != rows or tuple(table.column_names[: len(_COLUMNS)]) != _COLUMNS:
            raise ValueError("it holds something else")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, pa.ArrowException):
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    parts = table.column_names[len(_COLUMNS) :]
    return [
        Scored(
            row["score"],
            row["answer"],
            row["top_tokens"],
            {name.removeprefix(_PART): row[name] for name in parts if row[name] is not None},
        )
        for row in table.to_pylist()
    ]
