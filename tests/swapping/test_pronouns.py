"""Pronouns without gender: each role has its form, and verbs agree."""

from pathlib import Path

import pytest

from swapbias.errors import UsageError
from swapbias.studies.catalogue import config_rows
from swapbias.swapping.agreement import agreeing
from swapbias.swapping.swapper import Swapper
from swapbias.swapping.table import PRONOUNS, load_table
from tests.tables import rows_of

# "she" and what "they" makes of it; the way back gives the first again.
THERE_AND_BACK = [
    (row["she"], row["they"]) for row in rows_of(Path(__file__).parent / "pronouns.csv")
]


@pytest.mark.parametrize(("text", "expected"), THERE_AND_BACK)
def test_verbs_agree_there_and_back(text, expected):
    """Verbs agree with their pronoun there and back, and he becomes they as she does."""
    swapper = Swapper("she-they")
    assert swapper.swap([text]) == [expected]
    assert swapper.swap([expected]) == [text]
    assert Swapper("he-they").swap(Swapper("she-he").swap([text])) == [expected]


def test_neo_pronouns_in_every_role():
    """Neo-pronouns have a form in every role and leave verbs unchanged."""
    text = "She gave him her card; the card is hers. She cut herself, and we met her."
    xe = "Xe gave him xyr card; the card is xyrs. Xe cut xemself, and we met xem."
    ze = "Ze gave him zir card; the card is zirs. Ze cut zirself, and we met zir."
    assert Swapper("she-xe").swap([text]) + Swapper("she-ze").swap([text]) == [xe, ze]
    assert Swapper("they-xe").swap(["They are here; xe is there."]) == [
        "Xe is here; they are there."
    ]
    forms = {row["pronoun"]: row for row in config_rows("gender_lexicon", "pronoun_sets")}
    assert tuple(forms) == PRONOUNS
    for one in PRONOUNS:
        for other in PRONOUNS:
            if one != other:
                table = load_table(f"{one}-{other}")
                assert table.groups == (one, other)
                assert {forms[one]["object"], forms[other]["reflexive"]} <= set(table.terms)
    assert load_table("she-they").sha256 != load_table("she-xe").sha256


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "he",
            [
                "He is here, with a friend of his.",
                "He took his pills, and we told him of his results.",
            ],
        ),
        ("she", ["She is here, with a friend of hers."]),
    ],
    ids=["he", "she"],
)
def test_neo_pronouns_come_back(name, texts):
    """Swapping to neo-pronouns and back gives the text."""
    for swapper in (Swapper(f"{name}-xe"), Swapper(f"{name}-ze")):
        assert swapper.swap(swapper.swap(texts)) == texts


def test_changed_verbs_are_counted():
    """Verbs that change are counted, and words like them stay."""
    found = Swapper("she-they").run(
        ["They are here.", "She is here.", "She's admitted.", "They put it there."]
    )
    assert found.replaced.tolist() == [2, 2, 2, 1]
    assert found.terms["is -> are"] == found.terms["are -> is"] == 1
    swapper = Swapper("she-they")
    text = "She said that the nurse came and has left. This is hers, as usual."
    assert swapper.swap([text]) == [
        "They said that the nurse came and has left. This is theirs, as usual."
    ]
    assert swapper.swap(["She perhaps thus went."]) == ["They perhaps thus went."]


@pytest.mark.parametrize(
    ("verb", "plural"), [("passes", "pass"), ("tries", "try"), ("dies", "die"), ("plays", "play")]
)
def test_spelling_of_verbs(verb, plural):
    """The spelling of a verb is changed both ways."""
    for old, new, forward in ((verb, plural, True), (plural, verb, False)):
        (found,) = agreeing("", f" {old} here", plural=forward)
        assert found == (1, old, new)


def test_pronouns_without_neutral():
    """Pronouns without a neutral column cannot be neutralised, and unknown ones are refused."""
    with pytest.raises(UsageError, match="he-they has no column neutral"):
        Swapper("he-they").neutralise(["He is here."])
    for name in ("he-thon", "he-he"):
        with pytest.raises(UsageError, match="two of he, she, they, xe, ze as she-they"):
            Swapper(name)
