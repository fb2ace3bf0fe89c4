"""A Hub that hangs or points elsewhere: bounded, said, and nothing written goes astray."""

import pytest

from swapbias.errors import HubError, UsageError
from swapbias.hub.client import Change, Hub, Repo
from swapbias.models import loading
from swapbias.models.loading import at_commit, timeouts
from swapbias.swapping import Job, swap_files
from tests.cli.test_cli import refused, swapbias
from tests.hub.server import LocalHub

DATA = Repo("dataset", "alice/data")
SILENT = 0.15  # seconds
SLOW = "|".join(("not waited for", "could not be reached", "Timeout", "timed out"))


@pytest.fixture
def slow(hub, monkeypatch):
    """A Hub with a repository, whose client waits for a blink."""
    monkeypatch.setenv(loading.TIMEOUT, str(SILENT))
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", SILENT)
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", SILENT)
    hub.add_repo("dataset", "alice/data", files={"a.txt": b"a", "README.md": b"# a\n"})
    return hub


def head(hub):
    return hub.commits("dataset", "alice/data")[0][0]


def written(hub, **more):
    change = Change({"b.txt": b"what is written"})
    return Hub().commit(DATA, change, "a change", parent=head(hub), **more)


HANGS = {
    "silence": {},
    "a cut head": {"after_bytes": 9},
    "a cut body": {"after_bytes": 80},
}


@pytest.mark.parametrize("how", HANGS.values(), ids=HANGS)
@pytest.mark.parametrize(
    ("method", "pattern", "act"),
    [
        ("GET", "/api/datasets/alice/data", lambda server, folder: Hub().state(DATA)),
        ("GET", "/tree/", lambda server, folder: Hub().state(DATA)),
        ("GET", "whoami", lambda server, folder: Hub().user),
        ("POST", "/commit/", lambda server, folder: written(server)),
        ("GET", "resolve/", lambda server, folder: Hub().content(Hub().state(DATA), "a.txt")),
        ("GET", "/api/models", lambda server, folder: at_commit("alice/model")),
        ("GET", "/api/datasets", lambda server, folder: swap_files(Job("alice/data"), folder / "out")),
    ],
    ids=["state", "tree", "user", "commit", "read", "model", "swap"],
)
def test_a_hub_that_hangs_ends_in_one_sentence(method, pattern, act, how, slow, tmp_path):
    slow.hang(method, pattern, **how)
    with pytest.raises(ValueError, match=SLOW):
        act(slow, tmp_path)
    assert list(slow.files("dataset", "alice/data")) == ["README.md", "a.txt"]


def test_the_commands_end_too(slow, tmp_path):
    slow.hang("*", "/api/")
    for given in (
        ("pull", "alice/data", "--out", tmp_path / "d"),
        ("audit", "alice/model", "--study", "gendered_stigma:rq1", "--out", tmp_path / "r"),
        ("check", "alice/data"),
        ("compare", "alice/data", "alice/other"),
        ("swap", "alice/data", "--out", tmp_path / "s"),
    ):
        done = swapbias(*given)
        assert done.returncode in (1, 2), given
        assert "Traceback" not in done.stderr
        assert "bug in swapbias" not in done.stderr


def test_the_timeout_is_a_setting(monkeypatch):
    assert timeouts() == (30.0, 120.0)
    monkeypatch.setenv(loading.TIMEOUT, "2")
    assert timeouts() == (2.0, 8.0)
    for wrong in ("soon", "0", "-1", "nan", "1e9"):
        monkeypatch.setenv(loading.TIMEOUT, wrong)
        with pytest.raises(UsageError, match="expected seconds above 0"):
            timeouts()


# Refused for now


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_commit_that_is_refused_for_now_is_sent_once_and_said(slow, status):
    slow.fail("POST", "/commit/", status=status, times=-1)
    with pytest.raises(HubError, match=rf"\({status}.*what has arrived is not sent twice"):
        written(slow, description="a pull request")
    assert sum("/commit/" in path for _, path, _ in slow.log) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_what_is_written_never_follows_to_another_host(slow, status):
    with LocalHub() as other:
        slow.fail("POST", "/commit/", status=status, headers={"Location": f"{other.url}/api/x"}, times=-1)
        with pytest.raises(HubError, match="sends what is written on to another address"):
            written(slow)
        assert other.log == []


def test_a_token_never_follows_to_another_host(slow):
    with LocalHub() as other:
        other.add_user("alice", token="hf_alice")
        slow.fail("GET", "/api/datasets/", status=307, headers={"Location": f"{other.url}/api/x"}, times=-1)
        with pytest.raises(HubError):
            Hub().state(DATA)
        assert {user for _, _, user in other.log} == {None}


def test_a_redirect_within_the_hub_is_followed(slow):
    place = f"{slow.url}/api/datasets/alice/data/commit/main"
    slow.fail("POST", "/commit/", status=307, headers={"Location": place})
    written(slow)
    assert "b.txt" in slow.files("dataset", "alice/data")


def test_a_client_of_the_users_own_stays(monkeypatch):
    from huggingface_hub import get_session, set_client_factory
    from huggingface_hub.utils import _http, httpx

    monkeypatch.setattr(_http, "_GLOBAL_CLIENT_FACTORY", _http.default_client_factory)
    mine = httpx.Client(timeout=5)
    set_client_factory(lambda: mine)
    loading.configure_http()
    assert get_session() is mine
    set_client_factory(_http.default_client_factory)
    loading.configure_http()
    assert get_session().timeout != httpx.Timeout(None)


def test_an_odd_setting_is_one_sentence(slow):
    refused(swapbias("check", "alice/data", SWAPBIAS_HUB_TIMEOUT="soon"), 2, "SWAPBIAS_HUB_TIMEOUT is 'soon'")
