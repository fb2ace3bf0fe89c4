"""Answers of a causal model, many at once: what prompts share is read once, and rows leave when they have ended."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import Cache, DynamicLayer

from swapbias.models.engine.beginnings import alike

Choose = Callable[
    [torch.Tensor, Sequence[int]], Sequence[int]
]  # logits (rows, vocabulary), and which prompts they are
Answered = tuple[list[int], list[list[int]]]  # places among the prompts, and their tokens

_WORTH = 64  # tokens that are not read again, from which on a beginning is read by itself
_ROOM = 4_096  # tokens of a pass, with which a processor is as fast as it gets
_ROOM_GPU = 16_384
_MORE = 64  # slots that are added where answers have filled theirs


def generator(model: Any, ids: Sequence[int], most: int) -> "Generator | None":
    """A generator, or None where a model does not say the same of padded rows that go on from a cache.

    That is tried on a text. No: it keeps no keys and values by layer (state spaces, XLNet), sees a window of them,
    counts positions by slots, or its own settings change its logits in further ways.

    Args:
        model: a causal model.
        ids: the longest of the texts.
        most: tokens of an answer.
    """
    own = {name for name, value in model.generation_config.to_diff_dict().items() if value}
    if own - _HARMLESS or len(ids) < _TRIED:
        return None
    with torch.inference_mode():
        try:
            begun = model(input_ids=torch.tensor([list(ids[:2])], device=model.device), use_cache=True)
            layers = begun.past_key_values.layers
            windows = [getattr(one, name, None) for one in (model.config, *layers) for name in _WINDOWS]
            if min((one for one in windows if one), default=math.inf) < 2 * len(ids) + most:
                return None  # padding takes room in a window
            found = Generator(model, [(one.keys, one.values) for one in layers])
            return found if found.holds(list(ids)) else None
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):  # as families refuse
            return None


_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size")
_TRIED = 12  # tokens that a text needs to be tried on
_HARMLESS = {  # settings of generation that each call gives, or that do nothing where the likeliest token is taken
    "_from_model_config", "bos_token_id", "do_sample", "eos_token_id", "max_length", "max_new_tokens", "min_p",
    "num_beams", "pad_token_id", "repetition_penalty", "temperature", "top_k", "top_p", "transformers_version",
    "typical_p", "use_cache",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class _Node:
    """A beginning that texts share, or a whole text.

    Attributes:
        ids: all its tokens; those before ``start`` are its parent's.
        until: the first text after those that begin so.
        states: keys and values (heads, tokens, width) by layer, while it was read and texts go on from it.
    """

    ids: list[int]
    start: int
    parent: "_Node | None"
    until: int
    states: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)


class _Slots(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of a layer with room behind them: a token is written in place, where others copy all before."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, seen: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held, self.seen = (keys, values), seen
        self.is_initialized = True
        self.keys, self.values = (one[:, :, :seen] for one in self.held)

    def get_seq_length(self, *_: Any) -> int:
        return self.seen

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        end = self.seen + key_states.shape[-2]
        if end > self.held[0].shape[-2]:
            keys, values = (torch.cat([one, _empty(one, len(one), _MORE)], dim=-2) for one in self.held)
            self.held = keys, values
        for held, new in zip(self.held, (key_states, value_states), strict=True):
            held[:, :, self.seen : end] = new
        self.seen = end
        self.keys, self.values = (one[:, :, :end] for one in self.held)
        return self.keys, self.values

    def select(self, rows: torch.Tensor) -> "_Slots":
        keys, values = (one[rows] for one in self.held)
        return _Slots(keys, values, self.seen)


def _empty(like: torch.Tensor, rows: int, slots: int) -> torch.Tensor:
    return like.new_empty(rows, like.shape[1], slots, like.shape[3])


class Generator:
    """A causal model that answers prompts in batches.

    Prompts are put in the order of their tokens, so that those that begin alike are neighbours, and beginnings are
    read once. A row of a batch has its beginning, then its own tokens, each padded in front, and its answer.
    """

    def __init__(self, model: Any, shapes: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Wrap a model; ``shapes`` are keys and values of any text, by layer."""
        self._model, self._shapes, self.device = model, shapes, model.device
        takes = inspect.signature(model.forward).parameters
        self._last = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        self._told_positions = "position_ids" in takes
        self._room = _ROOM if self.device.type == "cpu" else _ROOM_GPU

    def answers(
        self, prompts: Sequence[list[int]], choose: Choose, *, ends: Sequence[int], most: int, batch_size: int
    ) -> Iterator[Answered]:
        """Answers as they are ready, each with the token that ended it, if one did, and at most ``most`` tokens.

        Args:
            prompts: tokens; the same ones may stand there several times.
            choose: the next tokens of some prompts.
            ends: tokens that end an answer.
            most: tokens of an answer.
            batch_size: rows that answer at once.
        """
        by_size: dict[int, list[int]] = {}
        for place, ids in enumerate(prompts):  # rows of a batch are padded to twice their length at most
            by_size.setdefault(len(ids).bit_length(), []).append(place)
        for some in by_size.values():
            places = sorted(some, key=lambda place: prompts[place])
            leaves, of = tree([prompts[place] for place in places])
            for first in range(0, len(places), batch_size):
                batch = slice(first, first + batch_size)
                with torch.inference_mode():
                    answers = self._batch(leaves, of[batch], places[batch], choose, ends, most)
                yield places[batch], answers
                self._forget(leaves[of[batch][0] : of[batch][-1] + 1], [*of[first + batch_size :], len(leaves)][0])

    def _batch(
        self, leaves: Sequence[_Node], of: Sequence[int], places: Sequence[int], choose: Choose, ends: Sequence[int],
        most: int,
    ) -> list[list[int]]:  # fmt: skip
        own = sorted(range(of[0], of[-1] + 1), key=lambda text: len(leaves[text].ids) - leaves[text].start)
        logits, rows = self._begin([leaves[text] for text in own], min(most, _MORE))
        answers: dict[int, list[int]] = {}
        for answer, text in enumerate(of):
            answers.setdefault(text, []).append(answer)
        still = [answer for text in own for answer in answers[text]]  # which answer a row gives
        if len(of) > len(own):  # trials of one prompt go apart from here on
            which = torch.tensor([row for row, text in enumerate(own) for _ in answers[text]], device=self.device)
            logits, rows = logits[which], rows.select(which)
        said: list[list[int]] = [[] for _ in of]
        going = list(range(len(of)))  # rows whose answer has not ended
        while True:
            chosen = choose(
                logits if len(going) == len(still) else logits[going], [places[still[row]] for row in going]
            )
            for row, token in zip(going, chosen, strict=True):
                said[still[row]].append(token)
            going = [row for row in going if len(said[still[row]]) < most and said[still[row]][-1] not in ends]
            if not going:
                return said
            if 2 * len(going) <= len(still):  # the others leave; sooner, copying would take longer than answering
                rows = rows.select(torch.tensor(going, device=self.device))
                still = [still[row] for row in going]
                going = list(range(len(still)))
            logits = self._go_on(rows, [said[one][-1] for one in still])

    def _begin(self, leaves: Sequence[_Node], room: int) -> tuple[torch.Tensor, "_Batch"]:
        """Logits after each text, those with the fewest tokens of their own first, and the rows that go on."""
        due: dict[int, list[_Node]] = {}
        for node in {id(one): one for leaf in leaves for one in _unread(leaf.parent)}.values():
            due.setdefault(_depth(node), []).append(node)
        for _, nodes in sorted(due.items()):
            for some in self._passes(nodes):
                self._keep(some)
        passes = self._passes(leaves)
        width = max(sum(_widths(some)) for some in passes)
        rows = self._rows(len(leaves), width, room)
        logits, at = [], 0
        for some in passes:
            logits.append(self._read(some, rows, at))
            at += len(some)
        return torch.cat(logits), rows

    def _passes(self, nodes: Sequence[_Node]) -> list[list[_Node]]:
        """Nodes that are read at once: few enough tokens, padding included; the widest come last."""
        ordered = sorted(nodes, key=lambda node: len(node.ids) - node.start)
        found: list[list[_Node]] = [[]]
        for node in ordered:
            if found[-1] and (len(found[-1]) + 1) * (len(node.ids) - node.start) > self._room:
                found.append([])
            found[-1].append(node)
        return found

    def _read(self, nodes: Sequence[_Node], rows: "_Batch", at: int) -> torch.Tensor:
        """Logits after whole texts, whose states go into rows, from row ``at`` on."""
        logits: torch.Tensor = self._pass(self._model, nodes, rows, at, **self._last).logits[:, -1].float()
        return logits

    def _keep(self, nodes: Sequence[_Node]) -> None:
        """Read beginnings, for which the head need not be asked."""
        rows = self._rows(len(nodes), sum(_widths(nodes)), 0)
        self._pass(self._model.base_model, nodes, rows, 0)
        for row, node in enumerate(nodes):
            own = rows.mask[row].bool()
            node.states = [(layer.held[0][row][:, own], layer.held[1][row][:, own]) for layer in rows.layers]

    def _pass(self, model: Any, nodes: Sequence[_Node], rows: "_Batch", at: int, **more: Any) -> Any:
        before, own = _widths(nodes)
        skipped = rows.width - before - own
        these, slots = slice(at, at + len(nodes)), slice(skipped, rows.width)
        mask, ids = rows.mask[these, skipped:], torch.zeros(len(nodes), own, dtype=torch.long)
        caches = [
            _Slots(keys[these, :, slots], values[these, :, slots], before)
            for keys, values in (layer.held for layer in rows.layers)
        ]
        for row, node in enumerate(nodes):
            ids[row, node.start - len(node.ids) :] = torch.tensor(node.ids[node.start :])
            mask[row, before - node.start : before] = 1
            mask[row, node.start - len(node.ids) :] = 1
            begun = node.parent.states if node.parent else [()] * len(caches)
            for layer, states in zip(caches, begun, strict=True):
                for held, state in zip(layer.held, states, strict=False):
                    held[row, :, before - node.start : before] = state
        for layer in rows.layers:  # what is masked counts nothing, but NaN would
            for held in layer.held:
                for row, node in enumerate(nodes, start=at):
                    held[row, :, : skipped + before - node.start] = 0
        return self._forward(model, ids.to(self.device), mask, _positions(mask)[:, before:], caches, **more)

    def _go_on(self, rows: "_Batch", tokens: Sequence[int]) -> torch.Tensor:
        """Logits after one more token of each row."""
        ids = torch.tensor(tokens, device=self.device)[:, None]
        rows.mask = torch.cat([rows.mask, torch.ones_like(ids)], dim=1)
        rows.width += 1
        positions = _positions(rows.mask)[:, -1:]
        logits: torch.Tensor = self._forward(self._model, ids, rows.mask, positions, rows.layers, **self._last).logits
        return logits[:, -1].float()

    def _forward(
        self, model: Any, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, layers: list[_Slots],
        **more: Any,
    ) -> Any:  # fmt: skip
        if self._told_positions:
            more["position_ids"] = positions
        cache = Cache(layers=list(layers))
        return model(
            input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, return_dict=True, **more
        )  # fmt: skip

    def _rows(self, count: int, width: int, room: int) -> "_Batch":
        slots = width + room
        layers = [
            _Slots(_empty(keys, count, slots), _empty(values, count, slots), width) for keys, values in self._shapes
        ]
        return _Batch(layers, torch.zeros(count, width, dtype=torch.long, device=self.device), width)

    def _forget(self, leaves: Sequence[_Node], until: int) -> None:
        """Let beginnings go that no later text has."""
        for leaf in leaves:
            node = leaf.parent
            while node is not None:
                if node.until <= until:
                    node.states = []
                node = node.parent

    def holds(self, ids: list[int]) -> bool:
        """Whether the model says the same of padded rows that share beginnings as of whole texts, and a token on."""
        half = len(ids) // 2
        texts = [[*ids[:half], *ids[half + half // 2 :]], ids, ids[half - 1 :]]  # fewest own tokens first
        root = _Node(ids[:half], 0, None, 2)
        nodes = [_Node(texts[0], half, root, 1), _Node(texts[1], half, root, 2), _Node(texts[2], 0, None, 3)]
        first, rows = self._begin(nodes, 0)
        again = self._go_on(rows, [ids[0]] * 3)
        last = dict.fromkeys(self._last, 2)
        whole = [
            self._model(
                input_ids=torch.tensor([[*text, ids[0]]], device=self.device), use_cache=False, **last
            ).logits[0, -2:]
            for text in texts
        ]
        return alike(torch.stack([first, again], dim=1).to(whole[0].dtype), torch.stack(whole))


@dataclass(slots=True, eq=False)
class _Batch:
    """Rows that go on.

    Attributes:
        mask: 1 where a slot holds a token, shape (rows, slots).
        width: slots that are filled.
    """

    layers: list[_Slots]
    mask: torch.Tensor
    width: int

    def select(self, rows: torch.Tensor) -> "_Batch":
        """Some of the rows, in this order."""
        if torch.equal(rows, torch.arange(len(self.mask), device=rows.device)):
            return self
        return _Batch([layer.select(rows) for layer in self.layers], self.mask[rows], self.width)


def _positions(mask: torch.Tensor) -> torch.Tensor:
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


def _widths(nodes: Sequence[_Node]) -> tuple[int, int]:
    """Slots for what is before nodes, and for their own tokens."""
    return max(node.start for node in nodes), max(len(node.ids) - node.start for node in nodes)


def _unread(node: _Node | None) -> Iterator[_Node]:
    while node is not None and not node.states:
        yield node
        node = node.parent


def _depth(node: _Node) -> int:
    return 0 if node.parent is None else 1 + _depth(node.parent)


def tree(texts: Sequence[list[int]]) -> tuple[list[_Node], list[int]]:
    """The different ones of texts in order as leaves of a tree, and which of them each text is."""
    leaves: list[_Node] = []
    of: list[int] = []
    different = [text for place, text in enumerate(texts) if not place or text != texts[place - 1]]
    for place, text in enumerate(texts):
        of.append(of[-1] + (text != texts[place - 1]) if place else 0)
    _split(different, 0, len(different), 0, None, leaves)
    return leaves, of


def _split(
    texts: Sequence[list[int]], first: int, last: int, at: int, parent: _Node | None, leaves: list[_Node]
) -> None:
    """Add the leaves of texts that are alike before ``at``; beginnings too small to be worth a pass get no node."""
    start = len(parent.ids) if parent else 0
    while first < last:
        end = first + 1
        while end < last and texts[end][at] == texts[first][at]:
            end += 1
        low, high = texts[first], texts[end - 1]
        if end == first + 1 or len(low) == at + 1:  # alone, or the others go on from it
            end = first + 1
            leaves.append(_Node(low, start, parent, end))
        else:  # each text keeps a token of its own, after which its answer is told
            shortest = min(map(len, texts[first:end]))
            stop = next((place for place in range(at, shortest) if low[place] != high[place]), shortest)
            stop = min(stop, shortest - 1)
            worth = (end - first - 1) * (stop - start) >= _WORTH
            node = _Node(low[:stop], start, parent, end) if worth else parent
            _split(texts, first, end, stop, node, leaves)
        first = end
