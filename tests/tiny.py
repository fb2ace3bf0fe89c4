"""Tiny random models of the families that the masked scorer supports, built from the package's
words."""

import json
from functools import cache, partial

from swapbias.studies.catalogue import config_rows, load_lexicon

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
SPREAD = {
    "initializer_range": 0.6
}  # a wide spread of logits, so that some words pass the threshold


CHAT_TEMPLATE = "{{ bos_token }}{% for turn in messages %}{{ turn.content }}\n{% endfor %}"


@cache
def texts():
    return tuple(dict.fromkeys(row["text"] for row in config_rows("gendered_stigma", "rq1")))


@cache
def words():
    lexicon = [word for word, _ in load_lexicon("gendered_stigma/rq1").entries()]
    in_texts = {word for text in texts() for word in text.replace("<mask>", " ").split()}
    return tuple(sorted(in_texts | set(lexicon)))


def save(family, folder):
    """Save a tiny random model of a family and its tokenizer into a folder."""
    import torch

    torch.manual_seed(0)
    tokenizer = FAMILIES[family][0](folder)
    codes = folder / "bpe.codes"
    merges = codes.read_text() if codes.exists() else ""
    _saved(folder, MODELS[family](len(tokenizer)), tokenizer)
    if (
        merges
    ):  # saving drops the frequency column that reading expects: put the file back as it was
        codes.write_text(merges)
    return folder


def _saved(folder, *parts):
    for part in parts:
        part.save_pretrained(folder)
    return folder


def _wordpiece(folder):
    from transformers import BertTokenizer

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##she", "##s", "'", "."]
    vocabulary = {
        piece: index
        for index, piece in enumerate(dict.fromkeys([*pieces, *map(str.lower, words())]))
    }
    return BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=64)


def _pairs(split, lines, *, ends=None, **options):
    """The model of a tokenizer of byte pairs, trained on some lines."""
    from tokenizers import Tokenizer, models, trainers

    trained = Tokenizer(models.BPE(**(ends or {})))
    trained.pre_tokenizer = split
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False, **(ends or {}), **options)
    trained.train_from_iterator(lines, trainer)
    return json.loads(trained.to_str())["model"]


@cache
def _byte_pairs():
    """The vocabulary and the merges of byte pairs, trained once."""
    from tokenizers.pre_tokenizers import ByteLevel

    lines = [*texts(), *[f"{word} {word}" for word in words()] * 3]
    options = {"special_tokens": SPECIAL, "initial_alphabet": ByteLevel.alphabet()}
    model = _pairs(ByteLevel(add_prefix_space=False), lines, **options)
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def _byte_level(folder):
    from transformers import RobertaTokenizer

    vocabulary, merges = _byte_pairs()
    return RobertaTokenizer(vocab=dict(vocabulary), merges=[*merges], model_max_length=64)


def _bertweet(folder):
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import BertweetTokenizer

    model = _pairs(WhitespaceSplit(), [*texts(), *words() * 3], ends={"end_of_word_suffix": "</w>"})
    pieces = [piece[:-4] if piece.endswith("</w>") else f"{piece}@@" for piece in model["vocab"]]
    (folder / "vocab.txt").write_text("".join(f"{piece} 1\n" for piece in dict.fromkeys(pieces)))
    (folder / "bpe.codes").write_text(
        "".join(f"{' '.join(merge)} 1\n" for merge in model["merges"])
    )
    return BertweetTokenizer(
        str(folder / "vocab.txt"), str(folder / "bpe.codes"), model_max_length=64
    )


