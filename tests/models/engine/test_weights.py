"""Weights of the engine: prepacked, and rounded to bfloat16 with the error measured."""

import weakref

import pytest
import torch
from torch import nn
from transformers import AutoModelForMaskedLM

from swapbias.models.auto import load_scorer, read_as
from swapbias.models.base import LoadOptions
from swapbias.models.engine.encoder import Engine, PackedLinear, can_prepack, prepack, rounding_error
from swapbias.studies.catalogue import as_prompts, config_rows
from tests import tiny
from tests.models.engine.encoders import alone, ids, in_batches, made, sizes

# --- prepacked weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_a_prepacked_layer_gives_what_the_plain_one_gives(dtype, bias):
    torch.manual_seed(0)
    linear = nn.Linear(48, 20, bias=bias, dtype=dtype)
    if not can_prepack(linear.weight):
        pytest.skip("this build of torch cannot pack weights")
    close = 1e-5 if dtype == torch.float32 else 0.05
    with torch.inference_mode():
        for shape in ((1, 7, 48), (3, 48), (1_500, 48)):
            hidden = torch.randn(shape).to(dtype)
            assert torch.allclose(PackedLinear(linear)(hidden), linear(hidden), atol=close)
            gelu = nn.functional.gelu(linear(hidden))
            assert torch.allclose(PackedLinear(linear, gelu=True)(hidden), gelu, atol=close)


def test_prepacking_frees_the_plain_weights_and_keeps_embeddings():
    model = made("roberta")
    before = [weakref.ref(one.weight) for one in model.modules() if type(one) is nn.Linear]
    if not prepack(model):
        pytest.skip("this build of torch cannot pack weights")
    left = [one() for one in before if one() is not None]
    assert len(left) == 1  # the head's, which are the embeddings too
    assert left[0] is model.get_input_embeddings().weight


def test_where_the_operation_is_gone_models_run_plainly(monkeypatch):
    class Gone:
        def __getattr__(self, name):
            raise AttributeError(name)

    monkeypatch.setattr(torch.ops, "mkldnn", Gone())
    model, encoded = made("bert"), ids()
    expected = alone(model, encoded, [1] * len(encoded))
    engine = Engine(model)
    engine.prepack()
    assert not any(isinstance(one, PackedLinear) for one in model.modules())
    assert torch.allclose(in_batches(engine, encoded, [1] * len(encoded)), expected, atol=1e-4)


def test_an_operation_that_means_something_else_is_not_used(monkeypatch):
    class Other:
        def _reorder_linear_weight(self, weight, rows):
            return weight

        def _linear_pointwise(self, hidden, weight, bias, activation, scalars, algorithm):
            return nn.functional.linear(hidden, weight)  # the bias is lost

    monkeypatch.setattr(torch.ops, "mkldnn", Other())
    assert not can_prepack(torch.zeros(1))


def test_a_family_that_is_not_known_is_not_prepacked():
    assert prepack(made("albert")) == 0


def test_other_types_and_approximate_activations_are_left_alone():
    assert not can_prepack(torch.zeros(1, dtype=torch.float64))
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(hidden_act="gelu_new", **sizes())).eval()
    encoded = ids()
    expected = alone(model, encoded, [1] * len(encoded))
    engine = Engine(model)
    engine.prepack()
    assert torch.allclose(in_batches(engine, encoded, [1] * len(encoded)), expected, atol=1e-4)


# --- bfloat16 -----------------------------------------------------------------------------------------


def test_the_rounding_error_counts_what_moved():
    # Two texts, three outputs; the likeliest alone is compared. First: .1 moves from output 0 to 1, which stays
    # second. Second: .2 moves from 0 to 2, and 2 is now the likeliest. Moved mass: (.1 + .2) / 2; largest .2.
    exact = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]])
    rounded = torch.tensor([[0.5, 0.4, 0.1], [0.3, 0.1, 0.6]])
    error = rounding_error(exact, rounded)
    assert (error.texts, error.top, error.same_top) == (2, 1, 0.5)
    assert error.largest == pytest.approx(0.2)
    assert error.mean == pytest.approx(0.15)


def test_bfloat16_is_measured_against_float32_before_the_weights_are_rounded(tmp_path):
    folder = str(tiny.save("roberta", tmp_path))
    asked = as_prompts(config_rows("gendered_stigma", "rq1"))[::9]
    exact, coarse = load_scorer(folder), load_scorer(folder, options=LoadOptions(dtype="bfloat16"))
    assert coarse.identity["dtype"] == "bfloat16"
    assert coarse.error_note == ""  # nothing was read yet
    first, rounded = exact.score(asked), coarse.score(asked)
    assert coarse.model.dtype == torch.bfloat16
    assert rounded == coarse.score(asked)  # the first texts are scored in bfloat16 as well
    assert "bfloat16" in coarse.error_note
    assert not exact.error_note
    error = coarse.rounding.error
    apart = max(abs(one.score - other.score) for one, other in zip(first, rounded, strict=True))
    assert error.texts == 32
    assert 0 < error.largest < 0.5
    assert apart > 0
    for reading in ("phrases", "attitude"):
        assert read_as(coarse, reading).error_note == coarse.error_note


def test_bfloat16_equals_a_model_loaded_so(tmp_path):
    folder = str(tiny.save("bert", tmp_path))
    texts = tiny.texts()[:20]
    scorer = load_scorer(folder, options=LoadOptions(dtype="bfloat16"))
    plain = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    for members, probabilities in scorer.read(texts):
        for index, row in zip(members, probabilities, strict=True):
            encoded = scorer.encode(texts[index])
            place = encoded.index(scorer.tokenizer.mask_token_id)
            expected = alone(plain, [encoded], [place])[0].float().softmax(-1)
            assert torch.allclose(row, expected, atol=0.03)


def test_a_classifier_in_bfloat16_says_its_error_too(tmp_path):
    folder = str(tiny.save_classifier(tmp_path, ["negative", "positive"]))
    scorer = load_scorer(folder, options=LoadOptions(dtype="bfloat16"))
    scorer.score(as_prompts(config_rows("occupation_sentiment", "sentences"))[::37])
    assert "of the 1 likeliest outputs" in scorer.error_note
    assert read_as(scorer, "negative_label").error_note == scorer.error_note
