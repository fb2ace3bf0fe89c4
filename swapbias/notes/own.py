"""A user's own labelled notes as note rows: one file, or a folder with a training and a test file."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.files import SUFFIXES
from swapbias.notes.rows import GENDERS, NOTE_COLUMNS, SPLITS, named_rows, shown_cell
from swapbias.privacy import is_credentialed

REQUIRED = ("text", "label")
# hadm_id is a column of MIMIC: rows that carry it are taken to be made from it.
OPTIONAL = (
    "note_id", "subject_id", "gender", "phenotype", "split", "note_type", "template", "planted", "credentialed",
    "hadm_id",
)  # fmt: skip
_LABELS = {
    **dict.fromkeys(("1", "1.0", "positive", "true", "yes"), "positive"),
    **dict.fromkeys(("0", "0.0", "negative", "false", "no"), "negative"),
}
_TRUTH = {"true": "True", "1": "True", "false": "False", "0": "False", "": "False"}


def own_files(path: Path) -> list[tuple[Path, str]]:
    """The files of notes with the split that their name says (blank for a single file); empty without any."""
    if path.is_file():
        return [(path, "")] if path.name.lower().endswith(SUFFIXES) else []
    names = [(path / f"{split}{suffix}", split) for split in SPLITS for suffix in SUFFIXES]
    return [(file, split) for file, split in names if file.is_file()]


def own_notes(path: Path, *, labelled: bool = True) -> list[dict[str, str]]:
    """Note rows of a ``.csv``, ``.csv.gz``, ``.jsonl`` or ``.parquet`` file, or of a folder's train and test.

    Columns (in any case): ``text`` and ``label`` (1/0, positive/negative, true/false; may be missing where notes need
    not be ``labelled``), and optionally
    ``gender`` (F/M, female/male; blank where it is not known), ``phenotype`` (else ``own``), ``split`` (else
    what the file's name says, else ``test``), ``note_id`` (else numbered), ``subject_id`` (else the note_id),
    ``note_type`` and ``credentialed`` (else False). Rows that come from MIMIC (``privacy.why_credentialed``) are
    credentialed whatever that column says.

    Raises:
        UsageError: no file of notes there.
        ValueError: naming file, row, column, value and what is wanted.
    """
    files = own_files(path)
    if not files:
        raise UsageError(f"{path}: no notes, expected a file ending in {', '.join(SUFFIXES)}, or a folder with train "
                         "and test files of that kind. Give one of them.")  # fmt: skip
    rows = [row for file, split in files for row in _file_rows(file, split, labelled)]
    if not rows:
        raise ValueError(f"{path.name}: no rows, expected at least one note. Add notes.")
    _check_ids(path, rows)
    return rows


def _file_rows(file: Path, split: str, labelled: bool) -> Iterator[dict[str, str]]:
    credentialed = is_credentialed(file)
    columns = (REQUIRED, OPTIONAL) if labelled else (REQUIRED[:1], (*REQUIRED[1:], *OPTIONAL))
    for number, row in enumerate(named_rows(file, columns[0], optional=columns[1]), start=1):
        where = f"{file.name}: row {number}"
        if not row["text"].strip():
            raise ValueError(f"{where}, column 'text': blank, expected a note. Fill it in or drop the row.")
        note_id = row.get("note_id", "").strip() or (f"{split}-{number}" if split else str(number))
        found = {
            "note_id": note_id,
            "subject_id": row.get("subject_id", "").strip() or note_id,
            "gender": _one_of(GENDERS | {"": ""}, row.get("gender", ""), where, "gender", "F, M, female or male"),
            "phenotype": row.get("phenotype", "").strip() or "own",
            "label": _one_of(
                _LABELS if labelled else {**_LABELS, "": ""},
                row.get("label", ""),
                where,
                "label",
                "1, 0, positive, negative, true or false",
            ),
            "split": _split(row, split, where),
            "note_type": row.get("note_type", ""),
            "template": row.get("template", ""),
            "planted": row.get("planted", ""),
            "credentialed": "True" if credentialed else _credentialed(row, where),
            "text": row["text"],
        }
        yield {name: found[name] for name in NOTE_COLUMNS}


def _one_of(known: Mapping[str, str], value: str, where: str, column: str, wanted: str) -> str:
    found = known.get(value.strip().lower())
    if found is None:
        raise ValueError(f"{where}, column {column!r}: {shown_cell(value)}, expected {wanted}. Fix the cell.")
    return found


def _split(row: Mapping[str, str], split: str, where: str) -> str:
    if "split" not in row:
        return split or "test"
    return _one_of({name: name for name in SPLITS}, row["split"], where, "split", "train or test")


def _credentialed(row: Mapping[str, str], where: str) -> str:
    if "hadm_id" in row:
        return "True"
    return _one_of(_TRUTH, row.get("credentialed", ""), where, "credentialed", "true or false")


def _check_ids(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    """Note ids are unique within a phenotype, and no subject of one is in both splits."""
    seen: dict[tuple[str, str], int] = {}
    splits: dict[tuple[str, str], tuple[str, int]] = {}
    for number, row in enumerate(rows, start=1):
        key = row["phenotype"], row["note_id"]
        if key in seen:
            both = f"rows {seen[key]} and {number}"
            raise ValueError(f"{path.name}: {both} have one note_id within a phenotype, expected two. Rename one.")
        seen[key] = number
        split, first = splits.setdefault((row["phenotype"], row["subject_id"]), (row["split"], number))
        if split != row["split"]:
            both = f"rows {first} and {number}"
            raise ValueError(f"{path.name}: {both} have one subject_id, in train and test, expected one of them. "
                             "Move its notes to one split.")  # fmt: skip
