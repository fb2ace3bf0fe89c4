from .note_kind import NoteOptions as NoteOptions, note_conversations as note_conversations
from .phenotype import Explained as Explained, explain_mismatched as explain_mismatched
