"""What a user can set of models that read clinical notes."""

from dataclasses import dataclass
from typing import ClassVar

from swapbias.models.scorer import check_ranges, option

CLASSIFIERS = ("svm", "rf", "mlp")  # trained here; any other name is a classifier of the user's
TFIDF = "tfidf-lsa"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteOptions:
    """Which notes are read, and with what.

    Attributes:
        embeddings: files of word vectors, encoders, ``NAME=PATH``; none: TF-IDF features.
        classifier: ``svm``, ``rf``, ``mlp``, or a classifier of the user's.
        data: a folder of notes; None: the synthetic ones.
        plausible: leave notes with gender-specific clinical terms out of the tests.
        explain: notes of each phenotype and regime that are explained word by word.
        question: what a chat model is asked of a note, which yes or no answers; None: that of the phenotype.
        checklist: a table of the facts that a chat model's text should keep; None: that of ``clinical_chat``.
    """

    key: ClassVar[str] = "notes"  # in a manifest's settings

    embeddings: tuple[str, ...] = option(
        (), "Word vectors (file) or encoder (Hub id, folder), NAME=PATH; may be repeated.", name="embedding",
        place=True, words=(TFIDF,),
    )  # fmt: skip
    classifier: str = option(
        CLASSIFIERS[0], "svm, rf or mlp, trained here; or your own: file, folder, Hub id, module:function.",
        place=True, words=CLASSIFIERS,
    )  # fmt: skip
    data: str | None = option(None, "Your notes: MIMIC-III folder, CSV, JSON lines, Parquet.", place=True)
    plausible: bool = option(False, "Leave notes with gender-specific clinical terms out.")
    explain: int = option(3, "Notes of each phenotype explained word by word (LIME); 0 for none.", least=0)
    question: str | None = option(None, "What a chat model is asked of a note: yes is the label 1.")
    checklist: str | None = option(
        None, "Facts that its summary should keep: note_id, fact, terms (CSV).", place=True
    )

    def __post_init__(self) -> None:
        """Refuse a number of notes below 0."""
        check_ranges(self)

    @property
    def trains(self) -> bool:
        """Whether classifiers are trained here."""
        return self.classifier in CLASSIFIERS
