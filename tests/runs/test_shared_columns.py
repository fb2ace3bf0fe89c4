"""Columns that many runs have alike are held in memory once, and others are each run's own."""

import numpy as np
import pyarrow as pa

from swapbias.runs.shared_columns import SharedColumns


def scored(scores, groups=("a", "b", "a")):
    return pa.table({"group": list(groups), "score": list(scores), "note": ["", None, "x"]})


def test_columns_alike_are_held_once():
    """Columns of the same content share their memory, and scores do not."""
    shared = SharedColumns()
    first = shared.frame(scored([0.1, 0.2, 0.3]), "study")
    second = shared.frame(scored([0.1, 0.2, 0.4]), "study")
    for column in ("group", "note"):
        assert np.shares_memory(first[column].to_numpy(), second[column].to_numpy())
    assert second["score"].tolist() == [0.1, 0.2, 0.4]
    assert first["score"].tolist() == [0.1, 0.2, 0.3]
    assert list(second) == ["group", "score", "note"]
    assert second["note"].isna().tolist() == [False, True, False]


def test_other_prompts_are_their_own():
    """Rows of other prompts, of another number or of another study keep their own content."""
    shared = SharedColumns()
    shared.frame(scored([0.1, 0.2, 0.3]), "study")
    swapped = shared.frame(scored([0.1, 0.2, 0.3], "bab"), "study")
    shorter = shared.frame(scored([0.1, 0.2, 0.3]).slice(1), "study")
    other = shared.frame(scored([0.1, 0.2, 0.3], "ccc"), "other")
    assert swapped["group"].tolist() == ["b", "a", "b"]
    assert shorter["group"].tolist() == ["b", "a"]
    assert other["group"].tolist() == ["c", "c", "c"]


def test_change_of_a_row_stays_in_its_frame():
    """A frame that is changed leaves the others as they are."""
    shared = SharedColumns()
    first = shared.frame(scored([0.1, 0.2, 0.3]), "study")
    second = shared.frame(scored([0.1, 0.2, 0.3]), "study")
    changed = second.assign(group="z")
    assert changed["group"].tolist() == ["z"] * 3
    assert first["group"].tolist() == ["a", "b", "a"]
