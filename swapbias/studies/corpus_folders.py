"""Corpora by name: those of the package and of other distributions, each with a builder and a folder of tables."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from swapbias.registry import PACKAGE, Registry

_DATA = "datasets_src"  # the folder of a distribution in which those of its corpora lie


@cache
def _built_in() -> Mapping[str, str]:
    """Every corpus of the package by name, with the object that its builder makes."""
    builders = Path(str(files(f"{PACKAGE}.builders"))).glob("[!_]*.py")
    return {path.stem: f"{PACKAGE}.builders.{path.stem}:CORPUS" for path in sorted(builders)}


@cache
def _package_tables() -> Path:
    """Return the folder of the tables of the package's corpora."""
    return Path(str(files(f"{PACKAGE}.{_DATA}")))


CORPORA = Registry("swapbias.corpora", "corpus", _built_in)


def corpora() -> list[str]:
    """Return the names of all corpora: those of the package, then those of other distributions."""
    return [*CORPORA.names()]


def corpus_dir(corpus: str) -> Path:
    """Return the folder of a corpus' tables; it exists in a checkout and in an installed wheel alike.

    Args:
        corpus: its name. That of another distribution has its folder in ``datasets_src`` of the package of its
            builder: ``pets/datasets_src/cats`` where the entry point is ``cats = pets.builders.cats:CORPUS``.
    """
    package = CORPORA.place(corpus).partition(".")[0].partition(":")[0]
    if not package:
        return _package_tables() / corpus
    spec = find_spec(package)  # which runs none of its code
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations or ()), package)) / _DATA / corpus
