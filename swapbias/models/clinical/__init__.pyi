from .explanation import Explained as Explained, explain_pair as explain_pair
from .options import NoteOptions as NoteOptions
