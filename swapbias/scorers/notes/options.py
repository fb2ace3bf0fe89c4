"""What a user can set of models that read clinical notes."""

from dataclasses import dataclass
from typing import ClassVar

from swapbias.scorers.scorer import option

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

    @property
    def trains(self) -> bool:
        """Whether classifiers are trained here."""
        return self.classifier in CLASSIFIERS
