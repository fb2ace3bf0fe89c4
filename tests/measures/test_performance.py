"""Performance by actual group: by hand, against slow definitions and fairlearn, invariances, null and planted."""

import math

import numpy as np
import pytest
import scipy

from swapbias.measures import mean_score
from swapbias.measures.rates import DIFFERENCES, auroc_parts, performance

SIDES = ("f", "m")


def clinic(seed, *, subjects=(40, 60), notes=4, hard=0.0, prevalence=0.4):
    """Subjects of one to four notes that score alike; ``hard``: how much less the scores of women tell."""
    rng = np.random.default_rng(seed)
    rows = []
    for side, count in zip(SIDES, subjects, strict=True):
        for number in range(count):
            label, lean = rng.random() < prevalence, rng.normal()
            for _ in range(rng.integers(1, notes + 1)):
                lean_of_label = (2 * label - 1) * (1.2 - hard * (side == "f")) + lean + rng.normal()
                rows.append((float(label), side, f"{side}{number}", scipy.special.expit(1.2 * lean_of_label)))
    labels, groups, ids, scores = (list(column) for column in zip(*rows, strict=True))
    return np.array(labels), groups, ids, np.array(scores)


def found_in(labels, groups, ids, scores, **more):
    return performance(scores > 0.5, labels, groups, reference_group="m", scores=scores, cluster_ids=ids, **more)


def test_rates_ranking_and_calibration_by_hand():
    # Women: labels 1 1 0 0, scores .9 .4 .6 .1, called above .5: TP 1 of 2, FP 1 of 2, 1 of 2 called is right, 2 of 4
    # are called. Pairs of a positive and a negative: .9 over .6 and .1, .4 over .1 alone: 3 of 4.
    # Scores of women have the mean .5, as many are true: 0. Men: labels 1 0, scores .8 .3: TPR 1, FPR 0, PPV 1, 1 of
    # 2 called, ranked right, mean .55 of one half.
    labels, scores = np.array([1, 1, 0, 0, 1, 0]), np.array([0.9, 0.4, 0.6, 0.1, 0.8, 0.3])
    found = performance(scores > 0.5, labels, list("ffffmm"), reference_group="m", scores=scores)
    women, men = ({name: one.value for name, one in found.groups[side].items()} for side in SIDES)
    known = {"tpr": 0.5, "fpr": 0.5, "ppv": 0.5, "selection_rate": 0.5, "auroc": 0.75, "calibration": 0.0}
    assert {name: women[name] for name in known} == pytest.approx(known)
    known = {"tpr": 1, "fpr": 0, "ppv": 1, "selection_rate": 0.5, "auroc": 1, "calibration": 0.05}
    assert {name: men[name] for name in known} == pytest.approx(known)
    differences = [found.differences[name].value for name in DIFFERENCES.values()]
    assert differences == pytest.approx([-0.5, 0.5, -0.5, 0.0, -0.25, -0.05])
    assert found.equalised_odds.value == 0.5


def test_rates_are_those_of_fairlearn():
    metrics = pytest.importorskip("fairlearn.metrics", reason="needs fairlearn: pip install 'swapbias[dev]'")
    labels, groups, ids, scores = clinic(1, hard=0.8)
    found, predicted = found_in(labels, groups, ids, scores), (scores > 0.5).astype(float)
    both = {"sensitive_features": groups}
    frame = metrics.MetricFrame(
        metrics={
            "tpr": metrics.true_positive_rate, "fpr": metrics.false_positive_rate,
            "selection_rate": metrics.selection_rate,
        },
        y_true=labels, y_pred=predicted, **both,
    )  # fmt: skip
    for name in ("tpr", "fpr", "selection_rate"):
        for side in SIDES:
            assert found.groups[side][name].value == pytest.approx(frame.by_group[name][side])
    odds = metrics.equalized_odds_difference(labels, predicted, **both)
    assert found.equalised_odds.value == pytest.approx(odds)
    parity = metrics.demographic_parity_difference(labels, predicted, **both)
    assert abs(found.differences["demographic_parity_difference"].value) == pytest.approx(parity)
    chance = metrics.equal_opportunity_difference(labels, predicted, **both)
    assert abs(found.differences["equal_opportunity_difference"].value) == pytest.approx(chance)


def test_ranking_is_that_of_the_slow_way():
    labels, groups, ids, scores = clinic(2)
    scores = np.round(scores, 1)  # with ties
    found = found_in(labels, groups, ids, scores)
    for side in SIDES:
        mine = np.array(groups) == side
        above, below = scores[mine & (labels == 1)], scores[mine & (labels == 0)]
        won = [(one > other) + 0.5 * (one == other) for one in above for other in below]
        assert found.groups[side]["auroc"].value == pytest.approx(np.mean(won))


