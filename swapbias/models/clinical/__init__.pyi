from .conversations import note_conversations as note_conversations
from .note_kind import NoteOptions as NoteOptions
from .phenotype import explain_mismatched as explain_mismatched
