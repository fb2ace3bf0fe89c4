"""swapbias lexicon: unrated words, own labels, agreement."""

from pathlib import Path
from typing import Annotated

import typer

from swapbias.cli.terminal import out
from swapbias.errors import UsageError

lexicon = typer.Typer(no_args_is_help=True, help="The attitude lexicon: unrated words, own labels, agreement.")


@lexicon.command("export")
def lexicon_export(
    run: Annotated[Path, typer.Argument(help="Folder of a run of a masked model.", show_default=False)],
    file: Annotated[Path, typer.Option("--out", help="CSV to write.")] = Path("unrated.csv"),
) -> None:
    """Write the words that a run met without a label, heaviest first, with a blank column to label them."""
    from swapbias.audit import Run
    from swapbias.files import as_csv, write_whole
    from swapbias.privacy import for_owner_alone, is_credentialed
    from swapbias.studies import rated, unrated_words

    study = rated()[0].name
    items = Run.open(run).items(study)
    if items is None:
        raise UsageError(f"{run} holds no finished {study}. Audit with --study {study}.")
    words = unrated_words(items)
    with for_owner_alone(is_credentialed(run)):
        write_whole(file, as_csv(words))
    out.print(f"{len(words)} words with {words['mass'].sum():.1%} of the mass are unrated.", markup=False)
    out.print(f"Words: {file}", soft_wrap=True, markup=False)


@lexicon.command("import")
def lexicon_import(
    file: Annotated[Path, typer.Argument(help="CSV with the columns word and label.", show_default=False)],
) -> None:
    """Keep labels (positive, negative, neutral, irrelevant) for all later audits of this user."""
    from swapbias.studies import import_labels

    count = import_labels(file)
    out.print(f"{count} words of your own are now part of the attitude lexicon.", markup=False)


@lexicon.command("agreement")
def lexicon_agreement(
    first: Annotated[Path, typer.Argument(help="CSV of one rater.", show_default=False)],
    second: Annotated[Path, typer.Argument(help="CSV of the other.", show_default=False)],
) -> None:
    """Cohen's kappa of two raters over the words that both labelled."""
    from swapbias.studies import agreement, read_labels

    kappa, share, words = agreement(read_labels(first), read_labels(second))
    out.print(f"kappa {kappa:.3f}, equal labels {share:.1%}, words {words}", markup=False)
