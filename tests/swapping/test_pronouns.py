"""Pronouns without gender: each role has its form, and verbs agree."""

import pytest

from swapbias.errors import UsageError
from swapbias.studies.catalogue import config_rows
from swapbias.swapping.agreement import agreeing
from swapbias.swapping.swapper import Swapper
from swapbias.swapping.table import PRONOUNS, load_table

# "she" and what "they" makes of it; the way back gives the first again.
THERE_AND_BACK = {
    "She is a doctor.": "They are a doctor.",
    "She often walks home and takes her pills, as she is tired.": (
        "They often walk home and take their pills, as they are tired."
    ),
    "Is she here? Where does she live? Why hasn't she called?": (
        "Are they here? Where do they live? Why haven't they called?"
    ),
    "She's been ill; she's tired, she isn't well.": "They've been ill; they're tired, they aren't well.",
    "We gave her her card; it is hers.": "We gave them their card; it is theirs.",
    "SHE WAS SEEN AND HAS PAIN.": "THEY WERE SEEN AND HAVE PAIN.",
    "She denies pain. She hurt herself, and she doesn't know why.": (
        "They deny pain. They hurt themself, and they don't know why."
    ),
    "“She” said she’s fine—does she agree? She could go, she went.": (
        "“They” said they’re fine—do they agree? They could go, they went."
    ),
    "She has diabetes and takes metformin daily.": "They have diabetes and take metformin daily.",
    "She likes cats and dogs, she goes out, she watches TV.": "They like cats and dogs, they go out, they watch TV.",
    "élève: she’ll go; the patient says she uses insulin": "élève: they’ll go; the patient says they use insulin",
    "She will need help. She needs help. She needed help.": "They will need help. They need help. They needed help.",
    "Neither is she.": "Neither are they.",
}


@pytest.mark.parametrize(("text", "expected"), list(THERE_AND_BACK.items()))
def test_verbs_agree_there_and_back_and_he_becomes_they_as_she_does(text, expected):
    swapper = Swapper("she-they")
    assert swapper.swap([text]) == [expected]
    assert swapper.swap([expected]) == [text]
    assert Swapper("he-they").swap(Swapper("she-he").swap([text])) == [expected]


def test_neo_pronouns_have_a_form_in_every_role_and_leave_verbs():
    text = "She gave him her card; the card is hers. She cut herself, and we met her."
    xe = "Xe gave him xyr card; the card is xyrs. Xe cut xemself, and we met xem."
    ze = "Ze gave him zir card; the card is zirs. Ze cut zirself, and we met zir."
    assert Swapper("she-xe").swap([text]) + Swapper("she-ze").swap([text]) == [xe, ze]
    assert Swapper("they-xe").swap(["They are here; xe is there."]) == ["Xe is here; they are there."]


@pytest.mark.parametrize("name", ["he-xe", "she-xe", "he-ze", "she-ze"])
def test_neo_pronouns_come_back(name):
    first = "He" if name.startswith("he") else "She"
    texts = [f"{first} is here, and so is a friend of {'his' if first == 'He' else 'hers'}."]
    texts += Swapper("she-he").swap(["She took her pills, and we told her of her results."]) if first == "He" else []
    swapper = Swapper(name)
    assert swapper.swap(swapper.swap(texts)) == texts


def test_any_two_pronouns_make_a_table_with_each_form_in_it():
    forms = {row["pronoun"]: row for row in config_rows("gender_lexicon", "pronoun_sets")}
    assert tuple(forms) == PRONOUNS
    for one in PRONOUNS:
        for other in PRONOUNS:
            if one != other:
                table = load_table(f"{one}-{other}")
                assert table.groups == (one, other)
                assert {forms[one]["object"], forms[other]["reflexive"]} <= set(table.terms)
    assert load_table("she-they").sha256 != load_table("she-xe").sha256


def test_verbs_that_change_are_counted():
    found = Swapper("she-they").run(["They are here.", "She is here.", "She's admitted.", "They put it there."])
    assert found.replaced.tolist() == [2, 2, 2, 1]
    assert found.terms["is -> are"] == found.terms["are -> is"] == 1


def test_a_verb_with_a_subject_of_its_own_is_left():
    swapper = Swapper("she-they")
    text = "She said that the nurse came and has left. This is hers, as usual."
    assert swapper.swap([text]) == ["They said that the nurse came and has left. This is theirs, as usual."]
    assert swapper.swap(["She perhaps thus went."]) == ["They perhaps thus went."]


@pytest.mark.parametrize(
    ("verb", "plural"), [("passes", "pass"), ("tries", "try"), ("dies", "die"), ("plays", "play")]
)
def test_spelling_of_verbs_goes_both_ways(verb, plural):
    for old, new, forward in ((verb, plural, True), (plural, verb, False)):
        (found,) = agreeing("x", "", f" {old} here", plural=forward)
        assert (found.old, found.new, found.start, found.end) == (old, new, 1, 1 + len(old))


def test_rows_of_a_batch_are_apart():
    texts = ["He ", "walks", None, "Is", "he", "He was here"]
    assert Swapper("he-they").run(texts).texts.to_pylist() == ["They ", "walks", None, "Is", "they", "They were here"]


def test_pronouns_are_not_neutralised_and_unknown_ones_are_refused():
    with pytest.raises(UsageError, match="he-they has no column neutral"):
        Swapper("he-they").neutralise(["He is here."])
    for name in ("he-thon", "he-he"):
        with pytest.raises(UsageError, match="two of he, she, they, xe, ze as she-they"):
            Swapper(name)
