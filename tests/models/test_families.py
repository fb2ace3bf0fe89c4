"""Families of models give the scores of their own forward pass or are refused in one sentence."""

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoTokenizer, pipeline

from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer, model_kind
from swapbias.models.classifier import CallableScorer
from swapbias.studies import Prompt
from tests import tiny
from tests.cli.test_cli import refused, swapbias

TEXTS = ["she is someone", "he is a person with schizophrenia", "they will"]
PROMPTS = [Prompt(text=text) for text in TEXTS]
LABELS = {
    "num_labels": 2,
    "id2label": {0: "NEGATIVE", 1: "POSITIVE"},
    "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
}
XLNET = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
CANINE = {
    **tiny.BERT,
    "max_position_embeddings": 512,
    "num_hash_buckets": 64,
    "num_hash_functions": 4,
}
PERCEIVER = {
    "d_model": 32, "d_latents": 32, "num_latents": 8, "num_blocks": 1, "num_self_attends_per_block": 2,
    "num_self_attention_heads": 4, "num_cross_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 1,
}
BART = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}


def build_model(name, head, vocabulary, **sizes):
    """A random model of a family, its weights large enough to tell texts apart."""
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}{head}")(
        getattr(transformers, f"{name}Config")(vocab_size=vocabulary, **sizes)
    )
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


def of_pipeline(folder):
    """P(POSITIVE) of each text by transformers' own pipeline."""
    rows = [pipeline("text-classification", model=str(folder))(text, top_k=None) for text in TEXTS]
    return [
        next(label_score["score"] for label_score in row if label_score["label"] == "POSITIVE")
        for row in rows
    ]


def scores(model, **options):
    return [result.score for result in load_scorer(model, **options).score(PROMPTS)]


def save_xlnet(folder):
    tokenizer = tiny._word_level(folder)
    return tiny._saved(
        folder,
        build_model("XLNet", "ForSequenceClassification", len(tokenizer), **XLNET, **LABELS),
        tokenizer,
    )


def save_canine(folder):
    config = transformers.CanineConfig(**CANINE, **LABELS)
    torch.manual_seed(0)
    model = transformers.CanineForSequenceClassification(config)
    return tiny._saved(folder, model, transformers.CanineTokenizer())


def save_perceiver(folder):
    tokenizer = tiny._wordpiece(folder)
    model = build_model(
        "Perceiver", "ForSequenceClassification", len(tokenizer), **PERCEIVER, **LABELS
    )
    return tiny._saved(folder, model, tokenizer)


@pytest.fixture
def few_characters(monkeypatch):
    """Canine's tokenizers list each of their characters: those up to its marks instead of all of Unicode."""
    module = "transformers.models.canine.tokenization_canine"
    monkeypatch.setattr(f"{module}.UNICODE_VOCAB_SIZE", 0xE010)


@pytest.mark.parametrize("save", [save_xlnet, save_canine, save_perceiver])
def test_unusual_classifier_families(save, tmp_path, few_characters):
    """A classifier of an unusual family has the score of its pipeline."""
    folder = save(tmp_path / "model")
    assert model_kind(str(folder)) == "classifier"
    assert scores(str(folder)) == pytest.approx(of_pipeline(folder), abs=1e-5)


