"""Read the replies of a service: answers, refusals, errors, and log-probabilities of first tokens."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import openai

from swapbias.models.chat.answering import CUT_OFF, REFUSED, UNANSWERED

NOTHING = "something else than an answer came back"
NO_ANSWER = "the reply holds no answer"
# statuses of refused texts, and of a limited rate
BLOCKED = (400, 403, 422, 451)
LIMITED = 429
MIN_KEY = 6  # characters: a shorter one is a word that an answer may well say
MOST_WORDS = 200  # characters of what a service says of an error

_DEPTH = 4  # of errors inside errors
_CODES = (
    "code",
    "type",
    "status",
    "reason",
    "name",
    "error_type",
    "error_code",
    "blockReason",
    "block_reason",
)
_INSIDE = (
    "error",
    "innererror",
    "inner_error",
    "metadata",
    "details",
    "raw",
    "promptFeedback",
    "prompt_feedback",
)
_ENDINGS = ("finish_reason", "native_finish_reason", "stop_reason", "finishReason")
_LENGTH_ENDING = re.compile(r"length|max(?:output|completion|new)?tokens|tokenlimit")
_BROKEN_ENDING = re.compile(r"error|abort|cancel|timeout|interrupt|insufficientsystemresource")
_FILTER_FIELDS = (
    "content_filter_result",
    "content_filter_results",
    "flagged_input",
)  # of Azure, of OpenRouter
# Codes are words without blanks and marks: "content_filter", "ContentFilter" and "CONTENT-FILTER" are alike.
_FILTER_CODE = re.compile(
    r"content(?:filter|polic|violation|moderation|blocked|risk)|responsibleai|guardrail|prohibitedcontent|blocklist"
    r"|recitation|spii|sensitive|datainspection|moderation(?:blocked|error|failed)|inputmoderation|toxic|invalidprompt"
    r"|promptblocked|safety(?:$|block|check|filter|system|violation)|^refus(?:al|ed)$|^filtered$|^blocked$"
)
_LENGTH_CODE = re.compile(
    r"contextlength|contextwindow|stringabovemaxlength|prompttoolong|inputtoolong"
)
_SPENT_CODE = re.compile(
    r"insufficient(?:user)?(?:quota|balance|funds?|credits?)|exceededcurrentquota|quotaexceeded|quotaexhausted"
    r"|billing(?:hardlimit|notactive|error)|creditbalance|outofcredits?|arrearage|paymentrequired"
)
# Some services give no code of their own for what their filter refuses: only their sentence says it.
_FILTER_WORDS = re.compile(
    r"content (?:filter|polic|management polic|moderation|violat|exists risk)|responsible ai|safety (?:system|filter"
    r"|polic|setting)|usage (?:polic|guideline)|inappropriate content|considered high risk"
    r"|(?:prompt|input|output|request|response) (?:was|has been|is) (?:flagged|filtered)",
    re.IGNORECASE,
)
_LENGTH_WORDS = re.compile(
    r"maximum context length|context (?:length|window|size)|prompt is too long", re.IGNORECASE
)
_SPENT_WORDS = re.compile(
    r"credit balance is too low|insufficient (?:balance|credits?|funds)|exceeded your current quota",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RequestTrouble:
    """Why a request brought no answer."""

    words: str
    status: int = 0
    """The status of HTTP; 0: none."""
    passes: bool = True
    """Whether a retry may help."""
    param: str = ""
    """The setting that the service refuses."""
    withheld: str = ""
    """``REFUSED`` or ``UNANSWERED`` where it is about this prompt alone, and the others can be asked."""
    is_spent: bool = False
    """Whether the user's quota is spent."""
    is_empty: bool = False
    """Whether replies came that hold no answer."""
    is_reply: bool = False
    """Whether the service replied, with an error."""


def error_in(reply: Any) -> Any:
    """Return the error in a reply of status 200, as the service gives it; None where it begins with an answer."""
    match reply:
        case {"error": error} if error:
            return error
        case {"choices": [dict() as choice, *_]}:
            return error_of_choice(choice)
        case {"promptFeedback": dict()} | {"prompt_feedback": dict()}:
            return reply
        case {"choices": [] | None}:
            return reply if _is_flagged(reply.get("prompt_filter_results")) else NO_ANSWER
    return NOTHING


