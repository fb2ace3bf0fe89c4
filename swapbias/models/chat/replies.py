"""Read the replies of a service: answers, refusals, errors, and log-probabilities of first tokens."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import openai

from swapbias.models.chat.answer_log import CUT_OFF, REFUSED, UNANSWERED, USAGE
from swapbias.models.chat.blank_answers import text_of

MAX_TOKENS = 2**40  # that a reply may count
NOTHING = "something else than an answer came back"
NO_ANSWER = "the reply contains no answer"
BLOCKED = (400, 403, 422, 451)  # statuses of refused texts
LIMITED = 429  # status of a limited rate
MIN_KEY = 6  # characters: a shorter one is a word that an answer may well say
MOST_WORDS = 200  # characters of what a service says of an error
_MAX_DEPTH = 4  # of errors inside errors
_CODE_FIELDS = (
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
_INNER_FIELDS = (
    "error",
    "innererror",
    "inner_error",
    "metadata",
    "details",
    "raw",
    "promptFeedback",
    "prompt_feedback",
)
_ENDING_FIELDS = ("finish_reason", "native_finish_reason", "stop_reason", "finishReason")
_LENGTH_ENDING = re.compile(r"length|max(?:output|completion|new)?tokens|tokenlimit")
_BROKEN_ENDING = re.compile(r"error|abort|cancel|timeout|interrupt|insufficientsystemresource")
# Fields of Azure and of OpenRouter.
_FILTER_FIELDS = ("content_filter_result", "content_filter_results", "flagged_input")
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
    """A request that brought no answer."""

    words: str
    """What happened, mostly as the service says it."""
    status: int = 0
    """The status of HTTP; 0: none."""
    passes: bool = True
    """True where a retry may help."""
    param: str = ""
    """The setting that the service refuses."""
    withheld: str = ""
    """``REFUSED`` or ``UNANSWERED`` where it is about this prompt alone, and the others can be asked."""
    is_spent: bool = False
    """True where the user's quota is spent."""
    is_empty: bool = False
    """True where replies came that hold no answer."""
    is_reply: bool = False
    """True where the service replied, with an error."""


def error_in(reply: Any) -> Any:
    """Return the error in a reply of status 200.

    Args:
        reply: the reply as parsed from JSON.

    Returns:
        The error as the service gives it; None where the reply begins with an answer.
    """
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
    """Return the error of a choice.

    Args:
        choice: a choice of a reply.

    Returns:
        The error as the service gives it; None where it is an answer, or a refusal in place of one.
    """
    if refusal_in(choice) is not None:
        return None
    if choice.get("error"):
        return choice["error"]
    if any(map(_BROKEN_ENDING.search, _ending_codes(choice))):
        return "the answer broke off with an error"
    message = choice.get("message")
    if isinstance(message, dict) and text_of(message.get("content")) is not None:
        return None
    return NO_ANSWER


def refusal_in(choice: Mapping[str, Any]) -> str | None:
    """Return the words of a refusal.

    A model refuses in ``message.refusal`` or in a part of its content; a filter ends the answer for a reason.

    Args:
        choice: a choice of a reply.

    Returns:
        Blank where there are no words; None where a choice is no refusal.
    """
    message = choice.get("message")
    fields = message if isinstance(message, dict) else {}
    content = fields.get("content")
    for words in _refusals_of_model(fields.get("refusal"), content):
        if isinstance(words, str) and words.strip():
            return words
        if words and not isinstance(words, str):
            return text_of(words) or ""
    if any(map(_FILTER_CODE.search, _ending_codes(choice))):
        return text_of(content) or ""
    error = choice.get("error")
    if error and _is_filtered(error, 0):
        return ""
    is_blank = not text_of(content)
    return "" if is_blank and _is_flagged(choice.get("content_filter_results")) else None


def _refusals_of_model(refusal: Any, content: Any) -> Iterator[Any]:
    """Yield the refusal of a message, and those in the parts of its content."""
    yield refusal
    if isinstance(content, list):
        yield from (part.get("refusal") for part in content if isinstance(part, dict))


