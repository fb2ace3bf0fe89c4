"""swapbias study: a question of one's own, as a folder of tables."""

from pathlib import Path
from typing import Annotated

import typer

from swapbias.cli.terminal import AsJson, out, print_json, say

study = typer.Typer(no_args_is_help=True, help="A study of your own: a folder of tables, nothing of which is run.")

Folder = Annotated[Path, typer.Argument(help="Folder of the study.")]


@study.command("new")
def new(folder: Folder) -> None:
    """Write a small complete example to edit: it can be audited at once."""
    from swapbias.studies import new_study

    made = new_study(folder)
    _print(f"Written to {folder}: {', '.join(one.name for one in made)}.")
    _print(f"Next: edit them, swapbias study check {folder}, swapbias audit MODEL --study {folder}")


@study.command("check")
def check(
    source: Annotated[Path, typer.Argument(help="Folder of the study, or a CSV file of prompts.")],
    model: Annotated[str | None, typer.Option(help="A masked model that has to know the words counted.")] = None,
    reference: Annotated[str, typer.Option(help="Of a CSV file: the group that is subtracted.")] = "",
    lexicon: Annotated[Path | None, typer.Option(help="Of a CSV file: words (word,group) counted at a mask.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong, with file and line, and what gap could be found. Exit code 1: an audit would refuse it."""
    from swapbias.audit import check_study
    from swapbias.scorers import load_scorer

    scorer = load_scorer(model) if model else None
    found = check_study(source, scorer=scorer, reference=reference, lexicon=lexicon)
    if as_json:
        print_json({"faults": found.faults, "advice": found.advice, "told": found.told})
        raise typer.Exit(1 if found.faults else 0)
    for sentence in (*found.faults, *found.advice, *found.told):
        _print(sentence)
    if found.faults:
        _print(f"{len(found.faults)} to mend before an audit.")
        raise typer.Exit(1)
    _print(f"It can be audited{f'; {len(found.advice)} remarks' if found.advice else ''}.")


@study.command("read")
def read(
    answers: Annotated[
        Path, typer.Argument(help="CSV file: answer, options (joined by |), and if need be reading and lettered.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show how each answer of a chat model is read: as one of its options, refused or unreadable."""
    from collections import Counter

    from swapbias.errors import UsageError
    from swapbias.studies import read_answer, strict_rows

    with answers.open(encoding="utf-8-sig", newline="") as handle:
        lines = strict_rows(answers.name, handle)
        header = next(lines, (1, []))[1]
        for one in ("answer", "options"):
            if one not in header:
                raise UsageError(f"{answers.name} has no column {one}. Add it.")
        rows = {line: dict(zip(header, cells, strict=False)) for line, cells in lines if cells}
    found = []
    for line, row in rows.items():
        try:
            options = row.get("options", "").split("|")
            lettered = row.get("lettered", "").strip().lower() in ("yes", "true", "1")
            found.append(
                read_answer(row["answer"], options, reading=row.get("reading") or "option", lettered=lettered)
            )
        except UsageError as error:
            raise UsageError(f"{answers.name}:{line}: {error}") from error
    if as_json:
        print_json([{**row, "read_as": one} for row, one in zip(rows.values(), found, strict=True)])
        return
    for row, one in zip(rows.values(), found, strict=True):
        _print(f"{one:<24} {' '.join(row['answer'].split())[:90]}")
    counts = Counter(one if one in ("refused", "unreadable") else "read" for one in found)
    _print(f"{counts['read']} of {len(found)} read, {counts['refused']} refused, {counts['unreadable']} unreadable.")


@study.command("push")
def push(
    folder: Folder,
    repo: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="A dataset on the Hub; made if need be.")],
    public: Annotated[bool, typer.Option("--public", help="Everybody may read it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")] = False,
) -> None:
    """Publish a study as a dataset, tagged with its version: others run it with --study OWNER/NAME."""
    from swapbias.hub import Hub, push_study

    done = push_study(Hub(), folder, repo, private=not public, dry_run=dry_run, say=say)
    at = f" at {done.commit[:12]}" if done.commit else ""
    _print(f"{done.repo.name}: {done.status}{' (private)' if done.private else ''}, {done.tag}{at}")
    if done.commit:
        _print(f"Others run it with swapbias audit MODEL --study {repo}@{done.commit}")


def _print(sentence: str) -> None:
    out.print(sentence, soft_wrap=True, markup=False, highlight=False)
