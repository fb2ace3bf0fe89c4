"""Answers without text: what came in place of one, in words of ours, which repeat nothing of the prompt."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from swapbias.models.chat.answer_log import Answer
from swapbias.studies import answer_text

REASONING = "the model thought and wrote no answer"
_TOOL = "the model called a tool"
_NO_TEXT = "the answer has parts that are no text"
_NULL = "the content of the answer is null"
_EMPTY = "the answer is empty"
# Fields of a message, as services call them.
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_TOOL_FIELDS = ("tool_calls", "function_call")
_TOOL_PARTS = ("tool_use", "tool_call", "function_call")
_REASONING_PARTS = ("thinking", "reasoning", "redacted_thinking")


def text_of(content: Any) -> str | None:
    """Return the text of an answer, whose parts may stand in a list.

    Parts that are no text, such as the model's thinking, are left out.

    >>> text_of([{"type": "thinking", "thinking": "Or no?"}, {"type": "text", "text": "Yes"}]), text_of(7)
    ('Yes', None)

    Args:
        content: the content of a message.

    Returns:
        Blank for no content; None where it is no text.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return None
    return "".join(map(_part_text, content))


def _part_text(part: Any) -> str:
    """Return the text of a part of an answer; blank for another part, such as an image."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("type", "text") not in ("text", "output_text"):
        return ""
    text = part.get("text")
    if isinstance(text, dict):
        text = text.get("value")
    return text if isinstance(text, str) else ""


def why_blank(message: Mapping[str, Any]) -> str:
    """Say what a service sent in place of a text.

    >>> why_blank({"content": None, "tool_calls": [{"type": "function"}]}), why_blank({"content": "Yes"})
    ('the model called a tool', '')

    Args:
        message: the message of a reply.

    Returns:
        A clause; blank where the message has a text.
    """
    content = message.get("content")
    if (text_of(content) or "").strip():
        return ""
    parts = content if isinstance(content, list) else []
    types = {part.get("type") for part in parts if isinstance(part, Mapping)}
    if any(map(message.get, _TOOL_FIELDS)) or types & {*_TOOL_PARTS}:
        return _TOOL
    if any(map(message.get, _REASONING_FIELDS)) or types & {*_REASONING_PARTS}:
        return REASONING
    if types - {"text", "output_text"} or message.get("audio"):
        return _NO_TEXT
    return _NULL if content is None else _EMPTY


def why_unsaid(answer: Answer) -> str:
    """Say why an answer has no text outside of reasoning between tags.

    Args:
        answer: the answer as it came.

    Returns:
        The reason that it has already, or a clause; blank where it has a text, or probabilities in its place.
    """
    if answer.reason or answer.withheld or answer.logprobs:
        return answer.reason
    if answer_text.without_reasoning(answer.answer):
        return ""
    return REASONING if answer.answer.strip() else _EMPTY


def describe_blank(model_id: str, log: Mapping[str, Answer]) -> str:
    """Say how many answers have no text, and what came in its place.

    Args:
        model_id: the name of the model.
        log: the answers so far.

    Returns:
        A sentence; blank where each answer has a text, or is withheld.
    """
    reasons = Counter(
        answer.reason for answer in log.values() if answer.reason and not answer.withheld
    )
    if not reasons:
        return ""
    parts = [f"{count:,}: {reason}" for reason, count in reasons.most_common()]
    return f"{reasons.total():,} of {len(log):,} answers of {model_id} have no text ({', '.join(parts)})."
