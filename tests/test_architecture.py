"""The house holds: rooms in one order, front doors, no circles; heavy libraries stay where they belong."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from swapbias import __version__
from tests.conftest import ROOT

# Bottom to top: a room may import those above it in this list, never those below. With each, the third-party modules
# that its files may import when they are imported (not inside a function).
ROOMS = {
    "swapbias": set(),
    "errors": set(),
    "public_calls": set(),
    "registry": set(),
    "files": {"filelock", "platformdirs"},
    "hub_http": set(),
    "measures": {"numpy", "scipy"},
    "studies": {"pandas", "pydantic"},
    "privacy": set(),
    "models": {
        "httpx2",
        "huggingface_hub",
        "numpy",
        "openai",
        "pandas",
        "pydantic",
        "pydantic_core",
        "safetensors",
        "tokenizers",
        "torch",
        "transformers",
    },
    "swapping": {"numpy", "pyarrow", "pydantic"},
    "notes": set(),
    "findings": {"numpy", "pandas"},
    "report": {"markupsafe", "numpy", "pandas"},
    "runs": {"pandas", "pyarrow", "pydantic", "pydantic_core"},
    "hub": {
        "datasets",
        "inspect_ai",
        "jinja2",
        "lighteval",
        "markdown_it",
        "markupsafe",
        "pandas",
        "pyarrow",
        "yaml",
    },
    "outcome": {"pandas"},
    "callback": {"transformers"},
    "cli": {"rich", "typer"},
    "__main__": set(),
}
LIBRARY = ROOT / "swapbias"
FILES = sorted(LIBRARY.rglob("*.py"))
DOORS = sorted(LIBRARY.rglob("__init__.pyi"))  # the names that each package opens on


def room(path):
    first = path.relative_to(LIBRARY).parts[0]
    return "swapbias" if first == "__init__.py" else first.removesuffix(".py")


def module(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree(path):
    return ast.parse(path.read_text())


@cache
def listed(door):
    """Module and name of what a front door opens on."""
    found = [node for node in tree(door).body if isinstance(node, ast.ImportFrom)]
    return [(f"{module(door)}.{node.module}", alias.name) for node in found for alias in node.names]


def imports(path, *, everywhere):
    """Module and name of what is imported at the top level, or anywhere in the file."""
    for node in ast.walk(tree(path)) if everywhere else tree(path).body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


MODULES = {module(path): path for path in FILES}
ENTRY = re.compile(r"(swapbias[.\w]*):(\w+)")  # how a registry names an object that it loads on use


def own_imports(path):
    """Module and name of each part of the package that a file imports, wherever and however it does."""
    names = [
        *imports(path, everywhere=True),
        *imports_by_string(tree(path)),
        *face_uses(tree(path)),
    ]
    for name, imported in names:
        if name.split(".")[0] == "swapbias":
            yield _module_or_name(name, imported)


def imports_by_string(source):
    """Module and "" of each ``import_module("swapbias.room.module")``; of an f-string the package it begins with."""
    for node in ast.walk(source):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        function = ast.unparse(node.func).rpartition(".")[2]
        if function not in {"import_module", "__import__"}:
            continue
        argument = node.args[0]
        if isinstance(argument, ast.JoinedStr):
            argument = argument.values[0]
        if isinstance(argument, ast.Constant):
            yield argument.value.rstrip("."), ""


def face_uses(source):
    """``("swapbias", name)`` of each name that is reached by ``import swapbias`` and ``swapbias.name``."""
    for node in ast.walk(source):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "swapbias":
            yield "swapbias", node.attr


def entries(source):
    """Module and name of each ``"swapbias.room.module:NAME"``, which a registry loads on use."""
    for node in ast.walk(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            entry = ENTRY.fullmatch(node.value)
            if entry:
                yield entry[1], entry[2]


def _module_or_name(name, imported):
    """What is imported: a module, a name of one, or for a name of the package's face the module behind it."""
    if f"{name}.{imported}" in MODULES:
        return f"{name}.{imported}", ""
    if name == "swapbias" and imported:
        return _home(name, imported), imported
    return name, imported


