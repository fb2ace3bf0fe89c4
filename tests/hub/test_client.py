"""The client of the Hub: atomic commits, one sentence for every error, no key in it, bounded
waiting."""

import json
import re

import pandas as pd
import pytest

from swapbias import hub_http
from swapbias.errors import HubError, UsageError
from swapbias.hub.client import Hub
from swapbias.hub.repository import Change, Repo, difference
from swapbias.hub_http import timeouts
from swapbias.models.model_config import at_commit
from swapbias.swapping import Job, swap_files
from tests.cli.test_cli import swapbias
from tests.hub.clients import online
from tests.hub.server import LocalHub
from tests.privacy.test_gate import parquet

DATA = Repo("dataset", "alice/d")
FILES = {
    "README.md": b"# d\n",
    "data/a.parquet": parquet(pd.DataFrame({"n": range(1_000)})),
    "note.txt": b"x" * 10,
}
COMMITTING = r"/api/datasets/alice/d/commit/"


def commit_files(client, files=FILES, repo=DATA):
    client.create(repo, private=False)
    state = client.state(repo)
    return client.commit(repo, difference(state, files), "write", parent=state.commit)


def test_commit_is_not_repeated(hub):
    """A commit is on the Hub byte for byte, and committing the same files again has no difference
    to send."""
    client = Hub()
    made = commit_files(client)
    files = hub.files("dataset", DATA.name)
    assert {path: files[path] for path in FILES} == FILES
    state = client.state(DATA)
    assert state.commit == made.oid
    assert not difference(state, FILES)
    # The Hub names large files by sha256 and others as git does: both must be told.
    assert {state.files[path].partition(":")[0] for path in FILES} == {"git", "sha256"}
    assert sorted(difference(state, {**FILES, "note.txt": b"y" * 10}).write) == ["note.txt"]
    assert difference(state, {"README.md": b"# d\n"}).delete == ("data/a.parquet", "note.txt")
    assert difference(state, {}, within="data").delete == ("data/a.parquet",)


FAULTS = {
    403: "The token may not",
    409: "It clashes with what is there",
    412: "Somebody else wrote in between",
    413: "A file is too large",
    429: "The Hub takes no more requests now",
    **dict.fromkeys((500, 502, 503, 504), "The Hub has trouble of its own"),
}


@pytest.mark.parametrize("status", FAULTS)
def test_refused_commit(hub, status):
    """A refused commit is sent once, is one sentence and changes nothing."""
    client = Hub()
    client.create(DATA, private=False)
    before = hub.commits("dataset", DATA.name)
    hub.fail("POST", COMMITTING, status=status, times=50)
    with pytest.raises(HubError, match=re.escape(FAULTS[status])) as refused:
        commit_files(client)
    message = str(refused.value)
    assert not [one for one in ("\n", "http", "hf_alice") if one in message]
    assert ("what has arrived is not sent twice" in message) == (status == 409 or status >= 429)
    assert sum("/commit/" in path for _, path, _ in hub.log) == 1
    assert hub.commits("dataset", DATA.name) == before


@pytest.mark.parametrize(
    "body",
    [b"", b"<h1>Bad gateway</h1>", b'{"error": "busy"}'],
    ids=["empty", "page", "JSON"],
)
@pytest.mark.parametrize("status", [403, 429, 500, 502])
def test_failed_check_of_a_card(hub, status, body):
    """A failure of the check of a card is told as any other of the Hub, whatever its answer is."""
    hub.add_repo("dataset", DATA.name, files={})
    hub.fail("POST", "/api/validate-yaml", status=status, times=50, body=body)
    state = Hub().existing_state(DATA)
    change = Change({"README.md": b"---\nlicense: mit\n---\n"})
    with pytest.raises(HubError, match=rf"\({status}.*\)\. {re.escape(FAULTS[status])}"):
        Hub().commit(DATA, change, "Describe", parent=state.commit)
    assert not sum("/commit/" in path for _, path, _ in hub.log)


LOGIN_PAGE = b"<!doctype html><title>Log in to this network</title>"
CALLS = {
    "create": (lambda client: client.create(DATA, private=False), "POST", 409, b""),
    "state": (lambda client: client.state(DATA), "GET", 200, LOGIN_PAGE),
    "tree": (lambda client: client.state(DATA), "GET .*/tree/", 200, b'[{"a": 1}]'),
    "commits": (lambda client: client.commits(DATA), "GET", 200, LOGIN_PAGE),
    "whoami": (lambda client: client.owners(), "GET", 200, b"{}"),
    "no name": (lambda client: client.user, "GET", 200, b"[]"),
    "no token": (lambda client: client.owners(), "GET", 200, b'{"name": "a", "auth": null}'),
    "no orgs": (lambda client: client.owners(), "GET", 200, b'{"name": "a", "orgs": [{}]}'),
}


