"""Features of notes by an encoder of RoBERTa-base shape: different notes, and those that an audit reads."""

import copy
from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import Any

from benchmarks.filling import every
from benchmarks.frame import Limit, Prepared, Scale, Side, Workload, scaled
from benchmarks.made_models import roberta, weights
from benchmarks.measuring import gemm_rate, least_seconds
from swapbias.studies.catalogue import config_rows

OURS = "swapbias"
ONE_BY_ONE = "one note per forward pass"
PADDED = "padded batches of 32"
NOTES = 1_000
SLICE = 40  # notes that the peers encode; their time is extrapolated
EQUAL = 1e-5
_PHENOTYPE = "depression"
_REGIMES = ("original", "swapped", "neutralised", "augmented")


def _different(scale: Scale) -> Prepared:
    names = ("depression", "alcohol_abuse", "substance_abuse", "psychiatric_disorders")
    notes = [
        row["text"] for name in names for row in config_rows("clinical_notes", f"{name}-original")
    ]
    return _sides(every(list(dict.fromkeys(notes)), scaled(NOTES, scale)))


def _as_read(scale: Scale) -> Prepared:
    """All that an audit of one phenotype reads, of fewer patients: each regime's training notes, and the same tests.

    Every regime is tested on both versions of each test note, so that most notes are read several times.
    """
    rows = {name: config_rows("clinical_notes", f"{_PHENOTYPE}-{name}") for name in _REGIMES}
    patients = list(dict.fromkeys(row["subject_id"] for row in rows["original"]))
    share = min(1.0, scaled(NOTES, scale) / len(_read(rows, set(patients))))
    return _sides(_read(rows, set(every(patients, max(1, round(share * len(patients)))))))


def _read(rows: Mapping[str, Sequence[Mapping[str, str]]], patients: Collection[str]) -> list[str]:
    split = {
        (name, part): [
            row["text"]
            for row in rows[name]
            if row["split"] == part and row["subject_id"] in patients
        ]
        for name in _REGIMES
        for part in ("train", "test")
    }
    tests = split["original", "test"] + split["swapped", "test"]
    return [text for name in _REGIMES for text in split[name, "train"] + tests]


def _sides(notes: list[str]) -> Prepared:
    from swapbias.models.clinical.encoder_vectors import ContextualVectors
    from swapbias.models.clinical.features import clean

    plain = roberta("base").base_model
    packed = copy.deepcopy(plain)
    texts = [" ".join(clean(note)) for note in notes]
    tokenizer = _tokenizer(texts)
    counts = [len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]]
    fits = [count <= tokenizer.model_max_length for count in counts]  # peers cut off the rest
    notes = [*compress(notes, fits)]
    texts = [*compress(texts, fits)]
    counts = [*compress(counts, fits)]
    few = every(texts, SLICE)
    share = len(few) / len(texts)
    tokens = sum(dict(zip(texts, counts, strict=True)).values())
    return Prepared(
        ours=(
            Side(OURS, lambda: ContextualVectors(packed, tokenizer, name="made").vectors(notes)),
        ),
        peers=(
            Side(ONE_BY_ONE, lambda: _mean_states(plain, tokenizer, few, 1), share=share),
            Side(PADDED, lambda: _mean_states(plain, tokenizer, few, 32), share=share),
        ),
        check=lambda outputs: _compare(outputs, every(range(len(texts)), SLICE)),
        limit=_limit(plain, tokens),
        size=f"{len(notes):,} notes, {len(set(notes)):,} different, {tokens:,} tokens in these",
    )


def _tokenizer(texts: Sequence[str]) -> Any:
    """A byte-level one that knows the words of the notes, as those of clinical encoders do."""
    import json

    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer
    from transformers import RobertaTokenizer

    trained = Tokenizer(BPE())
    trained.pre_tokenizer = ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = BpeTrainer(
        vocab_size=4_000,
        special_tokens=special,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    model = json.loads(trained.to_str())["model"]
    return RobertaTokenizer(
        vocab=model["vocab"],
        merges=[tuple(merge) for merge in model["merges"]],
        model_max_length=512,
    )


def _mean_states(model: Any, tokenizer: Any, texts: Sequence[str], size: int) -> Any:
    """Encode as people write it: the mean state of each text's own tokens, texts sorted by length where batched."""
    import numpy as np
    import torch

    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    found: Any = np.zeros((len(texts), model.config.hidden_size))
    for start in range(0, len(texts), size):
        members = order[start : start + size]
        inputs = tokenizer(
            [texts[index] for index in members],
            return_tensors="pt",
            padding=True,
            truncation=True,
            return_special_tokens_mask=True,
        )
        own = (inputs.pop("special_tokens_mask") == 0)[..., None]
        with torch.inference_mode():
            states = model(**inputs).last_hidden_state
        found[members] = ((states * own).sum(dim=1) / own.sum(dim=1)).numpy()
    return found


def _compare(outputs: Mapping[str, Any], chosen: Sequence[int]) -> str:
    ours = outputs[OURS][list(chosen)]
    worst = max(float(abs(ours - outputs[peer]).max()) for peer in (ONE_BY_ONE, PADDED))
    if not worst <= EQUAL:
        raise ValueError(f"vectors differ by up to {worst:.1e}, expected at most {EQUAL:g}.")
    return f"vectors within {worst:.0e} of both peers' on {len(chosen)} notes."


def _limit(model: Any, tokens: int) -> Limit:
    layers, _ = weights(model)
    inside = model.config.hidden_size
    outside = model.config.intermediate_size

    def seconds() -> tuple[float, str]:
        rate = gemm_rate([(1_024, inside, outside), (1_024, outside, inside)], prepacked=True)
        return least_seconds(
            layers, tokens, rate
        ), f"2 x weights x tokens of different notes at {rate / 1e9:.0f} GFLOP/s"

    return seconds


WORKLOAD = (
    Workload(
        "features", "Contextual features, different notes", {(OURS, ONE_BY_ONE): 4.0}, _different
    ),
    Workload(
        "features-audit",
        "Contextual features, notes of an audit",
        {(OURS, ONE_BY_ONE): 4.0},
        _as_read,
    ),
)
