"""swapbias audit: from a model to a report."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swapbias.cli.settings import RUN, ModelSettings, read_settings
from swapbias.cli.terminal import (
    ENGINE_OPTIONS,
    AsJson,
    at,
    check_own_store,
    out,
    print_json,
    progress,
    say,
    split_commas,
    stoppable,
)
from swapbias.errors import UsageError
from swapbias.files import is_url
from swapbias.scorers import FLAGS, LoadOptions, kinds, model_kinds, settable
from swapbias.workers import Engine

if TYPE_CHECKING:
    from swapbias.audit import Run, Settings, Several
    from swapbias.findings import Finding
    from swapbias.store import Store

# Anything else is taken from the run.
_ACCESS = ("api_key_env", "plain_http")  # what no manifest says
_WITH_RESUME = (
    "resume",
    "conclude",
    "no_cache",
    "allow_pickle",
    "trust",
    "own_store",
    "as_json",
    *_ACCESS,
    *ENGINE_OPTIONS,
)
_WITH_FILE = (*_WITH_RESUME, "models", "folder", "dry_run")  # anything else is taken from the file
_MOST_SHOWN = 20  # models whose numbers and reports a terminal lists; of more it names the folder

Model = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="Hub ids (OWNER/NAME[@REVISION]), folders, vader or module:function; models.txt, a model a line; an "
        "audit.toml or manifest.json; none: calibration.",
    ),
]
Studies = Annotated[
    list[str] | None,
    typer.Option(
        "--study",
        help="NAME, NAME:CONFIG, your folder, or OWNER/NAME[@REVISION] on the Hub; several with commas or repeated.",
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option("--prompts", help="Your own prompts: a CSV file with columns text, group, pair."),
]
Reference = Annotated[str, typer.Option("--reference", help="Of own prompts: the group that is subtracted.")]
KindName = Annotated[
    str | None,
    typer.Option("--kind", help=f"{', '.join(model_kinds())}: where the config does not tell."),
]
Revision = Annotated[
    str | None,
    typer.Option(
        "--revision", help="Of a model on the Hub: a branch, tag or commit, as OWNER/NAME@REVISION says it too."
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="Most prompts per config (and trial of a chat model), whole pairs."),
]
Wordings = Annotated[
    bool | None,
    typer.Option(
        "--wordings/--no-wordings",
        help="Read prompts in five other wordings too [default: where that is not slow].",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the calibration model and of resampling.")]


def _parameter(one: Field[Any], hint: Any) -> inspect.Parameter:
    """The option of the command line that sets a field."""
    name, more = one.metadata.get("name", one.name), one.metadata
    flag = typer.Option(
        f"--{name.replace('_', '-')}", help=more["help"], min=more.get("least"), max=more.get("most")
    )  # fmt: skip
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=Annotated[hint, flag]
    )


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with those options of models that are no settings of ``-M``, in place of its ``**options``."""
    *plain, _ = inspect.signature(command).parameters.values()
    made: list[Any] = [LoadOptions, *(one.options for one in kinds() if one.options)]
    fields = (field for one in made for field in settable(one))
    more = [_parameter(*one) for one in fields if one[0].metadata.get("name", one[0].name) in FLAGS]
    command.__signature__ = inspect.Signature([*plain, *more])  # type: ignore[attr-defined]
    return command


