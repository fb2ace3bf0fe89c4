"""Print how readable the library's code is, and fail where a figure is above its limit: python scripts/code_gauge.py.

``make lint`` runs it. A limit is lowered when the code is better than it; it is not raised to let code in.
"""

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path(__file__).resolve().parent.parent / "swapbias"

# The highest value of each figure.
LIMITS = {
    "lines gained at 100 columns (%)": 5.0,
    "one-line conditionals / 1,000 lines": 18.0,
    "bindings of several unrelated values": 10,
    "comparisons that multiply or index a text or list": 0,
    "loops over a conditional": 0,
    "functions of cognitive complexity > 15": 20,
    "functions of cognitive complexity > 25": 0,
    "vague names": 40,
    "docstrings that begin with a relative clause": 0,
    "public functions without Args": 0,
    "public fields without their meaning": 0,
    "names on the doors of rooms": 260,
    "names on one door": 40,
    "lines of a module": 450,
}

# Modules of more lines, each one flow that would be read no faster in two files.
LONG_MODULES: dict[str, int] = {}

VAGUE_NAMES = frozenset({
    "one", "found", "made", "mine", "own", "every", "each", "other", "named", "said", "how", "more", "what", "whose",
    "place", "shown", "taken", "known", "given", "where", "why",
})  # fmt: skip
RELATIVE_WORDS = frozenset(
    {"Of", "What", "Which", "Whose", "Where", "Who", "How", "As", "Whether", "Whoever", "For"}
)
RELATIVE_PHRASES = ("So many ", "In which ")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Module:
    """A parsed file of the library."""

    path: Path
    """Its path from the folder that is measured."""
    text: str
    """Its source."""
    tree: ast.Module
    """Its syntax tree."""

    @property
    def lines(self) -> int:
        """Number of its lines."""
        return self.text.count("\n")

    def nodes(self) -> Iterator[ast.AST]:
        """Yield every node of the syntax tree."""
        return ast.walk(self.tree)


@dataclass(frozen=True)
class Fault:
    """A place that a figure counts."""

    path: Path
    """The file, from the folder that is measured."""
    line: int
    """Its line, from 1."""
    detail: str
    """The name or number that is counted."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.detail}"


def read_modules(folder: Path) -> list[Module]:
    """Parse every file of a folder.

    Args:
        folder: path of a package.

    Returns:
        Its modules, by path.
    """
    modules = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        modules.append(Module(path.relative_to(folder), text, ast.parse(text)))
    return modules


# --- Statements ---------------------------------------------------------------------------------


def is_conditional(node: ast.AST) -> bool:
    """Tell whether a node is ``x if condition else y``."""
    return isinstance(node, ast.IfExp)


def is_unrelated_binding(node: ast.AST) -> bool:
    """Tell whether a node binds several values in one statement: ``a, b = x, y``."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    )


def is_bool_arithmetic(node: ast.AST) -> bool:
    """Tell whether a node multiplies a text or list by a condition: ``"s" * (count > 1)``."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False
    sides = (node.left, node.right)
    return any(_is_sequence(side) for side in sides) and any(_is_condition(side) for side in sides)


def _is_sequence(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.List | ast.Tuple | ast.JoinedStr)


def _is_condition(node: ast.expr) -> bool:
    """Tell whether an expression can only be a condition, or is a name that may hold one."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "bool"
    return isinstance(node, ast.Compare | ast.BoolOp | ast.Name | ast.Attribute)


def is_loop_over_conditional(node: ast.AST) -> bool:
    """Tell whether a node is ``for x in (y if condition else z)``."""
    return isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.IfExp)


def find_nodes(modules: Iterable[Module], counts: Callable[[ast.AST], bool]) -> list[Fault]:
    """Find the nodes that a figure counts.

    Args:
        modules: parsed files.
        counts: whether a node is counted.

    Returns:
        A fault for each of them.
    """
    faults = []
    for module in modules:
        for node in module.nodes():
            if counts(node):
                expression = node.iter if isinstance(node, ast.comprehension) else node
                line = getattr(expression, "lineno", 0)
                faults.append(Fault(module.path, line, type(node).__name__))
    return faults


# --- Functions ----------------------------------------------------------------------------------


def cognitive_complexity(function: FunctionNode) -> int:
    """Compute the effort of following a function's flow, after Campbell (2018), Cognitive Complexity.

    Args:
        function: the definition.

    Returns:
        One for each break of the flow plus its depth, and one for each run of ``and`` or ``or``; 0 for a function
        that reads from top to bottom.
    """
    return sum(_complexity(node, 0) for node in ast.iter_child_nodes(function))


