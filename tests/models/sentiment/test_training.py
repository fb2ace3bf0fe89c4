"""Training sentiment models: three kinds of models on planted sentences, trouble, and the command."""

import json
import random
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from swapbias.errors import UsageError
from swapbias.models import sentiment as training
from swapbias.models.base import LoadOptions
from swapbias.models.loading import is_sentiment_folder
from swapbias.models.sentiment import (
    BiLstm,
    TrainSettings,
    frequent_words,
    load_sentiment_data,
    load_sentiment_model,
    train_model,
)
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.studies.study import PROMPT_COLUMNS, Prompt

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


def prompts(texts):
    blank = Prompt(**dict.fromkeys(PROMPT_COLUMNS, ""))
    return [replace(blank, text=text) for text in texts]


DEV = sentences(16, seed=1)
READ = prompts([*(text for text, _ in DEV), "GOOD film", "unheard words"])


@pytest.fixture
def vectors(tmp_path):
    """A file with a word vector for each planted word."""
    models = pytest.importorskip("gensim.models", reason="needs gensim: pip install 'swapbias[train]'")
    draw = np.random.default_rng(0)
    keyed = models.KeyedVectors(8)
    keyed.add_vectors(VECTORS, draw.normal(size=(len(VECTORS), 8)).astype(np.float32))
    keyed.save_word2vec_format(str(tmp_path / "toy.vec"))
    return tmp_path / "toy.vec"


@pytest.fixture
def encoder(tmp_path):
    """A tiny random BERT without a head, with its tokenizer."""
    from transformers import BertConfig, BertModel, BertTokenizer

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *VECTORS]
    tokenizer = BertTokenizer(vocab={piece: at for at, piece in enumerate(pieces)}, model_max_length=16)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        config = BertConfig(vocab_size=len(pieces), max_position_embeddings=16, initializer_range=0.2, **sizes)
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


def train(settings, out, bar=lambda title, total: lambda done: None):
    return train_model(settings, out, bar=bar)


def load(folder, kind):
    if kind == "encoder":
        return TextClassifierScorer.load(str(folder), LoadOptions(device="cpu"))
    return load_sentiment_model(folder)


def scores(folder, kind):
    return [one.score for one in load(folder, kind).score(READ)]


def test_what_decides_the_sentiment_is_learned_and_recorded(settings, tmp_path, data):
    done = []
    trained = train(settings, tmp_path / "model", bar=lambda title, total: lambda more: done.append(more / total))
    assert trained.dev_accuracy == 1.0
    assert trained.n_dev == 16
    assert sum(done) == pytest.approx(1)
    scored = load(trained.folder, settings.kind).score(READ)
    assert [one.score > 0.5 for one in scored[:16]] == [label == 1 for _, label in DEV]
    assert scored[16].score > 0.5  # upper case does not matter
    assert is_sentiment_folder(trained.folder) == (settings.kind != "encoder")
    text = (tmp_path / "model" / "training.json").read_text()
    record = json.loads(text)
    assert (record["kind"], record["seed"], record["dev_accuracy"]) == (settings.kind, 0, 1.0)
    assert record["sizes"] == {"train": 64, "dev": 16}
    assert record["data"]["sha256"] == load_sentiment_data(str(data)).sha256
    assert record["audit"]["n_male"] == 0
    assert record["audit"]["mean_male"] is None  # NaN is null in JSON
    assert "swapbias" in record["versions"]
    assert str(tmp_path) not in text


def test_the_same_seed_gives_the_same_model(settings, tmp_path):
    settings = settings if settings.kind == "bow" else replace(settings, epochs=1)
    train(settings, tmp_path / "one")
    train(settings, tmp_path / "two")
    assert scores(tmp_path / "one", settings.kind) == scores(tmp_path / "two", settings.kind)
    train(replace(settings, seed=1), tmp_path / "three")
    same = scores(tmp_path / "one", settings.kind) == scores(tmp_path / "three", settings.kind)
    assert same == (settings.kind == "bow")  # its fit has no chance in it


