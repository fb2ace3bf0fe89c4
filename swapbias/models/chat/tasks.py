"""The chat experiments of every study as tasks of inspect_ai: ``inspect eval swapbias/STUDY --model ...``.

Importing this registers them; inspect_ai does so by the entry point of this package.
"""

import math
from collections.abc import Callable
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer
from inspect_ai.solver import TaskState

from swapbias import __version__
from swapbias.models.base import Request
from swapbias.models.chat.answer_log import Read
from swapbias.models.chat.chat_kind import CHAT
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.models.chat.logs import LoggedScorer, chat_prompts
from swapbias.studies import PROMPT_COLUMNS, Experiment, Prompt, load_corpus, load_study, studies, turns

_MESSAGES: dict[str, Callable[..., ChatMessage]] = {
    "system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant,
}  # fmt: skip


def study_task(study: str, config: str = "") -> Task:
    """The prompts of the chat experiments of a study, each text once, asked as ``swapbias audit --chat`` asks.

    Trials are epochs: as many, as warm and as long as audits have them by default; the options of ``inspect eval``
    (``--epochs``, ``--temperature``, ``--max-tokens``) change that. inspect shows the mean score of the texts of each
    experiment; findings are those of ``swapbias audit -M log=FILE``.

    Args:
        study: by name.
        config: of a chat experiment; blank: the usual one of each.

    Raises:
        UsageError: an unknown study, or config of its chat experiments.
    """
    usual, found = ChatOptions(), chat_prompts(study, config)
    first = {prompt.text: prompt for prompt in reversed(found)}
    samples = [_sample(prompt) for prompt in reversed(first.values())]
    return Task(
        dataset=MemoryDataset(samples, name=study),
        scorer=answer_read(study),
        epochs=usual.trials,
        config=GenerateConfig(temperature=usual.temperature, max_tokens=usual.max_tokens),
        version=load_corpus(study).version,
        metadata={"swapbias": __version__, "study": study, "config": config},
    )


def _sample(prompt: Prompt) -> Sample:
    return Sample(
        id=f"{prompt.experiment}/{prompt.prompt_id}",
        input=[_MESSAGES[one["role"]](content=one["content"]) for one in turns(prompt.text)],
        metadata=prompt.row(),
    )


@scorer(name="swapbias", metrics={"*": [grouped(mean(), "experiment", all=False)]})  # type: ignore[untyped-decorator]
def answer_read(study: str) -> Scorer:
    """What audits read in an answer: the score columns of its experiment, NaN where nothing was read."""
    found = {one.name: one for one in load_study(study).experiments if one.kind == CHAT.name}
    readers = {name: _reader(study, one) for name, one in found.items()}
    names = {column.name for one in found.values() for column in CHAT.readings[one.reading].columns}
    blank = dict.fromkeys(sorted(names), math.nan)  # inspect wants the same columns of every sample

    async def score(state: TaskState, target: Target) -> Score:
        prompt = Prompt(**{name: str(state.metadata[name]) for name in PROMPT_COLUMNS})
        value, parts = readers[prompt.experiment](prompt, state.output.completion)
        read = {name: part for name, part in {**parts, "score": value}.items() if name in blank}
        return Score(value={**blank, **read}, answer=state.output.completion)

    return score


def _reader(study: str, experiment: Experiment) -> Read:
    empty = LoggedScorer("", ChatOptions(), (), {})
    reader: Any = CHAT.read(empty, experiment, Request(), corpus=study, training=lambda phenotype, regime: [])
    read: Read = reader.read
    return read


def _registered(study: str) -> None:
    def made(config: str = "") -> Task:
        return study_task(study, config)

    made.__doc__ = load_study(study).title
    task(made, name=study)


for _name in studies():
    if any(_one.kind == CHAT.name for _one in load_study(_name).experiments):
        _registered(_name)
