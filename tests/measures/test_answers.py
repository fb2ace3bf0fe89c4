"""The bias of answers to "who does the pronoun refer to?": by hand, its test, the `evaluate` module."""

import math

import numpy as np
import pytest
from scipy import stats

from swapbias.measures.answer_accuracy import CLASSES, answer_bias
from swapbias.studies import catalogue as studies

NAN = math.nan
KEYS = {"correct": "the mechanic", "incorrect": "the construction worker"}
LETTER = {"c": "correct", "i": "incorrect", "u": "unsure", "o": "other", "-": None}


def bias_of(pro, anti, **more):
    """The bias of pairs whose answers are written as letters: ``bias_of("cu", "ci")``."""
    classes = [LETTER[letter] for letter in pro + anti]
    sides = ["pro"] * len(pro) + ["anti"] * len(anti)
    ids = [f"s{number}" for number in range(len(pro))] * 2
    return answer_bias(classes, sides, **{"pair_ids": ids, **more})


def test_the_bias_by_hand():
    # Pro: 6 of 8 right, anti 2 of 8: 75 - 25 = 50 points. Differences: 100 for s0 to s3, 0 for the others: squares of
    # the deviations 8 * 50^2, SD sqrt(20000 / 7) = 53.4522, error 18.8982, t = 2.6458 on 7 degrees of freedom:
    # p = .03315. Quantile .975 of t(7): 2.364624, half width 44.687. Other: 1 of 8 and 3 of 8.
    found = bias_of("ccccccuo", "iuoiccoo")
    assert found.estimate.value == 50
    assert found.accuracies == {"pro": 75, "anti": 25}
    assert found.estimate.p_value == pytest.approx(0.03315, abs=1e-5)
    assert (found.estimate.ci_low, found.estimate.ci_high) == pytest.approx((5.313, 94.687), abs=1e-3)
    assert (found.estimate.n, found.estimate.n_unscored, found.estimate.test) == (8, 0, "paired t")
    assert found.shares["pro"] == {"correct": 0.75, "incorrect": 0, "unsure": 0.125, "other": 0.125}
    assert found.shares["anti"] == {"correct": 0.25, "incorrect": 0.25, "unsure": 0.125, "other": 0.375}
    one, other = bias_of("cccu", "ciuu"), bias_of("cccu", "ciuu", reference_group="pro")
    assert one.estimate.value == -other.estimate.value == 50
    assert one.estimate.p_value == other.estimate.p_value
    assert one.shares == other.shares


def test_a_pair_with_a_version_that_was_not_posed_is_left_out_and_counted():
    found = bias_of("cc-c", "ii--")
    assert (found.estimate.value, found.estimate.n, found.estimate.n_unscored) == (100, 2, 2)
    nothing = bias_of("--", "cc")
    assert math.isnan(nothing.estimate.value)
    assert math.isnan(nothing.shares["pro"]["other"])
    assert (nothing.estimate.n, nothing.estimate.n_unscored) == (0, 2)
    found = answer_bias(["correct", NAN, "", "correct"], ["pro", "anti"] * 2, pair_ids=["a", "a", "b", "b"])
    assert (found.estimate.n, found.estimate.n_unscored) == (0, 2)
    found = bias_of("ccc", "ccc").estimate
    assert found.value == 0
    assert all(map(math.isnan, (found.ci_low, found.ci_high, found.p_value)))


def test_the_interval_is_that_of_scipy_and_a_planted_bias_is_found():
    pro, anti = 8 * "ccccccccuiouccci", 8 * "cciiuucciouccuii"
    found = bias_of(pro, anti).estimate
    gaps = np.array([(a == "c") - (b == "c") for a, b in zip(pro, anti, strict=True)]) * 100.0
    slow = stats.ttest_1samp(gaps, 0)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(slow.confidence_interval(0.95)))
    assert found.p_value == pytest.approx(slow.pvalue)
    rng = np.random.default_rng(0)

    def draw(right):
        return "".join(rng.choice(["c", "i", "u"], size=400, p=[right, (1 - right) / 2, (1 - right) / 2]))

    planted, none = bias_of(draw(0.85), draw(0.55)).estimate, bias_of(draw(0.7), draw(0.7)).estimate
    assert planted.ci_low < 30 < planted.ci_high
    assert planted.p_value < 1e-6
    assert none.ci_low < 0 < none.ci_high


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"classes": ["right", "correct"]}, r"classes \['right'\], expected correct, incorrect"),
        ({"sides": ["pro", "pro"]}, "expected exactly two with 'anti'"),
        ({"pair_ids": ["a", "b"]}, "has 0 rows of"),
        ({"cluster_ids": ["x", "y"]}, "lies in two clusters"),
    ],
)
def test_rows_that_make_no_pairs_are_refused(changes, said):
    rows = {"classes": ["correct", "other"], "sides": ["pro", "anti"], "pair_ids": ["a", "a"], **changes}
    with pytest.raises(ValueError, match=said):
        answer_bias(rows.pop("classes"), rows.pop("sides"), **rows)


def compute(**changes):
    """What the module returns for four pairs, which must be native floats."""
    evaluate = pytest.importorskip("evaluate")
    inputs = {
        "predictions": ["mechanic", "Clerk", "mechanic", "unsure", "clerk", "clerk", "the clerk", "him"],
        "references": ["the mechanic"] * 4 + ["the clerk"] * 4,
        "incorrect": ["the clerk"] * 4 + ["the mechanic"] * 4,
        "sides": ["pro", "anti"] * 4,
        "pair_ids": list("aabbccdd"),
        **changes,
    }
    found = evaluate.load(studies.metric_path("answer_bias")).compute(**inputs)
    assert {type(value) for value in found.values()} == {float}
    return found


def test_the_module_by_hand():
    # Pro: all 4 right; anti: wrong, unsure, right, unreadable: 100 - 25. Right on one side alone: a, b, d, all pro:
    # differences 100, 100, 0, 100: t = 75 / 25 = 3 on 3 degrees of freedom.
    found = compute()
    shares = [f"share_{name}_{side}" for side in ("pro", "anti") for name in CLASSES]
    keys = ["accuracy_pro", "accuracy_anti", "bias", "ci_low", "ci_high", "p_value", *shares, "n", "n_unscored"]
    assert list(found) == keys
    assert [found[key] for key in keys[:3]] == [100, 25, 75]
    assert found["p_value"] == pytest.approx(2 * stats.t.sf(3, 3))
    assert [found[key] for key in shares] == [1, 0, 0, 0, 0.25, 0.25, 0.25, 0.25]
    assert (found["n"], found["n_unscored"]) == (4, 0)
    # "Clerk" is read in lower case; "the clerk" is the exception for two words: nothing changes but sentences.
    assert compute(parser="strict")["bias"] == 75
    said = ["It is the mechanic.", *["clerk"] * 7]
    assert compute(predictions=said)["accuracy_pro"] == 75
    assert compute(predictions=said, parser="strict")["accuracy_pro"] == 50
    found = compute(predictions=[None, "clerk", *["clerk"] * 6])
    assert (found["n"], found["n_unscored"]) == (3, 1)
    with pytest.raises(ValueError, match="expected exactly two with 'anti' as reference_group"):
        compute(sides=["pro", "con"] * 4)
