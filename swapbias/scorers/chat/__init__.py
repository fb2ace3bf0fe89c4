"""Chat models: behind an OpenAI-compatible service, or run here; every answer is kept."""

from swapbias.scorers.chat.kind import CHAT as CHAT, asked_rows as asked_rows
from swapbias.scorers.chat.options import ChatOptions as ChatOptions
