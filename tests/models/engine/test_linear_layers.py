"""Linear layers by oneDNN: the same numbers, in a copy of the model, where they are faster."""

import copy
import json

import pytest
import torch
from torch import nn
from transformers import AutoModelForMaskedLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import swapbias
from swapbias import runs
from swapbias.models import LoadOptions, devices, load_scorer
from swapbias.models.chat import ChatOptions
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.clinical.encoder_vectors import ContextualVectors
from swapbias.models.engine import fastest_layers, layer_choice, linear_layers
from swapbias.models.engine.fastest_layers import with_fastest_layers
from swapbias.models.engine.linear_layers import ONEDNN, OneDnnLinear
from swapbias.runs.settings import Settings
from swapbias.studies import as_prompts, config_rows
from tests import tiny
from tests.conftest import QUIET

EQUAL = 1e-5
needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN"
)


@pytest.fixture
def choose(monkeypatch):
    """Let the trial come out as told, for models of any size and passes of any number of rows."""

    def chosen(speed):
        monkeypatch.setattr(fastest_layers, "_LEAST_WEIGHTS", 0)
        monkeypatch.setattr(linear_layers, "_FEWEST_ROWS", 1)
        monkeypatch.setattr(fastest_layers, "speed_of_onednn", lambda inside, outside: speed)

    return chosen


def by_both(choose, read):
    """What is read by torch's own product, and by oneDNN, which a model must be read with in one case alone."""
    choose(1.0)
    own, identity, model = read()
    assert "linear_layers" not in identity
    assert not any(isinstance(part, OneDnnLinear) for part in model.modules())
    choose(2.0)
    onednn, identity, model = read()
    assert identity["linear_layers"] == ONEDNN
    assert not any(type(part) is nn.Linear for part in model.modules())
    return own, onednn


@needs_onednn
def test_product_by_hand():
    """A layer multiplies and adds its bias: 1 x 1 + 2 x 10 + .5 and 3 x 1 + 4 x 10 - 1, in every row of a batch."""
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        layer.bias.copy_(torch.tensor([0.5, -1.0]))
    inputs = torch.tensor([1.0, 10.0]).expand(2, 64, 2)
    with torch.inference_mode():
        outputs = OneDnnLinear(layer)(inputs)
    assert outputs.shape == (2, 64, 2)
    assert torch.equal(outputs, torch.tensor([21.5, 42.0]).expand(2, 64, 2))


@needs_onednn
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_rows_and_gradients(bias):
    """Few rows and gradients are those of torch to the bit; many rows differ by rounding alone."""
    torch.manual_seed(0)
    layer = nn.Linear(40, 30, bias=bias)
    onednn = OneDnnLinear(layer)
    assert dict(onednn.named_parameters()).keys() == dict(layer.named_parameters()).keys()
    few, many = torch.randn(63, 40), torch.randn(640, 40)
    with torch.inference_mode():
        assert torch.equal(onednn(few), layer(few))
        assert onednn(many) == pytest.approx(layer(many), abs=EQUAL)
    assert torch.equal(onednn(many), layer(many))
    onednn(many).sum().backward()
    assert layer.weight.grad is not None


@needs_onednn
def test_changed_and_copied_layers():
    """A layer whose weights are changed in place follows them, and so does a copy of a layer."""
    torch.manual_seed(0)
    layer = nn.Linear(40, 30)
    onednn = OneDnnLinear(layer)
    copied = copy.deepcopy(onednn)
    inputs = torch.randn(100, 40)
    with torch.inference_mode():
        before = layer(inputs)
    with torch.no_grad():
        layer.weight.mul_(2)
    with torch.inference_mode():
        assert torch.equal(onednn(inputs), layer(inputs))
        assert copied(inputs) == pytest.approx(before, abs=EQUAL)


@needs_onednn
def test_masked_models(tmp_path, choose):
    """A masked model gives equal scores by both, in packed rows, and the user's model stays as it was."""
    folder = tiny.save("roberta", tmp_path)
    model = AutoModelForMaskedLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    types = [type(part) for part in model.modules()]
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    prompts = as_prompts(config_rows("gendered_stigma", "rq1")[:90])

    def read():
        scorer = load_scorer(model, tokenizer=tokenizer)
        assert scorer.inner.engine._packing if hasattr(scorer, "inner") else scorer.engine._packing
        inner = getattr(scorer, "inner", scorer)
        return [row.score for row in scorer.score(prompts)], scorer.identity, inner.model

    own, onednn = by_both(choose, read)
    assert onednn == pytest.approx(own, abs=EQUAL)
    assert [type(part) for part in model.modules()] == types
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in weights.items())


