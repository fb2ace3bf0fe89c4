"""swapbias plan: which prompts an audit reads, what it takes, and which gaps it can find."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from shlex import join
from typing import Annotated, Any, NamedTuple

import typer

from swapbias import findings, hub, runs, studies
from swapbias.cli import terminal as ui
from swapbias.errors import UsageError, listed
from swapbias.hub_http import offline_reason
from swapbias.models import auto, model_names, planned_kind
from swapbias.privacy import manifest_redaction
from swapbias.studies import catalogue


def plan(
    context: typer.Context,
    arguments: Annotated[ui.Names, ui.argument("MODEL", "As swapbias audit --help says.")] = None,
) -> None:
    """Show what an audit costs and which gaps it can find.

    It takes the models, files and options of swapbias audit, as swapbias audit --help explains them.

    With --like RUN it takes how far scores spread, and how long they took, from an earlier run.
    """
    program: Any = context.find_root().command
    command = program.get_command(context, "audit")
    words = [*(arguments or ()), "--dry-run"]
    code = command(words, prog_name="swapbias plan", standalone_mode=False)
    if code:  # of Ctrl-C
        raise typer.Exit(code)
    ui.show(f"Next    swapbias audit {join(_without_like(arguments or ()))}".rstrip())


def earlier_run(like: str | None, *, dry_run: bool) -> "findings.EarlierRun | None":
    """Read the run whose spreads a plan takes.

    Args:
        like: the run's folder, or its name on the Hub; None: none is named.
        dry_run: whether it is a plan.

    Returns:
        the run; None: none is named.

    Raises:
        UsageError: it is no plan, or there is no such run.
    """
    if like is None:
        return None
    if not dry_run:
        raise UsageError(f"--like {like} is about a plan. Write swapbias plan, or add --dry-run.")
    from swapbias.runs import earlier  # reads tables

    return earlier.earlier_run(hub.find_run(like))


def _without_like(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of an audit: those of its plan without ``--like RUN``."""
    kept: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--like":
            next(remaining, None)
        elif not argument.startswith("--like="):
            kept.append(argument)
    return kept


# --- the plan of an audit ---------------------------------------------------------------------------------


def plan_sentences(
    settings: "runs.Settings", earlier: "findings.EarlierRun | None" = None
) -> Iterator[str]:
    """Yield a plan: each experiment with its prompts, what asking takes, what it could find, and what would not run.

    Args:
        settings: the settings of the audit.
        earlier: a run whose spreads and speed are taken.

    Returns:
        sentences.

    Raises:
        UsageError: nothing fits the model, or the earlier run has none of the gaps.
    """
    if settings.model is None:
        yield from _kind_sentences({"": (settings, None)}, earlier)
        return
    kind = planned_kind(settings.model, settings.kind, load=settings.load)
    if kind is not None:
        yield from _kind_sentences({"": (settings, kind)}, earlier)
        return
    model = model_names.planned_name(settings.model, settings.load)
    yield f"{model} is not on this machine, and {offline_reason()}. A model of each kind would take:"
    fitting = [name for name in auto.model_kinds() if _fits(settings, name)]
    chosen = {}
    for name in fitting or auto.model_kinds():
        chosen[f"As a {name} model:"] = (replace(settings, kind=name), name)
    yield from _kind_sentences(chosen, earlier)


def _fits(settings: "runs.Settings", kind: str) -> bool:
    """Tell whether a model of this kind reads any experiment."""
    try:
        runs.plan_tasks(replace(settings, kind=kind), kind=kind)
    except UsageError:
        return False
    return True


class _Plan(NamedTuple):
    """The plan of a model of one kind."""

    title: str
    """Stands above its sentences; blank for none."""
    settings: "runs.Settings"
    tasks: "Sequence[runs.Task]"
    skipped: "Sequence[runs.Skipped]"
    gaps: "Sequence[Sequence[findings.PlannedGap]]"
    """The primary gaps of each task."""


