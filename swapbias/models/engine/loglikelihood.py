"""Log-probabilities of continuations under a causal model, with the prefixes that texts share read once."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from swapbias.models.engine.cache_names import cache_of
from swapbias.models.engine.cache_probe import PROBE_ERRORS, supports_prefix_sharing
from swapbias.models.engine.kv_cache import cached_rows, continued
from swapbias.models.engine.linear_layers import OneDnnLinear
from swapbias.models.engine.transfers import Outputs, received, send
from swapbias.models.lengths import length_batches

TokenisedText = tuple[list[int], int]
"""Token ids of a context and its continuation, and the index of the continuation's first token, at least 1."""
LogProbs = Iterator[tuple[list[int], list[float]]]
"""Batches: indices of some texts, and the log-probabilities of their continuations in nats."""
_IntTable = np.ndarray[Any, np.dtype[np.int64]]
# Size of logits up to which allocators reuse memory instead of requesting more.
_REUSED_BYTES = 2**23
_VOCABULARY_SLICE = 512  # tokens of the vocabulary whose logits fit in a processor's cache
# Size of keys and values: the tree is read breadth-first below it, depth-first above.
_MAX_CACHE_BYTES = 2**28


def continuation_log_probs(
    model: Any, texts: Sequence[TokenisedText], *, batch_size: int
) -> LogProbs:
    """Return log-probabilities of continuations given their contexts; shared prefixes are read once if the model can.

    Args:
        model: a causal model of transformers in eval mode.
        texts: token ids of context and continuation, and the index at which the continuation begins.
        batch_size: most texts in a forward pass.

    Yields:
        Indices of some texts, and the log-probabilities of their continuations in nats.
    """
    # Probed on the longest text: a model with a sliding window reads short ones from a cache all the same.
    if texts and supports_prefix_sharing(model, max((ids for ids, _ in texts), key=len)):
        return log_probs_with_shared_prefixes(model, texts, batch_size=batch_size)
    return log_probs_of_whole_texts(model, texts, batch_size=batch_size)


def log_probs_within(
    model: Any,
    texts: Sequence[TokenisedText],
    limit: int,
    *,
    batch_size: int,
    on_progress: Callable[[float], None],
) -> list[float | None]:
    """Return log-probabilities as ``continuation_log_probs``, in the order of the texts.

    Args:
        model: a causal model of transformers in eval mode.
        texts: token ids of context and continuation, and the index at which the continuation begins.
        limit: tokens that the model can read.
        batch_size: most texts in a forward pass.
        on_progress: called with the number of further texts that are done.

    Returns:
        Nats; None for a text that is longer than the limit, or whose continuation is empty.
    """
    fits = [index for index, (ids, start) in enumerate(texts) if start < len(ids) <= limit]
    results: list[float | None] = [None] * len(texts)
    for members, values in continuation_log_probs(
        model, [texts[index] for index in fits], batch_size=batch_size
    ):
        for member, value in zip(members, values, strict=True):
            results[fits[member]] = value
        on_progress(len(members))
    on_progress(len(texts) - len(fits))
    return results


def log_probs_of_whole_texts(
    model: Any, texts: Sequence[TokenisedText], *, batch_size: int
) -> LogProbs:
    """Return log-probabilities as ``continuation_log_probs``, by reading every text whole in batches of one length.

    Args:
        model: a causal model of transformers in eval mode.
        texts: token ids of context and continuation, and the index at which the continuation begins.
        batch_size: most texts in a forward pass.
    """
    batches = length_batches([len(ids) for ids, _ in texts], batch_size)
    started = (
        (members, _token_log_probs(model, [texts[index] for index in members]))
        for members in batches
    )
    for members, (chosen,) in received(started):
        starts = [texts[index][1] for index in members]
        low = min(starts)
        rows = zip(starts, chosen, strict=True)
        yield members, [float(row[start - low :].sum()) for start, row in rows]


def _token_log_probs(model: Any, texts: Sequence[TokenisedText]) -> Outputs:
    """Return log-probabilities of texts of one length from the first continuation on, shape (texts, tokens)."""
    low = min(start for _, start in texts)  # logits are kept from there on: they are large
    ids = send(torch.tensor([list(ids) for ids, _ in texts]), model.device)
    with torch.inference_mode():
        logits = model(input_ids=ids, return_dict=True).logits[:, low - 1 : -1].float()
        log_probabilities = torch.log_softmax(logits, dim=-1)
        return (log_probabilities.gather(2, ids[:, low:, None])[..., 0].double(),)


