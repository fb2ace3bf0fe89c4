"""Corpora as folders that ``datasets.load_dataset`` reads, offline or from the Hub."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import yaml

from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.sources import corpus_dir
from swapbias.studies import Corpus, load_corpus, load_prompts

if TYPE_CHECKING:
    from datasets import Dataset


MARKER = ".swapbias-corpus"  # tells a folder that may be replaced from a user's own


@dataclass(frozen=True, slots=True)
class Built:
    """One config: written with so many rows, or left out for a reason."""

    corpus: str
    config: str
    rows: int
    left_out: str = ""


def build(corpus_name: str, out: Path) -> Iterator[Built]:
    """Write a corpus to ``out/<corpus>``: one Parquet per config and split, and the card.

    A folder that is there is replaced as a whole, once the new one is complete.

    Raises:
        UsageError: unknown corpus, or a folder that no build made.
        ValueError: a broken table. OSError: ``out`` cannot be written.
    """
    corpus = load_corpus(corpus_name)
    target = out / corpus.name
    if target.exists() and not (target / MARKER).exists() and any(target.iterdir()):
        raise UsageError(f"{target} holds something else than a built corpus. Choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{corpus.name}.", dir=out))
    try:
        built: dict[str, tuple[Dataset, int]] = {}
        for config in corpus.configs:
            try:
                data = load_prompts(corpus.name, config.name)
            except UpstreamMissingError as error:
                yield Built(corpus.name, config.name, 0, str(error))
                continue
            folder = making / config.name
            folder.mkdir()
            file = folder / f"{config.split}-00000-of-00001.parquet"
            pq.write_table(data.data.table, file)  # keeps the features, which datasets writes into the schema
            built[config.name] = data, file.stat().st_size
            yield Built(corpus.name, config.name, len(data))
        (making / "README.md").write_text(card(corpus, built), encoding="utf-8")
        (making / MARKER).write_text(f"{corpus.name} {corpus.version}\n", encoding="utf-8")
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


def card(corpus: Corpus, built: "dict[str, tuple[Dataset, int]]") -> str:
    """The dataset card: the corpus' own README under a header that names configs, splits and features.

    ``built`` holds each config's data and the bytes of its file.
    """
    header = {
        "pretty_name": corpus.title,
        "license": corpus.licence.lower(),
        "language": ["en"],
        "tags": ["bias", "fairness", "swapbias"],
        "configs": [_data_files(corpus, name, default=index == 0) for index, name in enumerate(built)],
        "dataset_info": [_info(corpus, name, *data) for name, data in built.items()],
    }
    body = (corpus_dir(corpus.name) / "README.md").read_text(encoding="utf-8")
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n\n{body}"


def _data_files(corpus: Corpus, config: str, *, default: bool) -> dict[str, Any]:
    split = corpus.config(config).split
    entry: dict[str, Any] = {
        "config_name": config,
        "data_files": [{"split": split, "path": f"{config}/{split}-*.parquet"}],
    }
    return {**entry, "default": True} if default else entry


def _info(corpus: Corpus, config: str, data: "Dataset", file_bytes: int) -> dict[str, Any]:
    split = corpus.config(config).split
    size = int(data.data.nbytes)
    return {
        "config_name": config,
        "features": [{"name": name, "dtype": "string"} for name in data.column_names],
        "splits": [{"name": split, "num_bytes": size, "num_examples": len(data)}],
        "download_size": file_bytes,
        "dataset_size": size,
    }
