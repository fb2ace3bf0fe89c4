"""The Hub goes away at any request of a push or pull: nothing is half written, and the next try finishes."""

import shutil
from functools import partial

import pyarrow as pa
import pytest
from huggingface_hub import constants

from swapbias.errors import HubError
from swapbias.hub.bundle import parquet
from swapbias.hub.client import Hub
from swapbias.hub.pull import RESULTS, pull_repo
from swapbias.hub.push import push_repo
from swapbias.hub.repository import Repo
from tests.conftest import files_below
from tests.hub.shared_runs import run_files

KEY = ("dataset", "alice/toy")
ROWS = parquet(pa.table({"word": ["she"]}))  # which the Hub takes as a large file
FILES = {"README.md": b"# toy\n", "a.csv": b"word\nshe\n", "x/part.parquet": ROWS}
FAULTS = {
    "connection": {"cuts": 0},
    "answer": {"unanswered": True},
    "trouble": {"status": 500},
    "too many": {"status": 429},
    "login page": {"status": 200, "body": b"<html>Log in</html>"},
}


def push():
    return push_repo(
        Hub(), Repo(*KEY), FILES, tag="v1", version_hint="raise it", private=False, say=str
    )


def stopped(hub, request, fault, act):
    """The sentence of an act that loses the Hub at a request; blank where it has none so late."""
    hub.fail("*", "", times=-1, skips=request, **fault)
    try:
        act()
    except HubError as error:
        return str(error)
    finally:
        hub.plans.clear()
    return ""


def is_short(sentence):
    return len(sentence) < 250 and "\n" not in sentence and "hf_" not in sentence


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_lost_push(hub, fault):
    """A push is on the Hub whole or not at all, and the next one completes it."""
    for request in range(100):
        sentence = stopped(hub, request, fault, push)
        held = set(hub.files(*KEY)) if hub.repo(*KEY) else set()
        assert held - {".gitattributes"} in (set(), set(FILES))
        push()
        assert {path: hub.files(*KEY)[path] for path in FILES} == FILES
        assert list(hub.tags(*KEY)) == ["v1"]
        assert [title for _, title in hub.commits(*KEY)].count("Push toy v1 with swapbias") == 1
        del hub.repositories[KEY]
        hub.large.clear()
        if not sentence:
            break
        assert is_short(sentence)
    assert request > 8


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_lost_pull(hub, fault, tmp_path):
    """A pull leaves a whole folder or none, and the next one completes it."""
    hub.add_repo("dataset", "bob/results", files=run_files("r"))
    for request in range(100):
        folder = tmp_path / str(request)
        pull = partial(pull_repo, Hub(), RESULTS, "bob/results", folder)
        sentence = stopped(hub, request, fault, pull)
        here = files_below(folder)
        assert bool(here) == (not sentence)
        pull()
        there = files_below(folder / "bob" / "results")
        assert {path: there[path] for path in run_files("r")} == run_files("r")
        shutil.rmtree(constants.HF_HUB_CACHE)
        if not sentence:
            break
        assert is_short(sentence)
    assert request > 3
