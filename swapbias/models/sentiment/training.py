"""Train the three kinds of sentiment models of the occupation study: bag of words, bidirectional LSTM, encoder."""

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from glob import escape
from importlib.metadata import version
from pathlib import Path
from re import compile as pattern
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import cross_entropy, embedding
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from swapbias.errors import UsageError
from swapbias.files import file_sha256, locked_place, parse_json
from swapbias.models.base import Bar, LoadOptions, Progress, Say, Scorer, validated
from swapbias.models.classifier import ProbabilityScorer, read_saved
from swapbias.models.clinical.features import SUFFIXES, StaticVectors
from swapbias.models.loading import (
    RECORD,
    SKOPS,
    dev_accuracy_of,
    first_line,
    length_batches,
    length_limit,
    load_extra,
    load_model,
    model_name,
    pick_device,
    training_record,
)
from swapbias.models.sentiment.sst2 import GenderAudit, Labelled, SentimentData, gender_audit, load_sentiment_data
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.privacy import for_owner_alone, is_credentialed, mark

KINDS = BOW, BILSTM, ENCODER = "bow", "bilstm", "encoder"
LABELS = ("NEGATIVE", "POSITIVE")
EPOCHS, RATES = {BILSTM: 30, ENCODER: 3}, {BILSTM: 1e-3, ENCODER: 2e-5}
PATIENCE = 3  # epochs of a bilstm without a smaller loss on dev
WARM_UP, DECAY, CLIP = 0.1, 0.01, 1.0  # of an encoder: share of the steps, weight decay, largest norm of a gradient
UNITS, DROPOUT, MOST_WORDS = 128, 0.25, 50_000  # of a bilstm: units in each direction
_BUCKETS = 20  # batches that are drawn together and cut by length, so that little is padded
# Training sentences are cut like "do n't" and "it 's": other texts are cut so, too.
_TOKEN = pattern(r"\w+(?=n't\b)|n't\b|'\w+|\w+(?:-\w+)*|[^\w\s]")
_REMEDY = "Train the model again."

Ids = Sequence[Sequence[int]]


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
    allow_pickle: bool = False

    def check(self) -> None:
        """Refuse what does not fit the kind, with a UsageError."""
        LoadOptions(device=self.device)
        for option, value, able in (
            ("vectors", self.vectors, (BILSTM,)),
            ("encoder", self.encoder, (ENCODER,)),
            ("epochs", self.epochs, (BILSTM, ENCODER)),
        ):
            if value is not None and self.kind not in able:
                raise UsageError(
                    f"--{option} is for {' and '.join(able)}, and {self.kind} is to be trained. Drop it."
                )
        if self.kind == BILSTM and not (self.vectors and self.vectors.name.lower().endswith(SUFFIXES)):
            found = self.vectors.name if self.vectors else "no file"
            raise UsageError(f"A bilstm needs a file of word vectors ({', '.join(SUFFIXES)}), not {found}.")


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model: accuracy on the ``n_dev`` dev sentences that it can read (NaN: none), and its data's audit."""

    folder: Path
    dev_accuracy: float
    n_dev: int
    audit: GenderAudit


def train_model(settings: TrainSettings, out: Path, *, say: Say, bar: Bar) -> Trained:
    """Train a model into a new folder, with a record of how in ``training.json``.

    The folder appears whole at the end: an error or a stop leaves nothing; what a process that is killed outright
    leaves beside it (``.NAME.`` and a random ending) goes when the same folder is made. Accuracy counts
    P(positive) above .5 as positive. A bilstm chooses its epoch on the dev sentences, so its accuracy there is a
    little too high.

    Raises:
        UsageError: options that do not fit, a folder that is not empty, a missing package.
        ValueError: data, vectors or an encoder that cannot be read.
        OSError: the folder cannot be written.
    """
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
        making = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            scorer, facts, packages = FITS[settings.kind](settings, data, making, say, bar)
            positive = scorer.predict_proba(_texts(data.dev))[:, 1]
            known = ~np.isnan(positive)
            right = (positive > 0.5) == [row.label == 1 for row in data.dev]
            accuracy = float(np.mean(right[known])) if known.any() else math.nan
            write_record(making, {
                "kind": settings.kind,
                "dev_accuracy": accuracy,
                "data": {"description": data.description, "sha256": data.sha256},
                "sizes": {"train": len(data.train), "dev": len(data.dev)},
                "seed": settings.seed,
                "model": facts,
                "audit": audit,
                "versions": {name: version(name) for name in ("swapbias", "numpy", *packages)},
            })  # fmt: skip
            mark(making) if private else making.chmod(0o755)
            if target.exists():
                target.rmdir()
            making.rename(target)
        except SafetensorError as error:
            raise OSError(None, f"the model cannot be written ({error})", str(target.parent)) from error
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return Trained(out, accuracy, int(known.sum()), audit)


