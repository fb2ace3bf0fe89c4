"""Words at the mask are the tokens that the model's own tokenizer gives for them."""

import unicodedata

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

import swapbias
from swapbias.models import load_scorer
from swapbias.models.vocabulary import Vocabulary
from swapbias.studies import Lexicon
from tests import tiny

GERMAN = [
    "Die Ärztin ist müde.",
    "Der Arzt ist müde.",
    "Die Bäuerin ist nett.",
    "Der Bauer ist nett.",
    "mary john",
] * 9
RUSSIAN = ["Анна пришла домой.", "Мария устала.", "Иван пришёл домой.", "Пётр устал."] * 9
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MARKS = dict(
    zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True)
)


def wordpiece(sentences, normalizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.train_from_iterator(
        sentences,
        trainers.WordPieceTrainer(vocab_size=900, special_tokens=SPECIAL, show_progress=False),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **MARKS)


def sentencepiece(words):
    """Pieces that continue a word stand before those that begin one."""
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(piece, -2.0) for piece in [*words, *(f"▁{word}" for word in words)]]
    pieces += [(letter, -9.0) for letter in "abcdefghijklmnopqrstuvwxyz.▁"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    marks = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    mask = AddedToken("<mask>", lstrip=True, special=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token=mask, model_max_length=64, **marks
    )


def bert(tokenizer):
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **tiny.BERT))
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


def nfd(words):
    return {
        group: [unicodedata.normalize("NFD", word) for word in some]
        for group, some in words.items()
    }


PEOPLE = {"female": ["Ärztin", "Bäuerin"], "male": ["Arzt", "Bauer"]}
NAMES = {"female": ["Анна", "Мария"], "male": ["Иван", "Пётр"]}
LOWER = normalizers.BertNormalizer(lowercase=True)
CASED = normalizers.BertNormalizer(lowercase=False)
VOCABULARIES = {
    "NFD words, NFC tokens": (lambda: wordpiece(GERMAN, normalizers.NFC()), nfd(PEOPLE)),
    "NFC words, NFD tokens": (lambda: wordpiece(GERMAN, normalizers.NFD()), PEOPLE),
    "stripped accents": (lambda: wordpiece(GERMAN, LOWER), PEOPLE),
    "cased Cyrillic": (lambda: wordpiece(RUSSIAN, CASED), NAMES),
    "uncased Cyrillic": (lambda: wordpiece(RUSSIAN, LOWER), NAMES),
    "SentencePiece": (
        lambda: sentencepiece(["she", "he", "is", "it", "well"]),
        {"female": ["she"], "male": ["he"]},
    ),
}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_mass_of_tokens(name, tmp_path):
    """The mass of words is that of the tokens that the tokenizer gives them."""
    make, words = VOCABULARIES[name]
    tokenizer = make()
    model = bert(tokenizer)
    lexicon = tmp_path / "words.csv"
    lexicon.write_text(
        "word,group\n"
        + "".join(f"{one},{group}\n" for group, some in words.items() for one in some)
    )
    texts = {"text": ["it is <mask>", "<mask> is well", "well <mask>", "it <mask> well"]}

    study = swapbias.open_study(
        pd.DataFrame(texts),
        reference="male",
        lexicon=lexicon,
        name=f"v{list(VOCABULARIES).index(name)}",
    )
    scorer = load_scorer(model, tokenizer=tokenizer, name="m")
    rows = swapbias.score_prompts(swapbias.load_prompts(study.name), scorer).to_pandas()
    for group, some in words.items():
        ids = {
            tuple(tokenizer(f"{space}{one}", add_special_tokens=False)["input_ids"])
            for one in some
            for space in ("", " ")
        }
        assert all(len(one) == 1 and one[0] != tokenizer.unk_token_id for one in ids)
        expected = []
        for text in texts["text"]:
            read = tokenizer(text.replace("<mask>", tokenizer.mask_token), return_tensors="pt")[
                "input_ids"
            ]
            place = read[0].tolist().index(tokenizer.mask_token_id)
            with torch.no_grad():
                p = model(input_ids=read).logits[0, place].softmax(-1)
            expected.append(float(p[sorted(one[0] for one in ids)].sum()))
        found = rows[rows["group"] == group].sort_values("text")["closed_list_mass"]
        assert found.tolist() == pytest.approx(
            [p for _, p in sorted(zip(texts["text"], expected, strict=True))], abs=1e-5
        )


def test_coverage_of_shared_spellings():
    """Coverage marks words that share their token with another spelling."""
    vocabulary = Vocabulary(tokenizer := wordpiece(GERMAN, LOWER), 900)
    lexicon = Lexicon("own/x", {}, {"Ärztin": "female", "Arzt": "male", "Pilotin": "female"})
    assert vocabulary.uncased
    tokens = vocabulary.label(lexicon)
    expected = [tokenizer.convert_tokens_to_ids(word) for word in ("arztin", "arzt")]
    assert tokens.of_word == {"Ärztin": expected[:1], "Arzt": expected[1:], "Pilotin": []}
    counted = np.flatnonzero(tokens.of_token != tokens.labels.index(lexicon.rest))
    assert counted.tolist() == sorted(expected)


def test_cased_without_latin_letters():
    """A vocabulary without Latin letters is cased or not by its words, and added tokens change
    nothing."""
    assert not Vocabulary(wordpiece(RUSSIAN, CASED), 900).uncased
    tokenizer = wordpiece(RUSSIAN, LOWER)
    tokenizer.add_tokens(["[PATIENT]"])
    assert Vocabulary(tokenizer, len(tokenizer)).uncased
    assert not Vocabulary(wordpiece(["Mary mary John"] * 9, CASED), 900).uncased


def test_continuing_piece():
    """A piece that continues a word is no word and is joined."""
    tokenizer = sentencepiece(["school", "girl"])
    vocabulary = Vocabulary(tokenizer, len(tokenizer))
    bare, whole = (tokenizer.convert_tokens_to_ids(piece) for piece in ("girl", "▁girl"))
    assert (vocabulary.raw[bare], vocabulary.raw[whole]) == ("girl", " girl")
    assert vocabulary.tokens_of(["girl"]) == {"girl": [whole]}
    tokens = vocabulary.label(Lexicon("own/x", {"girl": "female"}))
    assert tokens.of_token[bare] == tokens.labels.index("unspecified")
    assert tokens.of_token[whole] == tokens.labels.index("female")
