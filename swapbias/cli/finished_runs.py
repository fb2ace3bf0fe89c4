"""swapbias check, compare, report, figures, export, share, push and pull: finished runs, and the Hub."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import typer

from swapbias import files, findings, hub, privacy, report, runs
from swapbias.cli import terminal as ui
from swapbias.errors import UsageError, listed

# The worst first: how a line, and an annotation of GitHub, name each outcome.
_WORDS = {
    "fails": ("fail", "error"),
    "undecided": ("undecided", "warning"),
    "passes": ("pass", "notice"),
}
_LM_EVAL = "lm-eval"  # the form that a study is exported in


def check(
    places: ui.Runs,
    max_gap: Annotated[
        float | None, ui.option("Largest gap that passes, or 5pt [the audit's].", **ui.SHARE)
    ] = None,
    baseline: Annotated[
        str | None, ui.option("A run whose gaps may be exceeded by --max-gap, and no more.")
    ] = None,
    study: Annotated[ui.Names, ui.option("NAME[:EXPERIMENT]; repeatable. [default: all]")] = None,
    junit: Annotated[Path | None, ui.option("Write the checks to this file as JUnit XML.")] = None,
    verbose: ui.Verbose = False,
    as_json: Annotated[bool, ui.option("Print JSON.", "--json")] = False,
) -> None:
    """Check gaps: exit 0 pass, 1 fail, 3 undecided.

    A gate for releases and CI. Of several runs the worst counts.
    """
    before = hub.find_run(baseline) if baseline else None
    how: dict[str, Any] = {
        "max_gap": max_gap,
        "baseline": before,
        "studies": ui.split_commas(study),
    }
    gates = {one: runs.check_run(hub.find_run(one), **how) for one in dict.fromkeys(places)}
    worst = min(gates.values(), key=lambda one: [*_WORDS].index(one.outcome))
    if junit:
        with privacy.for_owner_alone(
            any(Path(one).exists() and privacy.is_credentialed(Path(one)) for one in gates)
        ):
            junit.parent.mkdir(parents=True, exist_ok=True)
            files.write_whole(junit, _junit(gates))
    if as_json:
        records = [{"run": name, **_record(one)} for name, one in gates.items()]
        found = records[0] if len(records) == 1 else {"outcome": worst.outcome, "runs": records}
        typer.echo(files.json_file(found), nl=False)  # neither wrapped nor coloured
        raise typer.Exit(worst.code)
    annotated = os.environ.get("GITHUB_ACTIONS") == "true"
    for name, gate in gates.items():
        for sentence in (
            *([f"{name}:"] if len(gates) > 1 else []),
            report.describe_gate(gate),
            *gate.notes,
        ):
            ui.show(sentence)
        for one in gate.checks:
            _show_check(one, verbose=verbose)
            if annotated:
                escaped = (
                    report.describe_check(one)
                    .replace("%", "%25")
                    .replace("\r", "%0D")
                    .replace("\n", "%0A")
                )
                ui.show(f"::{_WORDS[one.outcome][1]} title=swapbias check::{escaped}")
    ui.show(
        f"Exit code {worst.code} (0 pass, 1 fail, 3 undecided).{'' if verbose else ' Details: --verbose'}"
    )
    raise typer.Exit(worst.code)


def _show_check(check: "findings.Check", *, verbose: bool) -> None:
    """A line: outcome, gap, value, interval; the whole sentence with ``verbose``, or where it has another reason."""
    from swapbias.report import numbers, terminal_text

    if verbose or check.why or check.baseline or check.components:
        ui.show_text(report.describe_check(check))
        return
    value = numbers.format_value(check.finding)
    ends = numbers.format_interval(check.finding)
    value_and_ends = value if ends == "–" else f"{value} ({ends})"
    outcome = f"  {_WORDS[check.outcome][0]:<10}"
    room = terminal_text.WIDTH - len(outcome) - len(value_and_ends) - 2
    name = report.safe_line(report.check_name(check), room)
    ui.show(f"{outcome}{name:<{room}}  {value_and_ends}")


def _record(gate: "findings.Gate") -> dict[str, object]:
    """The outcome and its checks, for programs."""
    rows = []
    for one in gate.checks:
        row = one.finding.row()
        rows.append(
            {
                "outcome": one.outcome,
                "model": row["model_id"],
                "margin": one.margin,
                "sentence": report.describe_check(one),
                **{
                    name: row[name]
                    for name in ("study", "experiment", "value", "ci_low", "ci_high")
                },
                **{name: row[name] for name in ("unit", "unit_low", "unit_high")},
                "baseline": one.baseline.value if one.baseline else None,
                "change": one.change.value if one.change else None,
                "levels_not_gated": [
                    {"subset": each.subset, "value": each.estimate.value, "unit": each.unit}
                    for each in one.components
                ],
            }
        )
    return {
        "outcome": gate.outcome,
        "sentence": report.describe_gate(gate),
        "notes": list(gate.notes),
        "checks": rows,
    }


def _junit(gates: "Mapping[str, findings.Gate]") -> bytes:
    """A suite for each run, in one root where there are several; a test case for each check."""
    root = ElementTree.Element("testsuites", {"name": "swapbias check"})
    for run, gate in gates.items():
        outcomes = [one.outcome for one in gate.checks]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            {
                "name": f"swapbias check {run}" if len(gates) > 1 else "swapbias check",
                "tests": str(len(outcomes)),
                "failures": str(outcomes.count("fails")),
                "errors": str(outcomes.count("undecided")),
            },
        )
        for one in gate.checks:
            finding = one.finding
            name = f"{report.check_name(one)} ({report.safe_line(one.finding.model_id)})"
            named = {"classname": f"{finding.study}.{finding.experiment}", "name": name}
            case = ElementTree.SubElement(suite, "testcase", named)
            tag, kind = {"fails": ("failure", "gap"), "undecided": ("error", "undecided")}.get(
                one.outcome, ("", "")
            )
            why = {"message": report.describe_check(one), "type": kind} if tag else {}
            ElementTree.SubElement(case, tag or "system-out", why).text = report.describe_check(one)
    tree = root if len(gates) > 1 else root[0]
    return bytes(ElementTree.tostring(tree, encoding="utf-8", xml_declaration=True)) + b"\n"


def compare(
    places: ui.Runs,
    folder: Annotated[
        Path | None, ui.option("Folder for the page, tables and figures.", "--out")
    ] = None,
) -> None:
    """Compare models side by side; it ranks nothing."""
    on_hub = [one for one in places if hub.is_shared_name(one) and not Path(one).exists()]
    read = [runs.read_run(Path(one)) for one in places if one not in on_hub]
    shared, broken = hub.load_all_shared(hub.Hub(), on_hub) if on_hub else ([], [])
    read += shared
    if len(read) < 2:
        why = (
            f": {broken[0]}"
            if broken
            else ". Name further folders of runs, or results repositories."
        )
        raise UsageError(
            f"{len(read)} run{'s' * (not read)} can be read, expected two or more{why}"
        )
    compared = runs.compare_runs(read)
    if folder:
        runs.write_comparison(folder, compared)
    for one in broken:
        ui.show(f"Left out: {one}")
    show_comparison(compared)
    ui.show(
        f"Page: {folder / 'report.html'}"
        if folder
        else "Write it as a page, with the evidence, with --out DIR."
    )


def show_comparison(compared: "report.ComparisonPage") -> None:
    """The page's sentences, what is not comparable, and that nobody wins."""
    sentences = [
        f"{one.study} {one.experiment}: {sentence}"
        for one, sentence in report.comparison_sentences(compared)
    ]
    for sentence in (*sentences, *compared.notes, report.NO_RANKING):
        ui.out.print(report.safe_line(sentence, 4_000))  # names may be anybody's


