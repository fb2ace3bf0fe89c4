"""Corpora as builders of ``datasets``: rows, their description, and a cache for the user alone."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from os import PathLike
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, ClassVar

import datasets
import pyarrow as pa
from datasets import ArrowBasedBuilder, DatasetInfo
from datasets.exceptions import DatasetGenerationError
from datasets.splits import SplitGenerator

from swapbias.errors import UsageError, listed
from swapbias.files import CREDENTIALED, OWNER_FOLDER, cache_dir as own_cache_dir, json_bytes
from swapbias.hub.cards import CARD
from swapbias.hub.dataset_card import citation
from swapbias.hub.licences import OTHER_LICENCE, licences
from swapbias.hub.parquet_features import restate_features
from swapbias.privacy import credentialed, for_owner_alone
from swapbias.public_calls import public_call
from swapbias.studies import Corpus, catalogue, config_rows, corpus_dir, load_corpus

if TYPE_CHECKING:
    from datasets import Dataset

_GROUP = 1_000  # rows that are written at once
_HOMEPAGE = "https://github.com/swapbias/swapbias"
# Rows are of this machine: ``datasets`` need not put what reads from the Hub in the place of ``Path`` here.
_patched_for_streaming = True


class CorpusBuilder(ArrowBasedBuilder):  # type: ignore[misc]
    """One config of a corpus, as ``datasets`` builds, reads and streams it.

    Its files lie in a cache of swapbias, which its user alone can read, under a hash of the rows. Those of a folder
    of notes lie under a hash of its files, and are marked where a row is credentialed.
    """

    corpus_name: ClassVar[str] = ""
    """The name of the corpus."""

    def __init__(
        self,
        config_name: str | None = None,
        *,
        data_dir: "str | PathLike[str] | None" = None,
        cache_dir: "str | PathLike[str] | None" = None,
        corpus: Corpus | None = None,
    ) -> None:
        """Describe a config to ``datasets``.

        Args:
            config_name: the name of the config; None: the first.
            data_dir: a folder or file of clinical notes to make the rows of.
            cache_dir: the folder for the files; None: ``SWAPBIAS_CACHE`` or the user's cache folder.
            corpus: the corpus; None: that of ``corpus_name``.

        Raises:
            UsageError: an unknown name, or no notes there.
            UpstreamMissingError: a file is missing.
        """
        self._arguments = (self.corpus_name, config_name, data_dir, cache_dir, corpus)
        self.corpus = corpus or _find_corpus(self.corpus_name, data_dir)
        configs = self.corpus.configs
        self.corpus_config = self.corpus.config(config_name) if config_name else configs[0]
        self.credentialed = False
        """Whether a row that was written is of credentialed notes."""
        self._rows: tuple[Mapping[str, Any], ...] | None = None
        base = Path(cache_dir or own_cache_dir())
        folders = [base / "datasets"]
        if self.corpus_config.content_key is not None:  # a folder of its own, that can be marked
            source = json.dumps([self.corpus.title, str(data_dir and Path(data_dir).resolve())])
            folders = [base / "notes", base / "notes" / _sha256([source])[:16]]
        self._root = folders[-1]
        with for_owner_alone(True):
            self._root.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
            for folder in folders:
                folder.chmod(OWNER_FOLDER)
            super().__init__(
                cache_dir=str(self._root),
                dataset_name=self.corpus.name,
                config_name=self.corpus_config.name,
                version=self.corpus.version,
                hash=self._content_hash(),
            )

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Travel to another process as what the builder was made of."""
        return _rebuild, self._arguments

    def download_and_prepare(self, output_dir: str | None = None, **options: Any) -> None:
        """Write the rows to the cache, or to a folder.

        Args:
            output_dir: the folder; None: the cache.
            options: as of ``datasets.DatasetBuilder.download_and_prepare``.

        Raises:
            UsageError: notes would be written to a service.
            ValueError: a broken table.
        """
        is_of_notes = self.corpus_config.content_key is not None
        if is_of_notes and "://" in str(output_dir):
            raise UsageError(
                f"{output_dir} is no folder of this machine, where notes of yours stay. Give a folder."
            )
        try:
            with for_owner_alone(is_of_notes):
                super().download_and_prepare(output_dir, **options)
        except DatasetGenerationError as error:
            if isinstance(error.__cause__, (ValueError, OSError)):  # the sentence on the rows
                raise error.__cause__ from None
            raise
        if options.get("file_format") == "parquet":
            for path in Path(output_dir or self.cache_dir).glob("*.parquet"):
                restate_features(path, self.info.features)
        if is_of_notes:
            self._remove_older()

    def _remove_older(self) -> None:
        """Remove what was made of these notes before they changed."""
        newest = Path(self.cache_dir)
        for folder in newest.parent.glob("*/dataset_info.json"):
            if newest.exists() and folder.parent != newest:
                rmtree(folder.parent)

    def _content_hash(self) -> str:
        """Return a sha256 of the rows, or of the files and the code that make them."""
        config = self.corpus_config
        schema = str(catalogue.config_features(config))
        depends = [datasets.__version__, config.name, config.description, schema]
        if config.content_key is not None:
            return _sha256([*depends, config.content_key()])
        self._rows = tuple(config_rows(self.corpus, config.name))
        batches = (self._rows[at : at + _GROUP] for at in range(0, len(self._rows), _GROUP))
        return _sha256([*depends, *(json_bytes(batch).decode() for batch in batches)])

    def _info(self) -> DatasetInfo:
        corpus, config = self.corpus, self.corpus_config
        is_of_package = (corpus_dir(corpus.name) / CARD).is_file()
        is_cited = is_of_package and corpus.licence != OTHER_LICENCE
        study_page = corpus.study.url if corpus.study else ""
        return DatasetInfo(
            description=f"{corpus.title}: {config.description}",
            citation=citation(corpus.name) if is_cited else "",
            homepage=study_page or _HOMEPAGE,
            license=", ".join(licences(corpus)),
            features=catalogue.config_features(config),
        )

    def _split_generators(self, dl_manager: Any) -> list[SplitGenerator]:
        """Find everything that can be wrong with tables here: errors of generators are buried by ``datasets``."""
        config = self.corpus_config
        if config.streamed:
            return [SplitGenerator(config.split, gen_kwargs={"rows": None})]
        rows = config_rows(self.corpus, config.name) if self._rows is None else self._rows
        by_split: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            split = row[config.split_column] if config.split_column else config.split
            by_split.setdefault(split, []).append(row)
        # As a tuple: datasets would take the members of a list for shards.
        return [
            SplitGenerator(split, gen_kwargs={"rows": tuple(of_split)})
            for split, of_split in by_split.items()
        ]

    def _generate_tables(
        self, rows: Iterable[Mapping[str, Any]] | None
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows in groups; None: those that the config reads as they come."""
        remaining = iter(self.corpus_config.rows() if rows is None else rows)
        schema = catalogue.config_features(self.corpus_config).arrow_schema
        for number, batch in enumerate(iter(lambda: list(islice(remaining, _GROUP)), [])):
            if any(row.get("credentialed") == "True" for row in batch):
                self._mark_folders()
            typed = [*self.corpus_config.publish_rows(batch)]
            yield number, pa.Table.from_pylist(typed, schema=schema)

    def _mark_folders(self) -> None:
        """Mark the cache, and the folder that is written, before the first credentialed row is in them."""
        self.credentialed = True
        for folder in (self._root, Path(self._output_dir)):
            if not (folder / CREDENTIALED).exists():
                credentialed.mark(folder)


def _find_corpus(name: str, data_dir: "str | PathLike[str] | None") -> Corpus:
    return load_corpus(name) if data_dir is None else catalogue.local_corpus(name, data_dir)


def _sha256(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part}\n".encode())
    return digest.hexdigest()


@contextmanager
def without_bars() -> Iterator[None]:
    """Keep ``datasets`` from showing progress bars in the block."""
    had_bars = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if had_bars:
            datasets.enable_progress_bars()


@cache
def builder_class(corpus: str) -> type[CorpusBuilder]:
    """Return the class of builders of a corpus.

    Args:
        corpus: the name of the corpus.
    """
    description = f"A config of {corpus}, as ``datasets`` builds, reads and streams it."
    return type("Builder", (CorpusBuilder,), {"corpus_name": corpus, "__doc__": description})


def _rebuild(
    corpus: str,
    config: str | None,
    data_dir: "str | PathLike[str] | None",
    cache_dir: "str | PathLike[str] | None",
    rows_of: Corpus | None,
) -> CorpusBuilder:
    """Make a builder anew in another process."""
    return builder_class(corpus)(config, data_dir=data_dir, cache_dir=cache_dir, corpus=rows_of)


@public_call
def dataset_builder(
    corpus: str,
    config: str | None = None,
    *,
    data_dir: "str | PathLike[str] | None" = None,
    cache_dir: "str | PathLike[str] | None" = None,
) -> CorpusBuilder:
    """Return a builder of ``datasets`` for a config of a corpus, the first by default.

    ``download_and_prepare``, ``as_dataset``, ``as_streaming_dataset`` and ``info`` are those of ``datasets``. Files
    lie in the cache of swapbias under a hash of the rows, readable by your account alone.

    Args:
        corpus: its name.
        config: the name of one of its configs.
        data_dir: a folder or file of clinical notes, or of data that the corpus reads, to make the rows of.
        cache_dir: another folder for the cache (else ``SWAPBIAS_CACHE``).

    Raises:
        UsageError: an unknown name, or no notes there.
        ValueError: a broken table.

    >>> builder = dataset_builder("occupation_sentiment", "sentences")
    >>> builder.download_and_prepare()
    >>> builder.as_dataset(split="test").num_rows, builder.info.homepage
    (800, 'https://doi.org/10.18653/v1/W19-3809')
    """
    return builder_class(corpus)(config, data_dir=data_dir, cache_dir=cache_dir)


@public_call
def load_prompts(
    corpus: str,
    config: str | None = None,
    *,
    data: "str | PathLike[str] | None" = None,
    split: str | None = None,
) -> "Dataset":
    """Load a config of a corpus, the first by default, as a ``datasets.Dataset``.

    Args:
        corpus: its name.
        config: the name of one of its configs.
        data: a folder or file of clinical notes, or of data that the corpus reads, to make the rows of. They are
            stored in the cache folder (``SWAPBIAS_CACHE``), readable by your account alone, and made again once the
            files change.
        split: a split, or a part of it such as ``test[:10]``; None: all rows.

    Raises:
        UsageError: an unknown name, or no notes there.
        ValueError: a broken table.

    >>> prompts = load_prompts("occupation_sentiment", "sentences")
    >>> prompts.num_rows, prompts[0]["text"], prompts[0]["group"]
    (800, 'He is a doctor.', 'male')
    """
    builder = dataset_builder(corpus, config, data_dir=data)
    with without_bars():
        builder.download_and_prepare()
    splits = list(builder.info.splits)
    try:
        rows: Dataset = builder.as_dataset(split=split or "+".join(splits))
    except ValueError as error:
        raise UsageError(
            f"{builder.corpus_config.name} has no split {split!r}: expected one of {listed(splits)}. "
            f"Choose one, or a part such as {splits[0]}[:10]."
        ) from error
    return rows
