"""A run in the forms of others: their schema holds, their tools read it, and private texts stay."""

import json
import shutil
from pathlib import Path

import jsonschema
import pandas as pd
import pytest
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from swapbias.errors import UsageError
from swapbias.findings import oriented
from swapbias.privacy import is_credentialed
from swapbias.runs import Run, export_run

SCHEMA = Path(__file__).parent / "every_eval_ever/eval.schema.json"  # of version 0.3.0, as EvalEval publishes it
FORMS = ["csv", "every-eval-ever"]


def planted(texts):
    """Women .3 lower, and a little more of less with the noun: enough spread for an interval."""
    return [0.8 - (0.3 + len(text) / 1000) * text.startswith(("She", "This woman", "This girl")) for text in texts]


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "run"
    return swapbias.audit(planted, "occupation_sentiment:control", name="=lab/tilted:1", out=folder, progress=False)


@pytest.fixture
def run(audit, tmp_path):
    """A copy to be edited."""
    return Run(Path(shutil.copytree(audit.run.folder, tmp_path / "run")))


def primary(audit):
    (one,) = [one for one in audit.found if one.primary]
    return one


def test_results_hold_to_the_schema(audit, tmp_path):
    (results,) = audit.export("every-eval-ever", tmp_path / "out", by="A lab")
    record = json.loads(results.read_text())
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(record)
    assert results.parent.as_posix().endswith("data/swapbias_occupation_sentiment/=lab/tilted_1")
    keys = [one["evaluation_result_id"] for one in record["evaluation_results"]]
    assert len(set(keys)) == len(keys)
    assert record["source_metadata"]["source_organization_name"] == "A lab"


def test_a_result_is_oriented_and_has_its_raw_number_and_interval_beside_it(audit, tmp_path):
    (results,) = audit.export("every-eval-ever", tmp_path / "out")
    found = primary(audit)
    made = [
        one
        for one in json.loads(results.read_text())["evaluation_results"]
        if one["score_details"]["details"]["primary"] == "True"
    ]
    score, number = made[0]["score_details"], oriented(found)
    assert len(made) == 1
    assert score["score"] == number.value
    assert score["score"] == pytest.approx(1 + found.estimate.value)  # a gap of -.3 is .7
    assert float(score["details"]["value"]) == found.estimate.value
    interval = score["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == (number.low, number.high)
    assert not made[0]["metric_config"]["lower_is_better"]


def test_tables_hold_every_finding_and_every_item_and_no_formula(audit, tmp_path):
    findings, items = audit.export("csv", tmp_path / "out")
    read = pd.read_csv(findings)
    assert read["value"].tolist() == pytest.approx(audit.findings["value"].tolist(), abs=0, nan_ok=True)
    assert set(read["model_id"]) == {"'=lab/tilted:1"}
    rows, mine = pd.read_csv(items), audit.items("occupation_sentiment")
    assert (rows["prompt_id"].tolist(), rows["score"].tolist()) == (
        mine["prompt_id"].tolist(),
        mine["score"].tolist(),
    )
    assert set(rows["study"]) == {"occupation_sentiment"}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_run_gives_the_same_bytes(audit, tmp_path, form):
    first, second = (audit.export(form, tmp_path / name) for name in ("first", "second"))
    assert [path.relative_to(tmp_path / "first") for path in first] == [
        path.relative_to(tmp_path / "second") for path in second
    ]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def rewrite(run, rows):
    """Other scored rows, as an audit that wrote them would have left them."""
    run.write_parquet("items/occupation_sentiment.parquet", rows)
    run.write_manifest(run.manifest() | {"sha256": run.sums()})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("why", ["manifest", "row", "mark", "own notes"])
def test_scored_prompts_of_private_notes_never_leave(run, tmp_path, form, why):
    rows = run.items("occupation_sentiment")
    rewrite(run, rows.assign(text="Zebulon is well."))
    manifest = run.manifest()
    if why == "manifest":
        run.write_manifest(manifest | {"credentialed": True})
    elif why == "row":
        rows = rows.assign(text="Zebulon is well.", credentialed=["True"] + ["False"] * (len(rows) - 1))
        rewrite(run, rows)
    elif why == "mark":
        (tmp_path / "CREDENTIALED").touch()
    else:
        notes = {**manifest["settings"]["notes"], "data": "own notes"}
        run.write_manifest(manifest | {"settings": {**manifest["settings"], "notes": notes}})
    said = []
    written = export_run(run, form, tmp_path / "out", say=said.append)
    assert len(written) == 1
    assert "Zebulon" not in written[0].read_text()
    assert "Scored prompts are left out" in said[0]
    assert (tmp_path / "out" / "CREDENTIALED").exists() == (why != "own notes")


def test_nothing_is_written_over_and_other_forms_are_named(run, tmp_path):
    with pytest.raises(UsageError, match="is not empty"):
        export_run(run, "csv", run.folder)
    with pytest.raises(UsageError, match=r"Unknown form 'every-eval'.*Did you mean every-eval-ever\?"):
        export_run(run, "every-eval", tmp_path / "out")
    run.write_manifest(run.manifest() | {"status": "running"})
    with pytest.raises(UsageError, match="is not complete"):
        export_run(run, "csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_says_where_it_wrote(audit, tmp_path):
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["export", str(audit.run.folder), "--to", "csv", "--out", str(out)])
    assert (done.exit_code, f"Exported: 2 files in {out}" in " ".join(done.output.split())) == (0, True)
    assert not is_credentialed(out)
