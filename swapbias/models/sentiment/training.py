"""Train the three kinds of sentiment models of the occupation study: bag of words, bidirectional LSTM, encoder."""

import math
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence

from swapbias.errors import UsageError
from swapbias.files import locked_place
from swapbias.models.classifier import TextClassifierScorer
from swapbias.models.clinical.features import SUFFIXES, StaticVectors, load_extra
from swapbias.models.loading import length_limit, load_model, model_name, pick_device
from swapbias.models.scorer import DEVICES, Bar, LoadOptions, Progress, Say
from swapbias.models.sentiment.bilstm import EPOCHS, RATE, Words, fit_lstm, shuffled_batches
from swapbias.models.sentiment.models import LABELS, fit_bow, save_bow, write_record
from swapbias.models.sentiment.sst2 import GenderAudit, Labelled, SentimentData, gender_audit, load_sentiment_data
from swapbias.privacy import for_owner_alone, is_credentialed, mark
from swapbias.studies import PROMPT_COLUMNS, Prompt

WARM_UP, DECAY, CLIP = 0.1, 0.01, 1.0  # share of the steps, weight decay, largest norm of a gradient


class NewHead:
    """What ``load_model`` calls: the encoder under a new head for two labels; only the encoder must have weights."""

    @staticmethod
    def from_pretrained(model: str, *, config: Any, **how: Any) -> tuple[Any, dict[str, Any]]:
        from transformers import AutoModelForSequenceClassification

        config.id2label, config.label2id = dict(enumerate(LABELS)), {name: at for at, name in enumerate(LABELS)}
        loaded, info = AutoModelForSequenceClassification.from_pretrained(
            model, config=config, ignore_mismatched_sizes=True, **how
        )
        body = f"{loaded.base_model_prefix}."
        missing = [key for key in info["missing_keys"] if key.startswith(body) and "pooler" not in key]
        return loaded, {**info, "missing_keys": missing}


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """How an encoder is tuned: epochs, texts per step, the highest learning rate, the id that fills up a batch."""

    epochs: int
    batch_size: int
    rate: float
    padding: int


def encoded(tokenizer: Any, model: Any, texts: list[str]) -> tuple[list[list[int]], int]:
    """Token ids of each text, cut to what the model reads, and how many texts were cut."""
    if tokenizer.pad_token_id is None:
        raise UsageError("The encoder's tokenizer has no padding token. Give another one with --encoder.")
    limit = length_limit(tokenizer, model)
    whole = [len(one) for one in tokenizer(texts, verbose=False)["input_ids"]]
    ids = tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
    return ids, sum(length > limit for length in whole)


def tune(
    model: Any,
    ids: list[list[int]],
    labels: list[int],
    plan: TuningPlan,
    order: torch.Generator,
    on_progress: Progress,
) -> None:
    """AdamW with a rate that rises over the first tenth of the steps and falls to 0 at the end."""
    steps = plan.epochs * math.ceil(len(ids) / plan.batch_size)
    warm = max(1, round(WARM_UP * steps))
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.rate, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    model.train()
    for _ in range(plan.epochs):
        for members in shuffled_batches([len(one) for one in ids], plan.batch_size, order):
            rows = [torch.tensor(ids[at]) for at in members]
            padded = pad_sequence(rows, batch_first=True, padding_value=plan.padding)
            read = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            truth = torch.tensor([labels[at] for at in members], device=model.device)
            logits = model(input_ids=padded.to(model.device), attention_mask=read.to(model.device)).logits
            loss = cross_entropy(logits, truth)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            on_progress(len(members) / len(ids))
    model.eval()


