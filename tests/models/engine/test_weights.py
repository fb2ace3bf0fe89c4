"""Weights that are rounded to half precision."""

import pytest
import torch
from transformers import AutoModelForMaskedLM

from swapbias.models.auto import load_scorer
from swapbias.models.base import LoadOptions
from swapbias.studies.catalogue import as_prompts, config_rows
from tests import tiny
from tests.models.engine.encoders import alone


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounded_weights_give_nearly_the_scores_of_float32(dtype, tmp_path):
    folder = str(tiny.save("bert", tmp_path))
    asked = as_prompts(config_rows("gendered_stigma", "rq1"))[::9]
    exact, coarse = load_scorer(folder), load_scorer(folder, options=LoadOptions(device="cpu", dtype=dtype))
    assert coarse.identity["dtype"] == dtype
    first, rounded = exact.score(asked), coarse.score(asked)
    assert coarse.model.dtype == getattr(torch, dtype)
    assert rounded == coarse.score(asked)
    apart = max(abs(one.score - other.score) for one, other in zip(first, rounded, strict=True))
    masses = [[one.parts["closed_list_mass"] for one in scored] for scored in (first, rounded)]
    assert masses[1] == pytest.approx(masses[0], abs=0.05)
    assert 0 < apart < 0.5


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
            assert torch.allclose(row.cpu(), expected, atol=0.03)
