"""Find the name by which a model takes and returns its cache of keys and values: versions of transformers differ."""

import inspect
from collections.abc import Callable
from typing import Any

from transformers import GenerationMixin

NAMES = ("cache", "past_key_values")  # of transformers 5.24 and later, and of those before


def cache_name(function: Callable[..., Any]) -> str:
    """Return the name of the parameter that takes the cache of a forward pass.

    Args:
        function: ``forward`` of a model; one that only passes its arguments on (of a compiled or wrapped model) has
            the name of ``generate``.
    """
    parameters = inspect.signature(function).parameters
    return next((name for name in NAMES if name in parameters), generation_cache_name())


def generation_cache_name() -> str:
    """Return the name by which ``generate`` takes a cache, which is that of the installed transformers."""
    parameters = inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters
    return next(name for name in NAMES if name in parameters)


def cache_of(output: Any) -> Any:
    """Return the cache in what a model returned.

    Args:
        output: the output of a forward pass.

    Raises:
        AttributeError: It has none.
    """
    return output.cache if hasattr(output, "cache") else output.past_key_values