def error_of_choice(choice: Mapping[str, Any]) -> Any:
    """Return the error of a choice; None where it is an answer, or a refusal in place of one."""
    if refusal_in(choice) is not None:
        return None
    if choice.get("error"):
        return choice["error"]
    if any(map(_BROKEN_ENDING.search, _endings(choice))):
        return "the answer broke off with an error"
    message = choice.get("message")
    if isinstance(message, dict) and text_of(message.get("content")) is not None:
        return None
    return NO_ANSWER


def refusal_in(choice: Mapping[str, Any]) -> str | None:
    """Return the words of a refusal, blank where there are none; None where a choice is no refusal.

    A model refuses in ``message.refusal`` or in a part of its content; a filter ends the answer for a reason.
    """
    message = choice.get("message")
    fields = message if isinstance(message, dict) else {}
    parts = fields.get("content")
    refusals = [fields.get("refusal")]
    if isinstance(parts, list):
        refusals += [part.get("refusal") for part in parts if isinstance(part, dict)]
    words = next((one for one in refusals if isinstance(one, str) and one.strip()), None)
    if words is not None:
        return words
    if any(map(_FILTER_CODE.search, _endings(choice))):
        return text_of(parts) or ""
    error = choice.get("error")
    if error and _is_filtered(error, 0):
        return ""
    is_blank = not text_of(parts)
    return "" if is_blank and _is_flagged(choice.get("content_filter_results")) else None


def ending_of(choice: Mapping[str, Any]) -> str:
    """Return why an answer ended, ``CUT_OFF`` where it reached the most tokens, in the words of any service.

    >>> ending_of({"finish_reason": "MAX_TOKENS"}), ending_of({"finish_reason": "end_turn"})
    ('length', 'end_turn')
    """
    if any(map(_LENGTH_ENDING.search, _endings(choice))):
        return CUT_OFF
    return str(choice.get("finish_reason") or "")


def _endings(choice: Mapping[str, Any]) -> list[str]:
    """Return why a choice ended, by each name that a field for it has, as codes without blanks and marks."""
    endings = [choice.get(name) for name in _ENDINGS]
    return [_squeezed(ending) for ending in endings if isinstance(ending, str)]


