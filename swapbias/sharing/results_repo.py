"""The repository that holds shared runs: what must be written for it to hold one more, and writing it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapbias.cards.header import split
from swapbias.cards.prompts_read import prompts_read
from swapbias.cards.results_card import is_ours, is_run_name, results_card
from swapbias.errors import HubError, UsageError
from swapbias.hub import Change, Hub, Repo, State, difference
from swapbias.hub.files import KEPT
from swapbias.sharing.loading import Broken, load_shared
from swapbias.sharing.model_files import CARD, text_of
from swapbias.sharing.parcel import Parcel, run_name
from swapbias.sharing.proposing import Done, seen
from swapbias.sharing.side_by_side import SharedRun

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shelf:
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


def shelf(hub: Hub, repo: Repo, state: State | None, parcel: Parcel, *, named: bool, public: bool, say: Say) -> Shelf:
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
    others = _others(hub, state, readme, parcel, named=named, say=say) if state else []
    items = {one.name: _studies(state, one.name) for one in others} | {parcel.name: parcel.studies}
    card = results_card(repo.name, [*others, parcel], items, existing=readme)
    folder = f"runs/{parcel.name}"
    files = difference(state, parcel.files, within=folder)
    top = difference(state, {CARD: card.encode()}, within=CARD)
    return Shelf(repo, state, Change({**files.write, **top.write}, files.delete), folder, public)


def put(hub: Hub, shelf: Shelf, parcel: Parcel) -> tuple[Done, str]:
    """Write what must be written: what happened, and the commit that holds the run.

    Raises:
        UsageError: the repository is not as visible as it was to be. HubError: the Hub refused, or somebody wrote in
            between.
    """
    state, change, repo = shelf.state, shelf.change, shelf.repo
    if state is not None and not change:
        return Done(repo, "unchanged", hub.url(repo, commit=state.commit), change), state.commit
    if state is None:
        hub.create(repo, private=not shelf.public)
    # Right before the commit: somebody else may have made the repository, or opened it, since it was looked at.
    now = seen(hub, repo)
    check_visibility(now, public=shelf.public)
    if state is None and not set(now.files) <= KEPT:
        raise HubError(f"Somebody else wrote to {repo.name} in between, so that nothing was written. Share again.")
    parent = now.commit if state is None else state.commit
    made = hub.commit(repo, change, f"Share {parcel.name}", parent=parent, never=parcel.never)
    return Done(repo, shelf.status, hub.url(repo, commit=made.commit), change), made.commit


def _others(hub: Hub, state: State, readme: str, parcel: Parcel, *, named: bool, say: Say) -> list[SharedRun]:
    """The other runs that it holds, so far as a card can list them.

    Raises:
        UsageError, HubError: as ``shelf``.
    """
    runs: list[SharedRun] = []
    broken: list[Broken] = []
    if any(path.startswith("runs/") and path.endswith("/results.json") for path in state.files):
        runs, broken = load_shared(hub, state.repo.name, revision=state.commit, strict=True)
    _refuse_foreign(state, readme, bool(runs))
    if named:
        same = [one for one in runs if one.name == parcel.name]
        known = same and run_name(same[0].manifest) == run_name(parcel.manifest)
        if not known and any(path.startswith(f"runs/{parcel.name}/") for path in state.files):
            raise UsageError(f"{state.repo.name} holds another run named {parcel.name}. Choose another --name.")
    others = []
    for one in runs:
        if one.name != parcel.name and (reason := _unlisted(one)):
            say(f"Left out of the card: {reason}")
        elif one.name != parcel.name:
            others.append(one)
    for lost in broken:
        if lost.name != parcel.name:
            say(f"Left out of the card: {lost.reason}")
    return others


def _refuse_foreign(state: State, readme: str, readable: bool) -> None:
    """A repository is ours by the marks in its card; without any card, by a run that can be read."""
    held = set(state.files) - KEPT
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
