"""The steps that every published repository shares: compare, refuse, create, commit, tag.

A push is one commit and one tag ``vX.Y.Z``. What a tag holds never changes: other content needs a new version.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swapbias import outgoing
from swapbias.errors import HubError, UsageError
from swapbias.hub import Change, Commit, Hub, Repo, State, difference
from swapbias.outgoing import Files
from swapbias.publishing.previewing import show_change

CARD = "README.md"
Say = Callable[[str], None]
# What the Hub itself puts into a new repository; a new Space comes with a page that says so.
_OF_THE_HUB = {
    "dataset": {".gitattributes"},
    "model": {".gitattributes"},
    "space": {".gitattributes", CARD, "index.html", "style.css"},
}


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did, or would do.

    Attributes:
        repo: where.
        status: ``created``, ``updated``, ``tagged`` (the content was there, the tag was not) or ``unchanged``; in a
            dry run ``would be created`` and so on.
        commit: the commit that holds the content; blank where a dry run would make one.
        tag: the tag of the version.
        change: what was or would be written and deleted.
    """

    repo: Repo
    status: str
    commit: str
    tag: str
    change: Change


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
) -> Pushed:
    """Bring a repository to ``files`` in one commit, tagged ``tag``; what is there already is not pushed again.

    A push that was cut between commit and tag is completed by the next one. With ``dry_run`` nothing is created:
    ``say`` gets every path with its size, and the difference of the card. ``raise_hint`` says how a version is
    raised.

    Raises:
        UsageError: the tag is published with other content, the repository is somebody's own, or is public where a
            private one was asked for; or a file must not leave this machine.
        HubError: the Hub refused, or could not be reached.
    """
    outgoing.check(files)
    state = hub.state(repo)
    if state is not None:
        _check_visibility(state, private=private)
        _check_ours(hub, state)
    change = difference(state, files)
    tagged = state.tags.get(tag, "") if state else ""
    if state and tagged:
        _check_published(hub, state, files, change, tag=tag, raise_hint=raise_hint)
        return Pushed(repo, "unchanged", tagged, tag, change)
    if dry_run:
        return _would_push(hub, repo, state, change, tag, say)
    if state and not change:
        hub.tag(repo, tag, commit=state.commit)
        return Pushed(repo, "tagged", state.commit, tag, change)
    new = state is None or _is_new(state)
    made, change = _commit(hub, repo, state, files, message=message, private=private, sdk=sdk)
    hub.tag(repo, tag, commit=made.commit)
    return Pushed(repo, "created" if new else "updated", made.commit, tag, change)


def _commit(
    hub: Hub, repo: Repo, state: State | None, files: Files, *, message: str, private: bool, sdk: str | None
) -> tuple[Commit, Change]:
    """One commit on the state that was looked at: a commit of somebody else in between makes the Hub refuse it."""
    if state is None:
        hub.create(repo, private=private, sdk=sdk)
        state = hub.state(repo)  # the Hub puts files of its own into a new repository
        if state is None:
            raise HubError(f"{repo.name} was created but cannot be seen. Run the push again.")
        _check_visibility(state, private=private)
    change = difference(state, files)
    return hub.commit(repo, change, message, parent=state.commit), change


def _is_new(state: State) -> bool:
    return set(state.files) <= _OF_THE_HUB[state.repo.kind] and not state.tags


def _card(hub: Hub, state: State) -> bytes:
    return hub.read(state.repo, CARD, revision=state.commit) if CARD in state.files else b""


def _check_visibility(state: State, *, private: bool) -> None:
    if private and not state.private:
        raise UsageError(
            f"{state.repo.name} is public, and a push does not change that. Make it private on the Hub, or drop "
            "--private."
        )


def _check_ours(hub: Hub, state: State) -> None:
    """A repository of the same name that is something else is not overwritten."""
    if not _is_new(state) and b"swapbias" not in _card(hub, state).lower():
        raise UsageError(
            f"{state.repo.name} holds something else: its {CARD} does not name swapbias. Choose another --namespace, "
            "or rename that repository."
        )


def _check_published(hub: Hub, state: State, files: Files, change: Change, *, tag: str, raise_hint: str) -> None:
    """A tag that is there holds exactly these files, and so does the branch."""
    if not change and state.tags[tag] == state.commit:
        return
    then = hub.state(state.repo, revision=tag)
    if then is None or difference(then, files):
        raise UsageError(f"{state.repo.name}: {tag} is published with other content; {raise_hint}.")
    if change:
        raise UsageError(
            f"{state.repo.name} holds something else than its {tag}, which is what would be pushed: it was changed "
            f"there, or has a newer version. Revert it there, or {raise_hint}."
        )


def _would_push(hub: Hub, repo: Repo, state: State | None, change: Change, tag: str, say: Say) -> Pushed:
    if state and not change:
        return Pushed(repo, "would be tagged", state.commit, tag, change)
    show_change(change, state.files if state else (), _card(hub, state) if state else b"", say)
    new = state is None or _is_new(state)
    return Pushed(repo, "would be created" if new else "would be updated", "", tag, change)


def check_namespace(hub: Hub, namespace: str) -> None:
    """Know before the work starts that the token may write there.

    Raises:
        UsageError: it may not, naming where it may.
        HubError: there is no token, or it is refused.
    """
    owners = hub.owners()
    if namespace not in owners:
        raise UsageError(f"The token may not write to {namespace!r}, expected one of {', '.join(owners)}.")


def push_each(names: Iterable[str], push: Callable[[str], Pushed], *, say: Say, complain: Say) -> int:
    """Push one after the other; trouble with one is a sentence to ``complain``, and the others go on.

    Returns:
        The exit code: 0, 1 where one of them failed, 130 where the user stopped it.
    """
    done: list[Pushed] = []
    failed: list[str] = []
    for name in names:
        try:
            pushed = push(name)
        except KeyboardInterrupt:
            complain(f"stopped at {name}. What was pushed stays: run it again to go on.")
            return 130
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            complain(f"{name}: {where}{error.strerror or error}. Check the place and its free space.")
        except ValueError as error:
            complain(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001 - the last resort before a traceback
            complain(f"{name}: {type(error).__name__}: {error}. This is a fault of swapbias.")
        else:
            done.append(pushed)
            at = f" at {pushed.commit[:12]}" if pushed.commit else ""
            say(f"{pushed.repo.name}: {pushed.status}, {pushed.tag}{at}")
            continue
        failed.append(name)
    changed = sum(one.status != "unchanged" for one in done)
    what = "would change" if any(one.status.startswith("would") for one in done) else "changed"
    say(f"{len(done)} done, {changed} of them {what}; {len(failed)} failed.")
    if failed:
        complain(f"failed: {', '.join(failed)}")
    return 1 if failed else 0
