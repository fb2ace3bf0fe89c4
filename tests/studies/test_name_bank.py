"""Names that own studies ask for: drawn by a seed, a pair each, with faults by line."""

import pytest

import swapbias
from swapbias.errors import StudyError
from swapbias.studies import config_rows
from swapbias.studies.name_bank import NameRules, draw_names, named_by, requested_names
from swapbias.studies.own import open_study


def study_folder(folder, slots):
    """An own study of two templates with these rows of slots."""
    folder.mkdir(parents=True)
    (folder / "slots.csv").write_text("pair,group,who\n" + slots)
    (folder / "templates.csv").write_text("template\n[who] is at work.\n[who] is late.\n")
    (folder / "study.toml").write_text(
        'name = "names_drawn"\ntitle = "Names"\n[compares]\nreference = "white"\n'
    )
    return folder


def test_names_by_seed():
    """A seed draws the same names each time, another one others, none twice and all of the group."""
    first = draw_names("black", "female", 40)
    assert first == draw_names("black", "female", 40)
    assert len(set(first)) == 40
    assert set(first) != set(draw_names("black", "female", 40, seed=1))
    of_group = {
        row["name"] for row in named_by() if (row["race"], row["sex"]) == ("black", "female")
    }
    assert set(first) <= of_group
    assert set(draw_names("black", "female", len(of_group))) == of_group
    strict = draw_names("white", "male", 5, rules=NameRules(race_share=0.9))
    assert len(strict) == 5


@pytest.mark.parametrize("cell", ["Emily", "names", "her names: two"])
def test_cells_without_a_request(cell):
    """A cell that does not begin with the word is a name as before."""
    assert requested_names(cell) is None


def test_request():
    """A cell may have blanks and capitals, and a seed at its end."""
    assert requested_names("Names: White , female, 3") == draw_names("white", "female", 3)
    assert requested_names("names: white,female,3,7") == draw_names("white", "female", 3, seed=7)


def test_own_study(tmp_path):
    """Rows that ask for names are a pair for each of them, and other rows stay."""
    folder = study_folder(
        tmp_path / "study",
        'a,black,"names: black,female,12"\na,white,"names: white,female,12"\nb,black,Ada\nb,white,Eve\n',
    )
    study = open_study(folder)
    rows = config_rows(study.name, study.experiments[0].reads.configs[0])
    assert len(rows) == 2 * 13 * 2
    texts = {row["text"] for row in rows if row["group"] == "black"}
    drawn = draw_names("black", "female", 12)
    assert texts == {
        f"{name} is {what}." for name in [*drawn, "Ada"] for what in ("at work", "late")
    }
    assert study.experiments[0].design.random


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ('"names: green,female,3"', "race is 'green'"),
        ('"names: white,female"', "expected race, sex and number"),
        ('"names: black,male,900"', "expected 1 to 97"),
        ('"names: black,male,0"', "expected 1 to 97"),
    ],
)
def test_faults(tmp_path, cells, sentence):
    """What cannot be drawn is a fault with its line."""
    folder = study_folder(tmp_path / "study", f"a,white,Eve\na,black,{cells}\n")
    with pytest.raises(StudyError, match=sentence) as raised:
        swapbias.audit(len, prompts=folder, progress=False)
    assert "slots.csv:3" in str(raised.value)


def test_unlike_numbers(tmp_path):
    """Groups that ask for unlike numbers leave pairs without a side, which is said."""
    slots = 'a,black,"names: black,male,3"\na,white,"names: white,male,4"\n'
    with pytest.raises(StudyError, match="a 4"):
        open_study(study_folder(tmp_path / "study", slots))
