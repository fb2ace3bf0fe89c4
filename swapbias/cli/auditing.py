"""swapbias audit and plan: from models to reports, and what that would take."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NamedTuple

import typer

from swapbias import findings, hub, report, runs
from swapbias.cli import progress_bars, terminal as ui
from swapbias.cli.completion import complete_studies
from swapbias.cli.finished_runs import show_comparison
from swapbias.cli.plans import earlier_run, plan_sentences, skipped_note
from swapbias.errors import ServiceError, UsageError, listed
from swapbias.files import is_url
from swapbias.models import SettingsError

PROMPT_OPTIONS = ui.names_of(runs.PromptOptions)
_KEY = "api_key_env"  # never in a manifest, so it may be given beside a run or file
_ALLOWED_WITH_RESUME = ("resume", "no_cache", "trust", "verbose", _KEY, *ui.CLUSTER)
_ALLOWED_WITH_FILE = (*_ALLOWED_WITH_RESUME, "models", "folder", "dry_run", "like", "base_url")
_MODELS = (
    "Hub id (OWNER/NAME[@REVISION]), folder, vader, module:function; audit.toml or manifest.json. "
    "Without a model and a study: a demonstration."
)
_ASK = "What to ask"
_MODEL = "The model"
_CHAT = "Chat models"
_RUN = "Run and output"


def audit(
    context: typer.Context,
    models: Annotated[ui.Names, ui.argument("MODEL", _MODELS)] = None,
    study: Annotated[
        ui.Names,
        ui.option(
            "NAME[:EXPERIMENT], folder, OWNER/NAME; repeatable.",
            under=_ASK,
            autocompletion=complete_studies,
        ),
    ] = None,
    prompts: Annotated[
        Path | None, ui.option("Your prompts: a file with text, group, pair.", metavar="FILE")
    ] = None,
    model_settings: ui.ModelSettings = None,
    folder: Annotated[
        str | None,
        ui.option("Folder or s3://... [swapbias-runs/...].", "--out", under=_RUN, metavar="FOLDER"),
    ] = None,
    resume: Annotated[
        str | None, ui.option("Continue the run in this folder.", metavar="RUN")
    ] = None,
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
    **options: Any,
) -> None:
    """Audit models: swap one slot, compare, report.

    swapbias audit roberta-large --study gendered_stigma:rq1

    swapbias audit ./my-classifier --prompts my.csv --reference male

    swapbias audit --chat MODEL --base-url URL --study stigma_vignettes
    """
    from swapbias.runs import audit_file

    # Before --study is read: opening a run registers its own studies, which may have the same names.
    earlier = earlier_run(like, dry_run=dry_run)
    model_options = ui.read_settings(model_settings)
    explicit = _explicit(context, model_options)
    options |= model_options
    prompt_options = {name: options[name] for name in PROMPT_OPTIONS if name in explicit}
    cluster = {name: options[name] for name in ui.CLUSTER if name in options}
    engine = ui.engine_of(cluster, resume or folder)
    is_own_store = cluster.get("own_store", False)
    key_name = options.get(_KEY)
    if resume:
        _refuse_others(explicit, _ALLOWED_WITH_RESUME, "--resume takes everything from the run")

        def work(here: Path, store: Any, **shown_by: Any) -> Any:
            return runs.resume(
                here,
                store=store,
                cache=not no_cache,
                engine=engine,
                trust=trust,
                api_key_env=key_name,
                **shown_by,
            )

        _run_and_show(work, resume, own_store=is_own_store, verbose=verbose)
        return
    file = _settings_file(models or ())
    if file:
        _refuse_others(explicit, _ALLOWED_WITH_FILE, f"{file} says what is audited and how")
        # A dry run loads nothing, so code that a file names need not be trusted.
        request = _from_file(file, key_name, options["base_url"], trusted=trust or dry_run)
    else:
        names = _study_names(study, prompts, prompt_options)
        request = _from_options(models, names, options, trust=trust)
    names_settings: AbstractContextManager[None] = nullcontext()
    if file and request.manifest is None:
        names_settings = audit_file.named_in_file(file)
    with names_settings:
        if dry_run:
            _show_plan(request, earlier)
        else:
            work, target = _planned_work(request, folder, cache=not no_cache, engine=engine)
            _run_and_show(work, target, own_store=is_own_store, verbose=verbose)


ui.add_flags(
    audit,
    {
        _ASK: ("study", "prompts", "reference", "limit", "margin", "wordings"),
        _MODEL: ("kind", "model_settings", "device", "dtype", "batch_size"),
        _CHAT: ("chat", "base_url", "trials", "max_cost", "judge"),
        _RUN: ("folder", "resume", "dry_run", "like", "no_cache", "seed", "trust", "verbose"),
    },
)


class _AuditRequest(NamedTuple):
    """Settings, models and manifest that an audit was called with."""

    settings: "runs.Settings"
    """Settings of the first model."""
    models: list[str]
    """Names of models; none: the demonstration's."""
    manifest: Mapping[str, Any] | None = None
    """Manifest of the run that is repeated; None where none is."""


