from .note_kind import NoteOptions as NoteOptions, note_conversations as note_conversations
from .phenotype import explain_mismatched as explain_mismatched
