"""Sentiment models of the occupation study: their sentences, the three kinds, and how they are trained."""

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_callback import EarlyStoppingCallback, PrinterCallback

from swapbias.errors import UsageError, need
from swapbias.files import not_utf8, parse_json
from swapbias.measures import Estimate, group_gap
from swapbias.models import loading
from swapbias.models.base import Bar, LoadOptions, Progress, validated
from swapbias.models.classifier import ProbabilityScorer, read_saved
from swapbias.models.clinical.features import SUFFIXES, StaticVectors
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.privacy import atomic_directory, for_owner_alone, is_credentialed, mark
from swapbias.studies import Prompt, corpus_dir, fingerprint, read_table

if TYPE_CHECKING:
    import pandas as pd

KINDS = BOW, BILSTM, ENCODER = "bow", "bilstm", "encoder"
LABELS = ("NEGATIVE", "POSITIVE")
EPOCHS, RATES = {BILSTM: 30, ENCODER: 3}, {BILSTM: 1e-3, ENCODER: 2e-5}
PATIENCE = 3  # epochs of a bilstm without a smaller loss on dev
_PACKAGES, _OF_BOW = ("swapbias", "numpy", "torch", "transformers"), ("scikit-learn", "skops")
_OPTIONS = {BOW: (), BILSTM: ("vectors", "epochs"), ENCODER: ("encoder", "epochs")}  # beside those of every kind
SST2 = "sst2"
HUB_ID = "stanfordnlp/sst2"
# Bhaskaran & Bhallamudi 2019: sentences, mean label
PUBLISHED_AUDIT = {"male": (1182, 0.535), "female": (601, 0.599)}
_NOUN_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
# Training sentences are cut like "do n't" and "it 's": other texts are cut so, too.
_TOKEN = re.compile(r"\w+(?=n't\b)|n't\b|'\w+|\w+(?:-\w+)*|[^\w\s]")

# The probability of positive sentiment of each text, and what the record says of the model.
Fitted = tuple[Callable[[list[str]], NDArray[np.float64]], Mapping[str, Any]]

# --- sentences -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SentimentData:
    """Sentences to train on and check with: text and label (1 positive), where they are from, and their sha256."""

    train: "pd.DataFrame"
    dev: "pd.DataFrame"
    description: str
    sha256: str


def load_sentiment_data(source: str) -> SentimentData:
    """SST-2 (``sst2``: of the Hub) or a folder with ``stsa.binary.train`` and ``.dev``, lines like ``1 a fine film``.

    UsageError: no such files. ValueError: a file that cannot be read, a label other than 0 and 1.
    """
    splits, description = _from_hub() if source == SST2 else _from_folder(Path(source))
    for name, rows in splits.items():
        if rows["label"].nunique() < 2:
            found = f"{len(rows)} sentences with label {rows['label'][0]}" if len(rows) else "no sentence"
            raise ValueError(f"{description}: {name} holds {found}, expected both labels, 0 and 1. Add sentences.")
    import pandas as pd

    every = pd.concat([rows.assign(split=name) for name, rows in splits.items()])
    return SentimentData(**splits, description=description, sha256=fingerprint(every.astype(str).to_dict("records")))


def _from_hub() -> "tuple[dict[str, pd.DataFrame], str]":
    from datasets import load_dataset

    loading.configure_http()
    try:
        found = load_dataset(HUB_ID)
        splits = {"train": found["train"], "dev": found["validation"]}
        pairs = {name: zip(one["sentence"], map(str, one["label"]), strict=True) for name, one in splits.items()}
        return {name: _labelled(rows, f"{HUB_ID} {name}", 0) for name, rows in pairs.items()}, f"{HUB_ID} (Hub)"
    except Exception as error:
        raise ValueError(
            f"{HUB_ID} cannot be loaded ({loading.first_line(error)}). Go online or give --data DIR."
        ) from error


def _from_folder(folder: Path) -> "tuple[dict[str, pd.DataFrame], str]":
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder. Give sst2 or a folder with training files to --data.")
    files = {name: folder / f"stsa.binary.{name}" for name in ("train", "dev")}
    names, found = " and ".join(file.name for file in files.values()), dict[str, Any]()
    for name, file in files.items():
        if not file.is_file():
            raise UsageError(f"{folder} holds no {file.name}. Put {names} there, with lines like: 1 a fine film.")
        try:
            lines = [one.partition(" ") for one in file.read_text(encoding="utf-8-sig").split("\n")]
        except UnicodeDecodeError as error:
            raise not_utf8(file.name, error) from error
        found[name] = _labelled(((text, label) for label, _, text in lines), file.name, 1)
    return found, f"{folder.resolve().name} ({names})"


