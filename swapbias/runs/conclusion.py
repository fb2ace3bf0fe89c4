"""What a run comes to when all is scored: findings, the most mismatched note explained, figures and report."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from swapbias.errors import UsageError
from swapbias.findings import Finding, disaggregate, judged
from swapbias.measures import SPANS
from swapbias.models import Say, Scorer
from swapbias.models.clinical import Explained, explain_pair
from swapbias.notes import Notes
from swapbias.runs.plan import Task
from swapbias.runs.results import Results, write_results
from swapbias.runs.run import SCORES, SHA256, Run, now
from swapbias.studies import Published, column, load_lexicon, load_study, own_studies, published_for

PANEL_SAMPLES, SAMPLES = (
    1_000,
    250,
)  # of the note that has a panel of its own, and of those whose weights are averaged
PLANTED_LEAK = "planted leak"  # the source of a number that was planted in synthetic notes


def explain(
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    items: Mapping[str, pd.DataFrame],
    *,
    most: int,
    seed: int,
    say: Say,
) -> list[Explained]:
    """For each classifier of notes its most mismatched pairs, ``most`` of each phenotype and regime.

    The one that is furthest apart in the first regime comes first, sampled more often. Nothing of credentialed notes,
    and of chat models, for each sample would be a request.
    """
    found: list[Explained] = []
    for task, reader in zip(tasks, readers, strict=True):
        unread = "flips" not in task.experiment.rates or task.notes is None or task.notes.credentialed
        if unread or reader.kind == "chat" or not most:
            continue
        rows = items[task.study.name]
        mine = rows[(rows["experiment"] == task.experiment.name) & (rows["model_id"] == reader.model_id)]
        two = mine[mine["group"].isin(task.experiment.compared)]
        try:
            found += [_explained(task.study.name, pair, reader, seed, some) for pair, some in _mismatched(two, most)]
        except UsageError as error:  # LIME is an extra
            say(f"No explanation of the most mismatched note: {error}")
            return found
    return found


def _mismatched(rows: pd.DataFrame, most: int) -> Iterator[tuple[pd.DataFrame, int]]:
    """The pairs of each phenotype and regime whose scores differ most, and how many samples explain each."""
    pairs = rows.pivot(index=["construct", "condition", "pair_id"], columns="group", values="score").dropna()
    if pairs.shape[1] != 2:
        return
    gaps = (pairs.iloc[:, 0] - pairs.iloc[:, 1]).abs()
    gaps = gaps[gaps > 0]
    if not len(gaps):
        return
    regimes = [one for one in rows["construct"].unique() if one in gaps.index.get_level_values(0)]
    first = gaps[regimes[0]].idxmax()
    chosen = [(regimes[0], *first)]
    for regime in regimes:
        for _, part in gaps[[regime]].groupby(level="condition", sort=False):
            chosen += [place for place in part.nlargest(most).index if place != chosen[0]]
    for place, (regime, phenotype, pair_id) in enumerate(chosen):
        mine = (rows["construct"] == regime) & (rows["condition"] == phenotype) & (rows["pair_id"] == pair_id)
        yield rows[mine], SAMPLES if place else PANEL_SAMPLES


def _explained(study: str, pair: pd.DataFrame, reader: Scorer, seed: int, samples: int) -> Explained:
    phenotype, regime, pair_id = (str(pair[name].iloc[0]) for name in ("condition", "construct", "pair_id"))
    texts = dict(zip(pair["group"], pair["text"], strict=True))
    words = explain_pair(
        lambda sampled: reader.predict_proba(sampled, phenotype, regime), texts, seed=seed, samples=samples
    )
    scores = {str(group): float(score) for group, score in zip(pair["group"], pair["score"], strict=True)}
    return Explained(study, reader.model_id, phenotype, regime, pair_id, scores, words)


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
    explained: int = 3,
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
        explained: notes of each phenotype and regime that are explained word by word.
        draw: figures and report as well.

    Returns:
        Findings in the order of the studies.
    """
    found = judged(_found(items, tasks, readers, seed), margin=margin)
    told = explain(tasks, readers, items, most=explained, seed=seed, say=say)
    for name, notes in (("pruning", list(_given_up(items))), ("unread", list(_unread(items, tasks)))):
        if notes:
            manifest[name] = notes
        for note in notes:
            say(note)
    manifest |= {"status": "complete", "finished": now()}
    write_results(run, Results(manifest, found, items, _coverage(tasks, readers), told), draw=draw)
    manifest[SHA256] = run.sums()
    run.write_manifest(manifest)  # last: a run that says complete has all its files
    shutil.rmtree(run.folder / SCORES, ignore_errors=True)
    return found


def _found(
    items: Mapping[str, pd.DataFrame], tasks: Sequence[Task], readers: Sequence[Scorer], seed: int
) -> list[Finding]:
    """The findings of every study and model, in the unit of the scorer: VADER and raw scores are no probabilities."""
    found: list[Finding] = []
    for name, frame in items.items():
        study = load_study(name)
        for model_id, part in frame.groupby("model_id", sort=False):
            named = [pair for pair in zip(tasks, readers, strict=True) if pair[1].model_id == model_id]
            expected = next((_expected(task, reader) for task, reader in named), None)
            units = {task.experiment.name: _unit(task, reader) for task, reader in named if task.study.name == name}
            read = tuple(replace(one, unit=units.get(one.name, one.unit)) for one in study.experiments)
            found += disaggregate(part, replace(study, experiments=read), expected=expected, seed=seed)
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


def _unread(items: Mapping[str, pd.DataFrame], tasks: Sequence[Task]) -> Iterator[str]:
    """How many answers were not read, and how to read more, a sentence for each experiment and model."""
    from swapbias.report import answer_counts  # takes long to import, and few audits have answers

    experiments = {(task.study.name, task.experiment.name): task.experiment for task in tasks}
    for study, frame in ((study, frame) for study, frame in items.items() if "said_other" in frame):
        for (name, model_id), rows in frame.groupby(["experiment", "model_id"], sort=False):
            counts = answer_counts(rows)
            if not counts["refused"] + counts["unreadable"]:
                continue
            experiment = experiments[study, name]
            more = "look at them with swapbias study read."
            if experiment.rubric and "judged" not in rows:
                more = "let a judge read them with -M judge=MODEL."
            elif experiment.reading == "options":
                more = "ask with -M scoring=log-odds, which reads every answer, or with a larger -M max-tokens."
            yield (
                f"{study} {name}: {model_id} refused {counts['refused']:,} of {len(rows):,} answers, and "
                f"{counts['unreadable']:,} are unreadable. Next step: {more}"
            )


def _unit(task: Task, reader: Scorer) -> str:
    """That of the scorer; of a study of the user's own the one that it names, where it is no unit of the package."""
    named = task.study.name in own_studies() and task.experiment.unit not in SPANS
    return task.experiment.unit if named else reader.unit


def _coverage(tasks: Sequence[Task], readers: Sequence[Scorer]) -> pd.DataFrame:
    rows, seen = [], set()
    for task, reader in zip(tasks, readers, strict=True):
        names = {one.rpartition("/")[0] for one in set(column(task.rows, "candidates"))} - {""}
        for name in sorted(names):
            if (reader.model_id, name) not in seen:
                rows += [asdict(one) for one in reader.coverage(load_lexicon(name))]
                seen.add((reader.model_id, name))
    return pd.DataFrame(rows)
