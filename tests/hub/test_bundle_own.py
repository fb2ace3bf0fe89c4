"""Of an audit of the user's own notes leave numbers and the names that the user lets go, and no word of a note."""

import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.hub.shared_runs import bundle_run
from tests.hub.own_runs import OWN, audit_own, content, edited, texts

SECRETS = ("Zebulon", "Quillfeather")  # words of the user's own notes


def test_findings_of_own_notes_leave_without_a_word_of_them(own_run, own_bundle):
    bundle = own_bundle
    assert any(SECRETS[0] in text for text in read(own_run))  # the run does hold them
    whole = "\n".join(texts(bundle))
    assert not [word for word in (*SECRETS, "After falls", str(own_run.folder.parent)) if word in whole]
    names = {path.split("/", 2)[2] for path in bundle.files}
    fixed = {"findings.csv", "findings.parquet", "results.json", "manifest.json", "report.html"}
    assert {name for name in names if not name.startswith("figures/")} == fixed
    assert not [name for name in names if "explained" in name]
    assert "items/phenotype_fairness.parquet" in bundle.withheld
    assert bundle.found != []
    assert not [path for path in bundle.files if "/items/" in path]
    assert "falls" in content(bundle, "findings.csv").decode()  # the phenotype's name
    assert bundle.manifest["settings"]["notes"]["data"] == "own notes"
    assert "ward.csv" not in whole


def read(run):
    path = run.folder / "items" / "phenotype_fairness.parquet"
    return pq.read_table(path)["text"].to_pylist()


def test_phenotypes_of_ones_own_leave_only_where_they_are_named(own_run):
    with pytest.raises(UsageError, match=r"^1 phenotype of your own notes would.*--phenotype NAME") as error:
        bundle_run(own_run, findings_only=True)
    assert "falls" not in str(error.value)
    with pytest.raises(UsageError, match=r"^1 phenotype "):
        bundle_run(own_run, findings_only=True, phenotypes=("fall", "fallsx"))
    assert bundle_run(own_run, findings_only=True, phenotypes=("other", "falls")).found != []


@pytest.mark.filterwarnings("ignore:constrained_layout", "ignore:Glyph")  # of so odd a name
@pytest.mark.parametrize("cell", ["John Smith DOB 1/2/1950, MRN 12345", "John Smith\nMRN 12345", "Smith " * 500])
def test_a_cell_that_holds_anything_stays_and_is_not_told(tmp_path, cell):
    (tmp_path / "ward.csv").write_text(OWN.replace(",falls\n", f',"{cell}"\n') + "She sleeps.,0,F,delirium\n")
    run = audit_own(tmp_path / "ward.csv", tmp_path / "run")
    with pytest.raises(UsageError, match=r"^2 phenotypes of your own notes") as error:
        bundle_run(run, findings_only=True)
    assert "Smith" not in str(error.value)
    with pytest.raises(UsageError, match=r"^1 phenotype of"):
        bundle_run(run, findings_only=True, phenotypes=("delirium",))
    if "\n" in cell:
        with pytest.raises(UsageError, match="holds line breaks"):
            bundle_run(run, findings_only=True, phenotypes=("delirium", cell))


def test_a_phenotype_that_no_classifier_could_be_trained_for_is_one_too(own_run, tmp_path):
    skipped = [{"study": "phenotype_fairness", "experiment": "phenotyping, Smith", "reason": "0 training notes"}]
    with pytest.raises(UsageError, match=r"^1 phenotype of"):
        bundle_run(edited(own_run, tmp_path / "run", skipped=skipped), findings_only=True, phenotypes=("falls",))


def test_the_studies_own_phenotypes_and_none_need_no_leave(tmp_path):
    (tmp_path / "ward.csv").write_text(OWN.replace(",falls\n", ",depression\n", 2).replace(",falls\n", ",\n"))
    assert bundle_run(audit_own(tmp_path / "ward.csv", tmp_path / "run"), findings_only=True).found != []
