"""Requests to an OpenAI-compatible service: many at once, tried again where trouble passes, stopped where not."""

import asyncio
import hashlib
import math
import random
import re
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import Any

from huggingface_hub import AsyncInferenceClient, ChatCompletionOutput
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import hf_raise_for_status, httpx  # type: ignore[attr-defined]

from swapbias.errors import UsageError
from swapbias.scorers.chat.answer_log import FIRST_ANSWERS, Answer, AnswerLog, mostly_unsaid, trial_of
from swapbias.scorers.chat.options import COMPLETIONS, NO_KEY, ChatOptions, key_names
from swapbias.scorers.chat.replies import (
    ATTEMPT,
    LONGEST_REASON,
    NOTHING,
    USAGE,
    BoundsError,
    MovedError,
    NoAnswerError,
    as_chat,
    counted,
    first_tokens,
    session_to,
    written,
)
from swapbias.scorers.scorer import Progress
from swapbias.studies import Prompt, turns

LONGEST_WAIT = 600.0  # seconds that a service may ask to wait; beyond them the run stops instead of hanging
LIMITED = 429
PASSING = (408, 409, 425, LIMITED)  # besides 5xx: states that pass
SHORTEST_KEY = 6  # characters: a shorter one is a word that an answer may well say
LENGTHS = ("max_tokens", "max_completion_tokens")  # names of the most tokens: OpenAI's newer models refuse the first
REFUSED, UNPROCESSABLE = 400, 422
WAYS_OUT = {  # of settings that some models refuse, such as those that think first
    "temperature": "Start a new run with the -M temperature that it takes, mostly 1",
    "seed": "Start a new run with -M no-seed, and trials will differ from run to run",
}

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_SECONDS = (86_400, 3_600, 60, 1, 0.001)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an attempt brought no answer: in words, HTTP status, whether it can pass, the wait that is asked for.

    ``own``: the words are ours, none of them the service's.
    """

    told: str
    status: int = 0
    passes: bool = True
    wait: float = 0.0
    own: bool = False

    @property
    def limited(self) -> bool:
        """Whether the service wants fewer requests."""
        return self.status == LIMITED


def trouble_of(error: Exception, key: str) -> Trouble:
    """What an error of an attempt means; the key is taken out of what the service says."""
    if isinstance(error, HfHubHTTPError):
        status, wait = error.response.status_code, asked_wait(error.response.headers, error.response.status_code)
        return _told(f"{status}: {_said(error.response, key)}", status, wait)
    if isinstance(error, OfflineModeIsEnabled):
        return Trouble("HF_HUB_OFFLINE is set: unset it", passes=False)
    if isinstance(error, MovedError):
        return Trouble(str(error), passes=False, own=True)
    if isinstance(error, BoundsError):
        return Trouble(error.told, own=True)
    if isinstance(error, TimeoutError):
        return Trouble("no answer in time", own=True)
    if isinstance(error, NoAnswerError) and error.error:
        code = _code(error.error)
        said = _redacted(_message(error.error), key) or NOTHING
        return _told(f"{code}: {said}", code, 0.0) if code else Trouble(said)
    # Where services are strict about types, the library itself stumbles over bodies of another shape.
    shapes = (JSONDecodeError, UnicodeDecodeError, NoAnswerError, TypeError, AttributeError, LookupError)
    if isinstance(error, (*shapes, ArithmeticError, RecursionError, AssertionError)):
        return Trouble(NOTHING)
    told = _redacted(str(error) or type(error).__name__, key)
    return Trouble(told, passes=isinstance(error, httpx.HTTPError | OSError))


def _told(told: str, status: int, wait: float) -> Trouble:
    if wait > LONGEST_WAIT:
        return Trouble(f"{told}; asks to wait {wait:.0f} seconds", passes=False)
    return Trouble(told, status, status >= 500 or status in PASSING, wait)


def _said(response: httpx.Response, key: str) -> str:
    """What the service says of an error, in one line."""
    try:
        text = _message(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        text = response.text or response.reason_phrase
    return _redacted(text, key)


def _message(error: Any) -> str:
    return str(error["message"]) if isinstance(error, Mapping) and "message" in error else str(error)


def _code(error: Any) -> int:
    """The HTTP status that an error within an answer names; 0 where it names none."""
    try:
        code = int(error["code"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0
    return code if 400 <= code <= 599 else 0


def _redacted(text: str, key: str) -> str:
    """One line of at most 200 characters, without the key, should the service repeat it."""
    shown = text if key == NO_KEY else text.replace(key, "***")
    return " ".join(shown.split())[:200].rstrip(".")


def asked_wait(headers: Mapping[str, str], status: int) -> float:
    """Seconds that a service asks to wait, by the first of its headers that says so; 0 where none does.

    Where the rate is limited, that is until the limit that is used up begins anew: the later one of two. Where none
    is told to be used up, only the sooner one is meant for sure.
    """
    wait = _number(headers.get("retry-after-ms", "")) / 1000 or _retry_after(headers.get("retry-after", ""))
    if wait or status != LIMITED:
        return wait
    resets = {name: _duration(headers.get(f"x-ratelimit-reset-{name}", "")) for name in ("requests", "tokens")}
    told = {name: reset for name, reset in resets.items() if reset}
    used = [reset for name, reset in told.items() if headers.get(f"x-ratelimit-remaining-{name}", "").strip() == "0"]
    return max(used) if used else min(told.values(), default=0.0)


def _retry_after(value: str) -> float:
    """Seconds of a Retry-After header (a number or a date); 0 where it says nothing."""
    try:
        date = parsedate_to_datetime(value)
        return max((date - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):  # no date, or one without a zone
        return _number(value)


def _number(value: str) -> float:
    """A number above 0; 0 where there is none."""
    try:
        number = float(value)
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(number) else max(number, 0.0)


def _duration(value: str) -> float:
    """Seconds of ``6m0s``, ``1h2m3.5s``, ``20ms`` or a plain number; 0 for anything else."""
    found = _DURATION.fullmatch(value.strip())
    if not found:
        return _number(value)
    return sum(float(part) * seconds for part, seconds in zip(found.groups(), _SECONDS, strict=True) if part)


LONGEST_BACKOFF = 60.0  # seconds between attempts, where the service does not say
PATIENCE = 120.0  # seconds without any answer before a limited rate ends the run: limits are often by the minute
MOST_STEPS = 16  # of a backoff that doubles: a power beyond is as long as the longest


def ask(
    groups: Mapping[str, Sequence[Prompt]],
    *,
    model: str,
    options: ChatOptions,
    key: str,
    log: AnswerLog,
    backoff: float,
    report: Progress,
) -> None:
    """Ask the first row of each key and keep the answers in the log; ``report`` is told the rows of each.

    Raises:
        UsageError: a wrong key or an unknown model.
        ValueError: a request that the service refuses, or does not answer in all attempts.
    """
    asking = _Asking(model, options, key, log, backoff)
    _finish(asking.run(groups, report))
    if asking.end is not None:  # raised here, so that no error of the client, and no header, hangs on it
        raise asking.failure(*asking.end)


class _Client(AsyncInferenceClient):
    """The library's client over one open session; it would make one for each request that starts before the first."""

    def __init__(self, session: httpx.AsyncClient, options: ChatOptions, key: str) -> None:
        """Talk to the service of the options."""
        super().__init__(
            base_url=options.base_url, provider=options.provider, api_key=key, timeout=options.timeout  # type: ignore[arg-type]
        )  # fmt: skip
        self._session = session

    async def completion(self, *, messages: Sequence[Mapping[str, str]], **asked: Any) -> ChatCompletionOutput:
        """An answer of the service's older endpoint, which knows no roles: the turns stand one below the other."""
        logprobs = asked.pop("top_logprobs") if asked.pop("logprobs") else None
        payload = {
            **asked.pop("extra_body"),
            **asked,
            "prompt": "".join(f"{turn['content']}\n" for turn in messages),
            "logprobs": logprobs,
        }
        response = await self._session.post(
            f"{str(self.model).rstrip('/')}/completions",
            json={name: value for name, value in payload.items() if value is not None},
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=self.timeout,
        )
        hf_raise_for_status(response)
        found = response.json()
        return ChatCompletionOutput.parse_obj_as_instance(
            {**found, "choices": [as_chat(choice) for choice in found.get("choices", ())]}
        )

    async def _get_async_client(self) -> httpx.AsyncClient:
        return self._session


