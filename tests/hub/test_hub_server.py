"""The local Hub, driven by the real clients."""

import httpx2
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

LARGE = b"PAR1" * 50_000  # sent as a large file because of its name, .parquet


def add(path, content):
    return CommitOperationAdd(path, content)


def commit(api, name, operations, kind="dataset", message="a change", **rest):
    return api.create_commit(name, operations, repo_type=kind, commit_message=message, **rest)


def refusal(error):
    return error.value.response.status_code, error.value.response.headers.get("X-Error-Message")


@pytest.fixture
def alice(hub):
    hub.add_repo("dataset", "alice/d", files={"README.md": b"---\nlicense: mit\n---\n", "a/b.csv": b"x\n1\n"})
    return HfApi()


@pytest.fixture
def bob(alice):
    return HfApi(token="hf_bob")


def test_files_come_back_as_they_were_sent_small_and_large(hub, alice, tmp_path):
    done = commit(alice, "alice/d", [add("a/c.txt", b"small"), add("data/x.parquet", LARGE)])
    assert hub.commits("dataset", "alice/d") == [
        (done.oid, "a change"),
        (hub.commits("dataset", "alice/d")[1][0], "initial commit"),
    ]
    assert ("POST", "/datasets/alice/d.git/info/lfs/objects/batch", "alice") in hub.log
    tree = {one.path: one for one in alice.list_repo_tree("alice/d", repo_type="dataset", recursive=True)}
    assert list(tree) == ["README.md", "a", "a/b.csv", "a/c.txt", "data", "data/x.parquet"]
    # printf small | git hash-object --stdin
    assert tree["a/c.txt"].blob_id == "64c3ecd7abb014643a372e0155b41cfca014c01f"
    assert tree["a/c.txt"].lfs is None
    assert tree["data/x.parquet"].lfs.size == len(LARGE)
    for path, content in [("a/c.txt", b"small"), ("data/x.parquet", LARGE)]:
        got = alice.hf_hub_download("alice/d", path, repo_type="dataset", cache_dir=tmp_path)
        with open(got, "rb") as file:
            assert file.read() == content
        assert done.oid in got
    assert hub.files("dataset", "alice/d")["data/x.parquet"] == LARGE


def test_a_large_file_that_is_there_is_not_sent_again(hub, alice):
    commit(alice, "alice/d", [add("x.parquet", LARGE)])
    commit(alice, "alice/d", [add("y.parquet", LARGE)])
    assert sum(method == "PUT" for method, _, _ in hub.log) == 1
    assert hub.files("dataset", "alice/d")["y.parquet"] == LARGE


def test_sending_what_is_there_makes_no_commit(hub, alice):
    commit(alice, "alice/d", [add("x.parquet", LARGE), add("a/b.csv", b"x\n1\n")])
    before = hub.commits("dataset", "alice/d")
    commit(alice, "alice/d", [add("x.parquet", LARGE), add("a/b.csv", b"x\n1\n")])
    assert hub.commits("dataset", "alice/d") == before


def test_a_large_file_is_taken_only_with_its_checksum_and_its_key(hub, alice):
    oid = "0" * 64
    asked = {"operation": "upload", "objects": [{"oid": oid, "size": 3}]}
    batch = httpx2.post(
        f"{hub.url}/datasets/alice/d.git/info/lfs/objects/batch",
        json=asked,
        headers={"Authorization": "Bearer hf_alice"},
    )
    href = batch.json()["objects"][0]["actions"]["upload"]["href"]
    assert httpx2.put(href, content=b"abc").status_code == 400
    assert httpx2.put(href.partition("?")[0], content=b"abc").status_code == 403


