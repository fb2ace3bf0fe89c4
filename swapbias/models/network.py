"""HTTP settings of the Hub's client: timeouts, retries, and no upload that follows a redirect to another host."""

import logging
import math
import os
import time
from functools import cache
from typing import Any

from swapbias.errors import HubError, UsageError

TIMEOUT = "SWAPBIAS_HUB_TIMEOUT"  # environment variable: seconds without a byte from the Hub
ATTEMPTS = 5
LONGEST_WAIT = 600.0  # seconds that the Hub may ask to wait: its limits begin anew every five minutes
_NOT_DONE = (429, 503)  # the Hub did nothing, so that a write may be sent again
_TRANSIENT = (408, 500, 502, 504)  # only reads are sent again
_log = logging.getLogger("swapbias")
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
    """Give the Hub's client of this process timeouts and retries; a client with timeouts of its own stays."""
    from huggingface_hub import get_session, set_client_factory
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    session = get_session()
    if type(session) is httpx.Client and session.timeout == httpx.Timeout(None):
        hooks = {**session.event_hooks, "response": [*session.event_hooks["response"], _refuse_redirected_write]}
        set_client_factory(lambda: _client_class()(event_hooks=hooks, follow_redirects=True, timeout=None))


@cache
def _client_class() -> Any:
    from huggingface_hub.utils import hf_raise_for_status, httpx  # type: ignore[attr-defined]

    class Client(httpx.Client):
        """httpx's client with the timeouts and retries of this module."""

        def send(self, request: Any, **options: Any) -> Any:
            """As httpx does, up to ``ATTEMPTS`` times."""
            read, write = timeouts()
            answer = write if request.method in _WRITES else read
            limits = {"connect": min(10.0, read), "read": answer, "write": read}
            named = request.extensions.get("timeout") or {}
            own = {name: seconds for name, seconds in named.items() if seconds is not None}
            request.extensions = {**request.extensions, "timeout": limits | own}
            for attempt in range(1, ATTEMPTS + 1):
                response = super().send(request, **options)
                wait = _seconds_to_wait(request, response, attempt)
                if wait is None:
                    return response
                response.read()
                if wait > 8:
                    _log.warning("The Hub asks to wait %.0f seconds (%d): waiting.", wait, response.status_code)
                if attempt < ATTEMPTS:
                    time.sleep(wait)
            hf_raise_for_status(response)
            return response

    return Client


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


def _seconds_to_wait(request: Any, response: Any, attempt: int) -> float | None:
    """Seconds until a request may be sent again; None where it may not, or needs no other try."""
    from huggingface_hub.utils import httpx, parse_ratelimit_headers  # type: ignore[attr-defined]

    again = _NOT_DONE if request.method in _WRITES else (*_NOT_DONE, *_TRANSIENT)
    if response.status_code not in again or not isinstance(request.stream, httpx.ByteStream):
        return None
    value = response.headers.get("retry-after", "").strip()
    limited = parse_ratelimit_headers(response.headers) if response.status_code == 429 else None
    if value.isdigit():
        wait = float(value[:10])
    elif limited and limited.remaining == 0:
        wait = float(limited.reset_in_seconds)
    else:
        wait = min(2.0 ** (attempt - 1), 8.0)
    return wait if wait <= LONGEST_WAIT else None