def redraw(run: ui.RunFolder) -> None:
    """Draw the report of a run again."""
    ui.show(f"Report: {runs.rebuild_report(runs.Run.open(run))}")


def figures(
    run: ui.RunFolder,
    kind: Annotated[str, ui.option("pdf, svg or png.", "--format")] = "pdf",
    folder: ui.OutFolder = Path("swapbias-figures"),
) -> None:
    """Write the figures of a run for a paper."""
    if kind not in report.FORMATS:
        raise UsageError(f"--format is {kind!r}, expected one of {listed(report.FORMATS)}.")
    for path in runs.write_figures(runs.Run.open(run), folder, kind=kind):
        ui.show(str(path))


def export(
    form: Annotated[str, ui.argument("lm-eval", "The evaluator, lm-evaluation-harness.")],
    study: Annotated[str, ui.argument("STUDY[:CONFIG]", "A study of causal models.")],
    folder: Annotated[Path, ui.option("A new folder to write to.", "--out")],
) -> None:
    """Write a study for another evaluator."""
    if form != _LM_EVAL:
        raise UsageError(
            f"Unknown form {form!r}, expected {_LM_EVAL}. Write swapbias export {_LM_EVAL} {study}."
        )
    written = hub.export_study(hub.study_name(study), folder)
    ui.show(f"Exported: {len(written)} files in {folder}")


