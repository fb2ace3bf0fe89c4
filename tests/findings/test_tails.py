"""Decisions at thresholds and gaps at quantiles: by hand, by slow definitions, planted, under the null."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy

import swapbias
from benchmarks import tails
from swapbias.errors import StudyError
from swapbias.findings import disaggregate
from swapbias.findings.terms import COARSE_SCORES, SAME_DECISION
from swapbias.measures import quantiles
from swapbias.measures.share_intervals import share_over_factors

TITLE = "12 templates x 10 words"
NAMES = ["Ada", "Bea", "Cleo", "Dora", "Edna", "Fay", "Gwen", "Hope"]
OTHERS = ["Abe", "Bob", "Carl", "Dan", "Ed", "Finn", "Guy", "Hal"]


def found_of(scores, title=TITLE, **compares):
    """The findings at thresholds and quantiles of these scores, shape (pairs, groups), by measure and cut."""
    study, rows = tails.prompts_of(title)
    if compares:
        (experiment,) = study.experiments
        study = study.changed(experiments=(experiment.changed(compares=compares),))
    table = rows.assign(score=np.ravel(scores))
    findings = disaggregate(table, study, expected={}, robustness=False)
    return {
        (finding.measure, finding.contrast.rpartition(", ")[2]): finding
        for finding in findings
        if finding.record.at_cut
    }


def quantile_by_definition(scores, quantile, weights):
    """The mean of ordered scores, each weighted by the beta distribution over its share."""
    order = np.argsort(scores)
    ends = np.concatenate([[0], np.cumsum(weights[order])]) / weights.sum()
    units = weights.sum() ** 2 / (weights**2).sum()
    beta = scipy.stats.beta((units + 1) * quantile, (units + 1) * (1 - quantile))
    return sum(
        score * (beta.cdf(high) - beta.cdf(low))
        for score, low, high in zip(scores[order], ends, ends[1:], strict=False)
    )


def test_quantile_by_hand():
    """The middle of 0, 1 and 2 is 1. The beta density at thirds is 4 / 3, so that 0 pulls it by 4 /
    3."""
    linear = quantiles.linearised_quantile(np.array([2.0, 0.0, 1.0]), 0.5)
    np.testing.assert_allclose(linear, [1 + 4 / 3, 1 - 4 / 3, 1])


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_quantile_by_slow_definition(quantile):
    """The weighted mean is the quantile by definition, and a number is what its unit's weight adds."""
    rng = np.random.default_rng(0)
    scores = rng.lognormal(size=200)
    weights = rng.uniform(0.5, 1.5, 200)
    linear = quantiles.linearised_quantile(scores, quantile, weights)
    value = quantile_by_definition(scores, quantile, weights)
    assert np.average(linear, weights=weights) == pytest.approx(value)
    # The slope in one weight, without the change of the beta distribution itself.
    units = weights.sum() ** 2 / (weights**2).sum()
    beta = scipy.stats.beta((units + 1) * quantile, (units + 1) * (1 - quantile))
    index = int(np.argsort(scores)[int(200 * quantile)])
    share = weights / weights.sum()
    step = 1e-5
    moved = (1 - step) * share
    moved[index] += step
    order = np.argsort(scores)
    ends = beta.cdf(np.concatenate([[0], np.cumsum(moved[order])]))
    slope = (np.diff(ends) @ scores[order] - value) / step
    assert linear[index] - value == pytest.approx(slope, rel=0.02, abs=1e-3)


def test_equal_and_shifted_scores():
    """Quantiles move with a shift and a factor, whatever the order of rows."""
    scores = np.random.default_rng(1).normal(size=50)
    plain = quantiles.linearised_quantile(scores, 0.1)
    np.testing.assert_allclose(quantiles.linearised_quantile(3 * scores + 2, 0.1), 3 * plain + 2)
    np.testing.assert_allclose(quantiles.linearised_quantile(scores[::-1], 0.1), plain[::-1])


def test_flips_by_hand():
    """Of four templates with two pairs, one pair flips: 1 of 8. Its variance over templates is that
    of means 1 / 2, 0, 0, 0, worth 7 units at 3 degrees of freedom. One template of pairs alike but
    for one makes it 8 / 1.5."""
    counted = np.array([True, *[False] * 7])
    share = share_over_factors(counted, {"templates": np.repeat(np.arange(4), 2)})
    variance = np.var([0.5, 0, 0, 0], ddof=1) / 4
    assert 0.125 * 0.875 / variance == pytest.approx(7)
    worth = 8 / (1 + (2 - 1) / (1 + 1))
    square = scipy.stats.t.ppf(0.975, 3) ** 2 / worth
    half = math.sqrt(square * (0.125 * 0.875 + square / 4))
    assert share.value == 0.125
    assert share.ci_low == pytest.approx((0.125 + square / 2 - half) / (1 + square))
    assert share.ci_high == pytest.approx((0.125 + square / 2 + half) / (1 + square))


