"""Answers of a causal model, many at once: what prompts share is read once, then ``generate`` answers in batches."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache, DynamicLayer, GenerationConfig, LogitsProcessorList

from swapbias.models.engine.cache_names import cache_name, cache_of, generation_cache_name
from swapbias.models.engine.cache_probe import PROBE_ERRORS, same_probabilities
from swapbias.models.engine.kv_cache import cached_rows, continued
from swapbias.models.engine.transfers import send
from swapbias.models.lengths import length_batches

Answers = tuple[list[int], list[list[int]]]
"""Indices of prompts, and the tokens of their answers."""
Weigh = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]
"""Gives for logits (rows, vocabulary) of some prompts the same, as they are to be chosen from."""

# Tokens that are not read again, from which on a shared beginning is read by itself.
_MIN_SAVED = 64
# Tokens of a prompt that the model is tried on.
_TRIED = 12
_MAX_TRIED = 64
_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size")


@dataclass(slots=True, eq=False)
class _Beginning:
    """Tokens with which several prompts begin."""

    ids: list[int]
    """All tokens from the first on."""
    parent: "_Beginning | None"
    """The beginning that it continues."""
    cache: Any = None
    """Keys and values of its tokens while prompts need them."""


def answer(
    model: Any,
    prompts: Sequence[list[int]],
    weigh: Weigh,
    *,
    settings: GenerationConfig,
    batch_size: int,
) -> Iterator[Answers]:
    """Answer prompts; those that begin alike share keys and values where logits stay the same so.

    Else those of equal length are read together.

    Args:
        model: a causal model of transformers in eval mode.
        prompts: token ids of each.
        weigh: gives logits as they are to be chosen from, the highest of which is taken.
        settings: settings of ``generate``.
        batch_size: prompts that are read together.

    Yields:
        Answers as they are ready, each with the token that ended it, if one did.
    """

    def generated(indices: Sequence[int], shared: Sequence[_Beginning | None]) -> Answers:
        ids = [prompts[index] for index in indices]
        return list(indices), _generate(model, ids, shared, indices, weigh, settings)

    longest = max(prompts, key=len, default=[])
    if len(prompts) < 2 or not can_pad(model, longest, settings.max_new_tokens):
        for indices in length_batches([len(ids) for ids in prompts], batch_size):
            yield generated(indices, [None] * len(indices))
        return
    by_size: dict[int, list[int]] = {}
    for index, ids in enumerate(prompts):  # a row is padded to twice its length at most
        by_size.setdefault(len(ids).bit_length(), []).append(index)
    for members in by_size.values():
        ordered = sorted(members, key=lambda index: prompts[index])
        shared: list[_Beginning | None] = []
        _split([prompts[index] for index in ordered], 0, len(ordered), 0, None, shared)
        for first in range(0, len(ordered), batch_size):
            last = first + batch_size
            yield generated(ordered[first:last], shared[first:last])
            _forget(shared[first:last], shared[last : last + 1])


def _forget(used: Sequence[_Beginning | None], following: Sequence[_Beginning | None]) -> None:
    """Drop the caches of beginnings that the prompts behind a batch do not need."""
    needed = {id(part) for beginning in following for part in _path(beginning)}
    for beginning in used:
        for part in _path(beginning):
            if id(part) not in needed:
                part.cache = None


def _path(beginning: _Beginning | None) -> Iterator[_Beginning]:
    """Yield a beginning, its parent and so on."""
    while beginning is not None:
        yield beginning
        beginning = beginning.parent


def _split(
    texts: Sequence[list[int]],
    first: int,
    last: int,
    at: int,
    parent: _Beginning | None,
    shared: list[_Beginning | None],
) -> None:
    """Append the longest beginning worth a pass of its own for each sorted text; they are alike before ``at``."""
    while first < last:
        low = texts[first]
        end = first + 1
        while end < last and texts[end][at] == low[at]:
            end += 1
        if end == first + 1 or len(low) == at + 1:  # alone, or the others go on from it
            shared.append(parent)
            first += 1
            continue
        stop = _end_of_shared(texts, first, end, at)
        saved = (end - first - 1) * (stop - _length(parent))
        beginning = _Beginning(low[:stop], parent) if saved >= _MIN_SAVED else parent
        _split(texts, first, end, stop, beginning, shared)
        first = end


def _end_of_shared(texts: Sequence[list[int]], first: int, end: int, at: int) -> int:
    """Return the index behind the last token that sorted texts share; the last token of each is its own."""
    low = texts[first]
    high = texts[end - 1]
    shortest = min(map(len, texts[first:end])) - 1
    for position in range(at, shortest):
        if low[position] != high[position]:
            return position
    return shortest


def _length(beginning: _Beginning | None) -> int:
    """Return the number of tokens of a beginning."""
    return len(beginning.ids) if beginning else 0


def _read(model: Any, beginning: _Beginning | None) -> Any:
    """Return the cache of a beginning, which is read after that of its parent; None without one."""
    if beginning is None:
        return None
    if beginning.cache is None:
        before = _read(model, beginning.parent)
        start = _length(beginning.parent)
        ids = send(torch.tensor([beginning.ids[start:]]), model.device)
        cache = cached_rows([before], [(0,)], start) if before else None
        beginning.cache = cache_of(continued(model.base_model, ids, cache))
    return beginning.cache


class _Slots(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of a layer with room behind them: a token is written in place, where others copy all before."""

    def __init__(self, states: Sequence[Any], like: torch.Tensor, width: int, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        shape = (len(states), like.shape[1], width + room, like.shape[3])
        # What is in no row is masked, but NaN would count.
        self.slots = (like.new_zeros(shape), like.new_zeros(shape))
        self.seen = width
        self.is_initialized = True
        self.dtype = like.dtype
        self.device = like.device
        for row, layer in enumerate(states):
            if layer is not None:
                for slots, stored in zip(self.slots, (layer.keys, layer.values), strict=True):
                    slots[row, :, width - stored.shape[2] : width] = stored[0]
        self.keys, self.values = (slots[:, :, :width] for slots in self.slots)

    def get_seq_length(self, *_: Any) -> int:
        return self.seen

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> Any:
        start = self.seen
        self.seen = self.seen + key_states.shape[-2]
        for slots, new in zip(self.slots, (key_states, value_states), strict=True):
            slots[:, :, start : self.seen] = new
        self.keys, self.values = (slots[:, :, : self.seen] for slots in self.slots)
        return self.keys, self.values


def _batch(
    model: Any,
    prompts: Sequence[list[int]],
    shared: Sequence[_Beginning | None],
    pad: int,
    room: int,
    name: str,
) -> dict[str, Any]:
    """Return arguments of a model, ``name`` of the cache: prompts after their beginnings in own slots, padded."""
    starts = [_length(beginning) for beginning in shared]
    width = max(starts)
    longest = max(len(ids) - start for ids, start in zip(prompts, starts, strict=True))
    padded = []
    for ids, start in zip(prompts, starts, strict=True):
        before = [-1] * (width - start)
        between = [-1] * (longest - len(ids) + start)
        padded.append([*before, *ids[:start], *between, *ids[start:]])
    rows = send(torch.tensor(padded), model.device)
    batch: dict[str, Any] = {
        "input_ids": rows.masked_fill(rows < 0, pad),
        "attention_mask": (rows >= 0).long(),
    }
    caches = [_read(model, beginning) for beginning in shared]
    filled = [cache for cache in caches if cache is not None]
    if filled:
        layers: list[Any] = []
        for number, layer in enumerate(filled[0].layers):
            states = [None if cache is None else cache.layers[number] for cache in caches]
            layers.append(_Slots(states, layer.keys, width, longest + room))
        batch[name] = Cache(layers=layers)
    return batch


def _generate(
    model: Any,
    prompts: Sequence[list[int]],
    shared: Sequence[_Beginning | None],
    indices: Sequence[int],
    weigh: Weigh,
    settings: GenerationConfig,
) -> list[list[int]]:
    """Return the tokens of the answers to a batch of prompts."""
    sizes = [len(ids) - _length(beginning) for ids, beginning in zip(prompts, shared, strict=True)]
    usual = sorted(sizes)[len(sizes) // 2]
    if max(sizes) > 2 * usual:  # longer ones are read alone: others would be padded
        shared = [
            _Beginning(ids[:-1], beginning) if size > 2 * usual else beginning
            for ids, beginning, size in zip(prompts, shared, sizes, strict=True)
        ]
    with torch.inference_mode():
        pad = settings.pad_token_id
        room = settings.max_new_tokens
        batch = _batch(model, prompts, shared, pad, room, generation_cache_name())
        processors = LogitsProcessorList([lambda _, logits: weigh(logits, indices)])
        whole = model.generate(**batch, generation_config=settings, logits_processor=processors)
    answers = whole[:, batch["input_ids"].shape[1] :].tolist()
    return [until(tokens, settings.eos_token_id or []) for tokens in answers]


def until(tokens: list[int], ends: Sequence[int]) -> list[int]:
    """Cut an answer behind the first token that ends it; what follows is padding.

    Args:
        tokens: the tokens of an answer.
        ends: tokens that end one.
    """
    for count, token in enumerate(tokens, start=1):
        if token in ends:
            return tokens[:count]
    return tokens


def can_pad(model: Any, ids: list[int], max_new_tokens: int) -> bool:
    """Return whether padded prompts after a beginning get the logits of whole ones, tried on a prompt.

    Args:
        model: a causal model of transformers in eval mode.
        ids: tokens of the longest prompt.
        max_new_tokens: most tokens of an answer.

    Returns:
        False also for short prompts, and for windows in which padding takes room.
    """
    if len(ids) < _TRIED:
        return False
    length = len(ids)
    ids = ids[:_MAX_TRIED]
    half = len(ids) // 2
    beginning = _Beginning(ids[:half], None)
    texts = [ids, ids[:half] + ids[half + half // 2 :], ids[half - 1 :]]
    with torch.inference_mode():
        try:
            layers = _read(model, beginning).layers
            if _smallest_window(model.config, *layers) < 2 * length + max_new_tokens:
                return False
            batch = _batch(
                model, texts, [beginning, beginning, None], 0, 0, cache_name(model.forward)
            )
            if "position_ids" in inspect.signature(model.forward).parameters:
                positions = (batch["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
                batch["position_ids"] = positions[:, half:]
            batch["input_ids"] = batch["input_ids"][:, half:]
            logits = model(**batch, return_dict=True).logits[:, -1:]
            whole = [
                model(input_ids=torch.tensor([text], device=model.device), use_cache=False)
                for text in texts
            ]
            return same_probabilities(
                logits, torch.cat([output.logits[:, -1:] for output in whole])
            )
        except PROBE_ERRORS:
            return False


def _smallest_window(*parts: Any) -> float:
    """Return the tokens of the smallest window that a config or layers declare; infinite where there is none."""
    windows = [getattr(part, name, None) for part in parts for name in _WINDOWS]
    return min((window for window in windows if window), default=math.inf)
