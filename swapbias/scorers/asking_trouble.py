"""Why an attempt brought no answer: what the service says, whether it can pass, how long it asks to wait."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import Any

import httpx2
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from swapbias.scorers.chat_options import NO_KEY

LONGEST_WAIT = 600.0  # seconds that a service may ask to wait; beyond them the run stops instead of hanging
LIMITED = 429
PASSING = (408, 409, 425, LIMITED)  # besides 5xx: states that pass
# Where the services are strict about types, the library itself stumbles over bodies of another shape.
FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, TypeError, AttributeError)
NOTHING = "something else than an answer came back"

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_SECONDS = (86_400, 3_600, 60, 1, 0.001)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an attempt brought no answer: in words, HTTP status, whether it can pass, the wait that is asked for."""

    told: str
    status: int = 0
    passes: bool = True
    wait: float = 0.0

    @property
    def limited(self) -> bool:
        """Whether the service wants fewer requests."""
        return self.status == LIMITED


class NoAnswerError(ValueError):
    """The service sent something else than an answer; ``error`` is what it says of it, if anything."""

    def __init__(self, error: Any = None) -> None:
        super().__init__(NOTHING)
        self.error = error


def trouble_of(error: Exception, key: str) -> Trouble:
    """What an error of an attempt means; the key is taken out of what the service says."""
    if isinstance(error, HfHubHTTPError):
        status, wait = error.response.status_code, asked_wait(error.response.headers, error.response.status_code)
        return _told(f"{status}: {_said(error.response, key)}", status, wait)
    if isinstance(error, OfflineModeIsEnabled):
        return Trouble("HF_HUB_OFFLINE is set: unset it", passes=False)
    if isinstance(error, TimeoutError):
        return Trouble("no answer in time")
    if isinstance(error, NoAnswerError) and error.error:
        code = _code(error.error)
        said = _redacted(_message(error.error), key) or NOTHING
        return _told(f"{code}: {said}", code, 0.0) if code else Trouble(said)
    if isinstance(error, JSONDecodeError | UnicodeDecodeError | NoAnswerError | TypeError | AttributeError):
        return Trouble(NOTHING)
    told = _redacted(str(error) or type(error).__name__, key)
    return Trouble(told, passes=isinstance(error, httpx2.HTTPError | OSError))


def _told(told: str, status: int, wait: float) -> Trouble:
    if wait > LONGEST_WAIT:
        return Trouble(f"{told}; asks to wait {wait:.0f} seconds", passes=False)
    return Trouble(told, status, status >= 500 or status in PASSING, wait)


def _said(response: httpx2.Response, key: str) -> str:
    """What the service says of an error, in one line."""
    try:
        text = _message(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        text = response.text or response.reason_phrase
    return _redacted(text, key)


def _message(error: Any) -> str:
    return str(error["message"]) if isinstance(error, Mapping) and "message" in error else str(error)


def _code(error: Any) -> int:
    """The HTTP status that an error within an answer names; 0 where it names none."""
    try:
        code = int(error["code"])
    except (KeyError, TypeError, ValueError):
        return 0
    return code if 400 <= code <= 599 else 0


def _redacted(text: str, key: str) -> str:
    """One line of at most 200 characters, without the key, should the service repeat it."""
    shown = text if key == NO_KEY else text.replace(key, "***")
    return " ".join(shown.split())[:200].rstrip(".")


def asked_wait(headers: Mapping[str, str], status: int) -> float:
    """Seconds that a service asks to wait, by the first of its headers that says so; 0 where none does.

    Where the rate is limited, that is until the limit that is used up begins anew: the later one of two. Where none
    is told to be used up, only the sooner one is meant for sure.
    """
    wait = _number(headers.get("retry-after-ms", "")) / 1000 or _retry_after(headers.get("retry-after", ""))
    if wait or status != LIMITED:
        return wait
    resets = {name: _duration(headers.get(f"x-ratelimit-reset-{name}", "")) for name in ("requests", "tokens")}
    told = {name: reset for name, reset in resets.items() if reset}
    used = [reset for name, reset in told.items() if headers.get(f"x-ratelimit-remaining-{name}", "").strip() == "0"]
    return max(used) if used else min(told.values(), default=0.0)


def _retry_after(value: str) -> float:
    """Seconds of a Retry-After header (a number or a date); 0 where it says nothing."""
    try:
        date = parsedate_to_datetime(value)
        return max((date - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):  # no date, or one without a zone
        return _number(value)


def _number(value: str) -> float:
    """A number above 0; 0 where there is none."""
    try:
        number = float(value)
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(number) else max(number, 0.0)


def _duration(value: str) -> float:
    """Seconds of ``6m0s``, ``1h2m3.5s``, ``20ms`` or a plain number; 0 for anything else."""
    found = _DURATION.fullmatch(value.strip())
    if not found:
        return _number(value)
    return sum(float(part) * seconds for part, seconds in zip(found.groups(), _SECONDS, strict=True) if part)
