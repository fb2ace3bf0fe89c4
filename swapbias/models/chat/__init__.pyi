from .chat_kind import CHAT as CHAT, load_chat as load_chat, trial_rows as trial_rows
from .chat_options import (
    LOG_ODDS as LOG_ODDS,
    ChatOptions as ChatOptions,
    scoring_in_words as scoring_in_words,
    unnamed_keys as unnamed_keys,
)
