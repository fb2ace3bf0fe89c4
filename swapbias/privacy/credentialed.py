"""Credentialed clinical text: what tells it, and how everything that would publish or send it refuses.

PhysioNet lets nobody share such text or what is derived from it with third parties or with services on the network.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.files import parse_json
from swapbias.privacy.redact import own_data

FILE = "CREDENTIALED"  # stands in every folder that holds such text or anything made from it
NOTE = (
    "**Credentialed clinical data: this folder and what is made from it must not be published, shared or sent to any "
    "service.**"
)


def mark(folder: Path) -> None:
    """Say in a folder that it holds credentialed text."""
    (folder / FILE).write_text(f"{NOTE.strip('*')}\n", encoding="utf-8")


def is_credentialed(path: Path) -> bool:
    """Whether a folder (run, built corpus, swapped files), or one above it, is marked or says so itself."""
    place = path.resolve()
    for folder in (place, *place.parents):
        if (folder / FILE).exists() or _said(folder / "manifest.json") or _said(folder / "swap.json"):
            return True
    return any(is_mimic_name(one.name) for one in (place, *_inside(place), *_inside(place / "note")))


def is_mimic_name(path: str) -> bool:
    """Whether a file has the name of a table of MIMIC's notes (MIMIC-III, MIMIC-IV-Note)."""
    return Path(path).name.lower().removesuffix(".gz") in ("noteevents.csv", "discharge.csv", "radiology.csv")


def _inside(folder: Path) -> tuple[Path, ...]:
    return tuple(folder.iterdir()) if folder.is_dir() else ()


def _said(file: Path) -> bool:
    try:
        read = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(read, dict) and bool(read.get("credentialed"))


def refuse(path: Path, action: str, *, known: bool = False) -> None:
    """Stop before credentialed text is published or sent; ``known`` where what was read of the path has said so.

    Raises:
        UsageError: the path holds or comes from credentialed text.
    """
    if known or is_credentialed(path):
        raise UsageError(
            f"{path} holds credentialed clinical data, which must not be {action}. Keep it on this machine."
        )


def texts_stay(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Why the scored prompts of a run stay on this machine, as the end of a sentence; blank where they may leave.

    What they are made of tells it: credentialed notes, or notes of the user's own, which are private.
    """
    if is_credentialed(folder) or manifest.get("credentialed"):
        return "they are made of credentialed clinical data"
    if own_data(manifest):
        return "they are made of notes of your own; look at the names of phenotypes before you hand the findings on"
    return ""
