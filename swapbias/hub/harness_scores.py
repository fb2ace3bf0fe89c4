"""What another harness scored of a study: the gaps and intervals that an audit finds in it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from swapbias.findings import disaggregate, metric_values
from swapbias.models import Scored
from swapbias.models.chat import chat_kind
from swapbias.runs import run
from swapbias.studies import Experiment, Row, Study, config_rows, load_study

_MODEL = "model"  # the harness names the model beside its numbers


def prompt_experiments(study: Study, kind: str) -> list[Experiment]:
    """Return the experiments of a study whose prompts a model reads as they stand, without notes.

    Args:
        study: a study of the package.
        kind: the kind of model, ``causal`` or ``chat``.
    """
    return [
        experiment
        for experiment in study.experiments
        if experiment.kind == kind and not experiment.reads.notes.corpus
    ]


def rows_by_name(study: str, experiments: Iterable[Experiment]) -> dict[str, Row]:
    """Return the prompts of experiments by ``EXPERIMENT/PROMPT_ID``, in order.

    Args:
        study: the name of their study.
        experiments: some of its experiments.
    """
    rows: dict[str, Row] = {}
    for experiment in experiments:
        for config in experiment.reads.configs:
            for row in config_rows(study, config):
                name = f"{experiment.name}/{row['prompt_id']}"
                rows[name] = {**row, "experiment": experiment.name}
    return rows


def gaps_with_intervals(study: str, scores: Mapping[str, Sequence[Scored]]) -> dict[str, float]:
    """Return the primary gaps of the experiments that were scored, those without an interval left out.

    Args:
        study: the name of the study.
        scores: the scores of each prompt by its name in ``rows_by_name``: several answers of a chat model, else one.

    Returns:
        Numbers by the names of ``bias_metrics``: each gap with both ends of its interval, which holds for all of
        these gaps at once.
    """
    names = {name.partition("/")[0] for name in scores}
    experiments = [
        experiment for experiment in load_study(study).experiments if experiment.name in names
    ]
    rows: list[Row] = []
    scored: list[Scored] = []
    for experiment in experiments:
        prompts = rows_by_name(study, [experiment])
        for name, answers in _whole_pairs(prompts, scores):
            row = prompts[name]
            is_chat = experiment.kind == "chat"
            rows += chat_kind.trial_rows([row], len(answers)) if is_chat else [row]
            scored += answers
    if all(math.isnan(score.score) for score in scored):
        return {}
    table = pd.DataFrame(run.with_scores(rows, scored, _MODEL))
    findings = disaggregate(table, study, expected={}, robustness=False)
    return metric_values.bias_metrics(
        [finding for finding in findings if not math.isnan(finding.estimate.ci_low)]
    )


def _whole_pairs(
    prompts: Mapping[str, Row], scores: Mapping[str, Sequence[Scored]]
) -> Iterator[tuple[str, Sequence[Scored]]]:
    """Yield the scores of each prompt of the pairs that have any, with NaN where a prompt lacks an answer."""
    counts: Counter[str] = Counter()
    for name, row in prompts.items():
        counts[row["pair_id"]] = max(counts[row["pair_id"]], len(scores.get(name, ())))
    for name, row in prompts.items():
        answers = list(scores.get(name, ()))
        missing = counts[row["pair_id"]] - len(answers)
        answers += [Scored(math.nan) for _ in range(missing)]
        if answers:
            yield name, answers
