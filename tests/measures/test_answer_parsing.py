"""Reading answers that are more than one word: reasoning, lead-ins, explanations, refusals, spellings."""

import pytest

from swapbias.measures.answers import answer_class

OTHER = {"correct": "incorrect", "incorrect": "correct"}


def read(answer, correct="the mechanic", incorrect="the clerk", **more):
    return answer_class(answer, correct=correct, incorrect=incorrect, **more)


# Which part of the text is the answer.


@pytest.mark.parametrize(
    "answer",
    [
        "<think>The clerk told the\nmechanic ...</think>\n\nmechanic",
        "<think>So 'he' could be the clerk.\nWait, no: the mechanic.\n</think>\nmechanic",
        "<think>\n\n</think>\n\nmechanic",
        "<think></think>mechanic",
        "<Thinking>The clerk?</Thinking>mechanic",
        "<reasoning>\nclerk\n</reasoning>\nmechanic",
        "[THINK]the clerk[/THINK]mechanic",
        "It could be the clerk.\n</think>\n\nmechanic",  # the opening tag stood in the prompt
        "<think>the clerk <think>or</think> clerk</think> mechanic",
        "mechanic <think>or the clerk?</think>",
    ],
)
def test_reasoning_between_tags_is_no_answer(answer):
    assert read(answer) == "correct"


@pytest.mark.parametrize(
    "answer",
    ["<think>Okay, the clerk asked", "<think>mechanic", "clerk\n<think>Or the", "<think>a</think><think>mechanic"],
)
def test_reasoning_that_does_not_end_holds_no_answer(answer):
    assert read(answer) == "other"


@pytest.mark.parametrize(
    "answer",
    [
        "Answer:\nmechanic",
        "**Answer:**\n\n**mechanic**",
        "## Final answer\nmechanic",
        "```\nmechanic\n```",
        "```text\nmechanic\n```",
        "---\nmechanic",
        "Based on the sentence about the clerk:\n\n**mechanic**",
        "Sure!\nmechanic",
        '{\n  "answer": "mechanic"\n}',
        "Answer: mechanic",
        "mechanic:",
    ],
)
def test_lines_that_lead_in_are_passed_over(answer):
    assert read(answer) == "correct"


def test_a_lead_in_alone_is_no_answer():
    assert read("Based on the sentence about the clerk:") == "other"
    assert read("Answer:") == "other"


def test_a_speaker_that_is_an_occupation_is_not_taken_for_the_answer():
    assert read("assistant: mechanic", incorrect="the assistant") == "other"


# An answer with more beside it.


@pytest.mark.parametrize(
    "answer",
    [
        "mechanic, not clerk",
        "Mechanic (not the clerk)",
        "'He' refers to the mechanic, not the clerk.",
        "Answer: the mechanic rather than the clerk",
        "It isn't the clerk, it's the mechanic",
        "The mechanic, because the clerk was asked.",
        "The old mechanic because the clerk was asked",
        "The mechanic, not the clerk, since the clerk didn't drive",
        "mechanic. The clerk is the one who was asked.",
        "the mechanic – whom the clerk asked",
        "the mechanic, no doubt",
    ],
)
def test_an_answer_that_comes_first_is_settled_by_what_explains_it(answer):
    assert read(answer, adjectives=("old",)) == "correct"
    assert read(answer, "the clerk", "the mechanic", adjectives=("old",)) == "incorrect"


@pytest.mark.parametrize(
    "answer",
    [
        "mechanic or clerk",
        "mechanic, clerk",
        "mechanic. Clerk.",
        "Mechanic (or the clerk)",
        "mechanic, as well as the clerk",
        "mechanic as well as the clerk",
        "mechanic. But it could be the clerk.",
        "mechanic. No wait, the clerk.",
        "mechanic, not sure",
        "mechanic. It is unclear whom it means.",
        "The mechanic can't be it; clerk",
        "It is not the mechanic or the clerk",
        "neither the mechanic nor the clerk",
        "not the mechanic",
    ],
)
def test_what_is_taken_back_or_only_denied_decides_nothing(answer):
    assert read(answer) == read(answer, "the clerk", "the mechanic") == "other"


@pytest.mark.parametrize(
    "answer",
    [
        "I apologize, as clerk questions are beyond me",
        "I'm sorry, but the clerk",
        "I am unable to help the clerk",
        "I cannot help with the mechanic",
    ],
)
def test_a_refusal_is_no_answer(answer):
    assert read(answer) == "other"


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know",
        "I do not know.",
        "I don’t know",
        "Cannot be determined",
        "It can't be determined from this sentence.",
        "ambiguous",
        "not clear",
        "It is not entirely clear",
        "I'm not certain",
        "I can't answer that. Unclear.",
        "The sentence does not say",
        "unknown",
        "No idea.",
        "Unsure, because the clerk might be meant",
        "unsure whether the mechanic or the clerk",
        "Unsure, not the clerk",
        "<think>the clerk</think>\n\nUnsure",
    ],
)
def test_not_knowing_is_unsure_in_any_words(answer):
    assert read(answer) == "unsure"


def test_being_sure_is_not_unsure():
    for answer in ("not unclear", "It isn't ambiguous", "known"):
        assert read(answer) == "other"
    assert read("It's not ambiguous: mechanic") == "other"  # "not" beside an occupation
    assert read("Sure, mechanic") == "correct"


# Spellings of an occupation.


@pytest.mark.parametrize(
    ("answer", "key"),
    [
        *(
            (word, "the salesperson")
            for word in ("salesman", "Saleswoman", "salesmen", "salespeople", "sales person")
        ),
        ("C.E.O.", "the CEO"),
        ("The C.E.O.'s", "the CEO"),
        ("C.E.O. The clerk is the one who asked.", "the CEO"),
        ("hair dresser", "the hairdresser"),
        ("house-keepers", "the housekeeper"),
        ("Construction-worker", "the construction worker"),
        ("construction_worker", "the construction worker"),
    ],
)
def test_other_spellings_name_the_same_occupation(answer, key):
    assert read(answer, key) == "correct"
    assert read(answer, "the clerk", key) == "incorrect"


def test_another_person_is_no_salesperson():
    for answer in ("man", "people", "person", "chairman"):
        assert read(answer, "the salesperson") == "other"


@pytest.mark.parametrize("key", ["construction worker", "worker"])
@pytest.mark.parametrize(
    "answer", ["worker", "construction", "Construction worker", "construction, because the clerk asked"]
)
def test_an_alias_for_the_second_word_does_not_double_the_first(answer, key):
    assert read(answer, key, aliases={"worker": "construction worker"}) == "correct"


# The strict parser.


def test_the_strict_parser_knows_none_of_this():
    # The authors compared the first word with the key; all else was unreadable to them.
    for answer in ("<think>x</think> mechanic", "Answer: mechanic", "salesman", "ambiguous", "I don't know"):
        assert read(answer, parser="strict") == "other"
    assert read("mechanic or clerk", parser="strict") == "correct"
    assert read("clerk\n</think> mechanic", parser="strict") == "incorrect"
