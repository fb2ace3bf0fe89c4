"""Weights that are rounded to bfloat16."""

import torch
from transformers import AutoModelForMaskedLM

from swapbias.models.auto import load_scorer
from swapbias.models.base import LoadOptions
from tests import tiny
from tests.models.engine.encoders import alone


def test_bfloat16_equals_a_model_loaded_so(tmp_path):
    folder = str(tiny.save("bert", tmp_path))
    texts = tiny.texts()[:20]
    scorer = load_scorer(folder, options=LoadOptions(dtype="bfloat16"))
    plain = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    for members, probabilities in scorer.read(texts):
        for index, row in zip(members, probabilities, strict=True):
            encoded = scorer.encode([texts[index]])[0]
            place = encoded.index(scorer.tokenizer.mask_token_id)
            expected = alone(plain, [encoded], [place])[0].float().softmax(-1)
            assert torch.allclose(row, expected, atol=0.03)
