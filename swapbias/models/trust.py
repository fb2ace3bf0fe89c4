"""Code in models: pickles and Python functions run what their maker put in them, so neither runs unasked."""

import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.models.scorer import Say

PICKLES = (".joblib", ".kv", ".pkl")


@dataclass(frozen=True, slots=True)
class Code:
    """What loading a model would run.

    Attributes:
        name: the file, or ``module:function``.
        pickle: whether it is a pickle; else a Python function.
        sha256: of what would be read or imported; None where that has no file.
    """

    name: str
    pickle: bool
    sha256: str | None


def is_pickle(path: Path) -> bool:
    """Whether a file is of a format that runs code when it is read (told by its name, as loading tells it)."""
    return path.name.lower().endswith(PICKLES)


def check_pickle(path: Path, *, allowed: bool, say: Say | None = None) -> None:
    """Called before any model file is read: a pickle is refused unless it is allowed, and announced where it is.

    Raises:
        UsageError: the file is a pickle, and pickles are not allowed.
    """
    if not is_pickle(path):
        return
    told = f"{path.name} is a pickle: reading it runs what its maker put in it."
    if not allowed:
        safe = "in word2vec format (.bin, .txt)" if path.name.lower().endswith(".kv") else "as .skops"
        raise UsageError(
            f"{told} Save it {safe}, or allow it if you trust who made it (-M allow-pickle; of train --allow-pickle)."
        )
    if say:
        say(told)


def module_file(module: str) -> Path | None:
    """The file that importing a module would run, found without importing anything; None where there is none."""
    here = str(Path.cwd())
    folders = list(sys.path) if {"", here} & set(sys.path) else [here, *sys.path]  # as it will be when it is imported
    found = None
    for part in module.split("."):  # importlib.util.find_spec would import the packages around it
        found = PathFinder.find_spec(part, folders)
        if found is None:
            return None
        folders = list(found.submodule_search_locations or ())
    source = Path(found.origin) if found and found.origin else None
    return source if source and source.is_file() else None
