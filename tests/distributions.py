"""Tiny installed distributions with entry points, and commands of a fresh process that has them."""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

# Imports the libraries, nothing of swapbias, and makes each command or piece of code a process of its own: most of
# the time of a fresh one goes into these imports.
STARTER = """
import json, os, runpy, sys
import datasets, jinja2, pandas, pydantic, rich, scipy.stats, typer, yaml
for line in sys.stdin:
    job = json.loads(line)
    if process := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
        continue
    for number, name in enumerate((os.devnull, job["stdout"], job["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.path[1:1] = job["folders"]
    sys.argv = [job["program"], *job["arguments"]]
    if job["code"]:
        exec(compile(job["code"], "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        runpy.run_module("swapbias", run_name="__main__", alter_sys=True)
    sys.exit()
"""


def install(folder, name, points, files):
    """Lay out a distribution as pip does: its modules, and metadata that name the entry points of each group.

    ``points``: {group: {name: "module:object"}}, or pairs in place of the inner dict, where a name stands twice.
    """
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    pairs = {
        group: some.items() if isinstance(some, dict) else some for group, some in points.items()
    }
    sections = (
        f"[{group}]\n" + "".join(f"{entry} = {target}\n" for entry, target in some)
        for group, some in pairs.items()
    )
    (info / "entry_points.txt").write_text("\n".join(sections))
    return folder


def run(code, *folders, arguments=(), **environment):
    """Run Python code in a process with these folders on its path, which has imported nothing of swapbias."""
    if environment:  # libraries read some of it when they are imported
        return run_fresh(code, *folders, arguments=arguments, **environment)
    return _started("-c", arguments, folders, code=code)


def run_fresh(code, *folders, arguments=(), **environment):
    """Run Python code in a process with these folders on its path, which has imported nothing at all."""
    return _done([sys.executable, "-c", code, *arguments], folders, environment)


def swapbias(*arguments, folders=(), **environment):
    """Run a command in a process with these folders on its path, which has imported nothing of swapbias."""
    if environment:
        return _done([sys.executable, "-m", "swapbias", *map(str, arguments)], folders, environment)
    return _started("swapbias", arguments, folders)


def _started(program, arguments, folders, *, code=""):
    """Have a command, or code, run by the process that has the libraries."""
    with tempfile.TemporaryDirectory() as name:
        files = {stream: str(Path(name) / stream) for stream in ("stdout", "stderr")}
        job = {
            **files,
            "environment": _environment(folders),
            "folders": [str(folder) for folder in folders],
            "program": program,
            "arguments": [str(argument) for argument in arguments],
            "code": code,
        }
        starter = _starter()
        starter.stdin.write(json.dumps(job) + "\n")
        starter.stdin.flush()
        exit_code = int(starter.stdout.readline())
        streams = {stream: Path(path).read_text() for stream, path in files.items()}
    return subprocess.CompletedProcess(job["arguments"], exit_code, **streams)


@cache
def _starter():
    """The process that starts commands; it ends with this one, which closes its input."""
    return subprocess.Popen(
        [sys.executable, "-c", STARTER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _environment(folders, **changed):
    path = os.pathsep.join(map(str, folders))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "160", **changed}


def _done(command, folders, environment):
    return subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(folders, **environment),
    )
