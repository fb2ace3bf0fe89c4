"""The labelled notes of an audit, and the training rows, pairs and versions made from them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from swapbias import swapping
from swapbias.notes.augmentation import (
    Note,
    in_regime,
    make_prompt,
    pair_id_of,
    pair_up,
    run_swapper,
)
from swapbias.notes.rewording import WORDINGS, find_carriers, reword
from swapbias.studies import placebo

if TYPE_CHECKING:  # its patterns take long to compile, and most audits swap nothing
    from swapbias.swapping import Swapped, Swapper


VERSIONS = ("original", "neutralised")
"""Versions of a test note from which its gender is predicted, to measure how far it leaks."""


FEWEST = 3
"""Least training notes of each label: one for each fold of the cross-validation."""


@dataclass(frozen=True)
class Notes:
    """Labelled notes and what is made of them."""

    name: str
    """``synthetic``, ``mimic3``, ``mimic4`` or ``own``."""
    rows: tuple[Note, ...] = field(repr=False)
    """Note rows (``NOTE_COLUMNS``) of training and test."""
    swapper: "Swapper" = field(default_factory=lambda: swapping.Swapper(whose="patient"))
    """Makes the other versions."""
    only_plausible: bool = False
    """Leave out test notes with gender-specific clinical terms, whose version in the other gender is implausible."""
    known_swaps: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By text its version in the other gender, for made-up notes; other texts are swapped by ``swapper``."""
    max_doubt: float | None = None
    """Probability, 0 to 1, that the swap of a note holds an error, above which the test note is marked doubtful and
    left out of one sensitivity analysis; None: the median of the notes."""
    split: str = ""
    """The seed of their split, where they are split several times; blank: once."""
    _training_cache: dict[tuple[str, str], list[dict[str, str]]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Training rows by phenotype and regime, filled as they are read."""

    @property
    def is_credentialed(self) -> bool:
        """True where some note may neither be published nor sent."""
        return any(note["credentialed"] == "True" for note in self.rows)

    @property
    def is_swapped_as_published(self) -> bool:
        """True where the versions are made as the paper of phenotype_fairness made them."""
        return isinstance(self.swapper, swapping.PublishedSwapper)

    @cached_property
    def _test_notes(self) -> list[Note]:
        return [note for note in self.rows if note["split"] == "test"]

    def _training_notes(self, phenotype: str) -> list[Note]:
        """Return the training notes of a phenotype; of ``all``: of every phenotype."""
        notes = [note for note in self.rows if note["split"] == "train"]
        if phenotype == "all":
            return notes
        return [note for note in notes if note["phenotype"] == phenotype]

    @cached_property
    def _swapped(self) -> "Swapped":
        """The test notes in the other gender, which both pairs and remarks are made from."""
        return run_swapper(self._test_notes, self.swapper)

    @property
    def phenotypes(self) -> tuple[str, ...]:
        """Names of the phenotypes in order of appearance."""
        return tuple(dict.fromkeys(note["phenotype"] for note in self.rows))

    def why_untrainable(self) -> dict[str, str]:
        """Return the phenotypes that no classifier can be trained for, each with the reason."""
        reasons = {}
        for phenotype in self.phenotypes:
            labels = [note["label"] for note in self._training_notes(phenotype)]
            for label in ("positive", "negative"):
                count = labels.count(label)
                if count < FEWEST:
                    reasons[phenotype] = f"{count} {label} training notes, and {FEWEST} are needed"
        return reasons

    def why_gender_untrainable(self) -> str:
        """Return the reason why no classifier can be trained to predict the gender; blank where one can."""
        genders = [note["gender"] for note in self.training("all", "original")]
        for gender in ("female", "male"):
            count = genders.count(gender)
            if count < FEWEST:
                return f"{count} training notes of {gender} patients who are not tested, and {FEWEST} are needed"
        return ""

    def training(self, phenotype: str, regime: str) -> list[dict[str, str]]:
        """Return the training rows of a phenotype in a regime.

        Each phenotype has its own split, so that a note can train one and test another. ``all`` therefore leaves out
        every subject that is tested for any phenotype.

        Args:
            phenotype: its name; ``all``: every phenotype, each note once.
            regime: a name of ``REGIMES``.

        Returns:
            Note rows.
        """
        key = (phenotype, regime)
        if key not in self._training_cache:
            notes = self._training_notes(phenotype)
            if phenotype == "all":
                tested = {note["subject_id"] for note in self._test_notes}
                notes = _unique_notes(note for note in notes if note["subject_id"] not in tested)
            self._training_cache[key] = in_regime(notes, regime, self.swapper, self.known_swaps)
        return self._training_cache[key]

    def pairs(self) -> list[dict[str, str]]:
        """Return the test notes in both genders (``counterfactual_pairs``); of several splits with theirs."""
        rows = pair_up(self._test_notes, self._swapped, self.known_swaps, self.max_doubt)
        rows = [self._in_split(row) for row in rows]
        if self.only_plausible:
            return [row for row in rows if row["specific"] == "0"]
        return rows

    def reworded_pairs(self) -> Iterator[dict[str, str]]:
        """Yield the test notes in both genders in each of the ``WORDINGS``, as placebo rows."""
        pairs = [(row, find_carriers(row["text"])) for row in self.pairs()]
        for wording in range(1, WORDINGS + 1):
            for row, carriers in pairs:
                yield placebo(row, str(wording), reword(row["text"], carriers, wording))

    def versions(self, pair_ids: Collection[str]) -> list[dict[str, str]]:
        """Return test notes, as they are and neutralised, as prompts whose gender is predicted.

        Args:
            pair_ids: ids of the pairs of these notes, as in ``pairs``.

        Returns:
            Prompts, each note once in each of ``VERSIONS``.
        """
        notes = _unique_notes(
            note
            for note in self._test_notes
            if note["gender"] and self._id_in_split(pair_id_of(note)) in pair_ids
        )
        rows = []
        for version in VERSIONS:
            for note in in_regime(notes, version, self.swapper, self.known_swaps):
                row = make_prompt(note, note["gender"], note["text"], version, 0)
                row |= {"pair_id": note["note_id"], "condition": "all", "construct": version}
                rows.append(self._in_split(row))
        return rows

    def _in_split(self, row: dict[str, str]) -> dict[str, str]:
        """Return a prompt with its split, and ids that no other split has; where there is one split as it is."""
        if not self.split:
            return row
        ids = {name: self._id_in_split(row[name]) for name in ("prompt_id", "pair_id")}
        return {**row, **ids, "split": self.split}

    def _id_in_split(self, name: str) -> str:
        """Return an id that no other split has."""
        return f"{name}/s{self.split}" if self.split else name

    def remarks(self) -> list[str]:
        """Return sentences on test notes that are left out, or compared with a reservation."""
        total = len(self._test_notes)
        # The first prompt of each pair. No bound on doubt is needed: only the column ``doubtful`` depends on it.
        pairs = pair_up(self._test_notes, self._swapped, self.known_swaps, None)[::2]
        of_others = int((self._swapped.left.sum(axis=1) > 0).sum())
        unknown = sum(not note["gender"] for note in self._test_notes)
        alike = total - unknown - len(pairs)
        implausible = sum(pair["specific"] != "0" for pair in pairs)
        sentences = []
        if of_others:
            sentences.append(
                f"{of_others} of {total} test notes contain words of relatives, clinicians or others, "
                "which keep their gender"
            )
        if unknown:
            sentences.append(f"{unknown} of {total} test notes left out: their gender is not known")
        if alike:
            sentences.append(
                f"{alike} of {total} test notes left out: nothing in them tells the gender, "
                "so both versions are one"
            )
        if implausible and self.only_plausible:
            sentences.append(
                f"{implausible} of {total} test notes left out: they contain gender-specific clinical terms"
            )
        elif implausible:
            sentences.append(
                f"{implausible} of {total} test notes contain gender-specific clinical terms, "
                "and their other version is implausible (see plausible)"
            )
        return sentences


def _unique_notes(notes: Iterable[Note]) -> list[Note]:
    """Return each note once: a note can be labelled for several phenotypes."""
    unique: dict[str, Note] = {}
    for note in notes:
        unique.setdefault(note["note_id"], note)
    return list(unique.values())
