"""Sentences on scored rows."""

import pandas as pd
import pytest

from swapbias.runs.score_notes import describe_outside


@pytest.mark.parametrize(
    ("shares", "share"),
    [([0.9, 0.7, float("nan")], "80.0 %"), ([0.6, 0.4], ""), ([float("nan")] * 2, "")],
    ids=["little", "half", "no score"],
)
def test_options_of_little_probability(shares, share):
    """Options with less than half of the probability on average are told; prompts without a score count nothing."""
    rows = pd.DataFrame({"outside": shares}).assign(experiment="odds", model_id="tiny")
    told = list(describe_outside({"mine": rows}))
    assert [share in sentence for sentence in told] == [True] * bool(share)
