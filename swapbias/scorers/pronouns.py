"""Models that tell "his" from "him" where a text says "her": masked language models and part-of-speech taggers."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoModelForTokenClassification

from swapbias.errors import UsageError
from swapbias.scorers.checkpoint import architectures, length_batches, load_model, model_name, read_config
from swapbias.scorers.revision import at_commit

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
            loaded, tokenizer, _ = load_model(place, auto_class, device=device, dtype="float32")
            return resolver(loaded, tokenizer, name=model_name(model))
    raise UsageError(
        f"{model} is a {names[0] or 'model of no named kind'}, expected a masked language model or "
        "a token classifier. Choose another."
    )


class MaskedResolver:
    """Compares "his" and "him" at the place of "her", in the text around it."""

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

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """log P(his) - log P(him) at each place."""
        mask = self.tokenizer.mask_token
        texts = [f"{left}{mask}{right}" for left, right in zip(before, after, strict=True)]
        encoded = self.tokenizer(texts).input_ids
        found = [0.0] * len(texts)
        for batch in length_batches([len(ids) for ids in encoded], BATCH_SIZE):
            ids = torch.tensor([encoded[index] for index in batch], device=self.model.device)
            with torch.inference_mode():
                logits = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            rows, places = torch.nonzero(ids == self.tokenizer.mask_token_id, as_tuple=True)
            first = {int(row): int(place) for row, place in zip(reversed(rows), reversed(places), strict=True)}
            for row, index in enumerate(batch):
                his, him = (float(logits[row, first[row], form]) for form in self._forms)
                found[index] = his - him
        return found


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
