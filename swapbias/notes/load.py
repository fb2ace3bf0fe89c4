"""Which notes a folder or file holds, MIMIC's or a user's own, and the notes that an audit reads."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

from swapbias import swapping
from swapbias.errors import UsageError, listed
from swapbias.files import SUFFIXES
from swapbias.models.clinical import NoteOptions
from swapbias.notes.augmentation import Notes, with_genders
from swapbias.notes.mimic import coded_notes, find_table, labelled_notes, mimic3_notes, mimic4_notes
from swapbias.notes.note_rows import (
    GENDERS,
    NAME,
    NOTE_COLUMNS,
    OWN,
    PHENOTYPES,
    SPLITS,
    named_rows,
    shown_cell,
)
from swapbias.privacy import is_credentialed
from swapbias.studies import column, config_rows

MIMIC3 = "mimic3"
MIMIC4 = "mimic4"
_TEST_SHARE = 3  # one subject in so many, where own notes name no split
_REQUIRED = ("text", "label")
# hadm_id is a column of MIMIC: rows that have it are taken to be made from it.
_OPTIONAL = (*(name for name in NOTE_COLUMNS if name not in _REQUIRED), "hadm_id")
_CELLS = {  # what a cell of own notes may be, lower case, and what an error expects
    "gender": ({**GENDERS, "": ""}, "F, M, female or male"),
    "label": (
        {
            **dict.fromkeys(("1", "1.0", "positive", "true", "yes"), "positive"),
            **dict.fromkeys(("0", "0.0", "negative", "false", "no"), "negative"),
        },
        "1, 0, positive, negative, true or false",
    ),
    "split": ({name: name for name in SPLITS}, "train or test"),
    "credentialed": (
        {"true": "True", "1": "True", "false": "False", "0": "False", "": "False"},
        "true or false",
    ),
}


def kind_of_folder(folder: "str | PathLike[str]") -> str:
    """``mimic3``, ``mimic4`` or ``own``, by the names of the files; UsageError: none of them."""
    folder = Path(folder)
    if folder.is_dir():
        if find_table(folder, "noteevents") and find_table(folder, "patients"):
            return MIMIC3
        if find_table(folder, "discharge"):
            return MIMIC4
    elif folder.name.lower().split(".")[0] in ("noteevents", "discharge", "patients"):
        raise UsageError(
            f"{folder} is one file of MIMIC, expected its folder. Give the folder that holds it."
        )
    if _own_files(folder):
        return OWN
    raise UsageError(
        f"{folder}: no clinical notes. Looked for NOTEEVENTS.csv and PATIENTS.csv (MIMIC-III), discharge.csv "
        f"(MIMIC-IV-Note), a file ending in {listed(SUFFIXES)}, or train and test files of that kind. "
        "Give a folder or file like that."
    )


def stream_notes(folder: "str | PathLike[str]") -> Iterator[dict[str, str]]:
    """Every note of a MIMIC folder, one at a time: memory does not grow with the files.

    Keys: note_id, subject_id, hadm_id, note_type, charttime, gender (blank where the patient is not known),
    credentialed (``True``), text. Notes of MIMIC-III that are marked as an error are left out.
    UsageError: no MIMIC folder. ValueError: a missing column, or a file that is no readable CSV.
    """
    tables = note_tables(folder)
    if kind_of_folder(folder) == MIMIC3:
        return (note for note, _ in mimic3_notes(*tables))
    return mimic4_notes(*tables)


def note_tables(folder: "str | PathLike[str]") -> list[Path]:
    """The tables of a MIMIC folder that ``stream_notes`` reads; UsageError: no MIMIC folder."""
    notes = "noteevents" if kind_of_folder(folder) == MIMIC3 else "discharge"
    return _tables(Path(folder), notes, "patients")


def local_notes(
    folder: "str | PathLike[str]", *, seed: int = 0, labelled: bool = True
) -> list[dict[str, str]]:
    """Labelled note rows of whatever the folder or file holds; of MIMIC for the four phenotypes, split by subject.

    Notes of MIMIC-III have the labels of their annotations, those of MIMIC-IV the codes of their admission.
    UsageError: nothing of the kind there, or notes without labels. ValueError: a broken file.
    """
    folder = Path(folder)
    kind = kind_of_folder(folder)
    if kind == OWN:
        return own_notes(folder, labelled=labelled)
    if kind == MIMIC3:
        return labelled_notes(folder, *_tables(folder, "noteevents", "patients"), seed=seed)
    return coded_notes(folder, seed=seed)


def _tables(folder: Path, *names: str) -> list[Path]:
    return [path for name in names if (path := find_table(folder, name))]


# --- own notes --------------------------------------------------------------------------------------------


def _own_files(path: Path) -> list[tuple[Path, str]]:
    """The files of notes with the split that their name says (blank for a single file); empty without any."""
    if path.is_file():
        return [(path, "")] if path.name.lower().endswith(SUFFIXES) else []
    names = [(path / f"{split}{suffix}", split) for split in SPLITS for suffix in SUFFIXES]
    return [(file, split) for file, split in names if file.is_file()]


def own_notes(path: Path, *, labelled: bool = True) -> list[dict[str, str]]:
    """Note rows of a ``.csv``, ``.csv.gz``, ``.jsonl`` or ``.parquet`` file, or of a folder's train and test.

    Columns (in any case): ``text`` and ``label`` (1/0, positive/negative, true/false; may be missing unless
    ``labelled``), and optionally ``gender`` (F/M, female/male; blank where it is not known), ``phenotype`` (else
    ``own``), ``split`` (else what the file's name says, else ``test``), ``note_id`` (else numbered), ``subject_id``
    (else the note_id), ``note_type`` and ``credentialed`` (else False). Rows that come from MIMIC
    (``privacy.why_credentialed``) are credentialed whatever that column says.

    ValueError: naming file, row, column, value and what is wanted.
    """
    rows = [row for file, split in _own_files(path) for row in _file_rows(file, split, labelled)]
    if not rows:
        raise ValueError(f"{path.name}: no rows, expected at least one note. Add notes.")
    _check_ids(path, rows)
    return rows


def _file_rows(file: Path, split: str, labelled: bool) -> Iterator[dict[str, str]]:
    credentialed = is_credentialed(file)
    columns, optional = (_REQUIRED, _OPTIONAL) if labelled else (("text",), ("label", *_OPTIONAL))
    for number, row in enumerate(named_rows(file, columns, optional=optional), start=1):
        where = f"{file.name}: row {number}"
        if not row["text"].strip():
            raise ValueError(
                f"{where}, column 'text': blank, expected a note. Fill it in or drop the row."
            )
        note_id = row.get("note_id", "").strip() or (f"{split}-{number}" if split else str(number))
        found = {
            **dict.fromkeys(NOTE_COLUMNS, ""),
            "split": split or "test",
            **row,
            "note_id": note_id,
            "subject_id": row.get("subject_id", "").strip() or note_id,
            "phenotype": " ".join(row.get("phenotype", "").split()) or OWN,
        }
        if credentialed or "hadm_id" in row:
            found["credentialed"] = "True"
        for name, (known, wanted) in _CELLS.items():
            cell = found[name].strip().lower()
            if cell not in known and (cell or labelled or name != "label"):
                shown = shown_cell(found[name])
                raise ValueError(
                    f"{where}, column {name!r}: {shown}, expected {wanted}. Fix the cell."
                )
            found[name] = known.get(cell, "")
        yield {name: found[name] for name in NOTE_COLUMNS}


def _check_ids(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    """Note ids are unique within a phenotype, and no subject of one is in both splits."""
    first: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows, start=1):
        note, subject = ((row["phenotype"], name, row[name]) for name in ("note_id", "subject_id"))
        if note in first:
            both = f"rows {first[note]} and {number}"
            raise ValueError(
                f"{path.name}: {both} have one note_id within a phenotype, expected two. Rename one."
            )
        other = (*subject, *(split for split in SPLITS if split != row["split"]))
        if other in first:
            both = f"rows {first[other]} and {number}"
            raise ValueError(
                f"{path.name}: {both} have one subject_id, in train and test, expected one of them. "
                "Move its notes to one split."
            )
        first[note] = number
        first.setdefault((*subject, row["split"]), number)


# --- the notes of an audit --------------------------------------------------------------------------------


def load_notes(
    settings: NoteOptions,
    seed: int,
    corpus: str = NAME,
    *,
    trains: bool | None = None,
    labelled: bool = True,
) -> Notes:
    """The notes to audit with, every one with its gender where the text shows it.

    ``trains``: whether a classifier is trained on them (None: as the settings say). Own notes without a split are
    then divided, and else all tested. ``labelled``: whether own notes need labels.
    UsageError: nothing in the folder that can be read or tested. ValueError: broken notes.
    """
    swapper = swapping.Swapper(whose="patient")
    if settings.data is None:
        made = [row for one in PHENOTYPES for row in config_rows(corpus, f"{one}-original")]
        return Notes("synthetic", tuple(made), swapper, settings.plausible, _known_versions(corpus))
    folder = Path(settings.data)
    rows = with_genders(local_notes(folder, seed=seed, labelled=labelled), swapper)
    if is_credentialed(folder):
        rows = [{**row, "credentialed": "True"} for row in rows]
    if (settings.trains if trains is None else trains) and not any(
        row["split"] == "train" for row in rows
    ):
        rows = _split(rows, seed)
    if not any(row["split"] == "test" for row in rows):
        raise UsageError(
            f"None of the {len(rows)} notes has the split test. Mark some in the column split, or leave that column "
            "out: then all are tested."
        )
    return Notes(
        kind_of_folder(folder),
        tuple(rows),
        swapper,
        settings.plausible,
        max_doubt=settings.max_doubt,
    )


def _known_versions(corpus: str) -> dict[str, str]:
    """The texts of a corpus of notes and what they are in the other gender."""
    texts = []
    for version in ("original", "swapped"):
        rows = (
            row for phenotype in PHENOTYPES for row in config_rows(corpus, f"{phenotype}-{version}")
        )
        texts.append([row["text"] for row in rows if row["split"] == "train"])
    pairs = list(column(config_rows(corpus, "pairs"), "text"))
    return dict(zip([*texts[0], *pairs[::2]], [*texts[1], *pairs[1::2]], strict=True))


def _split(rows: Sequence[dict[str, str]], seed: int) -> list[dict[str, str]]:
    """Own notes without a split: a third of the subjects are for testing, drawn by the seed."""
    subjects = sorted({row["subject_id"] for row in rows})
    random.Random(f"{seed}/split").shuffle(subjects)
    tested = set(subjects[::_TEST_SHARE])
    return [{**row, "split": "test" if row["subject_id"] in tested else "train"} for row in rows]
