"""Requests to an OpenAI-compatible service by the openai client, which tries again where trouble passes.

Nothing leaves but the prompt and the key that the user chose: no redirect is followed, no variable of the environment
that the client reads becomes a header, and nothing goes by way of a proxy to a service declared as the user's own.
"""

import asyncio
import hashlib
import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
import openai
from huggingface_hub import is_offline_mode

from swapbias.errors import UsageError
from swapbias.models.chat.answer_log import FIRST_ANSWERS, USAGE, Answer, AnswerLog, mostly_unsaid, trial_of
from swapbias.models.chat.chat_options import COMPLETIONS, NO_KEY, ChatOptions, key_names
from swapbias.models.chat.log_odds import closed_names
from swapbias.models.scorer import Progress
from swapbias.studies import Prompt, turns

ROUTER = "https://router.huggingface.co/v1"  # Hugging Face Inference Providers
NOTHING = "something else than an answer came back"
MOST_REPLY = 4 * 2**20  # bytes of a reply: an answer of a hundred thousand tokens is a tenth of it
MOST_TOKENS = 2**40  # that a reply may count
MOST_LOG = 1.0  # of a token: what is more than rounding above 0 is no log-probability
LONGEST_REASON = 40  # characters of why an answer ended
SHORTEST_KEY = 6  # characters: a shorter one is a word that an answer may well say
LENGTHS = ("max_tokens", "max_completion_tokens")  # names of the most tokens: OpenAI's newer models refuse the first
REFUSED, UNPROCESSABLE, LIMITED, BROKEN = 400, 422, 429, 502
PASSING = (408, 409, 425, LIMITED)  # besides 5xx: states that pass
LONGEST_WAIT = 600.0  # seconds that a service may ask to wait; beyond them the run stops instead of hanging
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between attempts at a limited rate, doubling
PATIENCE = 120.0  # seconds without any answer before a limited rate ends the run: limits are often by the minute
HEADERS = {  # that leave this machine: none that the client makes of the environment or of this machine
    "accept", "connection", "content-length", "content-type", "host", "transfer-encoding",
}  # fmt: skip
WAYS_OUT = {  # of settings that some models refuse, such as those that think first
    "temperature": "Start a new run with the -M temperature that it takes, mostly 1",
    "seed": "Start a new run with -M no-seed, and trials will differ from run to run",
}

_LOGGERS = ("openai", "httpx2", "httpcore2")
Wanted = Mapping[str, Prompt]  # answer keys and prompts of one request: the same text, several trials
Later = Callable[[Prompt], Wanted]


class StoppedError(openai.OpenAIError):
    """Another request ended the pass before this one was sent."""


class MovedError(openai.OpenAIError):
    """A service names another address: what it is asked, and its key, go to no other."""


@dataclass(frozen=True, slots=True)
class RequestTrouble:
    """Why a request brought no answer: words, HTTP status (0: none), and whether it can pass.

    ``ours``: none of the words are the service's, which may repeat what it was asked.
    """

    words: str
    status: int = 0
    passes: bool = True
    ours: bool = False


def ask(
    groups: Mapping[str, Sequence[Prompt]],
    *,
    model: str,
    options: ChatOptions,
    key: str,
    log: AnswerLog,
    report: Progress,
    closed: bool = False,
    later: Later = lambda prompt: {},
) -> None:
    """Ask the first row of each key and keep the answers in the log; ``report`` is called with the rows of each.

    Args:
        closed: the prompts have options, so that a JSON schema may allow these alone.
        later: of a prompt the keys of its later trials that one request may bring as well.

    Raises:
        UsageError: a wrong key or an unknown model.
        ValueError: a request that the service refuses, or does not answer in all attempts.
    """
    if not options.base_url and is_offline_mode():
        raise ValueError("Hugging Face Inference Providers cannot be asked: HF_HUB_OFFLINE is set: unset it.")
    asking = Asking(model, options, key, log, closed=closed, later=later)
    with _quiet(log.read is not None):
        _finish(asking.run(groups, report))
    if asking.end is not None:  # raised here, so that no error of the client, and no header, hangs on it
        raise asking.failure(*asking.end)


