"""Corpora as ``datasets`` builders: rows are made where notes lie that nobody may publish."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from importlib.resources import files
from pathlib import Path
from types import FunctionType
from typing import Any

from datasets import Dataset, DatasetDict, DatasetInfo, GeneratorBasedBuilder, IterableDataset, IterableDatasetDict
from datasets.exceptions import DatasetGenerationError
from datasets.splits import SplitGenerator

from swapbias.files import file_sha256
from swapbias.hub.dataset_card import OTHER_LICENCE, about
from swapbias.privacy import for_owner_alone, is_credentialed, mark, refuse
from swapbias.studies import (
    Config,
    Corpus,
    checked_rows,
    config_features,
    corpus_dir,
    load_corpus,
    local_corpus,
    upstream_file,
)

_CODE = ("builders", "studies", "notes", "swapping")  # whose files make rows


class CorpusBuilder(GeneratorBasedBuilder):  # type: ignore[misc]
    """One config of a corpus for ``datasets``: every corpus has this one class, made from its ``Corpus``.

    The cache folder is named after corpus, config, version and a hash over the code and the tables that make rows
    (and over names, sizes and times of what lies in ``data_dir``), so that an edit of any of them is built anew. What
    is made of credentialed notes says so in its cache folder, and ``push_to_hub`` on it is refused.
    """

    def __init__(self, corpus: Corpus, config: Config, *, data_dir: Path | None, cache_dir: Path | None) -> None:
        self.corpus, self.corpus_config, self.data_dir = corpus, config, data_dir
        self._credentialed = data_dir is not None and is_credentialed(data_dir)
        super().__init__(
            cache_dir=str(cache_dir) if cache_dir else None,
            dataset_name=corpus.name,
            config_name=config.name,
            hash=_hash(corpus, data_dir),
            version=corpus.version,
        )

    def _info(self) -> DatasetInfo:
        own = self.corpus.licence == OTHER_LICENCE or bool(self.corpus.own)
        features = config_features(self.corpus_config)
        return DatasetInfo(**about(self.corpus, self.corpus_config, own=own), features=features)

    def _split_generators(self, dl_manager: Any) -> list[SplitGenerator]:
        """Everything that can be wrong with tables is found here: errors of generators are buried by ``datasets``."""
        config = self.corpus_config
        if config.stream:
            for path in config.upstream:
                upstream_file(self.corpus.name, path)
            return [SplitGenerator(config.split, gen_kwargs={"rows": None})]
        by_split: dict[str, list[dict[str, str]]] = {}
        for row in checked_rows(self.corpus, config.name):
            by_split.setdefault(row[config.split_column] if config.split_column else config.split, []).append(row)
            self._credentialed |= row.get("credentialed") == "True"
        # As a tuple: datasets would take the members of a list for shards.
        return [SplitGenerator(split, gen_kwargs={"rows": tuple(rows)}) for split, rows in by_split.items()]

    def _generate_examples(self, rows: Iterable[Mapping[str, str]] | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
        yield from enumerate(map(self.corpus_config.typed, self.corpus_config.rows() if rows is None else rows))

    def download_and_prepare(self, *arguments: Any, **options: Any) -> None:
        """As of ``datasets``, where an error of the rows keeps its sentence.

        Raises:
            UpstreamMissingError: an upstream file it needs is not reachable. ValueError: a broken table.
        """
        try:
            with for_owner_alone(self._credentialed):
                super().download_and_prepare(*arguments, **options)
        except DatasetGenerationError as error:
            if isinstance(error.__cause__, ValueError):
                raise error.__cause__ from None
            raise
        if self._credentialed and Path(self._output_dir).is_dir():
            mark(Path(self._output_dir))

    def as_dataset(self, *arguments: Any, **options: Any) -> Any:
        """As of ``datasets``: a ``Dataset``, or one for each split."""
        return self._kept(super().as_dataset(*arguments, **options))

    def as_streaming_dataset(self, *arguments: Any, **options: Any) -> Any:
        """As of ``datasets``: rows as they are made, nothing written."""
        return self._kept(super().as_streaming_dataset(*arguments, **options))

    def _kept(self, found: Any) -> Any:
        place = Path(self._output_dir)
        return _keep(found, place) if self._credentialed or is_credentialed(place) else found


def _keeping(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a dataset, as ``map`` and ``filter``, that gives another one of credentialed rows."""

    @wraps(method)
    def kept(self: Any, *arguments: Any, **options: Any) -> Any:
        return _keep(method(self, *arguments, **options), self.place)

    return kept


