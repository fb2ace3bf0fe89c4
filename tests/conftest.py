"""Shared fixtures: everything offline, every cache in a folder of this session."""

import os
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config):
    # Set before transformers and datasets are imported, and inherited by subprocesses.
    # Not below .pytest_cache: evaluate takes a path apart at ".py".
    base = Path(tempfile.gettempdir()) / f"swapbias-tests-{os.getuid()}"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HOME"] = str(base / "hf")
    os.environ["SWAPBIAS_CACHE"] = str(base / "cache")
    os.environ["SWAPBIAS_CACHE_LIMIT"] = "0"  # no scores kept from one test to the next
    os.environ.setdefault("SWAPBIAS_UPSTREAM", str(_beside("upstream")))
    if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):  # so that they do not fight for the cores
        os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // workers))


def _beside(name):
    return ROOT.parent / "shared" / name


@pytest.fixture
def upstream():
    """The folder of released outputs."""
    folder = Path(os.environ["SWAPBIAS_UPSTREAM"])
    if not folder.is_dir():
        pytest.skip("needs the authors' released outputs: set SWAPBIAS_UPSTREAM to a folder that holds them")
    return folder


@pytest.fixture
def real_masked_model():
    """A real small masked language model."""
    folder = Path(os.environ.get("SWAPBIAS_TEST_MODEL", _beside("models/mini-mlm")))
    if not folder.is_dir():
        pytest.skip("needs a masked language model: set SWAPBIAS_TEST_MODEL to its folder")
    return folder


@pytest.fixture(scope="session")
def clinical():
    """A folder of real, public, transcribed medical reports."""
    folder = Path(os.environ.get("SWAPBIAS_TEST_CLINICAL", _beside("clinical")))
    if not folder.is_dir():
        pytest.skip("needs medical reports: set SWAPBIAS_TEST_CLINICAL to their folder")
    return folder


@pytest.fixture(scope="session")
def calibration():
    """The calibration model (trained once per session, some seconds)."""
    from swapbias.scorers.calibration import load_calibration

    return load_calibration()


@pytest.fixture
def quiet():
    """Arguments of an audit that shows nothing."""
    return {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
