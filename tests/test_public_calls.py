"""Arguments of another type than a public function takes: one sentence that names argument and type."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import swapbias
from swapbias.errors import UsageError
from swapbias.files import write_whole
from swapbias.measures import share_above
from swapbias.studies import load_corpus

SCORES = pd.DataFrame({"score": [0.5]})
CALLS = {
    "load_prompts": (lambda value: swapbias.load_prompts(value), "corpus", "a text"),
    "dataset_builder": (
        lambda value: swapbias.dataset_builder("bbq", value),
        "config",
        "a text or None",
    ),
    "load_study": (lambda value: swapbias.load_study(value), "name", "a text"),
    "metric_path": (lambda value: swapbias.metric_path(value), "name", "a text"),
    "load_corpus": (lambda value: load_corpus(value), "name", "a text"),
    "read_answer": (lambda value: swapbias.read_answer(value, ["a"]), "answer", "a text or None"),
    "disaggregate": (
        lambda value: swapbias.disaggregate(SCORES, value),
        "study",
        "a Study or a text",
    ),
    "load_scorer": (
        lambda value: swapbias.load_scorer(len, name=value),
        "name",
        "a text or None",
    ),
    "open": (lambda value: swapbias.Audit.open(value), "folder", "a text or a path"),
}
WRONG = {"list": ["a"], "dict": {"a": 1}, "set": {"a"}, "object": object()}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("call", CALLS)
def test_value_of_another_type(call, wrong):
    """A list, dict, set or object in place of a text is refused by its type, and not shown."""
    function, name, expected = CALLS[call]
    with pytest.raises(UsageError) as refused:
        function(WRONG[wrong])
    assert str(refused.value) == f"{name} is a {wrong}, expected {expected}. Change {name}."


NUMBERS = [0.1, 0.2, 0.3, 0.4]
COLUMNS = {
    "p_values": lambda value: swapbias.adjust(value),
    "scores": lambda value: swapbias.group_gap(value, ["a", "a", "b", "b"], reference_group="a"),
    "groups": lambda value: swapbias.group_gap(NUMBERS, value, reference_group="a"),
}


@pytest.mark.parametrize("value", [None, 7, Path("a"), 1.5], ids=["None", "int", "path", "float"])
@pytest.mark.parametrize("name", COLUMNS)
def test_column_of_another_type(name, value):
    """A single value in place of a column is refused by the name of the argument."""
    with pytest.raises(
        UsageError, match=rf"^{name} is a \w+, expected a list.*\. Change {name}\.$"
    ):
        COLUMNS[name](value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": ["a"]}, "seed is a list, expected a whole number. Change seed."),
        ({"seed": True}, "seed is a bool, expected a whole number. Change seed."),
        ({"margin": "0.05"}, "margin is a str, expected a number or None. Change margin."),
        ({"robustness": "no"}, "robustness is a str, expected True or False. Change robustness."),
        ({"expected": 5}, "expected is a int, expected a dict or None. Change expected."),
    ],
    ids=["seed", "truth", "margin", "robustness", "expected"],
)
def test_numbers_of_another_type(options, message):
    """A setting of another type is refused, not taken for its truth."""
    prompts = swapbias.load_prompts("occupation_sentiment", "control").select(range(8))
    scores = swapbias.score_prompts(prompts, swapbias.load_scorer(lambda texts: [0.5] * len(texts)))
    with pytest.raises(UsageError) as refused:
        swapbias.disaggregate(scores, "occupation_sentiment", **options)
    assert str(refused.value) == message


def test_types_that_fit():
    """NumPy's numbers, columns of any library and subclasses of texts are taken."""

    class Name(str):
        pass

    assert swapbias.load_study(Name("bbq")).name == "bbq"
    assert share_above(np.array(NUMBERS), threshold=np.float32(0.25)).value == 0.5
    assert share_above(pd.Series(NUMBERS), threshold=0).value == 1.0
    assert share_above(range(4), threshold=1).value == 0.75  # 1, 2 and 3
    gap = swapbias.group_gap(
        tuple(NUMBERS), pd.Series(["a", "a", "b", "b"]), reference_group=np.str_("a")
    )
    assert gap.value == pytest.approx(0.2)


@pytest.mark.parametrize("ids", [{"pair": 1}, [["a"], ["b"]] * 2], ids=["number", "lists"])
def test_ids_of_another_type(ids):
    """Ids that are a number, or lists, are told with their name."""
    with pytest.raises(ValueError, match=r"cluster_ids.*expected"):
        swapbias.group_gap(NUMBERS, ["a", "a", "b", "b"], reference_group="a", cluster_ids=ids)


def test_fault_within_a_call():
    """What goes wrong inside a function of the user's is raised as it is."""

    def broken(done):
        raise KeyError("inside")

    prompts = swapbias.load_prompts("occupation_sentiment", "control").select(range(8))
    scorer = swapbias.load_scorer(lambda texts: [0.5] * len(texts))
    with pytest.raises(KeyError, match="inside"):
        swapbias.score_prompts(prompts, scorer, on_progress=broken)


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_path_without_a_name(name):
    """A path without the name of a file is a folder, for which nothing is written."""
    with pytest.raises(IsADirectoryError):
        write_whole(Path(name), b"")


def test_device_is_not_replaced(tmp_path):
    """A pipe stays where a file is to be written in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="pipe is a pipe, a socket or a device"):
        write_whole(pipe, b"a")
    assert pipe.is_fifo()
    assert [*tmp_path.iterdir()] == [pipe]