def _complexity(node: ast.AST, depth: int, *, is_elif: bool = False) -> int:
    if isinstance(node, ast.If):
        return _complexity_of_if(node, depth, is_elif=is_elif)
    cost = 0
    inner = depth
    if isinstance(node, FunctionNode | ast.Lambda):
        inner = depth + 1
    elif isinstance(
        node, ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.Match | ast.IfExp
    ):
        cost = 1 + depth
        inner = depth + 1
    elif isinstance(node, COMPREHENSIONS):
        cost = sum(len(generator.ifs) for generator in node.generators)
    elif isinstance(node, ast.BoolOp):
        cost = 1
    return cost + sum(_complexity(child, inner) for child in ast.iter_child_nodes(node))


def _complexity_of_if(node: ast.If, depth: int, *, is_elif: bool) -> int:
    has_elif = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
    inner = depth if is_elif else depth + 1
    total = 1 if is_elif else 1 + depth
    if node.orelse and not has_elif:
        total += 1
    total += _complexity(node.test, inner)
    total += sum(_complexity(child, inner) for child in node.body)
    for child in node.orelse:
        total += _complexity(child, inner, is_elif=has_elif)
    return total


def find_functions(modules: Iterable[Module], above: int) -> list[Fault]:
    """Find functions whose cognitive complexity is above a number, the highest first."""
    scores = [
        (cognitive_complexity(node), module, node)
        for module in modules
        for node in module.nodes()
        if isinstance(node, FunctionNode)
    ]
    scores.sort(key=lambda score: -score[0])
    return [
        Fault(module.path, node.lineno, f"{node.name} {complexity}")
        for complexity, module, node in scores
        if complexity > above
    ]


def find_vague_names(modules: Iterable[Module]) -> list[Fault]:
    """Find variables and parameters whose name says nothing of the thing."""
    faults = []
    for module in modules:
        for node in module.nodes():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names = [node.id]
            elif isinstance(node, FunctionNode):
                names = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
            else:
                continue
            faults += [
                Fault(module.path, node.lineno, name) for name in names if name in VAGUE_NAMES
            ]
    return faults


# --- Docstrings ---------------------------------------------------------------------------------


def find_relative_docstrings(modules: Iterable[Module]) -> list[Fault]:
    """Find docstrings that begin with a relative clause, where a verb or a noun belongs."""
    faults = []
    for module in modules:
        for node in module.nodes():
            if not isinstance(node, FunctionNode | ast.ClassDef):
                continue
            text = ast.get_docstring(node) or ""
            first_word = text.partition(" ")[0]
            if first_word in RELATIVE_WORDS or text.startswith(RELATIVE_PHRASES):
                faults.append(Fault(module.path, node.lineno, node.name))
    return faults


def find_undescribed_arguments(modules: Iterable[Module]) -> list[Fault]:
    """Find public functions whose Args are not their arguments; the commands' options are help texts."""
    return [
        Fault(module.path, function.lineno, function.name)
        for module in modules
        if module.path.parts[0] != "cli"
        for function in _public_functions(module.tree.body)
        if described_arguments(ast.get_docstring(function) or "") != _arguments(function)
    ]


def described_arguments(docstring: str) -> set[str]:
    """Return the names that a docstring's Args describe, one a line."""
    _, _, after = docstring.partition("Args:\n")
    block = re.split(r"\n\n|\n(?=\S)", after)[0]
    return set(re.findall(r"^    \*{0,2}(\S[^:\n]*):", block, re.MULTILINE))


def _public_functions(body: Iterable[ast.stmt]) -> Iterator[FunctionNode]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public_functions(node.body)
        elif isinstance(node, FunctionNode) and not node.name.startswith("_"):
            yield node


def _arguments(function: FunctionNode) -> set[str]:
    """Return the names of a function's arguments, except ``self``, ``cls`` and those that it says it ignores."""
    signature = function.args
    arguments = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
    arguments += [argument for argument in (signature.vararg, signature.kwarg) if argument]
    names = {argument.arg for argument in arguments if not argument.arg.startswith("_")}
    return names - {"self", "cls"}


