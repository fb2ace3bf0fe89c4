"""Shared fixtures: everything offline, every cache in a folder of this session."""

import gc
import os
import tempfile
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
COLLECT_AFTER = (
    100_000  # as of the command line, which sets it in this process with the first command
)
QUIET = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}


def files_below(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


class ExampleFinder:
    """Looks for examples in files that have any: to import and walk over all others takes long."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path):
        collectors = yield
        has_examples = file_path.suffix == ".py" and b">>>" in file_path.read_bytes()
        return [
            collector
            for collector in collectors
            if has_examples or not isinstance(collector, DoctestModule)
        ]


def pytest_configure(config):
    config.pluginmanager.register(ExampleFinder())
    # Set before transformers and datasets are imported, and inherited by subprocesses.
    # Not below .pytest_cache: evaluate takes a path apart at ".py".
    # One commit, one verdict: the same examples each time. SWAPBIAS_SEARCH=N looks for new ones, N times as many.
    settings.register_profile("repeated", derandomize=True)
    settings.register_profile("search", derandomize=False, print_blob=True)
    settings.load_profile("search" if "SWAPBIAS_SEARCH" in os.environ else "repeated")
    base = Path(tempfile.gettempdir()) / f"swapbias-tests-{os.getuid()}"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HOME"] = str(base / "hf")
    os.environ["SWAPBIAS_CACHE"] = str(base / "cache")
    os.environ["SWAPBIAS_CACHE_LIMIT"] = "0"  # no scores kept from one test to the next
    os.environ.setdefault("SWAPBIAS_UPSTREAM", str(_beside("upstream")))
    # Sums of several threads differ in their last digits, and workers would fight for the cores: one thread each,
    # with xdist or without it, whatever the machine and its environment.
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["MKL_NUM_THREADS"] = "1"


def pytest_collection_modifyitems(items):
    times = int(os.environ.get("SWAPBIAS_SEARCH", "1"))
    for item in items if times > 1 else ():
        if chosen := getattr(item.obj, "_hypothesis_internal_use_settings", None):
            chosen = settings(
                chosen, max_examples=times * chosen.max_examples, derandomize=False, deadline=None
            )
            item.obj._hypothesis_internal_use_settings = chosen


def pytest_collection_finish():
    """Leave what all imports made, which stays, out of the collector's rounds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


@pytest.fixture(autouse=True)
def settings_left_alone():
    """Fail a test that leaves a setting of ours, or of the clients that we use, to the tests after it."""
    before = settings_of_process()
    yield
    after = settings_of_process()
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    assert not changed, f"This test leaves {', '.join(changed)} changed for the tests after it."


def settings_of_process():
    """The environment's variables of ours and of the clients, and the constants of the Hub's client, by name."""
    from huggingface_hub import constants

    in_client = {f"constants.{name}": value for name, value in vars(constants).items()}
    # Of other libraries' variables some are set by the import of a library, for good.
    ours = ("SWAPBIAS_", "HF_", "HUGGING", "TRANSFORMERS_", "OPENAI_", "NO_PROXY", "HTTP")
    set_by_lm_eval = "HF_XET_HIGH_PERFORMANCE"
    return in_client | {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith(ours) and name != set_by_lm_eval
    }


def _beside(name):
    return ROOT.parent / "shared" / name


def _folder(variable, name, files):
    folder = Path(os.environ.get(variable, _beside(name)))
    if not folder.is_dir():
        pytest.skip(f"needs {files}: set {variable} to the folder")
    return folder


@pytest.fixture
def audits():
    """Skip where the libraries of audits are missing, as on other interpreters and beside the oldest libraries."""
    pytest.importorskip("torch", reason="needs the extra models")


@pytest.fixture(scope="session")
def upstream():
    return _folder("SWAPBIAS_UPSTREAM", "upstream", "the authors' released outputs")


@pytest.fixture
def real_masked_model():
    return _folder("SWAPBIAS_TEST_MODEL", "models/mini-mlm", "a masked language model")


@pytest.fixture(scope="session")
def clinical():
    return _folder("SWAPBIAS_TEST_CLINICAL", "clinical", "medical reports")


@pytest.fixture(scope="session")
def calibration():
    """The calibration model (trained once per session, some seconds)."""
    from swapbias.models.calibration import load_calibration

    return load_calibration()


@pytest.fixture(scope="session")
def quiet():
    return dict(QUIET)
