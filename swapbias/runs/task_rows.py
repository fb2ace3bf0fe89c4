"""The rows of a task: prompts or notes, other wordings of them, as many as are asked for, each pair once."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress
from pathlib import Path

from swapbias import models, studies
from swapbias.errors import UsageError, listed
from swapbias.models import kind_of
from swapbias.models.clinical import NoteOptions
from swapbias.notes import AS_TRAINED, Notes
from swapbias.privacy import refuse
from swapbias.runs import prompt_data
from swapbias.runs.settings import Settings
from swapbias.runs.task import Task
from swapbias.studies import (
    Corpus,
    Experiment,
    Row,
    catalogue,
    column,
    own_studies,
    row_check,
)

_MOST_PLACEBO = 5_000  # rows in other wordings that are read for an experiment
_MOST_CALLS = 8_000  # of a model, for an experiment that is slow and that nobody named


def expanded(task: Task, settings: Settings) -> Task:
    """Return a task with the rows that its model reads: of a chat model one for each trial, of notes those it can.

    Args:
        task: the task with the rows of its configs.
        settings: the settings of the audit.
    """
    prompts = task.rows[: task.n_prompts]
    rows = task.kind.expand(prompts, settings, task.experiment)
    others = task.kind.expand(task.rows[task.n_prompts :], settings, task.experiment)
    factless = 0
    if task.notes:
        stated = {row["pair_id"] for row in rows if row.get("trial", "1") == "1"}
        factless = len(set(column(prompts, "pair_id"))) - len(stated)
    return replace(task, rows=[*rows, *others], n_prompts=len(rows), factless=factless)


def unreadable(task: Task, settings: Settings, trains: bool) -> str:
    """Return why an experiment on data of the user's, such as notes, has nothing to compare or to learn from.

    Args:
        task: the task with its rows.
        settings: the settings of the audit.
        trains: whether classifiers are trained.

    Returns:
        The reason; blank where there is none.

    Raises:
        UsageError: no note states a fact of the checklist.
    """
    if _is_of_data(task, settings):
        words = task.experiment.words
        missing = row_check.missing_sides(task.experiment, task.rows)
        names = listed([words.named.get(name, name) for name in missing])
        return f"the data have no prompts of {names}" if missing else ""
    if task.notes is None:
        return ""
    if not task.rows and task.factless:
        raise UsageError(
            "No test note states a fact of the checklist in both of its versions. Name other facts."
        )
    if not task.rows and trains:
        return "no test note with a known gender is left, of a phenotype that a classifier can be trained for"
    if not task.rows:
        return "no test note with a known gender is left"
    if task.kind.rows(task.experiment) == models.RowSource.VERSIONS:
        return task.notes.why_gender_untrainable()
    return ""


def with_prompts(task: Task, settings: Settings, *, slow: bool) -> Task:
    """Return a task with the prompts of its configs, and other wordings of them.

    Args:
        task: the task without rows.
        settings: the settings of the audit.
        slow: read a part of the prompts alone.
    """
    experiment = task.experiment
    corpus = _corpus(task.study.name, settings)
    tables_of_configs = [studies.config_rows(corpus, name) for name in task.configs]
    is_of_data = _is_of_data(task, settings)
    is_usual = task.configs == experiment.reads.configs and not is_of_data
    if is_of_data:
        _refuse_shared_pairs(task, tables_of_configs)
    elif task.study.name not in own_studies():
        all_rows = [*chain.from_iterable(tables_of_configs)]
        row_check.check_rows(task.study, experiment, all_rows, whole=is_usual)
    limited = _limited_together(tables_of_configs, settings.limit)
    n_available = sum(map(len, limited))
    if slow:
        passes = len(limited) * task.kind.readings[experiment.reads.reading].passes
        limited = [_affordable(rows, passes) for rows in limited]
    rows = _of_experiment(chain.from_iterable(limited), experiment)  # two may read one config
    others: list[Row] = []
    # The calibration model knows nothing but the prompts that it is trained on.
    is_calibrated = experiment.reads.calibrated and settings.model is None
    if is_usual and not is_calibrated and _with_wordings(experiment, settings):
        read = partial(studies.config_rows, task.study.name)
        rewordings = [*chain.from_iterable(map(read, experiment.reads.rewordings))]
        placebo = _some_of(_reworded(rows, rewordings))
        baseline = chain.from_iterable(map(read, experiment.reads.baseline))
        others = _of_experiment(chain(baseline, placebo), experiment)
    is_part = 0 < len(rows) < n_available
    return replace(
        task,
        rows=[*rows, *others],
        n_prompts=len(rows),
        n_available=n_available if is_part else 0,
    )


def _is_of_data(task: Task, settings: Settings) -> bool:
    """Tell whether a task reads data of the user's in place of its study's own prompts."""
    return bool(prompt_data.source_of(task.study.name, settings.prompt_data))


def _refuse_shared_pairs(task: Task, tables_of_configs: Sequence[Sequence[Row]]) -> None:
    """Raise a UsageError for two tables of data whose pairs have one name: they would be pairs of each other."""
    table_of_pair: dict[str, str] = {}
    for table, rows in zip(task.configs, tables_of_configs, strict=True):
        for pair in dict.fromkeys(column(rows, "pair_id")):
            first = table_of_pair.setdefault(pair, table)
            if first != table:
                raise UsageError(
                    f"{first} and {table} both have the prompt {pair}. Give a folder with one of their files, "
                    f"or name a table, as in --study {task.study.name}:{table}."
                )


def _corpus(name: str, settings: Settings) -> Corpus:
    """Return the corpus of a study: with the user's data or adjectives where these are given and it reads them."""
    if source := prompt_data.source_of(name, settings.prompt_data):
        return prompt_data.data_corpus(name, source)
    corpus = studies.load_corpus(name)
    if settings.adjectives and corpus.with_adjectives:
        refuse(Path(settings.adjectives), "read as adjectives")  # a run keeps its prompts
        return catalogue.corpus_with_adjectives(name, settings.adjectives)
    return corpus