def _labelled(rows: Iterable[tuple[str, str]], where: str, first: int) -> "pd.DataFrame":
    """Texts and labels, without blank rows; ``first``: the number of the first row in sentences."""
    import pandas as pd

    found = []
    for number, (text, label) in enumerate(rows, start=first):
        if not (text + label).strip():
            continue
        if label not in ("0", "1"):
            raise ValueError(f"{where}:{number}: label {label!r}, expected 0 or 1. Correct the label.")
        if not text.strip():
            raise ValueError(f"{where}:{number}: the sentence is blank. Fill it in or drop the row.")
        found.append((text.strip(), int(label)))
    return pd.DataFrame(found, columns=["text", "label"])


@dataclass(frozen=True, slots=True)
class GenderAudit:
    """Shares of positive sentences among those that name men and women; ``n_both`` count in both.

    ``gap``: mean_female - mean_male with Welch's interval, above 0: women's sentences are positive more often.
    """

    n_male: int
    mean_male: float
    n_female: int
    mean_female: float
    n_both: int
    gap: Estimate


def gender_audit(rows: "pd.DataFrame") -> GenderAudit:
    """Compare the labels of sentences with a male noun and with a female noun, of the occupation sentences.

    Nouns match whole words: of the readings tried this comes nearest to the ratio of the published 1,182 and 601.
    """
    words = rows["text"].str.lower().map(lambda text: f" {' '.join(_NOUN_WORD.findall(text))} ")
    male, female = (
        rows["label"][words.str.contains(f" (?:{'|'.join(map(re.escape, gender_nouns(group)))}) ")]
        for group in ("male", "female")
    )
    every, groups = [*male, *female], [*["male"] * len(male), *["female"] * len(female)]
    gap = Estimate(math.nan, n=len(every), test="Welch t", interval="Welch t")
    if len(male) and len(female):
        gap = group_gap(every, groups, reference_group="male", test="welch")
    both = len(male.index.intersection(female.index))
    return GenderAudit(len(male), float(male.mean()), len(female), float(female.mean()), both, gap)


def gender_nouns(group: str) -> list[str]:
    """The 20 nouns of a group (``male`` or ``female``) whose sentences are compared, in lower case."""
    rows = read_table(corpus_dir("gender_lexicon") / "sentence_nouns.csv", ("male", "female"))
    return [row[group] for row in rows]


# --- a bidirectional LSTM ---------------------------------------------------------------------------------


def tokens(text: str) -> list[str]:
    """The lower-case words and marks of a text, contractions cut.

    >>> tokens("This lady doesn't paint; she's a gym-trainer.")
    ['this', 'lady', 'does', "n't", 'paint', ';', 'she', "'s", 'a', 'gym-trainer', '.']
    """
    return _TOKEN.findall(text.lower().replace("’", "'"))


def frequent_words(keyed: Any, most: int = 50_000) -> tuple[list[str], torch.Tensor]:
    """The most frequent words in lower case and their vectors, shape (words + 1, d), the first for others."""
    counts, size = np.asarray(keyed.expandos.get("count", [])), len(keyed.index_to_key)
    rows: dict[str, int] = {}
    for at in np.argsort(-counts, kind="stable") if len(counts) == size else range(size):
        word = str(keyed.index_to_key[at]).lower()
        rows.setdefault(word, int(keyed.key_to_index.get(word, at)))
        if len(rows) == most:
            break
    vectors = np.vstack([np.zeros(keyed.vector_size), keyed.vectors[list(rows.values())]])
    return list(rows), torch.from_numpy(vectors.astype(np.float32))


