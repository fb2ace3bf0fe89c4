"""Answers of chat models: the log on disk that has each as soon as it arrives, and how rows read them."""

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from swapbias.errors import UsageError
from swapbias.models.base import Scored, not_finite
from swapbias.studies import Prompt

Read = Callable[[Prompt, str], tuple[float, Mapping[str, float]]]  # prompt and raw answer -> score and its parts

ANSWERS = "answers.jsonl"  # in the folder of a run
NON_FINITE = "non_finite"  # why an answer ended whose tokens had probabilities that are NaN or infinite
CUT_OFF = "length"  # why an answer ended that reached the most tokens
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")  # what a service counts
FIRST_ANSWERS = 10  # are enough to see that the others would be cut off as well

_BLANK = "unsaid"  # beside the score in ``Answer.reading``
_TRIAL = re.compile(r"/t(\d+)$")
_THINKING = re.compile(r"\s*<(think|thinking|reasoning)>(?!.*</\1>)", re.DOTALL)  # and not done with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a model.

    Attributes:
        key: of the request (``answer_key``).
        prompt_id: of the first row that needed it.
        answer: the raw text; blank where the model wrote nothing.
        finish_reason: why it ended (``stop``, ``length``); blank where the service does not say.
        usage: tokens as the service counted them: ``prompt_tokens``, ``completion_tokens``, ``total_tokens``.
        seconds: duration of the attempt that brought the answer.
        time: when it arrived, ISO 8601 in UTC.
        logprobs: the likeliest first tokens with their natural log-probabilities, where they were requested.
        reading: where its text is not stored: its score and parts, None for NaN, and ``unsaid`` (``blank``).
    """

    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)

    key: str
    prompt_id: str
    answer: str
    finish_reason: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    time: str = ""
    logprobs: tuple[tuple[str, float], ...] = ()
    reading: Mapping[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a reading without a score."""
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
        return self.truncated and (not self.answer.strip() or _THINKING.match(self.answer) is not None)


_ANSWER, _FIELDS = TypeAdapter(Answer), TypeAdapter(dict[str, object])


def without_text(answer: Answer, prompt: Prompt, read: Read) -> Answer:
    """An answer as it is written down where no text of notes is stored: its score and parts in place of its text."""
    score, parts = read(prompt, answer.answer)
    values = {"score": score, **parts}
    known = {name: None if math.isnan(value) else value for name, value in values.items()}
    return replace(answer, answer="", reading={**known, _BLANK: float(answer.blank)})


class AnswerLog:
    """Append-only JSON lines, one per answer, on disk as soon as it arrives; only its owner reads the file.

    A key that is there is not requested again. What a killed process wrote of a last line is cut off on opening.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open the log of a file, or one in memory where None.

        Raises:
            ValueError: a line that is no answer, with others after it.
        """
        self.path = path
        self.read: Read | None = None  # where no text is stored: how answers are read before they are written
        self.known: dict[str, Answer] = {}
        if path is not None and path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        whole, end = path.read_bytes(), 0
        for number, line in enumerate(whole.splitlines(keepends=True), start=1):
            try:
                if not line.endswith(b"\n"):
                    break
                answer = _ANSWER.validate_json(line)
            except ValidationError:
                if end + len(line) < len(whole.rpartition(b"\n")[0]):
                    raise ValueError(
                        f"{path.name}:{number}: this line is not an answer: it is damaged, or was edited. Delete the "
                        "line to request the answer again."
                    ) from None
                break
            self.known.setdefault(answer.key, answer)
            end += len(line)
        if end < len(whole):
            os.truncate(path, end)

    def add(self, answer: Answer, prompt: Prompt | None = None) -> None:
        """Add an answer to a prompt; it is on disk when this returns."""
        if self.read is not None and prompt is not None:
            answer = without_text(answer, prompt, self.read)
        if self.path is not None:
            with open(self.path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(as_line(answer))
                file.flush()
                os.fsync(file.fileno())
        self.known[answer.key] = answer

    def __contains__(self, key: object) -> bool:
        """Whether the request of this key is answered."""
        return key in self.known

    def __len__(self) -> int:
        """How many answers there are."""
        return len(self.known)


def as_line(answer: Answer) -> bytes:
    """An answer as a log has it."""
    optional = ("logprobs", "reading")  # most answers have none
    return _FIELDS.dump_json({k: v for k, v in asdict(answer).items() if v or k not in optional}) + b"\n"


def trial_of(prompt_id: str) -> int:
    """The trial that a row belongs to: the number after the last ``/t`` of its id; 0 where it has none.

    >>> trial_of("s012/pro/baseline/t3"), trial_of("s012/pro/baseline")
    (3, 0)
    """
    found = _TRIAL.search(prompt_id)
    return int(found.group(1)) if found else 0


def unread(prompt: Prompt, text: str) -> tuple[float, Mapping[str, float]]:
    """No reading: NaN and no parts; whoever has the rows reads the answers later."""
    return math.nan, {}


def mostly_blank(log: AnswerLog) -> bool:
    """Whether more than half of the first answers were cut off before any text."""
    first = list(islice(log.known.values(), FIRST_ANSWERS))
    return 2 * sum(answer.blank for answer in first) > len(first)


def refuse_cut_off(log: AnswerLog, expected: int, max_tokens: int) -> None:
    """Stop where most of the first answers are blank: further ones would be paid for nothing.

    Args:
        log: the answers so far; fewer than the first ten decide only where no more are ``expected``.
        max_tokens: of an answer.

    Raises:
        UsageError: most of the first answers were cut off before any text.
    """
    if len(log) >= min(FIRST_ANSWERS, expected) and mostly_blank(log):
        raise UsageError(
            f"Most of the first answers were cut off at {max_tokens} tokens before they said anything, as happens "
            "with models that think first. Start a new run with a larger -M max-tokens, such as 2048."
        )


def as_scored(prompt: Prompt, answer: Answer, read: Read) -> Scored:
    """The answer as read.

    Beside it stand the ``tokens`` of its request, NaN where the service does not count, and whether the answer was
    ``truncated`` at the most tokens (1 or 0; NaN where the service does not say why it ended).
    """
    if answer.reading:
        parts = {name: math.nan if value is None else value for name, value in answer.reading.items()}
        score, _ = parts.pop("score"), parts.pop(_BLANK)
    else:
        score, more = read(prompt, answer.answer)
        parts = dict(more)
    if answer.finish_reason == NON_FINITE:
        return not_finite(["tokens", "truncated", *parts])
    tokens = float(answer.usage.get("total_tokens", math.nan))
    truncated = float(answer.truncated) if answer.finish_reason else math.nan
    if truncated == 1 and "length" in parts:
        parts["length"] = math.nan  # the limit, not the length of the answer
    return Scored(score, answer.answer, parts={"tokens": tokens, "truncated": truncated, **parts})
