"""swapbias check, compare, report, figures and export: what is done with finished runs."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from xml.etree import ElementTree

import typer

from swapbias.cli.terminal import (
    AsJson,
    RunFolder,
    Verbose,
    out,
    plain_table,
    say,
    show,
    show_json,
    show_text,
    split_commas,
)
from swapbias.errors import UsageError

if TYPE_CHECKING:
    from swapbias.findings import Check, Gate
    from swapbias.runs import Compared

_OUTCOMES = {0: "passes", 1: "fails", 3: "undecided"}
_WORDS = {"passes": "pass", "fails": "fail", "undecided": "undecided"}
_WORST = (1, 3, 0)
_ANNOTATED = {"passes": "notice", "fails": "error", "undecided": "warning"}
_REPORT = "report.html"
_LM_EVAL = "lm-eval"  # the form that a study is exported in


def check(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders, or OWNER/NAME[/RUN] on the Hub.")],
    max_gap: Annotated[float, typer.Option(help="Largest gap that passes: a share of the unit's range.")] = 0.05,
    baseline: Annotated[
        str | None, typer.Option(help="A run whose gaps may be exceeded by --max-gap, and no more.")
    ] = None,
    study: Annotated[list[str] | None, typer.Option(help="NAME[:EXPERIMENT]; repeatable. [default: all]")] = None,
    of: Annotated[
        str, typer.Option(help="gap, level or all: of a difference of gaps that difference, the gaps, or both.")
    ] = "gap",
    junit: Annotated[Path | None, typer.Option(help="Write the checks to this file as JUnit XML.")] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Print annotations for GitHub [default: on its runners].")
    ] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check gaps: exit 0 pass, 1 fail, 3 undecided.

    A gate for releases and CI. Of several runs the worst counts.
    """
    from swapbias.files import write_whole
    from swapbias.hub import find_run
    from swapbias.privacy import for_owner_alone, is_credentialed
    from swapbias.report import checked, gated
    from swapbias.runs import check_run

    before = find_run(baseline) if baseline else None
    how: dict[str, Any] = {"max_gap": max_gap, "baseline": before, "studies": split_commas(study), "of": of}
    gates = {one: check_run(find_run(one), **how) for one in dict.fromkeys(runs)}
    code = min((one.code for one in gates.values()), key=_WORST.index)
    if junit:
        with for_owner_alone(any(Path(one).exists() and is_credentialed(Path(one)) for one in gates)):
            junit.parent.mkdir(parents=True, exist_ok=True)
            write_whole(junit, _junit(gates))
    if as_json:
        records = [{"run": name, **_record(one)} for name, one in gates.items()]
        show_json(records[0] if len(records) == 1 else {"outcome": _OUTCOMES[code], "runs": records})
        raise typer.Exit(code)
    for name, gate in gates.items():
        if len(gates) > 1:
            show(f"{name}:")
        show(gated(gate))
        for note in gate.notes:
            show(note)
        for one in gate.checks:
            _show_check(one, verbose=verbose)
            if annotations or os.environ.get("GITHUB_ACTIONS") == "true":
                escaped = checked(one).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
                show(f"::{_ANNOTATED[one.outcome]} title=swapbias check::{escaped}")
    show(f"Exit code {code} (0 pass, 1 fail, 3 undecided).{'' if verbose else ' Details: --verbose'}")
    raise typer.Exit(code)


def _show_check(check: "Check", *, verbose: bool) -> None:
    """A line: outcome, gap, value, interval; the whole sentence with ``verbose``, or where it has another reason."""
    from swapbias.report import check_name, checked, text

    if verbose or check.why or check.baseline or check.levels:
        show_text(checked(check))
        return
    name, value = check_name(check), text.value(check.finding)
    ends = text.interval(check.finding)
    numbers = f"{value} ({ends})" if ends else value
    outcome = f"  {_WORDS[check.outcome]:<10}"
    room = 80 - len(outcome) - len(numbers) - 2
    show(f"{outcome}{text.shown(name, room):<{room}}  {numbers}")


