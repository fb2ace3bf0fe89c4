from .note_kind import NoteOptions as NoteOptions
from .phenotype import Explained as Explained, explain_mismatched as explain_mismatched
