"""The code of every card, of datasets and of metrics, runs as it is printed, from a Hub at the revisions it names."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from datasets import DatasetInfo, SplitDict, SplitInfo

from swapbias import __version__
from swapbias.errors import UpstreamMissingError
from swapbias.hub import dataset_card, datasets as building, metric_spaces as spaces
from swapbias.studies import catalogue as studies, tables
from swapbias.studies.catalogue import metrics
from tests.conftest import ROOT
from tests.hub.clients import environment
from tests.hub.server import LocalHub

OWNER = "lab"
_LOADED = re.compile(rf'load_dataset\(\s*"{OWNER}/(\w+)", "([\w-]+)"')


def described(config):
    """The info of a config whose rows are not made: none of its numbers is in code."""
    split = config.split or "test"
    return DatasetInfo(
        features=studies.config_features(config),
        splits=SplitDict({split: SplitInfo(split, 70, 7)}),
        download_size=7,
        dataset_size=70,
    )


def is_at_hand(corpus, config):
    """Whether the upstream files of a config are here."""
    try:
        for path in config.upstream:
            tables.upstream_file(corpus.name, path, download=False)
    except UpstreamMissingError:
        return False
    return True


def code_of(card):
    return re.findall(r"^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The files of each repository, with the configs alone that code of a card loads; and all code, by its card."""
    folder = tmp_path_factory.mktemp("cards")
    cards = {}
    for name in studies.corpora():
        corpus = studies.load_corpus(name)
        withheld = building.withheld_configs(corpus)
        infos = {
            one.name: described(one)
            for one in corpus.configs
            if one.name not in withheld and is_at_hand(corpus, one)
        }
        cards["dataset", name] = dataset_card.dataset_card(corpus, infos, namespace=OWNER)
    files = {
        ("space", name): spaces.space_files(name, namespace=OWNER, version=__version__)
        for name in metrics()
    }
    cards |= {key: made["README.md"].decode() for key, made in files.items()}
    wanted = {loaded for card in cards.values() for loaded in _LOADED.findall(card)}
    for name in studies.corpora():
        corpus = studies.load_corpus(name)
        configs = [
            one for one in corpus.configs if (name, one.name) in wanted and is_at_hand(corpus, one)
        ]
        infos = {
            one.name: building.write_config(folder / name / one.name, corpus, one)
            for one in configs
        }
        made = replace(corpus, configs=tuple(configs))
        (folder / name / "README.md").write_text(
            dataset_card.dataset_card(made, infos, namespace=OWNER)
        )
        files["dataset", name] = {
            path.relative_to(folder / name).as_posix(): path.read_bytes()
            for path in (folder / name).rglob("*")
            if path.is_file()
        }
    return files, {f"{kind} {name}": code_of(card) for (kind, name), card in cards.items()}


RUN = """
import contextlib, io, json, sys, traceback
import datasets
import swapbias
from tests import baselines
datasets.disable_progress_bars()
loaded = {}
load_dataset = datasets.load_dataset

def load(name, config, *, revision, **options):  # each once: most cards load the same rows
    key = (name, config, revision, *options.items())
    if key not in loaded:
        loaded[key] = load_dataset(name, config, revision=revision, **options)
    return loaded[key]

def score(prompt):
    return sum(map(ord, prompt.prompt_id)) % 61 / 60

datasets.load_dataset = load
swapbias.load_scorer = lambda model: baselines.RuleScorer(score)
outputs = {}
for card, codes in json.load(sys.stdin).items():
    outputs[card] = []
    for code in codes:
        shown = io.StringIO()
        try:
            with contextlib.redirect_stdout(shown):
                exec(compile(code, card, "exec"), {})
            outputs[card].append(shown.getvalue())
        except Exception:
            outputs[card].append(traceback.format_exc())
print(json.dumps(outputs))
"""


@pytest.fixture(scope="module")
def outputs(published, tmp_path_factory):
    """What the code of each card prints, where swapbias is installed."""
    files, codes = published
    folder = tmp_path_factory.mktemp("home")
    with LocalHub() as hub:
        hub.add_user("ann", token="hf_ann", orgs=(OWNER,))
        for (kind, name), made in files.items():
            tag = f"v{__version__}"
            if kind == "dataset":
                tag = f"v{studies.load_corpus(name).version}"
            hub.add_repo(kind, f"{OWNER}/{name}", files=made, tags=[tag])
        done = subprocess.run(
            [sys.executable, "-c", RUN],
            env=environment(hub, home=folder) | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            cwd=folder,
            input=json.dumps(codes),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "card",
    [*(f"dataset {name}" for name in studies.corpora()), *(f"space {name}" for name in metrics())],
)
def test_code_of_a_card(card, published, outputs):
    """All code of a card runs, and the last of it prints a finding."""
    codes = published[1][card]
    for name, config in _LOADED.findall("".join(codes)):
        corpus = studies.load_corpus(name)
        if not is_at_hand(corpus, corpus.config(config)):
            pytest.skip("needs the authors' files")
    assert len(codes) >= 2
    assert "VERSION" not in "".join(codes)
    assert [text for text in outputs[card] if "Traceback" in text] == []
    assert outputs[card][-1].strip()