MASKED = {
    "Perceiver": PERCEIVER,
    "Albert": {**tiny.BERT, "embedding_size": 16},
    "DebertaV2": tiny.BERT,
    "ModernBert": {**tiny.SIZES, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    "Electra": tiny.BERT,
    "XLM": {"emb_dim": 32, "n_layers": 1, "n_heads": 4},
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_families(name, tmp_path):
    """A masked model of any family gives the probabilities of its forward pass."""
    tokenizer = tiny._wordpiece(tmp_path)
    model = build_model(
        name, "WithLMHeadModel" if name == "XLM" else "ForMaskedLM", len(tokenizer), **MASKED[name]
    )
    scorer = load_scorer(model, tokenizer=tokenizer, name=name)
    assert scorer.kind == "masked"
    for text in ("<mask> is a person", "she is <mask>"):
        ids = tokenizer(text.replace("<mask>", "[MASK]"), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[
                0, : ids.shape[1]
            ]
        ((_, found),) = scorer.mask_probabilities([text])
        expected = logits[ids[0] == tokenizer.mask_token_id].softmax(-1)
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "save",
    [lambda place: tiny.save_unmarked(place, head="GPT2ForSequenceClassification"), None],
    ids=["classifier", "causal"],
)
def test_added_tokens(save, tmp_path):
    """A tokenizer with added tokens is accepted until a text has one that the model lacks."""
    folder = save(tmp_path) if save else tiny.save_causal(tmp_path / "m")
    options = LoadOptions(positive_label="LABEL_1" if save else None)
    before = scores(str(folder), options=options)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["[E1]", "[E2]"]})
    tokenizer.save_pretrained(folder)
    scorer = load_scorer(str(folder), options=options)
    assert [one.score for one in scorer.score(PROMPTS)] == pytest.approx(before, abs=1e-6)
    with pytest.raises(
        ValueError,
        match=r"gives the token '\[E1\]', and the model has embeddings of \d+ tokens only",
    ):
        scorer.score([Prompt(text="she is [E1] someone")])


def test_tokenizer_of_another_model(tmp_path):
    """A tokenizer of another model is refused in one sentence."""
    model = build_model("Bert", "ForMaskedLM", 20, **tiny.BERT)
    sentence = (
        r"'small' has embeddings of 20 tokens and its tokenizer knows \d+: they do not belong"
    )
    with pytest.raises(ValueError, match=sentence):
        load_scorer(model, tokenizer=tiny._wordpiece(tmp_path), name="small")


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("T5", T5), ("Bart", {**BART, "encoder_attention_heads": 2, "decoder_attention_heads": 2})],
    ids=["T5", "BART"],
)
def test_encoder_decoder(name, sizes, tmp_path):
    """An encoder-decoder model is named and refused."""
    tokenizer = tiny._byte_level(tmp_path)
    model = build_model(name, "ForConditionalGeneration", len(tokenizer), **sizes)
    folder = tiny._saved(tmp_path / "model", model, tokenizer)
    sentence = (
        rf"is an encoder-decoder model \({name}ForConditionalGeneration\), which is not supported"
    )
    for made, how in ((str(folder), {}), (model, {"tokenizer": tokenizer})):
        with pytest.raises(UsageError, match=sentence):
            load_scorer(made, **how)
    refused(
        swapbias("audit", folder, "--study", "gendered_stigma:rq1", "--out", tmp_path / "run"),
        2,
        "is an encoder-decoder",
    )


def grad(values, **options):
    return torch.tensor(values, requires_grad=True, **options)


@pytest.mark.parametrize(
    "returned",
    [
        grad([0.25, 0.75]),
        grad([0.25, 0.75], dtype=torch.bfloat16),
        [grad(0.25), grad(0.75)],
        (grad([0.75, 0.25]), grad([0.25, 0.75])),
        np.array([0.25, 0.75], np.float16),
        np.ma.masked_array([0.25, 0.75], mask=[False, False]),
        torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float16),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
)
def test_tensors_of_a_function(returned):
    """A function may return tensors with a gradient or of half precision."""
    scorer = CallableScorer(lambda texts: returned, model_id="m:f")
    assert [one.score for one in scorer.score(PROMPTS[:2])] == pytest.approx([0.25, 0.75], abs=1e-6)
    half = CallableScorer(
        lambda texts: np.ma.masked_array([0.25, 0.75], mask=[False, True]), model_id="m:f"
    )
    assert [one.score for one in half.score(PROMPTS[:2])] == pytest.approx(
        [0.25, np.nan], nan_ok=True
    )
    with pytest.raises(ValueError, match="returned Tensor, expected 2 probabilities"):
        CallableScorer(lambda texts: torch.empty(2, device="meta"), model_id="m:f").score(
            PROMPTS[:2]
        )
