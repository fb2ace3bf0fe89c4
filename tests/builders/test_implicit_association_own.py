"""Lists of one's own for implicit_association: what is read, what is asked, what is refused."""

import json

import pytest

from swapbias.errors import UsageError
from swapbias.studies import catalogue

HEADER = "stereotype,group A,group B,word,side"
LISTS = (
    "age,Younger,Older,flexible,positive",
    "age,Younger,Older,slow,negative",
    "town,urban,rural,modern,positive",
    "town,urban,rural,quaint,negative",
    "town,city,country,modern,positive",
    "town,city,country,quaint,negative",
)


def _rows(folder, lines, config="own_default"):
    (folder / "lists.csv").write_text("\n".join((HEADER, *lines)) + "\n", encoding="utf-8")
    return list(catalogue.local_corpus("implicit_association", folder).config(config).rows())


def test_own_lists_are_asked_in_all_orders(tmp_path):
    """Two lists of two words are asked in 3 instructions, 2 orders of groups and 2 of words: 48 rows of words."""
    rows = _rows(tmp_path, LISTS)
    assert len(rows) == 2 * 2 * 3 * 2 * 2
    text = json.dumps(rows[0], default=str)
    assert all(word in text for word in ("younger", "older", "flexible"))
    assert {(row["condition"], row["group"]) for row in rows} == {
        ("flexible", "positive"), ("slow", "negative"), ("modern", "positive"), ("quaint", "negative"),
    }  # fmt: skip


def test_own_names_of_groups_are_pairs(tmp_path):
    """Names are a sample of the list that has two pairs of them, and blank of the other."""
    rows = _rows(tmp_path, LISTS)
    names = {row["construct"]: set() for row in rows}
    for row in rows:
        names[row["construct"]].add(row["names"])
    assert names == {"age": {""}, "town": {"urban and rural", "city and country"}}


def test_own_group_b_counts_one(tmp_path):
    """A word that is given to group B counts 1, and one that is given to group A 0."""
    row = _rows(tmp_path, LISTS)[0]
    assert {option.text: option.value for option in row["candidates"]} == {
        "Older": 1.0,
        "Younger": 0.0,
    }


def test_own_lists_are_continued_by_causal(tmp_path):
    """A causal model reads the same words, each behind a hyphen."""
    rows = _rows(tmp_path, LISTS, "own_continuation")
    assert len(rows) == 48
    assert all(row["text"].endswith(f"\n\n{row['condition']} -") for row in rows)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "has no rows"),
        (["age,Younger,Older,slow,bad"], "lists.csv:2: the side is 'bad'"),
        (["age,Older,older,slow,negative"], "lists.csv:2: both groups are 'Older'"),
        (["age,Younger,Older,slow,negative"], "age has no positive word"),
        (
            [LISTS[1], LISTS[1].replace("negative", "positive")],
            "'slow' of age is positive and negative",
        ),
        (
            [LISTS[1], LISTS[1].replace("slow", "SLOW").replace("negative", "positive")],
            "'SLOW' of age is positive and negative",
        ),
        (
            [*LISTS[:2], LISTS[1].replace("slow", "Slow")],
            "age has a negative word in two writings",
        ),
        (
            [*LISTS[:2], "age,older,younger,flexible,positive"],
            "'older' names both groups of age",
        ),
    ],
)
def test_own_lists_with_faults_are_refused(tmp_path, lines, sentence):
    """A wrong list is refused with its line or its stereotype."""
    with pytest.raises(ValueError, match=sentence):
        _rows(tmp_path, lines)


def test_wrong_columns_are_named(tmp_path):
    """Columns with a blank in their names are named as they are expected."""
    (tmp_path / "lists.csv").write_text(HEADER.replace(",", ";") + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected stereotype, group A, group B, word, side"):
        list(catalogue.local_corpus("implicit_association", tmp_path).config("own_default").rows())


def test_own_lists_need_their_file(tmp_path):
    """A folder without the table is refused with its columns."""
    with pytest.raises(
        UsageError, match=r"has no lists\.csv. Write one with the columns stereotype"
    ):
        catalogue.local_corpus("implicit_association", tmp_path)


def test_own_lists_have_limits_of_their_own():
    """A run on lists of one's own says so in its title and limits, though they have no language to name."""
    corpora_read = [{"corpus": "implicit_association", "language": ""}]
    study = catalogue.study_of_run("implicit_association", corpora_read)
    assert study.title.endswith("asked of other data")
    assert study.limits[0].startswith("Lists of the user's")
    usual = catalogue.study_of_run("implicit_association", [{"corpus": "implicit_association"}])
    assert usual.limits[0].startswith("Of 21 stereotypes")
