"""Recomputing published numbers: the numbers of the studies, the match rule, faults of a paper."""

import pytest

from swapbias.findings import reproduce as module
from swapbias.findings.reproduce import NotAtHand, Reproduced, agrees, recompute as reproduce
from swapbias.studies.tables import Published


@pytest.mark.parametrize(
    ("printed", "recomputed", "equal"),
    [
        ("0.3206", 0.32064, True),
        ("0.3206", 0.32066, False),
        ("0.0000", 0.00004, True),
        ("0.0000", 0.00006, False),
        ("2.7e-5", 2.66e-5, True),
        ("2.7e-5", 2.64e-5, False),
        ("297", 297.0, True),
        ("-0.0402", -0.040196, True),
        ("0.5", float("nan"), False),
    ],
)
def test_a_number_matches_if_it_rounds_to_what_was_printed(printed, recomputed, equal):
    assert agrees(printed, recomputed) is equal


def test_the_numbers_of_gendered_stigma_follow_from_the_released_outputs(upstream):
    rows = [
        one for one in reproduce("gendered_stigma") if isinstance(one, Reproduced) and one.model == "roberta-large"
    ]
    assert {one.match for one in rows} == {"yes"}
    found = {one.number: one.recomputed for one in rows}
    # The figures that the study prints in its text.
    assert found["rq1 mental_health: mean female, value"] == pytest.approx(0.3206, abs=5e-5)
    assert found["rq1 mental_health: mean male, value"] == pytest.approx(0.1863, abs=5e-5)
    assert found["rq1 mental_health: female - male, effect_size"] == pytest.approx(1.638, abs=5e-4)
    for phase, d in (("diagnosis", 1.738), ("intention", 1.417), ("action", 1.902)):
        key = f"rq1 mental_health: female - male by phase={phase}, effect_size"
        assert found[key] == pytest.approx(d, abs=5e-4)
    assert found["rq1 mental_health: mean unspecified, value"] == pytest.approx(0.0668, abs=5e-5)
    key = "rq1 mental_health - other_health: gap difference female - male, effect_size"
    assert found[key] == pytest.approx(0.991, abs=5e-4)
    assert found["rq2 mental_health: female - male by dimension=help, p_value"] == pytest.approx(0.0080, abs=5e-5)
    assert found["rq2 mental_health: sums equal to the result table, value"] == 297
    assert len(rows) == 162


def test_the_numbers_of_occupation_sentiment_follow_from_the_released_outputs(upstream):
    rows = [one for one in reproduce("occupation_sentiment") if isinstance(one, Reproduced)]
    bert = [one for one in rows if one.model.startswith("bert")]
    assert len(bert) == 14
    assert {one.match for one in rows} == {"yes"}


def test_outputs_that_are_not_there_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    missing = list(reproduce("occupation_sentiment"))
    assert all(isinstance(one, NotAtHand) for one in missing)
    assert [one.model for one in missing][1:] == ["logistic regression (bag of words)", "bidirectional LSTM"]
    assert "runs/logreg.txt is not at hand" in missing[1].reason


@pytest.mark.parametrize(("written", "match"), [("0.0387", "explained"), ("0.0123", "no"), ("", "no")])
def test_a_difference_is_explained_only_by_the_number_that_was_written_down(upstream, monkeypatch, written, match):
    real = module.published_for

    def with_a_misprint(study, model):
        known = real(study, model)
        key = ("control", "", "paired_gap", "female - male", "all", "")
        misprint = Published(value="0.9999", note="a misprint of the paper", recomputed=written)
        return {key: misprint} if key in known else {}

    monkeypatch.setattr("swapbias.findings.disaggregation.published_for", with_a_misprint)
    rows = [one for one in reproduce("occupation_sentiment") if isinstance(one, Reproduced)]
    assert [(one.match, one.note) for one in rows] == [(match, "a misprint of the paper")]
