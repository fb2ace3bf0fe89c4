"""Swapping for the patient alone: words of others stay, and are counted by their reason."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.whose import calibration_error, corpus_notes, decided
from swapbias.errors import UsageError
from swapbias.studies import config_rows
from swapbias.swapping import Job, Swapper, evaluate, gold_notes, swap_accuracy, swap_files
from swapbias.swapping.accuracy import edited_spans
from swapbias.swapping.referents import REASONS
from tests.conftest import ROOT
from tests.tables import rows_of, write

PATIENT = Swapper(whose="patient")
KEEPING_SPOUSES = Swapper(whose="patient", spouses="keep")
NOTE = (
    "Mr. Roe is a 60-year-old man who lives with his wife. She says he fell. His sister called; she is worried. "
    "Dr. Lee said he would see him. FAMILY HISTORY: Father died in his 50s."
)
SWAPPED = (
    "Ms. Roe is a 60-year-old woman who lives with her husband. He says she fell. Her sister called; she is worried. "
    "Dr. Lee said he would see her. FAMILY HISTORY: Father died in his 50s."
)


def test_patient_and_couple():
    """Only the words of the patient and the couple change, and a spouse stays where it is
    requested."""
    assert PATIENT.swap([NOTE]) == [SWAPPED]
    assert KEEPING_SPOUSES.swap(["He lives with his wife. She says he fell."]) == [
        "She lives with her wife. She says she fell."
    ]
    assert PATIENT.neutralise(["He saw his sister."]) == ["They saw their sister."]
    texts = ["She saw her mother."] * 4
    found = PATIENT.run(texts, genders=["female", "M", "", None])
    assert found.texts.to_pylist() == [
        "He saw his mother.",
        texts[0],
        "He saw his mother.",
        "He saw his mother.",
    ]
    assert found.sides.tolist() == [1, -1, 1, 1]


@pytest.mark.parametrize(
    "row", rows_of(Path(__file__).parent / "persons.csv"), ids=lambda row: row["text"]
)
def test_words_of_the_patient(row):
    """Words of the patient change, and those of nobody and of others stay."""
    assert PATIENT.run([row["text"]], genders=[row["gender"]]).texts.to_pylist() == [row["swapped"]]


def test_reasons_are_counted():
    """Words that stay are counted by their reason."""
    # sister, and the "she" of hers: relative; Dr. Lee's "he": clinician; Father, his 50s: relative.
    found = PATIENT.run([NOTE, "Women's Hospital. He left.", None])
    counts = dict(zip(REASONS, found.left[0].tolist(), strict=True))
    assert counts == {**dict.fromkeys(REASONS, 0), "relative": 4, "clinician": 1}
    assert found.left[1].tolist() == [0] * 7  # the name of a place holds no word of a person
    assert found.left[2].sum() == 0
    assert found.sides.tolist() == [-1, -1, 0]
    assert Swapper().run([NOTE]).left.sum() == 0
    found = PATIENT.run(["Mother died of cancer."])
    assert found.texts.to_pylist() == ["Mother died of cancer."]
    assert dict(zip(REASONS, found.left[0].tolist(), strict=True))["unknown"] == 1


@pytest.mark.parametrize(
    ("text", "side"),
    [
        (
            "58M with pain. His wife and her sister and she and she and she",
            -1,
        ),  # the first demographic
        ("Baby boy Roe, born to a 30-year-old woman. She is well, she and she.", -1),
        ("Ms. Roe and her sons. He, he, he.", 1),  # the first title
        ("His mother is 80. She smokes.", -1),  # most pronouns, a relative's left out
        ("No word of it.", 0),
    ],
    ids=["demographic", "newborn", "title", "pronouns", "no word"],
)
def test_gender_from_the_text(text, side):
    """Without a column the gender is read from the text."""
    assert PATIENT.run([text]).sides.tolist() == [side]


def test_wrong_requests(tmp_path):
    """Wrong requests are refused with the known values."""
    with pytest.raises(UsageError, match="Unknown whose 'doctor': expected everyone or patient"):
        Swapper(whose="doctor")
    with pytest.raises(UsageError, match="Unknown spouses 'drop': expected swap or keep"):
        Swapper(whose="patient", spouses="drop")
    with pytest.raises(
        UsageError, match="she-they, whose groups are she and they: expected male and female"
    ):
        Swapper("she-they", whose="patient")
    with pytest.raises(ValueError, match="1 genders for 2 texts"):
        PATIENT.run(["a", "b"], genders=["F"])
    path = write(tmp_path / "notes.csv", {"text": ["He fell."], "sex": ["M"]})
    with pytest.raises(UsageError, match="There is no column 'gender'"):
        swap_files(Job(str(path), whose="patient", gender="gender"), tmp_path / "out")
    with pytest.raises(UsageError, match="Add --whose patient"):
        swap_files(Job(str(path), gender="sex"), tmp_path / "out")


@pytest.fixture
def notes(tmp_path):
    texts = [f"{NOTE} {number}" for number in range(60)]
    return write(tmp_path / "notes.csv", {"text": texts, "Gender": ["", "M"] * 30})


def test_reasons_in_files(notes, tmp_path):
    """Files carry the reasons and do not depend on the number of processes."""
    job = Job(str(notes), whose="patient", mode="augment")
    done = [
        swap_files(job, tmp_path / str(processes), processes=processes, batch_rows=7)
        for processes in (1, 2)
    ]
    one, two = (pq.read_table(each.folder / "data") for each in done)
    assert one.equals(two)
    assert one.column("swapbias_left_relative").to_pylist() == [4] * 120
    assert one.column("text")[1].as_py() == f"{SWAPPED} 0"
    assert done[0].totals.left == {"relative": 240, "clinician": 60}
    assert "relative,left,240" in (tmp_path / "1" / "report.csv").read_text()


CLEAR = "58M. He is well."
UNCLEAR = "His brother met his uncle, and he fell, and he cried, and then he left him."


def test_doubt_of_several_persons():
    """The doubt is higher where several persons may be the referent."""
    found = PATIENT.run([CLEAR, UNCLEAR, ""], genders=["male"] * 3)
    assert 0 < found.doubt[2] < found.doubt[0] < 0.1 < 0.3 < found.doubt[1] < 1
    assert found.doubtful_words[0] == 0 < found.doubtful_words[1]
    everyone = Swapper().run([CLEAR, UNCLEAR])
    assert not everyone.doubt.any()
    assert not everyone.doubtful_words.any()


def test_doubt_is_calibrated():
    """The doubt is calibrated on notes of an author to whom no weight is fitted, and the page has
    these numbers."""
    notes = decided(corpus_notes("test"))
    chances, wrong = (
        np.concatenate([getattr(one, name) for one in notes]) for name in ("chances", "wrong")
    )
    assert len(chances) > 1_500
    assert calibration_error(chances, wrong) < 0.05
    assert abs(chances.mean() - wrong.mean()) < 0.03
    least = evaluate(PATIENT, gold_notes())
    assert least[0].recall.value < least[2].recall.value
    assert [one.share for one in least] == [1, 0.75, 0.5, 0.25]
    assert least[2].doubt == sorted(one.doubt for one in notes)[len(notes) // 2 - 1]
    page = (ROOT / "docs" / "swapping.md").read_text(encoding="utf-8")
    for one in least:
        numbers = (
            f"{each.value:.3f} ({each.ci_low:.3f} to {each.ci_high:.3f})"
            for each in (one.precision, one.recall, one.others_left)
        )
        assert f" | {' | '.join(numbers).replace('0.', '.')} | " in page


def test_doubtful_rows_are_left_out(tmp_path):
    """Doubtful rows are left out on request."""
    path = write(tmp_path / "notes.csv", {"text": [CLEAR, UNCLEAR], "gender": ["M", "M"]})
    for mode, kept in (("swap", [0]), ("pairs", [0, 0]), ("augment", [0, 0, 1])):
        job = Job(str(path), whose="patient", mode=mode, max_doubt=0.2)
        done = swap_files(job, tmp_path / mode)
        rows = pq.read_table(tmp_path / mode / "data").to_pylist()
        assert [int(row["swapbias_doubt"] > 0.2) for row in rows] == kept
        assert [int(row["swapbias_doubtful_words"] > 0) for row in rows] == kept
        assert done.totals.rows_doubtful == 1


def test_notes_of_mimic(notes, tmp_path):
    """Notes of MIMIC are swapped for the patient by default."""
    named = notes.rename(tmp_path / "NOTEEVENTS.csv")
    assert swap_files(Job(str(named)), tmp_path / "out").totals.left["relative"] == 240
    everyone = swap_files(Job(str(named), whose="everyone"), tmp_path / "all")
    assert not everyone.totals.left


@pytest.fixture(scope="module")
def gold():
    return config_rows("clinical_swaps", "notes")


DENSE = "12"  # the author of notes as dense as consults


def accuracy(gold, split, swapper, wanted):
    others = [row for row in gold if row["author"] != DENSE]
    rows = gold[:438] if split == "first" else [row for row in others if row["split"] == split]
    texts = [row["text"] for row in rows]
    swapped = swapper.run(texts, genders=[row["gender"] for row in rows]).texts.to_pylist()
    return swap_accuracy(texts, [row[wanted] for row in rows], swapped)


@pytest.mark.parametrize(
    ("swapper", "wanted"), [(PATIENT, "counterfactual"), (KEEPING_SPOUSES, "counterfactual_keep")]
)
@pytest.mark.parametrize(
    ("split", "least"), [("first", 0.97), ("development", 0.95), ("test", 0.92)]
)
def test_gold_notes(gold, split, least, swapper, wanted):
    """The annotated notes are swapped with the stated precision and recall."""
    found = accuracy(gold, split, swapper, wanted)
    assert min(found.precision.value, found.recall.value) >= least
    everyone = accuracy(gold, split, Swapper(), wanted)
    assert everyone.precision.value < 0.75 < 0.9 < found.precision.value
    assert everyone.recall.value >= 0.9


def test_dense_notes(gold):
    """Notes as dense as consults are swapped less well, and their doubt leaves nearly all of them
    out."""
    rows = [row for row in gold if row["author"] == DENSE]
    found = evaluate(PATIENT, rows)[0]
    assert (len(rows), found.precision.value >= 0.66, found.recall.value >= 0.84) == (
        40,
        True,
        True,
    )
    doubt = PATIENT.run(
        [row["text"] for row in rows], genders=[row["gender"] for row in rows]
    ).doubt
    assert (doubt <= 0.5).sum() <= 4


def test_spans_of_gold_notes(gold):
    """Every span of an annotated note states the word at its place and what replaces it."""
    for row in gold:
        text = row["text"]
        kept = ""
        at = 0
        for span in json.loads(row["spans"]):
            assert text[span["start"] : span["end"]] == span["word"]
            kept += text[at : span["start"]] + span["becomes"]
            at = span["end"]
        assert kept + text[at:] == row["counterfactual"]
    assert len({row["note_id"] for row in gold}) == len({row["text"] for row in gold}) == len(gold)


def test_accuracy_by_hand():
    """Precision and recall of swaps have the values worked out by hand."""
    # "He" and "mother" are changed, of which one should be; of "Mr", "man", "He" and "his" one is found.
    text = "Mr Roe is a man. He saw his mother."
    wanted = "Ms Roe is a woman. She saw her mother."
    found = swap_accuracy([text], [wanted], ["Mr Roe is a man. She saw his father."])
    assert found.precision.value == pytest.approx(1 / 2)
    assert found.recall.value == pytest.approx(1 / 4)
    perfect = swap_accuracy([text, "none"], [wanted, "none"], [wanted, "none"])
    assert [one.value for one in (perfect.precision, perfect.recall, perfect.exact)] == [1, 1, 1]
    nothing = swap_accuracy([text, "none"], [wanted, "none"], [text, "none"])
    assert np.isnan(nothing.precision.value)
    assert (nothing.recall.value, nothing.exact.value) == (0, 0.5)
    assert edited_spans("her wife's son", "his husband's") == {
        (0, 1): "his",
        (2, 3): "husband",
        (5, 7): "",
    }
    with pytest.raises(ValueError, match="1 texts, 0 counterfactuals and 1 swapped ones"):
        swap_accuracy(["a"], [], ["a"])
