"""Synthetic clinical notes beside transcribed reports (mtsamples), and what trained classifiers make of their leak.

The reports are public and not part of the package: ``SWAPBIAS_TEST_CLINICAL`` names a folder with
``mtsamples_first_half.csv``.
"""

import csv
import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frame import FOLDER, NotHereError, Scale, Series, scaled
from swapbias.builders.clinical_notes import synthetic_notes
from swapbias.measures import Estimate, flip_rate
from swapbias.models.clinical.phenotype import PhenotypeScorer
from swapbias.models.clinical.tfidf_lsa import TfidfLsa
from swapbias.notes.note_rows import PHENOTYPES
from swapbias.studies import Prompt, config_rows, corpus_dir, read_table

SHORTEST = 100  # characters: shorter ones are no reports
_HEADING = re.compile(r"\b[A-Z][A-Z &/]{2,40}:")
_HISTORY = re.compile(
    r"(?:HISTORY OF PRESENT ILLNESS|PAST MEDICAL HISTORY|SOCIAL HISTORY|FAMILY HISTORY)\b", re.I
)
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
    made_notes = [
        row["text"]
        for name in PHENOTYPES
        for row in config_rows("clinical_notes", f"{name}-original")
    ]
    several = (reports, told, made_notes)
    rows: list[tuple[str, ...]] = [("number", *(f"{len(texts):,}" for texts in several))]
    rows.append(("characters, quartiles", *(_quartiles(texts) for texts in several)))
    rows.append(
        ("headings in capitals a note", *(f"{_mean(texts, _HEADING):.1f}" for texts in several))
    )
    rows.append(
        (
            "pronouns of the third person a note",
            *(f"{_mean(texts, _PRONOUN):.1f}" for texts in several),
        )
    )
    rows.append(("notes that name a relative", *(_share(texts, _KIN) for texts in several)))
    rows.append(
        ('notes that name a clinician ("Dr.")', *(_share(texts, _CLINICIAN) for texts in several))
    )
    rows.append(
        ("notes with a term of one gender", *(_share(texts, _specific()) for texts in several))
    )
    for name, heading in SECTIONS.items():
        pattern = re.compile(rf"(?:^|[\s,.]|\b)(?:{heading})\s*[:,]", re.I)
        rows.append((f"section: {name}", *(_share(texts, pattern) for texts in several)))
    return rows


def _reports() -> list[str]:
    folder = Path(
        os.environ.get("SWAPBIAS_TEST_CLINICAL", FOLDER.parent.parent / "shared" / "clinical")
    )
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
    return " / ".join(f"{quartile:,.0f}" for quartile in statistics.quantiles(map(len, texts), n=4))


def _mean(texts: Texts, pattern: re.Pattern[str]) -> float:
    return statistics.mean(len(pattern.findall(text)) for text in texts)


def _share(texts: Texts, pattern: re.Pattern[str]) -> str:
    return f"{sum(bool(pattern.search(text)) for text in texts) / len(texts):.2f}".removeprefix("0")


# --- the planted leak ---------------------------------------------------------------------------------

DRAWS = 10  # of all notes: each trains a classifier, which is tested on those of every draw
Note = Mapping[str, str]


@dataclass(frozen=True)
class _Flips:
    """Notes that a classifier answers otherwise in the other gender, by whether gender alone tells their label."""

    leak: list[bool]
    others: list[bool]
    interval: Estimate

    @property
    def rate(self) -> float:
        return statistics.mean([*self.leak, *self.others])


