"""Adapters are read whole and as they were trained, or refused in a sentence that says what to do."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer
from swapbias.studies import as_prompts, config_rows
from tests import tiny

peft = pytest.importorskip("peft", reason="needs peft: pip install peft")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning",
    "ignore:Model has `tie_word_embeddings=True`:UserWarning",
    "ignore:Model with `tie_word_embeddings=True`:UserWarning",
    "ignore:Input and output embeddings are no longer tied:UserWarning",
    "ignore:Setting `save_embedding_layers` to `True`:UserWarning",
    "ignore:Careful, disabling adapter layers with bias:UserWarning",
)  # of peft itself

PROMPTS = as_prompts(config_rows("gendered_stigma", "rq1"))[:10]
WEIGHTS = "adapter_model.safetensors"
TARGETS = ["query", "value"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("bert"))


def loaded(folder, **options):
    return load_scorer(str(folder), options=LoadOptions(device="cpu", **options))


def scores(scorer):
    return [result.score for result in scorer.score(PROMPTS)]


def adapted(folder, config, auto_class=AutoModelForMaskedLM):
    """A model with an adapter of which every weight differs from the model's."""
    model = peft.get_peft_model(auto_class.from_pretrained(folder), config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight += 0.3 * torch.randn(weight.shape, generator=generator)
    return model


def saved(folder, place, config, **how):
    adapted(folder, config, **how).save_pretrained(place)
    return place


CONFIGS = {
    "biases": {"bias": "all"},
    "biases of its layers": {"bias": "lora_only"},
    "tied embeddings": {"target_modules": [*TARGETS, "word_embeddings"]},
    "a module": {"modules_to_save": ["cls"]},
    "tokens": {"trainable_token_indices": [10, 11]},
    "magnitudes": {"use_dora": True},
}


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS)
def test_adapter_is_the_trained_model(settings, folder, tmp_path):
    """An adapter from its files gives the scores of the model that was trained, also on weights in two places."""
    model = adapted(folder, peft.LoraConfig(r=2, **{"target_modules": TARGETS} | settings))
    model.save_pretrained(tmp_path / "lora")
    expected = scores(load_scorer(model, tokenizer=AutoTokenizer.from_pretrained(folder)))
    assert scores(loaded(folder, adapter=str(tmp_path / "lora"))) == pytest.approx(
        expected, abs=1e-4
    )
    assert scores(loaded(folder)) != pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize(("bias", "count"), [("all", 21), ("lora_only", 4)])
@pytest.mark.parametrize("is_one", [True, False], ids=["one", "each"])
def test_adapter_without_its_biases(bias, count, is_one, folder, tmp_path):
    """An adapter without biases that were trained with it is refused: those of the model would stand in for them."""
    place = saved(
        folder, tmp_path / "lora", peft.LoraConfig(r=2, target_modules=TARGETS, bias=bias)
    )
    weights = load_file(place / WEIGHTS)
    biases = [key for key in weights if key.endswith("attention.self.query.bias")]
    biases = biases or [
        key for key in weights if key.endswith("attention.self.query.base_layer.bias")
    ]
    if is_one:
        count = 1
        weights.pop(biases[0])
    else:
        weights = {key: part for key, part in weights.items() if "lora_" in key}
    save_file(weights, place / WEIGHTS)
    fault = rf"'lora' lacks {count} biases that its config says were trained with it, first base_"
    with pytest.raises(ValueError, match=fault):
        loaded(folder, adapter=str(place))


def test_adapter_outside_of_layers(tmp_path):
    """An adapter that puts vectors before a text is refused by its kind, not as one of another model."""
    base = tiny.save_causal(tmp_path / "base")
    config = peft.PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM")
    place = saved(base, tmp_path / "prompt", config, auto_class=AutoModelForCausalLM)
    sentence = (
        r"prompt is an adapter that puts vectors before a text \(PROMPT_TUNING\), which are not"
    )
    with pytest.raises(UsageError, match=sentence):
        loaded(place)


def test_adapter_of_an_adapter(folder, tmp_path):
    """An adapter that was trained on an adapter is refused, alone or on the model of the two."""
    first = saved(folder, tmp_path / "first", peft.LoraConfig(r=2, target_modules=TARGETS))
    second = shutil.copytree(first, tmp_path / "second")
    config = json.loads((second / "adapter_config.json").read_text())
    (second / "adapter_config.json").write_text(
        json.dumps(config | {"base_model_name_or_path": str(first)})
    )
    for how in ((second, {}), (folder, {"adapter": str(second)})):
        with pytest.raises(
            UsageError, match="second is an adapter of first, which is an adapter its"
        ):
            loaded(how[0], **how[1])


