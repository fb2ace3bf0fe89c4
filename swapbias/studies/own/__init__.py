"""A user's own study: its tables are read (nothing in them is run), faults named by line, and a Corpus made."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
