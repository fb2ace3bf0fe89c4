"""`make quick` selects the tests of what changed, and stops when its time is over."""

import importlib.util

import pytest

from tests.conftest import ROOT


def load_script():
    spec = importlib.util.spec_from_file_location(
        "quick_tests", ROOT / "scripts" / "quick_tests.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


quick = load_script()


@pytest.mark.parametrize(
    ("changed", "test_file"),
    [
        ("tests/measures/test_direction.py", "tests/measures/test_direction.py"),
        ("swapbias/registry.py", "tests/test_registry.py"),
        ("datasets_src/gest/study.toml", "tests/builders/test_gest.py"),
    ],
    ids=["a test", "a file of that name", "a corpus"],
)
def test_named_tests(changed, test_file):
    """A changed test, and a test named after a changed file or corpus, come first after the architecture."""
    assert quick.tests_of([changed])[:2] == [quick.ARCHITECTURE, test_file]


def test_tests_behind_a_door():
    """A test that imports a name through a front door is selected where the module behind it changed."""
    homes = quick.homes_of_doors()
    home = homes["swapbias.studies", "load_study"]
    selected = quick.tests_of([home.replace(".", "/") + ".py"])
    importing = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if ("swapbias.studies", "load_study") in set(quick.imported_names(path))
    ]
    assert importing
    assert set(importing) <= set(selected)


def test_no_time(pytester_folder, capfd):
    """No test starts once the time is over, and the report counts those left out."""
    budget = quick.Budget(0)
    code = pytest.main([str(pytester_folder), "-p", "no:cacheprovider"], plugins=[budget])
    assert code == pytest.ExitCode.OK
    assert (budget.collected, budget.run) == (1, 0)
    assert quick.Budget(60).pytest_runtest_protocol(None) is None


@pytest.fixture
def pytester_folder(tmp_path):
    """A folder of one test, which fails if it runs."""
    (tmp_path / "test_file.py").write_text("def test_it():\n    assert False\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path