def _record(gate: "Gate") -> dict[str, object]:
    from swapbias.report import checked, gated

    rows = [
        {
            "study": one.finding.study,
            "experiment": one.finding.experiment,
            "model": one.finding.model_id,
            "outcome": one.outcome,
            "value": one.finding.estimate.value,
            "ci_low": one.finding.estimate.ci_low,
            "ci_high": one.finding.estimate.ci_high,
            "unit": one.finding.unit,
            "margin": one.margin,
            "baseline": one.baseline.value if one.baseline else None,
            "change": one.change.value if one.change else None,
            "levels_not_gated": [
                {"subset": each.subset, "value": each.estimate.value, "unit": each.unit} for each in one.levels
            ],
            "sentence": checked(one),
        }
        for one in gate.checks
    ]
    return {"outcome": gate.outcome, "sentence": gated(gate), "notes": list(gate.notes), "checks": rows}


def _junit(gates: "Mapping[str, Gate]") -> bytes:
    """A suite for each run, in one root where there are several; a test case for each check."""
    from swapbias.report import check_name, checked, shown

    root = ElementTree.Element("testsuites", {"name": "swapbias check"})
    for run, gate in gates.items():
        outcomes = [one.outcome for one in gate.checks]
        suite = ElementTree.SubElement(root, "testsuite", {
            "name": f"swapbias check {run}" if len(gates) > 1 else "swapbias check", "tests": str(len(outcomes)),
            "failures": str(outcomes.count("fails")), "errors": str(outcomes.count("undecided")),
        })  # fmt: skip
        for one in gate.checks:
            sentence, finding = checked(one), one.finding
            name = f"{check_name(one)} ({shown(finding.model_id)})"
            named = {"classname": f"{finding.study}.{finding.experiment}", "name": name}
            case = ElementTree.SubElement(suite, "testcase", named)
            if one.outcome == "passes":
                ElementTree.SubElement(case, "system-out").text = sentence
            else:
                tag, kind = ("failure", "gap") if one.outcome == "fails" else ("error", "undecided")
                ElementTree.SubElement(case, tag, {"message": sentence, "type": kind}).text = sentence
    tree = root if len(gates) > 1 else root[0]
    return bytes(ElementTree.tostring(tree, encoding="utf-8", xml_declaration=True)) + b"\n"


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders, or OWNER/NAME[/RUN] on the Hub.")],
    folder: Annotated[Path | None, typer.Option("--out", help="Folder for the page, tables and figures.")] = None,
    every_pair: Annotated[
        bool, typer.Option("--every-pair", help="Compare every two models, not each with the first.")
    ] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Compare models side by side; it ranks nothing."""
    from swapbias.hub import Hub, is_shared_name, load_all_shared
    from swapbias.runs import compare_runs, read_run, write_comparison

    on_hub = [one for one in runs if is_shared_name(one) and not Path(one).exists()]
    read = [read_run(Path(one)) for one in runs if one not in on_hub]
    shared, broken = load_all_shared(Hub(), on_hub) if on_hub else ([], [])
    read += shared
    if len(read) < 2:
        why = f": {broken[0]}" if broken else ". Name further folders of runs, or results repositories."
        raise UsageError(f"{len(read)} run{'s' * (not read)} can be read, expected two or more{why}")
    compared = compare_runs(read, every_pair=every_pair)
    if folder:
        write_comparison(folder, compared)
    if as_json:
        show_json(comparison_record(compared))
        return
    for one in broken:
        show(f"Left out: {one}")
    show_comparison(compared, verbose=verbose)
    show(f"Page: {folder / _REPORT}" if folder else "Write it as a page, with the evidence, with --out DIR.")


def comparison_record(compared: "Compared") -> dict[str, object]:
    """What the tables say, for programs."""
    from swapbias.findings import findings_table
    from swapbias.runs import comparison_table

    return {
        "side_by_side": comparison_table(compared.comparison).astype(object).to_dict("records"),
        "differences": findings_table(compared.differences).to_dict("records"),
        "notes": [*compared.comparison.footnotes, *compared.left_out],
    }


def show_comparison(compared: "Compared", *, verbose: bool) -> None:
    """The page's sentences, what is not comparable, and that nobody wins; every number with ``verbose``."""
    from swapbias.report import NO_RANKING, sentences, shown, terminal_table, text
    from swapbias.runs import comparison_page

    comparison, longest = compared.comparison, 4_000  # characters: names may be anybody's
    for one, sentence in sentences(comparison_page(compared)):
        out.print(shown(f"{one.study} {one.experiment}: {sentence}", longest))
    for study in dict.fromkeys(row.first.study for row in comparison.rows) if verbose else ():
        table = plain_table(shown(study), "quantity", "model", numbers=("value, 95 % interval", "n"))
        for row in comparison.rows:
            first, name = row.first, ""
            for column, found in zip(comparison.columns, row.found, strict=True):
                if found and first.study == study:
                    what = (
                        f"{first.experiment}, {text.where(first)}: {text.quantity(first)} ({first.unit}) {row.note}"
                    )
                    value = f"{text.value_of(found)} ({text.interval_of(found)})"
                    cells = (shown(column.title, 120), value, text.counted(found.estimate))
                    table.add_row("" if name else shown(what, 400), *cells)
                    name = what
        out.print(table)
    differences = [one for one in compared.differences if one.slice_by == "all"]
    if verbose and differences:
        out.print(terminal_table("Models compared", differences))
    for sentence in (*comparison.footnotes, *compared.left_out, NO_RANKING):
        out.print(shown(sentence, longest))


