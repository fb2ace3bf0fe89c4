"""What may leave this machine: the credentialed mark, manifests without private places, the gate."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