@pytest.fixture
def llama(tmp_path):
    """A tiny causal model whose layers are linear ones, with a chat template."""
    folder = tiny.save_causal(tmp_path / "causal", positions=512)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        initializer_range=0.6,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@needs_onednn
def test_causal_models(llama, choose):
    """Log-probabilities of a causal model, whose shared beginnings are read once, are equal by both."""
    prompts = as_prompts(config_rows("coreference_schemas", "sentences")[:30])

    def read():
        scorer = load_scorer(str(llama), kind="causal")
        return [row.score for row in scorer.score(prompts)], scorer.identity, scorer.model

    own, onednn = by_both(choose, read)
    assert onednn == pytest.approx(own, rel=EQUAL)


@needs_onednn
def test_chat_models(llama, choose):
    """A chat model writes the same answers by both."""
    prompts = as_prompts(config_rows("occupation_sentiment", "ratings")[:6])

    def read():
        scorer = LocalChatScorer.load(str(llama), LoadOptions(), ChatOptions(max_tokens=8))
        scorer.score(prompts)
        return [answer.answer for answer in scorer.log.values()], scorer.identity, scorer.model

    own, onednn = by_both(choose, read)
    assert onednn == own
    assert len(set(own)) > 1


@needs_onednn
def test_features(tmp_path, choose):
    """Contextual features are equal by both."""
    folder = tiny.save("bert", tmp_path)
    texts = [row["text"].replace("<mask>", "she") for row in config_rows("gendered_stigma", "rq1")]

    def read():
        features = ContextualVectors.load(str(folder), LoadOptions())
        vectors = features.vectors(texts[:9])
        return vectors.ravel().tolist(), features.identity, features.model

    own, onednn = by_both(choose, read)
    assert onednn == pytest.approx(own, abs=EQUAL)


@needs_onednn
def test_models_that_stay(choose, monkeypatch):
    """Models in bfloat16, with hooks, too large for the memory, or small are read as they are."""
    choose(2.0)
    exact = nn.Sequential(nn.Linear(8, 8)).eval()
    copied, layers = with_fastest_layers(exact)
    assert layers == ONEDNN
    assert copied is not exact
    rounded = nn.Sequential(nn.Linear(8, 8)).bfloat16().eval()
    assert with_fastest_layers(rounded) == (rounded, "")
    hooked = nn.Sequential(nn.Linear(8, 8)).eval()
    hooked[0].register_forward_hook(lambda module, inputs, output: output + 1)
    assert with_fastest_layers(hooked) == (hooked, "")
    monkeypatch.setattr(fastest_layers, "_PARTS_OF_MEMORY", 2**60)
    assert with_fastest_layers(exact) == (exact, "")
    monkeypatch.undo()
    assert with_fastest_layers(exact) == (exact, "")


@needs_onednn
def test_manifest_decides(tmp_path, choose):
    """A run that is repeated computes as its manifest says, whatever is faster here."""
    folder = tiny.save("roberta", tmp_path)
    for speed, layers in ((2.0, ONEDNN), (1.0, None)):
        choose(speed)
        first = tmp_path / f"first-{layers}"
        study = "gendered_stigma:rq1"
        swapbias.audit(str(folder), study, limit=12, out=first, progress=False)
        manifest = json.loads((first / "manifest.json").read_text())
        assert [model.get("linear_layers") for model in manifest["models"]] == [layers]
        choose(3.0 - speed)
        settings = Settings.from_manifest(manifest["settings"])
        run, _ = runs.start(
            settings, tmp_path / f"again-{layers}", expected=manifest, cache=False, **QUIET
        )
        assert run.manifest()["models"] == manifest["models"]


