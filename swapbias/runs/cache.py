"""Scores that are saved as they come, by everything that they depend on, and what this machine stores of them."""

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias import __version__
from swapbias.errors import UpstreamMissingError, UsageError, library_versions
from swapbias.files import cache_dir, rooms_sha256, write_whole
from swapbias.models import LoadOptions, Scored, Scorer, auto
from swapbias.studies import Prompt, corpora, load_corpus, load_lexicon, own_studies, tables

LIMIT = "SWAPBIAS_CACHE_LIMIT"
"""Environment variable: most bytes of scores; 0: none are stored."""
_COLUMNS = ["score", "answer", "top_tokens", "parts"]  # of ``Scored``


def cache_limit() -> int:
    """Return the most bytes of scores that this machine stores: ``SWAPBIAS_CACHE_LIMIT``, 2 GB by default.

    Raises:
        UsageError: the variable is no number.
    """
    value = os.environ.get(LIMIT, "2_000_000_000")
    try:
        return max(0, int(value))
    except ValueError as error:
        raise UsageError(
            f"{LIMIT} is {value!r}, expected a number of bytes (0: store nothing)."
        ) from error


class ScoreCache:
    """Scores by everything that they depend on: same model, settings, code, word lists and prompts, or no hit.

    Of pinned models they are in the user's cache folder; of functions and notes in the run's, until it is complete.
    No text is saved. ``rows_reused``: number of rows that came from the user's cache folder.
    """

    def __init__(self, options: LoadOptions, in_run: Path, *, shared: bool) -> None:
        """Store scores of models that are loaded with these options.

        Args:
            options: settings of the weights.
            in_run: folder of the run for scores that the user's cache folder may not hold.
            shared: read and write the user's cache folder.
        """
        self.options = options
        self.in_run = in_run
        self.limit = cache_limit() if shared else 0
        self.rows_reused = 0
        self._folder = cache_dir() / "scores"

    def place(self, prompts: Sequence[Prompt], scorer: Scorer, *, private: bool) -> Path | None:
        """Return the file of the scores of these prompts; None for a chat model.

        Args:
            prompts: the prompts of a part.
            scorer: the scorer that scores them.
            private: whether they are of notes.
        """
        if scorer.kind == "chat":
            return None
        key = self.key(prompts, scorer)
        if self.limit and is_pinned(scorer) and not private:
            return self._folder / key[:2] / f"{key}.parquet"
        return self.in_run / f"{key}.parquet"

    def read(self, path: Path, count: int) -> list[Scored] | None:
        """Return the scores of a file, which counts as used now.

        Args:
            path: the path of the file.
            count: the count of scores that it should have.

        Returns:
            The scores; None where it is not there, or damaged and removed.
        """
        try:
            table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
            os.utime(path)
            if table.num_rows != count or table.column_names != _COLUMNS:
                raise ValueError("it contains something else")
        except (OSError, ValueError, pa.ArrowException):
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        if path.parent != self.in_run:
            self.rows_reused += count
        return [Scored(**{**row, "parts": dict(row["parts"])}) for row in table.to_pylist()]

    def write(self, path: Path, scored: Sequence[Scored]) -> None:
        """Save scores, whole or not at all.

        Args:
            path: the path of the file.
            scored: the scores of a part.

        Raises:
            OSError: the run's folder is full; the cache costs time alone.
        """
        # What gave NaN may be the machine, which no key names.
        if not all(score.finite for score in scored):
            return
        columns: dict[str, Any] = {
            name: [getattr(score, name) for score in scored] for name in _COLUMNS
        }
        parts = [[*score.parts.items()] for score in scored]
        columns["parts"] = pa.array(parts, pa.map_(pa.string(), pa.float64()))
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink, compression="zstd", write_page_checksum=True)
        ignored = () if path.parent == self.in_run else (OSError,)
        with suppress(*ignored):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, sink.getvalue().to_pybytes())
            path.chmod(0o600)

    def trim(self) -> None:
        """Remove the least recently used files of the user's cache folder until it is within its limit."""
        if not self.limit:
            return
        files: list[tuple[float, int, Path]] = []
        for path in self._folder.rglob("*.*"):
            with suppress(FileNotFoundError):  # another process may have been faster
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total > self.limit:
                path.unlink(missing_ok=True)
                total -= size

    def key(self, prompts: Sequence[Prompt], scorer: Scorer) -> str:
        """Return the sha256 over all that the scores of these prompts depend on, except the name of the model.

        Args:
            prompts: the prompts of a part.
            scorer: the scorer that scores them.
        """
        lexicons = {prompt.lexicon.partition("/")[0] for prompt in prompts}
        names = sorted(lexicons & {*corpora(), *own_studies()})
        depends = {
            "swapbias": __version__,
            "libraries": library_versions(
                ("torch", "transformers", "tokenizers")
            ),  # others may score otherwise
            "machine": platform.machine(),
            "code": code_sha256(),
            "scorer": f"{type(scorer).__module__}.{type(scorer).__qualname__}",
            "unit": scorer.unit,
            "model": dict(scorer.identity),
            "options": asdict(self.options),
            "lexicons": {name: _lexicons_sha256(name) for name in names},
            "prompts": tables.fingerprint(prompt.row() for prompt in prompts),
        }
        return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()


def is_pinned(scorer: Scorer) -> bool:
    """Return whether a scorer reads prompts with a model that transformers loaded and that is known to the byte.

    Args:
        scorer: a scorer of any kind.
    """
    identity = scorer.identity
    is_loaded = {"architecture", "device", "dtype"} <= set(identity)
    has_version = bool(identity.get("sha256") or identity.get("revision"))
    return scorer.kind in auto.model_kinds() and is_loaded and has_version


@cache
def code_sha256() -> str:
    """Return the sha256 of the code that scores: what is edited without a new version counts as new."""
    # Words are measured, and words and prompts are studies'.
    return rooms_sha256("measures", "models", "studies")


def _lexicons_sha256(corpus: str) -> dict[str, str]:
    """Return the sha256 of every word list of a corpus, the user's own labels included."""
    digests = {}
    for lexicon_name in load_corpus(corpus).lexicons:
        name = f"{corpus}/{lexicon_name}"
        try:
            digests[name] = _lexicon_sha256(name)
        except UpstreamMissingError:  # who reads it says so
            digests[name] = "not found"
    return digests


def _lexicon_sha256(name: str) -> str:
    """Return the sha256 of a word list."""
    lexicon = load_lexicon(name)
    words = json.dumps([*lexicon.words.items()])
    facts = {"words": words, "rest": lexicon.rest, "threshold": str(lexicon.threshold)}
    return tables.fingerprint([facts, lexicon.proper])
