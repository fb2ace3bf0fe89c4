from .kind import CHAT as CHAT, asked_rows as asked_rows, load_chat as load_chat
from .options import (
    LOG_ODDS as LOG_ODDS,
    ChatOptions as ChatOptions,
    told_way as told_way,
    unnamed_keys as unnamed_keys,
)
