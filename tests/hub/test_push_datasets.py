"""Publishing corpora: one commit and one tag, the same rows as at home, nothing twice, nothing half."""

import json
import os
import runpy
import subprocess
import sys
from dataclasses import replace

import pytest

from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.hub import datasets as building, datasets as dataset_repos
from swapbias.hub.client import Hub
from swapbias.hub.datasets import dataset_files, push_dataset
from swapbias.studies import catalogue as studies
from tests.conftest import ROOT, files_below
from tests.hub.clients import environment, writes

SMALL = "occupation_sentiment"  # two configs
NAME = f"alice/{SMALL}"


def push(name=SMALL, **options):
    lines = []
    done = push_dataset(Hub(), name, **{"namespace": "alice", "say": lines.append, **options})
    return done, lines


def run_script(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["push_datasets.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(ROOT / "scripts" / "push_datasets.py"), run_name="__main__")
    said = capsys.readouterr()
    return stopped.value.code or 0, said.out, said.err


def test_a_push_is_one_commit_with_the_built_files_and_the_tag_of_the_version(hub, tmp_path):
    done, lines = push()
    (commit, title), _ = hub.commits("dataset", NAME)  # below it: the Hub's own
    assert title == "Push occupation_sentiment v3.0.0 with swapbias"
    assert hub.tags("dataset", NAME) == {"v3.0.0": commit}
    assert (done.status, done.commit, done.tag) == ("created", commit, "v3.0.0")
    code = (
        "import sys; from pathlib import Path; from swapbias.hub.datasets import build\n"
        f"list(build({SMALL!r}, Path(sys.argv[1])))"
    )
    other = {**os.environ, "PYTHONHASHSEED": "1", "TZ": "UTC1"}  # the bytes do not depend on the process
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=other, check=True, cwd=ROOT)
    here = files_below(tmp_path / SMALL)
    del here[building.MARKER]
    here["README.md"] = here["README.md"].replace(b'"NS/', b'"alice/')
    there = hub.files("dataset", NAME)
    assert there.pop(".gitattributes")
    assert there == here
    assert f"{SMALL} sentences: 800 rows" in lines


LOAD = """
import json, sys
from datasets import load_dataset
found = {}
for name, config, split, revision in json.loads(sys.argv[1]):
    loaded = load_dataset(name, config, split=split, revision=revision)
    streamed = load_dataset(name, config, split=split, revision=revision, streaming=True)
    found[f"{name} {config}"] = [loaded.to_list(), list(streamed), str(loaded.features)]
try:
    load_dataset("lab/gender_lexicon", "nouns", token="hf_bob")
except Exception as error:
    found["refused"] = str(error)
print(json.dumps(found))
"""


def test_what_the_hub_gives_is_what_load_prompts_gives(hub, tmp_path):
    push()
    push("gender_lexicon", namespace="lab", private=True)
    wanted = [
        (NAME, "sentences", "test"),
        ("lab/gender_lexicon", "pronouns", "train"),
        ("lab/gender_lexicon", "his_him_weights", "train"),  # numbers
    ]
    pinned = [(*one, f"v{studies.load_corpus(one[0].split('/')[1]).version}") for one in wanted]
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, json.dumps(pinned)], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=environment(hub, home=tmp_path / "home", token="hf_alice"),
    )  # fmt: skip
    assert loaded.returncode == 0, loaded.stderr
    found = json.loads(loaded.stdout.splitlines()[-1])
    for name, config, _ in wanted:
        made = studies.load_prompts(name.split("/")[1], config)
        rows = made.to_list()
        assert found[f"{name} {config}"] == [rows, rows, str(made.features)]
    assert "lab/gender_lexicon" in found["refused"]  # private: nobody else's token reads it


def test_a_config_without_a_licence_is_left_out_and_the_card_says_how_to_build_it(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_repos, "withheld_configs", lambda corpus: {"control": ["not stated"]})
    lines = []
    files = dataset_files(studies.load_corpus(SMALL), tmp_path, namespace="lab", say=lines.append)
    tables = [f"{name}/test-00000-of-00001.parquet" for name in ("ratings", "sentences", "sentences_wordings")]
    assert sorted(files) == ["LICENSES.md", "README.md", *tables]
    card = files["README.md"].read_text()
    assert "config_name: control" not in card
    assert "- `control`: the licence of its upstream files (not stated)" in card
    assert f"{SMALL} control: not published, its upstream files have the licence: not stated" in lines


def test_a_corpus_is_not_pushed_without_a_config_whose_files_are_not_at_hand(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    with pytest.raises(UpstreamMissingError, match=r"would go without its config rq1_original.*SWAPBIAS_UPSTREAM"):
        push("gendered_stigma")
    assert writes(hub) == []


def test_credentialed_rows_are_refused_whatever_the_folder_says(hub, monkeypatch):
    corpus = studies.load_corpus("clinical_notes")
    pairs = corpus.config("pairs")
    held = replace(pairs, rows=lambda: [{**row, "credentialed": "True"} for row in pairs.rows()][:2])
    monkeypatch.setattr(dataset_repos, "load_corpus", lambda name: replace(corpus, configs=(held,)))
    monkeypatch.setattr("swapbias.privacy.credentialed.mark", lambda folder: None)  # as if the build forgot it
    with pytest.raises(UsageError, match="credentialed"):
        push("clinical_notes")
    assert writes(hub) == []


COMMIT = rf"/api/datasets/{NAME}/commit"


def test_the_script_tells_each_corpus_and_goes_on_after_trouble(hub, monkeypatch, capsys):
    hub.fail("POST", COMMIT, status=500, times=9)
    code, out, err = run_script(monkeypatch, capsys, SMALL, "phenotype_fairness", "--namespace", "alice")
    assert code == 1
    assert [line for line in err.splitlines() if line.startswith(f"swapbias: {SMALL}: ")]
    assert "Traceback" not in err
    assert "alice/phenotype_fairness: created, v3.0.0 at " in out
    assert out.splitlines()[-1] == "1 done, 1 of them changed; 1 failed."


def test_an_unknown_corpus_is_refused_before_anything_is_sent(hub, monkeypatch, capsys):
    code, _, err = run_script(monkeypatch, capsys, "occupations", "--namespace", "alice")
    assert code == 2
    assert err.startswith("swapbias: Unknown corpus 'occupations': expected one of adjective_coreference, ")
    assert hub.log == []


def test_a_dry_run_of_the_script_lists_paths_sizes_and_the_card_and_creates_nothing(hub, monkeypatch, capsys):
    arguments = ("phenotype_fairness", "--namespace", "alice", "--dry-run")
    code, out, _ = run_script(monkeypatch, capsys, *arguments)
    assert code == 0
    assert "  A README.md (" in out
    assert "  A depression_words/test-00000-of-00001.parquet (" in out
    assert "  +# phenotype_fairness" in out
    assert "alice/phenotype_fairness: would be created, v3.0.0" in out
    assert writes(hub) == []
