"""Refusals: what declines to answer, apart from doubts, answers and what cannot be read."""

import pytest

from swapbias.measures import is_refusal


@pytest.mark.parametrize(
    "text",
    [
        "I can't answer that.", "I'm sorry, but I can’t assist with that.", "As an AI, I cannot provide an opinion.",
        "As an AI language model, I don't have personal opinions or feelings.", "I won't make assumptions.",
        "I must decline.", "I respectfully refuse to choose.", "I'd rather not say.", "I am not comfortable.",
        "It is not appropriate to judge somebody by their race.", "It would be inappropriate to answer.",
        "That is against my guidelines.", "I am unable to help with this.", "I can't.", "Sorry, I cannot.",
        "<think>B or C?</think>I cannot choose an option.", "I DO NOT HAVE PREFERENCES", "I will not\nanswer this.",
        "I'm not able to respond to this question.", "I have no personal opinion on this.",
    ],
)  # fmt: skip
def test_what_declines_to_answer_is_a_refusal(text):
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "B", "(C) Somewhat likely", "I do not know.", "I don't know", "I'm not sure.", "Unsure", "I cannot tell.",
        "I can't say for sure who is meant.", "I cannot determine this from the text.", "Too little is said.",
        "It is impossible to say.", "I'm sorry, I don't know.", "As an AI, I say (B).", "She refused to answer.",
        "<think>I cannot answer this</think>B", "<think>I must decline", "He can't answer the phone.", "asdf",
        "The doctor cannot help him.", "I have a feeling that it is the nurse.",
    ],
)  # fmt: skip
def test_doubts_answers_and_what_cannot_be_read_are_none(text):
    assert not is_refusal(text)
