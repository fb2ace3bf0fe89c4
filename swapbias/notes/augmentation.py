"""Make training notes in a regime (original, swapped, neutralised, augmented) and pairs of test notes."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from swapbias.studies import DOUBTFUL, PROMPT_COLUMNS

if TYPE_CHECKING:  # its patterns take long to compile, and most audits swap nothing
    from swapbias.swapping import Swapped, Swapper

REGIMES = ("original", "swapped", "neutralised", "augmented")
AS_TRAINED = "as trained"
"""The regime of a classifier that was trained elsewhere."""
NEITHER = "neither"
"""Gender of a note that says neither female nor male: what its text shows does not count."""
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
        known_swaps: the version of each text in the other gender, by text; other texts are swapped by ``swapper``.

    Returns:
        New rows. Both versions of an augmented note have its ``note_id``, so that they stay in one fold of a
        cross-validation.
    """
    original = [dict(note) for note in notes]
    if regime == "original":
        return original
    if regime == "neutralised":
        texts = run_swapper(notes, swapper, "neutralise").texts.to_pylist()
        return [{**note, "text": text} for note, text in zip(original, texts, strict=True)]
    texts = _swapped_texts(notes, swapper, known_swaps or {})
    swapped = [
        {**note, "gender": OTHER_GENDER[note["gender"]], "text": text}
        for note, text in zip(original, texts, strict=True)
    ]
    return swapped if regime == "swapped" else [*original, *swapped]


def run_swapper(notes: Sequence[Note], swapper: "Swapper", mode: str = "swap") -> "Swapped":
    """Swap or neutralise the texts of notes, whose genders the swapper is given.

    Args:
        notes: note rows.
        swapper: makes the other versions.
        mode: ``swap`` or ``neutralise``.
    """
    texts = [note["text"] for note in notes]
    return swapper.run(texts, mode, genders=[note["gender"] for note in notes])


def _swapped_texts(
    notes: Sequence[Note], swapper: "Swapper", known_swaps: Mapping[str, str]
) -> list[str]:
    """Return the texts of notes in the other gender; the swapper gets only those whose swap is not known."""
    unknown = [note for note in notes if note["text"] not in known_swaps]
    swapped = run_swapper(unknown, swapper).texts.to_pylist() if unknown else []
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
    """Return two prompts for each note with a gender: as it is, and in the other gender.

    The column ``specific`` counts gender-specific clinical terms (pregnant, prostate): where there is one, the
    version in the other gender is implausible. A note in which nothing is swapped makes no pair: both versions would
    be the same text.

    Args:
        notes: note rows.
        swapper: makes the other versions.
        known_swaps: each text's version in the other gender, by text; None: ``swapper`` swaps all texts. Only then
            the column ``doubtful`` is filled: 1 where the doubt of the swap is above ``max_doubt``, else 0.
        max_doubt: probability, 0 to 1, that a swap holds an error; None: the median of the notes.

    Returns:
        Rows of ``PAIR_COLUMNS``, the two of a pair one after the other.
    """
    return pair_up(notes, run_swapper(notes, swapper), known_swaps or {}, max_doubt)


def pair_up(
    notes: Sequence[Note],
    swapped: "Swapped",
    known_swaps: Mapping[str, str],
    max_doubt: float | None,
) -> list[dict[str, str]]:
    """Return two prompts, one after the other, for each note that differs from its version in the other gender.

    Args:
        notes: note rows.
        swapped: the same notes as the swapper returned them.
        known_swaps: as in ``counterfactual_pairs``.
        max_doubt: as in ``counterfactual_pairs``.
    """
    texts = swapped.texts.to_pylist()
    doubts = swapped.doubt.tolist()
    limit = median(doubts or [0.0]) if max_doubt is None else max_doubt
    rows: list[dict[str, str]] = []
    swaps = zip(notes, texts, swapped.specific.tolist(), doubts, strict=True)
    for note, swapped_text, specific, doubt in swaps:
        gender = note["gender"]
        text = known_swaps.get(note["text"], swapped_text)
        if not gender or text == note["text"]:
            continue
        pair = [
            make_prompt(note, gender, note["text"], "original", specific),
            make_prompt(note, OTHER_GENDER[gender], text, "swapped", specific),
        ]
        if not known_swaps:
            for row in pair:
                row[DOUBTFUL] = "1" if doubt > limit else "0"
        rows += pair
    return rows


def with_genders(notes: Sequence[Note], swapper: "Swapper") -> list[dict[str, str]]:
    """Return notes with their genders: a note without one gets the gender that its text shows, if there is one.

    Args:
        notes: note rows; gender is blank where it is not known, and ``NEITHER`` where it stays so.
        swapper: finds the words of the patient.

    Returns:
        New rows.
    """
    read = [note["gender"] for note in notes]
    if not all(read):
        genders = {1: "female", -1: "male", 0: ""}
        sides = run_swapper(notes, swapper).sides.tolist()
        read = [gender or genders[side] for gender, side in zip(read, sides, strict=True)]
    return [
        {**note, "gender": "" if gender == NEITHER else gender}
        for note, gender in zip(notes, read, strict=True)
    ]


def pair_id_of(note: Note) -> str:
    """Return the id of the pair of a note: its phenotype and its id, as a note may be labelled for several.

    Args:
        note: a note row.
    """
    return f"{note['phenotype']}/{note['note_id']}"


def make_prompt(note: Note, group: str, text: str, version: str, specific: int) -> dict[str, str]:
    """Return the prompt of one version of a note.

    Args:
        note: a note row.
        group: the gender of this version.
        text: the text of this version.
        version: ``original``, ``swapped`` or ``neutralised``.
        specific: number of gender-specific clinical terms in the note.
    """
    return {
        **dict.fromkeys(PAIR_COLUMNS, ""),
        "prompt_id": f"{pair_id_of(note)}/{group}",
        "pair_id": pair_id_of(note),
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
