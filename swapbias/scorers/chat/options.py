"""How a chat model is asked: the service, its key, sampling and limits."""

import math
import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from swapbias.errors import UsageError

NO_KEY = "none"  # sent where no key is set, so that the client does not look for a saved one and send that
MOST_AT_ONCE = 100  # connections that the HTTP client keeps open


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How a chat model is asked.

    Attributes:
        base_url: any OpenAI-compatible endpoint (``http://host:port/v1``); None: Hugging Face Inference Providers.
        provider: which inference provider; None leaves the choice to the service.
        temperature: 0 gives the likeliest answer.
        seed: trial t is asked with seed + t.
        trials: how often each prompt is asked; the rows say which trial they are (``prompt_id`` ends in ``/t3``).
        max_tokens: most tokens of an answer.
        concurrency: most requests at once.
        max_requests: most requests that may be needed; None: any number. Retries are not counted.
        timeout: seconds that one attempt may take.
        attempts: how often a request is tried before the run stops; where the service limits the rate, more often,
            for two minutes at least.
        price_in, price_out: currency units per million tokens, for the estimate.

    Raises:
        UsageError: a value that cannot be meant.
    """

    base_url: str | None = None
    provider: str | None = None
    temperature: float = 1.0
    seed: int = 0
    trials: int = 5
    max_tokens: int = 16
    concurrency: int = 8
    max_requests: int | None = None
    timeout: float = 60.0
    attempts: int = 6
    price_in: float | None = None
    price_out: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("trials", "max_tokens", "attempts"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}, expected 1 or more. Give a whole number.")
        if not 1 <= self.concurrency <= MOST_AT_ONCE:
            raise UsageError(f"concurrency is {self.concurrency}, expected 1 to {MOST_AT_ONCE}. Ask fewer at once.")
        if not (self.timeout > 0 and 0 <= self.temperature < math.inf):
            found = f"timeout {self.timeout} and temperature {self.temperature}"
            raise UsageError(f"{found}: expected a timeout above 0 and a temperature of 0 or more. Change them.")
        self._check_prices()
        if self.base_url is not None:
            self._check_url(self.base_url)

    def _check_prices(self) -> None:
        if (self.price_in is None) != (self.price_out is None):
            raise UsageError("One of price_in and price_out is given, expected both or none. Add the other.")
        for name in ("price_in", "price_out"):
            price = getattr(self, name)
            if price is not None and not 0 <= price < math.inf:
                raise UsageError(f"{name} is {price}, expected a number of 0 or more. Change it.")

    def _check_url(self, url: str) -> None:
        if self.provider is not None:
            raise UsageError("base_url and provider are both given, expected one of them. Drop one.")
        if not _is_address(url):
            raise UsageError(f"base_url is {url!r}, expected http://host:port/v1. Give the whole address.")
        parts = urlsplit(url)
        if parts.username or parts.password or parts.query:
            raise UsageError(
                f"base_url of {parts.hostname} holds a user, a password or a query, expected none: files of the run "
                "name it. Put the key into SWAPBIAS_API_KEY."
            )

    @property
    def host(self) -> str:
        """Host and port of ``base_url``; blank where none is given."""
        return urlsplit(self.base_url).netloc if self.base_url else ""


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        return False


def settings(options: ChatOptions) -> dict[str, Any]:
    """What pins the asking down, for the manifest."""
    names = ("temperature", "seed", "trials", "max_tokens")
    return {name: getattr(options, name) for name in names}


def check_provider(options: ChatOptions) -> None:
    """Refuse an inference provider that answers no conversations, before anything is begun.

    Raises:
        UsageError: naming those that do.
    """
    from huggingface_hub.inference._providers import PROVIDERS

    known = ["auto", *sorted(name for name, tasks in PROVIDERS.items() if "conversational" in tasks)]
    if options.provider is not None and options.provider not in known:
        raise UsageError(
            f"Unknown provider {options.provider!r}: expected local, or one of {', '.join(known)}. Change --provider."
        )


def api_key(options: ChatOptions) -> str:
    """From the environment alone, and read anew for each pass, so that no object holds it.

    A saved Hugging Face token never goes to another service.
    """
    names = ("SWAPBIAS_API_KEY", "OPENAI_API_KEY" if options.base_url else "HF_TOKEN")
    for name in names:
        key = os.environ.get(name, "").strip()
        if key and not (key.isascii() and key.isprintable()):
            raise UsageError(f"{name} holds characters that no key has. Copy the key again.")
        if key:
            return key
    if options.base_url:
        return NO_KEY
    raise UsageError(f"Inference providers need a key, and neither {' nor '.join(names)} is set. Set one of them.")