def test_the_lstm_has_the_frequent_words_reads_no_padding_and_is_saved_whole(tmp_path):
    models = pytest.importorskip("gensim.models", reason="needs gensim: pip install 'swapbias[train]'")
    keyed = models.KeyedVectors(1)
    keyed.add_vectors(["Film", "Mary", "rare", "film"], np.array([[1.0], [2.0], [3.0], [4.0]], dtype=np.float32))
    words, vectors = frequent_words(keyed, most=2)
    # Film is frequent, but film has a vector of its own; Mary has none in lower case; rare is the third word.
    assert words == ["film", "mary"]
    assert vectors.tolist() == [[0.0], [4.0], [2.0]]
    assert BiLstm(words, vectors, units=2).ids(["Mary, rare FILM"]) == [[2, 0, 0, 1]]
    keyed.expandos["count"] = np.array([1, 2, 9, 5])
    assert frequent_words(keyed, most=2)[0] == ["rare", "film"]
    network = BiLstm(["a", "b"], torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, -1.0]]), units=3).eval()

    def logits(*ids):
        batch = training.padded([{"input_ids": one, "labels": 0} for one in ids])
        return network(batch["input_ids"], batch["attention_mask"])["logits"]

    (alone,), together = logits([1, 2]), logits([1, 2], [2, 1, 1, 0, 2])
    assert together.shape == (2, 2)
    assert together[:, 0].tolist() == [0, 0]  # the second logit alone decides
    assert together[0, 1].item() == pytest.approx(alone[1].item(), abs=1e-6)
    assert logits([2, 1])[0, 1].item() != pytest.approx(alone[1].item(), abs=1e-6)  # order matters
    network = BiLstm(["good", "bad"], torch.randn(3, 4), units=3).eval()
    network.save(tmp_path)
    texts = [text for text, _ in DEV]
    again = BiLstm.load(tmp_path).predict_proba(texts)
    np.testing.assert_array_equal(again, network.predict_proba(texts))
    np.testing.assert_allclose(again[0], network.predict_proba(texts[:1])[0], atol=1e-6)


class Fading(torch.nn.Module):
    """Its loss on dev is that of a list, by epoch."""

    def __init__(self, losses):
        super().__init__()
        self.weight, self.losses, self.weights = torch.nn.Parameter(torch.zeros(1)), iter(losses), []

    def forward(self, input_ids, attention_mask, labels):
        logits = self.weight.expand(len(labels), 2)
        if self.training:
            return {"loss": (self.weight - 9).square().sum(), "logits": logits}
        self.weights.append(self.weight.item())
        return {"loss": torch.tensor(next(self.losses)), "logits": logits}


def test_training_stops_when_dev_gets_no_better_and_the_best_epoch_stays(data):
    found, settings = load_sentiment_data(str(data)), TrainSettings(kind="bilstm", data="", device="cpu", rate=0.02)
    network = Fading([3.0, 1.0, 2.0, 2.0, 1.5, 0.0])
    ids = [[1]] * len(found.train)
    facts = training.fit_network(
        network, settings, ids, found, lambda title, total: lambda done: None,
        data_collator=training.padded, eval_dataset=training.labelled(ids[:16], found.dev),
    )  # fmt: skip
    assert facts["dev_losses"] == [3.0, 1.0, 2.0, 2.0, 1.5]  # three epochs after the best
    assert network.weight.item() == network.weights[1] != network.weights[-1]


def test_options_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, data):
    plain = {"data": str(data)}
    for wrong, sentence in (
        ({"kind": "svm"}, r"Unknown kind 'svm': expected bow, bilstm, encoder"),
        ({"kind": "bilstm"}, r"A bilstm needs a file of word vectors .* not no file"),
        ({"kind": "bilstm", "vectors": tmp_path / "v.glove"}, r"word vectors .* not v\.glove"),
        ({"kind": "bow", "vectors": tmp_path / "v.vec"}, r"--vectors is for bilstm"),
        ({"kind": "bilstm", "encoder": "x"}, r"--encoder is for encoder"),
        ({"kind": "bow", "epochs": 3}, r"--epochs is for bilstm and encoder"),
        ({"kind": "encoder", "epochs": 0}, r"epochs is 0, expected a number of 1 or more"),
        ({"kind": "bow", "batch_size": 0}, r"batch_size is 0"),
        ({"kind": "bow", "device": "gpu"}, r"Unknown device 'gpu'"),
        ({"kind": "encoder", "seed": 2**32}, r"seed is 4294967296, expected 0 to 4,294,967,295"),
        ({"kind": "encoder", "seed": -1}, r"seed is -1, expected 0 to"),
    ):
        with pytest.raises(UsageError, match=sentence):
            train(TrainSettings(**{**plain, **wrong}), tmp_path / "deep" / "model")
    assert not (tmp_path / "deep").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path, data):
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
def test_a_stop_leaves_nothing(settings, tmp_path, trouble):
    def bar(title, total):
        def advance(done):
            raise trouble

        return advance

    (tmp_path / "place").mkdir()
    with pytest.raises(trouble):
        train(settings, tmp_path / "place" / "model", bar=bar)
    assert list((tmp_path / "place").iterdir()) == []


