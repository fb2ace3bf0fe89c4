"""swapbias audit and plan: from models to reports, and what that would take."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swapbias.cli.finished_runs import comparison_record, show_comparison
from swapbias.cli.listing import CLUSTER, RUN, ModelSettings, engine_of, read_settings
from swapbias.cli.terminal import (
    AsJson,
    Verbose,
    out,
    progress,
    say,
    show,
    show_json,
    show_text,
    split_commas,
    stoppable,
    working_folder,
)
from swapbias.errors import UsageError
from swapbias.files import is_url
from swapbias.models import FLAGS, LoadOptions, kinds, model_kinds, settable

if TYPE_CHECKING:
    from swapbias.findings import Finding
    from swapbias.runs import Run, Settings, Several
    from swapbias.store import Store

_SECRET = ("api_key_env", "plain_http")  # what no manifest says
_WITH_RESUME = ("resume", "no_cache", "allow_pickle", "trust", "as_json", "verbose", *_SECRET, *CLUSTER)
_WITH_FILE = (*_WITH_RESUME, "models", "folder", "dry_run")
_MOST_SHOWN = 20  # models whose numbers and reports a terminal lists; of more it names the folder
_ASKED, _MODEL, _CHAT, _RUN = "What to ask", "The model", "Chat models", "Run and output"


def _option(help: str, *names: str, under: str = _RUN, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=under, **more)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with those options of models that are no settings of ``-M``, in place of its ``**options``."""
    parameters = dict(inspect.signature(command).parameters)
    del parameters["options"]
    rest = {name: parameters.pop(name) for name in [*parameters][list(parameters).index("folder") :]}
    every: list[Any] = [LoadOptions, *(one.options for one in kinds() if one.options)]
    for made in every:
        for one, hint in settable(made):
            more, name = one.metadata, one.metadata.get("name", one.name)
            if name in FLAGS:
                under = _MODEL if made is LoadOptions else _CHAT
                limits = {"min": more.get("least"), "max": more.get("most")}
                flag = _option(more["help"], f"--{name.replace('_', '-')}", under=under, **limits)
                parameters[name] = inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=Annotated[hint, flag]
                )
    every_one = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (parameters | rest).values()]
    command.__signature__ = inspect.Signature(every_one)  # type: ignore[attr-defined]
    return command


@dataclass(frozen=True, slots=True)
class _Request:
    """What is to be audited: settings, the run names by model, the manifest to repeat, and who names what code."""

    settings: "Settings"
    models: Mapping[str, str]
    manifest: Mapping[str, Any] | None = None
    file: str = ""  # that names models, which may be anybody's
    from_file: Iterable[str | None] = ()


