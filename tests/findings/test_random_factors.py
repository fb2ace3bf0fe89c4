"""What inference holds over: the random factors of a design that the rows at hand vary in."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swapbias.findings import disaggregate
from swapbias.findings.analysis import experiment_findings
from swapbias.findings.finding import Context
from swapbias.measures.gaps import group_gap
from swapbias.studies.catalogue import load_study

STUDY = load_study("gendered_stigma")
RQ1 = STUDY.experiments[0]


def context(**random):
    return Context("gendered_stigma", "m", replace(RQ1, random=random), "score")


def rows(**columns):
    return pd.DataFrame({name: list(values) for name, values in columns.items()})


def test_factors_that_cross_stand_side_by_side():
    clusters, names = context(t="templates", c="conditions").random(rows(t="aabb", c="xyxy"))
    assert {name: list(codes) for name, codes in clusters.items()} == {
        "templates": [0, 0, 1, 1],
        "conditions": [0, 1, 0, 1],
    }
    assert names == "templates + conditions"


def test_a_factor_that_lies_in_another_is_held_by_that_one():
    # Each condition is of one category: rows that share the condition share the category.
    design = context(k="categories", c="conditions")
    for columns in ({"k": "aaaabb", "c": "xxyyzz"}, {"c": "xxyyzz", "k": "aaaabb"}):  # whatever the order of columns
        clusters, names = design.random(rows(**columns))
        assert list(clusters) == ["categories"]
        assert names == "categories"
    assert context(c="conditions", k="categories").random(rows(k="aaaabb", c="xxyyzz"))[1] == "categories"
    # Once one condition is in two categories they cross.
    assert design.random(rows(k="aaaabb", c="xxyyzx"))[1] == "categories + conditions"


def test_of_two_names_for_the_same_clusters_the_first_is_told():
    assert context(a="templates", b="noun pairs").random(rows(a="xxyy", b="ppqq"))[1] == "templates"
    assert context(b="noun pairs", a="templates").random(rows(a="xxyy", b="ppqq"))[1] == "noun pairs"


def test_a_factor_nested_in_one_of_three_leaves_the_other_two():
    design = context(t="templates", c="conditions", k="categories")
    assert design.random(rows(t="ababab", c="xxyyzz", k="aaaabb"))[1] == "templates + categories"


def test_a_constant_factor_is_no_sample():
    clusters, names = context(t="templates", c="conditions").random(rows(t="abab", c="xxxx"))
    assert list(clusters) == ["templates"]
    assert names == "templates"


@pytest.mark.parametrize("columns", [{"t": "aaaa", "c": "xxxx"}, {"other": "abcd"}])  # constant, or not at hand
def test_where_nothing_is_a_sample_all_rows_are_one_cluster(columns):
    clusters, names = context(t="templates", c="conditions").random(rows(**columns))
    assert names == ""
    assert clusters
    assert all(set(codes) == {0} for codes in clusters.values())


def one_cell(**columns):
    """Gaps of .1, .2, .3 and so on in rows of the one experiment, with the columns given."""
    made = []
    for number in range(6):
        for group, extra in (("female", (number + 1) / 10), ("male", 0.0)):
            row = dict.fromkeys(("phase", "dimension", "act", "construct", "text", "polarity"), "x")
            made.append(
                {
                    **row, "experiment": "rq1", "model_id": "m", "label": "mental_health", "pair_id": f"p{number}",
                    "prompt_id": f"{group}{number}", "group": group, "score": 0.2 + extra,
                    **{name: value(number) for name, value in columns.items()},
                }
            )  # fmt: skip
    return pd.DataFrame(made)


def gap(frame):
    found = experiment_findings(Context("gendered_stigma", "m", RQ1, "score"), frame)
    return [one for one in found if one.measure == "paired_gap" and one.slice_by == "all"]


def test_rows_that_are_no_sample_have_a_value_and_no_interval():
    """The gaps .1 to .6 have mean .35; six prompts of one template and one diagnosis say nothing of others."""
    designed, published = gap(one_cell(template=lambda number: "t", condition=lambda number: "c"))
    assert (designed.cluster_vars, published.view) == ("", "as published")
    assert designed.estimate.value == pytest.approx(0.35)
    assert all(
        math.isnan(x) for x in (designed.estimate.ci_low, designed.estimate.ci_high, designed.estimate.p_value)
    )
    assert published.estimate.p_value < 0.05  # the paper's test takes them for six independent ones


def test_one_template_is_inference_over_diagnoses_alone():
    (designed, _) = gap(one_cell(template=lambda number: "t", condition=lambda number: f"c{number // 2}"))
    assert designed.cluster_vars == "diagnoses"
    # Cluster means .15, .35, .55: SD .2, error .2 / sqrt 3; t(2) at .975 = 4.302653.
    assert designed.estimate.std_error == pytest.approx(0.2 / math.sqrt(3))
    assert designed.estimate.df == pytest.approx(2)
    assert designed.estimate.ci_low == pytest.approx(0.35 - 4.302653 * 0.2 / math.sqrt(3), abs=1e-6)


def test_the_design_and_the_published_test_stand_in_that_order():
    """Conditions in categories: the gap over categories, then the paper's Welch test."""
    study = load_study("social_distance")
    rng = np.random.default_rng(4)
    made = []
    for number in range(60):
        name, group, category = f"c{number}", "stigmatized" if number % 3 else "other", f"k{number % 10}"
        made.append(
            {
                "experiment": "sentiment", "model_id": "m", "group": group, "label": category, "condition": name,
                "rendering": name, "pair_id": "", "template": "t", "text": name, "score": rng.uniform(),
            }
        )  # fmt: skip
    frame = pd.DataFrame(made)
    found = [
        one
        for one in disaggregate(frame, study, expected={})
        if one.measure == "group_gap" and one.slice_by == "all" and one.score == "score"
    ]
    assert [(one.cluster_vars, one.view, one.primary) for one in found] == [
        ("categories", "", True),
        ("", "as published", False),
    ]
    over = {"reference_group": "other", "cluster_ids": frame["label"]}
    slow = group_gap(frame["score"], frame["group"], **over).p_value
    sides = (frame.loc[frame["group"] == name, "score"] for name in ("stigmatized", "other"))
    published = stats.ttest_ind(*sides, equal_var=False)
    assert [one.estimate.p_value for one in found] == pytest.approx([slow, published.pvalue])
    assert len({one.estimate.value for one in found}) == 1
