"""Figures keep the order and the range of their values, and one colour and shape for a group."""

import math
import re
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from matplotlib import rc_context

from swapbias.findings import Finding
from swapbias.measures import Estimate
from swapbias.report import FORMATS, draw_figures
from swapbias.report.charts import Axis, Dot
from swapbias.report.figure_files import LOOKS, STYLE
from swapbias.report.forest_figure import forest
from swapbias.report.page_template import load_template

strip = load_template("charts.html.j2").module.strip


def mean(group, value, phase, low=math.nan, high=math.nan):
    return Finding(
        study="gendered_stigma",
        experiment="rq1",
        model_id="m",
        measure="mean",
        contrast=group,
        subset="baseline",
        slice_by="phase",
        slice_value=phase,
        unit="probability mass at the mask",
        estimate=Estimate(value, ci_low=low, ci_high=high, n=5),
    )


def gap(value, phase, **options):
    finding = replace(
        mean("", value, phase, **options), measure="paired_gap", contrast="female - male"
    )
    return replace(finding, estimate=replace(finding.estimate, p_adjusted=0.5))


def lines(figure):
    return [
        tuple(part[:, 0])
        for collection in figure.axes[0].collections
        for part in collection.get_segments()
        if len(part)
    ]


def draw(findings):
    return forest([replace(finding, subset="") for finding in findings])


def test_interval_ends():
    """Intervals end where their quantity does, and none is invented."""
    found = [mean("female", 0.1, "a", -0.2, 0.4), mean("male", 0.9, "a", 0.5, 1.3)]
    assert [tuple(round(end) for end in ends) for ends in lines(draw(found))] == [
        (0, 40),
        (50, 100),
    ]
    assert all(math.isnan(end) for ends in lines(draw([mean("female", 0.1, "a")])) for end in ends)
    in_order = (
        draw([gap(0.1, "diagnosis"), gap(-0.3, "intention"), gap(0.2, "action")])
        .axes[0]
        .get_yticklabels()
    )
    assert [one.get_text() for one in in_order] == ["diagnosis", "intention", "action"]


def test_looks_of_groups():
    """A group has one colour and one shape, whichever other groups there are."""
    for groups in (("female", "male", "unspecified"), ("male",)):
        figure = draw([mean(group, 0.1, "a") for group in groups])
        (men,) = [one for one in figure.axes[0].lines if one.get_label() == "men"]
        assert (men.get_color(), men.get_marker()) == LOOKS[1]
    assert (
        len({marker for _, marker in LOOKS}) == len({colour for colour, _ in LOOKS}) == len(LOOKS)
    )


def test_equal_values_are_not_drawn():
    """Values that are all equal are not drawn."""
    same = [mean(group, 0.1, phase) for phase in "abc" for group in ("female", "male")]
    assert not draw_figures([*same, *(gap(0.0, phase) for phase in "abc")], "svg")
    other = [*same, gap(0.0, "a"), gap(0.0, "b"), gap(0.1, "c")]
    assert [*draw_figures(other, "svg")] == ["gendered_stigma-rq1-phase-gap"]


@pytest.mark.parametrize(("value", "at"), [(-100, 2), (-1e9, 2), (0, 50), (50, 74), (1e9, 98)])
def test_strip_holds_every_value(value, at):
    """A strip holds every value within its scale."""
    axis = Axis.over([-1e9, 1e9], margin=5, least=-100, most=100)
    assert (axis.low, axis.high) == (-100, 100)
    assert axis.at(value) == at
    assert f'x="{at}.0%"' in strip([Dot(value)], axis)


def test_empty_scale():
    """A scale of no values has ticks and no dot."""
    for least, most in ((-math.inf, math.inf), (0.0, 100.0), (-100.0, 100.0)):
        axis = Axis.over([math.nan], least=least, most=most)
        assert axis.low < axis.high
        assert 0.0 in axis.ticks
    assert "dot" not in strip([Dot(math.nan)], Axis.over([1.0]))
    assert 'class="ci' not in strip([Dot(1.0)], Axis.over([1.0]))


def rq1_findings():
    """Levels and gaps of three phases in three sets, one of them with a long name, and a primary."""
    findings = []
    for place, subset in enumerate(("mental_health", "other_health", "baseline")):
        for phase, value in (
            ("diagnosis", 0.1),
            ("a phase whose name is long indeed", 0.2),
            ("action", 0.3),
        ):
            for group in ("female", "male"):
                ends = {"low": value - 0.1, "high": value + 0.1}
                findings.append(
                    replace(mean(group, value + 0.01 * place, phase, **ends), subset=subset)
                )
            findings.append(
                replace(gap(value, phase, low=value - 0.2, high=value + 0.1), subset=subset)
            )
    primary = replace(gap(0.1, ""), slice_by="all", slice_value="", primary=True, margin=0.05)
    return [*findings, primary]


