"""Training notes as they are, swapped, neutralised or augmented; test notes in both genders and in other wordings."""

import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from swapbias import swapping
from swapbias.notes.note_rows import NAME
from swapbias.studies import DOUBTFUL, PROMPT_COLUMNS, corpus_dir, placebo, read_table

if TYPE_CHECKING:  # its patterns take long to compile, and most audits swap nothing
    from swapbias.swapping import Swapped, Swapper

REGIMES = ("original", "swapped", "neutralised", "augmented")
VERSIONS = ("original", "neutralised")  # of a note, by which gender leakage is measured
AS_TRAINED = "as trained"  # the regime of a classifier that was trained elsewhere
FEWEST = 3  # training notes of each label: one for each fold of the cross-validation
OTHER_GENDER = {"female": "male", "male": "female", "": ""}
PAIR_COLUMNS = (
    *PROMPT_COLUMNS,
    "subject_id",
    "note_type",
    "version",
    "planted",
    "specific",
    "credentialed",
)
WORDINGS = 5  # of the test notes

Note = Mapping[str, str]


def in_regime(
    notes: Sequence[Note],
    regime: str,
    swapper: "Swapper",
    known_swaps: Mapping[str, str] | None = None,
) -> list[dict[str, str]]:
    """Return notes in a regime: as they are, in the other gender, without gender, or as they are and swapped.

    Args:
        notes: note rows.
        regime: a name of ``REGIMES``.
        swapper: makes the other versions.
        known_swaps: texts with what they are in the other gender, where that is not left to the swapper.

    Returns:
        New rows. Both versions of an augmented note have its ``note_id``, so that they stay in one fold of a
        cross-validation.
    """
    original = [dict(note) for note in notes]
    if regime == "original":
        return original
    if regime == "neutralised":
        texts = _run_swapper(notes, swapper, "neutralise").texts.to_pylist()
        return [{**note, "text": text} for note, text in zip(original, texts, strict=True)]
    swapped = [
        {**note, "gender": OTHER_GENDER[note["gender"]], "text": text}
        for note, text in zip(
            original, _swapped_texts(notes, swapper, known_swaps or {}), strict=True
        )
    ]
    return swapped if regime == "swapped" else [*original, *swapped]


def _run_swapper(notes: Sequence[Note], swapper: "Swapper", mode: str = "swap") -> "Swapped":
    texts = [note["text"] for note in notes]
    return swapper.run(texts, mode, genders=[note["gender"] for note in notes])


def _swapped_texts(
    notes: Sequence[Note], swapper: "Swapper", known_swaps: Mapping[str, str]
) -> list[str]:
    """Return the texts of notes in the other gender; the swapper gets those alone whose swap is not known."""
    unknown = [note for note in notes if note["text"] not in known_swaps]
    swapped = _run_swapper(unknown, swapper).texts.to_pylist() if unknown else []
    rest = iter(swapped)
    texts = []
    for note in notes:
        text = known_swaps.get(note["text"])
        texts.append(next(rest) if text is None else text)
    return texts


def counterfactual_pairs(
    notes: Sequence[Note],
    swapper: "Swapper",
    known_swaps: Mapping[str, str] | None = None,
    max_doubt: float | None = None,
) -> list[dict[str, str]]:
    """Return two prompts for each note with a gender, as it is and in the other one.

    ``specific`` counts gender-specific clinical terms: with one, the other version is implausible. A note in which
    nothing is swapped makes no pair: both versions would be the same text.

    Args:
        notes: note rows.
        swapper: makes the other versions.
        known_swaps: texts with what they are in the other gender, where that is not left to the swapper. Without
            them ``doubtful`` says (0 or 1) whether the doubt of the swap is above ``max_doubt``.
        max_doubt: 0 to 1; None: the median of the notes.

    Returns:
        Rows of ``PAIR_COLUMNS``, the two of a pair one after the other.
    """
    return _pair_up(notes, _run_swapper(notes, swapper), known_swaps or {}, max_doubt)


