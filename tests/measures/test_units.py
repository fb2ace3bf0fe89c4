"""Units: code decides on the fields of a unit, never on words of its name."""

import ast
import math

import pandas as pd
import pytest

from swapbias import audit
from swapbias.findings import Finding
from swapbias.measures import MEASURES, Estimate, Unit
from swapbias.measures.units import UNITS, named_unit
from swapbias.report import meanings, numbers
from tests.conftest import ROOT

TITLES = [
    "nurse",
    "pilot",
    "cook",
    "judge",
    "baker",
    "clerk",
    "guard",
    "tutor",
    "coach",
    "miner",
    "actor",
    "diver",
]
ROWS = pd.DataFrame(
    [
        {"pair": str(number), "group": group, "text": f"The {title}, {word}, left.", "title": title}
        for number, title in enumerate(TITLES)
        for group, word in (("f", "a woman"), ("m", "a man"))
    ]
)


def score(texts):
    """From 1 to 5, women's higher by 1 on average, by the letters of the text."""
    return [2.0 + ("woman" in text) + (len(text) % 3) / 2 for text in texts]


# Names of which a part is a unit of the package, means a log, a raw score, a right answer or points.
@pytest.mark.parametrize(
    "name",
    [
        "natural log-odds of the judges' votes",
        "my score",
        "raw score of the model, moved",
        "percentage points of 5",
        "correct answer is more likely than not",
        "probability mass at the mask of a child",
        "log-probability (own)",
    ],
)
def test_unit_name_of_a_user(name):
    """Words in the name of a user's unit decide nothing: a gap of 1 on a scale from 1 to 5 is 25
    points, whatever the scale is called."""
    outcome = audit(score, prompts=ROWS, reference="m", unit=name, range=(1, 5), progress=False)
    (one,) = outcome.found[:1]
    assert (one.unit, one.scale.ends, one.scale.in_points) == (name, (1.0, 5.0), True)
    assert numbers.format_value(one).endswith(" points")
    assert (
        meanings.point_meaning(one)
        == f"A point is a hundredth of the range of the {name} (from 1 to 5)."
    )


@pytest.mark.parametrize("name", sorted(UNITS))
def test_unit_is_read_back_by_name(name):
    """A unit of the package is read back by its name from the table of units, with all that a
    finding does not hold."""
    unit = UNITS[name]
    low, high = unit.ends
    one = Finding(
        study="s",
        experiment="e",
        model_id="m",
        measure="paired_gap",
        contrast="f - m",
        estimate=Estimate(0.0),
        unit=name,
        unit_low=low,
        unit_high=high,
        own_unit="score",
    )
    assert one.scale.taken_from == "score"
    assert (one.scale.ratio_of, one.scale.span) == (
        unit.ratio_of,
        pytest.approx(unit.span, nan_ok=True),
    )
    assert named_unit(name, low, high) == unit


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("natural log-probability", math.log(2), "a probability ratio of 2.00"),
        ("natural log of words", math.log(2), "a length ratio of 2.00"),
        ("natural log-odds of the right answer", math.log(2), "an odds ratio of 2.00"),
        ("share of answers", 0.5, "50.0 points"),
        ("percentage points", 50.0, "50.0 points"),
        ("score", 0.5, "0.500"),
        ("raw score of the model", 0.5, "0.500 raw score of the model"),
    ],
    ids=[
        "probability ratio",
        "length ratio",
        "odds ratio",
        "points of shares",
        "points",
        "score",
        "raw score",
    ],
)
def test_amount_in_its_unit(name, value, wanted):
    """An amount is written as its unit requires."""
    assert numbers.format_gap(value, named_unit(name)) == wanted


def test_scales_of_ratios():
    """The scale of a ratio states what is divided by what."""
    orientations = {
        name: MEASURES["paired_gap"].scale_in(unit).orientation
        for name, unit in UNITS.items()
        if math.isinf(unit.span)
    }
    for name, unit in UNITS.items():
        if name in orientations:
            assert (
                f"a ratio of {unit.ratio_of.plural} with the smaller over the larger"
                in orientations[name]
            )


def test_range_from_scores():
    """A range is taken from scores only where the unit may have one."""
    assert UNITS["raw score of the model"].with_range_of([0.2, 0.9]).in_points is False
    assert UNITS["score"].with_range_of([0.2, 0.9]) == Unit(
        "score", 0.0, 1.0, is_named=False, symbol=""
    )
    assert named_unit("stars").with_range_of([0.2, 0.9]).ends == (0.0, 1.0)


def test_no_code_reads_unit_names():
    """No code compares or searches the name of a unit."""

    def is_name(node):
        return ast.unparse(node).endswith((".unit", "unit.name", "scale.name"))

    places = []
    for path in sorted((ROOT / "swapbias").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if any(map(is_name, sides)) and any(isinstance(side, ast.Constant) for side in sides):
                places.append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.Attribute) and is_name(node.value) and hasattr(str, node.attr):
                places.append(f"{path.name}:{node.lineno}")
    assert places == []
