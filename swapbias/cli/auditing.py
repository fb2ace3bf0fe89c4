"""swapbias audit and plan: from models to reports, and what that would take."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shlex import join, quote
from typing import Annotated, Any, NamedTuple

import typer

from swapbias import findings, hub, report, runs, studies
from swapbias.cli import terminal as ui
from swapbias.cli.finished_runs import show_comparison
from swapbias.errors import ServiceError, UsageError, listed
from swapbias.files import is_url
from swapbias.hub_http import offline_reason
from swapbias.models import SettingsError, auto, model_names, planned_kind
from swapbias.privacy import manifest_schema
from swapbias.studies import catalogue

OF_TABLE = ui.names_of(runs.PromptOptions)
_KEY = "api_key_env"  # which no manifest says
_ALLOWED_WITH_RESUME = ("resume", "no_cache", "trust", "verbose", _KEY, *ui.CLUSTER)
_ALLOWED_WITH_FILE = (*_ALLOWED_WITH_RESUME, "models", "folder", "dry_run", "like", "base_url")
_MODELS = (
    "Hub id (OWNER/NAME[@REVISION]), folder, vader, module:function; audit.toml or manifest.json. "
    "Without a model: a four-minute demonstration."
)
_ASK = "What to ask"
_MODEL = "The model"
_CHAT = "Chat models"
_RUN = "Run and output"


def audit(
    context: typer.Context,
    models: Annotated[ui.Names, ui.argument("MODEL", _MODELS)] = None,
    study: Annotated[
        ui.Names, ui.option("NAME[:EXPERIMENT], folder, OWNER/NAME; repeatable.", under=_ASK)
    ] = None,
    prompts: Annotated[
        Path | None, ui.option("Your prompts: a file with text, group, pair.")
    ] = None,
    model_settings: ui.ModelSettings = None,
    folder: Annotated[
        str | None, ui.option("Folder or s3://... [swapbias-runs/...].", "--out", under=_RUN)
    ] = None,
    resume: Annotated[str | None, ui.option("Continue the run in this folder.")] = None,
    dry_run: Annotated[
        bool, ui.option("As swapbias plan: score and send nothing.", "--dry-run")
    ] = False,
    like: Annotated[
        str | None, ui.option("Plan with spreads and speed of this run.", metavar="RUN")
    ] = None,
    no_cache: Annotated[
        bool, ui.option("Neither reuse scores nor save them for later.", "--no-cache")
    ] = False,
    trust: Annotated[bool, ui.option("Run code that a file names.", "--trust")] = False,
    verbose: ui.Verbose = False,
    **given: Any,
) -> None:
    """Audit models: swap one slot, compare, report.

    swapbias audit roberta-large --study gendered_stigma:rq1

    swapbias audit ./my-classifier --prompts my.csv --reference male

    swapbias audit --chat MODEL --base-url URL --study stigma_vignettes
    """
    earlier = _earlier_run(
        like, dry_run=dry_run
    )  # first: a study of the run may have the name of another
    from_m = ui.read_settings(model_settings)
    explicit = _explicit(context, from_m)
    given |= from_m
    of_table = {name: given[name] for name in OF_TABLE if name in explicit}
    cluster = {name: given[name] for name in ui.CLUSTER if name in given}
    how: dict[str, Any] = {"cache": not no_cache, "engine": ui.engine_of(cluster, resume or folder)}
    show: dict[str, Any] = {"own": cluster.get("own_store", False), "verbose": verbose}
    if resume:
        _refuse_others(explicit, _ALLOWED_WITH_RESUME, "--resume takes everything from the run")
        how |= {"trust": trust, _KEY: given.get(_KEY)}
        _run_and_show(
            lambda here, store, **more: runs.resume(here, store=store, **how, **more),
            resume,
            **show,
        )
        return
    file = _settings_file(models or ())
    if file:
        _refuse_others(explicit, _ALLOWED_WITH_FILE, f"{file} says what is audited and how")
        order = _from_file(file, given.get(_KEY), given["base_url"], trusted=trust or dry_run)
    else:
        order = _from_options(models, _studies(study, prompts, of_table), given, trust=trust)
    with runs.named_in_file(file) if file and order.manifest is None else nullcontext():
        if dry_run:
            _show_plan(order, earlier)
        else:
            _start(order, folder, how, show)


ui.add_flags(
    audit,
    {
        _ASK: ("study", "prompts", "reference", "limit", "margin", "wordings"),
        _MODEL: ("kind", "model_settings", "device", "dtype", "batch_size"),
        _CHAT: ("chat", "base_url", "trials", "max_cost"),
        _RUN: ("folder", "resume", "dry_run", "like", "no_cache", "seed", "trust", "verbose"),
    },
)


class _Order(NamedTuple):
    """What is audited: settings, the models if any are named, and the manifest of a run that is repeated."""

    settings: "runs.Settings"
    models: list[str]
    manifest: Mapping[str, Any] | None = None


def _explicit(context: typer.Context, from_m: Mapping[str, Any]) -> list[str]:
    """The names of what the command line says, of options and of keys of -M; a UsageError for one that is both."""
    sources = {
        name: context.get_parameter_source(name)
        for name in context.params
        if name != "model_settings"
    }
    options = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    for name in from_m:
        if name in options:
            raise UsageError(f"{name} is an option and a setting of -M. Drop one of them.")
    return [*options, *from_m]


def _settings_file(models: Sequence[str]) -> str:
    """The file among the models that says what is audited; blank without one."""
    files = [
        name for name in models if Path(name).suffix in (".toml", ".json") and Path(name).is_file()
    ]
    if files and len(models) > 1:
        raise UsageError(f"{files[0]} says which models are audited. Drop the others.")
    return files[0] if files else ""


def _from_options(
    models: Sequence[str] | None, studies: Sequence[str], given: Mapping[str, Any], *, trust: bool
) -> _Order:
    """What the options of a command ask; errors name settings as it writes them."""
    of_runs = (*OF_TABLE, *ui.CLUSTER)
    options = {name: value for name, value in given.items() if name not in of_runs}
    try:
        several = [runs.settings_of(model, studies, options) for model in models or (None,)]
    except SettingsError as error:
        raise ui.in_options(error) from None
    settings = several[0]
    if settings.load.trust_remote_code and not trust:
        raise UsageError(
            "-M trust-remote-code runs code of the model's maker. Read it, then add --trust."
        )
    return _Order(settings, [chosen.model for chosen in several if chosen.model])


def _show_plan(order: _Order, earlier: "findings.EarlierRun | None") -> None:
    """Say what the audit of each model would take."""
    for model in order.models or (None,):
        for sentence in plan_sentences(replace(order.settings, model=model), earlier):
            ui.show_text(sentence)
    ui.show("Nothing was loaded or sent.")


def _start(
    order: _Order, folder: str | None, how: Mapping[str, Any], show: Mapping[str, Any]
) -> None:
    """Audit the models, and show what was found."""
    settings, models, manifest = order
    is_several = len(models) > 1
    if is_several and folder and is_url(folder):
        raise UsageError(
            f"{folder} is in a store, which holds runs of one model each. Audit one model into each folder of it, or "
            "choose an --out on a file system that all machines share."
        )
    named = replace(settings, model=f"{len(models)}-models") if is_several else settings

    def start(here: Path, store: Any, **more: Any) -> Any:
        if is_several:
            return runs.audit_several(models, settings, here, **how, **more)
        return runs.start(settings, here, expected=manifest, store=store, **how, **more)

    _run_and_show(start, folder or str(runs.default_folder(named)), **show)


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
    code = command(
        [*(arguments or ()), "--dry-run"], prog_name="swapbias plan", standalone_mode=False
    )
    if code:  # of Ctrl-C
        raise typer.Exit(code)
    ui.show(f"Next    swapbias audit {join(_without_like(arguments or ()))}".rstrip())


def _earlier_run(like: str | None, *, dry_run: bool) -> "findings.EarlierRun | None":
    """The run whose spreads a plan takes; None: none is named."""
    if like is None:
        return None
    if not dry_run:
        raise UsageError(f"--like {like} is about a plan. Write swapbias plan, or add --dry-run.")
    return runs.earlier_run(hub.find_run(like))


def _without_like(arguments: Sequence[str]) -> list[str]:
    """The arguments of an audit: those of its plan without ``--like RUN``."""
    kept: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--like":
            next(left, None)
        elif not argument.startswith("--like="):
            kept.append(argument)
    return kept


def _from_file(
    file: str, api_key_env: str | None, base_url: str | None, *, trusted: bool
) -> _Order:
    """What an ``audit.toml`` or ``manifest.json`` asks; code that it names runs if ``trusted``."""
    how: dict[str, Any] = {"base_url": base_url, "fetch_study": hub.study_name}
    models, settings, manifest = runs.read_request(Path(file), api_key_env, **how)
    if manifest is not None:
        runs.check_code("The manifest", settings, manifest.get("models"), trust=trusted)
    if not (trusted or base_url):
        runs.check_keys(file if manifest is None else "The manifest", settings)
    for model in (models or (None,)) if manifest is None else ():
        runs.check_code(file, replace(settings, model=model), None, trust=trusted)
    return _Order(settings, models, manifest)


def _refuse_others(explicit: Sequence[str], allowed: Sequence[str], why: str) -> None:
    """Refuse options beside a run or file that has all of them already."""
    others = ["MODEL" if name == "models" else name for name in explicit if name not in allowed]
    if others:
        raise UsageError(f"{why}, and {listed(others)} is given. Drop the others.")


def _studies(
    study: list[str] | None, prompts: Path | None, of_table: Mapping[str, Any]
) -> list[str]:
    """The names of the studies; those of the user's own are opened."""
    names = hub.study_names(ui.split_commas(study))
    if prompts is not None:
        return [*names, hub.own_study(prompts, **of_table).name]
    if of_table:
        raise UsageError(
            "--reference, group, lexicon, unit, range, fixed and shared-fills are about own prompts. Add --prompts, "
            "or write them in the study.toml of a folder."
        )
    return names