def test_files_and_folders_can_be_deleted_but_not_what_is_not_there(hub, alice):
    commit(alice, "alice/d", [add("a/c.txt", b"1"), add("z.txt", b"2")])
    commit(alice, "alice/d", [CommitOperationDelete("a/"), CommitOperationDelete("z.txt")])
    assert list(hub.files("dataset", "alice/d")) == ["README.md"]
    with pytest.raises(EntryNotFoundError):
        commit(alice, "alice/d", [CommitOperationDelete("z.txt"), add("w.txt", b"3")])
    assert list(hub.files("dataset", "alice/d")) == ["README.md"]


def test_a_part_of_a_file_can_be_read(hub, alice):
    url = f"{hub.url}/datasets/alice/d/resolve/main/a/b.csv"  # 4 bytes: x, newline, 1, newline
    got = httpx2.get(url, headers={"Range": "bytes=2-9"})
    assert (got.status_code, got.content, got.headers["Content-Range"]) == (206, b"1\n", "bytes 2-3/4")
    assert httpx2.get(url, headers={"Range": "bytes=-3"}).content == b"\n1\n"
    assert httpx2.get(url, headers={"Range": "bytes=4-"}).status_code == 416
    head = httpx2.head(url)
    assert head.headers["Content-Length"] == "4"
    assert head.headers["X-Repo-Commit"] == hub.commits("dataset", "alice/d")[0][0]


def test_a_created_repository_holds_what_the_hub_puts_there(hub, alice):
    alice.create_repo("lab/s", repo_type="space", space_sdk="static", private=True)
    assert set(hub.files("space", "lab/s")) == {".gitattributes", "README.md", "index.html", "style.css"}
    assert hub.repo("space", "lab/s").private
    alice.update_repo_settings("lab/s", repo_type="space", private=False)
    assert not hub.repo("space", "lab/s").private
    assert [one.id for one in alice.list_spaces(author="lab")] == ["lab/s"]
    alice.delete_repo("lab/s", repo_type="space")
    assert hub.repo("space", "lab/s") is None


def test_a_repository_is_made_once_and_only_in_an_own_namespace(hub, alice):
    with pytest.raises(HfHubHTTPError) as twice:
        alice.create_repo("alice/d", repo_type="dataset")
    assert refusal(twice)[0] == 409
    with pytest.raises(HfHubHTTPError) as foreign:
        alice.create_repo("bob/d", repo_type="dataset")
    assert refusal(foreign) == (403, 'You don\'t have the rights to create a dataset under the namespace "bob"')


def test_a_wrong_token_is_refused_everywhere(hub, alice):
    for call in (
        lambda api: api.whoami(),
        lambda api: api.repo_info("alice/d", repo_type="dataset"),
        lambda api: api.create_repo("alice/e"),
    ):
        with pytest.raises(HfHubHTTPError) as error:
            call(HfApi(token="hf_wrong"))
        assert refusal(error) == (401, "Invalid credentials in Authorization header")


def test_a_token_that_only_reads_cannot_write(hub, alice):
    hub.add_user("alice", token="hf_reads", role="read")
    assert HfApi(token="hf_reads").whoami()["auth"]["accessToken"]["role"] == "read"
    for create_pr in (False, True):
        with pytest.raises(HfHubHTTPError) as error:
            commit(HfApi(token="hf_reads"), "alice/d", [add("x.txt", b"x")], create_pr=create_pr)
        assert refusal(error)[0] == 403


def test_a_role_in_an_organisation_and_a_scope_of_a_token_bound_what_it_writes(hub, alice):
    hub.add_user("carol", token="hf_carol", orgs={"lab": "read"})
    hub.add_user("carol", token="hf_fine", orgs={"lab": "write"}, role="fineGrained", scopes={"lab": ("repo.write",)})
    fine = HfApi(token="hf_fine")
    assert HfApi(token="hf_carol").whoami()["orgs"][0]["roleInOrg"] == "read"
    scoped = fine.whoami()["auth"]["accessToken"]["fineGrained"]["scoped"]
    assert scoped == [{"entity": {"type": "org", "name": "lab"}, "permissions": ["repo.write"]}]
    fine.create_repo("lab/d")
    for token, name in (("hf_carol", "lab/e"), ("hf_fine", "carol/d")):
        with pytest.raises(HfHubHTTPError) as error:
            HfApi(token=token).create_repo(name)
        assert refusal(error)[0] == 403


