"""Score prompts by the answers of a chat model, which are requested once and saved."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

from swapbias.errors import UsageError
from swapbias.models.chat.answer_log import (
    ANSWERS,
    REFUSED,
    UNANSWERED,
    USAGE,
    Answer,
    AnswerLog,
    as_scored,
    trial_of,
    without_text,
)
from swapbias.models.chat.chat_options import LOG_ODDS, ChatOptions, settings
from swapbias.models.chat.log_odds import Logs, names_of, orders, score_options
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, Scorer
from swapbias.studies import Prompt, answer_scores

# The fields of a JSON answer to a prompt, each with its schema.
Fields = Callable[[Prompt], Mapping[str, Any]]
Groups = Mapping[str, Sequence[Prompt]]  # the rows of each answer key, in order
FIRST_ANSWERS = 10  # are enough to see that the others would be cut off as well
# Of English text, for the estimate alone: each service counts in its own way.
CHARACTERS_PER_TOKEN = 4


def unread(prompt: Prompt, text: str, *, cut: bool = False) -> tuple[float, Mapping[str, float]]:
    """Read nothing of an answer.

    Args:
        prompt: of the answer.
        text: of the answer.
        cut: whether it reached the most tokens.

    Returns:
        NaN, and no parts.
    """
    return math.nan, {}


def response_format(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting that binds an answer to these fields, each with its schema.

    Args:
        fields: by name the schema of each.
    """
    schema = {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": schema},
    }


def option_fields(prompt: Prompt) -> Mapping[str, Any]:
    """Return the fields of a JSON answer to a closed question.

    Args:
        prompt: with the options as candidates.

    Returns:
        One field, which names an option, with its schema.
    """
    return {"answer": {"type": "string", "enum": names_of(prompt)}}