def _of_experiment(rows: Iterable[Row], experiment: Experiment) -> list[Row]:
    """Return rows that name their experiment."""
    return [{**row, "experiment": experiment.name} for row in rows]


def with_notes(task: Task, settings: Settings, notes: Notes, trains: bool) -> Task:
    """Return a task with the prompts of notes, and other wordings of them.

    Args:
        task: the task without rows.
        settings: the settings of the audit.
        notes: the notes of the corpus.
        trains: whether classifiers are trained on them.
    """
    experiment = task.experiment
    untrained = notes.why_untrainable() if trains else {}
    limit = settings.limit
    if limit is not None and notes.split:  # each split has its share
        limit = max(1, limit // settings.of(NoteOptions).splits)
    pairs = _limited([pair for pair in notes.pairs() if pair["condition"] not in untrained], limit)
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
    """Return the prompts of an experiment on notes.

    Each test pair stands once a regime, or each test note as written and neutralised.

    Args:
        experiment: the experiment on notes.
        notes: the notes of the corpus.
        pairs: rows of test notes, two versions each.
        trains: whether classifiers are trained on them.
    """
    if kind_of(experiment.kind).rows(experiment) == models.RowSource.VERSIONS:
        rows = notes.versions({pair["pair_id"] for pair in pairs})
    else:
        regimes: Sequence[str] = (AS_TRAINED,)
        if trains and experiment.reads.notes.regimes:
            regimes = experiment.reads.notes.regimes
        rows = [{**row, "construct": regime} for regime in regimes for row in pairs]
    return [
        {
            **row,
            "experiment": experiment.name,
            "prompt_id": f"{row['prompt_id']}/{row['construct']}",
        }
        for row in rows
    ]


def joined_splits(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks, those of several splits of the same notes as one with the rows of all.

    Args:
        tasks: the tasks of an audit.
    """
    by_question: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        by_question.setdefault((task.name, task.model), []).append(task)
    joined = []
    for splits in by_question.values():
        prompts = [row for task in splits for row in task.rows[: task.n_prompts]]
        others = [row for task in splits for row in task.rows[task.n_prompts :]]
        joined.append(replace(splits[0], rows=[*prompts, *others], n_prompts=len(prompts)))
    return joined


def _with_wordings(experiment: Experiment, settings: Settings) -> bool:
    usual = settings.limit is None and not experiment.on_request
    return usual if settings.wordings is None else settings.wordings


def _reworded(rows: Sequence[Row], placebo: Sequence[Row]) -> Sequence[Row]:
    """Return other wordings of the rows that are read."""
    pairs = set(column(rows, "pair_id"))
    is_read = [pair.rpartition("/w")[0] in pairs for pair in column(placebo, "pair_id")]
    return list(compress(placebo, is_read))


def _some_of(placebo: Sequence[Row]) -> Sequence[Row]:
    """Return at most ``_MOST_PLACEBO`` rows: every n-th condition of each label."""
    of_rows = list(zip(column(placebo, "label"), column(placebo, "condition"), strict=True))
    numbers: dict[str, dict[str, int]] = {}
    for label, condition in of_rows:
        conditions = numbers.setdefault(label, {})
        conditions.setdefault(condition, len(conditions))
    step = -(-len(placebo) // _MOST_PLACEBO)
    is_read = [numbers[label][condition] % step == 0 for label, condition in of_rows]
    return list(compress(placebo, is_read))


def _limited_together(
    tables_of_configs: Sequence[Sequence[Row]], limit: int | None
) -> list[Sequence[Row]]:
    """Return at most ``limit`` rows of all configs of an experiment, of each its share, but one pair at least."""
    total = sum(map(len, tables_of_configs))
    if limit is None or limit >= total:
        return [*tables_of_configs]
    return [_limited(rows, max(1, limit * len(rows) // total)) for rows in tables_of_configs]


def _limited(rows: Sequence[Row], limit: int | None) -> Sequence[Row]:
    """Return at most ``limit`` rows: whole pairs, spread evenly over the config."""
    if limit is None or limit >= len(rows):
        return rows
    pairs = list(dict.fromkeys(column(rows, "pair_id")))
    number = max(1, limit * len(pairs) // len(rows))
    chosen = {pairs[index * len(pairs) // number] for index in range(number)}
    return list(compress(rows, (pair in chosen for pair in column(rows, "pair_id"))))


def _affordable(rows: Sequence[Row], passes: int) -> Sequence[Row]:
    """Return as many rows as a share of the calls can read: whole pairs, spread evenly."""
    calls = passes * len(set(column(rows, "text")))
    if calls <= _MOST_CALLS:
        return rows
    return _limited(rows, max(1, len(rows) * _MOST_CALLS // calls))


def distinct(task: Task, settings: Settings) -> Task:
    """Return a task without those pairs of the user's own whose texts are another's: they are no further evidence.

    Args:
        task: the task with its rows.
        settings: the settings of the audit.
    """
    is_own = task.notes is not None or task.study.name in own_studies()
    is_own = is_own or _is_of_data(task, settings)
    if not is_own or not task.experiment.is_paired:
        return task
    is_read = _first_of_its_texts(task)
    if all(is_read):
        return task
    count, repeated = _count_repeated(task, is_read)
    return replace(
        task,
        rows=list(compress(task.rows, is_read)),
        n_prompts=sum(is_read[: task.n_prompts]),
        repeats=(
            f"{task.study.name} {task.experiment.name}: {repeated:,} of {count:,} pairs repeat another pair's texts "
            "and count once."
        ),
    )


def _first_of_its_texts(task: Task) -> list[bool]:
    """Return for each row whether its pair is the first with these texts."""
    names = ["group", "side", "text", "candidates", "lexicon", "wording", "trial"]
    names += filter(None, [task.experiment.compares.subset, _answered_column(task.experiment)])
    if task.experiment.shows.rates:
        names += ["label", "version"]
    content: dict[str, set[tuple[str, ...]]] = {}
    cells = zip(*(column(task.rows, name) for name in ("pair_id", *names)), strict=True)
    for pair, *texts in cells:
        content.setdefault(pair, set()).add(tuple(texts))
    first: dict[frozenset[tuple[str, ...]], str] = {}
    return [
        first.setdefault(frozenset(content[pair]), pair) == pair
        for pair in column(task.rows, "pair_id")
    ]


def _answered_column(experiment: Experiment) -> str:
    """Return the column of the slice whose values are answered one by one; blank for none."""
    for slice_by in experiment.shows.slices:
        if slice_by.name == experiment.compares.primary.slice:
            return slice_by.column
    return ""


def _count_repeated(task: Task, is_read: Sequence[bool]) -> tuple[int, int]:
    """Return the number of pairs of the compared groups, and of those that are not read."""
    columns = [column(task.rows, name, "1") for name in ("pair_id", "group", "trial")]
    pairs: dict[str, bool] = {}
    for pair, group, trial, is_kept in zip(*columns, is_read, strict=True):
        if trial == "1" and group in task.experiment.compared:
            pairs[pair] = is_kept
    return len(pairs), len(pairs) - sum(pairs.values())
