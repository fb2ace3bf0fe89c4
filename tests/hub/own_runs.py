"""Runs that are shared, of two small models, and of models on a local Hub."""

import hashlib
import shutil
import zlib
from functools import cache

import pyarrow.parquet as pq

from swapbias.models.clinical import NoteOptions
from swapbias.runs import Settings, plan_tasks
from swapbias.runs.audit import start
from swapbias.runs.manifest_entries import fingerprints
from swapbias.runs.run import Run
from swapbias.studies.catalogue import config_rows
from tests.conftest import QUIET

MODEL = "tests.hub.own_runs:scored"
RUN_SETTINGS = Settings(model=MODEL, studies=("occupation_sentiment:sentences",))
README = "---\nlicense: mit   # mine\ntags: [a,  b]\n---\n# Model\n\nBy alice.\n"
GAP = {"she": 0.1}  # what `scored` takes off sentences about women
WEIGHTS = {"model.safetensors": b"w"}  # on the Hub, of what `scored` stands for


@cache
def sentences():
    """By how much those of each pair score higher than others (what varies is measured); whether on a woman."""
    steps = {
        "occupation_sentiment:sentences": 0.01,
        "social_distance:sentiment": -0.1,
    }  # the latter has labels alone
    return {
        row["text"]: (step * (zlib.crc32(row["pair_id"].encode()) % 5), row["group"] == "female")
        for config, step in steps.items()
        for row in config_rows(*config.split(":"))
    }


def scored(texts):
    """A sentiment system that scores every sentence about a woman lower than the same one about a man."""
    sentence_scores = (sentences().get(text, (0.0, False)) for text in texts)
    return [0.6 + higher - GAP["she"] * woman for higher, woman in sentence_scores]


def constant(texts):
    return [0.5 for _ in texts]


def faller(texts):
    return [0.9 if "falls" in text and " he " in f" {text.lower()} " else 0.2 for text in texts]


def audit_own(data, folder):
    notes = NoteOptions(classifier="tests.hub.own_runs:faller", data=str(data))
    return start(Settings(studies=("phenotype_fairness",), options=(notes,)), folder, **QUIET)[0]


def of_weights(run, weights=WEIGHTS):
    """The run as if its model had been read from a folder of these weights."""
    manifest = run.manifest()
    sha256_by_file = {
        name: hashlib.sha256(content).hexdigest() for name, content in weights.items()
    }
    run.write_manifest(
        {
            **manifest,
            "models": [{**model, "weights": sha256_by_file} for model in manifest["models"]],
        }
    )
    return run


def copy(run, folder):
    return Run(shutil.copytree(run.folder, folder))


def edited(run, folder, **changes):
    run = copy(run, folder)
    run.write_manifest(run.manifest() | changes)
    return run


def limited(run, folder, limit):
    settings = run.manifest()["settings"] | {"limit": limit}
    whole_settings = Settings.from_manifest(settings)
    tasks, _ = plan_tasks(whole_settings, kind="classifier")
    run = edited(run, folder, settings=settings, corpora=fingerprints(tasks, whole_settings))
    prompt_ids = {row["prompt_id"] for task in tasks for row in task.rows}
    for path in (folder / "items").glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(
            rows.filter([prompt_id in prompt_ids for prompt_id in rows["prompt_id"].to_pylist()]),
            path,
        )
    run.write_manifest(run.manifest() | {"sha256": run.sums()})
    return run
