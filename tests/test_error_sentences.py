"""No error holds an empty list, two full stops, a list as Python writes it, or a placeholder for what is known."""

import ast
import re

import pandas as pd
import pytest

import swapbias
from swapbias.errors import listed
from swapbias.runs import Settings, plan_tasks
from swapbias.studies import check_study, load_prompts, open_study
from swapbias.studies.study import unknown
from tests.conftest import ROOT

FILES = sorted((ROOT / "swapbias").rglob("*.py"))
# A list that is empty, an end that stands twice, brackets of Python, what is to be filled in though it is known.
BROKEN = re.compile(
    r"(?<!\.)\.\s*\.(?!\.)|[:,;]\s*\.|\b(one of|expected|has)\s*[.,;:]|\[\]|\(\)|\{\}|none of\s*\.|  |--resume DIR"
)
PROMPTS = pd.DataFrame({"text": ["He ran.", "She ran."], "group": ["male", "female"], "pair": ["a", "a"]})


def scored(rows):
    return pd.DataFrame(rows, columns=["prompt_id", "pair_id", "group", "experiment", "model_id", "text", "score"])


WRONG = {
    "a name among none": lambda: (_ for _ in ()).throw(unknown("group", "x", [])),
    "scores without rows": lambda: swapbias.disaggregate(scored([]), "occupation_sentiment"),
    "scores of another study": lambda: swapbias.disaggregate(
        scored([("1", "1", "male", "other", "m", "", 0.1)]), "occupation_sentiment"
    ),
    "an unknown study": lambda: load_prompts("no_study"),
    "an unknown config": lambda: load_prompts("gendered_stigma", "no_config"),
    "prompts without rows": lambda: open_study(PROMPTS[:0], reference="male"),
    "prompts without columns": lambda: open_study(pd.DataFrame(), reference="male"),
    "prompts of one group": lambda: open_study(PROMPTS[:1], reference="male"),
    "prompts without a reference": lambda: open_study(PROMPTS),
    "prompts without texts": lambda: open_study(PROMPTS.drop(columns="text"), reference="male"),
    "prompts of a wrong reference": lambda: open_study(PROMPTS, reference="mal"),
    "prompts that are no table": lambda: open_study(3, reference="male"),
    "a study that a model does not fit": lambda: plan_tasks(
        Settings(model="vader", studies=("social_distance:attitude",))
    ),
    "an unknown measure": lambda: swapbias.metric_path("gap"),
    "no group": lambda: swapbias.paired_gap([], [], [], reference_group="m"),
    "an own study of the wrong kind": lambda: swapbias.audit("vader", prompts=PROMPTS.assign(text="a <mask> b")),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_sentence_about_wrong_input_is_whole(case):
    with pytest.raises((ValueError, KeyError)) as raised:
        WRONG[case]()
    assert not BROKEN.search(str(raised.value)), str(raised.value)


def test_faults_of_a_study_are_whole():
    for wrong in (PROMPTS[:0], PROMPTS[:1], PROMPTS.assign(group=""), PROMPTS.assign(text="[slot]")):
        for fault in check_study(wrong, reference="male").faults:
            assert not BROKEN.search(fault), fault


def constants(path):
    """The texts of a file that are not docstrings, what is filled in left out as ``{x}``."""
    tree = ast.parse(path.read_text())
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{x}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def test_no_command_in_a_sentence_names_a_run_by_a_placeholder():
    """Who stops or fails knows the folder."""
    found = [
        f"{path.name}: {text}"
        for path in FILES for text in constants(path)
        if re.search(r"swapbias (audit --resume|check|report|share) (DIR|RUN|FOLDER)\b", text)
        and "python" not in text and not text.lstrip().startswith(("-", "Usage"))
    ]  # fmt: skip
    assert found == []


def test_lists_in_errors_that_may_be_empty_say_so():
    assert (listed(["a", "", "b"]), listed([]), listed([], "nothing")) == ("a, b", "none", "nothing")
