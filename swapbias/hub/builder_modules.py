"""The class ``Builder`` of each module of ``swapbias.builders``, made on use: ``datasets`` is slow to import."""

from collections.abc import Callable
from typing import Any


def builder_on_use(corpus: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that offers the class of builders of a corpus as ``Builder``.

    >>> from swapbias.builders.spanish_occupations import Builder
    >>> Builder("sentences_es").info.config_name
    'sentences_es'

    Args:
        corpus: the name of the corpus.
    """

    def load(name: str) -> Any:
        if name != "Builder":
            raise AttributeError(f"The builder of {corpus} has no attribute {name!r}.")
        from swapbias.hub.corpus_builder import builder_class

        return builder_class(corpus)

    return load