def _word_level(folder):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    split = BertPreTokenizer()
    known_pieces = {piece for word in words() for piece, _ in split.pre_tokenize_str(word)}
    pieces = ["<unk>", "<sep>", "<cls>", "<mask>", "<pad>", *sorted(known_pieces)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = split
    ends = [(name, vocabulary[name]) for name in ("<sep>", "<cls>")]
    tokenizer.post_processor = TemplateProcessing(single="$A <sep> <cls>", special_tokens=ends)
    names = ("unk_token", "sep_token", "cls_token", "mask_token", "pad_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **dict(zip(names, pieces, strict=False))
    )


BERT = {"max_position_embeddings": 64, **SIZES}
ROBERTA = {
    "max_position_embeddings": 66,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    **SIZES,
}
DISTILBERT = {
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 64,
}
FAMILIES = {  # tokenizer, names of the config and of the head, sizes
    "bert": (_wordpiece, "Bert", "ForMaskedLM", BERT),
    "distilbert": (_wordpiece, "DistilBert", "ForMaskedLM", DISTILBERT),
    "roberta": (_byte_level, "Roberta", "ForMaskedLM", ROBERTA),
    "longformer": (_byte_level, "Longformer", "ForMaskedLM", {**ROBERTA, "attention_window": 16}),
    "bertweet": (_bertweet, "Roberta", "ForMaskedLM", ROBERTA),
    "xlnet": (
        _word_level,
        "XLNet",
        "LMHeadModel",
        {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
    ),
}


def word_level(words):
    """A tokenizer that knows these words, each its place, and calls the first one unknown."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(
        WordLevel({word: index for index, word in enumerate(words)}, unk_token=words[0])
    )
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=words[0])


def _model(family, size):
    import transformers

    _, name, head, sizes = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(vocab_size=size, **sizes, **SPREAD)
    return getattr(transformers, f"{name}{head}")(config)


MODELS = {family: partial(_model, family) for family in FAMILIES}


def save_classifier(folder, labels, **settings):
    """A tiny random text classifier with these labels; ``settings`` of its config, such as ``problem_type``."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    tokenizer = _wordpiece(folder)
    label_maps = {
        "id2label": dict(enumerate(labels)),
        "label2id": {name: index for index, name in enumerate(labels)},
    }
    config = BertConfig(vocab_size=len(tokenizer), **label_maps, **BERT, **SPREAD, **settings)
    return _saved(folder, BertForSequenceClassification(config), tokenizer)


def save_unmarked(folder, *, head="GPT2LMHeadModel", positions=64, **special_tokens):
    """A tiny random GPT-2 whose tokenizer marks no beginning; ``named`` are its special tokens (``eos_token``)."""
    import torch
    import transformers

    torch.manual_seed(0)
    backend = _byte_level(folder).backend_tokenizer
    backend.post_processor = None
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=positions, **special_tokens
    )
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = _gpt2(tokenizer, positions, num_labels=2, **ends)
    return _saved(folder, getattr(transformers, head)(config), tokenizer)


def save_causal(folder, positions=128):
    import torch
    from transformers import GPT2LMHeadModel

    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    tokenizer = _byte_level(folder)
    tokenizer.model_max_length = positions
    tokenizer.chat_template = CHAT_TEMPLATE
    return _saved(folder, GPT2LMHeadModel(_gpt2(tokenizer, positions)), tokenizer)


def save_llama(folder, positions=2048):
    """A tiny random Llama with heads of a size that vLLM reads, and its chat template."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    tokenizer = _byte_level(folder)
    tokenizer.model_max_length = positions
    tokenizer.chat_template = CHAT_TEMPLATE
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=positions,
        initializer_range=0.3,
        **{name: getattr(tokenizer, name) for name in names},
    )
    return _saved(folder, LlamaForCausalLM(config), tokenizer)


def _gpt2(tokenizer, positions, **settings):
    from transformers import GPT2Config

    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": positions}
    return GPT2Config(vocab_size=len(tokenizer), **sizes, **SPREAD, **settings)


def save_tagger(folder, labels=("O", "B-PER", "I-PER"), *, missed="", positions=128):
    """Save a token classifier that gives words with a capital letter the second label, others the first.

    Every letter is a token, so that each word has many pieces; words that begin with a letter of ``missed`` get the
    first label.
    """
    import string

    import torch
    from transformers import BertConfig, BertForTokenClassification, BertTokenizer

    folder.mkdir(exist_ok=True)
    letters = string.ascii_letters + string.digits
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,:;-/()'", *letters]
    pieces += [f"##{letter}" for letter in letters]
    tokenizer = BertTokenizer(
        vocab={piece: index for index, piece in enumerate(pieces)},
        do_lower_case=False,
        model_max_length=positions,
    )
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=positions,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    model = BertForTokenClassification(config)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    for name, module in model.named_modules():
        if name.endswith("LayerNorm"):
            torch.nn.init.ones_(module.weight)
    capital = torch.tensor([len(piece) == 1 and piece.isupper() for piece in pieces])
    capital &= torch.tensor([piece not in missed for piece in pieces])
    sign = torch.where(capital, 1.0, -1.0)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[:] = sign[:, None] * torch.tensor(
            [1.0, -1.0, 1.0, -1.0]
        )
        model.classifier.weight[1] = torch.tensor([1.0, -1.0, 1.0, -1.0])
    return _saved(folder, model, tokenizer)


def save_bi_encoder(
    folder, *, modules=("Transformer", "Pooling"), pooling="mean_tokens", **settings
):
    """A tiny random encoder with the files that sentence-transformers writes; a module with a dot is of another
    library."""
    save("bert", folder)
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    listed = [
        {
            "idx": index,
            "path": paths.get(name, name),
            "type": name if "." in name else f"sentence_transformers.models.{name}",
        }
        for index, name in enumerate(modules)
    ]
    _write_json(folder / "modules.json", listed)
    _write_json(folder / "1_Pooling" / "config.json", {f"pooling_mode_{pooling}": True})
    _write_json(folder / "config_sentence_transformers.json", settings)
    return folder


def _write_json(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