def _kind_sentences(
    chosen: "Mapping[str, tuple[runs.Settings, str | None]]", earlier: "findings.EarlierRun | None"
) -> Iterator[str]:
    """Yield sentences on the plan of a model of each kind, each below its title; kind None: no model is named."""
    from swapbias.report import planning_text
    from swapbias.runs import judge, manifest_entries, task_rows

    plans = []
    for title, (settings, kind) in chosen.items():
        tasks, skipped = runs.plan_tasks(settings, kind=kind)
        judge.refuse_unread(tasks, settings)
        tasks = task_rows.joined_splits(tasks)
        plans.append(_Plan(title, settings, tasks, skipped, _planned_gaps(tasks, earlier)))
    all_gaps = [gap for planned in plans for gaps in planned.gaps for gap in gaps]
    if earlier and not any(gap.is_matched for gap in all_gaps):
        names = (f"{gap.finding.study} {gap.finding.experiment}" for gap in earlier.gaps)
        raise UsageError(
            f"{earlier.name} has none of the gaps of this plan, but those of {listed(dict.fromkeys(names))}. Name a "
            "run of the same experiment, or of own prompts with the same random factors."
        )
    for planned in plans:
        yield from _unless_blank(planned.title)
        yield from _task_sentences(planned.settings, planned.tasks, planned.gaps, earlier)
        yield from _unless_blank(manifest_entries.partial_note(planned.tasks))
        kinds = [task.kind.name for task in planned.tasks]
        yield from _unless_blank(skipped_note(planned.skipped, kinds))
    yield from _unless_blank(planning_text.unknown_spreads(all_gaps))


def _unless_blank(*sentences: str) -> Iterator[str]:
    """Yield the sentences that say something."""
    yield from filter(None, sentences)


def _planned_gaps(
    tasks: "Sequence[runs.Task]", earlier: "findings.EarlierRun | None"
) -> "list[list[findings.PlannedGap]]":
    """Plan the primary gaps of each task of one run."""
    experiments = []
    for task in tasks:
        rows = task.rows[: task.n_prompts]
        planned = findings.PlannedExperiment(task.study, task.experiment, rows, task.model)
        experiments.append(planned)
    return findings.plan_gaps(experiments, earlier)


def _task_sentences(
    settings: "runs.Settings",
    tasks: "Sequence[runs.Task]",
    gaps_of_tasks: "Sequence[Sequence[findings.PlannedGap]]",
    earlier: "findings.EarlierRun | None",
) -> Iterator[str]:
    """Yield sentences on the tasks of one run."""
    from swapbias.runs import judge, manifest_entries, positive_control

    seen: set[str] = set()  # a text is sent once, whoever reads it
    for task, gaps in zip(tasks, gaps_of_tasks, strict=True):
        cost = task.kind.announce(task.rows, settings, task.experiment, seen)
        yield "; ".join(filter(None, (_describe_task(task, settings), cost)))
        yield from _unless_blank(judge.announced(task, settings))
        calls = "" if cost else task.kind.calls(task.experiment, task.rows)
        design = "; ".join(filter(None, (design_note(task.experiment, gaps), calls)))
        if design:
            yield f"{design}."
        yield from design_details(gaps, len(task.rows), earlier)
    yield from manifest_entries.repeat_notes(tasks)
    yield from _unless_blank(positive_control.control_note(tasks, settings))


def _describe_task(task: "runs.Task", settings: "runs.Settings") -> str:
    """Say which prompts a task reads, and for which model."""
    prompts = f"{task.n_prompts} prompts"
    controls = len(task.rows) - task.n_prompts
    if controls > 0:
        prompts = f"{prompts} and {controls} control prompts"
    model = model_names.planned_name(task.model, settings.load)
    return f"{task.study.name} {task.experiment.name}: {prompts} for {model}"


