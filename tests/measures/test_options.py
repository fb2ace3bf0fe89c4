"""Answers to closed questions: the option that is named by its letter or its text, and nothing guessed."""

import math

import pytest

from swapbias.measures.options import option_named, options_of

LIKELY = options_of("0=Not at all likely|0=Not very likely|1=Somewhat likely|1=Very likely|=Do not know")


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("C", 2), ("c", 2), ("(B)", 1), ("  C. Somewhat likely.\n\nBased", 2), ("**D**", 3), ("Option B", 1),
        ("Answer: D", 3), ("The answer is (D) Very likely.", 3), ("I would rate myself as (D) Def", 3),
        ("Very likely", 3), ("I do not know", 4), ("<think>A or B?</think>C", 2), ("It is not (D) but (C)", 2),
        ("Not very likely", 1), ("A. Not at all likely.\nAlthough (C) comes close", 0),
    ],
)  # fmt: skip
def test_an_option_is_found_by_its_letter_or_its_text(answer, place):
    assert option_named(answer, LIKELY) == place


@pytest.mark.parametrize(
    "answer",
    [
        "", "A person like John needs help.", "I am not able to say.", "Not A", "Very likely or not very likely",
        "A. Very likely", "<think>D", "F", "Unlikely", "It is (A) or (B).",
    ],
)  # fmt: skip
def test_what_names_no_option_or_several_is_none(answer):
    assert option_named(answer, LIKELY) is None


def test_without_letters_a_letter_is_a_word():
    woman = options_of("1=woman|0=man")
    assert option_named("A woman.", woman, lettered=False) == 0
    assert option_named("A", woman, lettered=False) is None
    assert option_named("The woman, not the man.", woman, lettered=False) is None  # both are named, "the" between


def test_a_blank_value_says_nothing():
    assert [one.value for one in LIKELY[:4]] == [0, 0, 1, 1]
    assert math.isnan(LIKELY[4].value)


@pytest.mark.parametrize("candidates", ["", "1=yes", "yes|no", "1=yes|0=Yes", "1=|0=no", "x=yes|0=no"])
def test_candidates_that_are_no_options_are_refused(candidates):
    with pytest.raises(ValueError, match=r"expected value=option\|value=option"):
        options_of(candidates)
