from .kind import CHAT as CHAT, asked_rows as asked_rows
from .options import ChatOptions as ChatOptions