def ending_of(choice: Mapping[str, Any]) -> str:
    """Return why an answer ended.

    >>> ending_of({"finish_reason": "MAX_TOKENS"}), ending_of({"finish_reason": "end_turn"})
    ('length', 'end_turn')

    Args:
        choice: a choice of a reply.

    Returns:
        ``CUT_OFF`` where it reached the most tokens, in the words of any service; else as the service says it.
    """
    if any(map(_LENGTH_ENDING.search, _ending_codes(choice))):
        return CUT_OFF
    return str(choice.get("finish_reason") or "")


def _ending_codes(choice: Mapping[str, Any]) -> list[str]:
    """Return why a choice ended, by each name that a field for it has, as codes without blanks and marks."""
    endings = [choice.get(name) for name in _ENDING_FIELDS]
    return [_squeeze_code(ending) for ending in endings if isinstance(ending, str)]


def first_tokens(choice: Any) -> tuple[tuple[str, float], ...]:
    """Return the likeliest first tokens of an answer.

    Args:
        choice: a choice of a reply.

    Returns:
        Tokens with their natural logs; none where the reply has none.
    """
    try:
        rows = choice["logprobs"]["content"][0]["top_logprobs"]
        tokens = [(str(row["token"]), float(row["logprob"])) for row in rows]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()
    return tuple((token, log) for token, log in tokens if math.isfinite(log))


def trouble_of(error: Exception, key: str, *, may_quote: bool) -> RequestTrouble:
    """Return what an error of the client means, without the key.

    Args:
        error: the error of a request.
        key: the API key of the service.
        may_quote: False of credentialed notes, for the words of a service may repeat the prompt.

    Returns:
        The trouble with the words that can be shown.
    """
    if isinstance(error, openai.APIStatusError):
        return _trouble_of_status(error, key, may_quote=may_quote)
    if isinstance(error, openai.APITimeoutError):
        return RequestTrouble("no answer in time")
    words = str(error) or type(error).__name__
    passes = False
    if isinstance(error, openai.APIConnectionError):
        words = str(error.__cause__) or type(error.__cause__).__name__
        passes = True
    if not may_quote:
        return RequestTrouble("no answer, and what it said is not shown", passes=passes)
    return RequestTrouble(_one_line(words, key), passes=passes)


def _trouble_of_status(
    error: openai.APIStatusError, key: str, *, may_quote: bool
) -> RequestTrouble:
    """Return what an error means that the service has replied with."""
    extensions = error.response.extensions
    status = extensions.get("status", error.status_code)
    if 300 <= status < 400:
        return RequestTrouble("it sends requests on to another address", status, passes=False)
    content = extensions.get("error", error.body)
    is_spent = is_spent_quota(content, status)
    is_empty = content == NO_ANSWER
    may_pass = status == 0 or status >= 500 or status in (408, 409, LIMITED)
    return RequestTrouble(
        _words_of_error(content, status, key, may_quote=may_quote),
        status,
        passes=may_pass and not is_spent,
        param=str(content.get("param") or "") if isinstance(content, dict) else "",
        withheld=UNANSWERED if is_empty else about_prompt(content, status),
        is_spent=is_spent,
        is_empty=is_empty,
        is_reply=True,
    )


def _words_of_error(content: Any, status: int, key: str, *, may_quote: bool) -> str:
    """Return status and words of an error; its words may repeat the prompt, and are given where ``may_quote``."""
    if not may_quote and content not in (NOTHING, NO_ANSWER):
        return f"{status or 'no answer'}, and what it said is not shown"
    words = _error_message(content) or ", ".join(_error_codes(content)) or str(content or "")
    return ": ".join(filter(None, (str(status or ""), _one_line(words, key))))


