"""Inputs that once failed are refused in a sentence, and the fuzzer reports each kind of fault."""

import base64
import errno
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from benchmarks.soak.faults import CLOCK, FULL, KILL, TORN, Faults
from benchmarks.soak.fuzz import Tally, Target, Watch, mutated, tried
from benchmarks.soak.inputs import targets
from swapbias.errors import UsageError
from swapbias.files import write_whole

KNOWN_FAULTS = [
    json.loads(line) for line in (Path(__file__).parent / "found.jsonl").read_text().splitlines()
]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def known_targets(workdir):
    """The targets; a first seed that is refused is an error, for such a target would fuzz its first check alone."""
    targets_by_name = {target.name: target for target in targets(workdir)}
    for one in targets_by_name.values():
        for number, content in enumerate(one.seeds):  # loads what is loaded when it is first needed
            with suppress(ValueError) if number else nullcontext():
                one.read(one.build(content) if one.build else content)
    return targets_by_name


@pytest.fixture(scope="module")
def watch(workdir):
    return Watch(workdir)


def faults(target, contents, watch):
    tally = Tally()
    for content in contents:
        tried(target, content, tally, watch)
    return {
        what: count for what, count in tally.faults.items() if what != "slow"
    }  # others use this machine too


@pytest.mark.parametrize("found", KNOWN_FAULTS, ids=lambda one: f"{one['target']}: {one['what']}")
def test_known_faults(known_targets, watch, found):
    """Each input that once failed is read or refused in a sentence."""
    target = known_targets[found["target"]]
    content = base64.b64decode(found["input"])
    assert not faults(target, [content], watch), found["what"]


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
def test_random_inputs(known_targets, watch):
    """Some random inputs of every kind are read or refused."""
    draw = random.Random(7)
    for target in known_targets.values():
        assert not faults(target, [mutated(target, draw) for _ in range(10)], watch), target.name


def _import(content, workdir):
    (workdir / "planted_module.py").write_text("x = 1\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(workdir)
        __import__("planted_module")
    del sys.modules["planted_module"]


@pytest.mark.parametrize(
    ("does", "what"),
    [
        (lambda content, workdir: [][1], "IndexError in ?"),
        (
            lambda content, workdir: content.decode(),
            "UnicodeDecodeError in ?",
        ),  # of a library, if a ValueError
        (
            lambda content, workdir: (_ for _ in ()).throw(ValueError("x" * 5_000)),
            "a long sentence in ?",
        ),
        (lambda content, workdir: subprocess.run(["true"], check=True), "ran subprocess.Popen"),
        (lambda content, workdir: os.mkdir("/nonexistent/x"), "ran os.mkdir '/nonexistent/x'"),
        (lambda content, workdir: exec(compile("1", "theirs.py", "exec")), "ran exec theirs.py"),
        (_import, "ran import planted_module"),
    ],
    ids=["IndexError", "decode error", "long sentence", "process", "file", "code", "import"],
)
def test_watch_sees_faults(workdir, watch, does, what):
    """The watch reports each fault that it looks for."""

    def read(content):
        try:
            does(content, workdir)
        except FileNotFoundError as error:
            raise UsageError("refused") from error

    found = faults(Target("planted", [b""], read), [b"\xff"], watch)
    assert any(one.startswith(what) for one in found), found


def end_of_child(workdir, kind, at):
    """Return the signal that killed a child which writes two whole files, or its exit code."""
    child = os.fork()
    if not child:
        code = 0
        try:
            faults = Faults(workdir, kind, at, workdir.parent / "steps")
            for name in ("a", "b"):
                write_whole(workdir / name, b"content")
            faults.at = 0
            faults.report()
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fault_at_its_step(tmp_path):
    """A fault comes at its step: a file written whole takes five, from opening to the look for its
    temporary file."""
    workdir = tmp_path / "run"
    workdir.mkdir()
    assert end_of_child(workdir, KILL, 4) == signal.SIGKILL  # before the first file has its name
    assert [one.suffix for one in workdir.iterdir()] == [".tmp"]
    assert end_of_child(workdir, FULL, 9) == errno.ENOSPC
    assert {one.name for one in workdir.iterdir() if one.suffix != ".tmp"} == {"a"}
    assert end_of_child(workdir, KILL, 0) == 0
    assert (tmp_path / "steps").read_text() == "10"
    assert {one.name for one in workdir.iterdir() if one.suffix != ".tmp"} == {"a", "b"}
    assert end_of_child(workdir, TORN, 8) == signal.SIGKILL
    assert sorted(one.stat().st_size for one in workdir.glob(".b*.tmp")) == [len(b"content") // 2]
    assert end_of_child(workdir, CLOCK, 1) == 0
