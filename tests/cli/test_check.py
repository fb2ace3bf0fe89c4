"""The gate from the command line, from Python and as a GitHub Action: one verdict and one exit
code."""

import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

from swapbias.cli import app
from swapbias.findings.terms import FAILS, PASSES
from swapbias.runs import Settings, check_run, start
from tests.conftest import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
# Functions of texts: no gap, and one beyond the margin; jitter gives both an error.
MODELS = """
import zlib
MEN = ("he", "man", "boy", "brother", "father", "uncle", "husband", "son", "dad", "boyfriend", "male", "guy")
def fair(texts):
    return [0.5 + 0.2 * ((zlib.crc32(text.encode()) % 1000) / 1000 - 0.5) for text in texts]
def biased(texts):
    male = (any(f" {word} " in f" {text.lower()} " for word in MEN) for text in texts)
    return [score - 0.1 + 0.3 * raised for score, raised in zip(fair(texts), male)]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory, quiet):
    folder = tmp_path_factory.mktemp("gate")
    (folder / "gated_models.py").write_text(MODELS)
    sys.path.insert(0, str(folder))
    for name in ("fair", "biased"):
        settings = Settings(
            model=f"gated_models:{name}",
            studies=("occupation_sentiment:sentences",),
            wordings=False,
        )
        start(settings, folder / name, **quiet)
    yield folder
    sys.path.remove(str(folder))


def check(*arguments, **environment):
    return CliRunner().invoke(
        app, ["check", *map(str, arguments)], env={"GITHUB_ACTIONS": "", **environment}
    )


@pytest.mark.parametrize(
    ("name", "code", "word", "outcome"), [("fair", 0, "pass", PASSES), ("biased", 1, "fail", FAILS)]
)
def test_command_equals_python(runs, name, code, word, outcome):
    """The command has the outcome and exit code of check_run, in its text, its table and its JSON."""
    done = check(runs / name)
    gate = check_run(runs / name)
    assert (done.exit_code, gate.code, gate.outcome) == (code, code, outcome)
    lines = done.output.splitlines()
    assert f"The gate {outcome}" in lines[0]
    assert re.match(
        rf"  {word} +occupation_sentiment:sentences, .* [+−]?[\d.]+ points \(.* to .*\)$", lines[1]
    )
    assert len(lines[1]) <= 80
    assert lines[-1] == f"Exit code {code} (0 pass, 1 fail, 3 undecided). Details: --verbose"
    assert "the margin of 5 points" in " ".join(check(runs / name, "--verbose").output.split())
    assert json.loads(check(runs / name, "--json").output)["outcome"] == outcome


def test_margin_within_the_interval(runs):
    """A margin that cuts the interval is undecided, and a baseline is read from its run."""
    gap = abs(check_run(runs / "biased").checks[0].finding.estimate.value)
    done = check(runs / "biased", "--max-gap", gap)
    assert done.exit_code == 3
    assert "undecided" in done.output
    assert check(runs / "fair", "--baseline", runs / "biased").exit_code == 0
    worse = check(runs / "biased", "--baseline", runs / "fair")
    assert worse.exit_code == 1
    text = r"fails: .*baseline .*, change .* larger than the baseline by more than 5 points"
    assert re.search(text, " ".join(worse.output.split()))
    # Of several runs the worst counts, and one that is undecided is worse than one that passes.
    assert check(runs / "fair", runs / "biased", "--max-gap", gap).exit_code == 3
    assert check(runs / "fair", runs / "fair").exit_code == 0  # named twice is checked once


def test_junit(runs, tmp_path):
    """JUnit holds a case for each check, and of several runs the worst outcome counts."""
    file = tmp_path / "new" / "junit.xml"
    assert check(runs / "biased", "--junit", file).exit_code == 1
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    assert "beyond the margin" in suite.find("testcase/failure").get("message")
    done = check(runs / "fair", runs / "biased", "--junit", file)
    assert done.exit_code == 1
    assert [done.output.count(one) for one in ("The gate passes", "The gate fails")] == [1, 1]
    suites = ElementTree.parse(file).getroot().findall("testsuite")
    assert [(one.get("name"), one.get("failures")) for one in suites] == [
        (f"swapbias check {runs / 'fair'}", "0"),
        (f"swapbias check {runs / 'biased'}", "1"),
    ]
    both = json.loads(check(runs / "fair", runs / "biased", "--json").output)
    assert (both["outcome"], [one["outcome"] for one in both["runs"]]) == (FAILS, [PASSES, FAILS])
    assert "::" not in done.output
    annotated = check(
        runs / "biased", GITHUB_ACTIONS="true"
    ).output  # "::notice": in the action below
    assert "::error title=swapbias check::occupation_sentiment:sentences" in annotated


def test_impossible_checks(runs):
    """A check without a run, study or margin is refused with the reason."""
    for arguments, part in (
        ([runs / "nothing"], "contains no run"),
        ([runs / "fair", "--study", "ocupation_sentiment"], "Did you mean occupation_sentiment?"),
        ([runs / "fair", "--max-gap", "0"], "expected above 0"),
    ):
        error = check(*arguments).exception
        assert (isinstance(error, ValueError), part in str(error)) == (True, True), error


def run_action(folder, **inputs):
    """The composite action as a runner reads it: each step with bash, its expressions filled in; code and outputs."""
    action_inputs = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | {
        name.replace("_", "-"): value for name, value in inputs.items()
    }
    output = folder / "github_output"
    known = {f"inputs.{name}": value for name, value in action_inputs.items()}
    known |= {"github.action_path": str(ROOT), "runner.os": "Linux"}
    usual = os.environ | {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    for step in ACTION["runs"]["steps"]:
        if "uses" in step:  # actions of others, which a runner fetches; these run on Node 24
            assert step["uses"] in (
                "actions/setup-python@v6",
                "actions/cache@v5",
                "actions/upload-artifact@v6",
            )
            uploads = "upload" in step["uses"]
            filled = {name: fill(value, known) for name, value in step["with"].items()}
            if uploads:
                (folder / "uploaded").write_text(filled["path"])
            continue
        filled = {name: fill(value, known) for name, value in step["env"].items()}
        output.write_text("")  # one file a step
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder, env=usual | filled | {"GITHUB_OUTPUT": str(output), "GITHUB_ACTIONS": "true"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        outputs = outputs_of(output.read_text())
        known |= {f"steps.{step.get('id')}.outputs.{name}": outputs[name] for name in outputs}
        if done.returncode and step.get("id") != "check":
            break
    return done, outputs


def test_cache_keys_of_the_action(tmp_path):
    """Keys of caches have no comma, which actions/cache refuses, and differ by what is installed."""
    (step,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == "caches")
    keys = []
    for install in ("swapbias[models,chat]", "swapbias[models]"):
        output = tmp_path / "output"
        output.write_text("")
        known = {"github.action_path": str(ROOT), "runner.os": "Linux"}
        known |= {"inputs.install": install, "inputs.model": "a/b"}
        filled = {name: fill(value, known) for name, value in step["env"].items()}
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]],
            env=os.environ | filled | {"GITHUB_OUTPUT": str(output), "PATH": path},
            check=True,
        )
        known |= {
            f"steps.caches.outputs.{name}": value
            for name, value in outputs_of(output.read_text()).items()
        }
        caches = [
            step["with"] for step in ACTION["runs"]["steps"] if "cache@" in step.get("uses", "")
        ]
        keys.append([fill(cache["key"], known) for cache in caches])
    assert not any("," in key or len(key) > 512 for key in (*keys[0], *keys[1]))
    (packages, model), (other_packages, same_model) = keys
    assert (packages != other_packages, model == same_model) == (True, True)


def fill(text, known):
    """A text of the action with its expressions filled in, each of which must be known."""
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: known[found[1]], str(text))


def outputs_of(text):
    """Outputs of steps as a runner reads them: NAME=VALUE, or lines between NAME<<MARK and MARK."""
    outputs = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, equals, value = line.partition("=")
        if equals:
            outputs[name] = value
            continue
        name, _, mark = line.partition("<<")
        outputs[name] = "\n".join(iter(lambda: next(lines), mark))
    return outputs


def test_action(runs, tmp_path):
    """The action audits, checks and reports the outcome."""
    (tmp_path / "gated_models.py").write_text(MODELS)
    done, given = run_action(
        tmp_path,
        install="",
        model="gated_models:fair",
        studies="occupation_sentiment:sentences",
        audit_options="""--no-wordings --limit "400" --margin '5pt'""",
    )
    assert done.returncode == 0, done.stderr
    uploaded = given.pop("files").splitlines()
    assert uploaded == (tmp_path / "uploaded").read_text().splitlines()
    assert all((tmp_path / name).is_file() for name in uploaded)
    assert given == {
        "outcome": "passes",
        "report": "swapbias-run/report.html",
        "junit": "swapbias-junit.xml",
    }
    assert (tmp_path / given["report"]).is_file()
    assert (tmp_path / given["junit"]).is_file()
    expected = {name: f"${{{{ steps.check.outputs.{name} }}}}" for name in given}
    assert {name: one["value"] for name, one in ACTION["outputs"].items()} == expected
    assert "::notice" in done.stdout


def test_action_fails_as_the_command(runs, tmp_path):
    """The action fails where the command does."""
    done, outputs = run_action(tmp_path, install="", run=f"{runs / 'fair'}\n{runs / 'biased'}\n")
    assert (done.returncode, outputs["outcome"]) == (1, "fails")
    uploaded = (tmp_path / "uploaded").read_text().splitlines()
    assert len(uploaded) == 5  # two pages, two tables, one JUnit XML
    assert all((tmp_path / name).is_file() for name in uploaded)
    assert "::error" in done.stdout
    gap = abs(check_run(runs / "biased").checks[0].finding.estimate.value)
    for allowed, code in (("false", 3), ("true", 0)):
        undecided = {"run": str(runs / "biased"), "max_gap": str(gap), "allow_undecided": allowed}
        done, outputs = run_action(tmp_path, install="", **undecided)
        assert (done.returncode, outputs["outcome"]) == (code, "undecided")
