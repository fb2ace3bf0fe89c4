"""The house holds: imports point downward, heavy libraries stay where they belong, importing is light."""

import ast
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# Bottom to top: a module may import those above it in this list, never those below.
LAYERS = [
    "swapbias", "errors", "credentialed", "outgoing", "hub", "sources", "kept", "locking", "prompts", "lexicons",
    "published", "declaring", "studies",
    "resampling", "alignment", "intervals", "significance", "estimates", "gaps", "rates", "answer_parsing",
    "answers", "direction", "measures", "sst2", "scorers", "caching", "swapping", "notes", "baselines", "scoring",
    "runs",
    "finding", "result_files", "public", "answer_findings", "predictions", "slicing", "findings", "reproduce",
    "rating", "comparing", "fairness", "report", "writing", "cards", "results", "building", "phenotyping",
    "chatting", "planning", "dry_running", "reading", "explaining", "concluding", "audit", "publishing", "sharing",
    "printing", "cli", "__main__",
]  # fmt: skip
# Third-party modules that a part may import when it is imported (not inside a function).
ALLOWED = {
    "errors": set(),
    "sources": {"platformdirs"},
    "prompts": set(),
    "lexicons": set(),
    "declaring": set(),
    "studies": set(),
    "published": set(),
    "alignment": {"numpy"},
    "intervals": {"numpy", "scipy"},
    "significance": {"numpy", "scipy"},
    "resampling": {"numpy", "scipy"},
    "estimates": set(),
    "gaps": {"numpy"},
    "rates": {"numpy", "scipy"},
    "answer_parsing": set(),
    "answers": {"numpy", "scipy"},
    "direction": {"numpy"},
    "measures": {"numpy", "scipy"},
    "sst2": set(),
    "swapping": {"numpy", "pyarrow"},
    "notes": set(),
    "finding": set(),
    "answer_findings": {"numpy", "pandas"},
    "predictions": {"numpy", "pandas"},
    "slicing": {"numpy", "pandas"},
    "scorers": {"numpy", "torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "httpx2"},
    "baselines": set(),
    "scoring": set(),
    "runs": {"pyarrow"},
    "findings": {"pandas"},
    "reproduce": {"pandas"},
    "rating": {"pandas"},
    "comparing": {"numpy", "pandas"},
    "report": {"jinja2", "matplotlib", "numpy", "pandas"},
    "credentialed": set(),
    "outgoing": set(),
    "locking": set(),
    "kept": set(),
    "caching": {"pyarrow"},
    "dry_running": set(),
    "hub": set(),
    "result_files": set(),
    "public": set(),
    "fairness": set(),
    "cards": {"yaml", "markupsafe"},
    "results": {"pandas"},
    "writing": {"pyarrow"},
    "building": set(),
    "publishing": {"markdown_it", "markupsafe", "yaml"},
    "sharing": {"pandas", "pyarrow", "rich"},
    "phenotyping": set(),
    "chatting": set(),
    "planning": set(),
    "reading": set(),
    "explaining": {"pandas"},
    "concluding": {"pandas"},
    "audit": set(),
    "printing": {"rich"},
    "cli": {"typer", "rich"},
}
FILES = sorted((ROOT / "swapbias").rglob("*.py"))


def part(path):
    first = path.relative_to(ROOT / "swapbias").parts[0]
    return "swapbias" if first == "__init__.py" else first.removesuffix(".py")


def imports(path, *, everywhere):
    """Module names imported at the top level, or anywhere in the file; type-checking blocks are left out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downward(path):
    if part(path) == "swapbias":
        return  # the package itself only names its public parts, and loads them on use
    for name in imports(path, everywhere=True):
        if name.startswith("swapbias."):
            target = name.split(".")[1]
            assert target in LAYERS or target == "__version__", name
            if target in LAYERS and target != part(path):
                assert LAYERS.index(target) < LAYERS.index(part(path)), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_third_party_imports_are_on_the_list(path):
    for name in imports(path, everywhere=False):
        root = name.split(".")[0]
        if root not in sys.stdlib_module_names and root != "swapbias":
            assert root in ALLOWED.get(part(path), set()), f"{path.name} imports {name}"


def test_leaves_are_never_imported():
    for path in FILES:
        for name in imports(path, everywhere=True):
            assert not name.startswith(("swapbias.builders.", "swapbias.metrics.", "builders.", "metrics."))


def test_evaluate_is_imported_in_metrics_only():
    for path in FILES:
        assert "evaluate" not in {name.split(".")[0] for name in imports(path, everywhere=True)}


def test_files_stay_small():
    for path in [*FILES, *(ROOT / "builders").glob("*.py")]:
        assert len(path.read_text().splitlines()) <= 300, path.name


@pytest.mark.parametrize("statement", ["import swapbias", "from swapbias import load_study", "import swapbias.cli"])
def test_importing_is_light(statement):
    heavy = ("torch", "transformers", "evaluate", "datasets", "pandas", "scipy", "matplotlib")
    code = f"{statement}; import sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_listing_needs_no_heavy_library():
    code = (
        "import sys; sys.argv = ['swapbias', 'list']\n"
        "from swapbias.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'transformers', 'datasets', 'evaluate', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip().endswith("[]")


def test_the_version_is_the_same_wherever_it_stands():
    import tomllib

    import yaml

    from swapbias import __version__

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


def test_only_one_file_writes_to_the_hub():
    writing = re.compile(r"\.(create_commit|upload_\w+|create_repo|create_tag|push_to_hub|update_repo_settings)\(")
    found = [path.relative_to(ROOT).as_posix() for path in FILES if writing.search(path.read_text())]
    assert found == ["swapbias/hub/client.py"]
