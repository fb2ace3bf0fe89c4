"""One pass over requests to an OpenAI-compatible service, by the openai client, which retries passing errors.

Nothing leaves but the prompt and the key that the user chose: no redirect is followed, no variable of the environment
that the client reads becomes a header, and nothing goes by way of a proxy to a service declared as the user's own.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx2
import openai
from huggingface_hub import is_offline_mode

from swapbias.models.chat import answer_log, answering
from swapbias.models.chat.answer_log import UNANSWERED, Answer
from swapbias.models.chat.answering import AnsweringScorer, Groups, response_format
from swapbias.models.chat.blank_answers import REASONING, text_of, why_blank
from swapbias.models.chat.client_logs import silenced_clients
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
    token_counts_in,
    trouble_of,
    without_key,
)
from swapbias.models.chat.request_failures import (
    INVALID,
    Failure,
    fewer_tops,
    service_error,
    status_in,
)
from swapbias.models.progress import Progress
from swapbias.studies import Prompt, chats

ROUTER = "https://router.huggingface.co/v1"  # Hugging Face Inference Providers
MAX_REASON = 40  # characters of why an answer ended
LENGTHS = ("max_tokens", "max_completion_tokens")  # OpenAI's newer models refuse the first
PATIENCE = 120.0  # seconds without any answer before a limited rate ends the run: limits are often by the minute
# Statuses of HTTP:
FORBIDDEN = 403  # of a text, by some services; or of the key
INVALID_TEXTS = (400, 413, 422)  # of one prompt that a service refuses, where it answers others
BROKEN = 502  # given to what is no reply
# Headers that leave this machine: none that the client makes of the environment or of this machine.
HEADERS = {
    "accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding",
}  # fmt: skip
# Answer keys and prompts of one request: the same text, several trials.
Trials = Mapping[str, Prompt]


class RequestPass:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for."""

    def __init__(self, scorer: AnsweringScorer, key: str) -> None:
        """Prepare a pass.

        Args:
            scorer: the scorer whose requests are sent and whose log gets the answers.
            key: the API key of the service.
        """
        self.scorer = scorer
        self.options = scorer.options
        self.log = scorer.log
        self.key = key
        self.sends_extras = True
        """False once the service refuses a schema, or several answers."""
        self.length_name = LENGTHS[0]
        """The name for the most tokens that this service takes."""
        self.tops = scorer.options.top_logprobs
        """Number of first tokens that this service shows."""
        self.end: Failure | None = None
        """What ended the pass."""
        self.unanswered: Failure | None = None
        """The last prompt without an answer."""
        self.stopped = asyncio.Event()
        """Set when no further request is sent."""
        self.answered_at = 0.0
        """When the last answer came, in seconds of the monotonic clock."""
        # Prompts without an answer are written down once the service answers another: it may be broken for all.
        self.works = any(answer.withheld != UNANSWERED for answer in self.log.values())
        self.pending: list[tuple[Answer, Prompt]] = []
        self.invalid = 0
        """Number of prompts without an answer one after another, for reasons that may not be theirs."""

    def ask(self, groups: Groups, report: Progress, expected: int) -> None:
        """Send the first row of each key and log answers until these are useless.

        Args:
            groups: the rows of each answer key.
            report: called with the number of rows that an answer is for.
            expected: number of requests in all, with those that the log answers.

        Raises:
            ServiceUsageError: a wrong key or model.
            ServiceError: a request is refused or not answered.
        """
        from anyio.from_thread import start_blocking_portal  # of the openai client

        if not self.options.base_url and is_offline_mode():
            raise ValueError(
                "Hugging Face Inference Providers cannot be reached: HF_HUB_OFFLINE is set: unset it."
            )
        # A loop of its own, for a notebook runs one already.
        with silenced_clients(self.scorer.is_credentialed), start_blocking_portal() as portal:
            portal.call(self.run, groups, report, expected)
        # Raised here, so that no error of the client, and no header, hangs on it.
        if self.end is not None:
            raise service_error(self.end, self.scorer)

    async def run(self, groups: Groups, report: Progress, expected: int) -> None:
        """Ask for all, as many at once as the options allow.

        Args:
            groups: the rows of each answer key.
            report: called with the number of rows that an answer is for.
            expected: number of requests in all, with those that the log answers.
        """
        options = self.options
        free = asyncio.Semaphore(options.concurrency)
        hooks: Any = {"request": [self.before], "response": [self.after]}
        session = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=not options.declared,
            timeout=options.timeout,
            event_hooks=hooks,
        )

        async def ask_for(key: str, prompt: Prompt) -> None:
            async with free:
                trials = {key: prompt, **self.later_trials(prompt, groups)}
                write(self.settled(await self.answers(trials)))
                if self.scorer.why_useless(expected):
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
            await asyncio.gather(*(ask_for(key, rows[0]) for key, rows in groups.items()))
        if self.end is not None:
            return
        if self.works:
            write(self.pending)
        elif self.pending:
            self.end = self.unanswered

    def settled(self, answers: list[tuple[Answer, Prompt]]) -> list[tuple[Answer, Prompt]]:
        """Return what is to be written down now.

        Args:
            answers: the answers of one request, each with its prompt.

        Returns:
            Answers and prompts; a prompt without an answer waits until the service answers another.
        """
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
        """Return answers to a prompt and its later trials.

        Args:
            trials: prompts by answer key, the trials of one request.

        Returns:
            Answers and prompts, at least to the first trial; none once the pass is stopped.
        """
        begun = time.monotonic()
        rounds = 0
        prompt = next(iter(trials.values()))
        while not self.stopped.is_set():
            body = self.body(trials)
            rounds += 1
            try:
                response = await self.client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=body
                )
                return list(self.answers_in(response.extensions["reply"], trials))
            except Exception as error:  # noqa: BLE001 - whatever a reply does, answers that are paid for stay
                trouble = trouble_of(error, self.key, may_quote=not self.scorer.is_credentialed)
            failure = Failure(trouble, prompt, rounds * self.options.attempts)
            if trouble.withheld == UNANSWERED:
                self.unanswered = failure
            withheld = trouble.withheld
            if not withheld and not self._adapt_request(trouble, body):
                if self._is_of_one_prompt(trouble, body):
                    self.invalid += 1
                    self.unanswered = self.unanswered or failure
                    withheld = UNANSWERED
                elif not self._is_waited_out(trouble, begun):
                    self.end = self.end or failure
                    self.stopped.set()
            if withheld:
                trouble = replace(trouble, withheld=withheld)
                return [
                    (self.withheld_answer(trouble, key, row), row) for key, row in trials.items()
                ]
        return []

    def _adapt_request(self, trouble: RequestTrouble, body: Mapping[str, Any]) -> bool:
        """Return whether the next request is another one, without a setting that the service has refused."""
        fewer = fewer_tops(trouble, body) if self.options.log_odds else 0
        if fewer:
            self.tops = min(self.tops, fewer)
            return True
        if trouble.status not in INVALID:
            return False
        if LENGTHS[0] in body and trouble.param == LENGTHS[0]:
            self.length_name = LENGTHS[1]
            return True
        if body.keys() & {"response_format", "n"}:  # not every service knows them
            self.sends_extras = False
            return True
        return False

    def _is_of_one_prompt(self, trouble: RequestTrouble, body: Mapping[str, Any]) -> bool:
        """Return whether other prompts may be answered: not after several, nor where a setting is refused."""
        most = answering.FIRST_ANSWERS if self.works else 1
        if trouble.is_spent or self.invalid >= most:
            return False
        sent = {*body, *LENGTHS} - {"messages", "model", "n"}
        is_setting = bool(sent & {trouble.param, *re.findall(r"\w+", trouble.words)})
        if trouble.status in INVALID_TEXTS and not is_setting:
            return True
        if not self.works or not trouble.is_reply or trouble.status == LIMITED:
            return False
        return trouble.passes or trouble.status == FORBIDDEN

    def _is_waited_out(self, trouble: RequestTrouble, begun: float) -> bool:
        """Return whether a limited rate is still waited out; a spent quota is not."""
        is_limited = trouble.status == LIMITED and not trouble.is_spent
        return is_limited and time.monotonic() - max(begun, self.answered_at) < PATIENCE

    def answers_in(
        self, reply: Mapping[str, Any], trials: Trials
    ) -> Iterator[tuple[Answer, Prompt]]:
        """Yield the answers of one reply; where there are fewer than trials, the others are requested in their turn.

        Args:
            reply: the reply that ``error_in`` found no error in.
            trials: prompts by answer key, the trials of the request.

        Yields:
            Each answer with its prompt.
        """
        usage = [reply.get("usage"), *[None] * len(trials)]  # a request is counted once
        model = without_key(answer_log.other_model(reply, self.scorer.model_id), self.key)
        answered = zip(reply["choices"], trials.items(), usage, strict=False)
        for choice, (key, prompt), used in answered:
            if error_of_choice(choice) is None:
                yield replace(self.answer_in(choice, key, prompt, used), model=model), prompt

    def body(self, trials: Trials) -> dict[str, Any]:
        """Return the JSON that is sent for a prompt and its later trials.

        Args:
            trials: prompts by answer key, the trials of one request.

        Returns:
            Settings by the names of the OpenAI API.
        """
        options = self.options
        name = self.scorer.model_id
        if options.provider not in (None, "auto"):
            name = f"{name}:{options.provider}"
        prompt = next(iter(trials.values()))
        body: dict[str, Any] = {"model": name, "messages": chats.turns(prompt.text)}
        if options.log_odds:
            body[self.length_name] = 1
            body["temperature"] = 1.0  # plain, where the temperature acts on log-probabilities
            body["logprobs"] = True
            body["top_logprobs"] = self.tops
            return body
        body[self.length_name] = options.max_tokens
        body["temperature"] = options.temperature
        if not options.no_seed:
            body["seed"] = options.seed + answer_log.trial_of(prompt.prompt_id)
        if not self.sends_extras:
            return body
        if len(trials) > 1:
            body["n"] = len(trials)
        if self.scorer.fields is not None and options.json_schema:
            body["response_format"] = response_format(self.scorer.fields(prompt))
        return body

    def answer_in(self, choice: Mapping[str, Any], key: str, prompt: Prompt, usage: Any) -> Answer:
        """Return the answer of a choice.

        Args:
            choice: the choice that ``error_of_choice`` found no error in.
            key: the answer key of the request.
            prompt: the prompt of the request.
            usage: the usage as the reply has it.

        Returns:
            An answer, or the words of a refusal.
        """
        refusal = refusal_in(choice)
        reason = ""
        if refusal is None:
            text = text_of(choice["message"].get("content")) or ""
            reason = why_blank(choice["message"])
            # Tokens of a model that thinks first are not those of an answer.
            is_answer = self.options.log_odds and reason != REASONING
            tokens = first_tokens(choice) if is_answer else ()
            withheld = ""
        else:
            tokens = ()
            text = refusal
            withheld = answer_log.REFUSED
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=without_key(text, self.key),
            finish_reason=without_key(ending_of(choice), self.key)[:MAX_REASON],
            usage=token_counts_in(usage),
            time=_utc_now(),
            withheld=withheld,
            reason=reason,
            logprobs=tuple((without_key(token, self.key), log) for token, log in tokens),
        )

    def withheld_answer(self, trouble: RequestTrouble, key: str, prompt: Prompt) -> Answer:
        """Return what stands in the log for a prompt that gets no answer, so that it is not asked again.

        Args:
            trouble: why there is none.
            key: the answer key of the request.
            prompt: the prompt of the request.

        Returns:
            An answer without text.
        """
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer="",
            time=_utc_now(),
            withheld=trouble.withheld,
            reason=trouble.words,
        )

    def later_trials(self, prompt: Prompt, pending: Groups) -> Trials:
        """Return the trials after that of a prompt which its request may answer too.

        Args:
            prompt: the prompt of the first trial.
            pending: requests of their own.

        Returns:
            Prompts by key, without those that the log answers or another request asks for.
        """
        trial = answer_log.trial_of(prompt.prompt_id)
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
        """Take off, before each attempt, all headers but ours.

        Args:
            request: the request of the client, which is changed.
        """
        for header in set(request.headers) - HEADERS:
            del request.headers[header]
        request.headers["Authorization"] = f"Bearer {self.key}"

    async def after(self, response: httpx2.Response) -> None:
        """Give, after each attempt, an error in place of an answer a status, by which the client tries again.

        Args:
            response: the response of the service, which is changed.
        """
        await response.aread()
        try:
            reply = json.loads(response.content)
        except (ValueError, RecursionError):
            reply = None
        response.extensions["reply"] = reply
        if response.status_code < 300:
            error = error_in(reply)
            if error is None:
                self.answered_at = time.monotonic()
            else:
                status = status_in(error)
                response.status_code = status or BROKEN
                response.extensions |= {"error": error, "status": status}
        if self.stopped.is_set() or self.is_final(response):
            response.headers["x-should-retry"] = "false"

    def is_final(self, response: httpx2.Response) -> bool:
        """Return whether no retry helps.

        Args:
            response: the response as ``after`` has changed it.

        Returns:
            True where the text is refused, or the quota is spent.
        """
        if response.status_code < 300:
            return False
        error = response.extensions.get("error", response.extensions["reply"])
        status = response.extensions.get("status", response.status_code)
        return bool(about_prompt(error, status)) or is_spent_quota(error, status)


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
