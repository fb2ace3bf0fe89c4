"""The chat experiments of every study as tasks of inspect_ai: importing this registers them (``inspect eval``)."""

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer
from inspect_ai.solver import TaskState

from swapbias import __version__
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.studies import (
    Experiment,
    Prompt,
    Study,
    answer_scores,
    as_prompts,
    catalogue,
    chats,
    config_rows,
    load_corpus,
    load_study,
)


def chat_experiments(study: Study) -> list[Experiment]:
    """The experiments of a study whose prompts a chat model answers as they stand."""
    return [one for one in study.experiments if one.kind == "chat" and not one.reads.notes.corpus]


def chat_prompts(study: str) -> dict[str, Prompt]:
    """The prompts of these experiments, by the name of a sample: experiment and prompt."""
    found = [
        (one, name) for one in chat_experiments(load_study(study)) for name in one.reads.configs
    ]
    rows = [
        {**row, "experiment": one.name} for one, name in found for row in config_rows(study, name)
    ]
    return {f"{one.experiment}/{one.prompt_id}": one for one in as_prompts(rows)}


def study_task(study: str) -> Task:
    """The chat experiments of a study with the defaults of audits; trials are epochs."""
    usual = ChatOptions()
    samples = [
        Sample(
            id=name,
            input=chats.turns(prompt.text),  # made to messages there
            metadata={"group": f"{prompt.experiment}/{prompt.group}"},
        )
        for name, prompt in chat_prompts(study).items()
    ]
    return Task(
        dataset=MemoryDataset(samples, name=study),
        scorer=read_answers(study),
        epochs=usual.trials,
        config=GenerateConfig(temperature=usual.temperature, max_tokens=usual.max_tokens),
        version=load_corpus(study).version,
        metadata={"swapbias": __version__, "study": study},
    )


@scorer(metrics=[grouped(mean(), "group", all=False)])
def read_answers(study: str) -> Scorer:
    """The score of an answer as audits read it (what cannot be read has none), and the mean of each group."""
    prompts = chat_prompts(study)
    readers = {
        one.name: answer_scores.answer_reader(one.reads.reading, one.reads.aliases)
        for one in chat_experiments(load_study(study))
    }

    async def score(state: TaskState, target: Target) -> Score:
        prompt = prompts[str(state.sample_id)]
        text = state.output.completion
        cut = state.output.stop_reason == "max_tokens"
        value, parts = readers[prompt.experiment](prompt, text, cut=cut)
        return Score(value=value, answer=text, metadata=dict(parts))

    return score


def _register(study: Study) -> None:
    def made() -> Task:
        return study_task(study.name)

    made.__doc__ = study.title
    task(made, name=study.name)


for _outline in catalogue.outlines():
    if chat_experiments(_outline):
        _register(_outline)