def _explicit(context: typer.Context, model_options: Mapping[str, Any]) -> list[str]:
    """List the options and keys of -M that the command line sets; refuse one that is both (UsageError)."""
    options = []
    for name in context.params:
        source = context.get_parameter_source(name)
        if name != "model_settings" and source and source.name == "COMMANDLINE":
            options.append(name)
    for name in model_options:
        if name in options:
            raise UsageError(f"{name} is an option and a setting of -M. Drop one of them.")
    return [*options, *model_options]


def _settings_file(models: Sequence[str]) -> str:
    """Return the file among the models that says what is audited; blank without one."""
    files = [name for name in models if _is_settings_file(Path(name))]
    if files and len(models) > 1:
        raise UsageError(f"{files[0]} says which models are audited. Drop the others.")
    return files[0] if files else ""


def _is_settings_file(path: Path) -> bool:
    """Return whether a path is of an ``audit.toml`` or ``manifest.json``."""
    return path.suffix in (".toml", ".json") and path.is_file()


def _from_options(
    models: Sequence[str] | None, studies: Sequence[str], options: Mapping[str, Any], *, trust: bool
) -> _AuditRequest:
    """Read the options of a command; errors name a setting by its option."""
    other_options = (*PROMPT_OPTIONS, *ui.CLUSTER)
    audit_options = {name: value for name, value in options.items() if name not in other_options}
    try:
        by_model = [runs.settings_of(model, studies, audit_options) for model in models or (None,)]
    except SettingsError as error:
        raise ui.in_options(error) from None
    if by_model[0].load.trust_remote_code and not trust:
        raise UsageError(
            "-M trust-remote-code runs code of the model's maker. Read it, then add --trust."
        )
    return _AuditRequest(by_model[0], [settings.model for settings in by_model if settings.model])


def _show_plan(request: _AuditRequest, earlier: "findings.EarlierRun | None") -> None:
    """Say what the audit of each model would take."""
    for model in request.models or (None,):
        for sentence in plan_sentences(replace(request.settings, model=model), earlier):
            ui.show_text(sentence)
    ui.show("Nothing was loaded or sent.")


def _planned_work(
    request: _AuditRequest, folder: str | None, *, cache: bool, engine: Any
) -> tuple[Callable[..., Any], str]:
    """Return the function that audits the models, and the folder or store that it writes to."""
    from swapbias.runs import run_folders

    settings, models, manifest = request
    if len(models) <= 1:

        def audit_one(here: Path, store: Any, **shown_by: Any) -> Any:
            return runs.start(
                settings,
                here,
                expected=manifest,
                store=store,
                cache=cache,
                engine=engine,
                **shown_by,
            )

        return audit_one, folder or str(run_folders.default_folder(settings))
    if folder and is_url(folder):
        raise UsageError(
            f"{folder} is in a store, which contains runs of one model each. Audit one model into each folder, or "
            "choose an --out on a file system that all machines share."
        )

    def audit_several(here: Path, store: Any, **shown_by: Any) -> Any:
        return runs.audit_several(models, settings, here, cache=cache, engine=engine, **shown_by)

    name_of_several = replace(settings, model=f"{len(models)}-models")
    return audit_several, folder or str(run_folders.default_folder(name_of_several))


def _from_file(
    file: str, api_key_env: str | None, base_url: str | None, *, trusted: bool
) -> _AuditRequest:
    """Read an ``audit.toml`` or ``manifest.json``; code that it names runs if ``trusted``."""
    from swapbias.runs import audit_file, scorers

    models, settings, manifest = audit_file.read_request(
        Path(file), api_key_env, base_url=base_url, fetch_study=hub.study_name
    )
    source = file if manifest is None else "The manifest"
    if manifest is not None:
        scorers.check_code(source, settings, manifest.get("models"), trust=trusted)
    if not (trusted or base_url):
        scorers.check_keys(source, settings)
    if manifest is None:
        for model in models or (None,):
            scorers.check_code(file, replace(settings, model=model), None, trust=trusted)
    return _AuditRequest(settings, models, manifest)


def _refuse_others(explicit: Sequence[str], allowed: Sequence[str], reason: str) -> None:
    """Refuse options beside a run or file that has all of them already."""
    others = ["MODEL" if name == "models" else name for name in explicit if name not in allowed]
    if others:
        raise UsageError(f"{reason}, and {listed(others)} is given. Drop the others.")


def _study_names(
    study: list[str] | None, prompts: Path | None, prompt_options: Mapping[str, Any]
) -> list[str]:
    """Return the names of the studies; those of the user's own are opened."""
    names = hub.study_names(ui.split_commas(study))
    if prompts is not None:
        return [*names, hub.own_study(prompts, **prompt_options).name]
    if prompt_options:
        raise UsageError(
            "--reference, group, lexicon, unit, range, fixed and shared-fills are about own prompts. Add --prompts, "
            "or write them in the study.toml of a folder."
        )
    return names