def test_no_flips():
    """Where no pair flips the interval ends where the levels put it, not at 0: 8 templates alike rule
    out little."""
    share = share_over_factors(np.zeros(80, bool), {"templates": np.repeat(np.arange(8), 10)})
    square = scipy.stats.t.ppf(0.975, 7) ** 2 / 8
    assert (share.value, share.ci_low) == (0, 0)
    assert share.ci_high == pytest.approx(square / (1 + square))
    one_level = share_over_factors(np.zeros(10, bool), {"templates": np.zeros(10, np.intp)})
    assert math.isnan(one_level.ci_high)


def test_decisions_by_hand():
    """Of 120 pairs 12 are decided for the first group alone and 6 for the second: 15 % flip, and
    decisions differ by 5 points."""
    scores = np.full((12, 10, 2), -1.0)
    scores[:, 0, 0] = 1.5
    scores[:6, 1, 1] = 1.5
    scores[:, 2:5] = 3.0
    found = found_of(scores)
    flips = found["decision_flips", "score of 1 or more"]
    gap = found["decision_gap", "score of 1 or more"]
    assert flips.estimate.value == pytest.approx(0.15)
    assert gap.estimate.value == pytest.approx(0.05)
    assert gap.baseline == pytest.approx((6 + 36) / 120)
    assert (gap.unit, gap.is_rate, gap.scale.in_points) == (
        "share of positive decisions",
        True,
        True,
    )
    assert flips.cluster_vars == gap.cluster_vars == "templates + words"
    assert found["decision_flips", "score of 2 or more"].estimate.value == 0
    # A score of the threshold itself is a positive decision.
    assert found_of(scores + 0.5)["decision_flips", "score of 2 or more"].estimate.value == 0.15


def test_planted_tail():
    """A gap that only low scores have is found at the lowest tenth, and not at the others."""
    rng = np.random.default_rng(2)
    base = 10 * rng.normal(size=(400, 1)) + rng.normal(size=(400, 1))
    pairs = base + rng.normal(size=(400, 2))
    pairs[:, 0] -= 6 * (base[:, 0] < np.quantile(base, 0.2))
    study, rows = tails.prompts_of("20 templates x 20 words")
    # Templates and words of these pairs share nothing.
    found = disaggregate(rows.assign(score=pairs.ravel()), study, expected={}, robustness=False)
    by_cut = {one.contrast[-3:]: one for one in found if one.measure == "quantile_gap"}
    assert by_cut["0.1"].estimate.value == pytest.approx(-6, abs=1)
    assert by_cut["0.1"].verdict == "gap"
    assert by_cut["0.1"].estimate.ci_low < -6 < by_cut["0.1"].estimate.ci_high
    assert abs(by_cut["0.9"].estimate.value) < 0.6
    assert by_cut["0.9"].verdict == "no gap"


def test_planted_shift():
    """A shift of every score is found at its size at every quantile, and all three are corrected
    together."""
    rng = np.random.default_rng(3)
    scores = tails.draw_scores(rng, "20 templates x 20 words", "normal")
    scores[:, 0] += 5
    found = found_of(scores, "20 templates x 20 words")
    gaps = [finding for (measure, _), finding in found.items() if measure == "quantile_gap"]
    assert [finding.questions for finding in gaps] == [3, 3, 3]
    for finding in gaps:
        assert finding.estimate.ci_low < 5 < finding.estimate.ci_high
        assert finding.verdict == "gap"


def test_groups_that_are_no_pairs():
    """Of rows that are no pairs there are gaps at quantiles and in decisions, and no flips."""
    scores = tails.draw_scores(np.random.default_rng(4), TITLE, "normal")
    scores[:, 0] += 5
    found = found_of(scores, measure="group_gap")
    assert not any(measure == "decision_flips" for measure, _ in found)
    assert found["quantile_gap", "quantile 0.5"].estimate.value == pytest.approx(5, abs=1)
    # As the same scores in pairs: values do not depend on the comparison.
    paired = found_of(scores)
    for cut in ("quantile 0.1", "quantile 0.5"):
        value = paired["quantile_gap", cut].estimate.value
        assert found["quantile_gap", cut].estimate.value == pytest.approx(value)


def test_nothing_measured():
    """A threshold beyond every score and scores of two values say nothing, and never "no gap"."""
    scores = np.random.default_rng(5).choice([-1.0, 0.5], size=(120, 2))
    found = found_of(scores)
    beyond = [finding for (_, cut), finding in found.items() if cut == "score of 2 or more"]
    assert {(one.verdict, one.reason) for one in beyond} == {("not measured", SAME_DECISION)}
    assert len(beyond) == 2
    coarse = found["quantile_gap", "quantile 0.5"]
    assert (coarse.verdict, coarse.reason) == ("not measured", COARSE_SCORES)
    assert math.isnan(coarse.estimate.value)


