"""swapbias check, compare, report, figures, export, share, push and pull: finished runs, and the Hub."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from xml.etree import ElementTree

import typer

from swapbias.cli.terminal import (
    AsJson,
    DryRun,
    RunFolder,
    Verbose,
    out,
    plain_table,
    say,
    show,
    show_json,
    show_text,
    split_commas,
    stoppable,
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
    numbers = value if ends == "–" else f"{value} ({ends})"
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
                    value = f"{text.value(found, own=True)} ({text.interval(found, own=True)})"
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
    kind: Annotated[str, typer.Option("--format", help="pdf, svg or png.")] = "pdf",
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("swapbias-figures"),
) -> None:
    """Write the figures of a run for a paper."""
    from swapbias.report import FORMATS
    from swapbias.runs import Run, write_figures

    if kind not in FORMATS:
        raise UsageError(f"--format is {kind!r}, expected one of {', '.join(FORMATS)}.")
    for path, caption in write_figures(Run.open(run), folder, kind=kind):
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


# --- the Hub ------------------------------------------------------------------------------------------

push = typer.Typer(no_args_is_help=True, help="Publish corpora, measures, runs on the Hub.")
pull = typer.Typer(no_args_is_help=True, help="Fetch what was published, of one commit.")

Namespace = Annotated[str, typer.Option(help="Your name or an organisation's on the Hub.")]
Private = Annotated[bool, typer.Option("--private", help="Make new repositories private.")]
Public = Annotated[bool, typer.Option("--public", help="Everybody may read the results.")]
FindingsOnly = Annotated[bool, typer.Option("--findings-only", help="No scored prompts, answers or notes.")]
Results = Annotated[
    str, typer.Option(metavar="OWNER/NAME", help="Your results repository; made, private, if needed.")
]
Owner = Annotated[str, typer.Argument(metavar="OWNER", help="User or organisation on the Hub.")]
Revision = Annotated[str, typer.Option(help="A tag (v and the version on the card) or commit.")]
Folder = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
Corpora = Annotated[list[str] | None, typer.Argument(metavar="[CORPUS]...")]
Metrics = Annotated[list[str] | None, typer.Argument(metavar="[METRIC]...")]


def share(
    run: RunFolder,
    results: Results,
    model: Annotated[str | None, typer.Option(help="The audited model on the Hub, OWNER/NAME.")] = None,
    commit: Annotated[bool, typer.Option("--commit", help="Write to the card of your own model.")] = False,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Propose it to the model's owners.")] = False,
    audited: Annotated[str | None, typer.Option(help="The model's name in the run, if another.")] = None,
    public: Public = False,
    findings_only: FindingsOnly = False,
    name: Annotated[str | None, typer.Option(help="Name of the run in the repository.")] = None,
    namespace: Annotated[str, typer.Option(help="Who publishes the corpora on the Hub.")] = "swapbias",
    phenotype: Annotated[
        list[str] | None, typer.Option(help="A phenotype of your own notes whose name may leave; repeatable.")
    ] = None,
    card: Annotated[
        bool, typer.Option("--card", help="With --create-pr: propose a section of the card too.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Propose what its owners closed or took out.")] = False,
    dry_run: DryRun = False,
    folder: Annotated[
        Path | None, typer.Option("--out", help="With --dry-run: put here what would be written.")
    ] = None,
) -> None:
    """Share a run on the Hub, and on a model's page."""
    from swapbias.hub import COMMIT, PULL_REQUEST, Hub, ShareOptions, share_run
    from swapbias.runs import Run

    for missing, sentence in (
        (commit and create_pr, "--commit and --create-pr are both given, expected one. Drop the other."),
        (
            (commit or create_pr or audited) and not model,
            "--commit, --create-pr and --audited are about a model, and none is given. Name it with --model.",
        ),
        (again and not create_pr, "--again is about a pull request. Add --create-pr, or drop --again."),
        (card and not create_pr, "--card is about a pull request. Add --create-pr, or drop --card."),
        (folder and not dry_run, "--out belongs to --dry-run. Add it, or drop --out."),
    ):
        if missing:
            raise UsageError(sentence)
    wanted = ShareOptions(
        results=results, model=model, how=COMMIT if commit else PULL_REQUEST if create_pr else "", audited=audited,
        public=public, findings_only=findings_only, name=name, phenotypes=tuple(phenotype or ()), card=card,
        again=again, namespace=namespace, dry_run=dry_run, out=folder,
    )  # fmt: skip
    with stoppable(lambda: f"Stopped. What is on the Hub stays, and {run} as it was: the same command goes on."):
        for one in share_run(Run.open(run), wanted, Hub(), say=say):
            show(f"{one.repo.name}: {one.status}. {one.url}")
    if dry_run:
        show("Dry run: nothing was published.")


