"""Many answers at once: each is what the library gives to its prompt alone, whatever stands beside it."""

import random

import pytest
import torch

from swapbias.models.engine import generation
from tests.models.engine.test_beginnings import made

LONG = {"max_position_embeddings": 256}
FAMILIES = {
    "GPT2": {"n_positions": 256},
    "Llama": {"num_key_value_heads": 1, **LONG},
    "OPT": LONG,  # counts positions by the mask
    "Bloom": {"n_head": 2},  # has none
    "Gemma2": {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": 512, **LONG},
}
REFUSED = {
    "Mistral": {"num_key_value_heads": 1, "sliding_window": 64, **LONG},  # padding would take room in the window
    "Mamba": {},  # no keys and values
}
END, MOST = 60, 6


def prompts():
    """Two vignettes with questions, twins, one that goes on from another, one of another length, a short one."""
    draw = random.Random(5)
    said = [[draw.randrange(3, 60) for _ in range(n)] for n in (40, 50, 45)]
    asked = [[draw.randrange(3, 60) for _ in range(n)] for n in (3, 9, 20)]
    found = [said[0] + one + two for one in said[1:] for two in asked]
    return [*found, found[0], [*found[0], 7, 8], said[2], [*said[2][::-1], *said[1]], [5, 6, 7]]


def greedy(model, ids):
    """Token by token, each time reading the whole text."""
    said = []
    while len(said) < MOST and END not in said:
        with torch.no_grad():
            said.append(int(model(torch.tensor([[*ids, *said]])).logits[0, -1].argmax()))
    return said


def likeliest(logits, places):
    return logits.argmax(dim=-1).tolist()


def answers_of(found, texts, batch_size):
    told = found.answers(texts, likeliest, ends=[END], most=MOST, batch_size=batch_size)
    return dict(pair for places, answers in told for pair in zip(places, answers, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_those_of_each_prompt_alone(family, monkeypatch):
    monkeypatch.setattr(generation, "_ROOM", 70)  # several passes a batch
    monkeypatch.setattr(generation, "_MORE", 2)  # answers outgrow their slots
    model, texts = made(family, initializer_range=0.5, **FAMILIES[family]), prompts()
    with torch.no_grad():  # the end token is chosen now and then, so that rows leave
        model.get_output_embeddings().weight[END] *= 1.5
    found = generation.generator(model, max(texts, key=len), MOST)
    expected = dict(enumerate(greedy(model, ids) for ids in texts))
    for size in (4, 64):
        assert answers_of(found, texts, size) == expected
    if family == "Llama":  # the case is what it is said to be
        assert len({len(answer) for answer in expected.values()}) > 2


def test_what_prompts_share_is_read_once():
    model, texts = made("Llama", **FAMILIES["Llama"]), prompts()[:6]
    found, read = generation.generator(model, texts[-1], 2), []
    model.get_input_embeddings().register_forward_pre_hook(lambda _, ids: read.append(ids[0].shape))
    answers_of(found, texts * 3, 64)
    # 40 tokens that all share and 50 and 45 that three share, twice 3 + 9 + 20, which are padded to 20, then answers.
    assert sum(rows * tokens for rows, tokens in read if tokens > 1) == 40 + 2 * 50 + 6 * 20
    assert {rows for rows, tokens in read if tokens == 1} <= set(range(1, 19))


@pytest.mark.parametrize("family", REFUSED)
def test_a_model_that_padding_or_sharing_would_change_is_refused(family):
    model = made(family, **REFUSED[family])
    assert generation.generator(model, max(prompts(), key=len), MOST) is None


def test_a_model_whose_own_settings_change_its_logits_is_refused():
    model = made("Llama", **FAMILIES["Llama"])
    model.generation_config.suppress_tokens = [3]
    assert generation.generator(model, max(prompts(), key=len), MOST) is None


def test_positions_that_are_counted_by_slots_are_seen():
    model, ids = made("Llama", initializer_range=0.5, **FAMILIES["Llama"]), max(prompts(), key=len)
    forward = model.model.forward

    def by_slots(*, position_ids=None, **rest):
        return forward(**rest)

    assert generation.generator(model, ids, MOST) is not None
    model.model.forward = by_slots
    assert generation.generator(model, ids, MOST) is None
