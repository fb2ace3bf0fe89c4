"""Chat models behind an OpenAI-compatible service: their answers, limits and what log-odds lack."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from swapbias.models.chat import answering
from swapbias.models.chat.answer_log import Answer
from swapbias.models.chat.answering import AnsweringScorer, Groups, by_shared_beginnings
from swapbias.models.chat.blank_answers import REASONING
from swapbias.models.chat.chat_options import ChatOptions, api_key, settings
from swapbias.models.chat.log_odds import overfull
from swapbias.models.chat.request_pass import RequestPass
from swapbias.models.progress import Progress
from swapbias.studies import Prompt

_MOST_MODELS = 3  # that a note names


def _is_overfull(answer: Answer) -> bool:
    return overfull(answer.logprobs)


class ChatScorer(AnsweringScorer):
    """An ``AnsweringScorer`` of a model behind a service, by the name that the service knows."""

    chunk_rows = sys.maxsize

    def __init__(self, model: str, options: ChatOptions | None = None) -> None:
        """Make a scorer that has sent nothing yet.

        Args:
            model: the name that the service knows.
            options: how requests are made; None: the defaults.
        """
        super().__init__(model, options)
        self.sends_text = not self.options.declared
        self.opaque = True
        service = {"host": self.options.host, "provider": self.options.provider or ""}
        self.identity: Mapping[str, Any] = {"kind": self.kind, **service, **settings(self.options)}

    def beyond_limits(self, prompts: Sequence[Prompt]) -> str:
        """Return why requests for these prompts would exceed a limit.

        Args:
            prompts: rows to score.

        Returns:
            A clause that names the option; blank if no limit is exceeded.
        """
        options = self.options
        answered = len(self.log)
        sizes = [size for key, size in self.requests(prompts).items() if key not in self.log]
        if not sizes:
            return ""
        total = answered + len(sizes)
        if options.max_requests is not None and total > options.max_requests:
            return f"-M max-requests allows {options.max_requests:,}"
        if options.max_cost is None:
            return ""
        _, spent = self.usage_so_far()
        if spent > 0:  # as the service counted
            cost_of_each = spent / answered
        else:  # at most
            prompt_tokens, output_tokens = map(sum, zip(*sizes, strict=True))
            cost_of_each = options.cost(prompt_tokens, output_tokens) / len(sizes)
        if cost_of_each * total > options.max_cost:
            return f"--max-cost allows {options.max_cost:,.2f}"
        return ""

    def why_useless(self, expected: int) -> str:
        """Say why the first answers are useless, so that further ones would be too.

        For log-odds one answer without log-probabilities is enough where none has any, else half of the first ones.

        Args:
            expected: number of requests in all.

        Returns:
            A sentence with advice; blank where requests can continue.
        """
        if not self.options.log_odds:
            return super().why_useless(expected)
        answers = (answer for answer in self.log.values() if not answer.withheld)
        first = list(islice(answers, answering.FIRST_ANSWERS))
        service = self.options.service
        with_logs = sum(bool(answer.logprobs) for answer in first)
        # Of a blank answer none is due; those of a model that thinks first are of its thoughts.
        without_logs = sum(
            not answer.logprobs and (bool(answer.answer) or answer.reason == REASONING)
            for answer in first
        )
        if without_logs and (not with_logs or 2 * without_logs > answering.FIRST_ANSWERS):
            return (
                f"{service} answers as {self.model_id!r} without log-probabilities, which -M scoring=log-odds needs. "
                "Start a new run with -M scoring=sampled."
            )
        is_enough = len(first) >= min(answering.FIRST_ANSWERS, expected)
        if is_enough and 2 * sum(map(_is_overfull, first)) > len(first):
            return (
                f"The first tokens that {service} shows come to a probability of more than 1, "
                "so they are no log-probabilities. Start a new run with -M scoring=sampled."
            )
        return ""

    @property
    def notes(self) -> Mapping[str, str]:
        """Sentences on the answers so far, with what log-odds lack."""
        notes = super().notes
        sentences = [notes.get("withheld", ""), *self._model_notes(), *self._token_notes()]
        withheld = " ".join(filter(None, sentences))
        return {**notes, "withheld": withheld} if withheld else notes

    def _model_notes(self) -> Iterator[str]:
        """Yield a sentence for each other model that the service says has answered."""
        models = Counter(answer.model for answer in self.log.values() if answer.model)
        for model, count in models.most_common(_MOST_MODELS):
            yield (
                f"The service of {self.model_id} says that {model} gave {count:,} of {len(self.log):,} answers."
            )

    def _token_notes(self) -> Iterator[str]:
        """Yield sentences on what log-odds lack because of what the service shows."""
        answers = [answer for answer in self.log.values() if answer.logprobs]
        overfull_count = sum(map(_is_overfull, answers))
        if overfull_count:
            yield (
                f"{overfull_count:,} of {len(answers):,} answers of {self.model_id} have no score: their first "
                "tokens come to a probability of more than 1."
            )
        tops = self.options.top_logprobs
        most = max((len(answer.logprobs) for answer in answers), default=tops)
        if most < tops:
            tokens = "token" if most == 1 else "tokens"
            yield (
                f"The service of {self.model_id} shows {most:,} first {tokens} at most, and {tops:,} were asked for."
            )

    def _request_answers(self, missing: Groups, report: Progress, expected: int) -> None:
        requests = by_shared_beginnings(missing)
        RequestPass(self, api_key(self.options)).ask(requests, report, expected)
