"""Loading of weights: dtypes, devices, shards, adapters, remote code, and the record of each."""

import json
import logging
import math
import os
import shutil
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils.logging import is_progress_bar_enabled

from swapbias.errors import UsageError
from swapbias.models import (
    LoadOptions,
    devices,
    load_model,
    load_scorer,
    model_kind,
    model_names,
)
from swapbias.models.devices import pick_device
from swapbias.models.engine import layer_choice
from swapbias.studies import as_prompts, config_rows
from tests import tiny
from tests.cli.test_cli import refused, swapbias

PROMPTS = as_prompts(config_rows("gendered_stigma", "rq1"))[:40]
CPU = LoadOptions(device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("bert"))


def scores(scorer):
    return [result.parts["closed_list_mass"] for result in scorer.score(PROMPTS)]


def loaded(folder, **options):
    return load_scorer(str(folder), options=LoadOptions(**({"device": "cpu"} | options)))


@pytest.mark.parametrize(
    ("times", "chosen"), [(0.7, "float32"), (3.9, "float32"), (4.0, "bfloat16")]
)
def test_dtype_auto(folder, monkeypatch, caplog, times, chosen):
    """The dtype auto is bfloat16 where that is four times as fast."""
    monkeypatch.setattr(devices, "_speed_of_bfloat16", lambda device, width: times)
    with caplog.at_level("INFO", "swapbias"):
        scorer = loaded(folder, dtype="auto")
    assert f"dtype auto: {chosen}" in caplog.text
    scores(scorer)
    assert (scorer.identity["dtype"], str(scorer.model.dtype)) == (chosen, f"torch.{chosen}")
    assert loaded(folder).identity["dtype"] == "float32"  # whatever is faster


def test_speed_is_measured():
    """The speed of bfloat16 is measured on the device."""
    assert 0.001 < devices._speed_of_bfloat16("cpu", 64) < 1000


@pytest.mark.parametrize(
    ("ratios", "least"),
    [((5.0, 4.5, 6.0), 4.5), ((9.0, 1.5), 1.5), ((5.0, 5.0, 3.0), 3.0), ((0.8,), 0.8)],
    ids=["fast in all", "once by chance", "twice by chance", "slow"],
)
def test_fast_type_by_chance(ratios, least, monkeypatch):
    """On a busy machine a trial may err: bfloat16 must be four times as fast in three, and the least counts."""
    exact = iter(ratios)
    monkeypatch.setattr(
        devices,
        "_seconds_of_product",
        lambda device, dtype, width: next(exact) if dtype == torch.float32 else 1.0,
    )
    monkeypatch.setattr("swapbias.models.engine.linear_layers.speed_of_onednn", lambda *shape: 1.0)
    assert devices._speed_of_bfloat16.__wrapped__("cpu", 768) == least
    assert list(exact) == []


def test_type_is_tried_in_the_models_width(folder, monkeypatch):
    """The trial is in the model's own width, for small products gain nothing; a GPU is tried on a large one."""
    tried = []

    def speed(device, width):
        tried.append((device, width))
        return 5.0 if width > 100 else 1.0

    monkeypatch.setattr(devices, "_speed_of_bfloat16", speed)
    assert loaded(folder, dtype="auto").identity["dtype"] == "float32"
    for width in (768, 8_192):
        assert devices.chosen_dtype(LoadOptions(dtype="auto", device="cpu"), width) == "bfloat16"
    monkeypatch.setattr(devices, "pick_device", lambda device: torch.device("cuda"))
    devices.chosen_dtype(LoadOptions(dtype="auto"), 64)
    assert tried == [
        ("cpu", tiny.SIZES["hidden_size"]),
        ("cpu", 768),
        ("cpu", 1_024),
        ("cuda", 4_096),
    ]


def test_type_of_a_run_that_goes_on(folder, monkeypatch):
    """A run that was begun with dtype auto keeps its type where the trial comes out otherwise."""
    entries = [
        {"model_id": "wide", "dtype": "bfloat16"},
        {"model_id": f"{folder.name} (4bit)", "dtype": "float16"},
        {"model_id": folder.name, "dtype": "bfloat16"},
    ]
    monkeypatch.setattr(devices, "_speed_of_bfloat16", lambda device, width: 1.0)
    with layer_choice.as_pinned(entries):
        assert loaded(folder, dtype="auto").identity["dtype"] == "bfloat16"
        assert loaded(folder).identity["dtype"] == "float32"  # what is named is not changed
    with layer_choice.as_pinned(entries[:2]):
        assert layer_choice.pinned_dtype(folder.name) == "float16"
    assert layer_choice.pinned_dtype(folder.name) is None
    assert loaded(folder, dtype="auto").identity["dtype"] == "float32"


