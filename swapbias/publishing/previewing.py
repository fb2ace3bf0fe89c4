"""What a commit would change, as lines to read: paths with sizes, and texts as differences."""

import difflib
from collections.abc import Callable, Collection
from pathlib import Path, PurePosixPath

from swapbias.hub import Change

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
