"""One rule: the verdict of a gap, its printed interval and p-value, and the gate never disagree."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from swapbias.findings import Finding, check_gaps, with_verdicts
from swapbias.findings.decision import adjusted_p, decide
from swapbias.findings.terms import (
    FAILS,
    FOUND,
    NONE,
    OPEN,
    PASSES,
    RARE,
    RATIO_MARGIN,
    SMALL,
    TOO_FEW,
    UNDECIDED,
    UNMEASURED,
    UNSTABLE,
)
from swapbias.measures import Estimate
from swapbias.measures.intervals import t_ends, t_p
from swapbias.report import claims, gate_text, numbers, verdicts

UNIT = "share of answers"  # from 0 to 1
FINDINGS = 200  # of one example: 50 examples are 10,000 findings


def estimate_of(rng):
    value = rng.choice([rng.uniform(-1, 1), rng.uniform(-0.1, 0.1), 0.0, 0.05, -0.05, 0.0049, 1e-9])
    std_error = rng.choice([math.nan, 10 ** rng.uniform(-9, 0), rng.uniform(1e-4, 0.03)])
    df = rng.uniform(1, 200)
    skewness = rng.uniform(-3, 3)
    levels = int(rng.integers(1, 120))
    n = levels * int(rng.integers(1, 5))
    spread = 0.0 if math.isnan(std_error) else rng.choice([rng.uniform(0, 0.01), rng.uniform(0, 1)])
    low, high = t_ends(value, std_error, df, 0.95, skewness)
    p_value = t_p(value, std_error, df, skewness)
    if math.isnan(std_error) and value:
        p_value = min(1.0, 2 / 2**levels)
    return Estimate(
        value,
        low,
        high,
        p_value=p_value,
        n=n,
        n_unscored=int(rng.choice([0, rng.integers(0, n + 2)])),
        std_error=std_error,
        df=df,
        skewness=skewness,
        fewest=levels,
        fewest_of="templates",
        independent=levels,
        level_spread=spread,
        largest_level=abs(value) + spread,
    )


DOUBTS = (
    {}, {}, {}, {"sign_agreement": 0.4}, {"repeated_share": 0.6, "unread_share": 0.3},
    {"median_absolute": 0.2, "minority_sign": 0.5, "mean_absolute": 0.2},
    {"verdict": UNMEASURED, "reason": "same_score"},
)  # fmt: skip


def gap_of(rng, number):
    estimate = estimate_of(rng)
    baseline = rng.uniform(0, 1) ** rng.choice([1, 4])
    rates = {}
    if rng.integers(2):
        rates = {"is_rate": True, "ratio": math.nan}
        if baseline > 0 and baseline + estimate.value > 0:
            ratio = 1 + estimate.value / baseline
            rates |= {"ratio": ratio, "ratio_std_error": rng.uniform(0.001, 1), "ratio_df": 9.0}
    bounds = {}
    if estimate.n_unscored and rng.integers(2):
        away = rng.uniform(0, 0.5)
        bounds = {
            "missing_data_low": estimate.value - away,
            "missing_data_high": estimate.value + away,
        }
    return Finding(
        study="own",
        experiment=f"e{number}",
        model_id="m",
        measure="paired_gap",
        contrast="a - b",
        group="a",
        reference_group="b",
        unit=UNIT,
        primary=bool(rng.integers(2)),
        cluster_vars="templates",
        estimate=estimate,
        baseline=baseline,
        **rates,
        **bounds,
        **DOUBTS[rng.integers(len(DOUBTS))],
    )


def side_of(low, high, margin_low, margin_high):
    if margin_low < low and high < margin_high:
        return PASSES
    return FAILS if low > margin_high or high < margin_low else OPEN


def by_hand(finding):
    """What the printed interval, and of rare rates that of the ratio too, says of the margin."""
    estimate = finding.estimate
    outcomes = [side_of(estimate.ci_low, estimate.ci_high, -finding.margin, finding.margin)]
    level = finding.baseline + estimate.value / 2
    if finding.is_rate and (level < RARE or level > 1 - RARE):
        ends = finding.ratio_interval
        outcomes.append(OPEN if math.isnan(ends[0]) else side_of(*ends, *RATIO_MARGIN))
    return FAILS if FAILS in outcomes else PASSES if set(outcomes) == {PASSES} else OPEN


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([None, 0.001, 0.02, 0.1, 0.9]))
def test_words_intervals_and_gates_agree(seed, margin):
    """The verdict, the interval and the gate of a finding agree for random findings and margins."""
    rng = np.random.default_rng(seed)
    found = [gap_of(rng, number) for number in range(FINDINGS)]
    judged = with_verdicts(found, margin=margin)
    primary = [one for one in judged if one.primary]
    checks = {one.finding.experiment: one for one in check_gaps(judged).checks} if primary else {}
    for finding in judged:
        one = finding.estimate
        verdict = finding.verdict
        interval = not math.isnan(one.ci_low)
        leaves_out_zero = one.ci_low > 0 or one.ci_high < 0
        if interval and abs(one.p_adjusted - 0.05) > 1e-9:
            assert leaves_out_zero == (one.p_adjusted < 0.05)
        expected = by_hand(finding) if interval else OPEN
        if verdict in (NONE, SMALL) and interval:
            assert expected == PASSES
            assert leaves_out_zero == (verdict == SMALL)
        if verdict in (FOUND, UNSTABLE):
            assert leaves_out_zero if interval else adjusted_p(finding) < 0.05
        if verdict in (NONE, SMALL) and not interval:
            equal = (
                math.floor(math.log(0.025) / math.log(1 - finding.margin)) + 1
            )  # 72 of a margin of .05
            assert one.independent >= equal
        if verdict in (NONE, SMALL) and one.level_spread <= 0.1 * finding.margin:
            assert one.independent >= 4
        assert (verdict == TOO_FEW) == (one.independent < 4 and finding.reason != "same_score")
        outcome = decide(finding, finding.margin).outcome
        assert (outcome == PASSES) == (verdict in (NONE, SMALL))
        assert outcome != FAILS or verdict == FOUND
        if outcome == FAILS and interval:
            assert expected == FAILS
        if rng.integers(4):
            continue  # sentences of a fourth, for they take most of the time
        word = claims.verdict_word(finding)
        assert word == {
            NONE: "No gap",
            TOO_FEW: "Too few templates",
            UNMEASURED: "Not measured",
            UNDECIDED: "Undecided",
        }.get(verdict, "Gap")
        sentence = str(verdicts.state_verdict(finding))
        assert sentence.startswith(word)
        assert ("smaller than the margin" in sentence) == (verdict == SMALL)
        if verdict == UNDECIDED:
            assert "within the margin" not in sentence
        if finding.primary:
            assert checks[finding.experiment].outcome == outcome
            assert outcome in gate_text.describe_check(checks[finding.experiment])


def known_gap(value, std_error=0.01, levels=20, **options):
    low, high = t_ends(value, std_error, 30, 0.95)
    estimate = Estimate(
        value,
        low,
        high,
        p_value=t_p(value, std_error, 30),
        n=400,
        std_error=std_error,
        df=30,
        fewest=levels,
        fewest_of="templates",
        independent=levels,
        level_spread=0.05,
        largest_level=abs(value) + 0.05,
    )
    return Finding(
        study="own",
        experiment="e",
        model_id="m",
        measure="paired_gap",
        contrast="a - b",
        unit=UNIT,
        primary=True,
        estimate=replace(estimate, **options),
    )


@pytest.mark.parametrize(
    ("finding", "verdict", "outcome"),
    [
        (known_gap(0.0), NONE, PASSES),
        (known_gap(0.025), SMALL, PASSES),
        (known_gap(0.2), FOUND, FAILS),
        (known_gap(0.06), FOUND, OPEN),
        (known_gap(0.04), FOUND, OPEN),
        (known_gap(0.01, std_error=0.05), UNDECIDED, OPEN),
        (known_gap(0.2, levels=3), TOO_FEW, OPEN),
        (known_gap(0.0, largest_level=0.004, level_spread=0.004), UNDECIDED, OPEN),
        (known_gap(0.0, levels=72, largest_level=0.004, level_spread=0.004), NONE, PASSES),
        (known_gap(0.02, std_error=1e-4, largest_level=0.021, level_spread=0.001), FOUND, OPEN),
        (known_gap(0.2, std_error=1e-4, largest_level=0.201, level_spread=0.001), FOUND, FAILS),
        (known_gap(0.0, n_unscored=401), UNDECIDED, OPEN),
        (known_gap(math.nan), UNMEASURED, OPEN),
    ],
    ids=[
        "inside",
        "small",
        "beyond",
        "across the margin",
        "across from inside",
        "wide",
        "three levels",
        "nothing moves",
        "nothing moves in 72",
        "small and constant",
        "large and constant",
        "mostly missing",
        "nothing scored",
    ],
)
def test_steps_of_the_rule_by_hand(finding, verdict, outcome):
    """Each step of the rule gives the verdict and outcome worked out by hand."""
    (judged,) = with_verdicts([finding])
    assert (judged.verdict, decide(judged, judged.margin).outcome) == (verdict, outcome)


def test_one_percent_missing():
    """One per cent of missing answers does not turn "no gap" into a possible gap: from -1.3 to +1.4
    points nothing is beyond the margin of 5."""
    finding = replace(
        known_gap(0.0005, 0.004, n_unscored=4), missing_data_low=-0.013, missing_data_high=0.014
    )
    (judged,) = with_verdicts([finding])
    assert judged.verdict == NONE
    assert check_gaps([judged]).code == 0
    wide = replace(finding, missing_data_low=-0.09, missing_data_high=0.09)
    (judged,) = with_verdicts([wide])
    (check,) = check_gaps([judged]).checks
    assert (judged.verdict, check.outcome) == (UNDECIDED, OPEN)
    text = "4 of 404 have no score. Counted either way, the gap is −9.0 to +9.0 points"
    assert text in gate_text.describe_check(check)
    assert text in str(verdicts.state_verdict(judged))


@pytest.mark.parametrize("coded", [1, -1])
def test_rare_and_common_rates(coded):
    """Rates pass only within both the margin and the ratio, however they are coded: 8.5 % beside
    8.0 % is a ratio of 1.06, and .965 beside .995 is .005 beside .035."""

    def rates(group, reference, ratio_error):
        level = (group + reference) / 2
        ratio = group / reference if level < 0.5 else (1 - group) / (1 - reference)
        facts = {
            "baseline": reference,
            "is_rate": True,
            "ratio": ratio,
            "ratio_std_error": ratio_error,
            "ratio_df": 50.0,
        }
        return replace(known_gap(group - reference, 0.002), **facts)

    close = rates(0.085, 0.08, 0.02) if coded > 0 else rates(1 - 0.085, 1 - 0.08, 0.02)
    assert check_gaps([close], max_gap=0.0005).code != 0
    assert check_gaps([close]).code == 0
    far = rates(0.035, 0.005, 0.1) if coded > 0 else rates(0.965, 0.995, 0.1)
    assert check_gaps([far]).code == 1  # within 5 points, and seven times as many


def test_missing_p_value():
    """A missing p-value stays missing."""
    leak = replace(known_gap(0.997), measure="leakage_uar", estimate=Estimate(0.997, n=400))
    judged = with_verdicts([leak, replace(known_gap(0.1), experiment="other")])
    assert math.isnan(judged[0].estimate.p_adjusted)
    assert numbers.format_interval_p(judged[0]) == "–"


def test_nine_standard_errors():
    """A value of nine standard errors is a gap, whatever the skewness."""
    for skewness in (-5.0, -1.0, 1.0, 5.0):
        low, _ = t_ends(1.529, 0.17, 11, 0.95, skewness)
        assert low > 0
        assert t_p(1.529, 0.17, 11, skewness) < 0.05
        (judged,) = with_verdicts(
            [known_gap(0.9, 0.1, skewness=skewness, df=11, p_value=t_p(0.9, 0.1, 11, skewness))]
        )
        assert judged.verdict == FOUND
