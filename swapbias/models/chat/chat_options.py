"""How a chat model is asked: the service, its key, sampling and limits."""

import ipaddress
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from swapbias.errors import UsageError
from swapbias.models.base import option, validated, written

LOCAL = "local"  # the provider that is this machine
SERVICE_ONLY = ("base_url", "max_requests", "price_in", "price_out", "max_cost")  # settings of a service
NO_KEY = "none"  # sent where no key is set, so that the client does not look for a saved one and send that
SCORINGS = SAMPLED, LOG_ODDS = "sampled", "log-odds"
ENDPOINTS = CHATS, COMPLETIONS = "chat", "completions"
_CHANGED = ("json_schema", "answers_per_request")  # settings that a manifest names where they are not the usual
OF_SAMPLES = ("trials", "temperature", "max_tokens")  # settings that log-odds have no use for
KEY = "SWAPBIAS_API_KEY"
JUDGE_KEY = "SWAPBIAS_JUDGE_API_KEY"
KEYS = {  # of services by their host, where a key of that name goes and nowhere else
    "api.openai.com": "OPENAI_API_KEY",
    "api.anthropic.com": "ANTHROPIC_API_KEY",
    "api.cohere.ai": "COHERE_API_KEY",
    "api.deepseek.com": "DEEPSEEK_API_KEY",
    "api.fireworks.ai": "FIREWORKS_API_KEY",
    "api.groq.com": "GROQ_API_KEY",
    "api.mistral.ai": "MISTRAL_API_KEY",
    "api.together.xyz": "TOGETHER_API_KEY",
    "api.x.ai": "XAI_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "router.huggingface.co": "HF_TOKEN",
}
MOST_AT_ONCE = 100  # connections that the HTTP client keeps open


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How a chat model is asked; keys come from the environment alone. Each field says what it sets (``help``).

    Attributes:
        endpoint: ``completions`` has no roles: the turns stand one below the other (base models).
        scoring: ``log-odds``: probabilities of the options of closed questions, one request for each of two orders.
        json_schema: the enum of the schema are the options, or their letters where the question gives some; a service
            that refuses schemas is asked without.
        trials: the rows say which trial they are (``prompt_id`` ends in ``/t3``); trial t is asked with seed + t.
        answers_per_request: ``n``, with the seed of the first trial; of a service that refuses it, or gives one
            answer, each trial is asked for by itself.
        max_requests: retries are not counted.
        judge: asked as the model is, but for ``judge_base_url``, ``judge_provider`` and ``judge_max_tokens``.
        key_name: no manifest says it: it could name any secret.
        attempts: how often a request is tried before the run stops; where the service limits the rate, more often,
            for two minutes at least.

    Raises:
        UsageError: a value that is out of range or contradicts another.
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
    endpoint: str = option(CHATS, "Of the service: chat, or completions (base models).")
    scoring: str = option(SAMPLED, "sampled answers, or log-odds of the options (no trials).")
    top_logprobs: int = option(20, "First tokens a service tells, for log-odds.", least=1)
    json_schema: bool = option(False, "Let a JSON schema allow the options alone, where the service knows schemas.")
    log: str | None = option(None, "Eval log of inspect_ai: its answers are read and nothing is asked.", place=True)
    trials: int = option(5, "Times each prompt is asked.", least=1, most=1_000)  # beyond, the rows fill a memory
    answers_per_request: int = option(1, "Trials that one request asks for (n), where the service allows.", least=1)
    temperature: float = option(1.0, "Of the chat model.", least=0.0)
    max_tokens: int = option(16, "Most tokens of an answer; models that think first need thousands.", least=1)
    concurrency: int = option(8, "Requests at once.", least=1, most=MOST_AT_ONCE)
    max_requests: int | None = option(None, "Stop before the first request beyond this.", least=0)
    timeout: float = option(60.0, "Seconds that one attempt may take.", least=0.001)
    price_in: float | None = option(None, "Price of a million prompt tokens.", least=0.0)
    price_out: float | None = option(None, "Price of a million answer tokens.", least=0.0)
    no_seed: bool = option(False, "Send no seed, to a service that refuses it.")
    max_cost: float | None = option(None, "Ask no further round of trials beyond this cost.", least=0.0)
    stop_early: bool = option(False, "Look at results between trials; ask on only where nothing is decided.")
    judge: str | None = option(None, "Chat model that reads free text as well, without the group.", place=True)
    judge_base_url: str | None = option(
        None, "The judge's OpenAI-compatible endpoint [default: the model's service]."
    )
    judge_provider: str | None = option(None, "The judge's inference provider, or local.")
    judge_max_tokens: int = option(16, "Most tokens of a judgement; judges that think need thousands.", least=1)
    seed: int = 0
    key_name: str = option(
        KEY, "Variable of the environment that holds the service's key.", name="api_key_env", unsaved=True
    )
    plain_http: bool = option(False, "Ask a service elsewhere over http, which anybody can read.", unsaved=True)
    attempts: int = field(default=6, metadata={"least": 1})

    def __post_init__(self) -> None:
        """Refuse values that are out of range or contradict each other."""
        for name, known in (("scoring", SCORINGS), ("endpoint", ENDPOINTS)):
            if getattr(self, name) not in known:
                raise UsageError(f"Unknown {name} {getattr(self, name)!r}: expected {' or '.join(known)}.")
        if (self.price_in is None) != (self.price_out is None):
            raise UsageError("One of price_in and price_out is given, expected both or none. Add the other.")
        if self.max_cost is not None and self.price_in is None:
            raise UsageError("max_cost is given and no prices are. Add -M price-in and -M price-out.")
        if self.base_url is not None:
            self._check_url(self.base_url)
        for one in self.own_address:
            if not _is_address(one):
                raise UsageError(f"own_address is {one!r}, expected http://host:port. Give the whole address.")
        alone = [name for name in ("judge_base_url", "judge_provider") if getattr(self, name) is not None]
        if alone and self.judge is None:
            raise UsageError(f"{alone[0]} is given and no judge. Name it with -M judge.")

    @property
    def log_odds(self) -> bool:
        """Whether options are scored by their probabilities."""
        return self.scoring == LOG_ODDS

    @property
    def local(self) -> bool:
        """Whether the model runs on this machine, with transformers."""
        if self.provider == LOCAL:
            return True
        return self.log is None and self.base_url is None and self.model is not None and Path(self.model).is_dir()

    def cost(self, prompt_tokens: float, output_tokens: float) -> float:
        """In currency units; NaN without prices."""
        if self.price_in is None or self.price_out is None:
            return math.nan
        return (prompt_tokens * self.price_in + output_tokens * self.price_out) / 1e6

    def of_judge(self) -> "ChatOptions | None":
        """How the judge is asked: as the model is, where no place of its own is given; None where there is no judge.

        At another place it has a key of its own: that of the model's service never goes there.
        """
        if self.judge is None:
            return None
        own = (self.judge_base_url, self.judge_provider)
        elsewhere = own != (None, None) or Path(self.judge).is_dir()
        base_url, provider = own if elsewhere else (self.base_url, self.provider)
        return replace(
            self, model=self.judge, base_url=base_url, provider=provider, trials=1, temperature=0.0,
            max_tokens=self.judge_max_tokens, price_in=None, price_out=None, judge=None, judge_base_url=None,
            judge_provider=None, key_name=JUDGE_KEY if elsewhere else self.key_name,
        )  # fmt: skip

    def check(self) -> None:
        """Refuse a service and its settings for a model that runs here, and settings of another way to score.

        Raises:
            UsageError: naming what is given too much.
        """
        if self.log_odds and (unused := [name for name in OF_SAMPLES if getattr(self, name) != _usual(name)]):
            names = " and ".join(map(written, unused))
            raise UsageError(f"-M scoring=log-odds samples nothing, and {names} is for sampled answers. Drop it.")
        if not self.log_odds and self.top_logprobs != _usual("top_logprobs"):
            raise UsageError("-M top-logprobs is for -M scoring=log-odds, and answers are sampled. Drop it.")
        if self.endpoint == COMPLETIONS and self.base_url is None:
            raise UsageError(
                "-M endpoint=completions is one of a service, and no --base-url is given. Name the service."
            )
        if not self.local:
            return
        if self.provider not in (None, LOCAL):
            raise UsageError(
                f"{self.model} is a folder, which runs on this machine, and provider {self.provider!r} is given. "
                "Drop -M provider, or give the name of the model there."
            )
        if unused := [written(name) for name in SERVICE_ONLY if getattr(self, name) is not None]:
            names = " and ".join(unused)
            raise UsageError(f"{self.model} runs on this machine, and {names} is for models of a service. Drop it.")

    def check_open(self) -> None:
        """Refuse to send texts and a key where anybody on the way could read them.

        Raises:
            UsageError: a service is asked over http that is neither on this machine nor declared nor allowed.
        """
        urls = (self.base_url, self.judge_base_url)
        for url in (one for one in urls if one and _is_address(one)):
            own = any(_origin(url) == _origin(one) for one in self.own_address)
            if urlsplit(url).scheme == "http" and not (_is_loopback(url) or own or self.plain_http):
                raise UsageError(
                    f"{urlsplit(url).netloc} would be asked over http, where anybody on the way can read texts and "
                    "key. Use https, or allow it with -M plain-http."
                )

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
                f"name it. Put the key into {KEY}."
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


