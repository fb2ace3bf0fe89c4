"""A plain installation works without the libraries of audits, and names the command that
installs them."""

import importlib
import re
import sys
from importlib.machinery import PathFinder

import pandas as pd
import pytest

from tests.hub.conftest import hub, run  # noqa: F401 - fixtures

HIDDEN = ("torch", "transformers", "tokenizers", "safetensors", "openai", "matplotlib")
WITH_FIGURES = "Install with pip install 'swapbias[audit]'."
WITH_MODELS = "Install with pip install 'swapbias[models]'."


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
    assert b"evaluate.load" in hub.files("space", "lab/direct_bias")["index.html"]


@pytest.fixture
def folder(request):
    """That of a run, made where the extra is installed."""
    pytest.importorskip("torch", reason="needs torch: pip install 'swapbias[models]'")
    return request.getfixturevalue("run").folder


def test_check_without_extras(folder, run_command):
    """Without the extras a finished run is checked, and figures name the command to install."""
    assert run_command("check", folder, "--max-gap", "0.9")[0] in (0, 1, 3)
    assert run_command("report", folder)[0] == 0
    sentence = f"swapbias: A figure needs matplotlib, which is not installed. {WITH_FIGURES}\n"
    assert run_command("figures", folder, "--out", "f") == (2, "", sentence)


