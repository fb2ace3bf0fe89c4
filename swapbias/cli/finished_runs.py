"""swapbias check, compare, report, figures, export, share, push and pull: finished runs, and the Hub."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

import typer

from swapbias import files, findings, hub, privacy, report, runs
from swapbias.cli import terminal as ui
from swapbias.cli.completion import complete_corpora, complete_studies
from swapbias.errors import UsageError, listed

# The worst first: how a line, and an annotation of GitHub, name each outcome.
_WORDS = {
    "fails": ("fail", "error"),
    "undecided": ("undecided", "warning"),
    "passes": ("pass", "notice"),
}
_JUNIT = {"fails": ("failure", "gap"), "undecided": ("error", "undecided")}  # element, and its type
_LM_EVAL = "lm-eval"  # the form that a study is exported in
_EVERY_EVAL = "every-eval-ever"  # and a run
_STYLES = ("own", "paper")  # of figures
_PUSHED = ("datasets", "metrics")  # a study has a command of its own, and a run is shared


def check(
    places: ui.Runs,
    max_gap: Annotated[
        float | None, ui.option("Largest gap that passes, or 5pt [the audit's].", **ui.SHARE)
    ] = None,
    baseline: Annotated[
        str | None,
        ui.option("A run whose gaps may be exceeded by --max-gap, and no more.", metavar="RUN"),
    ] = None,
    study: Annotated[
        ui.Names,
        ui.option("NAME[:EXPERIMENT]; repeatable. [default: all]", autocompletion=complete_studies),
    ] = None,
    junit: Annotated[
        Path | None, ui.option("Write the checks to this file as JUnit XML.", metavar="FILE")
    ] = None,
    verbose: ui.Verbose = False,
    as_json: Annotated[bool, ui.option("Print JSON.", "--json")] = False,
) -> None:
    """Check gaps: exit 0 pass, 1 fail, 3 undecided.

    A gate for releases and CI. Of several runs the worst counts.
    """
    before = hub.find_run(baseline) if baseline else None
    gates = {}
    for name in dict.fromkeys(places):
        gates[name] = runs.check_run(
            hub.find_run(name),
            max_gap=max_gap,
            baseline=before,
            studies=ui.split_commas(study),
        )
    worst = min(gates.values(), key=lambda gate: [*_WORDS].index(gate.outcome))
    if junit:
        _write_junit(junit, gates)
    if as_json:
        records = [{"run": name, **_record(gate)} for name, gate in gates.items()]
        record: dict[str, object] = {"outcome": worst.outcome, "runs": records}
        if len(records) == 1:
            record = records[0]
        typer.echo(files.json_file(record), nl=False)  # neither wrapped nor coloured
        raise typer.Exit(worst.code)
    for name, gate in gates.items():
        if len(gates) > 1:
            ui.show(f"{name}:")
        _show_gate(gate, verbose=verbose)
    exit_code = f"Exit code {worst.code} (0 pass, 1 fail, 3 undecided)."
    ui.show(exit_code if verbose else f"{exit_code} Details: --verbose")
    raise typer.Exit(worst.code)


def _write_junit(file: Path, gates: "Mapping[str, findings.Gate]") -> None:
    """Write checks as JUnit XML, for the user alone where a run is of credentialed notes."""
    paths = [Path(name) for name in gates]
    is_credentialed = any(path.exists() and privacy.is_credentialed(path) for path in paths)
    with privacy.for_owner_alone(is_credentialed):
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(file, _junit(gates))


def _show_gate(gate: "findings.Gate", *, verbose: bool) -> None:
    """Show the outcome of a run, and each check; on GitHub as an annotation too."""
    is_on_github = os.environ.get("GITHUB_ACTIONS") == "true"
    for sentence in (report.describe_gate(gate), *gate.notes):
        ui.show(sentence)
    is_of_several = len({check.finding.model_id for check in gate.checks}) > 1
    model_shown = ""
    for check in gate.checks:
        if is_of_several and check.finding.model_id != model_shown:
            model_shown = check.finding.model_id
            ui.show(f"Model {report.safe_line(model_shown)}:")
        _show_check(check, verbose=verbose)
        if is_on_github:
            sentence = report.describe_check(check)
            escaped = sentence.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            ui.show(f"::{_WORDS[check.outcome][1]} title=swapbias check::{escaped}")


def _show_check(check: "findings.Check", *, verbose: bool) -> None:
    """Show outcome, gap, value and interval; the whole sentence with ``verbose``, or where it has another reason."""
    from swapbias.report import numbers, terminal_text

    if verbose or check.why or check.baseline or check.components:
        ui.show_text(report.describe_check(check))
        return
    value = numbers.format_value(check.finding)
    interval = numbers.format_interval(replace(check.finding, margin=check.margin))
    value_and_interval = value if interval == "–" else f"{value} ({interval})"
    outcome = f"  {_WORDS[check.outcome][0]:<10}"
    width = terminal_text.WIDTH - len(outcome) - len(value_and_interval) - 2
    name = report.safe_line(report.check_name(check), width)
    ui.show(f"{outcome}{name:<{width}}  {value_and_interval}")


def _record(gate: "findings.Gate") -> dict[str, object]:
    """Return the outcome and its checks, for programs."""
    return {
        "outcome": gate.outcome,
        "sentence": report.describe_gate(gate),
        "notes": list(gate.notes),
        "checks": [_check_record(check) for check in gate.checks],
    }


def _check_record(check: "findings.Check") -> dict[str, object]:
    """Return a check, for programs."""
    row = check.finding.row()
    return {
        "outcome": check.outcome,
        "model": row["model_id"],
        "margin": check.margin,
        "sentence": report.describe_check(check),
        **{name: row[name] for name in ("study", "experiment", "value", "ci_low", "ci_high")},
        **{name: row[name] for name in ("unit", "unit_low", "unit_high")},
        "baseline": check.baseline.value if check.baseline else None,
        "change": check.change.value if check.change else None,
        "levels_not_gated": [
            {"subset": level.subset, "value": level.estimate.value, "unit": level.unit}
            for level in check.components
        ],
    }


def _junit(gates: "Mapping[str, findings.Gate]") -> bytes:
    """Write a suite for each run, in one root where there are several; a test case for each check."""
    root = ElementTree.Element("testsuites", {"name": "swapbias check"})
    for run, gate in gates.items():
        outcomes = [check.outcome for check in gate.checks]
        counts = {
            "name": f"swapbias check {run}" if len(gates) > 1 else "swapbias check",
            "tests": str(len(outcomes)),
            "failures": str(outcomes.count("fails")),
            "errors": str(outcomes.count("undecided")),
        }
        suite = ElementTree.SubElement(root, "testsuite", counts)
        for check in gate.checks:
            _add_case(suite, check)
    tree = root if len(gates) > 1 else root[0]
    return bytes(ElementTree.tostring(tree, encoding="utf-8", xml_declaration=True)) + b"\n"


def _add_case(suite: ElementTree.Element, check: "findings.Check") -> None:
    """Add a check to a suite as a test case."""
    finding = check.finding
    sentence = report.describe_check(check)
    names = {
        "classname": f"{finding.study}.{finding.experiment}",
        "name": f"{report.check_name(check)} ({report.safe_line(finding.model_id)})",
    }
    case = ElementTree.SubElement(suite, "testcase", names)
    if check.outcome in _JUNIT:
        tag, kind = _JUNIT[check.outcome]
        result = ElementTree.SubElement(case, tag, {"message": sentence, "type": kind})
    else:
        result = ElementTree.SubElement(case, "system-out")
    result.text = sentence


def compare(
    places: ui.Runs,
    folder: Annotated[
        Path | None,
        ui.option("Folder for the page, tables and figures.", "--out", metavar="FOLDER"),
    ] = None,
) -> None:
    """Compare models side by side; it ranks nothing."""
    results, broken = hub.find_runs(places)
    if len(results) < 2:
        count = "1 run" if results else "0 runs"
        if broken:
            raise UsageError(f"{count} can be read, expected two or more: {broken[0]}")
        raise UsageError(
            f"{count} can be read, expected two or more. Name further folders of runs, or results repositories."
        )
    compared = runs.compare_runs(results)
    if folder:
        runs.write_comparison(folder, compared)
    for sentence in broken:
        ui.show(f"Left out: {sentence}")
    show_comparison(compared)
    if folder:
        ui.show(f"Page: {folder / 'report.html'}")
    else:
        ui.show("Write it as a page, with the evidence, with --out DIR.")


def show_comparison(compared: "report.ComparisonPage") -> None:
    """Show the page's sentences, what is not comparable, and that nobody wins.

    Args:
        compared: the page.
    """
    sentences = [
        f"{experiment.study} {experiment.experiment}: {sentence}"
        for experiment, sentence in report.comparison_sentences(compared)
    ]
    for sentence in (*sentences, *compared.notes, report.NO_RANKING):
        ui.out.print(report.safe_line(sentence, 4_000))  # names may be anybody's


def redraw(run: ui.RunFolder) -> None:
    """Draw the report of a run again."""
    ui.show(f"Report: {runs.rebuild_report(runs.Run.open(run))}")


def figures(
    places: ui.Runs,
    kind: Annotated[str, ui.option("pdf, svg or png.", "--format")] = "pdf",
    folder: ui.OutFolder = Path("swapbias-figures"),
    style: Annotated[
        str, ui.option("own, or paper for the figures of the study's paper.", "--style")
    ] = "own",
) -> None:
    """Write the figures of a run for a paper.

    With --style paper several runs stand beside each other.
    """
    if kind not in report.FORMATS:
        raise UsageError(f"--format is {kind!r}, expected one of {listed(report.FORMATS)}.")
    if style not in _STYLES:
        raise UsageError(f"--style is {style!r}, expected one of {listed(_STYLES)}.")
    names = [*dict.fromkeys(places)]
    if style == "paper":
        results = [hub.find_run(name) for name in names]
        paths, left_out = runs.write_paper_figures(results, folder, kind=kind)
        for sentence in left_out:
            ui.show(sentence)
    elif len(names) > 1:
        raise UsageError("Several runs need --style paper. Name one run, or add it.")
    else:
        paths = runs.write_figures(runs.Run.open(Path(names[0])), folder, kind=kind)
    for path in paths:
        ui.show(str(path))


def export(
    form: Annotated[str, ui.argument("FORM", f"{_LM_EVAL}, or of a run {_EVERY_EVAL}.")],
    source: Annotated[
        str,
        ui.argument(
            "STUDY[:CONFIG]|RUN",
            "A study of causal models, or a run.",
            autocompletion=complete_corpora,
        ),
    ],
    folder: Annotated[Path, ui.option("A new folder to write to.", "--out", metavar="FOLDER")],
) -> None:
    """Write a study for another evaluator, or a run in a shared format.

    lm-eval: tasks of lm-evaluation-harness. every-eval-ever: results in that schema.
    """
    if form == _EVERY_EVAL:
        from swapbias.hub import every_eval_ever

        exported = every_eval_ever.export_run(source, folder)
        ui.show(f"Exported: {len(exported.files)} files in {folder}")
        if exported.left_out:
            ui.show(f"Left out: {exported.left_out} numbers without a score from 0 to 1.")
        return
    if form != _LM_EVAL:
        raise UsageError(
            f"Unknown form {form!r}, expected {_LM_EVAL} or {_EVERY_EVAL}. "
            f"Write swapbias export {_LM_EVAL} {source}."
        )
    written = hub.export_study(source, folder)
    ui.show(f"Exported: {len(written)} files in {folder}")


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
    for name, (value, needed, needed_value) in needs.items():
        if value and not needed_value:
            raise UsageError(f"{name} needs {needed}. Add it, or drop {name}.")
    if commit and create_pr:
        raise UsageError("--commit and --create-pr are both given, expected one. Drop the other.")
    form: Literal["", "commit", "pull request"] = ""
    if commit:
        form = "commit"
    elif create_pr:
        form = "pull request"
    options = hub.ShareOptions(
        results=results,
        model=model,
        model_change=form,
        audited=audited,
        public=public,
        findings_only=findings_only,
        repropose=again,
        namespace=namespace,
        dry_run=dry_run,
    )
    stopped = f"Stopped. What is on the Hub stays, and {run} as it was: run the same command again to resume."
    with ui.stoppable(stopped):
        for pushed in hub.share_run(runs.Run.open(run), options, hub.Hub(), say=ui.say):
            ui.show(f"{pushed.repo.name}: {pushed.status}. {pushed.url}")
    if dry_run:
        ui.show("Dry run: nothing was published.")


def push(
    kind: Annotated[str, ui.argument("KIND", f"{' or '.join(_PUSHED)}.")],
    namespace: Annotated[str, ui.option("Your name or an organisation's on the Hub.")],
    names: Annotated[ui.Names, ui.argument("NAME", "Corpora or measures [all].")] = None,
    private: Annotated[bool, ui.option("Make new repositories private.", "--private")] = False,
    overwrite: ui.Overwrite = False,
    form: Annotated[
        str, ui.option("Page of a measure: static, or gradio, which needs a paid plan.")
    ] = "static",
    dry_run: ui.DryRun = False,
) -> None:
    """Publish corpora or measures on the Hub, each with the version of its tag."""
    _end_with(
        hub.push_all,
        _singular(kind, _PUSHED),
        names or (),
        namespace=namespace,
        private=private,
        overwrite=overwrite,
        form=form,
        dry_run=dry_run,
    )


def pull(
    kind: Annotated[str, ui.argument("KIND", "datasets, metrics or results.")],
    places: Annotated[
        list[str],
        ui.argument(
            "OWNER [NAME...]", "Who published them, and which [all]; of results OWNER/NAME."
        ),
    ],
    folder: ui.OutFolder,
    revision: Annotated[
        str,
        ui.option(
            "A tag, branch or commit [that of the installed version; of results main].",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Fetch corpora, measures or runs from the Hub, or update their folders.

    Measures are code of their owner; reports are pages of a stranger.
    """
    singular = _singular(kind, (*_PUSHED, "results"))
    namespace = ""
    names = places
    if kind != "results":
        namespace, *names = places
    _end_with(hub.pull_all, singular, names, namespace=namespace, out=folder, revision=revision)


def _singular(kind: str, kinds: Sequence[str]) -> str:
    """Return a kind as the Hub's room names it; a UsageError where it is none."""
    if kind not in kinds:
        raise UsageError(f"Unknown kind {kind!r}. Choose one of {listed(kinds)}.")
    return kind if kind == "results" else kind.removesuffix("s")


def _end_with(function: Callable[..., int], *arguments: Any, **options: Any) -> None:
    """Call a function of the Hub's room, and end with the exit code that it returns."""
    with ui.stoppable("Stopped. What is complete stays: run the same command again to resume."):
        code = function(*arguments, say=ui.show, complain=ui.say, **options)
    if code:
        raise typer.Exit(code)
