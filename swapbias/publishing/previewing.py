"""What a commit would change, as lines to read: paths with sizes, and the card as a difference of texts."""

import difflib
from collections.abc import Callable, Collection

from swapbias.hub import Change

CARD = "README.md"


def show_change(change: Change, there: Collection[str], card: bytes, say: Callable[[str], None]) -> None:
    """Say every path that would be added (A), modified (M) or deleted (D) with its size, then the card's difference.

    Args:
        change: what would be committed.
        there: paths that are in the repository.
        card: the card that is in the repository, empty if there is none.
        say: gets one line after the other; what comes from the Hub has no control characters left.
    """
    for path, content in sorted(change.write.items()):
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        say(f"  {'M' if path in there else 'A'} {path} ({size:,} bytes)")
    for path in sorted(change.delete):
        say(f"  D {_printable(path)}")
    if CARD not in change.write:
        return
    new = change.write[CARD]
    text = (new if isinstance(new, bytes) else new.read_bytes()).decode()
    old = card.decode(errors="replace")
    for line in difflib.unified_diff(old.splitlines(), text.splitlines(), "there", "new", lineterm="", n=2):
        say(f"  {_printable(line)}")


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\t" else "�" for one in text)
