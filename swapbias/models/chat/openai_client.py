"""Chat models behind an OpenAI-compatible service: their answers, limits and what log-odds lack."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from swapbias.models.chat import answering
from swapbias.models.chat.answering import Answer, AnsweringScorer, Groups
from swapbias.models.chat.chat_options import ChatOptions, api_key, settings
from swapbias.models.chat.log_odds import Logs, overfull, shown_logs
from swapbias.models.chat.request_pass import RequestPass
from swapbias.models.progress import Progress, silent
from swapbias.studies import Prompt


def _is_overfull(answer: Answer) -> bool:
    return overfull(answer.logprobs)


class ChatScorer(AnsweringScorer):
    """An ``AnsweringScorer`` of a model behind a service, by the name that the service knows."""

    chunk_rows = sys.maxsize

    def __init__(self, model: str, options: ChatOptions | None = None) -> None:
        super().__init__(model, options)
        self.sends_text = not self.options.declared
        self.opaque = True
        service = {"host": self.options.host, "provider": self.options.provider or ""}
        self.identity: Mapping[str, Any] = {"kind": self.kind, **service, **settings(self.options)}

    def beyond_limits(self, prompts: Sequence[Prompt]) -> str:
        options = self.options
        answered = len(self.log)
        needed = [size for key, size in self.requests(prompts).items() if key not in self.log]
        if (
            needed
            and options.max_requests is not None
            and answered + len(needed) > options.max_requests
        ):
            return f"-M max-requests allows {options.max_requests:,}"
        if needed and options.max_cost is not None:
            so_far = self.counted()[1]
            most = options.cost(*map(sum, zip(*needed, strict=True))) / len(needed)
            each = so_far / answered if so_far > 0 else most  # as the service counted, or at most
            if each * (answered + len(needed)) > options.max_cost:
                return f"--max-cost allows {options.max_cost:,.2f}"
        return ""

    def option_logs(
        self, prompts: Sequence[Prompt], on_progress: Progress = silent
    ) -> list[Logs | None]:
        """By the likeliest first tokens of an answer; None where the service shows none, or no log-probabilities."""
        answers = [self.log[key] for key in self._answered(prompts, on_progress)]
        return [
            shown_logs(prompt, answer.logprobs) if answer.logprobs else None
            for prompt, answer in zip(prompts, answers, strict=True)
        ]

    def useless(self, expected: int) -> str:
        """Of log-odds, an answer without log-probabilities is enough where none has any, and half of the first."""
        if not self.options.log_odds:
            return super().useless(expected)
        answers = (answer for answer in self.log.values() if not answer.withheld)
        first = list(islice(answers, answering.FIRST_ANSWERS))
        service = self.options.service
        shown_count = sum(bool(answer.logprobs) for answer in first)
        lacking_count = sum(
            bool(answer.answer) and not answer.logprobs for answer in first
        )  # of a blank one none is due
        if lacking_count and (not shown_count or 2 * lacking_count > answering.FIRST_ANSWERS):
            lacking = f"{service} answers as {self.model_id!r} without log-probabilities"
            return f"{lacking}, which -M scoring=log-odds needs. Start a new run with -M scoring=sampled."
        if len(first) < min(answering.FIRST_ANSWERS, expected) or 2 * sum(
            map(_is_overfull, first)
        ) <= len(first):
            return ""
        claim = f"The first tokens that {service} shows come to a probability of more than 1"
        return (
            f"{claim}, so they are no log-probabilities. Start a new run with -M scoring=sampled."
        )

    @property
    def notes(self) -> Mapping[str, str]:
        notes = super().notes
        sentences = [notes.get("withheld", ""), *self._token_notes()]
        listed = " ".join(filter(None, sentences))
        return {**notes, "withheld": listed} if listed else notes

    def _token_notes(self) -> Iterator[str]:
        """Yield what log-odds lack because of what the service shows."""
        answers = [answer for answer in self.log.values() if answer.logprobs]
        overfull_count = sum(map(_is_overfull, answers))
        if overfull_count:
            share = f"{overfull_count:,} of {len(answers):,} answers of {self.model_id}"
            yield f"{share} have no score: their first tokens come to a probability of more than 1."
        most = max((len(answer.logprobs) for answer in answers), default=self.options.top_logprobs)
        if most < self.options.top_logprobs:
            limits = (
                f"{most:,} first tokens at most, and {self.options.top_logprobs:,} were asked for"
            )
            yield f"The service of {self.model_id} shows {limits}."

    def _ask(self, missing: Groups, report: Progress, expected: int) -> None:
        RequestPass(self, api_key(self.options)).ask(missing, report, expected)
