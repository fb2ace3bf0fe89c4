"""Chat models behind an OpenAI-compatible service: each prompt is a conversation, each answer is logged."""

import hashlib
import json
import math
import sys
from abc import abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.models.base import Progress, Scored, Scorer
from swapbias.models.chat.answer_log import (
    ANSWERS,
    USAGE,
    Answer,
    AnswerLog,
    Read,
    as_scored,
    refuse_cut_off,
    trial_of,
    unread,
)
from swapbias.models.chat.chat_options import COMPLETIONS, LOG_ODDS, ChatOptions, api_key, check_client, settings
from swapbias.models.chat.log_odds import Logs, orders, shown_logs
from swapbias.studies import Prompt

CHARACTERS_PER_TOKEN = 4  # of English text, for the estimate alone: each service counts in its own way
Groups = Mapping[str, Sequence[Prompt]]  # the rows of each answer key, in order


def answer_key(prompt: Prompt, *, model: str, options: ChatOptions) -> str:
    """sha256 of everything that decides an answer: model, service, text, temperature, seed, length and trial.

    Rows of one trial with the same text share a key, and so an answer.
    """
    service = [
        model,
        options.host,
        options.provider or "",
        *([COMPLETIONS] if options.endpoint == COMPLETIONS else ()),
        *(["json_schema"] if options.json_schema else ()),
        *([options.answers_per_request] if options.answers_per_request > 1 else ()),
    ]
    sampling = [float(options.temperature), options.seed, options.max_tokens, trial_of(prompt.prompt_id)]
    how = [LOG_ODDS, options.top_logprobs] if options.log_odds else sampling
    return hashlib.sha256(json.dumps([*service, prompt.text, *how]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """What asking takes: requests to send, those answered already, prompt and output tokens.

    Prompt tokens are estimated by characters, output tokens are the most. ``cost`` is in currency units, NaN without
    prices.
    """

    requests: int
    answered: int
    prompt_tokens: int
    output_tokens: int
    cost: float

    def sentence(self) -> str:
        """The plan in words."""
        words = f"{self.requests:,} requests to send, {self.answered:,} answered already: about "
        words += f"{self.prompt_tokens:,} prompt tokens (characters / {CHARACTERS_PER_TOKEN}) and at most "
        words += f"{self.output_tokens:,} output tokens"
        return f"{words}." if math.isnan(self.cost) else f"{words}, together at most about {self.cost:,.2f}."


class AnsweringScorer(Scorer):
    """Score: what ``read`` makes of the answer; NaN where it makes nothing of it. ``answer`` is the raw text.

    Rows of one trial with the same text share one answer. Answers in its log are not requested again, and every
    answer is in it as soon as it arrives.
    """

    kind = "chat"
    unit = "answer"

    def __init__(self, model_id: str, options: ChatOptions | None, read: Read) -> None:
        """With a log in memory."""
        self.model_id, self.options, self.read = model_id, options or ChatOptions(), read
        self.log, self.is_credentialed = AnswerLog(), False
        self.logs: dict[Path, AnswerLog] = {}  # shared by copies that read other experiments: no request is repeated

    def keep_answers(self, folder: Path, *, text: bool = True) -> None:
        """From now on in a run's folder; without their ``text`` their scores are stored in its place."""
        self.is_credentialed, path = not text, folder / ANSWERS
        if path not in self.logs:
            self.logs[path] = AnswerLog(path)
        self.log = self.logs[path]

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt, in order.

        Raises:
            UsageError: answers that are cut off before any text; of a service: no or a wrong key, an unknown model,
                more requests than ``max_requests``.
            ValueError: a service refuses a request, or does not answer one in all attempts.
        """
        keys = self._answered(prompts, on_progress)
        return [self._scored(prompt, key) for prompt, key in zip(prompts, keys, strict=True)]

    def _answered(self, prompts: Sequence[Prompt], on_progress: Progress | None) -> list[str]:
        """The keys of the prompts, once the log has their answers."""
        groups, report = self._groups(prompts), on_progress or (lambda done: None)
        missing = {key: rows for key, rows in groups.items() if key not in self.log}
        self.log.read = self.read if self.is_credentialed else None
        if len(missing) < len(groups):
            report(len(prompts) - sum(map(len, missing.values())))
        self._ask(missing, report, len(groups))
        return self._keys(prompts)

    def estimate(self, prompts: Sequence[Prompt], known: Container[str] | None = None) -> ChatPlan:
        """What asking takes; ``known`` are keys with answers, those of the log where None."""
        options, known = self.options, self.log if known is None else known
        if options.log_odds:
            prompts = [one.prompt for prompt in prompts for one in orders(prompt)]
        groups = self._groups(prompts)
        texts = [rows[0].text for key, rows in groups.items() if key not in known]
        tokens_in = sum(math.ceil(len(text) / CHARACTERS_PER_TOKEN) for text in texts)
        tokens_out = (1 if options.log_odds else options.max_tokens) * len(texts)
        cost = options.cost(tokens_in, tokens_out)
        return ChatPlan(len(texts), len(groups) - len(texts), tokens_in, tokens_out, cost)

    def _spent(self) -> tuple[float, float]:
        """Tokens of all answers as the service counted them, and currency units; NaN where they are not known."""
        counted = [answer.usage for answer in self.log.known.values() if answer.usage]
        if not counted:
            return math.nan, math.nan
        total = {name: sum(usage.get(name, 0) for usage in counted) for name in USAGE}
        return float(total["total_tokens"]), self.options.cost(total["prompt_tokens"], total["completion_tokens"])

    def spent(self, left: Sequence[Prompt]) -> str:
        """Requests, tokens as they were counted and their price; what is to come as the answers so far were."""
        tokens, cost = self._spent()
        words = f"{len(self.log):,} requests so far, {_tokens(tokens, cost)}"
        needed = self.estimate(left).requests
        if not needed or not len(self.log):
            return f"{words}."
        share = needed / len(self.log)
        return f"{words}; {needed:,} to come, about {_tokens(tokens * share, cost * share)}."

    def _keys(self, prompts: Sequence[Prompt]) -> list[str]:
        return [answer_key(prompt, model=self.model_id, options=self.options) for prompt in prompts]

    def _groups(self, prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
        groups: dict[str, list[Prompt]] = {}
        for key, prompt in zip(self._keys(prompts), prompts, strict=True):
            groups.setdefault(key, []).append(prompt)
        return groups

    @property
    def cut_note(self) -> str:
        """Of all answers of its log."""
        cut, every = sum(answer.truncated for answer in self.log.known.values()), len(self.log)
        if not cut:
            return ""
        return (
            f"{self.model_id}: {cut:,} of {every:,} answers ({100 * cut / every:.1f} %) were cut off at "
            f"{self.options.max_tokens} tokens and are read as far as they go."
        )

    @abstractmethod
    def _ask(self, missing: Groups, report: Progress, expected: int) -> None:
        """Put the answers to these requests into the log, of ``expected`` in all."""

    def _scored(self, prompt: Prompt, key: str) -> Scored:
        answer = self.log.known.get(key)
        if answer is not None:
            return as_scored(prompt, answer, self.read)
        nothing = as_scored(prompt, Answer(key=key, prompt_id=prompt.prompt_id, answer=""), self.read)
        return Scored(math.nan, parts=dict.fromkeys(nothing.parts, math.nan))


def _tokens(tokens: float, cost: float) -> str:
    words = "tokens not counted" if math.isnan(tokens) else f"{tokens:,.0f} tokens"
    return words if math.isnan(cost) else f"{words}, {cost:,.2f}"


class ChatScorer(AnsweringScorer):
    """An ``AnsweringScorer`` of a model behind a service, by the name that the service knows."""

    chunk_rows = sys.maxsize

    def __init__(self, model: str, options: ChatOptions | None = None, *, read: Read = unread) -> None:
        """``read``: prompt and raw answer -> score and further score columns."""
        super().__init__(model, options, read)
        self.closed, self.sent = False, 0  # closed: prompts have options, which a JSON schema may name
        self.sends_text = not self.options.declared
        service = {"host": self.options.host, "provider": self.options.provider or ""}
        self.identity: Mapping[str, Any] = {"kind": self.kind, **service, **settings(self.options)}

    def beyond_limits(self, prompts: Sequence[Prompt]) -> str:
        """By ``max_requests`` and ``max_cost``, with what is answered already."""
        options, needed, answered = self.options, self.estimate(prompts), len(self.log)
        if not needed.requests:
            return ""
        if options.max_requests is not None and answered + needed.requests > options.max_requests:
            return f"-M max-requests allows {options.max_requests:,}"
        _, so_far = self._spent()
        each = so_far / answered if so_far > 0 else needed.cost / needed.requests  # measured, or at most
        if options.max_cost is not None and each * (answered + needed.requests) > options.max_cost:
            return f"--max-cost allows {options.max_cost:,.2f}"
        return ""

    def option_logs(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Logs | None]:
        """Of each prompt the log-probabilities of its options, by the likeliest first tokens of an answer.

        Raises:
            UsageError: the service gives no log-probabilities, as the first request shows; and as ``score``.
            ValueError: as ``score``.
        """
        keys = self._answered(prompts, on_progress)
        answers = [self.log.known[key] for key in keys]
        return [shown_logs(prompt, one.logprobs) for prompt, one in zip(prompts, answers, strict=True)]

    def _ask(self, missing: Groups, report: Progress, expected: int) -> None:
        if self.options.log_odds:
            self._refuse_many(len(missing))
            first = dict(list(missing.items())[:1])  # alone, for a service may give no log-probabilities
            for part in (first, {key: rows for key, rows in missing.items() if key not in first}):
                self._refuse_without_logs()
                self._send(part, report)
            return self._refuse_without_logs()
        refuse_cut_off(self.log, expected, self.options.max_tokens)  # known answers: of a run that is resumed
        self._send(missing, report)
        refuse_cut_off(self.log, expected, self.options.max_tokens)

    def _refuse_without_logs(self) -> None:
        """Stop where an answer of the log has no probabilities: further ones would be paid for nothing."""
        if any(not one.logprobs for one in self.log.known.values()):
            service = self.options.host or self.options.provider or "Hugging Face Inference Providers"
            raise UsageError(
                f"{service} answers as {self.model_id!r} without log-probabilities, which -M scoring=log-odds needs. "
                "Start a new run with -M scoring=sampled, or name a service that gives them (logprobs, top_logprobs)."
            )

    def _send(self, missing: Groups, report: Progress) -> None:
        if not missing:
            return
        check_client()
        from swapbias.models.chat.openai_client import Asking  # loads when it is needed

        self._refuse_many(len(missing))
        key, before = api_key(self.options), len(self.log)
        try:
            asking = Asking(self.model_id, self.options, key, self.log, closed=self.closed, later=self._later)
            asking.ask(missing, report)
        finally:
            self.sent += len(self.log) - before

    def _later(self, prompt: Prompt) -> dict[str, Prompt]:
        """The keys of trials after that of a prompt which one request may answer as well."""
        trial, several = trial_of(prompt.prompt_id), self.options.answers_per_request
        name = prompt.prompt_id.removesuffix(f"/t{trial}")
        last = min(trial + several - 1 - (trial - 1) % several, self.options.trials)
        prompts = [replace(prompt, prompt_id=f"{name}/t{later}") for later in range(trial + 1, last + 1)]
        return {key: rows[0] for key, rows in self._groups(prompts).items() if key not in self.log}

    def _refuse_many(self, needed: int) -> None:
        most = self.options.max_requests
        if most is not None and self.sent + needed > most:
            before = f" after {self.sent:,} sent" if self.sent else ""
            raise UsageError(
                f"{needed:,} requests are needed{before}, and -M max-requests allows {most:,}. Raise it, or take "
                "fewer prompts or trials."
            )