def find_undescribed_fields(modules: Iterable[Module]) -> list[Fault]:
    """Find annotated public fields of classes without a docstring under them."""
    faults = []
    for module in modules:
        for node in module.nodes():
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            for field, after in zip(node.body, [*node.body[1:], None], strict=True):
                if _is_public_field(field) and not _is_docstring(after):
                    name = ast.unparse(field).partition(":")[0]
                    faults.append(Fault(module.path, field.lineno, f"{node.name}.{name}"))
    return faults


def _is_public_field(node: ast.stmt) -> bool:
    if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
        return False
    return not node.target.id.startswith("_")


def _is_docstring(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


# --- Files --------------------------------------------------------------------------------------


def lines_gained(folder: Path) -> float:
    """Measure how full the lines are.

    Args:
        folder: path of a package.

    Returns:
        Lines that the formatter adds at 100 columns to those it writes at 118, in percent; code that says one thing a
        line gains 2 to 3.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for module in read_modules(folder):
            copy = Path(scratch, module.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(module.text, encoding="utf-8")
        wide, narrow = (_formatted_lines(Path(scratch), columns) for columns in (118, 100))
    return 100 * (narrow / wide - 1)


def _formatted_lines(folder: Path, columns: int) -> int:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--quiet"]
    subprocess.run([*command, "--line-length", str(columns), str(folder)], check=True)
    return sum(path.read_text(encoding="utf-8").count("\n") for path in folder.rglob("*.py"))


def door_names(folder: Path) -> dict[str, int]:
    """Count the names that the front door of each package lists, by path."""
    counts = {}
    for door in sorted(folder.rglob("__init__.pyi")):
        tree = ast.parse(door.read_text(encoding="utf-8"))
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        counts[door.relative_to(folder).as_posix()] = sum(len(node.names) for node in imports)
    return counts


def find_long_modules(modules: Iterable[Module]) -> list[Fault]:
    """Find modules above the limit of lines, or above their own where they have one."""
    limit = LIMITS["lines of a module"]
    faults = []
    for module in modules:
        if module.lines > LONG_MODULES.get(module.path.as_posix(), limit):
            faults.append(Fault(module.path, module.lines, "lines"))
    return sorted(faults, key=lambda fault: -fault.line)


# --- The table ----------------------------------------------------------------------------------


def measure(folder: Path) -> dict[str, tuple[float, list[Fault]]]:
    """Measure every figure of ``LIMITS``.

    Args:
        folder: path of a package.

    Returns:
        By figure its value and, where it counts places, the places.
    """
    modules = read_modules(folder)
    total_lines = sum(module.lines for module in modules)
    conditionals = find_nodes(modules, is_conditional)
    doors = door_names(folder)
    long_modules = find_long_modules(modules)
    most_lines = long_modules[0].line if long_modules else 0
    places = {
        "bindings of several unrelated values": find_nodes(modules, is_unrelated_binding),
        "comparisons that multiply or index a text or list": find_nodes(
            modules, is_bool_arithmetic
        ),
        "loops over a conditional": find_nodes(modules, is_loop_over_conditional),
        "functions of cognitive complexity > 15": find_functions(modules, 15),
        "functions of cognitive complexity > 25": find_functions(modules, 25),
        "vague names": find_vague_names(modules),
        "docstrings that begin with a relative clause": find_relative_docstrings(modules),
        "public functions without Args": find_undescribed_arguments(modules),
        "public fields without their meaning": find_undescribed_fields(modules),
    }
    figures: dict[str, tuple[float, list[Fault]]] = {
        "lines gained at 100 columns (%)": (lines_gained(folder), []),
        "one-line conditionals / 1,000 lines": (
            1000 * len(conditionals) / total_lines,
            conditionals,
        ),
        **{figure: (len(faults), faults) for figure, faults in places.items()},
        "names on the doors of rooms": (sum(doors.values()), []),
        "names on one door": (max(doors.values(), default=0), []),
        "lines of a module": (most_lines, long_modules),
    }
    return {figure: figures[figure] for figure in LIMITS}


def main() -> None:
    """Print each figure beside its limit, and the places of those above it; ``--all`` prints all places."""
    failed = False
    for figure, (value, faults) in measure(LIBRARY).items():
        limit = LIMITS[figure]
        is_above = value > limit
        failed = failed or is_above
        number = f"{value:.1f}" if isinstance(limit, float) else f"{value:.0f}"
        mark = "above the limit of" if is_above else "limit"
        print(f"{number:>7}  {figure}, {mark} {limit:g}")
        if is_above or "--all" in sys.argv:
            for fault in faults:
                print(f"         swapbias/{fault}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
