"""Corpora as folders that ``datasets.load_dataset`` reads, and as dataset repositories."""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.files import locked_place
from swapbias.hub import eval_results
from swapbias.hub.client import Hub, Repo
from swapbias.hub.dataset_card import (
    LICENCES,
    NAMESPACE,
    OTHER_LICENCE,
    Part,
    Written,
    dataset_card,
    licences_file,
    local_card,
    withheld_configs,
)
from swapbias.hub.push import Pushed, Say, push_repo
from swapbias.privacy import credentialed
from swapbias.studies import (
    STUDY_FILES,
    Config,
    Corpus,
    Study,
    checked_rows,
    config_features,
    load_corpus,
    local_corpus,
    open_study,
    own_corpus,
    study_files,
)

MARKER = ".swapbias-corpus"  # tells a folder that may be replaced from a user's own
LOCAL = "own"  # in the mark of a corpus that was made from a folder of the user's
BATCH_ROWS = 1_000  # of a streamed config, held in memory
SHARD_BYTES = 256 * 2**20  # of text in one file of a streamed config


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
    yield from write_corpus(local_corpus(corpus_name, data) if data else load_corpus(corpus_name), out)


def write_corpus(
    corpus: Corpus, out: Path, *, namespace: str = NAMESPACE, withheld: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Built]:
    """``build`` of a corpus at hand; ``namespace`` and ``withheld`` are what a published card tells.

    Raises:
        UsageError, ValueError, OSError: as ``build``.
    """
    target = out / corpus.name
    recover(target)
    if target.exists() and not (target / MARKER).exists() and any(target.iterdir()):
        raise UsageError(f"{target} holds something else than a built corpus. Choose another --out.")
    with standing_in(target) as making:
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
        if corpus.licence == OTHER_LICENCE:  # not ours to describe
            card = local_card(corpus, written, credentialed=held)
        else:
            card = dataset_card(corpus, written, namespace=namespace, withheld=withheld)
            present = tuple(one for one in corpus.configs if one.name in written)
            _write_licences(making, replace(corpus, configs=present))
        (making / "README.md").write_text(card, encoding="utf-8")
        origin = f" {LOCAL}" if corpus.licence == OTHER_LICENCE else ""
        (making / MARKER).write_text(f"{corpus.name} {corpus.version}{origin}\n", encoding="utf-8")
        if held:
            credentialed.mark(making)
            _close(making)


def _close(folder: Path) -> None:
    """Only once rows are read are all credentialed notes known as such: until here the folder itself was closed."""
    for path in folder.rglob("*"):
        path.chmod(credentialed.OWNER_FOLDER if path.is_dir() else 0o600)


def _write_licences(folder: Path, corpus: Corpus) -> None:
    """The notices and licence texts of upstream content that the rows hold."""
    notices = licences_file(corpus)
    if notices is not None:
        (folder / LICENCES).write_bytes(notices)


def write_config(folder: Path, corpus: Corpus, config: Config) -> Written:
    """Write a config into a new folder as ``<split>-00000-of-00001.parquet``, streamed ones in several files.

    Raises:
        UpstreamMissingError: an upstream file it needs is not reachable; nothing is written.
        ValueError: a broken table.
    """
    made = Written(config)
    if config.stream:
        folder.mkdir()
        _stream(folder, config, made)
        return made
    rows = checked_rows(corpus, config.name)
    folder.mkdir()
    by_split: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        by_split.setdefault(row[config.split_column] if config.split_column else config.split, []).append(row)
    for split, part in by_split.items():
        table = _table(part, config)
        file = folder / f"{split}-00000-of-00001.parquet"
        pq.write_table(table, file)
        made.splits[split] = Part(len(part), table.nbytes, file.stat().st_size)
        made.credentialed |= _held(table)
    return made


def _stream(folder: Path, config: Config, made: Written) -> None:
    """Files of about ``SHARD_BYTES`` each, renamed once their number is known."""
    total = made.splits.setdefault(config.split, Part())
    shards: list[Path] = []
    batches = _batches(config)
    for first in batches:
        shards.append(folder / f"{config.split}-{len(shards):05d}.parquet")
        with pq.ParquetWriter(shards[-1], first.schema) as writer:
            size = 0
            for table in chain([first], batches):  # leaves the rest open for the next file
                writer.write_table(table)
                size += table.nbytes
                total.rows += len(table)
                made.credentialed |= _held(table)
                if size >= SHARD_BYTES:
                    break
        total.bytes += size
        total.file_bytes += shards[-1].stat().st_size
    for number, shard in enumerate(shards):
        shard.rename(folder / f"{config.split}-{number:05d}-of-{len(shards):05d}.parquet")


