"""Train the three kinds of sentiment models of the occupation study: bag of words, bidirectional LSTM, encoder."""

import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from glob import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_callback import EarlyStoppingCallback, PrinterCallback

from swapbias.errors import UsageError, need
from swapbias.files import locked_place
from swapbias.models import loading
from swapbias.models.base import Bar, LoadOptions, Progress, Scorer, validated
from swapbias.models.classifier import ProbabilityScorer, read_saved
from swapbias.models.clinical.features import SUFFIXES, StaticVectors
from swapbias.models.sentiment.bilstm import BiLstm, frequent_words
from swapbias.models.sentiment.sst2 import GenderAudit, Labelled, SentimentData, gender_audit, load_sentiment_data
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.privacy import for_owner_alone, is_credentialed, mark

KINDS = BOW, BILSTM, ENCODER = "bow", "bilstm", "encoder"
LABELS = ("NEGATIVE", "POSITIVE")
EPOCHS, RATES = {BILSTM: 30, ENCODER: 3}, {BILSTM: 1e-3, ENCODER: 2e-5}
PATIENCE = 3  # epochs of a bilstm without a smaller loss on dev
_OPTIONS = {BOW: (), BILSTM: ("vectors", "epochs"), ENCODER: ("encoder", "epochs")}  # beside those of every kind
_PACKAGES = {
    BOW: ("scikit-learn", "skops"),
    BILSTM: ("torch", "transformers", "gensim"),
    ENCODER: ("torch", "transformers"),
}

Fitted = tuple[Scorer, Mapping[str, Any]]  # and what the record says of the model


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

    Accuracy counts P(positive) above .5 as positive; of a bilstm, which chooses its epoch on the dev sentences, it is
    a little too high. UsageError: options that do not fit, a folder that is not empty, a missing package. ValueError:
    data, vectors or an encoder that cannot be read. OSError: the folder cannot be written.
    """
    from pydantic_core import to_json

    settings.check()
    target = out.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    private = Path(settings.data).exists() and is_credentialed(Path(settings.data))
    with for_owner_alone(private), locked_place(target):
        for unfinished in target.parent.glob(f".{escape(target.name)}.????????"):  # of processes that were killed
            shutil.rmtree(unfinished, ignore_errors=True)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{target} is a file or a folder that holds something. Choose a new folder with --out.")
        data = load_sentiment_data(settings.data)
        audit = gender_audit(data.train)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as place:
            making = Path(place, "model")
            making.mkdir()
            set_seed(settings.seed)
            try:
                scorer, facts = FITS[settings.kind](settings, data, making, bar)
            except SafetensorError as error:
                raise OSError(None, f"the model cannot be written ({error})", str(target.parent)) from error
            positive = scorer.predict_proba(_texts(data.dev))[:, 1]
            known = ~np.isnan(positive)
            right = (positive > 0.5) == [row.label == 1 for row in data.dev]
            accuracy = float(np.mean(right[known])) if known.any() else math.nan
            packages = ("swapbias", "numpy", *_PACKAGES[settings.kind])
            record = {
                "kind": settings.kind,
                "dev_accuracy": accuracy,
                "data": {"description": data.description, "sha256": data.sha256},
                "sizes": {"train": len(data.train), "dev": len(data.dev)},
                "seed": settings.seed,
                "model": facts,
                "audit": audit,
                "versions": {name: version(name) for name in packages},
            }
            (making / loading.RECORD).write_bytes(to_json(record, indent=2, inf_nan_mode="null"))
            mark(making) if private else making.chmod(0o755)
            if target.exists():
                target.rmdir()
            making.rename(target)
    return Trained(out, accuracy, int(known.sum()), audit)


def _texts(rows: Sequence[Labelled]) -> list[str]:
    return [row.text for row in rows]


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
    sha256, accuracy = loading.files_pin(str(place))["sha256"], loading.dev_accuracy_of(place)
    pin = {"architecture": kind, "sha256": sha256, "dev_accuracy": accuracy}
    return _scorer(model, place.resolve().name, options, pin)


def _scorer(
    model: Any, name: str = "", options: LoadOptions | None = None, identity: Mapping[str, Any] | None = None
) -> ProbabilityScorer:
    how = options or LoadOptions()
    return ProbabilityScorer(model, model_id=name, options=how, labels=LABELS, identity=identity or {})


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
    model = fit_bow(_texts(data.train), [row.label for row in data.train])
    import skops.io

    skops.io.dump(model, folder / loading.SKOPS)
    advance(1)
    return _scorer(model), {"words": len(model[0].vocabulary_)}


# --- networks ---------------------------------------------------------------------------------------------


class _Advance(TrainerCallback):
    def __init__(self, advance: Progress) -> None:
        self.advance = advance

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.advance(state.num_train_epochs / state.max_steps)


def fit_network(
    network: Any, settings: TrainSettings, ids: Sequence[Sequence[int]], data: SentimentData, bar: Bar, **more: Any
) -> dict[str, Any]:
    """Train with transformers' ``Trainer``; on the CPU the same seed gives the same network. What the record says.

    The rate rises over the first tenth of the steps and falls to 0 at the end. With an ``eval_dataset`` training ends
    where the loss there has not fallen for three epochs, and the best epoch stays. ``network`` takes input_ids,
    attention_mask and labels, and returns a loss and logits; ``ids`` are of the training sentences; ``more``:
    arguments of the Trainer.
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


def labelled(ids: Sequence[Sequence[int]], rows: Sequence[Labelled]) -> list[dict[str, Any]]:
    """Sentences as a Trainer takes them."""
    return [{"input_ids": one, "labels": row.label} for one, row in zip(ids, rows, strict=True)]


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
    ids, dev = network.ids(_texts(data.train)), labelled(network.ids(_texts(data.dev)), data.dev)
    known = np.mean([place > 0 for one in ids for place in one] or [False])
    if not known:
        raise ValueError(f"{vectors.name} knows no word of the training sentences. Give vectors of their language.")
    facts = fit_network(network, settings, ids, data, bar, data_collator=padded, eval_dataset=dev)
    network.cpu().save(folder)
    used = {"name": vectors.name, **vectors.identity}
    return _scorer(network), {
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
    limit, texts = loading.length_limit(tokenizer, model), _texts(data.train)
    cut = sum(len(one) > limit for one in tokenizer(texts, verbose=False)["input_ids"])
    ids = tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
    collate = partial(padded, padding=tokenizer.pad_token_id)
    facts = fit_network(model, settings, ids, data, bar, data_collator=collate)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    scorer = TextClassifierScorer(model, tokenizer, model_id="", identity={})
    return scorer, {"encoder": loading.model_name(name), **pin, **facts, "train_cut": cut}


FITS = {BOW: _train_bow, BILSTM: _train_bilstm, ENCODER: _train_encoder}
