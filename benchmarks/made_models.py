"""Models of real shapes with random weights, and a tokenizer of real size: no download, the same at every run."""

import copy
import json
from functools import cache
from typing import Any

from swapbias.studies.catalogue import config_rows, load_lexicon

VOCABULARY = 50_265
_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
_ENDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "vocab_size": VOCABULARY}
_BASE = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3_072,
}
_LARGE = {
    "hidden_size": 1_024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4_096,
}
_STUDIES = {
    "gendered_stigma": ("rq1", "rq2"),
    "social_distance": ("template1", "template2", "template3", "template4", "baseline"),
    "occupation_sentiment": ("sentences",),
}
# Random weights make every word about as likely as any other. Scaled so, the likeliest has about .1 as in trained
# models: else errors would not show, nor would there be a branch to follow or to give up.
_SHARP = 5.5


@cache
def tokenizer(family: str = "RobertaTokenizer") -> Any:
    """A byte-level one of 50,265 tokens that knows the words of the studies and is filled up with made ones.

    ``GPT2Tokenizer`` puts no token before or after a text.
    """
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    trained = Tokenizer(BPE())
    trained.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=8_000,
        special_tokens=_SPECIAL,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    words = [f" {word}" for word, _ in load_lexicon("gendered_stigma/rq1").entries()]
    texts = [text for study, configs in _STUDIES.items() for text in prompts(study, *configs)]
    trained.train_from_iterator([*texts, *words * 2], trainer)
    model = json.loads(trained.to_str())["model"]
    vocabulary = dict(model["vocab"])
    made = (f"Ġmade{number}" for number in range(VOCABULARY))
    while len(vocabulary) < VOCABULARY:
        vocabulary.setdefault(next(made), len(vocabulary))
    merges = [tuple(merge) for merge in model["merges"]]
    ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return getattr(transformers, family)(
        vocab=vocabulary, merges=merges, model_max_length=512, **ends
    )


def prompts(study: str, *configs: str, label: str | None = None) -> list[str]:
    """The different texts of a study's configs, of one label or of all."""
    rows = [row for config in configs for row in config_rows(study, config)]
    return list(dict.fromkeys(row["text"] for row in rows if label in (None, row["label"])))


@cache
def roberta(size: str) -> Any:
    """The ``base`` or ``large`` shape of RoBERTa with a masked head."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    sizes = {"base": _BASE, "large": _LARGE}[size]
    config = RobertaConfig(
        max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, **sizes, **_ENDS
    )
    return _made(RobertaForMaskedLM, config)


@cache
def longformer() -> Any:
    """The shape of Longformer and Clinical-Longformer: 12 layers, a window of 512 tokens."""
    from transformers import LongformerConfig, LongformerForMaskedLM

    config = LongformerConfig(
        max_position_embeddings=4_098,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        attention_window=512,
        **_BASE,
        **_ENDS,
    )
    return _made(LongformerForMaskedLM, config)


@cache
def distilbert() -> Any:
    """The shape of DistilBERT with a head for two labels."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    names = {0: "NEGATIVE", 1: "POSITIVE"}
    config = DistilBertConfig(
        vocab_size=VOCABULARY,
        pad_token_id=1,
        id2label=names,
        label2id={"NEGATIVE": 0, "POSITIVE": 1},
    )
    return _made(DistilBertForSequenceClassification, config)


@cache
def gpt2(size: str = "tiny") -> Any:
    """A GPT-2: ``base`` is the smallest published one, ``tiny`` 2 layers 32 wide; both with as large a vocabulary."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"tiny": {"n_embd": 32, "n_layer": 2, "n_head": 4}, "base": {}}[size]
    return _made(GPT2LMHeadModel, GPT2Config(n_positions=512, **sizes, **_ENDS))


def _made(family: Any, config: Any) -> Any:
    import torch

    torch.manual_seed(0)
    model = family(config).eval()
    if hasattr(getattr(model, "lm_head", None), "layer_norm"):
        model.lm_head.layer_norm.weight.data *= _SHARP
    return model


def masked_scorer(model: Any, *, dtype: str = "float32") -> Any:
    """Load it as an audit would load it; of a copy, for its weights are packed in place."""
    import torch

    from swapbias.models.masked import MaskedScorer

    read = copy.deepcopy(model).to(getattr(torch, dtype))
    return MaskedScorer(read, tokenizer(), model_id="RoBERTa of random weights", identity={})


def weights(model: Any) -> tuple[int, int]:
    """Weights that every token is multiplied with, and those of the head, for one token of each text alone."""
    import torch

    sizes = {
        name: one.weight.numel()
        for name, one in model.named_modules()
        if isinstance(one, torch.nn.Linear)
    }
    layers = sum(
        size for name, size in sizes.items() if ".layer." in name and not name.endswith("_global")
    )
    head = sum(
        size for name, size in sizes.items() if ".layer." not in name and "pooler" not in name
    )
    return layers, head
