"""swapbias share, push and pull: runs, corpora and measures to the Hub and back."""

from pathlib import Path
from typing import Annotated, Any

import typer

from swapbias.cli.terminal import DryRun, RunFolder, say, show, stoppable
from swapbias.errors import UsageError

push = typer.Typer(no_args_is_help=True, help="Publish corpora, measures, runs on the Hub.")
pull = typer.Typer(no_args_is_help=True, help="Fetch what was published, of one commit.")

Namespace = Annotated[str, typer.Option(help="Your name or an organisation's on the Hub.")]
Private = Annotated[bool, typer.Option("--private", help="Make new repositories private.")]
Public = Annotated[bool, typer.Option("--public", help="Everybody may read the results.")]
FindingsOnly = Annotated[bool, typer.Option("--findings-only", help="No scored prompts, answers or notes.")]
Results = Annotated[
    str, typer.Option(metavar="OWNER/NAME", help="Your results repository; made, private, if needed.")
]
Owner = Annotated[str, typer.Argument(metavar="OWNER", help="User or organisation on the Hub.")]
Revision = Annotated[str, typer.Option(help="A tag (v and the version on the card) or commit.")]
Folder = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
Corpora = Annotated[list[str] | None, typer.Argument(metavar="[CORPUS]...")]
Metrics = Annotated[list[str] | None, typer.Argument(metavar="[METRIC]...")]


def share(
    run: RunFolder,
    results: Results,
    model: Annotated[str | None, typer.Option(help="The audited model on the Hub, OWNER/NAME.")] = None,
    commit: Annotated[bool, typer.Option("--commit", help="Write to the card of your own model.")] = False,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Propose it to the model's owners.")] = False,
    audited: Annotated[str | None, typer.Option(help="The model's name in the run, if another.")] = None,
    public: Public = False,
    findings_only: FindingsOnly = False,
    name: Annotated[str | None, typer.Option(help="Name of the run in the repository.")] = None,
    namespace: Annotated[str, typer.Option(help="Who publishes the corpora on the Hub.")] = "swapbias",
    phenotype: Annotated[
        list[str] | None, typer.Option(help="A phenotype of your own notes whose name may leave; repeatable.")
    ] = None,
    card: Annotated[
        bool, typer.Option("--card", help="With --create-pr: propose a section of the card too.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Propose what its owners closed or took out.")] = False,
    dry_run: DryRun = False,
    folder: Annotated[
        Path | None, typer.Option("--out", help="With --dry-run: put here what would be written.")
    ] = None,
) -> None:
    """Share a run on the Hub, and on a model's page."""
    from swapbias.hub import COMMIT, PULL_REQUEST, Hub, ShareOptions, share_run
    from swapbias.runs import Run

    for missing, sentence in (
        (commit and create_pr, "--commit and --create-pr are both given, expected one. Drop the other."),
        (
            (commit or create_pr or audited) and not model,
            "--commit, --create-pr and --audited are about a model, and none is given. Name it with --model.",
        ),
        (again and not create_pr, "--again is about a pull request. Add --create-pr, or drop --again."),
        (card and not create_pr, "--card is about a pull request. Add --create-pr, or drop --card."),
        (folder and not dry_run, "--out belongs to --dry-run. Add it, or drop --out."),
    ):
        if missing:
            raise UsageError(sentence)
    wanted = ShareOptions(
        results=results, model=model, how=COMMIT if commit else PULL_REQUEST if create_pr else "", audited=audited,
        public=public, findings_only=findings_only, name=name, phenotypes=tuple(phenotype or ()), card=card,
        again=again, namespace=namespace, dry_run=dry_run, out=folder,
    )  # fmt: skip
    with stoppable(lambda: f"Stopped. What is on the Hub stays, and {run} as it was: the same command goes on."):
        for one in share_run(Run.open(run), wanted, Hub(), say=say):
            show(f"{one.repo.name}: {one.status}. {one.url}")
    if dry_run:
        show("Dry run: nothing was published.")


@push.command("datasets")
def push_datasets(
    namespace: Namespace,
    corpora: Corpora = None,
    private: Private = False,
    dry_run: DryRun = False,
) -> None:
    """Publish corpora as datasets, each tagged with its version."""
    _end_with("push_datasets", corpora or (), namespace=namespace, private=private, dry_run=dry_run)


@push.command("metrics")
def push_metrics(
    namespace: Namespace,
    metrics: Metrics = None,
    private: Private = False,
    dry_run: DryRun = False,
    untagged: Annotated[bool, typer.Option("--untagged", help="Do not ask git for the tag of the release.")] = False,
) -> None:
    """Publish measures as static Spaces that evaluate.load reads."""
    more = {"private": private, "dry_run": dry_run, "untagged": untagged}
    _end_with("push_metrics", metrics or (), namespace=namespace, **more)


@push.command("results")
def push_results(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    results: Results,
    public: Public = False,
    findings_only: FindingsOnly = False,
    dry_run: DryRun = False,
) -> None:
    """Share several runs in one repository; of a model's page see swapbias share."""
    from swapbias.hub import ShareOptions

    wanted = ShareOptions(results=results, public=public, findings_only=findings_only, dry_run=dry_run)
    _end_with("push_results", runs, wanted)


@push.command("comparison")
def push_comparison(
    space: Annotated[str, typer.Argument(metavar="OWNER/SPACE", help="A static Space; made if need be.")],
    results: Annotated[list[str], typer.Argument(metavar="OWNER/NAME[/RUN][@REVISION]...", help="Shared results.")],
    private: Private = False,
    dry_run: DryRun = False,
) -> None:
    """Publish shared runs side by side as a static Space; it ranks nothing."""
    _end_with("push_space", results, space=space, private=private, dry_run=dry_run)


@pull.command("datasets")
def pull_datasets(namespace: Owner, folder: Folder, corpora: Corpora = None, revision: Revision = "main") -> None:
    """Fetch corpora to folders that datasets.load_dataset reads."""
    _pull("DATASET", corpora, folder, revision, namespace)


@pull.command("metrics")
def pull_metrics(namespace: Owner, folder: Folder, metrics: Metrics = None, revision: Revision = "main") -> None:
    """Fetch measures to folders that evaluate.load reads; they are code of their owner."""
    _pull("METRIC", metrics, folder, revision, namespace)


@pull.command("results")
def pull_results(
    repos: Annotated[list[str], typer.Argument(metavar="OWNER/NAME...", help="Repositories of results.")],
    folder: Folder,
    revision: Revision = "main",
) -> None:
    """Fetch runs that somebody shared."""
    _pull("RESULTS", repos, folder, revision)


def _pull(kind: str, names: list[str] | None, folder: Path, revision: str, namespace: str = "") -> None:
    from swapbias import hub

    _end_with("pull_all", getattr(hub, kind), names or (), namespace=namespace, out=folder, revision=revision)


def _end_with(function: str, *arguments: Any, **options: Any) -> None:
    """Call a function of the Hub's room, and end with the exit code that it returns."""
    from swapbias import hub

    if code := getattr(hub, function)(*arguments, **options):
        raise typer.Exit(code)
