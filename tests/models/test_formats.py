"""Models in unsupported formats are refused in one sentence that names a supported way."""

import json
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import swapbias
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer, model_kind
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.formats import refuse_quantized
from tests import tiny
from tests.cli.test_cli import refused, swapbias as command


def test_no_chat_template(tmp_path):
    """A local chat model without a chat template is refused."""
    folder = tiny.save_causal(tmp_path / "base")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = None
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer.save_pretrained(folder)
    sentence = r"has no chat template: it continues texts.* or audit it as a causal model"
    model = AutoModelForCausalLM.from_pretrained(folder)
    with pytest.raises(UsageError, match=sentence):
        LocalChatScorer(model, tokenizer, model_id="base", identity={})
    with pytest.raises(UsageError, match=sentence):
        swapbias.audit(None, "stigma_vignettes:gender", chat=str(folder), progress=False)
    ran = command(
        "audit", "--study", "stigma_vignettes:gender", "--chat", folder, "--out", tmp_path / "run"
    )
    refused(ran, 2, "base has no chat template")


FILES = {
    "llama.gguf": r"GGUF weights \(llama\.cpp\), which are not read here\. Serve it .* with --chat and --base-url",
    "model.onnx": "ONNX weights, which are not read here. Name the model that they were exported from",
    "tf_model.h5": "TensorFlow weights, which are not read here. Save them as safetensors",
    "epoch.ckpt": "a checkpoint of a training program, which are not read here. Save the model with save_pretrained",
}


@pytest.mark.parametrize(("name", "library"), [("llama.gguf", "GGUF"), ("model.onnx", "ONNX")])
def test_file_of_another_library_as_chat_model(name, library, tmp_path):
    """A file of another library is no chat model of a provider."""
    (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(UsageError, match=f"{library} weights.*not read here"):
        swapbias.audit(None, "stigma_vignettes:gender", chat=str(tmp_path / name), progress=False)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("beside", [True, False])
def test_weights_of_another_library(name, beside, tmp_path):
    """Weights of another library are named, in a folder or beside the config of a model."""
    folder = tiny.save("bert", tmp_path / "m") if beside else tmp_path
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / name).write_bytes(b"weights")
    sentence = FILES[name].replace("--chat and --base-url", "chat and base_url")
    with pytest.raises(UsageError, match=sentence):
        load_scorer(str(folder))
    if not beside:
        with pytest.raises(UsageError, match=sentence):
            load_scorer(str(folder / name))


def test_weights_of_two_libraries(tmp_path):
    """A model with weights of two libraries can be scored."""
    folder = tiny.save("bert", tmp_path)
    (folder / "model.onnx").write_bytes(b"weights")
    assert load_scorer(str(folder)).kind == "masked"


def test_sentence_transformer(tmp_path):
    """A sentence transformer searches, also with its encoder in a folder, and the encoder still gives vectors."""
    from swapbias.models.clinical.encoder_vectors import ContextualVectors

    folder = tiny.save_bi_encoder(tmp_path / "m")
    assert model_kind(str(folder)) == "retrieval"
    assert ContextualVectors.load(str(folder), LoadOptions(device="cpu")).dimension == 32
    encoder = folder / "0_Transformer"
    encoder.mkdir()
    for path in folder.glob("*"):
        if path.is_file() and path.name not in (
            "modules.json",
            "config_sentence_transformers.json",
        ):
            path.rename(encoder / path.name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = encoder.name
    (folder / "modules.json").write_text(json.dumps(modules))
    assert load_scorer(str(folder)).kind == "retrieval"
    sentence = r"is a SentenceTransformer whose encoder is in a folder of its own"
    with pytest.raises(UsageError, match=sentence):
        load_scorer(str(folder), kind="masked")


def test_quantised_weights(tmp_path, monkeypatch):
    """Quantised weights name the package that reads them."""
    monkeypatch.setattr("swapbias.models.formats.find_spec", lambda name: None)
    for method, package in (
        ("quanto", "optimum-quanto"),
        ("gptq", "gptqmodel"),
        ("awq", "gptqmodel"),
    ):
        wanted = rf"quantised with {method}, which needs the package {package}\. Install it \(pip install {package}\)"
        for config in ({"quant_method": method}, SimpleNamespace(quant_method=method)):
            with pytest.raises(UsageError, match=wanted):
                refuse_quantized("m", SimpleNamespace(quantization_config=config))
    refuse_quantized("m", SimpleNamespace())
    refuse_quantized("m", SimpleNamespace(quantization_config={"quant_method": "fp8"}))
    folder = tiny.save("bert", tmp_path)
    (folder / "quanto_qmap.json").write_text("{}")
    with pytest.raises(
        UsageError, match=r"was saved by optimum-quanto.*Load it with optimum-quanto in Python"
    ):
        load_scorer(str(folder))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"quant_method": "modelopt"}, "quantised with 'modelopt', which is not read here"),
        (
            {"load_in_4bit": True},
            "quantised with bitsandbytes, which needs the package bitsandbytes",
        ),
    ],
    ids=["of another library", "without its method"],
)
def test_quantisation_that_is_passed_over(settings, sentence, tmp_path, monkeypatch):
    """Weights quantised in a way that transformers passes over are refused: they would be read without scales."""
    monkeypatch.setattr("swapbias.models.formats.find_spec", lambda name: None)
    folder = tiny.save("bert", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    with pytest.raises(UsageError, match=sentence):
        load_scorer(str(folder))


@pytest.mark.parametrize("ending", ["weight_scale", "weight_scale_inv", "SCB", "weight.absmax"])
def test_scales_that_nothing_reads(ending, tmp_path):
    """Packed weights whose scales no config tells of are refused: the numbers would be those of no model."""
    folder = tiny.save("bert", tmp_path)
    weights = load_file(folder / "model.safetensors")
    layer = "bert.encoder.layer.0.attention.self.query"
    weights[f"{layer}.weight"] = weights[f"{layer}.weight"].to(torch.float8_e4m3fn)
    weights[f"{layer}.{ending}"] = torch.ones(1)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ValueError, match=rf"packed weights with 1 scales .*, as {layer}\.{ending}\."
    ):
        load_scorer(str(folder))
