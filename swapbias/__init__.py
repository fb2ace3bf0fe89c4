"""Measure social bias in language models by swapping one slot of a text and comparing the model's number.

The public names below load on first use, so that ``import swapbias`` stays light.
"""

import os
import sys

import lazy_loader

__version__ = "0.1.0"

# In a checkout builders, metrics and tables lie beside this package, not in it. They are looked for there first: an
# installation of another checkout in the same environment would else give its own.
_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if os.path.isfile(os.path.join(_CHECKOUT, "datasets_src", "__init__.py")):
    __path__.append(_CHECKOUT)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


# What huggingface_hub tells of a machine beside its version, and where it asks the Hub for more to tell: not even a
# request to one's own service would be without it. Whoever sets the variable decides.
if (
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1") == "1"
    and "huggingface_hub.constants" in sys.modules
):
    sys.modules["huggingface_hub.constants"].HF_HUB_DISABLE_TELEMETRY = True  # type: ignore[attr-defined]
