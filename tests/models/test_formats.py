"""What is not read here is refused in one sentence that names the way that works."""

import json
from types import SimpleNamespace

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import swapbias
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer, model_kind
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.formats import refuse_quantized
from tests import tiny
from tests.cli.test_cli import refused, swapbias as command


def test_a_local_chat_model_without_a_chat_template_is_refused(tmp_path):
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
def test_a_file_of_another_library_is_no_chat_model_of_a_provider(name, library, tmp_path):
    (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(UsageError, match=f"{library} weights.*not read here"):
        swapbias.audit(None, "stigma_vignettes:gender", chat=str(tmp_path / name), progress=False)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("beside", [True, False])
def test_weights_of_another_library_are_named(name, beside, tmp_path):
    """In a folder of their own, or beside the config of a model."""
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


def test_a_model_with_weights_of_two_libraries_is_read(tmp_path):
    folder = tiny.save("bert", tmp_path)
    (folder / "model.onnx").write_bytes(b"weights")
    assert load_scorer(str(folder)).kind == "masked"


def test_a_sentence_transformer_is_named_and_its_encoder_still_gives_vectors(tmp_path):
    from swapbias.models.clinical.features import ContextualVectors

    folder = tiny.save("bert", tmp_path / "m")
    (folder / "modules.json").write_text("[]")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    sentence = r"is a SentenceTransformer, which gives vectors and no scores of texts\. .*embedding"
    with pytest.raises(UsageError, match=sentence):
        model_kind(str(folder))
    refused(command("audit", folder, "--out", tmp_path / "run"), 2, "is a SentenceTransformer")
    assert ContextualVectors.load(str(folder), LoadOptions(device="cpu")).dimension == 32
    (folder / "config.json").unlink()
    with pytest.raises(UsageError, match=sentence):
        load_scorer(str(folder))


def test_quantised_weights_name_the_package_that_reads_them(tmp_path, monkeypatch):
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
