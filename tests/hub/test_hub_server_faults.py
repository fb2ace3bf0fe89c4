"""Trouble that is planned on the local Hub, as the real client meets it."""

import httpx2
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from tests.hub.server import LocalHub

LARGE = b"PAR1" * 50_000  # sent as a large file because of its name, .parquet


@pytest.fixture
def alice(hub):
    hub.add_repo("dataset", "alice/d", files={"README.md": b"---\nlicense: mit\n---\n"})
    return HfApi()


def send(api, path, content):
    return api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id="alice/d", repo_type="dataset")


def test_a_planned_failure_ends(hub, alice):
    hub.fail("POST", "/preupload/", status=500, times=2)
    hub.fail("POST", "/commit/main", status=503, after=1)
    send(alice, "x.txt", b"1")  # the client asks three times
    assert sum("/preupload/" in path for _, path, _ in hub.log) == 3
    with pytest.raises(HfHubHTTPError):
        send(alice, "x.txt", b"2")
    assert hub.files("dataset", "alice/d")["x.txt"] == b"1"
    send(alice, "x.txt", b"3")
    assert hub.files("dataset", "alice/d")["x.txt"] == b"3"


def test_a_planned_refusal_carries_its_headers_and_its_content(hub, alice):
    hub.fail("GET", "/api/whoami-v2", status=429, headers={"Retry-After": "7"}, body={"error": "slowly"}, times=-1)
    for _ in range(3):
        with pytest.raises(HfHubHTTPError, match="rate limit") as error:
            alice.whoami()
        assert error.value.response.headers["Retry-After"] == "7"
        assert error.value.response.json() == {"error": "slowly"}


def test_a_cut_upload_changes_nothing_and_a_cut_answer_hides_what_was_done(hub, alice):
    hub.cut("POST", "/commit/main", after_bytes=20)
    with pytest.raises(httpx2.TransportError):
        send(alice, "x.txt", b"1")
    assert list(hub.files("dataset", "alice/d")) == ["README.md"]
    hub.cut("POST", "/commit/main", after_bytes=20, answer=True)
    with pytest.raises(httpx2.TransportError):
        send(alice, "x.txt", b"1")
    assert hub.files("dataset", "alice/d")["x.txt"] == b"1"


def test_a_large_file_that_is_cut_is_sent_again(hub, alice):
    hub.cut("PUT", "/lfs/", after_bytes=1000)
    send(alice, "x.parquet", LARGE)
    assert sum(method == "PUT" for method, _, _ in hub.log) == 2
    assert hub.files("dataset", "alice/d")["x.parquet"] == LARGE


def test_a_download_that_is_cut_can_be_taken_up_again(hub, alice, tmp_path):
    send(alice, "x.parquet", LARGE)
    hub.cut("GET", "/resolve/", after_bytes=1000)
    got = alice.hf_hub_download("alice/d", "x.parquet", repo_type="dataset", cache_dir=tmp_path)
    with open(got, "rb") as file:
        assert file.read() == LARGE


def test_two_hubs_share_nothing(alice):
    with LocalHub() as other:
        assert httpx2.get(f"{other.url}/api/datasets/alice/d").status_code == 401


def test_a_callback_runs_once_before_the_request_is_handled(hub, alice):
    hub.on("GET", "/api/datasets/alice/d/tree/", lambda: hub.push("dataset", "alice/d", {"new.txt": b"1"}))
    listed = [alice.list_repo_files("alice/d", repo_type="dataset") for _ in range(2)]
    assert listed == [["README.md", "new.txt"]] * 2
    assert len(hub.commits("dataset", "alice/d")) == 2


def test_a_fault_of_the_server_itself_is_raised_at_the_end():
    hub = LocalHub()
    with pytest.raises(RuntimeError, match="the local Hub broke"), hub:
        assert httpx2.post(f"{hub.url}/api/validate-yaml", content=b"{").status_code == 501