@with_options
def audit(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="Hub id (OWNER/NAME[@REVISION]), folder, vader, module:function; models.txt (a model a line), "
            "audit.toml or manifest.json. Without a model: a four-minute demonstration.",
        ),
    ] = None,
    study: Annotated[
        list[str] | None,
        _option("NAME[:EXPERIMENT], own folder or OWNER/NAME on the Hub; repeatable.", under=_ASKED),
    ] = None,
    prompts: Annotated[Path | None, _option("Your prompts: CSV with text, group, pair.", under=_ASKED)] = None,
    reference: Annotated[str, _option("Own prompts: the group that is subtracted.", under=_ASKED)] = "",
    limit: Annotated[int | None, _option("Most prompts of an experiment; whole pairs.", under=_ASKED, min=1)] = None,
    margin: Annotated[
        float | None,
        _option("Largest gap that counts as none, a share [default: 0.05].", under=_ASKED, min=0, max=1),
    ] = None,
    wordings: Annotated[
        bool | None,
        _option("Five other wordings too [default: if fast].", "--wordings/--no-wordings", under=_ASKED),
    ] = None,
    kind: Annotated[str | None, _option(f"{', '.join(model_kinds())}; if not detected.", under=_MODEL)] = None,
    revision: Annotated[str | None, _option("Branch, tag or commit on the Hub.", under=_MODEL)] = None,
    model_settings: ModelSettings = None,
    folder: Annotated[
        str | None,
        _option("Folder of the run, or s3://BUCKET/FOLDER [default: in swapbias-runs].", "--out", metavar="PATH"),
    ] = None,
    resume: Annotated[str | None, _option("Go on with the run in this folder.", metavar="PATH")] = None,
    dry_run: Annotated[bool, _option("As swapbias plan: score and send nothing.", "--dry-run")] = False,
    no_cache: Annotated[bool, _option("Neither reuse scores nor save them for later.", "--no-cache")] = False,
    seed: Annotated[int, _option("Seed of resampling and of the demonstration.", min=0)] = 0,
    trust: Annotated[bool, _option("Run code and pickles that a run or file names.", "--trust")] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Audit models: swap one slot, compare, report.

    swapbias audit roberta-large --study gendered_stigma:rq1

    swapbias audit ./my-classifier --prompts my.csv --reference male

    swapbias audit --chat MODEL --base-url URL --study stigma_vignettes
    """
    options |= (more := read_settings(model_settings))
    explicit = [name for name in context.params if name != "model_settings" and _is_explicit(context, name)] + [*more]
    run = {name: options.pop(name) for name in RUN if name in options}
    engine = engine_of(run, resume or folder)
    secret = {name: options[name] for name in _SECRET if name in explicit}
    how: dict[str, Any] = {"cache": not no_cache, "engine": engine}
    if resume:
        _only_these(explicit, _WITH_RESUME, "--resume takes everything from the run")
        how |= {"trust": trust, "allow_pickle": options.get("allow_pickle", False), "access": secret}
        with working_folder(resume, own=run.get("own_store", False)) as (here, store):
            _resume(here, store, as_json, verbose, **how)
        return
    options["allow_pickle"] = trust or options.get("allow_pickle", False)
    files = [one for one in models or () if Path(one).suffix in (".toml", ".json") and Path(one).is_file()]
    if files and len(models or ()) > 1:
        raise UsageError(f"{files[0]} says which models are audited. Drop the others.")
    if files:
        _only_these(explicit, _WITH_FILE, f"{files[0]} says what is audited and how")
        request = _from_file(files[0], secret, allow_pickle=options["allow_pickle"])
    else:
        settings = {"kind": kind, "limit": limit, "seed": seed, "margin": margin, "wordings": wordings}
        request = _from_options(models or (), _studies(study, prompts, reference, run), options, revision, **settings)
        remote = request.settings.load.trust_remote_code
        if remote and not trust:
            raise UsageError("-M trust-remote-code runs code of the model's maker. Read it, then add --trust.")
        if trust and not (request.file or remote):
            raise UsageError(
                "--trust is for the code that a run or a file names, and no --resume, manifest, audit.toml or list "
                "of models is given. Drop it."
            )
    if dry_run:
        for one in request.models or (None,):
            _show_plan(replace(request.settings, model=one))
        return
    _check_trusted(request, trust=trust)
    if len(request.models) > 1:
        _audit_several(request, folder, as_json, verbose, **how)
    else:
        _audit_one(request, folder, as_json, verbose, own=run.get("own_store", False), **how)


def plan(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help="As swapbias audit --help says.")
    ] = None,
) -> None:
    """Say what an audit takes and could find.

    It takes the models, files and options of swapbias audit, as swapbias audit --help explains them.
    """
    program: Any = context.find_root().command
    command = program.get_command(context, "audit")
    code = command([*(arguments or ()), "--dry-run"], prog_name="swapbias plan", standalone_mode=False)
    if code:  # of Ctrl-C
        raise typer.Exit(code)
    show(f"Next    swapbias audit {join(arguments or ())}".rstrip())


def _from_options(
    names: Sequence[str], studies: Sequence[str], options: Mapping[str, Any], revision: str | None, **more: Any
) -> _Request:
    """Models and settings of the command line; a .txt file lists models, some with the name of their run."""
    from swapbias.runs import read_models, settings_of

    lists = [one for one in names if Path(one).suffix == ".txt"]
    if len(lists) > 1:
        raise UsageError(f"{' and '.join(lists)} both list models, expected one list. Join them.")
    listed = read_models(Path(lists[0])) if lists else {}
    every = [*(one for one in names if one not in lists), *listed]
    if revision is not None and len(every) > 1:
        raise UsageError("--revision is of one model, and several are named. Name each as OWNER/NAME@REVISION.")
    each = [settings_of(one, studies, options, revision=revision, **more) for one in every or (None,)]
    models = _unique([one.model for one in each if one.model])
    from_list = {one.model: name for one, name in zip(each, every, strict=False) if one.model and name in listed}
    models |= {model: listed[name] for model, name in from_list.items()}
    return _Request(each[0], models, file=lists[0] if lists else "", from_file=from_list)


def _from_file(file: str, secret: Mapping[str, Any], *, allow_pickle: bool) -> _Request:
    """Models and settings of an ``audit.toml``, or those of a run by its ``manifest.json``."""
    from swapbias.runs import read_request, with_access

    names, settings, manifest = read_request(Path(file))
    settings = with_access(replace(settings, load=replace(settings.load, allow_pickle=allow_pickle)), secret)
    return _Request(settings, _unique(names), manifest, file, names or (None,))


def _unique(models: Sequence[str]) -> dict[str, str]:
    for one in models:
        if models.count(one) > 1:
            raise UsageError(f"{one} is named twice, expected each model once. Drop one of them.")
    return dict.fromkeys(models, "")


def _check_trusted(request: _Request, *, trust: bool) -> None:
    """Refuse code that a file names and the user has not trusted: the file may be anybody's."""
    from swapbias.runs import check_code, check_keys

    if request.manifest is not None:
        check_code("The manifest", request.settings, request.manifest.get("models"), trust=trust)
        if not trust:
            check_keys("The manifest", request.settings)
    else:
        for one in request.from_file:
            check_code(request.file, replace(request.settings, model=one), None, trust=trust)


