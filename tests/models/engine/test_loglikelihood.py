"""Texts with a shared beginning: shared computation gives the numbers of each text alone."""

import random

import pytest
import torch
from transformers import GenerationConfig

from swapbias.models.engine import cache_probe, generation, loglikelihood


def make_model(family, **settings):
    import transformers

    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    sizes = {
        "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2},
        "Mamba": {"hidden_size": 16, "state_size": 4},
        "OPT": {**sizes, "ffn_dim": 24, "word_embed_proj_dim": 16},
    }.get(family, sizes)
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=61, bos_token_id=0, eos_token_id=1, pad_token_id=2, **sizes, **settings
    )
    head = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    return getattr(transformers, f"{family}{head}")(config).eval()


FAMILIES = {
    "GPT2": {}, "GPTNeoX": {}, "OPT": {}, "Bloom": {"n_head": 2},
    "Llama": {"num_key_value_heads": 1}, "Qwen2": {"num_key_value_heads": 1},
    "Gemma2": {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": 64},
    "Granite": {"num_key_value_heads": 1, "logits_scaling": 4.0},
    "Mistral": {"num_key_value_heads": 1, "sliding_window": 4},  # forgets the beginnings of most texts below
}  # fmt: skip
FAMILIES_THAT_FORGET = ("Mistral",)
MORE_THAN_PRODUCTS = ("Gemma2", "Granite")  # capped, scaled


def texts_that_begin_alike():
    """Prompts with answers after them, a text that is the beginning of another, twins, two tokens, and a long one."""
    prompt = [5, 6, 7, 8, 9]
    second_prompt = [5, 6, 7, 30]
    answers = ([11], [12], [11, 13], [11, 13, 2], [14, 15, 16], [14, 15, 17, 2], [14, 15, 16])
    texts = [
        ([*beginning, *answer], len(beginning))
        for beginning in (prompt, second_prompt)
        for answer in answers
    ]
    return [
        *texts,
        ([5, 6], 1),
        ([60, 1], 1),
        ([*prompt, 11], 1),
        ([5, *range(3, 30)], 1),
        ([5, *range(3, 30)], 9),
    ]


def values_of(ends):
    return {
        place: value for places, values in ends for place, value in zip(places, values, strict=True)
    }


def whole_log_likelihood(model, ids, begins):
    with torch.no_grad():
        log_probabilities = [
            torch.log_softmax(model(torch.tensor([ids[:end]])).logits[0, -1], -1)[ids[end]]
            for end in range(begins, len(ids))
        ]
    return sum(map(float, log_probabilities))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("size", "held"), [(2, 0), (64, 2**28)], ids=["small batches", "large batches"]
)  # deepest first, shortest first
def test_shared_beginning_is_read_once(family, size, held, monkeypatch):
    """The shared beginning of texts is read once and changes no log-probability."""
    monkeypatch.setattr(loglikelihood, "_VOCABULARY_SLICE", 16)
    monkeypatch.setattr(loglikelihood, "_MAX_CACHE_BYTES", held)
    model = make_model(family, **FAMILIES[family])
    texts = texts_that_begin_alike()
    assert (loglikelihood._HiddenStateModel.if_readable(model, [5, 6, 7]) is None) is (
        family in MORE_THAN_PRODUCTS
    )
    assert cache_probe.supports_prefix_sharing(model, max((ids for ids, _ in texts), key=len)) is (
        family not in FAMILIES_THAT_FORGET
    )
    read = []
    counting = model.get_input_embeddings().register_forward_pre_hook(
        lambda _, ids: read.append(ids[0].numel())
    )
    found = values_of(loglikelihood.continuation_log_probs(model, texts, batch_size=size))
    counting.remove()
    exact = model.double()
    assert sorted(found) == list(range(len(texts)))
    for place, (ids, begins) in enumerate(texts):
        assert found[place] == pytest.approx(whole_log_likelihood(exact, ids, begins), abs=1e-5)
    if (
        family not in FAMILIES_THAT_FORGET
    ):  # the trial reads the longest of 28 tokens thrice at most; few are padded
        different = {tuple(ids[:end]) for ids, _ in texts for end in range(1, len(ids))}
        assert sum(read) <= 3 * 28 + 1.5 * len(different)


def test_state_is_not_shared():
    """A state in place of keys and values is not shared."""
    assert not cache_probe.supports_prefix_sharing(make_model("Mamba"), [5, 6, 7, 8])


