"""The causal and chat experiments of every study as custom tasks of lighteval, which reads ``TASKS_TABLE``."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import CorpusLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

from swapbias.errors import UsageError
from swapbias.files import cache_dir, write_whole
from swapbias.hub import lm_eval_tasks
from swapbias.hub.harness_scores import gaps_with_intervals, prompt_experiments, rows_by_name
from swapbias.hub.lm_eval import context_and_choices
from swapbias.models import Scored
from swapbias.models.chat import ChatOptions, chat_kind
from swapbias.studies import (
    Experiment,
    Prompt,
    Row,
    Study,
    answer_scores,
    as_prompts,
    catalogue,
    chats,
    load_corpus,
    tables,
)

_LONG_ANSWER = 200  # tokens of an answer in free text
_SPLIT = "test"
_READ_LOG_PROBS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "": lm_eval_tasks.of_text,
    "named_words": lm_eval_tasks.of_text,
    "answers": lm_eval_tasks.of_answers,
    "antonyms": lm_eval_tasks.of_antonyms,
    "options": lm_eval_tasks.of_options,
    "option_odds": lm_eval_tasks.of_option_odds,
}


@dataclass(frozen=True)
class ExperimentPrompts:
    """The prompts of one experiment, loaded on first use."""

    study: str
    """Name of the study."""
    experiment: Experiment
    """The experiment as its study declares it."""

    @property
    def is_chat(self) -> bool:
        """Tell whether a chat model answers them; else a causal model reads them."""
        return self.experiment.kind == "chat"

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Return the prompts by name."""
        return rows_by_name(self.study, [self.experiment])

    @cached_property
    def prompts(self) -> dict[str, Prompt]:
        """Return the prompts as readers of answers take them."""
        return dict(zip(self.rows, as_prompts(self.rows.values()), strict=True))

    @property
    def answer_tokens(self) -> int:
        """Return the most tokens of an answer."""
        if self.experiment.reads.reading in chat_kind.FREE_TEXT:
            return _LONG_ANSWER
        return ChatOptions().max_tokens

    def write(self) -> str:
        """Write the prompts to the cache as a data set of one split.

        Returns:
            The folder, whose name is a hash of the rows.

        Raises:
            UsageError: A prompt has several turns, which lighteval cannot ask.
        """
        lines = [json.dumps(line, ensure_ascii=False) for line in self._lines()]
        digest = tables.fingerprint(self.rows.values())
        folder = cache_dir() / "lighteval" / f"{self.study}-{self.experiment.name}-{digest[:16]}"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{_SPLIT}.jsonl", "".join(f"{line}\n" for line in lines).encode())
        return str(folder)

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Yield what lighteval reads of each prompt."""
        texts: dict[str, list[str]] = defaultdict(list)
        for row in self.rows.values():
            texts[row["pair_id"]].append(row["text"])
        for name, row in self.rows.items():
            if self.is_chat:
                yield {"name": name, "context": self._question(row), "choices": []}
                continue
            context, choices = context_and_choices(self.experiment, row)
            if not context:
                all_texts = choices if len(choices) > 1 else texts[row["pair_id"]]
                context = _shared_start(all_texts)
            yield {
                "name": name,
                "context": context,
                "choices": [choice.removeprefix(context) for choice in choices],
            }

    def _question(self, row: Row) -> str:
        """Return the only turn of a prompt."""
        turns = chats.turns(row["text"])
        if len(turns) > 1:
            raise UsageError(
                f"{self.study}:{self.experiment.name} asks in several turns, and lighteval in one. "
                f"Run inspect eval swapbias/{self.study}."
            )
        return turns[0]["content"]


def _shared_start(texts: Sequence[str]) -> str:
    """Return the words that texts begin with alike, their last ones apart: they add the same to each probability."""
    shared: list[str] = []
    for words in zip(*(text.split(" ")[:-1] for text in texts), strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return " ".join(shared)


@dataclass
class ScoreOfPrompt(SampleLevelComputation):  # type: ignore[misc]
    """Reads what a model gave to a prompt as an audit does."""

    prompts: ExperimentPrompts
    """The prompts that are scored."""

    def compute(self, model_response: Any, doc: Doc, **unused: Any) -> dict[str, Any]:
        """Return the name of a prompt, its score and further score columns.

        Args:
            model_response: the log-probabilities of choices, or one answer.
            doc: the prompt.
            unused: what lighteval passes besides.
        """
        name = doc.specific["name"]
        if self.prompts.is_chat:
            score, parts = self._read_answer(name, model_response)
        else:
            values = self._read_log_probs(name, model_response)
            score = values.pop("score", next(iter(values.values())))
            parts = values
        return {"name": name, "score": score, "parts": dict(parts)}

    def _read_answer(self, name: str, response: Any) -> tuple[float, Mapping[str, float]]:
        reads = self.prompts.experiment.reads
        read = answer_scores.answer_reader(reads.reading, reads.aliases)
        is_cut = _ends_at_limit(response.output_tokens, self.prompts.answer_tokens)
        return read(self.prompts.prompts[name], response.final_text[0], cut=is_cut)

    def _read_log_probs(self, name: str, response: Any) -> dict[str, float]:
        results = [(float(value), False) for value in response.logprobs]
        read = _READ_LOG_PROBS[self.prompts.experiment.reads.reading]
        options = self.prompts.prompts[name].candidates
        doc = {
            "gaps": (),
            "sides": (),
            "values": [option.value for option in options],
            "choices": [option.text for option in options],
        }
        return read(doc, results)


def _ends_at_limit(output_tokens: Sequence[Sequence[int]], most: int) -> bool:
    """Tell whether an answer was cut off: at the limit, and without the padding of an answer that ended before."""
    if not output_tokens:
        return False
    tokens = [int(token) for token in output_tokens[0]]
    is_padded = len(tokens) > 1 and tokens[-1] == tokens[-2]
    return len(tokens) >= most and not is_padded


@dataclass(frozen=True)
class GapsOfExperiment:
    """Finds the gaps of an experiment in the scores of its prompts."""

    prompts: ExperimentPrompts
    """The prompts that were scored."""

    def __call__(self, items: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Return the number of prompts with a score, and each primary gap with both ends of its interval.

        lighteval adds no standard error to numbers by name: its own takes prompts as independent.

        Args:
            items: what ``ScoreOfPrompt`` gave for each prompt.
        """
        scores = {item["name"]: [Scored(item["score"], parts=item["parts"])] for item in items}
        count = sum(not math.isnan(item["score"]) for item in items)
        name = f"scored/{self.prompts.study}_{self.prompts.experiment.name}"
        return {name: float(count), **gaps_with_intervals(self.prompts.study, scores)}