def _texts(rows: Sequence[Labelled]) -> list[str]:
    return [row.text for row in rows]


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write how a model was trained; NaN becomes null."""
    from pydantic_core import to_json

    (folder / RECORD).write_bytes(to_json(record, indent=2, inf_nan_mode="null"))


def load_sentiment_model(
    folder: str | Path, *, options: LoadOptions | None = None, say: Say | None = None
) -> ProbabilityScorer:
    """A bag of words or bidirectional LSTM of ``swapbias train`` on the CPU; its name is the folder's.

    A UsageError for another folder or a missing package, a ValueError for a damaged file.
    """
    place = Path(folder)
    kind = training_record(place).get("kind")
    if kind == BOW:
        model = read_saved(place / SKOPS, extra="train", allow_pickle=False, say=say, remedy=_REMEDY)
    elif kind == BILSTM:
        try:
            model = BiLstm.load(place)
        except Exception as error:
            raise ValueError(f"{place.name} cannot be read ({first_line(error)}). {_REMEDY}") from error
    else:
        raise UsageError(f"{place}: its {RECORD} tells no bow or bilstm. Give a folder that swapbias train wrote.")
    size = (options or LoadOptions()).batch_size
    files = sorted([*place.glob("model.*"), *place.glob("bilstm.json")])
    sha256 = hashlib.sha256("".join(f"{one.name} {file_sha256(one)}\n" for one in files).encode()).hexdigest()
    identity = {"architecture": kind, "sha256": sha256, "dev_accuracy": dev_accuracy_of(place)}
    return _scorer(model, place.resolve().name, size, identity)


def _scorer(
    model: Any, name: str = "", size: int = 64, identity: Mapping[str, Any] | None = None
) -> ProbabilityScorer:
    options = LoadOptions(batch_size=size)
    return ProbabilityScorer(model, model_id=name, options=options, labels=LABELS, identity=identity or {})


# --- bag of words -----------------------------------------------------------------------------------------

Fitted = tuple[Scorer, Mapping[str, Any], Sequence[str]]  # what the record says of the model, and packages


def fit_bow(texts: Sequence[str], labels: Sequence[int]) -> Any:
    """TF-IDF of single words and logistic regression, scikit-learn's defaults; a ValueError without words."""
    words = load_extra("sklearn.feature_extraction.text", extra="train").TfidfVectorizer()
    regression = load_extra("sklearn.linear_model", extra="train").LogisticRegression(max_iter=1_000)
    try:
        return load_extra("sklearn.pipeline", extra="train").make_pipeline(words, regression).fit(texts, labels)
    except ValueError as error:  # an empty vocabulary
        raise ValueError(f"The training sentences hold no words ({error}). Check them.") from error


def _train_bow(settings: TrainSettings, data: SentimentData, folder: Path, say: Say, bar: Bar) -> Fitted:
    """Fitted in one go; the seed changes nothing. skops runs nothing when the file is read."""
    advance = bar("Training bow", 1)
    skops = load_extra("skops.io", extra="train")  # known to be missing before anything is fitted
    model = fit_bow(_texts(data.train), [row.label for row in data.train])
    skops.dump(model, folder / SKOPS)
    advance(1)
    return _scorer(model), {"words": len(model[0].vocabulary_)}, ("scikit-learn", "skops")


# --- networks ---------------------------------------------------------------------------------------------


