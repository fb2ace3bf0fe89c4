"""Causal models: log-probabilities and antonym log-odds against a slow definition."""

import json
from dataclasses import replace
from functools import cache

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import swapbias
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer
from swapbias.studies import Candidate, as_prompts, config_rows, load_lexicon
from tests import tiny
from tests.models.engine.test_loglikelihood import whole_log_likelihood
from tests.scoring import read_as


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save_causal(tmp_path_factory.mktemp("causal") / "gpt")


@cache
def read_texts(folder):
    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(
        folder
    ).eval()


def slow_log_probability(folder, text, before=()):
    """Token by token: the log-probability of each next token given all before it."""
    tokenizer, model = read_texts(folder)
    return whole_log_likelihood(model, [*before, *tokenizer(text)["input_ids"]], 1)


def test_log_probabilities_equal_slow_definition(folder):
    """Log-probabilities equal the slow definition, whatever the batch."""
    texts = [row["text"] for row in config_rows("occupation_sentiment", "sentences")[::97]]
    expected = [slow_log_probability(folder, text) for text in texts]
    for size in (1, 64):
        scorer = load_scorer(str(folder), options=LoadOptions(batch_size=size))
        assert scorer.log_probabilities(texts) == pytest.approx(expected, abs=1e-4)
        assert "before_text" not in scorer.identity  # this tokenizer begins every text itself


def test_antonym_log_odds(folder):
    """Antonym log-odds are the mean difference of whole sentences."""
    prompt = as_prompts(config_rows("social_distance", "template4"))[5]
    one = read_as(load_scorer(str(folder)), "antonyms").score([prompt])[0]
    words = [word for word, _ in load_lexicon("social_distance/antonyms").entries()]
    odds = [
        slow_log_probability(folder, prompt.text.replace("<mask>", bad))
        - slow_log_probability(folder, prompt.text.replace("<mask>", good))
        for good, bad in zip(words[::2], words[1::2], strict=True)
    ]
    assert one.score == pytest.approx(sum(odds) / len(odds), abs=1e-4)
    assert [value for _, value in json.loads(one.top_tokens)] == pytest.approx(odds, abs=1e-4)


def test_equally_likely_answers(folder):
    """Answers that are equally likely tie exactly."""
    scorer = load_scorer(str(folder))
    with torch.no_grad():
        scorer.model.lm_head.weight.zero_()  # any token is as likely as any other
    words = [word for word, _ in load_lexicon("social_distance/antonyms").entries()]
    lengths = {len(scorer.tokenizer(f"a {word}")["input_ids"]): word for word in words}
    answers = [next(iter(lengths.values()))]
    answers += [
        one
        for one in words
        if lengths.get(len(scorer.tokenizer(f"a {one}")["input_ids"])) == answers[0]
    ][:1]
    assert len(set(answers)) == 2
    some = as_prompts(config_rows("social_distance", "template4"))[5]
    prompt = replace(some, candidates=tuple(map(Candidate, answers)))
    one = read_as(scorer, "answers").score([prompt])[0]
    assert (one.score, one.answer, one.parts["log_odds"]) == (0.5, "", 0)


def test_limit_of_the_model(tmp_path):
    """Texts up to the limit of the model are read, and longer ones are not."""
    scorer = load_scorer(str(tiny.save_causal(tmp_path / "short", positions=24)))
    texts = [row["text"] for row in config_rows("occupation_sentiment", "sentences")[::97]]
    lengths = [len(scorer.tokenizer(text)["input_ids"]) for text in texts]
    scorer.tokenizer.model_max_length = limit = sorted(lengths)[len(lengths) // 2]
    found = scorer.log_probabilities([*texts, ""])
    assert [value is None for value in found] == [*(length > limit for length in lengths), False]
    longest = lengths.index(limit)
    assert found[longest] == pytest.approx(
        slow_log_probability(tmp_path / "short", texts[longest]), abs=1e-4
    )


def clerks():
    """Own prompts: a pair whose texts begin with another word each."""
    who = ["She", "He", "Mary", "John", "Anne Marie", "Jo", "A woman", "A man"]
    texts = [f"{person} is a clerk." for person in who]
    return pd.DataFrame({"pair": [*"00112233"], "group": ["female", "male"] * 4, "text": texts})


@pytest.mark.parametrize(
    "named",
    [{"bos_token": "<s>", "eos_token": "</s>"}, {"eos_token": "</s>"}],
    ids=["BOS and EOS", "EOS"],
)
@pytest.mark.parametrize("loaded", [False, True])
def test_first_token(named, loaded, tmp_path):
    """The first token is scored after BOS or EOS where a tokenizer adds none."""
    folder = tiny.save_unmarked(tmp_path, **named)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    begin = tokenizer.convert_tokens_to_ids(named.get("bos_token", "</s>"))
    assert tokenizer("He")["input_ids"][0] != begin
    prompts = clerks()
    model = AutoModelForCausalLM.from_pretrained(folder) if loaded else str(folder)
    more = {"tokenizer": tokenizer} if loaded else {}
    run = swapbias.audit(model, prompts=prompts, reference="male", progress=False, **more)
    items = run.items(run.found[0].study)
    items = items[items["group"].isin(["female", "male"])].drop_duplicates("text")
    assert set(items["text"]) == set(prompts["text"])
    expected = [slow_log_probability(folder, text, [begin]) for text in items["text"]]
    assert items["score"].tolist() == pytest.approx(expected, abs=1e-4)
    assert run.run.manifest()["models"][0]["before_text"] == named.get("bos_token", "</s>")


def test_first_token_without_probability(tmp_path):
    """Pairs that differ in a first token without a probability are refused."""
    folder = tiny.save_unmarked(tmp_path, pad_token="<pad>")
    prompts = clerks()
    with pytest.raises(UsageError, match=r"neither a BOS nor an EOS token.*pairs differ in it"):
        swapbias.audit(str(folder), prompts=prompts, reference="male", progress=False)
    alike = prompts.assign(text="Then " + prompts["text"])
    run = swapbias.audit(str(folder), prompts=alike, reference="male", progress=False)
    items = run.items(run.found[0].study).drop_duplicates("text")
    assert items["score"].tolist() == pytest.approx(
        [slow_log_probability(folder, text) for text in items["text"]], abs=1e-4
    )
