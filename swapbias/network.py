"""Requests to the Hub: none waits for ever, trouble that passes is outlasted, nothing written goes elsewhere."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from swapbias.errors import HubError, UsageError

TIMEOUT = "SWAPBIAS_HUB_TIMEOUT"  # seconds that the Hub may be silent
ATTEMPTS = 5  # of a request that is refused for now
LONGEST_WAIT = 600.0  # seconds that the Hub may ask to wait: its limits begin anew every five minutes
LEAST = 1_000  # bytes a second: a server that sends fewer is not worth waiting for
PASSING = (408, 429, 500, 502, 503, 504)
UNDONE = (429, 503)  # what says that nothing was done: even what must not be done twice may be sent again
CLASHES = (409, 412)  # what a commit that went through meets when it is sent again
_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_log = logging.getLogger("swapbias")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the Hub is waited for, in seconds.

    Attributes:
        silent: without a byte, and to send the head of an answer to what only reads.
        working: the same for what writes, which the Hub works at before it answers.
        total: while every request fails.
    """

    silent: float = 30.0
    working: float = 120.0
    total: float = 120.0

    @classmethod
    def chosen(cls) -> "Patience":
        """By ``SWAPBIAS_HUB_TIMEOUT`` where that is set.

        Raises:
            UsageError: it is no number above 0.
        """
        value = os.environ.get(TIMEOUT, "").strip()
        if not value:
            return cls()
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= 86_400:
            raise UsageError(f"{TIMEOUT} is {value[:20]!r}, expected seconds above 0, such as 30. Correct it.")
        return cls(seconds, 4 * seconds, 4 * seconds)

    def of(self, method: str) -> float:
        """For the head of an answer."""
        return self.working if method in _WRITES else self.silent


def bound() -> None:
    """From now on the Hub's client has bounds in this process; one that the user made themselves stays as it is.

    Large files come and go by HTTP as well: Xet has a network of its own, where no bound holds. Who sets
    ``HF_HUB_DISABLE_XET=0`` has it.
    """
    from huggingface_hub import constants, set_client_factory
    from huggingface_hub.utils import _http

    if "HF_HUB_DISABLE_XET" not in os.environ:
        constants.HF_HUB_DISABLE_XET = True
    present = getattr(_http, "_GLOBAL_CLIENT_FACTORY", None)
    if present is getattr(_http, "default_client_factory", None):
        set_client_factory(_session)


def _session() -> Any:
    from huggingface_hub.utils._http import default_client_factory

    usual = default_client_factory()
    hooks = {**usual.event_hooks, "response": [*usual.event_hooks["response"], _look]}
    return _session_class()(event_hooks=hooks, follow_redirects=True, timeout=None)


@cache
def _session_class() -> Any:
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    class Session(httpx.Client):
        """A client whose every request is bounded, whoever sends it."""

        def send(self, request: Any, **how: Any) -> Any:
            """As httpx does, and again where the Hub asks for it."""
            return _send(super().send, request, how)

    return Session


def _send(send: Callable[..., Any], request: Any, how: Mapping[str, Any]) -> Any:
    from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

    patience, first = Patience.chosen(), None
    _watch(request, patience)
    for tried in range(1, ATTEMPTS + 1):
        response = _sent(send, request, how, patience)
        status = response.status_code
        if first is not None and status in CLASHES:  # with itself: what was answered first tells what to do
            response.close()
            hf_raise_for_status(first)
        if status not in PASSING:
            return response
        wait = _asked_wait(response)
        if wait > LONGEST_WAIT:
            response.close()
            raise HubError(
                f"The Hub asks to wait {wait:,.0f} seconds ({status}), so that it was not done. Run it again "
                "after that."
            )
        if not _repeatable(request, status):
            return response
        response.read()
        response.close()
        if tried < ATTEMPTS:
            first = first if first is not None or status in UNDONE else response
            if wait:
                _log.warning("The Hub asks to wait %.0f seconds (%d): waiting.", math.ceil(wait), status)
            time.sleep(wait or min(2.0 ** (tried - 1), 8.0))
    hf_raise_for_status(response)
    return response


def _sent(send: Callable[..., Any], request: Any, how: Mapping[str, Any], patience: Patience) -> Any:
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    try:
        return send(request, **how)
    except httpx.TransportError:
        _FAILING.again(patience)
        raise
    finally:
        _HEAD.until = math.inf


