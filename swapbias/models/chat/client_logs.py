"""Logs of the client of a service, which may hold the texts of prompts."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silenced_clients(credentialed: bool) -> Iterator[None]:
    """Let the client and its transport log nothing of credentialed notes, whatever the level.

    Args:
        credentialed: whether prompts hold such notes; of others the logs stay as they are.
    """
    names = ("openai", "httpx2", "httpcore2") if credentialed else ()
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
