"""A change in a model's repository: committed by its owner, or as a pull request that is opened once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from swapbias.errors import HubError
from swapbias.hub import Change, Hub, PullRequest, Repo, State, difference
from swapbias.sharing.model_files import Files, Make

TITLE = "Add the results of a swapbias bias audit"
COMMIT, PULL_REQUEST = "commit", "pull request"
_OPEN = ("open", "draft")


@dataclass(frozen=True, slots=True)
class Done:
    """What happened to a repository: a sentence's status, and the page to look at."""

    repo: Repo
    status: str
    url: str
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is to be done to a repository.

    Attributes:
        there: what the change is made from.
        change: nothing is done where it is empty.
        status: what will have been done, in a few words.
        page: to look at, where a commit has none of its own.
        revision: the branch that is written to; ``opens``: as a new pull request.
        note: what the user should know besides.
    """

    there: State
    change: Change
    status: str
    page: str
    revision: str = "main"
    opens: bool = False
    note: str = ""

    @property
    def would(self) -> str:
        """The status of a rehearsal."""
        if not self.change:
            return self.status + self.note
        what, _, done = self.status.rpartition(" ")
        return f"{what} would be {done}".lstrip() + self.note


@dataclass(frozen=True, slots=True)
class _Proposed:
    """An earlier pull request, where it stands, its content and what that would bring."""

    request: PullRequest
    there: State
    content: bytes
    brings: frozenset[Any]


def commit(hub: Hub, model: Repo, make: Make) -> Step:
    """Write to the model's repository itself; nothing where it holds all of it."""
    there = seen(hub, model)
    change = Change(difference(there, make.files(there, "")).write)
    return Step(there=there, change=change, status="updated" if change else "unchanged", page=hub.url(model))


def pull_request(hub: Hub, model: Repo, make: Make, *, again: bool) -> Step:
    """Open a pull request, or bring the one that is open up to date with the audit and with the main branch.

    What its owners closed, or took out after they had merged it, is proposed a second time only ``again``.
    """
    there = seen(hub, model)
    wanted = make.files(there, "")
    change = Change(difference(there, wanted).write)
    held = make.ours(_content(hub, there, make.path))
    adds = make.ours(wanted[make.path]) - held
    if not change or not adds:  # at most a date or an address differs: no reason to ask strangers for anything
        return Step(there=there, change=Change({}), status="unchanged", page=hub.url(model))
    earlier, lost, unreadable = _earlier(hub, there, make, held)
    note = "".join(f"; pull request {one.number} holds a file that cannot be read" for one in unreadable)
    for one in earlier:
        if one.request.status in _OPEN:
            return _up_to_date(hub, there, make, one, note)
    declined = "" if again else _declined(earlier, lost, adds, bool(held))
    if declined:
        return Step(there=there, change=Change({}), status=declined, page=hub.url(model), note=note)
    return Step(there=there, change=change, status="pull request opened", page=hub.url(model), opens=True, note=note)


def carry_out(hub: Hub, step: Step, *, description: str = "", never: Sequence[str]) -> Done:
    """Do it.

    Raises:
        UsageError: a file holds what must not leave. HubError: the Hub refused, or somebody wrote in between.
    """
    repo = step.there.repo
    if not step.change:
        return Done(repo, step.status + step.note, step.page, step.change)
    made = hub.commit(
        repo,
        step.change,
        TITLE,
        parent=step.there.commit,
        revision=step.revision,
        description=description if step.opens else "",
        create_pr=step.opens,
        never=never,
    )
    page = made.pull_request or (made.url if step.revision == "main" else step.page)
    return Done(repo, step.status + step.note, page, step.change)


def seen(hub: Hub, repo: Repo) -> State:
    """What a repository holds.

    Raises:
        HubError: it is not there.
    """
    state = hub.state(repo)
    if state is None:
        raise HubError(f"{repo.name} is not there, or the token may not see it. Check its name, or log in.")
    return state


def _up_to_date(hub: Hub, there: State, make: Make, one: _Proposed, note: str) -> Step:
    """The open pull request with what main holds now and ours; not what its branch began from."""
    files: Files = make.files(there, one.content.decode(errors="replace"))
    further = Change(difference(one.there, files).write)
    return Step(
        there=one.there,
        change=further,
        status=f"pull request {one.request.number} {'updated' if further else 'unchanged'}",
        page=_page(hub, there, one.request),
        revision=one.request.ref,
        note=note,
    )


def _declined(earlier: Sequence[_Proposed], lost: Sequence[PullRequest], adds: frozenset[Any], held: bool) -> str:
    """Why a thing is not proposed again; blank where nothing speaks against it."""
    for one in earlier:
        if one.request.status == "closed" and adds <= one.brings:
            return f"not proposed again: its owners closed pull request {one.request.number}"
        if one.request.status == "merged" and not held:
            return f"not proposed again: its owners took out what pull request {one.request.number} brought"
    return f"not proposed again: its owners closed pull request {lost[0].number}" if lost else ""


def _earlier(
    hub: Hub, there: State, make: Make, held: frozenset[Any]
) -> tuple[list[_Proposed], list[PullRequest], list[PullRequest]]:
    """The user's pull requests of this kind, newest first; those whose branch is gone; those that cannot be read.

    They are known by what they would bring, whatever their title is now.
    """
    found, lost, unreadable = [], [], []
    for one in hub.pull_requests(there.repo):
        state = _at(hub, there.repo, one)
        if state is None:
            lost += [one] if one.title == TITLE and one.status not in _OPEN else []
            continue
        if make.path not in state.files or state.files[make.path] == there.files.get(make.path):
            continue
        content = hub.read(state.repo, make.path, revision=state.commit)
        try:
            brings = make.ours(content) - held
        except ValueError:
            unreadable.append(one)
            continue
        if brings:
            found.append(_Proposed(one, state, content, brings))
    merged = frozenset().union(*(one.brings for one in found if one.request.status == "merged"))
    # A branch that began from an older main holds what was merged then, and proposes none of it.
    mine = [
        one
        for one in found
        if one.request.status == "merged" or one.request.title == TITLE or not one.brings <= merged
    ]
    return mine, lost, unreadable


def _content(hub: Hub, there: State, path: str) -> bytes:
    return hub.read(there.repo, path, revision=there.commit) if path in there.files else b""


def _at(hub: Hub, repo: Repo, one: PullRequest) -> State | None:
    try:
        return hub.state(repo, revision=one.ref)
    except HubError:  # the branch of a closed one may be gone
        if one.status in _OPEN:
            raise
        return None


def _page(hub: Hub, there: State, one: PullRequest) -> str:
    return f"{hub.url(there.repo)}/discussions/{one.number}"
