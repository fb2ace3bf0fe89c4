"""What was published, fetched at one commit by the Hub's client and put into a folder whole."""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapbias import __version__
from swapbias.errors import HubError, UsageError, listed
from swapbias.files import atomic_directory, cache_dir, file_sha256, parse_json, write_whole
from swapbias.hub.cards import CARD
from swapbias.hub.client import Hub
from swapbias.hub.hub_errors import is_unreachable
from swapbias.hub.metric_spaces import shipped
from swapbias.hub.repository import Repo, State, difference
from swapbias.report import safe_line
from swapbias.studies import catalogue, corpora, load_corpus, metric_path

DATASET = "dataset"
METRIC = "metric"
RESULTS = "results"
_REPO_KINDS = {DATASET: "dataset", METRIC: "space", RESULTS: "dataset"}  # as the Hub calls it
_FETCHED = {  # nothing else comes: of what runs, the module of a metric and those of ours that lie beside it
    DATASET: r"README\.md|LICENSES\.md|eval\.yaml|\w[\w.-]*/[\w.-]+\.parquet",
    METRIC: r"(?:{name}|{shipped}|app)\.py|README\.md|index\.html|requirements\.txt",
    RESULTS: r"README\.md|runs/[\w.-]+/(?:[\w. -]+/)?[\w. -]+\.(?:json|jsonl|csv|parquet|html|svg|png)",
}
RECORD = ".swapbias-pull.json"
"""A file of a pulled folder that tells its files from those of its user."""
_MAIN = "main"


def wanted_repos(hub: Hub, kind: str, namespace: str, names: Sequence[str]) -> list[str]:
    """List the repositories of an owner that hold datasets or metrics of swapbias.

    Args:
        hub: the Hub.
        kind: DATASET or METRIC.
        namespace: the owner.
        names: the names of corpora or metrics; all that the package knows where none is given.

    Returns:
        names of repositories, OWNER/NAME; those pulled before where the Hub cannot be reached.

    Raises:
        UsageError: there is none, or a name is unknown.
    """
    for name in names:
        if kind == DATASET:
            load_corpus(name)
        else:
            metric_path(name)
    if names:
        return [f"{namespace}/{name}" for name in dict.fromkeys(names)]
    repo_kind = _REPO_KINDS[kind]
    Repo(repo_kind, f"{namespace}/all")  # a namespace that cannot be one is refused
    of_package = corpora() if kind == DATASET else catalogue.metrics()
    repos = [Repo(repo_kind, f"{namespace}/{name}") for name in of_package]
    try:
        there = hub.repos(namespace, repo_kind)
    except HubError as error:
        there = [repo.name for repo in repos if any(_listings(repo).glob("*.json"))]
        if not there or not is_unreachable(error):
            raise
    wanted = [repo.name for repo in repos if repo.name in there]
    if not wanted:
        raise UsageError(
            f"{namespace} has no {kind} of swapbias that can be seen. Check the name, or log in."
        )
    return wanted


def pull_repo(hub: Hub, kind: str, repo_name: str, out: Path, *, revision: str = "") -> str:
    """Fetch a repository to the folder ``out/NAME`` (results: ``out/OWNER/NAME``), or bring that folder to a version.

    Where the Hub cannot be reached, a version that was pulled before comes from the client's cache.

    Args:
        hub: the Hub.
        kind: DATASET, METRIC or RESULTS.
        repo_name: OWNER/NAME.
        out: the folder for it.
        revision: a branch, tag or commit; blank for the tag of the installed version, of results for main.

    Returns:
        a sentence that says so.

    Raises:
        UsageError: no such repository, or something else in its place, which is never replaced.
        ValueError: it has no files of its kind.
        HubError: the Hub refuses, or other files came than it lists.
    """
    repo = Repo(_REPO_KINDS[kind], repo_name)
    name = repo_name.rpartition("/")[2]
    target = out / (repo_name if kind == RESULTS else name)
    pulled = _fetch(hub, kind, repo, revision or _installed_version(kind, name))
    if not set(pulled.files) - {CARD}:
        raise ValueError(f"{repo_name} contains no {kind} of swapbias. Check its name.")
    outcome = _bring(target, pulled, _pattern(kind, name))
    offline = " The Hub was not reached." if pulled.offline else ""
    return f"{repo_name} {pulled.version}: {outcome} in {target}{offline}"


def _installed_version(kind: str, name: str) -> str:
    """Return the tag of the installed version of a corpus or metric; the main branch for results."""
    if kind == DATASET:
        return f"v{load_corpus(name).version}"
    return f"v{__version__}" if kind == METRIC else _MAIN


def _pattern(kind: str, name: str) -> str:
    """Return the pattern of the paths that come from a repository."""
    modules = "|".join(shipped()) if kind == METRIC else ""
    return _FETCHED[kind].replace("{shipped}", modules).replace("{name}", re.escape(name))


# --- from the Hub to the client's cache ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pulled:
    """A version of a repository, in the client's cache."""

    state: State
    """What the Hub lists at its commit, without what is never fetched where it comes from the cache."""
    files: Mapping[str, Path]
    """By path in the repository."""
    version: str
    """The version in words: revision and commit."""
    offline: bool
    """Whether the Hub was not asked."""