# --- what is shown ----------------------------------------------------------------------------------------


def _run_and_show(
    work: Callable[..., Any], place_name: str, *, own_store: bool, verbose: bool
) -> None:
    """Start or go on with an audit in a folder or store, and show what it found."""
    with ui.working_folder(place_name, is_own=own_store) as (here, store):
        started = time.monotonic()
        try:
            with (
                ui.stoppable(lambda: _stop_sentence(here, store)),
                progress_bars.show_bars() as bar,
            ):
                outcome = work(here, store, say=ui.say, bar=bar)
        except ServiceError as error:
            error.args = (f"{error} Continue with swapbias audit --resume {quote(place_name)}.",)
            raise
        if isinstance(outcome, tuple):
            _show_run(*outcome, verbose=verbose, seconds=time.monotonic() - started)
        else:
            _show_several(outcome)


def _stop_sentence(folder: Path, store: Any) -> str:
    """Say that an audit stopped: what was saved, where, and how to go on."""
    saved_in = store.url if store else str(folder)
    if (folder / runs.MANIFEST).is_file():
        return f"Stopped. What was scored is saved: continue with swapbias audit --resume {quote(saved_in)}."
    if any(folder.glob(f"*/{runs.MANIFEST}")):
        return f"Stopped. What was scored is saved in {saved_in}: run the same command again to resume."
    return (
        f"Stopped before anything was scored: nothing is saved in {saved_in}. "
        "Run the same command again to start over."
    )


def _show_run(
    run: "runs.Run", rows: "Sequence[findings.Finding]", *, verbose: bool, seconds: float
) -> None:
    """Show verdicts, what was not run in one line, the report and the next step."""
    from swapbias.runs import demonstration

    manifest = run.manifest()
    skipped = [runs.Skipped(**entry) for entry in manifest["skipped"]]
    if demonstration.is_demonstration(runs.Settings.from_manifest(manifest["settings"])):
        _show_demonstration(run, rows, skipped, verbose=verbose, seconds=seconds)
        return
    experiments = [findings.experiment_of(finding) for finding in rows]
    kinds = {experiment.kind for experiment in experiments if experiment is not None}
    not_run = skipped_note(skipped, kinds)
    ui.show(f"\n{report.render_terminal(rows, verbose=verbose)}")
    ui.show_text(f"\n{not_run}".rstrip())
    ui.show(f"Report  {run.place}/report.html")
    if any(pin["model_id"] == "calibration" for pin in manifest["models"]):
        ui.show("Next    swapbias audit YOUR_MODEL")
    else:
        ui.show(f"Next    swapbias check {run.place}{_margin_comment(rows)}")


def _show_demonstration(
    run: "runs.Run",
    rows: "Sequence[findings.Finding]",
    skipped: "Sequence[runs.Skipped]",
    *,
    verbose: bool,
    seconds: float,
) -> None:
    """Show what the demonstration planted and found, how long it took, the report and the next step."""
    from swapbias.report import demonstration_text

    items = {study: run.items(study) for study in {finding.study for finding in rows}}
    ui.show(f"\n{demonstration_text.render_demonstration(rows, items)}")
    if verbose:
        ui.show(f"\n{report.render_terminal(rows, verbose=True)}")
    ui.show("")
    for entry in skipped:
        ui.show_text(f"Not shown: {entry.reason}.")
    page = run.folder / runs.REPORT
    ui.show(f"Time    {seconds:.0f} seconds")
    ui.show(f"Report  {run.place if run.address else page.resolve().as_uri()}")
    ui.show("Next    swapbias audit YOUR_MODEL")


def _margin_comment(rows: "Sequence[findings.Finding]") -> str:
    """Return the margin that a gate would read, as a comment; blank where the gaps have several, or none."""
    from swapbias.report import numbers

    primary = findings.primary_findings(rows)
    with_margin = [finding for finding in primary if not math.isnan(finding.margin)]
    margins = {numbers.format_margin(finding) for finding in with_margin}
    if len(margins) != 1:
        return ""
    return f"  # tests whether the gap is below {margins.pop()}"


def _show_several(several: "runs.Several") -> None:
    """Show the comparison, a report for each model, and those that failed: exit 1 where any did."""
    if several.compared:
        show_comparison(several.compared)
        ui.show(f"Comparison: {several.folder / 'comparison' / 'report.html'}")
    for run in several.runs.values():
        ui.show(f"Report: {run.folder / 'report.html'}")
    for model, reason in several.failed.items():
        ui.show(f"Failed: {model}: {reason}")
    if several.failed:
        failed = len(several.failed)
        total = failed + len(several.runs)
        ui.say(f"{failed:,} of {total:,} models failed. Run the same command to try them again")
        raise typer.Exit(1)