def _run_and_show(work: Callable[..., Any], place: str, *, own: bool, verbose: bool) -> None:
    """Start or go on with an audit in a folder or store, and show what it found."""
    with ui.working_folder(place, own=own) as (here, store):
        try:
            with ui.stoppable(lambda: _stopped(here, store)), ui.progress() as bar:
                done = work(here, store, say=ui.say, bar=bar)
        except ServiceError as error:
            error.args = (f"{error} Go on with swapbias audit --resume {quote(place)}.",)
            raise
        if isinstance(done, tuple):
            _show(*done, verbose=verbose)
        else:
            _show_several(done)


def _stopped(folder: Path, store: Any) -> str:
    """What a stopped audit says: what was saved, where, and how to go on."""
    place = store.url if store else str(folder)
    if (folder / runs.MANIFEST).is_file():
        return (
            f"Stopped. What was scored is saved: go on with swapbias audit --resume {quote(place)}."
        )
    if any(folder.glob(f"*/{runs.MANIFEST}")):
        return f"Stopped. What was scored is saved in {place}: the same command goes on."
    return f"Stopped before anything was scored: nothing is saved in {place}. The same command begins anew."


def _show(run: "runs.Run", found: "Sequence[findings.Finding]", *, verbose: bool) -> None:
    """Verdicts, what was not run in one line, the report and the next step."""
    manifest = run.manifest()
    skipped = [runs.Skipped(**one) for one in manifest["skipped"]]
    not_run = skipped_note(
        skipped, {one.kind for one in map(findings.experiment_of, found) if one is not None}
    )
    ui.show(f"\n{report.render_terminal(found, verbose=verbose)}")
    ui.show_text(f"\n{not_run}".rstrip())
    ui.show(f"Report  {run.place}/report.html")
    demo = any(one["model_id"] == "calibration" for one in manifest["models"])
    gate = f"swapbias check {run.place}{_margin_comment(found)}"
    ui.show(f"Next    {'swapbias audit YOUR_MODEL' if demo else gate}")


