"""Summaries of notes, scored by a second model: a classifier reads what a chat model wrote."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from swapbias import models, swapping
from swapbias.errors import UsageError
from swapbias.models import Request, Say, Scorer, is_callable, short_name
from swapbias.models.chat import ChatOptions
from swapbias.runs.plan import Task
from swapbias.studies import Prompt, corpus_dir, is_refusal, read_table, turns, without_reasoning, word_count

TONE = "tone"  # the reading of experiments whose answers a classifier scores
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def with_classifier(tasks: Sequence[Task], readers: Sequence[Scorer], settings: Request, *, say: Say) -> list[Scorer]:
    """The readers, those of summaries with the classifier of ``-M scorer``, which runs on this machine.

    Raises:
        UsageError: a classifier and no summaries; a model that is none.
    """
    chat = settings.of(ChatOptions)
    if not any(task.experiment.reading == TONE for task in tasks):
        if chat.changed("scorer"):
            raise UsageError("-M scorer reads summaries, and none are written. Drop it, or add --study care_notes.")
        return list(readers)
    if is_callable(chat.scorer) and any(task.notes and task.notes.credentialed for task in tasks):
        say(f"These notes are credentialed: make sure that {chat.scorer} sends nothing of them to a service.")
    classifier = models.load_scorer(chat.scorer, options=settings.load)
    if classifier.kind != "classifier":
        raise UsageError(
            f"-M scorer={short_name(chat.scorer)} is a {classifier.kind} model, expected a text classifier."
        )
    for task, reader in zip(tasks, readers, strict=True):
        if task.experiment.reading == TONE:
            made: Any = reader
            made.read = ToneReader(classifier)
            made.identity = {**made.identity, "scorer": {"model_id": classifier.model_id, **classifier.identity}}
    return list(readers)


class ToneReader:
    """Reads one summary: how positive a classifier finds it, from 0 to 1; NaN where nothing was written.

    Beside it stand the score of the summary without the person's gender (``neutral``), that of the note which was
    summarised (``source``: a gap of it is the classifier's own), words in 100 of each theme of
    ``care_notes/words.csv``, and ``length`` (natural log of words).
    """

    def __init__(self, classifier: Scorer) -> None:
        self.classifier = classifier

    def __call__(self, prompt: Prompt, text: str) -> tuple[float, Mapping[str, float]]:
        """Score and further score columns of an answer."""
        said, count = without_reasoning(text).strip(), word_count(text)
        refused = is_refusal(said)
        shares = theme_shares(said)
        if not count or refused:
            nothing = dict.fromkeys(("neutral", "source", "length", *shares), math.nan)
            return math.nan, {"unanswered": 1.0, "refused": float(refused), "said_other": 1.0, **nothing}
        texts = [said, *swapping.without_groups([said], {}), turns(prompt.text)[-1]["content"]]
        score, neutral, source = (
            one.score for one in self.classifier.score([replace(prompt, text=one, candidates="") for one in texts])
        )
        known = {"neutral": neutral, "source": source, "length": math.log(count), **shares}
        return score, {"unanswered": 0.0, "refused": 0.0, "said_other": 0.0, **known}


def theme_shares(text: str) -> dict[str, float]:
    """Words in 100 that are of each theme (``health_words``); NaN of a text without words.

    >>> theme_shares("She is anxious and needs help with washing.")["need_words"]
    37.5
    """
    words = _WORD.findall(text.casefold())
    return {
        f"{theme}_words": 100 * sum(word in known for word in words) / len(words) if words else math.nan
        for theme, known in _themes().items()
    }


@cache
def _themes() -> dict[str, frozenset[str]]:
    rows = read_table(corpus_dir("care_notes") / "words.csv", ("theme", "word", "source"))
    themes = dict.fromkeys(row["theme"] for row in rows)
    return {theme: frozenset(row["word"] for row in rows if row["theme"] == theme) for theme in themes}