@needs_onednn
def test_repeat_without_onednn(tmp_path, choose, monkeypatch):
    """A run that was computed by oneDNN is repeated where torch has none, by torch's own product."""
    folder = tiny.save("roberta", tmp_path)
    audited = {"studies": "gendered_stigma:rq1", "limit": 12, "progress": False}
    choose(2.0)
    swapbias.audit(str(folder), out=tmp_path / "first", **audited)
    manifest = json.loads((tmp_path / "first" / "manifest.json").read_text())
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr(OneDnnLinear, "__init__", None)
    settings = Settings.from_manifest(manifest["settings"])
    run, _ = runs.start(settings, tmp_path / "again", expected=manifest, cache=False, **QUIET)
    (pin,) = run.manifest()["models"]
    assert "linear_layers" not in pin
    values = [
        [finding.estimate.value for finding in runs.read_run(folder).found]
        for folder in (tmp_path / "first", tmp_path / "again")
    ]
    assert values[0] == pytest.approx(values[1], abs=EQUAL, nan_ok=True)


def test_manifest_of_several_models():
    """Each model keeps its own choice, and features that of the entry that has them."""
    entries = [
        {"model_id": "wide", "linear_layers": ONEDNN},
        {"model_id": "narrow"},
        {"model_id": "classifier", "features": {"encoder": {"linear_layers": ONEDNN}}},
    ]
    assert layer_choice.pinned_layers("wide") is None
    with layer_choice.as_pinned(entries):
        assert layer_choice.pinned_layers("wide") == ONEDNN
        assert layer_choice.pinned_layers("narrow") == ""
        assert layer_choice.pinned_layers("encoder") == ONEDNN
    with layer_choice.as_pinned(entries[1:2]):
        assert layer_choice.pinned_layers("encoder") == ""


@needs_onednn
def test_trial_is_of_the_shape(monkeypatch):
    """A trial is made once for each shape and number of threads, and gains of less than a fifth count as none."""
    linear_layers._measured_speed.cache_clear()
    counts = []
    seconds = {"Linear": 0.012, "OneDnnLinear": 0.011}

    def timed(layer, inputs):
        counts.append(tuple(inputs.shape))
        return seconds[type(layer).__name__]

    monkeypatch.setattr(linear_layers, "_seconds", timed)
    assert linear_layers.speed_of_onednn(16, 32) == 1.0
    assert linear_layers.speed_of_onednn(16, 32) == 1.0
    assert len(counts) == 6  # three times both
    seconds["OneDnnLinear"] = 0.006
    assert linear_layers.speed_of_onednn(16, 48) == pytest.approx(2.0)
    assert len(counts) == 6 + 18  # a gain is tried three times
    assert set(counts) == {(512, 16)}
    linear_layers._measured_speed.cache_clear()


@needs_onednn
@pytest.mark.parametrize(
    ("gains", "speed"),
    [((2.0, 1.6, 1.8), 1.6), ((1.6, 0.9), 1.0), ((2.0, 1.5, 1.1), 1.0), ((0.9,), 1.0)],
    ids=["gain in all", "chance, then none", "chance twice", "none"],
)
def test_gain_by_chance(gains, speed, monkeypatch):
    """On a busy machine a trial may show a gain that is none: each of three must, and the smallest counts."""
    linear_layers._measured_speed.cache_clear()
    trials = iter(gains)
    monkeypatch.setattr(linear_layers, "_tried_speed", lambda layers, inputs: next(trials))
    assert linear_layers.speed_of_onednn(16, 32) == speed
    assert list(trials) == []
    linear_layers._measured_speed.cache_clear()


def test_auto_type_beside_fast_float32(monkeypatch):
    """bfloat16 must be four times as fast as float32 is read, not as torch's own product is."""
    monkeypatch.setattr(
        devices,
        "_seconds_of_product",
        lambda device, dtype, width: 5.0 if "float32" in str(dtype) else 1.0,
    )
    for speed, dtype in ((1.0, "bfloat16"), (2.0, "float32")):
        devices._speed_of_bfloat16.cache_clear()
        monkeypatch.setattr(linear_layers, "speed_of_onednn", lambda *shape, speed=speed: speed)
        assert devices.chosen_dtype(LoadOptions(dtype="auto", device="cpu"), 768) == dtype
    devices._speed_of_bfloat16.cache_clear()
