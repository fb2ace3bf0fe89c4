"""Score the prompts of an experiment on the machines of a Ray cluster with Ray Data, and print its gaps.

    python examples/ray_data.py MODEL --study gendered_stigma:rq1 --address HEAD:6379 --workers 8 --gpus 1

MODEL is a Hub id, or a folder that every machine sees under the same path. Each worker loads it once. A part is some
pairs, whole, so that the texts of a pair are compared. Where a worker dies, Ray gives its part to another one.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import ray
from datasets import Dataset

import swapbias
from swapbias.models import kind_of
from swapbias.studies import load_study


class Scorer:
    """A worker: reads parts with a model that it loads once."""

    def __init__(self, model: str, kind: str, reading: str) -> None:
        self.scorer = kind_of(kind).read_as(swapbias.load_scorer(model, kind=kind), reading)

    def __call__(self, part: dict[str, Any]) -> dict[str, Any]:
        rows = [row for rows in part["rows"] for row in json.loads(rows)]
        scored = swapbias.score_prompts(Dataset.from_list(rows), self.scorer)
        return {"rows": [json.dumps(row) for row in scored.to_list()]}


def parts_of(rows: list[dict[str, Any]], size: int) -> Iterator[dict[str, str]]:
    """Yield parts of at least so many rows, each of whole pairs."""
    pairs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        pairs.setdefault(row["pair_id"], []).append(row)
    part: list[dict[str, Any]] = []
    for pair in pairs.values():
        part += pair
        if len(part) >= size:
            yield {"rows": json.dumps(part)}
            part = []
    if part:
        yield {"rows": json.dumps(part)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a Hub id, or a folder that every machine sees")
    parser.add_argument("--study", required=True, help="STUDY:EXPERIMENT of a model that runs here")
    parser.add_argument("--address", help="the cluster as HEAD:6379; by default this machine")
    parser.add_argument("--workers", type=int, default=2, help="copies of the model")
    parser.add_argument("--cpus", type=float, default=1, help="cores of each")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of each")
    parser.add_argument("--rows", type=int, default=256, help="rows of a part")
    settings = parser.parse_args()

    name, _, experiment_name = settings.study.partition(":")
    experiments = {experiment.name: experiment for experiment in load_study(name).experiments}
    experiment = experiments[experiment_name]
    rows = []
    for config in experiment.reads.configs:
        rows += swapbias.load_prompts(name, config).to_list()

    ray.init(settings.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    parts = ray.data.from_items([*parts_of(rows, settings.rows)])
    scored = parts.map_batches(
        Scorer,
        fn_constructor_args=(settings.model, experiment.kind, experiment.reads.reading),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=settings.workers),
        num_cpus=settings.cpus,
        num_gpus=settings.gpus,
    )
    table = pd.DataFrame([json.loads(row["rows"]) for row in scored.iter_rows()])
    print(f"{len(table):,} prompts, {table['score'].notna().sum():,} with a score")
    for finding in swapbias.disaggregate(table.assign(experiment=experiment.name), name):
        if finding.primary:
            gap = finding.estimate
            print(f"{finding.contrast} {gap.value:+.4f} ({gap.ci_low:+.4f} to {gap.ci_high:+.4f})")


if __name__ == "__main__":
    main()
