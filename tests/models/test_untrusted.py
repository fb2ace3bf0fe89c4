"""Untrusted files run no code without the user's trust, whatever they name, and are refused in
one sentence."""

import importlib
import json
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from swapbias import load_scorer
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, loading, model_names
from swapbias.models.clinical import NoteOptions
from swapbias.models.clinical.feature_loading import load_features
from swapbias.models.clinical.phenotype import load_phenotype_classifier
from swapbias.models.model_config import read_config
from swapbias.runs import Run, Settings, plan_tasks, resume, settings_of, start
from swapbias.runs.manifest_entries import plan_manifest
from swapbias.studies import Prompt
from tests import tiny
from tests.cli.test_cli import refused, swapbias

FUNCTION = "def half(texts):\n    return [0.5] * len(texts)\n"
CPU = LoadOptions(device="cpu")


@pytest.fixture
def marker(tmp_path):
    """The file that appears where anything of a stranger has run."""
    return tmp_path / "it-ran"


@pytest.fixture
def canary(marker):
    """That file; there must be none, whatever the test does."""
    yield marker
    assert not marker.exists()


def poison(marker):
    return f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Model: pass\n{FUNCTION}"


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def malicious(path, marker):
    path.write_bytes(pickle.dumps(Payload(marker)))
    return str(path)


def edited(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("clean"))


@pytest.fixture
def folder(clean, tmp_path):
    return shutil.copytree(clean, tmp_path / "model")


COMMANDS = (
    ("audit", "{}", "--study", "gendered_stigma:rq1", "--limit", "6"),
    (
        "audit",
        "--chat",
        "{}",
        "--study",
        "gendered_stigma:choices",
        "--limit",
        "2",
        "--trials",
        "1",
    ),
    ("audit", "-M", "embedding={}", "--study", "phenotype_fairness:depression_words"),
)


def command_for(way, model, tmp_path):
    return [*(word.format(model) for word in way), "--out", tmp_path / "out"]


@pytest.mark.parametrize("way", COMMANDS, ids=["model", "chat", "embedding"])
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "archive"])
def test_pickled_weights(folder, way, raw, tmp_path, canary):
    """Weights that are a pickle are refused."""
    (folder / "model.safetensors").unlink()
    target = folder / "pytorch_model.bin"
    malicious(target, canary) if raw else torch.save({"a": Payload(canary)}, target)
    refused(
        swapbias(*command_for(way, folder, tmp_path)),
        2,
        "a pickle that would run code",
        ".safetensors",
    )


@pytest.mark.parametrize("way", COMMANDS, ids=["model", "chat", "embedding"])
def test_code_beside_a_model(folder, way, tmp_path, canary):
    """Code beside a model is not imported."""
    classes = ("AutoConfig", "AutoModel", "AutoModelForMaskedLM", "AutoModelForCausalLM")
    edited(folder / "config.json", auto_map=dict.fromkeys(classes, "evil.Model"), model_type="evil")
    (folder / "evil.py").write_text(poison(canary))
    refused(swapbias(*command_for(way, folder, tmp_path)), 2, "custom code")


CLASSES = {
    "of another name": ("evil.LongBertForMaskedLM", "AutoModelForMaskedLM", True),
    "of another repository": ("lab/code--evil.LongBert", "AutoModelForMaskedLM", True),
    "of the same name": ("evil.BERTForMaskedLM", "AutoModelForMaskedLM", False),
    "of another head": ("evil.LongBert", "AutoModelForCausalLM", False),
}


@pytest.mark.parametrize(("code", "key", "is_other"), CLASSES.values(), ids=CLASSES)
def test_class_of_its_own_code(code, key, is_other, folder, canary):
    """A model whose config names a class of its own code is not read as another class of transformers."""
    edited(folder / "config.json", auto_map={key: code})
    (folder / "evil.py").write_text(poison(canary))
    if not is_other:  # what became part of transformers keeps its name
        assert load_scorer(str(folder), options=CPU).kind == "masked"
        return
    sentence = rf"is computed by custom code \({code}\), which is not run, and BertForMaskedLM of"
    with pytest.raises(UsageError, match=sentence):
        load_scorer(str(folder), options=CPU)


def test_config_of_its_own_code(folder, canary):
    """A type that its own code alone can read is refused by the name of that code."""
    edited(folder / "config.json", auto_map={"AutoConfig": "evil.Model"}, model_type="evil")
    (folder / "evil.py").write_text(poison(canary))
    sentence = (
        r"config\.json cannot be read without custom code \(evil\.Model\), which is not run\. Name"
    )
    with pytest.raises(UsageError, match=sentence):
        read_config(str(folder))


