from .note_kind import NoteOptions as NoteOptions, note_conversations as note_conversations
