"""The gauge of the library's code counts what it says, and the library is within its limits."""

import ast
import importlib.util
import textwrap

import pytest

from tests.conftest import ROOT


def load_gauge():
    spec = importlib.util.spec_from_file_location("code_gauge", ROOT / "scripts" / "code_gauge.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gauge = load_gauge()


def figures_of(tmp_path, code):
    """The figures of a package of one file."""
    (tmp_path / "file.py").write_text(textwrap.dedent(code).lstrip())
    return {figure: value for figure, (value, _) in gauge.measure(tmp_path).items()}


@pytest.mark.parametrize(
    ("figure", "code", "count"),
    [
        ("bindings of several unrelated values", "a, b = 1, 2\nlow, high = ends\n", 1),
        ("comparisons that multiply or index a text or list", "a = 's' * (n > 1)\nb = 2 * n\n", 1),
        (
            "loops over a conditional",
            "for x in (y if c else ()): pass\n[x for x in (y if c else ())]\n",
            2,
        ),
        ("vague names", "def f(one, row):\n    found = row\n", 2),
        ("docstrings that begin with a relative clause", 'def _f():\n    """Which is it."""\n', 1),
        (
            "public functions without Args",
            "def f(row): pass\ndef g(): pass\ndef _h(row): pass\n",
            1,
        ),
        (
            "public functions without Args",
            'def f(row):\n    """F.\n\n    Args:\n        row: R.\n    """\n',
            0,
        ),
        (
            "public functions without Args",
            'def f(row, rows):\n    """F.\n\n    Args:\n        row: R.\n    """\n',
            1,
        ),
        (
            "public functions without Args",
            'def f(row):\n    """F.\n\n    Args:\n        row: R.\n        old: O.\n    """\n',
            1,
        ),
        (
            "public fields without their meaning",
            'class A:\n    a: int\n    """Number of it."""\n    b: int\n',
            1,
        ),
    ],
    ids=[
        "bindings",
        "bools",
        "loops",
        "names",
        "docstring",
        "no Args",
        "Args",
        "one left out",
        "one renamed",
        "fields",
    ],
)
def test_counted_places(tmp_path, figure, code, count):
    """Each figure counts the places of its fault and no others."""
    assert figures_of(tmp_path, code)[figure] == count


@pytest.mark.parametrize(
    ("code", "complexity"),
    [
        ("return a", 0),
        ("if a:\n    return b\nreturn c", 1),
        ("if a:\n    b\nelse:\n    c", 2),
        ("if a:\n    b\nelif c:\n    d\nelse:\n    e", 3),
        ("for a in b:\n    if a and c:\n        d", 4),
        ("return a if b else c", 1),
        ("return [a for a in b if a]", 1),
    ],
    ids=["straight", "if", "else", "elif", "nested", "conditional", "comprehension"],
)
def test_cognitive_complexity(code, complexity):
    """A break of the flow costs one and its depth, a run of and/or one, an elif no depth (Campbell 2018)."""
    function = ast.parse("def f():\n" + textwrap.indent(code, "    ")).body[0]
    assert gauge.cognitive_complexity(function) == complexity


def test_lines_gained(tmp_path):
    """A statement of 110 columns gains lines at 100, and one of 50 none."""
    short = "value = function(argument, argument)\n"
    long = f"value = {' + '.join(['argument'] * 9)}\n"
    assert figures_of(tmp_path, short)["lines gained at 100 columns (%)"] == 0
    assert figures_of(tmp_path, short + long)["lines gained at 100 columns (%)"] > 0


def test_doors_and_long_modules(tmp_path):
    """Names are counted per door and over all doors, and a module of 451 lines is too long."""
    (tmp_path / "__init__.pyi").write_text("from .a import b as b, c as c\n")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.pyi").write_text("from .d import e as e\n")
    figures = figures_of(tmp_path, "x = 1\n" * 451)
    assert figures["names on the doors of rooms"] == 3
    assert figures["names on one door"] == 2
    assert figures["lines of a module"] == 451
