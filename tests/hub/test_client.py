"""What talks to the Hub: one commit or nothing, one sentence for every fault, no key in any of them."""

import re

import pandas as pd
import pytest

from swapbias.errors import HubError, UsageError
from swapbias.hub.client import Hub, Repo, difference
from tests.hub.clients import online
from tests.privacy.test_gate import parquet

DATA = Repo("dataset", "alice/d")
FILES = {"README.md": b"# d\n", "data/a.parquet": parquet(pd.DataFrame({"n": range(1_000)})), "note.txt": b"x" * 10}
COMMITTING, SENDING = r"/api/datasets/alice/d/commit/", r"/lfs|/__lfs|/objects"


def put(client, files=FILES, repo=DATA):
    client.create(repo, private=False)
    state = client.state(repo)
    return client.commit(repo, difference(state, files), "write", parent=state.commit)


def test_what_is_written_is_there_and_is_not_written_twice(hub):
    client = Hub()
    made = put(client)
    held = hub.files("dataset", "alice/d")
    assert {path: held[path] for path in FILES} == FILES
    state = client.state(DATA)
    assert state.commit == made.oid
    assert not difference(state, FILES)
    # The Hub names large files by sha256 and others as git does: both must be told.
    assert {state.files[path].partition(":")[0] for path in FILES} == {"git", "sha256"}
    assert sorted(difference(state, {**FILES, "note.txt": b"y" * 10}).write) == ["note.txt"]
    assert difference(state, {"README.md": b"# d\n"}).delete == ("data/a.parquet", "note.txt")
    assert difference(state, {}, within="data").delete == ("data/a.parquet",)


FAULTS = {
    403: "The token may not", 409: "It clashes with what is there", 412: "Somebody else wrote in between",
    413: "A file is too large", 429: "The Hub takes no more requests now", 500: "The Hub has trouble of its own",
    503: "The Hub has trouble of its own",
}  # fmt: skip


@pytest.mark.parametrize("status", FAULTS)
def test_a_refused_commit_is_one_sentence_and_changes_nothing(hub, status):
    client = Hub()
    client.create(DATA, private=False)
    before = hub.commits("dataset", "alice/d")
    hub.fail("POST", COMMITTING, status=status, times=50)
    with pytest.raises(HubError, match=re.escape(FAULTS[status])) as refused:
        put(client)
    told = str(refused.value)
    assert "\n" not in told
    assert "http" not in told
    assert "hf_alice" not in told
    assert hub.commits("dataset", "alice/d") == before


