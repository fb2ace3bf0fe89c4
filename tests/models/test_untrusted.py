"""Files of strangers, by every way in: nothing of them runs unasked, whatever they name, and each is one sentence."""

import importlib
import json
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from swapbias import load_scorer
from swapbias.errors import UsageError
from swapbias.models.base import LoadOptions, is_callable
from swapbias.models.clinical import NoteOptions
from swapbias.models.clinical.features import load_features
from swapbias.models.clinical.phenotype import load_phenotype_classifier
from swapbias.models.loading import module_file, read_config
from swapbias.privacy import public_manifest
from swapbias.runs.audit import resume, start
from swapbias.runs.plan import Settings, settings_of
from swapbias.studies import Prompt
from tests import tiny
from tests.cli.test_cli import refused, swapbias


@pytest.fixture
def canary(tmp_path):
    """The file that appears where anything has run; none may, whatever the test does."""
    marker = tmp_path / "it-ran"
    yield marker
    assert not marker.exists()


def poison(marker):
    return (
        f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Model: pass\n"
        "def half(texts):\n    return [0.5] * len(texts)\n"
    )


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean") / "model"
    tiny.save("bert", folder)
    return folder


def stranger(clean, folder, **config):
    """A copy of a small model whose config says more."""
    shutil.copytree(clean, folder)
    held = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**held, **config}))
    return folder


def with_pickle(clean, folder, marker, *, raw):
    stranger(clean, folder)
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    target = folder / "pytorch_model.bin"
    target.write_bytes(pickle.dumps(Payload(marker))) if raw else torch.save({"a": Payload(marker)}, target)
    return folder


WAYS = (
    ("audit", "{}", "--study", "gendered_stigma:rq1", "--limit", "6"),
    ("audit", "--chat", "{}", "--study", "gendered_stigma:choices", "--limit", "2", "--trials", "1"),
    ("audit", "-M", "embedding={}", "--study", "phenotype_fairness:depression_words"),
)


def given(way, model, tmp_path):
    return [*(one.format(model) for one in way), "--out", tmp_path / "out"]


@pytest.mark.parametrize("way", WAYS, ids=["model", "chat", "embedding"])
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "archive"])
def test_weights_that_are_a_pickle_are_refused(clean, way, raw, tmp_path, canary):
    folder = with_pickle(clean, tmp_path / "model", canary, raw=raw)
    refused(swapbias(*given(way, folder, tmp_path)), 1, "a pickle that would run code", ".safetensors")


@pytest.mark.parametrize("way", WAYS, ids=["model", "chat", "embedding"])
def test_code_beside_a_model_is_not_imported(clean, way, tmp_path, canary):
    classes = ("AutoConfig", "AutoModel", "AutoModelForMaskedLM", "AutoModelForCausalLM")
    made = {"auto_map": dict.fromkeys(classes, "evil.Model"), "model_type": "evil"}
    folder = stranger(clean, tmp_path / "model", **made)
    (folder / "evil.py").write_text(poison(canary))
    refused(swapbias(*given(way, folder, tmp_path)), 1, "custom code")


def test_a_tokenizer_of_its_own_is_not_imported(clean, tmp_path, canary):
    folder = stranger(clean, tmp_path / "model")
    held = json.loads((folder / "tokenizer_config.json").read_text())
    held |= {"auto_map": {"AutoTokenizer": ["evil.Model", "evil.Model"]}, "tokenizer_class": "Evil"}
    (folder / "tokenizer_config.json").write_text(json.dumps(held))
    (folder / "evil.py").write_text(poison(canary))
    swapbias(*given(WAYS[0], folder, tmp_path))  # with the usual class of its type, or refused


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation", "experts_implementation"])
def test_compiled_code_of_the_hub_that_a_config_names_is_not_fetched(clean, name, tmp_path):
    folder = stranger(clean, tmp_path / "model", **{name: "stranger/kernel"})
    with pytest.raises(ValueError, match="compiled code of the Hub, which is not run"):
        read_config(str(folder))


