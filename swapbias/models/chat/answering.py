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
from swapbias.models.chat.blank_answers import describe_blank, why_unsaid
from swapbias.models.chat.chat_options import LOG_ODDS, ChatOptions, settings
from swapbias.models.chat.log_odds import (
    OptionLogProbs,
    ScoreOrders,
    names_of,
    orders,
    score_mean_value,
    score_options,
    shown_log_probs,
)
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, Scorer
from swapbias.studies import Prompt, answer_scores

Fields = Callable[[Prompt], Mapping[str, Any]]
"""Returns the JSON schema of each field of the answer to a prompt."""
Groups = Mapping[str, Sequence[Prompt]]
"""The prompts of each answer key, in order."""
FIRST_ANSWERS = 10
"""Number of answers after which a run stops if most of them are useless: further ones would be as well."""
CHARACTERS_PER_TOKEN = 4
"""A rough mean of English text, only for the estimate of tokens: each service counts in its own way."""


def unread(prompt: Prompt, text: str, *, cut: bool = False) -> tuple[float, Mapping[str, float]]:
    """Parse nothing: the reader of a scorer that was given none.

    Args:
        prompt: the prompt that was answered.
        text: the answer as the model wrote it.
        cut: whether the answer was cut off at ``max_tokens``.

    Returns:
        NaN, and no further score columns.
    """
    return math.nan, {}


