"""Masked language models: probability mass of labelled words at the mask (XLNet: at a position that is hidden)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast, XLNetLMHeadModel

from swapbias.measures import Floats, mass_by_label
from swapbias.models.engine.encoder import Engine, Rounding, is_plain, twin
from swapbias.models.loading import length_limit, load_model, loaded_pin, model_name, rounds_later
from swapbias.models.scorer import Coverage, LoadOptions, Progress, Scored, Scorer, not_finite, ranked
from swapbias.studies import MASK, Lexicon, Prompt, load_lexicon

TOP_K = 100  # tokens looked at (Lin et al. 2022)
THRESHOLD = 0.01  # least probability of a token that counts (Lin et al. 2022)
SHOWN = 10  # tokens kept per prompt, or all that are counted
_DECODERS = ("batch_decode", "decode", "_decode")
PARTS = ("closed_list_mass", "matched_mass")  # beside the score


class MaskedScorer(Scorer):
    """Score: probability mass at ``<mask>`` of the prompt's candidate words.

    Softmax over the whole vocabulary; among the 100 likeliest tokens, those with probability of at least .01
    are added up by label, not renormalised. ``closed_list_mass`` beside it has no threshold: every token
    of the vocabulary counts. ``matched_mass`` counts as the score does, but only words that have a match as
    frequent in each other list (``matched_words``): a vocabulary that holds more names of one gender changes
    the others, not it. 0: no counted token has the label. NaN: the text is longer than the model reads, its
    probabilities are not finite, or, of the last, no words match.
    """

    auto_class: Any = AutoModelForMaskedLM
    kind = "masked"
    unit = "probability mass at the mask"

    def __init__(
        self, model: Any, tokenizer: Any, *, model_id: str, batch_size: int = 64, identity: Mapping[str, Any]
    ) -> None:
        """Wrap a loaded model; ``load`` is the usual way."""
        if tokenizer.mask_token is None:
            raise ValueError(f"Model {model_id!r} has no mask token. Use a masked language model.")
        self.model, self.tokenizer, self.model_id = model.eval(), tokenizer, model_id
        self.engine = Engine(self.model, batch_size=batch_size)
        self.rounding: Rounding | None = None
        self.identity: Mapping[str, Any] = dict(identity)
        self.raw = self._vocabulary()
        self.words = [token.strip() for token in self.raw]
        self.uncased = tokenizer.encode("Mary") == tokenizer.encode("mary") and tokenizer.encode(
            "JOHN"
        ) == tokenizer.encode("john")
        self._lexicons: dict[str, tuple[list[str], NDArray[np.intp]]] = {}
        self._matched: dict[str, NDArray[np.bool_]] = {}

    @classmethod
    def load(cls, model: str, options: LoadOptions) -> Self:
        """From a Hub id or local folder.

        Raises:
            ValueError: no such model, or not a masked one.
        """
        loaded, tokenizer, pin = load_model(model, cls.auto_class, options, exact=True)
        identity = {**pin, "kind": cls.kind, "top_k": TOP_K, "threshold": THRESHOLD}
        scorer = cls(loaded, tokenizer, model_id=model_name(model), batch_size=options.batch_size, identity=identity)
        scorer.rounding = Rounding(scorer.engine, options.dtype if rounds_later(options) else "float32")
        return scorer

    @classmethod
    def wrap(cls, model: Any, tokenizer: Any, model_id: str, options: LoadOptions) -> Self:
        """From a loaded model, which stays as it is; it is read on its device and in its own type."""
        identity = {**loaded_pin(model), "kind": cls.kind, "top_k": TOP_K, "threshold": THRESHOLD}
        scorer = cls(twin(model), tokenizer, model_id=model_id, batch_size=options.batch_size, identity=identity)
        scorer.engine.prepack() if is_plain(model) else scorer.engine.read_plainly()
        return scorer

    @property
    def error_note(self) -> str:
        """What bfloat16 or float16 did to the probabilities of a sample, once texts were read; else blank."""
        return self.rounding.note(self.model_id) if self.rounding else ""

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt; each text runs once however many rows ask about it."""
        texts = list(dict.fromkeys(prompt.text for prompt in prompts))
        rows_of: dict[str, list[int]] = {text: [] for text in texts}
        for row, prompt in enumerate(prompts):
            rows_of[prompt.text].append(row)
        results = [Scored(float("nan"), parts=dict.fromkeys(PARTS, math.nan))] * len(prompts)
        for members, probabilities in self.read(texts):
            rows = [(place, row) for place, index in enumerate(members) for row in rows_of[texts[index]]]
            for row, scored in self._masses(probabilities, [(place, prompts[row], row) for place, row in rows]):
                results[row] = scored
            if on_progress:
                on_progress(len(rows))
        return results

    def read(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Batches: indices into ``texts``, and ``probabilities`` at their masks.

        Texts longer than the model reads are in no batch. A row is finite throughout or NaN throughout.
        """
        encoded = self._encode_all(texts)
        limit = length_limit(self.tokenizer, self.model)
        fits = [index for index, ids in enumerate(encoded) if len(ids) <= limit]
        if self.rounding:
            self.rounding.settle([encoded[index] for index in fits], self.probabilities)
        for batch in self.engine.batches([len(encoded[index]) for index in fits]):
            members = [fits[index] for index in batch]
            found = self.probabilities([encoded[index] for index in members])
            lost = ~found.sum(dim=1, keepdim=True).isfinite()
            yield members, found.masked_fill(lost, math.nan) if lost.any() else found

    def probabilities(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """Softmax at the mask, shape (texts, vocabulary), float32, of texts that the engine reads together."""
        mask = self.tokenizer.mask_token_id
        logits = self.engine.logits(encoded, [list(ids).index(mask) for ids in encoded])
        return torch.softmax(logits, dim=-1)

    def coverage(self, lexicon: Lexicon, *, matched: bool = True) -> list[Coverage]:
        """Which words of a lexicon are single tokens of this vocabulary, and which of them have a match there."""
        tokens = np.flatnonzero(self._matched_of(lexicon)) if matched else ()
        matches = {self.words[token].lower() for token in tokens}
        exact, folded = set(self.words), {word.lower() for word in self.words}
        rows = []
        for word, label in lexicon.entries():
            anyhow = word in lexicon.words or self.uncased
            seen = word.lower() in folded if anyhow else word in exact
            rows.append(Coverage(self.model_id, lexicon.name, word, label, seen, seen and word.lower() in matches))
        return rows

    def encode(self, text: str) -> list[int]:
        """Token ids of a text with one ``<mask>``.

        Raises:
            ValueError: the text has not exactly one.
        """
        return self._encode_all([text])[0]

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        masked = [text.replace(MASK, self.tokenizer.mask_token) for text in texts]
        encoded: list[list[int]] = self.tokenizer(masked)["input_ids"]
        for text, ids in zip(texts, encoded, strict=True):
            if ids.count(self.tokenizer.mask_token_id) != 1:
                raise ValueError(f"text {text!r}: expected exactly one {MASK}. Fix the template.")
        return encoded

    def _vocabulary(self) -> list[str]:
        """Each output of the model decoded; a leading space, where the family has it, is kept."""
        rows = self.model.get_output_embeddings().out_features
        known = min(rows, len(self.tokenizer))
        return [*_decoded(self.tokenizer, known), *[""] * (rows - known)]

    def labels_of_tokens(self, name: str) -> tuple[list[str], NDArray[np.intp]]:
        """The labels of a lexicon, and the label index of every token."""
        if name not in self._lexicons:
            lexicon = load_lexicon(name)
            labels = sorted({*lexicon.words.values(), *lexicon.proper.values(), lexicon.rest})
            of_token = [labels.index(label) for label in lexicon.labels(self.words, uncased=self.uncased)]
            self._lexicons[name] = labels, np.array(of_token, dtype=np.intp)
        return self._lexicons[name]

    def matched_tokens(self, name: str) -> NDArray[np.bool_]:
        """Which tokens of the vocabulary are words of a lexicon with a match in each of its other lists."""
        if name not in self._matched:
            self._matched[name] = self._matched_of(load_lexicon(name))
        return self._matched[name]

    def _matched_of(self, lexicon: Lexicon) -> NDArray[np.bool_]:
        of_token = lexicon.labels(self.words, uncased=self.uncased)
        labels = [lexicon.rest, *sorted(set(of_token) - {lexicon.rest})]
        codes = np.array([labels.index(label) for label in of_token], dtype=np.intp)
        return matched_words([word.lower() for word in self.words], codes, 0)

    def _masses(
        self, probabilities: torch.Tensor, asked: Sequence[tuple[int, Prompt, int]]
    ) -> Iterator[tuple[int, Scored]]:
        """Thresholded and closed-list mass for each (place in the batch, prompt, row) asked about."""
        top, tokens = probabilities.topk(min(TOP_K, probabilities.shape[1]), dim=1)
        many = (top >= THRESHOLD - 1e-6).sum(dim=1).clamp(min=SHOWN).tolist()
        shown = [row[:count] for row, count in zip(top.tolist(), many, strict=True)]
        shown_tokens = [row[:count] for row, count in zip(tokens.tolist(), many, strict=True)]
        read, codes = top.cpu().numpy(), tokens.cpu().numpy()
        summed: dict[str, tuple[list[str], Floats, Floats, Floats]] = {}
        seen: dict[str, set[int]] = {}
        for place, prompt, row in asked:
            name, _, label = prompt.candidates.rpartition("/")
            if name not in summed:
                labels, of_token = self.labels_of_tokens(name)
                seen[name] = set(np.unique(of_token).tolist())
                summed[name] = (
                    labels,
                    mass_by_label(read, of_token[codes], len(labels), threshold=THRESHOLD),
                    _closed_list(of_token, probabilities, len(labels)),
                    self._matched_masses(name, read, codes),
                )
            labels, thresholded, closed, matched = summed[name]
            if label not in labels:
                raise ValueError(f"candidates {prompt.candidates!r}: {name} has the labels {labels}. Fix the row.")
            if math.isnan(shown[place][0]):  # its sums would be 0 for labels that no top token has
                yield row, not_finite(PARTS)
                continue
            column = labels.index(label)
            if column not in seen[name]:  # none of its words is a token: a mass of 0 would be a finding
                yield row, Scored(math.nan, parts=dict.fromkeys(PARTS, math.nan))
                continue
            words = [self.words[token] for token in shown_tokens[place]]
            yield (
                row,
                Scored(
                    score=float(thresholded[place, column]),
                    answer=words[0],
                    top_tokens=ranked(words, shown[place]),
                    parts={
                        "closed_list_mass": float(closed[place, column]),
                        "matched_mass": float(matched[place, column]),
                    },
                ),
            )

    def _matched_masses(self, name: str, read: Floats, codes: NDArray[np.intp]) -> Floats:
        """Thresholded mass by label where words without a match are on no list; NaN where none has one."""
        (labels, of_token), matched = self.labels_of_tokens(name), self.matched_tokens(name)
        if not matched.any():
            return np.full((len(read), len(labels)), math.nan)
        kept = np.where(matched, of_token, labels.index(load_lexicon(name).rest))
        return mass_by_label(read, kept[codes], len(labels), threshold=THRESHOLD)


def _decoded(tokenizer: Any, count: int) -> list[str]:
    """Each of the first so many tokens as text, as ``batch_decode`` has it, whose loop takes four times as long.

    A tokenizer with a decoder of its own, or one that mends spaces, keeps its way.
    """
    each = [[token] for token in range(count)]
    plain = isinstance(tokenizer, PreTrainedTokenizerFast) and not tokenizer.clean_up_tokenization_spaces
    own = (getattr(type(tokenizer), name, None) for name in _DECODERS)
    if plain and all(one is getattr(PreTrainedTokenizerFast, name) for one, name in zip(own, _DECODERS, strict=True)):
        return list(tokenizer.backend_tokenizer.decode_batch(each, skip_special_tokens=False))
    return list(tokenizer.batch_decode(each))


def matched_words(words: Sequence[str], label_of: NDArray[np.intp], rest: int) -> NDArray[np.bool_]:
    """Which tokens are words with a match of like frequency in each other list, every word matched once.

    Vocabularies hold words in order of frequency, nearly: words can match where the place of one's first token is at
    most twice the other's. Words of the shortest list are matched, the nearest first.

    Args:
        words: of each token, in the order of the vocabulary; equal ones are one word.
        label_of: of each token the list that it is on.
        rest: the label of tokens on no list.

    >>> matched_words(["", "he", "she", "Al", "x", "y", "Bo", "Cy", "Di"], np.array([0, 1, 2, 1, 0, 0, 1, 1, 2]), 0)
    array([False, False,  True,  True, False, False, False,  True,  True])
    """
    lists: dict[int, dict[str, int]] = {}
    for token in np.flatnonzero(label_of != rest).tolist():
        lists.setdefault(int(label_of[token]), {}).setdefault(words[token], token)
    if len(lists) < 2:
        return np.zeros(len(words), dtype=bool)
    short, *others = sorted(lists, key=lambda label: len(lists[label]))
    partners = [_nearest(lists[short], lists[label]) for label in others]
    kept = [word for word in lists[short] if all(word in found for found in partners)]
    chosen = {(short, word) for word in kept}
    chosen |= {(label, found[word]) for label, found in zip(others, partners, strict=True) for word in kept}
    return np.array([(int(label), word) in chosen for label, word in zip(label_of, words, strict=True)])


def _nearest(places: Mapping[str, int], others: Mapping[str, int]) -> dict[str, str]:
    """Of each word its match among the others; words without one are left out."""
    mine, theirs = list(places), list(others)
    apart = np.abs(np.subtract.outer(np.log1p(list(places.values())), np.log1p(list(others.values()))))
    near = np.argwhere(apart <= math.log(2))
    found: dict[str, str] = {}
    free = set(theirs)
    for one, other in near[np.argsort(apart[tuple(near.T)], kind="stable")]:
        if mine[one] not in found and theirs[other] in free:
            found[mine[one]] = theirs[other]
            free.remove(theirs[other])
    return found


def _closed_list(label_of: NDArray[np.intp], probabilities: torch.Tensor, labels: int) -> Floats:
    """Mass by label of the whole vocabulary: most tokens have the same label, which gets what the others leave."""
    common = np.bincount(label_of, minlength=labels).argmax()
    columns = np.flatnonzero(label_of != common)
    some = probabilities[:, torch.as_tensor(columns, device=probabilities.device)].cpu().numpy()
    sums = mass_by_label(some, label_of[columns], labels)
    sums[:, common] = probabilities.sum(dim=1, dtype=torch.float64).cpu().numpy() - sums.sum(axis=1)
    return sums


class PermutationScorer(MaskedScorer):
    """As ``MaskedScorer``, for XLNet: no token may look at the asked position, and it alone is predicted.

    The fill-mask way (reading the output over a mask token) is wrong here: a permutation model predicts a
    position from its query stream, told by ``perm_mask`` and ``target_mapping``.
    """

    auto_class = XLNetLMHeadModel

    def probabilities(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """Softmax at the mask, shape (texts, vocabulary), float32; all texts have the same length."""
        ids = torch.tensor(encoded, device=self.model.device)
        positions = (ids == self.tokenizer.mask_token_id).int().argmax(dim=1)
        rows = torch.arange(len(ids), device=ids.device)
        hidden = torch.zeros(*ids.shape, ids.shape[1], device=ids.device, dtype=self.model.dtype)
        hidden[rows, :, positions] = 1.0  # perm_mask[k, i, j] = 1: in text k, token i does not see token j
        target = torch.zeros(len(ids), 1, ids.shape[1], device=ids.device, dtype=self.model.dtype)
        target[rows, 0, positions] = 1.0
        with torch.inference_mode():
            logits = self.model(
                input_ids=ids, perm_mask=hidden, target_mapping=target, use_mems=False, return_dict=True
            ).logits
        return torch.softmax(logits[:, 0].float(), dim=-1)


class LogMassScorer(Scorer):
    """Score: natural log of the probability mass at ``<mask>`` of the prompt's candidate words, however rare.

    NaN: the prompt is longer than the model reads, or none of the words has any probability.
    """

    kind = "masked"
    unit = "natural log-probability"

    def __init__(self, masked: MaskedScorer) -> None:
        """Read logarithms with a masked scorer."""
        self.masked = masked
        self.model_id, self.identity = masked.model_id, masked.identity

    @property
    def error_note(self) -> str:
        """As of the masked scorer."""
        return self.masked.error_note

    def coverage(self, lexicon: Lexicon) -> list[Coverage]:
        """Which words of a lexicon are single tokens of the vocabulary."""
        return self.masked.coverage(lexicon, matched=False)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt."""
        return [self._scored(one) for one in self.masked.score(prompts, on_progress)]

    def _scored(self, one: Scored) -> Scored:
        mass = one.parts["closed_list_mass"]
        return replace(one, score=math.log(mass) if mass > 0 else math.nan, parts={})