def _only_these(explicit: Sequence[str], allowed: Sequence[str], why: str) -> None:
    """Refuse options beside what says everything already."""
    others = ["MODEL" if name == "models" else name for name in explicit if name not in allowed]
    if others:
        raise UsageError(f"{why}, and {', '.join(others)} is given. Drop the others.")


def _studies(study: list[str] | None, prompts: Path | None, reference: str, run: Mapping[str, Any]) -> list[str]:
    """The names of the studies; those of the user's own are opened."""
    from swapbias.hub import own_study, study_name

    names = [study_name(one) for one in split_commas(study)]
    if prompts is not None:
        words = {"group": run.get("group", ""), "lexicon": run.get("lexicon")}
        return [*names, own_study(prompts, reference=reference, **words).name]
    if reference or "group" in run or "lexicon" in run:
        raise UsageError("--reference, group and lexicon are about own prompts. Add --prompts.")
    return names


def _audit_one(request: _Request, folder: str | None, as_json: bool, verbose: bool, *, own: bool, **how: Any) -> None:
    from swapbias.runs import default_folder, start

    place = folder or str(default_folder(request.settings))
    with working_folder(place, own=own) as (here, store):
        with stoppable(lambda: _stopped(here, store)), progress() as bar:
            run, found = start(
                request.settings, here, say=say, bar=bar, expected=request.manifest, store=store, **how
            )
        _show(run, found, as_json, verbose)


