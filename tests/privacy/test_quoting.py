"""No error about files that may be notes repeats a cell, neither in its sentence nor behind
--debug."""

import json

import pandas as pd
import pyarrow as pa
import pytest

from swapbias.errors import forget_notes, log_traceback, notes_read, safe_message
from swapbias.models.clinical.phenotype import explain_pair
from swapbias.notes.audit_notes import Notes
from swapbias.swapping import Swapper
from tests.cli.test_cli import swapbias
from tests.privacy.test_gate import written

SECRET = "Xanthippe"  # stands in every note
STUDY = ("--study", "phenotype_fairness")
FALLER = ("-M", "classifier=tests.hub.own_runs:faller")
NOTE = f"{SECRET} was seen for her knee"
OWN_NOTES = "text,label,gender\n" + "".join(
    f"{NOTE} {number},{number % 2},{'FM'[number % 2]}\n" for number in range(12)
)
MODULE = f"""
import numpy as np, pandas as pd, pyarrow as pa
def raises(texts): raise KeyError(texts[0] if {SECRET!r} in texts[0] else 'x')
def floats(texts): return [float(one) for one in texts] if {SECRET!r} in texts[0] else [0.5] * len(texts)
def frames(texts): return pd.Series(texts).astype(float) if {SECRET!r} in texts[0] else [0.5] * len(texts)
def arrow(texts): return pa.array([1, *texts]) if {SECRET!r} in texts[0] else [0.5] * len(texts)
def strings(texts): return texts if {SECRET!r} in texts[0] else [0.5] * len(texts)
class Remote(Exception): pass
def remote(texts):
    if {SECRET!r} not in texts[0]: return [0.5] * len(texts)
    try: raise ValueError(texts[0])
    except ValueError as error: raise Remote('a worker failed: ' + repr(texts)) from error
class Model:
    classes_ = (0, 1)
    def predict_proba(self, texts):
        if {SECRET!r} in texts[0]: raise ValueError('could not convert string to float: ' + repr(texts[0]))
        return np.full((len(texts), 2), .5)
model = Model()
"""
FILES = {
    "headerless.csv": f"{NOTE},1\n{NOTE},0\n",
    "one-column.csv": f"{NOTE}\n{NOTE}\n",
    "short.csv": f"{SECRET} is well,1\n{SECRET} is ill,0\n",
    "headerless.tsv": f"{NOTE}\t1\n",
    "twice.csv": f"{SECRET} a,{SECRET} a\nx,y\n",
    "label.csv": f"text,label\na,{SECRET}\n",
    "shifted.csv": f"text,label,gender\na,1,{SECRET}\n",
    "id.csv": f"text,label,note_id\na,1,{SECRET}\nb,0,{SECRET}\n",
    "subject.csv": f"text,label,split,subject_id\na,1,train,{SECRET}\nb,0,test,{SECRET}\n",
    "open.csv": f'text,label\n"{NOTE},1\nb,0\n',
    "ragged.csv": f"text,label\na,1,{SECRET}\n",
    "bytes.csv": b"text,label\n" + SECRET.encode() + b"\xff,1\n",
    "cut.jsonl": f'{{"text": "{NOTE}", "label": 1\n',
    "string.jsonl": f'"{NOTE}"\n',
    "types.jsonl": f'{{"text": 1}}\n{{"text": "{NOTE}"}}\n',
    "deep.jsonl": f'{{"text": "a", "label": {{"{SECRET}": 1}}}}\n{{"text": "a", "label": "{SECRET}"}}\n',
    "fake.parquet": NOTE,
    "fake.csv.gz": NOTE,
    "dict.parquet": written(pa.table({"text": [{"a": NOTE}]})),
}


def shows_nothing(done, *codes):
    assert done.returncode in codes, (done.stdout, done.stderr)
    assert SECRET not in done.stdout + done.stderr
    assert done.stderr.strip()


