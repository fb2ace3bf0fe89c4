"""Publish a repository under a tag; corpora and studies as folders that ``load_dataset`` reads, and as datasets."""

import difflib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import HubError, UpstreamMissingError, UsageError
from swapbias.files import locked_place
from swapbias.hub import cards
from swapbias.hub.cards import CARD
from swapbias.hub.client import HUB_FILES, Change, Hub, Repo, State, difference
from swapbias.hub.dataset_card import (
    LICENCES,
    NAMESPACE,
    OTHER_LICENCE,
    ConfigInfo,
    SplitInfo,
    dataset_card,
    licences_file,
    local_card,
    withheld_configs,
)
from swapbias.privacy import Files, credentialed, gate, is_credentialed, is_mimic_columns
from swapbias.studies import (
    STUDY_FILES,
    Config,
    Corpus,
    Study,
    checked_rows,
    config_features,
    corpora,
    load_corpus,
    local_corpus,
    open_study,
    own_corpus,
    study_files,
)

MARK = "swapbias"  # the key in a card's header by which a push knows what it made
_TEMPLATE = {*HUB_FILES, CARD, "index.html", "style.css"}  # of a new static Space
_TEMPLATE_TEXT = "Check out the configuration reference at"  # all that the card of a new Space says
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PushResult:
    """What was done to a repository, or would be.

    Attributes:
        repo: where.
        status: ``created``, ``updated``, ``tagged`` (the content was there, the tag was not), ``unchanged`` or what
            happened to a pull request; in a dry run ``would be created`` and so on.
        change: what was or would be written and deleted.
        url: the page to look at.
        commit: the commit that holds the content; blank in a dry run.
        tag: the tag of the version.
        private: only its owner sees it.
    """

    repo: Repo
    status: str
    change: Change
    url: str = ""
    commit: str = ""
    tag: str = ""
    private: bool = False


def push_repo(
    hub: Hub,
    repo: Repo,
    files: Files,
    *,
    tag: str,
    message: str,
    private: bool,
    raise_hint: str,
    say: Say,
    sdk: str | None = None,
    dry_run: bool = False,
) -> PushResult:
    """Bring a repository to ``files`` in one commit, tagged ``tag``; a version that is published is not pushed again.

    The card gets a mark in its header (see ``signed``), by which the next push knows the repository. A push that was
    cut is completed by the next one. With ``dry_run`` nothing is created: ``say`` gets every path with its size, and
    the difference of the card. ``raise_hint`` says how a version is raised.

    Raises:
        UsageError: the tag is published with other content, the repository is somebody's own, or is public where a
            private one was asked for; or a file must not leave this machine.
        HubError: the Hub refused, or could not be reached. ValueError: the files have no card.
    """
    files = signed(files, repo, tag)
    gate.check(files)
    state = hub.state(repo)
    new = state is None or _checked(hub, state, private=private)
    hidden = state.private if state else private
    if state and tag in state.tags:
        if difference(hub.state(repo, revision=tag), files):
            raise UsageError(f"{repo.name}: {tag} is published with other content; {raise_hint}.")
        return PushResult(repo, "unchanged", Change({}), commit=state.tags[tag], tag=tag, private=hidden)
    change = difference(state, files)
    status = "created" if new else "updated" if change else "tagged"
    if dry_run:
        say(f"{repo.kind} {repo.name}: {'private' if hidden else 'public'}, tag {tag}, message {message!r}")
        show_change(hub, state, change, say)
        return PushResult(repo, f"would be {status}", change, tag=tag, private=hidden)
    if state is None:
        hub.create(repo, private=private, sdk=sdk)
        state = hub.state(repo)  # the Hub puts files of its own into a new repository
        if state is None:
            raise HubError(f"{repo.name} was created but cannot be seen. Run the push again.")
        _checked(hub, state, private=private)  # somebody else may have made it in between
        change = difference(state, files)
    commit = hub.commit(repo, change, message, parent=state.commit).oid if change else state.commit
    for path in () if new else change.delete:
        say(f"  D {printable(path)}")
    hub.tag(repo, tag, commit=commit)
    return PushResult(repo, status, change, commit=commit, tag=tag, private=hidden)


def signed(files: Files, repo: Repo, tag: str) -> dict[str, bytes | Path]:
    """The files with the mark of a push in their card's header: kind, name and version.

    Raises:
        ValueError: there is no card, or its header cannot be added to.
    """
    if CARD not in files:
        raise ValueError(f"{repo.name}: there is no {CARD} to publish. Write one.")
    mark = {MARK: {**_identity(repo), "version": tag.removeprefix("v")}}
    readme = cards.decode(_bytes(files[CARD]), CARD)
    return {**files, CARD: cards.with_keys(readme, mark, where=CARD).encode()}


def _identity(repo: Repo) -> dict[str, str]:
    return {"kind": repo.kind, "name": repo.name.rpartition("/")[2]}


