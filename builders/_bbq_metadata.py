"""What the authors of bbq say of their lines beside them: names, and the target where groups are of two traits."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swapbias.studies import tables

METADATA = "additional_metadata.csv"
_FOLDERS = (".", "supplemental", "analysis_scripts")  # where repositories have it
_ABSENT = ("", "NA")
_COLUMNS = (
    "category", "question_index", "example_id", "target_loc", "label_type", "Known_stereotyped_race",
    "Known_stereotyped_var2", "full_cond",
)  # fmt: skip

Key = tuple[str, str, str]
"""Category, template and number of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a line's stereotype is about."""

    is_known: bool
    """Whether the authors know which person it is about."""
    is_named: bool
    """Whether proper names stand for groups."""
    races: tuple[str, ...]
    """Where it is about two traits, the races; else none."""
    other: str
    """Where it is about two traits, the other one: a gender or an income; else blank."""
    differs: str
    """Where it is about two traits, in which the two persons differ; else blank."""


def metadata_file(folder: Path) -> Path | None:
    """Find the authors' table for the data of a folder: in it, or where their repository has it; None: there is none.

    Args:
        folder: the folder of the data, or a checkout.
    """
    for base in (folder, folder.parent):
        for name in _FOLDERS:
            path = base / name / METADATA
            if path.is_file():
                return path
    return None


def read_targets(path: Path) -> dict[Key, Target]:
    """Read what each line's stereotype is about.

    Args:
        path: the table.

    Raises:
        ValueError: a column is missing.
    """
    targets: dict[Key, Target] = {}
    for row in tables.csv_rows(path):
        if missing := [name for name in _COLUMNS if name not in row]:
            raise ValueError(
                f"{path.name}: no column {', '.join(missing)}. Take the authors' file."
            )
        key = (row["category"], row["question_index"], row["example_id"])
        target = _target(row)
        # Some lines are there twice: one that names a target counts.
        if key not in targets or target.is_known:
            targets[key] = target
    return targets


def _target(row: Mapping[str, str]) -> Target:
    """Read what the stereotype of a line is about."""
    races = "" if row["Known_stereotyped_race"] in _ABSENT else row["Known_stereotyped_race"]
    other = "" if row["Known_stereotyped_var2"] in _ABSENT else row["Known_stereotyped_var2"]
    return Target(
        is_known=row["target_loc"] not in _ABSENT,
        is_named=row["label_type"] == "name",
        races=tuple(race.strip(" \"'[]") for race in races.split(",") if race),
        other=other.strip(),
        differs=_differing(row["full_cond"]) if other else "",
    )


def _differing(condition: str) -> str:
    """Say in which traits the persons of a condition differ: "Mismatch Race, Match Gender" is ``race differs``."""
    words = condition.replace("\\n", " ").split()
    pairs = zip(words[::2], words[1::2], strict=False)
    traits = [trait for match, trait in pairs if match == "Mismatch"]
    names = [trait if trait.isupper() else trait.lower() for trait in traits]
    if len(names) > 1:
        return f"{' and '.join(names)} differ"
    return f"{names[0]} differs" if names else "nothing differs"
