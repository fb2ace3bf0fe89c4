"""eval.yaml of a dataset: the tasks that entries of ``.eval_results`` name, as the Hub reads benchmarks."""

from collections.abc import Collection
from typing import Any

from swapbias.hub.cards import dump
from swapbias.studies import Config, Corpus, catalogue, studies

BENCHMARK = "eval.yaml"


def benchmark_file(corpus: Corpus, published: Collection[str]) -> bytes:
    """Write the file that a dataset needs to become a benchmark of the Hub.

    It names no ``evaluation_framework``: the Hub takes those of its own list alone, and swapbias is not on it.

    Args:
        corpus: the corpus.
        published: the names of its published configs.

    Returns:
        YAML with a task for each experiment that reads these; empty where none does.
    """
    configs = {config.name: config for config in corpus.configs if config.name in published}
    tasks: dict[str, dict[str, str]] = {}
    for name in studies():
        for experiment in catalogue.outline(name).experiments:
            read = [configs[config] for config in experiment.reads.configs if config in configs]
            if read and (experiment.reads.notes.corpus or name) == corpus.name:
                tasks.setdefault(experiment.name, _task(experiment.name, read[0]))
    if not tasks:
        return b""
    benchmark: dict[str, Any] = {
        "name": corpus.name,
        "description": corpus.title,
        "tasks": list(tasks.values()),
    }
    return dump(benchmark).encode()


def _task(name: str, config: Config) -> dict[str, str]:
    """Return a task: its name is that of the experiment, its rows are those of a config."""
    return {
        "id": name,
        "config": config.name,
        "split": published_split(config),
    }


def published_split(config: Config) -> str:
    """Return the split of a published config, of several the one that audits read.

    Args:
        config: the config.
    """
    return "test" if config.split_column else config.split