def _refusing(plain: type[Any]) -> type[Any]:
    """The class of datasets whose ``push_to_hub``, and that of what their methods make of them, is refused."""
    methods: dict[str, Any] = {
        name: _keeping(method)
        for name, method in vars(plain).items()
        if isinstance(method, FunctionType) and not name.startswith("_")
    }

    def push_to_hub(self: Any, *arguments: Any, **options: Any) -> None:
        """Refuse."""
        refuse(self.place, "published", known=True)

    return type(f"Credentialed{plain.__name__}", (plain,), {**methods, "push_to_hub": push_to_hub})


_REFUSING = {one: _refusing(one) for one in (Dataset, DatasetDict, IterableDataset, IterableDatasetDict)}


def _keep(found: Any, place: Path) -> Any:
    """A dataset of credentialed rows, or several by split, as one whose ``push_to_hub`` refuses."""
    for one in (found, *(found.values() if isinstance(found, dict) else ())):
        if type(one) in _REFUSING:
            one.__class__ = _REFUSING[type(one)]
            one.place = place
    return found


def dataset_builder(
    corpus: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
) -> CorpusBuilder:
    """A config of a corpus (its first by default) as a builder of ``datasets``, which makes the rows on this machine.

    ``download_and_prepare()`` writes them to a cache folder, whole or not at all, ``as_dataset(split=...)`` reads
    them, ``as_streaming_dataset(split=...)`` gives them as they are made. A table or a line of code that changes
    gives another folder. Rows, types and ``info`` are those of ``load_prompts`` and of the published corpora.

    Args:
        corpus: its name.
        config: its name.
        data_dir: a folder of the user's, of which the corpus makes its configs: MIMIC-III, MIMIC-IV-Note or own
            notes. What is made of credentialed notes stays here: ``push_to_hub`` on it, and on what ``map``,
            ``filter`` and the like make of it, is refused.
        cache_dir: where to; the cache of ``datasets`` by default.

    Raises:
        UsageError: unknown corpus or config, or a folder that holds nothing that the corpus reads.

    >>> builder = dataset_builder("occupation_sentiment", "sentences")
    >>> builder.info.version, builder.info.features["text"], len(builder.hash)
    ('2.0.0', Value('string'), 64)
    >>> next(iter(builder.as_streaming_dataset(split="test")))["text"]
    'He is a doctor.'
    """
    folder = Path(data_dir).expanduser() if data_dir is not None else None
    leaf = local_corpus(corpus, folder) if folder else load_corpus(corpus)
    chosen = leaf.config(config) if config else leaf.configs[0]
    return CorpusBuilder(leaf, chosen, data_dir=folder, cache_dir=Path(cache_dir) if cache_dir else None)


def _hash(corpus: Corpus, data_dir: Path | None) -> str:
    """sha256 over all that rows are made of; of a folder of the user's, which may be large, sizes and times."""
    digest = hashlib.sha256()
    rooms = [(room, Path(str(files(f"swapbias.{room}"))), "*.py") for room in _CODE]
    made_of = {
        f"{room}/{path.relative_to(folder).as_posix()}": path
        for room, folder, pattern in (*rooms, ("datasets_src", corpus_dir(corpus.name).parent, "*"))
        for path in folder.rglob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name, path in sorted(made_of.items()):
        digest.update(f"{name} {file_sha256(path)}\n".encode())
    for name, content in sorted(corpus.own.items()):
        digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    for path in sorted([data_dir, *data_dir.rglob("*")]) if data_dir else []:
        state = path.stat()
        digest.update(f"{path.resolve()} {state.st_size if path.is_file() else ''} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()
