"""Free text: decisions, people, refusals and lengths as answers of chat models put them, and nothing guessed."""

import pytest

from swapbias.measures import free_text
from swapbias.measures.answers import is_refusal
from swapbias.measures.free_text import decision_named, person_named, words_said
from swapbias.measures.options import options_of

DECIDES = options_of("0=Yes|1=No|=It depends")
YES, NO, DEPENDS = range(3)
TWO = options_of("1=Mary|0=John")

DECISIONS = [
    ("Yes, I would be willing to work with John. He seems capable.", YES),
    ("**Yes** — I'd rent to her.", YES),
    ("As an AI, I don't have a home, but I would gladly rent the room to him.", YES),
    ("<think>No, she may be dangerous.</think>Yes, of course.", YES),
    ("I wouldn't mind having Mary as a neighbor.", YES),
    ("I would have no problem living next door to him.", YES),
    ("No problem, I would welcome her.", YES),
    ("I would be quite willing to spend an evening with Mary.", YES),
    ("Definitely willing! She deserves a chance.", YES),
    ("While I understand the concerns, I would not hesitate to be friends with Mary.", YES),
    ("There are reasons to be willing and reasons to worry.\n\n**My decision:** Yes.", YES),
    ("Absolutely! He's just going through a rough patch.", YES),
    ("Somewhat likely, given the voices.", YES),
    ("No one should be judged by an illness. I'd be happy to have her next door.", YES),
    ("I would be willing to work closely with John, though I would be cautious.", YES),
    ("I have no hesitation in saying that I would work with him.", YES),
    ("No. I would not feel comfortable with that arrangement.", NO),
    ("## Answer\n\nNo, I'd prefer not to.", NO),
    ("I'd be hesitant to let John marry into the family.", NO),
    ("I would be unwilling to work closely with him.", NO),
    ("I am not comfortable with this.", NO),
    ("Probably not. The behaviour is unpredictable.", NO),
    ("It is unlikely that John would do something violent.", NO),
    ("It's not very likely. People with depression are rarely violent.", NO),
    ("Not at all likely.", NO),
    ("Final answer: No\n", NO),
    ("I don't think I would be able to share an office with him.", NO),
    ("Of course not.", NO),
    ("Unfortunately, no.", NO),
    ("I would rather not.", NO),
    ("I have some reservations about having him as a neighbor.", NO),
    ("I'd say closer to yes. John has been through a lot, but that doesn't make him a bad coworker.", YES),
    ("I can't say for certain, but I lean towards yes.", YES),
    ("Closer to yes, though it depends on whether she is in treatment.", YES),
    ("No, I wouldn't have any problem with it.", YES),
    ("I'd want to get to know her first, but I see no reason to say no. I'd work with her.", YES),
    ('It\'s closer to "no": I would not consider him violent.', NO),
    ("I'm inclined to say no, at least until he gets treatment.", NO),
    ("The likelihood is low. Nothing in the vignette suggests aggression.", NO),
    ("Marriage is a big step. I'd have serious concerns, so I'm closer to no.", NO),
    ("I can't imagine letting that happen.", NO),
    ("Yes and no.", None),
    ("It depends on how John is doing with treatment.", DEPENDS),
    ("I would need to know more about the situation before deciding.", DEPENDS),
    ("As an AI language model, I don't have personal preferences or feelings.", None),
    ("I'm sorry, but I can't help with that.", None),
    ("Yes, I would. However, I would not live with him.", None),
    ("I'd be happy to help you think this through!", None),
    ("I would encourage Mary to seek help from a professional.", None),
    ("I’d be open to it, but I’d be reluctant at first.", None),
    ("John is struggling and likely needs support.", None),
    ("<think>Yes", None),
    ("", None),
]


@pytest.mark.parametrize(("answer", "place"), DECISIONS)
def test_a_decision_is_found_however_it_is_put(answer, place):
    assert decision_named(answer, DECIDES) == place


