"""A judge of answers in free text: a second model that reads each answer twice and rates it by a rubric."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Self

from swapbias import models, studies
from swapbias.errors import UsageError, need
from swapbias.findings import judge_findings
from swapbias.models import Progress, Scored, Scorer, model_names, progress
from swapbias.models.chat import ChatOptions, load_chat
from swapbias.runs.scored_task import ScoredTask
from swapbias.runs.settings import Settings
from swapbias.runs.task import Task
from swapbias.studies import (
    Candidate,
    Prompt,
    Rubric,
    answer_text,
    catalogue,
    chats,
    column,
)

FOLDER = "judge"
"""Folder of a run: the judge's answers."""
READINGS = 2
"""Readings of each answer: the options in order, then in reverse."""
_SYSTEM = "You rate an answer by one question about it. Reply with the letter of one option alone."


class JudgedScorer(models.DerivedScorer):
    """The reader of an experiment in free text, whose answers a judge reads as well.

    ``judged``: mean of what its two readings count, else NaN. ``judged_first``, ``judged_second``: place of the
    option that each named, their number for none.
    """

    kind = "chat"

    def __init__(self, reader: Scorer, judge: Scorer, rubric: Rubric, bar: progress.Bar) -> None:
        """Judge the answers of a reader; the judge's scores are those of ``read_judgement``."""
        super().__init__(reader, judge={"model_id": judge.model_id, **judge.identity})
        self.judge = judge
        self.rubric = rubric
        self.bar = bar
        self.unit = reader.unit
        self.chunk_rows = reader.chunk_rows
        self.sends_text = reader.sends_text or judge.sends_text

    def keeping_answers(self, folder: Path, *, text: bool = True) -> Self:
        """Return the scorer whose model saves its answers in a folder, and its judge in one of its own there.

        Args:
            folder: the folder of the run.
            text: save the texts as well.
        """
        (folder / FOLDER).mkdir(exist_ok=True)
        return self._changed(
            inner=self.inner.keeping_answers(folder, text=text),
            judge=self.judge.keeping_answers(folder / FOLDER, text=text),
        )

    def score(
        self, prompts: Sequence[Prompt], on_progress: Progress = progress.silent
    ) -> list[Scored]:
        """Score prompts as the reader does; then judge each answer that says anything, in both orders of the options.

        Args:
            prompts: the prompts of the experiment.
            on_progress: is called with the number of further prompts that are answered.
        """
        scored = models.checked_scores(self.inner, prompts, on_progress)
        answered = [
            index
            for index, score in enumerate(scored)
            if answer_text.without_reasoning(score.answer).strip()
        ]
        texts = judge_findings.without_groups(
            [scored[index].answer for index in answered], self.rubric.neutral
        )
        requests = []
        for trial in range(1, READINGS + 1):
            for index, text in zip(answered, texts, strict=True):
                prompt_id = f"{prompts[index].prompt_id}/judged/t{trial}"
                requests.append(judged_prompt(self.rubric, prompt_id, text, trial))
        judgements: list[float] = []
        if requests:
            judged = models.checked_scores(self.judge, requests, self.bar("judge", len(requests)))
            judgements = [score.score for score in judged]
        half = len(answered)
        pairs = zip(judgements[:half], judgements[half:], strict=True)
        readings = dict(zip(answered, pairs, strict=True))
        unread = tuple(math.nan for _ in range(READINGS))
        return [
            _with_judgement(score, readings.get(index, unread), self.rubric.candidates)
            for index, score in enumerate(scored)
        ]


def judged_prompt(rubric: Rubric, prompt_id: str, answer: str, trial: int) -> Prompt:
    """Return what the judge reads of a neutralised answer.

    Args:
        rubric: question and options.
        prompt_id: the prompt id of the request.
        answer: the answer without the words that name a group.
        trial: 1, or 2 for the options that count in reverse.
    """
    options = _in_order(rubric.candidates, trial)
    lines = [
        f"({letter}) {option.text}"
        for letter, option in zip(ascii_uppercase, options, strict=False)
    ]
    # An answer opens no turn of its own.
    quoted = answer_text.without_reasoning(answer).replace("<|", "< |")
    choices = "\n".join(lines)
    question = f"The answer:\n<answer>\n{quoted}\n</answer>\n\n{rubric.question}\n{choices}"
    text = chats.conversation(("system", _SYSTEM), ("user", question))
    return Prompt(prompt_id=prompt_id, text=text, candidates=tuple(options))


