"""Tokens of a tokenizer and rows of a model: whether the two belong together."""

from collections.abc import Iterable, Sequence
from typing import Any


def token_rows(model: Any) -> int | None:
    """The number of tokens that a model has embeddings of; None where it has no such table, as CANINE."""
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:
        table = None
    if hasattr(table, "num_embeddings"):
        return int(table.num_embeddings)
    size = getattr(model.config.get_text_config(), "vocab_size", None)
    return int(size) if size else None


def refuse_other_tokenizer(name: str, model: Any, tokenizer: Any) -> None:
    """ValueError for a tokenizer of another model; tokens that were added to it without training may be more."""
    rows = token_rows(model)
    if rows is None:
        return
    added = sum(token >= rows for token in tokenizer.get_added_vocab().values())
    words = len(tokenizer) - added
    # Without tokenizer files it is an empty one: every text would read the same.
    if words < rows / 2 or words > rows:
        belongs = f"Model {name!r} has embeddings of {rows} tokens and its tokenizer knows {words}"
        raise ValueError(f"{belongs}: they do not belong together. Add the tokenizer's own files.")


def refuse_unknown_tokens(
    name: str, model: Any, tokenizer: Any, encoded: Iterable[Sequence[int]]
) -> None:
    """ValueError for texts with tokens that the model has no embedding of."""
    rows = token_rows(model)
    unknown = {token for ids in encoded for token in ids if rows is not None and token >= rows}
    if unknown:
        token = tokenizer.convert_ids_to_tokens(min(unknown))
        lacks = f"The tokenizer of {name} gives the token {token!r}, and the model has embeddings of {rows} tokens"
        raise ValueError(
            f"{lacks} only. Resize the embeddings and train them, or take the tokenizer's own files."
        )


def output_rows(model: Any) -> int:
    """The number of tokens that a masked language model gives a probability."""
    head = model.get_output_embeddings()
    if hasattr(head, "out_features"):
        return int(head.out_features)
    return int(model.config.get_text_config().vocab_size)
