"""What a clinical note row holds, how many the published study had, and tables of notes on disk read as rows."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from swapbias import swapping
from swapbias.errors import UsageError, listed
from swapbias.studies import corpus_dir, read_table, tables

NAME = "clinical_notes"
NOTE_COLUMNS = (
    "note_id", "subject_id", "gender", "phenotype", "label", "split",
    "note_type", "template", "planted", "credentialed", "text",
)  # fmt: skip
PHENOTYPES = ("depression", "alcohol_abuse", "substance_abuse", "psychiatric_disorders")
GENDERS = {"f": "female", "m": "male", "female": "female", "male": "male"}
SPLITS = ("train", "test")
OWN = "own"  # notes of a user, and their phenotype where no column names one
# Sizes are in this order, as the paper prints them.
CELLS = (("female", "positive"), ("male", "positive"), ("female", "negative"), ("male", "negative"))
Cell = tuple[str, str]
_BATCH = 1_000  # rows that are read at once
_LONGEST_SHOWN = 3  # characters


def shown_cell(value: str) -> str:
    """A cell in an error: what is longer than a flag may be a note, a name or an id, and is not repeated.

    >>> shown_cell("x"), shown_cell("Jane Roe")
    ("'x'", '8 characters')
    """
    return repr(value) if len(value) <= _LONGEST_SHOWN else f"{len(value)} characters"


def named_rows(
    path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """Rows of a file in bounded memory as strings, with the columns that are named; null becomes blank.

    Names of columns are matched ignoring case. Values of CSV come back as written and may hold newlines.
    ValueError: naming the file and the missing column or unreadable row; never text of a note.
    """
    source = swapping.read_files([path])
    present = {name.strip().lower(): name for name in source.schema.names}
    if missing := [name for name in columns if name.lower() not in present]:
        shown = tables.shown_names(source.schema.names)
        raise ValueError(f"{path.name}:1: no column {missing[0]!r}, found {shown}. Add the column.")
    names = {
        name: present[name.lower()] for name in (*columns, *optional) if name.lower() in present
    }
    for batch, _ in source.read(_BATCH):
        try:
            cells = [batch.column(name).to_pylist() for name in names.values()]
        except UnicodeDecodeError:
            raise ValueError(
                f"{path.name} holds text that is not UTF-8. Save it as UTF-8, or fetch it again."
            ) from None
        for row in zip(*cells, strict=True):
            yield {
                name: "" if cell is None else str(cell)
                for name, cell in zip(names, row, strict=True)
            }


def published_sizes(phenotype: str) -> dict[str, dict[Cell, int]]:
    """Notes of each split and (gender, label) in the published study (Sogancioglu et al. 2023, Table II)."""
    if phenotype not in PHENOTYPES:
        raise UsageError(f"Unknown phenotype {phenotype!r}: expected one of {listed(PHENOTYPES)}.")
    sizes: dict[str, dict[Cell, int]] = {split: {} for split in SPLITS}
    columns = ("phenotype", "split", "gender", "label", "notes", "source")
    for row in read_table(corpus_dir(NAME) / "split_sizes.csv", columns):
        if row["phenotype"] == phenotype:
            sizes[row["split"]][row["gender"], row["label"]] = int(row["notes"])
    return sizes


STREAM_COLUMNS = (
    "note_id", "subject_id", "hadm_id", "note_type", "charttime", "gender", "credentialed", "text",
)  # fmt: skip
