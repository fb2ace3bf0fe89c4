"""How requests to a chat model are made: the service, its key, sampling and limits."""

import ipaddress
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from swapbias.errors import UsageError, quoted
from swapbias.models.base import option, validated, written

LOCAL = "local"  # the provider that is this machine
NO_KEY = "none"  # sent where no key is set, so that the client does not look for a saved one and send that
SAMPLED, LOG_ODDS = "sampled", "log-odds"
KEY = "SWAPBIAS_API_KEY"
# Of services by their host, where a key of that name goes and nowhere else.
KEYS = {"api.openai.com": "OPENAI_API_KEY", "router.huggingface.co": "HF_TOKEN"}


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How requests to a chat model are made; keys come from the environment alone. ``help`` of a field: what it sets.

    Trial t has seed + t. ``attempts``: of a request; rate limits are waited out for two minutes at least.
    """

    key: ClassVar[str] = "chat"  # in a manifest's settings

    model: str | None = option(
        None, "Chat model: its name at the endpoint, a Hub id, or a local folder.", name="chat", place=True
    )
    base_url: str | None = option(None, "OpenAI-compatible endpoint; none: Hugging Face Inference Providers.")
    own_address: tuple[str, ...] = option(
        (), "Your own service, also over http: credentialed notes go to this address alone; may be repeated."
    )
    provider: str | None = option(None, "Inference provider, or local: run the Hub id with transformers here.")
    scoring: str = option(
        SAMPLED, "sampled answers, or log-odds of the options (no trials).", choices=(SAMPLED, LOG_ODDS)
    )
    top_logprobs: int = option(20, "First tokens a service tells, for log-odds.", least=1)
    json_schema: bool = option(False, "Let a JSON schema allow the options alone, where the service knows schemas.")
    trials: int = option(5, "Answers to each prompt.", least=1, most=1_000)  # beyond, the rows fill a memory
    answers_per_request: int = option(1, "Trials that one request asks for (n), where the service allows.", least=1)
    temperature: float = option(1.0, "Of the chat model.", least=0.0)
    max_tokens: int = option(16, "Most tokens of an answer; models that think first need thousands.", least=1)
    concurrency: int = option(8, "Requests at once.", least=1, most=100, speed=True)  # connections of the HTTP client
    max_requests: int | None = option(None, "Most requests; trials that take more are not run.", least=0, speed=True)
    timeout: float = option(60.0, "Seconds that one attempt may take.", least=0.001, speed=True)
    price_in: float | None = option(None, "Price of a million prompt tokens.", least=0.0, speed=True)
    price_out: float | None = option(None, "Price of a million answer tokens.", least=0.0, speed=True)
    no_seed: bool = option(False, "Send no seed, to a service that refuses it.")
    max_cost: float | None = option(
        None, "Most that the requests may cost; trials that take more are not run.", least=0.0, speed=True
    )
    scorer: str = option("vader", "Classifier of summaries (care_notes): as a model of an audit.", place=True)
    judge: str | None = option(None, "Chat model of the same service, or a folder, that rates free text.", place=True)
    judge_max_tokens: int = option(16, "Most tokens of a judgement; judges that think need thousands.", least=1)
    seed: int = 0
    key_name: str = option(
        KEY, "Variable of the environment that holds the service's key.", name="api_key_env", unsaved=True
    )
    attempts: int = field(default=6, metadata={"least": 1})

    def __post_init__(self) -> None:
        """Refuse addresses that are none, or that hold a secret."""
        for url in filter(None, (self.base_url, *self.own_address)):
            if _origin(url) is None:
                raise UsageError(f"{quoted(url)} is no address, expected http://host:port. Give the whole address.")
            parts = urlsplit(url)
            if parts.username or parts.password or parts.query:
                raise UsageError(f"{parts.hostname} is given with a user, password or query. Put the key into {KEY}.")

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
        return self.base_url is not None and _origin(self.base_url) in map(_origin, self.own_address)

    def cost(self, prompt_tokens: float, output_tokens: float) -> float:
        """In currency units; NaN without prices."""
        prices = [math.nan if one is None else one for one in (self.price_in, self.price_out)]
        return (prompt_tokens * prices[0] + output_tokens * prices[1]) / 1e6

    def of_judge(self) -> "ChatOptions | None":
        """Options of requests to the judge, at the model's service unless it is a folder; None without one."""
        if self.judge is None:
            return None
        base_url, provider = (None, None) if Path(self.judge).is_dir() else (self.base_url, self.provider)
        return replace(
            self, model=self.judge, base_url=base_url, provider=provider, trials=1, temperature=0.0,
            max_tokens=self.judge_max_tokens, price_in=None, price_out=None, max_cost=None, judge=None,
        )  # fmt: skip

    def changed(self, *names: str) -> list[str]:
        """Those of these settings that are not the default ones, as the command line writes them."""
        usual = {one.name: one.default for one in fields(self)}
        return [written(name) for name in names if getattr(self, name) != usual[name]]

    def check(self) -> None:
        """Refuse, with a UsageError, settings that name no model, or that nothing would read."""
        if self.model is None and self != ChatOptions():
            raise UsageError("Settings of a chat model are given and no model is. Name it with --chat.")
        service, prices = ("base_url", "max_requests"), ("price_in", "price_out", "max_cost")
        for applies, why, names in (
            (self.log_odds, "-M scoring=log-odds samples nothing", ("trials", "temperature", "max_tokens")),
            (not self.log_odds, "Answers are sampled", ("top_logprobs",)),
            (self.local, f"{self.model} runs on this machine", (*service, *prices)),
            (self.local and self.provider != LOCAL, f"{self.model} is a folder of this machine", ("provider",)),
            (self.base_url and not self.local, "The service is named with --base-url", ("provider",)),
            (None in (self.price_in, self.price_out), "Costs take both -M price-in and -M price-out", prices),
        ):
            if applies and (unread := self.changed(*names)):
                raise UsageError(f"{why}, and {' and '.join(unread)} is given. Drop it.")

    def check_open(self) -> None:
        """Refuse, with a UsageError, to send texts and a key over http to another machine that is not declared."""
        scheme, host, _ = _origin(self.base_url or "") or ("", "", 0)
        if scheme == "http" and not self.declared and not _is_loopback(host):
            why = f"{self.host} would get requests over http, where anybody on the way can read them"
            raise UsageError(f"{why}. Use https, or declare it as your own with -M own-address.")


def _origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port that a connection is made to; None where that is no address of a service."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:  # a port that is no number, a bracket that is not closed
        return None
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return (parts.scheme, host, usual if port is None else port) if usual and host and port != 0 else None


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
        more = [name for name in ("json_schema", "answers_per_request") if options.changed(name)]
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
        return (options.key_name, "HF_TOKEN")
    if options.key_name != KEY:
        return (options.key_name,)
    scheme, host, port = _origin(options.base_url) or ("", "", 0)
    own = KEYS.get(host) if (scheme, port) == ("https", 443) else None
    return (options.key_name, *([own] if own else []))


def gets_unnamed_key(options: ChatOptions) -> bool:
    """Whether the key in ``KEY`` would go to another machine though the user named neither."""
    there = options.model and options.base_url and not _is_loopback(urlsplit(options.base_url).hostname or "")
    return bool(there and options.key_name == KEY and os.environ.get(KEY))


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
    if options.base_url and options.key_name == KEY:
        return NO_KEY
    if options.base_url:
        raise UsageError(f"-M api-key-env names {options.key_name}, which is not set. Set it, or name another.")
    raise UsageError(f"Inference providers need a key, and neither {' nor '.join(names)} is set. Set one of them.")