@pytest.mark.parametrize("call", CALLS)
def test_answer_of_no_hub(hub, call):
    """An answer that no Hub gives is one sentence about HF_ENDPOINT and the network."""
    asking, wanted, status, body = CALLS[call]
    method, _, pattern = wanted.partition(" ")
    hub.add_repo("dataset", DATA.name, files=FILES)
    hub.fail(method, pattern or ".*", status=status, times=-1, body=body)
    with pytest.raises(
        HubError, match=r"the answer is not that of a Hub\. Check HF_ENDPOINT and the network\.$"
    ):
        asking(Hub())


@pytest.mark.parametrize(
    ("status", "pattern", "call", "message"),
    [
        (403, "", "state", r"Could not read alice/d .*use one with read access"),
        (500, "", "state", r"Could not read alice/d \(500.*\)\. .*Run the command again\.$"),
        (404, "whoami", "whoami", r"\(404.*\)\. Check the name, and HF_ENDPOINT if it is set"),
    ],
    ids=["forbidden", "server error", "not found"],
)
def test_read_errors_name_read_access(hub, status, pattern, call, message):
    """An error while reading asks for read access, not for write access."""
    hub.add_repo("dataset", DATA.name, files=FILES)
    hub.fail("GET", pattern, status=status, times=-1)
    with pytest.raises(HubError, match=message):
        CALLS[call][0](Hub())


def test_message_of_the_hub_is_shortened(hub):
    """A message of the Hub is repeated in short, without addresses and control characters."""
    client = Hub()
    client.create(DATA, private=False)
    text = "storage is full \x1b[31m see https://example.com/x?signature=abc " + "word " * 200
    hub.fail("POST", COMMITTING, status=403, times=50, body=json.dumps({"error": text}).encode())
    with pytest.raises(HubError, match="storage is full") as refused:
        commit_files(client)
    assert len(str(refused.value)) < 400
    assert "signature" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_cut_upload(hub):
    """An upload that breaks off publishes nothing and is not sent twice."""
    client = Hub()
    client.create(DATA, private=False)
    before = hub.commits("dataset", DATA.name)
    hub.fail("PUT", ".*", times=50, cuts=100)
    with pytest.raises(HubError, match=r"(broke off|could not be reached).*not sent twice"):
        commit_files(client)
    assert hub.commits("dataset", DATA.name) == before


def test_vanished_repository(hub):
    """A commit to a repository that vanished says that it is not there."""
    client = Hub()
    client.create(DATA, private=False)
    state = client.state(DATA)
    del hub.repositories["dataset", DATA.name]
    with pytest.raises(HubError, match="It is not there, or the token may not see it"):
        client.commit(DATA, difference(state, FILES), "late", parent=state.commit)
    assert client.state(DATA) is None


def test_wrong_token(hub, monkeypatch, tmp_path):
    """A wrong token is named without repeating it, and the command to log in where there is none."""
    with (
        online(monkeypatch, hub, home=tmp_path / "none"),
        pytest.raises(HubError, match="hf auth login"),
    ):
        Hub().owners()
    with online(monkeypatch, hub, home=tmp_path / "wrong", token="hf_wrong_one"):
        for call in (lambda: Hub().owners(), lambda: Hub().state(DATA)):
            with pytest.raises(HubError, match="does not take the token") as refused:
                call()
            assert "hf_wrong_one" not in str(refused.value)
    with online(monkeypatch, hub, home=tmp_path / "letters", token="hf_wrong_oné"):
        for call in (lambda: Hub().owners(), lambda: Hub().state(DATA)):
            with pytest.raises(HubError, match="a letter that no token has") as refused:
                call()
            assert "hf_wrong" not in str(refused.value)


def test_no_network():
    """No network is one sentence."""
    with pytest.raises(
        HubError,
        match=r"could not be reached to read alice/d \(ConnectError\)|HF_HUB_OFFLINE is set",
    ):
        Hub(endpoint="http://127.0.0.1:9", token="hf_x").state(DATA)


def test_owners_and_hidden_repositories(hub, monkeypatch, tmp_path):
    """Organisations count as owners of the user, and a hidden repository of a stranger looks like
    none."""
    assert Hub().owners() == ("alice", "lab")
    with pytest.raises(HubError, match="Could not create bob/d"):
        Hub().create(Repo("dataset", "bob/d"), private=True)
    hub.add_repo("dataset", "bob/secret", files={"README.md": b"x"}, private=True)
    assert Hub().state(Repo("dataset", "bob/secret")) is None
    with online(monkeypatch, hub, home=tmp_path / "none"):
        assert Hub().state(Repo("dataset", "bob/secret")) is None


@pytest.mark.parametrize(
    "name",
    [
        "d",
        "a/b/c",
        "../d",
        "a/ b",
        "a/b.git",
        "",
        "a/<script>",
        "https://host/a/b",
        "a/b--c",
        "a/b..c",
        "a/b.",
        f"a/{97 * 'b'}",
    ],
)
def test_wrong_repository_name(name):
    """A name that is not OWNER/NAME is refused."""
    with pytest.raises(UsageError, match="expected OWNER/NAME"):
        Repo("dataset", name)