def answer_key(prompt: Prompt, *, model: str, options: ChatOptions) -> str:
    """Return a hash of all that decides an answer; rows of one trial with the same text share one, and so an answer.

    Args:
        prompt: a row.
        model: the name of the model, with its pin where it runs here.
        options: of the request.

    Returns:
        A sha256 in hex.
    """
    parts: list[Any] = [model, options.host, options.provider or ""]
    if options.json_schema:
        parts.append("json_schema")
    if options.answers_per_request > 1:
        parts.append(options.answers_per_request)
    parts.append(prompt.text)
    if options.log_odds:
        parts += [LOG_ODDS, options.top_logprobs]
    else:
        trial = trial_of(prompt.prompt_id)
        parts += [float(options.temperature), options.seed, options.max_tokens, trial]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class AnsweringScorer(Scorer):
    """Score: what ``read`` makes of the answer, else NaN; rows of one trial with the same text share one answer."""

    kind = "chat"
    unit = "answer"

    def __init__(self, model_id: str, options: ChatOptions | None) -> None:
        """Make a scorer that reads nothing of the answers yet; ``reading_with`` returns others.

        Args:
            model_id: the name of the model in findings.
            options: of the requests; None: the defaults.
        """
        self.model_id = model_id
        self.options = options or ChatOptions()
        self.read: answer_scores.AnswerReader = unread
        self.fields: Fields | None = None
        """The fields of answers that a JSON schema may bind; None: answers are free."""
        self.is_credentialed = False
        """Whether texts are credentialed, so that no answer is saved."""
        self.identity: Mapping[str, Any] = {"kind": self.kind}
        self.log = AnswerLog()
        # Shared by copies that read other experiments: no request is repeated.
        self._open_logs: dict[Path, AnswerLog] = {}

    def reading_with(
        self,
        read: answer_scores.AnswerReader,
        *,
        unit: str | None = None,
        fields: Fields | None = None,
        max_tokens: int | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the scorer of the same model that reads its answers so; both have the same answers.

        Args:
            read: gives the score of an answer and further score columns.
            unit: of the score; None: that of this scorer.
            fields: of answers that a JSON schema may bind; None: they are free.
            max_tokens: most tokens of an answer; None: as many as now.
            identity: added to what pins the model down.
        """
        options = self.options
        changed: Mapping[str, Any] = {}
        if max_tokens is not None and max_tokens != options.max_tokens:
            options = replace(options, max_tokens=max_tokens)
            changed = settings(options)
        return self._changed(
            read=read,
            unit=unit or self.unit,
            fields=fields,
            options=options,
            identity={**self.identity, **changed, **(identity or {})},
        )

    def reading_notes(self) -> Self:
        """Return the scorer that saves no answer, for texts that may be a patient's."""
        return self._changed(is_credentialed=True)

    def keeping_answers(self, folder: Path, *, text: bool = True) -> Self:
        """Return the scorer that saves each answer in a run's folder as it arrives.

        Args:
            folder: of the run; answers that it has already are not requested again.
            text: False of credentialed texts: only what was read from an answer is saved.

        Returns:
            A scorer of the same model.
        """
        path = folder / ANSWERS
        if path not in self._open_logs:
            self._open_logs[path] = AnswerLog(path)
        return self._changed(is_credentialed=not text, log=self._open_logs[path])

    def keep(self, answer: Answer, prompt: Prompt) -> None:
        """Put an answer into the log; of credentialed texts what was read from it instead.

        Args:
            answer: as it came.
            prompt: of the answer.
        """
        if self.is_credentialed:
            answer = without_text(prompt, answer, self.read)
        self.log.add(answer)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by their answers, which are requested where the log has none.

        Args:
            prompts: rows of any trials.
            on_progress: called with the number of further prompts that are done.

        Returns:
            One Scored per prompt, in order.

        Raises:
            UsageError: answers are ``useless``, a wrong key, an unknown model.
            ValueError: a request is refused or fails.
        """
        if self.options.log_odds:
            return score_options(self.option_logs, prompts, on_progress)
        keys = self._ensure_answers(prompts, on_progress)
        return [self._score_answer(prompt, key) for prompt, key in zip(prompts, keys, strict=True)]

    def _ensure_answers(self, prompts: Sequence[Prompt], report: Progress) -> list[str]:
        """Return the keys of the prompts, once the log has the answers."""
        groups = self._group_by_key(prompts)
        missing = {key: rows for key, rows in groups.items() if key not in self.log}
        report(len(prompts) - sum(map(len, missing.values())))
        self.refuse_useless(len(groups))  # of a run that is resumed
        if missing:
            self._request_answers(missing, report, len(groups))
            self.refuse_useless(len(groups))
        return self._answer_keys(prompts)

    def option_logs(
        self, prompts: Sequence[Prompt], on_progress: Progress = silent
    ) -> list[Logs | None]:
        """Return log-probabilities of each prompt's options, in nats, and the probability not shown.

        Args:
            prompts: with candidates.
            on_progress: called with the number of further prompts that are done.

        Returns:
            One per prompt; None: not known.
        """
        return [None] * len(prompts)

    def _request_answers(self, missing: Groups, report: Progress, expected: int) -> None:
        """Put the answers to these requests, of ``expected`` in all, into the log: here none."""
        report(sum(map(len, missing.values())))

    def requests(self, prompts: Sequence[Prompt]) -> dict[str, tuple[int, int]]:
        """Return the sizes of requests, about.

        Args:
            prompts: rows to score.

        Returns:
            Prompt tokens and most output tokens of the request for each answer key.
        """
        most = self.options.max_tokens
        if self.options.log_odds:
            prompts = [ordered for prompt in prompts for ordered, _ in orders(prompt)]
            most = 1
        sizes = {}
        for key, rows in self._group_by_key(prompts).items():
            tokens = math.ceil(len(rows[0].text) / CHARACTERS_PER_TOKEN)
            sizes[key] = (tokens, most)
        return sizes

    def counted(self) -> tuple[float, float]:
        """Return the tokens of all answers as the service counted them, and their cost.

        Returns:
            Tokens, and currency units; NaN where they are not known.
        """
        usages = [answer.usage for answer in self.log.values() if answer.usage]
        if not usages:
            return math.nan, self.options.cost(math.nan, math.nan)
        prompt_tokens, output_tokens, total = (
            sum(usage.get(name, 0) for usage in usages) for name in USAGE
        )
        return float(total), self.options.cost(prompt_tokens, output_tokens)

    @property
    def notes(self) -> Mapping[str, str]:
        """Sentences on the answers so far: ``spent``, ``truncated`` and ``withheld``."""
        cut = sum(answer.truncated for answer in self.log.values())
        count = len(self.log)
        notes = {"spent": f"{count:,} requests so far, {self._describe_spent()}."}
        if cut:
            percent = 100 * cut / max(count, 1)
            notes["truncated"] = (
                f"{self.model_id}: {cut:,} of {count:,} answers ({percent:.1f} %) were cut off at "
                f"{self.options.max_tokens} tokens; an option counts there only where it stands alone."
            )
        if self._count_withheld():
            notes["withheld"] = self._withheld_note()
        return notes

    def _describe_spent(self) -> str:
        """Return tokens and cost so far, and what of them is not known."""
        counted, cost = self.counted()
        uncounted = self._count_uncounted()
        if math.isnan(counted):
            tokens = "tokens not counted"
        elif uncounted:
            tokens = (
                f"{counted:,.0f} tokens without {uncounted:,} answers whose tokens are not counted"
            )
        else:
            tokens = f"{counted:,.0f} tokens"
        if self.options.local:
            return tokens
        if self.options.price_in is None:
            return f"{tokens}, cost not known, for no prices are given"
        if math.isnan(cost):
            return f"{tokens}, cost not known"
        return f"{tokens}, {cost:,.2f}"

    def _count_uncounted(self) -> int:
        """Return the number of answers without a count of tokens; several of one request are counted together."""
        if self.options.answers_per_request > 1:
            return 0
        return sum(not answer.usage for answer in self.log.values() if not answer.withheld)

    def _count_withheld(self) -> Counter[str]:
        return Counter(answer.withheld for answer in self.log.values() if answer.withheld)

    def _withheld_note(self) -> str:
        """Return how many answers the service withholds; their reasons may repeat prompts and stay in the log."""
        counts = self._count_withheld()
        parts = []
        if counts[REFUSED]:
            parts.append(f"{counts[REFUSED]:,} refused")
        if counts[UNANSWERED]:
            parts.append(f"{counts[UNANSWERED]:,} not given")
        return (
            f"The service of {self.model_id} withheld {counts.total():,} of {len(self.log):,} answers "
            f"({', '.join(parts)}). The reasons are in {ANSWERS}."
        )

    def useless(self, expected: int) -> str:
        """Return why the first answers show that further ones would be paid for nothing.

        Args:
            expected: number of requests in all.

        Returns:
            A sentence with advice; blank: go on.
        """
        first = list(islice(self.log.values(), FIRST_ANSWERS))
        is_enough = len(first) >= min(FIRST_ANSWERS, expected)
        if not is_enough or 2 * sum(answer.blank for answer in first) <= len(first):
            return ""
        return (
            f"Most of the first answers were cut off at {self.options.max_tokens} tokens before they said anything. "
            "Start a new run with a larger -M max-tokens, such as 2048."
        )

    def refuse_useless(self, expected: int) -> None:
        """Stop a run whose further answers would be paid for nothing.

        Args:
            expected: number of requests in all.

        Raises:
            UsageError: answers are ``useless``.
        """
        reason = self.useless(expected)
        if reason:
            raise UsageError(reason)

    def _answer_keys(self, prompts: Sequence[Prompt]) -> list[str]:
        return [answer_key(prompt, model=self.model_id, options=self.options) for prompt in prompts]

    def _group_by_key(self, prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
        groups: dict[str, list[Prompt]] = {}
        for key, prompt in zip(self._answer_keys(prompts), prompts, strict=True):
            groups.setdefault(key, []).append(prompt)
        return groups

    def _score_answer(self, prompt: Prompt, key: str) -> Scored:
        if key in self.log:
            return as_scored(prompt, self.log[key], self.read)
        empty = Answer(key=key, prompt_id=prompt.prompt_id, answer="")
        parts = as_scored(prompt, empty, self.read).parts
        return Scored(math.nan, parts=dict.fromkeys(parts, math.nan))
