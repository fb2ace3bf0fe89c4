"""Settings of requests to a chat model: the service, its key, sampling and limits."""

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
from swapbias.models.options import STRICT, Options, Place, Places, Use, as_tuple

LOCAL = "local"  # the provider that is this machine
NO_KEY = "none"  # sent where no key is set, so that the client does not look for a saved one and send that
SAMPLED = "sampled"
LOG_ODDS = "log-odds"
KEY = "SWAPBIAS_API_KEY"
# Variables by the host of a service, where a key of that name goes and nowhere else.
KEYS = {"api.openai.com": "OPENAI_API_KEY", "router.huggingface.co": "HF_TOKEN"}


def _checked_address(url: str) -> str:
    """Return an address of a service; a UsageError for one that is none, or that holds a secret."""
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
    """Settings of requests to a chat model; keys come from the environment alone. Trial t has seed + t."""

    key: ClassVar[str] = "chat"
    """The name of these settings in files and manifests."""

    engine: ClassVar[str] = "vllm"
    """The engine (``-M engine``) that runs the model here in place of transformers: the provider of that name."""

    model: Annotated[Place | None, Use(option="chat", flag=True, place=True)] = None
    """Chat model: its name at the endpoint, a Hub id, or a local folder."""
    base_url: Annotated[Address | None, Use(flag=True)] = None
    """OpenAI-compatible endpoint; none: Hugging Face Inference Providers."""
    own_address: Annotated[tuple[Address, ...], BeforeValidator(as_tuple)] = ()
    """Your own service, also over http: credentialed notes go to this address alone; may be repeated."""
    provider: str | None = None
    """Inference provider; or local, vllm: run the Hub id here, with transformers or vLLM."""
    scoring: Literal["sampled", "log-odds"] = "sampled"
    """sampled answers, or log-odds of the options (no trials)."""
    top_logprobs: Count = 20
    """First tokens a service or vLLM tells, for log-odds."""
    json_schema: bool = False
    """Let a JSON schema allow the options alone, where the service knows schemas."""
    # Beyond the most trials the rows fill a memory.
    trials: Annotated[int, Field(ge=1, le=1_000), Use(flag=True)] = 5
    """Answers to each prompt."""
    answers_per_request: Count = 1
    """Trials that one request asks for (n), where the service allows."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Of the chat model."""
    max_tokens: Count = 16
    """Most tokens of an answer; models that think first need thousands."""
    # The HTTP client opens 100 connections at most.
    concurrency: Annotated[int, Field(ge=1, le=100), Use(speed=True)] = 8
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
    judge: Annotated[Places, Use(flag=True, place=True)] = ()
    """Chat model of the same service, or a folder, that rates free text; may be repeated."""
    judge_max_tokens: Count = 16
    """Most tokens of a judgement; judges that think need thousands."""
    api_key_env: Annotated[str, Use(unsaved=True)] = KEY
    """Variable of the environment that holds the service's key."""
    seed: Annotated[int, Use(inner=True)] = 0
    """Of the audit."""
    attempts: Annotated[int, Field(ge=1), Use(inner=True)] = 6
    """Most attempts of a request; rate limits are waited out for two minutes at least."""

    @classmethod
    def in_engine(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings in which the engine of chat models is their provider, so that a manifest has it.

        Args:
            values: settings by name, with the engine among them; any other engine stays.

        Raises:
            UsageError: another provider is named as well.
        """
        if values.get("engine") != cls.engine:
            return dict(values)
        if values.get("provider", cls.engine) != cls.engine:
            raise UsageError("-M engine=vllm runs the chat model here. Drop -M provider.")
        others = {name: value for name, value in values.items() if name != "engine"}
        return {**others, "provider": cls.engine}

    @property
    def log_odds(self) -> bool:
        """True where options are scored by their probabilities."""
        return self.scoring == LOG_ODDS

    @property
    def local(self) -> bool:
        """True where the model runs on this machine, with transformers or vLLM."""
        if self.provider == LOCAL or self.by_vllm:
            return True
        return self.base_url is None and self.model is not None and Path(self.model).is_dir()

    @property
    def by_vllm(self) -> bool:
        """True where the model runs on this machine, with vLLM."""
        return self.provider == self.engine

    @property
    def host(self) -> str:
        """Host and port of ``base_url``; blank where none is given."""
        return urlsplit(self.base_url).netloc if self.base_url else ""

    @property
    def service(self) -> str:
        """The name of the service in sentences."""
        return self.host or self.provider or "Hugging Face Inference Providers"

    @property
    def declared(self) -> bool:
        """True where the user declared the service as their own; one on this machine may hand texts on, too."""
        if self.base_url is None:
            return False
        return _origin(self.base_url) in map(_origin, self.own_address)

    def cost(self, prompt_tokens: float, output_tokens: float) -> float:
        """Return the cost of requests.

        Args:
            prompt_tokens: number of tokens of the prompts.
            output_tokens: number of tokens of the answers.

        Returns:
            Currency units; NaN without prices.
        """
        if self.price_in is None or self.price_out is None:
            return math.nan
        return (prompt_tokens * self.price_in + output_tokens * self.price_out) / 1e6

    def of_judges(self) -> "tuple[ChatOptions, ...]":
        """Return the options of requests to each judge: at the model's service unless the judge is a folder."""
        return tuple(map(self._of_judge, self.judge))

    def _of_judge(self, judge: str) -> "ChatOptions":
        """Return the options of requests to a judge."""
        is_folder = Path(judge).is_dir()
        return replace(
            self,
            model=judge,
            base_url=None if is_folder else self.base_url,
            provider=None if is_folder else self.provider,
            trials=1,
            temperature=0.0,
            max_tokens=self.judge_max_tokens,
            price_in=None,
            price_out=None,
            max_cost=None,
            judge=(),
        )

    def check(self) -> None:
        """Refuse settings that name no model, or that nothing would read.

        Raises:
            UsageError: there are such settings.
        """
        if self.model is None and self != ChatOptions():
            raise UsageError(
                "Settings of a chat model are given and no model is. Name it with --chat."
            )
        prices = ("price_in", "price_out", "max_cost")
        if self.log_odds:
            self._refuse_unread(
                "-M scoring=log-odds samples nothing", "trials", "temperature", "max_tokens"
            )
        else:
            self._refuse_unread("Answers are sampled", "top_logprobs")
        if self.local:
            self._refuse_unread(
                f"{self.model} runs on this machine", "base_url", "max_requests", *prices
            )
        if self.by_vllm:
            self._refuse_unread("vLLM takes the memory of the GPUs for one model", "judge")
        if self.local and self.provider not in (LOCAL, self.engine):
            self._refuse_unread(f"{self.model} is a folder of this machine", "provider")
        if self.base_url and not self.local:
            self._refuse_unread("The service is named with --base-url", "provider")
        if self.price_in is None or self.price_out is None:
            self._refuse_unread("Costs take both -M price-in and -M price-out", *prices)

    def _refuse_unread(self, reason: str, *names: str) -> None:
        """Refuse, with a UsageError, to get one of these settings where nothing would read it."""
        unread = [setting.written for setting in self.not_usual(*names)]
        if unread:
            raise UsageError(f"{reason}, and {' and '.join(unread)} is given. Drop it.")

    def check_open(self) -> None:
        """Refuse to send texts and a key over http to another machine that is not declared.

        Raises:
            UsageError: they would be sent so.
        """
        origin = _origin(self.base_url or "")
        if origin is None or self.declared:
            return
        scheme, host, _ = origin
        if scheme == "http" and not _is_loopback(host):
            raise UsageError(
                f"{self.host} would get requests over http, where anybody on the way can read them. "
                "Use https, or declare it as your own with -M own-address."
            )


def _origin(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port that a connection is made to; None where that is no address of a service."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        port = parts.port
    except ValueError:  # a port that is no number, a bracket that is not closed
        return None
    usual_port = {"http": 80, "https": 443}.get(parts.scheme)
    if usual_port is None or not host or port == 0:
        return None
    return parts.scheme, host, usual_port if port is None else port


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    host = host.rstrip(".")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def settings(options: ChatOptions) -> dict[str, Any]:
    """Return the settings that answers depend on, for the manifest.

    Args:
        options: settings of the requests.

    Returns:
        Values by the names of options.
    """
    if options.log_odds:
        names = ["scoring"]
        if not options.local or options.by_vllm:
            names.append("top_logprobs")
    else:
        names = ["temperature", "seed", "trials", "max_tokens"]
        further = ("json_schema", "answers_per_request")
        names += [name for name in further if options.not_usual(name)]
    return {name: getattr(options, name) for name in names}


def scoring_in_words(chat: Mapping[str, Any]) -> str:
    """Describe how requests to a chat model were made.

    >>> scoring_in_words({"trials": 5, "temperature": 1.0}), scoring_in_words({"scoring": "log-odds"})
    ('5 trials at temperature 1', 'option log-odds over two orders of the options')

    Args:
        chat: settings of a manifest.

    Returns:
        A clause without a capital.
    """
    if chat.get("scoring") == LOG_ODDS:
        return "option log-odds over two orders of the options"
    temperature = chat.get("temperature")
    if isinstance(temperature, float):
        temperature = f"{temperature:g}"
    return f"{chat.get('trials')} trials at temperature {temperature}"


def key_names(options: ChatOptions) -> tuple[str, ...]:
    """Return the variables whose key may go to the service; known keys go over https to their own service alone.

    Args:
        options: settings of the requests.

    Returns:
        Names of variables of the environment, the first to look for first.
    """
    if not options.base_url:
        return (options.api_key_env, "HF_TOKEN")
    if options.api_key_env != KEY:
        return (options.api_key_env,)
    scheme, host, port = _origin(options.base_url) or ("", "", 0)
    if (scheme, port) == ("https", 443) and host in KEYS:
        return (options.api_key_env, KEYS[host])
    return (options.api_key_env,)


def gets_unnamed_key(options: ChatOptions) -> bool:
    """Return whether the key in ``KEY`` would go to another machine though the user named neither.

    Args:
        options: settings of the requests.

    Returns:
        True where such a key is set.
    """
    if not options.model or not options.base_url or options.api_key_env != KEY:
        return False
    is_elsewhere = not _is_loopback(urlsplit(options.base_url).hostname or "")
    return is_elsewhere and bool(os.environ.get(KEY))


def api_key(options: ChatOptions) -> str:
    """Return the service's key, of the environment alone.

    Args:
        options: settings of the requests.

    Returns:
        The key; ``NO_KEY`` for a service of the user's address without one.

    Raises:
        UsageError: there is no key where one is needed or named.
    """
    options.check_open()
    names = key_names(options)
    for name in names:
        key = os.environ.get(name, "").strip()
        if not key:
            continue
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"{name} contains characters that no key has. Copy the key again.")
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