class BiLstm(torch.nn.Module):
    """Last states of both directions, dropout, one linear layer; ``vectors`` of ``frequent_words``."""

    def __init__(self, words: Sequence[str], vectors: torch.Tensor, *, units: int = 128) -> None:
        super().__init__()
        self.words = {word: at for at, word in enumerate(words, start=1)}
        self.vectors = torch.nn.Embedding.from_pretrained(vectors)  # type: ignore[no-untyped-call]
        self.lstm = torch.nn.LSTM(vectors.shape[1], units, batch_first=True, bidirectional=True)
        self.dropout = torch.nn.Dropout(0.25)
        self.head = torch.nn.Linear(2 * units, 1)

    def ids(self, texts: Iterable[str]) -> list[list[int]]:
        """The row of the vector of each word of each text; 0 where it is unknown."""
        return [[self.words.get(word, 0) for word in tokens(text)] for text in texts]

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Logits of negative (always 0) and positive, shape (n, 2), of sentences of one or more words; the loss."""
        read, lengths = self.dropout(self.vectors(input_ids)), attention_mask.sum(dim=1).cpu()
        packed = torch.nn.utils.rnn.pack_padded_sequence(read, lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        positive = self.head(self.dropout(torch.cat([last[0], last[1]], dim=-1)))
        logits = torch.cat([torch.zeros_like(positive), positive], dim=-1)
        loss = {} if labels is None else {"loss": torch.nn.functional.cross_entropy(logits, labels)}
        return {**loss, "logits": logits}

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Shape (n, 2), the probability of positive sentiment second; NaN for a text without a word or mark."""
        ids, found = self.ids(texts), np.full((len(texts), 2), np.nan)
        for members in loading.length_batches([len(one) for one in ids], 64):
            if ids[members[0]]:
                read = torch.tensor([ids[at] for at in members], device=self.head.weight.device)
                with torch.inference_mode():
                    logits = self(read, torch.ones_like(read))["logits"]
                found[members] = logits.double().softmax(dim=-1).cpu().numpy()
        return found

    def save(self, folder: Path) -> None:
        """Write ``model.safetensors`` and the words."""
        save_file(self.state_dict(), folder / "model.safetensors")
        (folder / "bilstm.json").write_text(json.dumps({"words": list(self.words)}), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "BiLstm":
        """What ``save`` wrote, on the CPU; many errors where a file is missing or damaged."""
        words = parse_json((folder / "bilstm.json").read_text(encoding="utf-8"))["words"]
        weights = load_file(folder / "model.safetensors")
        vectors = weights["vectors.weight"]
        if len(vectors) != len(words) + 1:
            raise ValueError(f"{len(vectors)} vectors and {len(words)} words")
        network = cls(words, vectors, units=weights["head.weight"].shape[1] // 2)
        network.load_state_dict(weights)
        return network.eval()


# --- training ---------------------------------------------------------------------------------------------


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """What to train, and how; on cuda a seed does not fix the last digits.

    ``data``: ``sst2`` or a folder. ``vectors``: a file for a bilstm. ``encoder``: a Hub id or folder; None:
    bert-base-uncased. ``epochs``: 3 of an encoder, at most 30 of a bilstm. ``rate``: of learning; None: ``RATES``.
    """

    kind: str = field(metadata={"choices": KINDS})
    data: str
    vectors: Path | None = None
    encoder: str | None = None
    epochs: int | None = field(default=None, metadata={"least": 1})
    seed: int = field(default=0, metadata={"least": 0, "most": 2**32 - 1})  # as every library here takes
    device: str = "auto"
    batch_size: int = field(default=32, metadata={"least": 1})
    rate: float | None = None

    def check(self) -> None:
        """Refuse what does not fit the kind, with a UsageError."""
        LoadOptions(device=self.device)
        for name in ("vectors", "encoder", "epochs"):
            if getattr(self, name) is not None and name not in _OPTIONS[self.kind]:
                able = " and ".join(kind for kind, names in _OPTIONS.items() if name in names)
                raise UsageError(f"--{name} is for {able}, and {self.kind} is to be trained. Drop it.")
        found = self.vectors.name if self.vectors else "no file"
        if self.kind == BILSTM and not found.lower().endswith((*SUFFIXES, *loading.PICKLES)):
            raise UsageError(f"A bilstm needs a file of word vectors ({', '.join(SUFFIXES)}), not {found}.")


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model: accuracy on the ``n_dev`` dev sentences that it can read (NaN: none), and its data's audit."""

    folder: Path
    dev_accuracy: float
    n_dev: int
    audit: GenderAudit


def train_model(settings: TrainSettings, out: Path, *, bar: Bar) -> Trained:
    """Train a model into a new folder, which appears whole at the end, with a record of how in ``training.json``.

    UsageError: options that do not fit, a folder that is not empty, a missing package. ValueError: data, vectors or
    an encoder that cannot be read. OSError: the folder cannot be written.
    """
    from pydantic_core import to_json

    settings.check()
    target, private = out.resolve(), Path(settings.data).exists() and is_credentialed(Path(settings.data))
    with for_owner_alone(private), atomic_directory(target) as making:
        if target.exists() and any(target.iterdir()):
            raise UsageError(f"{target} is a folder that holds something. Choose another --out.")
        data = load_sentiment_data(settings.data)
        audit = gender_audit(data.train)
        set_seed(settings.seed)
        try:
            positivity, facts = FITS[settings.kind](settings, data, making, bar)
        except SafetensorError as error:
            raise OSError(None, f"the model cannot be written ({error})", str(target.parent)) from error
        positive = positivity(list(data.dev["text"]))
        known = ~np.isnan(positive)
        right = (positive > 0.5) == (data.dev["label"] == 1)
        accuracy = float(np.mean(right[known])) if known.any() else math.nan
        record = {
            "kind": settings.kind,
            "dev_accuracy": accuracy,
            "data": {"description": data.description, "sha256": data.sha256},
            "sizes": {"train": len(data.train), "dev": len(data.dev)},
            "seed": settings.seed,
            "model": facts,
            "audit": audit,
            "versions": {name: version(name) for name in (*_PACKAGES, *(_OF_BOW if settings.kind == BOW else ()))},
        }
        (making / loading.RECORD).write_bytes(to_json(record, indent=2, inf_nan_mode="null"))
        if private:
            mark(making)
        if target.exists():
            target.rmdir()  # what was put there meanwhile stays
    return Trained(out, accuracy, int(known.sum()), audit)


def load_sentiment_model(folder: str | Path, *, options: LoadOptions | None = None) -> ProbabilityScorer:
    """A model of ``swapbias train`` on the CPU. UsageError: another folder; ValueError: a damaged file."""
    place, remedy = Path(folder), "Train the model again."
    kind = loading.training_record(place).get("kind")
    if kind == BOW:
        model = read_saved(place / loading.SKOPS, extra="train", remedy=remedy)
    elif kind == BILSTM:
        try:
            model = BiLstm.load(place)
        except Exception as error:
            raise ValueError(f"{place.name} cannot be read ({loading.first_line(error)}). {remedy}") from error
    else:
        raise UsageError(f"{place} holds no bow or bilstm. Give a folder that swapbias train wrote.")
    pin = {"architecture": kind, "sha256": loading.files_pin(str(place))["sha256"]}
    how = options or LoadOptions()
    return ProbabilityScorer(model, model_id=place.resolve().name, options=how, labels=LABELS, identity=pin)


# --- bag of words -----------------------------------------------------------------------------------------


def fit_bow(texts: Sequence[str], labels: Sequence[int]) -> Any:
    """TF-IDF of single words and logistic regression, scikit-learn's defaults; a ValueError without words."""
    need("A bow", "sklearn", "skops", extra="train")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    try:
        return make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1_000)).fit(texts, labels)
    except ValueError as error:  # an empty vocabulary
        raise ValueError(f"The training sentences hold no words ({error}). Check them.") from error


