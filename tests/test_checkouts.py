"""Where tests and checkouts run: each checkout brings its own tables, builders and metrics; tests have one thread."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PLACES = """
import json, sys
import swapbias, swapbias.builders.gest, swapbias.studies as studies
print(json.dumps({
    "package": swapbias.__file__,
    "builders": swapbias.builders.gest.__file__,
    "tables": str(studies.corpus_dir("gest")),
    "metrics": swapbias.metric_path("paired_gap"),
    "title": studies.load_corpus("gest").title,
}))
"""


@pytest.fixture
def checkout(tmp_path):
    """Another checkout, whose tables differ; this one is installed in the environment."""
    skipped = shutil.ignore_patterns("__pycache__")
    for folder in ("swapbias", "builders", "metrics", "datasets_src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=skipped)
    table = tmp_path / "datasets_src" / "gest" / "corpus.toml"
    table.write_text(table.read_text().replace('title = "', 'title = "Edited: '))
    return tmp_path


def told(folder):
    return json.loads(
        subprocess.check_output([sys.executable, "-c", PLACES], cwd=folder, text=True)
    )


def test_what_lies_beside_the_imported_package_wins(checkout):
    places = told(checkout)
    title = places.pop("title")
    assert title.startswith("Edited: ")
    assert [place for place in places.values() if not place.startswith(str(checkout))] == []


def test_this_checkout_has_its_own(checkout):
    places = told(ROOT)
    assert not places.pop("title").startswith("Edited: ")
    assert [place for place in places.values() if not place.startswith(str(ROOT))] == []


def test_a_package_without_folders_beside_it_looks_in_itself(checkout):
    """As a wheel is installed."""
    for folder in ("builders", "metrics", "datasets_src"):
        (checkout / folder).rename(checkout / "swapbias" / folder)
    places = told(checkout)
    assert places.pop("title").startswith("Edited: ")
    assert [
        place for place in places.values() if not place.startswith(str(checkout / "swapbias"))
    ] == []


def test_tests_have_one_thread_each_however_they_are_run():
    """So that a verdict hangs neither on the number of cores nor on xdist."""
    assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