@pytest.mark.parametrize("name", FILES)
def test_broken_file(name, tmp_path):
    """An error about a broken file quotes none of its cells."""
    path = tmp_path / name
    path.write_bytes(FILES[name] if isinstance(FILES[name], bytes) else FILES[name].encode())
    lexicon = ("--prompts", path, "--reference", "a", "-M", f"lexicon={path}")
    for command in (
        ("swap", path, "--out", tmp_path / "a"),
        ("audit", *STUDY, "-M", f"data={path}", *FALLER, "--out", tmp_path / "d"),
        ("build", "clinical_notes", "--data", path, "--out", tmp_path / "b"),
        ("swap", path, "--out", tmp_path / "c", "--table", path),
        ("plan", "vader", *lexicon),
    ):
        done = swapbias(*command, "--debug")
        assert SECRET not in done.stdout + done.stderr, command
        assert done.returncode in (0, 1, 2)


def test_headerless_files(tmp_path):
    """An error about headerless files in a folder quotes none of their cells."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"{NOTE} {name},1\n")
    shows_nothing(swapbias("swap", tmp_path, "--out", tmp_path / "out", "--debug"), 1, 2)


@pytest.mark.parametrize(
    "name", ["raises", "floats", "frames", "arrow", "strings", "remote", "model"]
)
def test_error_of_a_classifier(name, tmp_path):
    """An error of a user's classifier is reported by its type."""
    (tmp_path / "own_quoting.py").write_text(MODULE)
    (tmp_path / "own.csv").write_text(OWN_NOTES)
    done = swapbias(
        "audit",
        *STUDY,
        "-M",
        f"data={tmp_path / 'own.csv'}",
        "-M",
        f"classifier=own_quoting:{name}",
        "--out",
        tmp_path / "run",
        "--debug",
        cwd=tmp_path,
    )
    shows_nothing(done, 1, 2)
    assert "Traceback" in done.stderr  # --debug still shows where
    assert "own_quoting" in done.stderr


@pytest.fixture
def no_notes_read():
    """No notes are read yet, and after the test none are either."""
    forget_notes()
    yield
    forget_notes()


@pytest.mark.parametrize(
    "attack",
    [
        lambda: float(NOTE),
        lambda: pd.to_datetime([NOTE], format="%Y"),
        lambda: pa.array([1, NOTE]),
        lambda: json.loads(NOTE),
        lambda: {}[NOTE],
    ],
    ids=["float", "date", "arrow", "JSON", "key"],
)
def test_message_of_a_library(attack, no_notes_read, caplog):
    """The message of a library is shown only while no notes are read."""
    caplog.set_level("DEBUG")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any library
        attack()
    assert safe_message(caught.value) == str(caught.value)
    notes_read()
    log_traceback(caught.value)
    assert SECRET not in safe_message(caught.value) + caplog.text
    assert "test_quoting.py" in caplog.text  # where it was
    assert type(caught.value).__name__ in safe_message(caught.value)


@pytest.mark.parametrize(
    ("first", "kind"), [(1, "int"), ({"a": NOTE}, "dict")], ids=["int", "dict"]
)
def test_own_sentence(first, kind, no_notes_read, caplog):
    """A sentence of swapbias is shown, and the error that it came from is not."""
    caplog.set_level("DEBUG")
    notes_read()
    with pytest.raises(ValueError, match=f"some are {kind}, expected strings") as caught:
        Swapper().swap([first, NOTE])
    assert f"some are {kind}" in safe_message(caught.value)
    log_traceback(caught.value)
    assert SECRET not in str(caught.value) + caplog.text


def test_note_without_probability():
    """A note without a probability is described by its length."""
    with pytest.raises(ValueError, match="has no probability") as caught:
        explain_pair(lambda texts: [[float("nan")] * 2] * len(texts), {"original": NOTE})
    assert SECRET not in str(caught.value)


def test_printed_objects():
    """What holds notes prints no word of them in a notebook or in a traceback with variables."""
    notes = Notes("own", ({"text": NOTE},), known_swaps={NOTE: NOTE})
    assert SECRET not in repr(notes)
    assert SECRET not in repr(Swapper().run([NOTE]))
