"""Log-probabilities of texts by a causal model, with the beginnings that texts share read once."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import DynamicCache

from swapbias.models.engine.cache_names import cache_name, cache_of
from swapbias.models.lengths import length_batches

Text = tuple[
    list[int], int
]  # tokens, and where the end begins whose log-probability is wanted: 1 at least
Ends = Iterator[tuple[list[int], list[float]]]
_Table = np.ndarray[Any, np.dtype[np.int64]]
_SMALL = 2**23  # bytes of logits below which allocators hand out the same memory again
_PIECE = 512  # tokens of the vocabulary whose logits stay in a processor's cache
_MAX_CACHED = 2**28  # bytes of keys and values: breadth-first below, depth-first above


def ends(model: Any, texts: Sequence[Text], *, batch_size: int) -> Ends:
    """Log-probabilities of texts' ends given their beginnings, as they come; shared beginnings are read once."""
    if texts and can_share(model, max((ids for ids, _ in texts), key=len)):
        return shared_ends(model, texts, batch_size=batch_size)
    return plain_ends(model, texts, batch_size=batch_size)


def ends_within(
    model: Any,
    texts: Sequence[Text],
    limit: int,
    *,
    batch_size: int,
    on_progress: Callable[[float], None],
) -> list[float | None]:
    """``ends`` in the order of the texts; None: longer than ``limit`` tokens, or nothing before or in the end."""
    fits = [at for at, (ids, start) in enumerate(texts) if start < len(ids) <= limit]
    found: list[float | None] = [None] * len(texts)
    for places, values in ends(model, [texts[at] for at in fits], batch_size=batch_size):
        for place, value in zip(places, values, strict=True):
            found[fits[place]] = value
        on_progress(len(places))
    on_progress(len(texts) - len(fits))
    return found


def plain_ends(model: Any, texts: Sequence[Text], *, batch_size: int) -> Ends:
    """``ends`` by reading every text whole, in batches of equal length."""
    for members in length_batches([len(ids) for ids, _ in texts], batch_size):
        starts = [texts[index][1] for index in members]
        low = min(starts)  # logits are kept from the first end on: they are large
        ids = torch.tensor([list(texts[index][0]) for index in members], device=model.device)
        with torch.inference_mode():
            logits = model(input_ids=ids, return_dict=True).logits[:, low - 1 : -1].float()
            each = torch.log_softmax(logits, dim=-1).gather(2, ids[:, low:, None])[..., 0].double()
        yield (
            members,
            [
                float(row[start - low :].sum())
                for start, row in zip(starts, each.cpu(), strict=True)
            ],
        )


def shared_ends(model: Any, texts: Sequence[Text], *, batch_size: int) -> Ends:
    """``ends`` with every beginning that texts share read once: see ``_Tree``."""
    with torch.inference_mode():
        yield from _Tree(
            _Pieces.of(model, texts[0][0][:4]) or _Whole(model), texts, batch_size
        ).read()


def can_share(model: Any, ids: Sequence[int]) -> bool:
    """Whether a text gets the same probabilities from a cache as whole, tried; not with short windows."""
    half = len(ids) // 2
    one = torch.tensor([list(ids)], device=model.device)
    if not half:
        return False
    with torch.inference_mode():
        try:
            whole = model(input_ids=one, use_cache=False, return_dict=True).logits[:, half:]
            begun = cache_of(model(input_ids=one[:, :half], use_cache=True, return_dict=True))
            if any(layer.keys.shape[-2] != half for layer in begun.layers):
                return False
            rest = continued(
                model, one[:, half:].expand(2, -1), cached_rows([begun], [(0, 0)], half)
            ).logits
        except (
            AttributeError,
            IndexError,
            RuntimeError,
            TypeError,
            ValueError,
        ):  # as families refuse
            return False
        return same_odds(rest, whole)


