"""The catalogue is lazy: lists read files alone, and naming one study imports one builder."""

import json
from importlib import import_module

import pytest

from swapbias import runs
from swapbias.studies import catalogue
from tests import tiny
from tests.distributions import run, run_fresh

# Runs each step in one process, and prints the builders that it has brought.
STEPS = """
import contextlib, io, json, sys
from swapbias.cli import main

def builders():
    return {name for name in sys.modules if name.startswith("swapbias.builders.")}

for step in json.loads(sys.argv[1]):
    before, said = builders(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            if isinstance(step, str):
                code = exec(step) or 0
            else:
                sys.argv = ["swapbias", *step]
                main()
        except SystemExit as end:
            code = end.code
    brought = sorted(name.rpartition(".")[2] for name in builders() - before)
    print(json.dumps([code, brought, said.getvalue()[-20_000:]]))
"""


# Audits a model of one study until its first batch, and prints what is imported by then.
FIRST_BATCH = """
import json, sys
from swapbias.cli import main
from swapbias.models.masked import MaskedScorer

class Reached(BaseException):
    pass

def reach(*arguments, **settings):
    raise Reached

MaskedScorer.score = reach
folder, study, out = sys.argv[1:]
sys.argv = ["swapbias", "audit", folder, "--study", study, "--no-cache", "--out", out]
try:
    main()
except Reached:
    print(json.dumps(sorted(sys.modules)))
"""
NOT_NEEDED = ("datasets", "evaluate", "matplotlib", "ray", "scipy.stats", "sklearn", "statsmodels")


def builders_imported_by(*steps, **environment):
    """Exit code and builders of each step: a command as a list, or Python code."""
    done = run(STEPS, arguments=[json.dumps(steps)], **environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_lists_import_no_builder():
    """Lists and help texts import no builder."""
    pytest.importorskip("torch", reason="needs the extra models")
    steps = (["list"], ["list", "--corpora"], ["list", "--measures"], ["help", "settings"], ["audit", "--help"],
             "import swapbias.studies.catalogue as s; "
             "s.studies(), s.outlines(), s.calibrated(), s.experiments_that(bool)",
             ["audit", "vader", "--study", "ocupation_sentiment"], ["build", "nope"])  # fmt: skip
    found = builders_imported_by(*steps)
    assert [brought for _, brought, _ in found] == [[]] * len(steps), found
    assert [code for code, _, _ in found] == [0] * 6 + [2, 2], found
    assert "Did you mean occupation_sentiment?" in found[6][2]


def test_command_imports_one_builder(tmp_path):
    """Every command on one study imports the builder and the helpers of that study alone."""
    pytest.importorskip("torch", reason="needs the extra models")
    audited = str(tmp_path / "run")
    again = str(tmp_path / "again")
    audit = ["audit", "vader", "--study", "occupation_sentiment", "--limit", "4", "--no-wordings"]
    study = ("--study", "occupation_sentiment")
    steps = (
        ["plan", "vader", *study],
        [*audit, "--out", audited],
        [*audit, "--seed", "1", "--out", again],
        ["check", audited],
        ["compare", audited, again],
        ["report", audited],
        ["audit", "--resume", audited],
        ["share", audited, "--results", "alice/audits", "--dry-run"],
        ["build", "occupation_sentiment", "--out", str(tmp_path / "built")],
        "from swapbias import load_prompts, load_study; load_study('occupation_sentiment'); "
        "load_prompts('occupation_sentiment', 'control')",
    )
    offline = {
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path / "hf"),
    }
    found = builders_imported_by(*steps, **offline)
    of_the_study = ["_occupation_sentiment_tables", "_paper_lines", "occupation_sentiment"]
    assert [brought for _, brought, _ in found] == [
        of_the_study,  # its builder, and the lines of its paper's tables
        *[[]] * (len(steps) - 1),
    ], found
    assert {code for code, *_ in found} <= {0, 1, 3}, [one for one in found if one[0] == 2]


def test_first_batch_imports(tmp_path):
    """Until its first batch an audit of a model imports one study's builder, and no library of later steps."""
    pytest.importorskip("torch", reason="needs the extra models")
    model = tmp_path / "model"
    model.mkdir()
    tiny.save("roberta", model)
    done = run_fresh(FIRST_BATCH, arguments=[str(model), "gendered_stigma", str(tmp_path / "run")])
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout.splitlines()[-1])
    builders = [name for name in imported if name.startswith("swapbias.builders.")]
    assert builders == [
        "swapbias.builders._gendered_stigma_released",
        "swapbias.builders.gendered_stigma",
    ]
    assert not {*NOT_NEEDED} & {*imported}


@pytest.mark.parametrize(
    ("study", "helper"),
    [("spanish_occupations", ""), ("gendered_stigma", "_gendered_stigma_released")],
)
def test_study_and_its_helper(study, helper):
    """A study is loaded and planned with its builder and helper module alone."""
    found = builders_imported_by(
        f"import swapbias; swapbias.load_prompts({study!r})", ["plan", "--study", study]
    )
    assert {name for _, brought, _ in found for name in brought} == {study, helper} - {""}, found


@pytest.fixture
def broken(monkeypatch):
    """A study of the package whose measure is misspelt in study.toml."""
    package_study = import_module("swapbias.studies.package_study")
    catalogue = import_module("swapbias.studies.catalogue")
    read = package_study.read_study_file

    def misspelt(corpus):
        declaration = read(corpus)
        if corpus == "social_distance":
            declaration.values["experiments"][0]["compares"]["measure"] = "paird_gap"
        return declaration

    monkeypatch.setattr(package_study, "read_study_file", misspelt)
    caches = (catalogue._installed_outline, catalogue._installed)
    for cached in caches:
        cached.cache_clear()
    yield "social_distance"
    for cached in caches:
        cached.cache_clear()


def test_fault_in_another_study(broken):
    """A fault in one study of the package stops no audit of another."""
    pytest.importorskip("torch", reason="needs the extra models")
    tasks, skipped = runs.plan_tasks(
        runs.settings_of("vader", ["occupation_sentiment:control"], {})
    )
    assert ([task.study.name for task in tasks], skipped) == (["occupation_sentiment"], [])
    tasks, skipped = runs.plan_tasks(runs.settings_of("vader", [], {}))
    assert "occupation_sentiment" in {task.study.name for task in tasks}
    reasons = [one.reason for one in skipped if one.study == broken]
    assert len(reasons) == 1, skipped
    assert "measure is 'paird_gap'" in reasons[0]
    assert broken not in {study.name for study in catalogue.outlines()}
    with pytest.raises(ValueError, match="Did you mean paired_gap"):
        catalogue.outline(broken)