def test_own_tokenizer(folder, tmp_path, canary):
    """A tokenizer with code of its own is not imported."""
    classes = {"AutoTokenizer": ["evil.Model", "evil.Model"]}
    edited(folder / "tokenizer_config.json", auto_map=classes, tokenizer_class="Evil")
    (folder / "evil.py").write_text(poison(canary))
    swapbias(
        *command_for(COMMANDS[0], folder, tmp_path)
    )  # with the usual class of its type, or refused


@pytest.mark.parametrize(
    "name", ["attn_implementation", "_attn_implementation", "experts_implementation"]
)
def test_compiled_code_of_the_hub(folder, name):
    """Compiled code of the Hub that a config names is not fetched."""
    edited(folder / "config.json", **{name: "stranger/kernel"})
    with pytest.raises(ValueError, match="compiled code of the Hub, which is not run"):
        read_config(str(folder))


def test_folder_with_equals_sign(clean, tmp_path, monkeypatch):
    """A folder with an equals sign is a model."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(clean, "lr=1e-5")
    rq1 = ("--study", "gendered_stigma:rq1", "--limit", "6", "--out", "run")
    done = swapbias("audit", "lr=1e-5", *rq1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(Path("run/manifest.json").read_text())
    assert [one["model_id"] for one in content["models"]] == ["lr=1e-5"]
    assert content["settings"]["model"] == str(tmp_path / "lr=1e-5")


def test_paths_in_such_a_folder(tmp_path, monkeypatch):
    """Paths within such a folder become absolute."""
    monkeypatch.chdir(tmp_path)
    command_for = "lr=1e-5/enc"
    Path("lr=1e-5/enc").mkdir(parents=True)
    chosen = settings_of(
        command_for,
        (),
        {"chat": command_for, "embedding": [command_for], "classifier": command_for},
    )
    wanted = str(tmp_path / "lr=1e-5" / "enc")
    assert chosen.model == wanted
    assert chosen.of(NoteOptions).embeddings == (wanted,)


@pytest.mark.parametrize(
    "content",
    [
        'model = "evil_mod:half"\nstudies = ["occupation_sentiment:control"]\n',
        'models = ["vader", "evil_mod:half"]\nstudies = ["occupation_sentiment:control"]\n',
        'studies = ["phenotype_fairness"]\n[notes]\nclassifier = "evil_mod:half"\ndata = "notes.csv"\n',
        'studies = ["care_notes"]\n[chat]\nmodel = "m"\nbase_url = "http://[::1]:9"\nscorer = "evil_mod:half"\n',
    ],
    ids=["function", "functions", "classifier", "scorer"],
)
def test_settings_file_runs_nothing(content, tmp_path, canary):
    """A file of settings runs no code that it names."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "evil_mod.py").write_text(poison(canary))
    (work / "notes.csv").write_text("text,label\nShe fell.,1\nHe is well.,0\n")
    (work / "audit.toml").write_text(content)
    refused(
        swapbias("audit", "audit.toml", "--out", tmp_path / "out", cwd=work),
        2,
        "Repeat with --trust",
    )
    assert not (tmp_path / "out").exists()


def test_trusted_settings_file(tmp_path, monkeypatch):
    """A file of settings runs what the user trusts."""
    (tmp_path / "kind_mod.py").write_text(FUNCTION)
    (tmp_path / "audit.toml").write_text(
        'model = "kind_mod:half"\nstudies = ["occupation_sentiment:control"]\n'
    )
    assert swapbias("audit", "audit.toml", "--dry-run", cwd=tmp_path).returncode == 0
    assert (
        swapbias(
            "audit", "audit.toml", "--trust", "--out", tmp_path / "out", cwd=tmp_path
        ).returncode
        == 0
    )


def test_manifest_names_no_key():
    """A manifest cannot name the environment variable of a key."""
    saved = Settings().saved()
    for name in ("key_name", "api_key_env"):
        with pytest.raises(ValueError, match="not of this version"):
            Settings.from_manifest(
                {**saved, "chat": {**saved["chat"], name: "AWS_SECRET_ACCESS_KEY"}}
            )


def test_study_of_a_stranger(tmp_path, canary):
    """A study from a stranger is read and not imported."""
    folder = tmp_path / "mystudy"
    assert swapbias("study", "new", folder).returncode == 0
    for name in ("__init__.py", "conftest.py", "mystudy.py", "builder.py"):
        (folder / name).write_text(poison(canary))
    swapbias("study", "check", folder)
    swapbias("audit", "vader", "--study", folder, "--dry-run")


