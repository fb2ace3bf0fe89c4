"""Scorers: the only contact with models. torch and transformers load when a scorer is made, not before."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