def test_a_folder_with_an_equals_sign_is_a_model(clean, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stranger(clean, Path("lr=1e-5"))
    rq1 = ("--study", "gendered_stigma:rq1", "--limit", "6", "--out", "run")
    done = swapbias("audit", "lr=1e-5", *rq1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    held = json.loads(Path("run/manifest.json").read_text())
    assert [one["model_id"] for one in held["models"]] == ["lr=1e-5"]
    assert held["settings"]["model"] == str(tmp_path / "lr=1e-5")


def test_places_within_such_a_folder_become_absolute_and_do_not_leave(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = "lr=1e-5/enc"
    Path("lr=1e-5/enc").mkdir(parents=True)
    chosen = settings_of(given, (), {"chat": given, "embedding": [given], "classifier": given})
    wanted = str(tmp_path / "lr=1e-5" / "enc")
    assert chosen.model == wanted
    assert chosen.of(NoteOptions).embeddings == (wanted,)
    manifest = {"settings": chosen.saved(), "models": []}
    assert public_manifest(manifest)["settings"]["notes"]["embeddings"] == ["enc"]


@pytest.mark.parametrize(
    "content",
    [
        'model = "evil_mod:half"\nstudies = ["occupation_sentiment:control"]\n',
        'models = ["vader", "evil_mod:half"]\nstudies = ["occupation_sentiment:control"]\n',
        'studies = ["phenotype_fairness"]\n[notes]\nclassifier = "evil_mod:half"\ndata = "notes.csv"\n',
        'studies = ["care_notes"]\n[chat]\nmodel = "m"\nbase_url = "http://[::1]:9"\nscorer = "evil_mod:half"\n',
        'studies = ["phenotype_fairness"]\n[notes]\nclassifier = "c.pkl"\ndata = "notes.csv"\n',
        'studies = ["phenotype_fairness:depression_words"]\n[notes]\nembeddings = ["x.kv"]\n',
    ],
    ids=["function", "functions", "classifier", "scorer", "pickle", "vectors"],
)
def test_a_file_of_settings_runs_nothing_that_it_names(content, tmp_path, canary):
    work = tmp_path / "work"
    work.mkdir()
    (work / "evil_mod.py").write_text(poison(canary))
    (work / "notes.csv").write_text("text,label\nShe fell.,1\nHe is well.,0\n")
    for name in ("c.pkl", "x.kv"):
        (work / name).write_bytes(pickle.dumps(Payload(canary)))
    (work / "audit.toml").write_text(content)
    done = swapbias("audit", "audit.toml", "--out", tmp_path / "out", cwd=work)
    refused(done, 2, *(["is a pickle"] if ".pkl" in content or ".kv" in content else ["Repeat with --trust"]))
    assert not (tmp_path / "out").exists()


def test_a_file_of_settings_runs_what_the_user_trusts(tmp_path, monkeypatch):
    (tmp_path / "kind_mod.py").write_text("def half(texts):\n    return [0.5] * len(texts)\n")
    (tmp_path / "audit.toml").write_text('model = "kind_mod:half"\nstudies = ["occupation_sentiment:control"]\n')
    assert swapbias("audit", "audit.toml", "--dry-run", cwd=tmp_path).returncode == 0
    assert swapbias("audit", "audit.toml", "--trust", "--out", tmp_path / "out", cwd=tmp_path).returncode == 0


def test_a_manifest_cannot_say_which_secret_of_the_environment_is_the_key():
    saved = Settings().saved()
    for name in ("key_name", "api_key_env"):
        with pytest.raises(ValueError, match="not of this version"):
            Settings.from_manifest({**saved, "chat": {**saved["chat"], name: "AWS_SECRET_ACCESS_KEY"}})


def test_a_study_of_a_stranger_is_read_and_not_imported(tmp_path, canary):
    folder = tmp_path / "mystudy"
    assert swapbias("study", "new", folder).returncode == 0
    for name in ("__init__.py", "conftest.py", "mystudy.py", "builder.py"):
        (folder / name).write_text(poison(canary))
    swapbias("study", "check", folder)
    swapbias("audit", "vader", "--study", folder, "--dry-run")


def test_a_baseline_of_a_stranger_is_read_and_not_run(tmp_path, canary):
    (tmp_path / "evil_mod.py").write_text(poison(canary))
    run = tmp_path / "run"
    assert swapbias("audit", "vader", "--study", "occupation_sentiment:control", "--out", run).returncode == 0
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["settings"]["model"] = "evil_mod:half"
    (run / "manifest.json").write_text(json.dumps(manifest))
    shutil.copytree(run, tmp_path / "other")
    for command in (("check", run, "--baseline", tmp_path / "other"), ("compare", run, tmp_path / "other")):
        assert "Traceback" not in swapbias(*command, cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [("v.bin", b"99999999999 300\nword " + bytes(40)), ("v.txt", b"99999999999 300\nword 1 2 3\n")],
)
def test_vectors_that_claim_to_be_endless_are_refused(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    chosen = ("--study", "phenotype_fairness:depression_words", "-M", f"embedding={tmp_path / name}")
    refused(swapbias("audit", *chosen, "--out", tmp_path / "out"), 1, "more than it can hold")


OTHERS = dict.fromkeys(("prompt_id", "pair_id", "group", "construct", "condition", "label", "template"), "x")


def prompt(text):
    return Prompt(text=text, lexicon="gendered_stigma/rq1/female", experiment="x", **OTHERS)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    tiny.save("bert", folder)
    return folder


@pytest.fixture
def folder(bert, tmp_path):
    return shutil.copytree(bert, tmp_path / "model")


def edited(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


LIES = [
    ({"config.json": {"num_hidden_layers": 9}}, r"has no weights for bert\.encoder\.layer"),
    ({"config.json": {"max_position_embeddings": 8}}, "cannot be loaded"),
    ({"tokenizer_config.json": {"mask_token": None, "added_tokens_decoder": {}},
      "tokenizer.json": {"added_tokens": []}}, "has no mask token"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), LIES, ids=["layers", "positions", "mask"])
def test_a_file_that_does_not_fit_the_weights(folder, changes, told):
    for name, change in changes.items():
        edited(folder / name, **change)
    with pytest.raises(ValueError, match=told):
        load_scorer(str(folder))


def test_a_vocabulary_smaller_than_its_tokenizer(folder):
    from transformers import AutoModelForMaskedLM

    model = AutoModelForMaskedLM.from_pretrained(folder)
    model.resize_token_embeddings(40)
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match=r"embeddings of 40 tokens and its tokenizer knows \d+: they do not belong"):
        load_scorer(str(folder))


def test_a_tokenizer_that_promises_more_positions_than_there_are(folder):
    asked = [prompt("<mask> has depression."), prompt("<mask> has depression" + " and anxiety" * 100 + ".")]
    honest = [one.score for one in load_scorer(str(folder)).score(asked)]
    edited(folder / "tokenizer_config.json", model_max_length=1_000_000)
    np.testing.assert_equal([one.score for one in load_scorer(str(folder)).score(asked)], honest)


LOAD = LoadOptions(device="cpu")
FUNCTION = "def half(texts):\n    return [0.5] * len(texts)\n"


class Payload:
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
