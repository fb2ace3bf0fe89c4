"""What was published, fetched back: datasets, metrics and results as folders, each of one commit and whole."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from swapbias.errors import HubError, UsageError
from swapbias.files import parse_json
from swapbias.hub.client import HUB_FILES, Hub, Repo, State, check_names, difference
from swapbias.hub.corpora import recover, standing_in
from swapbias.hub.metric_modules import shipped_names
from swapbias.studies import corpora, load_corpus, metric_path, metrics

CARD = "README.md"
SOURCE = "source.json"  # where a pulled folder is from; tells it from a user's own
MOST_BYTES = 16 * 2**30
MOST_FILES = 2_000
DATASET, METRIC, RESULTS = "dataset", "metric", "results"
_KINDS = {DATASET: "dataset", METRIC: "space", RESULTS: "dataset"}  # as the Hub calls the repository
_FETCHED = {  # nothing else comes: of what runs, the module of a metric and those of ours that lie beside it
    DATASET: r"README\.md|LICENSES\.md|eval\.yaml|\w[\w.-]*/[\w.-]+\.parquet",
    METRIC: r"(?:{name}|{shipped})\.py|README\.md|requirements\.txt|index\.html|style\.css",
    RESULTS: r"README\.md|runs/[\w.-]+/(?:[\w. -]+/)?[\w. -]+\.(?:json|jsonl|csv|parquet|html|svg|png)",
}


def wanted_repos(hub: Hub, kind: str, namespace: str, names: Sequence[str]) -> list[str]:
    """The datasets or metrics of an owner by those names; all that the package knows by default.

    Raises:
        UsageError: an unknown corpus or measure, or the owner has none of them.
        HubError: the Hub refuses or cannot be reached.
    """
    for name in names:
        load_corpus(name) if kind == DATASET else metric_path(name)
    if names:
        return [f"{namespace}/{name}" for name in dict.fromkeys(names)]
    Repo(_KINDS[kind], f"{namespace}/all")  # a namespace that cannot be one is refused
    there = hub.repos(namespace, _KINDS[kind])
    known = corpora() if kind == DATASET else metrics()
    found = [f"{namespace}/{name}" for name in known if f"{namespace}/{name}" in there]
    if not found:
        raise UsageError(f"{namespace} has no {kind} of swapbias that can be seen. Check the name, or log in.")
    return found


def pull_repo(hub: Hub, kind: str, repo_name: str, out: Path, *, revision: str = "main") -> str:
    """Fetch a repository into a folder of its own: whole, or not at all; gives a sentence that says so.

    Datasets and metrics come to ``out/NAME``, results to ``out/OWNER/NAME``. A folder that was pulled from the
    same commit, and is as it was pulled, stays; one from another commit is replaced once the new one is complete.

    Raises:
        UsageError: no such repository, or a folder in its place that no pull of it made, or with files of the user's.
        ValueError: it is too large, or has no files of its kind. HubError: the Hub refuses, names in it are unsafe,
            or what came is not what it lists. OSError: ``out`` cannot be written.
    """
    repo = Repo(_KINDS[kind], repo_name)
    name = repo_name.rpartition("/")[2]
    target = out / repo_name if kind == RESULTS else out / name
    recover(target)
    _check_place(target, repo)
    state = hub.state(repo, revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is not there, or cannot be seen with this token. Check its name, or log in.")
    pattern = _FETCHED[kind].replace("{shipped}", "|".join(shipped_names())).replace("{name}", re.escape(name))
    wanted = _wanted(state, pattern)
    if not set(wanted.files) - {CARD}:
        raise ValueError(f"{repo_name} holds no {kind} of swapbias. Check its name.")
    done = "unchanged"
    if _source(target).get("commit") != state.commit or difference(wanted, _held(target)):
        done = f"{len(wanted.files)} files"
        _fetch(hub, wanted, target)
    tag = revision if revision in state.tags else ""
    version = f"{tag} ({state.commit[:8]})" if tag else state.commit[:8]
    left = len(set(state.files) - HUB_FILES - set(wanted.files))
    other = f", {left} of other kinds left out" if left else ""
    return f"{repo_name} {version}: {done}{other} in {target}"


def _check_place(target: Path, repo: Repo) -> None:
    """A folder that would be replaced holds nothing but what was pulled from this very repository.

    Raises:
        UsageError: it holds something else.
    """
    held, before = _held(target), _source(target)
    if held and (before.get("repo"), before.get("kind")) != (repo.name, repo.kind):
        raise UsageError(
            f"{target} holds something else than what was pulled from {repo.name}. Choose another --out."
        )
    own = sorted(held.keys() - set(before.get("files", ())))
    if own:
        raise UsageError(
            f"{target} holds {own[0]!r}, which was not pulled and would be lost. Move it, or choose another --out."
        )


def _held(folder: Path) -> dict[str, Path]:
    """What a folder holds besides the note of a pull, links included."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {name: path for name, path in found.items() if name != SOURCE and (path.is_symlink() or path.is_file())}


def _source(folder: Path) -> dict[str, Any]:
    """What a pull noted down in a folder; empty where none did."""
    try:
        read = parse_json((folder / SOURCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) and isinstance(read.get("files"), dict) else {}


def _wanted(state: State, pattern: str) -> State:
    """What is fetched of what a repository holds.

    Raises:
        ValueError: it holds more than any of ours. HubError: names that could leave the folder or hide a file.
    """
    if len(state.files) > MOST_FILES or state.size > MOST_BYTES:
        raise ValueError(
            f"{state.repo.name} holds {len(state.files):,} files of {state.size:,} bytes, expected at most "
            f"{MOST_FILES:,} and {MOST_BYTES:,}. Check its name."
        )
    check_names(state.repo.name, [*state.files, SOURCE])
    return replace(state, files={name: one for name, one in state.files.items() if re.fullmatch(pattern, name)})


def _fetch(hub: Hub, wanted: State, target: Path) -> None:
    """Put the files in the folder's place, as the repository lists them: by sha256, small ones by git's id."""
    source = {
        "repo": wanted.repo.name,
        "kind": wanted.repo.kind,
        "commit": wanted.commit,
        "files": dict(wanted.files),
    }
    with standing_in(target) as making:
        hub.snapshot(wanted, making)
        came = _held(making)
        if difference(wanted, came) or any(path.is_symlink() for path in making.rglob("*")):
            raise HubError(f"{wanted.repo.name}: other files came than it lists. Run the command again.")
        (making / SOURCE).write_text(json.dumps(source, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
