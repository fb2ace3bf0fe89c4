"""Robustness of primary findings: by hand, by slow definitions, planted, null, and for rare
rates."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swapbias.findings import check_gaps, disaggregate
from swapbias.findings.terms import FAILS, FOUND, NONE, OPEN, PASSES, SMALL, UNDECIDED, UNSTABLE
from swapbias.measures.units import named_unit
from swapbias.report import cautions
from swapbias.studies import Study
from tests.experiments import experiment

EXPERIMENT = experiment(
    name="tiny",
    kind="masked",
    groups=("f",),
    reference="m",
    unit="P(negative)",
    random={"template": "templates", "condition": "conditions"},
)


def rows(gaps, base=0.3):
    """A pair for each (template, condition) with this gap."""
    records = [
        (group, f"{template}/{condition}", template, condition, score)
        for (template, condition), gap in gaps.items()
        for group, score in (("f", base + gap), ("m", base))
    ]
    frame = pd.DataFrame(records, columns=["group", "pair_id", "template", "condition", "score"])
    return frame.assign(experiment="tiny", model_id="a", label="x")


def reworded(gaps, wording):
    again = rows(gaps)
    ids = again["pair_id"] + f"/w{wording}"
    return again.assign(side=again["group"], group="placebo", wording=str(wording), pair_id=ids)


def audit(frame, asked=EXPERIMENT):
    return disaggregate(
        frame, Study(name="tiny", title="", url="", experiments=(asked,)), expected={}
    )


def primary(findings):
    (result,) = [finding for finding in findings if finding.primary]
    return result


def judged(findings):
    return primary(findings).verdict, check_gaps(findings).checks[0].outcome


def grid(of_template, conditions=("a", "b")):
    return {(template, name): gap for template, gap in of_template.items() for name in conditions}


def test_range_without_each_template():
    """The range is that of the means without each template."""
    # .1, .2 and .6: without the third .15, without the first .4; two conditions are too few to leave one out.
    found = primary(audit(rows(grid({"t1": 0.1, "t2": 0.2, "t3": 0.6}))))
    assert found.estimate.value == pytest.approx(0.3)
    assert (found.loo_min, found.loo_max) == pytest.approx((0.15, 0.4))
    assert found.carrier == (
        "templates",
        "t3",
        pytest.approx(0.15),
    )  # .15 away; the others .1 and .05
    gaps = grid({"t1": -0.01, "t2": -0.011, "t3": -0.009, "t4": -0.01, "spinster": 0.2}, "abc")
    found = primary(audit(rows(gaps)))
    assert found.estimate.value > 0 > found.loo_min
    assert found.verdict == "too few levels"  # of conditions, without spinster too: the word stays
    assert found.influences == []
    assert "Not robust" not in " ".join(cautions.list_cautions(found))
    rng = np.random.default_rng(1)
    gaps = {(f"t{t}", f"c{c}"): 0.2 + rng.normal(0, 0.01) for t in range(6) for c in range(5)}
    found = primary(audit(rows(gaps)))
    assert found.influential_items == ""
    assert found.verdict == FOUND
    assert 0.19 < found.loo_min <= found.estimate.value <= found.loo_max < 0.21
    person = EXPERIMENT.changed(design={"random": {"subject_id": "subjects"}})
    frame = rows(grid({"t1": -0.01, "t2": -0.012, "t3": -0.009, "t4": 0.2}))
    found = primary(audit(frame.assign(subject_id=frame["template"]), person))
    assert found.influential_items == ""
    assert math.isnan(found.loo_min)


def in_wordings(rng, *means):
    """Gaps of these means, the first in the wording of the study, each of the others in another."""
    gaps_by_wording = (
        {(f"t{t}", f"c{c}"): mean + rng.normal(0, 0.01) for t in range(5) for c in range(4)}
        for mean in means
    )
    return pd.concat(
        [
            reworded(gaps, number) if number else rows(gaps)
            for number, gaps in enumerate(gaps_by_wording)
        ]
    )


def test_gap_in_every_wording():
    """A gap in every wording keeps its sign, and a gap in one wording alone is unstable."""
    found = audit(in_wordings(np.random.default_rng(4), *[0.2] * 6))
    assert primary(found).sign_agreement == 1
    assert primary(found).estimate.n == 20  # rows in other wordings are no part of it
    (beyond,) = [one for one in found if one.measure == "gap_beyond_wording"]
    assert beyond.cluster_vars == "templates + conditions + wordings"
    assert beyond.estimate.value == pytest.approx(0.2, abs=0.01)
    assert beyond.estimate.n == 120
    assert beyond.estimate.p_value < 0.001
    alone = primary(audit(in_wordings(np.random.default_rng(5), 0.2, -0.2, -0.1, 0.1, -0.2, 0.1)))
    assert (alone.sign_agreement, alone.verdict) == (
        pytest.approx(0.4),
        UNSTABLE,
    )  # two of the five others


def test_doubtful_swaps():
    """Notes with a doubtful swap are left out of one row."""
    frame = rows(grid({"t1": 0.1, "t2": 0.11, "t3": 0.09, "t4": 0.5}, "abc"))
    doubtful = frame.assign(doubtful=(frame["template"] == "t4").astype(int).astype(str))
    found = audit(doubtful)
    (clear,) = [one for one in found if one.measure == "gap_without_doubtful"]
    assert primary(found).estimate.value == pytest.approx(0.2)
    assert clear.estimate.value == pytest.approx(0.1)
    assert (clear.estimate.n, primary(found).estimate.n) == (9, 12)
    (row,) = [
        one
        for one in cautions.sensitivity_rows(primary(found), found)
        if one[0].startswith("notes whose swap")
    ]
    assert row[1] == "+10.0 points"
    for none in (frame, frame.assign(doubtful="0"), frame.assign(doubtful="1")):
        assert not [one for one in audit(none) if one.measure == "gap_without_doubtful"]


def test_gap_beyond_wording():
    """A model that reacts to wordings alone is found by the naive test and not beyond wording."""
    rng = np.random.default_rng(6)
    naive = 0
    beyond = 0
    runs = 30
    for _ in range(runs):
        parts = []
        for wording, effect in enumerate(rng.normal(0, 0.1, 6)):
            gaps = {
                (f"t{t}", f"c{c}"): effect + rng.normal(0, 0.03) for t in range(6) for c in range(5)
            }
            parts.append(reworded(gaps, wording) if wording else rows(gaps))
        found = audit(pd.concat(parts))
        naive += primary(found).estimate.p_value < 0.05
        beyond += (
            next(one for one in found if one.measure == "gap_beyond_wording").estimate.p_value
            < 0.05
        )
    assert naive / runs > 0.5
    assert beyond <= 5  # of 30 at .05 more than 5 have a chance below .004


def test_bounds_of_missing_scores():
    """Bounds are the means with the missing score at either end."""
    gaps = grid({"t1": 0.1, "t2": 0.1, "t3": 0.1}, "a")
    frame = rows(gaps)
    frame.loc[0, "score"] = math.nan
    found = primary(audit(frame))
    # The pair's score of f is 0 or 1 beside .3 of m: gaps of -.3 or .7 beside .1 and .1.
    assert (found.missing_data_low, found.missing_data_high) == pytest.approx(
        ((-0.3 + 0.2) / 3, (0.7 + 0.2) / 3)
    )
    assert "Counting missing answers either way" in " ".join(cautions.list_cautions(found))
    found = audit(rows(grid({"t1": 0.1, "t2": 0.2, "t3": 0.15})))
    assert math.isnan(primary(found).missing_data_low)
    assert not [one for one in found if one.measure == "nonanswer_gap"]
    frame = rows(grid({"t1": 0.1, "t2": 0.2, "t3": 0.15, "t4": 0.1}, "a"))
    frame.loc[[0, 2], "score"] = math.nan  # of f two in four, of m none
    (found,) = [one for one in audit(frame) if one.measure == "nonanswer_gap"]
    assert found.estimate.value == pytest.approx(0.5)
    assert found.unit == "share of prompts"


def test_scores_that_disagree():
    """Scores of one construct that disagree stand side by side."""
    both = EXPERIMENT.changed(shows={"scores": ("score", "closed_list_mass")})
    frame = rows(grid({"t1": 0.1, "t2": 0.2, "t3": 0.15}))
    found = primary(audit(frame.assign(closed_list_mass=1 - frame["score"]), both))
    assert ["score", "closed_list_mass", "-0.15"] in found.influences
    frame = rows(grid({"t1": 0.1, "t2": 0.2, "t3": 0.15, "t4": 0.1}, "a")).assign(truncated=0.0)
    frame.loc[[1, 3, 5], "truncated"] = 1.0  # of m three in four, of f none
    assert not [one for one in audit(frame) if one.measure == "truncation_gap"]  # only of answers
    chat = EXPERIMENT.changed(kind="chat")
    (found,) = [one for one in audit(frame, chat) if one.measure == "truncation_gap"]
    assert found.estimate.value == pytest.approx(-0.75)
    assert not [
        one for one in audit(frame.assign(truncated=0.0), chat) if one.measure == "truncation_gap"
    ]


RATES = EXPERIMENT.changed(compares={"unit": named_unit("share of answers")})
TEMPLATES = 20
CONDITIONS = 10


def rates(rng, of_f, of_m, spread=0.005, answers=0):
    """Rates of every pair around those of two groups, or shares of so many answers drawn at them."""
    lean = spread * rng.standard_normal((2, TEMPLATES))
    frame = rows(grid(dict.fromkeys(range(TEMPLATES), 0.0), range(CONDITIONS)))
    scores = []
    for template, group in zip(frame["template"], frame["group"], strict=True):
        side = int(group == "m")
        chance = np.clip(
            (of_f, of_m)[side] + lean[side, template] + spread * rng.standard_normal(), 0, 1
        )
        scores.append(rng.binomial(answers, chance) / answers if answers else chance)
    return frame.assign(score=scores)


def test_ratio_interval_of_delta_method():
    """The interval of the ratio is that of the delta method."""
    frame = rates(np.random.default_rng(1), 0.06, 0.05)
    only = RATES.changed(design={"random": {"template": "templates"}})
    found = primary(audit(frame, only))
    table = frame.pivot(index="pair_id", columns="group", values="score")
    scaled = (
        (table["f"] / table["f"].mean() - table["m"] / table["m"].mean()).rename("y").reset_index()
    )
    by_template = scaled.groupby(scaled["pair_id"].str.split("/").str[0])["y"].mean()
    assert found.ratio == pytest.approx(table["f"].mean() / table["m"].mean())
    assert found.ratio_std_error == pytest.approx(by_template.std(ddof=1) / math.sqrt(TEMPLATES))
    half = stats.t.ppf(0.975, TEMPLATES - 1) * found.ratio_std_error
    low, high = (math.exp(math.log(found.ratio) + side * half) for side in (-1, 1))
    assert found.ratio_interval[0] <= low * (1 + 1e-9)
    assert found.ratio_interval[1] >= high * (1 - 1e-9)  # and wider on the side of a long tail
    assert found.mean_level == pytest.approx((table["f"].mean() + table["m"].mean()) / 2)


def test_two_percent_beside_six():
    """A rate of 2 % beside 6 % is a gap, although it is below 5 points."""
    found = audit(rates(np.random.default_rng(2), 0.06, 0.02), RATES)
    assert abs(primary(found).estimate.ci_high) < 0.05
    assert judged(found) == (FOUND, FAILS)
    assert judged(audit(rates(np.random.default_rng(5), 0.42, 0.40, spread=0.015), RATES)) == (
        SMALL,
        PASSES,
    )
    frame = rates(np.random.default_rng(4), 0.04, 0.04, answers=2)
    frame.loc[frame["group"] == "f", "score"] = 0.0
    one = primary(audit(frame, RATES))
    assert one.ratio == 0.0
    assert all(math.isnan(end) for end in one.ratio_interval)
    assert one.verdict in (FOUND, UNDECIDED)


def test_alike_and_few_rare_rates():
    """Rare rates that are alike pass, and few answers stay undecided."""
    rng = np.random.default_rng(3)
    assert judged(audit(rates(rng, 0.09, 0.09, spread=0.012), RATES)) == (NONE, PASSES)
    few = audit(
        rates(rng, 0.02, 0.02, answers=1), RATES
    )  # four answers of each group: the ratio may be anything
    assert abs(primary(few).estimate.ci_high) < 0.05
    assert judged(few) == (UNDECIDED, OPEN)


def test_rates_at_the_margin():
    """Rates at the margin of a ratio seldom pass or fail."""
    rng = np.random.default_rng(6)
    runs = 25
    made = [
        audit(rates(rng, of_f, 0.06, spread=0.01), RATES)
        for of_f in (0.075, 0.048)
        for _ in range(runs)
    ]
    outcomes = [judged(found)[1] for found in made]
    most = stats.binom.isf(0.001, len(outcomes), 0.05)
    assert outcomes.count(PASSES) <= most
    assert outcomes.count(FAILS) <= most
