"""Made-up files in the shape of MIMIC-III and MIMIC-IV-Note, of any size; nothing in them is real."""

import csv
import gzip
import random
from dataclasses import dataclass

from swapbias.notes.rows import PHENOTYPES

NOTE_COLUMNS = (
    "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY", "DESCRIPTION", "CGID",
    "ISERROR", "TEXT",
)  # fmt: skip
PATIENT_COLUMNS = ("ROW_ID", "SUBJECT_ID", "GENDER", "DOB", "DOD", "DOD_HOSP", "DOD_SSN", "EXPIRE_FLAG")
ANNOTATION_COLUMNS = (
    "Hospital.Admission.ID", "subject.id", "chart.time", "cohort", "operator", "Obesity", "Depression",
    "Alcohol.Abuse", "Other.Substance.Abuse", "Schizophrenia.and.other.Psychiatric.Disorders", "None", "Unsure",
)  # fmt: skip
LINES = (
    'Pt states, "I feel fine", and {he} ate well.',
    "{He} was seen by the team; {his} labs, vitals and films were reviewed.", "Lungs clear, abdomen soft, no edema.",
    "Plan: follow up in clinic, repeat labs, call with questions.", "T 98.6, HR 80, BP 120/70, O2 sat 97%.",
)  # fmt: skip
WORDS = {"F": {"he": "she", "He": "She", "his": "her"}, "M": {"he": "he", "He": "He", "his": "his"}}
# Flags of each annotator (a word is a column set to 1), and what follows for depression and alcohol abuse.
CASES = (
    (("Depression",), ("Depression",), ("None",)),  # majority: depression
    (("Depression",), ("None",)),  # tie: depression
    (("Unsure", "Depression"), ("Unsure",), ("Depression",)),  # mostly unsure: left out
    (("None",), ("None",), ("Obesity",)),  # majority: nothing at all
    (("Obesity",), ("Obesity",)),  # something else: no row
    (("Alcohol.Abuse", "Depression"), ("Alcohol.Abuse",), ("Alcohol.Abuse",)),  # alcohol only: one of three
)
DEPRESSION = ("positive", "positive", "", "negative", "", "")
ALCOHOL = ("", "", "", "negative", "", "positive")


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: rows of notes, and planted labels by (phenotype, note_id)."""

    rows: int
    labels: dict[tuple[str, str], str]


def _opened(path, gz):
    return gzip.open(f"{path}.gz", "wt", newline="", compresslevel=1) if gz else open(path, "w", newline="")


def _text(rng, gender, lines=0):
    chosen = [rng.choice(LINES).format(**WORDS[gender]) for _ in range(lines or rng.randint(4, 60))]
    return "\n".join(["[**Hospital 1**]", *chosen])


def _gender(subject):
    return "FM"[subject % 2]


def _mimic3_rows(notes, seed, megabytes):
    """Notes of NOTEEVENTS: every third is a discharge summary, every eleventh is marked as an error."""
    rng = random.Random(f"mimic3/{seed}")
    size, number = 0, 0
    while (number < notes) if megabytes is None else (size < megabytes * 1e6):
        number += 1
        subject, discharge = number // 2, number % 3 == 0
        text = _text(rng, _gender(subject))
        size += len(text)
        date = f"21{number % 90 + 10}-03-{number % 28 + 1:02d}"
        yield {
            "ROW_ID": number, "SUBJECT_ID": subject, "HADM_ID": 100_000 + number, "CHARTDATE": date,
            "CHARTTIME": "" if discharge else f"{date} 07:30:00", "STORETIME": "",
            "CATEGORY": "Discharge summary" if discharge else "Nursing/other", "DESCRIPTION": "Report", "CGID": "",
            "ISERROR": "1" if number % 11 == 0 else "", "TEXT": text,
        }  # fmt: skip


def write_mimic3(folder, *, notes=200, seed=0, megabytes=None, gz=False, by_row=False):
    """NOTEEVENTS, PATIENTS and the annotations of every note; ``by_row`` names annotated notes by ROW_ID."""
    annotated, labels, rows = [], {}, 0
    with _opened(folder / "NOTEEVENTS.csv", gz) as handle:
        writer = csv.DictWriter(handle, NOTE_COLUMNS, quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        for row in _mimic3_rows(notes, seed, megabytes):
            writer.writerow(row)
            rows += 1
            if megabytes is None and not row["ISERROR"]:
                _annotate(row, annotated, labels)
    with _opened(folder / "PATIENTS.csv", gz) as handle:
        writer = csv.DictWriter(handle, PATIENT_COLUMNS, restval="")
        writer.writeheader()
        writer.writerows({"SUBJECT_ID": subject, "GENDER": _gender(subject)} for subject in range(rows // 2 + 1))
    if megabytes is None:
        _write_annotations(folder, annotated, by_row)
    return Written(rows=rows, labels=labels)


def _annotate(row, annotated, labels):
    case = row["ROW_ID"] % len(CASES)
    for phenotype, label in (("depression", DEPRESSION[case]), ("alcohol_abuse", ALCOHOL[case])):
        if label:
            labels[phenotype, str(row["ROW_ID"])] = label
    for operator, flags in enumerate(CASES[case]):
        facts = {
            "Hospital.Admission.ID": row["HADM_ID"], "subject.id": row["SUBJECT_ID"], "chart.time": row["CHARTTIME"],
            "cohort": "Discharge Summaries" if row["CATEGORY"].startswith("D") else "Nursing Notes",
            "operator": operator,
        }  # fmt: skip
        votes = {name: int(name in flags) for name in ANNOTATION_COLUMNS[5:]}
        annotated.append({"ROW_ID": row["ROW_ID"], **facts, **votes})


def _write_annotations(folder, annotated, by_row):
    columns = ("ROW_ID", *ANNOTATION_COLUMNS[5:]) if by_row else ANNOTATION_COLUMNS
    with (folder / "annotations.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(annotated)


# Of one admission in five each: its codes, and the phenotypes that they stand for, by hand from Quan et al. (2005).
CODES = ((("F329", 10), ("I10", 10)), (("30390", 9),), (("4019", 9), ("E119", 10)), (("F1120", 10), ("29570", 9)), ())
CODED = (("depression",), ("alcohol_abuse",), (), ("substance_abuse", "psychiatric_disorders"), ())


def write_mimic4(folder, *, notes=200, seed=0, megabytes=None, gz=False):
    """discharge.csv in ``note/``, patients and diagnoses_icd in ``hosp/``; every fifth admission has no code."""
    rng = random.Random(f"mimic4/{seed}")
    for part in ("note", "hosp"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    size, number = 0, 0
    with _opened(folder / "note" / "discharge.csv", gz) as handle:
        writer = csv.writer(handle)
        columns = "note_id subject_id hadm_id note_type note_seq charttime storetime text"
        writer.writerow(columns.split())
        while (number < notes) if megabytes is None else (size < megabytes * 1e6):
            number += 1
            text = _text(rng, _gender(number // 2))
            size += len(text)
            ids = f"{number // 2}-DS-{number}", number // 2, 200 + number
            writer.writerow((*ids, "DS", number, "2180-05-07", "", text))
    with _opened(folder / "hosp" / "patients.csv", gz) as handle:
        writer = csv.writer(handle)
        writer.writerow(("subject_id", "gender", "anchor_age", "anchor_year", "anchor_year_group", "dod"))
        facts = (60, 2180, "2008 - 2010", "")
        writer.writerows((subject, _gender(subject), *facts) for subject in range(number // 2 + 1))
    labels = {}
    with _opened(folder / "hosp" / "diagnoses_icd.csv", gz) as handle:
        writer = csv.writer(handle)
        writer.writerow(("subject_id", "hadm_id", "seq_num", "icd_code", "icd_version"))
        for one in range(1, number + 1):
            for place, (code, version) in enumerate(CODES[one % len(CODES)], start=1):
                writer.writerow((one // 2, 200 + one, place, code, version))
            for phenotype in CODED[one % len(CODES)] or (PHENOTYPES if CODES[one % len(CODES)] else ()):
                label = "positive" if CODED[one % len(CODES)] else "negative"
                labels[phenotype, f"{one // 2}-DS-{one}"] = label
    return Written(rows=number, labels=labels)
