"""Tiny random encoders for the engine, texts as ids, and the slow definition: one text at a time."""

import random

import torch
from transformers import AutoModelForMaskedLM

from tests import tiny

SPECIAL = 5  # ids below are special tokens in every tiny vocabulary


def sizes(vocabulary=300):
    return {"vocab_size": vocabulary, "max_position_embeddings": 64, **tiny.SIZES, **tiny.SPREAD}


def made(family):
    """A tiny random masked model; ids are enough for the engine, so no tokenizer."""
    from transformers import AlbertConfig, ElectraConfig, MPNetConfig

    torch.manual_seed(0)
    config = {
        "albert": lambda: AlbertConfig(embedding_size=16, **sizes()),
        "electra": lambda: ElectraConfig(embedding_size=16, **sizes()),
        "mpnet": lambda: MPNetConfig(**sizes()),
    }.get(family)
    return AutoModelForMaskedLM.from_config(config()).eval() if config else tiny.MODELS[family](300).eval()


def ids(count=24, shortest=3, longest=14):
    draw = random.Random(0)
    return [[draw.randrange(SPECIAL, 300) for _ in range(draw.randint(shortest, longest))] for _ in range(count)]


def alone(model, encoded, positions):
    """The slow definition: one text at a time, the head on every token."""
    with torch.no_grad():
        return torch.stack(
            [model(torch.tensor([one])).logits[0, place] for one, place in zip(encoded, positions, strict=True)]
        )


def in_batches(engine, encoded, positions):
    batches = engine.batches([len(one) for one in encoded])
    assert sorted(index for batch in batches for index in batch) == list(range(len(encoded)))
    found = [None] * len(encoded)
    for batch in batches:
        logits = engine.logits([encoded[at] for at in batch], [positions[at] for at in batch])
        for at, row in zip(batch, logits, strict=True):
            found[at] = row
    return torch.stack(found)
