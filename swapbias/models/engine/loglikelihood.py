"""Log-probabilities of texts by a causal model, with the beginnings that texts share read once."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from swapbias.models.engine.cache_names import cache_of
from swapbias.models.engine.kv_cache import cached_rows, continued
from swapbias.models.lengths import length_batches

Text = tuple[list[int], int]
"""Tokens, and the index from which on they are the end whose log-probability is wanted: 1 at least."""
Ends = Iterator[tuple[list[int], list[float]]]
"""Indices of some texts, and the log-probabilities of their ends."""
_Table = np.ndarray[Any, np.dtype[np.int64]]
_SMALL = 2**23  # bytes of logits below which allocators hand out the same memory again
_PIECE = 512  # tokens of the vocabulary whose logits stay in a processor's cache
_MAX_CACHED = 2**28  # bytes of keys and values: breadth-first below, depth-first above
REFUSALS = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
"""Raised by families that cannot be read in a way that is tried."""


def ends(model: Any, texts: Sequence[Text], *, batch_size: int) -> Ends:
    """Find log-probabilities of texts' ends given their beginnings; shared beginnings are read once.

    Args:
        model: a causal model of transformers in eval mode.
        texts: tokens, and the index from which on they are the end.
        batch_size: texts that are read together.

    Yields:
        Indices of some texts, and the log-probabilities of their ends in nats.
    """
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
    """Find log-probabilities as ``ends``, in the order of the texts.

    Args:
        model: a causal model of transformers in eval mode.
        texts: tokens, and the index from which on they are the end.
        limit: tokens that the model can read.
        batch_size: texts that are read together.
        on_progress: called with the number of further texts that are done.

    Returns:
        Nats; None for a text that is longer than the limit, or has nothing before or in its end.
    """
    fits = [index for index, (ids, start) in enumerate(texts) if start < len(ids) <= limit]
    results: list[float | None] = [None] * len(texts)
    for members, values in ends(model, [texts[index] for index in fits], batch_size=batch_size):
        for member, value in zip(members, values, strict=True):
            results[fits[member]] = value
        on_progress(len(members))
    on_progress(len(texts) - len(fits))
    return results


def plain_ends(model: Any, texts: Sequence[Text], *, batch_size: int) -> Ends:
    """Find log-probabilities as ``ends``, by reading every text whole, in batches of equal length.

    Args:
        model: a causal model of transformers in eval mode.
        texts: tokens, and the index from which on they are the end.
        batch_size: texts that are read together.
    """
    for members in length_batches([len(ids) for ids, _ in texts], batch_size):
        starts = [texts[index][1] for index in members]
        low = min(starts)  # logits are kept from the first end on: they are large
        ids = torch.tensor([list(texts[index][0]) for index in members], device=model.device)
        with torch.inference_mode():
            logits = model(input_ids=ids, return_dict=True).logits[:, low - 1 : -1].float()
            log_probabilities = torch.log_softmax(logits, dim=-1)
            chosen = log_probabilities.gather(2, ids[:, low:, None])[..., 0].double()
        rows = zip(starts, chosen.cpu(), strict=True)
        yield members, [float(row[start - low :].sum()) for start, row in rows]


def shared_ends(model: Any, texts: Sequence[Text], *, batch_size: int) -> Ends:
    """Find log-probabilities as ``ends``, with every beginning that texts share read once: see ``_Tree``.

    Args:
        model: a causal model of transformers in eval mode.
        texts: tokens, and the index from which on they are the end.
        batch_size: texts that are read together.
    """
    with torch.inference_mode():
        reader = _Pieces.of(model, texts[0][0][:4]) or _Whole(model)
        yield from _Tree(reader, texts, batch_size).read()


def can_share(model: Any, ids: Sequence[int]) -> bool:
    """Return whether a text gets the same probabilities from a cache as whole, tried; not with short windows.

    Args:
        model: a causal model of transformers in eval mode.
        ids: tokens of a text.
    """
    half = len(ids) // 2
    text = torch.tensor([list(ids)], device=model.device)
    if not half:
        return False
    with torch.inference_mode():
        try:
            whole = model(input_ids=text, use_cache=False, return_dict=True).logits[:, half:]
            begun = cache_of(model(input_ids=text[:, :half], use_cache=True, return_dict=True))
            if any(layer.keys.shape[-2] != half for layer in begun.layers):
                return False
            cache = cached_rows([begun], [(0, 0)], half)
            rest = continued(model, text[:, half:].expand(2, -1), cache).logits
        except REFUSALS:
            return False
        return same_odds(rest, whole)


def same_odds(logits: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether logits give the same probabilities, up to rounding of their type.

    Args:
        logits: shape (rows, tokens, vocabulary).
        expected: the same for each row, or of one row.

    Returns:
        False also where the shapes differ, or a probability is not finite.
    """
    if logits.shape[1:] != expected.shape[1:]:
        return False
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    expected_values = torch.log_softmax(expected.float(), dim=-1)
    if logits.dtype == torch.float32:
        return torch.allclose(log_probabilities, expected_values, rtol=1e-5, atol=1e-4)
    return torch.allclose(log_probabilities, expected_values, rtol=0.05, atol=0.5)