def _leaks(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each phenotype."""
    draws = scaled(DRAWS, scale, least=2)
    return [_leak_row(phenotype, draws) for phenotype in PHENOTYPES]


def _leak_row(phenotype: str, draws: int) -> tuple[str, ...]:
    blank = [flips for flips, _ in _tested(phenotype, draws, leak=0.0)]
    flips_of_draws = list(_tested(phenotype, draws))
    planted = len(flips_of_draws[0][0].leak) / flips_of_draws[0][0].interval.n
    rates = [flips.rate for flips, _ in flips_of_draws]
    true = [statistics.mean(flips.rate for flips in fresh) for _, fresh in flips_of_draws]
    return (
        phenotype.replace("_", " "),
        _of(planted),
        f"{_of(statistics.mean(rates))} ({_of(min(rates))} to {_of(max(rates))})",
        _of(statistics.mean(flip for flips, _ in flips_of_draws for flip in flips.leak)),
        _of(statistics.mean(flip for flips, _ in flips_of_draws for flip in flips.others)),
        _of(statistics.mean(flips.rate for flips in blank)),
        f"{sum(_holds(flips, planted) for flips, _ in flips_of_draws)} of {draws}",
        f"{sum(_holds(flips, rate) for (flips, _), rate in zip(flips_of_draws, true, strict=True))} of {draws}",
    )


def _holds(flips: _Flips, value: float) -> bool:
    return flips.interval.ci_low <= value <= flips.interval.ci_high


def _tested(
    phenotype: str, draws: int, *, leak: float = 0.2
) -> Iterator[tuple[_Flips, list[_Flips]]]:
    """Yield the flips of each draw's classifier on its own test notes and, of a leak, on those of the other draws."""
    drawn = []
    for seed in range(draws):
        both = (
            synthetic_notes(phenotype=phenotype, leak=leak, seed=seed, counterfactual=is_leak)
            for is_leak in (False, True)
        )
        drawn.append(list(zip(*both, strict=True)))
    for seed, pairs in enumerate(drawn):
        training = [note for note, _ in pairs if note["split"] == "train"]
        scorer = PhenotypeScorer(TfidfLsa(), training=lambda *_, rows=training: rows)
        fresh = [
            _flips(scorer, notes_of_draw)
            for number, notes_of_draw in enumerate(drawn)
            if leak and number != seed
        ]
        yield _flips(scorer, pairs), fresh


def _flips(scorer: PhenotypeScorer, pairs: Sequence[tuple[Note, Note]]) -> _Flips:
    tests = [pair for pair in pairs if pair[0]["split"] == "test"]
    rows = [note for pair in tests for note in pair]
    answers = [
        scored.parts["predicted"] for scored in scorer.score([_prompt(note) for note in rows])
    ]
    differs = [first != second for first, second in zip(answers[::2], answers[1::2], strict=True)]
    told = [bool(note["planted"]) for note, _ in tests]
    rate = flip_rate(
        answers,
        [note["gender"] for note in rows],
        [note["note_id"] for note in rows],
        reference_group="male",
    )
    several = [
        [flip for flip, is_true in zip(differs, told, strict=True) if is_true is wanted]
        for wanted in (True, False)
    ]
    return _Flips(*several, rate.estimate)


def _prompt(note: Note) -> Prompt:
    return Prompt(
        prompt_id=f"{note['note_id']}/{note['gender']}",
        pair_id=note["note_id"],
        group=note["gender"],
        text=note["text"],
        construct="original",
        condition=note["phenotype"],
        label=note["label"],
        template=note["template"],
        experiment="phenotyping",
    )


def _of(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


SERIES = (
    Series(
        "notes",
        "Synthetic clinical notes beside transcribed reports (mtsamples)",
        ("measured", "reports", "reports with a history", "synthetic notes"),
        _rows,
        timed=False,
    ),
    Series(
        "notes-leak",
        f"The planted leak of synthetic notes, and what SVMs on TF-IDF features of {DRAWS} draws make of it",
        (
            "phenotype",
            "planted",
            "flips of an SVM, mean (least to most)",
            "flips of leak notes",
            "flips of the others",
            "flips where no leak is planted",
            "95 % interval holds what is planted",
            "95 % interval holds the SVM's own rate",
        ),
        _leaks,
        timed=False,
    ),
)
