"""What a run comes to when all is scored: findings, explanations, figures and report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from swapbias.explaining import explain
from swapbias.findings import Finding, disaggregate
from swapbias.planning import Task
from swapbias.results import Results, write_results
from swapbias.runs import Run, now
from swapbias.scorers import HasCoverage, Scorer
from swapbias.studies import load_lexicon


def conclude(
    run: Run,
    manifest: dict[str, Any],
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    items: Mapping[str, pd.DataFrame],
    *,
    seed: int,
    say: Callable[[str], None],
) -> list[Finding]:
    """Compare the groups, write everything down, and say in the manifest that the run is complete.

    Args:
        run: written to.
        manifest: of the run; its status and end are set.
        tasks: what was scored, each by the reader of the same place.
        readers: the models.
        items: scored rows of each study.
        seed: of resampled intervals and permutation tests.
        say: told what pruning gave up and what could not be explained.

    Returns:
        Findings in the order of the studies.
    """
    found = _with_units(_found(items, readers, seed), tasks, readers)
    explained = explain(tasks, readers, items, seed=seed, say=say)
    if notes := list(_given_up(items)):
        manifest["pruning"] = notes
        for note in notes:
            say(note)
    manifest |= {"status": "complete", "finished": now()}
    write_results(run, Results(manifest, found, items, _coverage(tasks, readers), explained))
    run.write_manifest(manifest)  # last: a run that says complete has all its files
    return found


def _found(items: Mapping[str, pd.DataFrame], readers: Sequence[Scorer], seed: int) -> list[Finding]:
    found: list[Finding] = []
    for name, frame in items.items():
        for model_id, part in frame.groupby("model_id", sort=False):
            expected = next((getattr(one, "expected", None) for one in readers if one.model_id == model_id), None)
            found += disaggregate(part, name, expected=expected, seed=seed)
    return found


def _given_up(items: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What pruning may have lost, a sentence for each study and model that was read so."""
    for study, frame in items.items():
        if "pruned_mass" in frame:
            for model_id, rows in frame.dropna(subset="pruned_mass").groupby("model_id", sort=False):
                most, mean = rows["pruned_mass"].max(), rows["pruned_mass"].mean()
                yield (
                    f"{study}: pruning gave up branches of {model_id} that held {mean:.2g} of a prompt's "
                    f"probability on average and {most:.2g} at most: its phrases may miss as much."
                )


def _with_units(found: list[Finding], tasks: Sequence[Task], readers: Sequence[Scorer]) -> list[Finding]:
    """Findings in the unit of the scorer, which may differ from the study's (VADER gives no probability)."""
    units = {
        (task.study.name, task.experiment.name): (task.experiment.unit, reader.unit)
        for task, reader in zip(tasks, readers, strict=True)
    }
    return [
        replace(one, unit=read) if one.unit == declared else one
        for one in found
        for declared, read in [units[one.study, one.experiment]]
    ]


def _coverage(tasks: Sequence[Task], readers: Sequence[Scorer]) -> pd.DataFrame:
    rows, seen = [], set()
    for task, reader in zip(tasks, readers, strict=True):
        names = {row["candidates"].rpartition("/")[0] for row in task.rows} - {""}
        for name in sorted(names):
            if isinstance(reader, HasCoverage) and (reader.model_id, name) not in seen:
                rows += [asdict(one) for one in reader.coverage(load_lexicon(name))]
                seen.add((reader.model_id, name))
    return pd.DataFrame(rows)
