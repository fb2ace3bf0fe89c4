"""Names and objects of a group: those of the package, and those that other distributions add by entry points."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from swapbias.errors import UsageError, contributed_place, first_line, listed, log_traceback

PACKAGE = "swapbias"


def load_object(path: str) -> Any:
    """Import and return an object.

    >>> load_object("swapbias.registry:PACKAGE")
    'swapbias'

    Args:
        path: ``module:name``.
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Registry:
    """Objects by name, each imported when it is asked for.

    A distribution adds one by an entry point of the group, ``name = "module:object"``. One that does not load, or
    whose name is in use, is left out: the others stay, and ``faults`` tells of it.

    >>> registry = Registry("swapbias.examples", "example", lambda: {"package": "swapbias.registry:PACKAGE"})
    >>> registry.names(), registry.load("package")
    (('package',), 'swapbias')
    """

    group: str
    """The group of entry points."""

    thing: str
    """What an object is called in a sentence, such as ``measure``."""

    built_in: Callable[[], Mapping[str, str]]
    """Gives the paths (``module:name``) of the package's own objects by name."""

    check: Callable[[str, Any], None] = field(default=lambda name, loaded: None)
    """Raises ValueError or TypeError where an object from outside is none of this group, by its name."""

    def names(self) -> tuple[str, ...]:
        """Return the names that can be used: the package's own in their order, then those from outside."""
        return (*self.built_in(), *sorted(self._outside.keys() - self._twice.keys()))

    def __contains__(self, name: object) -> bool:
        """Tell whether a name can be used, without making a list of all."""
        return name in self.built_in() or (name in self._outside and name not in self._twice)

    def outside(self) -> tuple[str, ...]:
        """Return the names that other distributions add, sorted; some may not load."""
        return tuple(sorted(self._outside.keys() - self._twice.keys()))

    def load(self, name: str) -> Any:
        """Return the object of a name.

        Args:
            name: one of ``names``.

        Raises:
            UsageError: There is no such name, several distributions use it, or it does not load.
        """
        if name in self._twice:
            raise UsageError(self._twice[name])
        paths = self.built_in()
        if name in paths:
            return load_object(paths[name])
        if name not in self._outside:
            raise UsageError(
                f"Unknown {self.thing} {name!r}: expected one of {listed(self.names())}."
            )
        return self._loaded(self._outside[name])

    def load_all(self) -> dict[str, Any]:
        """Return every object that loads, by name; ``faults`` tells of the others."""
        loaded = {name: load_object(path) for name, path in self.built_in().items()}
        for name in self.outside():
            try:
                loaded[name] = self._loaded(self._outside[name])
            except UsageError:
                continue
        return loaded

    def clash(self, name: str) -> str:
        """Return a sentence where a name is in use already, or is added more than once; blank for any other name.

        Args:
            name: the name of an object.
        """
        return self._twice.get(name, self._hidden.get(name, ""))

    def clashes(self) -> list[str]:
        """Return a sentence for each such name; it imports nothing."""
        return [*self._hidden.values(), *self._twice.values()]

    def faults(self) -> list[str]:
        """Return a sentence for each entry point that is left out; it imports all that come from outside."""
        sentences = self.clashes()
        for name in self.outside():
            try:
                self._loaded(self._outside[name])
            except UsageError as error:
                sentences.append(str(error))
        return sentences

    def place(self, name: str) -> str:
        """Return the ``module:object`` of an entry point that adds a name; blank for one of the package.

        Args:
            name: the name of an object.
        """
        return self._outside[name].value if name in self._outside else ""

    def distribution(self, name: str) -> str:
        """Return the distribution that adds a name; blank for one of the package.

        Args:
            name: the name of an object.
        """
        return _distribution(self._outside[name]) if name in self._outside else ""

    @cached_property
    def _points(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of the group by name; what is installed does not change while a process runs."""
        points: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            points.setdefault(point.name, []).append(point)
        return points

    @cached_property
    def _outside(self) -> dict[str, EntryPoint]:
        """Return an entry point for each name that the package does not use itself."""
        paths = self.built_in()
        return {name: points[0] for name, points in self._points.items() if name not in paths}

    @cached_property
    def _twice(self) -> dict[str, str]:
        """Return a sentence for each name that several entry points use, none of which is taken."""
        sentences = {}
        for name in self._outside:
            points = self._points[name]
            if len(points) > 1:
                distributions = [_distribution(point) for point in points]
                sentences[name] = self._used_by_several(name, distributions)
        return sentences

    @cached_property
    def _hidden(self) -> dict[str, str]:
        """Return a sentence for each name of the package, which keeps its own, that entry points use."""
        paths = self.built_in()
        return {
            name: self._in_use(name, points[0])
            for name, points in self._points.items()
            if name in paths
        }

    def _in_use(self, name: str, point: EntryPoint) -> str:
        """Return the sentence on an entry point whose name the package uses itself."""
        distribution = _distribution(point)
        return (
            f"The {self.thing} {name!r} of {distribution} is left out, for swapbias has one of "
            f"this name. Rename it, or uninstall {distribution}."
        )

    def _used_by_several(self, name: str, distributions: list[str]) -> str:
        """Return the sentence on a name that several distributions add."""
        adders = " and ".join(sorted(set(distributions)))
        return (
            f"The {self.thing} {name!r} is added more than once, by {adders}. "
            "Uninstall one of them."
        )

    def _loaded(self, point: EntryPoint) -> Any:
        """Return the object of an entry point; a UsageError where it does not load."""
        try:
            loaded = point.load()
            self.check(point.name, loaded)
        except Exception as error:
            log_traceback(error)
            location = contributed_place(error)
            where_it_failed = f" It went wrong at {location}." if location else ""
            distribution = _distribution(point)
            raise UsageError(
                f"The {self.thing} {point.name!r} of {distribution} cannot be loaded "
                f"({type(error).__name__}: {first_line(error)}). "
                f"Fix or uninstall {distribution}.{where_it_failed}"
            ) from error
        return loaded


def _distribution(point: EntryPoint) -> str:
    """Return the distribution of an entry point; its object where none is known."""
    return point.dist.name if point.dist is not None else point.value