@with_options
def audit(
    context: typer.Context,
    models: Model = None,
    study: Studies = None,
    kind: KindName = None,
    revision: Revision = None,
    folder: Annotated[
        str | None,
        typer.Option("--out", metavar="PATH", help="Folder of the run, or s3://BUCKET/FOLDER.", show_default=False),
    ] = None,
    limit: Limit = None,
    seed: Seed = 0,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Largest gap that counts as none: a share of its unit's range [default: .05]."
        ),
    ] = None,
    wordings: Wordings = None,
    prompts: Prompts = None,
    reference: Reference = "",
    model_settings: ModelSettings = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what swapbias plan says; score and send nothing."),
    ] = False,
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Score everything again, and keep no scores for later audits."),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Go on with the run in this folder."),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="With --resume or a file of models or settings: run the Python code or pickle it names; of a "
            "run or manifest: give its service the key.",
        ),
    ] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Audit models: score the prompts, compare the groups, write findings, figures and a report.

    Several models are audited into one folder, a run for each and one comparison. audit.toml names models, studies
    and settings; the manifest.json of a run repeats it.
    """
    from swapbias.audit import settings_of

    options |= (more := read_settings(model_settings or ()))
    given = [name for name in context.params if name != "model_settings" and _was_given(context, name)] + [*more]
    run = {name: options.pop(name) for name in RUN if name in options}
    own_store, conclude = run.get("own_store", False), run.get("conclude", False)
    access = {name: options[name] for name in _ACCESS if name in given}
    allow_pickle = options.get("allow_pickle", False)
    where = _engine(run)
    check_own_store(own_store, resume or folder)
    if resume:
        _check_alone(given, _WITH_RESUME, "--resume takes everything from the run")
        may = {"trust": trust, "allow_pickle": allow_pickle, "access": access, "engine": where}
        _go_on(resume, as_json, conclude=conclude, own=own_store, cache=not no_cache, **may)
        return
    if conclude:
        raise UsageError("conclude ends a run that was stopped, and none is given. Add --resume RUN.")
    named: dict[str, str] = {}  # the name of its run by model, blank where it has none
    settings, repeated = None, None
    lists = [one for one in models or () if Path(one).suffix == ".txt"]
    models = [one for one in models or () if one not in lists]
    listed = _listed(lists, models)
    if models and len(models) == 1 and Path(models[0]).suffix in (".toml", ".json") and Path(models[0]).is_file():
        from swapbias.audit import read_request, with_access

        _check_alone(given, _WITH_FILE, f"{models[0]} says what is audited and how")
        file = models[0]
        models, settings, repeated = read_request(Path(file))
        named = _each_once(models)
        allowed = replace(settings.load, allow_pickle=allow_pickle)
        settings = with_access(replace(settings, load=allowed), access)
        if repeated is None and not dry_run:
            _check_named(file, named, settings, trust=trust)
        settings = replace(settings, load=replace(allowed, allow_pickle=trust or allowed.allow_pickle))
    elif trust and not listed:
        raise UsageError(
            "--trust is for the code that a run or a file names, and no --resume, manifest, audit.toml or list of "
            "models is given. Drop it."
        )
    if settings is None:
        asked = _asked(study, prompts, reference, run)
        every = [*(models or ()), *listed]
        _one_revision(every, revision)
        what = {"kind": kind, "limit": limit, "seed": seed, "margin": margin, "wordings": wordings}
        each = [settings_of(one, asked, options, revision=revision, **what) for one in every or (None,)]
        named = _each_once([one.model for one in each if one.model])
        for chosen, told in zip(each, every, strict=False):
            named |= {chosen.model: listed[told]} if chosen.model and listed.get(told) else {}
        settings = each[0]
        if listed and not dry_run:
            theirs = [one.model for one, told in zip(each, every, strict=False) if one.model and told in listed]
            _check_named(lists[0], theirs, settings, trust=trust)
            allowed = replace(settings.load, allow_pickle=trust or settings.load.allow_pickle)
            settings = replace(settings, load=allowed)
    if dry_run:
        for one in named or (None,):
            _tell(replace(settings, model=one))
    elif len(named) > 1:
        _audit_several(named, settings, folder, as_json, cache=not no_cache, engine=where)
    else:
        how: dict[str, Any] = {"own": own_store, "repeated": repeated, "trust": trust, "engine": where}
        _audit_one(settings, folder, as_json, cache=not no_cache, **how)


def _check_named(file: str, models: Iterable[str], settings: "Settings", *, trust: bool) -> None:
    """A file of settings may be anybody's: code that it names runs only where the user says so."""
    from swapbias.audit import check_code

    for one in list(models) or (None,):
        check_code(file, replace(settings, model=one), None, trust=trust)


def _engine(run: Mapping[str, Any]) -> Engine:
    """Where the work is done."""
    spill = run.get("spill")
    made = Engine(
        name=run.get("engine", "local"), address=run.get("address"), workers=run.get("workers"),
        gpus=run.get("gpus_per_worker", 0.0), spill=Path(spill) if spill else None,
    )  # fmt: skip
    made.check()
    return made


def _listed(lists: Sequence[str], models: Sequence[str]) -> dict[str, str]:
    """The models of a file, with the names of their runs."""
    from swapbias.audit import read_models

    if not lists:
        return {}
    if len(lists) > 1:
        raise UsageError(f"{' and '.join(lists)} both list models, expected one list. Join them.")
    if models and Path(models[0]).suffix in (".toml", ".json"):
        raise UsageError(f"{models[0]} says what is audited and how, and {lists[0]} is given. Drop one of them.")
    return read_models(Path(lists[0]))