def test_causal_model_in_float16(tmp_path):
    """A causal model can be scored in float16."""
    place = tiny.save_causal(tmp_path / "gpt")
    exact = loaded(place).log_probabilities(["he is well", "she is well"])
    rounded = loaded(place, dtype="float16").log_probabilities(["he is well", "she is well"])
    assert rounded == pytest.approx(exact, rel=0.01)


def test_unknown_devices_and_types(folder):
    """Unknown devices and types are refused."""
    for wrong, sentence in (
        ({"device": "gpu"}, r"Unknown device 'gpu': expected auto, cpu, cuda, cuda:N, mps"),
        ({"device": "cuda:x"}, r"Unknown device 'cuda:x'"),
        ({"device_map": "auto"}, r"device cpu and device-map auto exclude each other"),
        ({"dtype": "int8"}, r"Unknown dtype 'int8': expected float32, bfloat16, float16"),
        ({"quantization": "3bit"}, r"Unknown quantization '3bit': expected 8bit, 4bit"),
        ({"attn_implementation": "owner/kernel"}, r"a kernel on the Hub, which is not run"),
    ):
        with pytest.raises(UsageError, match=sentence):
            loaded(folder, **wrong)
    for name in ("mps",) if torch.cuda.is_available() else ("mps", "cuda:7"):
        with pytest.raises(UsageError, match=rf"device {name}: torch finds none on this machine"):
            pick_device(name)
    for name in ("owner/name", "owner/name@main"):
        with pytest.raises(
            UsageError, match=r"code of owner/name, which is not pinned\..*owner/name@ and 40"
        ):
            load_scorer(name, kind="masked", options=LoadOptions(trust_remote_code=True))


@pytest.mark.parametrize("bits", ["8bit", "4bit"])
def test_quantized_weights(folder, bits):
    """Quantized weights give scores and are recorded."""
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes")
    scorer = loaded(folder, quantization=bits)
    assert scores(scorer) == pytest.approx(scores(loaded(folder)), abs=0.2)
    assert scorer.identity["quantization"] == bits


@pytest.mark.parametrize(
    "how",
    [{"device": "auto", "device_map": "cpu"}, {"attn_implementation": "eager"}],
    ids=["device map", "attention"],
)
def test_device_map_and_attention(folder, how):
    """A device map and a named attention give the same scores and are recorded."""
    scorer = loaded(folder, **how)
    assert scores(scorer) == pytest.approx(scores(loaded(folder)), abs=1e-5)
    for name, value in how.items():
        assert scorer.identity[name] == ("cpu" if name == "device" else value)
    assert scorer.model.config._attn_implementation == how.get("attn_implementation", "sdpa")


def test_shards_and_subfolder(folder, tmp_path):
    """Shards, tied weights and a subfolder are the same model."""
    shutil.copytree(folder, tmp_path / "m", ignore=shutil.ignore_patterns("*.safetensors"))
    whole = AutoModelForMaskedLM.from_pretrained(folder)
    assert whole.get_output_embeddings().weight is whole.get_input_embeddings().weight
    whole.save_pretrained(tmp_path / "m", max_shard_size="30KB")
    scorer = loaded(tmp_path / "m")
    assert len(scorer.identity["weights"]) > 1
    assert scores(scorer) == scores(loaded(folder))
    shutil.copytree(folder, tmp_path / "m" / "inner")
    scorer = loaded(tmp_path / "m", subfolder="inner")
    assert scores(scorer) == scores(loaded(folder))
    assert scorer.identity["subfolder"] == "inner"
    assert scorer.identity["sha256"] == loaded(folder).identity["sha256"]


@pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
)  # of peft itself
def test_adapter_is_merged(folder, tmp_path):
    """A LoRA adapter with random weights gives the scores of the two merged by hand."""
    peft = pytest.importorskip("peft", reason="needs peft: pip install peft")
    config = peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = peft.get_peft_model(AutoModelForMaskedLM.from_pretrained(folder), config)
    place = tmp_path / "lora"
    merged = tmp_path / "merged"
    model.save_pretrained(place)
    shutil.copytree(folder, merged)
    model.merge_and_unload().save_pretrained(merged)
    scorer = loaded(folder, adapter=str(place))
    assert scores(scorer) == pytest.approx(scores(loaded(merged)), abs=1e-6)
    assert scores(scorer) != pytest.approx(scores(loaded(folder)), abs=1e-4)
    assert scorer.identity["adapter"]["name"] == "lora"
    assert len(scorer.identity["adapter"]["sha256"]) == 64
    assert scorer.model_id == f"{folder.name} + lora"
    assert set(scorer.identity["adapter"]["weights"]) == {"adapter_model.safetensors"}
    # The adapter's own folder in place of a model is the adapter on the base that its config names.
    assert model_kind(str(place)) == "masked"
    alone = loaded(place)
    assert (alone.model_id, scores(alone)) == (scorer.model_id, scores(scorer))
    assert alone.identity == scorer.identity
    inside = get_inside(folder, place, peft)
    assert inside.model_id == f"{folder.name} + lora adapter"
    shutil.copy(folder / "model.safetensors", place)
    with pytest.raises(ValueError, match="lora contains a whole model and an adapter"):
        loaded(place)
    (place / "model.safetensors").unlink()
    config = json.loads((place / "adapter_config.json").read_text())
    (place / "adapter_config.json").write_text(
        json.dumps(config | {"base_model_name_or_path": "/gone/base"})
    )
    with pytest.raises(
        ValueError, match=r"lora is an adapter of '/gone/base', .* Name its model, and it with -M"
    ):
        model_kind(str(place))


@pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning",
    "ignore:Found missing adapter keys:UserWarning",
)  # of peft itself
@pytest.mark.parametrize(
    "change", ["other names", "half", "more layers", "no key", "no file", "other rank"]
)
def test_adapter_that_does_not_fit(folder, tmp_path, change):
    """An adapter of which a weight is missing or has no place is refused: random ones would stand for it."""
    peft = pytest.importorskip("peft", reason="needs peft: pip install peft")
    config = peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False)
    place = tmp_path / "lora"
    peft.get_peft_model(AutoModelForMaskedLM.from_pretrained(folder), config).save_pretrained(place)
    file = place / "adapter_model.safetensors"
    weights = load_file(file)
    fault = "'lora' does not fit the model: .* Name the model that it was trained on"
    if change == "other names":
        weights = {name.replace(".layer.", ".block."): part for name, part in weights.items()}
    elif change == "half":
        weights = {name: part for name, part in weights.items() if "lora_A" in name}
    elif change == "more layers":
        more = {name.replace(".layer.0.", ".layer.9."): part for name, part in weights.items()}
        weights = more | weights
    elif change == "no file":
        weights = {}
        fault = r"'lora' has no adapter_model\.safetensors\. Save the adapter again"
    elif change == "other rank":
        weights = {name: torch.cat([part, part]) for name, part in weights.items()}
        fault = r"its weights have other sizes than the model\. Name the model that it was"
    else:
        (place / "adapter_config.json").write_text("{}")
        fault = "its adapter_config.json has no peft_type. Save the adapter again"
    save_file({name: part.clone() for name, part in weights.items()}, file)
    if not weights:
        file.unlink()
    with pytest.raises(ValueError, match=fault):
        loaded(folder, adapter=str(place))


