"""Clinical notes: features, phenotype classifiers, word directions, and explanations of one note."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.scorers.notes.explanation import Explained as Explained, explain_pair as explain_pair
    from swapbias.scorers.notes.options import NoteOptions as NoteOptions

__getattr__ = front_door(
    __name__,
    {
        "explanation": "Explained explain_pair",
        "options": "NoteOptions",
    },
)
