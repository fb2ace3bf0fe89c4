"""Models in memory have the name of their files only while they compute as the files do, and a record of how."""

from types import MethodType

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

import swapbias
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer
from swapbias.models.tokens import tokenizer_doubt
from tests import tiny

pytestmark = pytest.mark.filterwarnings(
    "ignore:.gradient_checkpointing_enable. is deprecated:FutureWarning",
    "ignore:torch.ao.quantization is deprecated:DeprecationWarning",
    "ignore:torch.quantize_per_tensor:UserWarning",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def model(folder):
    return AutoModelForMaskedLM.from_pretrained(folder)


def let_gradients_through(model, tokenizer):
    model.enable_input_require_grads()


def give_states(model, tokenizer):
    model(**tokenizer("she", return_tensors="pt"), output_hidden_states=True)


def begin_training(model, tokenizer):
    model.gradient_checkpointing_enable()
    model.train()


def compile_calls(model, tokenizer):
    model.compile(backend="eager")


@pytest.mark.parametrize(
    "change", [let_gradients_through, give_states, begin_training, compile_calls]
)
def test_what_changes_no_number(folder, model, tokenizer, change):
    """Hooks of transformers and training leave a model its name, and the record of its weights and layers."""
    before = load_scorer(model, tokenizer=tokenizer)
    change(model, tokenizer)
    after = load_scorer(model, tokenizer=tokenizer)
    assert after.model_id == before.model_id == folder.name
    assert after.identity["sha256"] == before.identity["sha256"]
    assert after.identity["tokenizer_sha256"] == before.identity["tokenizer_sha256"]


def activation(model):
    model.bert.encoder.layer[0].intermediate.intermediate_act_fn = torch.nn.ReLU()


def epsilon(model):
    model.bert.embeddings.LayerNorm.eps = 0.5


def buffer(model):
    model.bert.embeddings.token_type_ids.fill_(1)


def call(model):
    layer = model.bert.encoder.layer[0].output
    layer.forward = MethodType(lambda self, states, inputs: inputs, layer)


def twice(model):
    model.bert.encoder.layer.append(model.bert.encoder.layer[1])


CHANGES = [activation, epsilon, buffer, call]


@pytest.mark.parametrize("change", [*CHANGES, twice])
def test_layers_that_compute_otherwise(folder, model, tokenizer, change):
    """A model with the weights of its files and other layers is not called as they are, and its record tells it."""
    before = load_scorer(model, tokenizer=tokenizer)
    change(model)
    after = load_scorer(model, tokenizer=tokenizer)
    assert (before.model_id, after.model_id) == (folder.name, f"{folder.name} (in memory)")
    assert before.identity["layers_sha256"] != after.identity["layers_sha256"]
    if change is not twice:
        assert before.identity["sha256"] == after.identity["sha256"]


def test_config_that_was_put_back(folder, tokenizer):
    """A config that says again what its files say does not hide layers that were made of another one."""
    model = AutoModelForMaskedLM.from_pretrained(folder, hidden_act="relu")
    model.config.hidden_act = AutoConfig.from_pretrained(folder).hidden_act
    assert load_scorer(model, tokenizer=tokenizer).model_id == f"{folder.name} (in memory)"


def test_weights_under_older_names(tmp_path, tokenizer):
    """A GPT-NeoX, whose files call the head otherwise, has the name of its files."""
    config = AutoConfig.for_model("gpt_neox", vocab_size=len(tokenizer), **tiny.SIZES)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "neox")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "neox")
    assert load_scorer(model, tokenizer=tokenizer).model_id == "neox"


def test_packed_layers(folder, model, tokenizer):
    """Layers that torch quantised in memory are read, recorded, and not called as the files are."""
    packed = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    scorer = load_scorer(packed, tokenizer=tokenizer)
    assert scorer.model_id == f"{folder.name} (in memory)"
    assert scorer.identity["sha256"] != load_scorer(model, tokenizer=tokenizer).identity["sha256"]


def test_record_of_a_tokenizer(folder, model, tokenizer):
    """The record of a tokenizer is the same of files and in memory, and another one of another reading."""
    recorded = load_scorer(str(folder), options=LoadOptions(device="cpu")).identity
    in_memory = load_scorer(model, tokenizer=tokenizer).identity
    assert recorded["tokenizer_sha256"] == in_memory["tokenizer_sha256"]
    settings = {"cased": {"do_lower_case": False}, "marks": {"sep_token": "[MASK]"}}
    others = {
        name: load_scorer(model, tokenizer=AutoTokenizer.from_pretrained(folder, **how)).identity[
            "tokenizer_sha256"
        ]
        for name, how in settings.items()
    }
    assert len({recorded["tokenizer_sha256"], *others.values()}) == 3
    padded = AutoTokenizer.from_pretrained(folder, pad_token="[SEP]")
    same = load_scorer(model, tokenizer=padded).identity["tokenizer_sha256"]
    assert same == recorded["tokenizer_sha256"]


def change_layers(model, tokenizer):
    activation(model)
    return tokenizer


def read_cased(model, tokenizer):
    return AutoTokenizer.from_pretrained(tokenizer.name_or_path, do_lower_case=False)


@pytest.mark.parametrize("change", [change_layers, read_cased])
def test_run_of_another_model(model, tokenizer, tmp_path, change):
    """A run is not gone on with by a model of the same weights and name that reads or computes otherwise."""
    where = {"out": tmp_path / "run", "name": "mine", "limit": 4, "progress": False}
    swapbias.audit(model, "gendered_stigma:rq1", tokenizer=tokenizer, **where)
    other = change(model, tokenizer)
    with pytest.raises(UsageError, match="needs another version of the model than there is now"):
        swapbias.audit(model, "gendered_stigma:rq1", tokenizer=other, **where)


def marked(**ids):
    """A tokenizer of 100 words whose special tokens have these ids."""
    names = {f"{name}_token": f"w{place}" for name, place in ids.items()}
    tokenizer = tiny.word_level([f"w{place}" for place in range(100)])
    tokenizer.add_special_tokens(names)
    return tokenizer


OTHER = "its config has other special tokens (bos 0, not 7, eos 2, not 8)"


@pytest.mark.parametrize(
    ("ids", "rows", "doubt"),
    [
        ({"bos": 0, "eos": 2, "pad": 1}, 100, None),
        ({"cls": 7, "sep": 8}, 100, OTHER),
        ({"cls": 7, "sep": 8, "pad": 1}, 100, None),  # one is the same
        ({"sep": 8}, 100, None),  # one alone may be another way to end a text
        ({"bos": 0, "eos": 2}, 104, None),
        ({"bos": 0, "eos": 2}, 110, "it knows 100 of 110 tokens"),
    ],
    ids=["same", "others", "one same", "one other", "rounded", "few"],
)
def test_tokenizer_in_doubt(ids, rows, doubt):
    """A tokenizer is in doubt where all special tokens differ from the config's, or it knows too few."""
    sizes = {**tiny.SIZES, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model("roberta", vocab_size=rows, **sizes)
    model = AutoModelForMaskedLM.from_config(config)
    assert tokenizer_doubt(model, marked(**ids)).get("tokenizer_doubt") == doubt
