"""Tuning an encoder for two labels: a new head, and all weights with it."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence

from swapbias.errors import UsageError
from swapbias.scorers import Progress
from swapbias.scorers.bilstm import shuffled_batches
from swapbias.scorers.loading import length_limit
from swapbias.scorers.sentiment_models import LABELS

WARM_UP, DECAY, CLIP = 0.1, 0.01, 1.0  # share of the steps, weight decay, largest norm of a gradient


class NewHead:
    """What ``load_model`` calls: the encoder under a new head for two labels; only the encoder must have weights."""

    @staticmethod
    def from_pretrained(
        model: str, *, config: Any, dtype: Any, trust_remote_code: bool, output_loading_info: bool
    ) -> tuple[Any, dict[str, Any]]:
        from transformers import AutoModelForSequenceClassification

        config.id2label, config.label2id = dict(enumerate(LABELS)), {name: at for at, name in enumerate(LABELS)}
        loaded, info = AutoModelForSequenceClassification.from_pretrained(
            model, config=config, dtype=dtype, trust_remote_code=trust_remote_code, output_loading_info=True,
            ignore_mismatched_sizes=True,
        )  # fmt: skip
        body = f"{loaded.base_model_prefix}."
        missing = [key for key in info["missing_keys"] if key.startswith(body) and "pooler" not in key]
        return loaded, {**info, "missing_keys": missing}


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """How an encoder is tuned: epochs, texts per step, the highest learning rate, the id that fills up a batch."""

    epochs: int
    batch_size: int
    rate: float
    padding: int


def encoded(tokenizer: Any, model: Any, texts: list[str]) -> tuple[list[list[int]], int]:
    """Token ids of each text, cut to what the model reads, and how many texts were cut."""
    if tokenizer.pad_token_id is None:
        raise UsageError("The encoder's tokenizer has no padding token. Give another one with --encoder.")
    limit = length_limit(tokenizer, model.config)
    whole = [len(one) for one in tokenizer(texts, verbose=False)["input_ids"]]
    ids = tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
    return ids, sum(length > limit for length in whole)


def tune(
    model: Any,
    ids: list[list[int]],
    labels: list[int],
    plan: TuningPlan,
    order: torch.Generator,
    on_progress: Progress,
) -> None:
    """AdamW with a rate that rises over the first tenth of the steps and falls to 0 at the end."""
    steps = plan.epochs * math.ceil(len(ids) / plan.batch_size)
    warm = max(1, round(WARM_UP * steps))
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.rate, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    model.train()
    for _ in range(plan.epochs):
        for members in shuffled_batches([len(one) for one in ids], plan.batch_size, order):
            rows = [torch.tensor(ids[at]) for at in members]
            padded = pad_sequence(rows, batch_first=True, padding_value=plan.padding)
            read = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            truth = torch.tensor([labels[at] for at in members], device=model.device)
            logits = model(input_ids=padded.to(model.device), attention_mask=read.to(model.device)).logits
            loss = cross_entropy(logits, truth)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            on_progress(len(members) / len(ids))
    model.eval()
