"""HTTP of the Hub's client: timeouts, no redirected write, and whether the Hub can be reached at all."""

import math
import os
import socket
from typing import Any
from urllib.parse import urlsplit

from swapbias.errors import HubError, UsageError

TIMEOUT = "SWAPBIAS_HUB_TIMEOUT"
"""Environment variable: seconds without a byte from the Hub."""
_LONGEST_TIMEOUT = 86_400.0  # seconds: a day
_NO_TIMEOUT = _LONGEST_TIMEOUT  # seconds: the client's own timeout, which stands for none
_CONNECT_SECONDS = 5
_CARD_CHECK = "/api/validate-yaml"
_WRITING_METHODS = ("POST", "PUT", "PATCH", "DELETE")


def offline_reason() -> str:
    """Say why the Hub cannot be reached, at once: its own client would try for a minute.

    Returns:
        The reason as half a sentence, such as "HF_HUB_OFFLINE is set"; empty where the Hub can be reached.
    """
    from urllib.request import getproxies, proxy_bypass  # takes long to import

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    endpoint = urlsplit(constants.ENDPOINT)
    host = endpoint.hostname
    if not host:
        return ""
    if getproxies() and not proxy_bypass(host):  # only the proxy knows whether the Hub answers
        return ""
    try:
        socket.create_connection((host, endpoint.port or 443), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        return f"{host} cannot be reached: {error.strerror or error}"
    return ""


def timeouts() -> tuple[float, float]:
    """Return the seconds without a byte after which a read fails, and a write, at which the Hub works first.

    Returns:
        Seconds of a read (``SWAPBIAS_HUB_TIMEOUT``, 30 by default) and of a write (four times as many).

    Raises:
        UsageError: The variable is no number above 0, or more than a day.
    """
    value = os.environ.get(TIMEOUT, "").strip() or "30"
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_TIMEOUT:
        raise UsageError(
            f"{TIMEOUT} is {value[:20]!r}, expected seconds above 0, such as 30. Correct it."
        )
    return seconds, 4 * seconds


def configure_http() -> None:
    """Give the Hub's client of this process timeouts; a client with timeouts of its own stays."""
    from huggingface_hub import get_session, set_client_factory
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    session = get_session()
    if type(session) is not httpx.Client or session.timeout != httpx.Timeout(None):
        return
    hooks: Any = {
        "request": [*session.event_hooks["request"], _limit_time],
        "response": [
            *session.event_hooks["response"],
            _refuse_redirected_write,
            _raise_failed_check,
        ],
    }
    set_client_factory(
        lambda: httpx.Client(event_hooks=hooks, follow_redirects=True, timeout=_NO_TIMEOUT)
    )


def _limit_time(request: Any) -> None:
    """Set the timeouts of a request by its method; those that a call sets by itself stay."""
    read, write = timeouts()
    limits = {
        "connect": min(10.0, read),
        "read": write if request.method in _WRITING_METHODS else read,
        "write": read,
    }
    for name, seconds in (request.extensions.get("timeout") or {}).items():
        if seconds not in (None, _NO_TIMEOUT):
            limits[name] = seconds
    request.extensions = {**request.extensions, "timeout": limits}


def _refuse_redirected_write(response: Any) -> None:
    """Refuse to follow a redirect with what is written to another host."""
    request = response.request
    if not response.has_redirect_location or request.method not in _WRITING_METHODS:
        return
    source = request.url
    target = source.join(response.headers["location"])
    if (target.scheme, target.host, target.port) != (source.scheme, source.host, source.port):
        raise HubError(
            f"The Hub sends what is written on to another address ({target.host[:80]}). "
            "Nothing was sent there. Check HF_ENDPOINT."
        )


def _raise_failed_check(response: Any) -> None:
    """Raise the error of a check of a card that failed: the client would read the answer first, whatever it is.

    A card that the Hub finds wrong (400) is left to the client, which reads why.
    """
    from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

    if response.request.url.path.endswith(_CARD_CHECK) and response.status_code > 400:
        response.read()
        hf_raise_for_status(response)
