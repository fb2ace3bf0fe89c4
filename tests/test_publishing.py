"""The shared steps of a push: what differs is one commit, a tag never changes, a cut push is completed."""

import pytest

from swapbias.errors import HubError, UsageError
from swapbias.hub import Hub, Repo
from swapbias.publishing.pushing import Pushed, check_namespace, push_each, push_repo
from tests.hub_fixtures import hub  # noqa: F401 - a fixture

REPO = Repo("dataset", "alice/toy")
KEY = ("dataset", "alice/toy")
CARD = b"---\nlicense: mit\n---\n# toy, made with swapbias\n"
FILES = {"README.md": CARD, "a.csv": b"word\nshe\n"}


def push(files=FILES, tag="v1.0.0", **options):
    lines = []
    told = {"message": f"toy {tag}", "private": False, "raise_hint": "raise it", "say": lines.append, **options}
    return push_repo(Hub(), REPO, files, tag=tag, **told), lines


def titles(hub):  # noqa: F811
    return [title for _, title in hub.commits(*KEY)]


def test_a_new_version_is_one_commit_and_the_old_tag_stays(hub):  # noqa: F811
    first, _ = push({**FILES, "old.csv": b"word\nhe\n"})
    second, _ = push({**FILES, "b.csv": b"word\nthey\n"}, tag="v1.1.0")
    assert second.status == "updated"
    assert sorted(second.change.write) == ["b.csv"]
    assert second.change.delete == ("old.csv",)
    assert set(hub.files(*KEY)) == {".gitattributes", "README.md", "a.csv", "b.csv"}
    assert titles(hub)[:2] == ["toy v1.1.0", "toy v1.0.0"]
    assert hub.tags(*KEY) == {"v1.0.0": first.commit, "v1.1.0": second.commit}


def test_a_published_version_with_other_content_is_refused(hub):  # noqa: F811
    push()
    with pytest.raises(UsageError, match=r"^alice/toy: v1\.0\.0 is published with other content; raise it\.$"):
        push({**FILES, "a.csv": b"word\nhe\n"})
    assert hub.files(*KEY)["a.csv"] == b"word\nshe\n"


def test_a_push_that_was_cut_before_its_tag_is_completed(hub):  # noqa: F811
    hub.fail("POST", "/tag/", status=500, times=9)
    with pytest.raises(HubError):
        push()
    hub.plans.plans.clear()
    (commit, _), *_ = hub.commits(*KEY)
    assert hub.tags(*KEY) == {}
    assert push()[0].status == "tagged"
    assert hub.tags(*KEY) == {"v1.0.0": commit}
    assert titles(hub).count("toy v1.0.0") == 1


def test_what_somebody_changed_after_the_tag_is_not_undone(hub):  # noqa: F811
    push()
    hub.push(*KEY, {"a.csv": b"word\nours\n"}, "an edit")
    with pytest.raises(UsageError, match=r"holds something else than its v1\.0\.0, which is what would be pushed"):
        push()
    assert hub.files(*KEY)["a.csv"] == b"word\nours\n"


def test_an_edit_that_was_reverted_is_no_change(hub):  # noqa: F811
    first, _ = push()
    hub.push(*KEY, {"a.csv": b"word\nours\n"}, "an edit")
    hub.push(*KEY, {"a.csv": FILES["a.csv"]}, "reverted")
    done, _ = push()
    assert (done.status, done.commit) == ("unchanged", first.commit)


def test_a_commit_of_somebody_else_in_between_is_not_overwritten(hub):  # noqa: F811
    push()
    hub.on("POST", "/commit/", lambda: hub.push(*KEY, {"theirs.csv": b"x\n"}, "theirs"))
    with pytest.raises(HubError, match="in between"):
        push({**FILES, "b.csv": b"word\n"}, tag="v1.1.0")
    assert set(hub.files(*KEY)) == {".gitattributes", "README.md", "a.csv", "theirs.csv"}
    assert set(hub.tags(*KEY)) == {"v1.0.0"}


