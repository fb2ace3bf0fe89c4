"""The public names of the package, their examples, and types that hold in users' code."""

import doctest
import inspect
import os
import re
import shutil
import subprocess
import sys

import pytest

import swapbias
from tests.conftest import ROOT

USER = """
import swapbias
from swapbias import Audit, Finding


def positive(texts: list[str]) -> list[float]:
    return [0.5] * len(texts)


def gate(model: object) -> float:
    run: Audit = swapbias.audit(model, studies=["occupation_sentiment"], limit=10, out=None)
    run.assert_below(0.05, study="occupation_sentiment")
    worst: Finding = max(run.found, key=lambda one: one.estimate.value)
    page: str = run.report("page.html").read_text()
    print(run.findings, run.primary, run.items("x"), run.worst_pairs("x", n=3), run.compare("runs/x"), page)
    return worst.estimate.value


reveal_type(gate(positive))
scorer = swapbias.load_scorer(positive, name="even")
print(swapbias.score_prompts(swapbias.load_prompts("occupation_sentiment"), scorer), scorer.model_id.upper())
gap = swapbias.paired_gap([1.0, 2.0], ["a", "b"], ["1", "1"], reference_group="b")
reveal_type(gap.value)
"""


def test_public_names_have_examples():
    """Dir() lists the public names alone, and each of them has an example that runs."""
    assert {"audit", "Audit", "load_scorer", "paired_gap"} <= set(dir(swapbias))
    assert all(not name.startswith("_") and hasattr(swapbias, name) for name in dir(swapbias))
    for name in dir(
        swapbias
    ):  # which are collected from the modules: here it is certain that there is one
        thing = getattr(swapbias, name)
        found = doctest.DocTestFinder(recurse=False).find(
            thing, name, module=sys.modules[thing.__module__]
        )
        assert any(one.examples for one in found), f"{name} has no example"
        assert inspect.getdoc(thing)


def test_types_of_user_code(tmp_path):
    """A type checker finds the documented types in the code of a user."""
    pytest.importorskip("mypy", reason="needs mypy, of the extra dev")
    installed = (
        tmp_path / "site"
    )  # as installed: found on the path of packages, typed by its py.typed alone
    shutil.copytree(
        ROOT / "swapbias",
        installed / "swapbias",
        ignore=shutil.ignore_patterns("__pycache__", "*.j2"),
    )
    (tmp_path / "user.py").write_text(USER)
    # What swapbias itself builds on is not read: only its own types are looked at.
    heavy = (
        "torch",
        "transformers",
        "numpy",
        "scipy",
        "matplotlib",
        "datasets",
        "rich",
        "typer",
        "huggingface_hub",
    )
    config = [
        "[mypy]",
        "strict = true",
        *(f"[mypy-{name}.*]\nfollow_imports = skip" for name in heavy),
    ]
    (tmp_path / "mypy.ini").write_text("\n".join(config))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            "mypy.ini",
            "--cache-dir",
            "cache",
            "user.py",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.findall(r'Revealed type is "(?:builtins\.)?(\w+)"', done.stdout) == ["float", "float"]
    assert done.returncode == 0, done.stdout + done.stderr


PUBLIC_CALLS = [
    *(name for name in dir(swapbias) if inspect.isfunction(getattr(swapbias, name))),
    *(
        f"Audit.{name}"
        for name, member in inspect.getmembers(swapbias.Audit, inspect.isroutine)
        if not name.startswith("_")
    ),
]


def public_call(path):
    """A public function, or a method of an audit."""
    thing = swapbias
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


@pytest.mark.parametrize("path", PUBLIC_CALLS)
def test_unknown_argument_gets_the_nearest(path):
    """An argument that no public function has is refused with the nearest that there is."""
    call = public_call(path)
    *_, last = inspect.signature(call).parameters
    if path == "audit":
        last = "studies"
    with pytest.raises(swapbias.UsageError) as refused:
        call(**{f"{last}x": 1})
    assert str(refused.value) == f"{path} has no argument {last}x. Did you mean {last}?"


def test_misspelled_study():
    """An audit names the argument that was meant, also one of its settings, and where all are."""
    cases = {
        "studdy": "studies",
        "outt": "out",
        "batchsize": "batch_size",
        "tokeniser": "tokenizer",
    }
    for name, meant in cases.items():
        with pytest.raises(swapbias.UsageError, match=f"argument {name}[.] Did you mean {meant}"):
            swapbias.audit("vader", progress=False, **{name: 1})
    with pytest.raises(swapbias.UsageError, match=r"no argument zzz\. See swapbias help settings"):
        swapbias.audit("vader", progress=False, zzz=1)


def test_unknown_argument_is_a_type_error():
    """Python's own kind of error for a wrong argument catches it too."""
    with pytest.raises(TypeError):
        swapbias.load_study(nam="gendered_stigma")


def test_arguments_have_a_line_each():
    """The docstring of a public function explains each argument on lines of its own."""
    for path in PUBLIC_CALLS:
        call = public_call(path)
        names = [name for name in inspect.signature(call).parameters if name != "self"]
        section = inspect.getdoc(call).partition("Args:\n")[2]
        explained = re.findall(r"^    (\w+): ", section.partition("\n\n")[0], re.MULTILINE)
        assert explained == names, path
