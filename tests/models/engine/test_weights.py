"""Weights that are rounded to bfloat16, with the error measured."""

import pytest
import torch
from transformers import AutoModelForMaskedLM

from swapbias.models.auto import load_scorer, read_as
from swapbias.models.base import LoadOptions
from swapbias.models.engine.encoder import rounding_error
from swapbias.studies.catalogue import as_prompts, config_rows
from tests import tiny
from tests.models.engine.encoders import alone


def test_the_rounding_error_counts_what_moved():
    # Two texts, three outputs. First: .1 moves from output 0 to 1. Second: .2 moves from 0 to 2. Moved mass:
    # (.1 + .2) / 2; largest .2.
    exact = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]])
    rounded = torch.tensor([[0.5, 0.4, 0.1], [0.3, 0.1, 0.6]])
    assert rounding_error(exact, rounded) == pytest.approx((0.2, 0.15))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounded_weights_are_measured_against_float32_before_they_are_rounded(dtype, tmp_path):
    folder = str(tiny.save("bert", tmp_path))
    asked = as_prompts(config_rows("gendered_stigma", "rq1"))[::9]
    exact, coarse = load_scorer(folder), load_scorer(folder, options=LoadOptions(device="cpu", dtype=dtype))
    assert coarse.identity["dtype"] == dtype
    assert not coarse.notes  # nothing was read yet
    first, rounded = exact.score(asked), coarse.score(asked)
    assert coarse.model.dtype == getattr(torch, dtype)
    assert rounded == coarse.score(asked)  # the first texts are scored so as well
    assert f"in {dtype}, measured against float32" in coarse.notes["dtype_error"]
    assert not exact.notes
    apart = max(abs(one.score - other.score) for one, other in zip(first, rounded, strict=True))
    masses = [[one.parts["closed_list_mass"] for one in scored] for scored in (first, rounded)]
    assert masses[1] == pytest.approx(masses[0], abs=0.05)
    assert coarse.rounding.texts == 32
    assert 0 < coarse.rounding.largest < 0.5
    assert apart > 0
    for reading in ("phrases", "attitude"):
        assert read_as(coarse, reading).notes == coarse.notes


def test_bfloat16_equals_a_model_loaded_so(tmp_path):
    folder = str(tiny.save("bert", tmp_path))
    texts = tiny.texts()[:20]
    scorer = load_scorer(folder, options=LoadOptions(dtype="bfloat16"))
    plain = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    plain = plain.to(scorer.model.device)
    for members, probabilities in scorer.read(texts):
        for index, row in zip(members, probabilities, strict=True):
            encoded = scorer.encode([texts[index]])[0]
            place = encoded.index(scorer.tokenizer.mask_token_id)
            expected = alone(plain, [encoded], [place])[0].float().softmax(-1)
            assert torch.allclose(row, expected, atol=0.03)


def test_a_classifier_in_bfloat16_says_its_error_too(tmp_path):
    folder = str(tiny.save_classifier(tmp_path, ["negative", "positive"]))
    scorer = load_scorer(folder, options=LoadOptions(dtype="bfloat16"))
    scorer.score(as_prompts(config_rows("occupation_sentiment", "sentences"))[::37])
    assert "the largest error of a probability is" in scorer.notes["dtype_error"]
    assert read_as(scorer, "negative_label").notes == scorer.notes
