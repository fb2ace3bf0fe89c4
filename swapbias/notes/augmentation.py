"""Training notes as they are, swapped, neutralised or augmented; test notes in both genders and in other wordings."""

import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from statistics import median
from typing import TYPE_CHECKING

from swapbias import swapping
from swapbias.notes.note_rows import NAME
from swapbias.studies import DOUBTFUL, PROMPT_COLUMNS, corpus_dir, placebo, read_table

if TYPE_CHECKING:  # its patterns take long to compile, and most audits swap nothing
    from swapbias.swapping import Swapped, Swapper

REGIMES = ("original", "swapped", "neutralised", "augmented")
VERSIONS = ("original", "neutralised")  # in which gender leakage is measured
AS_TRAINED = "as trained"  # the regime of a classifier that was trained elsewhere
FEWEST = 3  # training notes of each label: one for each fold of the cross-validation
OTHER = {"female": "male", "male": "female", "": ""}
PAIR_COLUMNS = (
    *PROMPT_COLUMNS,
    "subject_id",
    "note_type",
    "version",
    "planted",
    "specific",
    "credentialed",
)
WORDINGS = 5

Note = Mapping[str, str]


def in_regime(
    notes: Sequence[Note],
    regime: str,
    swapper: "Swapper",
    other_of: Mapping[str, str] | None = None,
) -> list[dict[str, str]]:
    """The notes as a regime has them: as they are, in the other gender, without gender, or as they are and swapped.

    ``other_of`` has texts whose other version is known, and not left to the swapper. Both versions of an augmented
    note have its ``note_id``, so that they stay in one fold of a cross-validation.
    """
    original = [dict(note) for note in notes]
    if regime == "original":
        return original
    if regime == "neutralised":
        texts = _run(notes, swapper, "neutralise").texts.to_pylist()
        return [{**note, "text": text} for note, text in zip(original, texts, strict=True)]
    known = other_of or {}
    unknown = [note for note in notes if note["text"] not in known]
    made = iter(_run(unknown, swapper).texts.to_pylist() if unknown else ())
    texts = [known[note["text"]] if note["text"] in known else next(made) for note in notes]
    swapped = [
        {**note, "gender": OTHER[note["gender"]], "text": text}
        for note, text in zip(original, texts, strict=True)
    ]
    return swapped if regime == "swapped" else [*original, *swapped]


def _run(notes: Sequence[Note], swapper: "Swapper", mode: str = "swap") -> "Swapped":
    return swapper.run(
        [note["text"] for note in notes], mode, genders=[note["gender"] for note in notes]
    )


def _texts(notes: Sequence[Note], done: "Swapped", other_of: Mapping[str, str] | None) -> list[str]:
    known = other_of or {}
    swapped = done.texts.to_pylist()
    return [known.get(note["text"], text) for note, text in zip(notes, swapped, strict=True)]


def counterfactual_pairs(
    notes: Sequence[Note],
    swapper: "Swapper",
    other_of: Mapping[str, str] | None = None,
    max_doubt: float | None = None,
) -> list[dict[str, str]]:
    """Two prompts for each note with a gender, as it is and in the other one; columns ``PAIR_COLUMNS``.

    ``specific`` counts gender-specific clinical terms: with one, the other version is implausible. A note in which
    nothing is swapped makes no pair: both versions would be the same text. ``other_of``: as of ``in_regime``; without
    them ``doubtful`` says (0 or 1) whether the doubt of the swap is above ``max_doubt`` (None: the median).
    """
    return _paired(notes, _run(notes, swapper), other_of, max_doubt)


def _paired(
    notes: Sequence[Note],
    done: "Swapped",
    other_of: Mapping[str, str] | None,
    max_doubt: float | None,
) -> list[dict[str, str]]:
    rows = []
    limit = median(done.doubt.tolist() or [0.0]) if max_doubt is None else max_doubt
    swaps = zip(
        notes,
        _texts(notes, done, other_of),
        done.specific.tolist(),
        done.doubt.tolist(),
        strict=True,
    )
    for note, text, specific, doubt in swaps:
        gender = note["gender"]
        more = {} if other_of else {DOUBTFUL: str(int(doubt > limit))}
        if gender and text != note["text"]:
            rows.append(_prompt(note, gender, note["text"], "original", specific) | more)
            rows.append(_prompt(note, OTHER[gender], text, "swapped", specific) | more)
    return rows