def _each_once(models: Sequence[str]) -> dict[str, str]:
    """Models without names of runs.

    Raises:
        UsageError: one is named twice.
    """
    found: dict[str, str] = {}
    for one in models:
        if one in found:
            raise UsageError(f"{one} is named twice, expected each model once. Drop one of them.")
        found[one] = ""
    return found


def _check_alone(given: Sequence[str], allowed: Sequence[str], why: str) -> None:
    """Refuse options beside what says everything already."""
    told = {"models": "MODEL"}
    others = [told.get(name, name) for name in given if name not in allowed]
    if others:
        raise UsageError(f"{why}, and {', '.join(others)} is given. Drop the others.")


def _audit_one(
    settings: "Settings",
    folder: str | None,
    as_json: bool,
    *,
    cache: bool,
    own: bool,
    repeated: Mapping[str, Any] | None,
    trust: bool,
    engine: Engine,
) -> None:
    from swapbias.audit import check_code, check_keys, default_folder, start

    if repeated is not None:
        check_code("The manifest", settings, repeated.get("models"), trust=trust)
        if not trust:
            check_keys("The manifest", settings)
    place = folder or str(default_folder(settings))
    with at(place, own=own, begun=False) as (here, store):
        how: dict[str, Any] = {"cache": cache, "expected": repeated, "engine": engine, "store": store}
        with stoppable(lambda: _stopped(here, store)), progress() as bar:
            run, found = start(settings, here, say=say, bar=bar, **how)
        _show(run, found, as_json)


def _audit_several(
    models: Mapping[str, str],
    settings: "Settings",
    folder: str | None,
    as_json: bool,
    *,
    cache: bool,
    engine: Engine,
) -> None:
    from swapbias.audit import audit_several, default_folder

    if folder and is_url(folder):
        raise UsageError(
            f"{folder} is in a store, which holds runs of one model each. Audit one model into each folder of it, or "
            "choose an --out on a file system that all machines share."
        )
    place = Path(folder) if folder else default_folder(replace(settings, model=f"{len(models)}-models"))
    with stoppable(lambda: _stopped(place)), progress() as bar:
        done = audit_several(models, settings, place, say=say, bar=bar, cache=cache, engine=engine)
    _show_several(done, as_json)


def _go_on(place: str, as_json: bool, *, conclude: bool, own: bool, **may: Any) -> None:
    """Go on with a run, or the runs of several models; ``may`` is what the user lets it do, and where."""
    with at(place, own=own, begun=True) as (here, store):
        _go_on_here(here, store, as_json, conclude=conclude, **may)


def _go_on_here(folder: Path, store: "Store | None", as_json: bool, *, conclude: bool, **may: Any) -> None:
    from swapbias.audit import is_several, resume as go_on, resume_several

    if conclude and is_several(folder):
        raise UsageError(f"{folder} holds runs of several models, and conclude ends one. Name the folder of a run.")
    with stoppable(lambda: _stopped(folder, store)), progress() as bar:
        if is_several(folder):
            done = resume_several(folder, say=say, bar=bar, **may)
        else:
            run, found = go_on(folder, say=say, bar=bar, conclude=conclude, store=store, **may)
    if is_several(folder):
        _show_several(done, as_json)
    else:
        _show(run, found, as_json)


def _stopped(folder: Path, store: "Store | None" = None) -> str:
    """What a stopped audit says: what is kept, where, and how to go on."""
    from swapbias.audit import MANIFEST, Run, has_scores, is_several

    place = str(store or folder)
    if not is_several(folder) and not (folder / MANIFEST).is_file():
        return f"Stopped before anything was scored: nothing is kept in {place}. The same command begins anew."
    resumed = f"swapbias audit --resume {quote(place)}"
    if not has_scores(folder, store):
        return f"Stopped before any score was saved. Begin the scoring anew with {resumed}."
    told = f"Stopped. What was scored is kept in {place}: go on with {resumed}"
    chat = not is_several(folder) and Run(folder).manifest()["settings"].get("chat")
    return f"{told}{', or end with the trials that are there: add -M conclude' if chat else ''}."


