"""Notes of MIMIC-IV labelled by the diagnosis codes of their admission, where nobody has annotated them."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.notes.annotated import find_table, genders_of, split_notes
from swapbias.notes.rows import NAME, NOTE_COLUMNS, PHENOTYPES, named_rows, published_sizes
from swapbias.studies import corpus_dir, read_table

DIAGNOSES = "diagnoses_icd"


@cache
def _prefixes() -> dict[str, dict[str, tuple[str, ...]]]:
    """Beginnings of the codes by version (``9``, ``10``) and phenotype."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in read_table(corpus_dir(NAME) / "diagnosis_codes.csv", ("phenotype", "version", "prefix", "source")):
        of = found.setdefault(row["version"], {})
        of[row["phenotype"]] = (*of.get(row["phenotype"], ()), row["prefix"])
    return found


@cache
def coded(code: str, version: str) -> frozenset[str]:
    """The phenotypes that a code of ICD-9-CM or ICD-10-CM stands for, after Quan et al. (2005).

    >>> sorted(coded("F32.9", "10")), sorted(coded("30390", "9")), sorted(coded("I10", "10"))
    (['depression'], ['alcohol_abuse'], [])
    """
    plain = code.strip().upper().replace(".", "")
    lists = _prefixes().get(version.strip(), {})
    return frozenset(name for name, prefixes in lists.items() if plain.startswith(prefixes))


def _of_admissions(diagnoses: Path) -> dict[str, frozenset[str]]:
    """The phenotypes of each admission that has any code; most have none of the four."""
    found: dict[str, frozenset[str]] = {}
    for row in named_rows(diagnoses, ("hadm_id", "icd_code", "icd_version")):
        mine = coded(row["icd_code"], row["icd_version"])
        before = found.get(row["hadm_id"])
        if before is None or not mine <= before:
            found[row["hadm_id"]] = mine | (before or frozenset())
    return found


def coded_notes(folder: Path, *, seed: int = 0) -> list[dict[str, str]]:
    """Note rows of the discharge summaries of MIMIC-IV, for the four phenotypes, split by subject.

    A note is positive for a phenotype where its admission has a code of it, negative where its admission has codes
    and none of any of the four; in the published sizes as far as the notes go. Codes are billed, not read from the
    note: they miss what was not billed. Memory holds the notes that are chosen, and of the others their ids.

    Raises:
        UsageError: no ``diagnoses_icd.csv`` or ``patients.csv`` in the folder. ValueError: a broken file, or no
            admission of the notes in it.
    """
    tables = {name: find_table(folder, name) for name in ("discharge", DIAGNOSES, "patients")}
    missing = [name for name, path in tables.items() if path is None]
    if missing:
        raise UsageError(
            f"{folder}: no {' and no '.join(f'{name}.csv' for name in missing)}, which the labels of MIMIC-IV notes "
            "are made of (the hosp module of MIMIC-IV holds it). Put it there; swapping needs none."
        )
    discharge, diagnoses, patients = (path for path in tables.values() if path)
    labels, genders = _of_admissions(diagnoses), genders_of(patients)
    ids = [dict(row) for row in named_rows(discharge, ("note_id", "subject_id", "hadm_id", "note_type"))]
    if not any(row["hadm_id"] in labels for row in ids):
        raise ValueError(
            f"{diagnoses.name}: none of the admissions of {discharge.name} stands in it. Use files of one version."
        )
    chosen = [row for one in PHENOTYPES for row in _of_phenotype(one, ids, labels, genders, seed)]
    wanted = {row["note_id"] for row in chosen}
    texts = {
        row["note_id"]: row["text"] for row in named_rows(discharge, ("note_id", "text")) if row["note_id"] in wanted
    }
    return [{**row, "text": texts[row["note_id"]]} for row in chosen]


def _of_phenotype(
    phenotype: str,
    ids: list[dict[str, str]],
    labels: Mapping[str, frozenset[str]],
    genders: Mapping[str, str],
    seed: int,
) -> Iterator[dict[str, str]]:
    rows = []
    for one in ids:
        gender, found = genders.get(one["subject_id"], ""), labels.get(one["hadm_id"])
        if gender and found is not None and (phenotype in found or not found):
            label = "positive" if phenotype in found else "negative"
            row = {**one, "gender": gender, "phenotype": phenotype, "label": label, "credentialed": "True"}
            rows.append({name: row.get(name, "").strip() for name in NOTE_COLUMNS})
    yield from split_notes(rows, published_sizes(phenotype), seed=f"{seed}/{phenotype}")
