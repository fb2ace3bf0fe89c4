"""swapbias study and lexicon: questions and words of one's own."""

import csv
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from swapbias.cli.terminal import AsJson, DryRun, RunFolder, say, show, show_json
from swapbias.errors import UsageError

study = typer.Typer(no_args_is_help=True, help="Make a study of your own: a folder of tables.")
lexicon = typer.Typer(no_args_is_help=True, help="Rate words of the attitude lexicon.")

Folder = Annotated[Path, typer.Argument(help="Folder of the study.")]
Labels = Annotated[Path, typer.Argument(help="CSV with the columns word and label.")]


@study.command("new")
def new(folder: Folder) -> None:
    """Write a small complete example to edit: it can be audited at once."""
    from swapbias.studies import new_study

    made = new_study(folder)
    show(f"Written to {folder}: {', '.join(one.name for one in made)}.")
    show(f"Next: edit them, swapbias study check {folder}, swapbias audit MODEL --study {folder}")


@study.command("check")
def check_folder(
    source: Annotated[Path, typer.Argument(help="Folder of the study, or a CSV file of prompts.")],
    model: Annotated[str | None, typer.Option(help="Masked model that must know the words.")] = None,
    reference: Annotated[str, typer.Option(help="Of a CSV file: the group that is subtracted.")] = "",
    words: Annotated[
        Path | None, typer.Option("--lexicon", help="Of a CSV file: words (word,group) counted at <mask>.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find faults by file and line; exit 1 where an audit would refuse the study."""
    from swapbias.models import load_scorer
    from swapbias.runs import check_study

    scorer = load_scorer(model) if model else None
    found = check_study(source, scorer=scorer, reference=reference, lexicon=words)
    if as_json:
        show_json({"faults": found.faults, "advice": found.advice, "told": found.told})
        raise typer.Exit(1 if found.faults else 0)
    for sentence in (*found.faults, *found.advice, *found.told):
        show(sentence)
    if found.faults:
        show(f"{len(found.faults)} to mend before an audit.")
        raise typer.Exit(1)
    show(f"It can be audited{f'; {len(found.advice)} remarks' if found.advice else ''}.")


@study.command("read")
def read(
    answers: Annotated[
        Path, typer.Argument(help="CSV: answer, options (joined by |), if need be reading, lettered.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show how each answer of a chat model is read: as an option, refused or unreadable."""
    from swapbias.studies import read_answer

    with answers.open(encoding="utf-8-sig", newline="") as handle:
        reader = csv.DictReader(handle, restval="")
        lines = [(reader.line_num, row) for row in reader]
    rows, read_as = [row for _, row in lines], []
    for name in ("answer", "options"):
        if name not in (reader.fieldnames or ()):
            raise UsageError(f"{answers.name} has no column {name}. Add it.")
    for line, row in lines:
        lettered = (row.get("lettered") or "").strip().lower() in ("yes", "true", "1")
        try:
            how: Any = {"reading": row.get("reading") or "option", "lettered": lettered}
            read_as.append(read_answer(row["answer"], row["options"].split("|"), **how))
        except UsageError as error:
            raise UsageError(f"{answers.name}:{line}: {error}") from error
    if as_json:
        show_json([{**row, "read_as": one} for row, one in zip(rows, read_as, strict=True)])
        return
    for row, one in zip(rows, read_as, strict=True):
        show(f"{one:<24} {' '.join(row['answer'].split())[:90]}")
    counts = Counter(one if one in ("refused", "unreadable") else "read" for one in read_as)
    show(f"{counts['read']} of {len(rows)} read, {counts['refused']} refused, {counts['unreadable']} unreadable.")


@study.command("push")
def push_folder(
    folder: Folder,
    repo: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="A dataset on the Hub; made if need be.")],
    public: Annotated[bool, typer.Option("--public", help="Everybody may read it.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Publish a study as a dataset: others run it with --study OWNER/NAME."""
    from swapbias.hub import Hub, push_study

    done = push_study(Hub(), folder, repo, private=not public, dry_run=dry_run, say=say)
    at = f" at {done.commit[:12]}" if done.commit else ""
    show(f"{done.repo.name}: {done.status}{' (private)' if done.private else ''}, {done.tag}{at}")
    if done.commit:
        show(f"Others run it with swapbias audit MODEL --study {repo}@{done.commit}")


@lexicon.command("export")
def export_words(
    run: RunFolder,
    file: Annotated[Path, typer.Option("--out", help="CSV to write.")] = Path("unrated.csv"),
) -> None:
    """Write the words of a run without a label, heaviest first."""
    from swapbias.files import as_csv, write_whole
    from swapbias.privacy import for_owner_alone, is_credentialed
    from swapbias.runs import Run
    from swapbias.studies import rated, unrated_words

    name = rated()[0].name
    items = Run.open(run).items(name)
    if items is None:
        raise UsageError(f"{run} holds no finished {name}. Audit with --study {name}.")
    words = unrated_words(items)
    with for_owner_alone(is_credentialed(run)):
        write_whole(file, as_csv(words))
    show(f"{len(words)} words with {words['mass'].sum():.1%} of the mass are unrated.")
    show(f"Words: {file}")


@lexicon.command("import")
def import_words(file: Labels) -> None:
    """Add your labels (positive, negative, neutral, irrelevant) for later audits."""
    from swapbias.studies import import_labels

    show(f"{import_labels(file)} words of your own are now part of the attitude lexicon.")


@lexicon.command("agreement")
def compare_raters(first: Labels, second: Labels) -> None:
    """Compute Cohen's kappa of two raters over the words that both labelled."""
    from swapbias.studies import agreement, read_labels

    kappa, share, words = agreement(read_labels(first), read_labels(second))
    show(f"kappa {kappa:.3f}, equal labels {share:.1%}, words {words}")
