"""The steps that every published repository shares: compare, refuse, create, commit, tag.

A push is one commit and one tag ``vX.Y.Z``. What a tag holds never changes: other content needs a new version.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swapbias import outgoing
from swapbias.errors import HubError, UsageError
from swapbias.hub import Change, Commit, Hub, Repo, State, difference
from swapbias.outgoing import Files
from swapbias.publishing.ownership import (
    check_cut,
    check_newest,
    check_ours,
    check_published,
    check_visibility,
    is_new,
    signed,
)
from swapbias.publishing.previewing import printable, show_texts
from swapbias.publishing.telling import complain, prepare_output, say

Say = Callable[[str], None]


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
        private: only its owner sees it.
    """

    repo: Repo
    status: str
    commit: str
    tag: str
    change: Change
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
) -> Pushed:
    """Bring a repository to ``files`` in one commit, tagged ``tag``; what is there already is not pushed again.

    The card gets a mark in its header (see ``ownership.signed``), by which the next push knows the repository. A push
    that was cut between commit and tag is completed by the next one. With ``dry_run`` nothing is created: ``say``
    gets every path with its size, and the difference of every text. ``raise_hint`` says how a version is raised.

    Raises:
        UsageError: the tag is published with other content, a newer version is there, the repository is somebody's
            own, or is public where a private one was asked for; or a file must not leave this machine.
        HubError: the Hub refused, or could not be reached. ValueError: the files have no card.
    """
    files = signed(files, repo, tag)
    outgoing.check(files)
    state = hub.state(repo)
    if state is not None:
        check_visibility(state, private=private)
        check_ours(hub, state)
        check_newest(state, tag=tag, raise_hint=raise_hint)
    change = difference(state, files)
    hidden = state.private if state else private
    tagged = state.tags.get(tag, "") if state else ""
    if state and tagged:
        check_published(hub, state, files, change, tag=tag, raise_hint=raise_hint)
        return Pushed(repo, "unchanged", tagged, tag, change, hidden)
    if state:
        check_cut(hub, state, files, change, message=message, raise_hint=raise_hint)
    if dry_run:
        say(f"{repo.kind} {repo.name}: {'private' if hidden else 'public'}, tag {tag}, message {message!r}")
        return _would_push(hub, repo, state, change, tag, hidden, say)
    if state and not change:
        hub.tag(repo, tag, commit=state.commit)
        return Pushed(repo, "tagged", state.commit, tag, change, hidden)
    new = state is None or is_new(hub, state)
    made, change = _commit(hub, repo, state, files, message=message, private=private, sdk=sdk)
    for path in () if new else change.delete:
        say(f"  D {printable(path)}")
    hub.tag(repo, tag, commit=made.commit)
    return Pushed(repo, "created" if new else "updated", made.commit, tag, change, hidden)


def _commit(
    hub: Hub, repo: Repo, state: State | None, files: Files, *, message: str, private: bool, sdk: str | None
) -> tuple[Commit, Change]:
    """One commit on the state that was looked at: a commit of somebody else in between makes the Hub refuse it."""
    if state is None:
        hub.create(repo, private=private, sdk=sdk)
        state = hub.state(repo)  # the Hub puts files of its own into a new repository
        if state is None:
            raise HubError(f"{repo.name} was created but cannot be seen. Run the push again.")
        check_visibility(state, private=private)
        if not is_new(hub, state):
            raise HubError(f"{repo.name} was made by somebody else in between. Look at it, then run the push again.")
    change = difference(state, files)
    return hub.commit(repo, change, message, parent=state.commit), change


def _would_push(
    hub: Hub, repo: Repo, state: State | None, change: Change, tag: str, private: bool, say: Say
) -> Pushed:
    if state and not change:
        return Pushed(repo, "would be tagged", state.commit, tag, change, private)
    there = state.files if state else ()
    show_texts(change, there, lambda path: hub.read(repo, path, revision=state.commit if state else ""), say)
    new = state is None or is_new(hub, state)
    return Pushed(repo, "would be created" if new else "would be updated", "", tag, change, private)


def check_namespace(hub: Hub, namespace: str) -> None:
    """Know before the work starts that the token may write there.

    Raises:
        UsageError: it may not, naming where it may.
        HubError: there is no token, or it is refused.
    """
    owners = hub.owners()
    if namespace not in owners:
        raise UsageError(f"The token may not write to {namespace!r}, expected one of {', '.join(owners)}.")


def push_command(
    script: str, namespace: str, names: Callable[[], Iterable[str]], push: Callable[[Hub, str], Pushed]
) -> int:
    """What the push scripts do: check, push each, say so.

    Args:
        script: its name, before sentences of trouble.
        namespace: where to.
        names: gives what is to be pushed, each once; raises UsageError or ValueError for what cannot be.
        push: pushes one of them.

    Returns:
        The exit code: of ``push_each``, or 2 for what cannot be meant and 1 for a Hub that cannot be asked, before
        anything is pushed.
    """

    def trouble(sentence: object) -> None:
        complain(script, sentence)

    prepare_output()
    try:
        chosen = dict.fromkeys(names())
        hub = Hub()
        check_namespace(hub, namespace)
    except ValueError as error:
        trouble(error)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        trouble("stopped. Nothing was pushed.")
        return 130
    return push_each(chosen, lambda name: push(hub, name), say=say, complain=trouble)


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
            hidden = " (private)" if pushed.private else ""
            say(f"{pushed.repo.name}: {pushed.status}{hidden}, {pushed.tag}{at}")
            continue
        failed.append(name)
    changed = sum(one.status != "unchanged" for one in done)
    what = "would change" if any(one.status.startswith("would") for one in done) else "changed"
    say(f"{len(done)} done, {changed} of them {what}; {len(failed)} failed.")
    if failed:
        complain(f"failed: {', '.join(failed)}")
    return 1 if failed else 0