def skipped_note(skipped: "Sequence[runs.Skipped]", ran: Iterable[str]) -> str:
    """Say what was not run, by reason, and remarks on the rest.

    Args:
        skipped: experiments, or parts of them, with reasons.
        ran: the kinds of models that ran; of other kinds a count is said.

    Returns:
        one or two sentences; blank where all was run.
    """
    ran = set(ran)
    counts_by_kind = Counter[str]()
    experiments_by_reason = dict[str, list[str]]()
    remarks: dict[str, None] = {}
    broken = catalogue.unreadable_studies()
    for skip in skipped:
        if skip.experiment.startswith(manifest_redaction.PARTIAL_EXPERIMENT_PREFIX):
            remarks[skip.reason] = None
            continue
        kind = "" if skip.study in broken else _kind_of(skip)
        if kind and kind not in ran:
            counts_by_kind[kind] += 1
        else:
            experiment = f"{skip.study} {skip.experiment}"
            experiments_by_reason.setdefault(skip.reason, []).append(experiment)
    parts = [f"{', '.join(names)} ({reason})" for reason, names in experiments_by_reason.items()]
    if counts_by_kind:
        counts = ", ".join(f"{count} {name}" for name, count in counts_by_kind.items())
        total = counts_by_kind.total()
        need = "experiment needs" if total == 1 else "experiments need"
        parts.append(f"{total} {need} another kind of model: {counts} (swapbias list)")
    sentences = []
    if parts:
        sentences.append(f"Not run: {'; '.join(parts)}.")
    if remarks:
        sentences.append(f"Of what was read: {'; '.join(remarks)}.")
    return " ".join(sentences)


def _kind_of(skip: "runs.Skipped") -> str:
    """Return the kind of model that a skipped experiment needs; blank where its study has none of that name."""
    for experiment in catalogue.outline(skip.study).experiments:
        if experiment.name == skip.experiment:
            return experiment.kind
    return ""


# --- the design of a study --------------------------------------------------------------------------------


def study_designs(corpus: "studies.Corpus") -> Iterator[str]:
    """Say how many prompts each experiment of a user's own study has, and the smallest gap that it could find.

    Args:
        corpus: the corpus of the study.

    Returns:
        sentences.
    """
    from swapbias.report import planning_text

    study = corpus.study
    if study is None:
        return
    rows_by_experiment = {}
    for experiment in study.experiments:
        config = experiment.reads.configs[0]
        rows_by_experiment[experiment.name] = studies.config_rows(corpus, config)
    for experiment in study.experiments:
        rows = rows_by_experiment[experiment.name]
        # Each is asked of another kind of model.
        (gaps,) = findings.plan_gaps([findings.PlannedExperiment(study, experiment, rows)])
        design = design_note(experiment, gaps)
        yield f"{corpus.name} {experiment.name}: {len(rows)} prompts; {design}."
        yield from design_details(gaps, len(rows))
        yield from _unless_blank(planning_text.unknown_spreads(gaps))


def design_note(experiment: "studies.Experiment", gaps: "Sequence[findings.PlannedGap]") -> str:
    """Say what a planned gap is over, and how large one must be to be found.

    Args:
        experiment: the experiment which compares groups or not.
        gaps: its planned gaps.

    Returns:
        part of a sentence; blank where no groups are compared.
    """
    from swapbias.report import planning_text

    if not experiment.compares.measure:
        return ""
    counts = planning_text.planned_counts(gaps)
    power = planning_text.planned_power(gaps)
    return "; ".join(filter(None, (counts, power)))


def design_details(
    gaps: "Sequence[findings.PlannedGap]",
    prompts: int,
    earlier: "findings.EarlierRun | None" = None,
) -> Iterator[str]:
    """Say what is assumed of planned gaps, how long their prompts take, and how many templates other gaps need.

    Args:
        gaps: the gaps of one experiment.
        prompts: number of its prompts.
        earlier: a run whose spreads and speed are taken.

    Returns:
        sentences.
    """
    from swapbias.report import planning_text

    if not gaps:
        return
    if earlier:
        yield from _unless_blank(planning_text.without_spreads(gaps, earlier.name))
    yield from planning_text.planned_basis(gaps)
    seconds = math.nan
    if earlier and any(gap.is_matched for gap in gaps):  # other prompts take other times
        yield from _unless_blank(planning_text.planned_time(prompts, earlier))
        seconds = earlier.seconds_a_prompt
    yield from planning_text.planned_table(gaps, prompts, seconds)
