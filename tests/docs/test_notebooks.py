"""The notebooks run, and what is stored in them is what they show.

``SWAPBIAS_STORE_NOTEBOOKS=1`` stores the outputs of this execution instead.
"""

import os
import re

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(one.stem for one in FOLDER.glob("*.ipynb"))
# Jupyter's clients warn of their own insides.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def test_three_notebooks():
    """There are three notebooks."""
    assert NOTEBOOKS == ["clinical", "first_audit", "own_question"]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """All notebooks, executed in one process that forgets each: libraries load once."""
    nbclient = pytest.importorskip(
        "nbclient", reason="needs nbclient and ipykernel, of the extra dev"
    )
    import nbformat

    notebooks = {name: nbformat.read(FOLDER / f"{name}.ipynb", as_version=4) for name in NOTEBOOKS}
    cells = [
        cell
        for notebook in notebooks.values()
        for cell in (nbformat.v4.new_code_cell("%reset -f"), *notebook.cells)
    ]
    whole = nbformat.v4.new_notebook(cells=cells, metadata=notebooks["clinical"].metadata)
    resources = {"metadata": {"path": str(tmp_path_factory.mktemp("notebooks"))}}
    before = {name: [shown_outputs(cell) for cell in one.cells] for name, one in notebooks.items()}
    nbclient.NotebookClient(whole, timeout=300, resources=resources).execute()
    for name, one in notebooks.items():
        for count, cell in enumerate(
            (code_cell for code_cell in one.cells if code_cell.cell_type == "code"), start=1
        ):
            cell.execution_count = count
            cell.metadata = {}
            cell.outputs = [
                one for one in cell.outputs if one.get("name") != "stderr"
            ]  # warnings of this machine
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = count
        if os.environ.get("SWAPBIAS_STORE_NOTEBOOKS"):
            nbformat.write(one, FOLDER / f"{name}.ipynb")
    return before, {
        name: [shown_outputs(cell) for cell in one.cells] for name, one in notebooks.items()
    }


def shown_outputs(cell):
    """The text that a cell shows, pictures left out, numbers as printed."""
    texts = [
        output.get("data", {}).get("text/plain", output.get("text", ""))
        for output in cell.get("outputs", ())
    ]
    return [re.sub(r"\s+", " ", text) for text in texts]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_stored_outputs(executed, name):
    """The outputs stored in a notebook are those that it produces."""
    before, after = executed
    assert any(after[name])
    if not os.environ.get("SWAPBIAS_STORE_NOTEBOOKS"):
        assert before[name] == after[name]