def test_baseline_of_a_stranger(tmp_path, canary):
    """A baseline from a stranger is read and not run."""
    (tmp_path / "evil_mod.py").write_text(poison(canary))
    run = tmp_path / "run"
    assert (
        swapbias(
            "audit", "vader", "--study", "occupation_sentiment:control", "--out", run
        ).returncode
        == 0
    )
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["settings"]["model"] = "evil_mod:half"
    (run / "manifest.json").write_text(json.dumps(manifest))
    shutil.copytree(run, tmp_path / "other")
    for command in (
        ("check", run, "--baseline", tmp_path / "other"),
        ("compare", run, tmp_path / "other"),
    ):
        assert "Traceback" not in swapbias(*command, cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [("v.bin", b"99999999999 300\nword " + bytes(40)), ("v.txt", b"99999999999 300\nword 1 2 3\n")],
    ids=["binary", "text"],
)
def test_endless_vectors(name, content, tmp_path):
    """Vectors that claim more than their file can hold are refused."""
    (tmp_path / name).write_bytes(content)
    chosen = (
        "--study",
        "phenotype_fairness:depression_words",
        "-M",
        f"embedding={tmp_path / name}",
    )
    refused(swapbias("audit", *chosen, "--out", tmp_path / "out"), 2, "more than its size allows")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"config.json": {"num_hidden_layers": 9}}, r"has no weights for bert\.encoder\.layer"),
        ({"config.json": {"max_position_embeddings": 8}}, "cannot be loaded"),
        (
            {
                "tokenizer_config.json": {"mask_token": None, "added_tokens_decoder": {}},
                "tokenizer.json": {"added_tokens": []},
            },
            "has no mask token",
        ),
    ],
    ids=["layers", "positions", "mask"],
)
def test_file_unlike_the_weights(folder, changes, told):
    """A file that does not fit the weights is refused."""
    for name, change in changes.items():
        edited(folder / name, **change)
    with pytest.raises(ValueError, match=told):
        load_scorer(str(folder))


def test_small_vocabulary(folder):
    """Weights with fewer tokens than the tokenizer are refused."""
    model = AutoModelForMaskedLM.from_pretrained(folder)
    model.resize_token_embeddings(40)
    model.save_pretrained(folder)
    with pytest.raises(
        ValueError, match=r"embeddings of 40 tokens and its tokenizer knows \d+: they do not belong"
    ):
        load_scorer(str(folder))


def test_too_many_positions(folder):
    """A tokenizer that states more positions than there are changes no score."""
    texts = ("<mask> has depression.", "<mask> has depression" + " and anxiety" * 100 + ".")
    prompts = [Prompt(text=text, lexicon="gendered_stigma/rq1/female") for text in texts]
    honest = [one.score for one in load_scorer(str(folder)).score(prompts)]
    edited(folder / "tokenizer_config.json", model_max_length=1_000_000)
    np.testing.assert_equal([one.score for one in load_scorer(str(folder)).score(prompts)], honest)


@pytest.mark.parametrize(
    ("name", "safe"),
    [("v.kv", "as .bin"), ("V.KV", "as .bin"), ("c.joblib", "as .skops"), ("c.pkl", "as .skops")],
)
def test_pickle_is_refused_unread(name, safe, tmp_path, canary):
    """A pickle is refused before it is read."""
    read = load_features if name.lower().endswith(".kv") else load_phenotype_classifier
    with pytest.raises(
        UsageError, match=rf"^{name} is a pickle: .*load it in Python and save it .*{safe}\.$"
    ):
        read(malicious(tmp_path / name, canary), options=CPU)
    for other, read in (
        ("a.skops", load_phenotype_classifier),
        ("a.bin", load_features),
        ("a.txt", load_features),
    ):
        with pytest.raises(
            ValueError, match="cannot be read"
        ):  # never unpickled under the name of a safe format
            read(malicious(tmp_path / other, canary), options=CPU)


@pytest.mark.parametrize(
    ("study", "settings", "notes"),
    [
        (
            "phenotype_fairness",
            ("-M", "classifier=c.pkl", "-M", "data=notes.csv"),
            {"classifier": "c.pkl", "data": "notes.csv"},
        ),
        (
            "phenotype_fairness:depression_words",
            ("-M", "embedding=v.kv"),
            {"embeddings": ("v.kv",)},
        ),
    ],
    ids=["classifier", "vectors"],
)
def test_pickle_with_trust(study, settings, notes, tmp_path, canary, monkeypatch):
    """A pickle in a request or a manifest is refused even with trust."""
    monkeypatch.chdir(tmp_path)
    Path("notes.csv").write_text("text,label\nShe fell.,1\nHe is well.,0\n")
    for name in ("c.pkl", "v.kv"):
        malicious(tmp_path / name, canary)
    refused(
        swapbias("audit", "--study", study, *settings, "--trust", cwd=tmp_path), 2, "is a pickle"
    )
    planned = Settings(studies=(study,), options=(NoteOptions(**notes),))
    Run.create(tmp_path / "run", plan_manifest(planned, *plan_tasks(planned)))
    refused(swapbias("audit", "--resume", "run", "--trust", cwd=tmp_path), 2, "is a pickle")


