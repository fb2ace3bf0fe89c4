"""Synthetic clinical notes beside transcribed reports (mtsamples): length, sections, and whom they tell of.

The reports are public and not part of the package: ``SWAPBIAS_TEST_CLINICAL`` names a folder with
``mtsamples_first_half.csv``.
"""

import csv
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.frame import FOLDER, NotHereError, Scale, Series
from swapbias.notes import PHENOTYPES
from swapbias.studies import config_rows, corpus_dir, read_table

SHORTEST = 100  # characters: shorter ones are no reports
_HEADING = re.compile(r"\b[A-Z][A-Z &/]{2,40}:")
_HISTORY = re.compile(r"(?:HISTORY OF PRESENT ILLNESS|PAST MEDICAL HISTORY|SOCIAL HISTORY|FAMILY HISTORY)\b", re.I)
_PRONOUN = re.compile(r"\b(?:s?he|his|hers?|him|himself|herself)\b", re.I)
_CLINICIAN = re.compile(r"\bDr\.")
_KIN = re.compile(
    r"\b(?:mother|father|parent|brother|sister|son|daughter|aunt|uncle|niece|nephew|cousin|grand\w+|husband|wife)s?\b",
    re.I,
)
SECTIONS: Mapping[str, str] = {
    "past history": r"PAST (?:MEDICAL )?HISTORY|PMH|PREVIOUS MEDICAL",
    "operations": r"PAST SURGICAL|PSH|SURGERIES|SURGICAL HISTORY|OPERATIONS",
    "medicines": r"MED(?:ICATION)?S\b[^:]{0,20}",
    "allergies": r"ALL(?:ERGIES)?",
    "family": r"FAMILY(?: AND SOCIAL)?(?: HISTORY)?|FHX?",
    "social": r"(?:FAMILY AND )?SOCIAL(?: AND PERSONAL)?(?: HISTORY)?|SH",
    "review of systems": r"REVIEW OF SYSTEMS|ROS",
    "examination": r"(?:PHYSICAL )?EXAM(?:INATION)?\b[^:]{0,20}|PE|OBJECTIVE|ASSESSMENT",
    "laboratory": r"LAB[A-Z]*(?: DATA)?|RESULTS|DATA|TESTS|PERTINENT RESULTS",
    "course or plan": r"(?:[A-Z]+ )*(?:COURSE|PLAN|RECOMMENDATIONS)\b[^:]{0,20}",
}
Texts = Sequence[str]


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each measurement, a column for the reports, those with a history, and the synthetic notes."""
    reports = [text for text in _reports() if len(text) >= SHORTEST]
    told = [text for text in reports if _HISTORY.search(text)]
    made = [row["text"] for name in PHENOTYPES for row in config_rows("clinical_notes", f"{name}-original")]
    several = (reports, told, made)
    rows: list[tuple[str, ...]] = [("number", *(f"{len(one):,}" for one in several))]
    rows.append(("characters, quartiles", *(_quartiles(one) for one in several)))
    rows.append(("headings in capitals a note", *(f"{_mean(one, _HEADING):.1f}" for one in several)))
    rows.append(("pronouns of the third person a note", *(f"{_mean(one, _PRONOUN):.1f}" for one in several)))
    rows.append(("notes that name a relative", *(_share(one, _KIN) for one in several)))
    rows.append(('notes that name a clinician ("Dr.")', *(_share(one, _CLINICIAN) for one in several)))
    rows.append(("notes with a term of one gender", *(_share(one, _specific()) for one in several)))
    for name, heading in SECTIONS.items():
        pattern = re.compile(rf"(?:^|[\s,.]|\b)(?:{heading})\s*[:,]", re.I)
        rows.append((f"section: {name}", *(_share(one, pattern) for one in several)))
    return rows


def _reports() -> list[str]:
    folder = Path(os.environ.get("SWAPBIAS_TEST_CLINICAL", FOLDER.parent.parent / "shared" / "clinical"))
    table = folder / "mtsamples_first_half.csv"
    if not table.is_file():
        raise NotHereError("it needs transcribed reports: set SWAPBIAS_TEST_CLINICAL")
    csv.field_size_limit(2**24)
    with table.open(encoding="utf-8", newline="") as handle:
        return [row["text"] for row in csv.DictReader(handle)]


def _specific() -> re.Pattern[str]:
    rows = read_table(corpus_dir("gender_lexicon") / "clinical_terms.csv", ("term", "group"))
    return re.compile(rf"\b(?:{'|'.join(re.escape(row['term']) for row in rows)})\b", re.I)


def _quartiles(texts: Texts) -> str:
    return " / ".join(f"{one:,.0f}" for one in statistics.quantiles(map(len, texts), n=4))


def _mean(texts: Texts, pattern: re.Pattern[str]) -> float:
    return statistics.mean(len(pattern.findall(text)) for text in texts)


def _share(texts: Texts, pattern: re.Pattern[str]) -> str:
    return f"{sum(bool(pattern.search(text)) for text in texts) / len(texts):.2f}".removeprefix("0")


SERIES = Series(
    "notes",
    "Synthetic clinical notes beside transcribed reports (mtsamples)",
    ("measured", "reports", "reports with a history", "synthetic notes"),
    _rows,
    timed=False,
)
