"""Causal language models: log-probability of a text, of an antonym in a sentence, and of one of two answers."""

import inspect
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType
from typing import Any, Self

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, DynamicCache

from swapbias.scorers.chat.local import open_ids
from swapbias.scorers.checkpoint import length_batches, length_limit, load_model, loaded_pin, model_name
from swapbias.scorers.engine.encoder import twin
from swapbias.scorers.scorer import LoadOptions, Progress, Scored, Scorer, not_finite, ranked
from swapbias.studies import MASK, Prompt, load_lexicon


class CausalScorer(Scorer):
    """Score: natural log-probability of the text, token by token, after its first token.

    NaN: the text is longer than the model reads, or a single token, or what the model gives is not finite.
    """

    kind = "causal"
    unit = "log-probability"

    def __init__(
        self, model: Any, tokenizer: Any, *, model_id: str, batch_size: int = 64, identity: Mapping[str, Any]
    ) -> None:
        """Wrap a loaded model; ``load`` is the usual way."""
        self.model, self.tokenizer = model.eval(), tokenizer
        self.model_id, self.batch_size = model_id, batch_size
        self.identity: Mapping[str, Any] = {**identity, "kind": self.kind}

    @classmethod
    def load(cls, model: str, options: LoadOptions) -> Self:
        """From a Hub id or local folder.

        Raises:
            ValueError: no such model, or not a causal one.
        """
        loaded, tokenizer, pin = load_model(model, AutoModelForCausalLM, device=options.device, dtype=options.dtype)
        return cls(loaded, tokenizer, model_id=model_name(model), batch_size=options.batch_size, identity=pin)

    @classmethod
    def wrap(cls, model: Any, tokenizer: Any, model_id: str, options: LoadOptions) -> Self:
        """From a loaded model, which stays as it is; it is read on its device and in its own type."""
        pin = loaded_pin(model)
        return cls(twin(model), tokenizer, model_id=model_id, batch_size=options.batch_size, identity=pin)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt."""
        return [_scored(value) for value in self.log_probabilities([one.text for one in prompts], on_progress)]

    def log_probabilities(self, texts: Sequence[str], on_progress: Progress | None = None) -> list[float | None]:
        """Log-probability of each text, in nats; None where it is too long or a single token."""
        encoded: list[list[int]] = self.tokenizer(list(texts))["input_ids"] if texts else []
        limit = length_limit(self.tokenizer, self.model.config)
        fits = [index for index, ids in enumerate(encoded) if 1 < len(ids) <= limit]
        found: list[float | None] = [None] * len(texts)
        for places, values in self.ends([(encoded[index], 1) for index in fits]):
            for place, value in zip(places, values, strict=True):
                found[fits[place]] = value
            if on_progress:
                on_progress(len(places))
        return found

    def ends(self, texts: "Sequence[Text]") -> "Iterator[tuple[list[int], list[float]]]":
        """Log-probabilities of the ends of texts given their beginnings, as they become known: places and values.

        A beginning that texts share is read once where the model's cache allows it, which is tried on the longest.
        """
        if texts and can_share(self.model, max((ids for ids, _ in texts), key=len)):
            return shared_ends(self.model, texts, batch_size=self.batch_size)
        return plain_ends(self.model, texts, batch_size=self.batch_size)


def _scored(value: float | None) -> Scored:
    if value is None:
        return Scored(math.nan)
    return Scored(value) if math.isfinite(value) else not_finite()


class AntonymScorer(Scorer):
    """Score: mean over antonym pairs of log p(text with the disapproving word) - log p(with the approving one).

    Needs no lexicon of attitudes: above 0 the model would rather disapprove; 0: either word. The pairs are those of
    the corpus the prompt belongs to; ``top_tokens`` holds each pair's log-odds.
    """

    kind = "causal"
    unit = "mean log-odds of the disapproving antonym"
    chunk_rows = 64

    def __init__(self, causal: CausalScorer) -> None:
        """Read antonyms with a causal scorer."""
        self.causal = causal
        self.model_id, self.identity = causal.model_id, causal.identity

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt."""
        words = [self._words(prompt) for prompt in prompts]
        texts = [prompt.text.replace(MASK, word) for prompt, own in zip(prompts, words, strict=True) for word in own]
        share = len(prompts) / len(texts)
        report = (lambda done: on_progress(done * share)) if on_progress else None
        values = iter(self.causal.log_probabilities(texts, report))
        return [self._scored(own, [next(values) for _ in own]) for own in words]

    def _words(self, prompt: Prompt) -> list[str]:
        corpus = prompt.candidates.partition("/")[0]
        return [word for word, _ in load_lexicon(f"{corpus}/antonyms").entries()]

    def _scored(self, words: Sequence[str], values: Sequence[float | None]) -> Scored:
        """Words and values alternate: approving, disapproving."""
        if any(value is not None and not math.isfinite(value) for value in values):
            return not_finite()
        known = [math.nan if value is None else value for value in values]
        odds = [bad - good for good, bad in zip(known[::2], known[1::2], strict=True)]
        named = [f"{good}/{bad}" for good, bad in zip(words[::2], words[1::2], strict=True)]
        pairs = [[name, round(value, 6)] for name, value in zip(named, odds, strict=True) if not math.isnan(value)]
        return Scored(sum(odds) / len(odds), top_tokens=json.dumps(pairs, ensure_ascii=False))


