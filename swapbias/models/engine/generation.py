"""Answers of a causal model, many at once: what prompts share is read once, then ``generate`` answers in batches."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache, DynamicLayer, GenerationConfig, LogitsProcessorList

from swapbias.models.engine.cache_names import cache_name, cache_of, generation_cache_name
from swapbias.models.engine.loglikelihood import cached_rows, continued, same_odds
from swapbias.models.lengths import length_batches

Answers = tuple[list[int], list[list[int]]]  # indices of prompts, and the tokens of their answers
Weigh = Callable[
    [torch.Tensor, Sequence[int]], torch.Tensor
]  # logits (rows, vocabulary) of some prompts -> the same

_MIN_SAVED = (
    64  # tokens that are not read again, from which on a shared beginning is read by itself
)
# tokens of a prompt that the model is tried on
_TRIED = 12
_MAX_TRIED = 64
_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size")


@dataclass(slots=True, eq=False)
class _Beginning:
    """Tokens with which several prompts begin; ``cache``: their keys and values while prompts need them."""

    ids: list[int]
    parent: "_Beginning | None"
    cache: Any = None


def answer(
    model: Any,
    prompts: Sequence[list[int]],
    weigh: Weigh,
    *,
    settings: GenerationConfig,
    batch_size: int,
) -> Iterator[Answers]:
    """Answers as they are ready, each with the token that ended it, if one did.

    Prompts that begin alike share keys and values where logits stay the same so; else those of equal length
    are read together. ``weigh``: logits as they are to be chosen from, the highest of which is taken.
    """

    def generated(places: Sequence[int], shared: Sequence[_Beginning | None]) -> Answers:
        return list(places), _generate(
            model, [prompts[place] for place in places], shared, places, weigh, settings
        )

    longest = max(prompts, key=len, default=[])
    if len(prompts) < 2 or not can_pad(model, longest, settings.max_new_tokens):
        for places in length_batches([len(ids) for ids in prompts], batch_size):
            yield generated(places, [None] * len(places))
        return
    by_size: dict[int, list[int]] = {}
    for place, ids in enumerate(prompts):  # a row is padded to twice its length at most
        by_size.setdefault(len(ids).bit_length(), []).append(place)
    for some in by_size.values():
        ordered = sorted(some, key=lambda place: prompts[place])
        shared: list[_Beginning | None] = []
        _split([prompts[place] for place in ordered], 0, len(ordered), 0, None, shared)
        for first in range(0, len(ordered), batch_size):
            last = first + batch_size
            yield generated(ordered[first:last], shared[first:last])
            needed = {id(one) for following in shared[last : last + 1] for one in _path(following)}
            for beginning in (one for begun in shared[first:last] for one in _path(begun)):
                beginning.cache = beginning.cache if id(beginning) in needed else None


def _path(beginning: _Beginning | None) -> Iterator[_Beginning]:
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
        end = first + 1
        low = texts[first]
        while end < last and texts[end][at] == low[at]:
            end += 1
        if end == first + 1 or len(low) == at + 1:  # alone, or the others go on from it
            shared.append(parent)
            first += 1
            continue
        # the last token of each is its own
        shortest = min(map(len, texts[first:end])) - 1
        high = texts[end - 1]
        stop = next((place for place in range(at, shortest) if low[place] != high[place]), shortest)
        saved = (end - first - 1) * (stop - (len(parent.ids) if parent else 0))
        _split(
            texts,
            first,
            end,
            stop,
            _Beginning(low[:stop], parent) if saved >= _MIN_SAVED else parent,
            shared,
        )
        first = end


def _read(model: Any, beginning: _Beginning | None) -> Any:
    """The cache of a beginning, which is read after that of its parent; None without one."""
    if beginning is None or beginning.cache is not None:
        return beginning and beginning.cache
    before = _read(model, beginning.parent)
    start = len(beginning.parent.ids) if beginning.parent else 0
    ids = torch.tensor([beginning.ids[start:]], device=model.device)
    cache = cached_rows([before], [(0,)], start) if before else None
    beginning.cache = cache_of(continued(model.base_model, ids, cache))
    return beginning.cache


class _Slots(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of a layer with room behind them: a token is written in place, where others copy all before."""

    def __init__(self, states: Sequence[Any], like: torch.Tensor, width: int, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        shape = (len(states), like.shape[1], width + room, like.shape[3])
        self.slots = tuple(like.new_zeros(shape) for _ in range(2))  # masked, but NaN would count
        self.seen = width
        self.is_initialized = True
        self.dtype = like.dtype
        self.device = like.device
        for row, layer in enumerate(states):
            if layer is not None:
                for slots, own in zip(self.slots, (layer.keys, layer.values), strict=True):
                    slots[row, :, width - own.shape[2] : width] = own[0]
        self.keys, self.values = (one[:, :, :width] for one in self.slots)

    def get_seq_length(self, *_: Any) -> int:
        return self.seen

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> Any:
        start = self.seen
        self.seen = self.seen + key_states.shape[-2]
        for slots, new in zip(self.slots, (key_states, value_states), strict=True):
            slots[:, :, start : self.seen] = new
        self.keys, self.values = (one[:, :, : self.seen] for one in self.slots)
        return self.keys, self.values


def _batch(
    model: Any,
    prompts: Sequence[list[int]],
    shared: Sequence[_Beginning | None],
    pad: int,
    room: int,
    name: str,
) -> dict[str, Any]:
    """Arguments of a model, ``name`` of the cache: prompts after their beginnings in slots of their own, padded."""
    starts = [len(one.ids) if one else 0 for one in shared]
    width = max(starts)
    own = max(len(ids) - start for ids, start in zip(prompts, starts, strict=True))
    rows = torch.tensor(
        [
            [-1] * (width - start) + ids[:start] + [-1] * (own - len(ids) + start) + ids[start:]
            for ids, start in zip(prompts, starts, strict=True)
        ],
        device=model.device,
    )
    batch: dict[str, Any] = {
        "input_ids": rows.masked_fill(rows < 0, pad),
        "attention_mask": (rows >= 0).long(),
    }
    caches = [_read(model, one) for one in shared]
    if first := next((one for one in caches if one is not None), None):
        layers: list[Any] = [
            _Slots(
                [one and one.layers[layer] for one in caches],
                first.layers[layer].keys,
                width,
                own + room,
            )
            for layer in range(len(first.layers))
        ]
        batch[name] = Cache(layers=layers)
    return batch


def _generate(
    model: Any,
    prompts: Sequence[list[int]],
    shared: Sequence[_Beginning | None],
    places: Sequence[int],
    weigh: Weigh,
    settings: GenerationConfig,
) -> list[list[int]]:
    own = [
        len(ids) - (len(one.ids) if one else 0) for ids, one in zip(prompts, shared, strict=True)
    ]
    if max(own) > 2 * (
        usual := sorted(own)[len(own) // 2]
    ):  # longer ones are read alone: others would be padded
        shared = [
            _Beginning(ids[:-1], one) if size > 2 * usual else one
            for ids, one, size in zip(prompts, shared, own, strict=True)
        ]
    with torch.inference_mode():
        pad = settings.pad_token_id
        room = settings.max_new_tokens
        batch = _batch(model, prompts, shared, pad, room, generation_cache_name())
        weighing = LogitsProcessorList([lambda _, logits: weigh(logits, places)])
        whole = model.generate(**batch, generation_config=settings, logits_processor=weighing)
    return [
        until(row, settings.eos_token_id or [])
        for row in whole[:, batch["input_ids"].shape[1] :].tolist()
    ]


def until(tokens: list[int], ends: Sequence[int]) -> list[int]:
    """Tokens up to the first that ends an answer, with it; what follows is padding."""
    return tokens[
        : next((place for place, token in enumerate(tokens, start=1) if token in ends), len(tokens))
    ]


def can_pad(model: Any, ids: list[int], max_new_tokens: int) -> bool:
    """Whether padded prompts after a beginning get the logits of whole ones, tried on a prompt; False for windows."""
    if len(ids) < _TRIED:
        return False
    length = len(ids)
    ids = ids[:_MAX_TRIED]
    half = len(ids) // 2
    beginning = _Beginning(ids[:half], None)
    texts = [ids, ids[:half] + ids[half + half // 2 :], ids[half - 1 :]]
    shared = [beginning, beginning, None]
    with torch.inference_mode():
        try:
            layers = _read(model, beginning).layers
            windows = [
                getattr(one, name, None) for one in (model.config, *layers) for name in _WINDOWS
            ]
            if min((one for one in windows if one), default=math.inf) < 2 * length + max_new_tokens:
                return False  # padding takes room in a window
            batch = _batch(model, texts, shared, 0, 0, cache_name(model.forward))
            if "position_ids" in inspect.signature(model.forward).parameters:
                batch["position_ids"] = (batch["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)[
                    :, half:
                ]
            found = model(
                **{**batch, "input_ids": batch["input_ids"][:, half:]}, return_dict=True
            ).logits[:, -1:]
            whole = [
                model(input_ids=torch.tensor([text], device=model.device), use_cache=False)
                for text in texts
            ]
            return same_odds(found, torch.cat([one.logits[:, -1:] for one in whole]))
        except (
            AttributeError,
            IndexError,
            RuntimeError,
            TypeError,
            ValueError,
        ):  # as families refuse
            return False
