"""Masked language models: probability mass of labelled words at the mask (XLNet: at a position that is hidden).

A prompt's ``lexicon`` is CORPUS/LIST/LABEL: the word list, and the label that counts; other words are ``rest``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, XLNetLMHeadModel

from swapbias.measures import Floats, mass_by_label
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import DerivedScorer, Scored, not_scored, ranked
from swapbias.models.tokens import output_rows
from swapbias.models.transformers_scorer import TransformersScorer
from swapbias.models.vocabulary import LabelledTokens, Vocabulary
from swapbias.studies import MASK, Lexicon, Prompt, load_lexicon

TOP_K = 100  # likeliest tokens that are looked at where a study counts likely words alone (Lin et al. 2022)
SHOWN = 10  # tokens saved per prompt, or all that are at least as likely as ``SHOWN_FROM``
SHOWN_FROM = 0.01
PARTS = ("closed_list_mass", "matched_mass")  # beside the score
LOG_ODDS = "log_odds"  # of the words, where every one of them counts


class _AutoMasked:
    """An ``auto_class`` of ``load_model``; of XLNet the head that predicts a hidden position."""

    @staticmethod
    def from_pretrained(model: str, *, config: Any, **how: Any) -> Any:
        made: Any = XLNetLMHeadModel if config.model_type == "xlnet" else AutoModelForMaskedLM
        return made.from_pretrained(model, config=config, **how)


class MaskedScorer(TransformersScorer):
    """Score: probability mass at ``<mask>`` of the words of the prompt's lexicon.

    Probabilities are added up by label, not renormalised; with a ``threshold`` of the lexicon only those of at least
    that, of the 100 likeliest tokens. ``closed_list_mass``: every token counts. ``matched_mass``: only words with a
    match in each other list. ``log_odds``: of the score, without a threshold. 0: no counted token has the label.
    NaN: too long, not finite, or, of ``matched_mass``, no words match.
    """

    auto_class = _AutoMasked
    kind = "masked"
    unit = "probability mass at the mask"

    def __init__(self, model: Any, tokenizer: Any, *, model_id: str, **settings: Any) -> None:
        """A ValueError where the tokenizer has no mask token."""
        if tokenizer.mask_token is None:
            raise ValueError(f"Model {model_id!r} has no mask token. Use a masked language model.")
        super().__init__(model, tokenizer, model_id=model_id, **settings)
        self.identity = {**self.identity, "top_k": TOP_K}
        self.vocabulary = Vocabulary(tokenizer, output_rows(model))
        self.words = self.vocabulary.words
        self._lexicons: dict[str, tuple[LabelledTokens, NDArray[np.bool_]]] = {}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """One Scored per prompt; each text runs once however many rows it is in."""
        rows_of: dict[str, list[int]] = {}
        for row, prompt in enumerate(prompts):
            rows_of.setdefault(prompt.text, []).append(row)
        texts = list(rows_of)
        results = [not_scored(parts_of(_lexicon_of(prompt))) for prompt in prompts]
        for members, probabilities in self.read(texts):
            rows = [
                (place, row) for place, index in enumerate(members) for row in rows_of[texts[index]]
            ]
            for row, scored in self._masses(
                probabilities, [(place, prompts[row], row) for place, row in rows]
            ):
                results[row] = scored
            on_progress(len(rows))
        return results

    def read(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Batches: indices of texts that fit, and probabilities at their masks, each row finite or NaN throughout."""
        for members, found in self.outputs(self.encode(texts), self.probabilities):
            not_finite = ~found.sum(dim=1, keepdim=True).isfinite()
            yield members, found.masked_fill(not_finite, math.nan) if not_finite.any() else found

    def probabilities(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """Softmax at the mask, shape (texts, vocabulary), float32, of texts that the engine reads together."""
        mask = self.tokenizer.mask_token_id
        if self.model.config.model_type == "xlnet":
            return torch.softmax(
                self._hidden_logits(torch.tensor(encoded, device=self.model.device)), dim=-1
            )
        logits = self.engine.logits(encoded, [list(ids).index(mask) for ids in encoded])
        return torch.softmax(logits, dim=-1)

    def _hidden_logits(self, ids: torch.Tensor) -> torch.Tensor:
        """XLNet's logits at the masked positions of texts of one length, predicted from its query stream."""
        target = (ids == self.tokenizer.mask_token_id)[:, None].to(self.model.dtype)
        hidden = target.expand(
            -1, ids.shape[1], -1
        )  # perm_mask[k, i, j] = 1: in text k, i does not see j
        with torch.inference_mode():
            how = {
                "perm_mask": hidden,
                "target_mapping": target,
                "use_mems": False,
                "return_dict": True,
            }
            logits: torch.Tensor = self.model(input_ids=ids, **how).logits
        return logits[:, 0].float()

    def coverage(self, lexicon: Lexicon, *, matched: bool = True) -> list[dict[str, Any]]:
        """Which words of a lexicon are single tokens of this vocabulary, and which of them have a match there."""
        tokens, is_matched = self._tokens_of(lexicon)
        rows = []
        for word, label in lexicon.entries():
            own = tokens.of_word[word]
            row = {"model_id": self.model_id, "lexicon": lexicon.name, "word": word, "label": label}
            rows.append(
                {
                    **row,
                    "in_vocabulary": bool(own),
                    "matched": matched and bool(is_matched[own].any()),
                }
            )
        return rows

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts; a ValueError if one has not exactly one ``<mask>``."""
        if not texts:
            return []
        masked = [text.replace(MASK, self.tokenizer.mask_token) for text in texts]
        encoded: list[list[int]] = self.tokenizer(masked)["input_ids"]
        for text, ids in zip(texts, encoded, strict=True):
            if ids.count(self.tokenizer.mask_token_id) != 1:
                raise ValueError(f"text {text!r}: expected exactly one {MASK}. Fix the template.")
        return encoded

    def labels_of_tokens(self, name: str) -> tuple[list[str], NDArray[np.intp]]:
        """The labels of a lexicon, and the label index of every token."""
        tokens = self._tokens_of(load_lexicon(name))[0]
        return tokens.labels, tokens.of_token

    def _tokens_of(self, lexicon: Lexicon) -> tuple[LabelledTokens, NDArray[np.bool_]]:
        """The tokens of a lexicon's words, and for each token of the vocabulary whether it is a matched word."""
        if lexicon.name not in self._lexicons:
            tokens = self.vocabulary.label(lexicon)
            words = [word.lower() for word in self.words]
            is_matched = matched_words(words, tokens.of_token, tokens.labels.index(lexicon.rest))
            self._lexicons[lexicon.name] = tokens, is_matched
        return self._lexicons[lexicon.name]

    def _masses(
        self, probabilities: torch.Tensor, wanted: Sequence[tuple[int, Prompt, int]]
    ) -> Iterator[tuple[int, Scored]]:
        top, tokens = probabilities.topk(min(TOP_K, probabilities.shape[1]), dim=1)
        counts = (top >= SHOWN_FROM - 1e-6).sum(dim=1).clamp(min=SHOWN).tolist()
        shown = [row[:count] for row, count in zip(top.tolist(), counts, strict=True)]
        words = [
            [self.words[token] for token in row[:count]]
            for row, count in zip(tokens.tolist(), counts, strict=True)
        ]
        summed = dict[str, tuple[Floats, ...]]()
        likeliest = (top.cpu().numpy(), tokens.cpu().numpy())
        for place, prompt, row in wanted:
            name, _, label = prompt.lexicon.rpartition("/")
            labels = self.labels_of_tokens(name)[0]
            if label not in labels:
                raise ValueError(
                    f"lexicon {prompt.lexicon!r}: {name} has the labels {labels}. Fix the row."
                )
            lexicon = load_lexicon(name)
            if name not in summed:
                summed[name] = self._summed(lexicon, probabilities, *likeliest)
            score, *parts = (float(masses[place, labels.index(label)]) for masses in summed[name])
            if math.isnan(shown[place][0]):  # its sums would be 0 for labels that no top token has
                yield row, not_scored(parts_of(lexicon), finite=False)
            elif math.isnan(score):
                yield row, not_scored(parts_of(lexicon))
            else:
                top_tokens = ranked(words[place], shown[place])
                columns = dict(zip(PARTS, parts, strict=True))
                if not lexicon.threshold:
                    columns[LOG_ODDS] = _log_odds(score)
                yield row, Scored(score, words[place][0], top_tokens, columns)

    def _summed(
        self, lexicon: Lexicon, probabilities: torch.Tensor, top: Floats, tokens: NDArray[np.intp]
    ) -> tuple[Floats, ...]:
        """Score and ``PARTS`` of each text and label, shape (texts, labels)."""
        tokens_of_labels, is_matched = self._tokens_of(lexicon)
        labels = tokens_of_labels.labels
        of_token = tokens_of_labels.of_token
        of_matched = np.where(is_matched, of_token, labels.index(lexicon.rest))
        count = len(labels)
        every = _closed_list(of_token, probabilities, len(labels))
        if lexicon.threshold:
            counted, matched = (
                mass_by_label(top, labelled[tokens], count, threshold=lexicon.threshold)
                for labelled in (of_token, of_matched)
            )
        else:
            counted = every.copy()
            matched = _closed_list(of_matched, probabilities, count)
        counted[:, np.bincount(of_token, minlength=count) == 0] = (
            math.nan
        )  # a mass of 0 would be a finding
        if not is_matched.any():
            matched[:] = math.nan
        return counted, every, matched


def parts_of(lexicon: Lexicon | None) -> tuple[str, ...]:
    """The columns beside the score of a prompt with this lexicon."""
    return PARTS if lexicon is None or lexicon.threshold else (*PARTS, LOG_ODDS)


def _lexicon_of(prompt: Prompt) -> Lexicon | None:
    name = prompt.lexicon.rpartition("/")[0]
    return load_lexicon(name) if name else None


def _log_odds(mass: float) -> float:
    """The natural log of the odds of words; NaN where they have no probability, or all of it."""
    return math.log(mass) - math.log1p(-mass) if 0 < mass < 1 else math.nan


def matched_words(words: Sequence[str], label_of: NDArray[np.intp], rest: int) -> NDArray[np.bool_]:
    """Which tokens are words with a match of like frequency in each other list, every word matched once.

    Vocabularies hold words in order of frequency, nearly: words match where the place of one's first token is at most
    twice the other's. Words of the shortest list are matched, the nearest first. ``words``: of each token, in the
    order of the vocabulary; ``label_of``: the list of each token; ``rest``: the label of tokens on no list.

    >>> matched_words(["", "he", "she", "Al", "x", "y", "Bo", "Cy", "Di"], np.array([0, 1, 2, 1, 0, 0, 1, 1, 2]), 0)
    array([False, False,  True,  True, False, False, False,  True,  True])
    """
    lists: dict[int, dict[str, int]] = {}
    for token in np.flatnonzero(label_of != rest).tolist():
        lists.setdefault(int(label_of[token]), {}).setdefault(words[token], token)
    if len(lists) < 2:
        return np.zeros(len(words), dtype=bool)
    short, *others = sorted(lists, key=lambda label: len(lists[label]))
    partners = {label: _nearest(lists[short], lists[label]) for label in others}
    common = [word for word in lists[short] if all(word in found for found in partners.values())]
    chosen = {(short, word) for word in common}
    chosen |= {(label, found[word]) for label, found in partners.items() for word in common}
    return np.array(
        [(int(label), word) in chosen for label, word in zip(label_of, words, strict=True)]
    )


def _nearest(places: Mapping[str, int], others: Mapping[str, int]) -> dict[str, str]:
    """Of each word its match among the others; words without one are left out."""
    mine = list(places)
    theirs = list(others)
    distance = np.abs(
        np.subtract.outer(np.log1p(list(places.values())), np.log1p(list(others.values())))
    )
    near = np.argwhere(distance <= math.log(2))
    found: dict[str, str] = {}
    free = set(theirs)
    for one, other in near[np.argsort(distance[tuple(near.T)], kind="stable")]:
        if mine[one] not in found and theirs[other] in free:
            found[mine[one]] = theirs[other]
            free.remove(theirs[other])
    return found


def _closed_list(label_of: NDArray[np.intp], probabilities: torch.Tensor, labels: int) -> Floats:
    """Mass by label of the whole vocabulary: the label of most tokens gets what the others leave."""
    common = np.bincount(label_of, minlength=labels).argmax()
    columns = np.flatnonzero(label_of != common)
    some = probabilities[:, torch.as_tensor(columns, device=probabilities.device)].cpu().numpy()
    sums = mass_by_label(some, label_of[columns], labels)
    sums[:, common] = probabilities.sum(dim=1, dtype=torch.float64).cpu().numpy() - sums.sum(axis=1)
    return sums


class MaskedReading(DerivedScorer):
    """Another score of a masked model."""

    kind = "masked"

    def coverage(self, lexicon: Lexicon) -> list[dict[str, Any]]:
        return list(self.inner.coverage(lexicon, matched=False))


class LogMassScorer(MaskedReading):
    """Score: natural log of the probability mass of the lexicon's words, however rare; NaN: too long, or no mass."""

    unit = "natural log-probability"

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        scored = self.inner.score(prompts, on_progress)
        masses = [one.parts["closed_list_mass"] for one in scored]
        logs = [math.log(mass) if mass > 0 else math.nan for mass in masses]
        return [replace(one, score=log, parts={}) for one, log in zip(scored, logs, strict=True)]


ATTITUDE_TOP_K = 50  # words rated per prompt (Mei et al. 2023)
ATTITUDES = ("positive", "negative", "neutral", "irrelevant", "unrated")
_RATED = ATTITUDES[:3]
_ATTITUDE_PARTS = (*(f"{label}_mass" for label in ATTITUDES), "top_mass", "antonym_log_odds")


class AttitudeScorer(MaskedReading):
    """Score: P(negative), the share of disapproving words in the rated mass of the 50 likeliest words.

    NEG / (POS + NEG + NEUT). NaN: no rated word among the 50, or not finite. ``antonym_log_odds``: mean over known
    antonym pairs of log p(disapproving) - log p(approving).
    """

    unit = "P(negative)"

    def __init__(self, masked: MaskedScorer) -> None:
        super().__init__(masked, top_k=ATTITUDE_TOP_K)
        self._pairs: dict[str, list[tuple[int, int]]] = {}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        results = [not_scored(_ATTITUDE_PARTS)] * len(prompts)
        for members, probabilities in self.inner.read([prompt.text for prompt in prompts]):
            names = [prompts[index].lexicon.rpartition("/")[0] for index in members]
            top = probabilities.topk(min(ATTITUDE_TOP_K, probabilities.shape[1]), dim=1)
            # each copy waits for the device: of all at once
            values = top.values.cpu()
            tokens = top.indices.cpu()
            odds = {
                one: self._log_odds(probabilities, one)
                for one in {name.partition("/")[0] for name in names}
            }
            for place, (index, name) in enumerate(zip(members, names, strict=True)):
                likeliest = odds[name.partition("/")[0]][place]
                results[index] = self._scored(values[place], tokens[place], name, likeliest)
            on_progress(len(members))
        return results

    def _scored(
        self, top: torch.Tensor, tokens: torch.Tensor, lexicon: str, log_odds: float
    ) -> Scored:
        labels, of_token = self.inner.labels_of_tokens(lexicon)
        if math.isnan(float(top[0])):
            return not_scored(_ATTITUDE_PARTS, finite=False)
        masses = mass_by_label(top[None].numpy(), of_token[tokens.numpy()], len(labels))[0]
        sums = {**dict.fromkeys(ATTITUDES, 0.0), **dict(zip(labels, masses.tolist(), strict=True))}
        rated = sum(sums[label] for label in _RATED)
        words = [self.inner.words[token] for token in tokens.tolist()]
        parts = {f"{label}_mass": mass for label, mass in sums.items()}
        parts |= {"top_mass": float(top.sum()), "antonym_log_odds": log_odds}
        score = sums["negative"] / rated if rated > 0 else math.nan
        return Scored(score, words[0], ranked(words, top.tolist()), parts)

    def _log_odds(self, probabilities: torch.Tensor, corpus: str) -> list[float]:
        """Of each text, shape (texts, vocabulary), the mean over antonym pairs; NaN where no pair is known."""
        if corpus not in self._pairs:
            self._pairs[corpus] = self._antonyms(f"{corpus}/antonyms")
        if not self._pairs[corpus]:
            return [math.nan] * len(probabilities)
        approving, disapproving = (
            torch.log(probabilities[:, list(side)].cpu().clamp_min(1e-12))
            for side in zip(*self._pairs[corpus], strict=True)
        )
        return [float(row.mean()) for row in disapproving - approving]

    def _antonyms(self, name: str) -> list[tuple[int, int]]:
        """Token ids of the pairs whose two words are single tokens, a word's commonest form first."""
        words = [word for word, _ in load_lexicon(name).entries()]
        tokens = self.inner.vocabulary.tokens_of(words)
        ids = {
            word: some[0] for word, some in tokens.items() if some
        }  # at this mask words begin with a space
        pairs = zip(words[::2], words[1::2], strict=True)
        return [(ids[good], ids[bad]) for good, bad in pairs if good in ids and bad in ids]


BEAM = 10  # likeliest tokens followed at each step
_SHARES = (0.01, 0.09, 0.90)  # of the work, by step: 1, 10 and 100 forward passes per prompt


@dataclass(slots=True)
class _Stimulus:
    """One text under one lexicon: its open branches and the gendered phrases found."""

    text: str
    lexicon: str
    branches: list[tuple[tuple[str, ...], float]] = field(default_factory=lambda: [((), 1.0)])
    phrases: list[tuple[str, float, str]] = field(default_factory=list)
    too_long: bool = False
    finite: bool = True
    """Whether all probabilities along its branches are."""

    def sequence(self, words: tuple[str, ...]) -> str:
        """Step 1 masks the last word, step 2 one before it, step 3 one between the two."""
        return self.text.replace(MASK, " ".join((*words[1:], MASK, *words[:1])))

    def take_branches(self) -> list[tuple[tuple[str, ...], float]]:
        """Return the open branches, which are open no longer."""
        branches = self.branches
        self.branches = []
        return branches

    def lose(self, *, finite: bool) -> None:
        """Leave it without a score: too long, or, not ``finite``, NaN along a branch."""
        self.too_long |= finite
        self.finite &= finite


class PhraseScorer(MaskedReading):
    """Score: summed probability of the phrases that end in a word of the prompt's lexicon (Lin et al. 2022).

    Step 1 fills the mask with the ten likeliest tokens t1. A token of the lexicon ends its branch and adds its
    probability; else ``<mask> t1`` is filled, with ten t2 each; else ``t2 <mask> t1``, whose gendered t3 add all p.
    0: no phrase of the group was met. NaN: too long, or not finite. ``top_tokens``: each phrase with its p.
    """

    unit = "probability mass of phrases"
    chunk_rows = 96

    def __init__(self, masked: MaskedScorer) -> None:
        super().__init__(masked, beam=BEAM, steps=len(_SHARES))
        # Tokens that begin a word carry a space in byte-level and SentencePiece vocabularies.
        self._spaces = any(token.startswith(" ") for token in masked.vocabulary.raw)
        self._labels: dict[
            str, list[str]
        ] = {}  # of each token of the vocabulary, blank for words of no group
        self._known: dict[
            str, list[tuple[int, float]]
        ] = {}  # identical sequences are computed once, over all chunks

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        keys = [(prompt.text, prompt.lexicon.rpartition("/")[0]) for prompt in prompts]
        stimuli = {key: _Stimulus(*key) for key in keys}
        for share in _SHARES:
            open_branches = (
                (stimulus, words) for stimulus in stimuli.values() for words, _ in stimulus.branches
            )
            sequences = dict.fromkeys(stimulus.sequence(words) for stimulus, words in open_branches)
            self._fill([sequence for sequence in sequences if sequence not in self._known])
            on_progress(share * len(prompts))
            for stimulus in stimuli.values():
                for words, p in stimulus.take_branches():
                    self._grow(stimulus, words, p)
        return [
            self._scored(stimuli[key], prompt) for key, prompt in zip(keys, prompts, strict=True)
        ]

    def _fill(self, sequences: Sequence[str]) -> None:
        """The ten likeliest tokens of each sequence; none where it is longer than the model reads."""
        self._known.update({sequence: [] for sequence in sequences})
        for members, probabilities in self.inner.read(sequences):
            top = probabilities.topk(BEAM, dim=1)
            for index, values, tokens in zip(
                members, top.values.tolist(), top.indices.tolist(), strict=True
            ):
                self._known[sequences[index]] = list(zip(tokens, values, strict=True))

    def _grow(self, stimulus: _Stimulus, words: tuple[str, ...], p: float) -> None:
        """Grow a branch: each token ends in a phrase or opens a branch, and at the last step none is opened."""
        labels = self._labels_of(stimulus.lexicon)
        tokens = self._known[stimulus.sequence(words)]
        if not tokens or math.isnan(tokens[0][1]):
            stimulus.lose(finite=not tokens)
            return
        for token, share in tokens:
            word = self.inner.words[token]
            if labels[token]:
                stimulus.phrases.append((self._phrase(words, token), p * share, labels[token]))
            # Special and blank tokens leave nothing to put beside a mask.
            elif (
                len(words) < len(_SHARES) - 1
                and word
                and token not in self.inner.tokenizer.all_special_ids
            ):
                stimulus.branches.append(((*words, word), p * share))

    def _labels_of(self, name: str) -> list[str]:
        if name not in self._labels:
            labels, of_token = self.inner.labels_of_tokens(name)
            rest = load_lexicon(name).rest
            self._labels[name] = [
                "" if labels[at] == rest else labels[at] for at in of_token.tolist()
            ]
        return self._labels[name]

    def _phrase(self, words: tuple[str, ...], token: int) -> str:
        """The phrase in reading order; a token that continues a word joins it ("school" + "girl")."""
        raw = self.inner.vocabulary.raw[token]
        word = self.inner.words[token]
        if len(words) < 2:
            return " ".join((word, *words))
        joined = word.startswith("##") or (self._spaces and not raw.startswith(" "))
        return f"{words[1]}{'' if joined else ' '}{word.removeprefix('##')} {words[0]}"

    def _scored(self, one: _Stimulus, prompt: Prompt) -> Scored:
        if one.too_long or not one.finite:
            return not_scored(finite=one.finite)
        label = prompt.lexicon.rpartition("/")[2]
        mine = sorted(
            ((p, phrase) for phrase, p, group in one.phrases if group == label), reverse=True
        )
        top_tokens = ranked([phrase for _, phrase in mine], [p for p, _ in mine], decimals=9)
        return Scored(sum(p for p, _ in mine), mine[0][1] if mine else "", top_tokens)
