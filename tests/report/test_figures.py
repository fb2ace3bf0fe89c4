"""Figures keep the order and the range of what they show, and one colour and shape for a group."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from swapbias.findings import Finding
from swapbias.measures import Estimate
from swapbias.report import draw_figures
from swapbias.report.charts import Axis, Dot, strip
from swapbias.report.figures import COLOURS, MARKERS, STYLE, _gaps, _levels, categories
from swapbias.studies import Slice, load_study

STIGMA = load_study("gendered_stigma").experiments[0]
DISTANCE = load_study("social_distance").experiments[0]


def mean(group, value, phase, low=math.nan, high=math.nan):
    return Finding(
        study="gendered_stigma", experiment="rq1", model_id="m", measure="mean", contrast=group, subset="baseline",
        slice_by="phase", slice_value=phase, unit="probability mass at the mask",
        estimate=Estimate(value, ci_low=low, ci_high=high, n=5),
    )  # fmt: skip


def gap(value, phase, **more):
    found = replace(mean("", value, phase, **more), measure="paired_gap", contrast="female - male")
    return replace(found, estimate=replace(found.estimate, p_adjusted=0.5))


def lines(figure):
    """Of each interval that was drawn its ends."""
    return [tuple(part[:, 0]) for one in figure.axes[0].collections for part in one.get_segments() if len(part)]


def test_intervals_end_where_their_quantity_does_and_none_is_made_up():
    drawn = lines(_levels([mean("female", 0.1, "a", -0.2, 0.4), mean("male", 0.9, "a", 0.5, 1.3)], STIGMA, None))
    assert drawn == [(0.0, 0.4), (0.5, 1.0)]
    drawn = lines(_levels([mean("female", 0.1, "a"), mean("male", 0.9, "a")], STIGMA, None))
    assert all(math.isnan(end) for ends in drawn for end in ends)


def test_phases_keep_their_order_and_professions_are_sorted():
    found = [gap(0.1, "diagnosis"), gap(-0.3, "intention"), gap(0.2, "action")]
    for ordered, expected in (
        (True, ["diagnosis", "intention", "action"]),
        (False, ["intention", "diagnosis", "action"]),
    ):
        figure = _gaps(found, "points", ordered=ordered)
        assert [one.get_text() for one in figure.axes[0].get_yticklabels()] == expected


def test_a_group_has_one_colour_and_one_shape_whichever_others_are_there():
    for groups in (("female", "male", "unspecified"), ("male",)):
        figure = _levels([mean(group, 0.1, "a") for group in groups], STIGMA, None)
        (men,) = [one for one in figure.axes[0].lines if one.get_label() == "men"]
        assert (men.get_color(), men.get_marker()) == (COLOURS[1], MARKERS[1])
    assert len({*MARKERS}) == len(COLOURS)


def test_values_that_are_all_alike_are_not_drawn():
    same = [mean(group, 0.1, phase) for phase in "abc" for group in ("female", "male")]
    assert not draw_figures([*same, *(gap(0.0, phase) for phase in "abc")])
    assert [one.name for one in draw_figures([*same, gap(0.0, "a"), gap(0.0, "b"), gap(0.1, "c")])] == [
        "gendered_stigma-rq1-phase-gap"
    ]


def test_many_conditions_stand_by_their_category():
    rows = pd.DataFrame({"condition": [f"c{n}" for n in range(30)], "label": ["b", "a"] * 15, "group": "other"})
    found = categories(DISTANCE, Slice("condition", "condition"), rows)
    assert found["c0"] == "b"
    assert len(found) == 30
    assert categories(DISTANCE, Slice("condition", "condition"), rows.head(10)) == {}
    means = [replace(mean("other", 0.1, name), study="social_distance", unit="P(negative)") for name in found]
    ticks = _levels(sorted(means, key=lambda one: found[one.slice_value]), DISTANCE, found).axes[0].get_yticklabels()
    heads = [one.get_text() for one in ticks if one.get_fontweight() == "bold"]
    assert heads == ["a", "b"]
    assert len(ticks) == 32
    assert STYLE["font.size"] / 2 < min(one.get_fontsize() for one in ticks)


@pytest.mark.parametrize(("value", "at"), [(-100, 2), (-1e9, 2), (0, 50), (50, 74), (1e9, 98)])
def test_a_strip_holds_every_value_within_its_scale(value, at):
    axis = Axis.over([-1e9, 1e9], margin=5, least=-100, most=100)
    assert (axis.low, axis.high) == (-100, 100)
    assert axis.at(value) == at
    assert f'x="{at}.0%"' in strip([Dot(value)], axis)


def test_a_scale_of_nothing_is_still_one():
    for least, most in ((-math.inf, math.inf), (0.0, 100.0), (-100.0, 100.0)):
        axis = Axis.over([math.nan], least=least, most=most)
        assert axis.low < axis.high
        assert 0.0 in axis.ticks


def test_a_strip_without_a_number_holds_no_dot():
    assert "dot" not in strip([Dot(math.nan)], Axis.over([1.0]))
    assert 'class="ci' not in strip([Dot(1.0)], Axis.over([1.0]))
