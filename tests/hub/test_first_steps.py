"""The first commands of the README and of docs/ with the Hub, against a server filled from this
checkout."""

import ast
import re
import shlex
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from swapbias.studies.catalogue import load_corpus, metrics
from tests.conftest import ROOT
from tests.hub.clients import online

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TAG = re.compile(r"\bv\d+\.\d+\.\d+\b")


def command(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    return " ".join(done.output.split())  # lines are wrapped


def test_first_run_of_the_readme(hub, monkeypatch, tmp_path):
    """The first audit of the README can be shared publicly and comes back with equal findings."""
    monkeypatch.chdir(tmp_path)
    first = re.search(r"^swapbias (audit --study \S+)$", PAGES[0].read_text(), re.MULTILINE)[1]
    command(*shlex.split(first))
    (run,) = Path("swapbias-runs").iterdir()
    output = command("share", run, "--results", "alice/first", "--public")
    assert "alice/first: created." in output
    assert "Not shared" not in output
    command("pull", "results", "alice/first", "--out", "pulled")
    (back,) = Path("pulled/alice/first/runs").iterdir()
    shared = {path.name: pd.read_parquet(path) for path in sorted((run / "items").iterdir())}
    assert set(shared) == {"gendered_stigma.parquet"}
    for name, rows in shared.items():
        pd.testing.assert_series_equal(
            pd.read_parquet(back / "items" / name)["score"], rows["score"]
        )
    values = [swapbias.Audit.open(folder).primary["value"] for folder in (back, run)]
    pd.testing.assert_series_equal(*values)


def calls(texts):
    """The pinned ``load_dataset`` and ``evaluate.load`` of Python blocks: function, arguments, those by name."""
    for block in (one for text in texts for one in re.findall(r"(?ms)^```python\n(.*?)^```", text)):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and "revision" in {one.arg for one in node.keywords}:
                keywords = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
                yield ast.unparse(node.func), [ast.literal_eval(one) for one in node.args], keywords


def test_pins_in_pages_exist(hub, monkeypatch, tmp_path):
    """Every revision that pages, cards, scripts and help name is on a server filled from this
    checkout."""
    hub.add_user("swapbias", token="hf_swapbias")  # the owner whom the pages name
    pages = [page.read_text() for page in PAGES]
    corpora = {
        given[0].removeprefix("swapbias/")
        for what, given, _ in calls(pages)
        if what == "load_dataset"
    }
    with online(monkeypatch, hub, home=tmp_path / "hf-home", token="hf_swapbias"):
        command("push", "datasets", *sorted(corpora), "--namespace", "swapbias")
        command("push", "metrics", "--namespace", "swapbias")
    every = list(hub.repositories)
    assert sorted(name for _, name in every) == sorted(
        f"swapbias/{name}" for name in (*corpora, *metrics())
    )
    cards = [hub.files(*key)["README.md"].decode() for key in every]
    found = [*calls(pages), *calls(cards)]
    assert {what for what, *_ in found} == {"load_dataset", "evaluate.load"}
    assert len(found) > len(every) + 1  # one a card, and those of docs/hub.md
    for what, (name, *config), named in found:
        if what == "load_dataset" and ("dataset", name) not in every:  # of a metric's card
            assert named["revision"] == f"v{load_corpus(name.removeprefix('swapbias/')).version}"
        elif what == "load_dataset":
            files = hub.files("dataset", name, revision=named["revision"])
            assert f"{config[0]}/{named['split']}-00000-of-00001.parquet" in files
        else:
            assert f"v{named['revision']}" in hub.tags("space", name)
    tags = {tag for key in every for tag in hub.tags(*key)}
    tags |= {
        named["revision"] for what, _, named in found if what == "load_dataset"
    }  # checked above
    scripts = [path.read_text() for path in sorted((ROOT / "scripts").glob("*.py"))]
    helps = [
        CliRunner().invoke(app, ["pull", kind, "--help"]).output
        for kind in ("datasets", "metrics", "results")
    ]
    for text in (*pages, *cards, *scripts, *helps):
        others = {
            tag
            for line in text.splitlines()
            if "uses: actions/" not in line
            for tag in TAG.findall(line)
        }
        assert others <= tags
    (tag,) = hub.tags("dataset", "swapbias/gendered_stigma")
    command("pull", "datasets", "swapbias", "gendered_stigma", "--revision", tag, "--out", tmp_path)
    command(
        "pull",
        "metrics",
        "swapbias",
        "paired_gap",
        "--revision",
        f"v{swapbias.__version__}",
        "--out",
        tmp_path,
    )