@push.command("datasets")
def push_datasets(
    namespace: Namespace,
    corpora: Corpora = None,
    private: Private = False,
    dry_run: DryRun = False,
) -> None:
    """Publish corpora as datasets, each tagged with its version."""
    more = {"private": private, "dry_run": dry_run}
    _end_with("push_datasets", corpora or (), namespace=namespace, **more)


@push.command("metrics")
def push_metrics(
    namespace: Namespace,
    metrics: Metrics = None,
    private: Private = False,
    dry_run: DryRun = False,
    untagged: Annotated[bool, typer.Option("--untagged", help="Do not ask git for the tag of the release.")] = False,
) -> None:
    """Publish measures as static Spaces that evaluate.load reads."""
    more = {"private": private, "dry_run": dry_run, "untagged": untagged}
    _end_with("push_metrics", metrics or (), namespace=namespace, **more)


@push.command("results")
def push_results(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    results: Results,
    public: Public = False,
    findings_only: FindingsOnly = False,
    dry_run: DryRun = False,
) -> None:
    """Share several runs in one repository; of a model's page see swapbias share."""
    from swapbias.hub import ShareOptions

    wanted = ShareOptions(results=results, public=public, findings_only=findings_only, dry_run=dry_run)
    _end_with("push_results", runs, wanted)


@push.command("comparison")
def push_comparison(
    space: Annotated[str, typer.Argument(metavar="OWNER/SPACE", help="A static Space; made if need be.")],
    results: Annotated[list[str], typer.Argument(metavar="OWNER/NAME[/RUN][@REVISION]...", help="Shared results.")],
    private: Private = False,
    dry_run: DryRun = False,
) -> None:
    """Publish shared runs side by side as a static Space; it ranks nothing."""
    _end_with("push_space", results, space=space, private=private, dry_run=dry_run)


@pull.command("datasets")
def pull_datasets(namespace: Owner, folder: Folder, corpora: Corpora = None, revision: Revision = "main") -> None:
    """Fetch corpora to folders that datasets.load_dataset reads."""
    _pull("DATASET", corpora, folder, revision, namespace)


@pull.command("metrics")
def pull_metrics(namespace: Owner, folder: Folder, metrics: Metrics = None, revision: Revision = "main") -> None:
    """Fetch measures to folders that evaluate.load reads; they are code of their owner."""
    _pull("METRIC", metrics, folder, revision, namespace)


@pull.command("results")
def pull_results(
    repos: Annotated[list[str], typer.Argument(metavar="OWNER/NAME...", help="Repositories of results.")],
    folder: Folder,
    revision: Revision = "main",
) -> None:
    """Fetch runs that somebody shared."""
    _pull("RESULTS", repos, folder, revision)


def _pull(kind: str, names: list[str] | None, folder: Path, revision: str, namespace: str = "") -> None:
    from swapbias import hub

    _end_with("pull_all", getattr(hub, kind), names or (), namespace=namespace, out=folder, revision=revision)


def _end_with(function: str, *arguments: Any, **options: Any) -> None:
    """Call a function of the Hub's room, and end with the exit code that it returns."""
    from swapbias import hub

    if code := getattr(hub, function)(*arguments, **options):
        raise typer.Exit(code)
