"""Chats as one text: each turn after a line with its role, and the messages that they are published as."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from swapbias.errors import UsageError, listed

MESSAGES = "messages"  # the column of chats as they are published, in place of ``text``
ROLES = ("system", "user", "assistant")
_TURN = re.compile(rf"(?:\A|\n)<\|({'|'.join(ROLES)})\|>\n")


def conversation(*turns: tuple[str, str]) -> str:
    """Write the text of a chat: each turn after a line with its role (system, user or assistant), the user's last.

    Args:
        turns: role and content of each, in order.

    Returns:
        The text, which ``turns`` reads again.
    """
    return "\n".join(f"<|{role}|>\n{content}" for role, content in turns)


def turns(text: str) -> list[dict[str, str]]:
    """Read the turns of a ``conversation``; any other text is one turn of the user.

    Args:
        text: the text of a prompt.

    Returns:
        ``role`` and ``content`` of each turn, in order.
    """
    if "<|" not in text:
        return [{"role": "user", "content": text}]
    before, *parts = _TURN.split(text)
    if before or not parts:
        return [{"role": "user", "content": text}]
    roles = parts[::2]
    contents = parts[1::2]
    return [
        {"role": role, "content": content} for role, content in zip(roles, contents, strict=True)
    ]


def text_of(messages: Iterable[Mapping[str, Any]]) -> str:
    """Write the text of messages as ``apply_chat_template`` takes them, the inverse of ``turns``.

    Args:
        messages: each with ``role`` and ``content``.

    Returns:
        The content of a single message of the user, else a ``conversation``.

    Raises:
        UsageError: there are none, or one has another role or a content that is no text.
    """
    pairs = [(str(message.get("role")), message.get("content")) for message in messages]
    if not pairs or not all(role in ROLES and isinstance(content, str) for role, content in pairs):
        raise UsageError(
            f"Each of {MESSAGES} needs a role ({listed(ROLES)}) and a text as content. Correct them."
        )
    read = [(role, str(content)) for role, content in pairs]
    if [role for role, _ in read] == ["user"]:
        return read[0][1]
    return conversation(*read)
