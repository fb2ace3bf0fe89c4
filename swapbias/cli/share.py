"""swapbias share, export, report and figures: results that others read, a report drawn again, figures for papers."""

from pathlib import Path
from typing import Annotated

import typer

from swapbias.cli.terminal import out, say, stoppable
from swapbias.errors import UsageError


def share(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    results: Annotated[str, typer.Option(help="Your results repository, OWNER/NAME; made, private, if need be.")],
    model: Annotated[str | None, typer.Option(help="The audited model on the Hub, OWNER/NAME.")] = None,
    commit: Annotated[bool, typer.Option("--commit", help="Write to the card of your own model.")] = False,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Propose it to the model's owners.")] = False,
    audited: Annotated[
        str | None, typer.Option(help="The model's name in the run, if another; the weights must be the same.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Everybody may read the results.")] = False,
    findings_only: Annotated[
        bool, typer.Option("--findings-only", help="No scored prompts, answers or explained notes.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the run in the repository.")] = None,
    namespace: Annotated[str, typer.Option(help="Who publishes the corpora on the Hub.")] = "swapbias",
    phenotype: Annotated[
        list[str] | None, typer.Option(help="A phenotype of your own notes whose name may leave; repeatable.")
    ] = None,
    card: Annotated[
        bool, typer.Option("--card", help="With --create-pr: propose a section of the card too.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Propose what its owners closed or took out.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--out", help="With --dry-run: put what would be published here.")
    ] = None,
) -> None:
    """Share a run: its results in a repository of yours, and what a model's page says of it."""
    from swapbias.audit import Run
    from swapbias.hub import COMMIT, PULL_REQUEST, Hub, Wanted, share_run as shared_run

    if commit and create_pr:
        raise UsageError("--commit and --create-pr are both given, expected one. Drop the other.")
    if (commit or create_pr or audited) and not model:
        raise UsageError(
            "--commit, --create-pr and --audited are about a model, and none is given. Name it with --model."
        )
    if again and not create_pr:
        raise UsageError("--again is about a pull request. Add --create-pr, or drop --again.")
    if card and not create_pr:
        raise UsageError("--card is about a pull request. Add --create-pr, or drop --card.")
    if folder and not dry_run:
        raise UsageError("--out belongs to --dry-run. Add it, or drop --out.")
    wanted = Wanted(
        results=results,
        model=model,
        how=COMMIT if commit else PULL_REQUEST if create_pr else "",
        audited=audited,
        public=public,
        findings_only=findings_only,
        name=name,
        phenotypes=tuple(phenotype or ()),
        card=card,
        again=again,
        namespace=namespace,
        dry_run=dry_run,
        out=folder,
    )
    with stoppable(lambda: f"Stopped. What is on the Hub stays, and {run} as it was: the same command goes on."):
        for one in shared_run(Run.open(run), wanted, Hub(), say=say):
            out.print(f"{one.repo.name}: {one.status}. {one.url}", soft_wrap=True, markup=False)
    if dry_run:
        out.print("Dry run: nothing was published.")


def export(
    what: Annotated[
        list[str],
        typer.Argument(metavar="RUN | lm-eval STUDY", help="A finished run, or a study for lm-eval to run."),
    ],
    folder: Annotated[Path, typer.Option("--out", help="A new folder to write to.")],
    to: Annotated[str | None, typer.Option(help="Of a run: every-eval-ever, lm-eval or csv.")] = None,
    by: Annotated[str, typer.Option(help="Of a run: who made it, where the form has a place for it.")] = "",
) -> None:
    """Write a run in the form of another evaluator, or a study as tasks of lm-evaluation-harness.

    swapbias export RUN --to every-eval-ever|lm-eval|csv --out DIR; scored prompts of private notes stay.

    swapbias export lm-eval STUDY[:CONFIG] --out DIR; experiments of causal models.
    """
    from swapbias.audit import Run, export_run
    from swapbias.hub import export_study, study_name

    run, study = _exported(what, to, by)
    written = export_run(Run.open(Path(run)), to or "", folder, by=by, say=say) if run else []
    written = written or export_study(study_name(study), folder)
    out.print(f"Exported: {len(written)} files in {folder}", soft_wrap=True, markup=False)


_TASKS = "lm-eval"  # the form that a study is exported in


def _exported(what: list[str], to: str | None, by: str) -> tuple[str, str]:
    """The run or the study that is meant; the other is blank.

    Raises:
        UsageError: neither is, or both may be.
    """
    run = f"swapbias export {what[-1]} --to every-eval-ever|lm-eval|csv --out DIR"
    study = f"swapbias export {_TASKS} STUDY --out DIR"
    if len(what) == 1 and to is not None:
        return what[0], ""
    if len(what) == 1 and what[0] == _TASKS:
        raise UsageError(
            f"lm-eval is given and no study. Write {study}, or of a run swapbias export RUN --to lm-eval."
        )
    if len(what) == 1:
        raise UsageError(f"{what[0]} is given and no form. Write {run}, or of a study {study}.")
    if len(what) > 2 or what[0] != _TASKS:
        raise UsageError(f"{' '.join(what)} is neither one run nor lm-eval and a study. Write {run}, or {study}.")
    if (Path(what[1]) / "manifest.json").is_file():
        raise UsageError(f"{what[1]} is a run, and {_TASKS} takes the name of a study. Write {run}.")
    if to is not None or by:
        raise UsageError(f"--to and --by are of a run, and {_TASKS} {what[1]} is a study. Drop them.")
    return "", what[1]


def report(run: Annotated[Path, typer.Argument(help="Folder of a finished run.")]) -> None:
    """Draw the figures and the report of a run again."""
    from swapbias.audit import Run, rebuild_report

    out.print(f"Report: {rebuild_report(Run.open(run))}", soft_wrap=True, markup=False)


def figures(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    style: Annotated[
        str, typer.Option(help="paper: 3.3 or 6.9 inches wide, text as text; page: as in the report.")
    ] = "paper",
    kind: Annotated[str, typer.Option("--format", help="pdf, svg or png.")] = "pdf",
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("swapbias-figures"),
) -> None:
    """Write the figures of a run for a paper, a file for each group of findings, and print their captions."""
    from swapbias.audit import Run, write_figures
    from swapbias.report import FORMATS, STYLES

    for name, value, known in (("--style", style, tuple(STYLES)), ("--format", kind, FORMATS)):
        if value not in known:
            raise UsageError(f"{name} is {value!r}, expected one of {', '.join(known)}.")
    for path, caption in write_figures(Run.open(run), folder, style=style, kind=kind):
        out.print(f"{path}: {caption}", soft_wrap=True, markup=False)
