"""Read the notes of a folder or file, MIMIC's or a user's own, and those of an audit."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

from swapbias import swapping
from swapbias.errors import UsageError, listed, unknown_name
from swapbias.files import SUFFIXES
from swapbias.models.clinical import NoteOptions
from swapbias.notes.annotations import labelled_notes
from swapbias.notes.audit_notes import Notes
from swapbias.notes.augmentation import NEITHER, with_genders
from swapbias.notes.diagnosis_codes import coded_notes
from swapbias.notes.mimic import find_table, mimic3_notes, mimic4_notes
from swapbias.notes.note_rows import (
    GENDERS,
    NAME,
    NOTE_COLUMNS,
    OWN,
    PHENOTYPES,
    SPLITS,
    named_rows,
    published_sizes,
    quote_cell,
)
from swapbias.notes.subject_split import split_notes
from swapbias.privacy import is_credentialed
from swapbias.studies import column, config_rows
from swapbias.swapping import genders

MIMIC3 = "mimic3"
MIMIC4 = "mimic4"
TABLES = ("resolved", "paper", "published")
"""The words that are swapped in notes: by context, as the paper lists them, or as its code does."""
_TEST_SHARE = 3  # one subject in so many, where own notes name no split
_REQUIRED_COLUMNS = ("text", "label")
# hadm_id is a column of MIMIC: rows that have it are taken to be made from it.
_OPTIONAL_COLUMNS = (*(name for name in NOTE_COLUMNS if name not in _REQUIRED_COLUMNS), "hadm_id")
_LABEL_VALUES = {
    **dict.fromkeys(("1", "1.0", "positive", "true", "yes"), "positive"),
    **dict.fromkeys(("0", "0.0", "negative", "false", "no"), "negative"),
}
_FLAG_VALUES = {"true": "True", "1": "True", "false": "False", "0": "False", "": "False"}
# By column: the values that a cell of own notes may have, in lower case, and their names in an error.
_CELL_VALUES: Mapping[str, tuple[Mapping[str, str], str]] = {
    "gender": (
        # A note of neither is left out and counted; where a cell is blank, the text shows the gender.
        {**dict.fromkeys(genders.NEITHER_WORDS, NEITHER), **GENDERS, "": ""},
        "F, M, female or male",
    ),
    "label": (_LABEL_VALUES, "1, 0, positive, negative, true or false"),
    "split": ({name: name for name in SPLITS}, "train or test"),
    "credentialed": (_FLAG_VALUES, "true or false"),
}


def kind_of_folder(folder: "str | PathLike[str]") -> str:
    """Return the kind of notes that a folder or file holds, by the names of the files.

    Args:
        folder: folder of a MIMIC, or a folder or file of own notes.

    Returns:
        ``mimic3``, ``mimic4`` or ``own``.

    Raises:
        UsageError: there are no notes, or one file of MIMIC is given in place of its folder.
    """
    folder = Path(folder)
    if folder.is_dir():
        if find_table(folder, "noteevents") and find_table(folder, "patients"):
            return MIMIC3
        if find_table(folder, "discharge"):
            return MIMIC4
    elif folder.name.lower().split(".")[0] in ("noteevents", "discharge", "patients"):
        raise UsageError(
            f"{folder} is one file of MIMIC, expected its folder. Give the folder that contains it."
        )
    if own_files(folder):
        return OWN
    if not folder.exists():
        raise UsageError(f"{folder} does not exist. Give the file or folder of your notes.")
    raise UsageError(
        f"{folder}: no clinical notes. Looked for NOTEEVENTS.csv and PATIENTS.csv (MIMIC-III), discharge.csv "
        f"(MIMIC-IV-Note), a file ending in {listed(SUFFIXES)}, or train and test files of that kind. "
        "Give a folder or file like that."
    )


def stream_notes(folder: "str | PathLike[str]") -> Iterator[dict[str, str]]:
    """Yield every note of a MIMIC folder, one at a time: memory does not grow with the files.

    Args:
        folder: folder of MIMIC-III or MIMIC-IV-Note.

    Returns:
        Rows of ``STREAM_COLUMNS``: gender is blank where the patient is not known, credentialed is ``True``. Notes
        of MIMIC-III that are marked as an error are left out.

    Raises:
        UsageError: no MIMIC folder.
        ValueError: a missing column, or a file that is no readable CSV.
    """
    tables = note_tables(folder)
    if kind_of_folder(folder) == MIMIC3:
        return (note for note, _ in mimic3_notes(*tables))
    return mimic4_notes(*tables)


def note_tables(folder: "str | PathLike[str]") -> list[Path]:
    """Return the tables of a MIMIC folder that ``stream_notes`` reads.

    Args:
        folder: folder of MIMIC-III or MIMIC-IV-Note.

    Returns:
        Paths: the table of notes, then that of patients where there is one.

    Raises:
        UsageError: no MIMIC folder.
    """
    notes = "noteevents" if kind_of_folder(folder) == MIMIC3 else "discharge"
    return _existing_tables(Path(folder), notes, "patients")


def local_notes(
    folder: "str | PathLike[str]", *, seed: int = 0, labelled: bool = True
) -> list[dict[str, str]]:
    """Return labelled note rows of whatever a folder or file holds.

    Args:
        folder: folder of a MIMIC, or a folder or file of own notes.
        seed: seed of the split of a MIMIC by subject.
        labelled: whether own notes need labels.

    Returns:
        Rows of ``NOTE_COLUMNS``; of MIMIC for the four phenotypes. Notes of MIMIC-III have the labels of their
        annotations, those of MIMIC-IV the codes of their admission.

    Raises:
        UsageError: nothing of the kind there, or notes without labels.
        ValueError: a broken file.
    """
    (rows,) = _local_splits(Path(folder), [seed], labelled=labelled)
    return rows


def _local_splits(
    folder: Path, seeds: Sequence[int], *, labelled: bool
) -> list[list[dict[str, str]]]:
    """Return the labelled note rows of a folder or file, those of a MIMIC once for each seed; it is read once."""
    kind = kind_of_folder(folder)
    if kind == OWN:
        return [own_notes(folder, labelled=labelled)]
    if kind == MIMIC3:
        return labelled_notes(
            folder, *_existing_tables(folder, "noteevents", "patients"), seeds=seeds
        )
    return coded_notes(folder, seeds=seeds)


def _existing_tables(folder: Path, *names: str) -> list[Path]:
    """Return the paths of those of these tables that a folder has."""
    tables = (find_table(folder, name) for name in names)
    return [table for table in tables if table is not None]


# --- own notes --------------------------------------------------------------------------------------------


def own_files(path: Path) -> list[tuple[Path, str]]:
    """Return the files of own notes with the split that their name says, blank for a single file.

    Args:
        path: a folder or file of own notes.
    """
    if path.is_file():
        return [(path, "")] if path.name.lower().endswith(SUFFIXES) else []
    names = [(path / f"{split}{suffix}", split) for split in SPLITS for suffix in SUFFIXES]
    return [(file, split) for file, split in names if file.is_file()]


def own_notes(path: Path, *, labelled: bool = True) -> list[dict[str, str]]:
    """Return the note rows of a user's own file, or of a folder's train and test files.

    Columns (in any case): ``text`` and ``label`` (1/0, positive/negative, true/false; may be missing unless
    ``labelled``), and optionally ``gender`` (F/M, female/male; blank where the text shows it; X, other or unknown:
    no gender is known), ``phenotype`` (else ``own``), ``split`` (else what the file's name says, else ``test``),
    ``note_id`` (else numbered), ``subject_id`` (else the note_id), ``note_type`` and ``credentialed`` (else False).
    Rows that come from MIMIC (``privacy.why_credentialed``) are credentialed whatever that column says.

    Args:
        path: a ``.csv``, ``.csv.gz``, ``.jsonl`` or ``.parquet`` file, or a folder of such files.
        labelled: whether the notes need labels.

    Returns:
        Rows of ``NOTE_COLUMNS``.

    Raises:
        ValueError: a broken row. It names file, row, column, value and what is wanted.
    """
    rows = [row for file, split in own_files(path) for row in _file_rows(file, split, labelled)]
    if not rows:
        raise ValueError(f"{path.name}: no rows, expected at least one note. Add notes.")
    _check_ids(path, rows)
    return rows


def _file_rows(file: Path, split: str, labelled: bool) -> Iterator[dict[str, str]]:
    """Yield the note rows of one file of own notes."""
    is_of_mimic = is_credentialed(file)
    required: Sequence[str] = _REQUIRED_COLUMNS if labelled else ("text",)
    optional: Sequence[str] = _OPTIONAL_COLUMNS if labelled else ("label", *_OPTIONAL_COLUMNS)
    for number, row in enumerate(named_rows(file, required, optional=optional), start=1):
        if not row["text"].strip():
            raise ValueError(
                f"{file.name}: row {number}, column 'text': blank, expected a note. "
                "Fill it in or drop the row."
            )
        note = _fill_note(row, number, split)
        if is_of_mimic or "hadm_id" in row:
            note["credentialed"] = "True"
        for column_name in _CELL_VALUES:
            value = _read_cell(column_name, note[column_name], labelled)
            if value is None:
                _, expected = _CELL_VALUES[column_name]
                raise ValueError(
                    f"{file.name}: row {number}, column {column_name!r}: "
                    f"{quote_cell(note[column_name])}, expected {expected}. Fix the cell."
                )
            note[column_name] = value
        yield {name: note[name] for name in NOTE_COLUMNS}


def _fill_note(row: Mapping[str, str], number: int, split: str) -> dict[str, str]:
    """Return a row with what it has no value for; ``split`` is that of its file, blank for a single file."""
    default_id = f"{split}-{number}" if split else str(number)
    note_id = row.get("note_id", "").strip() or default_id
    return {
        **dict.fromkeys(NOTE_COLUMNS, ""),
        "split": split or "test",
        **row,
        "note_id": note_id,
        "subject_id": row.get("subject_id", "").strip() or note_id,
        "phenotype": " ".join(row.get("phenotype", "").split()) or OWN,
    }


def _read_cell(column_name: str, value: str, labelled: bool) -> str | None:
    """Return the value of a cell as note rows have it; None for one that the column does not take."""
    values, _ = _CELL_VALUES[column_name]
    cell = value.strip().lower()
    if column_name == "label" and not labelled and not cell:
        return ""
    return values.get(cell)


def _check_ids(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    """Refuse, with a ValueError, a note id twice in a phenotype, and a subject of one in both splits."""
    first_of_note: dict[tuple[str, str], int] = {}
    first_of_subject: dict[tuple[str, str, str], int] = {}
    for number, row in enumerate(rows, start=1):
        note = (row["phenotype"], row["note_id"])
        if note in first_of_note:
            raise ValueError(
                f"{path.name}: rows {first_of_note[note]} and {number} have one note_id within a phenotype, "
                "expected two. Rename one."
            )
        for split in SPLITS:
            subject = (row["phenotype"], row["subject_id"], split)
            if split != row["split"] and subject in first_of_subject:
                raise ValueError(
                    f"{path.name}: rows {first_of_subject[subject]} and {number} have one subject_id, in train "
                    "and test, expected one of them. Move its notes to one split."
                )
        first_of_note[note] = number
        first_of_subject.setdefault((row["phenotype"], row["subject_id"], row["split"]), number)


# --- the notes of an audit --------------------------------------------------------------------------------


def load_notes(
    settings: NoteOptions,
    seed: int,
    corpus: str = NAME,
    *,
    trains: bool | None = None,
    labelled: bool = True,
) -> Notes:
    """Return the notes to audit with, of several splits those of the first.

    Args:
        settings: name the user's notes, if any, and how they are used.
        seed: as in ``load_splits``.
        corpus: as in ``load_splits``.
        trains: as in ``load_splits``.
        labelled: as in ``load_splits``.

    Returns:
        The notes with the swapper that makes their other versions.

    Raises:
        UsageError: nothing in the folder that can be read or tested.
        ValueError: broken notes.
    """
    return load_splits(settings, seed, corpus, trains=trains, labelled=labelled)[0]


def load_splits(
    settings: NoteOptions,
    seed: int,
    corpus: str = NAME,
    *,
    trains: bool | None = None,
    labelled: bool = True,
) -> tuple[Notes, ...]:
    """Return the notes to audit with in each of their splits, every one with its gender where the text shows it.

    Args:
        settings: name the user's notes, if any, how they are used, and the number of splits.
        seed: seed of the first split; each further one has the next number.
        corpus: the corpus whose notes are read where the user names none.
        trains: whether a classifier is trained on them; None: as the settings say. Own notes without a split are
            then divided, and else all tested.
        labelled: whether own notes need labels.

    Returns:
        One where no classifier is trained, or where the settings ask for one split.

    Raises:
        UsageError: nothing in the folder that can be read or tested, or several splits of notes that have one.
        ValueError: broken notes.
    """
    swapper = swapper_of(settings.table)
    if trains is None:
        trains = settings.trains
    seeds = range(seed, seed + (settings.splits if trains else 1))
    names = [str(split) for split in seeds] if len(seeds) > 1 else [""]
    if settings.data is None:
        rows = [
            row for phenotype in PHENOTYPES for row in config_rows(corpus, f"{phenotype}-original")
        ]
        known_swaps = _known_swaps(corpus) if settings.table == "resolved" else {}
        splits = [rows] if len(seeds) == 1 else [_split_anew(rows, split) for split in seeds]
        return tuple(
            Notes(
                "synthetic", tuple(of_split), swapper, settings.plausible, known_swaps, split=name
            )
            for of_split, name in zip(splits, names, strict=True)
        )
    splits = _splits_of_folder(Path(settings.data), seeds, trains=trains, labelled=labelled)
    return tuple(
        Notes(
            kind_of_folder(settings.data),
            tuple(of_split),
            swapper,
            settings.plausible,
            max_doubt=settings.max_doubt,
            split=name,
        )
        for of_split, name in zip(splits, names, strict=True)
    )


def _splits_of_folder(
    folder: Path, seeds: Sequence[int], *, trains: bool, labelled: bool
) -> list[list[dict[str, str]]]:
    """Return the note rows of a folder or file for each seed, with their genders and a split."""
    reader = swapping.Swapper(whose="patient")
    splits = [
        with_genders(rows, reader) for rows in _local_splits(folder, seeds, labelled=labelled)
    ]
    if is_credentialed(folder):
        splits = [[{**row, "credentialed": "True"} for row in rows] for rows in splits]
    rows = splits[0]
    has_no_split = trains and not _has_split(rows, "train")
    if has_no_split:
        splits = [_split_by_subject(rows, seed) for seed in seeds]
    if len(splits) < len(seeds):
        raise UsageError(
            f"Several splits, and the notes of {folder.name} name theirs. Leave the column split out."
        )
    if not _has_split(splits[0], "test"):
        raise UsageError(
            f"None of the {len(rows)} notes has the split test. Mark some in the column split, or leave that column "
            "out: then all are tested."
        )
    return splits


def swapper_of(table: str) -> "swapping.Swapper":
    """Return what makes the other versions of notes.

    Args:
        table: the words that are swapped, a name of ``TABLES``.

    Raises:
        UsageError: no such table.
    """
    if table not in TABLES:
        raise unknown_name("table of notes", table, TABLES)
    if table == "published":
        return swapping.PublishedSwapper()
    return swapping.Swapper(table, whose="patient")


def _has_split(rows: Sequence[Mapping[str, str]], split: str) -> bool:
    return any(row["split"] == split for row in rows)


def _known_swaps(corpus: str) -> dict[str, str]:
    """Return the texts of a corpus of notes with what they are in the other gender."""
    pair_texts = list(column(config_rows(corpus, "pairs"), "text"))
    originals = [*_training_texts(corpus, "original"), *pair_texts[::2]]
    swapped = [*_training_texts(corpus, "swapped"), *pair_texts[1::2]]
    return dict(zip(originals, swapped, strict=True))


def _training_texts(corpus: str, regime: str) -> list[str]:
    texts = []
    for phenotype in PHENOTYPES:
        rows = config_rows(corpus, f"{phenotype}-{regime}")
        texts += [row["text"] for row in rows if row["split"] == "train"]
    return texts


def _split_anew(rows: Sequence[Mapping[str, str]], seed: int) -> list[dict[str, str]]:
    """Return the notes of a corpus in another split by subject, of the sizes of the published study."""
    notes = []
    for phenotype in PHENOTYPES:
        of_phenotype = [row for row in rows if row["phenotype"] == phenotype]
        notes += split_notes(of_phenotype, published_sizes(phenotype), seed=f"{seed}/{phenotype}")
    return notes


def _split_by_subject(rows: Sequence[dict[str, str]], seed: int) -> list[dict[str, str]]:
    """Return own notes without a split with a third of the subjects for testing, drawn by the seed."""
    subjects = sorted({row["subject_id"] for row in rows})
    random.Random(f"{seed}/split").shuffle(subjects)
    tested = set(subjects[::_TEST_SHARE])
    return [{**row, "split": "test" if row["subject_id"] in tested else "train"} for row in rows]
