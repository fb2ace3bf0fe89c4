"""How requests to a chat model are made: the service, its key, sampling and limits."""

import ipaddress
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.dataclasses import dataclass

from swapbias.errors import UsageError, quoted
from swapbias.models.base import Count
from swapbias.models.options import STRICT, Options, Place, Use, as_tuple

LOCAL = "local"  # the provider that is this machine
NO_KEY = "none"  # sent where no key is set, so that the client does not look for a saved one and send that
SAMPLED = "sampled"
LOG_ODDS = "log-odds"
KEY = "SWAPBIAS_API_KEY"
# Of services by their host, where a key of that name goes and nowhere else.
KEYS = {"api.openai.com": "OPENAI_API_KEY", "router.huggingface.co": "HF_TOKEN"}


def _checked_address(url: str) -> str:
    """Give an address of a service; a UsageError for one that is none, or that holds a secret."""
    if _origin(url) is None:
        raise UsageError(
            f"{quoted(url)} is no address, expected http://host:port. Give the whole address."
        )
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query:
        raise UsageError(
            f"{parts.hostname} is given with a user, password or query. Put the key into {KEY}."
        )
    return url


Address = Annotated[str, AfterValidator(_checked_address)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ChatOptions(Options):
    """How requests to a chat model are made; keys come from the environment alone. Trial t has seed + t."""

    key: ClassVar[str] = "chat"

    model: Annotated[Place | None, Use(option="chat", flag=True, place=True)] = None
    """Chat model: its name at the endpoint, a Hub id, or a local folder."""
    base_url: Annotated[Address | None, Use(flag=True)] = None
    """OpenAI-compatible endpoint; none: Hugging Face Inference Providers."""
    own_address: Annotated[tuple[Address, ...], BeforeValidator(as_tuple)] = ()
    """Your own service, also over http: credentialed notes go to this address alone; may be repeated."""
    provider: str | None = None
    """Inference provider, or local: run the Hub id with transformers here."""
    scoring: Literal["sampled", "log-odds"] = "sampled"
    """sampled answers, or log-odds of the options (no trials)."""
    top_logprobs: Count = 20
    """First tokens a service tells, for log-odds."""
    json_schema: bool = False
    """Let a JSON schema allow the options alone, where the service knows schemas."""
    trials: Annotated[int, Field(ge=1, le=1_000), Use(flag=True)] = (
        5  # beyond, the rows fill a memory
    )
    """Answers to each prompt."""
    answers_per_request: Count = 1
    """Trials that one request asks for (n), where the service allows."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Of the chat model."""
    max_tokens: Count = 16
    """Most tokens of an answer; models that think first need thousands."""
    concurrency: Annotated[int, Field(ge=1, le=100), Use(speed=True)] = (
        8  # connections of the HTTP client
    )
    """Requests at once."""
    max_requests: Annotated[int | None, Field(ge=0), Use(speed=True)] = None
    """Most requests; trials that take more are not run."""
    timeout: Annotated[float, Field(ge=0.001), Use(speed=True)] = 60.0
    """Seconds that one attempt may take."""
    price_in: Annotated[float | None, Field(ge=0), Use(speed=True)] = None
    """Price of a million prompt tokens."""
    price_out: Annotated[float | None, Field(ge=0), Use(speed=True)] = None
    """Price of a million answer tokens."""
    no_seed: bool = False
    """Send no seed, to a service that refuses it."""
    max_cost: Annotated[float | None, Field(ge=0), Use(flag=True, speed=True)] = None
    """Most that the requests may cost; trials that take more are not run."""
    scorer: Annotated[Place, Use(place=True)] = "vader"
    """Classifier of summaries (care_notes): as a model of an audit."""
    judge: Annotated[Place | None, Use(place=True)] = None
    """Chat model of the same service, or a folder, that rates free text."""
    judge_max_tokens: Count = 16
    """Most tokens of a judgement; judges that think need thousands."""
    api_key_env: Annotated[str, Use(unsaved=True)] = KEY
    """Variable of the environment that holds the service's key."""
    seed: Annotated[int, Use(inner=True)] = 0
    """Of the audit."""
    attempts: Annotated[int, Field(ge=1), Use(inner=True)] = 6
    """Most attempts of a request; rate limits are waited out for two minutes at least."""

    @property
    def log_odds(self) -> bool:
        """Whether options are scored by their probabilities."""
        return self.scoring == LOG_ODDS

    @property
    def local(self) -> bool:
        """Whether the model runs on this machine, with transformers."""
        if self.provider == LOCAL:
            return True
        return self.base_url is None and self.model is not None and Path(self.model).is_dir()

    @property
    def host(self) -> str:
        """Host and port of ``base_url``; blank where none is given."""
        return urlsplit(self.base_url).netloc if self.base_url else ""

    @property
    def service(self) -> str:
        """Its name in sentences."""
        return self.host or self.provider or "Hugging Face Inference Providers"

    @property
    def declared(self) -> bool:
        """Whether the user declared the service as their own; one on this machine may hand texts on, too."""
        return self.base_url is not None and _origin(self.base_url) in map(
            _origin, self.own_address
        )

    def cost(self, prompt_tokens: float, output_tokens: float) -> float:
        """In currency units; NaN without prices."""
        prices = [math.nan if one is None else one for one in (self.price_in, self.price_out)]
        return (prompt_tokens * prices[0] + output_tokens * prices[1]) / 1e6

    def of_judge(self) -> "ChatOptions | None":
        """Options of requests to the judge, at the model's service unless it is a folder; None without one."""
        if self.judge is None:
            return None
        base_url, provider = (
            (None, None) if Path(self.judge).is_dir() else (self.base_url, self.provider)
        )
        return replace(
            self,
            model=self.judge,
            base_url=base_url,
            provider=provider,
            trials=1,
            temperature=0.0,
            max_tokens=self.judge_max_tokens,
            price_in=None,
            price_out=None,
            max_cost=None,
            judge=None,
        )

    def check(self) -> None:
        """Refuse, with a UsageError, settings that name no model, or that nothing would read."""
        if self.model is None and self != ChatOptions():
            raise UsageError(
                "Settings of a chat model are given and no model is. Name it with --chat."
            )
        service = ("base_url", "max_requests")
        prices = ("price_in", "price_out", "max_cost")
        for applies, why, names in (
            (
                self.log_odds,
                "-M scoring=log-odds samples nothing",
                ("trials", "temperature", "max_tokens"),
            ),
            (not self.log_odds, "Answers are sampled", ("top_logprobs",)),
            (self.local, f"{self.model} runs on this machine", (*service, *prices)),
            (
                self.local and self.provider != LOCAL,
                f"{self.model} is a folder of this machine",
                ("provider",),
            ),
            (
                self.base_url and not self.local,
                "The service is named with --base-url",
                ("provider",),
            ),
            (
                None in (self.price_in, self.price_out),
                "Costs take both -M price-in and -M price-out",
                prices,
            ),
        ):
            unread = [setting.written for setting in self.not_usual(*names)]
            if applies and unread:
                raise UsageError(f"{why}, and {' and '.join(unread)} is given. Drop it.")

    def check_open(self) -> None:
        """Refuse, with a UsageError, to send texts and a key over http to another machine that is not declared."""
        scheme, host, _ = _origin(self.base_url or "") or ("", "", 0)
        if scheme == "http" and not self.declared and not _is_loopback(host):
            why = (
                f"{self.host} would get requests over http, where anybody on the way can read them"
            )
            raise UsageError(f"{why}. Use https, or declare it as your own with -M own-address.")


def _origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port that a connection is made to; None where that is no address of a service."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        port = parts.port
    except ValueError:  # a port that is no number, a bracket that is not closed
        return None
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return (
        (parts.scheme, host, usual if port is None else port)
        if usual and host and port != 0
        else None
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.rstrip(".")).is_loopback
    except ValueError:
        return host.rstrip(".") == "localhost"


def settings(options: ChatOptions) -> dict[str, Any]:
    """What pins the asking down, for the manifest."""
    if options.log_odds:
        names = ["scoring", *([] if options.local else ["top_logprobs"])]
    else:
        more = [name for name in ("json_schema", "answers_per_request") if options.not_usual(name)]
        names = ["temperature", "seed", "trials", "max_tokens", *more]
    return {name: getattr(options, name) for name in names}


def scoring_in_words(chat: Mapping[str, Any]) -> str:
    """How requests to a chat model were made, in words, by its settings in a manifest.

    >>> scoring_in_words({"trials": 5, "temperature": 1.0}), scoring_in_words({"scoring": "log-odds"})
    ('5 trials at temperature 1', 'option log-odds over two orders of the options')
    """
    if chat.get("scoring") == LOG_ODDS:
        return "option log-odds over two orders of the options"
    number = chat.get("temperature")
    return f"{chat.get('trials')} trials at temperature {f'{number:g}' if isinstance(number, float) else number}"


def key_names(options: ChatOptions) -> tuple[str, ...]:
    """The variables whose key may go to the service; known keys go over https to their own service alone."""
    if not options.base_url:
        return (options.api_key_env, "HF_TOKEN")
    if options.api_key_env != KEY:
        return (options.api_key_env,)
    scheme, host, port = _origin(options.base_url) or ("", "", 0)
    own = KEYS.get(host) if (scheme, port) == ("https", 443) else None
    return (options.api_key_env, *([own] if own else []))


def gets_unnamed_key(options: ChatOptions) -> bool:
    """Whether the key in ``KEY`` would go to another machine though the user named neither."""
    there = (
        options.model
        and options.base_url
        and not _is_loopback(urlsplit(options.base_url).hostname or "")
    )
    return bool(there and options.api_key_env == KEY and os.environ.get(KEY))


def api_key(options: ChatOptions) -> str:
    """The service's key, of the environment alone; UsageError: none where one is needed or named."""
    options.check_open()
    names = key_names(options)
    for name in names:
        key = os.environ.get(name, "").strip()
        if key and not (key.isascii() and key.isprintable()):
            raise UsageError(f"{name} holds characters that no key has. Copy the key again.")
        if key:
            return key
    if options.base_url and options.api_key_env == KEY:
        return NO_KEY
    if options.base_url:
        raise UsageError(
            f"-M api-key-env names {options.api_key_env}, which is not set. Set it, or name another."
        )
    raise UsageError(
        f"Inference providers need a key, and neither {' nor '.join(names)} is set. Set one of them."
    )
