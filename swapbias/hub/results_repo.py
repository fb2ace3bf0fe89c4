"""The repository that holds shared runs: reading it, and writing one more run into it."""

import glob
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapbias.audit import parse_manifest, parse_results
from swapbias.errors import HubError, UsageError
from swapbias.hub.bundle import Bundle, run_name
from swapbias.hub.client import HUB_FILES, READ_LIMIT, Change, Hub, Repo, State, check_names, difference
from swapbias.hub.comparison import SharedRun, headline, shown
from swapbias.hub.header import split
from swapbias.hub.model_card import prompts_read
from swapbias.hub.proposals import CARD, Done, seen, text_of
from swapbias.hub.results_card import is_ours, is_run_name, results_card

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


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Update:
    """A results repository as it was looked at, and what must be written; ``state`` is None where it is not there."""

    repo: Repo
    state: State | None
    change: Change
    folder: str
    public: bool

    @property
    def status(self) -> str:
        """What will have been done to it."""
        if self.state is None:
            return "created"
        return "updated" if self.change else "unchanged"

    @property
    def settled(self) -> str:
        """The commit that holds the run as it is already; blank where the run itself is to be written."""
        touched = [*self.change.write, *self.change.delete]
        held = self.state is not None and not any(path.startswith(f"{self.folder}/") for path in touched)
        return self.state.commit if self.state is not None and held else ""


def check_visibility(state: State, *, public: bool) -> None:
    """Refuse a repository that is not as visible as was asked: its visibility is never changed.

    Raises:
        UsageError: it is public and was not to be, or the other way round.
    """
    if not state.private and not public:
        raise UsageError(f"{state.repo.name} is public, and runs are shared privately unless you say --public.")
    if state.private and public:
        raise UsageError(
            f"{state.repo.name} is private, with all that it holds. Make it public on its page, or drop --public."
        )


def prepare(
    hub: Hub, repo: Repo, state: State | None, bundle: Bundle, *, named: bool, public: bool, say: Say
) -> Update:
    """What must be written for the repository to hold this run, and a card of all its runs.

    Args:
        named: the user chose the run's name in it.
        public: everybody may read it.

    Raises:
        UsageError: it holds something else, or another run of that name.
        HubError: a run in it cannot be read now.
        ValueError: its card cannot be added to.
    """
    readme = text_of(hub, state, CARD) if state else ""
    others = _others(hub, state, readme, bundle, named=named, say=say) if state else []
    items = {one.name: _studies(state, one.name) for one in others} | {bundle.name: bundle.studies}
    card = results_card(repo.name, [*others, bundle], items, existing=readme)
    folder = f"runs/{bundle.name}"
    files = difference(state, bundle.files, within=folder)
    top = difference(state, {CARD: card.encode()}, within=CARD)
    return Update(repo, state, Change({**files.write, **top.write}, files.delete), folder, public)


def put(hub: Hub, update: Update, bundle: Bundle) -> tuple[Done, str]:
    """Write what must be written: what happened, and the commit that holds the run.

    Raises:
        UsageError: the repository is not as visible as it was to be. HubError: the Hub refused, or somebody wrote in
            between.
    """
    state, change, repo = update.state, update.change, update.repo
    if state is not None and not change:
        return Done(repo, "unchanged", hub.url(repo, commit=state.commit), change), state.commit
    if state is None:
        hub.create(repo, private=not update.public)
    # Right before the commit: somebody else may have made the repository, or opened it, since it was looked at.
    now = seen(hub, repo)
    check_visibility(now, public=update.public)
    if state is None and not set(now.files) <= HUB_FILES:
        raise HubError(f"Somebody else wrote to {repo.name} in between, so that nothing was written. Share again.")
    parent = now.commit if state is None else state.commit
    made = hub.commit(repo, change, f"Share {bundle.name}", parent=parent, never=bundle.never)
    return Done(repo, update.status, hub.url(repo, commit=made.commit), change), made.commit


def _others(hub: Hub, state: State, readme: str, bundle: Bundle, *, named: bool, say: Say) -> list[SharedRun]:
    """The other runs that it holds, so far as a card can list them.

    Raises:
        UsageError, HubError: as ``prepare``.
    """
    runs: list[SharedRun] = []
    broken: list[Broken] = []
    if any(path.startswith("runs/") and path.endswith("/results.json") for path in state.files):
        runs, broken = load_shared(hub, state.repo.name, revision=state.commit, strict=True)
    _refuse_foreign(state, readme, bool(runs))
    if named:
        same = [one for one in runs if one.name == bundle.name]
        known = same and run_name(same[0].manifest) == run_name(bundle.manifest)
        if not known and any(path.startswith(f"runs/{bundle.name}/") for path in state.files):
            raise UsageError(f"{state.repo.name} holds another run named {bundle.name}. Choose another --name.")
    others = []
    for one in runs:
        if one.name != bundle.name and (reason := _unlisted(one)):
            say(f"Left out of the card: {reason}")
        elif one.name != bundle.name:
            others.append(one)
    for lost in broken:
        if lost.name != bundle.name:
            say(f"Left out of the card: {lost.reason}")
    return others


def _refuse_foreign(state: State, readme: str, readable: bool) -> None:
    """A repository is ours by the marks in its card; without any card, by a run that can be read."""
    held = set(state.files) - HUB_FILES
    if CARD in held:
        where = f"{state.repo.name}/{CARD}"
        blank = held == {CARD} and not split(readme).after.removeprefix("---").strip()
        ours = blank or is_ours(readme, where=where)
    else:
        ours = not held or readable
    if not ours:
        raise UsageError(f"{state.repo.name} holds something else than shared runs. Choose another repository.")


def _unlisted(run: SharedRun) -> str:
    """Why a card cannot list a run that can be read; blank where it can."""
    if not is_run_name(run.name):
        return f"{run.name!r} is no name of a run, expected a-z, 0-9, dots and dashes. Rename its folder."
    try:
        for pair in {(one.study, one.experiment) for one in run.found}:
            prompts_read(run.manifest, *pair)
    except ValueError as error:  # of a newer version
        return f"{run.name}: {error}"
    return ""


def _studies(state: State | None, run: str) -> Sequence[str]:
    start = f"runs/{run}/items/"
    return [Path(path).stem for path in (state.files if state else ()) if path.startswith(start)]
