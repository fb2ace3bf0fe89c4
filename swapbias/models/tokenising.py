"""Texts tokenised ahead: in a thread, while a GPU reads those before them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

Encode = Callable[[Sequence[str]], list[list[int]]]
"""Gives the token ids of each text."""


def tokens_ahead(
    encode: Encode, texts: Sequence[str], size: int
) -> Iterator[tuple[int, list[list[int]]]]:
    """Tokenise texts in parts; while a part is read, a thread tokenises the next one.

    Args:
        encode: gives the token ids of each text; a fast tokenizer takes several threads of its own.
        texts: any number of them.
        size: texts of a part.

    Yields:
        The index of the first text of a part, and the token ids of each of its texts.
    """
    if len(texts) <= size:
        yield 0, encode(texts)
        return
    parts = [texts[start : start + size] for start in range(0, len(texts), size)]
    with ThreadPoolExecutor(max_workers=1) as thread:
        upcoming = thread.submit(encode, parts[0])
        for number, following in enumerate([*parts[1:], None]):
            encoded = upcoming.result()
            if following is not None:
                upcoming = thread.submit(encode, following)
            yield number * size, encoded