def _pair_up(
    notes: Sequence[Note],
    swapped: "Swapped",
    known_swaps: Mapping[str, str],
    max_doubt: float | None,
) -> list[dict[str, str]]:
    """Return the two prompts of each note that differs from its other version."""
    texts = swapped.texts.to_pylist()
    doubts = swapped.doubt.tolist()
    limit = median(doubts or [0.0]) if max_doubt is None else max_doubt
    rows = []
    swaps = zip(notes, texts, swapped.specific.tolist(), doubts, strict=True)
    for note, swapped_text, specific, doubt in swaps:
        gender = note["gender"]
        text = known_swaps.get(note["text"], swapped_text)
        if not gender or text == note["text"]:
            continue
        pair = [
            _make_prompt(note, gender, note["text"], "original", specific),
            _make_prompt(note, OTHER_GENDER[gender], text, "swapped", specific),
        ]
        if not known_swaps:
            for row in pair:
                row[DOUBTFUL] = "1" if doubt > limit else "0"
        rows += pair
    return rows


def with_genders(notes: Sequence[Note], swapper: "Swapper") -> list[dict[str, str]]:
    """Return notes with their genders: a note without one gets the gender that its text shows, if there is one.

    Args:
        notes: note rows; gender is blank where it is not known.
        swapper: finds the words of the patient.

    Returns:
        New rows.
    """
    genders = {1: "female", -1: "male", 0: ""}
    sides = _run_swapper(notes, swapper).sides.tolist()
    return [
        {**note, "gender": note["gender"] or genders[side]}
        for note, side in zip(notes, sides, strict=True)
    ]


# --- other wordings ---------------------------------------------------------------------------------------


class Carrier(NamedTuple):
    """A carrier phrase as it stands in a text."""

    start: int
    """Its first character."""
    end: int
    """The character after its last one."""
    alternatives: tuple[str, ...]
    """The phrase of each wording."""


@cache
def carrier_synonyms() -> dict[str, tuple[str, ...]]:
    """Return phrases of clinical prose that say nothing of patient, phenotype or gender.

    Returns:
        By phrase in lower case five that say the same.
    """
    synonyms: dict[str, tuple[str, ...]] = {}
    columns = ("phrase", "wording", "alternative", "source")
    for row in read_table(corpus_dir(NAME) / "carrier_synonyms.csv", columns):
        synonyms[row["phrase"]] = (*synonyms.get(row["phrase"], ()), row["alternative"])
    return synonyms


@cache
def _carrier_pattern() -> re.Pattern[str]:
    """Return a pattern of the phrases in lower case as whole words, also over the end of a line, longest first."""
    # By first word, for there are hundreds and texts are long.
    rest_by_first: dict[str, list[str]] = {}
    for phrase in sorted(carrier_synonyms(), key=len, reverse=True):
        first, *rest = map(re.escape, phrase.split())
        rest_by_first.setdefault(first, []).append("".join(rf"\s+{word}" for word in rest))
    either = "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in rest_by_first.items())
    return re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")


def _find_carriers(text: str) -> list[Carrier]:
    """Return the carrier phrases of a text from the left."""
    synonyms = carrier_synonyms()
    carriers = []
    for match in _carrier_pattern().finditer(_lower_in_place(text)):
        phrase = " ".join(match[0].split())
        carriers.append(Carrier(match.start(), match.end(), synonyms[phrase]))
    return carriers


