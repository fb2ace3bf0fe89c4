"""Answers of chat models: the log that keeps each as it arrives, and how rows share and read them."""

import json
import math
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.files import parse_json
from swapbias.models.scorer import Scored, not_finite
from swapbias.studies import Prompt

Read = Callable[[Prompt, str], tuple[float, Mapping[str, float]]]  # prompt and raw answer -> score and its parts

NON_FINITE = "non_finite"  # why an answer ended whose tokens had probabilities that are NaN or infinite
CUT_OFF = "length"  # why an answer ended that reached the most tokens
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")  # what a service counts
FIRST_ANSWERS = 10  # are enough to see that the others would be cut off as well

_TRIAL = re.compile(r"/t(\d+)$")
_THINKING = re.compile(r"\s*<(think|thinking|reasoning)>(?!.*</\1>)", re.DOTALL)  # and not done with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a model.

    Attributes:
        key: of the request (``answer_key``).
        prompt_id: the first row that asked.
        answer: the raw text; blank where the model said nothing.
        finish_reason: why it ended (``stop``, ``length``); blank where the service does not say.
        usage: tokens as the service counted them: ``prompt_tokens``, ``completion_tokens``, ``total_tokens``.
        seconds: how long the attempt took that brought the answer.
        time: when it arrived, ISO 8601 in UTC.
        logprobs: the likeliest first tokens with their natural log-probabilities, where they were asked for.
        reading: where its text is not kept: its score and parts, None for NaN, and whether it was ``unsaid``.
    """

    key: str
    prompt_id: str
    answer: str
    finish_reason: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    time: str = ""
    logprobs: Sequence[tuple[str, float]] = ()
    reading: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def truncated(self) -> bool:
        """Whether it reached the most tokens; one token that was asked for its probabilities is not cut off."""
        return self.finish_reason == CUT_OFF and not self.logprobs

    @property
    def unsaid(self) -> bool:
        """Whether it reached the most tokens before any text, or while the model was still thinking."""
        if self.reading:
            return bool(self.reading[_UNSAID])
        return self.truncated and (not self.answer.strip() or _THINKING.match(self.answer) is not None)


_UNSAID = "unsaid"


def without_text(answer: Answer, prompt: Prompt, read: Read) -> Answer:
    """An answer as it is written down where no text of notes is kept: what was read of it, in place of its text."""
    score, parts = read(prompt, answer.answer)
    values = {"score": score, **parts}
    known = {name: None if math.isnan(value) else value for name, value in values.items()}
    return replace(answer, answer="", reading={**known, _UNSAID: float(answer.unsaid)})


def _read_again(answer: Answer) -> tuple[float, dict[str, float]]:
    parts = {name: math.nan if value is None else value for name, value in answer.reading.items() if name != _UNSAID}
    return parts.pop("score"), parts


_LARGEST = 1e300  # of a number in a log, which anybody may have edited
ANSWERS = "answers.jsonl"  # in the folder of a run
_MANIFEST = "manifest.json"  # beside it; says when the run was begun


class AnswerLog:
    """Append-only JSON lines, one per answer, on disk as soon as it arrives; a key that is there is not asked again.

    What a killed process left of a last line is cut off when the log is opened.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open the log of a file, or one in memory where None.

        Raises:
            ValueError: a line that is no answer, with others after it.
        """
        self.path = path
        self.read: Read | None = None  # where no text is kept: how answers are read before they are written down
        self.known: dict[str, Answer] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        whole = path.read_bytes()
        *lines, _ = whole.split(b"\n")  # what follows the last line end is torn, or blank
        answers = [_answer_of(line) for line in lines]
        if answers and answers[-1] is None:
            del lines[-1], answers[-1]
        for number, answer in enumerate(answers, start=1):
            if answer is None:
                raise ValueError(
                    f"{path.name}:{number}: no answer can be read here: it is damaged, or was edited. Take the line "
                    "out, and it is asked for again."
                )
            self.known.setdefault(answer.key, answer)
        whole_lines = sum(len(line) + 1 for line in lines)
        if whole_lines < len(whole):
            os.truncate(path, whole_lines)

    def add(self, answer: Answer, prompt: Prompt | None = None) -> None:
        """Keep an answer to a prompt; it is on disk when this returns."""
        if self.read is not None and prompt is not None:
            answer = without_text(answer, prompt, self.read)
        if self.path is not None:
            with self.path.open("ab") as file:
                file.write(as_line(answer))
                file.flush()
                os.fsync(file.fileno())
        self.known[answer.key] = answer

    @cached_property
    def salt(self) -> str:
        """Tells the requests of this run from the same ones of another; the same after a run was stopped."""
        for folder in self.path.parents[:2] if self.path else ():  # the judge's log lies in a folder of its own
            try:
                return str(json.loads((folder / _MANIFEST).read_bytes())["started"])
            except (OSError, ValueError, LookupError, TypeError):
                continue
        return secrets.token_hex(16)

    def __contains__(self, key: object) -> bool:
        """Whether the request of this key is answered."""
        return key in self.known

    def __len__(self) -> int:
        """How many answers there are."""
        return len(self.known)


def as_line(answer: Answer) -> bytes:
    """An answer as a log has it."""
    short = ("logprobs", "reading")  # which most answers have none of
    known = {name: value for name, value in asdict(answer).items() if name not in short or value}
    return json.dumps(known, ensure_ascii=False).encode() + b"\n"


def _answer_of(line: bytes) -> Answer | None:
    """The answer of a line; None where it is none."""
    try:
        found = Answer(**parse_json(line))
        texts = (found.key, found.prompt_id, found.answer, found.finish_reason, found.time)
        numbers = [found.seconds, *found.usage.values(), *(log for _, log in found.logprobs)]
        numbers += [value for value in found.reading.values() if value is not None]
        tokens = [token for token, _ in found.logprobs]
    except (ValueError, TypeError, AttributeError):
        return None
    sound = all(isinstance(one, str) for one in (*texts, *tokens)) and all(map(_is_number, numbers))
    return found if sound and (not found.reading or {"score", _UNSAID} <= found.reading.keys()) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def trial_of(prompt_id: str) -> int:
    """The trial that a row belongs to: the number after the last ``/t`` of its id; 0 where it has none.

    >>> trial_of("s012/pro/baseline/t3"), trial_of("s012/pro/baseline")
    (3, 0)
    """
    found = _TRIAL.search(prompt_id)
    return int(found.group(1)) if found else 0


def by_key(prompts: Sequence[Prompt], keys: Sequence[str]) -> dict[str, list[Prompt]]:
    """The rows of each key, in order."""
    found: dict[str, list[Prompt]] = {}
    for key, prompt in zip(keys, prompts, strict=True):
        found.setdefault(key, []).append(prompt)
    return found


def unread(prompt: Prompt, text: str) -> tuple[float, Mapping[str, float]]:
    """No reading: NaN and no parts; whoever has the rows reads the answers later."""
    return math.nan, {}


def mostly_unsaid(log: AnswerLog) -> bool:
    """Whether more than half of the first answers were cut off before they said anything."""
    first = list(islice(log.known.values(), FIRST_ANSWERS))
    return 2 * sum(answer.unsaid for answer in first) > len(first)


def refuse_cut_off(log: AnswerLog, expected: int, max_tokens: int) -> None:
    """Stop where asking on would be paid for nothing; fewer than the first answers tell nothing yet.

    Args:
        log: what was answered.
        expected: answers that all prompts need.
        max_tokens: of an answer.

    Raises:
        UsageError: most of the first answers were cut off before they said anything.
    """
    if len(log) < min(FIRST_ANSWERS, expected) or not mostly_unsaid(log):
        return
    raise UsageError(
        f"Most of the first answers were cut off at {max_tokens} tokens before they said anything, as happens with "
        "models that think first. Start a new run with a larger -M max-tokens, such as 2048."
    )


def as_scored(prompt: Prompt, answer: Answer, read: Read) -> Scored:
    """The answer as read.

    Beside it stand the ``tokens`` of its request, NaN where the service does not count, and whether the answer was
    ``truncated`` at the most tokens (1 or 0; NaN where the service does not say why it ended).
    """
    score, parts = _read_again(answer) if answer.reading else read(prompt, answer.answer)
    if answer.finish_reason == NON_FINITE:
        return not_finite(["tokens", "truncated", *parts])
    tokens = float(answer.usage.get("total_tokens", math.nan))
    truncated = float(answer.truncated) if answer.finish_reason else math.nan
    if truncated == 1 and "length" in parts:
        parts = {**parts, "length": math.nan}  # as many as it was let, not as many as it had to say
    return Scored(score, answer.answer, parts={"tokens": tokens, "truncated": truncated, **parts})