@pytest.mark.parametrize("settings", [{}, *CONFIGS.values()], ids=["plain", *CONFIGS])
def test_name_of_an_adapted_model(settings, folder):
    """A model with an adapter has the name of its files only while its base has their weights."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = adapted(folder, peft.LoraConfig(r=2, **{"target_modules": TARGETS} | settings))

    def name():
        return load_scorer(model, tokenizer=tokenizer).model_id

    assert name() == f"{folder.name} + lora adapter"
    with model.disable_adapter():  # which leaves biases as they were trained
        assert name() == folder.name + (" (in memory)" if "bias" in settings else "")
    with torch.no_grad():
        query = model.get_base_model().bert.encoder.layer[0].attention.self.query
        query.base_layer.weight += 1
    assert name() == f"{folder.name} + lora adapter (in memory)"
    with model.disable_adapter():
        assert name() == f"{folder.name} (in memory)"


def disable_by_layers(model):
    model.base_model.disable_adapter_layers()


def activate_none(model):
    model.base_model.set_adapter([])


def activate_formal(model):
    model.set_adapter("formal")


def activate_both(model):
    model.base_model.set_adapter(["default", "formal"])


def activate_in_a_layer(model):
    model.get_base_model().bert.encoder.layer[0].attention.self.query.set_adapter("formal")


def disable_in_a_layer(model):
    model.get_base_model().bert.encoder.layer[0].attention.self.query.enable_adapters(False)


STATES = [
    (disable_by_layers, ""),
    (activate_none, ""),
    (activate_formal, " + lora adapter formal"),
    (activate_both, " + lora adapter default formal"),
    (activate_in_a_layer, " + lora adapter formal default (in memory)"),
    (disable_in_a_layer, " + lora adapter (in memory)"),
]


@pytest.mark.parametrize(("change", "ending"), STATES)
def test_name_tells_the_active_adapters(change, ending, folder):
    """A name tells which adapters the layers add now, however they were chosen, and its record too."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = peft.LoraConfig(r=2, target_modules=TARGETS, init_lora_weights=False)
    model = adapted(folder, config)
    model.add_adapter("formal", config)
    before = load_scorer(model, tokenizer=tokenizer)
    change(model)
    after = load_scorer(model, tokenizer=tokenizer)
    assert after.model_id == f"{folder.name}{ending}"
    assert before.identity["layers_sha256"] != after.identity["layers_sha256"]
    plain = scores(load_scorer(AutoModelForMaskedLM.from_pretrained(folder), tokenizer=tokenizer))
    assert (scores(after) == pytest.approx(plain, abs=1e-4)) == (not ending)


def test_adapter_of_transformers(folder):
    """An adapter that transformers itself put into the layers is named, and not where it is disabled."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder)
    model.add_adapter(peft.LoraConfig(r=2, target_modules=TARGETS, init_lora_weights=False))
    assert load_scorer(model, tokenizer=tokenizer).model_id == f"{folder.name} + lora adapter"
    model.disable_adapters()
    assert load_scorer(model, tokenizer=tokenizer).model_id == folder.name


def test_adapter_merged_and_disabled(folder):
    """A model is refused whose weights would change as it answers, and stays as it is."""
    model = adapted(folder, peft.LoraConfig(r=2, target_modules=TARGETS))
    model.merge_adapter()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert load_scorer(model, tokenizer=tokenizer).model_id.endswith("lora adapter (in memory)")
    with (
        model.disable_adapter(),
        pytest.raises(UsageError, match=r"merged into its weights and disabled.*unmerge_adapter"),
    ):
        load_scorer(model, tokenizer=tokenizer)


def test_several_adapters_in_a_folder(folder, tmp_path):
    """Of several adapters that were saved together one is read: that of the folder that is named."""
    config = peft.LoraConfig(r=2, target_modules=TARGETS, init_lora_weights=False)
    model = adapted(folder, config)
    torch.manual_seed(2)
    model.add_adapter("formal", config)
    model.save_pretrained(tmp_path / "lora")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for name, place in (("default", "lora"), ("formal", "lora/formal")):
        model.set_adapter(name)
        expected = scores(load_scorer(model, tokenizer=tokenizer))
        assert scores(loaded(tmp_path / place)) == pytest.approx(expected, abs=1e-4)
    (tmp_path / "lora" / WEIGHTS).unlink()
    (tmp_path / "lora" / "adapter_config.json").unlink()
    sentence = r"lora has adapters in folders of their own \(formal\)\. Name one: .*/lora/formal\.$"
    for how in ((tmp_path / "lora", {}), (folder, {"adapter": str(tmp_path / "lora")})):
        with pytest.raises(UsageError, match=sentence):
            loaded(how[0], **how[1])


TOKENS = ["zebra", "quagga"]
ADDED = {
    "embeddings": {},
    "modules": {"modules_to_save": ["word_embeddings", "decoder"]},
    "indices": {"trainable_token_indices": [-2, -1]},
}


def with_tokens(folder, settings):
    """A model with an adapter and two more tokens, and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(TOKENS)
    model = AutoModelForMaskedLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    if indices := settings.get("trainable_token_indices"):
        settings = {"trainable_token_indices": [len(tokenizer) + index for index in indices]}
    config = peft.LoraConfig(r=2, target_modules=TARGETS, init_lora_weights=False, **settings)
    return peft.get_peft_model(model, config), tokenizer