def faults_of(path, source_imports):
    """The imports of a file that climb, or pass by a front door."""
    order = list(ROOMS)
    for name, imported in source_imports:
        parts = name.split(".")
        target = parts[1] if len(parts) > 1 else "swapbias"
        if order.index(target) > order.index(room(path)):
            yield f"{path.name} imports {name} {imported}"
        is_other_room = len(parts) > 2 and parts[1] != room(path)
        if is_other_room and imported and MODULES[name].name != "__init__.py":
            yield f"{path.name} passes by the door of {name}"


def test_rooms():
    """The folders and files of the library are the rooms listed here."""
    found = {
        path.name.removesuffix(".py") for path in LIBRARY.iterdir() if path.name != "__pycache__"
    }
    assert found - {"__init__.pyi"} == {*ROOMS, "__init__", "py.typed"} - {"swapbias"}
    with pytest.raises(AttributeError, match="nothing"):
        import_module("swapbias.measures").nothing  # noqa: B018


def test_imports_between_rooms():
    """A file imports only rooms above its own in the list, and their names through their front doors."""
    for path in FILES:
        if path == LIBRARY / "__init__.py":
            continue  # the package itself only names its public parts, and loads them on use
        faced = {
            _module_or_name(name, imported)
            for name, imported in [*imports(path, everywhere=True), *face_uses(tree(path))]
            if name == "swapbias"
        }
        ordinary = set(own_imports(path)) - faced
        assert list(faults_of(path, [*ordinary, *entries(tree(path))])) == []
        # Of the face the room behind it counts; it is a door itself.
        assert (
            list(faults_of(path, [(".".join(name.split(".")[:2]), "") for name, _ in faced])) == []
        )


@pytest.mark.parametrize(
    ("code", "module_name"),
    [
        ("from swapbias import audit", "swapbias.outcome"),
        ("import swapbias\nswapbias.audit()", "swapbias.outcome"),
        (
            "from importlib import import_module\nimport_module('swapbias.report.page')",
            "swapbias.report.page",
        ),
        ("import importlib\nimportlib.import_module(f'swapbias.report.{name}')", "swapbias.report"),
    ],
    ids=["from the face", "by the face", "by a string", "by the start of a string"],
)
def test_hidden_imports(tmp_path, code, module_name):
    """An import through the package's face or by a string counts as one of the module behind it."""
    path = tmp_path / "file.py"
    path.write_text(code)
    assert module_name in {name for name, _ in own_imports(path)}
    low = LIBRARY / "measures" / "file.py"
    assert list(faults_of(low, [(module_name, "")]))


def test_narrow_front_doors():
    """A front door has at most 40 names, and all doors together 260."""
    counts = {module(path): len(listed(path)) for path in DOORS}
    assert {name: count for name, count in counts.items() if count > 40} == {}
    assert sum(counts.values()) <= 260


def test_front_door_names():
    """Each front door offers the names that its stub lists and no others."""
    for path in DOORS:
        package = import_module(module(path))
        names = [imported for _, imported in listed(path)]
        assert sorted(names) == sorted(package.__all__) == sorted(dir(package)), path
        for name, imported in listed(path):
            assert getattr(package, imported) is getattr(import_module(name), imported)
            # Of two things of one name the package would show the one loaded last, unless lazy_loader guards it.
            guarded = getattr(package, "__lazy_shadowed__", set())
            assert imported not in {one.stem for one in path.parent.iterdir()} - guarded


def test_no_import_cycles():
    """No files of the library import each other in a circle."""
    files = {name: path for name, path in MODULES.items() if path.name != "__init__.py"}
    uses = {
        name: {_home(*one) for one in own_imports(path)} & files.keys() - {name}
        for name, path in files.items()
    }
    TopologicalSorter(uses).prepare()  # whose CycleError names the circle