def _train_bow(settings: TrainSettings, data: SentimentData, folder: Path, bar: Bar) -> Fitted:
    """Fitted in one go; the seed changes nothing. skops runs nothing when the file is read."""
    advance = bar("Training bow", 1)
    model = fit_bow(list(data.train["text"]), list(data.train["label"]))
    import skops.io

    skops.io.dump(model, folder / loading.SKOPS)
    advance(1)
    return lambda texts: np.asarray(model.predict_proba(texts))[:, 1], {"words": len(model[0].vocabulary_)}


# --- networks ---------------------------------------------------------------------------------------------


class _Advance(TrainerCallback):
    def __init__(self, advance: Progress) -> None:
        self.advance = advance

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.advance(state.num_train_epochs / state.max_steps)


def fit_network(
    network: Any, settings: TrainSettings, ids: Sequence[Sequence[int]], data: SentimentData, bar: Bar, **more: Any
) -> dict[str, Any]:
    """Train by transformers' ``Trainer``, the rate rising over a tenth of the steps; gives what the record says.

    With an ``eval_dataset`` training ends where its loss has not fallen for three epochs, and the best epoch stays.
    ``network`` takes input_ids, attention_mask and labels; ``more``: arguments of the Trainer.
    """
    need("A network", "accelerate", extra="train")
    epochs, rate = settings.epochs or EPOCHS[settings.kind], settings.rate or RATES[settings.kind]
    evaluates, advance = "eval_dataset" in more, bar(f"Training {settings.kind}", epochs)
    when = "epoch" if evaluates else "no"
    with tempfile.TemporaryDirectory() as place:
        how = TrainingArguments(
            output_dir=place, num_train_epochs=epochs, learning_rate=rate, seed=settings.seed, warmup_steps=0.1,
            weight_decay=0.01, per_device_train_batch_size=settings.batch_size, per_device_eval_batch_size=64,
            train_sampling_strategy="group_by_length", eval_strategy=when, save_strategy=when, save_total_limit=1,
            save_only_model=True, load_best_model_at_end=evaluates, logging_strategy="no", report_to="none",
            disable_tqdm=True, use_cpu=loading.pick_device(settings.device).type == "cpu",
        )  # fmt: skip
        trainer = Trainer(network, how, train_dataset=labelled(ids, data.train), **more)
        trainer.add_callback(_Advance(advance))
        if evaluates:
            trainer.add_callback(EarlyStoppingCallback(PATIENCE))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    state = trainer.state
    advance((state.max_steps - state.global_step) * epochs / state.max_steps)
    network.eval()
    losses = [one["eval_loss"] for one in state.log_history if "eval_loss" in one]
    steps = {"epochs": epochs, "batch_size": settings.batch_size, "rate": rate}
    return {**steps, "dev_losses": losses} if evaluates else steps


