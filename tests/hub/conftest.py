"""A local Hub, runs that are shared on it, and models whose owners are asked."""

import re

import pytest

from swapbias.runs import start
from swapbias.studies import load_corpus
from tests.hub.clients import OLD_UPLOAD, online
from tests.hub.own_runs import OWN, QUIET, audit_own
from tests.hub.server import LocalHub
from tests.hub.sharing_runs import ASKED, GAP, README, WEIGHTS, of_weights, packed


@pytest.fixture
def hub(request, monkeypatch, tmp_path):
    """A running local Hub with the users alice (also of lab) and bob; this process is signed in as alice."""
    request.applymarker(pytest.mark.filterwarnings(f"ignore:{re.escape(OLD_UPLOAD)}:DeprecationWarning"))
    with LocalHub() as running:
        running.add_user("alice", token="hf_alice", orgs=("lab",))
        running.add_user("bob", token="hf_bob")
        with online(monkeypatch, running, home=tmp_path / "hf-home", token="hf_alice"):
            yield running


@pytest.fixture(scope="module")
def own_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "ward.csv").write_text(OWN)
    return of_weights(audit_own(folder / "ward.csv", folder / "run"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return of_weights(start(ASKED, tmp_path_factory.mktemp("shared") / "run", **QUIET)[0])


@pytest.fixture(scope="module")
def later_run(tmp_path_factory):
    """The same audit after the model changed."""
    before, GAP["she"] = GAP["she"], 0.2
    try:
        return of_weights(start(ASKED, tmp_path_factory.mktemp("later") / "run", **QUIET)[0])
    finally:
        GAP["she"] = before


@pytest.fixture
def packed_once(monkeypatch):
    """Packing draws every figure: runs that nobody edits are packed once (``test_bundle`` tests packing itself)."""
    monkeypatch.setattr("swapbias.hub.shared_runs.bundle_run", packed)


@pytest.fixture
def models(hub):
    hub.add_repo("model", "alice/m", files={"README.md": README.encode(), **WEIGHTS})
    tag = f"v{load_corpus('occupation_sentiment').version}"
    hub.add_repo("dataset", "swapbias/occupation_sentiment", tags=[tag])
    hub.add_repo("model", "bob/m", files={"README.md": b"# Bob's\n", **WEIGHTS})
    return hub
