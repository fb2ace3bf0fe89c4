"""swapbias push and pull: corpora, measures and runs to the Hub and back."""

from pathlib import Path
from typing import Annotated

import typer

push = typer.Typer(no_args_is_help=True, help="Publish corpora, measures and runs on the Hub.")
pull = typer.Typer(no_args_is_help=True, help="Fetch what was published, whole and of one commit.")

Namespace = Annotated[str, typer.Option(help="Your name or an organisation's on the Hub.")]
Private = Annotated[bool, typer.Option("--private", help="Make new repositories private.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")]
Owner = Annotated[str, typer.Argument(metavar="NS", help="User or organisation on the Hub.")]
Revision = Annotated[
    str, typer.Option(help="A tag (v and the version on the card) or commit; the newest by default.")
]
Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
Corpora = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CORPUS]...", show_default=False),
]
Metrics = Annotated[
    list[str] | None,
    typer.Argument(metavar="[METRIC]...", show_default=False),
]


@push.command("datasets")
def push_datasets(
    namespace: Namespace,
    corpora: Corpora = None,
    private: Private = False,
    benchmark: Annotated[
        bool, typer.Option("--benchmark", help="Add the tasks by which the Hub knows benchmarks.")
    ] = False,
    collection: Annotated[
        str, typer.Option(metavar="TITLE", help="Put them into this collection; made if need be.")
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Publish corpora as datasets, each tagged with its version."""
    from swapbias.hub import push_datasets as pushed

    asked = {"private": private, "benchmark": benchmark, "dry_run": dry_run}
    _end(pushed(corpora or (), namespace=namespace, collection=collection, **asked, caller="swapbias"))


@push.command("metrics")
def push_metrics(
    namespace: Namespace,
    metrics: Metrics = None,
    private: Private = False,
    dry_run: DryRun = False,
    untagged: Annotated[
        bool, typer.Option("--untagged", help="Do not ask git whether the release is tagged.")
    ] = False,
) -> None:
    """Publish measures as static Spaces that evaluate.load reads, tagged with the version of swapbias."""
    from swapbias.hub import push_metrics as pushed

    _end(
        pushed(
            metrics or (), namespace=namespace, private=private, dry_run=dry_run, untagged=untagged, caller="swapbias"
        )
    )


@push.command("results")
def push_results(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    results: Annotated[str, typer.Option(help="Your results repository, OWNER/NAME; made, private, if need be.")],
    public: Annotated[bool, typer.Option("--public", help="Everybody may read the results.")] = False,
    findings_only: Annotated[bool, typer.Option("--findings-only", help="No scored prompts or answers.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Share several runs in one repository; what a model's page says is told with swapbias share."""
    from swapbias.hub import Wanted, push_results as pushed

    wanted = Wanted(results=results, public=public, findings_only=findings_only, dry_run=dry_run)
    _end(pushed(runs, wanted, caller="swapbias"))


@push.command("comparison")
def push_comparison(
    space: Annotated[str, typer.Argument(metavar="OWNER/SPACE", help="A static Space; made if need be.")],
    results: Annotated[
        list[str], typer.Argument(metavar="OWNER/NAME[/RUN][@REVISION]...", help="Repositories of results.")
    ],
    private: Private = False,
    dry_run: DryRun = False,
) -> None:
    """Publish shared runs side by side as a static Space; it ranks nothing."""
    from swapbias.hub import push_space

    _end(push_space(results, space=space, private=private, dry_run=dry_run, caller="swapbias"))


@pull.command("datasets")
def pull_datasets(namespace: Owner, folder: Out, corpora: Corpora = None, revision: Revision = "main") -> None:
    """Fetch corpora of a namespace, each to a folder that datasets.load_dataset reads."""
    from swapbias.hub import DATASET

    _pull(DATASET, corpora, folder, revision, namespace)


@pull.command("metrics")
def pull_metrics(namespace: Owner, folder: Out, metrics: Metrics = None, revision: Revision = "main") -> None:
    """Fetch measures of a namespace, each to a folder that evaluate.load reads; they are code of their owner."""
    from swapbias.hub import METRIC

    _pull(METRIC, metrics, folder, revision, namespace)


@pull.command("results")
def pull_results(
    repos: Annotated[list[str], typer.Argument(metavar="OWNER/NAME...", help="Repositories of results.")],
    folder: Out,
    revision: Revision = "main",
) -> None:
    """Fetch runs that somebody shared."""
    from swapbias.hub import RESULTS

    _pull(RESULTS, repos, folder, revision)


def _pull(kind: str, names: list[str] | None, folder: Path, revision: str, namespace: str = "") -> None:
    from swapbias.hub import pull_all

    _end(pull_all(kind, names or (), namespace=namespace, out=folder, revision=revision, caller="swapbias"))


def _end(code: int) -> None:
    if code:
        raise typer.Exit(code)
