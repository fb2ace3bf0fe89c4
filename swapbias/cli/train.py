"""``swapbias train``: train a sentiment model of one of the occupation study's three kinds."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swapbias.cli.terminal import AsJson, out, print_json, progress, say, stoppable

if TYPE_CHECKING:
    from swapbias.scorers.sentiment import GenderAudit


def train(
    kind: Annotated[str, typer.Argument(metavar="KIND", show_default=False, help="bow, bilstm or encoder.")],
    data: Annotated[
        str,
        typer.Option(
            show_default=False, help="sst2 (from the Hub), or a folder with train and dev (.tsv, .csv, stsa)."
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", show_default=False, help="New folder for the model.")],
    vectors: Annotated[
        Path | None, typer.Option(show_default=False, help="Word vectors of a bilstm: .kv, .bin, .txt or .vec file.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(show_default=False, help="Hub id or folder to start from; none: bert-base-uncased."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Of an encoder (3), or most of a bilstm (30).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, dropout and the order of sentences.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences per step.")] = 32,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read .kv vectors: runs what their maker put in them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a sentiment model into a new folder, which swapbias audit takes as a model."""
    from swapbias.scorers.sentiment import TrainSettings, train_model

    settings = TrainSettings(
        kind=kind,
        data=data,
        vectors=vectors,
        encoder=encoder,
        epochs=epochs,
        seed=seed,
        device=device,
        batch_size=batch_size,
        allow_pickle=allow_pickle,
    )
    with stoppable(lambda: f"Stopped. Nothing is kept in {folder}: the same command begins anew."), progress() as bar:
        trained = train_model(settings, folder, say=say, bar=bar)
    if as_json:
        print_json(asdict(trained) | {"folder": str(trained.folder)})
        return
    _print_audit(trained.audit)
    out.print(f"Accuracy on {trained.n_dev} dev sentences: {trained.dev_accuracy:.3f}", highlight=False)
    out.print(f"Trained: {trained.folder}", soft_wrap=True, markup=False)


def _print_audit(audit: "GenderAudit") -> None:
    """Labels of the training sentences with male and with female nouns, beside the published numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from swapbias.report import p_value
    from swapbias.scorers.sentiment import PUBLISHED_AUDIT

    table = Table(
        "training sentences", title="Training data by gender", title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    for name in ("sentences", "mean label", "published", "published mean"):
        table.add_column(name, justify="right", no_wrap=True)
    for group, count, mean in (
        ("male", audit.n_male, audit.mean_male),
        ("female", audit.n_female, audit.mean_female),
    ):
        known, share = PUBLISHED_AUDIT[group]
        table.add_row(f"with a {group} noun", f"{count:,}", _number(mean), f"{known:,}", f"{share:.3f}")
    out.print(table)
    low, high = (_number(end, "+.3f") for end in (audit.gap.ci_low, audit.gap.ci_high))
    gap = f"Female - male: {_number(audit.gap.value, '+.3f')} [{low}, {high}], p {p_value(audit.gap.p_value)} (Welch)"
    out.print(f"{gap}; {audit.n_both:,} sentences count in both.", soft_wrap=True, markup=False, highlight=False)


def _number(value: float, form: str = ".3f") -> str:
    return "–" if math.isnan(value) else format(value, form)
