"""Chat models: behind an OpenAI-compatible service, or run here; every answer is kept."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
