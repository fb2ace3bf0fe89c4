"""A bidirectional LSTM over frozen word vectors, and the words that it reads."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from swapbias.files import parse_json
from swapbias.models.loading import length_batches

# Training sentences are cut like "do n't" and "it 's": other texts are cut so, too.
_TOKEN = re.compile(r"\w+(?=n't\b)|n't\b|'\w+|\w+(?:-\w+)*|[^\w\s]")


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

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
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
        for members in length_batches([len(one) for one in ids], 64):
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