def test_what_a_row_adds_to_an_area_adds_up_to_delongs_variance():
    labels, _, _, scores = clinic(3)
    positive = labels == 1
    value, influence = auroc_parts(scores, positive)
    ill, well = scores[positive], scores[~positive]
    won = np.array([[(one > other) + 0.5 * (one == other) for other in well] for one in ill])
    slow = sum(np.mean((part - value) ** 2) / len(part) for part in (won.mean(axis=1), won.mean(axis=0)))
    assert influence.sum() == pytest.approx(0, abs=1e-12)
    assert influence @ influence == pytest.approx(slow)


def test_changing_the_groups_over_turns_every_sign_and_copies_of_notes_add_nothing():
    labels, groups, ids, scores = clinic(4, hard=0.5, notes=1)
    one = found_in(labels, groups, ids, scores)
    turned = performance(scores > 0.5, labels, groups, reference_group="f", scores=scores, cluster_ids=ids)
    for name, gap in one.differences.items():
        other = turned.differences[name]
        assert (gap.value, gap.ci_low) == pytest.approx((-other.value, -other.ci_high))
        assert gap.p_value == pytest.approx(other.p_value)
    assert one.equalised_odds.value == turned.equalised_odds.value
    copied = found_in(np.tile(labels, 3), groups * 3, ids * 3, np.tile(scores, 3))
    own = [f"{place}" for place in range(3 * len(ids))]
    alone = found_in(np.tile(labels, 3), groups * 3, own, np.tile(scores, 3))
    for name, gap in one.differences.items():
        several = gap, copied.differences[name], alone.differences[name]
        wide, thrice, thin = (each.ci_high - each.ci_low for each in several)
        assert copied.differences[name].value == pytest.approx(gap.value)
        assert thrice > 0.95 * wide > thin, name


@pytest.mark.simulation
def test_a_model_as_good_for_both_is_rarely_called_unequal_and_a_worse_one_is_found():
    rejected = dict.fromkeys((*DIFFERENCES.values(), "odds"), 0)
    planted = dict(rejected)
    for seed in range(30):
        for counts, hard in ((rejected, 0.0), (planted, 1.2)):
            found = found_in(*clinic(seed, hard=hard, subjects=(60, 60)))
            several = {**found.differences, "odds": found.equalised_odds}
            for name, one in several.items():
                counts[name] += one.p_value < 0.05
    assert max(rejected.values()) <= 5, rejected  # of a binomial of 30 at .05 more than 5 has p < .004
    assert planted["auroc_difference"] >= 27
    assert planted["odds"] >= 24
    assert planted["demographic_parity_difference"] < 15  # as many of both are called positive


def test_calibration_is_the_mean_of_what_scores_exceed_the_truth_by_over_subjects():
    labels, groups, ids, scores = clinic(6)
    found = found_in(labels, groups, ids, np.minimum(scores + 0.2 * (np.array(groups) == "f"), 1))
    women = np.array(groups) == "f"
    excess = np.minimum(scores + 0.2 * women, 1) - labels
    slow = mean_score(excess[women], cluster_ids=np.array(ids)[women])
    assert found.groups["f"]["calibration"] == slow
    gap = found.differences["calibration_difference"]
    assert gap.value == pytest.approx(excess[women].mean() - excess[~women].mean())
    assert gap.ci_low > 0  # a planted .2, less what is cut at 1


@pytest.mark.simulation
def test_intervals_cover_what_a_group_is_truly_given():
    labels, _, _, scores = clinic(5, subjects=(4_000, 4_000), notes=1)
    groups = ["f"] * 9 + ["m"] * (len(labels) - 9)
    truth = performance(scores > 0.5, labels, groups, reference_group="m", scores=scores)
    covered = dict.fromkeys(truth.groups["m"], 0)
    for seed in range(25):
        one = found_in(*clinic(100 + seed))
        for name, estimate in one.groups["m"].items():
            covered[name] += estimate.ci_low <= truth.groups["m"][name].value <= estimate.ci_high
    assert min(covered.values()) >= 21, covered  # of a binomial of 25 at .95 fewer has p < .01


def test_what_is_not_defined_is_nan_and_never_zero():
    found = performance(
        [1, 0, math.nan], [1, 0, 1], ["f", "m", "f"], reference_group="m", scores=[0.9, 0.2, math.nan]
    )
    assert math.isnan(found.groups["m"]["tpr"].value)  # no positive man
    assert math.isnan(found.groups["f"]["auroc"].value)
    assert math.isnan(found.equalised_odds.value)
    assert found.groups["f"]["tpr"].n_unscored == 1
    perfect = performance(
        [1, 0] * 20, [1, 0] * 20, ["f", "f", "m", "m"] * 10, reference_group="m", scores=[0.9, 0.1] * 20
    )
    assert perfect.groups["f"]["auroc"].value == 1
    assert 0.7 < perfect.groups["f"]["auroc"].ci_low < 1  # no error of ten is no proof of none
    assert perfect.differences["auroc_difference"].p_value == 1
    with pytest.raises(ValueError, match="from 0 to 1"):
        performance([1, 0], [1, 0], ["f", "m"], reference_group="m", scores=[2.0, 0.1])
