"""Objects that are whole when they are made, and stay as they are."""

from abc import ABCMeta
from collections.abc import Sequence
from copy import copy
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar, Self

from swapbias.errors import joined

_IS_MADE = "_is_made"  # in the ``__dict__`` of an object whose constructor has ended


class _Whole(ABCMeta):
    """Makes objects: refuses one that lacks something, and closes it when its constructor has ended."""

    def __call__(cls, *arguments: Any, **settings: Any) -> Any:
        """Make an object of the class; a TypeError where it lacks what its class says that it needs."""
        _refuse_lacking(cls, sorted(cls.__abstractmethods__))
        instance = super().__call__(*arguments, **settings)
        _refuse_lacking(cls, [name for name in instance.needs if not instance._has(name)])
        vars(instance)[_IS_MADE] = True
        return instance


def _refuse_lacking(cls: Any, names: Sequence[str]) -> None:
    """Raise a TypeError where an object of a class lacks these names."""
    if names:
        raise TypeError(
            f"{cls.__name__} has no {joined(names)}. "
            f"{cls.noun} needs {joined(cls.needs)}: set them in the class or in __init__."
        )


class Immutable(metaclass=_Whole):
    """An object that is complete once its constructor has ended, and refuses to be changed from then on.

    ``functools.cached_property`` works. What changes later, such as a cache, is an object that it holds.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    """Names that each object has, from its class or set in ``__init__``."""
    noun: ClassVar[str] = "An object"
    """Begins the sentence about an object that lacks one of them."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute in the constructor; a FrozenInstanceError, which is an AttributeError, from then on."""
        self._refuse_change(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute in the constructor; raises as ``__setattr__``."""
        self._refuse_change(name)
        super().__delattr__(name)

    def _has(self, need: str) -> bool:
        """Return whether it has one of its ``needs``; None is nothing."""
        return getattr(self, need, None) is not None

    def _refuse_change(self, name: str) -> None:
        """Raise a FrozenInstanceError once the constructor has ended."""
        if _IS_MADE in vars(self):
            raise FrozenInstanceError(
                f"{type(self).__name__}.{name} cannot be changed after __init__. "
                "Set it there, and keep what changes later in a dict or list."
            )

    def _changed(self, **attributes: Any) -> Self:
        """Return a copy with other attributes; it holds the same caches, which must not depend on them."""
        for name in attributes:
            getattr(self, name)  # an AttributeError: a name that nothing reads would change nothing
        copied = copy(self)
        vars(copied).update(attributes)
        return copied
