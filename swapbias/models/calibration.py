"""A tiny masked LM trained here with a bias of known size, so that an audit can be checked against the truth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from safetensors import SafetensorError
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from swapbias.files import atomic_directory, cache_dir, locked
from swapbias.models.base import LoadOptions
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

# P(group) of the subject, by the class of the condition: the planted bias.
PLANTED = {
    "mental_health": {"female": 0.60, "male": 0.30, "unspecified": 0.10},
    "other_health": {"female": 0.45, "male": 0.45, "unspecified": 0.10},
}
# P(word) within its group; every word stays above the study's threshold of .01.
SUBJECTS = {
    "female": {"She": 0.4, "Woman": 0.15, "Mother": 0.15, "Mary": 0.1, "Susan": 0.1, "Linda": 0.1},
    "male": {"He": 0.4, "Man": 0.15, "Father": 0.15, "James": 0.1, "Robert": 0.1, "David": 0.1},
    "unspecified": {"Someone": 0.5, "Everyone": 0.5},
}
_WORDS = [word for group in SUBJECTS.values() for word in group]


def planted_findings(experiment: Experiment) -> dict[tuple[str, ...], paper_numbers.Published]:
    """Return the planted sizes by ``Finding.key``: what a perfect audit recovers.

    Args:
        experiment: the one that the model is trained for.
    """
    contrast = ("female - male", "all", "")
    values: dict[tuple[str, ...], float] = {}
    for subset, shares in PLANTED.items():
        for group, share in shares.items():
            values[subset, "mean", group, "all", ""] = share
    gaps = {subset: shares["female"] - shares["male"] for subset, shares in PLANTED.items()}
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
    *, seed: int = 0, options: LoadOptions | None = None, bar: Bar = no_bar
) -> MaskedScorer:
    """Load the calibration model, which is trained on first use (some seconds on one core) and cached.

    Args:
        seed: seed of the training.
        options: device, type and the like.
        bar: begins a bar for the training.

    Returns:
        Its scorer, whose ``expected`` are the planted sizes.
    """
    (study, experiment), *_ = catalogue.calibrated()
    rows = [row for config in experiment.reads.configs for row in config_rows(study.name, config)]
    recipe = {
        "recipe": RECIPE,
        "seed": str(seed),
        "planted": str(PLANTED),
        "subjects": str(SUBJECTS),
    }
    folder = cache_dir() / f"calibration-{tables.fingerprint([recipe, *rows])[:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder, file=Path(f"{folder}.lock"), wait=300):
            if not folder.is_dir():  # else another process was faster
                _train_into(folder, rows, seed, bar("training the calibration model", STEPS))
    options = options or LoadOptions()
    model, tokenizer, pin = load_model(str(folder), MaskedScorer.auto_class, options)
    return MaskedScorer(
        model,
        tokenizer,
        model_id="calibration",
        identity={**pin, "trained": {"steps": STEPS, "seed": seed, "planted": PLANTED}},
        options=options,
        expected=planted_findings(experiment),
    )


def _train_into(
    folder: Path, rows: Sequence[Mapping[str, str]], seed: int, on_progress: Progress
) -> None:
    """Train the model into a folder, which appears whole at the end."""
    threads = torch.get_num_threads()
    # So small a model gains nothing from more, and waits for them where others work.
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, tokenizer = train(rows, on_progress)
        with quiet(), atomic_directory(folder) as making:
            model.save_pretrained(making)
            tokenizer.save_pretrained(making)
    except SafetensorError as error:
        raise OSError(
            None, f"the calibration model cannot be written ({error})", str(folder.parent)
        ) from error
    finally:
        torch.set_num_threads(threads)


def train(rows: Sequence[Mapping[str, str]], on_progress: Progress) -> tuple[Any, Any]:
    """Train on the sentences of the prompts with their subjects as planted; about 46,000 weights.

    Args:
        rows: prompts, each with its ``text`` and the class of its condition as ``label``.
        on_progress: called with the number of further steps that are done.

    Returns:
        The model and its tokenizer.
    """
    frames = {row["text"]: row["label"] for row in rows}
    tokenizer = _tokenizer(list(frames))
    masked = [text.replace(MASK, tokenizer.mask_token) for text in frames]
    tokens = tokenizer(masked, padding=True, return_tensors="pt")["input_ids"]
    subjects = torch.tensor(tokenizer.convert_tokens_to_ids(_WORDS))
    shares = torch.tensor([_shares_of_words(label) for label in frames.values()])
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


def _shares_of_words(label: str) -> list[float]:
    """Return the planted probability of each subject in sentences of a class of conditions."""
    return [
        PLANTED[label][group] * share
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