def test_too_few_in_the_tail():
    """Of 8 templates the lowest tenth has a value and no interval, since too few lie there."""
    study, rows = tails.prompts_of("30 templates")
    rows = rows[rows["template"].isin(["0", "1", "2", "3", "4", "5", "6", "7"])]
    scores = np.random.default_rng(6).normal(size=len(rows))
    found = disaggregate(rows.assign(score=scores), study, expected={}, robustness=False)
    (tail, *_) = [one for one in found if one.measure == "quantile_gap"]
    assert not math.isnan(tail.estimate.value)
    assert math.isnan(tail.estimate.ci_low)
    assert tail.verdict == "undecided"


def test_null_audits():
    """Of 25 audits without a gap few intervals miss: as many as 95 % intervals may."""
    truth = tails.true_flips(TITLE, "normal", 400)
    by_audit = [tails.misses(found, truth) for found in tails.audited(TITLE, "normal", 25)]
    for name in by_audit[0]:
        assert sum(missed.get(name, False) for missed in by_audit) <= 5, name


def study_folder(folder, keys):
    """An own study of 12 templates and eight pairs of names, with these keys of what it shows."""
    folder.mkdir(parents=True)
    names = zip(NAMES, OTHERS, strict=True)
    slots = [f"{pair},f,{one}\n{pair},m,{other}\n" for pair, (one, other) in enumerate(names)]
    (folder / "slots.csv").write_text("pair,group,who\n" + "".join(slots))
    templates = [f"[who] asks for loan {number}.\n" for number in range(12)]
    (folder / "templates.csv").write_text("template\n" + "".join(templates))
    (folder / "study.toml").write_text(
        f'name = "loans"\ntitle = "Loans"\n[compares]\nreference = "m"\n[shows]\n{keys}'
    )
    return folder


def lends(texts):
    """Loans 1 to 12 are scored by their number, those asked for by women .1 lower where they are large."""
    sizes = [int(text.rstrip(".").split()[-1]) for text in texts]
    return [
        0.05 * size + 0.001 * len(text) - 0.1 * (size > 8 and text.split()[0] in NAMES)
        for size, text in zip(sizes, texts, strict=True)
    ]


@pytest.mark.usefixtures("audits")
def test_own_study(tmp_path):
    """An own study asks for thresholds and quantiles; they are in its files and on its page."""
    folder = study_folder(tmp_path / "study", "decisions = 0.43\nquantiles = [0.1, 0.9]\n")
    outcome = swapbias.audit(lends, prompts=folder, out=tmp_path / "run", progress=False)
    table = pd.read_csv(tmp_path / "run" / "findings.csv")
    found = table[table["contrast"].str.contains(", ")].set_index("contrast")
    flips = found[found["measure"] == "decision_flips"].iloc[0]
    # Loan 9 of 12 lies above .43 for men alone, and loan 10 too.
    assert flips["value"] == pytest.approx(2 / 12)
    assert found.loc["f - m, quantile 0.9", "value"] == pytest.approx(-0.1, abs=0.03)
    assert abs(found.loc["f - m, quantile 0.1", "value"]) < 0.005
    page = outcome.report().read_text()
    for heading in ("Decisions that flip", "Gaps in decisions", "Gaps at quantiles"):
        assert heading in page
    assert "Quantile 0.9" in page
    assert swapbias.Audit.open(tmp_path / "run").found == outcome.found


@pytest.mark.usefixtures("audits")
def test_constant_model(tmp_path):
    """A model with one score for all flips no decision, which is not measured."""
    folder = study_folder(tmp_path / "study", "decisions = [0.5]\nquantiles = [0.5]\n")
    outcome = swapbias.audit(
        lambda texts: [0.7 for _ in texts], prompts=folder, out=tmp_path / "run", progress=False
    )
    cuts = [finding for finding in outcome.found if finding.record.at_cut]
    assert len(cuts) == 3
    assert {finding.verdict for finding in cuts} == {"not measured"}
    assert all(math.isnan(finding.estimate.value) for finding in cuts)


@pytest.mark.parametrize(
    "keys", ["quantiles = [1.0]\n", 'decisions = ["high"]\n', "quantiles = 0\n"]
)
def test_wrong_keys(tmp_path, keys):
    """A quantile of 0 or 1 and a threshold that is no number are refused with their line."""
    folder = study_folder(tmp_path / "study", keys)
    with pytest.raises(StudyError, match=r"study\.toml:6"):
        swapbias.audit(lends, prompts=folder, out=tmp_path / "run", progress=False)


def test_sentence():
    """A sentence on a quantile names it, and the claim about means is not repeated."""
    from swapbias.report.claims import claim_sentence

    scores = tails.draw_scores(np.random.default_rng(3), "20 templates x 20 words", "normal")
    scores[:, 0] += 5
    found = found_of(scores, "20 templates x 20 words")
    sentence = claim_sentence(replace(found["quantile_gap", "quantile 0.9"], study="nosuch"))
    assert sentence.startswith("simulated: gap, f − m, quantile 0.9 is +")