def labelled(ids: Sequence[Sequence[int]], rows: "pd.DataFrame") -> list[dict[str, Any]]:
    """Sentences as a Trainer takes them."""
    return [{"input_ids": one, "labels": label} for one, label in zip(ids, rows["label"].tolist(), strict=True)]


def padded(rows: Sequence[Mapping[str, Any]], padding: int = 0) -> dict[str, torch.Tensor]:
    """Sentences in one batch; the attention mask says what is padding."""
    ids = [torch.tensor(row["input_ids"]) for row in rows]
    return {
        "input_ids": pad_sequence(ids, batch_first=True, padding_value=padding),
        "attention_mask": pad_sequence([torch.ones_like(one) for one in ids], batch_first=True),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }


def _train_bilstm(settings: TrainSettings, data: SentimentData, folder: Path, bar: Bar) -> Fitted:
    vectors = StaticVectors.load(settings.vectors or Path())
    network = BiLstm(*frequent_words(vectors.keyed))
    ids, dev = network.ids(data.train["text"]), labelled(network.ids(data.dev["text"]), data.dev)
    known = np.mean([place > 0 for one in ids for place in one] or [False])
    if not known:
        raise ValueError(f"{vectors.name} knows no word of the training sentences. Give vectors of their language.")
    facts = fit_network(network, settings, ids, data, bar, data_collator=padded, eval_dataset=dev)
    network.cpu().save(folder)
    used = {"name": vectors.name, **vectors.identity}
    return lambda texts: network.predict_proba(texts)[:, 1], {
        "vectors": used, "words_known": len(network.words), "train_words_known": float(known), **facts
    }  # fmt: skip


class NewHead:
    """An ``auto_class`` of ``load_model``: an encoder under a new head for two labels; only it must have weights."""

    @staticmethod
    def from_pretrained(model: str, *, config: Any, **how: Any) -> tuple[Any, dict[str, Any]]:
        config.id2label, config.label2id = dict(enumerate(LABELS)), {name: at for at, name in enumerate(LABELS)}
        loaded, info = AutoModelForSequenceClassification.from_pretrained(
            model, config=config, ignore_mismatched_sizes=True, **how
        )
        body = f"{loaded.base_model_prefix}."
        missing = [key for key in info["missing_keys"] if key.startswith(body) and "pooler" not in key]
        return loaded, {**info, "missing_keys": missing}


def _train_encoder(settings: TrainSettings, data: SentimentData, folder: Path, bar: Bar) -> Fitted:
    """A new classification head and all weights of the encoder; the last epoch stays."""
    name = settings.encoder or "bert-base-uncased"
    model, tokenizer, pin = loading.load_model(name, NewHead, LoadOptions(device=settings.device))
    if tokenizer.pad_token_id is None:
        raise UsageError("The encoder's tokenizer has no padding token. Give another one with --encoder.")
    limit, texts = loading.length_limit(tokenizer, model), list(data.train["text"])
    cut = sum(len(one) > limit for one in tokenizer(texts, verbose=False)["input_ids"])
    ids = tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
    collate = partial(padded, padding=tokenizer.pad_token_id)
    facts = fit_network(model, settings, ids, data, bar, data_collator=collate)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    scorer = TextClassifierScorer(model, tokenizer, model_id="", identity={})

    def read(texts: list[str]) -> NDArray[np.float64]:
        return np.array([one.score for one in scorer.score([Prompt(text=one) for one in texts])])

    return read, {"encoder": loading.model_name(name), **pin, **facts, "train_cut": cut}


FITS = {BOW: _train_bow, BILSTM: _train_bilstm, ENCODER: _train_encoder}
