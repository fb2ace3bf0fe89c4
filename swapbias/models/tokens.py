"""Tokens of a tokenizer and rows of a model: whether the two belong together."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

_PROBES = (
    "The doctor said that she was tired.",
    "ANN is well",
    " Zoë's  2,000 naïve\nfriends: [sic] ",
    "她是医生。",
    "Он врач",
)

_MARKS = {"bos": ("cls",), "eos": ("sep",), "pad": ()}
"""Special tokens that configs name, and what tokenizers call them as well."""
_USUAL_SHARE = 0.96
"""Models have rows of at most 4 % more tokens than their tokenizers, so that sizes are round numbers."""


def tokenizer_reading(tokenizer: Any) -> dict[str, Any]:
    """Return how a tokenizer reads texts: its tokens, its special ones, and what it makes of a few texts.

    Args:
        tokenizer: a tokenizer of transformers.

    Returns:
        Values that JSON has. Without the token that pads, which no score depends on.
    """
    marks = {
        name: token for name, token in tokenizer.special_tokens_map.items() if name != "pad_token"
    }
    return {
        "tokens": tokenizer.get_vocab(),
        "marks": marks,
        "texts": [list(tokenizer(text)["input_ids"]) for text in _PROBES],
    }


def tokenizer_pin(tokenizer: Any) -> dict[str, str]:
    """Return what identifies a tokenizer in a manifest, of files and in memory alike.

    Args:
        tokenizer: what a model is read with.

    Returns:
        ``tokenizer_sha256``, of how it reads texts and of its chat template; nothing for another object.
    """
    from transformers import PreTrainedTokenizerBase

    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return {}
    reading = {**tokenizer_reading(tokenizer), "template": tokenizer.chat_template}
    lines = json.dumps(reading, sort_keys=True, default=str)
    return {"tokenizer_sha256": hashlib.sha256(lines.encode()).hexdigest()}


def token_rows(model: Any) -> int | None:
    """Count the tokens that a model has embeddings of.

    Args:
        model: a model of transformers.

    Returns:
        Their number; None where it has no such table, as CANINE.
    """
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:  # by transformers: the model has no single table of embeddings
        table = None
    if hasattr(table, "num_embeddings"):
        return int(table.num_embeddings)
    size = getattr(model.config.get_text_config(), "vocab_size", None)
    return int(size) if size else None


def refuse_other_tokenizer(name: str, model: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer of another model; tokens that were added to it without training may be more.

    Args:
        name: name of the model for the sentence.
        model: a model of transformers.
        tokenizer: the tokenizer that the model is read with.

    Raises:
        ValueError: It knows more tokens than the model, or less than half of them, as an empty one does, which reads
            every text the same.
    """
    rows = token_rows(model)
    if rows is None:
        return
    words = _word_count(tokenizer, rows)
    if words > rows or words < rows / 2:
        raise ValueError(
            f"Model {name!r} has embeddings of {rows} tokens and its tokenizer knows {words}: "
            "they do not belong together. Add the tokenizer's own files."
        )


def tokenizer_doubt(model: Any, tokenizer: Any) -> dict[str, str]:
    """Say why a tokenizer may be one of another model.

    Args:
        model: a model of transformers.
        tokenizer: the tokenizer that the model is read with.

    Returns:
        ``tokenizer_doubt``, part of a sentence, where the tokenizer has other special tokens than the model's config,
        two or more and none the same, or knows too few of the model's tokens; empty elsewhere.
    """
    rows = token_rows(model)
    if rows is None:
        return {}
    config = model.config.get_text_config()
    expected_ids = {name: getattr(config, f"{name}_token_id", None) for name in _MARKS}
    ids_read = {name: _mark_ids(tokenizer, name) for name in _MARKS}
    compared = [
        name
        for name, expected in expected_ids.items()
        if isinstance(expected, int) and expected < rows and ids_read[name]
    ]
    if len(compared) > 1 and all(expected_ids[name] not in ids_read[name] for name in compared):
        differences = [
            f"{name} {expected_ids[name]}, not {min(ids_read[name])}" for name in compared
        ]
        return {
            "tokenizer_doubt": f"its config has other special tokens ({', '.join(differences)})"
        }
    words = len(tokenizer)
    if words < rows * _USUAL_SHARE:
        return {"tokenizer_doubt": f"it knows {words:,} of {rows:,} tokens"}
    return {}


def _mark_ids(tokenizer: Any, name: str) -> list[int]:
    """Return the numbers of the tokens that a tokenizer has for a special token of configs."""
    ids = [getattr(tokenizer, f"{mark}_token_id", None) for mark in (name, *_MARKS[name])]
    return [token for token in ids if token is not None]


def _word_count(tokenizer: Any, rows: int) -> int:
    """Count the tokens of a tokenizer, without those that were added to it beyond the rows of its model."""
    added: int = sum(token >= rows for token in tokenizer.get_added_vocab().values())
    return len(tokenizer) - added


def refuse_unknown_tokens(
    name: str, model: Any, tokenizer: Any, encoded: Iterable[Sequence[int]]
) -> None:
    """Refuse texts with tokens that the model has no embedding of.

    Args:
        name: name of the model for the sentence.
        model: a model of transformers.
        tokenizer: the model's tokenizer.
        encoded: token ids of each text.

    Raises:
        ValueError: A text has such a token.
    """
    rows = token_rows(model)
    if rows is None:
        return
    unknown = {token for ids in encoded for token in ids if token >= rows}
    if unknown:
        token = tokenizer.convert_ids_to_tokens(min(unknown))
        raise ValueError(
            f"The tokenizer of {name} gives the token {token!r}, and the model has embeddings of "
            f"{rows} tokens only. "
            "Resize the embeddings and train them, or take the tokenizer's own files."
        )


def output_rows(model: Any) -> int:
    """Count the tokens that a masked language model gives a probability.

    Args:
        model: a model of transformers.
    """
    head = model.get_output_embeddings()
    if hasattr(head, "out_features"):
        return int(head.out_features)
    return int(model.config.get_text_config().vocab_size)
