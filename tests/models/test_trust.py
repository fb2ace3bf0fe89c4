"""No model runs code unasked: pickles are refused, and the functions that a run names need --trust."""

import importlib
import json
import pickle
import sys
from pathlib import Path

import pytest

from swapbias.errors import UsageError
from swapbias.models.base import LoadOptions, is_callable
from swapbias.models.clinical import NoteOptions
from swapbias.models.clinical.features import load_features
from swapbias.models.clinical.phenotype import load_phenotype_classifier
from swapbias.models.loading import module_file
from swapbias.runs.audit import resume, start
from swapbias.runs.plan import Settings
from tests.cli.test_cli import refused, swapbias

LOAD = LoadOptions(device="cpu")
FUNCTION = "def half(texts):\n    return [0.5] * len(texts)\n"


class Payload:
    """Unpickled, it writes a marker file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def malicious(path, marker):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(Payload(marker)))
    return str(path)


@pytest.fixture
def marker(tmp_path):
    """The file that appears where a payload has run."""
    return tmp_path / "it-ran"


@pytest.mark.parametrize(
    ("name", "safe"), [("v.kv", "as .bin"), ("V.KV", "as .bin"), ("c.joblib", "as .skops"), ("c.pkl", "as .skops")]
)
def test_a_pickle_is_refused_before_it_is_read(name, safe, tmp_path, marker):
    read = load_features if name.lower().endswith(".kv") else load_phenotype_classifier
    with pytest.raises(UsageError, match=rf"^{name} is a pickle: .*load it in Python and save it .*{safe}\.$"):
        read(malicious(tmp_path / name, marker), options=LOAD)
    assert not marker.exists()


def test_a_pickle_under_the_name_of_a_safe_format_is_never_unpickled(tmp_path, marker):
    for name in ("a.skops", "a.bin", "a.txt"):
        read = load_phenotype_classifier if name.endswith(".skops") else load_features
        with pytest.raises(ValueError, match="cannot be read"):
            read(malicious(tmp_path / name, marker), options=LOAD)
    assert not marker.exists()


def test_training_refuses_vectors_that_are_a_pickle(tmp_path, marker):
    out = tmp_path / "run"
    for part in ("train", "dev"):
        (tmp_path / f"stsa.binary.{part}").write_text("1 good film\n0 bad film\n" * 4)
    vectors = malicious(tmp_path / "V.KV", marker)
    refused(
        swapbias("train", "bilstm", "--data", tmp_path, "--vectors", vectors, "--out", out), 2, "V.KV is a pickle"
    )
    assert not marker.exists()
    assert not out.exists()


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A folder with the module toy_half, which no test has imported yet."""
    (tmp_path / "toy_half.py").write_text(FUNCTION)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "toy_half.py"
    sys.modules.pop("toy_half", None)
    importlib.invalidate_caches()


def sentiment(model, **more):
    return Settings(model=model, studies=("occupation_sentiment:sentences",), limit=20, **more)


def begun(quiet, settings, folder, **changes):
    """A run whose manifest somebody wrote: settings of their choice."""
    run, _ = start(settings, folder, **quiet)
    manifest = run.manifest()
    settings = {**manifest["settings"], **changes.get("settings", {})}
    run.write_manifest({**manifest, "status": "running", **changes, "settings": settings})
    return folder


def poisoned(source, marker):
    """Another version of the module, which writes the marker when it is imported."""
    source.write_text(f"from pathlib import Path\nPath({str(marker)!r}).touch()\n{FUNCTION}")
    sys.modules.pop("toy_half", None)
    importlib.invalidate_caches()