class Asking:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for.

    One service, one limit: a wait that it asks for, and the pause after a limited rate, hold for all requests.
    """

    def __init__(
        self,
        model: str,
        options: ChatOptions,
        key: str,
        log: AnswerLog,
        *,
        closed: bool = False,
        later: Later = lambda prompt: {},
    ) -> None:
        self.options, self.key, self.log, self.later = options, key, log, later
        self.model = f"{model}:{options.provider}" if options.provider not in (None, "auto") else model
        self.name = model
        self.schema = closed and options.json_schema  # until the service refuses it
        self.several = options.answers_per_request > 1  # until the service refuses it, or gives fewer
        self.length = LENGTHS[0]  # the name that this service takes
        self.end: tuple[RequestTrouble, Prompt, int] | None = None  # what ended it, whose, after how many attempts
        self.stopped = asyncio.Event()
        self.tried: Counter[str] = Counter()  # attempts by answer key
        self.replies: Counter[str] = Counter()  # those that the service answered with trouble
        self.not_before, self.answered = 0.0, 0.0  # when requests may be sent again; when the last answer came
        self.steps, self.slowed = 0, 0.0  # of the shared pause, and when it grew last

    async def run(self, groups: Mapping[str, Sequence[Prompt]], report: Progress) -> None:
        """Ask for all, as many at once as the options allow."""
        enough = min(FIRST_ANSWERS, len(self.log) + len(groups))
        free = asyncio.Semaphore(self.options.concurrency)

        async def one(client: openai.AsyncOpenAI, wanted: Wanted) -> None:
            try:
                for answer, prompt in await self._answers(client, wanted):
                    self.log.add(answer, prompt)
                    report(len(groups.get(answer.key, ())))
                    if len(self.log) == enough and mostly_unsaid(self.log):
                        self.stopped.set()
            finally:
                free.release()

        async with self._client() as client:
            remaining = list(groups)
            while remaining and not self.stopped.is_set():  # again where requests brought fewer answers
                claimed: set[str] = set()
                try:
                    async with asyncio.TaskGroup() as tasks:
                        for key in remaining:
                            if key in claimed:
                                continue
                            await free.acquire()
                            if self.stopped.is_set():
                                break
                            wanted = {key: groups[key][0], **(self.later(groups[key][0]) if self.several else {})}
                            claimed |= wanted.keys()
                            tasks.create_task(one(client, wanted))
                except BaseExceptionGroup as group:  # a full disk
                    raise group.exceptions[0] from None
                remaining = [key for key in remaining if key not in self.log]

    def _client(self) -> openai.AsyncOpenAI:
        session = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=not self.options.declared,
            timeout=self.options.timeout,
            event_hooks={"request": [self.before], "response": [self.after]},
        )
        return openai.AsyncOpenAI(
            base_url=self.options.base_url or ROUTER,
            api_key=self.key,
            max_retries=self.options.attempts - 1,
            timeout=self.options.timeout,
            http_client=session,
        )

    async def _answers(self, client: openai.AsyncOpenAI, wanted: Wanted) -> list[tuple[Answer, Prompt]]:
        """Answers to a prompt and its later trials, at least to the first; none once the pass is stopped."""
        begun = time.monotonic()
        (key, prompt), *_ = wanted.items()
        while not self.stopped.is_set():
            length, extras = self.length, self.schema or len(wanted) > 1
            try:
                return await self._request(client, wanted)
            except StoppedError:
                break
            except Exception as error:  # noqa: BLE001 - whatever a reply does, answers that are paid for are kept
                trouble = trouble_of(error, self.key)
            if trouble.status == REFUSED and length == LENGTHS[0] and LENGTHS[1] in trouble.words:
                self.length = LENGTHS[1]
            elif trouble.status in (REFUSED, UNPROCESSABLE) and extras:  # not every service knows schemas, or n
                self.schema = self.several = False
                wanted = {key: prompt}
            elif trouble.status == LIMITED and trouble.passes and self._is_patient(begun):
                client = client.with_options(max_retries=0)
            else:
                self.end = self.end or (trouble, prompt, self.tried[key])
                self.stopped.set()
        return []

    def _is_patient(self, begun: float) -> bool:
        return time.monotonic() - max(begun, self.answered) < PATIENCE

    async def _request(self, client: openai.AsyncOpenAI, wanted: Wanted) -> list[tuple[Answer, Prompt]]:
        (key, prompt), *_ = wanted.items()
        response = await client.post(
            "/completions" if self.options.endpoint == COMPLETIONS else "/chat/completions",
            cast_to=httpx2.Response,
            body=self.body(prompt) | ({"n": len(wanted)} if len(wanted) > 1 else {}),
            options={"headers": {"Idempotency-Key": key}},
        )
        seconds, reply = time.monotonic() - response.request.extensions["sent"], response.json()
        found = [choice for choice in reply["choices"] if _trouble_of_reply(200, {"choices": [choice]}, "") is None]
        self.several = self.several and len(found) >= len(wanted)
        return [
            (self.answer_in(choice, own, one, seconds, reply.get("usage") if own == key else None), one)
            for choice, (own, one) in zip(found, wanted.items(), strict=False)
        ]

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """What is sent for a prompt."""
        options, odds, messages = self.options, self.options.log_odds, turns(prompt.text)
        body: dict[str, Any] = {"model": self.model, self.length: 1 if odds else options.max_tokens}
        body["temperature"] = 1.0 if odds else options.temperature  # where it acts on log-probabilities, 1 is plain
        if not odds and not options.no_seed:
            body["seed"] = options.seed + trial_of(prompt.prompt_id)
        if options.endpoint == COMPLETIONS:  # knows no roles: the turns stand one below the other
            body["prompt"] = "".join(f"{turn['content']}\n" for turn in messages)
            return {**body, "logprobs": options.top_logprobs} if odds else body
        body["messages"] = messages
        if odds:
            body |= {"logprobs": True, "top_logprobs": options.top_logprobs}
        if self.schema and (names := closed_names(prompt)):
            answer = {"type": "string", "enum": names}
            schema = {
                "type": "object", "properties": {"answer": answer}, "required": ["answer"],
                "additionalProperties": False,
            }  # fmt: skip
            body["response_format"] = {
                "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema},
            }  # fmt: skip
        return body

    def answer_in(self, choice: Mapping[str, Any], key: str, prompt: Prompt, seconds: float, usage: Any) -> Answer:
        """The answer of a choice that ``trouble_in`` found no trouble in."""
        text = choice["text"] if "text" in choice else choice["message"].get("content")
        used = {name: counted(usage.get(name)) for name in USAGE} if isinstance(usage, dict) else {}
        tokens = first_tokens(choice) if self.options.log_odds else ()
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=self._hidden(text or ""),
            finish_reason=self._hidden(str(choice.get("finish_reason") or ""))[:LONGEST_REASON],
            usage={name: count for name, count in used.items() if count is not None},
            seconds=round(seconds, 3),
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            logprobs=tuple((self._hidden(token), log) for token, log in tokens),
        )

    def _hidden(self, text: str) -> str:
        """A text without the key, should the service repeat it."""
        secret = self.key != NO_KEY and len(self.key) >= SHORTEST_KEY
        text = written(text)
        return text.replace(self.key, "***") if secret else text

    async def before(self, request: httpx2.Request) -> None:
        """Before each attempt: wait while the service wants no requests, and send no header but ours.

        ``Idempotency-Key``: a lost answer is asked for by the same name, so that a service that heeds such names
        charges it once; after one that came, trouble or not, it is asked for by another.
        """
        await self._rest()
        if self.stopped.is_set():
            raise StoppedError
        key = request.headers["Idempotency-Key"]
        name = hashlib.sha256(f"{self.log.salt}/{key}/{self.length}/{self.replies[key]}".encode()).hexdigest()
        for header in set(request.headers) - HEADERS:
            del request.headers[header]
        request.headers["Authorization"] = f"Bearer {self.key}"
        request.headers["Idempotency-Key"] = f"swapbias-{name[:40]}"
        request.headers["Accept-Encoding"] = "identity"
        self.tried[key] += 1
        request.extensions = {**request.extensions, "key": key, "sent": time.monotonic()}

    async def after(self, response: httpx2.Response) -> None:
        """After each attempt: read within bounds, and say by its headers whether the client is to try again."""
        if response.has_redirect_location:
            raise MovedError("it sends requests on to another address")
        content = await self._content(response)
        response.stream, now = httpx2.ByteStream(content or b""), time.monotonic()
        sent = response.request.extensions["sent"]
        trouble = trouble_in(response.status_code, content, self.key)
        if response.headers.pop("content-encoding", "identity").strip().lower() != "identity":
            trouble = RequestTrouble("a reply that is packed in another way than was asked for came back", ours=True)
        if trouble is None:
            self.answered = now
            self.steps = 0 if sent > self.slowed else self.steps
            return
        self.replies[response.request.extensions["key"]] += 1
        wait = asked_wait(response.headers)
        passes = trouble.passes and wait <= LONGEST_WAIT
        if wait > LONGEST_WAIT:
            trouble = RequestTrouble(f"{trouble.words}; asks to wait {wait:.0f} seconds", trouble.status, False)
        elif trouble.status == LIMITED:
            self._slow_down(wait, sent, now)
        elif passes:
            self.not_before = max(self.not_before, now + wait)
        response.status_code = trouble.status or BROKEN
        response.extensions["trouble"] = trouble
        response.headers.pop("retry-after", None)
        response.headers["retry-after-ms"] = "1" if trouble.status == LIMITED else "0"  # 1: all wait in ``_rest``
        response.headers["x-should-retry"] = "true" if passes else "false"

    async def _content(self, response: httpx2.Response) -> bytes | None:
        """The bytes of a reply; None where they are more than any answer has."""
        raw, content = response.stream, bytearray()
        try:
            async with asyncio.timeout(self.options.timeout):
                async for chunk in raw:  # type: ignore[union-attr]
                    content += chunk
                    if len(content) > MOST_REPLY:
                        return None
        except TimeoutError:
            raise httpx2.ReadTimeout("no answer in time", request=response.request) from None
        finally:
            await raw.aclose()  # type: ignore[union-attr]
        return bytes(content)

    def _slow_down(self, wait: float, sent: float, now: float) -> None:
        """Put all requests off; of those that were sent before the last step, each met the same limit."""
        if sent > self.slowed:
            self.steps, self.slowed = self.steps + 1, now
        pause = min(FIRST_PAUSE * 2.0 ** min(self.steps - 1, 16), LONGEST_PAUSE)
        self.not_before = max(self.not_before, now + max(wait, pause))

    async def _rest(self) -> None:
        """Sleep until the service wants requests again, or the pass is stopped."""
        while not self.stopped.is_set() and (remaining := self.not_before - time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self.stopped.wait()

    def failure(self, trouble: RequestTrouble, prompt: Prompt, tried: int) -> ValueError:
        """The sentence that the run stops with."""
        service = self.options.host or self.options.provider or "Hugging Face Inference Providers"
        words, log = trouble.words, self.log
        if log.read is not None and not trouble.ours:
            words = f"{trouble.status or 'no answer'}, and what it said is not shown"
        if trouble.status in (401, 403):
            said = f"refuses the key ({words}). Set {key_names(self.options)[0]} to a valid one"
        elif trouble.status == 404:
            said = f"does not know model {self.name!r} ({words}). Check both names"
        elif not trouble.passes:
            said = f"cannot answer {prompt.prompt_id} ({words})"
            if self.options.log_odds and trouble.status in (REFUSED, UNPROCESSABLE):
                said += "; not every service gives log-probabilities: -M scoring=sampled needs none"
        else:
            said = f"did not answer {prompt.prompt_id} in {tried} attempts ({words})"
        for name, way in WAYS_OUT.items():
            if trouble.status in (REFUSED, UNPROCESSABLE) and name in trouble.words:
                said = f"{said}. {way}"
        there = f"Answers kept in {log.path.name if log.path else 'memory'}: {len(log)}"
        way = "go on with swapbias audit --resume DIR" if log.path else "score again to go on"
        kind = UsageError if trouble.status in (401, 403, 404) else ValueError
        return kind(f"{service} {said}. {there}; {way}.")


def trouble_in(status: int, content: bytes | None, key: str) -> RequestTrouble | None:
    """What is wrong with a reply of this status; None where its first choice is an answer.

    Services put errors into replies of status 200 too, with a status of their own or without.
    """
    if content is None:
        return RequestTrouble(f"a reply of more than {MOST_REPLY:,} bytes came back", ours=True)
    try:
        found = json.loads(content)
    except RecursionError:
        return RequestTrouble("a reply that is nested too deeply came back", ours=True)
    except ValueError:
        found = content[:10_000].decode(errors="replace")
    return _trouble_of_reply(status, found, key)


def _trouble_of_reply(status: int, found: Any, key: str) -> RequestTrouble | None:
    error: Any = None
    match found:
        case {"error": inner} if inner:
            error = inner
        case {"choices": [{"error": inner}, *_]} if inner:
            error = inner
        case {"choices": [{"finish_reason": "error"}, *_]}:
            error = "the answer broke off with an error"
    words = str(error["message"]) if isinstance(error, dict) and "message" in error else str(error or "")
    if status >= 300:
        passes = status >= 500 or status in PASSING
        said = _one_line(words or str(found), key)
        return RequestTrouble(f"{status}: {said}" if said else str(status), status, passes)
    if error:
        if code := _code(error):
            return _trouble_of_reply(code, found, key)
        return RequestTrouble(_one_line(words, key) or NOTHING)
    match found:
        case {"choices": [{"text": str()}, *_]}:
            return None
        case {"choices": [{"message": dict() as message}, *_]} if isinstance(message.get("content"), str | None):
            return None
    return RequestTrouble(NOTHING, ours=True)


def trouble_of(error: Exception, key: str) -> RequestTrouble:
    """What an error of the client means; the key is taken out of its words."""
    if isinstance(error, openai.APIStatusError):
        trouble: RequestTrouble = error.response.extensions["trouble"]
        return trouble
    if isinstance(error, openai.APITimeoutError):
        return RequestTrouble("no answer in time", ours=True)
    if isinstance(error, MovedError):
        return RequestTrouble(str(error), passes=False, ours=True)
    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
    words = _one_line(str(cause) or type(cause).__name__, key)
    return RequestTrouble(words, passes=isinstance(error, openai.APIConnectionError))


def _code(error: Any) -> int:
    """The HTTP status that an error within an answer names; 0 where it names none."""
    try:
        code = int(error["code"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0
    return code if 400 <= code <= 599 else 0


def _one_line(text: str, key: str) -> str:
    """At most 200 characters, without the key, should the service repeat it."""
    shown = text if key == NO_KEY else text.replace(key, "***")
    return " ".join(written(shown).split())[:200].rstrip(".")


def asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds that a service asks to wait (``Retry-After``: a number or a date); 0 where it does not."""
    value = headers.get("retry-after", "")
    with suppress(ValueError, TypeError):  # no date, or one without a zone
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    return _number(headers.get("retry-after-ms", "")) / 1000 or _number(value)