PARTS = ("log_odds", "log_odds_per_token")
UNSCORED = Scored(math.nan, parts=dict.fromkeys(PARTS, math.nan))


class AnswerOddsScorer(Scorer):
    """Score: 1 where the correct answer is likelier after the prompt than the incorrect one, 0 where less, .5: equal.

    ``candidates`` of a prompt are its answers, ``correct|incorrect`` (``the mechanic|the clerk``); each follows the
    prompt after a space. ``log_odds``: natural log p(correct) - log p(incorrect), above 0 where the correct one is
    likelier. ``log_odds_per_token``: the same of the mean over the tokens of each answer, for answers of unequal
    length. NaN: prompt and answer are longer than the model reads, or a log-probability is NaN, or both answers are
    impossible. Where one is (probability 0), the other is likelier, and the log-odds are NaN.
    """

    kind = "causal"
    unit = "correct answer is likelier"

    def __init__(self, causal: CausalScorer) -> None:
        """Compare answers with a causal scorer."""
        self.causal = causal
        self.model_id = causal.model_id
        self.identity: Mapping[str, Any] = causal.identity

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt.

        Raises:
            ValueError: candidates that are not two answers.
        """
        results = [UNSCORED] * len(prompts)
        pairs = [self._pair(prompt) for prompt in prompts]
        limit = length_limit(self.causal.tokenizer, self.causal.model.config)
        fits = [index for index, pair in enumerate(pairs) if max(map(len, pair.ids)) <= limit]
        texts = [(pairs[index].ids[side], pairs[index].start) for index in fits for side in (0, 1)]
        values = [math.nan] * len(texts)
        for places, found in self.causal.ends(texts):
            for place, value in zip(places, found, strict=True):
                values[place] = value
            if on_progress:
                on_progress(len(places) / 2)
        for place, index in enumerate(fits):
            results[index] = pairs[index].scored(values[2 * place], values[2 * place + 1])
        if on_progress and len(fits) < len(prompts):
            on_progress(len(prompts) - len(fits))
        return results

    def _pair(self, prompt: Prompt) -> "_Pair":
        answers = prompt.candidates.split("|")
        if len(answers) != 2 or not all(answers):
            raise ValueError(
                f"{prompt.prompt_id}: candidates {prompt.candidates!r}, expected 'correct|incorrect'. Give two."
            )
        before = open_ids(self.causal.tokenizer, prompt.text)
        ids = [open_ids(self.causal.tokenizer, f"{prompt.text} {answer}") for answer in answers]
        return _Pair(answers, ids, min(min(_shared(before, one), len(one) - 1) for one in ids))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two answers, the tokens of the prompt with each, and where the answers start; one start for both."""

    answers: Sequence[str]
    ids: Sequence[list[int]]
    start: int

    def scored(self, correct: float, incorrect: float) -> Scored:
        odds = correct - incorrect
        if math.isnan(odds):
            return not_finite(PARTS)
        means = [value / (len(ids) - self.start) for value, ids in zip((correct, incorrect), self.ids, strict=True)]
        likelier = "" if odds == 0 else self.answers[0] if odds > 0 else self.answers[1]
        share = (1 + math.tanh(odds / 2)) / 2  # of the correct one, were there no third answer
        return Scored(
            0.5 if odds == 0 else float(odds > 0),
            likelier,
            ranked(self.answers, (share, 1 - share)),
            dict(zip(PARTS, (odds, means[0] - means[1]), strict=True)) if math.isfinite(odds) else UNSCORED.parts,
        )


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with in common; at least 1, since nothing predicts a first token."""
    pairs = enumerate(zip(one, other, strict=False))
    return max(1, next((place for place, (a, b) in pairs if a != b), min(len(one), len(other))))


# --- reading texts that begin alike -----------------------------------------------------------------------

Text = tuple[list[int], int]  # tokens, and where the end begins whose log-probability is asked for: 1 at least
Ends = Iterator[tuple[list[int], list[float]]]
_SMALL = 2**23  # bytes of logits below which allocators hand out the same memory again


def plain_ends(model: Any, texts: Sequence[Text], *, batch_size: int) -> Ends:
    """``CausalScorer.ends`` by reading every text whole, in batches of equal length."""
    for members in length_batches([len(ids) for ids, _ in texts], batch_size):
        starts = [texts[index][1] for index in members]
        low = min(starts)  # logits are kept from the first end on: they are large
        ids = torch.tensor([list(texts[index][0]) for index in members], device=model.device)
        with torch.inference_mode():
            logits = model(input_ids=ids, return_dict=True).logits[:, low - 1 : -1].float()
            each = torch.log_softmax(logits, dim=-1).gather(2, ids[:, low:, None])[..., 0].double()
        yield members, [float(row[start - low :].sum()) for start, row in zip(starts, each, strict=True)]


def shared_ends(model: Any, texts: Sequence[Text], *, batch_size: int) -> Ends:
    """``CausalScorer.ends`` with every beginning that texts share read once: see ``_Tree``."""
    with torch.inference_mode():
        yield from _Tree(model, texts, batch_size).read()


def can_share(model: Any, ids: Sequence[int]) -> bool:
    """Whether a model that goes on from its cache says the same of a text as when it reads it whole.

    No: it gives no keys and values by layer (state spaces, XLNet), forgets some of them (a window shorter than the
    text), or what it gives is not finite.
    """
    half, one = len(ids) // 2, torch.tensor([list(ids)], device=model.device)
    if not half:
        return False
    with torch.inference_mode():
        try:
            whole = model(input_ids=one, use_cache=False, return_dict=True).logits[:, half:]
            begun = model(input_ids=one[:, :half], use_cache=True, return_dict=True).past_key_values
            cache = _rows_of(begun, [0, 0], half)
            rest = None if cache is None else _go_on(model, one[:, half:].expand(2, -1), cache).logits
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):  # as families refuse
            return False
        if rest is None or rest.shape[1:] != whole.shape[1:]:
            return False
        exact = rest.dtype == torch.float32
        expected, found = (torch.log_softmax(one.float(), dim=-1) for one in (whole, rest))
        return torch.allclose(found, expected, rtol=1e-5 if exact else 0.05, atol=1e-4 if exact else 0.5)


def _go_on(model: Any, ids: torch.Tensor, cache: Any, more: Mapping[str, int] = MappingProxyType({})) -> Any:
    """What a model returns for tokens after those in its cache; nothing is masked, and positions follow."""
    seen = cache.get_seq_length() if cache else 0
    mask = torch.ones(len(ids), seen + ids.shape[1], dtype=torch.long, device=ids.device)
    return model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, return_dict=True, **more)


def _rows_of(cache: Any, rows: Sequence[int], length: int) -> DynamicCache | None:
    """Some rows of a cache of so many tokens as a new one; None where it does not hold a key for every token."""
    chosen = DynamicCache()
    for place, layer in enumerate(cache.layers):
        if layer.keys is None or layer.keys.shape[-2] != length:
            return None
        chosen.update(layer.keys[rows], layer.values[rows], place)
    return chosen


@dataclass(frozen=True, slots=True)
class _Branch:
    """Texts ``first`` to ``last`` (excluded) of a tree, which are alike up to ``stop`` and longer than that.

    Attributes:
        token: the first that is not theirs and their siblings' alike.
        row: of what they go on from.
        ends: no text has more than one token after ``stop``.
        chance: log-probability of ``token``, where there are tokens before it.
    """

    first: int
    last: int
    stop: int
    token: int
    row: int
    ends: bool
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Branches that are read together, and what is known of the ``start`` tokens before them.

    ``known``: log-probabilities of these, but for a text's first, shape (rows, start - 1); ``cache``: of these.
    """

    branches: Sequence[_Branch]
    start: int
    known: torch.Tensor
    cache: Any