def _is_loopback(url: str) -> bool:
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _usual(name: str) -> Any:
    return next(one.default for one in fields(ChatOptions) if one.name == name)


def _origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: what a connection is made to."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or usual


def settings(options: ChatOptions) -> dict[str, Any]:
    """What pins the asking down, for the manifest."""
    if options.log_odds:
        names: tuple[str, ...] = ("scoring", "endpoint", "top_logprobs")[: 1 if options.local else 3]
    else:
        names = ("temperature", "seed", "trials", "max_tokens", *_CHANGED)
        names = tuple(name for name in names if name not in _CHANGED or getattr(options, name) != _usual(name))
    return {name: getattr(options, name) for name in names}


def scoring_in_words(chat: Mapping[str, Any]) -> str:
    """How a chat model was asked, in words, by its settings in a manifest: the one place that says it.

    >>> scoring_in_words({"trials": 5, "temperature": 1.0}), scoring_in_words({"scoring": "log-odds"})
    ('5 trials at temperature 1', 'option log-odds over two orders of the options')
    """
    if chat.get("scoring") == LOG_ODDS:
        return "option log-odds over two orders of the options"
    number = chat.get("temperature")
    return f"{chat.get('trials')} trials at temperature {f'{number:g}' if isinstance(number, float) else number}"


