"""No model runs code unasked: pickles need -M allow-pickle, and what a run names needs --trust."""

import importlib
import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from swapbias.errors import UsageError
from swapbias.models.auto import code_of, is_pickle, module_file
from swapbias.models.base import LoadOptions
from swapbias.models.clinical import NoteOptions
from swapbias.models.clinical.features import StaticVectors, load_extra, load_features
from swapbias.models.clinical.phenotype import load_phenotype_classifier
from swapbias.runs.audit import resume, start
from swapbias.runs.plan import Settings
from swapbias.runs.run import Run
from tests.cli.test_cli import refused, swapbias

ALLOWED = LoadOptions(device="cpu", allow_pickle=True)
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


def needs(*packages):
    for package in packages:
        pytest.importorskip(package, reason=f"needs {package}: pip install 'swapbias[clinical]'")


def vectors(tmp_path, marker):
    needs("gensim")
    name = f"mine={malicious(tmp_path / 'v.kv', marker)}"
    return lambda options, say: load_features(name, options=options, say=say)


def classifier(tmp_path, marker):
    needs("sklearn", "joblib")
    name = malicious(tmp_path / "pipeline.joblib", marker)
    return lambda options, say: load_phenotype_classifier(name, options=options, say=say)


@pytest.mark.parametrize(
    ("make", "file", "safe"),
    [
        (vectors, "v.kv", "word2vec format"),
        (classifier, "pipeline.joblib", "as .skops"),
    ],
    ids=["vectors", "classifier"],
)
def test_a_pickle_is_read_only_where_it_is_allowed_and_then_announced(make, file, safe, tmp_path, marker):
    read, told = make(tmp_path, marker), []
    with pytest.raises(
        UsageError, match=rf"^{file} is a pickle: .*{safe}.*if you trust who made it .-M allow-pickle; of train"
    ):
        read(LoadOptions(device="cpu"), told.append)
    assert not marker.exists()
    assert told == []
    with pytest.raises(ValueError, match=r"expected predict|cannot be read"):  # what is unpickled is no model
        read(ALLOWED, told.append)
    assert marker.exists()
    assert told == [f"{file} is a pickle: reading it runs what its maker put in it."]


def test_a_saved_pipeline_of_the_readme_loads_by_itself(tmp_path):
    needs("sklearn", "skops")
    import skops.io
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    made = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(["he is low", "she is well"], [1, 0])
    skops.io.dump(made, tmp_path / "pipeline.skops")
    found = load_phenotype_classifier(str(tmp_path / "pipeline.skops"), options=LoadOptions(device="cpu"))
    assert found.predict_proba(["he is low"])[0, 1] > 0.5


def test_a_pickle_under_the_name_of_a_safe_format_is_never_unpickled(tmp_path, marker):
    needs("sklearn", "skops", "gensim")
    for name in ("a.skops", "a.bin", "a.txt"):
        read = load_phenotype_classifier if name.endswith(".skops") else load_features
        with pytest.raises(ValueError, match="cannot be read"):
            read(malicious(tmp_path / name, marker), options=ALLOWED)
    assert not marker.exists()


def test_vectors_for_training_are_refused_alike(tmp_path, marker):
    needs("gensim")
    path = Path(malicious(tmp_path / "V.KV", marker))
    with pytest.raises(UsageError, match="-M allow-pickle"):
        StaticVectors.load(path)
    sentences = "\n".join(["1\tgood film", "0\tbad film"] * 4)
    for part in ("train.tsv", "dev.tsv"):
        (tmp_path / part).write_text(f"label\tsentence\n{sentences}\n")
    options = ["train", "bilstm", "--data", tmp_path, "--vectors", path, "--out", tmp_path / "m"]
    refused(swapbias(*options), 2, "V.KV is a pickle", "allow-pickle")
    assert not marker.exists()
    swapbias(*options, "--allow-pickle")
    assert marker.exists()


def test_the_command_reads_pickles_only_with_the_flag(tmp_path, marker):
    needs("sklearn", "joblib")
    (tmp_path / "notes.csv").write_text("text,label\nShe fell.,1\nHe is well.,0\n")
    out = tmp_path / "run"
    for given in (
        ["-M", f"data={tmp_path / 'notes.csv'}", "-M", f"classifier={malicious(tmp_path / 'c.joblib', marker)}"],
    ):
        refused(swapbias("audit", *given, "--out", out), 2, "is a pickle", "allow-pickle")
        assert not marker.exists()
        assert not out.exists()
        done = swapbias("audit", *given, "-M", "allow-pickle", "--out", out)
        assert "joblib is a pickle: reading it runs what its maker put in it." in (done.stdout + done.stderr)
        assert marker.exists()
        marker.unlink()
    refused(swapbias("audit", "--trust"), 2, "no --resume, manifest or audit.toml is given")


