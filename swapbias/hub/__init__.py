"""The Hub: corpora, metrics, results and cards, pushed and pulled. ``client`` is the only file that talks to it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
