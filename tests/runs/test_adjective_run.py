"""An audit of a chat model by adjectives, with the blog post's table beside it."""

import csv
from collections import Counter

import pytest

from swapbias.models.chat import ChatOptions
from swapbias.runs import Settings, read_run, start, write_tables
from swapbias.studies import config_rows
from swapbias.studies.published import published_rows
from tests.conftest import QUIET
from tests.models.chat.server import ChatServer

NAME = "adjective_coreference"
CONFIG = "wino_style-stereotype"
# Of 48 sentences against the stereotype so many are answered wrongly in the first and in the second trial.
WRONG = {"dry/bubbly": (36, 48), "old": (12, 12)}
WRONG_OTHERWISE = (12, 24)


def answers_by_trial():
    """Answer a sentence for the first time as in trial 1, then as in trial 2."""
    rows = {row["text"]: row for row in config_rows(NAME, CONFIG)}
    asked = Counter()

    def answer(prompt):
        row = rows[prompt]
        trial = asked[prompt]
        asked[prompt] += 1
        wrong = WRONG.get(row["condition"], WRONG_OTHERWISE)[trial]
        is_wrong = row["group"] == "anti" and int(row["template"].removeprefix("s")) <= wrong
        # Of "the construction worker" the last word, which the keys have.
        word = row["incorrect" if is_wrong else "correct"].split()[-1]
        return "unsure" if is_wrong and row["condition"] == "old" else f"{word.capitalize()}."

    return answer


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """A finished audit of the blog post's model, in two trials, whose answers are known."""
    folder = tmp_path_factory.mktemp("adjectives") / "run"
    model = "openai/gpt-3.5-turbo-0613"
    with ChatServer(answers_by_trial(), model=model) as server:
        options = ChatOptions(model=model, base_url=server.base_url, trials=2, concurrency=1)
        start(Settings(studies=(NAME,), options=(options,)), folder, **QUIET)
    return read_run(folder)


def test_table_of_the_blog_post(finished_run, tmp_path):
    """Bias, difference and p stand beside the printed ones, with the values worked out by hand."""
    (table,), paths = write_tables([finished_run], tmp_path)
    assert {path.suffix for path in paths} == {".csv", ".md", ".tex"}
    lines = {line[0]: line[1:] for line in table.lines}
    assert [*lines] == [row["condition"] for row in config_rows(NAME, CONFIG)][:: 48 * 2]
    # 12 and 24 of 48 wrong are 25 and 50 points; 36 and 48 are 75 and 100: t = 50 / 17.68 with 2 degrees of freedom.
    assert lines["baseline"] == ("28.6", "–", "–", "37.5", "–", "–")
    assert lines["dry/bubbly"] == ("42.8", "14.2", "0.000", "87.5", "50.0", "0.053")
    # 25 twice: t = -12.5 / 12.5
    assert lines["old"] == ("29.9", "1.3", "0.095", "25.0", "-12.5", "0.211")
    with paths[0].open(encoding="utf-8", newline="") as file:
        assert len([*csv.reader(file)]) >= 16
    assert {group for group, _ in table.heads[1:]} == {"GPT-3.5, printed", "GPT-3.5, this run"}


def test_printed_numbers_join_the_run(finished_run):
    """Every number of the blog post's table stands beside a finding of an audit of its model."""
    printed = [
        row
        for row in published_rows(NAME)
        if not row["subset"] and row["measure"] not in ("answer_share", "adjective_count")
    ]
    assert Counter(row["measure"] for row in printed) == {
        "answer_bias": 16,
        "bias_difference": 15,
        "p_one_sided": 15,
    }
    joined = {found.key(): found.published for found in finished_run.found if found.published}
    assert len(joined) == len(printed)
    for row in printed:
        key = ("answers", "", row["measure"], row["contrast"], "adjectives", row["slice_value"])
        assert joined[key].value == row["value"]