def test_training_refuses_pickle(tmp_path, canary):
    """Training refuses vectors that are a pickle."""
    for part in ("train", "dev"):
        (tmp_path / f"stsa.binary.{part}").write_text("1 good film\n0 bad film\n" * 4)
    arguments = (
        "--data",
        tmp_path,
        "--vectors",
        malicious(tmp_path / "V.KV", canary),
        "--out",
        tmp_path / "run",
    )
    refused(swapbias("train", "bilstm", *arguments), 2, "V.KV is a pickle")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def toy_module(tmp_path, monkeypatch):
    """A folder with the module toy_half, which no test has imported yet."""
    (tmp_path / "toy_half.py").write_text(FUNCTION)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "toy_half.py"
    sys.modules.pop("toy_half", None)
    importlib.invalidate_caches()


def begin_run(quiet, model, folder):
    """A run that is said not to have ended."""
    settings = Settings(model=model, studies=("occupation_sentiment:sentences",), limit=20)
    run, _ = start(settings, folder, **quiet)
    run.write_manifest({**run.manifest(), "status": "running"})
    return folder


def poisoned(source, marker):
    """Another version of the module, which writes the marker when it is imported."""
    source.write_text(poison(marker))
    sys.modules.pop("toy_half", None)
    importlib.invalidate_caches()


def test_run_of_a_function(toy_module, tmp_path, quiet, marker):
    """A run of a function is resumed only with trust."""
    poisoned(toy_module, marker)
    folder = begin_run(quiet, "toy_half:half", tmp_path / "run")
    marker.unlink()
    sys.modules.pop("toy_half", None)
    with pytest.raises(
        UsageError, match=r"run names toy_half:half, code that would run.*Repeat with --trust"
    ):
        resume(folder, **quiet)
    assert not marker.exists()
    assert "toy_half" not in sys.modules
    run, _ = resume(folder, **quiet, trust=True)
    assert marker.exists()
    assert run.manifest()["status"] == "complete"


def test_changed_function(toy_module, tmp_path, quiet, canary):
    """A function that changed is refused before it is imported."""
    folder = begin_run(quiet, "toy_half:half", tmp_path / "run")
    poisoned(toy_module, canary)
    with pytest.raises(UsageError, match="begun with another version of toy_half:half"):
        resume(folder, **quiet, trust=True)


def test_imported_function(toy_module, tmp_path, quiet):
    """A function that a module imports from elsewhere can be resumed."""
    (tmp_path / "toy_outer.py").write_text("from toy_half import half\n")
    folder = begin_run(quiet, "toy_outer:half", tmp_path / "run")
    assert resume(folder, **quiet, trust=True)[0].manifest()["status"] == "complete"
    folder = begin_run(quiet, "toy_outer:half", tmp_path / "other")
    (tmp_path / "toy_outer.py").write_text("from toy_half import half\nmore = 1\n")
    with pytest.raises(UsageError, match="another version of toy_outer:half"):
        resume(folder, **quiet, trust=True)
    sys.modules.pop("toy_outer")


def test_module_without_packages(tmp_path, monkeypatch, canary):
    """A module is found without importing the packages around it."""
    for folder in (
        tmp_path / "outer_toy",
        tmp_path / "space_toy" / "inner",
    ):  # the second has no __init__.py above
        folder.mkdir(parents=True)
        for name in ("__init__.py", "leaf.py"):
            (folder / name).write_text(poison(canary))
    monkeypatch.chdir(tmp_path)
    assert loading.module_file("outer_toy.leaf") == tmp_path / "outer_toy" / "leaf.py"
    assert loading.module_file("outer_toy") == tmp_path / "outer_toy" / "__init__.py"
    assert (
        loading.module_file("space_toy.inner.leaf") == tmp_path / "space_toy" / "inner" / "leaf.py"
    )
    assert (
        loading.module_file("space_toy")
        is loading.module_file("outer_toy.none")
        is loading.module_file("none_toy.leaf")
        is None
    )
    assert not any(name.startswith(("outer_toy", "space_toy")) for name in sys.modules)
    for name in ("v.bin", "c.skops", "v.txt.gz"):
        (tmp_path / name).write_bytes(b"")
        assert not model_names.is_callable(str(tmp_path / name))
    for name in ("vader", "roberta-large", "owner/name", "svm", str(tmp_path)):
        assert not model_names.is_callable(name)
