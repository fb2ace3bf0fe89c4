"""A classifier of summaries: the tone of what a chat model writes of a note."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from swapbias import models, studies
from swapbias.errors import UsageError
from swapbias.findings import judge_findings
from swapbias.models import Scorer, model_names, progress
from swapbias.models.chat import AnsweringScorer, ChatOptions
from swapbias.runs.scored_task import ScoredTask
from swapbias.runs.settings import Settings
from swapbias.studies import Prompt, answer_text, answers, catalogue, chats, written_answers

TONE = "tone"
"""Reading of experiments whose answers a classifier scores."""
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def with_classifier(
    tasks: Sequence[ScoredTask], settings: Settings, *, say: progress.Say
) -> list[ScoredTask]:
    """Return the tasks, summaries read by the classifier of ``-M scorer``.

    Args:
        tasks: tasks with their readers.
        settings: the settings of the audit.
        say: shows a sentence.

    Raises:
        UsageError: no summaries are written, or the scorer is no classifier.
    """
    chat = settings.of(ChatOptions)
    summaries = [scored_task.task for scored_task in tasks if _reads_tone(scored_task)]
    if not summaries:
        if chat.not_usual("scorer"):
            studies_with_summaries = catalogue.experiments_that(
                lambda experiment: experiment.reads.reading == TONE
            )
            raise UsageError(
                "-M scorer reads summaries, and none are written. Drop it, or add --study "
                f"{studies_with_summaries[0]}."
            )
        return list(tasks)
    if model_names.is_callable(chat.scorer) and any(task.credentialed for task in summaries):
        say(
            f"These notes are credentialed: make sure that {chat.scorer} sends nothing of them to a service."
        )
    classifier = models.load_scorer(chat.scorer, options=settings.load)
    if classifier.kind != "classifier":
        name = model_names.short_name(chat.scorer)
        raise UsageError(
            f"-M scorer={name} is a {classifier.kind} model, expected a classifier. Name another."
        )
    identity = {"scorer": {"model_id": classifier.model_id, **classifier.identity}}
    classified = []
    for scored_task in tasks:
        reader = scored_task.reader
        if _reads_tone(scored_task) and isinstance(reader, AnsweringScorer):
            tone = ToneReader(classifier, scored_task.task.study.name)
            scored_task = scored_task.read_by(reader.with_reader(tone, identity=identity))
        classified.append(scored_task)
    return classified


def _reads_tone(scored_task: ScoredTask) -> bool:
    return scored_task.task.experiment.reads.reading == TONE


class ToneReader:
    """Reads one summary: how positive a classifier finds it, from 0 to 1; NaN where it is no summary of its note.

    Beside it: the score without the person's gender (``neutral``), that of the note (``source``), words in 100 of
    each theme of the study's ``words.csv``, and ``length`` (natural log of words).
    """

    def __init__(self, classifier: Scorer, study: str) -> None:
        self.classifier = classifier
        self.study = study

    def __call__(
        self, prompt: Prompt, text: str, *, cut: bool = False
    ) -> tuple[float, Mapping[str, float]]:
        """Return score and further score columns of an answer.

        Args:
            prompt: asks for the summary of a note.
            text: the answer.
            cut: whether the answer ends at the limit of tokens; it counts as far as it goes.
        """
        summary = answer_text.without_reasoning(text).strip()
        count = answer_text.word_count(text)
        note = chats.turns(prompt.text)[-1]["content"]
        is_refused = answers.is_refusal(summary)
        shares = theme_shares(summary, self.study)
        if is_refused or not written_answers.is_summary(summary, note):
            nothing = dict.fromkeys(("neutral", "source", "length", *shares), math.nan)
            outcome = {"unanswered": 1.0, "refused": float(is_refused), "said_other": 1.0}
            return math.nan, {**outcome, **nothing}
        texts = [summary, *judge_findings.without_groups([summary], {}), note]
        prompts = [replace(prompt, text=read_text) for read_text in texts]
        scored = models.checked_scores(self.classifier, prompts)
        score, neutral, source = (result.score for result in scored)
        outcome = {"unanswered": 0.0, "refused": 0.0, "said_other": 0.0}
        scores = {"neutral": neutral, "source": source, "length": math.log(count)}
        return score, {**outcome, **scores, **shares}


def theme_shares(text: str, study: str) -> dict[str, float]:
    """Return words in 100 that are of each theme (``health_words``) of a study.

    >>> theme_shares("She is anxious and needs help with washing.", "care_notes")["need_words"]
    37.5

    Args:
        text: the text of an answer.
        study: the study that lists the words of each theme.

    Returns:
        Percent of the words by theme; NaN for a text without words.
    """
    words = _WORD.findall(text.casefold())
    shares = {}
    for theme, listed_words in _themes(study).items():
        count = sum(word in listed_words for word in words)
        shares[f"{theme}_words"] = 100 * count / len(words) if words else math.nan
    return shares


@cache
def _themes(study: str) -> dict[str, frozenset[str]]:
    """Return the words of each theme of a study."""
    path = studies.corpus_dir(study) / "words.csv"
    themes: dict[str, set[str]] = {}
    for row in studies.read_table(path, ("theme", "word", "source")):
        themes.setdefault(row["theme"], set()).add(row["word"])
    return {theme: frozenset(words) for theme, words in themes.items()}
