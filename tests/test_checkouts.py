"""Each checkout uses its own tables, builders and metrics; tests have one thread."""

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


def imported_places(folder):
    return json.loads(
        subprocess.check_output([sys.executable, "-c", PLACES], cwd=folder, text=True)
    )


def test_checkout_of_the_package_wins(checkout):
    """Files beside the imported package are used, not those of another checkout."""
    places = imported_places(checkout)
    title = places.pop("title")
    assert title.startswith("Edited: ")
    assert [place for place in places.values() if not place.startswith(str(checkout))] == []


def test_this_checkout_uses_its_files(checkout):
    """This checkout uses the files that lie in it."""
    places = imported_places(ROOT)
    assert not places.pop("title").startswith("Edited: ")
    assert [place for place in places.values() if not place.startswith(str(ROOT))] == []


def test_installed_package_uses_its_files(checkout):
    """A package without folders beside it, as a wheel installs it, uses the files inside it."""
    for folder in ("builders", "metrics", "datasets_src"):
        (checkout / folder).rename(checkout / "swapbias" / folder)
    places = imported_places(checkout)
    assert places.pop("title").startswith("Edited: ")
    assert [
        place for place in places.values() if not place.startswith(str(checkout / "swapbias"))
    ] == []


def test_tests_have_one_thread():
    """Tests have one thread each, so that a verdict hangs neither on the number of cores nor on
    xdist."""
    assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
