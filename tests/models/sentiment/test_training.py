"""Training sentiment models: three kinds of models on planted sentences, trouble, and the command."""

import json
import random
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import DataCollatorWithPadding, PreTrainedConfig

from swapbias.errors import UsageError
from swapbias.models import load_scorer, sentiment as training
from swapbias.models.base import LoadOptions
from swapbias.models.clinical.features import StaticVectors
from swapbias.models.loading import is_saved
from swapbias.models.sentiment import TrainSettings, load_sentiment_data, new_bilstm, train_model, word_tokenizer
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
def settings(request):
    return settings_of(request.param, request)


def settings_of(kind, request):
    plain = TrainSettings(kind=kind, data=str(request.getfixturevalue("data")), device="cpu", batch_size=8)
    if kind == "bow":
        return plain
    if kind == "bilstm":
        return replace(plain, vectors=request.getfixturevalue("vectors"), epochs=8, rate=0.02)
    return replace(plain, encoder=str(request.getfixturevalue("encoder")), epochs=8, rate=3e-3)


def train(settings, out, bar=lambda title, total: lambda done: None):
    return train_model(settings, out, bar=bar)


def load(folder):
    return load_scorer(str(folder), options=LoadOptions(device="cpu"))


def scores(folder):
    return [one.score for one in load(folder).score(READ)]


def test_what_decides_the_sentiment_is_learned_and_recorded(settings, tmp_path, data):
    done = []
    trained = train(settings, tmp_path / "model", bar=lambda title, total: lambda more: done.append(more / total))
    assert (trained["dev_accuracy"], trained["n_dev"]) == (1.0, 16)
    assert sum(done) == pytest.approx(1)
    scored = load(tmp_path / "model").score(READ)
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


def test_the_same_seed_gives_the_same_model(settings, tmp_path):
    settings = settings if settings.kind == "bow" else replace(settings, epochs=1)
    train(settings, tmp_path / "one")
    train(settings, tmp_path / "two")
    assert scores(tmp_path / "one") == scores(tmp_path / "two")
    train(replace(settings, seed=1), tmp_path / "three")
    same = scores(tmp_path / "one") == scores(tmp_path / "three")
    assert same == (settings.kind == "bow")  # its fit has no chance in it


def bilstm(words, vectors, **more):
    models = pytest.importorskip("gensim.models", reason="needs gensim: pip install 'swapbias[train]'")
    keyed = models.KeyedVectors(len(vectors[0]))
    keyed.add_vectors(words, np.array(vectors, dtype=np.float32))
    if counts := more.pop("counts", None):
        keyed.expandos["count"] = np.array(counts)
    return new_bilstm(StaticVectors(keyed, name="toy"), **more)


def test_the_lstm_has_the_frequent_words_reads_no_padding_and_is_saved_whole(tmp_path):
    words, vectors = ["Film", "Mary", "rare", "film"], [[1.0], [2.0], [3.0], [4.0]]
    network, tokenizer = bilstm(words, vectors, most=2)
    # Film is frequent, but film has a vector of its own; Mary has none in lower case; rare is the third word.
    assert network.embed_tokens.weight.tolist() == [[0.0], [4.0], [2.0]]
    assert tokenizer("Mary, rare FILM")["input_ids"] == [2, 0, 0, 1]
    _, tokenizer = bilstm(words, vectors, most=2, counts=[1, 2, 9, 5])
    assert tokenizer.convert_ids_to_tokens([1, 2]) == ["rare", "film"]
    network, _ = bilstm(["a", "b"], [[1.0, 2.0], [3.0, -1.0]])
    network.eval()

    def logits(*ids):
        batch = DataCollatorWithPadding(tokenizer)([{"input_ids": list(one), "labels": 0} for one in ids])
        return network(batch["input_ids"], batch["attention_mask"])["logits"]

    (alone,), together = logits([1, 2]), logits([1, 2], [2, 1, 1, 0, 2])
    assert together.shape == (2, 2)
    assert together[:, 0].tolist() == [0, 0]  # the second logit alone decides
    assert together[0, 1].item() == pytest.approx(alone[1].item(), abs=1e-6)
    assert logits([2, 1])[0, 1].item() != pytest.approx(alone[1].item(), abs=1e-6)  # order matters
    network, tokenizer = bilstm(["good", "bad"], np.random.default_rng(0).normal(size=(2, 4)))
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    read = TextClassifierScorer(network, tokenizer, model_id="", identity={}).score(READ)
    again = load(tmp_path)
    assert [one.score for one in again.score(READ)] == [one.score for one in read]
    assert again.score(READ[:1])[0].score == pytest.approx(read[0].score, abs=1e-6)


class Fading(torch.nn.Module):
    """Its loss on dev is that of a list, by epoch."""

    def __init__(self, losses):
        super().__init__()
        self.weight, self.losses, self.weights = torch.nn.Parameter(torch.zeros(1)), iter(losses), []
        self.config, self.base_model = PreTrainedConfig(), None

    def forward(self, input_ids, attention_mask, labels):
        logits = self.weight.expand(len(labels), 2)
        if self.training:
            return {"loss": (self.weight - 9).square().sum(), "logits": logits}
        self.weights.append(self.weight.item())
        return {"loss": torch.tensor(next(self.losses)), "logits": logits}


def test_training_stops_when_dev_gets_no_better_and_the_best_epoch_stays(data):
    settings = TrainSettings(kind="bilstm", data="", device="cpu", rate=0.02)
    network, (train, dev, _) = Fading([3.0, 1.0, 2.0, 2.0, 1.5, 0.0]), load_sentiment_data(str(data))
    facts = training.fit_network(
        network, word_tokenizer(VECTORS), settings, train, dev, lambda title, total: lambda done: None
    )
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
    with pytest.raises(ValueError, match="other knows no training sentence's words"):
        train(TrainSettings(kind="bilstm", data=str(data), vectors=tmp_path / "other.vec"), tmp_path / "m")


def test_long_sentences_are_cut_in_training_and_not_counted_in_dev(tmp_path, encoder):
    folder = write_stsa(tmp_path / "long", [*sentences(64), ("good " * 40, 1)], [*DEV, ("bad " * 40, 1)])
    options = {"encoder": str(encoder), "epochs": 8, "rate": 3e-3, "batch_size": 8, "device": "cpu"}
    trained = train(TrainSettings(kind="encoder", data=str(folder), **options), tmp_path / "m")
    assert (trained["dev_accuracy"], trained["n_dev"]) == (1.0, 16)
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


@pytest.mark.parametrize("kind", ["bow", "bilstm"])
def test_a_damaged_model_is_told_in_one_sentence(kind, tmp_path, request):
    train(replace(settings_of(kind, request), epochs=None if kind == "bow" else 1), tmp_path / "m")
    (tmp_path / "m" / ("model.skops" if kind == "bow" else "model.safetensors")).write_bytes(b"junk")
    sentence = {
        "bow": r"cannot be read \(.*\)\. Train the model again\.$",
        "bilstm": r"/m' cannot be loaded: [^\n]*\.$",
    }
    with pytest.raises(ValueError, match=sentence[kind]):
        load(tmp_path / "m")


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