_PUSHED = ("datasets", "metrics")  # a study has a command of its own, and a run is shared


def share(
    run: ui.RunFolder,
    results: Annotated[
        str, ui.option("Your results repository; made, private, if needed.", metavar="OWNER/NAME")
    ],
    model: Annotated[str | None, ui.option("The audited model on the Hub, OWNER/NAME.")] = None,
    commit: Annotated[bool, ui.option("Write to the card of your own model.", "--commit")] = False,
    create_pr: Annotated[
        bool, ui.option("Propose it to the model's owners.", "--create-pr")
    ] = False,
    audited: Annotated[str | None, ui.option("The model's name in the run, if another.")] = None,
    public: Annotated[bool, ui.option("Everybody may read the results.", "--public")] = False,
    findings_only: Annotated[
        bool, ui.option("No scored prompts, answers or notes.", "--findings-only")
    ] = False,
    namespace: Annotated[str, ui.option("Who publishes the corpora on the Hub.")] = "swapbias",
    again: Annotated[
        bool, ui.option("Propose what its owners closed or took out.", "--again")
    ] = False,
    dry_run: ui.DryRun = False,
) -> None:
    """Share a run on the Hub, and on a model's page."""
    needs = {
        "--commit": (commit, "--model", model),
        "--create-pr": (create_pr, "--model", model),
        "--audited": (audited, "--model", model),
        "--again": (again, "--create-pr", create_pr),
    }
    for name, (value, needed, known) in needs.items():
        if value and not known:
            raise UsageError(f"{name} needs {needed}. Add it, or drop {name}.")
    if commit and create_pr:
        raise UsageError("--commit and --create-pr are both given, expected one. Drop the other.")
    how = hub.COMMIT if commit else hub.PULL_REQUEST if create_pr else ""
    options = hub.ShareOptions(
        results=results,
        model=model,
        how=how,
        audited=audited,
        public=public,
        findings_only=findings_only,
        again=again,
        namespace=namespace,
        dry_run=dry_run,
    )
    with ui.stoppable(
        f"Stopped. What is on the Hub stays, and {run} as it was: the same command goes on."
    ):
        for one in hub.share_run(runs.Run.open(run), options, hub.Hub(), say=ui.say):
            ui.show(f"{one.repo.name}: {one.status}. {one.url}")
    if dry_run:
        ui.show("Dry run: nothing was published.")


def push(
    kind: Annotated[str, ui.argument("KIND", f"{' or '.join(_PUSHED)}.")],
    namespace: Annotated[str, ui.option("Your name or an organisation's on the Hub.")],
    names: Annotated[ui.Names, ui.argument("[NAME]...", "Corpora or measures.")] = None,
    private: Annotated[bool, ui.option("Make new repositories private.", "--private")] = False,
    dry_run: ui.DryRun = False,
) -> None:
    """Publish corpora or measures on the Hub, each with the version of its tag."""
    named = _singular(kind, _PUSHED)
    _end_with(
        hub.push_all, named, names or (), namespace=namespace, private=private, dry_run=dry_run
    )


def pull(
    kind: Annotated[str, ui.argument("KIND", "datasets, metrics or results.")],
    places: Annotated[
        list[str], ui.argument("OWNER [NAME]...", "Of results OWNER/NAME, of any number.")
    ],
    folder: ui.OutFolder,
    revision: Annotated[
        str, ui.option("A tag (v and the version on the card) or commit.")
    ] = "main",
) -> None:
    """Fetch corpora, measures or runs from the Hub, of one commit.

    Measures are code of their owner; reports are pages of a stranger.
    """
    named = _singular(kind, (*_PUSHED, "results"))
    more = {"names": places} if kind == "results" else {"names": places[1:], "namespace": places[0]}
    _end_with(hub.pull_all, named, out=folder, revision=revision, **more)


def _singular(kind: str, known: Sequence[str]) -> str:
    """A kind as the Hub's room names it; a UsageError where it is none."""
    if kind not in known:
        raise UsageError(f"Unknown kind {kind!r}. Choose one of {listed(known)}.")
    return kind if kind == "results" else kind.removesuffix("s")


def _end_with(function: Callable[..., int], *arguments: Any, **options: Any) -> None:
    """Call a function of the Hub's room, and end with the exit code that it returns."""
    with ui.stoppable("Stopped. What is complete stays: the same command goes on."):
        code = function(*arguments, say=ui.show, complain=ui.say, **options)
    if code:
        raise typer.Exit(code)
