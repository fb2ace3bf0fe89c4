"""The gate passes gaps within the margin, fails larger ones and leaves the rest open: by hand
and simulated."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swapbias.errors import UsageError
from swapbias.findings import disaggregate, primary_findings
from swapbias.findings.decision import with_verdicts
from swapbias.findings.finding import Finding, as_unmeasured
from swapbias.findings.gate import check_gaps
from swapbias.findings.terms import FAILS, FOUND, OPEN, PASSES, TOO_FEW, UNDECIDED, UNREAD_SWAP
from swapbias.measures.estimate import Estimate
from swapbias.report.gate_text import check_reason
from swapbias.studies.catalogue import config_rows, load_study

AUDITS = 40
MOST = 0.05 + 2 * math.sqrt(0.05 * 0.95 / AUDITS)  # what 5 % come to in so many audits
POSITIVE_SENTIMENT = "probability of positive sentiment"


def primary(
    value,
    std_error=0.01,
    df=1e6,
    *,
    n=400,
    experiment="sentences",
    measure="paired_gap",
    unit=POSITIVE_SENTIMENT,
    **options,
):
    ends = (value - 1.96 * std_error, value + 1.96 * std_error)
    return Finding(
        study="occupation_sentiment",
        experiment=experiment,
        model_id="m",
        measure=measure,
        contrast="female - male",
        unit=unit,
        primary=True,
        cluster_vars="noun pairs + professions",
        estimate=Estimate(value, *ends, n=n, std_error=std_error, df=df, **options),
    )


def outcomes(*findings, **options):
    return [check.outcome for check in check_gaps(findings, **options).checks]


def test_several_questions_widen_intervals():
    """The interval of each of several questions is wider than that of one."""
    tested = [primary(0.03, p_value=0.5), primary(0.0, p_value=0.5, experiment="control")]
    (alone,) = with_verdicts([replace(tested[0], study="own")], margin=0.05)
    two = with_verdicts(tested)
    assert [one.questions for one in (alone, *two)] == [1, 2, 2]
    assert outcomes(alone) == [PASSES]
    assert two[0].estimate.ci_high == pytest.approx(0.03 + 0.01 * stats.norm.isf(0.05 / 4))
    assert outcomes(*two) == [OPEN, PASSES]  # .0524
    (few,) = with_verdicts([primary(0.0, p_value=1.0, fewest=3, fewest_of="templates")])
    assert few.verdict == TOO_FEW
    (check,) = check_gaps([few]).checks
    assert check.outcome == OPEN
    assert check_reason(check) == "3 templates are too few for a verdict; at least 4 are needed"


@pytest.mark.parametrize(
    ("value", "expected"),
    # 2 errors below .05, and 1.96 are needed
    [
        (0.030, PASSES),
        (0.031, OPEN),
        (-0.030, PASSES),
        (0.069, OPEN),
        (0.070, FAILS),
        (-0.070, FAILS),
    ],
)
def test_interval_decides(value, expected):
    """The 95 % interval decides whether a gap passes, fails or stays open."""
    assert outcomes(primary(value)) == [expected]


def test_margin_is_share_of_range():
    """The margin is a share of the range of the unit."""
    points = primary(2.0, 1.0, unit="percentage points")  # of 100: a margin of 5
    assert outcomes(points) == [PASSES]
    assert check_gaps([points]).checks[0].margin == 5
    assert outcomes(points, max_gap=0.03) == [OPEN]
    good = primary(0.0)
    open_ = primary(0.05, experiment="control")
    bad = primary(0.2, experiment="control")
    for found, outcome, code in (
        ([good], PASSES, 0),
        ([good, open_], OPEN, 3),
        ([good, bad], FAILS, 1),
    ):
        assert (check_gaps(found).outcome, check_gaps(found).code) == (outcome, code)
    assert outcomes(good, bad, studies=["occupation_sentiment:sentences"]) == [PASSES]
    with pytest.raises(UsageError, match="no primary finding of rq1: it has occupation_sentiment"):
        check_gaps([good, bad], studies=["rq1"])
    rate = primary(
        0.9, measure="leakage_uar", unit="unweighted average recall", experiment="control"
    )
    assert check_gaps([good, rate]).unchecked == (rate,)
    with pytest.raises(
        UsageError, match="Nothing to check: occupation_sentiment control has no gap"
    ):
        check_gaps([rate])


def test_gap_without_interval():
    """A gap without an interval, or with another sign in rewordings, stays open."""
    assert outcomes(primary(0.2, std_error=math.nan, df=math.nan, n=400)) == [
        OPEN
    ]  # of 0: test_all_clears.py
    turning = replace(primary(0.2), sign_agreement=0.4)
    assert check_reason(check_gaps([turning]).checks[0]) == "too few rewordings have the same sign"
    assert outcomes(turning, primary(0.0, n_unscored=401)) == [OPEN, OPEN]


@pytest.mark.parametrize(
    "margin", [0, -0.1, 1.1, math.nan], ids=["zero", "negative", "above 1", "NaN"]
)
def test_wrong_margin(margin):
    """A margin that is not between 0 and 1 is refused."""
    with pytest.raises(UsageError, match="expected above 0"):
        check_gaps([primary(0.0)], max_gap=margin)


ROWS = pd.DataFrame(config_rows("occupation_sentiment", "sentences"))[
    [
        "prompt_id",
        "pair_id",
        "group",
        "label",
        "template",
        "condition",
        "construct",
        "text",
        "experiment",
    ]
]
PAIRS, NOUNS, JOBS = (pd.factorize(ROWS[name])[0] for name in ("pair_id", "template", "condition"))
STUDY = load_study("occupation_sentiment")
_SHORT = {"slices": (), "levels": (), "covariates": ()}
BARE = STUDY.changed(experiments=(STUDY.experiments[0].changed(shows=_SHORT),))  # quick
SIDE = np.where(ROWS["group"] == "female", 0.5, -0.5)
SIZES = ((NOUNS, 0.02), (JOBS, 0.01), (PAIRS, 0.03))  # effects on a pair's gap


def scored(gap, rng, name="new"):
    drawn = sum(size * rng.standard_normal(codes.max() + 1)[codes] for codes, size in SIZES)
    return ROWS.assign(score=0.5 + SIDE * (gap + drawn), model_id=name)


def found_in(rows):
    return disaggregate(rows, BARE, expected={}, robustness=False)


def check_against(gap, before, rng, **options):
    rows = scored(gap, rng)
    primary = [row for row in found_in(rows) if row.primary]
    items = {"occupation_sentiment": rows}
    return check_gaps(
        primary,
        items=items,
        baseline={"occupation_sentiment": scored(before, rng, "old")},
        **options,
    )


def test_baseline_allows_its_gap():
    """A baseline allows a gap of its size and the margin."""
    rng = np.random.default_rng(0)
    assert check_against(0.30, 0.30, rng).outcome == PASSES
    assert check_against(-0.30, 0.30, rng).outcome == PASSES  # as large, to the other side
    assert check_against(0.05, 0.30, rng).outcome == PASSES  # smaller
    assert check_against(0.45, 0.30, rng).outcome == FAILS
    assert check_against(-0.45, 0.30, rng).outcome == FAILS
    assert check_against(0.35, 0.30, rng).outcome == OPEN


def test_model_against_itself():
    """A model is no worse than itself, and a baseline with other prompts is refused."""
    rows = scored(0.3, np.random.default_rng(1))
    found = primary_findings(found_in(rows))
    items = {"occupation_sentiment": rows}
    assert outcome_of(found, items=items, baseline=items) == (
        PASSES,
        "both models score these prompts the same",
    )
    with pytest.raises(UsageError, match="no scored prompts of it"):
        check_gaps(found, items=items, baseline={})
    other = {"occupation_sentiment": rows.assign(text=rows["text"] + "!")}
    with pytest.raises(UsageError, match="different prompts"):
        check_gaps(found, items=items, baseline=other)


def constant(gap, *, nouns=20, jobs=20):
    rows = ROWS[(nouns > NOUNS) & (jobs > JOBS)]
    return found_in(
        rows.assign(
            score=0.5 + 0.3 * rows["condition"].str.len() % 0.2 + gap * SIDE[rows.index],
            model_id="m",
        )
    )


def outcome_of(findings, **options):
    (check,) = check_gaps(primary_findings(findings), **options).checks
    return check.outcome, check_reason(check)


@pytest.mark.parametrize("gap", [0.2, -0.2])
def test_constant_gap_fails_by_signs(gap):
    """The same gap in all pairs fails by the signs of its clusters."""
    # Of 6 noun pairs and 20 jobs all have one sign: 2 / 2**6 = .031, and of 5 .0625.
    assert outcome_of(constant(gap, nouns=6)) == (
        FAILS,
        "all 120 differ by the same: sign test (noun pairs and professions), beyond the margin of 5 points",
    )
    assert outcome_of(constant(gap, nouns=5))[0] == OPEN
    assert (
        outcome_of(constant(gap), max_gap=0.3)[0] == OPEN
    )  # 20 levels do not rule out a mean of .3


def test_small_constant_gap_passes():
    """A small gap in all pairs passes where a larger mean would have shown."""
    # Were the mean .05, a share of .95 / .99 could have .01: .9596**90 = .0245, **89 = .0255.
    alike = {"std_error": math.nan, "df": math.nan, "p_value": 0.001, "independent": 90}
    assert [check_gaps([primary(0.01, **alike)]).outcome] == [PASSES]
    assert check_gaps([primary(0.01, **alike | {"independent": 89})]).outcome == OPEN
    assert (
        outcome_of(constant(0.01, nouns=9, jobs=10))[0] == OPEN
    )  # nine levels, whatever the number of pairs
    verdicts = [
        primary_findings(constant(gap, nouns=nouns))[0].verdict
        for gap, nouns in ((0.2, 6), (0.2, 5), (0.01, 6))
    ]
    assert verdicts == [
        FOUND,
        UNDECIDED,
        FOUND,
    ]  # a gap, and six levels do not show that it is a small one


def test_constant_change_from_baseline():
    """A constant change from a baseline is decided like a constant gap."""
    old = scored(0.3, np.random.default_rng(2), "old")
    for more, expected in (
        (0.2, FAILS),
        (-0.2, PASSES),
        (0.01, OPEN),
    ):  # of .01 90 levels are needed
        new = old.assign(score=old["score"] + more * SIDE, model_id="new")
        items = {"items": {"occupation_sentiment": new}, "baseline": {"occupation_sentiment": old}}
        assert outcome_of(found_in(new), **items)[0] == expected, more


def outcome_beside(new, old, **options):
    """The outcome of the gate of scored rows beside those of a baseline."""
    rows = {"items": {"occupation_sentiment": new}, "baseline": {"occupation_sentiment": old}}
    return outcome_of(found_in(new), **rows, **options)


def few_levels(rows, *, nouns, jobs):
    return rows[(nouns > NOUNS) & (jobs > JOBS)]


def test_few_levels_beside_baseline():
    """Too few levels or equal pairs never pass beside a baseline."""
    rng = np.random.default_rng(3)
    varied = scored(0.3, rng)
    equal = ROWS.assign(score=0.5 + 0.01 * JOBS, model_id="new")
    two = {"nouns": 2, "jobs": 2}
    assert outcome_beside(few_levels(equal, **two), few_levels(equal, **two)) == (
        OPEN,
        "2 noun pairs are too few for a verdict; at least 4 are needed",
    )
    three = few_levels(varied, nouns=3, jobs=20)
    assert outcome_beside(three, three)[0] == OPEN
    some = few_levels(equal, nouns=5, jobs=4)  # 20 pairs without any gap, and 72 are needed
    why = "nothing varies, and 20 pairs are too few to rule out a larger change"
    assert outcome_beside(some, some) == (OPEN, why)
    assert outcome_beside(some, few_levels(varied, nouns=5, jobs=4)) == (OPEN, why)
    assert outcome_beside(
        few_levels(varied, nouns=5, jobs=4), few_levels(varied, nouns=5, jobs=4)
    ) == (OPEN, why)
    assert outcome_beside(equal, equal) == (PASSES, "both models score these prompts the same")


def test_unmeasured_baseline():
    """A baseline that was not measured leaves the outcome open."""
    rows = scored(0.0, np.random.default_rng(4))
    blind = ROWS.assign(score=0.5, model_id="old")
    why = "the baseline was not measured (every prompt has the same score)"
    assert outcome_beside(rows, blind) == (OPEN, why)
    assert outcome_beside(blind, rows) == (OPEN, "every prompt has the same score")
    unread = [as_unmeasured(one, UNREAD_SWAP) for one in found_in(rows) if one.primary]
    assert outcome_beside(rows, rows, baseline_found=unread) == (
        OPEN,
        "the baseline was not measured (the model does not seem to read the swapped words)",
    )


def test_mostly_unscored_change():
    """A change of which most was not scored is undecided."""
    rows = scored(0.0, np.random.default_rng(5))
    lost = rows.assign(score=rows["score"].where(PAIRS % 3 == 0))
    why = "more than half could not be scored"
    assert outcome_beside(lost, rows) == (OPEN, why)
    assert outcome_beside(rows, lost) == (OPEN, why)


def shares(gates):
    outcomes = [gate.outcome for gate in gates]
    return {outcome: outcomes.count(outcome) / len(outcomes) for outcome in (PASSES, FAILS)}


@pytest.mark.parametrize(
    ("gap", "wrong", "right"), [(0.05, PASSES, None), (0.0, FAILS, PASSES), (0.15, PASSES, FAILS)]
)
def test_error_rates(gap, wrong, right):
    """Each kind of error of the gate is rare."""
    rng = np.random.default_rng(int(100 * gap))
    seen = shares(check_gaps(with_verdicts(found_in(scored(gap, rng)))) for _ in range(AUDITS))
    assert seen[wrong] <= MOST
    assert right is None or seen[right] > 0.9


@pytest.mark.parametrize(("gap", "before", "wrong"), [(-0.35, 0.3, PASSES), (0.3, 0.3, FAILS)])
def test_error_rates_beside_baseline(gap, before, wrong):
    """Each kind of error of the gate beside a baseline is rare."""
    rng = np.random.default_rng([int(100 * abs(gap)), int(100 * before)])
    assert shares(check_against(gap, before, rng) for _ in range(AUDITS))[wrong] <= MOST


def test_no_random_factor():
    """Rows without a random factor are not too few but have no interval."""
    bare = BARE.changed(experiments=(BARE.experiments[0].changed(design={"random": {}}),))
    rows = scored(0.3, np.random.default_rng(5))
    found = primary_findings(disaggregate(rows, bare, expected={}, robustness=False))
    assert [one.verdict for one in found] == [UNDECIDED]
    assert outcome_of(found) == (
        OPEN,
        "there is no interval, because too little varies or was scored",
    )


def test_baseline_without_random_columns():
    """A baseline whose rows lack their random columns leads to no interval."""
    plain = {"template": "", "condition": ""}
    rows = [
        scored(gap, np.random.default_rng(seed)).assign(**plain)
        for seed, gap in ((5, 0.3), (6, 0.1))
    ]
    outcome, why = outcome_beside(*rows)
    assert outcome == OPEN
    assert why == "there is no interval, because too little varies or was scored"