def check_client() -> None:
    """Refuse to ask a service without the client for it.

    Raises:
        UsageError: the openai package is not installed.
    """
    if find_spec("openai") is None:
        raise UsageError(
            "Asking a chat service takes the openai package, which is not installed. Install it with "
            "pip install 'swapbias[chat]'."
        )


def key_names(options: ChatOptions) -> tuple[str, ...]:
    """The variables of the environment whose key may go to the service, the first that is set.

    Known keys go over https to the service that they are of; to another only where the user names the variable.
    """
    if not options.base_url:
        return (options.key_name, "HF_TOKEN")
    scheme, host, port = _origin(options.base_url)
    own = KEYS.get(host) if (scheme, port) == ("https", 443) else None
    if options.key_name not in (KEY, JUDGE_KEY):
        return (options.key_name,)
    return tuple(one for one in (options.key_name, own) if one)


def unnamed_keys(options: ChatOptions) -> Iterator[tuple[str, str]]:
    """The variables whose keys would go to other machines though the user named neither, with their hosts.

    Those of ``KEYS`` go to the service that they are of, and need not be asked about.
    """
    for one in (options, options.of_judge()):
        if not (one and one.model and one.base_url) or _is_loopback(one.base_url):
            continue
        if one.key_name in (KEY, JUDGE_KEY) and os.environ.get(one.key_name):
            yield one.key_name, one.host


def api_key(options: ChatOptions) -> str:
    """From the environment alone, and read anew for each pass, so that no object holds it.

    A saved Hugging Face token never goes to another service.

    Raises:
        UsageError: no key where one is needed, or one that the user named and that is not set.
    """
    options.check_open()
    names = key_names(options)
    for name in names:
        key = os.environ.get(name, "").strip()
        if key and not (key.isascii() and key.isprintable()):
            raise UsageError(f"{name} holds characters that no key has. Copy the key again.")
        if key:
            return key
    if options.base_url and options.key_name in (KEY, JUDGE_KEY):
        return NO_KEY
    if options.base_url:
        raise UsageError(f"-M api-key-env names {options.key_name}, which is not set. Set it, or name another.")
    raise UsageError(f"Inference providers need a key, and neither {' nor '.join(names)} is set. Set one of them.")