def test_impossible_tokens_and_broken_weights(
    monkeypatch,
):
    """Impossible tokens and broken weights have the values of texts that are read whole."""
    monkeypatch.setattr(loglikelihood, "_VOCABULARY_SLICE", 16)
    texts = texts_that_begin_alike()
    for broken in (None, float("nan"), float("-inf")):
        model = make_model(
            "Llama", num_key_value_heads=1, attention_bias=True, tie_word_embeddings=False
        )
        model.lm_head = torch.nn.Linear(16, 61, bias=True)
        if broken is not None:
            with torch.no_grad():
                model.lm_head.bias[13] = broken
        ways = [
            values_of(way(model, texts, batch_size=8))
            for way in (
                loglikelihood.log_probs_of_whole_texts,
                loglikelihood.log_probs_with_shared_prefixes,
            )
        ]
        assert ways[1] == pytest.approx(ways[0], abs=1e-5, nan_ok=True)


# Many answers at once: each is what the library gives to its prompt alone, whatever stands beside it.

LONG = {"max_position_embeddings": 256}
PADDED = {
    "GPT2": {"n_positions": 256}, "Llama": {"num_key_value_heads": 1, **LONG},
    "OPT": LONG, "Bloom": {"n_head": 2},  # the first counts positions by the mask, the second has none
    "Gemma2": {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": 512, **LONG},
}  # fmt: skip
REFUSED = {
    "Mistral": {
        "num_key_value_heads": 1,
        "sliding_window": 64,
        **LONG,
    },  # padding would take room in the window
    "Mamba": {},  # no keys and values
}
END = 60
MOST_TOKENS = 6


def texts_to_answer():
    """Two vignettes with questions, twins, one that goes on from another, one of another length, a short one."""
    draw = random.Random(5)
    answers = [[draw.randrange(3, 60) for _ in range(n)] for n in (40, 50, 45)]
    questions = [[draw.randrange(3, 60) for _ in range(n)] for n in (3, 9, 20)]
    prompts = [answers[0] + prefix + two for prefix in answers[1:] for two in questions]
    return [
        *prompts,
        prompts[0],
        [*prompts[0], 7, 8],
        answers[2],
        [*answers[2][::-1], *answers[1]],
        [5, 6, 7],
    ]


def greedy(model, ids):
    """Token by token, each time reading the whole text."""
    answer = []
    while len(answer) < MOST_TOKENS and END not in answer:
        with torch.no_grad():
            answer.append(int(model(torch.tensor([[*ids, *answer]])).logits[0, -1].argmax()))
    return answer


def answers_of(model, texts, batch_size, most=MOST_TOKENS):
    settings = GenerationConfig(
        do_sample=False, max_new_tokens=most, eos_token_id=[END], pad_token_id=2
    )
    generated = generation.answer(
        model, texts, lambda logits, places: logits, settings=settings, batch_size=batch_size
    )
    return dict(pair for places, answers in generated for pair in zip(places, answers, strict=True))


@pytest.mark.parametrize("family", [*PADDED, *REFUSED])
def test_answers_equal_each_prompt_alone(family):
    """Answers are those of each prompt alone."""
    model = make_model(family, initializer_range=0.5, **(PADDED | REFUSED)[family])
    texts = texts_to_answer()
    texts = texts if family in PADDED else texts[-4:]
    with torch.no_grad():  # the end token is chosen now and then, so that rows end early
        model.get_output_embeddings().weight[END] *= 1.5
    assert generation.can_pad(model, max(texts, key=len), MOST_TOKENS) is (family in PADDED)
    expected = dict(enumerate(greedy(model, ids) for ids in texts))
    for size in (4, 64):
        assert answers_of(model, texts, size) == expected
    if family == "Llama":  # the case is what it is said to be
        assert len({len(answer) for answer in expected.values()}) > 2


def test_shared_prompts_are_read_once():
    """The shared beginning of prompts is read once."""
    model = make_model("Llama", **PADDED["Llama"])
    texts = texts_to_answer()[:6]
    assert generation.can_pad(model, max(texts, key=len), 2)
    read = []
    model.get_input_embeddings().register_forward_pre_hook(
        lambda _, ids: read.append(tuple(ids[0].shape))
    )
    answers_of(model, texts * 3, 64, most=2)
    assert {(1, 40), (1, 50), (1, 45)} <= set(
        read
    )  # what all prompts share, and what nine of them share
    assert sum(rows * length for rows, length in read) < 0.6 * 3 * sum(
        map(len, texts)
    )  # the trial included


def test_positions_by_slots():
    """A model that counts positions by slots is detected."""
    model = make_model("Llama", initializer_range=0.5, **PADDED["Llama"])
    ids = max(texts_to_answer(), key=len)
    forward = model.model.forward

    def by_slots(*, position_ids=None, **rest):
        return forward(**rest)

    assert generation.can_pad(model, ids, MOST_TOKENS)
    model.model.forward = by_slots
    assert not generation.can_pad(model, ids, MOST_TOKENS)
