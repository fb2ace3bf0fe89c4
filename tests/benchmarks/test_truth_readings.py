"""The simulated audits of slopes, panels, names and next tokens: planted sizes, and a cell for each column."""

import numpy as np
import pytest

from benchmarks import truth_readings
from benchmarks.simulating import EFFECTS
from swapbias.models.chat.log_odds import orders, with_letters
from swapbias.studies import Candidate, Prompt


@pytest.fixture(autouse=True)
def still(monkeypatch):
    monkeypatch.setitem(EFFECTS, "none", lambda rng, count: np.zeros(count))


@pytest.mark.parametrize("made", ["slopes", "panels", "names"])
def test_planted_gap(made):
    """Models without effects have the planted gap and no other, in the findings that are looked at."""
    audited = next(truth_readings.DESIGNS[made]())
    (found,) = truth_readings.audits(audited, "none", 1, audited.planted)
    sizes = {finding.contrast: finding.estimate.value for finding in found}
    planted = [
        finding.estimate.value
        for finding in found
        if truth_readings._has_planted(audited, finding, audited.planted)
    ]
    assert planted == pytest.approx([audited.planted] * len(planted))
    others = sum(abs(value) for value in sizes.values()) - sum(map(abs, planted))
    assert others == pytest.approx(0, abs=1e-9)
    assert planted


@pytest.mark.parametrize("made", truth_readings.DESIGNS)
def test_cells_of_designs(made):
    """Every design has a cell for each column."""
    audited = next(truth_readings.DESIGNS[made]())
    row = truth_readings._measure_row(audited, "normal", 0.0, 1)
    assert len(row) == len(truth_readings.SERIES.columns)
    assert row[0] == audited.title
    assert row[-1] in ("yes", "no")


def test_likeliest_tokens_of_a_service():
    """A liking of an option is its log-odds, whatever the place that the service likes."""
    options = (Candidate("the nurse", 1.0), Candidate("the guest", 0.0))
    text = with_letters("Who left?", options)
    prompt = Prompt(prompt_id="1", text=text, candidates=options)
    gaps = []
    for ordered in orders(prompt):
        (first, second), hidden = truth_readings._first_tokens(ordered, 2.0)
        gaps.append(first - second if ordered[1][0] == 0 else second - first)
        assert hidden == pytest.approx(0.05)
    # 2.0 with the liked place, which adds .7, and 2.0 without it.
    assert sorted(gaps) == pytest.approx([1.3, 2.7])
