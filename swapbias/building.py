"""Corpora as folders that ``datasets.load_dataset`` reads, offline or from the Hub."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from swapbias import credentialed
from swapbias.credentialed import NOTE as CREDENTIALED_NOTE
from swapbias.declaring import Corpus
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.sources import corpus_dir
from swapbias.studies import load_corpus, local_corpus
from swapbias.writing import Written, write_config

MARKER = ".swapbias-corpus"  # tells a folder that may be replaced from a user's own


@dataclass(frozen=True, slots=True)
class Built:
    """One config: written with so many rows, or left out for a reason."""

    corpus: str
    config: str
    rows: int
    left_out: str = ""


def build(corpus_name: str, out: Path, *, data: Path | None = None) -> Iterator[Built]:
    """Write a corpus to ``out/<corpus>``: Parquet by config and split, and the card.

    A folder that is there is replaced as a whole, once the new one is complete. With ``data``, a folder of the
    user's, the corpus' configs are made from it; where its notes are credentialed the result says so.

    Raises:
        UsageError: unknown corpus, or a folder that no build made.
        ValueError: a broken table. OSError: ``out`` cannot be written.
    """
    corpus = local_corpus(corpus_name, data) if data else load_corpus(corpus_name)
    target = out / corpus.name
    if target.exists() and not (target / MARKER).exists() and any(target.iterdir()):
        raise UsageError(f"{target} holds something else than a built corpus. Choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{corpus.name}.", dir=out))
    try:
        written: dict[str, Written] = {}
        for config in corpus.configs:
            try:
                made = write_config(making / config.name, corpus, config)
            except UpstreamMissingError as error:
                yield Built(corpus.name, config.name, 0, str(error))
                continue
            written[config.name] = made
            yield Built(corpus.name, config.name, made.rows)
        held = any(made.credentialed for made in written.values())
        (making / "README.md").write_text(card(corpus, written, credentialed=held), encoding="utf-8")
        (making / MARKER).write_text(f"{corpus.name} {corpus.version}\n", encoding="utf-8")
        if held:
            credentialed.mark(making)
        making.chmod(0o755)
        _put_in_place(making, target)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _put_in_place(made: Path, target: Path) -> None:
    """Swap a finished folder in: the old one is moved aside first, and goes only when the new one stands."""
    aside = target.with_name(f".{target.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    if target.exists():
        target.rename(aside)
    made.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def card(corpus: Corpus, written: Mapping[str, Written], *, credentialed: bool = False) -> str:
    """The dataset card: the corpus' own README under a header that names configs, splits and features."""
    header = {
        "pretty_name": corpus.title,
        "license": corpus.licence.lower(),
        "language": ["en"],
        "tags": ["bias", "fairness", "swapbias"],
        "configs": [
            _data_files(name, made, default=index == 0) for index, (name, made) in enumerate(written.items())
        ],
        "dataset_info": [_info(name, made) for name, made in written.items()],
    }
    body = (corpus_dir(corpus.name) / "README.md").read_text(encoding="utf-8")
    if corpus.licence == "other":  # not ours to describe
        rows = "\n".join(f"- `{name}`: {made.rows} rows" for name, made in written.items())
        body = f"# {corpus.name}\n\n{corpus.title.capitalize()}.\n\n{rows}\n"
    if credentialed:
        body = f"{CREDENTIALED_NOTE}\n\n{body}"
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n\n{body}"


def _data_files(config: str, made: Written, *, default: bool) -> dict[str, Any]:
    files = [{"split": split, "path": f"{config}/{split}-*.parquet"} for split in made.splits]
    entry: dict[str, Any] = {"config_name": config, "data_files": files}
    return {**entry, "default": True} if default else entry


def _info(config: str, made: Written) -> dict[str, Any]:
    return {
        "config_name": config,
        "features": [{"name": name, "dtype": "string"} for name in made.columns],
        "splits": [
            {"name": split, "num_bytes": part.bytes, "num_examples": part.rows} for split, part in made.splits.items()
        ],
        "download_size": sum(part.file_bytes for part in made.splits.values()),
        "dataset_size": sum(part.bytes for part in made.splits.values()),
    }
