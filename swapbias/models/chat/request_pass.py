"""One pass over requests to an OpenAI-compatible service, by the openai client, which retries passing errors.

Nothing leaves but the prompt and the key that the user chose: no redirect is followed, no variable of the environment
that the client reads becomes a header, and nothing goes by way of a proxy to a service declared as the user's own.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx2
import openai
from huggingface_hub import is_offline_mode

from swapbias.errors import ServiceError, ServiceUsageError
from swapbias.models.chat import answering
from swapbias.models.chat.answering import UNANSWERED, USAGE, Answer, AnsweringScorer, Groups
from swapbias.models.chat.chat_options import key_names
from swapbias.models.chat.replies import (
    LIMITED,
    RequestTrouble,
    about_prompt,
    ending_of,
    error_in,
    error_of_choice,
    first_tokens,
    is_spent_quota,
    refusal_in,
    text_of,
    trouble_of,
    without_key,
)
from swapbias.models.progress import Progress
from swapbias.studies import Prompt, chats

ROUTER = "https://router.huggingface.co/v1"  # Hugging Face Inference Providers
MAX_TOKENS = 2**40  # that a reply may count
MAX_REASON = 40  # characters of why an answer ended
LENGTHS = (
    "max_tokens",
    "max_completion_tokens",
)  # names of the most tokens: OpenAI's newer models refuse the first
FORBIDDEN = 403  # of a text, by some; or of the key
INVALID_TEXTS = (
    400,
    413,
    422,
)  # statuses of what a service refuses of one prompt, where it answers others
# statuses of settings that a service refuses, and of what is no reply
INVALID = (400, 422)
BROKEN = 502
PATIENCE = 120.0  # seconds without any answer before a limited rate ends the run: limits are often by the minute
HEADERS = {  # that leave this machine: none that the client makes of the environment or of this machine
    "accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding",
}  # fmt: skip
WAYS_OUT = {  # of settings that some models refuse, such as those that think first
    "temperature": "Start a new run with the -M temperature that it takes, mostly 1",
    "seed": "Start a new run with -M no-seed, and trials will differ from run to run",
}
Trials = Mapping[
    str, Prompt
]  # answer keys and prompts of one request: the same text, several trials


class RequestPass:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for."""

    def __init__(self, scorer: AnsweringScorer, key: str) -> None:
        self.scorer = scorer
        self.options = scorer.options
        self.log = scorer.log
        self.key = key
        self.extras = True  # until the service refuses a schema, or several answers
        self.length = LENGTHS[0]  # the name that this service takes
        self.tops = scorer.options.top_logprobs  # first tokens that this service shows
        self.end: tuple[RequestTrouble, Prompt, int] | None = (
            None  # what ended it, whose, after how many attempts
        )
        self.unanswered: tuple[RequestTrouble, Prompt, int] | None = (
            None  # the last prompt without an answer
        )
        # when the last answer came
        self.stopped = asyncio.Event()
        self.answered = 0.0
        # Prompts without an answer are written down once the service answers another: it may be broken for all.
        self.works = any(answer.withheld != UNANSWERED for answer in self.log.values())
        self.pending: list[tuple[Answer, Prompt]] = []
        self.invalid = (
            0  # prompts without an answer one after another, for reasons that may not be theirs
        )

    def ask(self, groups: Groups, report: Progress, expected: int) -> None:
        """Send the first row of each key and log answers until these are useless; ``report`` gets the rows of each.

        ServiceUsageError: a wrong key or model. ServiceError: a request is refused or not answered.
        """
        from anyio.from_thread import start_blocking_portal  # of the openai client

        if not self.options.base_url and is_offline_mode():
            raise ValueError(
                "Hugging Face Inference Providers cannot be reached: HF_HUB_OFFLINE is set: unset it."
            )
        # A loop of its own, for a notebook runs one already.
        with _quiet(self.scorer.is_credentialed), start_blocking_portal() as portal:
            portal.call(self.run, groups, report, expected)
        if (
            self.end is not None
        ):  # raised here, so that no error of the client, and no header, hangs on it
            raise self.failure(*self.end)

    async def run(self, groups: Groups, report: Progress, expected: int) -> None:
        """Ask for all, as many at once as the options allow."""
        options = self.options
        free = asyncio.Semaphore(self.options.concurrency)
        hooks: Any = {"request": [self.before], "response": [self.after]}
        session = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=not options.declared,
            timeout=options.timeout,
            event_hooks=hooks,
        )

        async def one(key: str, prompt: Prompt) -> None:
            async with free:
                answers = await self.answers({key: prompt, **self.later_trials(prompt, groups)})
                write(self.settled(answers))
                if self.scorer.useless(expected):
                    self.stopped.set()

        def write(settled: list[tuple[Answer, Prompt]]) -> None:
            for answer, row in settled:
                self.scorer.keep(answer, row)
                report(len(groups.get(answer.key, ())))

        async with openai.AsyncOpenAI(
            base_url=options.base_url or ROUTER,
            api_key=self.key,
            max_retries=options.attempts - 1,
            timeout=options.timeout,
            http_client=session,
        ) as self.client:
            await asyncio.gather(*(one(key, rows[0]) for key, rows in groups.items()))
        if self.end is None and self.works:
            write(self.pending)
        elif self.pending and self.end is None:
            self.end = self.unanswered

    def settled(self, answers: list[tuple[Answer, Prompt]]) -> list[tuple[Answer, Prompt]]:
        """Return what is to be written down now: prompts without an answer wait until the service answers another."""
        self.pending += answers
        if any(answer.withheld != UNANSWERED for answer, _ in answers):
            self.works = True
            self.invalid = 0
        if self.works and not self.invalid:
            settled = self.pending
            self.pending = []
            return settled
        if not self.works and len(self.pending) >= answering.FIRST_ANSWERS:
            self.end = self.end or self.unanswered
            self.stopped.set()
        return []

    async def answers(self, trials: Trials) -> list[tuple[Answer, Prompt]]:
        """Answers to a prompt and its later trials, at least to the first; none once the pass is stopped."""
        begun = time.monotonic()
        rounds = 0
        prompt = next(iter(trials.values()))
        while not self.stopped.is_set():
            length = self.length
            body = self.body(trials)
            rounds += 1
            try:
                response = await self.client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=body
                )
                return list(self.answers_in(response.extensions["reply"], trials))
            except Exception as error:  # noqa: BLE001 - whatever a reply does, answers that are paid for stay
                trouble = trouble_of(error, self.key, shown=not self.scorer.is_credentialed)
            attempts = rounds * self.options.attempts
            if trouble.withheld == UNANSWERED:
                self.unanswered = (trouble, prompt, attempts)
            if trouble.withheld:
                return [
                    (self.withheld_answer(trouble, key, row), row) for key, row in trials.items()
                ]
            fewer = fewer_tops(trouble, body) if self.options.log_odds else 0
            if fewer:
                self.tops = min(self.tops, fewer)
            elif trouble.status in INVALID and trouble.param == length == LENGTHS[0]:
                self.length = LENGTHS[1]
            elif trouble.status in INVALID and body.keys() & {
                "response_format",
                "n",
            }:  # not every service knows them
                self.extras = False
            elif self._is_of_one_prompt(trouble, body):
                self.invalid += 1
                self.unanswered = self.unanswered or (trouble, prompt, attempts)
                trouble = replace(trouble, withheld=UNANSWERED)
                return [
                    (self.withheld_answer(trouble, key, row), row) for key, row in trials.items()
                ]
            elif not self._waits(trouble, begun):
                self.end = self.end or (trouble, prompt, attempts)
                self.stopped.set()
        return []

    def _is_of_one_prompt(self, trouble: RequestTrouble, body: Mapping[str, Any]) -> bool:
        """Whether other prompts may be answered: not where a setting is refused, or one prompt after another."""
        sent = {*body, *LENGTHS} - {"messages", "model", "n"}
        is_setting = bool(sent & {trouble.param, *re.findall(r"\w+", trouble.words)})
        is_refused = trouble.status in INVALID_TEXTS and not trouble.is_spent and not is_setting
        is_broken = self.works and trouble.is_reply and trouble.status != LIMITED
        is_broken = (
            is_broken and (trouble.passes or trouble.status == FORBIDDEN) and not trouble.is_spent
        )
        most = answering.FIRST_ANSWERS if self.works else 1
        return (is_refused or is_broken) and self.invalid < most

    def _waits(self, trouble: RequestTrouble, begun: float) -> bool:
        """Whether a limited rate is still waited out; a spent quota is not."""
        is_limited = trouble.status == LIMITED and not trouble.is_spent
        return is_limited and time.monotonic() - max(begun, self.answered) < PATIENCE

    def answers_in(
        self, reply: Mapping[str, Any], trials: Trials
    ) -> Iterator[tuple[Answer, Prompt]]:
        """The answers of one reply; where there are fewer than trials, the others are requested in their turn."""
        usage = [reply.get("usage"), *[None] * len(trials)]  # a request is counted once
        for choice, (key, prompt), used in zip(
            reply["choices"], trials.items(), usage, strict=False
        ):
            if error_of_choice(choice) is None:
                yield self.answer_in(choice, key, prompt, used), prompt

    def body(self, trials: Trials) -> dict[str, Any]:
        """The JSON that is sent for a prompt and its later trials."""
        options = self.options
        name = self.scorer.model_id
        prompt = next(iter(trials.values()))
        body: dict[str, Any] = {
            "model": f"{name}:{options.provider}"
            if options.provider not in (None, "auto")
            else name,
            "messages": chats.turns(prompt.text),
        }
        if options.log_odds:  # where the temperature acts on log-probabilities, 1 is plain
            more = {"temperature": 1.0, "logprobs": True, "top_logprobs": self.tops}
            return {**body, self.length: 1, **more}
        body |= {self.length: options.max_tokens, "temperature": options.temperature}
        if not options.no_seed:
            body["seed"] = options.seed + answering.trial_of(prompt.prompt_id)
        if self.extras and len(trials) > 1:
            body["n"] = len(trials)
        if self.extras and self.scorer.fields is not None and options.json_schema:
            named = self.scorer.fields(prompt)
            schema = {
                "type": "object",
                "properties": named,
                "required": list(named),
                "additionalProperties": False,
            }
            body["response_format"] = {
                "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema},
            }  # fmt: skip
        return body

    def answer_in(self, choice: Mapping[str, Any], key: str, prompt: Prompt, usage: Any) -> Answer:
        """The answer of a choice that ``error_in`` found no error in."""
        used = usage if isinstance(usage, dict) else {}
        refusal = refusal_in(choice)
        tokens = first_tokens(choice) if self.options.log_odds and refusal is None else ()
        text = text_of(choice["message"].get("content")) if refusal is None else refusal
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=without_key(text or "", self.key),
            finish_reason=without_key(ending_of(choice), self.key)[:MAX_REASON],
            usage={
                one: used[one]
                for one in USAGE
                if type(used.get(one)) is int and 0 <= used[one] < MAX_TOKENS
            },
            time=_now(),
            withheld="" if refusal is None else answering.REFUSED,
            logprobs=tuple((without_key(token, self.key), log) for token, log in tokens),
        )

    def withheld_answer(self, trouble: RequestTrouble, key: str, prompt: Prompt) -> Answer:
        """Return what stands in the log for a prompt that gets no answer, so that it is not asked again."""
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer="",
            time=_now(),
            withheld=trouble.withheld,
            reason=trouble.words,
        )

    def later_trials(self, prompt: Prompt, pending: Groups) -> Trials:
        """Return the trials after that of a prompt which its request may answer too, if none requests them yet."""
        trial = answering.trial_of(prompt.prompt_id)
        several = self.options.answers_per_request
        name = prompt.prompt_id.removesuffix(f"/t{trial}")
        last = min(trial + several - 1 - (trial - 1) % several, self.options.trials)
        trials: dict[str, Prompt] = {}
        for number in range(trial + 1, last + 1):
            later = replace(prompt, prompt_id=f"{name}/t{number}")
            key = answering.answer_key(later, model=self.scorer.model_id, options=self.options)
            if key not in self.log and key not in pending:
                trials[key] = later
        return trials

    async def before(self, request: httpx2.Request) -> None:
        """Before each attempt: send no header but ours."""
        for header in set(request.headers) - HEADERS:
            del request.headers[header]
        request.headers["Authorization"] = f"Bearer {self.key}"

    async def after(self, response: httpx2.Response) -> None:
        """After each attempt: an error in place of an answer gets a status, by which the client tries again."""
        await response.aread()
        try:
            reply = json.loads(response.content)
        except (ValueError, RecursionError):
            reply = None
        response.extensions["reply"] = reply
        if response.status_code < 300 and (error := error_in(reply)) is not None:
            code = str(error.get("code")) if isinstance(error, dict) else ""
            status = (
                int(code) if len(code) == 3 and code.isdecimal() and "400" <= code <= "599" else 0
            )
            response.status_code = status or BROKEN
            response.extensions |= {"error": error, "status": status}
        elif response.status_code < 300:
            self.answered = time.monotonic()
        if self.stopped.is_set() or self.is_final(response):
            response.headers["x-should-retry"] = "false"

    def is_final(self, response: httpx2.Response) -> bool:
        """Whether a reply says that no retry helps: the text is refused, or the quota is spent."""
        if response.status_code < 300:
            return False
        error = response.extensions.get("error", response.extensions["reply"])
        status = response.extensions.get("status", response.status_code)
        return bool(about_prompt(error, status)) or is_spent_quota(error, status)

    def failure(self, trouble: RequestTrouble, prompt: Prompt, attempts: int) -> ServiceError:
        """Return the error that the run stops with."""
        words = trouble.words
        model = self.scorer.model_id
        kind: type[ServiceError] = ServiceError
        if trouble.is_spent:
            claim = f"answers no more because the quota is spent ({words}). Top it up"
        elif trouble.status in (401, 403):
            kind = ServiceUsageError
            claim = f"refuses the key ({words}). Set {key_names(self.options)[0]} to a valid one"
        elif trouble.status == 404:
            kind = ServiceUsageError
            claim = f"does not know model {model!r} ({words}). Check both names"
        elif trouble.passes:
            claim = f"did not answer {prompt.prompt_id} in {attempts} attempts ({words})"
        else:
            claim = f"cannot answer {prompt.prompt_id} ({words}){self._way_out(trouble)}"
        return kind(f"{self.options.service} {claim}. Answers so far: {len(self.log):,}.")

    def _way_out(self, trouble: RequestTrouble) -> str:
        """Return what to do about a setting that the service refuses; blank where that is not known."""
        if trouble.status not in INVALID:
            return ""
        if trouble.param in WAYS_OUT:
            return f". {WAYS_OUT[trouble.param]}"
        if self.options.log_odds:
            return "; not every service gives log-probabilities: -M scoring=sampled needs none"
        return ""


def fewer_tops(trouble: RequestTrouble, body: Mapping[str, Any]) -> int:
    """Return how many first tokens to ask for where a service refuses so many; 0 where it refuses something else."""
    most = int(body["top_logprobs"])
    words = f"{trouble.param} {trouble.words}"
    if trouble.status not in INVALID or most < 2 or "logprobs" not in words:
        return 0
    numbers = [int(number) for number in re.findall(r"\d+", trouble.words.partition(":")[2])]
    allowed = [number for number in numbers if 0 < number < most]
    if allowed:
        return max(allowed)
    return most // 2 if "top_logprobs" in words else 0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def _quiet(credentialed: bool) -> Iterator[None]:
    """Of credentialed notes the client and its transport log nothing, whatever the level."""
    loggers = [
        logging.getLogger(name) for name in ("openai", "httpx2", "httpcore2") if credentialed
    ]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)
