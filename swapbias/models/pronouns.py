"""Models that tell "his" from "him" where a text says "her": masked language models and part-of-speech taggers."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoModelForTokenClassification

from swapbias.errors import UsageError
from swapbias.models.loading import architectures, at_commit, length_batches, load_model, model_name, read_config
from swapbias.models.scorer import LoadOptions

BATCH_SIZE = 64
_FORMS = ("his", "him")
# Labels of taggers: Penn Treebank's, and words that taggers of other sets use for a possessive pronoun.
_POSSESSIVE = ("prp$", "poss", "det")
_PERSONAL = ("prp", "pron", "pers")


def load_resolver(model: str, *, device: str = "auto") -> "MaskedResolver | TaggerResolver":
    """A resolver from any masked language model or token-classification model (Hub id or local folder).

    Raises:
        UsageError: a model of another kind. ValueError: one that cannot be loaded.
    """
    place = at_commit(model)
    names = architectures(read_config(place)) or [""]
    for ending, resolver, auto_class in (
        ("ForTokenClassification", TaggerResolver, AutoModelForTokenClassification),
        ("ForMaskedLM", MaskedResolver, AutoModelForMaskedLM),
    ):
        if names[0].endswith(ending):
            loaded, tokenizer, _ = load_model(place, auto_class, LoadOptions(device=device))
            return resolver(loaded, tokenizer, name=model_name(model))
    raise UsageError(
        f"{model} is a {names[0] or 'model of no named kind'}, expected a masked language model or "
        "a token classifier. Choose another."
    )


@dataclass(frozen=True, slots=True)
class _Blank:
    """A text with one token masked: what each of ``told`` is worth there, a token and the sign of its reading."""

    item: int
    ids: list[int]
    place: int
    told: tuple[tuple[int, int], ...]


class MaskedResolver:
    """Reads "her" as "his" and as "him", and compares how likely each reading is."""

    def __init__(self, model: Any, tokenizer: Any, *, name: str) -> None:
        """Wrap a model in eval mode and its tokenizer.

        Raises:
            UsageError: "his" or "him" is no single token.
        """
        self.model, self.tokenizer, self.name = model, tokenizer, name
        ids = [tokenizer(f" {form}", add_special_tokens=False).input_ids for form in _FORMS]
        if any(len(one) != 1 for one in ids):
            raise UsageError(f"{name} has no single token for 'his' and 'him'. Choose another resolver.")
        self._forms = [one[0] for one in ids]
        self._special = frozenset(tokenizer.all_special_ids)

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """Pseudo-log-likelihood of "his" minus that of "him": of the pronoun and of the tokens beside it.

        Each of the three is masked in turn, with the rest of the text as that reading has it (Salazar et al. 2020).
        """
        mask = self.tokenizer.mask_token
        texts = [f"{left}{mask}{right}" for left, right in zip(before, after, strict=True)]
        blanks = [one for item, ids in enumerate(self.tokenizer(texts).input_ids) for one in self._blanks(item, ids)]
        found = [0.0] * len(texts)
        for batch in length_batches([len(one.ids) for one in blanks], BATCH_SIZE):
            asked = [blanks[index] for index in batch]
            ids = torch.tensor([one.ids for one in asked], device=self.model.device)
            places = torch.tensor([one.place for one in asked], device=self.model.device)
            with torch.inference_mode(), _predicting_at(self.model, places):
                logits = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            if logits.shape[1] > 1:  # a model whose last layer could not be told where
                logits = logits[torch.arange(len(asked)), places]
            told = torch.log_softmax(logits.reshape(len(asked), -1).float(), dim=-1).cpu()
            for row, one in enumerate(asked):
                found[one.item] += sum(sign * float(told[row, token]) for token, sign in one.told)
        return found

    def _blanks(self, item: int, ids: list[int]) -> Iterator[_Blank]:
        """The pronoun masked, which is the same in both readings, and the token on each side of it in each."""
        mask = self.tokenizer.mask_token_id
        place = ids.index(mask)
        signs = tuple(zip(self._forms, (1, -1), strict=True))
        yield _Blank(item, ids, place, signs)
        for beside in (place - 1, place + 1):
            if not 0 <= beside < len(ids) or ids[beside] in self._special:
                continue
            for form, sign in signs:
                read = [*ids[:place], form, *ids[place + 1 :]]
                read[beside] = mask
                yield _Blank(item, read, beside, ((ids[beside], sign),))


@contextmanager
def _predicting_at(model: Any, places: torch.Tensor) -> Iterator[None]:
    """A model's last layer at one place of each row alone: over the whole text it is half of the work."""
    layer = model.get_output_embeddings()
    if layer is None:
        yield
        return

    def at_places(_: Any, states: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (states[0][torch.arange(len(places)), places][:, None], *states[1:])

    hook = layer.register_forward_pre_hook(at_places)
    try:
        yield
    finally:
        hook.remove()


class TaggerResolver:
    """Reads the label that a part-of-speech tagger gives "her": possessive (PRP$) or personal (PRP)."""

    def __init__(self, model: Any, tokenizer: Any, *, name: str) -> None:
        """Wrap a model in eval mode and its tokenizer.

        Raises:
            UsageError: labels that tell no possessive from a personal pronoun.
        """
        self.model, self.tokenizer, self.name = model, tokenizer, name
        labels = {index: label.lower().split("-")[-1] for index, label in model.config.id2label.items()}
        self._possessive = [index for index, label in labels.items() if label.startswith(_POSSESSIVE)]
        self._personal = [
            index for index, label in labels.items() if label.startswith(_PERSONAL) and index not in self._possessive
        ]
        if not self._possessive or not self._personal:
            raise UsageError(
                f"{name} has the labels {sorted(labels.values())}, expected PRP$ and PRP. "
                "Choose a part-of-speech tagger."
            )

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """log P(possessive) - log P(personal) at the first token of "her"."""
        texts = [f"{left}her{right}" for left, right in zip(before, after, strict=True)]
        encoded = [self.tokenizer(text) for text in texts]
        found = [0.0] * len(texts)
        for batch in length_batches([len(one.input_ids) for one in encoded], BATCH_SIZE):
            ids = torch.tensor([encoded[index].input_ids for index in batch], device=self.model.device)
            with torch.inference_mode():
                logits = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.float()
            for row, index in enumerate(batch):
                place = encoded[index].char_to_token(len(before[index]))
                if place is None:  # a token that begins with the sign before it
                    continue
                weights = torch.log_softmax(logits[row, place], dim=-1)
                found[index] = math.fsum(
                    sign * float(torch.logsumexp(weights[members], dim=0))
                    for sign, members in ((1, self._possessive), (-1, self._personal))
                )
        return found
