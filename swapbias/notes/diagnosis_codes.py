"""Notes of MIMIC-IV with labels by the diagnosis codes of their admissions."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.notes.mimic import find_table, read_genders
from swapbias.notes.note_rows import NAME, PHENOTYPES, named_rows
from swapbias.notes.subject_split import Labels, split_by_phenotype
from swapbias.studies import corpus_dir, read_table


@cache
def _code_prefixes() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return beginnings of the codes by version (``9``, ``10``) and phenotype."""
    prefixes: dict[str, dict[str, tuple[str, ...]]] = {}
    columns = ("phenotype", "version", "prefix", "source")
    for row in read_table(corpus_dir(NAME) / "diagnosis_codes.csv", columns):
        of_version = prefixes.setdefault(row["version"], {})
        before = of_version.get(row["phenotype"], ())
        of_version[row["phenotype"]] = (*before, row["prefix"])
    return prefixes


@cache
def phenotypes_of_code(code: str, version: str) -> frozenset[str]:
    """Return the phenotypes that a diagnosis code stands for, after Quan et al. (2005).

    >>> sorted(phenotypes_of_code("F32.9", "10")), sorted(phenotypes_of_code("I10", "10"))
    (['depression'], [])
    >>> sorted(phenotypes_of_code("30390", "9"))
    ['alcohol_abuse']

    Args:
        code: the code with or without a point.
        version: ``9`` for ICD-9-CM, ``10`` for ICD-10-CM.

    Returns:
        Names of ``PHENOTYPES``.
    """
    plain = code.strip().upper().replace(".", "")
    lists = _code_prefixes().get(version.strip(), {})
    return frozenset(name for name, prefixes in lists.items() if plain.startswith(prefixes))


def coded_notes(folder: Path, *, seeds: Sequence[int] = (0,)) -> list[list[dict[str, str]]]:
    """Return note rows of the discharge summaries of MIMIC-IV, for the four phenotypes, split by subject.

    A note is positive for a phenotype where its admission has a code of it, negative where its admission has codes
    and none of any of the four. Codes are billed, not read from the note: they miss what was not billed. Memory
    holds the chosen notes, and of the others their ids.

    Args:
        folder: folder of MIMIC-IV with its notes.
        seeds: the seed of each split.

    Returns:
        Rows of ``NOTE_COLUMNS`` for each split.

    Raises:
        UsageError: no ``diagnoses_icd.csv`` or ``patients.csv`` in the folder.
        ValueError: a broken file, or no admission of the notes in it.
    """
    tables = {name: find_table(folder, name) for name in ("discharge", "diagnoses_icd", "patients")}
    missing = [name for name, path in tables.items() if path is None]
    if missing:
        raise UsageError(
            f"{folder}: no {' and no '.join(f'{name}.csv' for name in missing)}, which the labels of MIMIC-IV notes "
            "are made of (the hosp module of MIMIC-IV contains it). Put it there; swapping needs none."
        )
    discharge, diagnoses, patients = (path for path in tables.values() if path)
    labels = _labels_of_admissions(diagnoses)
    genders = read_genders(patients)
    labelled = []
    for row in named_rows(discharge, ("note_id", "subject_id", "hadm_id", "note_type")):
        if row["hadm_id"] in labels:
            gender = genders.get(row["subject_id"], "")
            note = {**row, "gender": gender, "credentialed": "True"}
            labelled.append((note, labels[row["hadm_id"]]))
    if not labelled:
        raise ValueError(
            f"{diagnoses.name}: it has none of the admissions of {discharge.name}. Use files of one version."
        )
    splits = [split_by_phenotype(labelled, seed) for seed in seeds]
    chosen_ids = {row["note_id"] for rows in splits for row in rows}
    texts = {}
    for row in named_rows(discharge, ("note_id", "text")):
        if row["note_id"] in chosen_ids:
            texts[row["note_id"]] = row["text"]
    return [[{**row, "text": texts[row["note_id"]]} for row in rows] for rows in splits]


def _labels_of_admissions(diagnoses: Path) -> dict[str, Labels]:
    """Return the labels of each admission that has any code."""
    phenotypes: dict[str, frozenset[str]] = {}
    for row in named_rows(diagnoses, ("hadm_id", "icd_code", "icd_version")):
        coded = phenotypes_of_code(row["icd_code"], row["icd_version"])
        before = phenotypes.setdefault(row["hadm_id"], coded)
        if not coded <= before:
            phenotypes[row["hadm_id"]] = before | coded
    # Most admissions have a code of none of the four, and share one set of labels.
    negative = dict.fromkeys(PHENOTYPES, "negative")
    return {
        admission: dict.fromkeys(positive, "positive") or negative
        for admission, positive in phenotypes.items()
    }
