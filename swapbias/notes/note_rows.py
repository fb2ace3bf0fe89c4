"""Rows of clinical notes: their columns, the published numbers of notes, and tables on disk read as rows."""

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
STREAM_COLUMNS = (
    "note_id", "subject_id", "hadm_id", "note_type", "charttime", "gender", "credentialed", "text",
)  # fmt: skip
Cell = tuple[str, str]  # gender and label
_BATCH = 1_000  # rows that are read at once
_LONGEST_QUOTED = 3  # characters


def quote_cell(value: str) -> str:
    """Return a cell as an error may show it: what is longer than a flag may be a note, a name or an id.

    >>> quote_cell("x"), quote_cell("Jane Roe")
    ("'x'", '8 characters')

    Args:
        value: the value of the cell.

    Returns:
        A short value in quotes, of a longer one the number of characters.
    """
    return repr(value) if len(value) <= _LONGEST_QUOTED else f"{len(value)} characters"


def named_rows(
    path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """Yield the rows of a file in bounded memory as strings.

    Args:
        path: a table of a format that swapping reads. Values of CSV come back as written and may hold newlines.
        columns: names that the file must have, matched ignoring case.
        optional: names of columns that are read where the file has them.

    Yields:
        Each row by these names; null becomes blank.

    Raises:
        ValueError: a column is missing or a row cannot be read. It names the file and never holds text of a note.
    """
    source = swapping.read_files([path])
    present = {name.strip().lower(): name for name in source.schema.names}
    for name in columns:
        if name.lower() not in present:
            header = tables.shown_names(source.schema.names)
            raise ValueError(f"{path.name}:1: no column {name!r}, found {header}. Add the column.")
    names = [name for name in (*columns, *optional) if name.lower() in present]
    for batch, _ in source.read(_BATCH):
        try:
            cells = [batch.column(present[name.lower()]).to_pylist() for name in names]
        except UnicodeDecodeError:
            raise ValueError(
                f"{path.name} contains text that is not UTF-8. Save it as UTF-8, or fetch it again."
            ) from None
        for row in zip(*cells, strict=True):
            texts = ("" if cell is None else str(cell) for cell in row)
            yield dict(zip(names, texts, strict=True))


def published_sizes(phenotype: str) -> dict[str, dict[Cell, int]]:
    """Return the numbers of notes in the published study (Sogancioglu et al. 2023, Table II).

    Args:
        phenotype: a name of ``PHENOTYPES``.

    Returns:
        Numbers of notes by split and by gender and label.

    Raises:
        UsageError: no such phenotype.
    """
    if phenotype not in PHENOTYPES:
        raise UsageError(f"Unknown phenotype {phenotype!r}: expected one of {listed(PHENOTYPES)}.")
    sizes: dict[str, dict[Cell, int]] = {split: {} for split in SPLITS}
    columns = ("phenotype", "split", "gender", "label", "notes", "source")
    for row in read_table(corpus_dir(NAME) / "split_sizes.csv", columns):
        if row["phenotype"] == phenotype:
            sizes[row["split"]][row["gender"], row["label"]] = int(row["notes"])
    return sizes
