"""A stopped command prints one sentence with the folder and the next command, and leaves no
partial file."""

import json
import re
import signal
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.files import LOCK
from swapbias.runs.cache import ScoreCache
from swapbias.runs.run import Run
from swapbias.swapping import Job, swap_files
from tests import tiny
from tests.cli.test_cli import swapbias
from tests.hub import shared_runs

TOY = "def fixed(texts): return [0.5] * len(texts)\n"


@pytest.fixture(autouse=True)
def send_signal():
    """Ctrl-C is heard: tests that run in the background of a shell are told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def raising(name, real, after=0):
    """Return a stand-in for a function that sends a signal after some calls."""
    calls = []

    def stop(*arguments, **options):
        calls.append(name)
        if len(calls) > after:
            signal.raise_signal(getattr(signal, name))
        return real(*arguments, **options)

    return stop


def assert_stopped(done, code, *parts):
    """One sentence, no traceback, the exit status of the signal."""
    assert done.returncode == code, done.stderr
    assert not re.search("Traceback|Aborted", done.stderr)
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("Stopped")]
    assert all(part in sentence for part in parts), sentence
    assert not [
        path for part in parts if Path(part).is_dir() for path in Path(part).rglob(".*.tmp")
    ]


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_stopped_audit(name, code, tmp_path, monkeypatch):
    """A stopped audit states how to go on, and that command finishes it."""
    (tmp_path / "stopped_toy.py").write_text(TOY)
    place = tmp_path / "a run"
    arguments = (
        "audit",
        "stopped_toy:fixed",
        "--study",
        "occupation_sentiment",
        "--limit",
        "40",
        "--no-wordings",
    )
    with monkeypatch.context() as patched:
        patched.setattr(ScoreCache, "write", raising(name, ScoreCache.write, after=1))
        done = swapbias(*arguments, "--out", place, cwd=tmp_path)
    assert_stopped(done, code, str(place), f"swapbias audit --resume '{place}'")
    assert not (place / LOCK).exists()
    parts = [pq.read_table(one).num_rows for one in (place / ".scores").rglob("*.parquet")]  # whole
    assert min(parts) > 0
    if name == "SIGINT":
        done = swapbias("audit", "--resume", place, "--trust", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert Run(place).manifest()["status"] == "complete"


def test_audit_stopped_before_its_start(tmp_path, monkeypatch):
    """An audit that has saved nothing says so."""
    (tmp_path / "stopped_toy.py").write_text(TOY)
    arguments = (
        "audit",
        "stopped_toy:fixed",
        "--study",
        "occupation_sentiment",
        "--out",
        tmp_path / "run",
    )
    # The package names the function itself "audit", which hides the module of that name.
    module = import_module("swapbias.runs.audit")
    monkeypatch.setattr(module, "load_readers", raising("SIGTERM", module.load_readers))
    assert_stopped(
        swapbias(*arguments, cwd=tmp_path), 143, "nothing is saved", str(tmp_path / "run")
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("several", [False, True], ids=["direct bias", "several"])
def test_audit_without_saved_scores(several, tmp_path, monkeypatch):
    """An audit that saved no score can be repeated."""
    (tmp_path / "stopped_toy.py").write_text(f"{TOY}other = lambda texts: [0.4] * len(texts)\n")
    arguments = (
        "stopped_toy:fixed",
        "stopped_toy:other",
        "--study",
        "occupation_sentiment",
        "--limit",
        "40",
    )
    if not several:  # of direct bias the words are scored in one part
        model = tiny.save("bert", tmp_path / "encoder")
        arguments = ("-M", f"embedding={model}", "--study", "phenotype_fairness:depression_words")
    place = tmp_path / "a run"
    with monkeypatch.context() as patched:
        patched.setattr(ScoreCache, "write", raising("SIGINT", ScoreCache.write))
        done = swapbias("audit", *arguments, "--out", place, cwd=tmp_path)
    goes_on = (
        "run the same command again to resume" if several else f"swapbias audit --resume '{place}'"
    )
    assert_stopped(done, 130, str(place), goes_on)
    assert not list(place.rglob("*.parquet"))
    if not several:
        assert swapbias("audit", "--resume", place, "--trust", cwd=tmp_path).returncode == 0


def test_stopped_swap(tmp_path, monkeypatch):
    """A stopped swap keeps whole parts and is finished by the same command."""
    (tmp_path / "a.csv").write_text("text\n" + "She left.\n" * 5)
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        jobs = import_module("swapbias.swapping.jobs")
        patched.setattr(jobs, "_finish", raising("SIGTERM", jobs._finish))
        assert_stopped(
            swapbias("swap", tmp_path / "a.csv", "--out", out),
            143,
            str(out),
            "run the same command again to resume",
        )
    assert swapbias("swap", tmp_path / "a.csv", "--out", out).returncode == 0
    assert pq.read_table(out / "data").num_rows == 5


def test_stopped_build(tmp_path, monkeypatch):
    """A stopped build leaves no partial file."""
    corpora = import_module("swapbias.hub.datasets")
    monkeypatch.setattr(corpora, "write_config", raising("SIGTERM", corpora.write_config))
    assert_stopped(
        swapbias("build", "occupation_sentiment", "--out", tmp_path / "out"),
        143,
        str(tmp_path / "out"),
    )
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("function", "arguments", "part"),
    [
        (
            "swapbias.hub.share_run",
            ("share", "RUN", "--results", "me/r"),
            "What is on the Hub stays",
        ),
        ("swapbias.runs.write_figures", ("figures", "RUN"), "Run the same command"),
        ("swapbias.runs.read_run", ("compare", "RUN", "RUN"), "Run the same command"),
    ],
    ids=["share", "figures", "compare"],
)
def test_other_stopped_commands(function, arguments, part, tmp_path, monkeypatch):
    """Other commands end with a sentence."""
    (tmp_path / "manifest.json").write_text(json.dumps(shared_runs.MANIFEST | {"corpora": []}))
    monkeypatch.setattr(function, raising("SIGTERM", lambda *_, **__: None))
    assert_stopped(swapbias(*(tmp_path if one == "RUN" else one for one in arguments)), 143, part)


def test_folder_of_a_killed_process(tmp_path, quiet):
    """A folder that a process left before its first whole file counts as empty."""
    for place in (tmp_path / "run", tmp_path / "swap"):
        place.mkdir()
        (place / LOCK).touch()
        (place / ".manifest.json.7.tmp").write_text('{"swap')
        (place / "CREDENTIALED").write_text("held")
    (tmp_path / "run" / "items").mkdir()
    Run.check_new(tmp_path / "run")
    manifest = dict.fromkeys(
        ("swapbias", "status", "settings", "corpora", "skipped", "versions"), ""
    )
    Run.create(tmp_path / "run", manifest)
    (tmp_path / "a.csv").write_text("text\nShe left.\n")
    swap_files(Job(str(tmp_path / "a.csv")), tmp_path / "swap")
    assert not list((tmp_path / "swap").rglob("*.tmp"))  # swept
    for name in ("items/a", "b.tmp", "manifest.json"):
        other = tmp_path / name.replace("/", "-")
        (other / name).parent.mkdir(parents=True)
        (other / name).write_text("mine")
        with pytest.raises(UsageError, match="is not empty"):
            Run.check_new(other)
