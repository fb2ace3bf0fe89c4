"""Rates that are rare are compared by their ratio: 2 % beside 6 % is no "no gap" of 5 points."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swapbias.findings import FAILS, FOUND, NONE, OPEN, PASSES, SMALL, UNDECIDED, check_gaps
from tests.findings.test_robustness import EXPERIMENT, audit as audit_of, primary

RATES = replace(EXPERIMENT, unit="share of answers")
TEMPLATES, CONDITIONS = 20, 10


def rates(rng, of_f, of_m, spread=0.005, answers=0):
    """Rates of every pair around those of two groups, or shares of so many answers drawn at them."""
    made = []
    lean = spread * rng.standard_normal((2, TEMPLATES))
    for template in range(TEMPLATES):
        for condition in range(CONDITIONS):
            for side, (group, rate) in enumerate((("f", of_f), ("m", of_m))):
                chance = np.clip(rate + lean[side, template] + spread * rng.standard_normal(), 0, 1)
                made.append(
                    {
                        "experiment": "tiny", "model_id": "a", "group": group, "pair_id": f"{template}/{condition}",
                        "template": f"t{template}", "condition": f"c{condition}", "label": "x",
                        "score": rng.binomial(answers, chance) / answers if answers else chance,
                    }
                )  # fmt: skip
    return pd.DataFrame(made)


def audit(frame, experiment=RATES):
    return audit_of(frame, experiment)


def test_the_interval_of_the_ratio_is_that_of_the_delta_method():
    frame = rates(np.random.default_rng(1), 0.06, 0.05)
    only = replace(RATES, random={"template": "templates"})
    found = primary(audit(frame, only))
    table = frame.pivot(index="pair_id", columns="group", values="score")
    scaled = (table["f"] / table["f"].mean() - table["m"] / table["m"].mean()).rename("y").reset_index()
    by_template = scaled.groupby(scaled["pair_id"].str.split("/").str[0])["y"].mean()
    assert found.ratio == pytest.approx(table["f"].mean() / table["m"].mean())
    assert found.ratio_std_error == pytest.approx(by_template.std(ddof=1) / math.sqrt(TEMPLATES))
    half = stats.t.ppf(0.975, TEMPLATES - 1) * found.ratio_std_error
    low, high = (math.exp(math.log(found.ratio) + side * half) for side in (-1, 1))
    assert found.ratio_interval[0] <= low * (1 + 1e-9)
    assert found.ratio_interval[1] >= high * (1 - 1e-9)  # and wider on the side of a long tail
    assert found.mean_level == pytest.approx((table["f"].mean() + table["m"].mean()) / 2)


def test_two_percent_beside_six_is_a_gap_although_it_is_less_than_five_points():
    found = audit(rates(np.random.default_rng(2), 0.06, 0.02))
    one = primary(found)
    assert abs(one.estimate.ci_high) < 0.05
    assert (one.verdict, check_gaps(found).checks[0].outcome) == (FOUND, FAILS)
    found = audit(rates(np.random.default_rng(5), 0.42, 0.40))
    assert primary(found).verdict == SMALL
    assert check_gaps(found).checks[0].outcome == PASSES
    frame = rates(np.random.default_rng(4), 0.04, 0.04, answers=2)
    frame.loc[frame["group"] == "f", "score"] = 0.0
    one = primary(audit(frame))
    assert one.ratio == 0.0
    assert all(math.isnan(end) for end in one.ratio_interval)
    assert one.verdict in (FOUND, UNDECIDED)


def test_rare_rates_that_are_alike_pass_and_few_answers_decide_nothing():
    rng = np.random.default_rng(3)
    found = audit(rates(rng, 0.06, 0.06, spread=0.003))
    assert (primary(found).verdict, check_gaps(found).checks[0].outcome) == (NONE, PASSES)
    few = audit(rates(rng, 0.02, 0.02, answers=1))  # four answers of each group: the ratio may be anything
    assert abs(primary(few).estimate.ci_high) < 0.05
    assert (primary(few).verdict, check_gaps(few).checks[0].outcome) == (UNDECIDED, OPEN)


def test_rates_at_the_margin_of_a_ratio_seldom_pass_or_fail():
    rng, runs = np.random.default_rng(6), 25
    outcomes = [
        check_gaps(audit(rates(rng, of_f, 0.06, spread=0.01))).checks[0].outcome
        for of_f in (0.075, 0.048)
        for _ in range(runs)
    ]
    most = stats.binom.isf(0.001, len(outcomes), 0.05)
    assert outcomes.count(PASSES) <= most
    assert outcomes.count(FAILS) <= most