class _Asking:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for.

    One service, one limit: a wait that it asks for, and the backoff from a limited rate, hold for all requests.
    """

    def __init__(self, model: str, options: ChatOptions, key: str, log: AnswerLog, backoff: float) -> None:
        self.model, self.options, self.key, self.log, self.backoff = model, options, key, log, backoff
        self.end: tuple[Trouble, Prompt, int] | None = None  # the trouble that ended it, whose, after how many tries
        self.stopped = asyncio.Event()
        self.not_before = 0.0
        self.length = LENGTHS[0]  # the name that this service takes
        self.steps, self.slowed = 0, 0.0  # of the shared backoff, and when it took the last
        self.answered = 0.0  # when the last answer came

    async def run(self, groups: Mapping[str, Sequence[Prompt]], report: Progress) -> None:
        requests, enough = iter(groups.items()), min(FIRST_ANSWERS, len(self.log) + len(groups))
        async with session_to(self.options) as session:
            client = _Client(session, self.options, self.key)
            workers = range(min(self.options.concurrency, len(groups)))
            tasks = [asyncio.create_task(self._work(client, requests, report, enough)) for _ in workers]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(
        self, client: _Client, requests: Iterator[tuple[str, Sequence[Prompt]]], report: Progress, enough: int
    ) -> None:
        for key, rows in requests:
            answer = await self._answer(client, key, rows[0])
            if answer is not None:
                self.log.add(answer, rows[0])
                report(len(rows))
                if len(self.log) == enough and mostly_unsaid(self.log):
                    self.stopped.set()
            if self.stopped.is_set():
                return

    async def _answer(self, client: _Client, key: str, prompt: Prompt) -> Answer | None:
        """The answer, or None once the pass is stopped."""
        begun, until, tried, told = time.monotonic(), 0.0, 0, 0
        while not await self._rest(until):
            sent, length = time.monotonic(), self.length
            # A lost answer is asked for by the same name; after one that was told, trouble or not, it is asked anew.
            name = hashlib.sha256(f"{self.log.salt}/{key}/{length}/{told}".encode()).hexdigest()
            ATTEMPT.set(f"swapbias-{name[:40]}")
            try:
                async with asyncio.timeout(self.options.timeout):
                    answer = await self._attempt(client, key, prompt)
            except Exception as error:  # noqa: BLE001 - whatever a reply does, answers that are paid for are kept
                trouble = trouble_of(error, self.key)
                told += isinstance(error, HfHubHTTPError) or not isinstance(error, httpx.TransportError | OSError)
            else:
                self._note_answer(sent)
                return answer
            if trouble.status == REFUSED and length == LENGTHS[0] and LENGTHS[1] in trouble.told:
                self.length = LENGTHS[1]
                continue  # nothing was generated, so that nothing is paid for twice
            tried, now = tried + 1, time.monotonic()
            patient = trouble.limited and now - max(begun, self.answered) < PATIENCE
            if not trouble.passes or (tried >= self.options.attempts and not patient):
                self.end = self.end or (trouble, prompt, tried)
                self.stopped.set()
                return None
            if trouble.limited:
                self._slow_down(trouble, sent, now)
            else:
                self.not_before = max(self.not_before, now + trouble.wait)
                until = now + self._pause(tried) * random.uniform(0.5, 1)
        return None

    def _note_answer(self, sent: float) -> None:
        self.answered = time.monotonic()
        if sent > self.slowed:  # it was let through after the last step, not only under way since before
            self.steps = 0

    def _slow_down(self, trouble: Trouble, sent: float, now: float) -> None:
        """Put all requests off; those that were sent before the last step have told of the same limit."""
        if sent > self.slowed:
            self.steps, self.slowed = self.steps + 1, now
        self.not_before = max(self.not_before, now + max(trouble.wait, self._pause(self.steps)))

    def _pause(self, steps: int) -> float:
        return min(self.backoff * 2.0 ** min(steps - 1, MOST_STEPS), LONGEST_BACKOFF)

    async def _rest(self, until: float) -> bool:
        """Sleep until then and until the service wants requests again; whether the pass was stopped meanwhile."""
        while not self.stopped.is_set() and (left := max(until, self.not_before) - time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.stopped.wait()
        return self.stopped.is_set()

    async def _attempt(self, client: _Client, key: str, prompt: Prompt) -> Answer:
        begun = time.monotonic()
        options, odds = self.options, self.options.log_odds
        ask_it = client.completion if options.endpoint == COMPLETIONS else client.chat_completion
        found = await ask_it(
            messages=turns(prompt.text),
            model=self.model,
            temperature=1.0 if odds else options.temperature,  # where it acts on what is told, 1 is the plain softmax
            seed=None if odds or options.no_seed else options.seed + trial_of(prompt.prompt_id),
            logprobs=odds or None,
            top_logprobs=options.top_logprobs if odds else None,
            extra_body={self.length: 1 if odds else options.max_tokens},
        )
        choice = found.choices[0] if found.choices else None
        error = found.get("error") or (choice.get("error") if choice else None)
        if error or choice is None:
            raise NoAnswerError(error)
        if choice.finish_reason == "error":
            raise NoAnswerError("the answer broke off with an error")
        text = choice.message.content or "" if choice.message else None
        if not isinstance(text, str):
            raise NoAnswerError
        used = {name: counted(getattr(found.usage, name, None)) for name in USAGE}
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=self._hidden(written(text)),
            finish_reason=self._hidden(written(str(choice.finish_reason or "")))[:LONGEST_REASON],
            usage={name: count for name, count in used.items() if count is not None},
            seconds=round(time.monotonic() - begun, 3),
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            logprobs=tuple((self._hidden(token), log) for token, log in first_tokens(choice)) if odds else (),
        )

    def _hidden(self, text: str) -> str:
        """A text without the key, should the service repeat it."""
        secret = self.key != NO_KEY and len(self.key) >= SHORTEST_KEY
        return text.replace(self.key, "***") if secret else text

    def failure(self, trouble: Trouble, prompt: Prompt, tried: int) -> ValueError:
        """The sentence that the run stops with."""
        service = self.options.host or self.options.provider or "Hugging Face Inference Providers"
        told, log = trouble.told, self.log
        if log.read is not None and not trouble.own:  # a service may repeat what it was asked
            told = f"{trouble.status or 'no answer'}, and what it said is not shown"
        if trouble.status in (401, 403):
            said = f"refuses the key ({told}). Set {key_names(self.options)[0]} to a valid one"
        elif trouble.status == 404:
            said = f"does not know model {self.model!r} ({told}). Check both names"
        elif not trouble.passes:
            said = f"cannot answer {prompt.prompt_id} ({told})"
            if self.options.log_odds and trouble.status in (400, 422):
                said += "; not every service gives log-probabilities: -M scoring=sampled needs none"
        else:
            said = f"did not answer {prompt.prompt_id} in {tried} attempts ({told})"
        for name, way in WAYS_OUT.items():
            if trouble.status in (REFUSED, UNPROCESSABLE) and name in trouble.told:
                said = f"{said}. {way}"
        kept = f"Answers kept in {log.path.name if log.path else 'memory'}: {len(log)}"
        way = "go on with swapbias audit --resume DIR" if log.path else "score again to go on"
        kind = UsageError if trouble.status in (401, 403, 404) else ValueError
        return kind(f"{service} {said}. {kept}; {way}.")


def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, in a thread of its own where this one already runs a loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    try:
        with ThreadPoolExecutor(max_workers=1) as pool:
            done = pool.submit(loop.run_until_complete, task)
            try:
                done.result()
            except BaseException:  # Ctrl-C reaches this thread, not the one that asks
                loop.call_soon_threadsafe(task.cancel)
                raise
    finally:
        loop.close()