KINDS = ("bow", "bilstm", "encoder")
ENCODER, ENCODER_EPOCHS, ENCODER_RATE = "bert-base-uncased", 3, 2e-5
MAX_SEED = 2**32 - 1  # the largest that every library here takes

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """What to train, and how.

    Attributes:
        kind: ``bow``, ``bilstm`` or ``encoder``.
        data: ``sst2`` or a folder, see ``load_sentiment_data``.
        vectors: the file of word vectors of a bilstm (any dimension; 300 in the study).
        encoder: the Hub id or folder an encoder starts from; bert-base-uncased where None.
        epochs: of an encoder (3 where None), or the most of a bilstm (30), which stops early.
        seed: of the order of sentences, the new weights and dropout; 0 to ``MAX_SEED``.
        device: ``auto``, ``cpu`` or ``cuda``; on cuda a seed does not fix the last digits.
        batch_size: sentences per step.
        rate: learning rate; None: 1e-3 (bilstm) or 2e-5 (encoder).
        allow_pickle: read word vectors that are a pickle (.kv), which runs what their maker put in them.
    """

    kind: str
    data: str
    vectors: Path | None = None
    encoder: str | None = None
    epochs: int | None = None
    seed: int = 0
    device: str = "auto"
    batch_size: int = 32
    rate: float | None = None
    allow_pickle: bool = False


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model.

    Attributes:
        folder: where it is.
        dev_accuracy: share of the dev sentences that it tells right, 0..1; NaN where it can read none.
        n_dev: dev sentences that it can read.
        audit: of its training sentences.
    """

    folder: Path
    dev_accuracy: float
    n_dev: int
    audit: GenderAudit


@dataclass(frozen=True, slots=True)
class _Fitted:
    """P(positive) of each dev sentence, epochs done, and what else the record tells."""

    dev: Floats
    epochs: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    packages: Sequence[str] = ()


def train_model(settings: TrainSettings, out: Path, *, say: Say, bar: Bar) -> Trained:
    """Train a model into a new folder, with a record of how in ``training.json``.

    The folder appears whole at the end: an error or a stop leaves nothing; what a process that is killed outright
    leaves beside it (``.NAME.`` and a random ending) goes when the same folder is made. Accuracy counts
    P(positive) above .5 as positive. A bilstm chooses its epoch on the dev sentences, so its accuracy there is a
    little too high.

    Raises:
        UsageError: options that do not fit, a folder that holds something, a missing package.
        ValueError: data, vectors or an encoder that cannot be read.
        OSError: the folder cannot be written.
    """
    target = out.resolve()
    _check(settings, target)
    data = load_sentiment_data(settings.data)
    audit = gender_audit(data.train)
    target.parent.mkdir(parents=True, exist_ok=True)
    held = is_credentialed(Path(settings.data)) if Path(settings.data).exists() else False
    with for_owner_alone(held), locked_place(target):
        _sweep(target)
        making = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            fitted = _FITS[settings.kind](settings, data, making, say, bar)
            accuracy, n_dev = _accuracy(fitted.dev, data.dev)
            write_record(making, _record(settings, data, fitted, accuracy, audit))
            mark(making) if held else making.chmod(0o755)
            if target.exists():
                target.rmdir()
            making.rename(target)
        except SafetensorError as error:
            raise OSError(None, f"the model cannot be written ({error})", str(target.parent)) from error
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return Trained(out, accuracy, n_dev, audit)


def _sweep(target: Path) -> None:
    """Remove what killed processes have left for the same place: none that lives makes it, the lock says."""
    left = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}")
    for folder in target.parent.iterdir():
        if left.fullmatch(folder.name):
            shutil.rmtree(folder, ignore_errors=True)


def _accuracy(positive: Floats, rows: Sequence[Labelled]) -> tuple[float, int]:
    """Share told right among the sentences with a probability, and how many those are."""
    known = ~np.isnan(positive)
    right = (positive > 0.5) == [row.label == 1 for row in rows]
    return (float(np.mean(right[known])) if known.any() else math.nan), int(known.sum())


def _check(settings: TrainSettings, out: Path) -> None:
    kind = settings.kind
    if kind not in KINDS:
        raise UsageError(f"Unknown kind {kind!r}: expected {', '.join(KINDS)}.")
    for option, given, able in (
        ("vectors", settings.vectors, ("bilstm",)),
        ("encoder", settings.encoder, ("encoder",)),
        ("epochs", settings.epochs, ("bilstm", "encoder")),
    ):
        if given is not None and kind not in able:
            raise UsageError(f"--{option} is for {' and '.join(able)}, and {kind} is to be trained. Drop it.")
    if settings.device not in DEVICES:
        raise UsageError(f"Unknown device {settings.device!r}: expected {', '.join(DEVICES)}.")
    if kind == "bilstm" and settings.vectors is None:
        raise UsageError(f"A bilstm needs word vectors. Give a file ({', '.join(SUFFIXES)}) with --vectors.")
    if settings.vectors and not settings.vectors.name.lower().endswith(SUFFIXES):
        raise UsageError(f"{settings.vectors.name}: expected a file of word vectors ({', '.join(SUFFIXES)}).")
    if min(settings.batch_size, settings.epochs or 1) < 1 or settings.epochs == 0:
        raise UsageError(f"{settings.epochs} epochs, batch size {settings.batch_size}: expected 1 or more of each.")
    if not 0 <= settings.seed <= MAX_SEED:
        raise UsageError(f"Seed {settings.seed}: expected 0 to {MAX_SEED}. Choose a smaller one with --seed.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        with suppress(UsageError, OSError), locked_place(out):  # a killed process may have left its lock beside it
            _sweep(out)
        raise UsageError(f"{out} is a file or a folder that holds something. Choose a new folder with --out.")


def _record(
    settings: TrainSettings, data: SentimentData, fitted: _Fitted, accuracy: float, audit: GenderAudit
) -> dict[str, Any]:
    return {
        "kind": settings.kind,
        "dev_accuracy": accuracy,
        "data": {"description": data.description, "sha256": data.sha256},
        "sizes": {"train": len(data.train), "dev": len(data.dev)},
        "seed": settings.seed,
        "epochs": fitted.epochs,
        "model": fitted.facts,
        "audit": asdict(audit),
        "versions": {name: version(name) for name in ("swapbias", "numpy", *fitted.packages)},
    }


def _texts(rows: Sequence[Labelled]) -> list[str]:
    return [row.text for row in rows]


def _fit_bow(settings: TrainSettings, data: SentimentData, folder: Path, say: Say, bar: Bar) -> _Fitted:
    """Fitted in one go; the seed changes nothing."""
    advance = bar("Training bow", 1)
    load_extra("skops.io", extra="train")  # known to be missing before anything is fitted
    model, words = fit_bow(_texts(data.train), [row.label for row in data.train])
    save_bow(model, folder)
    advance(1)
    dev = np.asarray(model.predict_proba(_texts(data.dev))[:, 1], dtype=np.float64)
    return _Fitted(dev, 1, {"words": words}, ("scikit-learn", "skops"))


def _fit_bilstm(settings: TrainSettings, data: SentimentData, folder: Path, say: Say, bar: Bar) -> _Fitted:
    where = pick_device(settings.device)
    vectors = StaticVectors.load(settings.vectors or Path(), allow_pickle=settings.allow_pickle, say=say)
    words = Words.of(vectors.keyed)
    known = words.known_share(_texts(data.train))
    if not known:
        raise ValueError(f"{vectors.name} knows no word of the training sentences. Give vectors of their language.")
    epochs = settings.epochs or EPOCHS
    advance = bar("Training bilstm", epochs)
    rate = settings.rate or RATE
    size = settings.batch_size
    model, losses = fit_lstm(
        words, data.train, data.dev,
        seed=settings.seed, epochs=epochs, batch_size=size, rate=rate, device=where, on_progress=advance,
    )  # fmt: skip
    advance(epochs - len(losses))
    model.save(folder)
    facts = {
        "vectors": {"name": vectors.name, **vectors.identity},
        "words_kept": len(words.places),
        "train_words_known": known,
        "dev_losses": losses,
        "batch_size": size,
        "rate": rate,
    }
    return _Fitted(model.probabilities(_texts(data.dev)), len(losses), facts, ("torch", "gensim"))


def _fit_encoder(settings: TrainSettings, data: SentimentData, folder: Path, say: Say, bar: Bar) -> _Fitted:
    """A new classification head and all weights of the encoder; the last epoch is kept."""
    name, epochs, rate = settings.encoder or ENCODER, settings.epochs or ENCODER_EPOCHS, settings.rate or ENCODER_RATE
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model, tokenizer, pin = load_model(name, NewHead, LoadOptions(device=settings.device))
        ids, cut = encoded(tokenizer, model, _texts(data.train))
        labels = [row.label for row in data.train]
        order = torch.Generator().manual_seed(settings.seed)
        plan = TuningPlan(epochs, settings.batch_size, rate, tokenizer.pad_token_id)
        tune(model, ids, labels, plan, order, bar("Training encoder", epochs))
    scorer = TextClassifierScorer(model, tokenizer, model_id="", identity={})
    blank = Prompt(**dict.fromkeys(PROMPT_COLUMNS, ""))
    scored = scorer.score([replace(blank, text=row.text) for row in data.dev])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    facts = {"encoder": model_name(name), **pin, "batch_size": settings.batch_size, "rate": rate, "train_cut": cut}
    return _Fitted(np.array([one.score for one in scored]), epochs, facts, ("torch", "transformers"))


_FITS = {"bow": _fit_bow, "bilstm": _fit_bilstm, "encoder": _fit_encoder}