SILENCE_SECONDS = 0.15  # seconds
TIMEOUT_WORDS = "not waited for|could not be reached|Timeout|timed out"


@pytest.fixture
def slow(hub, monkeypatch):
    monkeypatch.setenv(hub_http.TIMEOUT, str(SILENCE_SECONDS))
    for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", SILENCE_SECONDS)
    hub.add_repo("dataset", DATA.name, files={"a.txt": b"a", "README.md": b"# a\n"})
    return hub


def commit_text(hub):
    parent = hub.commits("dataset", DATA.name)[0][0]
    return Hub().commit(DATA, Change({"b.txt": b"what is written"}), "a change", parent=parent)


HANGS = {"silence": 0, "a cut head": 9, "a cut body": 80}  # after so many bytes


@pytest.mark.parametrize("after", HANGS.values(), ids=HANGS)
@pytest.mark.parametrize(
    ("method", "pattern", "act"),
    [
        ("GET", "/api/datasets/alice/d", lambda server, folder: Hub().state(DATA)),
        ("GET", "/tree/", lambda server, folder: Hub().state(DATA)),
        ("GET", "whoami", lambda server, folder: Hub().user),
        ("POST", "/commit/", lambda server, folder: commit_text(server)),
        ("GET", "resolve/", lambda server, folder: Hub().content(Hub().state(DATA), "a.txt")),
        ("GET", "/api/models", lambda server, folder: at_commit("alice/model")),
        ("GET", "/api/datasets", lambda server, folder: swap_files(Job("alice/d"), folder / "out")),
    ],
    ids=["state", "tree", "user", "commit", "read", "model", "swap"],
)
def test_hanging_hub(method, pattern, act, after, slow, tmp_path):
    """A Hub that hangs at any step ends in one sentence after the timeout."""
    slow.fail(method, pattern, times=-1, hangs=after)
    with pytest.raises(ValueError, match=TIMEOUT_WORDS):
        act(slow, tmp_path)
    assert list(slow.files("dataset", DATA.name)) == ["README.md", "a.txt"]


def test_commands_end_when_hub_hangs(slow, tmp_path):
    """Each command ends with an error when the Hub hangs."""
    slow.fail("*", "/api/", times=-1, hangs=0)
    for given in (
        ("pull", "results", "alice/d", "--out", tmp_path / "d"),
        ("audit", "alice/model", "--study", "gendered_stigma:rq1", "--out", tmp_path / "r"),
        ("check", "alice/d"),
        ("compare", "alice/d", "alice/other"),
        ("swap", "alice/d", "--out", tmp_path / "s"),
    ):
        done = swapbias(*given)
        assert done.returncode in (1, 2), given
        assert "Traceback" not in done.stderr
        assert "bug in swapbias" not in done.stderr


def test_timeout_setting(monkeypatch):
    """The timeout in seconds is read from the environment, and a wrong one is refused."""
    assert timeouts() == (30.0, 120.0)
    monkeypatch.setenv(hub_http.TIMEOUT, "2")
    assert timeouts() == (2.0, 8.0)
    for wrong in ("soon", "0", "-1", "nan", "1e9"):
        monkeypatch.setenv(hub_http.TIMEOUT, wrong)
        with pytest.raises(UsageError, match="expected seconds above 0"):
            timeouts()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_to_another_host(slow, status):
    """Neither files nor token follow a redirect to another host."""
    with LocalHub() as other:
        slow.fail(
            "POST", "/commit/", status=status, headers={"Location": f"{other.url}/api/x"}, times=-1
        )
        with pytest.raises(HubError, match="sends what is written on to another address"):
            commit_text(slow)
        assert other.log == []
        other.add_user("alice", token="hf_alice")
        slow.fail(
            "GET",
            "/api/datasets/",
            status=307,
            headers={"Location": f"{other.url}/api/x"},
            times=-1,
        )
        with pytest.raises(HubError):
            Hub().state(DATA)
        assert {user for _, _, user in other.log} == {None}


def test_redirect_within_the_hub(slow):
    """A redirect within the Hub is followed."""
    place = f"{slow.url}/api/datasets/alice/d/commit/main"
    slow.fail("POST", "/commit/", status=307, headers={"Location": place})
    commit_text(slow)
    assert "b.txt" in slow.files("dataset", DATA.name)


def test_client_of_the_user(monkeypatch):
    """An HTTP client that a user configured stays in use."""
    from huggingface_hub import get_session, set_client_factory
    from huggingface_hub.utils import _http, httpx

    monkeypatch.setattr(_http, "_GLOBAL_CLIENT_FACTORY", _http.default_client_factory)
    mine = httpx.Client(timeout=5)
    set_client_factory(lambda: mine)
    hub_http.configure_http()
    assert get_session() is mine
    set_client_factory(_http.default_client_factory)
    hub_http.configure_http()
    assert get_session().timeout != httpx.Timeout(None)
