"""Causal models: log-probabilities and antonym log-odds against the plainest definition."""

import functools
import json
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swapbias.audit.audit import start
from swapbias.audit.plan import Settings
from swapbias.scorers import causal
from swapbias.scorers.registry import load_scorer, read_as
from swapbias.scorers.scorer import LoadOptions
from swapbias.studies.catalogue import as_prompts, config_rows, load_lexicon
from tests import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save_causal(tmp_path_factory.mktemp("causal") / "gpt")


def slow(folder, text):
    """Token by token: the log-probability of each next token given all before it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer(text)["input_ids"]
    total = 0.0
    for end in range(1, len(ids)):
        with torch.no_grad():
            logits = model(torch.tensor([ids[:end]])).logits[0, -1]
        total += float(torch.log_softmax(logits, dim=-1)[ids[end]])
    return total


def test_log_probabilities_equal_the_slow_definition_whatever_the_batch(folder):
    texts = [row["text"] for row in config_rows("occupation_sentiment", "sentences")[::97]]
    expected = [slow(folder, text) for text in texts]
    for size in (1, 64):
        scorer = load_scorer(str(folder), options=LoadOptions(batch_size=size))
        assert scorer.log_probabilities(texts) == pytest.approx(expected, abs=1e-4)


def test_antonym_log_odds_are_the_mean_difference_of_whole_sentences(folder):
    prompt = as_prompts(config_rows("social_distance", "template4"))[5]
    one = read_as(load_scorer(str(folder)), "antonyms").score([prompt])[0]
    words = [word for word, _ in load_lexicon("social_distance/antonyms").entries()]
    odds = [
        slow(folder, prompt.text.replace("<mask>", bad)) - slow(folder, prompt.text.replace("<mask>", good))
        for good, bad in zip(words[::2], words[1::2], strict=True)
    ]
    assert one.score == pytest.approx(sum(odds) / len(odds), abs=1e-4)
    assert [value for _, value in json.loads(one.top_tokens)] == pytest.approx(odds, abs=1e-4)


def test_a_causal_model_is_audited_for_antonyms(folder, tmp_path, quiet):
    run, found = start(Settings(model=str(folder), studies=("social_distance",), limit=20), tmp_path / "run", **quiet)
    assert {one.experiment for one in found} == {"antonyms"}
    assert set(run.items("social_distance")["experiment"]) == {"antonyms"}
    gap = next(one for one in found if one.measure == "group_gap" and one.slice_by == "all")
    assert gap.unit == "mean log-odds of the disapproving antonym"


def made(family, **settings):
    """A tiny random causal model of 61 tokens."""
    import transformers

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    if family in ("GPT2", "Mamba"):
        sizes = (
            {"n_embd": 16, "n_layer": 2, "n_head": 2} if family == "GPT2" else {"hidden_size": 16, "state_size": 4}
        )
    if family == "OPT":
        sizes = {**sizes, "ffn_dim": 24, "word_embed_proj_dim": 16}
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=61, bos_token_id=0, eos_token_id=1, pad_token_id=2, **sizes, **settings
    )
    head = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    return getattr(transformers, f"{family}{head}")(config).eval()


FAMILIES = {
    "GPT2": {},
    "GPTNeoX": {},
    "Llama": {"num_key_value_heads": 1},
    "Qwen2": {"num_key_value_heads": 1},
    "OPT": {},
    "Bloom": {"n_head": 2},
    "Gemma2": {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": 64},
    "Mistral": {"num_key_value_heads": 1, "sliding_window": 4},  # forgets the beginnings of most texts below
}
FORGET = ("Mistral",)


def texts_that_begin_alike():
    """Prompts with answers after them, a text that is the beginning of another, twins, two tokens, and a long one."""
    prompt, other = [5, 6, 7, 8, 9], [5, 6, 7, 30]
    answers = ([11], [12], [11, 13], [11, 13, 2], [14, 15, 16], [14, 15, 17, 2], [14, 15, 16])
    texts = [([*one, *answer], len(one)) for one in (prompt, other) for answer in answers]
    return [*texts, ([5, 6], 1), ([60, 1], 1), ([*prompt, 11], 1), ([5, *range(3, 30)], 1), ([5, *range(3, 30)], 9)]


def plainly(model, ids, begins):
    """Token by token, in double precision."""
    with torch.no_grad():
        each = [torch.log_softmax(model(torch.tensor([ids[:end]])).logits[0, -1], -1)[ids[end]] for end in
                range(begins, len(ids))]  # fmt: skip
    return float(sum(each))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [2, 64])
def test_what_texts_share_is_read_once_and_changes_no_log_probability(family, size):
    model = made(family, **FAMILIES[family])
    texts = texts_that_begin_alike()
    assert causal.can_share(model, max((ids for ids, _ in texts), key=len)) is (family not in FORGET)
    read, forward = [], model.forward

    def counting(*args, **kwargs):
        read.append(kwargs["input_ids"].numel())
        return forward(*args, **kwargs)

    model.forward = functools.wraps(forward)(counting)
    scorer = causal.CausalScorer(model, None, model_id="tiny", batch_size=size, identity={})
    found = {
        place: value for places, values in scorer.ends(texts) for place, value in zip(places, values, strict=True)
    }
    model.forward = forward
    exact = model.double()
    assert sorted(found) == list(range(len(texts)))
    for place, (ids, begins) in enumerate(texts):
        assert found[place] == pytest.approx(plainly(exact, ids, begins), abs=1e-5)
    if family not in FORGET:  # the trial reads the longest of 28 tokens thrice at most; few are padded
        beginnings = {tuple(ids[:end]) for ids, _ in texts for end in range(1, len(ids))}
        assert sum(read) <= 3 * 28 + 1.5 * len(beginnings)


def test_a_state_in_place_of_keys_and_values_is_not_shared():
    assert not causal.can_share(made("Mamba"), [5, 6, 7, 8])


def test_impossible_tokens_and_broken_weights_are_what_they_are_when_texts_are_read_whole():
    texts = texts_that_begin_alike()
    for broken in (None, float("nan"), float("-inf")):
        model = made("Llama", num_key_value_heads=1, attention_bias=True, tie_word_embeddings=False)
        model.lm_head = torch.nn.Linear(16, 61, bias=True)
        if broken is not None:
            with torch.no_grad():
                model.lm_head.bias[13] = broken
        ways = [
            {place: value for places, values in way(model, texts, batch_size=8) for place, value in
             zip(places, values, strict=True)}
            for way in (causal.plain_ends, causal.shared_ends)
        ]  # fmt: skip
        assert ways[1] == pytest.approx(ways[0], abs=1e-5, nan_ok=True)


def test_answers_that_are_equally_likely_tie_exactly(folder):
    scorer = load_scorer(str(folder))
    with torch.no_grad():
        scorer.model.lm_head.weight.zero_()  # any token is as likely as any other
    words = [word for word, _ in load_lexicon("social_distance/antonyms").entries()]
    lengths = {len(scorer.tokenizer(f"a {word}")["input_ids"]): word for word in words}
    answers = [next(iter(lengths.values()))]
    answers += [one for one in words if lengths.get(len(scorer.tokenizer(f"a {one}")["input_ids"])) == answers[0]][:1]
    assert len(set(answers)) == 2
    prompt = replace(as_prompts(config_rows("social_distance", "template4"))[5], candidates="|".join(answers))
    one = read_as(scorer, "answers").score([prompt])[0]
    assert (one.score, one.answer, one.parts["log_odds"]) == (0.5, "", 0)


def test_texts_up_to_the_limit_of_the_model_are_read_and_longer_ones_are_not(tmp_path):
    scorer = load_scorer(str(tiny.save_causal(tmp_path / "short", positions=24)))
    texts = [row["text"] for row in config_rows("occupation_sentiment", "sentences")[::97]]
    lengths = [len(scorer.tokenizer(text)["input_ids"]) for text in texts]
    scorer.tokenizer.model_max_length = limit = sorted(lengths)[len(lengths) // 2]
    found = scorer.log_probabilities([*texts, ""])
    assert [value is None for value in found] == [*(length > limit for length in lengths), False]
    longest = lengths.index(limit)
    assert found[longest] == pytest.approx(slow(tmp_path / "short", texts[longest]), abs=1e-4)
