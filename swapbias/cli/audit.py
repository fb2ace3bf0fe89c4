"""swapbias audit: from a model to a report."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from swapbias.cli.terminal import out, progress, say
from swapbias.errors import UsageError
from swapbias.scorers import VADER, LoadOptions, kinds, model_kinds

if TYPE_CHECKING:
    from swapbias.audit import Settings

_WITH_RESUME = ("resume", "no_cache", "allow_pickle", "trust")  # anything else is taken from the run

Model = Annotated[
    str | None,
    typer.Argument(show_default=False, help="Hub id, local folder, vader or module:function; none: calibration."),
]
Studies = Annotated[list[str] | None, typer.Option("--study", help="NAME or NAME:CONFIG; may be repeated.")]
KindName = Annotated[
    str | None, typer.Option("--kind", help=f"{', '.join(model_kinds())}: where the config does not tell.")
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="Most prompts per config (and trial of a chat model), whole pairs.")
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


def _settable(made: Any) -> Iterator[tuple[Field[Any], Any]]:
    """The fields of an options dataclass that a user sets, with their types."""
    hints = get_type_hints(made)
    return ((one, hints[one.name]) for one in fields(made) if "help" in one.metadata)


def _parameter(one: Field[Any], hint: Any) -> inspect.Parameter:
    """The option of the command line that sets a field."""
    name, more = one.metadata.get("name", one.name), one.metadata
    many = get_origin(hint) is tuple
    flag = typer.Option(f"--{name.replace('_', '-')}", help=more["help"], min=more.get("least"), max=more.get("most"))
    wanted: Any = list[str] | None if many else hint
    default = None if many else one.default
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[wanted, flag]
    )


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each that models take, in place of its ``**options``."""
    *plain, _ = inspect.signature(command).parameters.values()
    made = (LoadOptions, *(one.options for one in kinds() if one.options))
    more = [_parameter(*field) for one in made for field in _settable(one)]
    command.__signature__ = inspect.Signature([*plain, *more])  # type: ignore[attr-defined]
    return command


@with_options
def audit(
    context: typer.Context,
    model: Model = None,
    study: Studies = None,
    kind: KindName = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Folder of the run.", show_default=False)] = None,
    limit: Limit = None,
    seed: Seed = 0,
    margin: Annotated[
        float, typer.Option(min=0, max=1, help="Largest gap that counts as none: a share of its unit's range.")
    ] = 0.05,
    wordings: Wordings = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what swapbias plan says; score and send nothing.")
    ] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Score everything again, and keep no scores for later audits.")
    ] = False,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="With --resume: run the Python function or pickle that the run names.")
    ] = False,
    **options: Any,
) -> None:
    """Audit a model: score the prompts, compare the groups, write findings, figures and a report."""
    from swapbias import audit as auditing
    from swapbias.cli.terminal import print_headlines

    with progress() as bar:
        if resume:
            given = [name for name in context.params if _was_given(context, name) and name not in _WITH_RESUME]
            if given:
                named = ", ".join("MODEL" if name == "model" else name for name in given)
                raise UsageError(f"--resume takes everything from the run, and {named} is given. Drop the others.")
            allowed = {"trust": trust, "allow_pickle": options["allow_pickle"]}
            run, found = auditing.resume(resume, say=say, bar=bar, cache=not no_cache, **allowed)
        elif trust:
            raise UsageError("--trust is for the code that a run names, and no --resume is given. Drop it.")
        else:
            more = {"kind": kind, "limit": limit, "seed": seed, "margin": margin, "wordings": wordings}
            settings = _settings(model, study, options, **more)
            if dry_run:
                _tell(settings)
                return
            place = folder or auditing.default_folder(settings)
            run, found = auditing.start(settings, place, say=say, bar=bar, cache=not no_cache)
    for one in run.manifest()["skipped"]:
        out.print(f"Not run: {one['study']} {one['experiment']}: {one['reason']}.", soft_wrap=True, markup=False)
    print_headlines(out, found)
    out.print(f"Report: {run.folder / 'report.html'}", soft_wrap=True, markup=False)


@with_options
def plan(
    model: Model = None,
    study: Studies = None,
    kind: KindName = None,
    limit: Limit = None,
    seed: Seed = 0,
    wordings: Wordings = None,
    **options: Any,
) -> None:
    """Say what an audit would take and how large a gap must be to be found; load and send nothing."""
    _tell(_settings(model, study, options, kind=kind, limit=limit, seed=seed, wordings=wordings))


def _settings(model: str | None, study: list[str] | None, options: Mapping[str, Any], **more: Any) -> "Settings":
    from swapbias.audit import Settings

    return Settings(
        model=_absolute(model, (VADER,)) if model else None,
        studies=tuple(study or ()),
        load=_filled(LoadOptions, options),
        options=tuple(_filled(one.options, options) for one in kinds() if one.options),
        **more,
    )


def _tell(settings: "Settings") -> None:
    from swapbias.audit import told_plan

    for sentence in told_plan(settings):
        out.print(sentence, soft_wrap=True, markup=False)
    out.print("A plan: nothing was loaded and nothing was sent.")


def _filled(made: Any, given: Mapping[str, Any]) -> Any:
    """Options of this class with what was given on the command line."""
    values = {}
    for one, hint in _settable(made):
        value = given[one.metadata.get("name", one.name)]
        listed = tuple(value or ()) if get_origin(hint) is tuple else (value,)
        if one.metadata.get("place"):
            listed = tuple(item and _absolute(item, one.metadata.get("words", ())) for item in listed)
        values[one.name] = listed if get_origin(hint) is tuple else listed[0]
    return made(**values)


def _absolute(model: str, words: Sequence[str]) -> str:
    """A model, or NAME=PATH, with the path of a local file or folder made absolute, so that a run can go on."""
    if model in words:  # a folder of that name does not matter
        return model
    name, equals, path = model.rpartition("=")
    place = Path(path) if equals and not Path(model).exists() else Path(model)
    return f"{name}{equals}{place.resolve()}" if equals and place.exists() else _resolved(model)


def _resolved(model: str) -> str:
    return str(Path(model).resolve()) if Path(model).exists() else model


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