def _lower_in_place(text: str) -> str:
    """Return a text in lower case whose characters keep their places, but for a letter that becomes two."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    letters = []
    for letter in text:
        lower_letter = letter.lower()
        letters.append(lower_letter if len(lower_letter) == 1 else letter)
    return "".join(letters)


def _reword(text: str, carriers: Iterable[Carrier], wording: int) -> str:
    """Return a text with each carrier phrase as that wording (1 to 5) has it; capitals stay."""
    parts = []
    end_before = 0
    for start, end, alternatives in carriers:
        parts += [text[end_before:start], _in_case_of(text[start:end], alternatives[wording - 1])]
        end_before = end
    return "".join([*parts, text[end_before:]])


def _in_case_of(phrase: str, alternative: str) -> str:
    """Return an alternative with the capitals of the phrase that it stands for."""
    if phrase.isupper():
        return alternative.upper()
    if phrase.istitle() and " " in phrase:
        return string.capwords(alternative)
    if phrase[0].isupper():
        return alternative[0].upper() + alternative[1:]
    return alternative


# --- the notes of an audit --------------------------------------------------------------------------------


def _pair_id(note: Note) -> str:
    return f"{note['phenotype']}/{note['note_id']}"


def _make_prompt(note: Note, group: str, text: str, version: str, specific: int) -> dict[str, str]:
    """Return the prompt of one version of a note."""
    return {
        **dict.fromkeys(PAIR_COLUMNS, ""),
        "prompt_id": f"{_pair_id(note)}/{group}",
        "pair_id": _pair_id(note),
        "group": group,
        "text": text,
        "condition": note["phenotype"],
        "label": note["label"],
        "template": note["template"],
        "experiment": "phenotyping",
        "subject_id": note["subject_id"] or note["note_id"],
        "note_type": note["note_type"],
        "version": version,
        "planted": note["planted"],
        "specific": str(specific),
        "credentialed": note["credentialed"],
    }


@dataclass(frozen=True)
class Notes:
    """Labelled notes and what is made of them."""

    name: str
    """``synthetic``, ``mimic3``, ``mimic4`` or ``own``."""
    rows: tuple[Note, ...]
    """Note rows (``NOTE_COLUMNS``) of training and test."""
    swapper: "Swapper" = field(default_factory=lambda: swapping.Swapper(whose="patient"))
    """Makes the other versions."""
    plausible: bool = False
    """Leave test notes with gender-specific clinical terms out."""
    known_swaps: Mapping[str, str] = field(default_factory=dict)
    """Texts with what they are in the other gender (made-up notes), which is not left to a swapper."""
    max_doubt: float | None = None
    """Doubt, 0 to 1, up to which the swap of a test note counts as clear; None: the median of the notes."""
    _trained: dict[tuple[str, str], list[dict[str, str]]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Training rows by phenotype and regime, once they were read."""

    @property
    def credentialed(self) -> bool:
        """True where any note may not be published or sent."""
        return any(note["credentialed"] == "True" for note in self.rows)

    @cached_property
    def _test_notes(self) -> list[Note]:
        return [note for note in self.rows if note["split"] == "test"]

    def _training_notes(self, phenotype: str) -> list[Note]:
        """Return the notes for training of a phenotype, or of ``all``."""
        notes = [note for note in self.rows if note["split"] == "train"]
        if phenotype == "all":
            return notes
        return [note for note in notes if note["phenotype"] == phenotype]

    @cached_property
    def _swapped(self) -> "Swapped":
        """The test notes in the other gender, which pairs and remarks ask for again and again."""
        return _run_swapper(self._test_notes, self.swapper)

    @property
    def phenotypes(self) -> tuple[str, ...]:
        """Names of the phenotypes in order of appearance."""
        return tuple(dict.fromkeys(note["phenotype"] for note in self.rows))

    def untrainable(self) -> dict[str, str]:
        """Return the phenotypes that no classifier can be trained for, each with the reason."""
        reasons = {}
        for phenotype in self.phenotypes:
            labels = [note["label"] for note in self._training_notes(phenotype)]
            for label in ("positive", "negative"):
                count = labels.count(label)
                if count < FEWEST:
                    reasons[phenotype] = f"{count} {label} training notes, and {FEWEST} are needed"
        return reasons

    def unlearnable_gender(self) -> str:
        """Return the reason why no classifier can be trained to predict the gender; blank where one can."""
        genders = [note["gender"] for note in self.training("all", "original")]
        for gender in ("female", "male"):
            count = genders.count(gender)
            if count < FEWEST:
                return f"{count} training notes of {gender} patients who are not tested, and {FEWEST} are needed"
        return ""

    def training(self, phenotype: str, regime: str) -> list[dict[str, str]]:
        """Return the training rows of a phenotype in a regime.

        Each phenotype has its own split, so that a note can train one and test another: among ``all`` no subject
        stands that is tested anywhere.

        Args:
            phenotype: its name; ``all``: of every phenotype, each note once.
            regime: a name of ``REGIMES``.

        Returns:
            Note rows.
        """
        key = (phenotype, regime)
        if key not in self._trained:
            notes = self._training_notes(phenotype)
            if phenotype == "all":
                tested = {note["subject_id"] for note in self._test_notes}
                notes = _unique_notes(note for note in notes if note["subject_id"] not in tested)
            self._trained[key] = in_regime(notes, regime, self.swapper, self.known_swaps)
        return self._trained[key]

    def pairs(self) -> list[dict[str, str]]:
        """Return the test notes in both genders (``counterfactual_pairs``)."""
        rows = _pair_up(self._test_notes, self._swapped, self.known_swaps, self.max_doubt)
        if self.plausible:
            return [row for row in rows if row["specific"] == "0"]
        return rows

    def reworded_pairs(self) -> Iterator[dict[str, str]]:
        """Yield the test notes in both genders in every wording, as placebo rows."""
        pairs = [(row, _find_carriers(row["text"])) for row in self.pairs()]
        for wording in range(1, WORDINGS + 1):
            for row, carriers in pairs:
                yield placebo(row, str(wording), _reword(row["text"], carriers, wording))

    def versions(self, pair_ids: Collection[str]) -> list[dict[str, str]]:
        """Return test notes as prompts whose gender is predicted, as they are and neutralised.

        Args:
            pair_ids: of the notes, as ``pairs`` has them.

        Returns:
            Prompts, each note once in each of ``VERSIONS``.
        """
        notes = _unique_notes(
            note for note in self._test_notes if note["gender"] and _pair_id(note) in pair_ids
        )
        rows = []
        for version in VERSIONS:
            for note in in_regime(notes, version, self.swapper, self.known_swaps):
                row = _make_prompt(note, note["gender"], note["text"], version, 0)
                row |= {"pair_id": note["note_id"], "condition": "all", "construct": version}
                rows.append(row)
        return rows

    def remarks(self) -> list[str]:
        """Return sentences that say how many test notes are not compared, or with a reservation."""
        total = len(self._test_notes)
        pairs = _pair_up(self._test_notes, self._swapped, self.known_swaps, None)[::2]
        of_others = int((self._swapped.left.sum(axis=1) > 0).sum())
        unknown = sum(not note["gender"] for note in self._test_notes)
        alike = total - unknown - len(pairs)
        implausible = sum(pair["specific"] != "0" for pair in pairs)
        sentences = []
        if of_others:
            sentences.append(
                f"{of_others} of {total} test notes hold words of relatives, clinicians or others, "
                "which keep their gender"
            )
        if unknown:
            sentences.append(f"{unknown} of {total} test notes left out: their gender is not known")
        if alike:
            sentences.append(
                f"{alike} of {total} test notes left out: nothing in them tells the gender, "
                "so both versions are one"
            )
        if implausible and self.plausible:
            sentences.append(
                f"{implausible} of {total} test notes left out: they hold gender-specific clinical terms"
            )
        elif implausible:
            sentences.append(
                f"{implausible} of {total} test notes hold gender-specific clinical terms, "
                "and their other version is implausible (see plausible)"
            )
        return sentences


def _unique_notes(notes: Iterable[Note]) -> list[Note]:
    """Return each note once: a note can be labelled for several phenotypes."""
    unique: dict[str, Note] = {}
    for note in notes:
        unique.setdefault(note["note_id"], note)
    return list(unique.values())
