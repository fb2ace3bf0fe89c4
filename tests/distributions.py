"""Tiny installed distributions with entry points, and commands of a fresh process that has them."""

import os
import subprocess
import sys

from tests.conftest import ROOT


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
    """Run Python code in a fresh process with these folders on its path."""
    return _done([sys.executable, "-c", code, *arguments], folders, environment)


def swapbias(*arguments, folders=(), **environment):
    """Run a command in a fresh process with these folders on its path."""
    return _done([sys.executable, "-m", "swapbias", *map(str, arguments)], folders, environment)


def _done(command, folders, environment):
    settings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "COLUMNS": "160",
        **environment,
    }
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=settings
    )
