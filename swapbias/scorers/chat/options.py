"""How a chat model is asked: the service, its key, sampling and limits."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from swapbias.errors import UsageError
from swapbias.scorers.scorer import check_ranges, option

LOCAL = "local"  # the provider that is this machine
SERVICE_ONLY = ("base_url", "max_requests", "price_in", "price_out")  # settings of a service
NO_KEY = "none"  # sent where no key is set, so that the client does not look for a saved one and send that
MOST_AT_ONCE = 100  # connections that the HTTP client keeps open


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How a chat model is asked; keys come from the environment alone.

    Attributes:
        model: its name at the endpoint, a Hub id or a local folder; None: no chat model is audited.
        base_url: any OpenAI-compatible endpoint (``http://host:port/v1``); None: Hugging Face Inference Providers, or
            this machine.
        own_address: addresses of services that are the user's own: credentialed notes are sent to no other.
        provider: which inference provider, or ``local``; None leaves the choice to the service.
        trials: how often each prompt is asked; the rows say which trial they are (``prompt_id`` ends in ``/t3``).
        temperature: 0 gives the likeliest answer.
        max_tokens: most tokens of an answer.
        concurrency: most requests at once.
        max_requests: most requests that may be needed; None: any number. Retries are not counted.
        timeout: seconds that one attempt may take.
        price_in, price_out: currency units per million tokens, for the estimate.
        seed: trial t is asked with seed + t.
        attempts: how often a request is tried before the run stops; where the service limits the rate, more often,
            for two minutes at least.

    Raises:
        UsageError: a value that cannot be meant.
    """

    key: ClassVar[str] = "chat"  # in a manifest's settings

    model: str | None = option(
        None, "Chat model: its name at the endpoint, a Hub id, or a local folder.", name="chat", place=True
    )
    base_url: str | None = option(None, "OpenAI-compatible endpoint; none: Hugging Face Inference Providers.")
    own_address: tuple[str, ...] = option(
        (), "Your own service: credentialed notes may be sent to this address alone; may be repeated."
    )
    provider: str | None = option(None, "Inference provider, or local: run the Hub id with transformers here.")
    trials: int = option(5, "Times each prompt is asked.", least=1, most=1_000)  # beyond, the rows fill a memory
    temperature: float = option(1.0, "Of the chat model.", least=0.0)
    max_tokens: int = option(16, "Most tokens of an answer; models that think first need thousands.", least=1)
    concurrency: int = option(8, "Requests at once.", least=1, most=MOST_AT_ONCE)
    max_requests: int | None = option(None, "Stop before the first request beyond this.", least=0)
    timeout: float = option(60.0, "Seconds that one attempt may take.", least=0.001)
    price_in: float | None = option(None, "Price of a million prompt tokens.", least=0.0)
    price_out: float | None = option(None, "Price of a million answer tokens.", least=0.0)
    seed: int = 0
    attempts: int = field(default=6, metadata={"least": 1})

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        check_ranges(self)
        if (self.price_in is None) != (self.price_out is None):
            raise UsageError("One of price_in and price_out is given, expected both or none. Add the other.")
        if self.base_url is not None:
            self._check_url(self.base_url)
        for one in self.own_address:
            if not _is_address(one):
                raise UsageError(f"own_address is {one!r}, expected http://host:port. Give the whole address.")

    @property
    def local(self) -> bool:
        """Whether the model runs on this machine, with transformers."""
        if self.provider == LOCAL:
            return True
        return self.base_url is None and self.model is not None and Path(self.model).is_dir()

    def check(self) -> None:
        """Refuse a service and its settings for a model that runs here.

        Raises:
            UsageError: naming what is given too much.
        """
        if not self.local:
            return
        if self.provider not in (None, LOCAL):
            raise UsageError(
                f"{self.model} is a folder, which runs on this machine, and provider {self.provider!r} is given. "
                "Drop --provider, or give the name of the model there."
            )
        given = [f"--{name.replace('_', '-')}" for name in SERVICE_ONLY if getattr(self, name) is not None]
        if given:
            told = " and ".join(given)
            raise UsageError(f"{self.model} runs on this machine, and {told} is for models of a service. Drop it.")

    @property
    def declared(self) -> bool:
        """Whether the service is one that the user declared as their own; this machine's are so alone by being said.

        What listens on this machine may hand texts on, as a proxy of a service does.
        """
        return self.base_url is not None and _origin(self.base_url) in map(_origin, self.own_address)

    def _check_url(self, url: str) -> None:
        if self.provider not in (None, LOCAL):
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


def _origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: what a connection is made to."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or usual


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
