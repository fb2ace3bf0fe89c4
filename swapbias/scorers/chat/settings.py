"""What an audit of a chat model is told, which rows it asks, and how an answer is read."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.measures import CLASSES, PARSERS, SAID, answer_class
from swapbias.scorers.scorer import LoadOptions, Scorer
from swapbias.studies import Prompt, as_prompts, corpus_dir, read_table

POINTS = "percentage points"  # unit of an answer as it is read here
LOCAL = "local"  # the provider that is this machine
MOST_TRIALS = 1_000  # beyond them, the rows alone fill a memory
SERVICE_ONLY = ("base_url", "max_requests", "price_in", "price_out")  # settings of a service


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """The part of an audit's settings that a chat model needs; keys come from the environment alone.

    Attributes:
        model: its name at the endpoint, a Hub id or a local folder; None: no chat model is audited.
        base_url: an OpenAI-compatible endpoint; None: Hugging Face Inference Providers, or this machine.
        provider: an inference provider, or ``local``.
        trials: times each prompt is asked, with another seed each.
        temperature, max_tokens: of generation.
        concurrency, max_requests, timeout: of requests; seconds.
        price_in, price_out: of a million tokens, for the estimate.
    """

    model: str | None = None
    base_url: str | None = None
    provider: str | None = None
    trials: int = 5
    temperature: float = 1.0
    max_tokens: int = 16
    concurrency: int = 8
    max_requests: int | None = None
    timeout: float = 60.0
    price_in: float | None = None
    price_out: float | None = None

    @property
    def local(self) -> bool:
        """Whether the model runs on this machine, with transformers."""
        if self.provider == LOCAL:
            return True
        return self.base_url is None and self.model is not None and Path(self.model).is_dir()

    def check(self) -> None:
        """Refuse settings that name no model, or that the way it is asked would leave unheard.

        Raises:
            UsageError: settings of a chat model without one, of a service for a model that runs here, too many
                trials.
        """
        if self.model is None and self != ChatSettings():
            raise UsageError("Settings of a chat model are given and no model is. Name it with --chat.")
        if not 1 <= self.trials <= MOST_TRIALS:
            raise UsageError(f"trials is {self.trials}, expected 1 to {MOST_TRIALS:,}. Change --trials.")
        if self.local:
            self._check_local()

    def _check_local(self) -> None:
        if self.provider not in (None, LOCAL):
            raise UsageError(
                f"{self.model} is a folder, which runs on this machine, and provider {self.provider!r} is given. "
                "Drop --provider, or give the name of the model there."
            )
        given = [f"--{name.replace('_', '-')}" for name in SERVICE_ONLY if getattr(self, name) is not None]
        if given:
            told = " and ".join(given)
            raise UsageError(f"{self.model} runs on this machine, and {told} is for models of a service. Drop it.")


def asked_rows(rows: Sequence[dict[str, str]], trials: int) -> list[dict[str, str]]:
    """Every prompt once a trial; ``prompt_id`` and ``pair_id`` end in the trial, which is a column as well."""
    return [
        {
            **row,
            "prompt_id": f"{row['prompt_id']}/t{trial}",
            "pair_id": f"{row['pair_id']}/t{trial}",
            "trial": str(trial),
        }
        for trial in range(1, trials + 1)
        for row in rows
    ]


def read_answer(prompt: Prompt, text: str) -> tuple[float, Mapping[str, float]]:
    """Points of an answer (100: right, 0: anything else) and its class by both parsers, as 1 and 0.

    The prompt's candidates are the right and the wrong occupation; its condition names the adjectives.
    """
    correct, _, incorrect = prompt.candidates.partition("|")
    adjectives = prompt.condition.split("/")
    parts: dict[str, float] = {}
    for parser in PARSERS:
        found = answer_class(
            text, correct=correct, incorrect=incorrect, parser=parser, adjectives=adjectives, aliases=_aliases()
        )
        prefix = SAID if parser == PARSERS[0] else f"{parser}_"
        parts |= {f"{prefix}{name}": float(name == found) for name in CLASSES}
    return 100 * parts[f"{SAID}correct"], parts


@cache
def _aliases() -> Mapping[str, str]:
    rows = read_table(corpus_dir("adjective_coreference") / "key_aliases.csv", ("key", "occupation"))
    return {row["key"]: row["occupation"] for row in rows}


def load_chat(settings: ChatSettings, load: LoadOptions, seed: int, rows: Sequence[Mapping[str, Any]]) -> Scorer:
    """The scorer of a chat model, once it is known that these rows may be asked.

    Raises:
        UsageError: no key, an unknown provider, more requests than allowed, a value that cannot be meant.
        ValueError: a local model that cannot be loaded.
    """
    from swapbias.scorers.chat.options import api_key, check_provider
    from swapbias.scorers.chat.service import ChatScorer

    model, options = settings.model or "", _options(settings, seed)
    if settings.local:
        from swapbias.scorers.chat.local import LocalChatScorer

        local = LocalChatScorer.load(model, load, options, read=read_answer)
        local.unit = POINTS
        return local
    check_provider(options)
    api_key(options)
    scorer = ChatScorer(model, options, read=read_answer)
    scorer.unit = POINTS
    needed = scorer.estimate(as_prompts(rows)).requests
    if settings.max_requests is not None and needed > settings.max_requests:
        raise UsageError(
            f"{needed:,} requests are needed, and --max-requests allows {settings.max_requests:,}. Raise it, or take "
            "fewer prompts (--limit) or trials."
        )
    return scorer


def planned_requests(rows: Sequence[Mapping[str, Any]], settings: ChatSettings, seed: int) -> str:
    """What asking these rows takes, in words; nothing is sent and no key is needed.

    Raises:
        UsageError: an unknown provider, a value that cannot be meant.
    """
    from swapbias.scorers.chat.answers import by_key
    from swapbias.scorers.chat.options import check_provider
    from swapbias.scorers.chat.service import answer_key, plan

    options, prompts = _options(settings, seed), as_prompts(rows)
    check_provider(options)
    keys = [answer_key(prompt, model=settings.model or "", options=options) for prompt in prompts]
    needed = plan(by_key(prompts, keys), (), options)
    if settings.max_requests is not None and needed.requests > settings.max_requests:
        return f"{needed.sentence()} That is more than --max-requests allows: {settings.max_requests:,}."
    return needed.sentence()


def _options(settings: ChatSettings, seed: int) -> Any:
    from swapbias.scorers.chat.options import ChatOptions

    values = asdict(settings)
    del values["model"]
    if settings.local:
        values["provider"] = None
    return ChatOptions(seed=seed, **values)
