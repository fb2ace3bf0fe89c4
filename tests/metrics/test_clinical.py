"""The evaluate modules of the clinical measures: values by hand, keys, native floats, the library's numbers."""

import math

import pytest

from swapbias.studies import catalogue as studies

evaluate = pytest.importorskip("evaluate")

NAN = math.nan
NOTES = {"groups": ["female", "male"] * 4, "pair_ids": list("aabbccdd")}
PAIRS = {"female": [[1.0, 0.0], [3.0, 4.0]], "male": [[-1.0, 0.0], [-3.0, 4.0]]}


def compute(name, **inputs):
    """What a module returns, which must be native floats under flat keys."""
    found = evaluate.load(studies.metric_path(name)).compute(**inputs)
    assert {type(value) for value in found.values()} == {float}
    return found


def test_flip_rate_by_hand():
    # Pairs a and d flip towards female; McNemar on 2 and 0: 2 * (1/2)^2 = .5.
    found = compute("flip_rate", predictions=[1, 0, 1, 1, 0, 0, 1, 0], **NOTES, reference_group="male")
    assert list(found) == ["value", "ci_low", "ci_high", "p_value", "more", "fewer", "direction", "n", "n_unscored"]
    assert (found["value"], found["p_value"], found["more"], found["fewer"]) == (0.5, 0.5, 2, 0)
    assert (found["direction"], found["n"], found["n_unscored"]) == (1, 4, 0)


def test_flip_rate_reads_probabilities_above_a_threshold():
    # Above .5: 1 0 | 0 0 (.5 is not above) | NaN | 0 1: one flip each way.
    chances = [0.9, 0.4, 0.5, 0.4, NAN, 0.9, 0.1, 0.8]
    found = compute("flip_rate", predictions=chances, **NOTES, reference_group="male", threshold=0.5)
    assert found["value"] == pytest.approx(2 / 3)
    assert (found["more"], found["fewer"], found["direction"], found["n_unscored"]) == (1, 1, 0, 1)


def test_flip_rate_refuses_probabilities_without_a_threshold():
    with pytest.raises(ValueError, match="expected 1, 0 or NaN"):
        compute("flip_rate", predictions=[0.9, 0.1] * 4, **NOTES, reference_group="male")


def test_crossed_factors_of_rates_are_refused():
    both = {"cluster_ids": {"a": list("aabbaabb"), "b": list("aaaabbbb")}}
    rates = {"predictions": [1, 0] * 4, **NOTES, "reference_group": "male"}
    guesses = {"predictions": list("aabb") * 2, "references": list("abab") * 2}
    labelled = {**rates, "references": [1] * 8}
    for name, given in (("flip_rate", rates), ("rate_ratio", labelled), ("leakage_uar", guesses)):
        with pytest.raises(ValueError, match="cluster_ids with the factors a, b, expected one"):
            compute(name, **given, **both)


def test_flips_without_a_direction_are_zero_and_without_a_pair_nan():
    even = compute("flip_rate", predictions=[1, 0, 0, 1] * 2, **NOTES, reference_group="male")
    assert (even["value"], even["direction"]) == (1, 0)
    nothing = compute("flip_rate", predictions=[NAN, 1] * 4, **NOTES, reference_group="male")
    assert math.isnan(nothing["value"])
    assert math.isnan(nothing["direction"])
    assert (nothing["n"], nothing["n_unscored"]) == (0, 4)


def test_rate_ratio_by_hand():
    # Label 1: female 1, 1; male 1, 0: .5 / 1, female higher. Label 0: female 0, 0; male 0, 1: 0 / .5, male higher.
    found = compute(
        "rate_ratio", predictions=[1, 1, 1, 0, 0, 0, 0, 1], references=[1, 1, 1, 1, 0, 0, 0, 0],
        **NOTES, reference_group="male",
    )  # fmt: skip
    assert (found["tprr"], found["tpr_female"], found["tpr_male"], found["tprr_direction"]) == (0.5, 1, 0.5, 1)
    assert (found["fprr"], found["fpr_female"], found["fpr_male"], found["fprr_direction"]) == (0, 0, 0.5, -1)
    assert (found["tprr_n"], found["fprr_n"], found["n_undefined"]) == (4, 4, 0)
    assert (found["tpr_difference"], found["fpr_difference"]) == (0.5, -0.5)
    assert found["log_tprr"] == pytest.approx(math.log(2))
    assert math.isnan(found["log_fprr"])
    assert found["fpr_difference_ci_low"] == -found["tpr_difference_ci_high"]


def test_undefined_ratios_are_nan_and_counted():
    # No text of label 0; of label 1 only one is read, of a female patient: the male rate is 0/0.
    found = compute(
        "rate_ratio", predictions=[1, NAN, NAN, NAN] * 2, references=[1] * 8, **NOTES, reference_group="male"
    )
    undefined = "tprr tpr_difference_ci_low tprr_direction tpr_male fprr fpr_female fprr_direction"
    assert all(math.isnan(found[key]) for key in undefined.split())
    assert (found["tpr_female"], found["tprr_n"], found["tprr_n_unscored"], found["fprr_n"]) == (1, 2, 6, 0)
    assert found["n_undefined"] == 2


def test_direct_bias_by_hand():
    # The direction is the first axis: cosines 1, 0 and -.6; the zero vector has none.
    words = [[1.0, 0.0], [0.0, 2.0], [-3.0, 4.0], [0.0, 0.0]]
    found = compute("direct_bias", predictions=words, **PAIRS)
    assert (found["direct_bias"], found["signed_mean"]) == pytest.approx((1.6 / 3, 0.4 / 3))
    assert (found["explained_variance"], found["n"], found["n_unscored"]) == (pytest.approx(1), 3, 1)
    turned = compute("direct_bias", predictions=words, female=PAIRS["male"], male=PAIRS["female"])
    assert turned["signed_mean"] == pytest.approx(-0.4 / 3)


def test_leakage_uar_by_hand():
    # Recall of f 2/3 and of m 1/1; the blank guess does not count.
    found = compute("leakage_uar", predictions=["f", "f", "m", "m", ""], references=["f", "f", "f", "m", "m"])
    assert found["uar"] == pytest.approx(5 / 6)
    assert (found["chance"], found["n"], found["n_unscored"]) == (0.5, 4, 1)
    numbered = compute("leakage_uar", predictions=[1, 1, 0, 0, NAN], references=[1, 1, 1, 0, 0])
    assert numbered == found
    single = compute("leakage_uar", predictions=["f"], references=["f"])
    assert math.isnan(single["uar"])
    assert math.isnan(single["chance"])
