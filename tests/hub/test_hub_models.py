"""Models of the Hub: pinned to one commit in the manifest, the cache of scores and a share."""

import re
import shlex
import shutil
from importlib import import_module

import pytest
from huggingface_hub import constants

from swapbias.errors import UsageError
from swapbias.hub.client import Hub
from swapbias.hub.share import COMMIT, ShareOptions, share_run
from swapbias.models import load_scorer, model_kind
from swapbias.models.masked import MaskedScorer
from swapbias.models.model_config import at_commit
from swapbias.models.search_scorers import Searched
from swapbias.privacy import public_manifest
from swapbias.runs import settings_of, start
from swapbias.runs.audit import resume
from swapbias.runs.audit_file import read_request
from tests import tiny
from tests.conftest import QUIET, files_below
from tests.hub.clients import command

NAME = "alice/bert"
STUDY = ("gendered_stigma:rq1",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("bert") / "mine")


@pytest.fixture(scope="module")
def versions(folder, tmp_path_factory):
    """The files of two versions of a model: another head in the second."""
    import torch
    from transformers import BertForMaskedLM

    model = BertForMaskedLM.from_pretrained(folder)
    later = tmp_path_factory.mktemp("later")
    with torch.no_grad():
        model.get_output_embeddings().bias += torch.arange(model.config.vocab_size) % 7
    model.save_pretrained(later)
    return files_below(folder), files_below(folder) | files_below(later)


@pytest.fixture
def pushed(hub, versions, tmp_path, monkeypatch):
    """A model on the local Hub with the tag v1, and an empty cache of scores."""
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SWAPBIAS_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(
        "transformers.utils.hub._hf_api", None
    )  # it keeps the address of the Hub that it saw first
    hub.add_repo("model", NAME, files=versions[0], tags=("v1",))
    return hub


def commit_of(hub):
    return hub.commits("model", NAME)[0][0]


@pytest.fixture
def without_conclusions(monkeypatch):
    """Audits that score and compute no statistics."""
    monkeypatch.setattr(import_module("swapbias.runs.audit"), "conclude", lambda *_, **options: [])
    monkeypatch.setattr(import_module("swapbias.runs.audit"), "answered", lambda run, found: found)


def audited(model, folder, **options):
    settings = settings_of(model, STUDY, {}, limit=12, wordings=False)
    return start(settings, folder, cache=True, draw=False, **QUIET, **options)[0]


def pins(run):
    return [(model["model_id"], model["revision"]) for model in run.manifest()["models"]]


def scores(run):
    return run.items("gendered_stigma")["closed_list_mass"].tolist()


def test_model_of_the_hub_is_pinned(pushed, tmp_path, monkeypatch):
    """A model of the Hub is pinned to its commit in the run and in the share, and its scores are
    kept."""
    calls = []
    first = commit_of(pushed)
    run = audited(NAME, tmp_path / "run")
    assert pins(run) == [(NAME, first)]
    # Config, tokenizer and weights: every file was asked for by the one commit.
    fetched = [
        path
        for method, path, _ in pushed.log
        if f"/{NAME}/resolve/" in path and method in ("GET", "HEAD")
    ]
    assert {re.search("/resolve/([^/]+)/", path)[1] for path in fetched} == {first}
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= {
        path.rpartition("/")[2] for path in fetched
    }

    monkeypatch.setattr(MaskedScorer, "score", lambda *_: pytest.fail("scored again"))
    again = audited(NAME, tmp_path / "again")
    assert again.manifest()["from_cache"] == 12
    assert again.items("gendered_stigma").equals(run.items("gendered_stigma"))

    wanted = ShareOptions(results="alice/audits", model=NAME, model_change=COMMIT, dry_run=True)
    done = share_run(
        run, wanted, Hub(), say=calls.append
    )  # it need not be told that this is the model of the Hub
    assert [one.status for one in done] == ["would be created", "would be updated"]
    assert commit_of(pushed) == first


def test_command_of_a_pull_request(pushed, versions, tmp_path, monkeypatch):
    """The command in a proposed card gives the same findings without manifest and kept scores."""
    pushed.add_repo("model", "bob/bert", files=versions[0])
    assert (
        command("audit", "bob/bert", "--study", *STUDY, "--seed", "7", "--out", tmp_path / "run")
        == 0
    )
    share = ("--results", "alice/open", "--public", "--model", "bob/bert", "--create-pr")
    assert command("share", tmp_path / "run", *share) == 0
    card = pushed.files("model", "bob/bert", revision="refs/pr/1")["README.md"].decode()
    pushed.push("model", "bob/bert", versions[1])  # the command names the commit
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "other"))
    (line,) = re.findall(r"^swapbias (audit .*)$", card, re.MULTILINE)
    assert command(*shlex.split(line), "--out", tmp_path / "again") == 0
    first, again = ((tmp_path / run / "findings.csv").read_bytes() for run in ("run", "again"))
    assert first == again


def test_folder_with_weights_of_the_hub(pushed, folder, versions, tmp_path):
    """A folder counts as the model on the Hub that has its weights, and as no other."""
    calls = []
    run = audited(str(folder), tmp_path / "run")
    wanted = ShareOptions(
        results="alice/audits", model=NAME, model_change=COMMIT, audited="mine", dry_run=True
    )
    share_run(run, wanted, Hub(), say=calls.append)
    assert f"measured {NAME}, audited as mine, which has the same weights" in " ".join(calls)
    assert f"swapbias audit {NAME} --study gendered_stigma" in " ".join(calls)
    pushed.push("model", NAME, versions[1])
    with pytest.raises(UsageError, match=f"{NAME} has other weights than mine, which the run read"):
        share_run(run, wanted, Hub(), say=calls.append)


