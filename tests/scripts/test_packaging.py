"""pyproject.toml declares what the code imports, and nothing else; bounds are those that are tested."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("swapbias", "builders", "metrics")
FOR_CHECKOUTS = ("dev", "docs")
# Extras that a part of the package needs; what lies in other folders runs with the core alone.
EXTRAS_OF = {
    "metrics": "metrics",
    "swapbias/report": "audit",
    "swapbias/models": "audit models adapters chat clinical explain train inspect vllm",
    "swapbias/findings": "judge",
    "swapbias/swapping": "judge models ray",
    "swapbias/callback.py": "models",
    "swapbias/hub/lm_eval_tasks.py": "models",
    "swapbias/hub/inspect_tasks.py": "inspect",
}
# Libraries that run a file of ours in an environment of their own, with which the core does not fit.
HOSTS = {"swapbias/hub/lighteval_tasks.py": "lighteval"}


def declared(lines):
    """The names of requirements, without the package's own."""
    names = {canonicalize_name(Requirement(line).name) for line in lines}
    return names - {"swapbias"}


CORE = declared(PROJECT["dependencies"])
EXTRAS = {
    extra: declared(lines)
    for extra, lines in PROJECT["optional-dependencies"].items()
    if extra not in FOR_CHECKOUTS
}


def imported():
    """Yield file, and the distribution of each library that it imports anywhere, by name as text too."""
    distributions = packages_distributions()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            names = set()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names.add(node.module)
                elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                    "import_module"
                ):
                    first = node.args[0]
                    names |= {str(first.value)} if isinstance(first, ast.Constant) else set()
            for name in {name.partition(".")[0] for name in names}:
                if name in sys.stdlib_module_names or name == "swapbias":
                    continue
                library = distributions.get(name, [name])[0]
                yield path.relative_to(ROOT).as_posix(), canonicalize_name(library)


def test_imports_are_declared():
    """Each library that a file imports is one of the core, or of an extra that this part of the package needs."""
    missing = []
    for path, library in imported():
        names = [names for place, names in EXTRAS_OF.items() if path.startswith(place)]
        extras = [EXTRAS[extra] for extra in " ".join(names).split()]
        if library not in CORE.union(*extras) and library != HOSTS.get(path):
            missing.append(f"{path}: {library}")
    assert not missing, "\n".join(missing)


def test_declared_libraries_are_imported():
    """Each library that is declared is imported: no extra and no part of the core is of none."""
    libraries = {library for _, library in imported()}
    assert CORE.union(*EXTRAS.values()) <= libraries


def test_oldest_versions():
    """The lower bound of each library of the core, and of metrics, is the version that test-oldest installs."""
    pins = {}
    for line in (ROOT / "constraints-oldest.txt").read_text().splitlines():
        if match := re.fullmatch(r"([\w.-]+)==([\w.]+)", line):
            pins[canonicalize_name(match[1])] = Version(match[2])
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["metrics"]]
    for requirement in map(Requirement, lines):
        (bound,) = (part.version for part in requirement.specifier if part.operator == ">=")
        assert pins[canonicalize_name(requirement.name)] == Version(bound), requirement.name


@pytest.mark.parametrize("folder", ["tests"])
def test_source_archive(folder):
    """The source archive is without tests, which need the whole checkout."""
    assert f"prune {folder}" in (ROOT / "MANIFEST.in").read_text().splitlines()
