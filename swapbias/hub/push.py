"""Publish a repository: compare what is made with what is there, refuse, commit, tag."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from swapbias.errors import HubError, UsageError
from swapbias.hub import header
from swapbias.hub.client import HUB_FILES, Change, Hub, Repo, State, difference
from swapbias.privacy import Files, gate

CARD = "README.md"
MARK = "swapbias"  # the key in a card's header by which a push knows what it made
_TEMPLATE = {*HUB_FILES, CARD, "index.html", "style.css"}  # of a new static Space
_TEMPLATE_TEXT = "Check out the configuration reference at"  # all that the card of a new Space says
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did, or would do.

    Attributes:
        repo: where.
        status: ``created``, ``updated``, ``tagged`` (the content was there, the tag was not) or ``unchanged``; in a
            dry run ``would be created`` and so on.
        commit: the commit that holds the content; blank in a dry run.
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
        return Pushed(repo, "unchanged", state.tags[tag], tag, Change({}), hidden)
    change = difference(state, files)
    status = "created" if new else "updated" if change else "tagged"
    if dry_run:
        say(f"{repo.kind} {repo.name}: {'private' if hidden else 'public'}, tag {tag}, message {message!r}")
        show_change(hub, state, change, say)
        return Pushed(repo, f"would be {status}", "", tag, change, hidden)
    if state is None:
        hub.create(repo, private=private, sdk=sdk)
        state = hub.state(repo)  # the Hub puts files of its own into a new repository
        if state is None:
            raise HubError(f"{repo.name} was created but cannot be seen. Run the push again.")
        _checked(hub, state, private=private)  # somebody else may have made it in between
        change = difference(state, files)
    commit = hub.commit(repo, change, message, parent=state.commit).commit if change else state.commit
    for path in () if new else change.delete:
        say(f"  D {printable(path)}")
    hub.tag(repo, tag, commit=commit)
    return Pushed(repo, status, commit, tag, change, hidden)


def signed(files: Files, repo: Repo, tag: str) -> dict[str, bytes | Path]:
    """The files with the mark of a push in their card's header: kind, name and version.

    Raises:
        ValueError: there is no card, or its header cannot be added to.
    """
    if CARD not in files:
        raise ValueError(f"{repo.name}: there is no {CARD} to publish. Write one.")
    mark = {MARK: {**_identity(repo), "version": tag.removeprefix("v")}}
    readme = header.decode(_bytes(files[CARD]), CARD)
    return {**files, CARD: header.with_keys(readme, mark, where=CARD).encode()}


def _identity(repo: Repo) -> dict[str, str]:
    return {"kind": repo.kind, "name": repo.name.rpartition("/")[2]}


def _checked(hub: Hub, state: State, *, private: bool) -> bool:
    """Whether the repository is new.

    Raises:
        UsageError: it holds something that no push made, or is public and was to be private.
    """
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
        found = header.load(header.split(header.decode(readme, CARD)).header, CARD).get(MARK)
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
    held = set(state.files)
    if state.tags or held <= HUB_FILES:
        return not state.tags
    parts = header.split(readme.decode(errors="replace"))
    template = state.repo.kind == "space" and held <= _TEMPLATE and "sdk: static" in parts.header.splitlines()
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
