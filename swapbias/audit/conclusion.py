"""What a run comes to when all is scored: findings, the most mismatched note explained, figures and report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from swapbias.audit.plan import Task
from swapbias.audit.results import Results, write_results
from swapbias.audit.run import Run, now
from swapbias.errors import UsageError
from swapbias.findings import Finding, disaggregate, judged
from swapbias.measures import SPANS
from swapbias.notes import Notes
from swapbias.scorers import Say, Scorer
from swapbias.scorers.notes import Explained, explain_pair
from swapbias.studies import Published, load_lexicon, own_studies, published_for

PLANTED_LEAK = "planted leak"  # the source of a number that was planted in synthetic notes


def explain(
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    items: Mapping[str, pd.DataFrame],
    *,
    seed: int,
    say: Say,
) -> list[Explained]:
    """For each classifier of notes its most mismatched pair of the first regime; nothing of credentialed notes."""
    found: list[Explained] = []
    for task, reader in zip(tasks, readers, strict=True):
        if "flips" not in task.experiment.rates or task.notes is None or task.notes.credentialed:
            continue
        rows = items[task.study.name]
        mine = rows[(rows["experiment"] == task.experiment.name) & (rows["model_id"] == reader.model_id)]
        try:
            one = _most_mismatched(task.study.name, mine, reader, seed)
        except UsageError as error:  # LIME is an extra
            say(f"No explanation of the most mismatched note: {error}")
            return found
        found += [one] if one else []
    return found


def _most_mismatched(study: str, rows: pd.DataFrame, reader: Scorer, seed: int) -> Explained | None:
    if not len(rows):
        return None
    first = rows[rows["construct"] == rows["construct"].iloc[0]]
    scores = first.pivot(index="pair_id", columns="group", values="score").dropna()
    gaps = (scores.iloc[:, 0] - scores.iloc[:, 1]).abs() if scores.shape[1] == 2 else pd.Series(dtype=float)
    if not len(gaps) or gaps.max() == 0:
        return None
    pair = first[first["pair_id"] == gaps.idxmax()]
    phenotype, regime = str(pair["condition"].iloc[0]), str(pair["construct"].iloc[0])
    texts = dict(zip(pair["group"], pair["text"], strict=True))
    words = explain_pair(lambda sampled: reader.predict_proba(sampled, phenotype, regime), texts, seed=seed)
    scores_of = {str(group): float(score) for group, score in zip(pair["group"], pair["score"], strict=True)}
    return Explained(study, reader.model_id, phenotype, regime, str(gaps.idxmax()), scores_of, words)


def conclude(
    run: Run,
    manifest: dict[str, Any],
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    items: Mapping[str, pd.DataFrame],
    *,
    seed: int,
    margin: float | None,
    say: Say,
    draw: bool = True,
) -> list[Finding]:
    """Compare the groups, write everything down, and say in the manifest that the run is complete.

    Args:
        run: written to.
        manifest: of the run; its status and end are set.
        tasks: what was scored, each by the reader of the same place.
        readers: the models.
        items: scored rows of each study.
        seed: of resampled intervals and permutation tests.
        margin: what counts as no gap, as in ``findings.judged``.
        say: told what pruning gave up and what could not be explained.
        draw: figures and report as well.

    Returns:
        Findings in the order of the studies.
    """
    found = judged(_with_units(_found(items, tasks, readers, seed), tasks, readers), margin=margin)
    explained = explain(tasks, readers, items, seed=seed, say=say)
    if notes := list(_given_up(items)):
        manifest["pruning"] = notes
        for note in notes:
            say(note)
    manifest |= {"status": "complete", "finished": now()}
    write_results(run, Results(manifest, found, items, _coverage(tasks, readers), explained), draw=draw)
    run.write_manifest(manifest)  # last: a run that says complete has all its files
    return found


def _found(
    items: Mapping[str, pd.DataFrame], tasks: Sequence[Task], readers: Sequence[Scorer], seed: int
) -> list[Finding]:
    found: list[Finding] = []
    for name, frame in items.items():
        for model_id, part in frame.groupby("model_id", sort=False):
            named = (pair for pair in zip(tasks, readers, strict=True) if pair[1].model_id == model_id)
            expected = next((_expected(task, reader) for task, reader in named), None)
            found += disaggregate(part, name, expected=expected, seed=seed)
    return found


def _expected(task: Task, reader: Scorer) -> Mapping[tuple[str, ...], Published] | None:
    """What to hold the findings of a model against; None: whatever was published for it."""
    if task.notes is None:
        return reader.expected
    return expected_numbers(task.study.name, task.notes, reader.model_id)


def expected_numbers(study: str, notes: Notes, model: str) -> dict[tuple[str, ...], Published]:
    """What to hold findings on notes against: of MIMIC-III the paper's numbers, of synthetic notes the planted leak.

    None of a user's own notes: the paper's numbers say nothing of them.
    """
    if notes.name == "mimic3":
        return published_for(study, model.partition("+")[0])
    return _planted(notes) if notes.name == "synthetic" else {}


def _planted(notes: Notes) -> dict[tuple[str, ...], Published]:
    """The share of test notes whose label hangs on the gender alone: what a perfect learner of them flips on."""
    found: dict[tuple[str, ...], Published] = {}
    for phenotype in notes.phenotypes:
        tests = [note for note in notes.rows if (note["phenotype"], note["split"]) == (phenotype, "test")]
        share = sum(note["planted"] == "leak" for note in tests) / len(tests)
        key = ("phenotyping", "original", "flip_rate", "female and male", "phenotype", phenotype)
        found[key] = Published(value=f"{share:.3f}", source=PLANTED_LEAK)
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
        (task.study.name, task.experiment.name): (task.experiment.unit, _unit(task, reader))
        for task, reader in zip(tasks, readers, strict=True)
    }
    return [
        replace(one, unit=read) if one.unit == declared else one
        for one in found
        for declared, read in [units[one.study, one.experiment]]
    ]


def _unit(task: Task, reader: Scorer) -> str:
    """That of the scorer; of a study of the user's own the one that it names, where it is no unit of the package."""
    named = task.study.name in own_studies() and task.experiment.unit not in SPANS
    return task.experiment.unit if named else reader.unit


def _coverage(tasks: Sequence[Task], readers: Sequence[Scorer]) -> pd.DataFrame:
    rows, seen = [], set()
    for task, reader in zip(tasks, readers, strict=True):
        names = {row["candidates"].rpartition("/")[0] for row in task.rows} - {""}
        for name in sorted(names):
            if (reader.model_id, name) not in seen:
                rows += [asdict(one) for one in reader.coverage(load_lexicon(name))]
                seen.add((reader.model_id, name))
    return pd.DataFrame(rows)
