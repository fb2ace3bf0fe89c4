"""swapbias reproduce: published numbers, recomputed from the outputs that their authors released."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from shlex import join
from textwrap import fill, wrap
from typing import Annotated, TypeAlias

import typer

from swapbias import findings, studies
from swapbias.cli import terminal as ui
from swapbias.cli.completion import complete_studies
from swapbias.cli.data import loadable
from swapbias.errors import UpstreamMissingError, UsageError

_WIDE = 100
"""Columns of what is printed."""
_Result: TypeAlias = "findings.Reproduced | findings.NotAtHand | findings.NotCompared"


def reproduce(
    names: Annotated[
        ui.Names,
        ui.argument(
            "STUDY", "Studies whose numbers are recomputed [all].", autocompletion=complete_studies
        ),
    ] = None,
    show_all: Annotated[
        bool, ui.option("Print every number, and what was not found.", "--all")
    ] = False,
    folder: Annotated[
        Path | None, ui.option("Write a run for each released model, for swapbias tables.", "--out")
    ] = None,
) -> None:
    """Recompute published numbers.

    They come from the outputs that the authors released.

    With --out FOLDER these become runs, whose tables, figures and pages are made as those of an audit.

    Exit code 1: a number differs, or no released output was found.
    """
    if folder is not None:
        _write_runs(names or [], folder)
        return
    names = [studies.load_study(name).name for name in names or loadable(studies.studies())]
    results = {name: list(findings.recompute(name)) for name in names}
    all_results = [result for of_study in results.values() for result in of_study]
    rows = [result for result in all_results if isinstance(result, findings.Reproduced)]
    _show_tables(rows, show_all=show_all)
    if show_all:
        _show_left_out(all_results)
    for name, of_study in results.items():
        _show_count(name, of_study)
    if not rows and any(isinstance(result, findings.NotAtHand) for result in all_results):
        raise UpstreamMissingError(
            "No released output was found, so nothing was recomputed. Go online, or set SWAPBIAS_UPSTREAM to a "
            "folder that contains them as OWNER/REPOSITORY/PATH; --all names each."
        )
    if rows:
        ui.show(f"{_count_matches(rows)}.")
    if any(row.match == "no" for row in rows):
        raise typer.Exit(1)


def _write_runs(names: Sequence[str], folder: Path) -> None:
    """Write the released outputs of studies as runs, and show where they lie and which are missing."""
    from swapbias.runs import released_runs  # reads tables

    if not names:
        raise UsageError("--out writes runs of the studies that are named. Name one or more.")
    chosen = [studies.load_study(name).name for name in names]
    written, left_out = released_runs.write_released_runs([*dict.fromkeys(chosen)], folder)
    for sentence in left_out:
        ui.show(fill(f"No run: {sentence}", _WIDE))
    for run in written:
        ui.show(str(run.place))
    ui.show("No model was read: these are released outputs.")
    ui.show(f"Next    swapbias tables {join(str(run.place) for run in written)}")


def _show_left_out(results: "Iterable[_Result]") -> None:
    """Show outputs that are missing, and each published number that nothing recomputes."""
    for result in results:
        if isinstance(result, findings.NotAtHand):
            subject = f"{result.study} {result.experiment} of {result.model}"
            ui.show(fill(f"Skipped: {subject}: {result.reason}", _WIDE))
        elif isinstance(result, findings.NotCompared):
            number = f"{result.study}, {result.model}: {result.number} {result.published}"
            ui.show(fill(f"{number}; not compared: {result.reason}", _WIDE))


def _show_count(name: str, results: "Sequence[_Result]") -> None:
    """Show in a line how many numbers of a study match, and how many could not be compared."""
    rows = [result for result in results if isinstance(result, findings.Reproduced)]
    absent = sum(isinstance(result, findings.NotAtHand) for result in results)
    left_out = sum(isinstance(result, findings.NotCompared) for result in results)
    if not rows and not absent and not left_out:
        ui.show(f"{name}: no number is published, and no output was released.")
        return
    parts = [_count_matches(rows), f"{absent} sets not found"]
    if not rows and not absent:
        parts = ["its authors released no outputs"]
    text = f"{name}: {'; '.join(parts)}; {left_out} numbers not compared."
    ui.show(fill(text, _WIDE, subsequent_indent="  "))


def _show_tables(rows: "Sequence[findings.Reproduced]", *, show_all: bool) -> None:
    """Show the numbers of each study, model and file below a title: all, or those that do not match."""
    for (study, model, file), group in groupby(rows, key=_source_of_number):
        title = f"{study}, {model}"
        if file:
            title = f"{title} ({file})"
        numbers = [row for row in group if show_all or row.match == "no"]
        if numbers:
            _show_numbers(title, numbers)


def _source_of_number(row: "findings.Reproduced") -> tuple[str, str, str]:
    """Return the study, model and file that a number is of."""
    return row.study, row.model, row.file


def _show_numbers(title: str, rows: "Sequence[findings.Reproduced]") -> None:
    """Show published and recomputed numbers below a title, with the notes on those that differ for a reason."""
    lines = wrap(f"{title}: published, recomputed", _WIDE)
    for row in rows:
        *before, last = wrap(row.number, 60, initial_indent="  ", subsequent_indent="    ")
        lines += before
        published = row.published or "–"
        match = f"{row.match}, second comparison" if row.is_second else row.match
        lines.append(f"{last:<60}  {published:>10}  {row.recomputed:>12.6g}  {match}")
        if row.match == "explained":
            lines += [f"    {line}" for line in wrap(row.note, _WIDE - 4)]
    ui.show("\n".join(lines))


def _count_matches(rows: "Sequence[findings.Reproduced]") -> str:
    """Say how many published numbers match, each counted once, and of which origins they are."""
    published = [row for row in rows if row.published]
    first = [row for row in published if not row.is_second]
    if not first:
        return "nothing to compare"
    matches = [row.match for row in first]
    wrong = matches.count("no")
    explained = matches.count("explained")
    right = len(matches) - wrong - explained
    by_origin = Counter(row.origin for row in first)
    origins = ", ".join(f"{by_origin[name]} {name}" for name in sorted(by_origin, reverse=True))
    text = f"{right} of {len(matches)} numbers match, {explained} explained, {wrong} do not ({origins})"
    second = [row.match for row in published if row.is_second]
    if second:
        text += f"; {len(second)} second comparisons, {second.count('no')} do not match"
    return text
