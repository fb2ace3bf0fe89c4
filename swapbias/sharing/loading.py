"""What others shared, read from the Hub: results and manifests, which nobody needs to trust."""

import glob
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swapbias.errors import HubError, UsageError
from swapbias.hub import Hub, Repo, State
from swapbias.hub.client import READ_LIMIT
from swapbias.hub.files import check_names
from swapbias.result_files import parse_manifest, parse_results
from swapbias.sharing.side_by_side import SharedRun, headline, shown

MOST_RUNS = 200  # of one repository
MOST_MODELS = 100  # of one run
_RESULTS = re.compile(r"runs/([^/]+)/results\.json")
_FILES = ("manifest.json", "results.json")
_AT_ONCE = 25  # runs that are fetched together: each fetch lists the repository, and all of it lies on disk
_MOST_FAILURES = 3  # runs that the Hub does not give: after them it is the Hub's trouble and not theirs


@dataclass(frozen=True, slots=True)
class Broken:
    """A shared run that cannot be read, and why; of a whole repository where ``name`` is blank."""

    repo: str
    name: str
    reason: str


def load_all_shared(
    hub: Hub, repo_names: Sequence[str], *, revision: str = "main"
) -> tuple[list[SharedRun], list[Broken]]:
    """The runs of several repositories, each once; one that cannot be read does not stop the others."""
    runs: list[SharedRun] = []
    broken: list[Broken] = []
    for name in dict.fromkeys(repo_names):
        try:
            found, unreadable = load_shared(hub, name, revision=revision)
        except (UsageError, HubError) as error:
            broken.append(Broken(name, "", str(error)))
            continue
        runs += found
        broken += unreadable
    return runs, broken


def load_shared(
    hub: Hub, repo_name: str, *, revision: str = "main", strict: bool = False
) -> tuple[list[SharedRun], list[Broken]]:
    """The runs of a results repository, all read at one commit, and those that cannot be read.

    Args:
        hub: where it is.
        repo_name: OWNER/NAME.
        revision: branch, tag or commit.
        strict: a run that the Hub does not give now is an error and not a broken run; one that holds something else
            than swapbias writes stays a broken one.

    Raises:
        UsageError: there is no such repository, or it holds no runs.
        HubError: the Hub refuses or cannot be reached.
    """
    repo = Repo("dataset", repo_name)
    state = hub.state(repo, revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is no dataset repository that can be seen. Check its name, or log in.")
    names = sorted(found[1] for found in map(_RESULTS.fullmatch, state.files) if found)
    if not names:
        raise UsageError(f"{repo_name} holds no runs/NAME/results.json. Name a repository made with swapbias share.")
    if len(names) > MOST_RUNS:
        raise UsageError(f"{repo_name} holds {len(names)} runs, at most {MOST_RUNS} are read. Name another one.")
    readable, broken = _readable(state, names)
    runs: list[SharedRun] = []
    for first in range(0, len(readable), _AT_ONCE):
        some = readable[first : first + _AT_ONCE]
        with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
            unread = _fetch(hub, state, some, Path(folder), strict=strict)
            broken += unread
            for name in [one for one in some if one not in {lost.name for lost in unread}]:
                try:
                    runs.append(_run(state, name, Path(folder)))
                except ValueError as error:
                    broken.append(Broken(repo_name, name, str(error)))
    return runs, sorted(broken, key=lambda one: one.name)


def _readable(state: State, names: Sequence[str]) -> tuple[list[str], list[Broken]]:
    """The runs that have both files, under names that may be written to disk, and the others."""
    readable: list[str] = []
    paths: list[str] = []
    broken = []
    for name in names:  # at most MOST_RUNS: each is held against those before it
        mine = [f"runs/{name}/{file}" for file in _FILES]
        where = f"{state.repo.name}/{shown(f'runs/{name}')}"
        try:
            if mine[0] not in state.files:
                raise ValueError(f"{where}: manifest.json is missing. Its owner can share it again.")
            check_names(state.repo.name, [*paths, *mine])
        except ValueError as error:
            broken.append(Broken(state.repo.name, name, str(error)))
            continue
        readable.append(name)
        paths += mine
    return readable, broken


def _fetch(hub: Hub, state: State, names: Sequence[str], folder: Path, *, strict: bool) -> list[Broken]:
    """Fetch the files of runs, together or, where that fails, run by run; gives the runs that the Hub does not give.

    Raises:
        HubError: in ``strict`` any of them, else more than a few of them.
    """
    try:
        _download(hub, state, names, folder)
    except HubError:
        if strict:
            raise
    else:
        return []
    broken: list[Broken] = []
    for name in names:
        try:
            _download(hub, state, [name], folder)
        except HubError as error:
            broken.append(Broken(state.repo.name, name, str(error)))
            if len(broken) > _MOST_FAILURES:
                raise
    return broken


def _download(hub: Hub, state: State, names: Sequence[str], folder: Path) -> None:
    only = tuple(glob.escape(f"runs/{name}/{file}") for name in names for file in _FILES)
    hub.download(state.repo, folder, revision=state.commit, only=only, limit=READ_LIMIT)


def _run(state: State, name: str, folder: Path) -> SharedRun:
    """One run, of files that were fetched.

    Raises:
        ValueError: it is incomplete or not what swapbias writes.
    """
    place = folder / "runs" / name
    where = f"{state.repo.name}/{shown(f'runs/{name}')}"
    manifest = parse_manifest((place / "manifest.json").read_bytes(), f"{where}/manifest.json")
    if manifest["status"] != "complete":
        raise ValueError(f"{where}: the run is not complete. Its owner can finish and share it again.")
    if manifest.get("credentialed"):
        raise ValueError(f"{where}: it says that it holds credentialed data, which nobody may share. Tell its owner.")
    found = parse_results((place / "results.json").read_bytes(), f"{where}/results.json")
    models = {one.model_id for one in found}
    if len(models) > MOST_MODELS:
        raise ValueError(f"{where}: it holds {len(models)} models, at most {MOST_MODELS} are read.")
    keys = [(*one.key(), one.study, one.model_id) for one in found if headline(one)]
    if len(set(keys)) != len(keys):
        raise ValueError(f"{where}: a headline finding stands twice. Its owner can share it again.")
    return SharedRun(state.repo.name, name, state.commit, manifest, found)
