"""Corpora as folders with a card that ``load_dataset`` reads, and on the Hub."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Unpack

from datasets import DatasetInfo

from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.files import CREDENTIALED, OWNER_FOLDER, atomic_directory
from swapbias.hub.benchmark_file import BENCHMARK, benchmark_file
from swapbias.hub.cards import CARD
from swapbias.hub.client import Hub
from swapbias.hub.corpus_builder import CorpusBuilder, without_bars
from swapbias.hub.dataset_card import NAMESPACE, dataset_card, local_card, row_count
from swapbias.hub.licences import (
    LICENCES,
    OTHER_LICENCE,
    licences_file,
    withheld_configs,
)
from swapbias.hub.push import Push, PushOptions, Say, push_repo
from swapbias.hub.repository import Repo
from swapbias.privacy import credentialed, refuse
from swapbias.studies import (
    Config,
    Corpus,
    load_corpus,
)

MARKER = ".swapbias-corpus"  # tells a folder that may be replaced from a user's own
SHARD_BYTES = 256 * 2**20  # of rows in one Parquet file

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
    try:
        builder = CorpusBuilder(config.name, corpus=corpus, cache_dir=scratch)
        with without_bars():
            builder.download_and_prepare(
                str(scratch / "made"), file_format="parquet", max_shard_size=SHARD_BYTES
            )
        folder.mkdir()
        for path in sorted((scratch / "made").glob("*.parquet")):
            split = path.stem.removeprefix(f"{corpus.name}-")
            shard = split if "-of-" in split else f"{split}-00000-of-00001"
            path.rename(folder / f"{shard}.parquet")
        if builder.credentialed:
            credentialed.mark(folder.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
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
        return push_repo(
            hub,
            repo,
            files,
            tag=f"v{corpus.version}",
            version_hint=hint,
            optional=(BENCHMARK,),
            **options,
        )


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
    if benchmark := benchmark_file(corpus, [config.name for config in published]):
        (folder / BENCHMARK).write_bytes(benchmark)
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {path.relative_to(folder).as_posix(): path for path in paths}
