"""What users read has no phrase that was replaced and no sentence of more than 25 words."""

import pytest

from tests.conftest import ROOT
from tests.plain_words import (
    ALL_OLD_SENTENCES,
    ALL_REPLACED,
    CARDS,
    FOR_MODELS,
    LIBRARY,
    MOST_WORDS,
    PAGES,
    SCRIPTS,
    STUDIES,
    TEMPLATES,
    count_words,
    sentences,
    split,
)

DONE = [*PAGES, *TEMPLATES, *SCRIPTS, *LIBRARY, *STUDIES, *CARDS]


def test_sentences_are_counted():
    """A sentence ends at a period before a blank, and signs are no words."""
    assert split("Gaps are 0.05. Is it so? Yes (e.g.x).") == [
        "Gaps are 0.05",
        "Is it so",
        "Yes (e.g.x)",
    ]
    assert count_words("The gap – of – 5 points") == 5


@pytest.mark.parametrize(
    "phrase", ["is not at hand", "stands beside", "Mend it", "men's are likelier"]
)
def test_replaced_phrases_are_found(phrase):
    """A phrase of the list is found, also with a capital."""
    assert ALL_REPLACED.search(phrase)


def test_replaced_phrases():
    """No phrase that was replaced is used again, whether on a page, a card, in help or an error."""
    again = [
        f"{path.relative_to(ROOT)}: {phrase[0]!r} in: {sentence}"
        for path in DONE
        for sentence in sentences(path)
        if path not in FOR_MODELS and (phrase := ALL_REPLACED.search(sentence))
    ]
    assert not again, "\n".join(again)


def test_replaced_sentences_in_code():
    """No sentence that was replaced is left in a docstring, a comment or a script either."""
    files = [*PAGES, *TEMPLATES, *SCRIPTS, *LIBRARY]
    assert len(files) > 100
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    again = {str(path): ALL_OLD_SENTENCES.search(text) for path, text in texts.items()}
    assert not any(again.values()), again


def test_length_of_sentences():
    """No sentence that a user reads has more than 25 words."""
    long = [
        f"{path.relative_to(ROOT)}: {count_words(sentence)} words: {sentence}"
        for path in DONE
        for sentence in sentences(path)
        if path not in FOR_MODELS and count_words(sentence) > MOST_WORDS
    ]
    assert not long, "\n".join(long)
