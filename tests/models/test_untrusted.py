"""Files of strangers, by every way in: nothing of them runs, whatever they name, and each is one sentence."""

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from swapbias.models.clinical import NoteOptions
from swapbias.models.loading import read_config
from swapbias.privacy import public_manifest
from swapbias.runs.plan import Settings, settings_of
from tests import tiny
from tests.cli.test_cli import refused, swapbias
from tests.models.test_trust import Payload


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