@cache
def _home(name, imported):
    """The module that holds what is imported: through a front door the one behind it."""
    door = MODULES[name].with_suffix(".pyi") if name in MODULES else None
    behind = dict(reversed(one) for one in listed(door)) if door and door.exists() else {}
    return _home(behind[imported], imported) if imported in behind else name


def test_third_party_imports():
    """Each room imports when it loads the third-party modules listed for it alone."""
    for path in FILES:
        for name, _ in imports(path, everywhere=False):
            root = name.split(".")[0]
            door = root == "lazy_loader" and path.name == "__init__.py"
            if root not in sys.stdlib_module_names and root != "swapbias" and not door:
                assert root in ROOMS[room(path)], f"{path.name} imports {name}"
    for path in FILES:
        for name, _ in imports(path, everywhere=True):
            assert not f"{name}.".startswith(
                ("swapbias.builders.", "swapbias.metrics.", "builders.", "metrics.")
            )
            assert name.split(".")[0] != "evaluate"


def test_light_import():
    """Importing swapbias and listing its studies load no heavy library."""
    code = """
import sys, swapbias
from swapbias import load_study
from swapbias.cli import main
sys.argv = ["swapbias", "list"]
try: main()
except SystemExit: pass
heavy = {"torch", "transformers", "evaluate", "datasets", "pandas", "scipy", "matplotlib", "numpy", "pyarrow"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    *shown, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    assert 20 < len(shown) <= 60


def test_masked_scoring_without_statistics():
    """Importing the masked scorer loads neither measures nor findings."""
    reached = set()
    left = ["swapbias.models.masked"]
    while left:  # all that is imported when the module is, through front doors
        path = MODULES[left.pop()]
        for name, imported in imports(path, everywhere=False):
            loaded = f"{name}.{imported}."
            assert not loaded.startswith(("scipy.stats.", "pandas.", "matplotlib.")), path
            home = _home(
                *(
                    (f"{name}.{imported}", "")
                    if f"{name}.{imported}" in MODULES
                    else (name, imported)
                )
            )
            if home in MODULES and home not in reached:
                reached.add(home)
                left.append(home)
    assert "swapbias.models.base" in reached


def test_versions_agree():
    """The version and the oldest supported dependencies are equal in all files that state them."""
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    tested = {one.name.lower(): one.specifier for one in map(Requirement, lines[1:])}
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        needed = Requirement(line)
        (least,) = [one.version for one in needed.specifier if one.operator == ">="]
        (pinned,) = [one.version for one in tested[needed.name.lower()]]
        assert Version(least) == Version(pinned), line


def test_only_client_writes_to_hub():
    """Calls that write to the Hub are in one file, the client."""
    writing = re.compile(
        r"\.(create_commit|upload_\w+|create_repo|create_tag|push_to_hub|update_repo_settings|\w+_collection\w*)\("
    )
    found = [
        path.relative_to(ROOT).as_posix() for path in FILES if writing.search(path.read_text())
    ]
    assert found == ["swapbias/hub/client.py"]


DIALECT = {"told", "held", "meant", "asked", "spelled", "unheard", "apart", "seconded"}


def test_identifiers_and_file_names():
    """No identifier is a word of the ban list, and no two files of the library have one name."""
    found = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            own = [getattr(node, field, None) for field in ("id", "attr", "arg", "name")]
            for name in (one for one in own if isinstance(one, str)):
                if DIALECT & set(name.lower().split("_")) or "go_on" in name:
                    found.append(f"{path.name}: {name}")
    assert found == []
    names = [path.name for path in FILES if not path.name.startswith("__")]
    assert len(set(names)) == len(names)


def test_names_of_tests():
    """A test has a name of at most 50 letters and a docstring that states its claim."""
    faults = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            claim = ast.get_docstring(node) or ""
            if len(node.name) > 50 or not claim.endswith("."):
                faults.append(f"{path.name}:{node.lineno} {node.name}")
    assert faults == []
