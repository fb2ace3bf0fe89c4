"""Replies of services, read within bounds: their size and depth, where they come from, what they may hold."""

import json
import math
import zlib
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from huggingface_hub import get_async_session
from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

from swapbias.scorers.chat.options import ChatOptions

NOTHING = "something else than an answer came back"
MOST_REPLY = 4 * 2**20  # bytes of a reply, also unpacked: an answer of a hundred thousand tokens is a tenth of it
MOST_TOKENS = 2**40  # that a reply may count
MOST_LOG = 1.0  # of a token: what is more than rounding above 0 is no log-probability
LONGEST_REASON = 40  # characters of why an answer ended
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")


class NoAnswerError(ValueError):
    """The service sent something else than an answer; ``error`` is what it says of it, if anything."""

    def __init__(self, error: Any = None) -> None:
        super().__init__(NOTHING)
        self.error = error


class MovedError(ValueError):
    """A service names another address: what it is asked, and its key, go to no other."""


class BoundsError(NoAnswerError):
    """A reply is larger or deeper than any answer."""

    def __init__(self, told: str) -> None:
        super().__init__()
        self.told = told


ATTEMPT: ContextVar[str] = ContextVar("attempt", default="")  # names a request, so that it is not paid for twice


def session_to(options: ChatOptions) -> httpx.AsyncClient:
    """To a service that was declared as the user's own nothing goes by way of another: no redirect, no proxy."""
    if options.declared:
        session = httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=None)
    else:
        session = get_async_session()
    hooks = session.event_hooks
    if options.base_url:  # offline mode is about the Hub: a server of one's own is asked all the same
        hooks = {"request": [], "response": []}
    session.headers["Accept-Encoding"] = "gzip, deflate"  # what can be unpacked a bit at a time
    stay = _stay if options.declared else _stay_at_host
    session.event_hooks = {"request": [*hooks["request"], _name], "response": [stay, _whole, *hooks["response"]]}
    return session


async def _name(request: httpx.Request) -> None:
    """A service that takes such names answers a request again that it has answered, and charges it once."""
    if name := ATTEMPT.get():
        request.headers["Idempotency-Key"] = name


async def _stay(response: httpx.Response) -> None:
    """What is asked follows nowhere."""
    if response.has_redirect_location:
        raise MovedError("it sends requests on to another address")


async def _stay_at_host(response: httpx.Response) -> None:
    """What is asked, and the key, follow to no other host."""
    if response.has_redirect_location:
        here, there = response.url, response.url.join(response.headers["location"])
        if (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port):
            await _stay(response)


async def _whole(response: httpx.Response) -> None:
    """Read a reply within bounds, in place of the client, which has none."""
    raw, packed = response.stream, bytearray()
    try:
        async for chunk in raw:  # type: ignore[union-attr]
            packed += chunk
            if len(packed) > MOST_REPLY:
                raise BoundsError(f"a reply of more than {MOST_REPLY:,} bytes came back")
    finally:
        await raw.aclose()  # type: ignore[union-attr]
    content = _unpacked(bytes(packed), response.headers.get("content-encoding", "").strip().lower())
    content = _finite(content)
    for name in ("content-encoding", "transfer-encoding"):
        response.headers.pop(name, None)
    response.headers["content-length"] = str(len(content))
    response.stream = httpx.ByteStream(content)


def _finite(content: bytes) -> bytes:
    """A reply with null for numbers that are none, which the client would take the whole reply for broken for."""
    odd: list[str] = []
    try:
        read = json.loads(content, parse_constant=odd.append, parse_float=lambda number: _float(number, odd))
        return json.dumps(read).encode() if odd else content
    except RecursionError:
        raise BoundsError("a reply that is nested too deeply came back") from None
    except UnicodeDecodeError:
        raise NoAnswerError from None
    except json.JSONDecodeError:  # of an error perhaps, whose words are told
        return content
    except ValueError:  # a whole number of thousands of digits
        raise NoAnswerError from None


def _float(number: str, odd: list[str]) -> float | None:
    value = float(number)
    if math.isfinite(value):
        return value
    odd.append(number)
    return None


def _unpacked(packed: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity"):
        return packed
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise BoundsError("a reply that is packed in another way than was asked for came back")
    try:
        content = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(packed, MOST_REPLY + 1)
    except zlib.error:
        raise NoAnswerError from None
    if len(content) > MOST_REPLY:
        raise BoundsError(f"a reply of more than {MOST_REPLY:,} bytes came back")
    return content


def as_chat(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice of the older endpoint as one of a chat, with the tokens that might have been its first."""
    shown = ((choice.get("logprobs") or {}).get("top_logprobs") or [{}])[0]
    tops = [{"token": token, "logprob": log} for token, log in (shown or {}).items()]
    content = [{"token": "", "logprob": 0.0, "top_logprobs": tops}]
    return {
        **choice,
        "message": {"role": "assistant", "content": choice.get("text")},
        "logprobs": {"content": content} if tops else None,
    }


def first_tokens(choice: Any) -> tuple[tuple[str, float], ...]:
    """The likeliest first tokens of an answer with their log-probabilities; none where the service gives none."""
    try:
        tops = [(str(one.token), float(one.logprob)) for one in choice.logprobs.content[0].top_logprobs]
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        return ()
    return tuple((written(token), log) for token, log in tops if math.isfinite(log) and log < MOST_LOG)


def written(text: str) -> str:
    """A text that can be written down: half of a surrogate pair cannot."""
    return text.encode(errors="replace").decode()


def counted(value: Any) -> int | None:
    """Tokens as a service counted them; None for what is no count."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < MOST_TOKENS else None
