"""HTTP settings of the Hub's client: timeouts, and no upload that follows a redirect to another host."""

import math
import os
from typing import Any

from swapbias.errors import HubError, UsageError

TIMEOUT = "SWAPBIAS_HUB_TIMEOUT"  # environment variable: seconds without a byte from the Hub
_NONE_SET = 86_400.0  # seconds: the client's timeout, which stands for none
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


def timeouts() -> tuple[float, float]:
    """Seconds without a byte after which a read fails, and a write, at which the Hub works before it answers.

    ``SWAPBIAS_HUB_TIMEOUT`` and four times as many; 30 and 120 by default. UsageError: no number above 0.
    """
    value = os.environ.get(TIMEOUT, "").strip() or "30"
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        raise UsageError(f"{TIMEOUT} is {value[:20]!r}, expected seconds above 0, such as 30. Correct it.")
    return seconds, 4 * seconds


def configure_http() -> None:
    """Give the Hub's client of this process timeouts; a client with timeouts of its own stays."""
    from huggingface_hub import get_session, set_client_factory
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    session = get_session()
    if type(session) is httpx.Client and session.timeout == httpx.Timeout(None):
        hooks: Any = {
            "request": [*session.event_hooks["request"], _limit_time],
            "response": [*session.event_hooks["response"], _refuse_redirected_write],
        }
        set_client_factory(lambda: httpx.Client(event_hooks=hooks, follow_redirects=True, timeout=_NONE_SET))


def _limit_time(request: Any) -> None:
    """Timeouts by method; those that a call sets by itself stay."""
    read, write = timeouts()
    usual = {"connect": min(10.0, read), "read": write if request.method in _WRITES else read, "write": read}
    given = request.extensions.get("timeout") or {}
    own = {name: seconds for name, seconds in given.items() if seconds not in (None, _NONE_SET)}
    request.extensions = {**request.extensions, "timeout": usual | own}


def _refuse_redirected_write(response: Any) -> None:
    """Refuse to follow a redirect with what is written to another host."""
    request = response.request
    if response.has_redirect_location and request.method in _WRITES:
        target = request.url.join(response.headers["location"])
        if (target.scheme, target.host, target.port) != (request.url.scheme, request.url.host, request.url.port):
            raise HubError(
                f"The Hub sends what is written on to another address ({target.host[:80]}), where nothing was sent. "
                "Check HF_ENDPOINT and the network."
            )