def _checked(hub: Hub, state: State, *, private: bool) -> bool:
    """Whether the repository is new."""
    if private and not state.private:
        raise UsageError(
            f"{state.repo.name} is public, and a push does not change that. Make it private on the Hub, or drop "
            "--private."
        )
    readme = hub.content(state, CARD)
    if _is_new(hub, state, readme):
        return True
    what = "has no mark of a push in its header" if CARD in state.files else "is missing"
    try:
        found = cards.load(cards.split(cards.decode(readme, CARD)).header, CARD).get(MARK)
    except ValueError:
        found, what = None, "cannot be read"
    if not isinstance(found, dict) or {**found, **_identity(state.repo)} != found:
        raise UsageError(
            f"{state.repo.name} holds something else: its {CARD} {what}. Choose another --namespace, or rename that "
            "repository."
        )
    return False


def _is_new(hub: Hub, state: State, readme: bytes) -> bool:
    """Whether it holds nothing but what the Hub itself puts into a new repository."""
    paths = set(state.files)
    if state.tags or paths <= HUB_FILES:
        return not state.tags
    parts = cards.split(readme.decode(errors="replace"))
    template = state.repo.kind == "space" and paths <= _TEMPLATE and "sdk: static" in parts.header.splitlines()
    if not template or len(hub.commits(state.repo)) > 1:
        return False
    body = parts.after.partition("\n")[2].strip()
    return not body or (body.startswith(_TEMPLATE_TEXT) and "\n" not in body)


def _bytes(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


def show_change(hub: Hub, state: State | None, change: Change, say: Say, *, texts: Iterable[str] = (CARD,)) -> None:
    """Say every path that would be added (A), modified (M) or deleted (D), with its size, and how texts differ.

    Args:
        hub: where it is.
        state: what is there; None: nothing.
        change: what would be committed.
        say: gets one line after the other; what comes from the Hub has no control characters left.
        texts: paths of those whose lines are shown.
    """
    for path, content in sorted(change.write.items()):
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        say(f"  {'M' if state and path in state.files else 'A'} {path} ({size:,} bytes)")
    for path in change.delete:
        say(f"  D {printable(path)}")
    for path in texts:
        if path in change.write:
            both = (hub.content(state, path), _bytes(change.write[path]))
            before, after = (content.decode(errors="replace").splitlines() for content in both)
            for line in difflib.unified_diff(before, after, "there", "new", lineterm="", n=2):
                say(f"  {printable(line)}")


def printable(text: str) -> str:
    """A stranger's text without control characters."""
    return "".join(one if one.isprintable() or one == "\t" else "�" for one in text)


MARKER = ".swapbias-corpus"  # tells a folder that may be replaced from a user's own
LOCAL = "own"  # in the mark of a corpus that was made from a folder of the user's
BATCH_ROWS = 1_000  # of a streamed config, held in memory
SHARD_BYTES = 256 * 2**20  # of text in one file of a streamed config


@dataclass(frozen=True, slots=True)
class BuiltConfig:
    """One config: written with so many rows, or left out for a reason."""

    corpus: str
    config: str
    rows: int
    left_out: str = ""


def build(corpus_name: str, out: Path, *, data: Path | None = None) -> Iterator[BuiltConfig]:
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
) -> Iterator[BuiltConfig]:
    """``build`` of a corpus at hand; ``namespace`` and ``withheld`` are what a published card tells.

    Raises:
        UsageError, ValueError, OSError: as ``build``.
    """
    target = out / corpus.name
    recover(target)
    if target.exists() and not (target / MARKER).exists() and any(target.iterdir()):
        raise UsageError(f"{target} holds something else than a built corpus. Choose another --out.")
    with atomic_directory(target) as making:
        written: dict[str, ConfigInfo] = {}
        for config in corpus.configs:
            try:
                made = write_config(making / config.name, corpus, config)
            except UpstreamMissingError as error:
                yield BuiltConfig(corpus.name, config.name, 0, str(error))
                continue
            written[config.name] = made
            yield BuiltConfig(corpus.name, config.name, made.rows)
        any_credentialed = any(made.credentialed for made in written.values())
        origin = ""
        if corpus.licence == OTHER_LICENCE:  # not ours to describe
            card, origin = local_card(corpus, written, credentialed=any_credentialed), f" {LOCAL}"
        else:
            card = dataset_card(corpus, written, namespace=namespace, withheld=withheld)
            present = tuple(one for one in corpus.configs if one.name in written)
            if notices := licences_file(replace(corpus, configs=present)):
                (making / LICENCES).write_bytes(notices)
        (making / CARD).write_text(card, encoding="utf-8")
        (making / MARKER).write_text(f"{corpus.name} {corpus.version}{origin}\n", encoding="utf-8")
        if any_credentialed:
            credentialed.mark(making)
            for path in making.rglob("*"):  # until here the folder itself was closed
                path.chmod(credentialed.OWNER_FOLDER if path.is_dir() else 0o600)


