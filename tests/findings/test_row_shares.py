"""Weights of rows in means over conditions, and rows that are no pairs."""

import numpy as np
import pandas as pd
import pytest

from swapbias.findings import disaggregate
from swapbias.findings.scored_rows import condition_means, row_shares
from swapbias.studies import config_rows
from tests.experiments import experiment

TWO_STEPS = experiment(
    name="e",
    question="?",
    kind="masked",
    configs=("c",),
    random={"template": "templates"},
    aggregate=("condition", "topic"),
)


def scored(count=60):
    """Rows of two groups in unequal conditions and topics; every seventh has no score."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 3, count)
    columns = {
        "group": rng.choice(["female", "male"], count),
        "label": "l",
        "topic": topics.astype(str),
        "condition": [f"{topic}/{rng.integers(0, 4)}" for topic in topics],
        "score": np.where(np.arange(count) % 7 == 0, np.nan, rng.uniform(size=count)),
    }
    return pd.DataFrame(columns).astype({"topic": object, "condition": object})


def test_shares_of_rows_by_hand():
    """One row alone in its topic weighs 1/2; two conditions of the other topic, one of two rows, weigh 1/4 each."""
    rows = pd.DataFrame(
        {
            "group": "female",
            "topic": ["a", "b", "b", "b", "b"],
            "condition": ["a1", "b1", "b2", "b2", "b2"],
            "score": [1.0, 1.0, 1.0, 1.0, np.nan],
        }
    )
    assert row_shares(TWO_STEPS, rows).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 8, 0.0]


def test_shares_give_means_of_conditions():
    """The weighted mean of each group is that of its condition means, taken one after the other."""
    rows = scored()
    shares = row_shares(TWO_STEPS, rows)
    means = condition_means(TWO_STEPS, rows).groupby("group")["score"].mean()
    for group, mean in means.items():
        chosen = (rows["group"] == group).to_numpy()
        assert np.nansum(shares[chosen] * rows["score"][chosen]) == pytest.approx(mean)
        assert shares[chosen].sum() == pytest.approx(1)
    assert not shares[rows["score"].isna()].any()


@pytest.mark.parametrize("wrong", ["twice", "another pair"])
def test_rows_that_are_no_pairs(wrong):
    """Rows of which a pair has two of a group are refused, whichever pair they were of."""
    rows = pd.DataFrame(config_rows("occupation_sentiment", "control"))
    rows = rows.assign(experiment="control", model_id="toy", score=np.arange(len(rows)) % 5 / 10)
    if wrong == "twice":
        rows = pd.concat([rows, rows.iloc[:1]])
    else:
        rows.loc[rows.index[0], "pair_id"] = rows["pair_id"].iloc[-1]
    with pytest.raises(ValueError, match="no pairs"):
        disaggregate(rows, "occupation_sentiment")
