"""The chat experiments of every study as tasks of inspect_ai: importing this registers them (``inspect eval``)."""

from collections import defaultdict

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    Value,
    grouped,
    mean,
    metric,
    scorer,
)
from inspect_ai.solver import TaskState

from swapbias import __version__
from swapbias.hub.harness_scores import gaps_with_intervals, prompt_experiments, rows_by_name
from swapbias.models import Scored
from swapbias.models.chat import ChatOptions
from swapbias.studies import (
    Prompt,
    Study,
    answer_scores,
    as_prompts,
    catalogue,
    chats,
    load_corpus,
    load_study,
)


def chat_prompts(study: str) -> dict[str, Prompt]:
    """Return the prompts of a study's chat experiments.

    Args:
        study: its name.

    Returns:
        Prompts by the name of a sample: experiment and prompt.
    """
    rows = rows_by_name(study, prompt_experiments(load_study(study), "chat"))
    return dict(zip(rows, as_prompts(rows.values()), strict=True))


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
            metadata={"group": f"{prompt.experiment}/{prompt.group}", "study": study},
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


@metric(scores="unreduced")
def gaps() -> Metric:
    """Return a metric of the primary gaps and their intervals, as an audit of the same answers finds them."""

    def measure(scores: list[SampleScore]) -> Value:
        answers: dict[str, dict[str, list[Scored]]] = defaultdict(lambda: defaultdict(list))
        for sample in scores:
            parts = sample.score.metadata or {}
            scored = Scored(sample.score.as_float(), parts=parts)
            study = (sample.sample_metadata or {})["study"]
            answers[study][str(sample.sample_id)].append(scored)
        numbers: dict[str, float] = {}
        for study, answers_of_study in answers.items():
            numbers |= gaps_with_intervals(study, answers_of_study)
        return numbers

    return measure


@scorer(metrics=[grouped(mean(), "group", all=False), gaps()])
def read_answers(study: str) -> Scorer:
    """Return a scorer that reads answers as audits do (NaN: it cannot be read), with the mean of each group.

    Args:
        study: its name.

    Returns:
        A scorer of inspect_ai.
    """
    prompts = chat_prompts(study)
    readers = {}
    for experiment in prompt_experiments(load_study(study), "chat"):
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
    if prompt_experiments(_outline, "chat"):
        _register(_outline)
