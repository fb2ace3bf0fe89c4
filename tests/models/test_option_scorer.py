"""Closed questions for causal models: the softmax of options, by hand and by a model that reads whole texts."""

import json
import math

import pytest
import torch

from swapbias.models import load_scorer
from swapbias.studies import Candidate, Prompt
from tests import tiny
from tests.scoring import read_as

OPTIONS = ("she", "the woman", "nobody here")
VALUES = (1.0, 0.0, 0.0)


def prompt(values=VALUES, name="1"):
    candidates = tuple(map(Candidate, OPTIONS, values))
    return Prompt(prompt_id=name, pair_id=name, group="a", text="who is it", candidates=candidates)


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return load_scorer(str(tiny.save_causal(tmp_path_factory.mktemp("causal"))))


def slow_logs(causal):
    """Return the log-probability of each option: that of the whole text a token at a time."""
    # The tokenizer ends every text with a mark.
    tokens = [causal.tokenizer(f"who is it {option}")["input_ids"][:-1] for option in OPTIONS]
    before = causal.tokenizer("who is it")["input_ids"][:-1]
    assert all(ids[: len(before)] == before for ids in tokens)
    start = len(before)
    logs = []
    for ids in tokens:
        with torch.inference_mode():
            rows = torch.log_softmax(causal.model(torch.tensor([ids])).logits[0], dim=-1)
        logs.append(sum(float(rows[place - 1, ids[place]]) for place in range(start, len(ids))))
    return logs


def shares(logs):
    weights = [math.exp(log - max(logs)) for log in logs]
    return [weight / sum(weights) for weight in weights]


def test_softmax_of_options(causal):
    """The score of an option is its share by the softmax of summed logs; beside it, of logs a character."""
    (scored,) = read_as(causal, "options").score([prompt()])
    logs = slow_logs(causal)
    assert scored.score == pytest.approx(shares(logs)[0], abs=1e-5)
    by_character = shares([log / len(name) for log, name in zip(logs, OPTIONS, strict=True)])
    assert scored.parts["per_character"] == pytest.approx(by_character[0], abs=1e-5)
    ranked = dict(json.loads(scored.top_tokens))
    assert sum(ranked.values()) == pytest.approx(1, abs=1e-5)
    assert scored.answer == max(ranked, key=ranked.get)


def test_scores_of_all_options_add_up(causal):
    """Rows that count one option each have scores that add up to 1, and are read once."""
    values = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    rows = [prompt(of_row, str(number)) for number, of_row in enumerate(values)]
    done = []
    scored = read_as(causal, "options").score(rows, done.append)
    assert math.fsum(one.score for one in scored) == pytest.approx(1)
    assert sum(done) == pytest.approx(len(rows))


def test_options_that_count_nothing(causal):
    """An option that counts nothing is left out of the mean."""
    (scored,) = read_as(causal, "options").score([prompt((1.0, 0.0, None))])
    first, second, _ = shares(slow_logs(causal))
    assert scored.score == pytest.approx(first / (first + second), abs=1e-5)


def test_too_long_is_not_scored(causal):
    """A prompt that is longer than the model reads has no score."""
    long = Prompt("1", "1", "a", "who " * 400, tuple(map(Candidate, OPTIONS, VALUES)))
    (scored,) = read_as(causal, "options").score([long])
    assert math.isnan(scored.score)
    assert math.isnan(scored.parts["per_character"])


def test_blank_option_is_refused(causal):
    """A prompt with one option, or a blank one, is refused by its name."""
    blank = Prompt("7/a", "7", "a", "who", (Candidate("she", 1.0), Candidate("", 0.0)))
    with pytest.raises(ValueError, match="7/a: options"):
        read_as(causal, "options").score([blank])


def test_odds_of_options(causal):
    """The log-odds of an option against two others are those of its probability against the sum of theirs."""
    (scored,) = read_as(causal, "option_odds").score([prompt()])
    logs = slow_logs(causal)
    others = math.log(math.exp(logs[1]) + math.exp(logs[2]))
    assert scored.score == pytest.approx(logs[0] - others, abs=1e-5)
    by_character = [log / len(name) for log, name in zip(logs, OPTIONS, strict=True)]
    others = math.log(math.exp(by_character[1]) + math.exp(by_character[2]))
    assert scored.parts["per_character"] == pytest.approx(by_character[0] - others, abs=1e-5)


def test_odds_of_a_likely_option(causal):
    """What makes an option likelier after every prompt adds the same to all log-odds, and nothing to their gap."""
    scorer = read_as(causal, "option_odds")
    first, second = (
        scorer._score_of_logs(prompt(), logs).score for logs in ([-3, -4, -9], [-1, -4, -9])
    )
    assert second - first == pytest.approx(2)
    impossible = scorer._score_of_logs(prompt(), [-math.inf, -1, -2])
    assert math.isnan(impossible.score)


def test_odds_of_too_long_prompts(causal):
    """A prompt that is longer than the model reads has no log-odds."""
    long = Prompt("1", "1", "a", "who " * 400, tuple(map(Candidate, OPTIONS, VALUES)))
    (scored,) = read_as(causal, "option_odds").score([long])
    assert math.isnan(scored.score)