def log_probs_with_shared_prefixes(
    model: Any, texts: Sequence[TokenisedText], *, batch_size: int
) -> LogProbs:
    """Return log-probabilities as ``continuation_log_probs``; shared prefixes are read once (``_PrefixTree``).

    Args:
        model: a causal model of transformers in eval mode.
        texts: token ids of context and continuation, and the index at which the continuation begins.
        batch_size: most texts in a forward pass.
    """
    with torch.inference_mode():
        reader = _HiddenStateModel.if_readable(model, texts[0][0][:4]) or _LogitsModel(model)
        yield from _PrefixTree(reader, texts, batch_size).read()


def _scale(device: torch.device) -> int:
    """Return by how much the sizes of batches chosen for a CPU are multiplied on this device.

    A GPU spends its time on starting each step, so larger batches are faster. The factor is at most 16, and at most 1
    for every 4 GB of free memory: a factor of 16 took 9 GB with a model of GPT-2's shape.
    """
    if device.type != "cuda":
        return 1
    free_bytes = torch.cuda.mem_get_info(device)[0]
    return min(16, max(1, free_bytes // 2**32))


# A ``_PrefixTree`` reads a model through one of the two classes below. Both have ``read``, which returns states of
# tokens; ``token_log_probs``, which returns log-probabilities of next tokens from states; ``max_tokens_per_pass``,
# most tokens of a batch; and ``states_per_head_call``, the number of waiting states from which on the tree asks for
# their log-probabilities.


class _LogitsModel:
    """A causal model whose states are its logits."""

    def __init__(self, model: Any) -> None:
        """Choose the sizes of batches.

        Args:
            model: a causal model of transformers in eval mode.
        """
        self._model = model
        self.device = model.device
        weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
        # A pass reads all weights and writes logits: with this many tokens the two have about the same size.
        tokens = max(_REUSED_BYTES, weights) // (4 * model.get_input_embeddings().weight.shape[0])
        self.max_tokens_per_pass = tokens * _scale(self.device)
        self.states_per_head_call = self.max_tokens_per_pass
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    def read(self, ids: torch.Tensor, cache: Any, skipped: int) -> tuple[torch.Tensor, Any]:
        """Read tokens after those in a cache; return the states from index ``skipped`` on, and the new cache."""
        kept = ids.shape[1] - skipped
        settings = {"logits_to_keep": kept} if self._keeps and skipped else {}
        output = continued(self._model, ids, cache, **settings)
        return output.logits[:, -kept:], cache_of(output)

    def token_log_probs(
        self, states: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Return the log-probability of each token as the next one after the state in its row."""
        return torch.log_softmax(states.float(), dim=-1)[rows, tokens]


class _HiddenStateModel:
    """A causal model whose states are its last hidden states, the input of its head.

    Logits are computed for a slice of the vocabulary at a time, which fits in the processor's cache, and only the sum
    of their exponentials is stored.
    """

    def __init__(self, model: Any, head: torch.nn.Linear) -> None:
        """Choose the sizes of batches.

        Args:
            model: a causal model of transformers in eval mode.
            head: its output layer.
        """
        self._body = model.base_model
        self.device = model.device
        self._weight = head.weight
        self._bias = head.bias
        scale = _scale(self.device)
        self.max_tokens_per_pass = 2_048 * scale
        self.states_per_head_call = 512 * scale  # more are no faster for each state
        self._slice_size = _VOCABULARY_SLICE * scale  # tokens of the vocabulary

    @classmethod
    def if_readable(cls, model: Any, ids: Sequence[int]) -> "_HiddenStateModel | None":
        """Return the model for reading by hidden states, or None where logits are not just products with its head.

        Some families cap or scale logits: this is probed on a few tokens.
        """
        head = model.get_output_embeddings()
        if type(head) not in (torch.nn.Linear, OneDnnLinear) or model.base_model is model:
            return None
        text = torch.tensor([list(ids)], device=model.device)
        try:
            body = model.base_model(input_ids=text, use_cache=False, return_dict=True)
            whole = model(input_ids=text, use_cache=False, return_dict=True).logits
            products = head(body.last_hidden_state)
        except PROBE_ERRORS:
            return None
        return cls(model, head) if torch.equal(products.float(), whole.float()) else None

    def read(self, ids: torch.Tensor, cache: Any, skipped: int) -> tuple[torch.Tensor, Any]:
        """Read tokens after those in a cache; return the states from index ``skipped`` on, and the new cache."""
        output = continued(self._body, ids, cache)
        return output.last_hidden_state[:, skipped:], cache_of(output)

    def token_log_probs(
        self, states: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Return the log-probability of each token as the next one after the state in its row."""
        starts = range(0, len(states), self.states_per_head_call)
        sums = torch.cat(
            [self._log_sums(states[start : start + self.states_per_head_call]) for start in starts]
        )
        logits = (states[rows].float() * self._weight[tokens].float()).sum(dim=-1)
        if self._bias is not None:
            logits += self._bias[tokens].float()
        return logits - sums[rows]

    def _log_sums(self, states: torch.Tensor) -> torch.Tensor:
        """Return the log of the sum of the exponentials of all logits, for each state."""
        highest = torch.full((len(states), 1), torch.finfo(torch.float32).min, device=self.device)
        total = torch.zeros_like(highest)
        for start in range(0, len(self._weight), self._slice_size):
            tokens = slice(start, start + self._slice_size)
            bias = None if self._bias is None else self._bias[tokens]
            logits = functional.linear(states, self._weight[tokens], bias).float()
            before = highest
            highest = torch.maximum(highest, logits.amax(dim=1, keepdim=True))
            slice_sum = logits.sub_(highest).exp_().sum(dim=1, keepdim=True)
            total = total * (before - highest).exp_() + slice_sum
        return (total.log() + highest)[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class _Branch:
    """Neighbouring texts that have the same tokens up to ``stop``."""

    first: int
    """Index of the first text, in the order of their tokens."""
    end: int
    """Index after the last text."""
    start: int
    """Index of the first token that is still to be read."""
    stop: int
    """Index after the last token that the texts share."""
    row: int
    """Row of the cache that has the tokens before ``start``."""
    cache: Any = None
    """Keys and values of the tokens before ``start``; None where ``start`` is 0."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """States of a batch whose log-probabilities of next tokens are not computed yet."""

    states: torch.Tensor
    """Shape (states, d)."""
    targets: _IntTable
    """A row for each next token, with the columns: index of its state, the token, index of the token in its texts,
    index of the first text that has it there, index after the last one."""


class _PrefixTree:
    """Texts sorted by their tokens, so that texts with a common prefix are neighbours, as in a prefix tree.

    Branches with one start are read in batches: breadth-first until the KV cache exceeds 256 MB, then depth-first.
    """

    def __init__(
        self,
        model: _LogitsModel | _HiddenStateModel,
        texts: Sequence[TokenisedText],
        batch_size: int,
    ) -> None:
        self.model = model
        scale = _scale(model.device)
        self._max_rows = batch_size * scale
        self._max_cache_bytes = _MAX_CACHE_BYTES * scale
        self.order = sorted(range(len(texts)), key=lambda index: texts[index][0])
        self.ids = [texts[index][0] for index in self.order]
        self.starts = np.array([texts[index][1] for index in self.order])
        self.lengths = np.array([len(ids) for ids in self.ids])
        self.totals = np.zeros(len(texts))
        self._branches_by_start: dict[int, list[_Branch]] = {}  # still to be read
        self._token_bytes = 0  # size of the keys and values of a token; 0: not known yet

    def read(self) -> LogProbs:
        """Read all branches; yield indices of some texts, and the log-probabilities of their continuations."""
        self._add_branches(self._split(0, len(self.ids), 0, 0), None)
        waiting: list[_Pending] = []
        while self._branches_by_start:
            waiting.append(self._read_batch(self._take_batch()))
            waiting_states = sum(len(batch.states) for batch in waiting)
            if not self._branches_by_start or waiting_states >= self.model.states_per_head_call:
                finished = self._add_log_probs(waiting)
                waiting = []
                if finished:
                    indices = [self.order[text] for text in finished]
                    yield indices, self.totals[finished].tolist()

    def _add_branches(self, branches: Iterable[_Branch], cache: Any) -> None:
        """Add branches to be read after the tokens in a cache."""
        for branch in branches:
            self._branches_by_start.setdefault(branch.start, []).append(
                replace(branch, cache=cache)
            )

    def _split(self, first: int, last: int, at: int, row: int) -> Iterator[_Branch]:
        """Yield a branch for each token that texts, which are the same before index ``at``, have there."""
        while first < last:
            token = self.ids[first][at]
            end = first + 1
            while end < last and self.ids[end][at] == token:
                end += 1
            stop = self._end_of_shared_tokens(first, end, at)
            yield _Branch(first, end, at, min(stop, len(self.ids[end - 1]) - 1), row)
            first = end

    def _end_of_shared_tokens(self, first: int, end: int, at: int) -> int:
        """Return the index after the last token that sorted texts share; they are the same before index ``at``."""
        # They are sorted: what the first and the last share all share.
        lowest = self.ids[first]
        highest = self.ids[end - 1]
        for position in range(at, len(lowest)):
            if lowest[position] != highest[position]:
                return position
        return len(lowest)

    def _take_batch(self) -> list[_Branch]:
        """Take the next batch of branches with the same start, the longest first.

        Shorter ones are padded, so that those of less than half the length of the longest wait for a later batch.
        """
        cached_tokens = sum(
            start * len(branches) for start, branches in self._branches_by_start.items()
        )
        is_full = self._token_bytes * cached_tokens > self._max_cache_bytes
        start = max(self._branches_by_start) if is_full else min(self._branches_by_start)
        branches = sorted(self._branches_by_start.pop(start), key=lambda branch: branch.stop)
        longest = branches[-1].stop - start
        count = max(1, min(self._max_rows, self.model.max_tokens_per_pass // longest))
        much_shorter = sum(2 * (branch.stop - start) < longest for branch in branches)
        first = max(len(branches) - count, much_shorter)
        if branches[:first]:
            self._branches_by_start[start] = branches[:first]
        by_cache: dict[int, list[_Branch]] = {}
        for branch in branches[first:]:
            by_cache.setdefault(id(branch.cache), []).append(branch)
        return [branch for group in by_cache.values() for branch in group]

    def _read_batch(self, batch: Sequence[_Branch]) -> _Pending:
        """Read a batch, add the branches that follow it, and return its states with their next tokens."""
        start = batch[0].start
        children: list[_Branch] = []
        for row, branch in enumerate(batch):
            texts = range(branch.first, branch.end)
            # There is one: a branch stops before the last token of its longest text, which no state is needed of.
            longer = next(text for text in texts if self.lengths[text] > branch.stop)
            children += self._split(longer, branch.end, branch.stop, row)
        rows, state_positions, *targets = self._targets(batch, children).T
        spans = [self.ids[branch.first][start : branch.stop] for branch in batch]
        width = max(map(len, spans))
        skipped = int(state_positions.min()) if len(state_positions) else width - 1
        # Padding needs no mask: it comes after a branch, and a causal model does not look ahead.
        padded = torch.tensor([[*span, *[0] * (width - len(span))] for span in spans])
        ids = send(padded, self.model.device)
        states, cache = self.model.read(ids, self._cache_of(batch), skipped)
        if not self._token_bytes:
            self._token_bytes = sum(2 * layer.keys[0, :, 0].nbytes for layer in cache.layers)
        self._add_branches((child for child in children if child.stop > child.start), cache)
        indices = rows * (width - skipped) + state_positions - skipped
        unique, state_of_target = np.unique(indices, return_inverse=True)
        kept = states.flatten(0, 1)[send(torch.from_numpy(unique), self.model.device)]
        return _Pending(kept, np.stack([state_of_target, *targets], axis=1))

    def _cache_of(self, batch: Sequence[_Branch]) -> Any:
        """Return the cache of the tokens before the branches of a batch; None where they start at 0."""
        start = batch[0].start
        if not start:
            return None
        groups = [list(group) for _, group in groupby(batch, key=lambda branch: id(branch.cache))]
        rows = [[branch.row for branch in group] for group in groups]
        return cached_rows([group[0].cache for group in groups], rows, start)

    def _targets(self, batch: Sequence[_Branch], children: Sequence[_Branch]) -> _IntTable:
        """Return a row for each next token that is part of a continuation.

        Its columns: row of the batch, position of the state after the branch's start, then as in ``_Pending.targets``
        from the token on.
        """
        targets = []
        for row, branch in enumerate(batch):
            ids = self.ids[branch.first]
            for position in range(max(branch.start + 1, self._first_scored(branch)), branch.stop):
                state = position - 1 - branch.start
                targets.append((row, state, ids[position], position, branch.first, branch.end))
        start = batch[0].start
        for child in children:
            if self._first_scored(child) <= child.start:
                token = self.ids[child.first][child.start]
                state = child.start - 1 - start
                targets.append((child.row, state, token, child.start, child.first, child.end))
        return np.array(targets, dtype=np.int64).reshape(-1, 6)

    def _first_scored(self, branch: _Branch) -> int:
        """Return the lowest index at which the continuation of a text of a branch begins."""
        return int(self.starts[branch.first : branch.end].min())

    def _add_log_probs(self, waiting: Sequence[_Pending]) -> list[int]:
        """Add the log-probabilities of the next tokens to their texts, and return the texts that are complete."""
        table = np.concatenate([batch.targets for batch in waiting])
        if not len(table):
            return []
        sizes = [len(batch.states) for batch in waiting]
        counts_of_targets = [len(batch.targets) for batch in waiting]
        # Indices of states count within a batch: add the number of states in the batches before it.
        table[:, 0] += np.repeat(np.cumsum(sizes) - sizes, counts_of_targets)
        rows, tokens = send(torch.from_numpy(table[:, :2].T.copy()), self.model.device)
        states = torch.cat([batch.states for batch in waiting])
        values = self.model.token_log_probs(states, rows, tokens).double().cpu().numpy()
        _, _, positions, first, end = table.T
        counts = end - first
        # A token belongs to the texts first, first + 1, ..., end - 1: one entry for each, token after token.
        texts = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        positions = np.repeat(positions, counts)
        is_scored = positions >= self.starts[texts]
        np.add.at(self.totals, texts[is_scored], np.repeat(values, counts)[is_scored])
        finished: list[int] = texts[positions == self.lengths[texts] - 1].tolist()
        return finished