def test_reproduce_without_extras(run_command, monkeypatch):
    """Without the extras published numbers are recomputed."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, out, err = run_command("reproduce", "occupation_sentiment")
    assert code in (0, 1)
    assert "Install with" not in out + err


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (("audit", "a-model", "--out", "run"), "The model a-model"),
        (("plan", "a-model"), "The model a-model"),
        (("audit", "a-model", "--kind", "masked", "--out", "run"), "The model a-model"),
        (("audit", "--study", "gendered_stigma:rq1", "--out", "run"), "The calibration model"),
        (("train", "bilstm", "--data", "folder", "--out", "trained"), "This model"),
    ],
    ids=["audit of a folder", "plan", "kind", "calibration", "train"],
)
def test_model_without_extras(run_command, tmp_path, arguments, subject):
    """A command that needs a model of torch names the extra models in one sentence."""
    (tmp_path / "a-model").mkdir()
    (tmp_path / "a-model" / "config.json").write_text("{}")
    code, _, err = run_command(*arguments)
    assert code == 2
    needs = rf"{subject} needs (?:torch|transformers|torch and transformers), which (?:is|are) not"
    assert re.search(rf"^swapbias: {needs} installed\. {re.escape(WITH_MODELS)}$", err, re.M), err
    assert not (tmp_path / "run").exists()


def test_demonstration_without_torch(run_command, tmp_path):
    """Without torch the demonstration shows VADER, and names the extra that adds the planted models."""
    pytest.importorskip("vaderSentiment", reason="needs VADER: pip install 'swapbias[audit]'")
    code, out, err = run_command("audit", "--out", "run")
    assert code == 0, err
    words = " ".join(out.split())
    assert "1. Your own prompts (vader)" in words
    assert "UNDECIDED, naive test: p < 0.001" in words
    needs = "A model with a planted bias needs torch and transformers, which are not installed."
    assert f"Not shown: {needs} {WITH_MODELS}" in words
    assert "planted 30.0" not in words
    assert (tmp_path / "run" / "report.html").is_file()


def test_demonstration_without_any_extra(run_command, tmp_path, monkeypatch):
    """Without VADER as well there is nothing to show, and one sentence says what to install."""
    errors = importlib.import_module("swapbias.errors")
    hidden = (*HIDDEN, "vaderSentiment")
    find = errors.find_spec
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name in hidden else find(name))
    code, _, err = run_command("audit", "--out", "run")
    needs = "A model with a planted bias needs torch and transformers, which are not installed."
    assert (code, err) == (2, f"swapbias: {needs} {WITH_MODELS}\n")
    assert not (tmp_path / "run").exists()


def test_vader_without_torch(run_command, tmp_path):
    """VADER is audited without torch, to the same numbers: of 6 pairs of names 2 differ."""
    pytest.importorskip("vaderSentiment", reason="needs VADER: pip install 'swapbias[audit]'")
    run_command("study", "new", "names")
    code, out, err = run_command("audit", "vader", "--study", "./names", "--out", "run")
    assert (code, "UNDECIDED" in out) == (0, True), err
    assert "+7.9 points (95 % interval −5.2 to +34.2)" in re.sub(r"\s+", " ", out)
    assert (tmp_path / "run" / "report.html").is_file()


def test_function_without_torch(run_command, tmp_path):
    """A function of a file is audited without torch: 0.5 for "she" and else 0.75 are -25 points in 1 of 20 pairs."""
    (tmp_path / "scored.py").write_text(
        "def predict(texts):\n    return [0.5 if 'she' in text.lower().split() else 0.75 for text in texts]\n"
    )
    study = ("--study", "occupation_sentiment:control")
    code, out, err = run_command("audit", "scored:predict", *study, "--out", "run")
    assert (code, "−1.2 points" in out) == (0, True), err
    assert (tmp_path / "run" / "report.html").is_file()


def test_notes_without_torch(run_command, tmp_path):
    """A function that reads notes is audited without torch: the answer to each note is another with "she"."""
    (tmp_path / "scored.py").write_text(
        "def predict(texts):\n    return [0.9 if 'he' in text.lower().split() else 0.2 for text in texts]\n"
    )
    rows = [
        f"{'She' if n % 2 else 'He'} sat down {n}.,{n // 2 % 2},{'MF'[n % 2]},{n}"
        for n in range(40)
    ]
    (tmp_path / "notes.csv").write_text("\n".join(["text,label,gender,hadm_id", *rows]))
    options = ("-M", "data=notes.csv", "-M", "classifier=scored:predict", "-M", "explain=0")
    code, _, err = run_command(
        "audit", "--study", "phenotype_fairness", *options, "--out", "run", "--no-wordings"
    )
    assert code == 0, err
    findings = pd.read_csv(tmp_path / "run" / "findings.csv")
    flips = findings[findings["measure"] == "flip_rate"]
    assert flips["value"].unique().tolist() == [1.0]


def test_python_without_torch(plain, tmp_path):
    """In Python a lambda is audited without torch, and a model of the Hub names the extra."""
    audited = plain.audit(
        lambda texts: [0.5 if "she" in text.lower().split() else 0.75 for text in texts],
        "occupation_sentiment:control",
        out=tmp_path / "run",
        progress=False,
    )
    assert audited.primary["value"].round(6).tolist() == [-0.25 / 20]  # 1 of 20 pairs has "she"
    sentence = (
        f"The model OWNER/NAME needs torch and transformers, which are not installed. {WITH_MODELS}"
    )
    with pytest.raises(ImportError, match=re.escape(sentence)):
        plain.load_scorer("OWNER/NAME")


def test_scikit_learn_without_torch(plain):
    """A scikit-learn pipeline of texts is audited without torch: trained on she and he, it tells them apart."""
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'swapbias[clinical]'")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    classifier = make_pipeline(CountVectorizer(), MultinomialNB())
    classifier.fit(["she she", "he he"], [1, 0])
    audited = plain.audit(classifier, "occupation_sentiment:control", progress=False)
    # With one added to each count "she" is 3 of 4 words of class 1 and 1 of 4 of class 0: 0.75, and "he" 0.25.
    # The other 19 pairs have neither word: the pipeline reads the same input twice, so they do not count.
    assert audited.primary["value"].round(6).tolist() == [0.5]


def test_unknown_library():
    """A missing library of no extra is an ordinary import error."""
    from swapbias.errors import extras_named

    with (
        pytest.raises(ModuleNotFoundError, match="No module named 'no_such_library'"),
        extras_named(),
    ):
        importlib.import_module("no_such_library")
