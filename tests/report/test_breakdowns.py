"""Rates by phenotype and group, answers by class, and bounds, as they stand on the page."""

from dataclasses import replace

import pandas as pd

from swapbias.findings import Finding
from swapbias.measures import CLASSES, MEASURES, Estimate, Measure
from swapbias.report.page import answer_tables, rate_charts
from swapbias.studies import load_study

NOTES = load_study("phenotype_fairness").experiments[0]
ANSWERS = load_study("adjective_coreference").experiments[0]
HOSTILE = "<script>window.hit=1</script>"


def rate(measure, value, phenotype, *, contrast="female and male", width=0.05, **more):
    return Finding(
        study="phenotype_fairness", experiment="phenotyping", model_id="m", measure=measure, contrast=contrast,
        subset="original", slice_by="phenotype", slice_value=phenotype, unit=MEASURES[measure].unit,
        estimate=Estimate(value, ci_low=value - width, ci_high=value + width, n=10), **more,
    )  # fmt: skip


def test_rates_stand_by_phenotype_with_intervals_and_what_they_are_of():
    output = "female higher (positive in the female version alone: 3, male: 0)"
    found = [
        rate("flip_rate", 0.3, "depression", higher_group="female", only_group=3.0, only_reference=0.0),
        rate("flip_rate", 0.02, "alcohol_abuse"),
        rate("tpr_difference", -0.1, "depression"), rate("macro_f1", 0.9, "depression", width=0.2),
        replace(rate("flip_rate", 0.1, ""), slice_by="all", slice_value=""),
    ]  # fmt: skip
    flips, gap, f1 = rate_charts(NOTES, found)
    assert [one.name for one in (flips, gap, f1)] == ["flips", "TPR gap", "macro F1"]
    assert [*flips.parts] == ["depression", "alcohol abuse"]
    (row,) = flips.parts["depression"]
    assert (row.name, row.cells[0][0], row.cells[1][0]) == (f"original: {output}", "30.0 %", "25.0 % to 35.0 %")
    assert gap.parts["depression"][0].cells[0][0] == "−10.0"
    (row,) = f1.parts["depression"]
    assert row.cells[0][0] == "0.900"
    assert f1.axis.at(row.dots[0].high) == 98.0  # drawn to where the scale ends, at 1
    assert not list(rate_charts(NOTES, found[-1:]))


def test_a_rate_of_each_group_has_the_colours_of_its_groups(monkeypatch):
    ppv = replace(MEASURES["flip_rate"], name="ppv", title="PPV", unit="positive predictive value")
    assert isinstance(ppv, Measure)
    monkeypatch.setitem(MEASURES, "ppv", ppv)
    found = [rate("ppv", value, "depression", contrast=group) for group, value in (("male", 0.8), ("female", 0.6))]
    (chart,) = rate_charts(NOTES, found)
    assert [label for _, label in chart.keys] == ["women", "men"]
    ((row,),) = chart.parts.values()
    assert [cell for cell, _ in row.cells] == ["60.0 % (55.0 % to 65.0 %)", "80.0 % (75.0 % to 85.0 %)"]
    assert [one.group for one in row.dots] == [0, 1]


def answered():
    """Eight prompts: of the side that fits 3 right, 1 wrong; of the other 1 right, 1 unsure, 1 refused, 1 silent."""
    said = (
        [("correct", "a")] * 3
        + [("incorrect", "b")]
        + [("correct", "a"), ("unsure", "?"), ("other", "no"), ("other", " ")]
    )
    rows = [
        {"model_id": "m", "group": "pro" if place < 4 else "anti", "condition": "baseline", "answer": answer,
         "experiment": "answers", "template": f"s{place}", "pair_id": f"s{place % 4}", "trial": "1", "score": 1.0,
         "text": HOSTILE, "refused": float(answer == "no"),
         **{f"said_{each}": float(each == one) for each in CLASSES}}
        for place, (one, answer) in enumerate(said)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_answers_stand_by_class_with_shares_and_counts():
    (table,) = answer_tables(ANSWERS, answered())
    assert table.heads == ("right", "wrong", "unsure", "refused", "no answer")
    assert [*table.parts] == ["all of them", "baseline"]
    fit, against = table.parts["all of them"]
    assert fit.name == "pronouns that fit the stereotype"
    assert [cell for cell, _ in fit.cells] == ["75.0 % (3)", "25.0 % (1)", *["0.0 % (0)"] * 3]
    assert [cell for cell, _ in against.cells] == ["25.0 % (1)", "0.0 % (0)", *["25.0 % (1)"] * 3]
    readable = answered()[lambda rows: rows["said_other"] == 0]
    (table,) = answer_tables(ANSWERS, readable)
    assert table.heads == ("right", "wrong", "unsure")
    assert not list(answer_tables(ANSWERS, None))