def _fetch(hub: Hub, kind: str, repo: Repo, revision: str) -> _Pulled:
    """Fetch the files of a kind at a revision, each checked by the digest that the Hub lists."""
    listing = _listings(repo) / f"{revision.replace('/', '--')}.json"
    offline = False
    try:
        state = hub.existing_state(repo, revision=revision)
    except HubError as error:
        listed_before = _read_listing(listing, repo)
        if listed_before is None or not is_unreachable(error):
            raise
        state = listed_before
        offline = True
    pattern = _pattern(kind, repo.name.rpartition("/")[2])
    wanted = [path for path in state.files if re.fullmatch(pattern, path)]
    files = {}
    if wanted:
        folder = hub.snapshot(state, wanted, offline=offline)
        files = {path: folder / path for path in wanted}
        if difference(state, files).write:
            raise HubError(f"{repo.name}: other files came than it lists. Run the command again.")
    if not offline:
        _write_listing(listing, state, wanted)
    version = state.commit[:8]
    if revision not in (_MAIN, state.commit):
        version = f"{revision} ({version})"
    return _Pulled(state=state, files=files, version=version, offline=offline)


def _listings(repo: Repo) -> Path:
    """Return the folder with what the Hub listed of each revision of a repository that was pulled."""
    return cache_dir() / "pulled" / f"{repo.kind}--{repo.name.replace('/', '--')}"


def _write_listing(path: Path, state: State, wanted: Collection[str]) -> None:
    """Note commit and digests of what was fetched; without the note, the version cannot be pulled offline."""
    digests = {name: state.files[name] for name in sorted(wanted)}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, _note(state, digests))


def _read_listing(path: Path, repo: Repo) -> State | None:
    """Read what was noted; None where there is none."""
    note = _read_note(path, repo)
    if note is None:
        return None
    return State(repo, note["commit"], private=False, files=note["files"], tags={})


def _read_note(path: Path, repo: Repo) -> dict[str, Any] | None:
    """Read a note of a pull; None where there is none of this repository that can be read."""
    try:
        note = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(note, dict) or note.get("repo") != repo.name:
        return None
    files = note.get("files")
    if not isinstance(files, dict) or not isinstance(note.get("commit"), str):
        return None
    return note if all(isinstance(value, str) for value in files.values()) else None


def _note(state: State, digests: Mapping[str, str]) -> bytes:
    """Write a note of a pull: repository, commit, and the digest of each file by path."""
    note = {"repo": state.repo.name, "commit": state.commit, "files": digests}
    return json.dumps(note, indent=1).encode() + b"\n"


# --- from the cache to a folder -----------------------------------------------------------------------------


def _bring(target: Path, pulled: _Pulled, pattern: str) -> str:
    """Make a folder hold what was pulled, beside files of its user that are none of its kind; say what was done."""
    here = {path: file for path, file in _files_below(target) if re.fullmatch(pattern, path)}
    if here.keys() == pulled.files.keys() and not difference(pulled.state, here).write:
        return "unchanged"
    record = _read_note(target / RECORD, pulled.state.repo)
    if record is not None:
        _refuse_changed(target, here, record["files"], pulled.state)
    outcome = f"{len(pulled.files)} of {len(pulled.state.files)} files"
    with atomic_directory(target, new=record is None) as making:
        for path, file in pulled.files.items():
            (making / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, making / path)
        digests = {path: file_sha256(file) for path, file in pulled.files.items()}
        (making / RECORD).write_bytes(_note(pulled.state, digests))
        for path, file in _files_below(target):
            if path not in here and path != RECORD:
                _keep(file, making / path)
        _keep_modes(target, making)
    if record is None:
        return outcome
    return f"updated from {safe_line(record['commit'][:8])}, {outcome}"


def _refuse_changed(
    target: Path, here: Mapping[str, Path], recorded: Mapping[str, str], state: State
) -> None:
    """Refuse, with a UsageError, to replace files that were changed or added since the folder was pulled."""
    changed = []
    for path, file in sorted(here.items()):
        if file_sha256(file) == recorded.get(path):
            continue
        if path not in state.files or difference(state, {path: file}).write:
            changed.append(safe_line(path))
    if changed:
        raise UsageError(
            f"{target} was changed since it was pulled: {listed(changed)}. Move these files, or choose another --out."
        )


def _files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files and links below a folder by path within it."""
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or file.is_file():
            yield file.relative_to(folder).as_posix(), file


def _keep(file: Path, new: Path) -> None:
    """Put a file of the user's at another path too: as the same file where the disk can."""
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, new, follow_symlinks=False)
    except (OSError, NotImplementedError):  # no hard links, or none that leave a link as it is
        shutil.copy2(file, new, follow_symlinks=False)


def _keep_modes(target: Path, making: Path) -> None:
    """Give the folders that stay the modes that they have."""
    for folder in target.rglob("*"):
        new = making / folder.relative_to(target)
        if folder.is_dir() and not folder.is_symlink() and new.is_dir():
            shutil.copymode(folder, new)
