"""Texts that begin alike: what is read once says the same as reading every text whole."""

import pytest
import torch

from swapbias.models.engine import loglikelihood


def made(family, **settings):
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
    "Granite": {"num_key_value_heads": 1, "logits_scaling": 4.0},
    "Mistral": {"num_key_value_heads": 1, "sliding_window": 4},  # forgets the beginnings of most texts below
}
FORGET = ("Mistral",)
MORE_THAN_PRODUCTS = ("Gemma2", "Granite")  # capped, scaled


def texts_that_begin_alike():
    """Prompts with answers after them, a text that is the beginning of another, twins, two tokens, and a long one."""
    prompt, other = [5, 6, 7, 8, 9], [5, 6, 7, 30]
    answers = ([11], [12], [11, 13], [11, 13, 2], [14, 15, 16], [14, 15, 17, 2], [14, 15, 16])
    texts = [([*one, *answer], len(one)) for one in (prompt, other) for answer in answers]
    return [*texts, ([5, 6], 1), ([60, 1], 1), ([*prompt, 11], 1), ([5, *range(3, 30)], 1), ([5, *range(3, 30)], 9)]


def values_of(ends):
    return {place: value for places, values in ends for place, value in zip(places, values, strict=True)}


def plainly(model, ids, begins):
    with torch.no_grad():
        each = [torch.log_softmax(model(torch.tensor([ids[:end]])).logits[0, -1], -1)[ids[end]] for end in
                range(begins, len(ids))]  # fmt: skip
    return float(sum(each))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("size", "held"), [(2, 0), (64, 2**28)])  # deepest first, shortest first
def test_what_texts_share_is_read_once_and_changes_no_log_probability(family, size, held, monkeypatch):
    monkeypatch.setattr(loglikelihood, "_PIECE", 16)
    monkeypatch.setattr(loglikelihood, "_MAX_CACHED", held)
    model = made(family, **FAMILIES[family])
    texts = texts_that_begin_alike()
    assert (loglikelihood._Pieces.of(model, [5, 6, 7]) is None) is (family in MORE_THAN_PRODUCTS)
    assert loglikelihood.can_share(model, max((ids for ids, _ in texts), key=len)) is (family not in FORGET)
    read = []
    counting = model.get_input_embeddings().register_forward_pre_hook(lambda _, ids: read.append(ids[0].numel()))
    found = values_of(loglikelihood.ends(model, texts, batch_size=size))
    counting.remove()
    exact = model.double()
    assert sorted(found) == list(range(len(texts)))
    for place, (ids, begins) in enumerate(texts):
        assert found[place] == pytest.approx(plainly(exact, ids, begins), abs=1e-5)
    if family not in FORGET:  # the trial reads the longest of 28 tokens thrice at most; few are padded
        different = {tuple(ids[:end]) for ids, _ in texts for end in range(1, len(ids))}
        assert sum(read) <= 3 * 28 + 1.5 * len(different)


def test_a_state_in_place_of_keys_and_values_is_not_shared():
    assert not loglikelihood.can_share(made("Mamba"), [5, 6, 7, 8])


def test_impossible_tokens_and_broken_weights_are_what_they_are_when_texts_are_read_whole(monkeypatch):
    monkeypatch.setattr(loglikelihood, "_PIECE", 16)
    texts = texts_that_begin_alike()
    for broken in (None, float("nan"), float("-inf")):
        model = made("Llama", num_key_value_heads=1, attention_bias=True, tie_word_embeddings=False)
        model.lm_head = torch.nn.Linear(16, 61, bias=True)
        if broken is not None:
            with torch.no_grad():
                model.lm_head.bias[13] = broken
        ways = [
            values_of(way(model, texts, batch_size=8))
            for way in (loglikelihood.plain_ends, loglikelihood.shared_ends)
        ]
        assert ways[1] == pytest.approx(ways[0], abs=1e-5, nan_ok=True)
