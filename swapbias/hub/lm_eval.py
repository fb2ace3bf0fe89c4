"""Causal experiments as tasks of lm-evaluation-harness: files that its command runs without this package."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from swapbias import __version__
from swapbias.errors import UsageError, listed, unknown_name
from swapbias.hub.cards import dump, read_yaml
from swapbias.hub.commands import study_name
from swapbias.hub.licences import LICENCES, licences, licences_file
from swapbias.privacy import writing
from swapbias.runs import Run
from swapbias.studies import (
    MASK,
    Corpus,
    Experiment,
    Study,
    catalogue,
    config_rows,
    load_corpus,
    load_lexicon,
    load_study,
    own_studies,
    tables,
)

Doc = dict[str, Any]
CODE = "swapbias_tasks"  # the module beside the tasks
_COLUMNS = ("prompt_id", "pair_id", "group", "construct", "condition", "label", "template")
_READINGS = {  # of an experiment: the function of that module that reads the replies, and what it gives
    "": ("of_text", ("log_probability",)),
    "named_words": ("of_text", ("log_probability",)),
    "answers": ("of_answers", ("score", "log_odds")),
    "antonyms": ("of_antonyms", ("log_odds",)),
    "options": ("of_options", ("score", "per_character")),
    "option_odds": ("of_option_odds", ("score", "per_character")),
}
_WITH_CANDIDATES = ("answers", "options", "option_odds")  # readings of a text with each candidate


def export_study(name: str, out: Path) -> list[Path]:
    """Write the causal experiments of a study as tasks of lm-evaluation-harness.

    A task reads each prompt as audits do (log-odds of two answers, of antonyms, of options; the probability of an
    option; of a text the log-probability after its first word) and shows their mean, and for each contrast the mean
    gap over all prompts.

    Args:
        name: ``study`` or ``study:config``; a study of the user's own is its folder, or OWNER/NAME on the Hub.
        out: a new folder.

    Returns:
        the files that were written.

    Raises:
        UsageError: an unknown study or config, one without causal experiments, a folder that is not empty.
    """
    study, _, config = study_name(name).partition(":")
    chosen = list(_causal_experiments(load_study(study), config))
    Run.check_new(out)
    corpus = load_corpus(study)
    tasks = list[str]()
    code = Path(__file__).with_name("lm_eval_tasks.py")
    files = {f"{CODE}.py": code.read_text(encoding="utf-8")}
    for experiment, configs in chosen:
        task = f"swapbias_{study}_{experiment.name}"
        docs: list[Doc] = []
        for config_name in configs:
            docs += _docs(experiment, config_rows(corpus.name, config_name))
        tasks.append(task)
        files[f"{task}.jsonl"] = "".join(json.dumps(doc, ensure_ascii=False) + "\n" for doc in docs)
        files[f"{task}.yaml"] = _yaml(_task(task, corpus, experiment, configs, docs))
    group = {"group": f"swapbias_{study}", "task": tasks, "metadata": {"version": corpus.version}}
    files[f"swapbias_{study}.yaml"] = _yaml(group)
    exported = {name for _, configs in chosen for name in configs}
    in_use = tuple(config for config in corpus.configs if config.name in exported)
    if (notices := licences_file(replace(corpus, configs=in_use))) is not None:
        files[LICENCES] = notices.decode()
    with writing(out, credentialed=False):
        Run.check_new(out)  # another process may have been first
        for path in sorted(files):
            Run(out).write(path, files[path].encode())
    return [out / path for path in sorted(files)]


def _causal_experiments(study: Study, config: str) -> Iterator[tuple[Experiment, tuple[str, ...]]]:
    """Yield the causal experiments of a study with the configs that each reads; all of them for a blank config."""
    causal = [experiment for experiment in study.experiments if experiment.kind == "causal"]
    if not causal:
        raise UsageError(
            f"{study.name} has no experiment for causal models, which lm-eval runs: expected "
            f"{listed(_causal_studies())}. Name another study."
        )
    configs = []
    for experiment in causal:
        configs += [*experiment.reads.configs, *experiment.reads.alternatives]
    if config and config not in configs:
        raise unknown_name(f"config of causal experiments of {study.name}", config, configs)
    for experiment in causal:
        if not config:
            yield experiment, experiment.reads.configs
        elif config in (*experiment.reads.configs, *experiment.reads.alternatives):
            yield experiment, (config,)


def _causal_studies() -> list[str]:
    """List the studies that have an experiment for causal models."""
    studies = [*catalogue.outlines(), *map(load_study, own_studies())]
    return [
        study.name
        for study in studies
        if any(experiment.kind == "causal" for experiment in study.experiments)
    ]


def _docs(experiment: Experiment, rows: Iterable[Mapping[str, Any]]) -> Iterator[Doc]:
    """Yield what the harness reads of each row: a context, how it may go on, and on which side of a gap it stands."""
    for row in rows:
        group = row["group"]
        gaps = [
            gap
            for gap in experiment.gaps
            if gap.comparison and group in (gap.compares.group, gap.compares.reference)
        ]
        sides = {_contrast(gap): 1 if gap.compares.group == group else -1 for gap in gaps}
        context, choices = context_and_choices(experiment, row)
        units = []
        if not experiment.is_paired:
            units = [row[name] for name in reversed(experiment.design.aggregate)]
        yield {
            **{name: row[name] for name in _COLUMNS},
            "context": context,
            "choices": choices,
            "values": [candidate.value for candidate in row["candidates"]],
            "gaps": list(sides),
            "sides": list(sides.values()),
            "units": units,
        }


def context_and_choices(experiment: Experiment, row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the context of a row and how it may go on.

    Args:
        experiment: a causal experiment.
        row: one of its prompts.

    Returns:
        The context, blank for a whole text, and one continuation or several.
    """
    if experiment.reads.reading in _WITH_CANDIDATES:
        return row["text"], [f" {candidate.text}" for candidate in row["candidates"]]
    # The harness puts BOS or EOS before a blank context, as an audit does.
    if experiment.reads.reading == "antonyms":
        lexicon = row["lexicon"].partition("/")[0]
        words = load_lexicon(f"{lexicon}/antonyms").entries()
        return "", [row["text"].replace(MASK, word) for word, _ in words]
    return "", [row["text"]]