class ExperimentTask(LightevalTaskConfig):  # type: ignore[misc]
    """The task of one experiment; its prompts are written where lighteval loads them once it is run."""

    def __init__(self, prompts: ExperimentPrompts) -> None:
        """Describe the task.

        Args:
            prompts: the prompts of the experiment.
        """
        self._prompts = prompts
        is_chat = prompts.is_chat
        score = CorpusLevelMetric(
            metric_name="gaps",
            higher_is_better=False,
            category=SamplingMethod.GENERATIVE if is_chat else SamplingMethod.LOGPROBS,
            sample_level_fn=ScoreOfPrompt(prompts),
            corpus_level_fn=GapsOfExperiment(prompts),
        )
        super().__init__(
            name=f"swapbias_{prompts.study}_{prompts.experiment.name}",
            prompt_function=_doc,
            hf_repo="",
            hf_subset="default",
            hf_avail_splits=[_SPLIT],
            evaluation_splits=[_SPLIT],
            few_shots_split=_SPLIT,
            metrics=[score],
            generation_size=prompts.answer_tokens if is_chat else None,
            version=load_corpus(prompts.study).version,
        )

    @property
    def hf_repo(self) -> str:
        """Return the folder of the prompts."""
        return self._prompts.write()

    @hf_repo.setter
    def hf_repo(self, value: str) -> None:
        """Ignore what lighteval sets.

        Args:
            value: not read.
        """


def _doc(line: Mapping[str, Any], task_name: str | None = None) -> Doc:
    """Return a prompt as lighteval reads it."""
    return Doc(
        task_name=task_name or "",
        query=line["context"],
        choices=line["choices"],
        gold_index=[],
        specific={"name": line["name"]},
    )


def _tasks(study: Study) -> Iterator[ExperimentTask]:
    """Yield the tasks of a study."""
    for kind in ("causal", "chat"):
        for experiment in prompt_experiments(study, kind):
            yield ExperimentTask(ExperimentPrompts(study.name, experiment))


TASKS_TABLE = [task for study in catalogue.outlines() for task in _tasks(study)]
