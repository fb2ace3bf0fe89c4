"""Attributes are assigned by their own class alone, and those of a scorer while it is built."""

import ast

import pytest

from tests.test_architecture import FILES, LIBRARY, tree

# Attributes of objects of other libraries that have the name of an attribute of a class here.
LIBRARY_OBJECTS = {("cli/finished_runs.py", "text")}  # of an element of XML
SETTERS = {"setattr", "delattr", "object.__setattr__", "object.__delattr__"}


def parts(target):
    """The targets of an assignment one by one."""
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from parts(element)
    elif isinstance(target, ast.Starred):
        yield from parts(target.value)
    else:
        yield target


def targets(node):
    """Yield the targets of assignments and deletions in a piece of code."""
    for part in ast.walk(node):
        if isinstance(part, ast.Assign | ast.Delete):
            nodes = part.targets
        elif isinstance(
            part,
            ast.AugAssign
            | ast.AnnAssign
            | ast.For
            | ast.AsyncFor
            | ast.NamedExpr
            | ast.comprehension,
        ):
            nodes = [part.target]
        elif isinstance(part, ast.With | ast.AsyncWith):
            nodes = [item.optional_vars for item in part.items if item.optional_vars]
        else:
            continue
        for target in nodes:
            yield from parts(target)


def is_assigned_to_self(target):
    return isinstance(target.value, ast.Name) and target.value.id == "self"


def classes(trees):
    """Each class: where it is, its name, those of its parents, and its attributes."""
    for path, read in trees.items():
        for node in ast.walk(read):
            if isinstance(node, ast.ClassDef):
                parents = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                body = [
                    target
                    for statement in node.body
                    if not isinstance(statement, ast.FunctionDef)
                    for target in targets(statement)
                ]
                names = {target.id for target in body if isinstance(target, ast.Name)}
                names |= {
                    one.attr
                    for one in targets(node)
                    if isinstance(one, ast.Attribute) and is_assigned_to_self(one)
                }
                yield path, node, parents, names


def scorer_classes(trees):
    """The names of the classes below ``Scorer``."""
    below = {"Scorer"}
    parents_by_class = [(node.name, parents) for _, node, parents, _ in classes(trees)]
    while more := {name for name, parents in parents_by_class if parents & below} - below:
        below |= more
    return below


def set_from_outside(trees):
    """Each place where a file assigns an attribute of an object whose class is in another file, or a scorer's."""
    below = scorer_classes(trees)
    all_classes = list(classes(trees))
    homes = {}
    of_scorers = set()
    of_others = set()
    for path, node, _, names in all_classes:
        for name in names:
            homes.setdefault(name, set()).add(path)
            if node.name not in below:
                of_others.add((path, name))
        if node.name in below:
            of_scorers |= names
    for path, read in trees.items():
        for target in targets(read):
            if not isinstance(target, ast.Attribute) or is_assigned_to_self(target):
                continue
            elsewhere = target.attr in homes and path not in homes[target.attr]
            if elsewhere or (target.attr in of_scorers and (path, target.attr) not in of_others):
                yield path, target.attr


def changed_later(trees):
    """Each place where a scorer assigns an attribute of its own outside of its constructor."""
    below = scorer_classes(trees)
    for path, node, _, _ in classes(trees):
        for method in node.body:
            if (
                node.name in below
                and isinstance(method, ast.FunctionDef)
                and method.name != "__init__"
            ):
                for target in targets(method):
                    if isinstance(target, ast.Attribute) and is_assigned_to_self(target):
                        yield path, target.attr


def is_contents(code):
    """Tell whether code is the dictionary of an object's attributes."""
    written = ast.unparse(code)
    return written.startswith("vars(") or written.endswith("__dict__")


def sets_another(call):
    """Tell whether a call sets an attribute of an object other than the one whose method it is
    in."""
    function = call.func
    if (
        isinstance(function, ast.Attribute)
        and function.attr == "update"
        and is_contents(function.value)
    ):
        return True
    return ast.unparse(function) in SETTERS and ast.unparse(call.args[0]) != "self"


def bypasses_of_assignment(trees):
    """Each place where attributes are set by a function, or in an object's dictionary, in place of an assignment."""
    for path, read in trees.items():
        for node in ast.walk(read):
            if isinstance(node, ast.Call) and sets_another(node):
                yield path, ast.unparse(node)
        for target in targets(read):
            if isinstance(target, ast.Subscript) and is_contents(target.value):
                yield path, ast.unparse(target)


@pytest.fixture(scope="module")
def trees():
    """The code of the library, read when a test needs it."""
    return {path: tree(path) for path in FILES}


def test_no_attribute_set_from_outside(trees):
    """No code sets an attribute of another object, but for objects of libraries."""
    found = {(path.relative_to(LIBRARY).as_posix(), name) for path, name in set_from_outside(trees)}
    assert found == LIBRARY_OBJECTS


def test_scorer_attributes_set_once(trees):
    """A scorer assigns its attributes while it is built and never later."""
    assert list(changed_later(trees)) == []


def test_no_assignment_by_detour(trees):
    """No file but immutable.py uses setattr, vars or __dict__ to set an attribute."""
    assert {path.relative_to(LIBRARY).as_posix() for path, _ in bypasses_of_assignment(trees)} <= {
        "models/immutable.py"
    }


BASE = """
class Scorer: ...
class Mine(Scorer):
    unit = "u"
    def __init__(self, read): self.read = read
"""


@pytest.mark.parametrize(
    "code",
    [
        "made.read = None",
        "made.judge.read = None",
        "made.read, b = 1, 2",
        "a = made.unit = 1",
        "made.unit += 'x'",
        "del made.unit",
        "for made.unit in 'ab': pass",
        "with open('a') as made.read: pass",
        "make(1).read = 2",
        "def f(self): self.inner.read = 1",
        "made.read: object = None",
        "[0 for made.read in 'ab']",
    ],
)
def test_rule_sees_outside_assignments(code):
    """The rule reports each syntax that sets an attribute of another object."""
    trees = {"base": ast.parse(BASE), "user": ast.parse(code)}
    assert list(set_from_outside(trees)) != []
    assert list(set_from_outside({"base": ast.parse(f"{BASE}\n{code}")})) != []
    assert list(set_from_outside({"base": ast.parse(BASE)})) == []


def test_rule_sees_later_changes():
    """The rule reports what a scorer changes after it is built, and each detour around assignment."""
    later = f"{BASE}\n    def score(self): self.count = 1\n"
    assert list(changed_later({"base": ast.parse(later)})) == [("base", "count")]
    ways = (
        "setattr(a, 'b', 1)",
        "vars(a)['b'] = 1",
        "a.__dict__['b'] = 1",
        "vars(a).update(b=1)",
        "delattr(a, 'b')",
    )
    assert all(list(bypasses_of_assignment({"base": ast.parse(one)})) for one in ways)