@pytest.mark.usefixtures("without_conclusions")
def test_moved_branch(pushed, versions, tmp_path):
    """A branch that moves between two audits gives two commits and no kept score."""
    first = commit_of(pushed)
    run = audited(NAME, tmp_path / "first")
    pushed.push("model", NAME, versions[1])
    moved = audited(NAME, tmp_path / "moved")
    assert (pins(run), pins(moved)) == ([(NAME, first)], [(NAME, commit_of(pushed))])
    assert moved.manifest()["from_cache"] == 0
    assert scores(moved) != scores(run)
    old = audited(f"{NAME}@v1", tmp_path / "old")
    assert (pins(old), old.manifest()["from_cache"], scores(old)) == (pins(run), 12, scores(run))
    assert old.manifest()["settings"]["model"] == f"{NAME}@v1"
    assert public_manifest(old.manifest())["settings"]["model"] == f"{NAME}@v1"
    for revision in ("v1", first):
        assert load_scorer(f"{NAME}@{revision}").identity["revision"] == first


@pytest.mark.usefixtures("without_conclusions")
def test_resumed_run_keeps_its_commit(pushed, versions, tmp_path):
    """A run that is resumed or repeated reads the commit that it began with."""
    run = audited(NAME, tmp_path / "run")
    before = scores(run)
    pushed.push("model", NAME, versions[1])
    (run.folder / "items/gendered_stigma.parquet").unlink()
    assert scores(resume(run.folder, **QUIET)[0]) == before
    _, settings, manifest = read_request(run.folder / "manifest.json")
    again, _ = start(settings, tmp_path / "again", expected=manifest, draw=False, **QUIET)
    assert (pins(again), scores(again)) == (pins(run), before)


def test_last_commit_without_the_hub(pushed, monkeypatch):
    """Without the Hub the commit that was fetched last is read."""
    read = load_scorer(f"{NAME}@v1").identity["revision"]
    with monkeypatch.context() as patch:  # undone before the fixture undoes its own
        patch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing answers there
        for name in (f"{NAME}@v1", f"{NAME}@{read}"):
            assert load_scorer(name).identity["revision"] == read
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert load_scorer(f"{NAME}@v1").identity["revision"] == read == commit_of(pushed)
        for model, words in (
            (f"{NAME}@v2", "machine at revision v2, and"),
            (NAME, "this machine, and HF_HUB_OFFLINE"),
        ):
            with pytest.raises(ValueError, match=f"neither a local folder nor stored on .*{words}"):
                at_commit(model)


@pytest.mark.parametrize("asked", ["v9", "f" * 40], ids=["name", "commit"])
def test_missing_revision(pushed, asked, capsys):
    """A revision that the Hub does not have is one sentence."""
    assert command("audit", f"{NAME}@{asked}", "--study", *STUDY) == 2
    stderr = capsys.readouterr().err
    assert (
        f"Model 'alice/bert' has no revision '{asked}' on the Hub. Look at its branches, tags and commits."
        in stderr
    )
    assert stderr.count("\n") == 1


def requested(hub, name):
    """The files of a model that were asked for, each once."""
    paths = [path for method, path, _ in hub.log if f"/{name}/resolve/" in path]
    return {path.partition("/resolve/")[2].partition("/")[2] for path in paths}


def test_search_model_of_the_hub(pushed, tmp_path):
    """A model of sentence-transformers is read by its name on the Hub, at one commit, as its folder is."""
    folder = tiny.save_bi_encoder(tmp_path / "find", prompts={"query": "she has "})
    pushed.add_repo("model", "alice/find", files=files_below(folder))
    (commit, *_) = pushed.commits("model", "alice/find")[0]
    assert model_kind("alice/find") == "retrieval"
    scorer = load_scorer("alice/find")
    assert scorer.identity["revision"] == commit
    searched = [Searched("diagnosed with depression", "She is here.")]
    assert scorer.similarities(searched) == load_scorer(str(folder)).similarities(searched)
    assert scorer.identity["prompts"] == ["she has ", ""]


def test_requests_for_a_kind(pushed, tmp_path):
    """A config with a head of several labels tells the kind: no list of modules is asked for."""
    folder = tiny.save_classifier(tmp_path / "tone", ["negative", "positive"])
    pushed.add_repo("model", "alice/tone", files=files_below(folder))
    pushed.log.clear()
    assert model_kind("alice/tone") == "classifier"
    assert requested(pushed, "alice/tone") == {"config.json", "adapter_config.json"}
    assert model_kind(NAME) == "masked"  # as embedding models call themselves, too
    assert "modules.json" in requested(pushed, NAME)


def test_folder_with_an_at_sign(folder, tmp_path):
    """A folder whose name has an at sign is read as a folder."""
    scorer = load_scorer(shutil.copytree(folder, tmp_path / "bert@v1"))
    assert (scorer.model_id, len(scorer.identity["sha256"])) == ("bert@v1", 64)
