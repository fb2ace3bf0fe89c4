"""Rows held by column are what the dicts were, whatever is asked of them, in a fraction of the memory."""

import gc
import tracemalloc

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from swapbias.errors import UsageError
from swapbias.studies import Rows, column, having, joined, only, open_study, parsed
from swapbias.studies.study import arrow_table
from tests.studies.test_own import table

NAMES = ["text", "group", "pair", "é"]
TEXTS = st.one_of(st.sampled_from(["", "a", "She is late."]), st.text(st.characters(exclude_categories=["Cs"])))
DICTS = st.lists(st.fixed_dictionaries(dict.fromkeys(NAMES, TEXTS)), max_size=12)


def made(dicts):
    return Rows(arrow_table(pd.DataFrame(dicts, columns=NAMES, dtype=object)))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a machine that others use too
@given(DICTS, st.data())
def test_rows_are_the_dicts_that_they_were_made_of(dicts, data):
    rows = made(dicts)
    assert [*rows] == dicts
    assert [rows[place] for place in range(-len(dicts), len(dicts))] == [*dicts, *dicts]
    cut = data.draw(st.slices(len(dicts)))
    assert list(rows[cut]) == dicts[cut]
    assert list(rows[cut][cut]) == dicts[cut][cut]
    chosen = data.draw(st.lists(st.booleans(), min_size=len(dicts), max_size=len(dicts)))
    more = having(dicts, side="s")
    for mine, theirs in (
        (only(rows, chosen), only(dicts, chosen)),
        (having(rows, pair="p", new="n"), having(dicts, pair="p", new="n")),
        (having(rows[cut], pair="p"), having(dicts[cut], pair="p")),
        (joined([rows, dicts, rows[cut]]), joined([dicts, dicts, dicts[cut]])),
        (joined([rows, having(rows, side="s")]), joined([dicts, more])),
    ):
        assert [*mine] == [*theirs]
        for name in ("pair", "side"):
            assert list(column(mine, name, "-")) == list(column(theirs, name, "-"))
    with pytest.raises(IndexError):
        rows[len(dicts)]


def test_a_row_that_is_changed_changes_no_other():
    rows = made([dict.fromkeys(NAMES, one) for one in "ab"])
    rows[0]["text"] = "z"
    next(iter(rows))["text"] = "z"
    assert [row["text"] for row in rows] == ["a", "b"]


def pairs(count):
    """A table of so many pairs of texts."""
    each = [
        (f"{who} came to the clinic, number {number}, and was asked about it.", group, str(number), f"t{number % 50}")
        for number in range(count)
        for who, group in (("She", "female"), ("He", "male"))
    ]
    return table(each, ("text", "group", "pair", "template"))


def held(count):
    """Bytes that an own study of so many pairs keeps, and the most that opening it took."""
    given_table = pairs(count)
    tracemalloc.start()
    try:
        study = open_study(given_table, reference="male", name="many")
        gc.collect()
        return study, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_an_own_study_takes_little_more_memory_than_its_texts():
    """As dicts a prompt took above 1,500 bytes; its text has 65 letters, and its file some 80 bytes."""
    small, large = held(3_000), held(6_000)
    for place, most in ((1, 330), (2, 1_600)):  # the peak holds the frame that pandas 2.2 reads
        assert (large[place] - small[place]) / 6_000 < most


def test_more_prompts_or_bytes_than_a_study_may_have_are_refused(monkeypatch, tmp_path):
    assert parsed.MOST_PROMPTS >= 1_000_000
    assert parsed.MOST_BYTES >= 256 * 2**20
    monkeypatch.setattr(parsed, "MOST_PROMPTS", 7)
    with pytest.raises(ValueError, match=r"more than 7 prompts, wordings included\. Shorten them\."):
        open_study(pairs(4), reference="male")
    assert len(open_study(pairs(3), reference="male").experiments) == 2
    monkeypatch.setattr("swapbias.studies.custom.MOST_BYTES", 40)
    pairs(1).to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(ValueError, match=r"mine\.csv has \d+ bytes, expected at most 40\. Cut it\."):
        open_study(tmp_path / "mine.csv", reference="male")
    with pytest.raises(UsageError, match="prompts are a list"):
        open_study([])


def test_faults_of_many_prompts_are_found_in_the_order_of_their_lines():
    """The pairs of lines are told by numbers: a repeated group comes before a lacking one, each by its line."""
    rows = pd.concat([pairs(3), pairs(1), pairs(5).iloc[[8]]])
    with pytest.raises(ValueError, match=r"prompts\.csv:8: pair '0' has group 'female' already in prompts\.csv:2"):
        open_study(rows, reference="male")
    with pytest.raises(ValueError, match=r"prompts\.csv:8: pair '4' has no row of 'male'"):
        open_study(pd.concat([pairs(3), pairs(5).iloc[[8]]]), reference="male")
