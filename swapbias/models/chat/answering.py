"""Chat models: each prompt is a conversation, and each answer is on disk as soon as it arrives."""

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from swapbias.errors import UsageError
from swapbias.models.chat.chat_options import LOG_ODDS, ChatOptions, settings
from swapbias.models.chat.log_odds import Logs, names_of, orders, score_options
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, Scorer, not_scored
from swapbias.studies import Prompt, answer_scores

Fields = Callable[
    [Prompt], Mapping[str, Any]
]  # the fields of a JSON answer to a prompt, each with its schema
Groups = Mapping[str, Sequence[Prompt]]  # the rows of each answer key, in order

ANSWERS = "answers.jsonl"  # in the folder of a run
NON_FINITE = (
    "non_finite"  # why an answer ended whose tokens had probabilities that are NaN or infinite
)
CUT_OFF = "length"  # why an answer ended that reached the most tokens
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")  # what a service counts
FIRST_ANSWERS = 10  # are enough to see that the others would be cut off as well
# why there is no answer: a filter or the model refuses; none comes
REFUSED = "refused"
UNANSWERED = "unanswered"
CHARACTERS_PER_TOKEN = (
    4  # of English text, for the estimate alone: each service counts in its own way
)

_BLANK = "unsaid"  # beside the score in ``Answer.reading``
_THINKING = re.compile(
    r"\s*<(think|thinking|reasoning)>(?!.*</\1>)", re.DOTALL
)  # and not done with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a model; ``key`` is that of its request (``answer_key``)."""

    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)

    key: str
    prompt_id: str
    """Of the first row that needed it."""
    answer: str
    """Raw text; blank: the model wrote nothing; of a refusal its words."""
    finish_reason: str = ""
    """Stop, length; blank: the service does not say."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """USAGE, as the service counted tokens."""
    time: str = ""
    """When it arrived, ISO 8601 in UTC."""
    logprobs: tuple[tuple[str, float], ...] = ()
    """Likeliest first tokens, natural logarithms, where requested."""
    withheld: str = ""
    """REFUSED or UNANSWERED: the service gives no answer to this prompt; blank: this is one."""
    reason: str = ""
    """Of what is withheld, in the words of the service; blank: it has none, or they are not stored."""
    # Where its text is not stored: its score and parts, None for NaN, and ``unsaid`` (``blank``).
    reading: Mapping[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reading and not {"score", _BLANK} <= self.reading.keys():
            raise ValueError("A reading has no score.")

    @property
    def truncated(self) -> bool:
        """Whether it reached the most tokens; one token that was requested for its probabilities is not cut off."""
        return self.finish_reason == CUT_OFF and not self.logprobs

    @property
    def blank(self) -> bool:
        """Whether it reached the most tokens before any text, or while the model was still thinking."""
        if self.reading:
            return bool(self.reading[_BLANK])
        return self.truncated and (
            not self.answer.strip() or _THINKING.match(self.answer) is not None
        )


_ANSWER = TypeAdapter(Answer)


class AnswerLog(dict[str, Answer]):
    """Answers by key and as JSON lines of a private file; an incomplete last line is cut off on opening."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the log of a file, or one in memory where None; a ValueError for a line that is no answer."""
        super().__init__()
        self.path = path
        lines = path.read_bytes().splitlines(keepends=True) if path and path.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                answer = _ANSWER.validate_json(line if line.endswith(b"\n") else b"")
                self.setdefault(answer.key, answer)
            except ValidationError:
                if path is None or number < len(lines):
                    raise ValueError(
                        f"{ANSWERS}:{number} is no answer. Delete this line."
                    ) from None
                os.truncate(path, sum(map(len, lines[:-1])))

    def add(self, answer: Answer) -> None:
        """Add an answer; it is on disk when this returns."""
        if self.path is not None:
            with open(
                self.path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)
            ) as file:
                file.write(_ANSWER.dump_json(answer, exclude_defaults=True) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        self[answer.key] = answer


def trial_of(prompt_id: str) -> int:
    """The trial that a row belongs to: the number after the last ``/t`` of its id; 0 where it has none.

    >>> trial_of("s012/pro/baseline/t3"), trial_of("s012/pro/baseline")
    (3, 0)
    """
    _, _, number = prompt_id.rpartition("/t")
    return int(number) if number.isdecimal() and number != prompt_id else 0


def unread(prompt: Prompt, text: str, *, cut: bool = False) -> tuple[float, Mapping[str, float]]:
    """Read nothing of an answer: it has no score."""
    return math.nan, {}


def option_fields(prompt: Prompt) -> Mapping[str, Any]:
    """Return the fields of a JSON answer to a closed question: one, which names an option."""
    return {"answer": {"type": "string", "enum": names_of(prompt)}}


def reading_of(
    prompt: Prompt, answer: Answer, read: answer_scores.AnswerReader
) -> tuple[float, Mapping[str, float]]:
    """Return score and parts of an answer; of one that is withheld those of no text, and whether it is refused."""
    if not answer.withheld:
        return read(prompt, answer.answer, cut=answer.truncated)
    score, parts = read(prompt, "", cut=answer.truncated)
    if answer.withheld == UNANSWERED:
        return math.nan, parts
    return score, {name: 1.0 if name == REFUSED else value for name, value in parts.items()}


def without_text(prompt: Prompt, answer: Answer, read: answer_scores.AnswerReader) -> Answer:
    """Return an answer with what was read from it in place of its text."""
    score, parts = reading_of(prompt, answer, read)
    values = {"score": score, **parts, _BLANK: float(answer.blank)}
    reading = {name: None if math.isnan(value) else value for name, value in values.items()}
    return replace(answer, answer="", reason="", reading=reading)


def as_scored(prompt: Prompt, answer: Answer, read: answer_scores.AnswerReader) -> Scored:
    """The answer as read for one row, with its ``tokens`` and whether it was ``truncated`` (NaN: unknown)."""
    if answer.reading:
        parts = {
            name: math.nan if value is None else value for name, value in answer.reading.items()
        }
        score = parts.pop("score")
        _ = parts.pop(_BLANK)
    else:
        score, values = reading_of(prompt, answer, read)
        parts = dict(values)
    if answer.finish_reason == NON_FINITE:
        return not_scored(["tokens", "truncated", *parts], finite=False)
    tokens = float(answer.usage.get("total_tokens", math.nan))
    truncated = float(answer.truncated) if answer.finish_reason else math.nan
    if truncated == 1 and "length" in parts:
        parts["length"] = math.nan  # the limit, not the length of the answer
    return Scored(score, answer.answer, parts={"tokens": tokens, "truncated": truncated, **parts})


def answer_key(prompt: Prompt, *, model: str, options: ChatOptions) -> str:
    """sha256 of all that decides an answer; rows of one trial with the same text share one, and so an answer."""
    service: list[Any] = [model, options.host, options.provider or ""]
    service += ["json_schema"] if options.json_schema else []
    service += [options.answers_per_request] if options.answers_per_request > 1 else []
    sampling = [
        float(options.temperature),
        options.seed,
        options.max_tokens,
        trial_of(prompt.prompt_id),
    ]
    how = [LOG_ODDS, options.top_logprobs] if options.log_odds else sampling
    return hashlib.sha256(json.dumps([*service, prompt.text, *how]).encode()).hexdigest()


class AnsweringScorer(Scorer):
    """Score: what ``read`` makes of the answer, else NaN; rows of one trial with the same text share one answer."""

    kind = "chat"
    unit = "answer"

    def __init__(self, model_id: str, options: ChatOptions | None) -> None:
        self.model_id = model_id
        self.options = options or ChatOptions()
        self.read: answer_scores.AnswerReader = unread
        self.fields: Fields | None = (
            None  # of answers that a JSON schema may bind; None: they are free
        )
        self.is_credentialed = False
        self.identity: Mapping[str, Any] = {"kind": self.kind}
        self.log = AnswerLog()
        self._logs: dict[
            Path, AnswerLog
        ] = {}  # shared by copies that read other experiments: no request is repeated

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
        options = (
            self.options if max_tokens is None else replace(self.options, max_tokens=max_tokens)
        )
        changed = settings(options) if options != self.options else {}
        return self._changed(
            read=read,
            unit=unit or self.unit,
            fields=fields,
            options=options,
            identity={**self.identity, **changed, **(identity or {})},
        )

    def reading_notes(self) -> Self:
        return self._changed(is_credentialed=True)

    def keeping_answers(self, folder: Path, *, text: bool = True) -> Self:
        path = folder / ANSWERS
        if path not in self._logs:
            self._logs[path] = AnswerLog(path)
        return self._changed(is_credentialed=not text, log=self._logs[path])

    def keep(self, answer: Answer, prompt: Prompt) -> None:
        """Put an answer to a prompt into the log; of credentialed texts what was read from it instead."""
        self.log.add(without_text(prompt, answer, self.read) if self.is_credentialed else answer)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """One Scored per prompt, in order.

        UsageError: answers are ``useless``, a wrong key, an unknown model. ValueError: a request is refused or fails.
        """
        if self.options.log_odds:
            return score_options(self.option_logs, prompts, on_progress)
        keys = self._answered(prompts, on_progress)
        return [self._scored(prompt, key) for prompt, key in zip(prompts, keys, strict=True)]

    def _answered(self, prompts: Sequence[Prompt], report: Progress) -> list[str]:
        """The keys of the prompts, once the log has the answers."""
        groups = self._groups(prompts)
        missing = {key: rows for key, rows in groups.items() if key not in self.log}
        report(len(prompts) - sum(map(len, missing.values())))
        self.refuse_useless(len(groups))  # of a run that is resumed
        if missing:
            self._ask(missing, report, len(groups))
            self.refuse_useless(len(groups))
        return self._keys(prompts)

    def option_logs(
        self, prompts: Sequence[Prompt], on_progress: Progress = silent
    ) -> list[Logs | None]:
        """Log-probabilities of each prompt's options, in nats, and the probability not shown; None: not known."""
        return [None] * len(prompts)

    def _ask(self, missing: Groups, report: Progress, expected: int) -> None:
        """Put the answers to these requests, of ``expected`` in all, into the log: here none."""
        report(sum(map(len, missing.values())))

    def requests(self, prompts: Sequence[Prompt]) -> dict[str, tuple[int, int]]:
        """Prompt tokens, about, and most output tokens of the request for each answer key."""
        if self.options.log_odds:
            prompts = [one for prompt in prompts for one, _ in orders(prompt)]
        most = 1 if self.options.log_odds else self.options.max_tokens
        texts = {key: rows[0].text for key, rows in self._groups(prompts).items()}
        return {
            key: (math.ceil(len(text) / CHARACTERS_PER_TOKEN), most) for key, text in texts.items()
        }

    def counted(self) -> tuple[float, float]:
        """Tokens of all answers as the service counted them, and currency units; NaN where they are not known."""
        usages = [answer.usage for answer in self.log.values() if answer.usage]
        sums = [
            sum(usage.get(name, 0) for usage in usages) if usages else math.nan for name in USAGE
        ]
        return float(sums[2]), self.options.cost(sums[0], sums[1])

    @property
    def notes(self) -> Mapping[str, str]:
        cut = sum(answer.truncated for answer in self.log.values())
        every = len(self.log)
        spent = {"spent": f"{every:,} requests so far, {self._spent()}."}
        share = f"{cut:,} of {every:,} answers ({100 * cut / max(every, 1):.1f} %)"
        rule = f"were cut off at {self.options.max_tokens} tokens; an option counts there only where it stands alone"
        sentence = f"{self.model_id}: {share} {rule}."
        cut_off = {"truncated": sentence} if cut else {}
        withheld = {"withheld": self._withheld_note()} if self._count_withheld() else {}
        return {**spent, **cut_off, **withheld}

    def _spent(self) -> str:
        """Return tokens and cost so far, and what of them is not known."""
        counted, cost = self.counted()
        uncounted = self._count_uncounted()
        tokens = "tokens not counted" if math.isnan(counted) else f"{counted:,.0f} tokens"
        if uncounted and not math.isnan(counted):
            tokens = f"{tokens} without {uncounted:,} answers whose tokens are not counted"
        if self.options.local:
            return tokens
        if self.options.price_in is None:
            return f"{tokens}, cost not known, for no prices are given"
        return f"{tokens}, cost not known" if math.isnan(cost) else f"{tokens}, {cost:,.2f}"

    def _count_uncounted(self) -> int:
        """Return how many answers came without a count of tokens; several of one request are counted together."""
        if self.options.answers_per_request > 1:
            return 0
        return sum(not answer.usage for answer in self.log.values() if not answer.withheld)

    def _count_withheld(self) -> Counter[str]:
        return Counter(answer.withheld for answer in self.log.values() if answer.withheld)

    def _withheld_note(self) -> str:
        """Return how many answers the service withholds; their reasons may repeat prompts and stay in the log."""
        counts = self._count_withheld()
        words = {REFUSED: "refused", UNANSWERED: "not given"}
        listed = ", ".join(
            f"{counts[name]:,} {word}" for name, word in words.items() if counts[name]
        )
        share = f"{counts.total():,} of {len(self.log):,} answers"
        return f"The service of {self.model_id} withheld {share} ({listed}). The reasons are in {ANSWERS}."

    def useless(self, expected: int) -> str:
        """Why the first of ``expected`` answers show that further ones would be paid for nothing; else blank."""
        first = list(islice(self.log.values(), FIRST_ANSWERS))
        if len(first) < min(FIRST_ANSWERS, expected) or 2 * sum(one.blank for one in first) <= len(
            first
        ):
            return ""
        cut = f"Most of the first answers were cut off at {self.options.max_tokens} tokens before they said anything"
        return f"{cut}. Start a new run with a larger -M max-tokens, such as 2048."

    def refuse_useless(self, expected: int) -> None:
        if why := self.useless(expected):
            raise UsageError(why)

    def _keys(self, prompts: Sequence[Prompt]) -> list[str]:
        return [answer_key(prompt, model=self.model_id, options=self.options) for prompt in prompts]

    def _groups(self, prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
        groups: dict[str, list[Prompt]] = {}
        for key, prompt in zip(self._keys(prompts), prompts, strict=True):
            groups.setdefault(key, []).append(prompt)
        return groups

    def _scored(self, prompt: Prompt, key: str) -> Scored:
        if key in self.log:
            return as_scored(prompt, self.log[key], self.read)
        nothing = as_scored(
            prompt, Answer(key=key, prompt_id=prompt.prompt_id, answer=""), self.read
        )
        return Scored(math.nan, parts=dict.fromkeys(nothing.parts, math.nan))
