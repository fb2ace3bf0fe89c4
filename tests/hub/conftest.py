"""A local Hub, runs that are shared on it, and models with owners."""

import pytest

from swapbias.runs import start
from swapbias.studies import load_corpus
from tests.hub.clients import online
from tests.hub.own_runs import GAP, QUIET, README, RUN_SETTINGS, WEIGHTS, of_weights
from tests.hub.server import LocalHub


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A running local Hub with the users alice (also of lab) and bob; this process is signed in as alice."""
    with LocalHub() as running:
        running.add_user("alice", token="hf_alice", orgs=("lab",))
        running.add_user("bob", token="hf_bob")
        with online(monkeypatch, running, home=tmp_path / "hf-home", token="hf_alice"):
            yield running


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return of_weights(start(RUN_SETTINGS, tmp_path_factory.mktemp("shared") / "run", **QUIET)[0])


@pytest.fixture(scope="module")
def later_run(tmp_path_factory):
    """The same audit after the model changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GAP, "she", 0.2)
        return of_weights(start(RUN_SETTINGS, tmp_path_factory.mktemp("later") / "run", **QUIET)[0])


@pytest.fixture
def models(hub):
    hub.add_repo("model", "alice/m", files={"README.md": README.encode(), **WEIGHTS})
    tag = f"v{load_corpus('occupation_sentiment').version}"
    hub.add_repo("dataset", "swapbias/occupation_sentiment", tags=[tag])
    hub.add_repo("model", "bob/m", files={"README.md": b"# Bob's\n", **WEIGHTS})
    return hub
