"""Many answers at once: each is what the library gives to its prompt alone, whatever stands beside it."""

import random

import pytest
import torch
from transformers import GenerationConfig

from swapbias.models.engine import generation
from tests.models.engine.test_loglikelihood import made

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
    questions = [[draw.randrange(3, 60) for _ in range(n)] for n in (3, 9, 20)]
    found = [said[0] + one + two for one in said[1:] for two in questions]
    return [*found, found[0], [*found[0], 7, 8], said[2], [*said[2][::-1], *said[1]], [5, 6, 7]]


def greedy(model, ids):
    """Token by token, each time reading the whole text."""
    said = []
    while len(said) < MOST and END not in said:
        with torch.no_grad():
            said.append(int(model(torch.tensor([[*ids, *said]])).logits[0, -1].argmax()))
    return said


def answers_of(model, texts, batch_size, most=MOST):
    settings = GenerationConfig(do_sample=False, max_new_tokens=most, eos_token_id=[END], pad_token_id=2)
    found = generation.answer(model, texts, lambda logits, places: logits, settings=settings, batch_size=batch_size)
    return dict(pair for places, answers in found for pair in zip(places, answers, strict=True))


@pytest.mark.parametrize("family", [*FAMILIES, *REFUSED])
def test_answers_are_those_of_each_prompt_alone(family):
    model, texts = made(family, initializer_range=0.5, **(FAMILIES | REFUSED)[family]), prompts()
    texts = texts if family in FAMILIES else texts[-4:]
    with torch.no_grad():  # the end token is chosen now and then, so that rows end early
        model.get_output_embeddings().weight[END] *= 1.5
    assert generation.can_pad(model, max(texts, key=len), MOST) is (family in FAMILIES)
    expected = dict(enumerate(greedy(model, ids) for ids in texts))
    for size in (4, 64):
        assert answers_of(model, texts, size) == expected
    if family == "Llama":  # the case is what it is said to be
        assert len({len(answer) for answer in expected.values()}) > 2


def test_what_prompts_share_is_read_once():
    model, texts = made("Llama", **FAMILIES["Llama"]), prompts()[:6]
    assert generation.can_pad(model, max(texts, key=len), 2)
    read = []
    model.get_input_embeddings().register_forward_pre_hook(lambda _, ids: read.append(tuple(ids[0].shape)))
    answers_of(model, texts * 3, 64, most=2)
    assert {(1, 40), (1, 50), (1, 45)} <= set(read)  # what all prompts share, and what nine of them share
    assert sum(rows * length for rows, length in read) < 0.6 * 3 * sum(map(len, texts))  # the trial included


def test_positions_that_are_counted_by_slots_are_seen():
    model, ids = made("Llama", initializer_range=0.5, **FAMILIES["Llama"]), max(prompts(), key=len)
    forward = model.model.forward

    def by_slots(*, position_ids=None, **rest):
        return forward(**rest)

    assert generation.can_pad(model, ids, MOST)
    model.model.forward = by_slots
    assert not generation.can_pad(model, ids, MOST)