def _batches(config: Config) -> Iterator[pa.Table]:
    waiting = iter(config.rows())
    while batch := list(islice(waiting, BATCH_ROWS)):
        yield _table(batch, config)


def _table(rows: list[Mapping[str, str]], config: Config) -> pa.Table:
    """Columns of their types, with the features that datasets keeps in a schema."""
    made = [config.typed(row) for row in rows]
    data: dict[str, Any] = {name: [row[name] for row in made] for name in config.columns}
    return pa.table(data, schema=config_features(config).arrow_schema)


def _held(table: pa.Table) -> bool:
    return "credentialed" in table.column_names and "True" in set(map(str, table["credentialed"].to_pylist()))


@contextmanager
def standing_in(target: Path) -> Iterator[Path]:
    """A new folder that takes a folder's place when the block ends well, and is gone when it does not.

    Raises:
        UsageError: the place is a link or a file, or below one. OSError: it cannot be written.
    """
    recover(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked_place(target):
        _sweep(target)
        making = Path(tempfile.mkdtemp(prefix=f".{target.name}.{_here()}.", dir=target.parent))
        try:
            yield making
            making.chmod(credentialed.OWNER_FOLDER if (making / credentialed.FILE).exists() else 0o755)
            put_in_place(making, target)
        finally:
            shutil.rmtree(making, ignore_errors=True)


def recover(target: Path) -> None:
    """Bring the old folder back where a process was killed before the new one stood in its place.

    Raises:
        UsageError: the place is a link or a file, or below one.
    """
    above = next(folder for folder in target.absolute().parents if os.path.lexists(folder))
    if not above.is_dir():
        raise UsageError(f"{above} is no folder. Choose another --out.")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UsageError(f"{target} is {'a link' if target.is_symlink() else 'a file'}. Choose another --out.")
    if _aside(target).is_dir() and not target.exists():
        _aside(target).rename(target)


def put_in_place(made: Path, target: Path) -> None:
    """Swap a finished folder in: the old one is moved aside first, and goes only when the new one stands."""
    recover(target)
    aside = _aside(target)
    if target.exists():
        shutil.rmtree(aside, ignore_errors=True)  # of a process that was killed when the new one stood already
        target.rename(aside)
    made.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _here() -> str:
    """This process by number and machine: a shared disk holds folders of other machines too."""
    return f"{os.getpid()}@{re.sub(r'[^A-Za-z0-9]', '-', platform.node())}"


def _sweep(target: Path) -> None:
    """Remove unfinished folders for the same place that killed processes of this machine have left."""
    machine = _here().partition("@")[2]
    left = re.compile(rf"\.{re.escape(target.name)}\.(\d{{1,9}})@{re.escape(machine)}\.\w+")
    for folder in target.parent.iterdir():
        found = left.fullmatch(folder.name)
        if found and _is_gone(int(found[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _is_gone(process: int) -> bool:
    if os.name != "posix":  # there, asking with signal 0 would end it
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def push_dataset(
    hub: Hub,
    corpus_name: str,
    *,
    namespace: str,
    private: bool = False,
    benchmark: bool = False,
    dry_run: bool = False,
    say: Say,
) -> Pushed:
    """Build a corpus and publish it as the dataset ``namespace/corpus_name``, tagged with its version.

    Only corpora of the package are published, never what was made from a folder of one's own. Configs whose upstream
    files do not allow it are left out, and the card says how to build them. With ``benchmark`` the tasks that models
    are measured by stand beside them (``eval_results.benchmark``).

    Raises:
        UpstreamMissingError: a config that is published needs a file that is not at hand.
        UsageError, HubError: as ``push_repo``. ValueError: a broken table.
    """
    corpus = load_corpus(corpus_name)
    repo = Repo("dataset", f"{namespace}/{corpus.name}")
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        files = dataset_files(corpus, Path(scratch), namespace=namespace, say=say)
        present = [one.name for one in corpus.configs if any(path.startswith(f"{one.name}/") for path in files)]
        if tasks := eval_results.benchmark(corpus, present) if benchmark else b"":
            files[eval_results.BENCHMARK] = tasks
            say(eval_results.UNLISTED)
        return push_repo(
            hub,
            repo,
            files,
            tag=f"v{corpus.version}",
            message=f"{corpus.name} {corpus.version}",
            private=private,
            raise_hint=(
                f"give CORPUS version=... (now {corpus.version}) in builders/{corpus.name}.py, or if no row changed "
                "install with constraints.txt (another pyarrow writes other bytes)"
            ),
            dry_run=dry_run,
            say=say,
        )


def dataset_files(corpus: Corpus, out: Path, *, namespace: str, say: Say) -> dict[str, bytes | Path]:
    """The files of a published dataset by path, built below ``out``.

    Raises:
        UpstreamMissingError, UsageError, ValueError: as ``push_dataset``.
    """
    withheld = withheld_configs(corpus)
    for name, licences in withheld.items():
        say(f"{corpus.name} {name}: not published, its upstream files have the licence: {', '.join(licences)}")
    published = replace(corpus, configs=tuple(one for one in corpus.configs if one.name not in withheld))
    for built in write_corpus(published, out, namespace=namespace, withheld=withheld):
        if built.left_out:
            raise UpstreamMissingError(
                f"{corpus.name} is not pushed, for it would go without its config {built.config}: {built.left_out}"
            )
        say(f"{corpus.name} {built.config}: {built.rows} rows")
    return packed(out / corpus.name)


def packed(folder: Path) -> dict[str, bytes | Path]:
    """The files of a built corpus by path, without the mark of the build.

    Raises:
        UsageError: it holds credentialed text, or comes from a folder of the user's own.
    """
    credentialed.refuse(folder, "published")
    if not (folder / MARKER).exists():
        raise UsageError(f"{folder} is no built corpus. Give one that swapbias build made.")
    if (folder / MARKER).read_text(encoding="utf-8").strip().endswith(LOCAL):
        raise UsageError(f"{folder} was made from a folder of one's own, which is not published. Keep it here.")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {path.relative_to(folder).as_posix(): path for path in paths}


# --- studies of the user's own --------------------------------------------------------------------------


def push_study(
    hub: Hub, folder: Path, repo_name: str, *, private: bool = True, dry_run: bool = False, say: Say
) -> Pushed:
    """Publish a study's folder as a dataset, tagged with its version: its tables, its prompts as Parquet, a card.

    Raises:
        UsageError, HubError: as ``push_repo``. ValueError: a broken study, or a README with a header of its own.
    """
    credentialed.refuse(folder, "published")
    tables = study_files(folder)
    corpus = own_corpus(tables)
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        written = {one.name: write_config(Path(scratch) / one.name, corpus, one) for one in corpus.configs}
        parquet = {path.relative_to(scratch).as_posix(): path for path in sorted(Path(scratch).rglob("*.parquet"))}
        card = local_card(corpus, written, credentialed=False) + _how_to_run(repo_name, folder)
        return push_repo(
            hub,
            Repo("dataset", repo_name),
            {**tables, **parquet, "README.md": card.encode()},
            tag=f"v{corpus.version}",
            message=f"{corpus.name} {corpus.version}",
            private=private,
            raise_hint=f"raise version in study.toml (now {corpus.version})",
            dry_run=dry_run,
            say=say,
        )


def _how_to_run(repo_name: str, folder: Path) -> str:
    """What stands below the configs on the card: the command, and the folder's README."""
    readme = folder / "README.md"
    own = readme.read_text(encoding="utf-8-sig") if readme.is_file() else ""
    if own.startswith("---"):
        raise ValueError(f"{readme} begins with a header of its own, expected text. The push writes one: remove it.")
    return f"\nRun it: `swapbias audit MODEL --study {repo_name}`\n\n{own}"


def pull_study(hub: Hub, repo_name: str, *, revision: str = "main") -> Study:
    """A study that somebody pushed, opened from its tables at one commit; nothing else of it is fetched.

    Raises:
        UsageError: no such dataset, or none that holds a study. HubError: the Hub refuses or is out of reach.
        ValueError: a broken study.
    """
    state = hub.state(Repo("dataset", repo_name), revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is not there, or cannot be seen with this token. Check its name, or log in.")
    if STUDY_FILES[0] not in state.files:
        raise UsageError(f"{repo_name} holds no study: it has no {STUDY_FILES[0]}. Check its name.")
    with tempfile.TemporaryDirectory(prefix="swapbias-study-") as folder:
        for name in STUDY_FILES:
            if name in state.files:
                (Path(folder) / name).write_bytes(hub.content(state, name))
        return open_study(folder, origin=f"{repo_name}@{state.commit}")
