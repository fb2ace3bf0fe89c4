"""Measure social bias in language models by swapping one slot of a text and comparing the model's number.

The public names below load on first use, so that ``import swapbias`` stays light.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
