"""Headline quantities of papers stand in tables of the page."""

from dataclasses import replace

import pandas as pd

from swapbias.findings import disaggregate
from swapbias.findings.predictions import ROUNDED
from swapbias.measures import Estimate
from swapbias.report.headline_tables import direction_tables, markedness_tables, ratio_tables
from swapbias.studies import load_study
from tests.hub.shared_runs import GAP

PHENOTYPING, _, DIRECTION = load_study("phenotype_fairness").experiments[:3]
ASSIGNED = load_study("implicit_association").experiments[0]
RATIO = replace(
    GAP,
    study="phenotype_fairness",
    experiment="phenotyping",
    model_id="m",
    measure="tprr",
    contrast="female and male",
    subset="original",
    slice_by="phenotype",
    slice_value="depression",
    unit="ratio of true positive rates",
    estimate=Estimate(0.904, n=100),
    higher_group="female",
)


def test_ratios_of_rates():
    """TPRR and FPRR stand beside each other by phenotype, with the group of the higher rate."""
    found = [
        RATIO,
        replace(RATIO, measure="fprr", estimate=Estimate(0.5), higher_group=""),
        replace(RATIO, subset="swapped", higher_group="male"),
        replace(RATIO, contrast=f"female and male, {ROUNDED}", estimate=Estimate(0.1)),
    ]
    (table,) = ratio_tables(PHENOTYPING, found)
    assert table.heads == ("TPR ratio", "FPR ratio")
    lines = [(row.name, [text for text, _ in row.cells]) for row in table.parts["depression"]]
    assert lines == [
        ("original", ["0.90 (women)", "0.50"]),
        ("swapped", ["0.90 (men)", "\N{EN DASH}"]),
    ]


def test_ratios_of_several_models():
    """Each model has a table of ratios with its name."""
    tables = ratio_tables(PHENOTYPING, [RATIO, replace(RATIO, model_id="other")])
    assert [table.name for table in tables] == ["ratios of rates, m", "ratios of rates, other"]
    assert not [*ratio_tables(PHENOTYPING, [GAP])]


def test_direct_bias_beside_chance():
    """Random words and a direction at random stand below direct bias, as means of cosines by hand."""
    cosines = [0.4, -0.2, 0.3]
    drawn = "[" + ", ".join(f'["w{number}", 0.1]' for number in range(5)) + "]"
    rows = pd.DataFrame(
        {
            "prompt_id": [f"w{number}" for number in range(3)],
            "pair_id": [f"w{number}" for number in range(3)],
            "experiment": DIRECTION.name,
            "model_id": "tiny",
            "group": "word",
            "template": "t",
            "condition": ["a", "b", "c"],
            "construct": "c",
            "label": "",
            "score": cosines,
            "top_tokens": drawn,
            "dimensions": 12,
            "frequency_known": 1,
            "explained_variance": 0.8,
        }
    )
    found = disaggregate(rows, "phenotype_fairness", robustness=False)
    (table,) = direction_tables(found)
    lines = {row.name: row.cells[0][0] for row in table.parts[""]}
    assert lines["Direct bias: mean |cosine|"] == "0.300"
    assert lines["Random words: mean |cosine|"] == "0.100"
    assert lines["Signed mean: mean cosine"] == "+0.167"
    assert "Direction at random: mean |cosine|" in lines
    assert table.parts[""][0].name.startswith("Direct bias")


def test_d_by_both_labellings():
    """D by right labels and as coded stand in one row with intervals, and the answers that were not read."""
    right = replace(
        GAP,
        study="implicit_association",
        experiment=ASSIGNED.name,
        measure="markedness",
        contrast="right labels",
        unit="D, from -1 to 1",
        estimate=Estimate(0.2, 0.1, 0.3, n=9, n_unscored=3),
    )
    coded = replace(
        right, contrast="as coded", view="as published", estimate=Estimate(-0.1, n=9, n_unscored=3)
    )
    of_age = [replace(one, slice_by="stereotype", slice_value="age") for one in (right, coded)]
    (table,) = markedness_tables(ASSIGNED, [right, coded, *of_age, GAP])
    assert table.heads == (
        "D, right labels",
        "95 % interval",
        "D, as coded",
        "95 % interval",
        "answers",
    )
    assert "negative words" in table.caption
    assert [row.name for row in table.parts["over all"]] == ["all"]
    (row,) = table.parts["by stereotype"]
    assert row.name == "age"
    assert [text for text, _ in row.cells] == [
        "+0.200",
        "+0.100 to +0.300",
        "\N{MINUS SIGN}0.100",
        "\N{EN DASH}",
        "9 (+3)",
    ]
    assert not [*markedness_tables(ASSIGNED, [GAP])]
