"""Small runs as files of a repository of results, and on disk."""

import json
import math
from dataclasses import replace

import pandas as pd

from swapbias.files import as_json
from swapbias.findings import findings_table
from swapbias.findings.finding import Finding
from swapbias.measures.estimate import Estimate
from swapbias.runs import run as runs
from swapbias.studies.catalogue import config_rows
from swapbias.studies.published import Published
from tests.baselines import RuleScorer
from tests.scoring import score_rows

GAP = Finding(
    study="gendered_stigma",
    experiment="rq1",
    model_id="lab/small",
    score="score",
    measure="paired_gap",
    contrast="female - male",
    subset="mental_health",
    slice_by="all",
    slice_value="",
    unit="probability mass at the mask",
    cluster_vars="templates + diagnoses",
    primary=True,
    estimate=Estimate(
        0.25, 0.125, 0.375, 1.5, 0.75, 0.03125, 187, 2, "paired t", "paired t", 0.0625, "2 tests"
    ),
    published=Published(value="0.30", source="Table 2"),
)


def finding(value, low=math.nan, high=math.nan, *, n=187, n_unscored=3, **changed):
    """``GAP`` of another value, which no paper printed."""
    estimate = Estimate(value, low, high, n=n, n_unscored=n_unscored, test="paired t")
    return replace(GAP, estimate=estimate, published=None, **changed)


UNDEFINED = replace(
    GAP, subset="other_health", estimate=Estimate(math.nan, n=0, test="none"), published=None
)
RQ1 = {
    "corpus": "gendered_stigma", "config": "rq1", "rows": 1122, "sha256": "6a" * 32,
    "lexicons": {"gendered_stigma/rq1": "11" * 32},
}  # fmt: skip
MANIFEST = {
    "swapbias": "0.1.0", "status": "complete", "started": "2026-11-20T22:49:34+00:00",
    "versions": {"python": "3.11.7"},
    "settings": {"model": "lab/small", "limit": None, "chat": {"trials": 5, "temperature": 1.0}}, "corpora": [RQ1],
    "skipped": [], "credentialed": False,
    "models": [{"model_id": "lab/small", "kind": "masked", "dtype": "float32"}],
    "finished": "2026-11-20T22:49:35+00:00",
}  # fmt: skip


def results(findings):
    return written({"swapbias": "0.1.0", "findings": findings_table(findings).to_dict("records")})


def written(content):
    return (
        json.dumps(as_json(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    ).encode()


def run_files(name, found=(GAP, UNDEFINED), **changed):
    return {
        f"runs/{name}/manifest.json": written({**MANIFEST, **changed}),
        f"runs/{name}/results.json": results(found),
    }


def on_disk(folder, model="lab/small", higher=0.0, **changed):
    """A finished run in a folder, with the scored rows of a model that scores women higher."""
    run = runs.Run(folder)
    findings = [replace(finding, model_id=model) for finding in (GAP, UNDEFINED)]
    for path, content in run_files("x", findings, **changed).items():
        run.write(path.removeprefix("runs/x/"), content)
    scorer = RuleScorer(lambda prompt: 0.5 + higher * (prompt.group == "female"), model_id=model)
    scored = pd.DataFrame(score_rows(config_rows("gendered_stigma", "rq1"), scorer))
    run.write_parquet("items/gendered_stigma.parquet", scored.drop(columns="candidates"))
    return folder
