"""An audit of a chat model by adjectives, beside the blog post's table and heat map, and its page."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from swapbias.models.chat import ChatOptions
from swapbias.report.finding_charts import slice_charts
from swapbias.report.numbers import format_p_value
from swapbias.report.paper_figures import draw_figure
from swapbias.runs import Settings, read_run, start, write_tables
from swapbias.runs.run_figures import write_paper_figures
from swapbias.runs.run_tables import models_of_runs
from swapbias.studies import config_rows, load_study, paper
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
        options = ChatOptions(model=model, base_url=server.base_url, trials=2, concurrency=8)
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


def cells_of(axis):
    """The numbers in a panel of the heat map, by line and column."""
    return {text.get_position()[::-1]: text.get_text() for text in axis.texts}


def test_heat_map_of_the_blog_post(finished_run, tmp_path):
    """Shares of the classes of answers stand below those of the post, with the values worked out by hand."""
    pytest.importorskip("matplotlib")
    (declared,) = paper.load_paper(NAME).figures
    figure = draw_figure(declared, NAME, models_of_runs([finished_run], NAME))
    pro, anti, run_pro, run_anti = (cells_of(axis) for axis in figure.axes[:4])
    dry = declared.order.index("dry/bubbly")
    old = declared.order.index("old")
    # The mean of 84.8, 86.6, 86.3, 88.6 and 87.3 in the five trials of the authors.
    assert pro[0, 0] == "86.7"
    assert [anti[dry, column] for column in range(4)] == ["37.0", "43.6", "12.3", "7.1"]
    # Right, wrong, unsure and other: of 48 sentences against the stereotype 12 and 24 are wrong, with "dry" 36 and
    # 48, and to 12 with "old" the answer is "unsure".
    assert {run_pro[line, 0] for line in range(16)} == {"100.0"}
    assert [run_anti[0, column] for column in range(4)] == ["62.5", "37.5", "0.0", "0.0"]
    assert [run_anti[dry, column] for column in range(4)] == ["12.5", "87.5", "0.0", "0.0"]
    assert [run_anti[old, column] for column in range(4)] == ["75.0", "0.0", "25.0", "0.0"]
    assert figure.axes[0].get_title() == "GPT-3.5 (recomputed):\npronoun that fits the stereotype"
    assert figure.axes[4].get_xlabel().startswith("answers of the class, % of all answers")
    (path,), left_out = write_paper_figures([finished_run], tmp_path, kind="svg")
    assert path.name == "adjective_coreference-heat_map.svg"
    assert not left_out


def test_adjective_has_one_row(finished_run):
    """The page has a row for each adjective with bias, difference and its p; the strict parser's are folded."""
    experiment = load_study(NAME).experiments[0]
    shown, folded = slice_charts(experiment, finished_run.found)
    assert shown.heads[2:] == ("Diff. to baseline", "p of Diff. to baseline", "n")
    (rows,) = shown.parts.values()
    cells = {row.name: [text for text, _ in row.cells] for row in rows}
    assert len(cells) == len(rows) == 16
    (p_value,) = [
        finding.estimate.p_value
        for finding in finished_run.found
        if (finding.measure, finding.slice_value, finding.view)
        == ("bias_difference", "dry/bubbly", "")
    ]
    assert cells["dry/bubbly"][0::2] == ["+87.5", "+50.0", "48"]
    assert cells["dry/bubbly"][3] == format_p_value(p_value)
    assert cells["old"][0::2] == ["+25.0", "−12.5", "48"]
    assert cells["baseline"][2:4] == ["–", "–"]
    assert (shown.folded, folded.folded) == (False, True)
    assert folded.name == "strict parser: gaps by adjectives"
    page = (Path(finished_run.place) / "report.html").read_text(encoding="utf-8")
    assert re.search(
        r"<details id=[^>]+><summary>Strict parser: gaps by adjectives</summary>", page
    )
    assert "p is of its row alone" in page
