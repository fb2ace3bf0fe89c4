"""Answers of chat models as they are saved, each on disk as soon as it arrives, and how they are read."""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from swapbias.models.scorer import Scored, not_scored
from swapbias.studies import Prompt, answer_scores

ANSWERS = "answers.jsonl"  # in the folder of a run
CUT_OFF = "length"  # why an answer ended that reached the most tokens
NON_FINITE = "non_finite"  # why one ended whose tokens had probabilities that are NaN or infinite
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")  # counted by a service
REFUSED = "refused"  # there is no answer, for a filter or the model refuses
UNANSWERED = "unanswered"  # there is no answer, for none comes
_BLANK = "unsaid"  # beside the score in ``Answer.reading``
_PATH = re.compile(r"[~.]?[/\\]|[A-Za-z]:[/\\]")
_UNNAMED = "another model"
_MOST_NAME = 100  # characters of a model's name
# Begun and not ended.
_THINKING = re.compile(r"\s*<(think|thinking|reasoning)>(?!.*</\1>)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a model."""

    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)

    key: str
    """The key of its request (``answer_key``)."""
    prompt_id: str
    """The first row that needed it."""
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
    model: str = ""
    """The model that answered, by the service, where it names another than was asked; else blank."""
    withheld: str = ""
    """REFUSED or UNANSWERED: the service gives no answer to this prompt; blank: this is one."""
    reason: str = ""
    """Why it is withheld, in the words of the service, or why it has no text; blank: no reason is given or stored."""
    reading: Mapping[str, float | None] = field(default_factory=dict)
    """Score and parts, None for NaN, and ``unsaid`` (``blank``), where the text is not stored; else empty."""

    def __post_init__(self) -> None:
        if self.reading and not {"score", _BLANK} <= self.reading.keys():
            raise ValueError("A reading has no score.")

    @property
    def truncated(self) -> bool:
        """True where it reached the most tokens, unless one token was requested for its probabilities."""
        return self.finish_reason == CUT_OFF and not self.logprobs

    @property
    def blank(self) -> bool:
        """True where it reached the most tokens before any text, or while the model was still thinking."""
        if self.reading:
            return bool(self.reading[_BLANK])
        if not self.truncated:
            return False
        return not self.answer.strip() or _THINKING.match(self.answer) is not None


_ANSWER = TypeAdapter(Answer)


class AnswerLog(dict[str, Answer]):
    """Answers by key and as JSON lines of a private file; an incomplete last line is cut off on opening."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the log of a file.

        Args:
            path: path of JSON lines, made when an answer is added; None: a log in memory.

        Raises:
            ValueError: a line is no answer.
        """
        super().__init__()
        self.path = path
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            try:
                answer = _ANSWER.validate_json(line if line.endswith(b"\n") else b"")
            except ValidationError:
                if number < len(lines):
                    raise ValueError(
                        f"{ANSWERS}:{number} is no answer. Delete this line."
                    ) from None
                os.truncate(path, sum(map(len, lines[:-1])))
            else:
                self.setdefault(answer.key, answer)

    def add(self, answer: Answer) -> None:
        """Add an answer; it is on disk when this returns.

        Args:
            answer: takes the place of one with its key.
        """
        if self.path is not None:
            with open(self.path, "ab", opener=_open_private) as file:
                file.write(_ANSWER.dump_json(answer, exclude_defaults=True) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        self[answer.key] = answer


def _open_private(path: str, flags: int) -> int:
    """Open a file that its user alone can read, as ``open`` asks for it."""
    return os.open(path, flags, 0o600)


def other_model(reply: Mapping[str, Any], requested: str) -> str:
    """Return the name of the model that a service says has answered, where it is another than was requested.

    >>> other_model({"model": "small-2026-01"}, "small"), other_model({"model": "small"}, "small")
    ('small-2026-01', '')

    Args:
        reply: the reply.
        requested: the name in the request.

    Returns:
        Of a path its last part; blank where it is the same name, or the service gives none.
    """
    name = reply.get("model")
    if not isinstance(name, str) or not name.strip() or name == requested:
        return ""
    if _PATH.match(name):
        name = re.split(r"[/\\]", name)[-1]
    return "".join(filter(str.isprintable, name))[:_MOST_NAME]


def trial_of(prompt_id: str) -> int:
    """Return the trial that a row belongs to: the number after the last ``/t`` of its id.

    >>> trial_of("s012/pro/baseline/t3"), trial_of("s012/pro/baseline")
    (3, 0)

    Args:
        prompt_id: the prompt id of the row.

    Returns:
        0 where the id has none.
    """
    _, _, number = prompt_id.rpartition("/t")
    return int(number) if number.isdecimal() and number != prompt_id else 0


def reading_of(
    prompt: Prompt, answer: Answer, read: answer_scores.AnswerReader
) -> tuple[float, Mapping[str, float]]:
    """Return score and parts of an answer.

    Args:
        prompt: the prompt of the answer.
        answer: the answer as it stands in the log.
        read: gives the score of a text and further score columns.

    Returns:
        Of an answer that is withheld those of no text; its part ``refused`` is 1 where it is refused.
    """
    if not answer.withheld:
        return read(prompt, answer.answer, cut=answer.truncated)
    score, parts = read(prompt, "", cut=answer.truncated)
    if answer.withheld == UNANSWERED:
        return math.nan, parts
    return score, {name: 1.0 if name == REFUSED else value for name, value in parts.items()}


def without_text(prompt: Prompt, answer: Answer, read: answer_scores.AnswerReader) -> Answer:
    """Return an answer with what was read from it in place of its text.

    Args:
        prompt: the prompt of the answer.
        answer: the answer as it came.
        read: gives the score of a text and further score columns.

    Returns:
        An answer that repeats no text.
    """
    score, parts = reading_of(prompt, answer, read)
    values = {"score": score, **parts, _BLANK: float(answer.blank)}
    reading = {name: None if math.isnan(value) else value for name, value in values.items()}
    model = _UNNAMED if answer.model else ""  # whatever a service calls it could repeat the text
    # What a service says may repeat the text as well.
    reason = "" if answer.withheld else answer.reason
    return replace(answer, answer="", reason=reason, model=model, reading=reading)


def as_scored(prompt: Prompt, answer: Answer, read: answer_scores.AnswerReader) -> Scored:
    """Return the score of an answer for one row.

    Args:
        prompt: the row.
        answer: the answer as it stands in the log.
        read: gives the score of a text and further score columns.

    Returns:
        The score with its parts, ``tokens`` and whether it was ``truncated`` (NaN: unknown). NaN with parts of NaN,
        and not finite, where the model gave no finite probabilities.
    """
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
