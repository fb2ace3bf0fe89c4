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
    """Return the experiments of a study whose prompts a chat model answers as they stand.

    Args:
        study: a study of the package.

    Returns:
        Experiments of chat models without notes.
    """
    return [
        experiment
        for experiment in study.experiments
        if experiment.kind == "chat" and not experiment.reads.notes.corpus
    ]


def chat_prompts(study: str) -> dict[str, Prompt]:
    """Return the prompts of a study's chat experiments.

    Args:
        study: its name.

    Returns:
        Prompts by the name of a sample: experiment and prompt.
    """
    rows = []
    for experiment in chat_experiments(load_study(study)):
        for config in experiment.reads.configs:
            for row in config_rows(study, config):
                rows.append({**row, "experiment": experiment.name})
    return {f"{prompt.experiment}/{prompt.prompt_id}": prompt for prompt in as_prompts(rows)}


def study_task(study: str) -> Task:
    """Return the chat experiments of a study as a task, with the defaults of audits; trials are epochs.

    Args:
        study: its name.

    Returns:
        A task of inspect_ai.
    """
    defaults = ChatOptions()
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
        epochs=defaults.trials,
        config=GenerateConfig(temperature=defaults.temperature, max_tokens=defaults.max_tokens),
        version=load_corpus(study).version,
        metadata={"swapbias": __version__, "study": study},
    )


@scorer(metrics=[grouped(mean(), "group", all=False)])
def read_answers(study: str) -> Scorer:
    """Return a scorer that reads answers as audits do (NaN: it cannot be read), with the mean of each group.

    Args:
        study: its name.

    Returns:
        A scorer of inspect_ai.
    """
    prompts = chat_prompts(study)
    readers = {}
    for experiment in chat_experiments(load_study(study)):
        reads = experiment.reads
        readers[experiment.name] = answer_scores.answer_reader(reads.reading, reads.aliases)

    async def score(state: TaskState, target: Target) -> Score:
        prompt = prompts[str(state.sample_id)]
        text = state.output.completion
        cut = state.output.stop_reason == "max_tokens"
        value, parts = readers[prompt.experiment](prompt, text, cut=cut)
        return Score(value=value, answer=text, metadata=dict(parts))

    return score


def _register(study: Study) -> None:
    """Let inspect_ai find the task of a study by its name."""

    def make_task() -> Task:
        return study_task(study.name)

    make_task.__doc__ = study.title
    task(make_task, name=study.name)


for _outline in catalogue.outlines():
    if chat_experiments(_outline):
        _register(_outline)