def _scale(device: torch.device) -> int:
    """Return how many times as much is read at once as a processor reads.

    A GPU spends its time on starting each step. At most one for every 4 GB that are free: 16 times as much took 9 GB
    with a model of GPT-2's shape.
    """
    if device.type != "cuda":
        return 1
    free_bytes = torch.cuda.mem_get_info(device)[0]
    return min(16, max(1, free_bytes // 2**32))


class _Whole:
    """A causal model as a tree reads it: its states are its logits."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.device = model.device
        weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
        # A pass reads the weights and writes logits: tokens are so many that neither is much more than the other.
        tokens = max(_SMALL, weights) // (4 * model.get_input_embeddings().weight.shape[0])
        self.room = tokens * _scale(self.device)
        self.due = self.room
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    def read(self, ids: torch.Tensor, cache: Any, skipped: int) -> tuple[torch.Tensor, Any]:
        """Return states of tokens after those of a cache, but for the first ``skipped``, and the cache with them."""
        kept = ids.shape[1] - skipped
        settings = {"logits_to_keep": kept} if self._keeps and skipped else {}
        output = continued(self._model, ids, cache, **settings)
        return output.logits[:, -kept:], cache_of(output)

    def chances(
        self, states: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Return log-probabilities of tokens after some rows of states."""
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
        scale = _scale(self.device)
        self.room = 2_048 * scale  # tokens of a pass
        self.due = 512 * scale  # states from which on the head is as fast as it gets
        self._words = _PIECE * scale  # words of a piece of its logits

    @classmethod
    def of(cls, model: Any, ids: Sequence[int]) -> "_Pieces | None":
        """Return None where logits are more than products with the head (capped, scaled), tried on a few tokens."""
        head = model.get_output_embeddings()
        text = torch.tensor([list(ids)], device=model.device)
        if type(head) is not torch.nn.Linear or model.base_model is model:
            return None
        try:
            body = model.base_model(input_ids=text, use_cache=False, return_dict=True)
            whole = model(input_ids=text, use_cache=False, return_dict=True).logits
            products = head(body.last_hidden_state)
        except REFUSALS:
            return None
        return cls(model, head) if torch.equal(products.float(), whole.float()) else None

    def read(self, ids: torch.Tensor, cache: Any, skipped: int) -> tuple[torch.Tensor, Any]:
        """Return states of tokens after those of a cache, but for the first ``skipped``, and the cache with them."""
        output = continued(self._body, ids, cache)
        return output.last_hidden_state[:, skipped:], cache_of(output)

    def chances(
        self, states: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Return log-probabilities of tokens after some rows of states."""
        starts = range(0, len(states), self.due)
        sums = torch.cat([self._log_sums(states[start : start + self.due]) for start in starts])
        logits = (states[rows].float() * self._weight[tokens].float()).sum(dim=-1)
        if self._bias is not None:
            logits += self._bias[tokens].float()
        return logits - sums[rows]

    def _log_sums(self, states: torch.Tensor) -> torch.Tensor:
        """Return the log of the sum of the exponentials of all logits, for each state."""
        highest = torch.full((len(states), 1), torch.finfo(torch.float32).min, device=self.device)
        total = torch.zeros_like(highest)
        for start in range(0, len(self._weight), self._words):
            words = slice(start, start + self._words)
            bias = None if self._bias is None else self._bias[words]
            logits = functional.linear(states, self._weight[words], bias).float()
            before = highest
            highest = torch.maximum(highest, logits.amax(dim=1, keepdim=True))
            piece = logits.sub_(highest).exp_().sum(dim=1, keepdim=True)
            total = total * (before - highest).exp_() + piece
        return (total.log() + highest)[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class _Branch:
    """Neighbouring texts that are the same for some tokens."""

    first: int
    """Index of the first text in the order of their tokens."""
    last: int
    """Index behind the last text."""
    start: int
    """Index of the first token that is still to be read."""
    stop: int
    """Index behind the last token that the texts share."""
    row: int
    """Row of the cache that has the tokens before ``start``."""
    cache: Any = None
    """Keys and values of the tokens before ``start``; None: there are none."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """States that wait for the head."""

    states: torch.Tensor
    """Shape (states, d)."""
    targets: _Table
    """Columns: index of a state, next token, its position, first and last (excluded) text with it there."""


class _Tree:
    """Texts in the order of their tokens, so that those that begin alike are neighbours.

    Branches of one start are read together, breadth-first until the KV cache exceeds 256 MB, then depth-first.
    """

    def __init__(self, model: _Whole | _Pieces, texts: Sequence[Text], batch_size: int) -> None:
        self.model = model
        scale = _scale(model.device)
        self._rows = batch_size * scale
        self._most_cached = _MAX_CACHED * scale
        self.order = sorted(range(len(texts)), key=lambda index: texts[index][0])
        self.ids = [texts[index][0] for index in self.order]
        self.starts = np.array([texts[index][1] for index in self.order])
        self.lengths = np.array([len(ids) for ids in self.ids])
        self.totals = np.zeros(len(texts))
        self._due: dict[int, list[_Branch]] = {}  # by start
        self._token_bytes = 0  # of the keys and values of a token

    def read(self) -> Ends:
        """Yield indices of some texts, and the log-probabilities of their ends."""
        self._add(self._split(0, len(self.ids), 0, 0), None)
        waiting: list[_Pending] = []
        while self._due:
            waiting.append(self._read(self._take()))
            if not self._due or sum(len(part.states) for part in waiting) >= self.model.due:
                finished = self._settle(waiting)
                waiting = []
                if finished:
                    indices = [self.order[text] for text in finished]
                    yield indices, self.totals[finished].tolist()

    def _add(self, branches: Iterable[_Branch], cache: Any) -> None:
        """Add branches that are to be read after the tokens in a cache."""
        for branch in branches:
            self._due.setdefault(branch.start, []).append(replace(branch, cache=cache))

    def _split(self, first: int, last: int, at: int, row: int) -> Iterator[_Branch]:
        """Yield the branches of texts that are the same before ``at``, by their token there."""
        while first < last:
            token = self.ids[first][at]
            end = first + 1
            while end < last and self.ids[end][at] == token:
                end += 1
            stop = self._end_of_shared(first, end, at)
            yield _Branch(first, end, at, min(stop, len(self.ids[end - 1]) - 1), row)
            first = end

    def _end_of_shared(self, first: int, end: int, at: int) -> int:
        """Return the index behind the last token that sorted texts share, which are the same before ``at``."""
        lowest = self.ids[first]
        highest = self.ids[end - 1]
        for position in range(at, len(lowest)):
            if lowest[position] != highest[position]:
                return position
        return len(lowest)

    def _take(self) -> list[_Branch]:
        """Take the branches that are to be read together."""
        cached_tokens = sum(start * len(branches) for start, branches in self._due.items())
        is_full = self._token_bytes * cached_tokens > self._most_cached
        start = max(self._due) if is_full else min(self._due)
        branches = sorted(self._due.pop(start), key=lambda branch: branch.stop)
        longest = branches[-1].stop - start
        count = max(1, min(self._rows, self.model.room // longest))
        much_shorter = sum(2 * (branch.stop - start) < longest for branch in branches)
        first = max(len(branches) - count, much_shorter)
        if branches[:first]:
            self._due[start] = branches[:first]
        by_cache: dict[int, list[_Branch]] = {}
        for branch in branches[first:]:
            by_cache.setdefault(id(branch.cache), []).append(branch)
        return [branch for group in by_cache.values() for branch in group]

    def _read(self, batch: Sequence[_Branch]) -> _Pending:
        """Read a batch, add what is to be read after it, and return its states and their tokens."""
        start = batch[0].start
        device = self.model.device
        children: list[_Branch] = []
        for row, branch in enumerate(batch):
            texts = range(branch.first, branch.last)
            longer = next(text for text in texts if self.lengths[text] > branch.stop)
            children += self._split(longer, branch.last, branch.stop, row)
        rows, positions, *targets = self._targets(batch, children).T
        spans = [self.ids[branch.first][start : branch.stop] for branch in batch]
        width = max(map(len, spans))
        skipped = int(positions.min()) if len(positions) else width - 1
        ids = torch.tensor([[*span, *[0] * (width - len(span))] for span in spans], device=device)
        states, cache = self.model.read(ids, self._cache_of(batch), skipped)
        if not self._token_bytes:
            self._token_bytes = sum(2 * layer.keys[0, :, 0].nbytes for layer in cache.layers)
        self._add((child for child in children if child.stop > child.start), cache)
        indices = rows * (width - skipped) + positions - skipped
        unique, state_of_target = np.unique(indices, return_inverse=True)
        kept = states.flatten(0, 1)[torch.from_numpy(unique).to(device)]
        return _Pending(kept, np.stack([state_of_target, *targets], axis=1))

    def _cache_of(self, batch: Sequence[_Branch]) -> Any:
        """Return the cache of what stands before branches that start at one token; None at the beginning."""
        start = batch[0].start
        if not start:
            return None
        groups = [list(group) for _, group in groupby(batch, key=lambda branch: id(branch.cache))]
        rows = [[branch.row for branch in group] for group in groups]
        return cached_rows([group[0].cache for group in groups], rows, start)

    def _targets(self, batch: Sequence[_Branch], children: Sequence[_Branch]) -> _Table:
        """Return row and position of states, then as ``_Pending.targets``; tokens before all ends are left out."""
        targets = []
        for row, branch in enumerate(batch):
            ids = self.ids[branch.first]
            for position in range(max(branch.start + 1, self._lowest(branch)), branch.stop):
                state = position - 1 - branch.start
                targets.append((row, state, ids[position], position, branch.first, branch.last))
        start = batch[0].start
        for child in children:
            if self._lowest(child) <= child.start:
                token = self.ids[child.first][child.start]
                state = child.start - 1 - start
                targets.append((child.row, state, token, child.start, child.first, child.last))
        return np.array(targets, dtype=np.int64).reshape(-1, 6)

    def _lowest(self, branch: _Branch) -> int:
        """Return the lowest index at which the end of a text of a branch begins."""
        return int(self.starts[branch.first : branch.last].min())

    def _settle(self, waiting: Sequence[_Pending]) -> list[int]:
        """Add what the head says of states to the texts, and return those of which all is known now."""
        table = np.concatenate([part.targets for part in waiting])
        if not len(table):
            return []
        sizes = [len(part.states) for part in waiting]
        counts_of_targets = [len(part.targets) for part in waiting]
        table[:, 0] += np.repeat(np.cumsum(sizes) - sizes, counts_of_targets)
        rows, tokens = torch.from_numpy(table[:, :2].T.copy()).to(self.model.device)
        states = torch.cat([part.states for part in waiting])
        values = self.model.chances(states, rows, tokens).double().cpu().numpy()
        _, _, positions, first, last = table.T
        counts = last - first
        texts = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        positions = np.repeat(positions, counts)
        is_scored = positions >= self.starts[texts]
        np.add.at(self.totals, texts[is_scored], np.repeat(values, counts)[is_scored])
        finished: list[int] = texts[positions == self.lengths[texts] - 1].tolist()
        return finished
