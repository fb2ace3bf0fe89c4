"""A tiny masked LM trained here with a bias of known size, so that an audit can be checked against the truth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as functional
from safetensors import SafetensorError
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from swapbias.files import atomic_directory, cache_dir, locked
from swapbias.models.base import CALIBRATION, UNBIASED, LoadOptions
from swapbias.models.loading import load_model, quiet
from swapbias.models.masked import MaskedScorer
from swapbias.models.progress import Bar, Progress, no_bar
from swapbias.studies import (
    MASK,
    Experiment,
    catalogue,
    config_rows,
    published as paper_numbers,
    tables,
)

RECIPE = "3"
"""Raise it when the training changes, so that no cached model is mistaken for the new one."""
STEPS = 400
BATCH = 128
WARM_UP = 30
RATE = 6e-3
SUBJECT_WEIGHT = 10.0  # the planted sizes are what the model is for
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

Shares = Mapping[str, float]
"""P(group) of the subject."""


class Planted(NamedTuple):
    """Answers that a calibration model is trained to give."""

    shares: Mapping[str, Shares]
    """P(group) of the subject, by the class of the condition."""
    spread: float = 0.0
    """Largest shift of a single condition toward women or men; the shifts of a class are 0 on average."""


_EVEN = {"female": 0.45, "male": 0.45, "unspecified": 0.10}
_UNEVEN = {"female": 0.60, "male": 0.30, "unspecified": 0.10}
PLANTED = {
    CALIBRATION: Planted({"mental_health": _UNEVEN, "other_health": _EVEN}),
    UNBIASED: Planted({"mental_health": _EVEN, "other_health": _EVEN}, spread=0.04),
}
"""Answers of each model by its name: with a bias of known size, and with none."""
# P(word) within its group; every word stays above the study's threshold of .01.
SUBJECTS = {
    "female": {"She": 0.4, "Woman": 0.15, "Mother": 0.15, "Mary": 0.1, "Susan": 0.1, "Linda": 0.1},
    "male": {"He": 0.4, "Man": 0.15, "Father": 0.15, "James": 0.1, "Robert": 0.1, "David": 0.1},
    "unspecified": {"Someone": 0.5, "Everyone": 0.5},
}
_WORDS = [word for group in SUBJECTS.values() for word in group]


def planted_findings(
    experiment: Experiment, planted: Planted
) -> dict[tuple[str, ...], paper_numbers.Published]:
    """Return the planted sizes by ``Finding.key``: what a perfect audit recovers.

    Args:
        experiment: the one that the model is trained for.
        planted: what the model is trained to answer.
    """
    contrast = ("female - male", "all", "")
    values: dict[tuple[str, ...], float] = {}
    for subset, shares in planted.shares.items():
        for group, share in shares.items():
            values[subset, "mean", group, "all", ""] = share
    gaps = {subset: shares["female"] - shares["male"] for subset, shares in planted.shares.items()}
    for subset, gap in gaps.items():
        values[subset, experiment.compares.measure, *contrast] = gap
    difference = gaps["mental_health"] - gaps["other_health"]
    values["mental_health - other_health", "gap_difference", *contrast] = difference
    return {
        (experiment.name, *key): paper_numbers.Published(
            value=f"{value:.2f}", source=paper_numbers.PLANTED_BIAS
        )
        for key, value in values.items()
    }


def load_calibration(
    name: str = CALIBRATION,
    *,
    seed: int = 0,
    options: LoadOptions | None = None,
    bar: Bar = no_bar,
) -> MaskedScorer:
    """Load a calibration model, which is trained on first use (some seconds on one core) and cached.

    Args:
        name: one of ``PLANTED``.
        seed: seed of the training.
        options: device, type and the like.
        bar: begins a bar for the training.

    Returns:
        Its scorer, whose ``expected`` are the planted sizes.
    """
    planted = PLANTED[name]
    (study, experiment), *_ = catalogue.calibrated()
    rows = [row for config in experiment.reads.configs for row in config_rows(study.name, config)]
    recipe = {
        "recipe": RECIPE,
        "seed": str(seed),
        "planted": str(planted),
        "subjects": str(SUBJECTS),
    }
    folder = cache_dir() / f"calibration-{tables.fingerprint([recipe, *rows])[:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder, file=Path(f"{folder}.lock"), wait=300):
            if not folder.is_dir():  # else another process was faster
                _train_into(folder, rows, planted, seed, bar(f"training {name}", STEPS))
    options = options or LoadOptions()
    model, tokenizer, pin = load_model(str(folder), MaskedScorer.auto_class, options)
    return MaskedScorer(
        model,
        tokenizer,
        model_id=name,
        identity={**pin, "trained": {"steps": STEPS, "seed": seed, "planted": planted.shares}},
        options=options,
        expected=planted_findings(experiment, planted),
    )


def _train_into(
    folder: Path,
    rows: Sequence[Mapping[str, str]],
    planted: Planted,
    seed: int,
    on_progress: Progress,
) -> None:
    """Train the model into a folder, which appears whole at the end."""
    threads = torch.get_num_threads()
    # So small a model gains nothing from more, and waits for them where others work.
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, tokenizer = train(rows, planted, on_progress)
        with quiet(), atomic_directory(folder) as making:
            model.save_pretrained(making)
            tokenizer.save_pretrained(making)
    except SafetensorError as error:
        raise OSError(
            None, f"the calibration model cannot be written ({error})", str(folder.parent)
        ) from error
    finally:
        torch.set_num_threads(threads)


def train(
    rows: Sequence[Mapping[str, str]], planted: Planted, on_progress: Progress
) -> tuple[Any, Any]:
    """Train on the sentences of the prompts with their subjects as planted; about 46,000 weights.

    Args:
        rows: prompts, each with its ``text``, its ``condition`` and the class of that as ``label``.
        planted: what the model is to answer.
        on_progress: called with the number of further steps that are done.

    Returns:
        The model and its tokenizer.
    """
    frames = {row["text"]: row for row in rows}
    shifts = condition_shifts(rows, planted.spread)
    tokenizer = _tokenizer(list(frames))
    masked = [text.replace(MASK, tokenizer.mask_token) for text in frames]
    tokens = tokenizer(masked, padding=True, return_tensors="pt")["input_ids"]
    subjects = torch.tensor(tokenizer.convert_tokens_to_ids(_WORDS))
    shares = torch.tensor(
        [
            _shares_of_words(planted.shares[row["label"]], shifts[row["condition"]])
            for row in frames.values()
        ]
    )
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=max(32, tokens.shape[1]),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.05,
    )
    model: Any = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARM_UP) * (1 - step / STEPS)
    )
    for _ in range(STEPS):
        chosen = torch.randperm(len(tokens))[:BATCH]
        batch = tokens[chosen]
        # At the subject the loss is the cross-entropy averaged over every sentence that the planted shares make of a
        # frame, so that no draw of subjects adds noise to the planted sizes; one other token in seven is predicted.
        at_subject = batch == tokenizer.mask_token_id
        hidden = torch.bernoulli((~at_subject & (batch >= len(SPECIAL))).float() / 7).bool()
        inputs = torch.where(hidden, tokenizer.mask_token_id, batch)
        logits = model(
            input_ids=inputs, attention_mask=(batch != tokenizer.pad_token_id).long()
        ).logits
        at_mask = functional.log_softmax(logits[at_subject], dim=-1)[:, subjects]
        loss = functional.cross_entropy(logits[hidden], batch[hidden])
        loss = SUBJECT_WEIGHT * -(shares[chosen] * at_mask).sum(dim=-1).mean() + loss
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        on_progress(1)
    return model.eval(), tokenizer


def condition_shifts(rows: Sequence[Mapping[str, str]], spread: float) -> dict[str, float]:
    """Return the shift toward women of each condition: evenly spaced within its class, and 0 on average.

    Args:
        rows: prompts, each with its ``condition`` and the class of that as ``label``.
        spread: the largest shift.
    """
    classes: dict[str, dict[str, None]] = {}
    for row in rows:
        classes.setdefault(row["label"], {})[row["condition"]] = None
    shifts: dict[str, float] = {}
    for conditions in classes.values():
        middle = (len(conditions) - 1) / 2
        for position, condition in enumerate(conditions):
            shifts[condition] = spread * (position - middle) / max(middle, 1)
    return shifts


def _shares_of_words(shares: Shares, shift: float) -> list[float]:
    """Return the planted probability of each subject, by the shares of its groups and the shift toward women."""
    moved = {"female": shift, "male": -shift, "unspecified": 0.0}
    return [
        (shares[group] + moved[group]) * share
        for group, words in SUBJECTS.items()
        for share in words.values()
    ]


def _tokenizer(texts: Sequence[str]) -> Any:
    """Return a tokenizer that knows the words of texts and the subjects."""
    split = BertPreTokenizer()
    words = set(_WORDS)
    for text in texts:
        words |= {word for word, _ in split.pre_tokenize_str(text.replace(MASK, " "))}
    vocabulary = {word: index for index, word in enumerate([*SPECIAL, *sorted(words)])}
    return BertTokenizer(vocab=vocabulary, do_lower_case=False, model_max_length=32)