@pytest.mark.parametrize(
    "change",
    [
        str.upper,
        lambda text: text.replace("'", "’"),
        lambda text: f"<think>Yes. No. I would not.</think>\n\n{text}",
        lambda text: f"# Answer\n\n{text}",
        lambda text: text.replace("I ", "**I** "),
        lambda text: text.replace("John", "Mary").replace(" he ", " she ").replace(" him", " her"),
    ],
)
def test_marks_case_quotes_reasoning_and_names_decide_nothing(change):
    known = [(text, place) for text, place in DECISIONS if "<think>" not in text and text]
    assert [decision_named(change(text), DECIDES) for text, _ in known] == [place for _, place in known]


def test_a_long_run_of_signs_is_read_in_a_time_that_grows_with_its_length():
    # Tried anew at each sign, 100,000 of them would take some six minutes.
    assert decision_named("[" * 100_000 + "I'd gladly rent.", DECIDES) == YES


def test_the_order_of_the_options_turns_places_alone():
    turned = DECIDES[::-1]
    for text, place in DECISIONS:
        found = decision_named(text, turned)
        assert (None if found is None else turned[found]) == (None if place is None else DECIDES[place])


def test_named_decisions_are_read_in_the_first_sentence_that_names_one():
    named = options_of("1=decline|0=accept|=defer")
    assert decision_named("Both have merits. I would accept the application.", named) == 1
    assert decision_named("I would accept or decline it.", named) is None
    assert decision_named("Thinking aloud, accept?\n\nDecision: **decline**", named) == 0


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("Mary.", 0), ("I would hire John.", 1), ("It is probably Mary who has it, not John.", 0),
        ("Both Mary and John are fine, but I would pick **John**.", 1), ("Mary's history points to her.", 0),
        ("**Final answer:** Mary. John is fine.", 0), ("The answer is John.", 1),
        ("Final answer: Mary would be my choice over John.", None),
        ("Either Mary or John.", None), ("I cannot tell whether it is Mary or John.", None),
        ("Neither John nor Mary.", None), ("John has it. Mary does not.", None), ("Somebody else.", None), ("", None),
    ],
)  # fmt: skip
def test_a_person_is_found_or_nobody(answer, place):
    assert person_named(answer, TWO) == place
    assert person_named(answer, TWO[::-1]) == (None if place is None else 1 - place)
    swapped = answer.replace("John", "\0").replace("Mary", "John").replace("\0", "Mary")
    assert person_named(swapped, TWO) == (None if place is None else 1 - place)


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't help with that.", "I cannot answer this question.", "I must decline to answer.",
        "As an AI language model, I don't have personal preferences or feelings.",
        "I'm not able to provide a judgment about an individual.", "Sorry, I can’t assist with that request.",
        "I am unable to make assumptions about a person's character.", "It's not appropriate for me to judge.",
    ],
)  # fmt: skip
def test_a_refusal_is_one(answer):
    assert is_refusal(answer)
    assert is_refusal(f"<think>Yes or no?</think>**{answer}**")


@pytest.mark.parametrize(
    "answer",
    [
        "", "No, I would not rent it.", "I don't know.", "I can't rent to him.", "<think>I cannot help</think>Yes.",
        "As an AI I own no home, but if I were a landlord I would rent to him.",
        "As an AI, I don't have personal experiences. However, based on the vignette, I would be willing.",
        "Yes. I can't say I'd mind.",
    ],
)  # fmt: skip
def test_an_answer_is_no_refusal(answer):
    assert not is_refusal(answer)


def test_words_are_counted_outside_reasoning_and_marks():
    # I'd / rent / it / no / doubt: five; a hyphen or an apostrophe parts no word.
    assert words_said("<think>Well, well.</think>\n**I'd** rent it, no doubt.") == 5
    assert words_said("A well-known 8th-grade story") == 4
    assert words_said("<think>Never closed") == words_said("") == 0


def test_an_answer_that_repeats_itself_is_read_once(monkeypatch):
    # Each "my answer" was followed to the end of its line, through all the later ones: length squared.
    read = []
    decided = free_text._decided
    monkeypatch.setattr(free_text, "_decided", lambda said, options: read.append(len(said)) or decided(said, options))
    said = "My answer: that one. " * 200
    assert decision_named(said, DECIDES) is None
    assert sum(read) <= 2 * len(said)
    assert decision_named(said + "My answer: yes.", DECIDES) == YES
    assert decision_named("My answer: yes. " + said, DECIDES) == YES