def text_of(content: Any) -> str | None:
    """Return the text of an answer, whose parts may stand in a list; None where it is none.

    Parts that are no text, such as the model's thinking, are left out.

    >>> text_of([{"type": "thinking", "thinking": "Or no?"}, {"type": "text", "text": "Yes"}]), text_of(7)
    ('Yes', None)
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
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("type", "text") not in ("text", "output_text"):
        return ""
    text = part.get("text")
    if isinstance(text, dict):
        text = text.get("value")
    return text if isinstance(text, str) else ""


def first_tokens(choice: Any) -> tuple[tuple[str, float], ...]:
    """Return the likeliest first tokens of an answer with their log-probabilities; none where there are none."""
    try:
        rows = choice["logprobs"]["content"][0]["top_logprobs"]
        tokens = [(str(row["token"]), float(row["logprob"])) for row in rows]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()
    return tuple((token, log) for token, log in tokens if math.isfinite(log))


def trouble_of(error: Exception, key: str, *, shown: bool) -> RequestTrouble:
    """Return what an error of the client means, without the key; what the service says may repeat the prompt."""
    if isinstance(error, openai.APIStatusError):
        return _trouble_of_status(error, key, shown=shown)
    if isinstance(error, openai.APITimeoutError):
        return RequestTrouble("no answer in time")
    words = str(error) or type(error).__name__
    passes = False
    if isinstance(error, openai.APIConnectionError):
        words = str(error.__cause__) or type(error.__cause__).__name__
        passes = True
    if not shown:
        return RequestTrouble("no answer, and what it said is not shown", passes=passes)
    return RequestTrouble(_line(words, key), passes=passes)


def _trouble_of_status(error: openai.APIStatusError, key: str, *, shown: bool) -> RequestTrouble:
    extensions = error.response.extensions
    status = extensions.get("status", error.status_code)
    if 300 <= status < 400:
        return RequestTrouble("it sends requests on to another address", status, passes=False)
    content = extensions.get("error", error.body)
    fields = content if isinstance(content, dict) else {}
    withheld = about_prompt(content, status)
    is_spent = is_spent_quota(content, status)
    is_empty = content == NO_ANSWER
    passes = status == 0 or status >= 500 or status in (408, 409, LIMITED)
    words = f"{status or 'no answer'}, and what it said is not shown"
    if shown or content in (NOTHING, NO_ANSWER):
        line = _line(_message(content) or ", ".join(_codes(content)) or str(content or ""), key)
        words = ": ".join(filter(None, (str(status or ""), line)))
    return RequestTrouble(
        words,
        status,
        passes=passes and not is_spent,
        param=str(fields.get("param") or ""),
        withheld=UNANSWERED if is_empty else withheld,
        is_spent=is_spent,
        is_empty=is_empty,
        is_reply=True,
    )


def about_prompt(error: Any, status: int) -> str:
    """Return ``REFUSED`` where an error says that the text is not allowed, ``UNANSWERED`` where it is too long.

    Blank: it is about the request, the key or the service. ``status`` of HTTP; 0: none.
    """
    if _is_filtered(error, status):
        return REFUSED
    has_sentence = status in (0, *BLOCKED) and _LENGTH_WORDS.search(_message(error))
    return UNANSWERED if has_sentence or _has_code(error, _LENGTH_CODE) else ""


def is_spent_quota(error: Any, status: int) -> bool:
    """Whether an error says that the user's quota is spent, which no waiting brings back."""
    if status == 402 or _has_code(error, _SPENT_CODE):
        return True
    return status in (0, *BLOCKED, LIMITED) and _SPENT_WORDS.search(_message(error)) is not None


def _is_filtered(error: Any, status: int) -> bool:
    if status in (401, 404):
        return False
    if _has_code(error, _FILTER_CODE):
        return True
    return status in (0, *BLOCKED) and _FILTER_WORDS.search(_message(error)) is not None


def _has_code(error: Any, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(_squeezed(code)) for code in _codes(error))


def _is_flagged(results: Any, depth: int = 0) -> bool:
    """Whether a filter of Azure flags a text: it tells its results of texts that pass as well."""
    if depth > _DEPTH or not isinstance(results, dict | list):
        return False
    if isinstance(results, list):
        return any(_is_flagged(one, depth + 1) for one in results)
    return results.get("filtered") is True or any(
        _is_flagged(one, depth + 1) for one in results.values()
    )


def _codes(error: Any, depth: int = 0) -> Iterator[str]:
    """Yield the codes of an error and of those inside it."""
    if depth > _DEPTH:
        return
    if isinstance(error, str):  # of a provider behind a router, as it came
        error = _parsed(error)
    if isinstance(error, list):
        for item in error:
            yield from _codes(item, depth + 1)
    if not isinstance(error, dict):
        return
    if any(name in error for name in _FILTER_FIELDS) or _is_flagged(
        error.get("prompt_filter_results")
    ):
        yield "content_filter"
    for name in _CODES:
        if isinstance(error.get(name), str):
            yield error[name]
    for name in _INSIDE:
        yield from _codes(error.get(name), depth + 1)


def _message(error: Any) -> str:
    """Return the sentence of an error, blank where it has none."""
    if isinstance(error, list) and error:
        return _message(error[0])
    if isinstance(error, dict):
        return _message(error.get("message") or error.get("error") or error.get("detail"))
    return error if isinstance(error, str) else ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _squeezed(code: str) -> str:
    return re.sub(r"[\W_]+", "", code).casefold()


def _line(words: str, key: str) -> str:
    return " ".join(without_key(words, key).split())[:MOST_WORDS].rstrip(".")


def without_key(text: str, key: str) -> str:
    """Return a text that can be written down (half of a surrogate pair cannot), without the key if it repeats it."""
    text = text.encode(errors="replace").decode()
    return text.replace(key, "***") if len(key) >= MIN_KEY else text
