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


IN_CATEGORIES = {"k": "aaaabb", "c": "xxyyzz"}  # each condition is of one category


@pytest.mark.parametrize(
    ("factors", "columns", "told"),
    [
        ("tc", {"t": "aabb", "c": "xyxy"}, "templates + conditions"),  # they cross
        ("kc", IN_CATEGORIES, "categories"),  # what lies in another is held by that one, whatever the order
        ("kc", dict(reversed(IN_CATEGORIES.items())), "categories"),
        ("ck", IN_CATEGORIES, "categories"),
        ("kc", {"k": "aaaabb", "c": "xxyyzx"}, "categories + conditions"),  # a condition is in two categories
        ("tn", {"t": "xxyy", "n": "ppqq"}, "templates"),  # of two names for the same clusters the first
        ("nt", {"t": "xxyy", "n": "ppqq"}, "noun pairs"),
        ("tck", {"t": "ababab", **IN_CATEGORIES}, "templates + categories"),
        ("tc", {"t": "abab", "c": "xxxx"}, "templates"),  # a constant is no sample
    ],
)
def test_factors_that_lie_in_another_or_are_constant_are_not_told(factors, columns, told):
    names = {"t": "templates", "c": "conditions", "k": "categories", "n": "noun pairs"}
    clusters, found = context(**{one: names[one] for one in factors}).random(rows(**columns))
    assert (found, " + ".join(clusters)) == (told, told)


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
    one = designed.estimate
    assert all(math.isnan(x) for x in (one.ci_low, one.ci_high, one.p_value))
    assert published.estimate.p_value < 0.05  # the paper's test takes them for six independent ones
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
    wanted = ("group_gap", "all", "score")
    found = [
        one for one in disaggregate(frame, study, expected={}) if (one.measure, one.slice_by, one.score) == wanted
    ]
    told = [(one.cluster_vars, one.view, one.primary) for one in found]
    assert told == [("categories", "", True), ("", "as published", False)]
    over = {"reference_group": "other", "cluster_ids": frame["label"]}
    slow = group_gap(frame["score"], frame["group"], **over).p_value
    sides = (frame.loc[frame["group"] == name, "score"] for name in ("stigmatized", "other"))
    published = stats.ttest_ind(*sides, equal_var=False)
    assert [one.estimate.p_value for one in found] == pytest.approx([slow, published.pvalue])
    assert len({one.estimate.value for one in found}) == 1
