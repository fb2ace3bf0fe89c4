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

LIMIT = "SWAPBIAS_CACHE_LIMIT"  # environment variable: most bytes of scores; 0: none are stored
_COLUMNS = ["score", "answer", "top_tokens", "parts"]  # of ``Scored``


def cache_limit() -> int:
    """Most bytes of scores that this machine stores: ``SWAPBIAS_CACHE_LIMIT``, 2 GB by default."""
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
    No text is saved. ``rows``: how many came from the user's cache folder.
    """

    def __init__(self, options: LoadOptions, in_run: Path, *, shared: bool) -> None:
        """For models that are loaded with these options; ``shared``: the user's cache folder is read and written."""
        self.options = options
        self.in_run = in_run
        self.limit = cache_limit() if shared else 0
        self.rows_reused = 0
        self._folder = cache_dir() / "scores"

    def place(self, prompts: Sequence[Prompt], scorer: Scorer, *, private: bool) -> Path | None:
        """The file of the scores of these prompts; None for a chat model. ``private``: they are of notes."""
        if scorer.kind == "chat":
            return None
        key = self.key(prompts, scorer)
        shared = self.limit and is_pinned(scorer) and not private
        return (
            self._folder / key[:2] / f"{key}.parquet" if shared else self.in_run / f"{key}.parquet"
        )

    def read(self, place: Path, count: int) -> list[Scored] | None:
        """So many scores of a file, which counts as used now; None where it is not there, or damaged and removed."""
        try:
            table = pq.read_table(place, page_checksum_verification=True, partitioning=None)
            os.utime(place)
            if table.num_rows != count or table.column_names != _COLUMNS:
                raise ValueError("it holds something else")
        except (OSError, ValueError, pa.ArrowException):
            with suppress(OSError):
                place.unlink(missing_ok=True)
            return None
        self.rows_reused += count if place.parent != self.in_run else 0
        return [Scored(**{**row, "parts": dict(row["parts"])}) for row in table.to_pylist()]

    def write(self, place: Path, scored: Sequence[Scored]) -> None:
        """Save scores, whole or not at all; OSError where the run's folder is full (the cache costs time alone)."""
        if not all(
            one.finite for one in scored
        ):  # what gave NaN may be the machine, which no key names
            return
        columns: dict[str, Any] = {
            name: [getattr(one, name) for one in scored] for name in _COLUMNS
        }
        columns["parts"] = pa.array(
            [[*one.parts.items()] for one in scored], pa.map_(pa.string(), pa.float64())
        )
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink, compression="zstd", write_page_checksum=True)
        with suppress(*(() if place.parent == self.in_run else (OSError,))):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(place, sink.getvalue().to_pybytes())
            place.chmod(0o600)

    def trim(self) -> None:
        """Remove the least recently used files of the user's cache folder until it is within its limit."""
        files = list[tuple[float, int, Path]]()
        for path in self._folder.rglob("*.*") if self.limit else ():
            with suppress(FileNotFoundError):  # another process may have been faster
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total > self.limit:
                path.unlink(missing_ok=True)
                total -= size

    def key(self, prompts: Sequence[Prompt], scorer: Scorer) -> str:
        """sha256 over all that the scores of these prompts depend on; the name of the model is not part of it."""
        named = sorted(
            {one.lexicon.partition("/")[0] for one in prompts} & {*corpora(), *own_studies()}
        )
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
            "lexicons": {name: _lexicons_sha256(name) for name in named},
            "prompts": tables.fingerprint(prompt.row() for prompt in prompts),
        }
        return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()


def is_pinned(scorer: Scorer) -> bool:
    """Whether a scorer reads prompts with a model that transformers loaded and that is known to the byte."""
    identity = scorer.identity
    loaded = {"architecture", "device", "dtype"} <= set(identity)
    return (
        scorer.kind in auto.model_kinds()
        and loaded
        and bool(identity.get("sha256") or identity.get("revision"))
    )


@cache
def code_sha256() -> str:
    """sha256 of the code that scores: what is edited without a new version counts as new."""
    return rooms_sha256(
        "measures", "models", "studies"
    )  # words are measured, and words and prompts are studies'


def _lexicons_sha256(corpus: str) -> dict[str, str]:
    """sha256 of every word list of a corpus, the user's own labels included."""
    found = {}
    for name in (f"{corpus}/{one}" for one in load_corpus(corpus).lexicons):
        try:
            lexicon = load_lexicon(name)
            words = json.dumps([*lexicon.words.items()])
            found[name] = tables.fingerprint(
                [
                    {"words": words, "rest": lexicon.rest, "threshold": str(lexicon.threshold)},
                    lexicon.proper,
                ]
            )
        except UpstreamMissingError:  # who reads it says so
            found[name] = "not at hand"
    return found
