"""Requests to an OpenAI-compatible service: many at once, tried again where trouble passes, stopped where not."""

import asyncio
import random
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import Any

import httpx2
from huggingface_hub import AsyncInferenceClient, get_async_session
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from swapbias.errors import UsageError
from swapbias.prompts import Prompt
from swapbias.scorers import Progress
from swapbias.scorers.answers import Answer, AnswerLog, trial_of
from swapbias.scorers.chat import NO_KEY, ChatOptions

LONGEST_BACKOFF = 60.0  # seconds between attempts, where the service does not say
LONGEST_WAIT = 600.0  # seconds that a service may ask to wait; beyond them the run stops instead of hanging
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")
PASSING = (408, 409, 425, 429)  # besides 5xx: states that pass
# Where the services are strict about types, the library itself stumbles over bodies of another shape.
FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, TypeError, AttributeError)


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

    def __init__(self, session: httpx2.AsyncClient, options: ChatOptions, key: str) -> None:
        """Talk to the service of the options."""
        super().__init__(
            base_url=options.base_url, provider=options.provider, api_key=key, timeout=options.timeout  # type: ignore[arg-type]
        )  # fmt: skip
        self._session = session
        if options.base_url:  # offline mode is about the Hub: a server of one's own is asked all the same
            session.event_hooks = {}

    async def _get_async_client(self) -> httpx2.AsyncClient:
        return self._session


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why an attempt brought no answer: in words, HTTP status, whether it can pass, the wait that is asked for."""

    told: str
    status: int = 0
    passes: bool = True
    wait: float = 0.0


class _NoAnswerError(ValueError):
    """The service sent something else than an answer."""


class _Asking:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for."""

    def __init__(self, model: str, options: ChatOptions, key: str, log: AnswerLog, backoff: float) -> None:
        self.model, self.options, self.key, self.log, self.backoff = model, options, key, log, backoff
        self.end: tuple[_Trouble, Prompt] | None = None  # the trouble that ended it, and whose it was
        self.stopped = asyncio.Event()
        self.not_before = 0.0  # one service, one limit: a wait that it asks for holds for all

    async def run(self, groups: Mapping[str, Sequence[Prompt]], report: Progress) -> None:
        requests = iter(groups.items())
        async with get_async_session() as session:
            client = _Client(session, self.options, self.key)
            workers = range(min(self.options.concurrency, len(groups)))
            tasks = [asyncio.create_task(self._work(client, requests, report)) for _ in workers]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(
        self, client: _Client, requests: Iterator[tuple[str, Sequence[Prompt]]], report: Progress
    ) -> None:
        for key, rows in requests:
            answer = await self._answer(client, key, rows[0])
            if answer is not None:
                self.log.add(answer)
                report(len(rows))
            if self.stopped.is_set():
                return

    async def _answer(self, client: _Client, key: str, prompt: Prompt) -> Answer | None:
        """The answer, or None once the pass is stopped."""
        trouble, until = _Trouble(""), 0.0
        for attempt in range(self.options.attempts):
            if await self._rest(until):
                return None
            try:
                async with asyncio.timeout(self.options.timeout):
                    return await self._attempt(client, key, prompt)
            except FAILURES as error:
                trouble = _trouble(error, self.key)
            if not trouble.passes:
                break
            now = time.monotonic()
            if trouble.wait:
                self.not_before = max(self.not_before, now + trouble.wait)
            until = now + min(self.backoff * 2**attempt, LONGEST_BACKOFF) * random.uniform(0.5, 1)
        self.end = self.end or (trouble, prompt)
        self.stopped.set()
        return None

    async def _rest(self, until: float) -> bool:
        """Sleep until then and until the service wants requests again; whether the pass was stopped meanwhile."""
        while not self.stopped.is_set() and (left := max(until, self.not_before) - time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.stopped.wait()
        return self.stopped.is_set()

    async def _attempt(self, client: _Client, key: str, prompt: Prompt) -> Answer:
        begun = time.monotonic()
        found = await client.chat_completion(
            messages=[{"role": "user", "content": prompt.text}],
            model=self.model,
            temperature=self.options.temperature,
            seed=self.options.seed + trial_of(prompt.prompt_id),
            max_tokens=self.options.max_tokens,
        )
        message = found.choices[0].message if found.choices else None
        text = message.content or "" if message else None
        if not isinstance(text, str):
            raise _NoAnswerError
        counted = {name: getattr(found.usage, name, None) for name in USAGE}
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=text.encode(errors="replace").decode(),  # half of a surrogate pair cannot be written down
            finish_reason=str(found.choices[0].finish_reason or ""),
            usage={name: count for name, count in counted.items() if isinstance(count, int)},
            seconds=round(time.monotonic() - begun, 3),
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    def failure(self, trouble: _Trouble, prompt: Prompt) -> ValueError:
        """The sentence that the run stops with."""
        service = self.options.host or self.options.provider or "Hugging Face Inference Providers"
        told, log = trouble.told, self.log
        if trouble.status in (401, 403):
            said = f"refuses the key ({told}). Set SWAPBIAS_API_KEY to a valid one"
        elif trouble.status == 404:
            said = f"does not know model {self.model!r} ({told}). Check both names"
        elif not trouble.passes:
            said = f"cannot answer {prompt.prompt_id} ({told})"
        else:
            said = f"did not answer {prompt.prompt_id} in {self.options.attempts} attempts ({told})"
        kept = f"Answers kept in {log.path.name if log.path else 'memory'}: {len(log)}"
        way = "go on with swapbias audit --resume DIR" if log.path else "score again to go on"
        kind = UsageError if trouble.status in (401, 403, 404) else ValueError
        return kind(f"{service} {said}. {kept}; {way}.")


def _trouble(error: Exception, key: str) -> _Trouble:
    if isinstance(error, HfHubHTTPError):
        status, wait = error.response.status_code, _retry_after(error.response.headers.get("retry-after", ""))
        told = f"{status}: {_said(error.response, key)}"
        if wait > LONGEST_WAIT:
            return _Trouble(f"{told}; asks to wait {wait:.0f} seconds", passes=False)
        return _Trouble(told, status, status >= 500 or status in PASSING, wait)
    if isinstance(error, OfflineModeIsEnabled):
        return _Trouble("HF_HUB_OFFLINE is set: unset it", passes=False)
    if isinstance(error, TimeoutError):
        return _Trouble("no answer in time")
    if isinstance(error, JSONDecodeError | UnicodeDecodeError | _NoAnswerError | TypeError | AttributeError):
        return _Trouble("something else than an answer came back")
    told = _redacted(str(error) or type(error).__name__, key)
    return _Trouble(told, passes=isinstance(error, httpx2.HTTPError | OSError))


def _said(response: httpx2.Response, key: str) -> str:
    """What the service says of an error, in one line."""
    try:
        body = response.json()["error"]
        text = body["message"] if isinstance(body, dict) else body
    except (ValueError, KeyError, TypeError):
        text = response.text or response.reason_phrase
    return _redacted(str(text), key)


def _redacted(text: str, key: str) -> str:
    """One line of at most 200 characters, without the key, should the service repeat it."""
    shown = text if key == NO_KEY else text.replace(key, "***")
    return " ".join(shown.split())[:200].rstrip(".")


def _retry_after(value: str) -> float:
    """Seconds of a Retry-After header (a number or a date); 0 where it says nothing."""
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):  # no date, or one without a zone
        return 0.0


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
