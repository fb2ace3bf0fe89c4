"""Python functions as models: how they are imported, and numbers that they return."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from swapbias.errors import UsageError
from swapbias.files import file_sha256
from swapbias.models.loading import module_file


def import_function(name: str, expected: str) -> tuple[Callable[..., Any], dict[str, str]]:
    """Import a function, also of the current folder.

    Args:
        name: ``module:function``.
        expected: what it should be, for the sentence.

    Returns:
        The function, and what pins it down in the manifest: ``sha256`` of its file, where it has one.

    Raises:
        UsageError: There is no such function.
    """
    module_name, _, function_name = name.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{name}: {type(error).__name__}: {error}. "
            "Give an importable module and a function in it."
        ) from error
    if not callable(function):
        raise UsageError(f"{name} is a {type(function).__name__}, expected {expected}.")
    source = module_file(module_name)  # what is built in has none
    pin = {"sha256": file_sha256(source)} if source and source.suffix == ".py" else {}
    return function, pin


def without_tensors(returned: Any) -> Any:
    """Put NumPy's arrays in place of PyTorch's tensors of any type, device or history.

    Args:
        returned: any value; tensors are also found in lists and tuples.

    Returns:
        The value without tensors; NaN in place of what is masked.
    """
    if isinstance(returned, np.ma.MaskedArray):  # what is masked has no score
        return np.ma.filled(returned.astype(np.float64), np.nan)
    torch = sys.modules.get("torch")
    if torch is None:
        return returned
    if isinstance(returned, torch.Tensor):
        return returned.detach().to("cpu", torch.float64).numpy()
    if isinstance(returned, list | tuple):
        return [without_tensors(item) for item in returned]
    return returned