def test_a_run_that_names_a_function_goes_on_only_with_trust(toy, tmp_path, quiet, marker):
    poisoned(toy, marker)
    folder = begun(quiet, sentiment("toy_half:half"), tmp_path / "run")
    marker.unlink()
    sys.modules.pop("toy_half", None)
    with pytest.raises(UsageError, match=r"run names toy_half:half, code that would run.*Repeat with --trust"):
        resume(folder, **quiet)
    assert not marker.exists()
    assert "toy_half" not in sys.modules
    run, _ = resume(folder, **quiet, trust=True)
    assert marker.exists()
    assert run.manifest()["status"] == "complete"


def test_a_function_that_changed_is_refused_before_it_is_imported(toy, tmp_path, quiet, marker):
    folder = begun(quiet, sentiment("toy_half:half"), tmp_path / "run")
    poisoned(toy, marker)
    with pytest.raises(UsageError, match="begun with another version of toy_half:half"):
        resume(folder, **quiet, trust=True)
    assert not marker.exists()


def test_a_function_that_a_module_imports_from_elsewhere_can_go_on(toy, tmp_path, quiet):
    (tmp_path / "toy_outer.py").write_text("from toy_half import half\n")
    folder = begun(quiet, sentiment("toy_outer:half"), tmp_path / "run")
    assert resume(folder, **quiet, trust=True)[0].manifest()["status"] == "complete"
    folder = begun(quiet, sentiment("toy_outer:half"), tmp_path / "other")
    (tmp_path / "toy_outer.py").write_text("from toy_half import half\nmore = 1\n")
    with pytest.raises(UsageError, match="another version of toy_outer:half"):
        resume(folder, **quiet, trust=True)
    sys.modules.pop("toy_outer")


def notes_of(tmp_path, **notes):
    (tmp_path / "notes.csv").write_text("text,label\nShe fell.,1\nHe is well.,0\n")
    return Settings(options=(NoteOptions(data=str(tmp_path / "notes.csv"), **notes),))


@pytest.mark.parametrize("kind", ["classifier", "vectors"])
def test_a_manifest_of_others_unpickles_nothing(kind, toy, tmp_path, quiet, marker):
    folder = begun(quiet, sentiment("toy_half:half"), tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.pop("sha256", None)  # as whoever edits it can
    settings, notes = manifest["settings"], manifest["settings"]["notes"]
    settings["model"] = None
    if kind == "classifier":
        notes["classifier"] = malicious(tmp_path / "c.pkl", marker)
        notes["data"] = notes_of(tmp_path).options[0].data
        settings["studies"] = ["phenotype_fairness"]
    else:
        notes["embeddings"] = [f"mine={malicious(tmp_path / 'v.kv', marker)}"]
        settings["studies"] = ["phenotype_fairness:depression_words"]
    del manifest["models"]  # nothing to compare with
    (folder / "manifest.json").write_text(json.dumps(manifest))
    refused(swapbias("audit", "--resume", folder, "--trust"), 2)
    assert not marker.exists()


def test_a_module_is_found_without_importing_the_packages_around_it(tmp_path, monkeypatch, marker):
    poison = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
    for folder in (tmp_path / "outer_toy", tmp_path / "space_toy" / "inner"):  # the second has no __init__.py above
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(poison)
        (folder / "leaf.py").write_text(poison)
    monkeypatch.chdir(tmp_path)
    assert module_file("outer_toy.leaf") == tmp_path / "outer_toy" / "leaf.py"
    assert module_file("outer_toy") == tmp_path / "outer_toy" / "__init__.py"
    assert module_file("space_toy.inner.leaf") == tmp_path / "space_toy" / "inner" / "leaf.py"
    assert module_file("space_toy") is module_file("outer_toy.none") is module_file("none_toy.leaf") is None
    assert not marker.exists()
    assert not any(name.startswith(("outer_toy", "space_toy")) for name in sys.modules)
    for name in ("v.bin", "c.skops", "v.txt.gz"):
        (tmp_path / name).write_bytes(b"")
        assert not is_callable(str(tmp_path / name))
    for name in ("vader", "roberta-large", "owner/name", "svm", str(tmp_path)):
        assert not is_callable(name)