def response_format(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request setting that makes a service answer in JSON with these fields.

    Args:
        fields: JSON schema of each field by its name.
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
    """Return the field of a JSON answer to a closed question.

    Args:
        prompt: a prompt whose candidates are the options.

    Returns:
        The schema of one field, whose value is the name of an option.
    """
    return {"answer": {"type": "string", "enum": names_of(prompt)}}


def answer_key(prompt: Prompt, *, model: str, options: ChatOptions) -> str:
    """Return a hash of everything that decides an answer.

    Prompts of one trial with the same text have one key, and so share one answer.

    Args:
        prompt: the prompt to answer.
        model: name of the model, with its revision or a hash of its weights where it runs on this machine.
        options: settings of the request.

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


def by_shared_beginnings(groups: Groups) -> dict[str, Sequence[Prompt]]:
    """Return requests in an order in which those that begin alike follow one another, each trial after the last.

    A service that keeps what it has read of a prompt (prefix cache) then reads what they share once.

    Args:
        groups: the prompts of each answer key.
    """

    def place(group: tuple[str, Sequence[Prompt]]) -> tuple[int, str]:
        first = group[1][0]
        return trial_of(first.prompt_id), first.text

    return dict(sorted(groups.items(), key=place))


class AnsweringScorer(Scorer):
    """Scores prompts by answers, which a reader parses; NaN without an answer. Subclasses request the answers."""

    kind = "chat"
    unit = "answer"

    def __init__(self, model_id: str, options: ChatOptions | None) -> None:
        """Make a scorer without a reader, whose scores are NaN; ``with_reader`` returns a copy with one.

        Args:
            model_id: name of the model in findings.
            options: settings of the requests; None: the defaults.
        """
        self.model_id = model_id
        self.options = options or ChatOptions()
        self.reader: answer_scores.AnswerReader = unread
        """Parses an answer: returns the score and further score columns."""
        self.score_orders: ScoreOrders = score_mean_value
        """Scores a prompt by the log-probabilities of its options."""
        self.fields: Fields | None = None
        """Fields of an answer in JSON; None: answers are free text."""
        self.length_setting = "-M max-tokens"
        """The setting that allows longer answers, in sentences."""
        self.is_credentialed = False
        """True: texts may be a patient's, so the text of no answer is saved."""
        self.identity: Mapping[str, Any] = {"kind": self.kind}
        self.log = AnswerLog()
        # Copies for other experiments share these logs: no request is repeated.
        self._open_logs: dict[Path, AnswerLog] = {}

    def with_reader(
        self,
        reader: answer_scores.AnswerReader,
        *,
        unit: str | None = None,
        fields: Fields | None = None,
        max_tokens: int | None = None,
        score_orders: ScoreOrders = score_mean_value,
        length_setting: str | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a copy of this scorer that parses answers with another reader; both share one log of answers.

        Args:
            reader: returns the score of an answer and further score columns.
            unit: unit of the score; None: that of this scorer.
            fields: returns the fields of an answer in JSON; None: answers are free text.
            max_tokens: most tokens of an answer; None: as in this scorer.
            score_orders: returns the score of a prompt whose options are scored by log-odds.
            length_setting: the setting that allows longer answers, in sentences; None: as in this scorer.
            identity: entries that are added to ``identity``.
        """
        options = self.options
        changed: Mapping[str, Any] = {}
        if max_tokens is not None and max_tokens != options.max_tokens:
            options = replace(options, max_tokens=max_tokens)
            changed = settings(options)
        return self._changed(
            reader=reader,
            score_orders=score_orders,
            unit=unit or self.unit,
            fields=fields,
            options=options,
            length_setting=length_setting or self.length_setting,
            identity={**self.identity, **changed, **(identity or {})},
        )

    def reading_notes(self) -> Self:
        """Return a copy for texts that may be a patient's: it saves the text of no answer."""
        return self._changed(is_credentialed=True)

    def keeping_answers(self, folder: Path, *, text: bool = True) -> Self:
        """Return a copy that saves each answer in a run's folder as it arrives.

        Args:
            folder: folder of the run; answers that are in it already are not requested again.
            text: False for credentialed texts: only the score and columns of an answer are saved, not its text.

        Returns:
            A scorer of the same model.
        """
        path = folder / ANSWERS
        if path not in self._open_logs:
            self._open_logs[path] = AnswerLog(path)
        return self._changed(is_credentialed=not text, log=self._open_logs[path])

    def keep(self, answer: Answer, prompt: Prompt) -> None:
        """Add an answer to the log; for credentialed texts without its text.

        Args:
            answer: the answer as it came.
            prompt: the prompt that it answers.
        """
        answer = replace(answer, reason=why_unsaid(answer))
        if self.is_credentialed:
            answer = without_text(prompt, answer, self.reader)
        self.log.add(answer)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by their answers, which are requested where the log has none.

        Args:
            prompts: rows of any trials.
            on_progress: called with the number of further prompts that are done.

        Returns:
            One Scored per prompt, in order.

        Raises:
            UsageError: Most of the first answers are useless (``why_useless``), or the key or the model is wrong.
            ValueError: A request is refused or fails.
        """
        if self.options.log_odds:
            return score_options(self.option_log_probs, self.score_orders, prompts, on_progress)
        keys = self._ensure_answers(prompts, on_progress)
        return [self._score_answer(prompt, key) for prompt, key in zip(prompts, keys, strict=True)]

    def scores_so_far(self, prompts: Sequence[Prompt]) -> list[Scored]:
        """Score prompts by the answers that the log has, and request none: NaN without an answer.

        Args:
            prompts: rows of any trials.
        """
        keys = self._answer_keys(prompts)
        return [self._score_answer(prompt, key) for prompt, key in zip(prompts, keys, strict=True)]

    def _ensure_answers(self, prompts: Sequence[Prompt], report: Progress) -> list[str]:
        """Request answers that the log lacks; return the answer key of each prompt."""
        groups = self._group_by_key(prompts)
        missing = {key: rows for key, rows in groups.items() if key not in self.log}
        report(len(prompts) - sum(map(len, missing.values())))
        self.refuse_useless_answers(len(groups))  # a resumed run has answers already
        if missing:
            self._request_answers(missing, report, len(groups))
            self.refuse_useless_answers(len(groups))
        return self._answer_keys(prompts)

    def option_log_probs(
        self, prompts: Sequence[Prompt], on_progress: Progress = silent
    ) -> list[OptionLogProbs | None]:
        """Return log-probabilities of options by the likeliest first tokens of an answer.

        Subclasses that read the model itself override this.

        Args:
            prompts: prompts with candidates.
            on_progress: called with the number of further prompts that are done.

        Returns:
            Log-probabilities in nats and the probability of tokens that are not shown, one pair for each prompt;
            None where there is no answer, or one without log-probabilities.
        """
        logs = []
        for prompt, key in zip(prompts, self._ensure_answers(prompts, on_progress), strict=True):
            tokens = self.log[key].logprobs if key in self.log else ()
            logs.append(shown_log_probs(prompt, tokens) if tokens else None)
        return logs

    def _request_answers(self, missing: Groups, report: Progress, expected: int) -> None:
        """Request missing answers and add them to the log; subclasses override this, here nothing is requested."""
        report(sum(map(len, missing.values())))

    def requests(self, prompts: Sequence[Prompt]) -> dict[str, tuple[int, int]]:
        """Estimate the sizes of requests.

        Args:
            prompts: prompts to score.

        Returns:
            By answer key the number of prompt tokens, about, and the most tokens of the answer.
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

    def usage_so_far(self) -> tuple[float, float]:
        """Return the tokens and the cost of all answers in the log.

        Returns:
            Tokens as the service counted them, and currency units; NaN where they are not known.
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
                f"{self.model_id}: {cut:,} of {count:,} answers ({percent:.1f} %) hit the limit of "
                f"{self.options.max_tokens} tokens. In them an option counts only if nothing else was written."
            )
        sentences = [self._withheld_note(), describe_blank(self.model_id, self.log)]
        if any(sentences):
            notes["withheld"] = " ".join(filter(None, sentences))
        return notes

    def _describe_spent(self) -> str:
        """Describe the tokens and the cost so far, and say where they are not known."""
        counted, cost = self.usage_so_far()
        uncounted = self._count_answers_without_usage()
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

    def _count_answers_without_usage(self) -> int:
        """Return the number of answers for which the service gave no count of tokens."""
        # Of several answers to one request only one has the count, which is of them all.
        if self.options.answers_per_request > 1:
            return 0
        return sum(not answer.usage for answer in self.log.values() if not answer.withheld)

    def _count_withheld(self) -> Counter[str]:
        """Count the answers that the service withholds, by the way in which it does."""
        return Counter(answer.withheld for answer in self.log.values() if answer.withheld)

    def _withheld_note(self) -> str:
        """Say how many answers the service withholds, if any; not why: its reasons may repeat prompts."""
        counts = self._count_withheld()
        if not counts:
            return ""
        parts = []
        if counts[REFUSED]:
            parts.append(f"{counts[REFUSED]:,} refused")
        if counts[UNANSWERED]:
            parts.append(f"{counts[UNANSWERED]:,} not given")
        return (
            f"The service of {self.model_id} withheld {counts.total():,} of {len(self.log):,} answers "
            f"({', '.join(parts)}). The reasons are in {ANSWERS}."
        )

    def why_useless(self, expected: int) -> str:
        """Say why the first answers are useless, so that further ones would be too.

        Args:
            expected: number of requests in all.

        Returns:
            A sentence with advice; blank where requests can continue.
        """
        first = list(islice(self.log.values(), FIRST_ANSWERS))
        is_enough = len(first) >= min(FIRST_ANSWERS, expected)
        is_mostly_blank = 2 * sum(answer.blank for answer in first) > len(first)
        if not is_enough or not is_mostly_blank:
            return ""
        return (
            f"Most of the first answers of {self.model_id} hit the limit of {self.options.max_tokens} tokens before "
            f"any text. Start a new run with a larger {self.length_setting}, such as 2048."
        )

    def refuse_useless_answers(self, expected: int) -> None:
        """Stop a run whose first answers are useless.

        Args:
            expected: number of requests in all.

        Raises:
            UsageError: There is a reason (``why_useless``).
        """
        reason = self.why_useless(expected)
        if reason:
            raise UsageError(reason)

    def _answer_keys(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return the answer key of each prompt."""
        return [answer_key(prompt, model=self.model_id, options=self.options) for prompt in prompts]

    def _group_by_key(self, prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
        """Group prompts by their answer key."""
        groups: dict[str, list[Prompt]] = {}
        for key, prompt in zip(self._answer_keys(prompts), prompts, strict=True):
            groups.setdefault(key, []).append(prompt)
        return groups

    def _score_answer(self, prompt: Prompt, key: str) -> Scored:
        """Score a prompt by the answer in the log; NaN where there is none."""
        if key in self.log:
            return as_scored(prompt, self.log[key], self.reader)
        empty = Answer(key=key, prompt_id=prompt.prompt_id, answer="")
        parts = as_scored(prompt, empty, self.reader).parts
        return Scored(math.nan, parts=dict.fromkeys(parts, math.nan))