def _number(value: str) -> float:
    """A number above 0; 0 where there is none."""
    with suppress(ValueError):
        return max(float(value), 0.0) if not math.isnan(float(value)) else 0.0
    return 0.0


def first_tokens(choice: Any) -> tuple[tuple[str, float], ...]:
    """The likeliest first tokens of an answer with their log-probabilities; none where the service gives none."""
    try:
        logs = choice["logprobs"]
        shown = logs["top_logprobs"][0] if "top_logprobs" in logs else logs["content"][0]["top_logprobs"]
        pairs = shown.items() if isinstance(shown, dict) else ((one["token"], one["logprob"]) for one in shown)
        tops = [(written(str(token)), float(log)) for token, log in pairs]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()
    return tuple((token, log) for token, log in tops if math.isfinite(log) and log < MOST_LOG)


def written(text: str) -> str:
    """A text that can be written down: half of a surrogate pair cannot."""
    return text.encode(errors="replace").decode()


def counted(value: Any) -> int | None:
    """Tokens as a service counted them; None for what is no count."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < MOST_TOKENS else None


@contextmanager
def _quiet(credentialed: bool) -> Iterator[None]:
    """Of credentialed notes the client and its transport log nothing, whatever the level."""
    loggers = [logging.getLogger(name) for name in _LOGGERS] if credentialed else []
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)


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
