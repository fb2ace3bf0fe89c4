"""Whose gender is swapped: swappers that people write beside this one, on notes whose counterfactual is known.

The notes are those of clinical_swaps, and real reports (public transcription samples, where they are at hand):
``report_words.csv`` says of every gendered word in them, by where it stands, whose it is, as two readers wrote down
who knew nothing of the swapper's rules.
"""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.frame import FOLDER, Scale, Series
from benchmarks.swapping import clinical_folder, peer
from swapbias.measures import Estimate
from swapbias.studies.catalogue import config_rows
from swapbias.swapping import Swapper, evaluate, swap_accuracy
from swapbias.swapping.accuracy import SwapAccuracy, edited_spans
from swapbias.swapping.referents import Block, Decisions, Persons
from swapbias.swapping.referents.doubt import case_name

REPORTS = "mtsamples_first_half.csv"


class Word(NamedTuple):
    """A gendered word: its characters, and whose it is: ``patient``, ``spouse``, ``other``, ``nobody``."""

    start: int
    end: int
    whose: str


@dataclass(frozen=True)
class Note:
    """A text, its counterfactuals, whose its gendered words are, and who wrote it."""

    text: str
    gender: str
    counterfactual: str
    counterfactual_keep: str
    words: Sequence[Word]
    source: str


def corpus_notes(split: str) -> list[Note]:
    """The notes of clinical_swaps."""
    return [
        Note(
            *(row[name] for name in ("text", "gender", "counterfactual", "counterfactual_keep")),
            words=[
                Word(span["start"], span["end"], span["whose"]) for span in json.loads(row["spans"])
            ],
            source=f"author {row['author']}",
        )
        for row in config_rows("clinical_swaps", "notes")
        if row["split"] == split
    ]


