"""The steps that every published repository shares: compare, refuse, create, commit, tag."""

import difflib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TextIO

from swapbias.errors import HubError, UsageError
from swapbias.hub import header
from swapbias.hub.client import Commit, Hub, Repo, State
from swapbias.hub.files import KEPT, Change, difference
from swapbias.privacy import Files, gate as outgoing

CARD = "README.md"
TEXTS = (".css", ".csv", ".html", ".json", ".md", ".py", ".txt", ".yaml")
LONGEST = 200_000  # bytes of a text that is shown
Say = Callable[[str], None]


def show_change(change: Change, there: Collection[str], card: bytes, say: Say) -> None:
    """Say every path that would be added (A), modified (M) or deleted (D) with its size, then the card's difference.

    Args:
        change: what would be committed.
        there: paths that are in the repository.
        card: the card that is in the repository, empty if there is none.
        say: gets one line after the other; what comes from the Hub has no control characters left.
    """
    _show_paths(change, there, say)
    if CARD in change.write:
        _show_difference(card, change.write[CARD], say)


def show_texts(change: Change, there: Collection[str], read: Callable[[str], bytes], say: Say) -> None:
    """``show_change`` with the difference of every text, the card first; ``read`` gives a file that is there."""
    _show_paths(change, there, say)
    texts = [path for path in change.write if PurePosixPath(path).suffix in TEXTS]
    for path in sorted(texts, key=lambda path: (path != CARD, path)):
        if _size(change.write[path]) > LONGEST:
            say(f"  {path} is too long to show")
            continue
        say(f"  {path}:")
        _show_difference(read(path) if path in there else b"", change.write[path], say)


def _show_paths(change: Change, there: Collection[str], say: Say) -> None:
    for path, content in sorted(change.write.items()):
        say(f"  {'M' if path in there else 'A'} {path} ({_size(content):,} bytes)")
    for path in sorted(change.delete):
        say(f"  D {printable(path)}")


def _show_difference(old: bytes, new: bytes | Path, say: Say) -> None:
    before, after = (
        content.decode(errors="replace").splitlines()
        for content in (old, new if isinstance(new, bytes) else new.read_bytes())
    )
    for line in difflib.unified_diff(before, after, "there", "new", lineterm="", n=2):
        say(f"  {printable(line)}")


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def printable(text: str) -> str:
    """A stranger's text without control characters."""
    return "".join(one if one.isprintable() or one == "\t" else "�" for one in text)


def prepare_output() -> None:
    """Let a terminal that cannot show a letter show ``?`` in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(line: str) -> None:
    """A line of the result."""
    _write(sys.stdout, line)


def complain(script: str, sentence: object) -> None:
    """A sentence of trouble, on one line after the script's name."""
    _write(sys.stderr, f"{script}: {' '.join(str(sentence).split())}")


def _write(stream: TextIO, line: str) -> None:
    """A line now; once nobody reads any more, lines go nowhere and the work goes on."""
    try:
        stream.write(f"{line}\n")
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # what is still to be flushed at the end would fail as well
        os.close(nowhere)