def same_odds(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether logits give the same probabilities, up to rounding of their type; never where they are not finite."""
    if found.shape[1:] != expected.shape[1:]:
        return False
    exact = found.dtype == torch.float32
    one, other = (torch.log_softmax(each.float(), dim=-1) for each in (found, expected))
    return torch.allclose(one, other, rtol=1e-5 if exact else 0.05, atol=1e-4 if exact else 0.5)


def continued(model: Any, ids: torch.Tensor, cache: Any, **more: Any) -> Any:
    """What a model returns for tokens after those in its cache; nothing is masked, and positions follow."""
    seen = cache.get_seq_length() if cache else 0
    mask = torch.ones(len(ids), seen + ids.shape[1], dtype=torch.long, device=ids.device)
    more[cache_name(model.forward)] = cache
    return model(input_ids=ids, attention_mask=mask, use_cache=True, return_dict=True, **more)


def cached_rows(caches: Sequence[Any], rows: Sequence[Sequence[int]], length: int) -> DynamicCache:
    """The first so many tokens of some rows of each of some caches, as one."""
    chosen = DynamicCache()
    indices = [
        torch.tensor(own, device=one.layers[0].keys.device)
        for one, own in zip(caches, rows, strict=True)
    ]
    for place, layers in enumerate(zip(*(one.layers for one in caches), strict=True)):
        pairs = [(one, own.to(one.keys.device)) for one, own in zip(layers, indices, strict=True)]
        keys = torch.cat([layer.keys[own, :, :length] for layer, own in pairs])
        chosen.update(
            keys, torch.cat([layer.values[own, :, :length] for layer, own in pairs]), place
        )
    return chosen


def _times(device: torch.device) -> int:
    """How many times as much is read at once as a processor reads: a GPU spends its time on starting each step.

    At most one for every 4 GB that are free: 16 times as much took 9 GB with a model of GPT-2's shape.
    """
    return (
        min(16, max(1, torch.cuda.mem_get_info(device)[0] // 2**32)) if device.type == "cuda" else 1
    )


class _Whole:
    """A causal model as a tree reads it: its states are its logits."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.device = model.device
        weights = sum(one.numel() * one.element_size() for one in model.parameters())
        # A pass reads the weights and writes logits: tokens are so many that neither is much more than the other.
        few = max(_SMALL, weights) // (4 * model.get_input_embeddings().weight.shape[0])
        self.room = self.due = few * _times(self.device)
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    def read(self, ids: torch.Tensor, cache: Any, skipped: int) -> tuple[torch.Tensor, Any]:
        """States of tokens after those of a cache, but for the first ``skipped``, and the cache with them."""
        more = {"logits_to_keep": ids.shape[1] - skipped} if self._keeps and skipped else {}
        out = continued(self._model, ids, cache, **more)
        return out.logits[:, skipped - ids.shape[1] :], cache_of(out)

    def chances(
        self, states: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Log-probabilities of tokens after some rows of states."""
        return torch.log_softmax(states.float(), dim=-1)[rows, tokens]


class _Pieces:
    """A causal model as a tree reads it: its states are what its head multiplies, and logits are never whole.

    They are computed a piece at a time, which stays in the processor's cache, and only its sum is stored.
    """

    def __init__(self, model: Any, head: torch.nn.Linear) -> None:
        self._body = model.base_model
        self.device = model.device
        self._weight = head.weight
        self._bias = head.bias
        # Tokens of a pass, states from which on the head is as fast as it gets, and words of a piece of its logits.
        self.room, self.due, self._words = (
            few * _times(self.device) for few in (2_048, 512, _PIECE)
        )

    @classmethod
    def of(cls, model: Any, ids: Sequence[int]) -> "_Pieces | None":
        """None where logits are more than products with the head (capped, scaled), tried on a few tokens."""
        head = model.get_output_embeddings()
        one = torch.tensor([list(ids)], device=model.device)
        if type(head) is not torch.nn.Linear or model.base_model is model:
            return None
        try:
            states = model.base_model(
                input_ids=one, use_cache=False, return_dict=True
            ).last_hidden_state
            whole = model(input_ids=one, use_cache=False, return_dict=True).logits
            return cls(model, head) if torch.equal(head(states).float(), whole.float()) else None
        except (AttributeError, RuntimeError, TypeError, ValueError):  # as families refuse
            return None

    def read(self, ids: torch.Tensor, cache: Any, skipped: int) -> tuple[torch.Tensor, Any]:
        out = continued(self._body, ids, cache)
        return out.last_hidden_state[:, skipped:], cache_of(out)

    def chances(
        self, states: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        sums = torch.cat(
            [self._log_sums(states[at : at + self.due]) for at in range(0, len(states), self.due)]
        )
        logits = (states[rows].float() * self._weight[tokens].float()).sum(dim=-1)
        if self._bias is not None:
            logits += self._bias[tokens].float()
        return logits - sums[rows]

    def _log_sums(self, states: torch.Tensor) -> torch.Tensor:
        """Log of the sum of the exponentials of all logits, for each state."""
        highest = torch.full((len(states), 1), torch.finfo(torch.float32).min, device=self.device)
        total = torch.zeros_like(highest)
        for start in range(0, len(self._weight), self._words):
            words = slice(start, start + self._words)
            bias = None if self._bias is None else self._bias[words]
            logits = functional.linear(states, self._weight[words], bias).float()
            before = highest
            highest = torch.maximum(highest, logits.amax(dim=1, keepdim=True))
            total = total * (before - highest).exp_() + logits.sub_(highest).exp_().sum(
                dim=1, keepdim=True
            )
        return (total.log() + highest)[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class _Branch:
    """Texts ``first`` to ``last`` (excluded), the same up to ``stop``; before ``start`` is ``row`` of ``cache``."""

    first: int
    last: int
    start: int
    stop: int
    row: int
    cache: Any = None


@dataclass(frozen=True, slots=True)
class _Pending:
    """States for the head; ``targets``: state, next token, position, first and last (excluded) text with it there."""

    states: torch.Tensor
    targets: _Table


class _Tree:
    """Texts in the order of their tokens, so that those that begin alike are neighbours.

    Branches of one start are read together, breadth-first until the KV cache exceeds 256 MB, then depth-first.
    """

    def __init__(self, model: _Whole | _Pieces, texts: Sequence[Text], batch_size: int) -> None:
        self.model = model
        self._rows, self._most_cached = (
            few * _times(model.device) for few in (batch_size, _MAX_CACHED)
        )
        self.places = sorted(range(len(texts)), key=lambda index: texts[index][0])
        self.ids = [texts[index][0] for index in self.places]
        self.starts = np.array([texts[index][1] for index in self.places])
        self.lengths = np.array([len(one) for one in self.ids])
        self.totals = np.zeros(len(texts))
        self._due: dict[int, list[_Branch]] = {}  # by start
        self._size = 0  # bytes of the keys and values of a token

    def read(self) -> Ends:
        """Places among the texts, and the log-probabilities of their ends."""
        self._add(self._split(0, len(self.ids), 0, 0), None)
        waiting: list[_Pending] = []
        while self._due:
            waiting.append(self._read(self._take()))
            if not self._due or sum(len(one.states) for one in waiting) >= self.model.due:
                known = self._settle(waiting)
                waiting = []
                if known:
                    yield [self.places[text] for text in known], self.totals[known].tolist()

    def _add(self, branches: Iterable[_Branch], cache: Any) -> None:
        for one in branches:
            self._due.setdefault(one.start, []).append(replace(one, cache=cache))

    def _split(self, first: int, last: int, at: int, row: int) -> Iterator[_Branch]:
        """The branches of texts that are the same before ``at``, by their token there."""
        while first < last:
            token = self.ids[first][at]
            end = first + 1
            while end < last and self.ids[end][at] == token:
                end += 1
            lowest = self.ids[first]
            highest = self.ids[end - 1]
            shared = next(
                (place for place in range(at, len(lowest)) if lowest[place] != highest[place]),
                len(lowest),
            )
            yield _Branch(first, end, at, min(shared, len(highest) - 1), row)
            first = end

    def _take(self) -> list[_Branch]:
        """Branches to be read together."""
        cached = self._size * sum(start * len(group) for start, group in self._due.items())
        start = max(self._due) if cached > self._most_cached else min(self._due)
        group = sorted(self._due.pop(start), key=lambda one: one.stop)
        longest = group[-1].stop - start
        count = max(1, min(self._rows, self.model.room // longest))
        first = max(len(group) - count, sum(2 * (one.stop - start) < longest for one in group))
        if group[:first]:
            self._due[start] = group[:first]
        by_cache: dict[int, list[_Branch]] = {}
        for one in group[first:]:
            by_cache.setdefault(id(one.cache), []).append(one)
        return [one for some in by_cache.values() for one in some]

    def _read(self, batch: Sequence[_Branch]) -> _Pending:
        """Read a batch, add what is to be read after it, and return its states and their tokens."""
        start = batch[0].start
        device = self.model.device
        children: list[_Branch] = []
        for row, one in enumerate(batch):
            longer = next(
                text for text in range(one.first, one.last) if self.lengths[text] > one.stop
            )
            children += self._split(longer, one.last, one.stop, row)
        rows, places, *targets = self._targets(batch, children).T
        spans = [self.ids[one.first][start : one.stop] for one in batch]
        width = max(map(len, spans))
        skipped = int(places.min()) if len(places) else width - 1
        ids = torch.tensor([[*span, *[0] * (width - len(span))] for span in spans], device=device)
        groups = [list(some) for _, some in groupby(batch, key=lambda one: id(one.cache))]
        rows_of = [[one.row for one in some] for some in groups]
        before = cached_rows([some[0].cache for some in groups], rows_of, start) if start else None
        states, cache = self.model.read(ids, before, skipped)
        self._size = self._size or sum(2 * layer.keys[0, :, 0].nbytes for layer in cache.layers)
        self._add((child for child in children if child.stop > child.start), cache)
        at, which = np.unique(rows * (width - skipped) + places - skipped, return_inverse=True)
        return _Pending(
            states.flatten(0, 1)[torch.from_numpy(at).to(device)],
            np.stack([which, *targets], axis=1),
        )

    def _targets(self, batch: Sequence[_Branch], children: Sequence[_Branch]) -> _Table:
        """Row and place of states, then as ``_Pending.targets``; tokens before all ends are left out."""
        found = [
            (
                row,
                position - 1 - one.start,
                self.ids[one.first][position],
                position,
                one.first,
                one.last,
            )
            for row, one in enumerate(batch)
            for position in range(max(one.start + 1, self._lowest(one)), one.stop)
        ]
        found += [
            (
                one.row,
                one.start - 1 - batch[0].start,
                self.ids[one.first][one.start],
                one.start,
                one.first,
                one.last,
            )
            for one in children
            if self._lowest(one) <= one.start
        ]
        return np.array(found, dtype=np.int64).reshape(-1, 6)

    def _lowest(self, branch: _Branch) -> int:
        return int(self.starts[branch.first : branch.last].min())

    def _settle(self, waiting: Sequence[_Pending]) -> list[int]:
        """Add what the head says of states to the texts, and return those of which all is known now."""
        table = np.concatenate([one.targets for one in waiting])
        if not len(table):
            return []
        sizes = [len(one.states) for one in waiting]
        table[:, 0] += np.repeat(np.cumsum(sizes) - sizes, [len(one.targets) for one in waiting])
        rows, tokens = torch.from_numpy(table[:, :2].T.copy()).to(self.model.device)
        values = (
            self.model.chances(torch.cat([one.states for one in waiting]), rows, tokens)
            .double()
            .cpu()
            .numpy()
        )
        _, _, positions, first, last = table.T
        counts = last - first
        texts = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        positions = np.repeat(positions, counts)
        scored = positions >= self.starts[texts]
        np.add.at(self.totals, texts[scored], np.repeat(values, counts)[scored])
        known: list[int] = texts[positions == self.lengths[texts] - 1].tolist()
        return known
