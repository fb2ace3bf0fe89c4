"""What a reader of the README and of docs/ does first with the Hub, by command, against a server filled from here."""

import ast
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from tests.conftest import ROOT
from tests.hub.clients import environment

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TAG = re.compile(r"\bv\d+\.\d+\.\d+\b")


def command(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    return " ".join(done.output.split())  # lines are wrapped


def test_the_first_run_of_the_readme_is_shared_publicly_and_comes_back(hub, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    first = re.search(r"^\$ swapbias (.*)$", PAGES[0].read_text(), re.MULTILINE)[1]
    command(*shlex.split(first))
    (run,) = Path("swapbias-runs").iterdir()
    told = command("share", run, "--results", "alice/first", "--public")
    assert "alice/first: created." in told
    assert "Not shared" not in told
    command("pull", "results", "alice/first", "--out", "pulled")
    (back,) = Path("pulled/alice/first/runs").iterdir()
    shared = {path.name: pd.read_parquet(path) for path in sorted((run / "items").iterdir())}
    assert set(shared) == {"gendered_stigma.parquet", "occupation_sentiment.parquet", "social_distance.parquet"}
    for name, rows in shared.items():
        pd.testing.assert_series_equal(pd.read_parquet(back / "items" / name)["score"], rows["score"])
    values = [swapbias.Audit.open(folder).primary["value"] for folder in (back, run)]
    pd.testing.assert_series_equal(*values)


LOAD = """
import json, sys
sys.modules["transformers"] = None  # evaluate would load it and torch, which no measure needs
import datasets, evaluate
del sys.modules["transformers"]
for name, config, split, revision in json.loads(sys.argv[1]):
    next(iter(datasets.load_dataset(name, config, split=split, revision=revision, streaming=True)))
for name, revision in json.loads(sys.argv[2]):
    evaluate.load(name, revision=revision)
"""


def calls(text):
    """The pinned ``load_dataset`` and ``evaluate.load`` of Python blocks: arguments in order, then by name."""
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if not isinstance(node, ast.Call) or "revision" not in {one.arg for one in node.keywords}:
                continue
            if ast.unparse(node.func) in ("load_dataset", "evaluate.load"):
                named = {one.arg: ast.literal_eval(one.value) for one in node.keywords}
                yield ast.unparse(node.func), [ast.literal_eval(one) for one in node.args], named


def helps():
    return [CliRunner().invoke(app, ["pull", kind, "--help"]).output for kind in ("datasets", "metrics", "results")]


@pytest.fixture
def filled(hub, monkeypatch):
    """A server with the corpora that pages load and all measures, pushed by the owner whom the pages name."""
    hub.add_user("swapbias", token="hf_swapbias")
    monkeypatch.setenv("HF_TOKEN", "hf_swapbias")
    every = [call for page in PAGES for call in calls(page.read_text())]
    names = {given[0].removeprefix("swapbias/") for what, given, _ in every if what == "load_dataset"}
    command("push", "datasets", *sorted(names), "--namespace", "swapbias")
    command("push", "metrics", "--namespace", "swapbias")
    return hub


def test_every_pin_of_pages_cards_scripts_and_help_is_on_a_server_filled_from_here(filled, tmp_path):
    kinds = {kind: [name for held, name in filled.repositories if held == kind] for kind in ("dataset", "space")}
    cards = [filled.files(kind, name)["README.md"].decode() for kind, names in kinds.items() for name in names]
    texts = [*(page.read_text() for page in PAGES), *cards]
    found = [call for text in texts for call in calls(text)]
    data = [(*given, named["split"], named["revision"]) for what, given, named in found if what == "load_dataset"]
    measures = [(*given, named["revision"]) for what, given, named in found if what == "evaluate.load"]
    assert len(data) > len(kinds["dataset"])  # one a card, and that of docs/hub.md
    assert len(measures) > len(kinds["space"])
    done = subprocess.run(
        [sys.executable, "-c", LOAD, json.dumps(data), json.dumps(measures)],
        env=environment(filled, home=tmp_path / "home"), capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tags = {tag for kind, names in kinds.items() for name in names for tag in filled.tags(kind, name)}
    scripts = [path.read_text() for path in sorted((ROOT / "scripts").glob("*.py"))]
    for text in (*texts, *scripts, *helps()):
        others = {tag for line in text.splitlines() if "uses: actions/" not in line for tag in TAG.findall(line)}
        assert others <= tags
    owner, corpus = data[0][0].split("/")
    command("pull", "datasets", owner, corpus, "--revision", data[0][3], "--out", tmp_path)
    command("pull", "metrics", owner, "paired_gap", "--revision", f"v{swapbias.__version__}", "--out", tmp_path)