class _Tree:
    """Texts in the order of their tokens, so that those that begin alike are neighbours.

    They are read branch by branch, each from the cache of the one it grows from, and the deepest first, so that few
    caches are held at a time. Branches of a batch are equally long, but for those after which nothing is read:
    these are padded behind, where a causal model does not look.
    """

    def __init__(self, model: Any, texts: Sequence[Text], batch_size: int) -> None:
        self.model, self.batch_size = model, batch_size
        self.places = sorted(range(len(texts)), key=lambda index: texts[index][0])
        self.ids = [texts[index][0] for index in self.places]
        self.starts = [texts[index][1] for index in self.places]
        weights = sum(one.numel() * one.element_size() for one in model.parameters())
        # A pass reads the weights and writes logits: tokens are so many that neither is much more than the other.
        self._room = max(_SMALL, weights) // (4 * model.get_input_embeddings().weight.shape[0])
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    def read(self) -> Ends:
        """Places among the texts, and the log-probabilities of their ends."""
        due = list(self._batches(list(self._split(0, len(self.ids), 0, 0)), 0, torch.zeros(1, 0).double(), None))
        while due:
            found, further = self._read(due.pop())
            due += further
            if found:
                yield [self.places[text] for text in found], list(found.values())

    def _split(self, first: int, last: int, at: int, row: int) -> Iterator[_Branch]:
        """The branches of texts that are alike before ``at``, by their token there."""
        while first < last:
            token, end = self.ids[first][at], first + 1
            while end < last and self.ids[end][at] == token:
                end += 1
            lowest, highest = self.ids[first], self.ids[end - 1]
            alike = next((place for place in range(at, len(lowest)) if lowest[place] != highest[place]), len(lowest))
            stop = min(alike, len(highest) - 1)
            yield _Branch(first, end, stop, token, row, max(map(len, self.ids[first:end])) <= stop + 1)
            first = end

    def _batches(self, branches: Sequence[_Branch], start: int, known: torch.Tensor, cache: Any) -> Iterator[_Batch]:
        def alike(one: _Branch) -> int:
            return 0 if one.ends else one.stop

        ordered = sorted(branches, key=lambda one: (alike(one), one.stop))
        for _, group in groupby(ordered, key=alike):
            left = list(group)
            while left:
                count = max(1, min(self.batch_size, self._room // (left[-1].stop - start)))
                left, taken = left[:-count], left[-count:]
                yield _Batch(taken, start, known, cache)

    def _read(self, batch: _Batch) -> tuple[dict[int, float], list[_Batch]]:
        """Values of the texts that end in a batch, and what is to be read after it."""
        children = [
            child
            for row, one in enumerate(batch.branches)
            for child in self._split(self._longer(one), one.last, one.stop, row)
        ]
        within, after, cache = self._log_probabilities(batch, children)
        known = torch.cat([batch.known[[one.row for one in batch.branches]], within], dim=1)
        found, growing = {}, []
        for row, one in enumerate(batch.branches):
            for text in range(one.first, self._longer(one)):
                found[text] = float(known[row, self.starts[text] - 1 : one.stop - 1].sum())
        for child, chance in zip(children, after, strict=True):
            before = batch.branches[child.row].stop
            if child.stop > before:
                growing.append(replace(child, chance=chance))
                continue
            for text in range(child.first, child.last):
                found[text] = float(known[child.row, self.starts[text] - 1 : before - 1].sum()) + chance
        return found, list(self._batches(growing, batch.branches[0].stop, known, cache))

    def _longer(self, branch: _Branch) -> int:
        """The first text of a branch that is longer than what its texts begin with in common."""
        texts = range(branch.first, branch.last)
        return next(text for text in texts if len(self.ids[text]) > branch.stop)

    def _log_probabilities(self, batch: _Batch, children: Sequence[_Branch]) -> tuple[torch.Tensor, list[float], Any]:
        """Log-probabilities of the tokens of branches, of the one after them by child, and the cache.

        The first of all tokens has none; tokens that no text asks about have 0.
        """
        start, device = batch.start, self.model.device
        spans = [self.ids[one.first][start : one.stop] for one in batch.branches]
        width = max(map(len, spans))
        ids = torch.tensor([[*span, *[0] * (width - len(span))] for span in spans], device=device)
        asked = min(self.starts[text] for one in batch.branches for text in range(one.first, one.last))
        skipped = max(0, min(asked - start, *map(len, spans)) - 1)
        rows = [one.row for one in batch.branches]
        cache = None if batch.cache is None else _rows_of(batch.cache, rows, start)
        out = _go_on(self.model, ids, cache, {"logits_to_keep": width - skipped} if self._keeps and skipped else {})
        each = torch.log_softmax(out.logits[:, skipped - width :].float(), dim=-1)
        ends = [len(spans[child.row]) - 1 - skipped for child in children]
        after = each[[child.row for child in children], ends, [child.token for child in children]]
        within = each[:, :-1].gather(2, ids[:, skipped + 1 :, None])[..., 0]
        within = functional.pad(within, (skipped, 0)).cpu().double()
        if start:
            chances = torch.tensor([[one.chance] for one in batch.branches], dtype=torch.double)
            within = torch.cat([chances, within], dim=1)
        return within, after.tolist(), out.past_key_values