def report_notes(folder: Path) -> list[Note]:
    """Real reports of a folder in which somebody's gender can be read, in two halves; none if not at hand."""
    if not (folder / REPORTS).is_file():
        return []
    with (folder / REPORTS).open(newline="", encoding="utf-8") as handle:
        texts = [row["text"] for row in csv.DictReader(handle)]
    words: dict[int, list[Word]] = defaultdict(list)
    genders: dict[int, str] = {}
    with (FOLDER / "report_words.csv").open(newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            number = int(row["report"])
            words[number].append(Word(int(row["start"]), int(row["end"]), row["whose"]))
            genders[number] = row["gender"]
    turned = Swapper().swap(
        [texts[number] for number in words]
    )  # every word of them, as the readers saw
    notes = []
    for number, turned_text in zip(words, turned, strict=True):
        counterfactual = _turned(texts[number], turned_text, words[number], ("patient", "spouse"))
        keep = _turned(texts[number], turned_text, words[number], ("patient",))
        half = f"reports, {'odd' if number % 2 else 'even'}"
        notes.append(
            Note(texts[number], genders[number], counterfactual, keep, words[number], half)
        )
    return notes


def _turned(text: str, turned_text: str, words: Sequence[Word], owners: Sequence[str]) -> str:
    """The text with the words of some as they are in its other version."""
    tokens = _TOKEN.findall(text)
    begins = [0, *accumulate(map(len, tokens))]
    kept = [word for word in words if word.whose in owners]
    changed = ""
    at = 0
    for (low, high), new in sorted(edited_spans(text, turned_text).items()):
        if any(word.start < begins[high] and begins[low] < word.end for word in kept):
            changed += "".join(tokens[at:low]) + new
            at = high
    return changed + "".join(tokens[at:])


Notes = Sequence[Note]
_TOKEN = re.compile(r"\w+|\W")  # as accuracy splits a text
_PAIRS = re.compile(r"[^\W\d_]+")


def pairs_peer() -> Callable[[str], str]:
    """Counterfactual data augmentation as first published: every word of a list of pairs becomes the other one."""
    pairs = {}
    for row in config_rows("gender_lexicon", "definitional_pairs"):
        female = row["female"].lower()
        male = row["male"].lower()
        pairs.setdefault(female, male)
        pairs.setdefault(male, female)

    def other(match: re.Match[str]) -> str:
        written = match.group()
        new = pairs.get(written.lower(), written)
        if written.islower():
            return new
        return new.upper() if written.isupper() else new[:1].upper() + new[1:]

    return lambda text: _PAIRS.sub(
        lambda match: other(match) if match.group().lower() in pairs else match.group(), text
    )


def _each(swap: Callable[[str], str]) -> Callable[[Notes], list[str]]:
    return lambda notes: [swap(note.text) for note in notes]


def _ours(
    *, gender_is_given: bool = True, whose: str = "patient", spouses: str = "swap"
) -> Callable[[Notes], list[str]]:
    def swapped(notes: Notes) -> list[str]:
        genders = [note.gender if gender_is_given else "" for note in notes]
        swapped_texts: list[str] = (
            Swapper(whose=whose, spouses=spouses)
            .run([note.text for note in notes], genders=genders)
            .texts.to_pylist()
        )
        return swapped_texts

    return swapped


# --- doubt ----


@dataclass(frozen=True)
class DecidedNote:
    """A note's gendered words as the rules decide them: how, the chance that it is wrong, and whether it is.

    Attributes:
        cases, numbers, chances, wrong: of each word, (n,); numbers (n, ``doubt.NUMBERS``).
        doubt: of the note.
        whole: whether all words that should change do, and no other.
    """

    source: str
    cases: Sequence[str]
    numbers: NDArray[np.float64]
    chances: NDArray[np.float64]
    wrong: NDArray[np.bool_]
    doubt: float
    whole: bool


def decided(notes: Notes) -> list[DecidedNote]:
    """Return what the rules decide about each word of some notes."""
    seen: list[tuple[Block, Decisions]] = []
    decide = Persons.decide

    def watched(*arguments: Any) -> Decisions:
        seen.append((arguments[1], decide(*arguments)))
        return seen[-1][1]

    notes_decided = []
    swapper = Swapper(whose="patient")
    with patch("swapbias.swapping.referents.persons.Persons.decide", watched):
        for note in notes:
            seen.clear()
            (swapped,) = swapper.run([note.text], genders=[note.gender]).texts.to_pylist()
            ((block, done),) = seen
            kept = np.flatnonzero(block.kept)
            spans = [(int(block.matches.start[at]), int(block.matches.end[at])) for at in kept]
            marked = [word.start for word in note.words if word.whose in ("patient", "spouse")]
            starts = [len(note.text[:start].encode()) for start in marked]
            of_patient = np.array(
                [any(start <= at < end for at in starts) for start, end in spans], dtype=bool
            )
            changed = (
                edited_spans(note.text, swapped).keys()
                == edited_spans(note.text, note.counterfactual).keys()
            )
            cases = [case_name(case) for case in done.cases[kept].tolist()]
            wrong = (done.owners[kept] == 0) != of_patient
            numbers = done.numbers[kept]
            chances = done.wrong[kept]
            notes_decided.append(
                DecidedNote(
                    note.source, cases, numbers, chances, wrong, float(done.doubt[0]), changed
                )
            )
    return notes_decided


def calibration_error(chances: Sequence[float], events: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error: the mean distance of chance and share in bins of as many each, 0 to 1."""
    order = np.argsort(chances, kind="stable")
    parts = [
        (np.asarray(chances)[part], np.asarray(events)[part])
        for part in np.array_split(order, bins)
        if len(part)
    ]
    return sum(
        len(chance_part) * abs(chance_part.mean() - came.mean()) for chance_part, came in parts
    ) / max(len(order), 1)


SWAPPERS: Mapping[str, Callable[[Notes], list[str]]] = {
    "ten definitional pairs (CDA)": lambda notes: _each(pairs_peer())(notes),
    "regex, the paper's 11 terms": lambda notes: _each(peer("paper"))(notes),
    "regex, all terms": lambda notes: _each(peer("resolved"))(notes),
    "swapbias, everyone": _ours(whose="everyone"),
    "swapbias, the patient, gender read from the text": _ours(gender_is_given=False),
    "swapbias, the patient": _ours(),
    "swapbias, the patient, spouses kept": _ours(spouses="keep"),
}


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.ci_low:.3f} to {estimate.ci_high:.3f})"


def accuracy_cells(notes: Notes, name: str = "swapbias, the patient") -> tuple[str, str, str, str]:
    """Precision, recall, the share of others' pronouns that stay, and of exact texts, of a swapper."""
    wanted = [
        note.counterfactual_keep if name.endswith("kept") else note.counterfactual for note in notes
    ]
    texts = [note.text for note in notes]
    genders = [note.gender for note in notes]
    return _row(swap_accuracy(texts, wanted, SWAPPERS[name](notes), genders=genders))


def _row(accuracy: SwapAccuracy) -> tuple[str, str, str, str]:
    estimates = (accuracy.precision, accuracy.recall, accuracy.others_left)
    return (*map(_shown, estimates), f"{accuracy.exact.value:.3f}")


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    sets = {
        "clinical_swaps, test": corpus_notes("test"),
        "clinical_swaps, development": corpus_notes("development"),
        "clinical_swaps, dense": [
            note for note in corpus_notes("development") if note.source == "author 12"
        ],
        "real reports": report_notes(clinical_folder()),
    }
    sets = {title: notes for title, notes in sets.items() if notes}
    rows = [
        (title, name, *accuracy_cells(notes, name))
        for title, notes in sets.items()
        for name in SWAPPERS
    ]
    for title, notes in sets.items():
        notes_decided = decided(notes)
        name = "swapbias, the patient"
        for accuracy in evaluate(Swapper(whose="patient"), [vars(note) for note in notes]):
            rows.append(
                (
                    title,
                    f"{name}, the {accuracy.share:.0%} of least doubt (to {accuracy.doubt:.2f})",
                    *_row(accuracy),
                )
            )
        chances, wrong = (
            np.concatenate([getattr(note, of) for note in notes_decided])
            for of in ("chances", "wrong")
        )
        error = calibration_error(chances, wrong)
        rows.append(
            (title, f"{name}: calibration error of the doubt of a word", f"{error:.3f}", "", "", "")
        )
    return rows


SERIES = Series(
    "whose",
    "Whose gender: swappers on clinical_swaps and on real reports",
    (
        "notes",
        "swapper",
        "precision (95 %)",
        "recall (95 %)",
        "others' pronouns left (95 %)",
        "texts exact",
    ),
    _rows,
    timed=False,
)
