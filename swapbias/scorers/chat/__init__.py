"""Chat models: behind an OpenAI-compatible service, or run here; every answer is kept."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.scorers.chat.answers import AnswerLog as AnswerLog
    from swapbias.scorers.chat.settings import (
        ChatSettings as ChatSettings,
        asked_rows as asked_rows,
        load_chat as load_chat,
        planned_requests as planned_requests,
    )

__getattr__ = front_door(
    __name__,
    {
        "answers": "AnswerLog",
        "settings": "ChatSettings asked_rows load_chat planned_requests",
    },
)