def _audit_several(request: _Request, folder: str | None, as_json: bool, verbose: bool, **how: Any) -> None:
    from swapbias.runs import audit_several, default_folder

    if folder and is_url(folder):
        raise UsageError(
            f"{folder} is in a store, which holds runs of one model each. Audit one model into each folder of it, or "
            "choose an --out on a file system that all machines share."
        )
    settings, models = request.settings, request.models
    place = Path(folder) if folder else default_folder(replace(settings, model=f"{len(models)}-models"))
    with stoppable(lambda: _stopped(place)), progress() as bar:
        done = audit_several(models, settings, place, say=say, bar=bar, **how)
    _show_several(done, as_json, verbose)


def _resume(folder: Path, store: "Store | None", as_json: bool, verbose: bool, **how: Any) -> None:
    """Go on with a run, or the runs of several models."""
    from swapbias.runs import is_several, resume, resume_several

    several = is_several(folder)
    with stoppable(lambda: _stopped(folder, store)), progress() as bar:
        if several:
            done = resume_several(folder, say=say, bar=bar, **how)
        else:
            run, found = resume(folder, say=say, bar=bar, store=store, **how)
    if several:
        _show_several(done, as_json, verbose)
    else:
        _show(run, found, as_json, verbose)


def _stopped(folder: Path, store: "Store | None" = None) -> str:
    """What a stopped audit says: what was saved, where, and how to go on."""
    from swapbias.runs import MANIFEST, is_several

    place = str(store or folder)
    if not is_several(folder) and not (folder / MANIFEST).is_file():
        return f"Stopped before anything was scored: nothing is saved in {place}. The same command begins anew."
    command = f"swapbias audit --resume {quote(place)}"
    return f"Stopped. What was scored is saved: go on with {command}."


def _show(run: "Run", found: "Sequence[Finding]", as_json: bool, verbose: bool) -> None:
    """Verdicts, what was not run in one line, the report and the next step."""
    from swapbias.findings import comparisons, experiment_of, findings_table
    from swapbias.report import comparison_tables, terminal
    from swapbias.runs import Skipped, skipped_note

    manifest = run.manifest()
    skipped = [Skipped(**one) for one in manifest["skipped"]]
    not_run = skipped_note(skipped, {one.kind for one in map(experiment_of, found) if one is not None})
    if as_json:
        table = findings_table(comparisons(found)).to_dict("records")
        show_json({"run": str(run.place), "findings": table, "not_run": not_run})
        return
    show(f"\n{terminal(found, verbose=verbose)}")
    for table in comparison_tables(found) if verbose else ():
        out.print(table)
    show_text(f"\n{not_run}".rstrip())
    show(f"Report  {run.place}/report.html")
    demo = manifest["settings"].get("model") is None
    show(f"Next    swapbias {'audit YOUR_MODEL' if demo else f'check {run.place} --max-gap 0.05'}")


def _show_several(done: "Several", as_json: bool, verbose: bool) -> None:
    """The comparison, a report for each model, and those that failed: exit 1 where any did."""
    reports = {model: str(run.folder / "report.html") for model, run in done.runs.items()}
    if as_json:
        record = comparison_record(done.compared) if done.compared else {}
        show_json({"folder": str(done.folder), "reports": reports, "failed": done.failed, "comparison": record})
    else:
        few = len(reports) <= _MOST_SHOWN
        if done.compared and few:
            show_comparison(done.compared, verbose=verbose)
        if done.compared:
            show(f"Comparison: {done.folder / 'comparison' / 'report.html'}")
        for path in reports.values() if few else ():
            show(f"Report: {path}")
        if not few:
            show(f"Reports: {len(reports):,} folders in {done.folder}")
        for model, why in done.failed.items():
            show(f"Failed: {model}: {why}")
    if done.failed:
        count = f"{len(done.failed):,} of {len(done.failed) + len(reports):,} models failed"
        say(f"{count}. Try them again with: swapbias audit --resume {done.folder}")
        raise typer.Exit(1)


def _show_plan(settings: "Settings") -> None:
    from swapbias.runs import plan_sentences

    for sentence in plan_sentences(settings):
        show_text(sentence)
    show("Nothing was loaded or sent.")


def _is_explicit(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