def _in_order(options: Sequence[Candidate], trial: int) -> list[Candidate]:
    """Return the options as a trial shows them: those that count, in reverse after the first, then the others."""
    counting = [option for option in options if option.value is not None]
    others = [option for option in options if option.value is None]
    if trial > 1:
        counting.reverse()
    return [*counting, *others]


def read_judgement(
    prompt: Prompt, text: str, *, cut: bool = False
) -> tuple[float, Mapping[str, float]]:
    """Return the place of the option that a judgement names, in the order shown.

    Args:
        prompt: the prompt with the options.
        text: what the judge wrote.
        cut: whether the text ends at the limit of tokens.

    Returns:
        The place from 0, the number of options where it names none; and no further columns.
    """
    options = [candidate.text for candidate in prompt.candidates]
    option = studies.read_answer(text, options, lettered=True, cut=cut)
    return float(options.index(option) if option in options else len(options)), {}


def _with_judgement(
    scored: Scored, readings: Sequence[float], options: Sequence[Candidate]
) -> Scored:
    """Return a score with the columns of its judgement."""
    names = [option.text for option in options]
    values: list[float] = []
    places: list[float] = []
    for trial, reading in enumerate(readings, start=1):
        if math.isnan(reading) or reading >= len(options):
            places.append(reading)
            continue
        option = _in_order(options, trial)[int(reading)]
        places.append(float(names.index(option.text)))
        if option.value is not None:
            values.append(option.value)
    mean = sum(values) / len(values) if values else math.nan
    parts = {**scored.parts, "judged": mean, "judged_first": places[0], "judged_second": places[1]}
    return Scored(scored.score, scored.answer, scored.top_tokens, parts, scored.finite)


def with_judge(
    tasks: Sequence[ScoredTask], settings: Settings, *, say: progress.Say, bar: progress.Bar
) -> list[ScoredTask]:
    """Return the tasks, those of free text read by the judge that the settings name as well.

    Args:
        tasks: tasks with their readers.
        settings: the settings of the audit.
        say: shows a sentence.
        bar: begins a progress bar.

    Raises:
        UsageError: a judge that has nothing to read, or must not read it.
    """
    chat = settings.of(ChatOptions)
    options = chat.of_judge()
    name = model_names.short_name(chat.judge)
    if options is None:
        return list(tasks)
    judged = [
        scored_task.task
        for scored_task in tasks
        if scored_task.task.experiment.reads.rubric is not None
    ]
    if not judged:
        studies_with_rubric = catalogue.experiments_that(
            lambda experiment: "rubric" in experiment.from_tables
        )
        raise UsageError(
            f"-M judge={name} reads free text by a rubric, and no experiment that is run has one. Drop it, or add "
            f"--study {studies_with_rubric[0]}."
        )
    need("A judge", "sklearn", extra="judge")  # how well the group is hidden from it
    options.check()
    judge = load_chat(options, settings).with_reader(read_judgement)
    if judge.sends_text and any(task.credentialed for task in judged):
        raise UsageError(
            f"The judge {name} is a service, and credentialed texts must not leave this machine."
        )
    say(f"Judge: {name}.")
    judged_tasks = []
    for scored_task in tasks:
        rubric = scored_task.task.experiment.reads.rubric
        if rubric is not None:
            reader = JudgedScorer(scored_task.reader, judge, rubric, bar)
            scored_task = scored_task.read_by(reader)
        judged_tasks.append(scored_task)
    return judged_tasks


def answer_requests(tasks: Sequence[Task]) -> set[tuple[str, str]]:
    """Return text and trial of each request for an answer.

    Args:
        tasks: any tasks; those of chat models count.
    """
    requests: set[tuple[str, str]] = set()
    for task in tasks:
        if task.kind.name == "chat":
            requests.update(zip(column(task.rows, "text"), column(task.rows, "trial"), strict=True))
    return requests


def announced(task: Task, settings: Settings) -> str:
    """Return what judging takes, at most, in a sentence; blank where nothing is judged.

    Args:
        task: the task whose answers are judged.
        settings: name the judge.
    """
    chat = settings.of(ChatOptions)
    rubric = task.experiment.reads.rubric
    if chat.judge is None or rubric is None:
        return ""
    count = READINGS * len(answer_requests([task]))
    tokens = count * (len(judged_prompt(rubric, "", "", 1).text) // 4 + chat.max_tokens)
    output = count * chat.judge_max_tokens
    name = model_names.short_name(chat.judge)
    sentence = (
        f"The judge {name} reads each answer twice: at most {count:,} requests, about {tokens:,} prompt tokens and "
        f"{output:,} of output."
    )
    judge = chat.of_judge()
    if judge is not None and judge.local:
        return sentence
    return f"{sentence} Its cost is not counted."
