"""Run the tests of what changed for at most 40 seconds: python scripts/quick_tests.py [SECONDS].

Changed is what is not committed, or where all is, what the last commit changed. ``make quick`` runs it beside the
linter and the types; ``make test`` runs every test.
"""

import ast
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = "tests/test_architecture.py"
MOST_SECONDS = 40.0


class Budget:
    """A plugin of pytest that starts no test once a number of seconds is over."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.collected = 0
        self.run = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests that were selected."""
        self.collected = len(session.items)

    def pytest_runtest_logfinish(self) -> None:
        """Count a test that has run."""
        self.run += 1

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Skip a test without a word once the time is over; ``main`` says how many."""
        return True if time.monotonic() > self.end else None


def changed_files() -> list[str]:
    """List changed files by path from the root, those deleted left out."""
    lines = _git("status", "--porcelain", "--no-renames", "--untracked-files=all")
    names = [line[3:] for line in lines] or _git("diff", "--name-only", "HEAD~1")
    return [name for name in names if (ROOT / name).exists()]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()


def module_name(path: str) -> str:
    """Turn the path of a file into the name of its module."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_names(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import in a file; the name is empty for ``import module``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def homes_of_doors() -> dict[tuple[str, str], str]:
    """Map each name on a front door, ``(package, name)``, to the module that defines it."""
    homes = {}
    for door in (ROOT / "swapbias").rglob("__init__.pyi"):
        package = module_name(door.parent.relative_to(ROOT).as_posix())
        for node in ast.parse(door.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    homes[package, alias.name] = f"{package}.{node.module}"
    return homes


def tests_of(changed: list[str]) -> list[str]:
    """Select the test files of changed files.

    Args:
        changed: paths from the root.

    Returns:
        The test of the architecture, the changed tests, those named after a changed file, and those that import a
        changed module, directly or through a front door; in this order.
    """
    homes = homes_of_doors()
    stems = {Path(name).stem for name in changed if name.endswith((".py", ".toml", ".csv"))}
    stems |= {
        Path(name).parent.name for name in changed if name.startswith(("datasets_src/", "metrics/"))
    }
    modules = {module_name(name) for name in changed if name.endswith(".py")}
    same_name = []
    importing = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        imports = set()
        for module, imported in imported_names(path):
            imports |= {module, f"{module}.{imported}", homes.get((module, imported), "")}
        if name in changed or path.stem.removeprefix("test_") in stems:
            same_name.append(name)
        elif imports & modules:
            importing.append(name)
    return list(dict.fromkeys([ARCHITECTURE, *same_name, *importing]))


def main() -> None:
    """Run the selected tests and say how many were left out for time."""
    budget = Budget(float(sys.argv[1]) if len(sys.argv) > 1 else MOST_SECONDS)
    code = pytest.main([*tests_of(changed_files()), "--no-header"], plugins=[budget])
    if budget.run < budget.collected:
        print(f"{budget.run} of {budget.collected} tests ran; `make test` runs them all.")
    sys.exit(code)


if __name__ == "__main__":
    main()
