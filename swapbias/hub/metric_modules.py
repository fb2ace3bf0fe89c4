"""A metric's code that needs no swapbias: its module and, flat beside it, the modules of the package that it uses."""

import ast
from collections.abc import Iterator, Sequence
from importlib.metadata import requires
from importlib.resources import files
from pathlib import Path

_ROOM = "swapbias.measures"
_OTHERS = {"swapbias.errors": "errors", "swapbias.studies.answers": "answers"}  # what a metric may import beside it
_NEEDS = ("datasets", "evaluate", "numpy", "scipy")  # all that a metric and `_ROOM` import of others


def shipped_names() -> tuple[str, ...]:
    """The modules that may lie beside a metric's own, without their suffix."""
    stems = (Path(one.name).stem for one in files(_ROOM).iterdir() if one.name.endswith(".py"))
    return tuple(sorted({*_OTHERS.values(), *stems} - {"__init__"}))


def requirements() -> str:
    """What a metric needs to be installed, a line each, in the range that swapbias has."""
    wanted = (one for one in requires("swapbias") or () if one.startswith(_NEEDS) and ";" not in one)
    return "".join(f"{one}\n" for one in sorted(wanted))


def standing_alone(name: str, source: str, *, origin: str) -> dict[str, str]:
    """A metric's module and those that it reads, by file name; each imports the others as its siblings.

    `evaluate` copies the files that the main module imports, and does not look into those: so it imports every one.

    Args:
        name: of the metric.
        source: the text of its module.
        origin: the address of the package's sources at this release.

    Raises:
        ValueError: it imports something else of swapbias, or nothing.
    """
    own, direct = _flat(f"{name}.py", source)
    made: dict[str, str] = {}
    left = list(direct)
    while left:
        module = left.pop()
        if module in made:
            continue
        text, more = _flat(f"{module}.py", _source(module).read_text(encoding="utf-8"))
        made[module] = f"# From {origin}/{_place(module)}, with its imports made relative.\n{text}"
        left.extend(more)
    if not made:
        raise ValueError(f"{name}.py imports nothing of {_ROOM}. Compute there what audits compute, and import it.")
    for module in sorted(made.keys() - set(direct)):
        own = _after_imports(own, f"from .{module} import {_first_name(made[module])}")
    return {f"{name}.py": own, **{f"{module}.py": made[module] for module in sorted(made)}}


def _place(module: str) -> str:
    name = next((name for name, other in _OTHERS.items() if other == module), f"{_ROOM}.{module}")
    return f"{name.replace('.', '/')}.py"


def _source(module: str) -> Path:
    return Path(str(files("swapbias"))) / _place(module).removeprefix("swapbias/")


def _flat(file: str, source: str) -> tuple[str, list[str]]:
    """The text with its imports of the package made imports of siblings, one line each; and the siblings.

    Raises:
        ValueError: an import that names no module that is shipped.
    """
    lines = source.splitlines(keepends=True)
    found: list[str] = []
    for node in sorted(_own_imports(file, source), key=lambda one: -one.lineno):
        made = []
        for module, aliases in _homes(file, node).items():
            made.append(ast.unparse(ast.ImportFrom(module, aliases, level=1)))
            found.append(module)
        indent = " " * node.col_offset
        lines[node.lineno - 1 : node.end_lineno] = [f"{indent}{one}\n" for one in made]
    return "".join(lines), sorted(set(found))


def _own_imports(file: str, source: str) -> Iterator[ast.ImportFrom]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "swapbias":
            yield node
        elif isinstance(node, ast.Import) and any(one.name.partition(".")[0] == "swapbias" for one in node.names):
            raise ValueError(f"{file} has {ast.unparse(node)!r}, expected from {_ROOM} import the names. Edit it.")


def _homes(file: str, node: ast.ImportFrom) -> dict[str, list[ast.alias]]:
    """The shipped modules that hold what an import names, each with its names."""
    module = node.module or ""
    behind = _front_door() if module == _ROOM else {}
    homes: dict[str, list[ast.alias]] = {}
    for alias in node.names:
        known = module in _OTHERS or module.startswith(f"{_ROOM}.")
        home = module.rpartition(".")[2] if known else behind.get(alias.name)
        if home is None or home not in shipped_names():
            raise ValueError(
                f"{file} imports {alias.name} of {module}, expected names of {', '.join([_ROOM, *_OTHERS])} "
                "alone, for a Space ships no other code. Move what it needs there."
            )
        homes.setdefault(home, []).append(alias)
    return homes


def _front_door() -> dict[str, str]:
    """The module behind each name that the room lists."""
    door = ast.parse((files(_ROOM) / "__init__.pyi").read_text(encoding="utf-8"))
    parts = [node for node in door.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in parts for alias in node.names}


def _first_name(source: str) -> str:
    """A name that a module defines: evaluate takes an import of a sibling as a whole only with one."""
    defined: Sequence[ast.stmt] = ast.parse(source).body
    return next(one.name for one in defined if isinstance(one, ast.ClassDef | ast.FunctionDef))


def _after_imports(source: str, line: str) -> str:
    """The source with one more import below its others."""
    last = max(
        node.end_lineno or 0 for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)
    )
    lines = source.splitlines(keepends=True)
    return "".join([*lines[:last], f"{line}\n", *lines[last:]])