def with_genders(notes: Sequence[Note], swapper: "Swapper") -> list[dict[str, str]]:
    """The notes; one whose gender is not named gets the one that its text shows, if there is one."""
    groups = {1: "female", -1: "male", 0: ""}
    sides = _run(notes, swapper).sides.tolist()
    return [
        {**note, "gender": note["gender"] or groups[side]}
        for note, side in zip(notes, sides, strict=True)
    ]


# --- other wordings ---------------------------------------------------------------------------------------


@cache
def carrier_synonyms() -> dict[str, tuple[str, ...]]:
    """Phrases of clinical prose that say nothing of patient, phenotype or gender, and five that say the same."""
    found: dict[str, tuple[str, ...]] = {}
    for row in read_table(
        corpus_dir(NAME) / "carrier_synonyms.csv", ("phrase", "wording", "alternative", "source")
    ):
        found[row["phrase"]] = (*found.get(row["phrase"], ()), row["alternative"])
    return found


@cache
def _carriers() -> re.Pattern[str]:
    """Any of the phrases in lower case as whole words, also over the end of a line, the longest one first."""
    after: dict[str, list[str]] = {}  # by first word, for there are hundreds and texts are long
    for phrase in sorted(carrier_synonyms(), key=len, reverse=True):
        first, *rest = map(re.escape, phrase.split())
        after.setdefault(first, []).append("".join(rf"\s+{word}" for word in rest))
    either = "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in after.items())
    return re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")