def test_others_may_propose_but_not_write(hub, bob):
    with pytest.raises(HfHubHTTPError) as error:
        commit(bob, "alice/d", [add("x.txt", b"x")])
    assert refusal(error) == (403, "Forbidden: pass `create_pr=1` as a query parameter to create a Pull Request")
    hub.repo("dataset", "alice/d").discussions = False
    with pytest.raises(HfHubHTTPError) as error:
        commit(bob, "alice/d", [add("x.txt", b"x")], create_pr=True)
    assert refusal(error) == (403, "Discussions are disabled for this repo")


def test_a_private_repository_is_not_there_for_others(hub, bob):
    hub.add_repo("model", "lab/secret", files={"a.txt": b"a"}, private=True)
    assert [one.id for one in HfApi().list_models(author="lab")] == ["lab/secret"]
    assert list(bob.list_models(author="lab")) == []
    for token, status in (("hf_bob", 404), (False, 401)):
        for call in (
            lambda api: api.repo_info("lab/secret"),
            lambda api: list(api.list_repo_tree("lab/secret")),
            lambda api: api.get_paths_info("lab/secret", ["a.txt"]),
        ):
            with pytest.raises(RepositoryNotFoundError) as error:
                call(HfApi(token=token))
            assert refusal(error)[0] == status
    with pytest.raises(RepositoryNotFoundError):
        HfApi().repo_info("lab/nothing")


def test_a_gated_repository_shows_names_but_no_content(hub, bob):
    hub.add_repo("model", "alice/gated", files={"a.txt": b"a"}, gated="manual")
    assert bob.list_repo_files("alice/gated") == ["a.txt"]
    for token, status in (("hf_bob", 403), (False, 401)):
        with pytest.raises(GatedRepoError) as error:
            HfApi(token=token).hf_hub_download("alice/gated", "a.txt")
        assert refusal(error)[0] == status
    assert HfApi().hf_hub_download("alice/gated", "a.txt")


