"""The second reading of a text: the words that a prompt names given the others, by the slow definition."""

import math
from dataclasses import replace

import pytest
import torch

from swapbias.models import load_scorer
from swapbias.models.named_words import text_parts, token_span
from swapbias.studies import MASK, Candidate, Lexicon, Prompt
from tests import tiny
from tests.scoring import read_as


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return load_scorer(str(tiny.save_causal(tmp_path_factory.mktemp("causal"))))


@pytest.fixture(scope="module", params=["bert", "roberta", "xlnet"])
def masked(request, tmp_path_factory):
    folder = tiny.save(request.param, tmp_path_factory.mktemp(request.param))
    return load_scorer(str(folder), kind="masked")


def prompt(text, words, **fields):
    return Prompt(prompt_id="1/a", pair_id="1", text=text, candidates=(Candidate(words),), **fields)


def test_named_words_of_a_causal_model(causal):
    """Beside the whole text stands the log-probability of the named words, token by token, and of none after them."""
    scorer = read_as(causal, "named_words")
    done = []
    asked = [prompt("she has depression and he", "depression"), Prompt(text="she has gout")]
    whole, without = scorer.score(asked, done.append)
    plain = causal.score(asked)
    assert [whole.score, without.score] == pytest.approx([one.score for one in plain], abs=1e-4)
    assert math.isnan(without.parts["conditional"])
    assert sum(done) == pytest.approx(2)
    tokenizer = causal.tokenizer
    ids = tokenizer("she has depression and he")["input_ids"]
    pieces = [tokenizer.decode(ids[:end]) for end in range(len(ids) + 1)]
    named = [
        index
        for index in range(len(ids))
        if len("<s>she has") <= len(pieces[index]) < len("<s>she has depression")
    ]
    with torch.inference_mode():
        logs = torch.log_softmax(causal.model(torch.tensor([ids])).logits[0], dim=-1)
    slow = sum(float(logs[index - 1, ids[index]]) for index in named)
    assert whole.parts["conditional"] == pytest.approx(slow, abs=1e-4)
    longer = replace(asked[0], text="she has depression")
    (shorter,) = scorer.score([longer])
    assert shorter.parts["conditional"] == pytest.approx(slow, abs=1e-4)


def test_named_words_of_a_masked_model(masked, monkeypatch):
    """Tokens of the named words are masked, and read from left to right with the label's word in its place."""
    lexicon = Lexicon("made/list", words={"she": "female", "he": "male"})
    monkeypatch.setattr("swapbias.models.named_words.load_lexicon", lambda name: lexicon)
    monkeypatch.setattr("swapbias.models.masked.load_lexicon", lambda name: lexicon)
    words = "bipolar depression"
    asked = prompt(f"now {MASK} has {words} today", words, lexicon="made/list/female")
    scored, without = read_as(masked, "named_words").score([asked, replace(asked, candidates=())])
    assert scored.score == pytest.approx(without.score, nan_ok=True)
    assert math.isnan(without.parts["conditional"])
    tokenizer = masked.tokenizer
    ids = tokenizer(f"now she has {words} today")["input_ids"]
    before = tokenizer("now she has")["input_ids"]
    after = tokenizer(" today")["input_ids"]
    start = next(index for index, token in enumerate(before) if token != ids[index])
    rest = 1
    while ids[-rest - 1 :] == after[-rest - 1 :]:
        rest += 1
    end = len(ids) - rest
    slow = 0.0
    for index in range(start, end):
        hidden = [*ids[:index], *[tokenizer.mask_token_id] * (end - index), *ids[end:]]
        probabilities = masked.batch_probabilities([hidden])
        slow += math.log(float(probabilities[0, ids[index]]))
    assert end - start >= 2
    assert scored.parts["conditional"] == pytest.approx(slow, abs=1e-4)


def test_xlnet_predicts_the_first_of_masks(tmp_path):
    """Of several hidden positions the first is predicted, and no text sees any of them."""
    scorer = load_scorer(str(tiny.save("xlnet", tmp_path)), kind="masked")
    mask = scorer.tokenizer.mask_token_id
    ids = scorer.tokenizer("She has depression")["input_ids"]
    hidden = [*ids[:1], mask, mask, *ids[3:]]
    first = scorer.batch_probabilities([hidden])
    assert first.shape[0] == 1
    # The second hidden position holds any token unseen.
    seen = torch.zeros(1, len(ids), len(ids))
    seen[0, :, 1:3] = 1
    target = torch.zeros(1, 1, len(ids))
    target[0, 0, 1] = 1
    with torch.inference_mode():
        logits = scorer.model(torch.tensor([ids]), perm_mask=seen, target_mapping=target).logits
    assert torch.allclose(first[0], logits[0, 0].softmax(dim=-1), atol=1e-5)


@pytest.mark.parametrize(
    ("text", "words", "before"),
    [
        ("black men have mi", "mi", "black men have "),
        ("so mi is common", "mi", "so "),
        ("男性患者对梅毒更易感", "梅毒", "男性患者对"),
    ],
)
def test_place_of_named_words(text, words, before):
    """The last whole words count, and in languages without blanks the last place."""
    assert text_parts(prompt(text, words), text) == (before, before + words)


@pytest.mark.parametrize("text", ["she has gout", "mi is common"])
def test_named_words_that_are_missing(text):
    """Named words that the text does not have, or begins with, are refused by the prompt's name."""
    with pytest.raises(ValueError, match="1/a: its text does not contain 'mi' after other words"):
        text_parts(prompt(text, "mi"), text)


def test_token_across_the_end(causal):
    """A token that reaches beyond the named words counts, and marks at the end do not."""
    end = causal.tokenizer.eos_token_id
    # 5 is "has gout" alone, 6 "gout-" in the whole text.
    assert token_span(causal.tokenizer, [3, 4, 6, 7, end], [3, 4, end], [3, 4, 5, end]) == range(
        2, 3
    )
    assert token_span(causal.tokenizer, [3, 4, 5, end], [3, 4, end], [3, 4, 5, end]) == range(2, 3)


def test_too_long_has_no_second_reading(causal):
    """A text that is longer than the model reads has neither score."""
    (scored,) = read_as(causal, "named_words").score([prompt("who " * 400 + "mi", "mi")])
    assert math.isnan(scored.score)
    assert math.isnan(scored.parts["conditional"])