def fit_network(
    network: Any,
    logits: Callable[[Ids], torch.Tensor],
    ids: Ids,
    data: SentimentData,
    settings: TrainSettings,
    on_progress: Progress,
    dev_loss: Callable[[], float] | None = None,
) -> list[float]:
    """Train with AdamW; on the CPU the same seed gives the same network.

    With ``dev_loss`` the rate is constant, and training ends where the loss has not fallen for three epochs; the best
    epoch stays, and the losses are returned. Without it the rate rises over the first tenth of the steps and falls to
    0 at the end.
    """
    epochs, size = settings.epochs or EPOCHS[settings.kind], settings.batch_size
    steps = epochs * math.ceil(len(ids) / size)
    warm = max(1, round(WARM_UP * steps))

    def share_of_rate(step: int) -> float:
        return 1.0 if dev_loss else min((step + 1) / warm, (steps - step) / max(1, steps - warm))

    rate = settings.rate or RATES[settings.kind]
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0 if dev_loss else DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share_of_rate)
    order = torch.Generator().manual_seed(settings.seed)
    losses: list[float] = []
    best: dict[str, Any] = {}
    for _ in range(epochs):
        network.train()
        for members in shuffled_batches([len(one) for one in ids], size, order):
            found = logits([ids[at] for at in members])
            truth = torch.tensor([data.train[at].label for at in members], device=found.device)
            optimizer.zero_grad()
            cross_entropy(found, truth).backward()  # type: ignore[no-untyped-call]
            if not dev_loss:
                clip_grad_norm_(network.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            on_progress(len(members) / len(ids))
        network.eval()
        if dev_loss:
            losses.append(dev_loss())
            if losses[-1] == min(losses):
                best = deepcopy(network.state_dict())
            if len(losses) - 1 - int(np.argmin(losses)) >= PATIENCE:
                break
    if best:
        network.load_state_dict(best)
    return losses


def shuffled_batches(lengths: Sequence[int], size: int, order: torch.Generator) -> Iterator[list[int]]:
    """All indices once in batches of like length, in a drawn order."""
    drawn = torch.randperm(len(lengths), generator=order).tolist()
    batches = []
    for start in range(0, len(drawn), size * _BUCKETS):
        bucket = sorted(drawn[start : start + size * _BUCKETS], key=lambda at: lengths[at])
        batches += [bucket[at : at + size] for at in range(0, len(bucket), size)]
    for place in torch.randperm(len(batches), generator=order).tolist():
        yield batches[place]


def tokens(text: str) -> list[str]:
    """The lower-case words and marks of a text, contractions cut.

    >>> tokens("This lady doesn't paint; she's a gym-trainer.")
    ['this', 'lady', 'does', "n't", 'paint', ';', 'she', "'s", 'a', 'gym-trainer', '.']
    """
    return _TOKEN.findall(text.lower().replace("’", "'"))


def frequent_words(keyed: Any, most: int = MOST_WORDS) -> tuple[list[str], torch.Tensor]:
    """The most frequent words of gensim KeyedVectors in lower case, by their counts, else in the order of the file.

    Of several spellings the lower-case one counts, else the most frequent. Shape of the vectors: (words + 1,
    dimension); the first is zero, for unknown words.
    """
    counts, size = np.asarray(keyed.expandos.get("count", [])), len(keyed.index_to_key)
    rows: dict[str, int] = {}
    for at in np.argsort(-counts, kind="stable") if len(counts) == size else range(size):
        word = str(keyed.index_to_key[at]).lower()
        rows.setdefault(word, int(keyed.key_to_index.get(word, at)))
        if len(rows) == most:
            break
    vectors = np.zeros((len(rows) + 1, keyed.vector_size), dtype=np.float32)
    vectors[1:] = keyed.vectors[list(rows.values())]
    return list(rows), torch.from_numpy(vectors)


class BiLstm(nn.Module):
    """A bidirectional LSTM over frozen word vectors: last states of both directions, dropout, one linear layer."""

    def __init__(
        self, words: Sequence[str], vectors: torch.Tensor, *, units: int = UNITS, dropout: float = DROPOUT
    ) -> None:
        super().__init__()
        self.words, self.vectors = {word: at for at, word in enumerate(words, start=1)}, vectors
        self.lstm = nn.LSTM(vectors.shape[1], units, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * units, 1)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The row of the vector of each word of each text; 0 where it is unknown."""
        return [[self.words.get(word, 0) for word in tokens(text)] for text in texts]

    def forward(self, ids: Ids) -> torch.Tensor:
        """Logits of negative (always 0) and positive, shape (n, 2), of sentences of one or more words."""
        lengths = torch.tensor([len(one) for one in ids])
        padded = pad_sequence([torch.tensor(one) for one in ids], batch_first=True)
        read = self.dropout(embedding(padded, self.vectors).to(self.head.weight.device))
        packed = pack_padded_sequence(read, lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        positive: torch.Tensor = self.head(self.dropout(torch.cat([last[0], last[1]], dim=-1)))
        return torch.cat([torch.zeros_like(positive), positive], dim=-1)

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Shape (n, 2), the probability of positive sentiment second; NaN for a text without a word or mark."""
        ids, found = self.ids(texts), np.full((len(texts), 2), np.nan)
        for members in length_batches([len(one) for one in ids], 64):
            if ids[members[0]]:
                with torch.inference_mode():
                    found[members] = self([ids[at] for at in members]).double().softmax(dim=-1).cpu().numpy()
        return found

    def save(self, folder: Path) -> None:
        weights = {f"network.{name}": one.cpu().contiguous() for name, one in self.state_dict().items()}
        save_file({**weights, "vectors": self.vectors}, folder / "model.safetensors")
        sizes = {"units": self.lstm.hidden_size, "dropout": self.dropout.p, "words": list(self.words)}
        (folder / "bilstm.json").write_text(json.dumps(sizes, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "BiLstm":
        """What ``save`` wrote, on the CPU; many errors where a file is missing or damaged."""
        sizes = parse_json((folder / "bilstm.json").read_text(encoding="utf-8"))
        weights = load_file(folder / "model.safetensors")
        vectors = weights.pop("vectors")
        if len(vectors) != len(sizes["words"]) + 1:
            raise ValueError(f"{len(vectors)} vectors and {len(sizes['words'])} words")
        network = cls(sizes["words"], vectors, units=sizes["units"], dropout=sizes["dropout"])
        network.load_state_dict({name.removeprefix("network."): one for name, one in weights.items()})
        return network.eval()


def _train_bilstm(settings: TrainSettings, data: SentimentData, folder: Path, say: Say, bar: Bar) -> Fitted:
    where = pick_device(settings.device)
    vectors = StaticVectors.load(settings.vectors or Path(), allow_pickle=settings.allow_pickle, say=say)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = BiLstm(*frequent_words(vectors.keyed)).to(where)
        ids = network.ids(_texts(data.train))
        known = np.mean([place > 0 for one in ids for place in one] or [False])
        if not known:
            raise ValueError(
                f"{vectors.name} knows no word of the training sentences. Give vectors of their language."
            )
        truth = np.array([row.label for row in data.dev])

        def dev_loss() -> float:
            right = network.predict_proba(_texts(data.dev))[np.arange(len(truth)), truth]
            return float(-np.mean(np.log(np.clip(right, 1e-12, 1))))

        epochs = settings.epochs or EPOCHS[BILSTM]
        advance = bar("Training bilstm", epochs)
        losses = fit_network(network, network, ids, data, settings, advance, dev_loss)
        advance(epochs - len(losses))
    network.cpu().save(folder)
    facts = {
        "vectors": {"name": vectors.name, **vectors.identity}, "words_kept": len(network.words),
        "train_words_known": float(known), "dev_losses": losses, **_steps(settings),
    }  # fmt: skip
    return _scorer(network), facts, ("torch", "gensim")


def _steps(settings: TrainSettings) -> dict[str, Any]:
    rate = settings.rate or RATES[settings.kind]
    return {"epochs": settings.epochs or EPOCHS[settings.kind], "batch_size": settings.batch_size, "rate": rate}


class NewHead:
    """An ``auto_class`` of ``load_model``: an encoder under a new head for two labels; only it must have weights."""

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


def _train_encoder(settings: TrainSettings, data: SentimentData, folder: Path, say: Say, bar: Bar) -> Fitted:
    """A new classification head and all weights of the encoder; the last epoch stays."""
    name = settings.encoder or "bert-base-uncased"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model, tokenizer, pin = load_model(name, NewHead, LoadOptions(device=settings.device))
        if tokenizer.pad_token_id is None:
            raise UsageError("The encoder's tokenizer has no padding token. Give another one with --encoder.")

        def logits(ids: Ids) -> torch.Tensor:
            rows = [torch.tensor(one, device=model.device) for one in ids]
            padded = pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
            is_read = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            found: torch.Tensor = model(input_ids=padded, attention_mask=is_read).logits
            return found

        limit, texts = length_limit(tokenizer, model), _texts(data.train)
        cut = sum(len(one) > limit for one in tokenizer(texts, verbose=False)["input_ids"])
        ids = tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
        steps = _steps(settings)
        fit_network(model, logits, ids, data, settings, bar("Training encoder", steps["epochs"]))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    scorer = TextClassifierScorer(model, tokenizer, model_id="", identity={})
    return scorer, {"encoder": model_name(name), **pin, **steps, "train_cut": cut}, ("torch", "transformers")


FITS = {BOW: _train_bow, BILSTM: _train_bilstm, ENCODER: _train_encoder}
