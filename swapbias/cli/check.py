"""swapbias check: whether a run passes a margin or a baseline, for people, JUnit and GitHub."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from xml.etree import ElementTree

import typer

from swapbias.cli.terminal import AsJson, out, print_json, split_commas

if TYPE_CHECKING:
    from swapbias.findings import Gate

_OUTCOMES = {0: "passes", 1: "fails", 3: "undecided"}
_WORST = (1, 3, 0)
_ANNOTATED = {"passes": "notice", "fails": "error", "undecided": "warning"}


def check(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Folders of finished runs, or OWNER/NAME[/RUN][@REVISION] on the Hub; of several the worst counts.",
            show_default=False,
        ),
    ],
    max_gap: Annotated[
        float, typer.Option(help="Largest gap that passes: a share of its unit's range, above 0.")
    ] = 0.05,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="A run, in a folder or on the Hub, whose gaps may be exceeded by --max-gap, and no more.",
            show_default=False,
        ),
    ] = None,
    study: Annotated[
        list[str] | None, typer.Option(help="NAME or NAME:EXPERIMENT, several with commas; all by default.")
    ] = None,
    of: Annotated[
        str, typer.Option(help="gap, level or all: of a difference of gaps that difference, the gaps, or both.")
    ] = "gap",
    junit: Annotated[
        Path | None, typer.Option(help="Write the checks to this file as JUnit XML.", show_default=False)
    ] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Print annotations for GitHub [default: on its runners].")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pass (exit 0), fail (1) or leave undecided (3) runs by their headline gaps: a gate for releases and CI."""
    from swapbias.audit import check_run
    from swapbias.files import write_whole
    from swapbias.hub import find_run
    from swapbias.privacy import for_owner_alone, is_credentialed
    from swapbias.report import checked, gated

    before = find_run(baseline) if baseline else None
    chosen = split_commas(study)
    found = {
        one: check_run(find_run(one), max_gap=max_gap, baseline=before, studies=chosen, of=of)
        for one in dict.fromkeys(runs)
    }
    code = min((one.code for one in found.values()), key=_WORST.index)
    if junit:
        with for_owner_alone(any(Path(one).exists() and is_credentialed(Path(one)) for one in found)):
            junit.parent.mkdir(parents=True, exist_ok=True)
            write_whole(junit, _junit(found))
    if as_json:
        told = [{"run": name, **_record(one)} for name, one in found.items()]
        print_json(told[0] if len(told) == 1 else {"outcome": _OUTCOMES[code], "runs": told})
        raise typer.Exit(code)
    for name, gate in found.items():
        if len(found) > 1:
            out.print(f"{name}:", soft_wrap=True, markup=False, highlight=False)
        for note in gate.notes:
            out.print(note, soft_wrap=True, markup=False, highlight=False)
        for one in gate.checks:
            sentence = checked(one)
            out.print(sentence, soft_wrap=True, markup=False, highlight=False)
            if annotations or os.environ.get("GITHUB_ACTIONS") == "true":
                typer.echo(f"::{_ANNOTATED[one.outcome]} title=swapbias check::{_escaped(sentence)}")
        out.print(gated(gate), soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(code)


def _record(found: "Gate") -> dict[str, object]:
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
        for one in found.checks
    ]
    return {"outcome": found.outcome, "sentence": gated(found), "notes": list(found.notes), "checks": rows}


def _junit(found: "Mapping[str, Gate]") -> bytes:
    """A suite for each run, in one root where there are several."""
    suites = [
        _suite(f"swapbias check {name}" if len(found) > 1 else "swapbias check", one) for name, one in found.items()
    ]
    root = suites[0]
    if len(suites) > 1:
        root = ElementTree.Element("testsuites", {"name": "swapbias check"})
        root.extend(suites)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(name: str, found: "Gate") -> ElementTree.Element:
    """A test case for each check: a failure where it fails, an error where it is undecided."""
    from swapbias.report import check_name, checked, shown

    counts = {
        tag: sum(one.outcome == of for one in found.checks)
        for tag, of in (("failures", "fails"), ("errors", "undecided"))
    }
    told = {"name": name, "tests": len(found.checks), **counts}
    suite = ElementTree.Element("testsuite", {key: str(value) for key, value in told.items()})
    for one in found.checks:
        sentence = checked(one)
        named = {"classname": f"{one.finding.study}.{one.finding.experiment}", "name": check_name(one)}
        named["name"] += f" ({shown(one.finding.model_id)})"
        case = ElementTree.SubElement(suite, "testcase", named)
        if one.outcome == "fails":
            ElementTree.SubElement(case, "failure", {"message": sentence, "type": "gap"}).text = sentence
        elif one.outcome == "undecided":
            ElementTree.SubElement(case, "error", {"message": sentence, "type": "undecided"}).text = sentence
        else:
            ElementTree.SubElement(case, "system-out").text = sentence
    return suite


def _escaped(sentence: str) -> str:
    """As GitHub reads the message of an annotation."""
    return sentence.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
