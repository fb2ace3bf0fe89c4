"""eval.yaml: tasks by the names that entries of results have, in the form that the Hub documents."""

import pytest
import yaml

from swapbias.hub.benchmark_file import BENCHMARK, benchmark_file
from swapbias.hub.client import Hub
from swapbias.hub.datasets import push_dataset
from swapbias.hub.eval_results import eval_entries
from swapbias.studies import corpora, load_corpus
from tests.hub.shared_runs import GAP, MANIFEST

NAME = "occupation_sentiment"
KEY = ("dataset", f"alice/{NAME}")


@pytest.mark.parametrize("name", corpora())
def test_tasks_of_a_corpus(name):
    """Each task has one id, and reads a config and a split that the corpus has."""
    corpus = load_corpus(name)
    configs = {config.name: config for config in corpus.configs}
    content = yaml.safe_load(benchmark_file(corpus, configs))
    if content is None:
        return
    assert list(content) == [
        "name",
        "description",
        "tasks",
    ]  # no framework: swapbias is not on the list
    ids = [task["id"] for task in content["tasks"]]
    assert len(ids) == len(set(ids)) > 0
    for task in content["tasks"]:
        assert list(task) == ["id", "config", "split"]
        config = configs[task["config"]]
        assert config.split_column or task["split"] == config.split


def test_unpublished_configs():
    """An experiment whose configs are not published is no task."""
    corpus = load_corpus("gendered_stigma")
    tasks = yaml.safe_load(benchmark_file(corpus, ["rq2"]))["tasks"]
    assert tasks == [{"id": "rq2", "config": "rq2", "split": "test"}]
    assert benchmark_file(corpus, []) == b""


def test_entries_name_tasks():
    """The task of an entry of results is one of its dataset's file."""
    options = {"namespace": "me", "revisions": {"gendered_stigma": "b" * 40}}
    (entry,) = eval_entries([GAP], MANIFEST, source_url="https://a.b", source_user="me", **options)
    corpus = load_corpus("gendered_stigma")
    tasks = yaml.safe_load(benchmark_file(corpus, [config.name for config in corpus.configs]))
    assert entry["dataset"]["task_id"] in [task["id"] for task in tasks["tasks"]]


def test_refused_benchmark(hub):
    """A dataset whose file the Hub refuses is pushed without it; pushing again is no difference."""
    hub.fail("POST", r"/api/datasets/.*/commit/", status=400)
    done = push_dataset(Hub(), NAME, namespace="alice", say=str)
    assert done.status == f"created without {BENCHMARK}, which the Hub refused"
    assert BENCHMARK not in hub.files(*KEY)
    assert hub.tags(*KEY)
    assert push_dataset(Hub(), NAME, namespace="alice", say=str).status == "unchanged"
