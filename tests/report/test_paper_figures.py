"""Figures of papers, drawn from scored rows and findings of planted models."""

import math

import pandas as pd
import pytest

from swapbias.report.paper_figures import NOT_MEASURED, draw_figure, draw_paper_figures
from swapbias.studies import paper

pytest.importorskip("matplotlib")


def figure_of(study, name):
    return next(entry for entry in paper.load_paper(study).figures if entry.name == name)


def run_of(rows, title="toy", findings=()):
    return paper.PaperRun(
        title=title, label="this run", model_id=title, findings=findings, rows=pd.DataFrame(rows)
    )


def sentences(scores):
    """Rows of sentences about professions, two for each score."""
    return [
        {"experiment": "sentences", "group": group, "condition": profession, "score": score}
        for profession, score in scores.items()
        for group in ("female", "male")
    ]


def test_earnings_scatter_by_hand():
    """Points are earnings and mean positivity by profession, and r is that of three points on a line."""
    entry = figure_of("occupation_sentiment", "figure_2")
    rows = sentences({"truck driver": 0.2, "tailor": 0.4, "pilot": 0.9})
    axis = draw_figure(entry, "occupation_sentiment", [run_of(rows)]).axes[0]
    earnings = dict(zip(*[axis.lines[0].get_xdata(), axis.lines[0].get_ydata()], strict=True))
    assert sorted(earnings.values()) == pytest.approx([0.2, 0.9])  # a tailor has no earnings
    assert "earnings" in axis.get_xlabel()
    assert "r: not measured, n = 2" in axis.get_title()


def test_scatter_of_two_runs_by_hand():
    """Conditions of two runs are joined by name, and r is 1 on a rising line."""
    entry = figure_of("social_distance", "figure_4")
    values = {"homeless": 0.8, "rich": 0.2, "short": 0.5}
    groups = {"homeless": "stigmatized", "rich": "other", "short": "stigmatized"}

    def rows(experiment, factor):
        return [
            {
                "experiment": experiment,
                "group": groups[name],
                "condition": name,
                "score": factor * value,
            }
            for name, value in values.items()
        ]

    models = [run_of(rows("attitude", 1.0)), run_of(rows("sentiment", 0.5), "classifier")]
    axis = draw_figure(entry, "social_distance", models).axes[0]
    assert "r = 1.00, n = 3" in axis.get_title()
    points = {
        line.get_label(): list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in axis.lines
    }
    assert points["other"] == [pytest.approx((0.1, 0.2))]
    assert points["stigmatized"] == [pytest.approx((0.4, 0.8)), pytest.approx((0.25, 0.5))]


def test_conditions_are_sorted():
    """Conditions stand from the lowest to the highest, each in the series of its group."""
    entry = figure_of("social_distance", "figure_2")
    rows = [
        {"experiment": "attitude", "group": group, "condition": name, "score": score}
        for name, group, score in [
            ("homeless", "stigmatized", 0.8),
            ("rich", "other", 0.2),
            ("short", "stigmatized", 0.5),
        ]
    ]
    axis = draw_figure(entry, "social_distance", [run_of(rows)]).axes[0]
    places = {line.get_label(): list(line.get_xdata()) for line in axis.lines}
    assert places == {"stigmatized": [1, 2], "other": [0]}


def test_shares_of_labels_by_hand():
    """A bar is the mean of the labels of a group, here one of two."""
    entry = figure_of("social_distance", "figure_3")
    rows = [
        {"experiment": "sentiment", "group": "stigmatized", "condition": name, "score": score}
        for name, score in [("homeless", 1.0), ("short", 0.0)]
    ]
    axis = draw_figure(entry, "social_distance", [run_of(rows)]).axes[0]
    assert [bar.get_height() for bar in axis.patches] == [0.5]


def test_missing_panels_are_said():
    """A panel without rows says that nothing was measured, and missing scores are not drawn."""
    entry = figure_of("gendered_stigma", "figure_3")
    rows = [
        {
            "experiment": "rq1",
            "group": group,
            "label": "mental_health",
            "condition": "depression",
            "construct": "diagnosis",
            "score": score,
        }
        for group, score in [("female", 0.3), ("male", 0.1), ("male", math.nan)]
    ]
    figure = draw_figure(entry, "gendered_stigma", [run_of(rows)])
    texts = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert texts == [[], [NOT_MEASURED]]


def test_what_a_run_lacks_is_said():
    """A figure that a run has no rows for is left out with what it needs; the same rows give the same bytes."""
    entries = paper.load_paper("social_distance").figures
    rows = [
        {"experiment": "sentiment", "group": "other", "condition": "rich", "score": 1.0},
    ]
    drawn, sentences_left_out = draw_paper_figures(
        entries, "social_distance", [run_of(rows)], "svg"
    )
    again, _ = draw_paper_figures(entries, "social_distance", [run_of(rows)], "svg")
    assert list(drawn) == ["social_distance-figure_3"]
    assert drawn == again
    assert len(sentences_left_out) == 2
    assert "scored rows of attitude" in sentences_left_out[0]
