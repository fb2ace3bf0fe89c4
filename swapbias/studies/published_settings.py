"""Read under which conditions a paper measured its numbers: ``published_settings.csv`` of a corpus.

A line stands for an experiment: the configs with the paper's own wording, its word lists, and its threshold of words.
What differs between a run and the paper is computed of these, and never written by hand.
"""

from dataclasses import dataclass

from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.tables import read_table

SETTINGS_FILE = "published_settings.csv"
NOT_HERE = "-"
"""Stands for a word list of the paper that the package does not have."""
_COLUMNS = ("experiment", "configs", "words", "threshold")
_SEPARATOR = ";"


@dataclass(frozen=True, slots=True)
class PublishedSettings:
    """Prompts, words and threshold of a paper in an experiment."""

    experiment: str
    """The experiment of the study."""
    configs: tuple[str, ...] = ()
    """The configs with the paper's own wording; none: the package does not have it."""
    words: tuple[str, ...] = ()
    """Its word lists (CORPUS/LIST), or ``NOT_HERE``; none: no words are counted."""
    threshold: float | None = None
    """The least probability of a word that counts; None: no words are counted."""


def published_settings(study: str) -> dict[str, PublishedSettings]:
    """Read the settings of a study's paper by experiment; nothing where none are declared.

    Args:
        study: its name.

    Raises:
        ValueError: another header, or a threshold that is no number.
    """
    path = corpus_dir(study) / SETTINGS_FILE
    if not path.exists():
        return {}
    rows = read_table(path, _COLUMNS, optional={"configs", "words", "threshold"})
    return {row["experiment"]: _settings(row) for row in rows}


def _settings(row: dict[str, str]) -> PublishedSettings:
    """Return the settings of a row."""
    try:
        threshold = float(row["threshold"]) if row["threshold"] else None
    except ValueError:
        raise ValueError(
            f"{SETTINGS_FILE}: threshold {row['threshold']!r} of {row['experiment']}, "
            "expected a number. Fix the cell."
        ) from None
    return PublishedSettings(
        row["experiment"], _parts(row["configs"]), _parts(row["words"]), threshold
    )


def _parts(cell: str) -> tuple[str, ...]:
    """Return the parts of a cell."""
    return tuple(part.strip() for part in cell.split(_SEPARATOR) if part.strip())