CHANGES = {
    "fewer layers": (
        {"num_hidden_layers": 1},
        r"has 1 layers by its config and weights of more, as bert\.encoder\.layer\.1\..* Correct its config",
    ),
    "other sizes": (
        {"vocab_size": 9_999},
        r"its weights have other sizes than its config\.json says",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_config_of_other_weights(folder, tmp_path, change):
    """A config with fewer layers than the files, or of other sizes, is refused: part of the weights is not read."""
    values, fault = CHANGES[change]
    place = shutil.copytree(folder, tmp_path / "m")
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | values))
    with pytest.raises(ValueError, match=fault):
        loaded(place)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_nan_that_attention_hides(folder, tmp_path, dtype):
    """A model that gives numbers although a weight is NaN, or infinite in its dtype, is refused."""
    place = shutil.copytree(folder, tmp_path / "m")
    weights = load_file(place / "model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    weights[name][0, 0] = math.nan
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    fault = rf"'m' gives numbers although 1 of its weights are NaN or infinite, first {name}\. Take"
    with pytest.raises(ValueError, match=fault):
        loaded(place, dtype=dtype)
    model = AutoModelForMaskedLM.from_pretrained(place)
    with pytest.raises(ValueError, match=fault):
        load_scorer(model, tokenizer=AutoTokenizer.from_pretrained(place))


def get_inside(folder, place, peft):
    """A scorer of a model in memory into which an adapter was loaded."""
    model = AutoModelForMaskedLM.from_pretrained(folder)
    inside = peft.PeftModel.from_pretrained(model, place).get_base_model()
    return load_scorer(inside, tokenizer=AutoTokenizer.from_pretrained(folder))


NAMES = [
    ({}, "lab/base"),
    ({"adapter": "me/lora@v2"}, "lab/base + me/lora"),
    ({"quantization": "4bit"}, "lab/base (4bit)"),
    ({"adapter": "me/lora", "quantization": "8bit"}, "lab/base + me/lora (8bit)"),
    ({"subfolder": "small"}, "lab/base (small)"),
    (
        {"dtype": "bfloat16", "device": "cpu", "batch_size": 8, "positive_label": "LABEL_1"},
        "lab/base",
    ),
]


@pytest.mark.parametrize(("how", "name"), NAMES, ids=[name for _, name in NAMES])
def test_name_of_a_model(how, name):
    """The name of a model holds all that is loaded of it."""
    assert model_names.planned_name("lab/base@main", LoadOptions(**how)) == name


@pytest.mark.parametrize("model", ["vader", "tests.hub.own_runs:scored", "x.skops"])
def test_model_without_weights(model):
    """A model without weights refuses settings of weights."""
    for how in ({"quantization": "4bit"}, {"adapter": "me/lora"}, {"subfolder": "x"}):
        with pytest.raises(
            UsageError,
            match=r"-M \w+ changes how weights are read, and .* has none that are loaded",
        ):
            model_kind(model, load=LoadOptions(**how))


@pytest.mark.parametrize(
    ("how", "package"),
    [({"quantization": "4bit"}, "bitsandbytes"), ({"adapter": "somewhere"}, "peft")],
    ids=["quantization", "adapter"],
)
def test_missing_package(folder, monkeypatch, how, package):
    """A setting that needs another package names it."""
    monkeypatch.setattr("swapbias.models.loading.find_spec", lambda name: None)
    with pytest.raises(
        UsageError, match=rf"needs the package {package}\. Install it: pip install {package}\.$"
    ):
        loaded(folder, **how)


CODE = """
from pathlib import Path
from transformers import BertConfig, BertForMaskedLM
Path({marker!r}).touch()
class Config(BertConfig):
    model_type = "tiny_own"
class ForMaskedLM(BertForMaskedLM):
    config_class = Config
"""


def test_code_of_a_model(folder, tmp_path, monkeypatch):
    """Code of a model runs only where it is allowed, and by command with trust alone."""
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    place = shutil.copytree(folder, tmp_path / "own")
    marker = tmp_path / "marker"
    (place / "own.py").write_text(CODE.format(marker=str(marker)))
    config = json.loads((place / "config.json").read_text())
    classes = {"AutoConfig": "own.Config", "AutoModelForMaskedLM": "own.ForMaskedLM"}
    config |= {"model_type": "tiny_own", "architectures": ["ForMaskedLM"], "auto_map": classes}
    (place / "config.json").write_text(json.dumps(config))
    refused(swapbias("audit", place, "-M", "trust-remote-code=true", "--dry-run"), 2, "add --trust")
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        loaded(place)
    assert not marker.exists()
    scorer = loaded(place, trust_remote_code=True)
    assert marker.exists()
    assert scores(scorer) == pytest.approx(scores(loaded(folder)), abs=1e-6)
    assert scorer.identity["trust_remote_code"] is True


def test_loading_leaves_the_process(folder):
    """Loading leaves the state of the process as it was."""

    def state():
        mask = os.umask(0)
        os.umask(mask)
        level = logging.getLogger("transformers").level
        return mask, torch.get_num_threads(), level, is_progress_bar_enabled(), dict(os.environ)

    before = state()
    load_model(str(folder), AutoModelForMaskedLM, CPU)
    assert state() == before


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (None, "bert"),
        ({"load_in_4bit": True}, "bert (4bit)"),
        ({"quant_method": "gptq"}, "bert (gptq)"),
    ],
    ids=["whole", "4bit", "gptq"],
)
def test_quantized_model_in_memory(folder, config, name):
    """The name of a model in memory states that it is quantized."""
    model = AutoModelForMaskedLM.from_pretrained(folder)
    if config:
        model.config.quantization_config = config
    scorer = load_scorer(model, tokenizer=AutoTokenizer.from_pretrained(folder))
    assert scorer.model_id == name.replace("bert", folder.name)


