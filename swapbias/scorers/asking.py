"""Requests to an OpenAI-compatible service: many at once, tried again where trouble passes, stopped where not."""

import asyncio
import random
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx2
from huggingface_hub import AsyncInferenceClient, get_async_session

from swapbias.errors import UsageError
from swapbias.prompts import Prompt
from swapbias.scorers import Progress
from swapbias.scorers.answers import FIRST_ANSWERS, Answer, AnswerLog, mostly_unsaid, trial_of
from swapbias.scorers.asking_trouble import FAILURES, NoAnswerError, Trouble, trouble_of
from swapbias.scorers.chat_options import ChatOptions

LONGEST_BACKOFF = 60.0  # seconds between attempts, where the service does not say
PATIENCE = 120.0  # seconds without any answer before a limited rate ends the run: limits are often by the minute
MOST_STEPS = 16  # of a backoff that doubles: a power beyond is as long as the longest
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")


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


class _Asking:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for.

    One service, one limit: a wait that it asks for, and the backoff from a limited rate, hold for all requests.
    """

    def __init__(self, model: str, options: ChatOptions, key: str, log: AnswerLog, backoff: float) -> None:
        self.model, self.options, self.key, self.log, self.backoff = model, options, key, log, backoff
        self.end: tuple[Trouble, Prompt, int] | None = None  # the trouble that ended it, whose, after how many tries
        self.stopped = asyncio.Event()
        self.not_before = 0.0
        self.steps, self.slowed = 0, 0.0  # of the shared backoff, and when it took the last
        self.answered = 0.0  # when the last answer came

    async def run(self, groups: Mapping[str, Sequence[Prompt]], report: Progress) -> None:
        requests, enough = iter(groups.items()), min(FIRST_ANSWERS, len(self.log) + len(groups))
        async with get_async_session() as session:
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
                self.log.add(answer)
                report(len(rows))
                if len(self.log) == enough and mostly_unsaid(self.log):
                    self.stopped.set()
            if self.stopped.is_set():
                return

    async def _answer(self, client: _Client, key: str, prompt: Prompt) -> Answer | None:
        """The answer, or None once the pass is stopped."""
        begun, until, tried = time.monotonic(), 0.0, 0
        while not await self._rest(until):
            sent = time.monotonic()
            try:
                async with asyncio.timeout(self.options.timeout):
                    answer = await self._attempt(client, key, prompt)
            except FAILURES as error:
                trouble = trouble_of(error, self.key)
            else:
                self._note_answer(sent)
                return answer
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
        found = await client.chat_completion(
            messages=[{"role": "user", "content": prompt.text}],
            model=self.model,
            temperature=self.options.temperature,
            seed=self.options.seed + trial_of(prompt.prompt_id),
            max_tokens=self.options.max_tokens,
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
        counted = {name: getattr(found.usage, name, None) for name in USAGE}
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=text.encode(errors="replace").decode(),  # half of a surrogate pair cannot be written down
            finish_reason=str(choice.finish_reason or ""),
            usage={name: count for name, count in counted.items() if isinstance(count, int)},
            seconds=round(time.monotonic() - begun, 3),
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    def failure(self, trouble: Trouble, prompt: Prompt, tried: int) -> ValueError:
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
            said = f"did not answer {prompt.prompt_id} in {tried} attempts ({told})"
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
