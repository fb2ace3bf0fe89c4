"""Runs that are packed to be shared, and what lies in a bundle."""

import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from swapbias.models.clinical import NoteOptions
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings, fingerprints, plan_tasks
from swapbias.runs.run import Run
from tests.conftest import QUIET

ASKED = Settings(model="tests.hub.own_runs:sentiment", studies=("occupation_sentiment:sentences",), limit=40)
OWN = (
    "text,label,gender,phenotype\nAfter falls he was tired in Zebulon.,1,M,falls\n"
    "She is well in Zebulon.,0,F,falls\nHe met Quillfeather and falls.,1,M,falls\nShe met Quillfeather.,0,F,falls\n"
)


def sentiment(texts):
    return [0.6 - 0.1 * text.startswith(("She", "The woman", "My mother")) for text in texts]


def faller(texts):
    return [0.9 if "falls" in text and " he " in f" {text.lower()} " else 0.2 for text in texts]


def audit_own(data, folder):
    notes = NoteOptions(classifier="tests.hub.own_runs:faller", data=str(data))
    return start(Settings(studies=("phenotype_fairness",), options=(notes,)), folder, **QUIET)[0]


def copy(run, folder):
    return Run(shutil.copytree(run.folder, folder))


def edited(run, folder, **changes):
    run = copy(run, folder)
    run.write_manifest(run.manifest() | changes)
    return run


def limited(run, folder, limit):
    settings = run.manifest()["settings"] | {"limit": limit}
    tasks, _ = plan_tasks(Settings.from_manifest(settings), kind="classifier")
    run = edited(run, folder, settings=settings, corpora=fingerprints(tasks))
    asked = [row["prompt_id"] for task in tasks for row in task.rows]
    for path in (folder / "items").glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.filter(pc.is_in(rows["prompt_id"], pa.array(asked))), path)
    run.write_manifest(run.manifest() | {"sha256": run.sums()})
    return run


def content(bundle, path):
    found = bundle.files[f"runs/{bundle.name}/{path}"]
    return found if isinstance(found, bytes) else found.read_bytes()


def texts(bundle):
    """Everything readable in a bundle: bytes, and the strings within Parquet."""
    for path in bundle.files:
        data = content(bundle, path.split("/", 2)[2])
        yield data.decode(errors="replace")
        if path.endswith(".parquet"):
            yield str(pq.read_table(pa.BufferReader(data)).to_pylist())
