"""Causal experiments as tasks of lm-evaluation-harness: files that its command runs without this package."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swapbias import __version__
from swapbias.errors import UsageError, listed, unknown_name
from swapbias.hub.cards import dump, read_yaml
from swapbias.hub.datasets import LICENCES, licences, licences_file
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
    "answers": ("of_answers", ("score", "log_odds")),
    "antonyms": ("of_antonyms", ("log_odds",)),
}


def export_study(name: str, out: Path) -> list[Path]:
    """Write the causal experiments of a study (``study`` or ``study:config``) as tasks of lm-evaluation-harness.

    A task reads the log-odds of each prompt as audits do (of two answers, of antonyms; of a text the log-probability
    after its first word) and shows their mean, and for each contrast the mean gap over all prompts. UsageError: an
    unknown study or config, one without causal experiments, a folder that is not empty.
    """
    study, _, config = name.partition(":")
    chosen = list(_chosen(load_study(study), config))
    Run.check_new(out)
    corpus = load_corpus(study)
    tasks = list[str]()
    files = {f"{CODE}.py": Path(__file__).with_name("lm_eval_tasks.py").read_text(encoding="utf-8")}
    for experiment, configs in chosen:
        task = f"swapbias_{study}_{experiment.name}"
        docs = [doc for one in configs for doc in _docs(experiment, config_rows(corpus.name, one))]
        tasks.append(task)
        files[f"{task}.jsonl"] = "".join(json.dumps(doc, ensure_ascii=False) + "\n" for doc in docs)
        files[f"{task}.yaml"] = _yaml(_task(task, corpus, experiment, configs, docs))
    group = {"group": f"swapbias_{study}", "task": tasks, "metadata": {"version": corpus.version}}
    files[f"swapbias_{study}.yaml"] = _yaml(group)
    if (notices := licences_file(corpus)) is not None:
        files[LICENCES] = notices.decode()
    with writing(out, credentialed=False):
        Run.check_new(out)  # another process may have been first
        for path in sorted(files):
            Run(out).write(path, files[path].encode())
    return [out / path for path in sorted(files)]


def _chosen(study: Study, config: str) -> Iterator[tuple[Experiment, tuple[str, ...]]]:
    """The causal experiments of a study with the configs that each reads."""
    causal = [one for one in study.experiments if one.kind == "causal"]
    if not causal:
        known_studies = [*catalogue.outlines(), *map(load_study, own_studies())]
        able = [
            one.name
            for one in known_studies
            if any(two.kind == "causal" for two in one.experiments)
        ]
        raise UsageError(
            f"{study.name} has no experiment for causal models, which lm-eval runs: expected {listed(able)}. "
            "Name another study."
        )
    known = [name for one in causal for name in (*one.reads.configs, *one.reads.alternatives)]
    if config and config not in known:
        raise unknown_name(f"config of causal experiments of {study.name}", config, known)
    for one in causal:
        if not config or config in (*one.reads.configs, *one.reads.alternatives):
            yield one, (config,) if config else one.reads.configs


def _docs(experiment: Experiment, rows: Iterable[Mapping[str, Any]]) -> Iterator[Doc]:
    """What the harness reads of each row: a context, how it may go on, and on which side of a gap it stands."""
    for row in rows:
        # the harness puts BOS or EOS before it, as an audit does
        context = ""
        choices = [row["text"]]
        if experiment.reads.reading == "answers":
            context = row["text"]
            choices = [f" {one.text}" for one in row["candidates"]]
        elif experiment.reads.reading == "antonyms":
            words = load_lexicon(f"{row['lexicon'].partition('/')[0]}/antonyms").entries()
            choices = [row["text"].replace(MASK, word) for word, _ in words]
        gaps = {
            _contrast(one): one
            for one in experiment.gaps
            if row["group"] in (one.compares.group, one.compares.reference)
        }
        yield {
            **{name: row[name] for name in _COLUMNS},
            "context": context,
            "choices": choices,
            "gaps": list(gaps),
            "sides": [1 if one.compares.group == row["group"] else -1 for one in gaps.values()],
            "units": []
            if experiment.is_paired
            else [row[name] for name in reversed(experiment.design.aggregate)],
        }


def _contrast(one: Experiment) -> str:
    return "_minus_".join(
        re.sub(r"[^A-Za-z0-9]+", "_", name) for name in (one.compares.group, one.compares.reference)
    )


def _task(
    task: str, corpus: Corpus, experiment: Experiment, configs: Sequence[str], docs: Sequence[Doc]
) -> Doc:
    function, quantities = _READINGS[experiment.reads.reading]
    gaps = list(dict.fromkeys(name for doc in docs for name in doc["gaps"]))
    metrics = dict.fromkeys(quantities, "mean")
    if experiment.comparison is not None:
        if not experiment.comparison.harness:
            compares = f"{corpus.name} {experiment.name} compares by {experiment.compares.measure}"
            raise UsageError(f"{compares}, which no task of lm-eval computes. Name another study.")
        metrics |= {
            f"{name}_{gap}": experiment.comparison.harness for name in quantities for gap in gaps
        }
    study = corpus.study
    same = Path(__file__).with_name("lm_eval_task.yaml")  # of all tasks
    read: Doc = read_yaml(same.read_text(encoding="utf-8"), same.name)
    return read | {
        "task": task,
        "dataset_kwargs": {"file": f"{task}.jsonl"},
        "process_results": f"!function {CODE}.{function}",
        "metric_list": [
            {"metric": name, "aggregation": f"!function {CODE}.{how}", "higher_is_better": None}
            for name, how in metrics.items()
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
                row for one in configs for row in config_rows(corpus.name, one)
            ),
            "made_by": f"swapbias {__version__}",
        },
    }


def _yaml(content: Mapping[str, Any]) -> str:
    """YAML in which a function stands by its name alone, as the harness reads it."""
    return re.sub(r"'(!function \S+)'", r"\1", dump(dict(content)))
