"""Rates by phenotype and group, answers by class, bounds and explained words, as they stand on the page."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from swapbias.findings import Finding
from swapbias.measures import CLASSES, MEASURES, Estimate, Measure
from swapbias.models.clinical import Explained
from swapbias.report import breakdowns
from swapbias.report.breakdowns import answer_charts, performance_grids, rate_grids, word_charts
from swapbias.report.charts import Axis, Dot, stack, strip
from swapbias.report.page import _answers
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
    told = "female higher (positive in the female version alone: 3, male: 0)"
    found = [
        rate("flip_rate", 0.3, "depression", direction=told), rate("flip_rate", 0.02, "alcohol_abuse"),
        rate("tpr_difference", -0.1, "depression"), rate("macro_f1", 0.9, "depression", width=0.2),
        replace(rate("flip_rate", 0.1, ""), slice_by="all", slice_value=""),
    ]  # fmt: skip
    (grid,) = rate_grids(NOTES, found)
    assert [head for head, _ in grid.heads] == ["flips, %", "TPR gap, points", "macro F1"]
    assert [name for name, _ in grid.parts] == ["depression", "alcohol abuse"]
    flips, gap, f1 = grid.parts[0][1][0][1]
    assert flips.told == (("", "30.0 (25.0 to 35.0)", told),)
    assert gap.told == (("", "−10.0 (−15.0 to −5.0)", ""),)
    assert f1.told == (("", "0.900 (0.700 to 1.100)", ""),)
    assert 'x2="98.0%"' in f1.picture  # drawn to where the scale ends, at 1
    assert grid.parts[1][1][0][1] == (grid.parts[1][1][0][1][0], None, None)
    assert not rate_grids(NOTES, found[-1:])


def test_a_rate_of_each_group_has_the_colours_of_its_groups(monkeypatch):
    ppv = replace(MEASURES["flip_rate"], name="ppv", title="PPV", unit="positive predictive value")
    assert isinstance(ppv, Measure)
    monkeypatch.setattr(breakdowns, "MEASURES", {**MEASURES, "ppv": ppv})
    monkeypatch.setitem(MEASURES, "ppv", ppv)
    found = [rate("ppv", value, "depression", contrast=group) for group, value in (("male", 0.8), ("female", 0.6))]
    (grid,) = rate_grids(NOTES, found)
    assert [label for _, label in grid.keys] == ["women", "men"]
    ((cell,),) = (cells for _, cells in grid.parts[0][1])
    assert cell.told == (("men", "80.0 (75.0 to 85.0)", ""), ("women", "60.0 (55.0 to 65.0)", ""))
    assert 'class="dot g1"' in cell.picture
    assert 'class="dot g0"' in cell.picture


def test_performance_is_shown_in_tables_that_a_page_is_wide_enough_for():
    levels = ("tpr", "fpr", "ppv", "selection_rate", "auroc", "calibration_slope", "ece")
    found = [rate(one, 0.5, "depression", contrast=group) for one in levels for group in ("female", "male")]
    (grid,) = performance_grids(NOTES, [*found, rate("equalised_odds_difference", 0.1, "depression")])
    assert (len(grid.heads), grid.spans) == (8, [(0, 5), (5, 8)])
    heads = [head for head, _ in grid.heads]
    assert heads[5:] == ["AUROC", "calibration slope", "ECE"]


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
    (chart,) = answer_charts(ANSWERS, answered())
    assert chart.heads == ("side", "right", "wrong", "unsure", "refused", "no answer")
    assert [name for name, _ in chart.parts] == ["all of them", "baseline"]
    fit, against = chart.parts[0][1]
    assert [text for text, _ in fit.cells] == ["75.0 % (3)", "25.0 % (1)", *["0.0 % (0)"] * 3]
    assert [text for text, _ in against.cells] == ["25.0 % (1)", "0.0 % (0)", *["25.0 % (1)"] * 3]
    assert 'aria-label="pronouns that fit the stereotype: right 75.0 % (3), wrong 25.0 % (1)"' in fit.picture
    assert against.picture.count("<rect") == 4
    readable = answered()[lambda rows: rows["said_other"] == 0]
    (chart,) = answer_charts(ANSWERS, readable)
    assert chart.heads == ("side", "right", "wrong", "unsure")
    assert not list(answer_charts(ANSWERS, None))


@pytest.mark.parametrize("shares", [(0.25, 0.25, 0.5), (1.0,), (0.0, 0.0, 1.0), ()])
def test_parts_of_a_stack_lie_beside_each_other(shares):
    picture = str(stack(shares))
    widths = [float(one.split('width="')[1].split("%")[0]) for one in picture.split("<rect")[1:]]
    assert sum(widths) == pytest.approx(96 * sum(shares))
    assert len(widths) == sum(share > 0 for share in shares)


def test_bounds_have_a_mark_of_their_own_which_is_said():
    drawn = strip([Dot(1.0, 0.5, 1.5, least=-3.0, most=4.0)], Axis.over([-5.0, 5.0]))
    assert drawn.count('class="bounds"') == 1
    assert drawn.count('class="ci gap"') == 1
    assert "bounds" not in strip([Dot(1.0, 0.5, 1.5)], Axis.over([-5.0, 5.0]))
    headline = Finding(
        study="adjective_coreference", experiment="answers", model_id="m", measure="paired_gap",
        contrast="pro - anti", unit="percentage points", headline=True, verdict="gap", margin=5.0,
        estimate=Estimate(20.0, ci_low=10.0, ci_high=30.0, n=9, error=5.0), worst_low=-4.0, worst_high=44.0,
    )  # fmt: skip
    (told,) = _answers([headline])
    chart = told["chart"]
    assert chart.heads[-1] == "bounds"
    assert chart.parts[0][1][0].cells[-1][0] == "−4.0 to +44.0"
    assert 'aria-label="+20.0 points, 95 % interval +10.0 to +30.0, bounds −4.0 to +44.0 points"' in (
        chart.parts[0][1][0].picture
    )
    assert any("no interval" in label for _, label in chart.keys)
    (told,) = _answers([replace(headline, worst_low=math.nan, worst_high=math.nan)])
    assert told["chart"].heads[-1] == "95 % interval"
    assert not told["chart"].keys


def test_words_of_an_explained_note_are_text_and_the_heaviest_come_first():
    words = {"male": [("he", -0.2), (HOSTILE, 0.1)], "female": [("she", 0.3), (HOSTILE, 0.05)]}
    explained = Explained(
        "phenotype_fairness", "m", "depression", "original", "p", {"male": 0.3, "female": 0.8}, words
    )
    (chart,) = word_charts(NOTES, [explained])
    assert chart.heads == ("word", "women", "men")
    rows = chart.parts[0][1]
    assert [(row.name, *(text for text, _ in row.cells)) for row in rows] == [
        ("she", "+0.300", "–"), ("he", "–", "−0.200"), (HOSTILE, "+0.050", "+0.100"),
    ]  # fmt: skip
    assert "0.80 as women, 0.30 as men" in chart.caption
    assert rows[2].picture.count('class="dot') == 2
