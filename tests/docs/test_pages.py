"""README.md and docs/: each command is valid, each snippet runs, each link leads to a file."""

import ast
import gzip
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from scripts import write_study_keys
from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def blocks(page, language):
    return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


def commands(page):
    """Lines that a reader types: of a block without a language, all that begin with a program of ours."""
    lines = [line.removeprefix("$ ") for text in blocks(page, "") for line in text.splitlines()]
    return [line for line in lines if line.startswith(("swapbias ", "make "))]


COMMAND_LINES = [
    pytest.param(line, id=f"{page.name}: {line.split('#')[0].strip()}")
    for page in PAGES
    for line in dict.fromkeys(commands(page))
]


def test_readme_links_every_page():
    """The README is short and links every page."""
    assert len(PAGES[0].read_text().splitlines()) <= 190
    linked = {Path(link).name for link in LINK.findall(PAGES[0].read_text())}
    assert {one.name for one in PAGES[1:]} <= linked


@pytest.mark.parametrize(
    "line", [one for one in COMMAND_LINES if one.values[0].startswith("swapbias ")]
)
def test_commands_are_valid(line):
    """A command on a page has the names, options, types and number of arguments that the program
    takes."""
    import typer

    from swapbias.cli import app

    words = shlex.split(line.replace("...", ""), comments=True)[1:]
    command = typer.main.get_command(app)
    context = command.make_context("swapbias", words[:0], resilient_parsing=True)
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        assert command is not None, name
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    _, left, _ = command.make_parser(context).parse_args(list(words))
    assert not left


@pytest.mark.parametrize(
    "line", [one for one in COMMAND_LINES if one.values[0].startswith("make ")]
)
def test_make_targets(line):
    """A target of make on a page exists."""
    target = shlex.split(line, comments=True)[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page):
    """Links lead to files."""
    for link in LINK.findall(page.read_text()):
        assert link.startswith("https://") or (page.parent / link).is_file(), link


def test_columns_are_explained():
    """The page of columns is made from the fields, and explains every column of a run."""
    import swapbias

    made = runpy.run_path(str(ROOT / "scripts" / "columns_page.py"))
    page = (ROOT / "docs" / "columns.md").read_text()
    assert page == made["page"]()
    run = swapbias.audit("vader", "occupation_sentiment:control", limit=4, progress=False)
    first, others = page.split("## Further columns")
    assert re.findall(r"^\| `(\w+)`", first, re.MULTILINE) == list(run.primary)
    explained = re.findall(r"^\| `(\w+)`", first + others, re.MULTILINE)
    assert sorted(explained) == sorted(run.findings)


def test_reference_pages(tmp_path, monkeypatch):
    """The pages of commands and of questions are what scripts/reference_pages.py writes."""
    script = ROOT / "scripts" / "reference_pages.py"
    for name in ("SWAPBIAS_CACHE", "SWAPBIAS_UPSTREAM"):  # which the script sets
        monkeypatch.setenv(name, os.environ[name])
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    written = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.iterdir()}
    assert written.keys() == {"commands.md", "choose.md"}
    for name, text in written.items():
        stored = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert text == stored, f"docs/{name} is not current: python scripts/reference_pages.py"


def test_keys_and_files_are_explained():
    """Every key of study.toml and every file of a run is explained."""
    assert (ROOT / "docs" / "study_toml.md").read_text() == write_study_keys.page()
    from swapbias.models.chat.answer_log import ANSWERS
    from swapbias.runs import conclusion, results, run

    table = (ROOT / "docs" / "files.md").read_text().partition("\n# Exit codes")[0]
    names = (
        results.FINDINGS_CSV,
        results.FINDINGS_JSON,
        results.COVERAGE,
        results.SELECTION_RATES,
        conclusion.EXPLAINED,
        ANSWERS,
    )
    assert set(re.findall(r"^\| `(\S+)` \|", table, re.MULTILINE)) == {
        *names,
        run.REPORT,
        run.MANIFEST,
        f"{run.ITEMS}/*.parquet",
    }


def test_page_of_audit_toml(tmp_path):
    """The page of audit.toml is made from the fields by scripts/audit_toml_page.py, and its example
    is read."""
    from swapbias.runs.audit_file import read_request

    made = runpy.run_path(str(ROOT / "scripts" / "audit_toml_page.py"))
    assert (ROOT / "docs" / "audit_toml.md").read_text(encoding="utf-8") == made["page"]()
    (tmp_path / "audit.toml").write_text(made["EXAMPLE"])
    models, settings, _ = read_request(tmp_path / "audit.toml")
    assert (len(models), settings.load.batch_size, settings.margin) == (2, 32, 0.05)


def test_table_of_studies():
    """Every experiment is in the table of studies with the model that it needs."""
    from swapbias.studies import load_study, studies

    needs = {
        "masked": "masked LM",
        "causal": "causal LM",
        "classifier": "sentiment system",
        "chat": "chat model",
        "retrieval": "embeddings or a reranker",
        "tagger": "token classifier",
    }
    others = {"group_packs", "spanish_occupations", "clinical_chat"}  # on pages of their own
    wanted = {
        (name, one.name): needs.get(one.kind, "word vectors or an encoder")
        for name in studies()
        if name not in others
        for one in load_study(name).experiments
    }
    page = (ROOT / "docs" / "studies.md").read_text()
    found = {}
    study = ""
    for first, names, model in re.findall(
        r"^\| (?:\[`(\w+)`\]\S+ )?\| (`.+?`) \| (.+?) \|", page, re.MULTILINE
    ):
        study = first or study
        found |= {(study, name): model for name in re.findall(r"`(\w+)`", names)}
    questions = {
        (name, one.name): one.question for name in studies() for one in load_study(name).experiments
    }
    missing = []
    for study, name in sorted(wanted.keys() - found.keys()):
        key = (study, name)
        link = f"[`{study}`](../datasets_src/{study}/README.md)"
        missing.append(f"| {link} | `{name}` | {wanted[key]} | {questions[key]} | |")
    assert not missing, "docs/studies.md lacks these rows:\n" + "\n".join(missing)
    assert found.keys() == wanted.keys()
    assert [key for key, model in wanted.items() if model not in found[key]] == []


