"""A plain installation works without the libraries of audits, and names the command that
installs them."""

import importlib
import re
import sys
from importlib.machinery import PathFinder

import pytest

from tests.hub.conftest import hub, run  # noqa: F401 - fixtures

HIDDEN = ("torch", "transformers", "tokenizers", "safetensors", "matplotlib")
INSTALL = "Install with pip install 'swapbias[audit]'."


class Hiding(PathFinder):
    """Finds what is installed, but for the libraries of audits."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else super().find_spec(name, path, target)


def hidden_modules(*roots):
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in roots}


@pytest.fixture
def plain(monkeypatch, tmp_path):
    """swapbias as a process imports it that cannot import those libraries, in this process."""
    before = hidden_modules("swapbias", *HIDDEN)
    monkeypatch.setattr(
        sys, "meta_path", [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
    )
    monkeypatch.chdir(tmp_path)
    for name in before:
        del sys.modules[name]
    try:
        yield importlib.import_module("swapbias")
        assert not hidden_modules(*HIDDEN)
    finally:
        for name in hidden_modules("swapbias"):
            del sys.modules[name]
        sys.modules.update(before)


@pytest.fixture
def run_command(plain, monkeypatch, capsys):
    main = importlib.import_module("swapbias.cli").main

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["swapbias", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return command


def test_corpora_without_extras(run_command, tmp_path):
    """Without the extras corpora are listed, built and swapped."""
    assert run_command("list")[0] == 0
    assert run_command("build", "occupation_sentiment", "--out", "corpora")[0] == 0
    assert (tmp_path / "corpora" / "occupation_sentiment" / "README.md").exists()
    (tmp_path / "texts.csv").write_text("text\nShe is a nurse and her brother left.\n")
    assert run_command("swap", "texts.csv", "--out", "swapped")[0] == 0
    assert run_command("study", "new", "mine")[0] == run_command("study", "check", "mine")[0] == 0


def test_plan_without_swapping(run_command):
    """An audit is planned without loading the module that swaps texts."""
    assert "prompts" in run_command("plan", "--study", "gendered_stigma:rq1")[1]
    assert "swapbias.runs.plan" in sys.modules
    assert "swapbias.swapping.swapper" not in sys.modules  # whose patterns take long to compile


def test_publishing_without_extras(hub, run_command):  # noqa: F811
    """Without the extras corpora and metrics are published."""
    assert run_command("push", "datasets", "--namespace", "lab", "occupation_sentiment")[0] == 0
    assert run_command("push", "metrics", "--namespace", "lab", "direct_bias")[0] == 0
    assert {name for _, name in hub.repositories} == {"lab/occupation_sentiment", "lab/direct_bias"}
    assert b"evaluate.load" in hub.files("space", "lab/direct_bias")["app.py"]


@pytest.fixture
def folder(request):
    """That of a run, made where the extra is installed."""
    pytest.importorskip("torch", reason="needs torch: pip install 'swapbias[audit]'")
    return request.getfixturevalue("run").folder


def test_check_without_extras(folder, run_command):
    """Without the extras a finished run is checked, and figures name the command to install."""
    assert run_command("check", folder, "--max-gap", "0.9")[0] in (0, 1, 3)
    assert run_command("report", folder)[0] == 0
    sentence = f"swapbias: A figure needs matplotlib, which is not installed. {INSTALL}\n"
    assert run_command("figures", folder, "--out", "f") == (2, "", sentence)


def test_reproduce_without_extras(run_command, monkeypatch):
    """Without the extras published numbers are recomputed."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, out, err = run_command("reproduce", "occupation_sentiment")
    assert code in (0, 1)
    assert INSTALL not in out + err


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit",),
        ("audit", "vader", "--study", "occupation_sentiment"),
        ("audit", "a-folder", "--out", "run"),
        ("plan", "model"),
        ("train", "bilstm", "--data", "folder", "--out", "trained"),
    ],
    ids=["audit", "audit of VADER", "audit of a folder", "plan", "train"],
)
def test_model_without_extras(run_command, tmp_path, arguments):
    """A command that needs a model names the install command in one sentence."""
    (tmp_path / "texts.csv").write_text("text\nIt is his.\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    code, _, err = run_command(*arguments)
    assert code == 2
    assert re.fullmatch(rf".*(torch|transformers).* not installed\. {re.escape(INSTALL)}\n", err)
    assert not (tmp_path / "run").exists()


def test_python_without_extras(plain, tmp_path):
    """Python gives the same sentence."""
    sentence = (
        "An audit needs torch, transformers and matplotlib, which are not installed. Install with"
    )
    with pytest.raises(ImportError, match=sentence) as raised:
        plain.audit(
            lambda texts: [0.5] * len(texts), "occupation_sentiment:control", out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()
    with pytest.raises(
        type(raised.value), match=r"This needs (?:torch|transformers), which is not installed\. "
    ):
        plain.load_scorer("OWNER/NAME")


def test_unknown_library():
    """A missing library of no extra is an ordinary import error."""
    from swapbias.errors import extras_named

    with (
        pytest.raises(ModuleNotFoundError, match="No module named 'no_such_library'"),
        extras_named(),
    ):
        importlib.import_module("no_such_library")