def _margin_comment(found: "Sequence[findings.Finding]") -> str:
    """Return the margin that a gate would read, as a comment; blank where the gaps have several, or none."""
    from swapbias.report import numbers

    margins = {
        numbers.format_margin(one)
        for one in findings.primary_findings(found)
        if not math.isnan(one.margin)
    }
    return f"  # no gap above {margins.pop()}" if len(margins) == 1 else ""


def _show_several(done: "runs.Several") -> None:
    """The comparison, a report for each model, and those that failed: exit 1 where any did."""
    if done.compared:
        show_comparison(done.compared)
        ui.show(f"Comparison: {done.folder / 'comparison' / 'report.html'}")
    for run in done.runs.values():
        ui.show(f"Report: {run.folder / 'report.html'}")
    for model, why in done.failed.items():
        ui.show(f"Failed: {model}: {why}")
    if done.failed:
        count = f"{len(done.failed):,} of {len(done.failed) + len(done.runs):,} models failed"
        ui.say(f"{count}. Run the same command to try them again")
        raise typer.Exit(1)


def plan_sentences(
    settings: "runs.Settings", earlier: "findings.EarlierRun | None" = None
) -> Iterator[str]:
    """Sentences: each experiment with its prompts, what asking takes, what it could find, and what would not run.

    Args:
        settings: of the audit.
        earlier: a run whose spreads and speed are taken.

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
    chosen = {
        f"As a {name} model:": (replace(settings, kind=name), name)
        for name in fitting or auto.model_kinds()
    }
    yield from _kind_sentences(chosen, earlier)


def _fits(settings: "runs.Settings", kind: str) -> bool:
    """Whether a model of this kind reads any experiment."""
    try:
        runs.plan_tasks(replace(settings, kind=kind), kind=kind)
    except UsageError:
        return False
    return True


def _kind_sentences(
    chosen: "Mapping[str, tuple[runs.Settings, str | None]]", earlier: "findings.EarlierRun | None"
) -> Iterator[str]:
    """Sentences on the plan of a model of each kind, each below its title; kind None: no model is named."""
    from swapbias.report import planning_text

    plans = []
    for title, (settings, kind) in chosen.items():
        tasks, skipped = runs.plan_tasks(settings, kind=kind)
        plans.append((title, settings, tasks, skipped, _planned_gaps(tasks, earlier)))
    together = [gap for *_, planned in plans for gaps in planned for gap in gaps]
    if earlier and not any(gap.is_matched for gap in together):
        has = listed(
            dict.fromkeys(f"{gap.finding.study} {gap.finding.experiment}" for gap in earlier.gaps)
        )
        raise UsageError(
            f"{earlier.name} has none of the gaps of this plan, but those of {has}. Name a run of the same "
            "experiment, or of own prompts with the same random factors."
        )
    for title, settings, tasks, skipped, planned in plans:
        yield from filter(None, [title])
        yield from _task_sentences(settings, tasks, planned, earlier)
        yield from filter(
            None,
            (runs.partial_note(tasks), skipped_note(skipped, (task.kind.name for task in tasks))),
        )
    yield from filter(None, [planning_text.unknown_spreads(together)])


def _planned_gaps(
    tasks: "Sequence[runs.Task]", earlier: "findings.EarlierRun | None"
) -> "list[list[findings.PlannedGap]]":
    """The primary gaps of each task of one run."""
    planned = [
        findings.PlannedExperiment(
            task.study, task.experiment, task.rows[: task.n_prompts], task.model
        )
        for task in tasks
    ]
    return findings.plan_gaps(planned, earlier)


def _task_sentences(
    settings: "runs.Settings",
    tasks: "Sequence[runs.Task]",
    planned: "Sequence[Sequence[findings.PlannedGap]]",
    earlier: "findings.EarlierRun | None",
) -> Iterator[str]:
    """Sentences on the tasks of one run."""
    seen: set[str] = set()  # a text is sent once, whoever reads it
    for task, gaps in zip(tasks, planned, strict=True):
        beside = (
            f" and {len(task.rows) - task.n_prompts} control prompts"
            if len(task.rows) > task.n_prompts
            else ""
        )
        takes = task.kind.announce(task.rows, settings, task.experiment, seen)
        model = model_names.planned_name(task.model, settings.load)
        name = f"{task.study.name} {task.experiment.name}: {task.n_prompts} prompts{beside} for {model}"
        yield "; ".join(filter(None, (name, takes)))
        yield from filter(None, [runs.announced(task, settings)])
        calls = "" if takes else task.kind.calls(task.experiment, task.rows)
        design = "; ".join(filter(None, (design_note(task.experiment, gaps), calls)))
        yield from [f"{design}."] if design else []
        yield from design_details(gaps, len(task.rows), earlier)
    yield from runs.repeat_notes(tasks)
    yield from filter(None, [runs.control_note(tasks, settings)])


def skipped_note(skipped: "Sequence[runs.Skipped]", ran: Iterable[str]) -> str:
    """What was not run, by reason (of kinds of models that none ``ran`` a count), and remarks on the rest."""
    ran = set(ran)
    others = Counter[str]()
    reasons = dict[str, list[str]]()
    broken = catalogue.unreadable_studies()
    for one in (
        each for each in skipped if not each.experiment.startswith(manifest_schema.PART_OF)
    ):
        experiments = () if one.study in broken else catalogue.outline(one.study).experiments
        known = (each.kind for each in experiments if each.name == one.experiment)
        if (kind := next(known, "")) and kind not in ran:
            others[kind] += 1
        else:
            reasons.setdefault(one.reason, []).append(f"{one.study} {one.experiment}")
    parts = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
    if others:
        counted = ", ".join(f"{count} {name}" for name, count in others.items())
        need = "experiment needs" if others.total() == 1 else "experiments need"
        parts.append(f"{others.total()} {need} another kind of model: {counted} (swapbias list)")
    remarks = dict.fromkeys(
        one.reason for one in skipped if one.experiment.startswith(manifest_schema.PART_OF)
    )
    not_run = f"Not run: {'; '.join(parts)}." if parts else ""
    return " ".join(
        filter(None, (not_run, f"Of what was read: {'; '.join(remarks)}." if remarks else ""))
    )


def study_designs(corpus: "studies.Corpus") -> Iterator[str]:
    """Of each experiment of a user's own study how many prompts it has, and the smallest gap that it could find."""
    from swapbias.report import planning_text

    study = corpus.study
    if study is None:
        return
    rows = {
        one.name: studies.config_rows(corpus, one.reads.configs[0]) for one in study.experiments
    }
    for experiment in study.experiments:
        # Each is asked of another kind of model.
        (gaps,) = findings.plan_gaps(
            [findings.PlannedExperiment(study, experiment, rows[experiment.name])]
        )
        count = len(rows[experiment.name])
        yield f"{corpus.name} {experiment.name}: {count} prompts; {design_note(experiment, gaps)}."
        yield from design_details(gaps, count)
        yield from filter(None, [planning_text.unknown_spreads(gaps)])


def design_note(experiment: "studies.Experiment", gaps: "Sequence[findings.PlannedGap]") -> str:
    """What a planned gap is over, and how large one must be to be found; blank where none is compared."""
    from swapbias.report import planning_text

    if not experiment.compares.measure:
        return ""
    return "; ".join(
        filter(None, (planning_text.planned_counts(gaps), planning_text.planned_power(gaps)))
    )


def design_details(
    gaps: "Sequence[findings.PlannedGap]",
    prompts: int,
    earlier: "findings.EarlierRun | None" = None,
) -> Iterator[str]:
    """What is assumed of planned gaps, how long their prompts take, and how many templates other gaps need."""
    from swapbias.report import planning_text

    if not gaps:
        return
    if earlier:
        yield from filter(None, [planning_text.without_spreads(gaps, earlier.name)])
    yield from planning_text.planned_basis(gaps)
    seconds = math.nan
    if earlier and any(gap.is_matched for gap in gaps):  # other prompts take other times
        yield from filter(None, [planning_text.planned_time(prompts, earlier)])
        seconds = earlier.seconds_a_prompt
    yield from planning_text.planned_table(gaps, prompts, seconds)
