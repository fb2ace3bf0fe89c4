"""The scripts in examples/, run as their first lines say, each on a model or files made here."""

import contextlib
import csv
import io
import os
import re
import runpy
import stat
import subprocess
import sys
import warnings

import pytest

from swapbias.files import CREDENTIALED
from tests import tiny
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
GAP = re.compile(r"([+-][\w.]+) \(([+-][\w.]+) to ([+-][\w.]+)\)")


def run_here(script, *arguments, code=0):
    """Run a script in this process, which has the libraries loaded; returns what it prints."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patched.setattr(sys, "argv", [str(script), *map(str, arguments)])
        patched.chdir(ROOT)
        ended = 0
        with contextlib.redirect_stdout(printed):
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as end:
                ended = end.code
    assert ended == code, printed.getvalue()
    return printed.getvalue()


def run(*arguments, **changed):
    """Run a program in a process of its own; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **changed}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def gaps_of(line):
    """The gap of a printed line and both ends of its interval."""
    return [float(number) for number in GAP.search(line).groups()]


def test_all_examples_are_tested():
    """The table of the folder names each script; this file runs each, and test_cluster that for Ray."""
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    named = set(re.findall(r"\[(\w+\.py)\]", (EXAMPLES / "README.md").read_text()))
    assert (
        scripts == named == {"lora_finetune.py", "nightly_gate.py", "own_notes.py", "ray_data.py"}
    )


def test_lora_finetune(tmp_path):
    """Fine-tuning by LoRA under accelerate prints the gap as it begins and after each few steps."""
    pytest.importorskip("peft", reason="needs peft, which is in the extra dev")
    folder = tiny.save_classifier(tmp_path / "base", ["negative", "positive"])
    rows = [("he is here", 1), ("she is here", 0)] * 8
    with (tmp_path / "train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    printed = run(
        *("-m", "accelerate.commands.launch", "--cpu", "--num_processes=1", "--num_machines=1"),
        *("--mixed_precision=no", "--dynamo_backend=no"),
        *(EXAMPLES / "lora_finetune.py", "--model", folder, "--data", tmp_path / "train.csv"),
        *("--out", tmp_path / "adapter", "--study", "occupation_sentiment:control"),
        *("--steps", "4", "--every", "2", "--cpu"),
        HF_DATASETS_CACHE=str(tmp_path / "cache"),
    )
    lines = [line for line in printed.splitlines() if line.startswith("step ")]
    assert [line.split(": ")[0] for line in lines] == ["step 0", "step 2", "step 4"]
    gaps = [gaps_of(line) for line in lines]
    assert all(low < value < high for value, low, high in gaps)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
    assert not [*(tmp_path / "cache").rglob("*.arrow")]  # no copy of the texts


def test_nightly_gate(tmp_path):
    """A night that passes is marked, and the next one is compared with it; a wide margin passes, a narrow one not."""
    script = (EXAMPLES / "nightly_gate.py", "--model", "tests.test_examples:steady")
    more = ("--study", "occupation_sentiment:control", "--runs", tmp_path)
    first = run(*script, *more, "--night", "2026-01-01", "--max-gap", "0.2")
    assert first.splitlines()[0] == "2026-01-01, every gap: passes"
    second = run_here(*script, *more, "--night", "2026-01-02", "--max-gap", "0.2")
    assert "2026-01-02, against 2026-01-01: passes" in second
    third = run_here(*script, *more, "--night", "2026-01-03", "--max-gap", "0.001", code=1)
    assert third.splitlines()[0] == "2026-01-03, every gap: fails"
    passed = sorted(mark.parent.name for mark in tmp_path.glob("*/passed"))
    assert passed == ["2026-01-01", "2026-01-02"]


def steady(texts):
    """A model whose scores of sentences about women are some .1 lower."""
    return [
        (0.7 if re.match(r"(She|My (sister|wife|mother|aunt))\b", text) else 0.8)
        + len(text) % 3 / 1_000
        for text in texts
    ]


@pytest.mark.parametrize("ids", [(), ("note_id", "subject_id", "charttime")], ids=["own", "MIMIC"])
def test_own_notes(tmp_path, ids):
    """A classifier trained on notes in both genders has a smaller gap; all files are its user's, marked for MIMIC."""
    for name, count in (("train", 80), ("test", 40)):
        rows = []
        for index in range(count):
            label = index % 2
            is_woman = bool(label) is (index % 8 > 1)  # of three notes in four
            symptom = "fever" if bool(label) is (index % 3 > 0) else "cough"
            text = f"{'She' if is_woman else 'He'} has {symptom}. Bed {index % 5}0."
            rows.append((*(f"{name}{index}" for _ in ids), text, label))
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([(*ids, "text", "label"), *rows])
    (tmp_path / "out").mkdir()
    printed = run_here(
        *(EXAMPLES / "own_notes.py", "--train", tmp_path / "train.csv"),
        *("--test", tmp_path / "test.csv", "--out", tmp_path / "out"),
    )
    written, both = printed.splitlines()
    assert written.startswith("as written: female - male")
    assert gaps_of(written)[1] > 0.1  # the whole interval: mostly the gender tells the label
    assert both.startswith("both genders: ")
    assert abs(gaps_of(both)[0]) < 0.001
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in files} == {0}
    assert (tmp_path / "out" / CREDENTIALED).exists() == bool(ids)
