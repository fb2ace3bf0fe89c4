"""Corpora as folders with a card that ``load_dataset`` reads, and on the Hub."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import pyarrow as pa
from datasets import (
    ArrowBasedBuilder,
    DatasetInfo,
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from datasets.exceptions import DatasetGenerationError
from datasets.splits import SplitGenerator

from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.files import CREDENTIALED, OWNER_FOLDER, atomic_directory
from swapbias.hub.cards import CARD
from swapbias.hub.client import Hub
from swapbias.hub.dataset_card import NAMESPACE, dataset_card, local_card, row_count
from swapbias.hub.licences import (
    LICENCES,
    OTHER_LICENCE,
    licences_file,
    withheld_configs,
)
from swapbias.hub.parquet_features import restate_features
from swapbias.hub.push import Push, PushOptions, Say, push_repo
from swapbias.hub.repository import Repo
from swapbias.privacy import credentialed, refuse
from swapbias.studies import (
    Config,
    Corpus,
    catalogue,
    config_rows,
    load_corpus,
    tables,
)

MARKER = ".swapbias-corpus"  # tells a folder that may be replaced from a user's own
SHARD_BYTES = 256 * 2**20  # of rows in one Parquet file
GROUP = 1_000  # rows of a row group in it

# --- rows as Parquet --------------------------------------------------------------------------------------


class CorpusBuilder(ArrowBasedBuilder):  # type: ignore[misc]
    """One config of a corpus for ``datasets``, which writes its rows; ``credentialed`` once one of them was."""

    def __init__(self, corpus: Corpus, config: Config, *, cache_dir: Path) -> None:
        """Describe a config to ``datasets``.

        Args:
            corpus: the corpus.
            config: one of its configs.
            cache_dir: a folder for files in the making.
        """
        self.corpus = corpus
        self.corpus_config = config
        self.credentialed = False
        super().__init__(
            cache_dir=str(cache_dir),
            dataset_name=corpus.name,
            config_name=config.name,
            version=corpus.version,
            hash="build",
        )

    def _info(self) -> DatasetInfo:
        return DatasetInfo(features=catalogue.config_features(self.corpus_config))

    def _split_generators(self, dl_manager: Any) -> list[SplitGenerator]:
        """Find everything that can be wrong with tables here: errors of generators are buried by ``datasets``."""
        config = self.corpus_config
        if config.write_arrow:
            for path in config.upstream:
                tables.upstream_file(self.corpus.name, path)
            return [SplitGenerator(config.split, gen_kwargs={"rows": None})]
        by_split: dict[str, list[dict[str, str]]] = {}
        for row in config_rows(self.corpus, config.name):
            split = row[config.split_column] if config.split_column else config.split
            by_split.setdefault(split, []).append(row)
        # As a tuple: datasets would take the members of a list for shards.
        return [
            SplitGenerator(split, gen_kwargs={"rows": tuple(rows)})
            for split, rows in by_split.items()
        ]

    def _generate_tables(
        self, rows: Iterable[Mapping[str, str]] | None
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows in groups; None: those that the config reads as they come."""
        remaining = iter(self.corpus_config.rows() if rows is None else rows)
        schema = self.info.features.arrow_schema
        for number, batch in enumerate(iter(lambda: list(islice(remaining, GROUP)), [])):
            self.credentialed |= any(row.get("credentialed") == "True" for row in batch)
            typed = [*self.corpus_config.publish_rows(batch)]
            yield number, pa.Table.from_pylist(typed, schema=schema)


# --- folders ----------------------------------------------------------------------------------------------


class BuiltConfig(NamedTuple):
    """One config: written with so many rows, or left out for a reason."""

    config: str
    """Name of the config."""
    rows: int
    """Number of rows; 0 where it is left out."""
    reason: str = ""
    """Why it is left out; blank where it is written."""