MARK = "swapbias"  # the key in a card's header that only a push writes
_TEMPLATE = {*KEPT, CARD, "index.html", "style.css"}  # of a new static Space
_TEMPLATE_TEXT = "Check out the configuration reference at"  # all that the card of a new Space says
_VERSION = re.compile(r"v(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_SIZE = re.compile(rb"download_size: \d+")  # in a card: of the Parquet files


def signed(files: Files, repo: Repo, tag: str) -> dict[str, bytes | Path]:
    """The files with the mark of a push in their card's header: kind, name and version.

    Raises:
        ValueError: there is no card, or its header has the key already.
    """
    if CARD not in files:
        raise ValueError(f"{repo.name}: there is no {CARD} to publish. Write one.")
    parts = header.split(header.decode(_bytes(files[CARD]), CARD))
    if MARK in header.load(parts.header, CARD):
        raise ValueError(f"{repo.name}: the header of its {CARD} has the key {MARK!r}, which a push writes. Drop it.")
    mark = header.dump({MARK: {**_expected(repo), "version": tag.removeprefix("v")}})
    if not parts.has_header:
        return {**files, CARD: f"---\n{mark}---\n{parts.text}".encode()}
    return {**files, CARD: f"{parts.before}{parts.header}{mark}{parts.after}".encode()}


def _expected(repo: Repo) -> dict[str, str]:
    return {"kind": repo.kind, "name": repo.name.rpartition("/")[2]}


def is_new(hub: Hub, state: State) -> bool:
    """Whether it holds nothing but what the Hub itself puts into a new repository."""
    held = set(state.files)
    if held <= KEPT:
        return not state.tags
    if state.repo.kind != "space" or not held <= _TEMPLATE or state.tags or len(hub.commits(state.repo)) > 1:
        return False
    parts = header.split(card(hub, state).decode(errors="replace"))
    if "sdk: static" not in parts.header.splitlines():
        return False
    body = parts.after.partition("\n")[2].strip()
    return not body or (body.startswith(_TEMPLATE_TEXT) and "\n" not in body)


def card(hub: Hub, state: State) -> bytes:
    """The card that is there, empty where there is none."""
    return hub.read(state.repo, CARD, revision=state.commit) if CARD in state.files else b""


def check_visibility(state: State, *, private: bool) -> None:
    """What was asked to be private is.

    Raises:
        UsageError: the repository is public.
    """
    if private and not state.private:
        raise UsageError(
            f"{state.repo.name} is public, and a push does not change that. Make it private on the Hub, or drop "
            "--private."
        )


def check_ours(hub: Hub, state: State) -> None:
    """A repository of the same name that is something else is not overwritten.

    Raises:
        UsageError: no push made it.
    """
    if is_new(hub, state):
        return
    what = "has no mark of a push in its header" if CARD in state.files else "is missing"
    try:
        found = header.load(header.split(header.decode(card(hub, state), CARD)).header, CARD).get(MARK)
    except ValueError:
        found, what = None, "cannot be read"
    if not isinstance(found, dict) or {**found, **_expected(state.repo)} != found:
        raise UsageError(
            f"{state.repo.name} holds something else: its {CARD} {what}. Choose another --namespace, or rename that "
            "repository."
        )


def check_newest(state: State, *, tag: str, raise_hint: str) -> None:
    """An old version is not put on top of a newer one.

    Raises:
        UsageError: there is a newer version.
    """
    ours = _version(tag)
    newer = max((name for name in state.tags if ours and (_version(name) or ours) > ours), key=_version, default="")
    if newer:
        raise UsageError(
            f"{state.repo.name} has {newer}, which is newer than {tag} here. Update this checkout, or {raise_hint}."
        )


def _version(tag: str) -> tuple[int, ...]:
    """The numbers of a version, none where a tag is something else."""
    found = _VERSION.fullmatch(tag)
    return tuple(map(int, found.groups())) if found else ()


def check_cut(hub: Hub, state: State, files: Files, change: Change, *, message: str, raise_hint: str) -> None:
    """After a push that was cut before its tag: what was changed there since is not undone.

    Raises:
        UsageError: this version was committed, and the branch holds something else now.
    """
    if not change or message not in hub.commits(state.repo):
        return
    _check_pyarrow(hub, state, files)
    raise UsageError(
        f"{state.repo.name} holds something else than {message!r}, which was pushed before: one of them was changed "
        f"since. Revert it, or {raise_hint}."
    )


def check_published(hub: Hub, state: State, files: Files, change: Change, *, tag: str, raise_hint: str) -> None:
    """A tag that is there holds exactly these files, and so does the branch.

    Raises:
        UsageError: one of them does not.
    """
    if not change and state.tags[tag] == state.commit:
        return
    then = hub.state(state.repo, revision=tag)
    if then is None or difference(then, files):
        if then is not None:
            _check_pyarrow(hub, then, files)
        raise UsageError(f"{state.repo.name}: {tag} is published with other content; {raise_hint}.")
    if change:
        raise UsageError(
            f"{state.repo.name} holds something else than its {tag}, which is what would be pushed: it was changed "
            f"there. Revert it there, or {raise_hint}."
        )


def _check_pyarrow(hub: Hub, state: State, files: Files) -> None:
    """Tell the same rows in other bytes from other rows: those need no new version.

    Raises:
        UsageError: the rows are the same.
    """
    told = {**files, CARD: _SIZE.sub(b"", _bytes(files[CARD]))}
    there = replace(state, files={**state.files, CARD: ""})
    change = difference(there, told)
    tables = [path for path in change.write if path.endswith(".parquet")]
    if change.delete or not tables or set(change.write) != {*tables, CARD} or not set(tables) <= set(state.files):
        return
    if _SIZE.sub(b"", card(hub, state)) == told[CARD] and _same_rows(hub, state, files, tables):
        raise UsageError(
            f"{state.repo.name} holds the same rows, but another pyarrow wrote them here. Install with "
            "constraints.txt and push again."
        )


def _same_rows(hub: Hub, state: State, files: Files, paths: list[str]) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as scratch:
        there = Path(scratch, "there")
        try:
            hub.download(state.repo, there, revision=state.commit, only=tuple(paths))
            for number, path in enumerate(paths):
                here = Path(scratch, f"{number}.parquet")
                here.write_bytes(_bytes(files[path]))
                if not pq.read_table(there / path).equals(pq.read_table(here)):
                    return False
        except (HubError, pa.ArrowInvalid, OSError):
            return False
    return True


def _bytes(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


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