PAGE = b"<!doctype html><title>Log in to this network</title>"
CALLS = {
    "create": (lambda client: client.create(DATA, private=False), "POST", 409, b""),
    "state": (lambda client: client.state(DATA), "GET", 200, PAGE),
    "tree": (lambda client: client.state(DATA), "GET .*/tree/", 200, b'[{"a": 1}]'),
    "commits": (lambda client: client.commits(DATA), "GET", 200, PAGE),
    "whoami": (lambda client: client.owners(), "GET", 200, b"{}"),
    "no name": (lambda client: client.user, "GET", 200, b"[]"),
    "no token": (lambda client: client.owners(), "GET", 200, b'{"name": "a", "auth": null}'),
    "no orgs": (lambda client: client.owners(), "GET", 200, b'{"name": "a", "orgs": [{}]}'),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_that_no_hub_gives_is_one_sentence(hub, call):
    asking, wanted, status, body = CALLS[call]
    method, _, pattern = wanted.partition(" ")
    hub.add_repo("dataset", DATA.name, files=FILES)
    hub.fail(method, pattern or ".*", status=status, times=-1, body=body)
    with pytest.raises(HubError, match=r"the answer is not that of a Hub\. Check HF_ENDPOINT and the network\.$"):
        asking(Hub())


def test_who_may_not_read_is_not_sent_for_write_access(hub):
    hub.add_repo("dataset", DATA.name, files=FILES)
    hub.fail("GET", ".*", status=403, times=-1)
    with pytest.raises(HubError, match=r"Could not read alice/d .*use one with read access"):
        Hub().state(DATA)
    hub.plans.clear()
    hub.fail("GET", ".*", status=500, times=-1)
    with pytest.raises(HubError, match=r"Could not read alice/d \(500.*\)\. .*Run the command again\.$"):
        Hub().state(DATA)
    hub.plans.clear()
    hub.fail("GET", "whoami", status=404, times=-1)
    with pytest.raises(HubError, match=r"\(404.*\)\. Check the name, and HF_ENDPOINT if it is set"):
        Hub().owners()


def test_what_the_hub_says_is_repeated_short_and_without_addresses(hub):
    client = Hub()
    client.create(DATA, private=False)
    said = "storage is full \x1b[31m see https://example.com/x?signature=abc " + "word " * 200
    hub.fail("POST", COMMITTING, status=403, times=50, body={"error": said})
    with pytest.raises(HubError, match="storage is full") as refused:
        put(client)
    assert len(str(refused.value)) < 400
    assert "signature" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_a_cut_upload_publishes_nothing_and_the_next_try_goes_on(hub):
    client = Hub()
    client.create(DATA, private=False)
    before = hub.commits("dataset", "alice/d")
    hub.cut("PUT", ".*", times=50, after_bytes=100)
    with pytest.raises(HubError, match=r"(broke off|could not be reached).*not sent twice"):
        put(client)
    assert hub.commits("dataset", "alice/d") == before


def test_trouble_that_passes_is_waited_for(hub):
    client = Hub()
    client.create(DATA, private=False)
    hub.fail("PUT", ".*", status=503, times=1)
    put(client)
    assert hub.files("dataset", "alice/d")["data/a.parquet"] == FILES["data/a.parquet"]


def test_a_repository_that_vanished_is_said_to_be_gone(hub):
    client = Hub()
    client.create(DATA, private=False)
    state = client.state(DATA)
    del hub.repositories["dataset", "alice/d"]
    with pytest.raises(HubError, match="It is not there, or the token may not see it"):
        client.commit(DATA, difference(state, FILES), "late", parent=state.commit)
    assert client.state(DATA) is None


def test_a_wrong_token_is_named_without_repeating_it_and_login_where_there_is_none(hub, monkeypatch, tmp_path):
    with online(monkeypatch, hub, home=tmp_path / "none"), pytest.raises(HubError, match="hf auth login"):
        Hub().owners()
    with online(monkeypatch, hub, home=tmp_path / "wrong", token="hf_wrong_one"):
        for call in (lambda: Hub().owners(), lambda: Hub().state(DATA)):
            with pytest.raises(HubError, match="does not take the token") as refused:
                call()
            assert "hf_wrong_one" not in str(refused.value)


def test_no_network_is_one_sentence():
    with pytest.raises(
        HubError, match=r"could not be reached to read alice/d \(ConnectError\)|HF_HUB_OFFLINE is set"
    ):
        Hub(endpoint="http://127.0.0.1:9", token="hf_x").state(DATA)


def test_organisations_count_as_ones_own_and_strangers_do_not(hub):
    assert Hub().owners() == ("alice", "lab")
    with pytest.raises(HubError, match="Could not create bob/d"):
        Hub().create(Repo("dataset", "bob/d"), private=True)


def test_a_private_repository_of_somebody_else_looks_like_none(hub, monkeypatch, tmp_path):
    hub.add_repo("dataset", "bob/secret", files={"README.md": b"x"}, private=True)
    assert Hub().state(Repo("dataset", "bob/secret")) is None
    with online(monkeypatch, hub, home=tmp_path / "none"):
        assert Hub().state(Repo("dataset", "bob/secret")) is None


@pytest.mark.parametrize("name", ["d", "a/b/c", "../d", "a/ b", "a/b.git", "", "a/<script>", "https://host/a/b"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(UsageError, match="expected OWNER/NAME"):
        Repo("dataset", name)
