"""The rows of a task: prompts or notes, other wordings of them, as many as are asked for, each pair once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress

from swapbias import models, studies
from swapbias.errors import UsageError
from swapbias.models import kind_of
from swapbias.notes import AS_TRAINED, Notes
from swapbias.runs.settings import Settings
from swapbias.runs.task import Task
from swapbias.studies import Experiment, Row, column, own_studies, row_check

_MOST_PLACEBO = 5_000  # rows in other wordings that are read for an experiment
_MOST_CALLS = 8_000  # of a model, for an experiment that is slow and that nobody named


def expanded(task: Task, settings: Settings) -> Task:
    """A task with the rows that its model reads: of a chat model one for each trial, of notes those that it can."""
    parts = task.rows[: task.n_prompts], task.rows[task.n_prompts :]
    rows, others = (task.kind.expand(part, settings, task.experiment) for part in parts)
    stated = {row["pair_id"] for row in rows if row.get("trial", "1") == "1"}
    factless = len(set(column(parts[0], "pair_id"))) - len(stated) if task.notes else 0
    return replace(task, rows=[*rows, *others], n_prompts=len(rows), factless=factless)


def unreadable(task: Task, trains: bool) -> str:
    """Why an experiment on notes has nothing to read or to learn from; blank where it has."""
    if task.notes is None:
        return ""
    if not task.rows and task.factless:
        raise UsageError(
            "No test note states a fact of the checklist in both of its versions. Name other facts."
        )
    if not task.rows:
        learned = ", of a phenotype that a classifier can be trained for" if trains else ""
        return f"no test note with a known gender is left{learned}"
    return (
        task.notes.unlearnable_gender()
        if task.kind.rows(task.experiment) == models.RowSource.VERSIONS
        else ""
    )


def with_prompts(task: Task, settings: Settings, *, slow: bool) -> Task:
    experiment = task.experiment
    read = partial(studies.config_rows, task.study.name)
    whole = [read(name) for name in task.configs]
    if task.study.name not in own_studies():
        is_usual = task.configs == experiment.reads.configs
        row_check.check_rows(task.study, experiment, [*chain.from_iterable(whole)], whole=is_usual)
    every = [_limited(rows, settings.limit) for rows in whole]
    passes = len(every) * task.kind.readings[experiment.reads.reading].passes
    parts = (_affordable(rows, passes) if slow else rows for rows in every)
    rows = [
        {**row, "experiment": experiment.name} for part in parts for row in part
    ]  # two may read one config
    n_read = len(rows)
    n_available = sum(map(len, every))
    others: Sequence[Row] = ()
    # The calibration model knows nothing but the prompts that it is trained on.
    calibrated = experiment.reads.calibrated and settings.model is None
    if (
        task.configs == experiment.reads.configs
        and not calibrated
        and _with_wordings(experiment, settings)
    ):
        placebo = _some_of(
            _reworded(rows, [*chain.from_iterable(map(read, experiment.reads.rewordings))])
        )
        plain = map(read, experiment.reads.baseline)
        others = [{**row, "experiment": experiment.name} for row in chain(*plain, placebo)]
    part = n_available if 0 < n_read < n_available else 0
    return replace(task, rows=[*rows, *others], n_prompts=len(rows), n_available=part)


def with_notes(task: Task, settings: Settings, notes: Notes, trains: bool) -> Task:
    experiment = task.experiment
    untrained = notes.untrainable() if trains else {}
    pairs = _limited(
        [pair for pair in notes.pairs() if pair["condition"] not in untrained], settings.limit
    )
    rows = note_rows(experiment, notes, pairs, trains)
    others = list[Row]()
    if experiment.reads.rewordings and _with_wordings(experiment, settings):
        others = note_rows(
            experiment, notes, _reworded(pairs, list(notes.reworded_pairs())), trains
        )
    return replace(task, rows=[*rows, *others], n_prompts=len(rows), notes=notes)


def note_rows(
    experiment: Experiment, notes: Notes, pairs: Sequence[Row], trains: bool
) -> list[dict[str, str]]:
    """The prompts of an experiment: each test pair once a regime, or each test note as written and neutralised."""
    if kind_of(experiment.kind).rows(experiment) == models.RowSource.VERSIONS:
        rows = notes.versions({pair["pair_id"] for pair in pairs})
    else:
        regimes = (
            experiment.reads.notes.regimes
            if trains and experiment.reads.notes.regimes
            else (AS_TRAINED,)
        )
        rows = [{**row, "construct": regime} for regime in regimes for row in pairs]
    return [
        {
            **row,
            "experiment": experiment.name,
            "prompt_id": f"{row['prompt_id']}/{row['construct']}",
        }
        for row in rows
    ]


def _with_wordings(experiment: Experiment, settings: Settings) -> bool:
    usual = settings.limit is None and not experiment.on_request
    return usual if settings.wordings is None else settings.wordings


def _reworded(rows: Sequence[Row], placebo: Sequence[Row]) -> Sequence[Row]:
    """Other wordings of the rows that are read."""
    pairs = set(column(rows, "pair_id"))
    return list(
        compress(
            placebo, (pair.rpartition("/w")[0] in pairs for pair in column(placebo, "pair_id"))
        )
    )


def _some_of(placebo: Sequence[Row]) -> Sequence[Row]:
    """At most ``_MOST_PLACEBO`` rows: of so many conditions of each label one."""
    of_rows = list(zip(column(placebo, "label"), column(placebo, "condition"), strict=True))
    numbers: dict[str, dict[str, int]] = {}
    for label, condition in of_rows:
        conditions = numbers.setdefault(label, {})
        conditions.setdefault(condition, len(conditions))
    step = -(-len(placebo) // _MOST_PLACEBO)
    return list(
        compress(placebo, (numbers[label][condition] % step == 0 for label, condition in of_rows))
    )


def _limited(rows: Sequence[Row], limit: int | None) -> Sequence[Row]:
    """At most ``limit`` rows: whole pairs, spread evenly over the config."""
    if limit is None or limit >= len(rows):
        return rows
    pairs = list(dict.fromkeys(column(rows, "pair_id")))
    number = max(1, limit * len(pairs) // len(rows))
    chosen = {pairs[index * len(pairs) // number] for index in range(number)}
    return list(compress(rows, (pair in chosen for pair in column(rows, "pair_id"))))


def _affordable(rows: Sequence[Row], passes: int) -> Sequence[Row]:
    """As many rows as a share of the calls can read: whole pairs, spread evenly."""
    calls = passes * len(set(column(rows, "text")))
    return (
        rows if calls <= _MOST_CALLS else _limited(rows, max(1, len(rows) * _MOST_CALLS // calls))
    )


def distinct(task: Task) -> Task:
    """A task without those pairs of the user's own whose texts are another's: they are no further evidence."""
    experiment = task.experiment
    own = task.notes is not None or task.study.name in own_studies()
    if not own or not experiment.is_paired:
        return task
    answered_by = next(
        (
            one.column
            for one in experiment.shows.slices
            if one.name == experiment.compares.primary.slice
        ),
        "",
    )
    names = [
        "group",
        "side",
        "text",
        "candidates",
        "lexicon",
        "wording",
        "trial",
        experiment.compares.subset,
        answered_by,
    ]
    names += ["label", "version"] if experiment.shows.rates else []
    content: dict[str, set[tuple[str, ...]]] = {}
    rows = zip(
        *(column(task.rows, name) for name in ("pair_id", *filter(None, names))), strict=True
    )
    for pair, *texts in rows:
        content.setdefault(pair, set()).add(tuple(texts))
    first: dict[frozenset[tuple[str, ...]], str] = {}
    read = [
        first.setdefault(frozenset(content[pair]), pair) == pair
        for pair in column(task.rows, "pair_id")
    ]
    if all(read):
        return task
    places = zip(
        *(column(task.rows, name, "1") for name in ("pair_id", "group", "trial")), read, strict=True
    )
    pairs = {
        pair: one
        for pair, group, trial, one in places
        if trial == "1" and group in experiment.compared
    }
    note = f"{task.study.name} {experiment.name}: {len(pairs) - sum(pairs.values()):,} of {len(pairs):,} pairs repeat"
    return replace(
        task,
        rows=list(compress(task.rows, read)),
        n_prompts=sum(read[: task.n_prompts]),
        repeats=f"{note} another pair's texts and count once.",
    )