def write_config(folder: Path, corpus: Corpus, config: Config) -> ConfigInfo:
    """Write a config into a new folder as ``<split>-00000-of-00001.parquet``, streamed ones in several files.

    Raises:
        UpstreamMissingError: an upstream file it needs is not reachable; nothing is written.
        ValueError: a broken table.
    """
    made = ConfigInfo(config)
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
        made.splits[split] = SplitInfo(len(part), table.nbytes, file.stat().st_size)
        made.credentialed |= _has_credentialed(table)
    return made


def _stream(folder: Path, config: Config, made: ConfigInfo) -> None:
    """Files of about ``SHARD_BYTES`` each, renamed once their number is known."""
    total = made.splits.setdefault(config.split, SplitInfo())
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
                made.credentialed |= _has_credentialed(table)
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


def _has_credentialed(table: pa.Table) -> bool:
    return "credentialed" in table.column_names and "True" in set(map(str, table["credentialed"].to_pylist()))


@contextmanager
def atomic_directory(target: Path) -> Iterator[Path]:
    """A new folder that replaces ``target`` when the block ends well, and is deleted when it does not.

    Raises:
        UsageError: the place is a link or a file, or below one. OSError: it cannot be written.
    """
    recover(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    making = target.with_name(f".{target.name}.new")
    with locked_place(target):
        shutil.rmtree(making, ignore_errors=True)  # of a process that was killed
        making.mkdir(mode=credentialed.OWNER_FOLDER)
        try:
            yield making
            making.chmod(credentialed.OWNER_FOLDER if (making / credentialed.FILE).exists() else 0o755)
            if target.exists():  # the old one goes only when the new one stands
                shutil.rmtree(_previous(target), ignore_errors=True)
                target.rename(_previous(target))
            making.rename(target)
            shutil.rmtree(_previous(target), ignore_errors=True)
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
    if _previous(target).is_dir() and not target.exists():
        _previous(target).rename(target)


def _previous(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def push_dataset(
    hub: Hub,
    corpus_name: str,
    *,
    namespace: str,
    private: bool = False,
    dry_run: bool = False,
    say: Say,
) -> PushResult:
    """Build a corpus and publish it as the dataset ``namespace/corpus_name``, tagged with its version.

    Only corpora of the package are published, never what was made from a folder of one's own. Configs whose upstream
    files do not allow it are left out, and the card says how to build them.

    Raises:
        UpstreamMissingError: a config that is published needs a file that is not at hand.
        UsageError, HubError: as ``push_repo``. ValueError: a broken table.
    """
    corpus = load_corpus(corpus_name)
    repo = Repo("dataset", f"{namespace}/{corpus.name}")
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        files = dataset_files(corpus, Path(scratch), namespace=namespace, say=say)
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
) -> PushResult:
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


def study_name(named: "str | PathLike[str]") -> str:
    """What an audit knows a study by, with its config: its name, or that of the folder or dataset, which is opened.

    Raises:
        UsageError: no such folder or dataset. ValueError: a broken study. HubError: the Hub is out of reach.
    """
    place, colon, config = fspath(named).partition(":")
    if place in corpora() and load_corpus(place).study is not None:  # which loads no other
        return fspath(named)
    if _is_folder(place):
        return own_study(Path(place)).name + colon + config
    if place.count("/") != 1:
        return fspath(named)
    name, _, revision = place.partition("@")
    return pull_study(Hub(), name, revision=revision or "main").name + colon + config


def own_study(source: Any, **options: Any) -> Study:
    """``studies.open_study`` of what is no credentialed text: a run keeps prompts of the user's own as they are.

    Raises:
        UsageError: the prompts come from credentialed notes. UsageError, ValueError: as ``open_study``.
    """
    place = Path(source).expanduser() if isinstance(source, str | PathLike) else None
    credentialed = place is not None and place.exists() and is_credentialed(place)
    if not credentialed:
        study = open_study(source, **options)
        rows = (row for one in load_corpus(study.name).configs for row in one.rows())
        credentialed = any(
            is_mimic_columns(row) or row.get("credentialed", "").lower() in ("true", "1") for row in rows
        )
    if credentialed:
        raise UsageError(
            f"{place.name if place else 'These prompts'} may hold credentialed clinical notes, and a run keeps "
            "prompts of your own as they are. Give notes with -M data."
        )
    return study


def _is_folder(named: str) -> bool:
    """Whether a study is named by its place: it looks like one, or holds a study."""
    if named.startswith((".", "~", "/")) or "\\" in named:
        if not Path(named).expanduser().is_dir():
            raise UsageError(f"{named} is no folder of a study. Check it, or write one with swapbias study new.")
        return True
    return (Path(named) / "study.toml").is_file()
