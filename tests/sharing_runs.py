"""What the tests of sharing share: two audits of one small model, a local Hub with models, and the call itself."""

from functools import cache

import pytest

from swapbias.audit import Settings, start
from swapbias.hub import Hub
from swapbias.sharing.parcel import pack
from swapbias.sharing.proposing import COMMIT, PULL_REQUEST
from swapbias.sharing.share import Wanted, share
from swapbias.studies import config_rows
from tests.parcel_runs import QUIET

MODEL = "tests.sharing_runs:scored"
ASKED = Settings(model=MODEL, studies=("occupation_sentiment:sentences",))
README = "---\nlicense: mit   # mine\ntags: [a,  b]\n---\n# Model\n\nBy alice.\n"
EVAL = ".eval_results/swapbias.yaml"
GAP = {"she": 0.1}  # what `scored` takes off sentences about women
COMMITS = r"/api/models/.*/commit/"


packed = cache(pack)


@cache
def about_women():
    return {row["text"] for row in config_rows("occupation_sentiment", "sentences") if row["group"] == "female"}


def scored(texts):
    """A sentiment system that scores every sentence about a woman lower than the same one about a man."""
    return [0.6 - GAP["she"] * (text in about_women()) for text in texts]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return start(ASKED, tmp_path_factory.mktemp("shared") / "run", **QUIET)[0]


@pytest.fixture(scope="module")
def later_run(tmp_path_factory):
    """The same audit after the model changed."""
    before, GAP["she"] = GAP["she"], 0.2
    try:
        return start(ASKED, tmp_path_factory.mktemp("later") / "run", **QUIET)[0]
    finally:
        GAP["she"] = before


@pytest.fixture(autouse=True)
def packed_once(monkeypatch):
    """Packing draws every figure: runs that nobody edits are packed once (``test_parcel`` tests packing itself)."""
    monkeypatch.setattr("swapbias.sharing.share.pack", packed)


@pytest.fixture
def models(hub):
    hub.add_repo("model", "alice/m", files={"README.md": README.encode(), "weights.txt": b"w"})
    hub.add_repo("model", "bob/m", files={"README.md": b"# Bob's\n"})
    return hub


def put(run, results="alice/audits", **more):
    return share(run, Wanted(results=results, **more), Hub(), say=lambda sentence: None)


def own(run, **more):
    return put(run, model="alice/m", how=COMMIT, audited=MODEL, **more)


def propose(run, model="bob/m", **more):
    return put(
        run, **{"results": "alice/open", "public": True, "how": PULL_REQUEST, "audited": MODEL, **more}, model=model
    )


def statuses(done):
    return [one.status for one in done]
