from .answering import AnsweringScorer as AnsweringScorer
from .chat_kind import load_chat as load_chat
from .chat_options import (
    KEY as KEY,
    ChatOptions as ChatOptions,
    gets_unnamed_key as gets_unnamed_key,
    scoring_in_words as scoring_in_words,
)