def expected_output(statement, code):
    """The comment on the lines after a statement: what it gives."""
    lines = code.splitlines()[statement.end_lineno :]
    comments = [
        line.removeprefix("#").strip()
        for line in takewhile(lambda line: line.startswith("#"), lines)
    ]
    return " ".join(comments)


def run(code, names, capsys):
    """Run a snippet; what follows a statement as a comment is what it prints or is worth."""
    for statement in ast.parse(code).body:
        value = None
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), "page", "eval"), names)
        else:
            exec(compile(ast.Module([statement], []), "page", "exec"), names)
            if isinstance(statement, ast.Assign):
                value = names[statement.targets[0].id]
        printed = capsys.readouterr().out.strip()
        if text := expected_output(statement, code):
            assert " ".join((printed or repr(value)).split()) == text


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A reader's folder; repositories of the Hub, and corpora built before, are those of this checkout."""
    import datasets
    import evaluate

    import swapbias
    from swapbias import load_prompts

    load = evaluate.load

    def from_hub(name, config, *, split, revision=None):
        assert name.startswith(("swapbias/", "corpora/"))
        return load_prompts(Path(name).name, config)

    def metric_from_hub(name, revision=None):
        return load(swapbias.metric_path(name.removeprefix("swapbias/")) if revision else name)

    monkeypatch.setattr(datasets, "load_dataset", from_hub)
    monkeypatch.setattr(evaluate, "load", metric_from_hub)
    monkeypatch.chdir(tmp_path)
    table = next(text for text in blocks(PAGES[0], "") if text.startswith("text,group,pair"))
    (tmp_path / "my.csv").write_text(table)


@pytest.mark.parametrize(
    "page", [one for one in PAGES if blocks(one, "python")], ids=lambda page: page.name
)
def test_snippets_run(page, reader, capsys):
    """Snippets run and give what the page shows."""
    import swapbias

    names = {"swapbias": swapbias}
    for code in blocks(page, "python"):
        run(code, names, capsys)


READER_COMMANDS = ("swapbias check", "swapbias compare RUN RUN", "swapbias swap notes")
READER_COMMANDS += (
    "swapbias audit my_module",
    "swapbias list",
    "swapbias plan --study",
    "swapbias plan roberta-large",
    "swapbias build gendered_stigma",
)
READER_COMMANDS += (
    "swapbias audit --study adjective_coreference --chat MODEL --base-url https://host/v1 -M price-in",
)  # dry
# Of the others the test above parses the line alone. The second example of the README runs in cli/test_study; share,
# study push and pulls run against the local Hub in hub/; chat models against a local service in models/chat; train,
# lexicon, clinical notes and reproduce on small inputs in tests of their rooms. Real Hub models need the network.


@pytest.fixture(scope="module")
def reader_folder(tmp_path_factory):
    """A folder with what the commands of the pages name: runs, notes, a function."""
    import swapbias

    folder = tmp_path_factory.mktemp("place")
    (folder / "my_module.py").write_text(
        "def predict(texts):\n    return [0.5 for text in texts]\n"
    )
    with gzip.open(folder / "notes.csv.gz", "wt") as notes:
        notes.write("text\nShe is well.\nHe fell.\n")
    (folder / "notes.csv").write_text("text,sex\nShe is well.,F\nHe fell.,M\n")
    swapbias.audit("vader", "social_distance", limit=40, out=folder / "RUN", progress=False)
    shutil.copytree(folder / "RUN", folder / "OLD_RUN")
    return folder


@pytest.mark.parametrize(
    "line", [one for one in COMMAND_LINES if one.values[0].startswith(READER_COMMANDS)]
)
def test_commands_of_a_reader_run(line, reader_folder, monkeypatch, capsys):
    """A command on files that a reader has runs."""
    from swapbias.cli import app

    monkeypatch.chdir(reader_folder)
    monkeypatch.syspath_prepend(reader_folder)
    other = line.replace(" ...", "").replace("RUN RUN", "RUN OLD_RUN").replace("OTHER_RUN", "RUN")
    words = shlex.split(other, comments=True)[1:]
    if "my_module:predict" in words:
        words += ["--study", "occupation_sentiment:control", "--out", "mine"]
    code = app(words, standalone_mode=False) or 0
    assert code in ((0, 1, 3) if words[0] == "check" else (0,)), capsys.readouterr().err


def test_site_builds(tmp_path):
    """The site builds strictly and loads nothing from outside."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "max-tokens=16" in (tmp_path / "commands.html").read_text()
    assert "ci_low" in (tmp_path / "columns.html").read_text()
    for made in (
        "index",
        "studies/gendered_stigma",
        "measures/paired_gap",
        "notebooks/clinical",
        "api/swapbias",
    ):
        shown = (tmp_path / f"{made}.html").read_text()
        assert not re.search(
            r"<(?:script|img)[^>]*src=.?http|<link[^>]*stylesheet[^>]*http", shown
        ), made
    assert "planted leak" in (tmp_path / "notebooks" / "clinical.html").read_text()