def _show(run: "Run", found: "Sequence[Finding]", as_json: bool) -> None:
    """Headlines, what was not run in one line, and the report."""
    from swapbias.audit import Skipped, told_skipped
    from swapbias.cli.terminal import print_headlines
    from swapbias.findings import comparisons, experiment_of, findings_table

    skipped = [Skipped(**one) for one in run.manifest()["skipped"]]
    ran = {one.kind for one in map(experiment_of, found) if one is not None}
    left = told_skipped(skipped, ran)
    if as_json:
        table = findings_table(comparisons(found)).to_dict("records")
        print_json({"run": str(run.place), "findings": table, "not_run": left})
        return
    print_headlines(out, list(found))
    if left:
        out.print(left, soft_wrap=True, markup=False)
    out.print(f"Report: {run.place}/report.html", soft_wrap=True, markup=False)


def _show_several(done: "Several", as_json: bool) -> None:
    """The comparison, a report for each model, and those that failed: exit 1 where any did."""
    from swapbias.cli.compare import comparison_record, print_comparison, said

    compared = done.compared
    reports = {model: str(run.folder / "report.html") for model, run in done.runs.items()}
    if as_json:
        record = comparison_record(compared) if compared else {}
        print_json({"folder": str(done.folder), "reports": reports, "failed": done.failed, "comparison": record})
    else:
        if compared and len(reports) <= _MOST_SHOWN:
            print_comparison(out, compared.comparison, compared.differences, compared.left_out, said(compared))
        if compared:
            out.print(f"Comparison: {done.folder / 'comparison' / 'report.html'}", soft_wrap=True, markup=False)
        for path in reports.values() if len(reports) <= _MOST_SHOWN else ():
            out.print(f"Report: {path}", soft_wrap=True, markup=False)
        if len(reports) > _MOST_SHOWN:
            out.print(f"Reports: {len(reports):,} folders in {done.folder}", soft_wrap=True, markup=False)
        for model, why in done.failed.items():
            out.print(f"Failed: {model}: {why}", soft_wrap=True, markup=False)
    if done.failed:
        told = f"{len(done.failed):,} of {len(done.failed) + len(reports):,} models failed"
        say(f"{told}. Try them again with: swapbias audit --resume {done.folder}")
        raise typer.Exit(1)


@with_options
def plan(
    models: Model = None,
    study: Studies = None,
    kind: KindName = None,
    revision: Revision = None,
    limit: Limit = None,
    seed: Seed = 0,
    wordings: Wordings = None,
    prompts: Prompts = None,
    reference: Reference = "",
    model_settings: ModelSettings = None,
    **options: Any,
) -> None:
    """Say what an audit would take and how large a gap must be to be found; load and send nothing."""
    from swapbias.audit import settings_of

    options |= read_settings(model_settings or ())
    run = {name: options.pop(name) for name in RUN if name in options}
    if others := sorted({*run} - {"group", "lexicon"}):
        raise UsageError(f"{' and '.join(others)} is of an audit, and nothing is scored here. Drop it.")
    lists = [one for one in models or () if Path(one).suffix == ".txt"]
    models = [one for one in models or () if one not in lists]
    models += _listed(lists, models)
    asked = _asked(study, prompts, reference, run)
    more = {"kind": kind, "limit": limit, "seed": seed, "wordings": wordings}
    _one_revision(models, revision)
    for one in models or (None,):
        _tell(settings_of(one, asked, options, revision=revision, **more))


def _one_revision(models: Sequence[str] | None, revision: str | None) -> None:
    """Refuse one revision for several models."""
    if revision is not None and len(models or ()) > 1:
        raise UsageError("--revision is of one model, and several are named. Name each as OWNER/NAME@REVISION.")


def _asked(study: list[str] | None, prompts: Path | None, reference: str, run: Mapping[str, Any]) -> list[str]:
    """The names of the studies that are asked for; those of the user's own are opened."""
    from swapbias.hub import own_study, study_name

    named = [study_name(one) for one in split_commas(study)]
    if prompts is None:
        if reference or "group" in run or "lexicon" in run:
            raise UsageError("--reference, group and lexicon are about own prompts. Add --prompts.")
        return named
    words = {"group": run.get("group", ""), "lexicon": run.get("lexicon")}
    return [*named, own_study(prompts, reference=reference, **words).name]


def _tell(settings: "Settings") -> None:
    from swapbias.audit import told_plan

    for sentence in told_plan(settings):
        out.print(sentence, soft_wrap=True, markup=False)
    out.print("A plan: nothing was loaded and nothing was sent.")


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
