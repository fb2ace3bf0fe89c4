"""A bidirectional LSTM over frozen word vectors that tells positive sentences from negative ones."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, embedding
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from swapbias.files import parse_json
from swapbias.models.loading import length_batches
from swapbias.models.scorer import Progress
from swapbias.models.sentiment.sst2 import Labelled

Floats = NDArray[np.float64]
WEIGHTS, SETTINGS = "model.safetensors", "bilstm.json"
UNITS, DROPOUT = 128, 0.25  # units in each direction
RATE, EPOCHS, PATIENCE = 1e-3, 30, 3
MOST_WORDS = 50_000
_BUCKETS = 20  # batches that are drawn together and cut by length, so that little is padded
# Training sentences are cut like "do n't" and "it 's": other texts are cut so, too.
_TOKEN = re.compile(r"\w+(?=n't\b)|n't\b|'\w+|\w+(?:-\w+)*|[^\w\s]")


def tokens(text: str) -> list[str]:
    """The lower-case words and marks of a text, contractions cut.

    >>> tokens("This lady doesn't paint; she's a gym-trainer.")
    ['this', 'lady', 'does', "n't", 'paint', ';', 'she', "'s", 'a', 'gym-trainer', '.']
    """
    return _TOKEN.findall(text.lower().replace("’", "'"))


@dataclass(frozen=True, slots=True)
class Words:
    """The words a model knows with their vectors; place 0 is "unknown", the zero vector.

    Attributes:
        places: word -> row of the vectors, from 1.
        vectors: shape (words + 1, dimension).
    """

    places: Mapping[str, int]
    vectors: torch.Tensor

    @classmethod
    def of(cls, keyed: Any, *, most: int = MOST_WORDS) -> "Words":
        """The most frequent words of gensim KeyedVectors: by their counts, else in the order of the file.

        Words are kept in lower case. Of several spellings the lower-case one counts, else the most frequent.
        """
        counts = np.asarray(keyed.expandos.get("count", []))
        count = len(keyed.index_to_key)
        order = np.argsort(-counts, kind="stable") if len(counts) == count else range(count)
        rows: dict[str, int] = {}
        for at in order:
            word = str(keyed.index_to_key[at]).lower()
            rows.setdefault(word, int(keyed.key_to_index.get(word, at)))
            if len(rows) == most:
                break
        vectors = np.zeros((len(rows) + 1, keyed.vector_size), dtype=np.float32)
        vectors[1:] = keyed.vectors[list(rows.values())]
        return cls({word: place for place, word in enumerate(rows, start=1)}, torch.from_numpy(vectors))

    def ids(self, text: str) -> list[int]:
        """The place of each word of a text; 0 where it is unknown."""
        return [self.places.get(word, 0) for word in tokens(text)]

    def known_share(self, texts: Sequence[str]) -> float:
        """Share of the words of all texts that are known, 0 to 1; 0 where there is no word."""
        known = [place > 0 for text in texts for place in self.ids(text)]
        return sum(known) / len(known) if known else 0.0


class BiLstm(nn.Module):
    """Word ids -> one logit, above 0 positive: the last states of both directions, dropout, one linear layer."""

    def __init__(self, dimension: int, *, units: int = UNITS, dropout: float = DROPOUT) -> None:
        """Random weights, from torch's current seed."""
        super().__init__()
        self.lstm = nn.LSTM(dimension, units, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * units, 1)

    def forward(self, ids: Sequence[Sequence[int]], vectors: torch.Tensor) -> torch.Tensor:
        """Shape (n,): the logit of each sentence of one or more words; what is padded is not read."""
        lengths = torch.tensor([len(one) for one in ids])
        padded = pad_sequence([torch.tensor(one, device=vectors.device) for one in ids], batch_first=True)
        read = self.dropout(embedding(padded, vectors))
        packed = pack_padded_sequence(read, lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        logits: torch.Tensor = self.head(self.dropout(torch.cat([last[0], last[1]], dim=-1)))
        return logits.squeeze(-1)


@dataclass(frozen=True, slots=True)
class SentimentLstm:
    """A trained network with its words."""

    network: BiLstm
    words: Words

    def probabilities(self, texts: Sequence[str], *, batch_size: int = 64) -> Floats:
        """Shape (n,): the probability of positive sentiment; NaN for a text without a word or mark."""
        ids = [self.words.ids(text) for text in texts]
        found = np.full(len(texts), np.nan)
        self.network.eval()
        for members in length_batches([len(one) for one in ids], batch_size):
            if ids[members[0]]:
                with torch.inference_mode():
                    logits = self.network([ids[at] for at in members], self.words.vectors)
                found[members] = torch.sigmoid(logits.double()).cpu().numpy()
        return found

    def save(self, folder: Path) -> None:
        """Weights and vectors as safetensors, sizes and words as JSON."""
        tensors = {f"network.{name}": one for name, one in self.network.state_dict().items()}
        tensors["vectors"] = self.words.vectors
        save_file({name: one.cpu().contiguous() for name, one in tensors.items()}, folder / WEIGHTS)
        sizes = {"units": self.network.lstm.hidden_size, "dropout": self.network.dropout.p}
        text = json.dumps({**sizes, "words": list(self.words.places)}, ensure_ascii=False)
        (folder / SETTINGS).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "SentimentLstm":
        """What ``save`` wrote, on the CPU.

        Raises:
            OSError, KeyError, ValueError, RuntimeError, SafetensorError: a file is missing or damaged.
        """
        settings = parse_json((folder / SETTINGS).read_text(encoding="utf-8"))
        tensors = load_file(folder / WEIGHTS)
        vectors = tensors.pop("vectors")
        if len(vectors) != len(settings["words"]) + 1:
            raise ValueError(f"{len(vectors)} vectors and {len(settings['words'])} words")
        network = BiLstm(vectors.shape[1], units=settings["units"], dropout=settings["dropout"])
        network.load_state_dict({name.removeprefix("network."): one for name, one in tensors.items()})
        return cls(network.eval(), Words({word: at for at, word in enumerate(settings["words"], start=1)}, vectors))


def fit_lstm(
    words: Words,
    train: Sequence[Labelled],
    dev: Sequence[Labelled],
    *,
    seed: int,
    epochs: int = EPOCHS,
    batch_size: int = 32,
    rate: float = RATE,
    device: torch.device | None = None,
    on_progress: Progress | None = None,
) -> tuple[SentimentLstm, list[float]]:
    """Train with Adam until the loss on dev has not fallen for three epochs; the best epoch is kept.

    On the CPU the same seed gives the same network. ``on_progress`` is told shares of an epoch.

    Returns:
        The network, on the CPU, and the mean loss on dev after each epoch (in nats).
    """
    where = device or torch.device("cpu")
    moved = Words(words.places, words.vectors.to(where))
    order = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = BiLstm(words.vectors.shape[1]).to(where)
        optimizer = torch.optim.Adam(network.parameters(), lr=rate)
        losses: list[float] = []
        best = deepcopy(network.state_dict())
        for _ in range(epochs):
            _epoch(network, moved, train, optimizer, order, batch_size, on_progress or (lambda share: None))
            losses.append(_dev_loss(SentimentLstm(network, moved), dev))
            if losses[-1] == min(losses):
                best = deepcopy(network.state_dict())
            if len(losses) - 1 - int(np.argmin(losses)) >= PATIENCE:
                break
    network.load_state_dict(best)
    return SentimentLstm(network.cpu().eval(), words), losses


def _epoch(
    network: BiLstm,
    words: Words,
    train: Sequence[Labelled],
    optimizer: Any,
    order: torch.Generator,
    size: int,
    on_progress: Progress,
) -> None:
    """One pass over the training sentences."""
    ids = [words.ids(row.text) for row in train]
    network.train()
    for members in shuffled_batches([len(one) for one in ids], size, order):
        truth = torch.tensor([float(train[at].label) for at in members], device=words.vectors.device)
        loss = binary_cross_entropy_with_logits(network([ids[at] for at in members], words.vectors), truth)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        on_progress(len(members) / len(train))


def _dev_loss(model: SentimentLstm, dev: Sequence[Labelled]) -> float:
    found = model.probabilities([row.text for row in dev])
    right = np.where([row.label == 1 for row in dev], found, 1 - found)
    return float(-np.mean(np.log(np.clip(right, 1e-12, 1))))


def shuffled_batches(lengths: Sequence[int], size: int, order: torch.Generator) -> Iterator[list[int]]:
    """All indices once in batches of like length, in a drawn order."""
    drawn = torch.randperm(len(lengths), generator=order).tolist()
    batches = []
    for start in range(0, len(drawn), size * _BUCKETS):
        bucket = sorted(drawn[start : start + size * _BUCKETS], key=lambda at: lengths[at])
        batches += [bucket[at : at + size] for at in range(0, len(bucket), size)]
    for place in torch.randperm(len(batches), generator=order).tolist():
        yield batches[place]