@pytest.mark.parametrize("settings", ADDED.values(), ids=ADDED)
def test_adapter_with_tokens_of_its_own(settings, folder, tmp_path):
    """An adapter that was trained with more tokens is read with them, and with the tokenizer saved beside it."""
    model, tokenizer = with_tokens(folder, settings)
    place = tmp_path / "lora"
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    prompts = as_prompts([{**prompt.row(), "text": f"{prompt.text} zebra"} for prompt in PROMPTS])
    read = loaded(folder, adapter=str(place))
    expected = load_scorer(model, tokenizer=tokenizer)
    assert [result.score for result in read.score(prompts)] == pytest.approx(
        [result.score for result in expected.score(prompts)], abs=1e-4
    )
    assert read.identity["tokenizer_sha256"] == expected.identity["tokenizer_sha256"]
    assert read.identity["adapter"]["own_tokenizer"] is True
    assert scores(loaded(place)) == pytest.approx(scores(read))


def test_adapter_with_a_template(folder, tmp_path):
    """A chat template that was saved with an adapter is read; a copy of the model's tokenizer changes nothing."""
    place = saved(folder, tmp_path / "lora", peft.LoraConfig(r=2, target_modules=TARGETS))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    alone = loaded(folder, adapter=str(place))
    assert "own_tokenizer" not in alone.identity["adapter"]
    tokenizer.save_pretrained(place)
    copied = loaded(folder, adapter=str(place))
    assert copied.identity["adapter"]["own_tokenizer"] is False
    assert copied.identity["tokenizer_sha256"] == alone.identity["tokenizer_sha256"]
    tokenizer.chat_template = tiny.CHAT_TEMPLATE
    tokenizer.save_pretrained(place)
    templated = loaded(folder, adapter=str(place))
    assert templated.tokenizer.chat_template == tiny.CHAT_TEMPLATE
    assert templated.identity["adapter"]["own_tokenizer"] is True


def test_adapter_with_a_wrong_tokenizer(folder, tmp_path):
    """A tokenizer beside an adapter that is broken, or of another model, is refused by the name of the adapter."""
    place = saved(folder, tmp_path / "lora", peft.LoraConfig(r=2, target_modules=TARGETS))
    tiny.word_level([f"w{number}" for number in range(900)]).save_pretrained(place)
    fault = "'lora' has embeddings of 640 tokens and its tokenizer knows 900"
    with pytest.raises(ValueError, match=fault):
        loaded(folder, adapter=str(place))
    (place / "tokenizer.json").write_text("{}")
    fault = r"The tokenizer of adapter 'lora' cannot be read: .* Save it with the adapter again\.$"
    with pytest.raises(ValueError, match=fault):
        loaded(folder, adapter=str(place))


def test_adapter_without_rows_of_the_head(tmp_path):
    """An adapter with embeddings of more tokens than it predicts is refused: random rows would stand for them."""
    base = tiny.save_causal(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(base, tie_word_embeddings=False)
    model.save_pretrained(base)
    model.resize_token_embeddings(model.config.vocab_size + 2, mean_resizing=False)
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    place = tmp_path / "lora"
    peft.get_peft_model(model, config).save_pretrained(place)
    weights = load_file(place / WEIGHTS)
    assert any("lm_head" in key for key in weights)
    loaded(place)
    save_file({key: part for key, part in weights.items() if "lm_head" not in key}, place / WEIGHTS)
    with pytest.raises(
        ValueError, match=r"'lora' cannot be loaded: it has embeddings of \d+ tokens, and"
    ):
        loaded(place)