def test_a_repository_that_is_something_else_is_not_overwritten(hub):  # noqa: F811
    hub.add_repo(*KEY, files={"README.md": b"# my thesis\n", "thesis.txt": b"all of it"})
    with pytest.raises(UsageError, match=r"holds something else: its README\.md does not name swapbias"):
        push()
    assert hub.files(*KEY)["thesis.txt"] == b"all of it"


def test_a_public_repository_is_not_taken_for_a_private_one(hub):  # noqa: F811
    push()
    with pytest.raises(UsageError, match="is public, and a push does not change that"):
        push({**FILES, "b.csv": b"word\n"}, tag="v1.1.0", private=True)
    assert "b.csv" not in hub.files(*KEY)


def test_a_key_in_a_file_stops_the_push_before_anything_is_created(hub):  # noqa: F811
    with pytest.raises(UsageError, match="access key"):
        push({**FILES, "a.csv": b"word\nhf_" + b"a" * 34 + b"\n"})
    assert hub.repo(*KEY) is None


def test_a_dry_run_tells_every_path_with_size_and_the_difference_of_the_card(hub):  # noqa: F811
    push({**FILES, "old.csv": b"word\nhe\n"})
    sent = len(hub.log)
    card = CARD.replace(b"# toy", b"# toys")
    done, lines = push({"README.md": card, "a.csv": FILES["a.csv"], "b.csv": b"word\n"}, tag="v2.0.0", dry_run=True)
    assert (done.status, done.commit) == ("would be updated", "")
    assert lines[:3] == [f"  M README.md ({len(card)} bytes)", "  A b.csv (5 bytes)", "  D old.csv"]
    assert "  -# toy, made with swapbias" in lines
    assert "  +# toys, made with swapbias" in lines
    assert {method for method, _, _ in hub.log[sent:]} <= {"GET", "HEAD"}


def test_a_dry_run_shows_no_control_characters_of_a_strangers_card(hub):  # noqa: F811
    hub.add_repo(*KEY, files={"README.md": b"# swapbias \x1b]0;owned\x07\n"})
    _, lines = push(dry_run=True)
    assert any("owned" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_a_dry_run_refuses_what_a_push_would_refuse(hub):  # noqa: F811
    push()
    with pytest.raises(UsageError, match="published with other content"):
        push({**FILES, "a.csv": b"word\nhe\n"}, dry_run=True)


def test_a_dry_run_says_when_the_tag_alone_is_missing_or_nothing_is(hub):  # noqa: F811
    push()
    assert push(dry_run=True)[0].status == "unchanged"
    assert push(tag="v1.0.1", dry_run=True)[0].status == "would be tagged"
    assert set(hub.tags(*KEY)) == {"v1.0.0"}


def test_a_token_that_may_only_read_or_write_elsewhere_is_told_before_the_work(hub):  # noqa: F811
    check_namespace(Hub(), "lab")
    with pytest.raises(UsageError, match=r"^The token may not write to 'bob', expected one of alice, lab\.$"):
        check_namespace(Hub(), "bob")
    hub.add_user("carol", token="hf_carol", role="read")
    with pytest.raises(HubError, match="may only read"):
        check_namespace(Hub(token="hf_carol"), "carol")
    with pytest.raises(HubError, match="token"):
        check_namespace(Hub(token="hf_nobody"), "alice")


def test_trouble_with_one_is_a_sentence_and_the_others_go_on():
    told, complaints = [], []

    def pushing(name):
        if name == "b":
            raise HubError("The Hub refused.")
        if name == "c":
            raise RuntimeError("odd")
        return Pushed(Repo("dataset", f"lab/{name}"), "unchanged", "c0ffee", "v1.0.0", None)

    assert push_each("abcd", pushing, say=told.append, complain=complaints.append) == 1
    assert told[:2] == ["lab/a: unchanged, v1.0.0 at c0ffee", "lab/d: unchanged, v1.0.0 at c0ffee"]
    assert complaints[:2] == ["b: The Hub refused.", "c: RuntimeError: odd. This is a fault of swapbias."]
    assert complaints[-1] == "failed: b, c"
