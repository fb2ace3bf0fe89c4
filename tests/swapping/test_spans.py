"""What a swap changed, by characters of the old text, and labelled spans that are moved along."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from swapbias.errors import UsageError
from swapbias.swapping import Job, PublishedSwapper, Swapper, swap_files
from tests.cli.test_cli import swapbias
from tests.tables import write

SWAPPERS = {
    "resolved": Swapper(),
    "paper": Swapper("paper"),
    "she-they": Swapper("she-they"),
    "patient": Swapper(whose="patient"),
    "published": PublishedSwapper(),
}
WORDS = ["He", "she", "his", "is", "é", "a", "an actress", "Ms.", "Sex: F", "or", "🩺", "\n", "was"]


def changed(text, changes):
    """A text after its changes, put together one by one."""
    new, end = "", 0
    for change in changes:
        assert text[change["start"] : change["end"]] == change["old"]
        new += text[end : change["start"]] + change["new"]
        end = change["end"]
    return new + text[end:]


def test_spans_of_a_swap():
    """Spans count characters of the old text, and say why each word changes."""
    text = "É: he or she was an actor."
    swapped = Swapper().run(["Hé saw he.", None, text], "neutralise")
    first, missing, second = swapped.spans.to_pylist()
    assert first == [
        {"start": 7, "end": 9, "old": "he", "new": "they", "reason": "term"},
    ]
    assert missing == []
    places = [(one["start"], one["end"], one["old"], one["new"], one["reason"]) for one in second]
    assert places == [
        (3, 12, "he or she", "they", "alternatives"),
        (13, 16, "was", "were", "agreement"),
        (17, 19, "an", "a", "agreement"),
        (20, 25, "actor", "performer", "term"),
    ]


@pytest.mark.parametrize("name", SWAPPERS)
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=12), max_size=5))
@settings(max_examples=40, deadline=None)
def test_spans_make_the_new_text(name, rows):
    """The changes of each text, made one by one, give the new text."""
    swapper = SWAPPERS[name]
    texts = [" ".join(words) for words in rows]
    for mode in ("swap", "neutralise") if swapper.table.neutral else ("swap",):
        done = swapper.run(texts, mode, genders=["female"] * len(texts))
        made = [*map(changed, texts, done.spans.to_pylist())]
        assert made == done.texts.to_pylist()


TEXT = "He saw an actor, é, his son."
#       0123456789012345678901234567
NEW = "She saw an actress, é, her daughter."
LABELS = [  # start, end, and what each is of the old and of the new text
    (0, 2, "He", "She"),
    (3, 6, "saw", "saw"),
    (10, 15, "actor", "actress"),
    (17, 18, "é", "é"),
    (20, 27, "his son", "her daughter"),
    (12, 18, "tor, é", "actress, é"),  # begins in a changed word: all of it
    (16, 22, " é, hi"[:6], " é, her"),  # ends in one: all of it
    (11, 13, "ct", "actress"),  # within one
    (28, 28, "", ""),
]


def swapped_labels(tmp_path, labels, text=TEXT, **options):
    """The rows of one text with labels after a swap."""
    table = pa.table(
        {"text": [text], "marks": labels if isinstance(labels, pa.Array) else [labels]}
    )
    pq.write_table(table, tmp_path / "notes.parquet")
    swap_files(Job(str(tmp_path / "notes.parquet"), spans="marks", **options), tmp_path / "out")
    return pq.read_table(tmp_path / "out/data").to_pylist()


def test_labels_are_moved(tmp_path):
    """Labelled spans hold the same words after a swap; one that cuts a changed word takes all of it."""
    labels = [
        {"start": start, "end": end, "label": str(number), "text": TEXT[start:end]}
        for number, (start, end, _, _) in enumerate(LABELS)
    ]
    (row,) = swapped_labels(tmp_path, labels)
    assert row["text"] == NEW
    for label, (start, end, old, new) in zip(row["marks"], LABELS, strict=True):
        assert TEXT[start:end] == old
        assert row["text"][label["start"] : label["end"]] == label["text"] == new
    assert [label["label"] for label in row["marks"]] == [*map(str, range(len(LABELS)))]


@pytest.mark.parametrize(
    ("written", "moved"),
    [
        ([[20, 23]], [[23, 26]]),
        ([{"begin": 20, "end": 23}], [{"begin": 23, "end": 26}]),
        ([{"startOffset": 20, "endOffset": 23}], [{"startOffset": 23, "endOffset": 26}]),
        ({"start": [20, 0], "end": [23, 2]}, {"start": [23, 0], "end": [26, 3]}),
        ({"start": 20, "end": 23}, {"start": 23, "end": 26}),
        ('[[20, 23, "DET"]]', '[[23, 26, "DET"]]'),
        ('{"entities": [[20,23,"DET"]]}', '{"entities": [[23, 26, "DET"]]}'),
        ([{"offsets": [[20, 23]], "type": "x"}], [{"offsets": [[23, 26]], "type": "x"}]),
    ],
    ids=str,
)
def test_ways_to_write_labels(tmp_path, written, moved):
    """Structs, pairs, columns and JSON are moved and stay as they are written."""
    (row,) = swapped_labels(tmp_path, written)
    assert row["marks"] == moved


def test_labels_of_pairs(tmp_path):
    """In pairs the original keeps its labels, and both rows carry the changes of the old text."""
    original, swapped = swapped_labels(tmp_path, [[20, 23]], mode="pairs")
    assert (original["marks"], swapped["marks"]) == ([[20, 23]], [[23, 26]])
    assert original["swapbias_spans"] == swapped["swapbias_spans"]
    assert changed(original["text"], original["swapbias_spans"]) == swapped["text"]


def test_label_of_a_removed_word(tmp_path):
    """The label of a word that is removed stays, empty."""
    text = "The male patient"
    (row,) = swapped_labels(tmp_path, [[4, 8], [9, 16]], text, mode="neutralise")
    assert row["text"] == "The patient"
    assert row["marks"] == [[3, 3], [4, 11]]


def test_missing_labels(tmp_path):
    """Missing and empty lists of labels stay."""
    table = pa.table({"text": ["He is.", None, "She."], "marks": [[[0, 2]], None, []]})
    pq.write_table(table, tmp_path / "notes.parquet")
    swap_files(Job(str(tmp_path / "notes.parquet"), spans="marks"), tmp_path / "out")
    rows = pq.read_table(tmp_path / "out/data")
    assert rows["marks"].to_pylist() == [[[0, 3]], None, []]
    assert rows["swapbias_spans"].to_pylist()[1] == []


@pytest.mark.parametrize(
    ("labels", "column", "sentence"),
    [
        ([[0, 2]], "labels", "no column 'labels', there are text, marks.*--spans"),
        (["SECRET"], "marks", "'marks' contains no spans, expected lists of"),
        ("SECRET", "marks", "'marks' contains no spans"),
        ([[0, 99]], "marks", "Row 1: a span is not within its text"),
        ([[5, 2]], "marks", "Row 1: a span is not within"),
    ],
    ids=str,
)
def test_labels_that_are_none(tmp_path, labels, column, sentence):
    """A column without spans, and spans outside their text, are refused in a sentence."""
    source = write(tmp_path / "notes.jsonl", {"text": ["He SECRET."], "marks": [labels]})
    with pytest.raises((UsageError, ValueError), match=sentence) as refused:
        swap_files(Job(str(source), spans=column), tmp_path / "out")
    assert "SECRET" not in str(refused.value)


def test_spans_command(tmp_path):
    """The command moves a column of labels in a CSV file."""
    source = write(tmp_path / "notes.csv", {"text": [TEXT], "marks": [json.dumps([[20, 23]])]})
    done = swapbias("swap", source, "--spans", "marks", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (row,) = pq.read_table(tmp_path / "out/data").to_pylist()
    assert json.loads(row["marks"]) == [[23, 26]]
    assert [one["new"] for one in row["swapbias_spans"]] == ["She", "actress", "her", "daughter"]