def test_sentences_and_vectors_that_teach_nothing_are_refused(tmp_path, data):
    folder = write_stsa(tmp_path / "marks", [("!", 1), ("?", 0)], [("!", 1), ("?", 0)])
    with pytest.raises(ValueError, match="hold no words"):
        train(TrainSettings(kind="bow", data=str(folder)), tmp_path / "m")
    (tmp_path / "other.vec").write_text("1 2\nfilmo 1 2\n")
    with pytest.raises(ValueError, match="other knows no word of the training sentences"):
        train(TrainSettings(kind="bilstm", data=str(data), vectors=tmp_path / "other.vec"), tmp_path / "m")


def test_long_sentences_are_cut_in_training_and_not_counted_in_dev(tmp_path, encoder):
    folder = write_stsa(tmp_path / "long", [*sentences(64), ("good " * 40, 1)], [*DEV, ("bad " * 40, 1)])
    options = {"encoder": str(encoder), "epochs": 8, "rate": 3e-3, "batch_size": 8, "device": "cpu"}
    trained = train(TrainSettings(kind="encoder", data=str(folder), **options), tmp_path / "m")
    assert (trained.dev_accuracy, trained.n_dev) == (1.0, 16)
    assert json.loads((tmp_path / "m" / "training.json").read_text())["model"]["train_cut"] == 1


def test_an_encoder_without_its_weights_is_refused(tmp_path, data, encoder):
    from safetensors.torch import load_file, save_file

    tensors = load_file(encoder / "model.safetensors")
    kept = {name: one for name, one in tensors.items() if "attention" not in name}
    save_file(kept, encoder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"has no weights for .*attention"):
        train(TrainSettings(kind="encoder", data=str(data), encoder=str(encoder), device="cpu"), tmp_path / "m")


def test_without_skops_no_bag_of_words_is_trained(tmp_path, data, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(UsageError, match=r"needs skops.*swapbias\[train\]"):
        train(TrainSettings(kind="bow", data=str(data)), tmp_path / "m")
    assert list(tmp_path.glob("**/model.*")) == []


def test_folders_that_no_training_wrote_are_told_apart(tmp_path):
    for content in ("", "[1]", '{"kind": "soup"}'):
        (tmp_path / "training.json").write_text(content)
        assert not is_sentiment_folder(tmp_path)
        with pytest.raises(UsageError, match="holds no bow or bilstm"):
            load_sentiment_model(tmp_path)
    assert not is_sentiment_folder("distilbert/some-model")


@pytest.mark.parametrize("kind", ["bow", "bilstm"])
def test_a_damaged_model_is_told_in_one_sentence(kind, tmp_path):
    (tmp_path / "training.json").write_text(json.dumps({"kind": kind}))
    with pytest.raises(ValueError, match=r"cannot be read \(.*\)\. Train the model again\.$"):
        load_sentiment_model(tmp_path)
    (tmp_path / "bilstm.json").write_text('{"units": 2, "dropout": 0.1, "words": []}')
    for name in ("model.skops", "model.safetensors"):
        (tmp_path / name).write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"cannot be read \(.*\)\. Train the model again\.$"):
        load_sentiment_model(tmp_path)


def command(*arguments):
    import typer
    from typer.testing import CliRunner

    from swapbias.cli.data import train as function
    from swapbias.cli.terminal import Sectioned

    app = typer.Typer()
    app.command("train", cls=Sectioned)(function)
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=True)


def test_the_command_shows_the_audit_and_the_accuracy(tmp_path, data):
    done = command("bow", "--data", data, "--out", tmp_path / "m")
    assert done.exit_code == 0, done.exception
    for part in ("with a female noun", "1,182", "0.535", "Female - male: –", "Accuracy on 16 dev sentences: 1.000"):
        assert part in done.output
    assert (tmp_path / "m" / "model.skops").is_file()
