"""Artificial files in the shape of MIMIC-III and MIMIC-IV-Note, of any size; nothing in them is
real."""

import random

from swapbias.notes.note_rows import PHENOTYPES
from tests.tables import write

NOTE_COLUMNS = (
    "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY", "DESCRIPTION", "CGID",
    "ISERROR", "TEXT",
)  # fmt: skip
PATIENT_COLUMNS = (
    "ROW_ID",
    "SUBJECT_ID",
    "GENDER",
    "DOB",
    "DOD",
    "DOD_HOSP",
    "DOD_SSN",
    "EXPIRE_FLAG",
)
VOTED = (
    "Obesity", "Depression", "Alcohol.Abuse", "Other.Substance.Abuse",
    "Schizophrenia.and.other.Psychiatric.Disorders", "None", "Unsure",
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
    (("None",), ("None",), ("Depression",)),  # majority: nothing at all
    (("Obesity",), ("Obesity",)),  # something else: no row
    (
        ("Alcohol.Abuse", "Depression"),
        ("Alcohol.Abuse",),
        ("Alcohol.Abuse",),
    ),  # alcohol only: one of three
    (("Depression",), ("Unsure", "Depression")),  # not more than half are unsure: depression
)
DEPRESSION = ("positive", "positive", "", "negative", "", "", "positive")
ALCOHOL = ("", "", "", "negative", "", "positive", "")


def _text(rng, gender):
    chosen = [rng.choice(LINES).format(**WORDS[gender]) for _ in range(rng.randint(4, 60))]
    return "\n".join(["[**Hospital 1**]", *chosen])


def _gender(subject):
    return "FM"[subject % 2]


def write_mimic3(folder, *, notes=200, gz=False, by_row=False, annotated=True):
    """NOTEEVENTS, PATIENTS and the annotations of every note (``by_row``: named by ROW_ID).

    Every third note is a discharge summary, every eleventh is marked as an error.
    Returns the planted labels by (phenotype, note_id).
    """
    rng = random.Random("mimic3/0")
    rows = []
    votes = []
    labels = {}
    for number in range(1, notes + 1):
        discharge = number % 3 == 0
        date = f"21{number % 90 + 10}-03-{number % 28 + 1:02d}"
        rows.append(
            {
                **dict.fromkeys(NOTE_COLUMNS, ""),
                "ROW_ID": number,
                "SUBJECT_ID": number // 2,
                "HADM_ID": 100_000 + number,
                "CHARTDATE": date,
                "CHARTTIME": "" if discharge else f"{date} 07:30:00",
                "CATEGORY": "Discharge summary" if discharge else "Nursing/other",
                "DESCRIPTION": "Report",
                "ISERROR": "" if number % 11 else "1",
                "TEXT": _text(rng, _gender(number // 2)),
            }
        )
        if number % 11:
            votes += _votes(rows[-1], by_row)
            planted = ("depression", DEPRESSION), ("alcohol_abuse", ALCOHOL)
            labels_of_note = {(name, str(number)): of[number % len(CASES)] for name, of in planted}
            labels |= {key: label for key, label in labels_of_note.items() if label}
    ending = ".csv.gz" if gz else ".csv"
    write(folder / f"NOTEEVENTS{ending}", rows)
    patients = (
        {"SUBJECT_ID": subject, "GENDER": _gender(subject)} for subject in range(notes // 2 + 1)
    )
    write(
        folder / f"PATIENTS{ending}", [dict.fromkeys(PATIENT_COLUMNS, "") | one for one in patients]
    )
    if annotated:
        write(folder / "annotations.csv", votes)
    return labels


def _votes(row, by_row):
    for operator, flags in enumerate(CASES[row["ROW_ID"] % len(CASES)]):
        facts = {
            "Hospital.Admission.ID": row["HADM_ID"],
            "subject.id": row["SUBJECT_ID"],
            "chart.time": row["CHARTTIME"],
            "cohort": "Discharge Summaries" if row["CATEGORY"].startswith("D") else "Nursing Notes",
            "operator": operator,
        }
        yield ({"ROW_ID": row["ROW_ID"]} if by_row else facts) | {
            name: int(name in flags) for name in VOTED
        }


# Of one admission in five each: its codes, and the phenotypes that they stand for, by hand from Quan et al. (2005).
CODES = (
    (("F329", 10), ("I10", 10)),
    (("30390", 9),),
    (("4019", 9), ("E119", 10)),
    (("F1120", 10), ("29570", 9)),
    (),
)
CODED = (("depression",), ("alcohol_abuse",), (), ("substance_abuse", "psychiatric_disorders"), ())


def write_mimic4(folder, *, notes=200, gz=False):
    """discharge in ``note/``, patients and diagnoses_icd in ``hosp/``; every fifth admission has no code.

    Returns the planted labels by (phenotype, note_id).
    """
    rng = random.Random("mimic4/0")
    rows = []
    codes = []
    labels = {}
    ending = ".csv.gz" if gz else ".csv"
    for number in range(1, notes + 1):
        subject = number // 2
        note_id = f"{number // 2}-DS-{number}"
        case = number % len(CODES)
        rows.append(
            {
                "note_id": note_id,
                "subject_id": subject,
                "hadm_id": 200 + number,
                "note_type": "DS",
                "note_seq": number,
                "charttime": "2180-05-07",
                "storetime": "",
                "text": _text(rng, _gender(subject)),
            }
        )
        admission = {"subject_id": subject, "hadm_id": 200 + number, "seq_num": 1}
        codes += [
            admission | {"icd_code": code, "icd_version": version} for code, version in CODES[case]
        ]
        label = "positive" if CODED[case] else "negative"
        labels |= {
            (one, note_id): label for one in CODED[case] or (PHENOTYPES if CODES[case] else ())
        }
    write(folder / f"note/discharge{ending}", rows)
    facts = {"anchor_age": 60, "anchor_year": 2180, "anchor_year_group": "2008 - 2010", "dod": ""}
    patients = (
        {"subject_id": subject, "gender": _gender(subject)} for subject in range(notes // 2 + 1)
    )
    write(folder / f"hosp/patients{ending}", [one | facts for one in patients])
    write(folder / f"hosp/diagnoses_icd{ending}", codes)
    return labels