def test_paper_figures():
    """Figures for papers have TrueType text, no date and the same bytes again."""
    papers = draw_figures(rq1_findings(), "pdf")
    assert [*papers] == [
        "results",
        "gendered_stigma-rq1-phase-levels",
        "gendered_stigma-rq1-phase-gap",
    ]
    for pdf in papers.values():
        assert b"/Type3" not in pdf
        assert b"/CIDFontType2" in pdf  # TrueType
        assert b"CreationDate" not in pdf
        assert float(re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", pdf)[1]) / 72 < 7.3
    for kind in FORMATS:
        assert (drawings := draw_figures(rq1_findings()[-3:], kind)) == draw_figures(
            rq1_findings()[-3:], kind
        )
        assert all(b"<text" in one or kind != "svg" for one in drawings.values())


def test_dollar_in_a_name():
    """A dollar in a name is drawn as a dollar."""
    found = [
        replace(one, slice_value=one.slice_value and f"${one.slice_value}_x$^")
        for one in rq1_findings()
    ]
    assert all(draw_figures(found, "svg").values())


LONG_NAME = "people with a condition whose name is long, and longer still by an explanation"


def crowded_findings(kind):
    """Sixty lines with long names, one of them a word without a place to break it."""
    phases = [f"{LONG_NAME} {number}" for number in range(59)] + ["x" * 90]
    if kind == "gap":
        return [gap(0.01 * place, phase) for place, phase in enumerate(phases)]
    groups = ("female", "male", "unspecified")
    return [
        mean(group, 0.01 * place, phase) for place, phase in enumerate(phases) for group in groups
    ]


@pytest.mark.parametrize("kind", ["gap", "levels"])
def test_long_names_leave_room(kind):
    """Names of lines take at most a third of the width, and no name or value lies over another."""
    with rc_context(dict(STYLE)):
        figure = draw(crowded_findings(kind))
        figure.draw_without_rendering()
    axis = figure.axes[0]
    whole = figure.bbox
    names = [label.get_window_extent() for label in axis.get_yticklabels()]
    assert len(names) == 60
    assert axis.bbox.x0 <= whole.width / 3 + 1
    assert min(name.x0 for name in names) >= 0
    assert not any(first.overlaps(second) for first, second in pairwise(names))
    numbers = [label.get_window_extent() for label in axis.get_xticklabels()]
    below = [axis.xaxis.label.get_window_extent()]
    below += [legend.get_window_extent() for legend in figure.legends]
    assert len(below) == (1 if kind == "gap" else 2)
    for first, second in combinations([*numbers, *below], 2):
        assert not first.overlaps(second)
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 and box.y0 >= 0 for box in below)
    values = [
        line for line in axis.lines if line.get_marker() in dict(LOOKS).values() or kind == "gap"
    ]
    heights = sorted(
        axis.transData.transform((0, line.get_ydata()[0]))[1]
        for line in values
        if len(line.get_ydata()) == 1
    )
    assert len(heights) == (60 if kind == "gap" else 180)
    points = 72 / figure.dpi
    assert min(above - low for low, above in pairwise(heights)) * points >= 4  # size of a mark


def test_axis_says_what_is_subtracted():
    """The scale of gaps says what is subtracted and its unit; that of means what they measure."""
    assert draw([gap(0.1, "a"), gap(0.2, "b")]).axes[0].get_xlabel() == "women minus men, points"
    levels = draw([mean("female", 0.1, "a")]).axes[0].get_xlabel()
    assert levels == "mean probability mass at the mask, points"
    several = [
        replace(
            gap(value, "a"),
            study="group_packs",
            experiment="occupation_names",
            measure="group_gap",
            group=group,
            reference_group="white man",
            contrast=f"{group} - white man",
        )
        for group, value in (("black man", 0.1), ("white woman", 0.2))
    ]
    axis = draw(several).axes[0]
    assert axis.get_xlabel() == "the first minus the second, points"
    names = [" ".join(label.get_text().split()) for label in axis.get_yticklabels()]
    assert names == ["a, black man minus white man", "a, white woman minus white man"]
