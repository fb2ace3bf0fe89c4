"""Whether a push may write to a repository: whose it is, which versions it has, and what they hold."""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

from swapbias.cards import header
from swapbias.errors import HubError, UsageError
from swapbias.hub import Change, Hub, Repo, State, difference
from swapbias.hub.files import KEPT
from swapbias.outgoing import Files

CARD = "README.md"
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
