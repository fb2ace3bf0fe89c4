"""Comparisons of two groups, a file for each, with the name that experiments give as their ``measure``."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapbias.registry import Registry

if TYPE_CHECKING:
    from swapbias.measures.comparison import Comparison

_HERE = Path(__file__)
# Else all files lie in one folder, as beside a metric on the Hub.
_IS_FOLDER = _HERE.stem == "__init__"


@cache
def _built_in() -> Mapping[str, str]:
    """Return the import paths of the package's own, by the names of their files; none is imported."""
    prefix = "" if _IS_FOLDER else f"{_HERE.stem}_"
    names = sorted(
        path.stem.removeprefix(prefix) for path in _HERE.parent.glob(f"{prefix}[!_]*.py")
    )
    start = f"{__name__}." if _IS_FOLDER else f"{__name__}_"
    return {name: f"{start}{name}:COMPARISON" for name in names}


def _check(name: str, loaded: Any) -> None:
    """Refuse an object from outside that is no comparison of this name."""
    from swapbias.measures.comparison import Comparison

    if not isinstance(loaded, Comparison):
        raise TypeError("it is no swapbias.measures.Comparison")
    if loaded.name != name:
        raise ValueError(f"it has the name {loaded.name!r}, expected that of its entry point")


COMPARISONS = Registry("swapbias.measures", "measure", _built_in, _check)


def is_comparison(measure: str) -> bool:
    """Tell whether findings of a measure are gaps between two groups, as an experiment compares them.

    Args:
        measure: its name.
    """
    return measure in COMPARISONS


def comparison_of(measure: str) -> "Comparison | None":
    """Return the comparison that an experiment names as its ``measure``; None where it compares no groups.

    Args:
        measure: its name; blank: no groups are compared.

    Raises:
        UsageError: there is none of that name, or it does not load.
    """
    if not measure:
        return None
    comparison: Comparison = _own(measure) if measure in _built_in() else COMPARISONS.load(measure)
    return comparison


@cache
def _own(measure: str) -> "Comparison":
    """Return a comparison of the package; it is looked up for every finding."""
    comparison: Comparison = COMPARISONS.load(measure)
    return comparison
