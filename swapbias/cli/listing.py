"""swapbias list, reproduce and cache: what can be asked, what was published, what is stored on this machine."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from swapbias.cli.terminal import AsJson, out, plain_table, show, show_json
from swapbias.files import cache_dir

if TYPE_CHECKING:
    from rich.table import Table

    from swapbias.findings import Reproduced
    from swapbias.studies import Experiment

_KINDS = {
    "masked": "Masked language models (BERT, RoBERTa)",
    "causal": "Causal language models (GPT-2, Llama)",
    "classifier": "Classifiers, Python functions, vader",
    "chat": "Chat models (--chat)",
    "embedding": "Clinical notes (word vectors, encoders)",
}
_MOST_NAMED = 3  # experiments of a study for one kind of model; more are one line


def list_(
    with_corpora: Annotated[bool, typer.Option("--corpora", help="Corpora, their configs and row counts.")] = False,
    with_measures: Annotated[bool, typer.Option("--measures", help="Measures (evaluate modules).")] = False,
    as_json: AsJson = False,
) -> None:
    """List what can be asked of each kind of model."""
    from swapbias.studies import corpora, load_corpus, load_study, metrics, row_count, studies

    asked = [(name, one) for name in studies() for one in load_study(name).experiments]
    rows = [
        (name, one.name, row_count(name, one.name), one.description)
        for name in (corpora() if as_json or with_corpora else ())
        for one in load_corpus(name).configs
    ]
    if as_json:
        fields = ("name", "kind", "configs", "question")
        experiments = [{"study": study, **{name: getattr(one, name) for name in fields}} for study, one in asked]
        names = ("corpus", "config", "rows", "description")
        tables = [dict(zip(names, one, strict=True)) for one in rows]
        show_json({"studies": experiments, "corpora": tables, "measures": metrics()})
        return
    if with_measures:
        show(f"Measures (evaluate modules): {', '.join(metrics())}")
    for corpus in dict.fromkeys(row[0] for row in rows):
        show(f"\nCorpus {corpus}")
        for _, config, count, description in (row for row in rows if row[0] == corpus):
            _show_line(f"{config} ({'needs upstream' if count is None else count})", description)
    if not (with_corpora or with_measures):
        show("Name a study to run it: swapbias audit MODEL --study STUDY[:EXPERIMENT]")
        for kind, title in _KINDS.items():
            _show_kind(title, [(study, one) for study, one in asked if one.kind == kind and one.configs])


def _show_kind(title: str, asked: "Sequence[tuple[str, Experiment]]") -> None:
    """A line for each experiment, or for each study that has many: its name and the question."""
    from swapbias.studies import load_study

    show(f"\n{title}")
    for name in dict.fromkeys(name for name, _ in asked):
        experiments = [one for study, one in asked if study == name]
        if len(experiments) > _MOST_NAMED:
            _show_line(f"{name} ({len(experiments)} experiments)", load_study(name).title)
        else:
            for one in experiments:
                _show_line(f"{name}:{one.name}", one.question)


def _show_line(name: str, description: str) -> None:
    """A name that must be typed, never cut, and as much of what it is as there is room for."""
    out.print(f"  {name:<34} {description}", no_wrap=True, overflow="ellipsis")


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[STUDY]...")] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every number, and what is not at hand.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recompute published numbers.

    They come from the outputs that the authors released.

    Exit code 1: a number differs, or no released output is at hand.
    """
    from swapbias.findings import NotAtHand, recompute
    from swapbias.studies import load_study, studies

    names = names or studies()
    for name in names:
        load_study(name)
    found = [one for name in names for one in recompute(name)]
    missing = [one for one in found if isinstance(one, NotAtHand)]
    rows = [one for one in found if not isinstance(one, NotAtHand)]
    if as_json:
        show_json({"numbers": [asdict(one) for one in rows], "not_at_hand": [asdict(one) for one in missing]})
    else:
        if wanted := [row for row in rows if every or row.match == "no"]:
            out.print(_table(wanted))
        for gone in missing if every else ():
            show(f"Skipped: {gone.study} {gone.experiment} of {gone.model}: {gone.reason}")
        for name in dict.fromkeys(one.study for one in found):
            count = sum(one.study == name for one in missing)
            matches = _count_matches([row for row in rows if row.study == name])
            show(f"{name}: {matches}; {count} sets of outputs are not at hand.")
        if rows:
            show(f"{_count_matches(rows)}.")
    if not rows:
        raise ValueError(
            "No released output is at hand, so nothing was recomputed. Go online, where the files of the pinned "
            "commits are fetched, or set SWAPBIAS_UPSTREAM to a folder that holds them as OWNER/REPOSITORY/PATH; "
            "--all names each."
        )
    if any(row.match == "no" for row in rows):
        raise typer.Exit(1)


def _table(rows: "Sequence[Reproduced]") -> "Table":
    table = plain_table("", "model", "number", "published", "recomputed", "match", "file")
    for row in rows:
        note = f"{row.match}: {row.note}" if row.match == "explained" else row.match
        number = f"{row.study} {row.number}"
        # What no paper prints has nothing to match.
        table.add_row(row.model, number, row.published or "–", f"{row.recomputed:.6g}", note or "–", row.file)
    return table


def _count_matches(rows: "Sequence[Reproduced]") -> str:
    matches = [row.match for row in rows if row.published]
    if not matches:
        return "nothing to compare"
    wrong, explained = matches.count("no"), matches.count("explained")
    right = len(matches) - wrong - explained
    return f"{right} of {len(matches)} numbers match, {explained} explained, {wrong} do not"


def cache(
    clear: Annotated[str | None, typer.Option(help="Remove scores, upstream, models or all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is stored here, or remove it."""
    from rich.filesize import decimal

    from swapbias.runs import cache as store

    if clear is not None:
        for one in [store.clear(kind) for kind in (store.CLEARED if clear == "all" else (clear,))]:
            show(f"{one.kind}: {one.entries} removed, {decimal(one.bytes)} freed.")
    elif as_json:
        show_json({"kept": [asdict(one) for one in store.usage()], "place": str(cache_dir())})
    else:
        table = plain_table("Cache", "kept", numbers=("entries", "size"))
        for one in store.usage():
            table.add_row(one.kind, str(one.entries), decimal(one.bytes))
        out.print(table)
        show(f"At most {decimal(store.cache_limit())} of scores are kept ({store.LIMIT}).")
        show(f"Place: {cache_dir()}")