def about_prompt(error: Any, status: int) -> str:
    """Return whether an error is about the text of one prompt.

    Args:
        error: the error as the service gives it.
        status: the HTTP status; 0: there is none.

    Returns:
        ``REFUSED`` where the text is not allowed, ``UNANSWERED`` where it is too long; blank: the error is about
        the request, the key or the service.
    """
    if _is_filtered(error, status):
        return REFUSED
    if _has_code(error, _LENGTH_CODE):
        return UNANSWERED
    if status in (0, *BLOCKED) and _LENGTH_WORDS.search(_error_message(error)):
        return UNANSWERED
    return ""


def is_spent_quota(error: Any, status: int) -> bool:
    """Return whether an error says that the user's quota is spent, which no waiting brings back.

    Args:
        error: the error as the service gives it.
        status: the HTTP status; 0: there is none.

    Returns:
        True for a spent quota.
    """
    if status == 402 or _has_code(error, _SPENT_CODE):
        return True
    return (
        status in (0, *BLOCKED, LIMITED) and _SPENT_WORDS.search(_error_message(error)) is not None
    )


def _is_filtered(error: Any, status: int) -> bool:
    """Return whether an error says that a filter refuses the text."""
    if status in (401, 404):
        return False
    if _has_code(error, _FILTER_CODE):
        return True
    return status in (0, *BLOCKED) and _FILTER_WORDS.search(_error_message(error)) is not None


def _has_code(error: Any, pattern: re.Pattern[str]) -> bool:
    """Return whether any code of an error is of a pattern."""
    return any(pattern.search(_squeeze_code(code)) for code in _error_codes(error))


def _is_flagged(results: Any, depth: int = 0) -> bool:
    """Return whether a filter of Azure flags a text; it gives its results of texts that pass as well."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(results, list):
        return any(_is_flagged(result, depth + 1) for result in results)
    if not isinstance(results, dict):
        return False
    if results.get("filtered") is True:
        return True
    return any(_is_flagged(result, depth + 1) for result in results.values())


def _error_codes(error: Any, depth: int = 0) -> Iterator[str]:
    """Yield the codes of an error and of those inside it."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(error, str):  # of a provider behind a router, as it came
        error = _parse_json(error)
    if isinstance(error, list):
        for item in error:
            yield from _error_codes(item, depth + 1)
    if not isinstance(error, dict):
        return
    if any(name in error for name in _FILTER_FIELDS) or _is_flagged(
        error.get("prompt_filter_results")
    ):
        yield "content_filter"
    for name in _CODE_FIELDS:
        if isinstance(error.get(name), str):
            yield error[name]
    for name in _INNER_FIELDS:
        yield from _error_codes(error.get(name), depth + 1)


def _error_message(error: Any) -> str:
    """Return the sentence of an error, blank where it has none."""
    if isinstance(error, list) and error:
        return _error_message(error[0])
    if isinstance(error, dict):
        return _error_message(error.get("message") or error.get("error") or error.get("detail"))
    return error if isinstance(error, str) else ""


def _parse_json(text: str) -> Any:
    """Return what a text of JSON holds; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _squeeze_code(code: str) -> str:
    """Return a code in lower case without blanks and marks."""
    return re.sub(r"[\W_]+", "", code).casefold()


def _one_line(words: str, key: str) -> str:
    """Return words as one line that can be shown, without the key."""
    return " ".join(without_key(words, key).split())[:MOST_WORDS].rstrip(".")


def without_key(text: str, key: str) -> str:
    """Return a text that can be written down (half of a surrogate pair cannot), without the key if it repeats it.

    Args:
        text: a text from a service.
        key: the API key of the service; a very short one may be a word, and stays.

    Returns:
        The text with stars in place of the key.
    """
    text = text.encode(errors="replace").decode()
    return text.replace(key, "***") if len(key) >= MIN_KEY else text


def token_counts_in(usage: Any) -> dict[str, int]:
    """Return the counts of tokens in the ``usage`` of a reply, without what is no count.

    Args:
        usage: the usage of a reply; anything else than a table has no counts.
    """
    counts = {}
    for name in USAGE:
        count = usage.get(name) if isinstance(usage, dict) else None
        if type(count) is int and 0 <= count < MAX_TOKENS:
            counts[name] = count
    return counts
