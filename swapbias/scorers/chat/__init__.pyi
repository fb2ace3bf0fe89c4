from .kind import CHAT as CHAT, asked_rows as asked_rows, load_chat as load_chat
from .options import ChatOptions as ChatOptions