# Runs of others.


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
    for allowed in ({}, {"allow_pickle": True}):
        with pytest.raises(UsageError, match=r"run names toy_half:half, a Python function.*Repeat with --trust"):
            resume(folder, **quiet, **allowed)
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


def test_a_run_that_names_a_classifier_function_goes_on_only_with_trust(toy, tmp_path, quiet):
    folder = begun(quiet, notes_of(tmp_path, classifier="toy_half:half"), tmp_path / "run")
    sys.modules.pop("toy_half")
    with pytest.raises(UsageError, match=r"names toy_half:half, .*--trust"):
        resume(folder, **quiet)
    assert "toy_half" not in sys.modules
    assert resume(folder, **quiet, trust=True)[0].manifest()["status"] == "complete"


def own_classifier(path):
    needs("sklearn", "joblib")
    from swapbias.models.sentiment.training import fit_bow

    load_extra("joblib", extra="clinical").dump(fit_bow(["fell low", "is well"] * 4, [1, 0] * 4), path)
    return str(path)


def test_a_pickle_is_asked_for_again_when_a_run_goes_on(tmp_path, quiet):
    settings = notes_of(tmp_path, classifier=own_classifier(tmp_path / "c.joblib"))
    folder = begun(quiet, replace(settings, load=ALLOWED), tmp_path / "run")
    assert Run.open(folder).manifest()["settings"]["load"]["allow_pickle"] is True
    with pytest.raises(UsageError, match=r"names c\.joblib, a pickle.*Repeat with --trust"):
        resume(folder, **quiet)
    for allowed in ({"allow_pickle": True}, {"trust": True}):
        assert resume(folder, **quiet, **allowed)[0].manifest()["status"] == "complete"


def test_a_pickle_that_changed_is_refused_before_it_is_read(tmp_path, quiet, marker):
    settings = notes_of(tmp_path, classifier=own_classifier(tmp_path / "c.joblib"))
    folder = begun(quiet, replace(settings, load=ALLOWED), tmp_path / "run")
    malicious(tmp_path / "c.joblib", marker)
    with pytest.raises(UsageError, match=r"begun with another version of c\.joblib"):
        resume(folder, **quiet, trust=True)
    assert not marker.exists()


@pytest.mark.parametrize("kind", ["classifier", "vectors"])
def test_a_manifest_of_others_unpickles_nothing(kind, toy, tmp_path, quiet, marker):
    needs("sklearn", "joblib", "gensim")
    folder = begun(quiet, sentiment("toy_half:half"), tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.pop("sha256", None)  # as whoever edits it can
    settings, notes = manifest["settings"], manifest["settings"]["notes"]
    settings["model"], settings["load"]["allow_pickle"] = None, True
    if kind == "classifier":
        notes["classifier"] = malicious(tmp_path / "c.pkl", marker)
        notes["data"] = notes_of(tmp_path).options[0].data
        settings["studies"] = ["phenotype_fairness"]
    else:
        notes["embeddings"] = [f"mine={malicious(tmp_path / 'v.kv', marker)}"]
        settings["studies"] = ["phenotype_fairness:depression_words"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="begun with another version of"):  # of the sha256 of another model
        resume(folder, **quiet, trust=True)
    del manifest["models"]  # nothing to compare with
    (folder / "manifest.json").write_text(json.dumps(manifest))
    refused(swapbias("audit", "--resume", folder), 2, "a pickle, and reading it runs", "Repeat with --trust")
    assert not marker.exists()


def test_the_command_goes_on_with_trust(toy, tmp_path, quiet, marker):
    poisoned(toy, marker)
    folder = begun(quiet, sentiment("toy_half:half"), tmp_path / "run")
    marker.unlink()
    refused(swapbias("audit", "--resume", folder, cwd=tmp_path), 2, "--trust")
    assert not marker.exists()
    assert swapbias("audit", "--resume", folder, "--trust", cwd=tmp_path).returncode == 0
    assert marker.exists()


# What is told apart.


@pytest.mark.parametrize("name", ["a.joblib", "a.pkl", "a.kv", "A.KV"])
def test_pickles_are_told_by_their_names(name):
    assert is_pickle(Path(name))
    assert not is_pickle(Path(name).with_suffix(".skops"))


def test_formats_that_hold_numbers_alone_run_nothing(tmp_path):
    for name in ("v.bin", "c.skops", "v.txt.gz"):
        (tmp_path / name).write_bytes(b"")
        assert code_of(str(tmp_path / name)) is None
    for name in ("vader", "roberta-large", "owner/name", "svm", str(tmp_path)):
        assert code_of(name) is None


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
