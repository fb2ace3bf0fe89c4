"""Measure social bias in language models by swapping one slot of a text and comparing the model's number.

The public names below load on first use, so that ``import swapbias`` stays light.
"""

import os
import sys
from types import ModuleType

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


# What huggingface_hub tells of a machine beside its version, and where it asks the Hub for more to tell: not even a
# request to one's own service would be without it. Whoever sets the variable decides.
if os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1") == "1" and "huggingface_hub.constants" in sys.modules:
    sys.modules["huggingface_hub.constants"].HF_HUB_DISABLE_TELEMETRY = True  # type: ignore[attr-defined]


class _Package(ModuleType):
    """Keeps the function ``audit`` where Python would put the room of its name once that is imported."""

    __lazy_shadowed__ = frozenset({"audit"})  # as lazy_loader calls what it guards so itself, within one room

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.__lazy_shadowed__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