def test_name_of_changed_weights(folder, tmp_path):
    """A model in memory has the name of its files only while it has their weights."""
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def name(model, **options):
        return load_scorer(model, tokenizer=tokenizer, **options).model_id

    model = AutoModelForMaskedLM.from_pretrained(folder)
    assert name(model) == folder.name
    assert name(model.to(torch.bfloat16)) == folder.name
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.weight[0] += 1
    assert name(model) == f"{folder.name} (in memory)"
    assert name(model, name="mine") == "mine"
    model.save_pretrained(tmp_path / "m")
    assert name(AutoModelForMaskedLM.from_pretrained(tmp_path / "m")) == "m"
    assert name(AutoModelForMaskedLM.from_config(model.config)) == f"{folder.name} (in memory)"
    body = tmp_path / "body"
    model.bert.save_pretrained(body)
    assert name(AutoModelForMaskedLM.from_pretrained(body)) == "body (in memory)"  # a random head
    model.config.name_or_path = "nobody/nothing"
    assert name(model) == "nobody/nothing (in memory)"


def drop_layer(model):
    model.bert.encoder.layer = model.bert.encoder.layer[:1]


def change_activation(model):
    model.config.hidden_act = "relu"


def add_hook(model):
    model.bert.encoder.layer[0].register_forward_hook(lambda module, inputs, output: output)


@pytest.mark.parametrize("change", [drop_layer, change_activation, add_hook])
def test_name_of_a_changed_model(folder, change):
    """A model with the weights of its files has their name only where it computes with them as they do."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager")
    model.config.hidden_dropout_prob = 0.5  # of training alone
    assert load_scorer(model, tokenizer=tokenizer).model_id == folder.name
    change(model)
    assert load_scorer(model, tokenizer=tokenizer).model_id == f"{folder.name} (in memory)"


def test_name_with_another_tokenizer(folder, tmp_path):
    """A model in memory has the name of its files only where it is read with their tokenizer."""
    model = AutoModelForMaskedLM.from_pretrained(folder)
    cased = AutoTokenizer.from_pretrained(folder, do_lower_case=False)
    larger = AutoTokenizer.from_pretrained(folder)
    larger.add_tokens(["zebra"])
    marked = AutoTokenizer.from_pretrained(folder, mask_token="she")
    for tokenizer in (cased, larger, marked):
        assert load_scorer(model, tokenizer=tokenizer).model_id == f"{folder.name} (in memory)"
    padded = AutoTokenizer.from_pretrained(folder, pad_token="[SEP]")
    assert load_scorer(model, tokenizer=padded).model_id == folder.name
    for count in (5, 900):
        other = tiny.word_level(["[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(count - 4))])
        with pytest.raises(ValueError, match=f"its tokenizer knows {count}: they do not belong"):
            load_scorer(model, tokenizer=other)
    model.save_pretrained(tmp_path / "m")
    saved = AutoModelForMaskedLM.from_pretrained(tmp_path / "m")
    assert load_scorer(saved, tokenizer=larger).model_id == "m"  # which has no tokenizer of its own


@pytest.mark.parametrize("layout", ["shards", "older", "pickle"])
def test_name_by_other_files(folder, tmp_path, layout):
    """Weights are compared with shards, with pickles and with files that call them by older names."""
    model = AutoModelForMaskedLM.from_pretrained(folder)
    place = tmp_path / "m"
    model.save_pretrained(place, max_shard_size="30KB" if layout == "shards" else "1GB")
    if layout != "shards":
        file = place / "model.safetensors"
        weights = load_file(file)
        file.unlink()
        older = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for ending, other in older.items() if layout == "older" else ():
            weights = {name.replace(ending, other): part for name, part in weights.items()}
        if layout == "older":
            save_file(weights, file, metadata={"format": "pt"})
        else:
            torch.save(weights, place / "pytorch_model.bin")
    model = AutoModelForMaskedLM.from_pretrained(place)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert load_scorer(model, tokenizer=tokenizer).model_id == "m"