def test_a_tag_stays_where_it_is(hub, alice):
    first = hub.commits("dataset", "alice/d")[0][0]
    alice.create_tag("alice/d", tag="v1.0.0", repo_type="dataset")
    hub.push("dataset", "alice/d", {"a/b.csv": b"x\n2\n"}, "later")
    assert hub.tags("dataset", "alice/d") == {"v1.0.0": first}
    assert hub.files("dataset", "alice/d", revision="v1.0.0")["a/b.csv"] == b"x\n1\n"
    with pytest.raises(HfHubHTTPError) as error:
        alice.create_tag("alice/d", tag="v1.0.0", repo_type="dataset")
    assert refusal(error)[0] == 409
    alice.delete_tag("alice/d", tag="v1.0.0", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        alice.repo_info("alice/d", repo_type="dataset", revision="v1.0.0")


def test_a_pull_request_takes_more_commits_until_it_is_closed(hub, bob):
    hub.add_repo("model", "alice/m", files={"README.md": b"---\nlicense: mit\n---\n"})
    opened = commit(bob, "alice/m", [add("r.yaml", b"1")], "model", "results", create_pr=True)
    assert (opened.pr_num, opened.pr_url) == (1, f"{hub.url}/alice/m/discussions/1")
    commit(bob, "alice/m", [add("r.yaml", b"2")], "model", "more", revision="refs/pr/1")
    assert hub.pull_requests("model", "alice/m") == [(1, "results", "open", "bob", ["r.yaml"])]
    assert hub.files("model", "alice/m", revision="refs/pr/1")["r.yaml"] == b"2"
    assert list(hub.files("model", "alice/m")) == ["README.md"]
    detail = bob.get_discussion_details("alice/m", 1)
    assert [event.summary for event in detail.events if event.type == "commit"] == ["results", "more"]
    assert "+2" in detail.diff
    assert bob.change_discussion_status("alice/m", 1, "closed").new_status == "closed"
    with pytest.raises(HfHubHTTPError):
        commit(bob, "alice/m", [add("r.yaml", b"3")], "model", revision="refs/pr/1")


def test_pull_requests_are_listed_by_status_and_author_over_pages(hub, bob):
    hub.page_size = 2
    for number in range(5):
        commit(bob, "alice/d", [add("r.yaml", b"%d" % number)], message=f"n{number}", create_pr=True)
    hub.close_pull_request("dataset", "alice/d", 2)
    hub.merge_pull_request("dataset", "alice/d", 4)

    def numbers(**asked):
        return [one.num for one in bob.get_repo_discussions("alice/d", repo_type="dataset", **asked)]

    assert numbers() == [5, 4, 3, 2, 1]
    assert numbers(discussion_status="open", author="bob") == [5, 3, 1]
    assert numbers(discussion_status="closed") == [4, 2]
    assert numbers(author="alice") == []
    assert hub.files("dataset", "alice/d")["r.yaml"] == b"3"
    refs = bob.list_repo_refs("alice/d", repo_type="dataset", include_pull_requests=True)
    assert [one.ref for one in refs.pull_requests] == [f"refs/pr/{number}" for number in range(1, 6)]
    assert hub.commits("dataset", "alice/d")[0][1] == "n3 (#4)"


def test_a_merged_pull_request_deletes_and_leaves_what_came_since(hub, bob):
    commit(bob, "alice/d", [CommitOperationDelete("a/b.csv"), add("n.txt", b"1")], create_pr=True)
    hub.push("dataset", "alice/d", {"since.txt": b"2"})
    assert hub.pull_requests("dataset", "alice/d")[0][4] == ["a/b.csv", "n.txt"]
    hub.merge_pull_request("dataset", "alice/d", 1)
    assert list(hub.files("dataset", "alice/d")) == ["README.md", "n.txt", "since.txt"]
    assert hub.pull_requests("dataset", "alice/d")[0][2] == "merged"


def test_listings_come_in_pages(hub, alice):
    hub.page_size = 2
    commit(alice, "alice/d", [add(f"{n}.txt", b"x") for n in range(5)])
    assert len(alice.list_repo_files("alice/d", repo_type="dataset")) == 7
    assert sum("/tree/" in path for _, path, _ in hub.log) == 4  # 5 + 2 files and the folder a: 8 rows


def test_a_commit_on_an_older_state_is_refused(hub, alice):
    parent = alice.repo_info("alice/d", repo_type="dataset").sha
    hub.on("POST", "/commit/main", lambda: hub.push("dataset", "alice/d", {"theirs.txt": b"1"}, "theirs"))
    with pytest.raises(HfHubHTTPError) as error:
        commit(alice, "alice/d", [add("ours.txt", b"1")], parent_commit=parent)
    assert refusal(error)[0] == 412
    assert list(hub.files("dataset", "alice/d")) == ["README.md", "a/b.csv", "theirs.txt"]
    commit(alice, "alice/d", [add("ours.txt", b"1")], parent_commit=hub.commits("dataset", "alice/d")[0][0])
    assert {"ours.txt", "theirs.txt"} < set(hub.files("dataset", "alice/d"))


@pytest.mark.parametrize(
    "header",
    [b"license: [mit", b"- a list", b"model-index:\n- name: m\n  results:\n  - metrics: []\n"],
)
def test_a_broken_header_is_refused(hub, alice, header):
    with pytest.raises(ValueError, match=r"Invalid metadata in README\.md"):
        commit(alice, "alice/d", [add("README.md", b"---\n" + header + b"\n---\n")])
    assert len(hub.commits("dataset", "alice/d")) == 1
