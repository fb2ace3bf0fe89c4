"""Signals while vLLM loads a model."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_NUMBERS = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}


class _Stopped(BaseException):
    """A KeyboardInterrupt by another name."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """End the block where a signal raises KeyboardInterrupt, also where vLLM leaves that out.

    vLLM 0.32 leaves out a KeyboardInterrupt of a model that is loaded, and waits for its processes, which have ended.
    In a thread, where Python takes no signals, nothing changes.
    """
    handlers = {number: signal.getsignal(number) for number in _NUMBERS}
    changed: list[signal.Signals] = []
    try:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, _renamed(handler))
                changed.append(number)
    except ValueError:  # not the main thread
        pass
    try:
        yield
    except _Stopped as stop:
        raise KeyboardInterrupt(*stop.args) from None
    finally:
        for number in changed:
            signal.signal(number, handlers[number])


def _renamed(
    handler: Callable[[int, FrameType | None], Any],
) -> Callable[[int, FrameType | None], Any]:
    """Return a handler that raises a KeyboardInterrupt of another by its other name."""

    def handle(number: int, frame: FrameType | None) -> Any:
        try:
            return handler(number, frame)
        except KeyboardInterrupt as stop:
            raise _Stopped(*stop.args) from None

    return handle
