from .answering import AnsweringScorer as AnsweringScorer
from .chat_kind import CHAT as CHAT, load_chat as load_chat, trial_rows as trial_rows
from .chat_options import (
    KEY as KEY,
    LOG_ODDS as LOG_ODDS,
    ChatOptions as ChatOptions,
    gets_unnamed_key as gets_unnamed_key,
    scoring_in_words as scoring_in_words,
)
