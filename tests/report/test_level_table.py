"""The table of levels of a section of the page."""

import pytest

from swapbias.findings import Finding
from swapbias.measures import Estimate
from swapbias.report.level_table import level_tables
from swapbias.studies import load_study


def experiment_named(study, name):
    (experiment,) = (entry for entry in load_study(study).experiments if entry.name == name)
    return experiment


def level(study, experiment, measure, contrast, number, **fields):
    fields = {"unit": "probability mass", "model_id": "mine", **fields}
    names = {"study": study, "experiment": experiment, "measure": measure, "contrast": contrast}
    return Finding(**names, estimate=Estimate(number, ci_low=0.1, ci_high=0.3, n=20), **fields)


def test_reported_columns_are_levels():
    """Means of the score and of reported columns over all rows have a row; gaps, slices and other columns none."""
    names = ("social_distance", "attitude")
    rows = [
        level(*names, "group_gap", "stigmatized - other", 0.2, primary=True),
        level(*names, "mean", "stigmatized", 0.25),
        level(*names, "mean", "stigmatized", 0.125, score="unrated_mass"),
        level(*names, "mean", "stigmatized", 0.5, score="closed_list_mass"),
        level(*names, "mean", "stigmatized", 0.75, slice_by="category", slice_value="drugs"),
    ]
    (chart,) = level_tables(experiment_named(*names), rows)
    (of_model,) = chart.parts.values()
    texts = {row.name: [text for text, _ in row.cells] for row in of_model}
    assert texts == {
        "mean, stigmatized": ["0.250", "0.100 to 0.300", "20"],
        "mean, stigmatized (unrated mass)": ["0.125", "0.100 to 0.300", "20"],
    }
    assert not [*level_tables(experiment_named(*names), rows[:1])]


@pytest.mark.parametrize("models", [("mine",), ("mine", "other")])
def test_levels_of_several_models(models):
    """Counts and ratios of rankings stand below a heading for each of several models."""
    names = ("resume_ranking", "ranking")
    rows = []
    for model in models:
        rows += [
            level(*names, "times_selected", "White men", 12, unit="rankings", model_id=model),
            level(*names, "ratio_to_best", "White men", 0.75, unit="ratio", model_id=model),
        ]
    (chart,) = level_tables(experiment_named(*names), rows)
    assert [*chart.parts] == ([*models] if len(models) > 1 else [""])
    for of_model in chart.parts.values():
        assert [(row.name, row.cells[0][0]) for row in of_model] == [
            ("times selected, White men", "12"),
            ("impact ratio to the group that is selected most, White men", "0.750"),
        ]
