"""Runs in the format of Every Eval Ever, checked by its released schema (every-eval-ever 0.3.0, MIT)."""

import json
import math
import re
from pathlib import Path

import jsonschema
import pytest

from swapbias.errors import UsageError
from swapbias.hub.every_eval_ever import SCHEMA_VERSION, export_run
from swapbias.studies import load_corpus
from tests.hub.clients import command
from tests.hub.shared_runs import GAP, MANIFEST, RQ1, UNDEFINED, finding, run_files

SCHEMA = json.loads((Path(__file__).parent / "every_eval_ever/eval.schema.json").read_text())
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
NAME = "alice/audits/one"


def exported(hub, tmp_path, *findings, **changed):
    """The files of a run on the Hub by path, each valid."""
    files = run_files("one", findings or (GAP,), **changed)
    hub.add_repo("dataset", "alice/audits", files=files)
    done = export_run(NAME, tmp_path / "out")
    logs = {}
    for path in done.files:
        log = json.loads(path.read_text())
        jsonschema.Draft7Validator(SCHEMA).validate(log)
        logs[path.relative_to(tmp_path / "out").as_posix()] = log
    return logs, done.left_out


def scores(log):
    return [result["score_details"]["score"] for result in log["evaluation_results"]]


def test_run_in_the_schema(hub, tmp_path):
    """A run is a file by study and model in the place of the shared repository, valid by the released schema."""
    logs, left_out = exported(hub, tmp_path, finding(0.25, 0.125, 0.375))
    ((path, log),) = logs.items()
    assert re.fullmatch(rf"data/swapbias_gendered_stigma/lab/small/{UUID}\.json", path)
    assert SCHEMA["version"] == log["schema_version"] == SCHEMA_VERSION
    assert (
        log["evaluation_id"] == "swapbias_gendered_stigma/lab_small/1795214975"
    )  # 2026-11-20 22:49:35
    assert log["model_info"]["id"] == "lab/small"
    assert left_out == 0
    (result,) = log["evaluation_results"]
    score = result["score_details"]
    assert score["score"] == 0.75  # 1 - 0.25
    interval = score["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == (0.625, 0.875)  # 1 - 0.375, 1 - 0.125
    assert score["uncertainty"]["num_samples"] == 187
    assert (score["details"]["value"], score["details"]["interval"]) == ("0.25", "0.125 to 0.375")
    assert not result["metric_config"]["lower_is_better"]
    assert result["source_data"]["hf_repo"] == "swapbias/gendered_stigma"
    command = result["generation_config"]["generation_args"]["execution_command"]
    assert command.startswith("swapbias audit lab/small")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-0.1, 0.3, (0.7, 1.0)), (-0.4, -0.1, (0.6, 0.9)), (-1.5, 0.0, (0.0, 1.0))],
    ids=["around zero", "below zero", "beyond the range"],
)
def test_interval_of_a_score(hub, tmp_path, low, high, expected):
    """The interval of a score holds the scores of all values in the interval: 1 where no difference is in it."""
    logs, _ = exported(hub, tmp_path, finding((low + min(high, 0.3)) / 2, low, high))
    (log,) = logs.values()
    interval = log["evaluation_results"][0]["score_details"]["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == pytest.approx(expected)


def test_numbers_without_a_score(hub, tmp_path):
    """What was not measured, or has no range, is left out and counted; without any number it is one sentence."""
    odd = finding(0.3, 0.2, 0.4, experiment="rq2", unit="score of a rule")
    logs, left_out = exported(hub, tmp_path, finding(0.25), UNDEFINED, odd)
    (log,) = logs.values()
    assert scores(log) == [0.75]
    assert left_out == 2
    assert "confidence_interval" not in log["evaluation_results"][0]["score_details"]["uncertainty"]
    hub.add_repo("dataset", "alice/none", files=run_files("one", [finding(math.nan)]))
    with pytest.raises(UsageError, match="no comparison with a score from 0 to 1"):
        export_run("alice/none", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_file_of_each_model(hub, tmp_path):
    """Several models are several files; settings of a chat and hostile names stay data."""
    chat = {"model_id": "../x y", "host": "h", "temperature": 0.7, "max_tokens": 16, "trials": 3}
    models = [*MANIFEST["models"], chat]
    logs, _ = exported(hub, tmp_path, GAP, finding(0.1, model_id="../x y"), models=models)
    small, first = sorted(logs)
    assert "/lab/small/" in small
    assert re.fullmatch(rf"data/swapbias_gendered_stigma/unknown/x_y/{UUID}\.json", first)
    arguments = logs[first]["evaluation_results"][0]["generation_config"]["generation_args"]
    assert (arguments["temperature"], arguments["max_tokens"]) == (0.7, 16)
    details = logs[first]["model_info"]["additional_details"]
    assert details["deployment_type"] == "externally_managed"


@pytest.mark.parametrize(
    ("changed", "limit", "expected"),
    [
        ({}, None, ("hf_dataset", {"config": "rq1"})),
        ({}, 20, ("hf_dataset", {"config": "rq1", "prompts": "at most 20 rows of each table"})),
        (
            {"adjectives_sha256": "1" * 64},
            None,
            ("other", {"config": "rq1", "prompts": "with adjectives of the evaluator"}),
        ),
    ],
    ids=["other version", "part of the rows", "own adjectives"],
)
def test_prompts_of_an_export(hub, tmp_path, changed, limit, expected):
    """A file names a version only where the rows are those of it, and says which rows were read where not all."""
    logs, _ = exported(
        hub,
        tmp_path,
        corpora=[{**RQ1, **changed}],
        settings={**MANIFEST["settings"], "limit": limit},
    )
    (log,) = logs.values()
    source = log["evaluation_results"][0]["source_data"]
    assert (source["source_type"], source["additional_details"]) == expected
    assert ("hf_repo" in source) == (source["source_type"] == "hf_dataset")


def test_export_of_a_run(run, tmp_path, capsys):
    """The command exports a run of this machine; the same run gives the same files, in a new folder only."""
    out = tmp_path / "out"
    assert command("export", "every-eval-ever", run.folder, "--out", out) == 0
    assert "Exported: 1 files in" in capsys.readouterr().out
    (path,) = out.rglob("*.json")
    log = json.loads(path.read_text())
    jsonschema.Draft7Validator(SCHEMA).validate(log)
    details = log["evaluation_results"][0]["source_data"]["additional_details"]
    assert details["corpus_version"] == load_corpus("occupation_sentiment").version
    assert str(tmp_path) not in path.read_text()
    assert command("export", "every-eval-ever", run.folder, "--out", out) == 2
    (again,) = export_run(run.folder, tmp_path / "again").files
    assert again.read_bytes() == path.read_bytes()
    assert again.name == path.name