def _carried(text: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """Where carrier phrases begin and end in a text, and what else they may be, from the left."""
    lower = text.lower()
    if len(lower) != len(text):  # of a letter that two stand for in lower case: places must stay
        lower = "".join(low if len(low := one.lower()) == 1 else one for one in text)
    known = carrier_synonyms()
    return [
        (*found.span(), known[" ".join(found[0].split())]) for found in _carriers().finditer(lower)
    ]


def _worded(text: str, carried: Iterable[tuple[int, int, tuple[str, ...]]], wording: int) -> str:
    """The text with each carrier phrase as that wording (1 to 5) has it; capitals stay."""
    parts = []
    done = 0
    for start, end, alternatives in carried:
        parts += [text[done:start], _in_case_of(text[start:end], alternatives[wording - 1])]
        done = end
    return "".join([*parts, text[done:]])


def _in_case_of(phrase: str, alternative: str) -> str:
    if phrase.isupper():
        return alternative.upper()
    if phrase.istitle() and " " in phrase:
        return string.capwords(alternative)
    return alternative[0].upper() + alternative[1:] if phrase[0].isupper() else alternative


# --- the notes of an audit --------------------------------------------------------------------------------


def _pair_id(note: Note) -> str:
    return f"{note['phenotype']}/{note['note_id']}"


def _prompt(note: Note, group: str, text: str, version: str, specific: int) -> dict[str, str]:
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
    """Labelled notes and what is made of them.

    Attributes:
        name: ``synthetic``, ``mimic3`` or ``own``.
        rows: note rows (``NOTE_COLUMNS``) of training and test.
        swapper: makes the other versions.
        plausible: leave test notes with gender-specific clinical terms out.
        other_of: texts whose other version is known (made-up notes), and not left to a swapper.
        max_doubt: of the swap of a test note that counts as clear (``counterfactual_pairs``).
    """

    name: str
    rows: tuple[Note, ...]
    swapper: "Swapper" = field(default_factory=lambda: swapping.Swapper(whose="patient"))
    plausible: bool = False
    other_of: Mapping[str, str] = field(default_factory=dict)
    max_doubt: float | None = None
    _trained: dict[tuple[str, str], list[dict[str, str]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def credentialed(self) -> bool:
        """Whether any note may not be published or sent."""
        return any(note["credentialed"] == "True" for note in self.rows)

    def _of(self, split: str, phenotype: str = "all") -> list[Note]:
        return [
            one
            for one in self.rows
            if one["split"] == split and phenotype in (one["phenotype"], "all")
        ]

    @cached_property
    def _swapped(self) -> "Swapped":
        """The test notes in the other gender, which pairs and remarks ask for again and again."""
        return _run(self._of("test"), self.swapper)

    @property
    def phenotypes(self) -> tuple[str, ...]:
        """In order of appearance."""
        return tuple(dict.fromkeys(note["phenotype"] for note in self.rows))

    def untrainable(self) -> dict[str, str]:
        """Phenotypes that no classifier can be trained for, each with the reason."""
        found = {}
        for phenotype in self.phenotypes:
            labels = [note["label"] for note in self._of("train", phenotype)]
            for label in ("positive", "negative"):
                if (count := labels.count(label)) < FEWEST:
                    found[phenotype] = f"{count} {label} training notes, and {FEWEST} are needed"
        return found

    def unlearnable_gender(self) -> str:
        """Why no classifier can be trained to predict the gender; blank where one can."""
        genders = [note["gender"] for note in self.training("all", "original")]
        for gender in ("female", "male"):
            if (count := genders.count(gender)) < FEWEST:
                return f"{count} training notes of {gender} patients who are not tested, and {FEWEST} are needed"
        return ""

    def training(self, phenotype: str, regime: str) -> list[dict[str, str]]:
        """Training rows of a phenotype in a regime; ``all``: of every one, each note once.

        Each phenotype has its own split, so that a note can train one and test another: among ``all`` no subject
        stands that is tested anywhere.
        """
        key = (phenotype, regime)
        if key not in self._trained:
            mine = self._of("train", phenotype)
            if phenotype == "all":
                tested = {note["subject_id"] for note in self._of("test")}
                mine = _once(note for note in mine if note["subject_id"] not in tested)
            self._trained[key] = in_regime(mine, regime, self.swapper, self.other_of)
        return self._trained[key]

    def pairs(self) -> list[dict[str, str]]:
        """The test notes in both genders."""
        found = _paired(self._of("test"), self._swapped, self.other_of, self.max_doubt)
        return [row for row in found if row["specific"] == "0"] if self.plausible else found

    def reworded_pairs(self) -> Iterator[dict[str, str]]:
        """The test notes in both genders in every wording, as placebo rows."""
        pairs = [(row, _carried(row["text"])) for row in self.pairs()]
        for wording in range(1, WORDINGS + 1):
            for row, carried in pairs:
                yield placebo(row, str(wording), _worded(row["text"], carried, wording))

    def versions(self, pair_ids: Collection[str]) -> list[dict[str, str]]:
        """The test notes of these pairs as prompts, as they are and neutralised: the gender is predicted."""
        mine = _once(
            note for note in self._of("test") if note["gender"] and _pair_id(note) in pair_ids
        )
        return [
            {
                **_prompt(note, note["gender"], note["text"], version, 0),
                "pair_id": note["note_id"],
                "condition": "all",
                "construct": version,
            }
            for version in VERSIONS
            for note in in_regime(mine, version, self.swapper, self.other_of)
        ]

    def remarks(self) -> list[str]:
        """How many test notes are not compared, or are compared with a reservation."""
        tests = self._of("test")
        unknown = sum(not note["gender"] for note in tests)
        pairs = _paired(tests, self._swapped, self.other_of, None)[::2]
        alike = len(tests) - unknown - len(pairs)
        implausible = sum(pair["specific"] != "0" for pair in pairs)
        others = int((self._swapped.left.sum(axis=1) > 0).sum())
        what = (
            "left out: they hold gender-specific clinical terms"
            if self.plausible
            else "hold gender-specific clinical terms, and their other version is implausible (see plausible)"
        )
        counts = (
            (others, "hold words of relatives, clinicians or others, which keep their gender"),
            (unknown, "left out: their gender is not known"),
            (alike, "left out: nothing in them tells the gender, so both versions are one"),
            (implausible, what),
        )
        return [f"{count} of {len(tests)} test notes {what}" for count, what in counts if count]


def _once(notes: Iterable[Note]) -> list[Note]:
    """Each note once: a note can be labelled for several phenotypes."""
    found: dict[str, Note] = {}
    for note in notes:
        found.setdefault(note["note_id"], note)
    return list(found.values())