def report(run: RunFolder) -> None:
    """Draw the report of a run again."""
    from swapbias.runs import Run, rebuild_report

    show(f"Report: {rebuild_report(Run.open(run))}")


def figures(
    run: RunFolder,
    style: Annotated[str, typer.Option(help="paper (3.3 or 6.9 inches wide) or page (as in the report).")] = "paper",
    kind: Annotated[str, typer.Option("--format", help="pdf, svg or png.")] = "pdf",
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("swapbias-figures"),
) -> None:
    """Write the figures of a run for a paper."""
    from swapbias.report import FORMATS, STYLES
    from swapbias.runs import Run, write_figures

    for name, value, known in (("--style", style, tuple(STYLES)), ("--format", kind, FORMATS)):
        if value not in known:
            raise UsageError(f"{name} is {value!r}, expected one of {', '.join(known)}.")
    for path, caption in write_figures(Run.open(run), folder, style=style, kind=kind):
        show(f"{path}: {caption}")


def export(
    what: Annotated[list[str], typer.Argument(metavar="RUN | lm-eval STUDY", help="A finished run, or a study.")],
    folder: Annotated[Path, typer.Option("--out", help="A new folder to write to.")],
    to: Annotated[str | None, typer.Option(help="Form of a run: every-eval-ever, lm-eval or csv.")] = None,
    by: Annotated[str, typer.Option(help="Who made the run, where the form has a place for it.")] = "",
) -> None:
    """Write a run or study for another evaluator.

    swapbias export RUN --to every-eval-ever|lm-eval|csv --out DIR; scored prompts of private notes stay.

    swapbias export lm-eval STUDY[:CONFIG] --out DIR; experiments of causal models.
    """
    from swapbias.hub import export_study, study_name
    from swapbias.runs import Run, export_run

    first, *rest = what
    is_study = first == _LM_EVAL and len(rest) == 1 and not (Path(rest[0]) / "manifest.json").is_file()
    if is_study and to is None and not by:
        written = export_study(study_name(rest[0]), folder)
    elif not rest and to is not None:
        written = export_run(Run.open(Path(first)), to, folder, by=by, say=say)
    else:
        raise UsageError(
            f"{' '.join(what)} is neither a run with --to nor a study. Write swapbias export RUN --to "
            f"every-eval-ever|lm-eval|csv --out DIR, or swapbias export {_LM_EVAL} STUDY --out DIR."
        )
    show(f"Exported: {len(written)} files in {folder}")