def _repeatable(request: Any, status: int) -> bool:
    """Whether a request may be sent again: its body is at hand, and doing it twice does no harm."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    if not isinstance(request.stream, httpx.ByteStream):
        return False
    path = request.url.path
    once = request.method == "POST" and (
        "/discussions" in path or ("/commit/" in path and "create_pr" in request.url.params)
    )
    return status in UNDONE or not once


def _asked_wait(response: Any) -> float:
    """Seconds that the Hub asks to wait; 0 where it does not say."""
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    value = response.headers.get("retry-after", "").strip()
    if value.isdigit() and len(value) < 10:
        return float(value)
    if response.status_code == 429 and "ratelimit" in response.headers:
        found = parse_ratelimit_headers(response.headers)
        return float(found.reset_in_seconds) if found and found.remaining == 0 else 0.0
    return LONGEST_WAIT + 1 if value.isdigit() else 0.0


def _look(response: Any) -> None:
    """Of each answer before its body is read: nothing written follows it to another host, and the body has a pace."""
    request = response.request
    _HEAD.until = math.inf
    if response.has_redirect_location and request.method in _WRITES:
        target = request.url.join(response.headers["location"])
        if (target.scheme, target.host, target.port) != (request.url.scheme, request.url.host, request.url.port):
            raise HubError(
                f"The Hub sends what is written on to another address ({str(target.host)[:80]}), where nothing was "
                "sent. Check HF_ENDPOINT and the network."
            )
    response.stream = _paced_class()(response.stream, Patience.chosen())


@cache
def _paced_class() -> Any:
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    class Paced(httpx.SyncByteStream):
        """A body that must come at a pace; only waiting for it counts, not what is done with it."""

        def __init__(self, inner: Any, patience: Patience) -> None:
            self.inner, self.patience = inner, patience

        def __iter__(self) -> Iterator[bytes]:
            chunks, waited, got = iter(self.inner), 0.0, 0
            while True:
                since = time.monotonic()
                try:
                    chunk = next(chunks, None)
                except httpx.TransportError:
                    _FAILING.again(self.patience)
                    raise
                waited += time.monotonic() - since
                if chunk is None:
                    _FAILING.over()
                    return
                got += len(chunk)
                if waited > self.patience.silent:
                    if got < LEAST * waited:
                        raise _too_slow(f"{got:,} bytes in {waited:,.1f} seconds")
                    waited, got = 0.0, 0
                yield chunk

        def close(self) -> None:
            """The connection is let go."""
            self.inner.close()

    return Paced


def _too_slow(what: str) -> HubError:
    return HubError(f"The Hub sends too slowly ({what}), and is not waited for. Check the network. Run it again.")


class _Failing:
    """Since when every request fails; of all threads, for they ask one Hub."""

    def __init__(self) -> None:
        self.since = self.last = 0.0

    def again(self, patience: Patience) -> None:
        """One more failed.

        Raises:
            HubError: that has lasted too long.
        """
        now = time.monotonic()
        if not self.since or now - self.last > patience.total:
            self.since = now
        self.last = now
        if now - self.since > patience.total:
            lasted, self.since = now - self.since, 0.0
            raise HubError(
                f"The Hub has not answered for {lasted:,.0f} seconds, and is not waited for. Check the network. "
                "Run the command again: what has arrived is not sent twice."
            )

    def over(self) -> None:
        """One arrived whole."""
        self.since = 0.0


class _Head(threading.local):
    """Until when the head of the answer that this thread reads must be there."""

    until = math.inf


_FAILING, _HEAD = _Failing(), _Head()


def _watch(request: Any, patience: Patience) -> None:
    """Bound the parts of a request; a caller's own bounds stay."""
    asked = request.extensions.get("timeout") or {}
    usual = {"connect": min(10.0, patience.silent), "read": patience.of(request.method), "write": patience.silent}
    bounds = {name: seconds if asked.get(name) is None else asked[name] for name, seconds in usual.items()}

    def trace(name: str, info: Mapping[str, Any]) -> None:
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            _head_bounded(info["return_value"])
        elif name.endswith("receive_response_headers.started"):
            # A byte now and then ends no wait for the next one: the head as a whole has its time.
            _HEAD.until = time.monotonic() + bounds["read"]

    request.extensions = {**request.extensions, "timeout": {**asked, **bounds}, "trace": trace}


def _head_bounded(stream: Any) -> None:
    read = stream.read

    def in_time(most: int, timeout: float | None = None) -> Any:
        if time.monotonic() > _HEAD.until:
            raise _too_slow("the head of an answer")
        return read(most, timeout)

    stream.read = in_time
