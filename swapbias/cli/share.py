"""swapbias share, export, report and figures: results that others read, a report drawn again, figures for papers."""

from pathlib import Path
from typing import Annotated

import typer

from swapbias.cli.terminal import out, say
from swapbias.errors import UsageError


def share(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    results: Annotated[str, typer.Option(help="Your results repository, OWNER/NAME; made, private, if need be.")],
    model: Annotated[str | None, typer.Option(help="The audited model on the Hub, OWNER/NAME.")] = None,
    commit: Annotated[bool, typer.Option("--commit", help="Write to the card of your own model.")] = False,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Propose it to the model's owners.")] = False,
    audited: Annotated[str | None, typer.Option(help="The model's name in the run, where it is another one.")] = None,
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
    for one in shared_run(Run.open(run), wanted, Hub(), say=say):
        out.print(f"{one.repo.name}: {one.status}. {one.url}", soft_wrap=True, markup=False)
    if dry_run:
        out.print("Dry run: nothing was published.")


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    to: Annotated[str, typer.Option(help="every-eval-ever, lm-eval or csv.")],
    folder: Annotated[Path, typer.Option("--out", help="A new folder to write to.")],
    by: Annotated[str, typer.Option(help="Who ran the audit, where the form has a place for it.")] = "",
) -> None:
    """Write a run in the form of another evaluator; scored prompts of private notes stay."""
    from swapbias.audit import Run, export_run

    written = export_run(Run.open(run), to, folder, by=by, say=say)
    out.print(f"Exported: {len(written)} files in {folder}", soft_wrap=True, markup=False)


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