def _contrast(gap: Experiment) -> str:
    """Name the contrast of a gap as a metric of the harness."""
    names = (gap.compares.group, gap.compares.reference)
    return "_minus_".join(re.sub(r"[^A-Za-z0-9]+", "_", name) for name in names)


def _task(
    task: str, corpus: Corpus, experiment: Experiment, configs: Sequence[str], docs: Sequence[Doc]
) -> Doc:
    """Return the content of a task's YAML."""
    function, quantities = _READINGS[experiment.reads.reading]
    study = corpus.study
    same = Path(__file__).with_name("lm_eval_task.yaml")  # of all tasks
    content: Doc = read_yaml(same.read_text(encoding="utf-8"), same.name)
    return content | {
        "task": task,
        "dataset_kwargs": {"file": f"{task}.jsonl"},
        "process_results": f"!function {CODE}.{function}",
        "metric_list": [
            {
                "metric": name,
                "aggregation": f"!function {CODE}.{function_name}",
                "higher_is_better": None,
            }
            for name, function_name in _aggregations(corpus, experiment, quantities, docs).items()
        ],
        "metadata": {
            "version": corpus.version,
            "question": experiment.question,
            "direction": experiment.words.direction,
            "study": study.title if study else "",
            "url": study.url if study else "",
            "licence": ", ".join(licences(corpus)),
            "corpus": corpus.name,
            "configs": list(configs),
            "sha256": tables.fingerprint(
                row for name in configs for row in config_rows(corpus.name, name)
            ),
            "made_by": f"swapbias {__version__}",
        },
    }


def _aggregations(
    corpus: Corpus, experiment: Experiment, quantities: Sequence[str], docs: Sequence[Doc]
) -> dict[str, str]:
    """Return the function that aggregates each metric of a task: the quantities, and the gaps of each."""
    aggregations = dict.fromkeys(quantities, "mean")
    if experiment.comparison is None:
        return aggregations
    function = experiment.comparison.harness
    if not function:
        raise UsageError(
            f"{corpus.name} {experiment.name} compares by {experiment.compares.measure}, which no task of lm-eval "
            "computes. Name another study."
        )
    gaps = dict.fromkeys(gap for doc in docs for gap in doc["gaps"])
    for quantity in quantities:
        for gap in gaps:
            aggregations[f"{quantity}_{gap}"] = function
    return aggregations


def _yaml(content: Mapping[str, Any]) -> str:
    """Write YAML in which a function stands by its bare name, as the harness reads it."""
    return re.sub(r"'(!function \S+)'", r"\1", dump(dict(content)))