def build(
    corpus: Corpus,
    out: Path,
    *,
    namespace: str = NAMESPACE,
    withheld: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[BuiltConfig]:
    """Write a corpus to ``out/<corpus>``: Parquet by config and split, and the card.

    An older build is replaced as a whole.

    Args:
        corpus: the corpus.
        out: the folder for it.
        namespace: the user or organisation that the card names.
        withheld: the configs that the card says are not published, with their licences.

    Returns:
        each config once it is written or left out.

    Raises:
        UsageError: a folder that no build made.
        ValueError: a broken table.
    """
    target = out / corpus.name
    if target.exists() and not (target / MARKER).exists() and any(target.iterdir()):
        raise UsageError(
            f"{target} contains something else than a built corpus. Choose another --out."
        )
    with atomic_directory(target) as making:
        infos: dict[str, DatasetInfo] = {}
        for config in corpus.configs:
            try:
                info = write_config(making / config.name, corpus, config)
            except UpstreamMissingError as error:
                yield BuiltConfig(config.name, 0, str(error))
                continue
            infos[config.name] = info
            yield BuiltConfig(config.name, row_count(info))
        is_credentialed = (making / CREDENTIALED).exists()
        if corpus.licence == OTHER_LICENCE:  # not ours to describe
            card = local_card(corpus, infos, is_credentialed=is_credentialed)
        else:
            card = dataset_card(corpus, infos, namespace=namespace, withheld=withheld)
            written = tuple(config for config in corpus.configs if config.name in infos)
            if notices := licences_file(replace(corpus, configs=written)):
                (making / LICENCES).write_bytes(notices)
        (making / CARD).write_text(card, encoding="utf-8")
        (making / MARKER).write_text(f"{corpus.name} {corpus.version}\n", encoding="utf-8")
        if is_credentialed:  # until here the folder itself was closed
            for path in making.rglob("*"):
                path.chmod(OWNER_FOLDER if path.is_dir() else 0o600)


def write_config(folder: Path, corpus: Corpus, config: Config) -> DatasetInfo:
    """Write a config into a new folder of Parquet files.

    Args:
        folder: the new folder.
        corpus: the corpus.
        config: one of its configs.

    Returns:
        splits and columns as they were written.

    Raises:
        UpstreamMissingError: a file that it reads is missing, and nothing is written.
        ValueError: a broken table.
    """
    scratch = folder.with_name(f".{folder.name}")
    had_bars = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        builder = CorpusBuilder(corpus, config, cache_dir=scratch)
        builder.download_and_prepare(
            str(scratch / "made"), file_format="parquet", max_shard_size=SHARD_BYTES
        )
        folder.mkdir()
        for path in sorted((scratch / "made").glob("*.parquet")):
            split = path.stem.removeprefix(f"{corpus.name}-")
            shard = split if "-of-" in split else f"{split}-00000-of-00001"
            restate_features(path, builder.info.features)
            path.rename(folder / f"{shard}.parquet")
        if builder.credentialed:
            credentialed.mark(folder.parent)
    except DatasetGenerationError as error:
        if isinstance(error.__cause__, ValueError):  # the sentence on the rows
            raise error.__cause__ from None
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if had_bars:
            enable_progress_bars()
    return builder.info


# --- published --------------------------------------------------------------------------------------------


def push_dataset(
    hub: Hub, corpus_name: str, *, namespace: str, **options: Unpack[PushOptions]
) -> Push:
    """Build a corpus of the package and publish it as ``namespace/corpus_name``, tagged with its version.

    Args:
        hub: the Hub.
        corpus_name: name of the corpus.
        namespace: the user or organisation.
        options: the options of the push.

    Returns:
        the push that was made, or would be.

    Raises:
        UpstreamMissingError: a config that is published needs a file that is missing.
        UsageError: as ``push_repo``.
        HubError: as ``push_repo``.
    """
    corpus = load_corpus(corpus_name)
    hint = (
        f"raise version in datasets_src/{corpus.name}/corpus.toml (now {corpus.version}), or if no row changed "
        "install with constraints.txt (another pyarrow writes other bytes)"
    )
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        files = dataset_files(corpus, Path(scratch), namespace=namespace, say=options["say"])
        repo = Repo("dataset", f"{namespace}/{corpus.name}")
        return push_repo(hub, repo, files, tag=f"v{corpus.version}", version_hint=hint, **options)


def dataset_files(
    corpus: Corpus, out: Path, *, namespace: str, say: Say
) -> dict[str, bytes | Path]:
    """Build the files of a published dataset.

    Args:
        corpus: the corpus.
        out: the folder for them.
        namespace: the user or organisation that the card names.
        say: gets lines for the user.

    Returns:
        the files by path in the repository.

    Raises:
        UpstreamMissingError: a config that is published needs a file that is missing.
    """
    withheld = withheld_configs(corpus)
    for name, refused in withheld.items():
        say(
            f"{corpus.name} {name}: not published, its upstream files have the licence: {', '.join(refused)}"
        )
    published = tuple(config for config in corpus.configs if config.name not in withheld)
    corpus = replace(corpus, configs=published)
    for config in build(corpus, out, namespace=namespace, withheld=withheld):
        if config.reason:
            raise UpstreamMissingError(
                f"{corpus.name} is not pushed, for it would go without its config {config.config}: {config.reason}"
            )
        say(f"{corpus.name} {config.config}: {config.rows} rows")
    folder = out / corpus.name
    refuse(folder, "published")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {path.relative_to(folder).as_posix(): path for path in paths}
