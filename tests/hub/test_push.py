"""The steps of a push: a difference is one commit, a tag never changes, a cut push is completed."""

import re

import pytest

from swapbias.errors import HubError, UsageError, exit_code
from swapbias.hub.client import Hub
from swapbias.hub.commands import DATASET, push_all
from swapbias.hub.push import push_repo
from swapbias.hub.repository import Repo
from swapbias.studies.own import new_study
from tests.hub.clients import command, writes

REPO = Repo("dataset", "alice/toy")
SPACE = Repo("space", "alice/page")
TEMPLATE = {"README.md": b"---\nsdk: gradio\n---\n"}
KEY = ("dataset", "alice/toy")
CARD = b"---\nlicense: mit\ntags: [swapbias]\n---\n# toy, made with swapbias\n"
FILES = {"README.md": CARD, "a.csv": b"word\nshe\n"}


def push(files=FILES, tag="v1.0.0", **options):
    lines = []
    settings = {"private": False, "version_hint": "raise it", "say": lines.append, **options}
    return push_repo(Hub(), REPO, files, tag=tag, **settings), lines


def titles(hub):
    return [title for _, title in hub.commits(*KEY)]


def test_new_version(hub):
    """A new version is one commit under its tag, and the old tag stays."""
    first, _ = push({**FILES, "old.csv": b"word\nhe\n"})
    second, lines = push({**FILES, "b.csv": b"word\nthey\n"}, tag="v1.1.0")
    assert (second.status, lines) == ("updated", ["  D old.csv"])
    assert sorted(second.change.write) == ["b.csv"]
    assert second.change.delete == ("old.csv",)
    assert set(hub.files(*KEY)) == {".gitattributes", "README.md", "a.csv", "b.csv"}
    assert titles(hub)[:2] == ["Push toy v1.1.0 with swapbias", "Push toy v1.0.0 with swapbias"]
    assert hub.tags(*KEY) == {"v1.0.0": first.commit, "v1.1.0": second.commit}


def test_published_version_stays(hub):
    """A published version is not overwritten, and pushing it again changes nothing."""
    first, _ = push()
    with pytest.raises(
        UsageError, match=r"^alice/toy: v1\.0\.0 is published with other content; raise it\.$"
    ):
        push({**FILES, "a.csv": b"word\nhe\n"})
    assert hub.files(*KEY)["a.csv"] == b"word\nshe\n"
    done, _ = push()
    assert (done.status, done.commit) == ("unchanged", first.commit)


def edit(hub):
    """Change, add and delete a file by hand; the Hub's own file counts for nothing."""
    by_hand = {"README.md": b"# theirs\n", "notes.txt": b"x", ".gitattributes": b"*.x\n"}
    hub.push(*KEY, by_hand, "an edit", delete=["a.csv"])
    return hub.files(*KEY)


@pytest.mark.parametrize("tag", ["v1.0.0", "v1.1.0"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_hand_edits_are_named(hub, tag, dry_run):
    """A push of the same or a new version names what somebody changed on the Hub, and changes nothing."""
    push()
    before = edit(hub)
    edits = "changed README.md, deleted a.csv, added notes.txt"
    told = f"alice/toy was changed on the Hub since the last push: {edits}. Take the changes over"
    with pytest.raises(HubError, match=re.escape(told)) as refused:
        push(tag=tag, dry_run=dry_run)
    assert exit_code(refused.value) == 1
    assert hub.files(*KEY) == before


@pytest.mark.parametrize(
    ("tag", "status"), [("v1.0.0", "restored"), ("v1.1.0", "updated")], ids=["same", "new"]
)
def test_hand_edits_are_overwritten(hub, tag, status):
    """With overwrite main holds what is pushed, and no tag that was there moves."""
    first, _ = push()
    edit(hub)
    assert push(tag=tag, dry_run=True, overwrite=True)[0].status == f"would be {status}"
    done, said = push(tag=tag, overwrite=True)
    assert (done.status, said) == (status, ["  D notes.txt"])
    assert {path: hub.files(*KEY)[path] for path in FILES} == FILES
    assert "notes.txt" not in hub.files(*KEY)
    assert hub.tags(*KEY)["v1.0.0"] == first.commit
    assert push(tag=tag)[0].status == "unchanged"


def test_hand_edits_after_a_cut_push(hub):
    """What is changed after a push that broke off before its tag is named too."""
    hub.fail("POST", "/tag/", status=500, times=9)
    with pytest.raises(HubError):
        push()
    hub.plans.clear()
    hub.push(*KEY, {"a.csv": b"word\nours\n"}, "an edit")
    with pytest.raises(HubError, match=r"last push: changed a\.csv\."):
        push()
    assert hub.tags(*KEY) == {}


def test_hand_edits_that_are_taken_over(hub):
    """An edit that the pushed files contain is no obstacle; of many five are named."""
    push()
    hub.push(*KEY, {"README.md": b"# better\n"}, "an edit")
    assert push({**FILES, "README.md": b"# better\n"}, tag="v1.0.1")[0].status == "tagged"
    hub.push(*KEY, {"a.csv": b"word\nours\n"}, "an edit")
    with pytest.raises(HubError, match=r"last push: changed a\.csv\."):
        push({**FILES, "README.md": b"# better\n"}, tag="v1.0.1")
    hub.push(*KEY, {"a.csv": FILES["a.csv"]}, "and back")
    hub.push(*KEY, {f"{number}.txt": b"" for number in range(7)}, "edits")
    with pytest.raises(HubError, match=r"added 4\.txt, and 2 more\. Take"):
        push({**FILES, "README.md": b"# better\n"}, tag="v1.0.2")


def test_older_version(hub):
    """Pushing a published version again does not undo a later one."""
    push()
    later, _ = push({**FILES, "b.csv": b"word\nthey\n"}, tag="v1.1.0")
    hub.push(*KEY, {"b.csv": b"word\nours\n"}, "an edit")
    assert push(overwrite=True)[0].status == "unchanged"
    assert hub.files(*KEY)["b.csv"] == b"word\nours\n"
    assert hub.tags(*KEY)["v1.1.0"] == later.commit


def test_push_cut_before_its_tag(hub):
    """A push that broke off before its tag is completed by the next one."""
    hub.fail("POST", "/tag/", status=500, times=9)
    with pytest.raises(HubError):
        push()
    hub.plans.clear()
    (commit, _), *_ = hub.commits(*KEY)
    assert push(dry_run=True)[0].status == "would be tagged"
    assert hub.tags(*KEY) == {}
    assert push()[0].status == "tagged"
    assert hub.tags(*KEY) == {"v1.0.0": commit}
    assert push(dry_run=True)[0].status == "unchanged"
    assert titles(hub).count("Push toy v1.0.0 with swapbias") == 1


def test_cut_push_of_a_refused_file(hub):
    """A push that broke off before its tag gets it, though the Hub refuses all that is still to be written."""
    hub.fail("POST", "/commit/", status=400)
    hub.fail("POST", "/tag/", status=500, times=9)
    with pytest.raises(HubError):
        push(optional=("a.csv",))
    hub.plans.clear()
    (commit, _), *_ = hub.commits(*KEY)
    hub.fail("POST", "/commit/", status=400)
    done, _ = push(optional=("a.csv",))
    assert done.status == "tagged without a.csv, which the Hub refused"
    assert (done.commit, hub.tags(*KEY)) == (commit, {"v1.0.0": commit})
    assert push(optional=("a.csv",))[0].status == "unchanged"


def test_public_repository(hub):
    """A public repository is refused where a private one is wanted."""
    push()
    with pytest.raises(UsageError, match="is public, and a push does not change that"):
        push({**FILES, "b.csv": b"word\n"}, tag="v1.1.0", private=True)
    assert "b.csv" not in hub.files(*KEY)


def test_key_in_a_file(hub):
    """An access key in a file stops the push before a repository is created."""
    with pytest.raises(UsageError, match="access key"):
        push({**FILES, "a.csv": b"word\nhf_" + b"a" * 34 + b"\n"})
    assert hub.repo(*KEY) is None


def test_dry_run_lists_paths(hub):
    """A dry run lists every path with its size and the difference of the card."""
    push({**FILES, "old.csv": b"word\nhe\n"})
    before = len(writes(hub))
    card = CARD.replace(b"# toy", b"# toys")
    done, lines = push(
        {"README.md": card, "a.csv": FILES["a.csv"], "b.csv": b"word\n"}, tag="v2.0.0", dry_run=True
    )
    assert (done.status, done.commit) == ("would be updated", "")
    assert lines[:4] == [
        "dataset alice/toy (public): would be updated, tag v2.0.0",
        f"  M README.md ({len(card)} bytes)",
        "  A b.csv (5 bytes)",
        "  D old.csv",
    ]
    assert "  -# toy, made with swapbias" in lines
    assert "  +# toys, made with swapbias" in lines
    assert "  +word" not in lines  # of the card alone
    assert len(writes(hub)) == before


def test_dry_run_without_control_characters(hub):
    """A dry run shows no control characters of the card on the Hub."""
    push()
    hub.push(*KEY, {"README.md": CARD + b"\x1b]0;owned\x07\n", "old\x1b.csv": b""})
    _, lines = push({**FILES, "b.csv": b""}, tag="v1.1.0", dry_run=True, overwrite=True)
    assert any("owned" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_token_without_write_access(hub):
    """A token without write access is refused before the work begins."""
    with pytest.raises(
        UsageError, match=r"^The token may not write to 'bob', expected one of alice, lab\.$"
    ):
        push_all(DATASET, [], namespace="bob", say=str, complain=str)
    hub.add_user("carol", token="hf_carol", role="read")
    with pytest.raises(HubError, match="may only read"):
        Hub(token="hf_carol").owners()
    with pytest.raises(HubError, match="token"):
        Hub(token="hf_nobody").owners()


def test_failure_of_one_push(hub, monkeypatch):
    """The failure of one push is one sentence, and the others go on."""
    push(private=True)
    trouble = {
        "group_packs": HubError("The Hub refused."),
        "social_distance": OSError(28, "No space left on device", "/x/y"),
    }

    def pushing(hub, name, **options):
        if name in trouble:
            raise trouble[name]
        return push()[0]

    said = []
    complaints = []
    monkeypatch.setattr("swapbias.hub.datasets.push_dataset", pushing)
    names = [*trouble, "gendered_stigma"]
    assert (
        push_all(DATASET, names, namespace="lab", say=said.append, complain=complaints.append) == 1
    )
    assert said[0].startswith("alice/toy: unchanged (private), v1.0.0 at ")
    assert said[1:] == ["1 done, 0 of them changed; 2 failed."]
    assert complaints == [
        "swapbias: group_packs: The Hub refused.",
        "swapbias: social_distance: /x/y: No space left on device. Check the place and its free space.",
    ]


@pytest.mark.parametrize(
    ("repo", "files", "tags", "later"),
    [
        (
            REPO,
            {"README.md": CARD, "x.csv": b"x\n"},
            [],
            {},
        ),  # a tag of swapbias in the header makes it not ours
        (REPO, {".gitattributes": b""}, ["v1.0.0"], {}),
        (SPACE, {".gitattributes": b"", **TEMPLATE}, [], {"app.py": b"my = work"}),
    ],
    ids=["tag in a header", "empty data set", "edited Space"],
)
def test_other_repository_stays(hub, repo, files, tags, later):
    """A repository that no push made is left alone."""
    hub.add_repo(
        repo.kind, repo.name, files=files, tags=tags, sdk="gradio" if repo is SPACE else ""
    )
    hub.push(repo.kind, repo.name, later) if later else None
    before = hub.files(repo.kind, repo.name)
    with pytest.raises(
        UsageError, match="contains something else: none of its commits was made by a push"
    ):
        push_repo(Hub(), repo, FILES, tag="v1.0.0", version_hint="", say=str, sdk="gradio")
    assert hub.files(repo.kind, repo.name) == before


def test_repository_created_meanwhile(hub):
    """A repository that somebody creates meanwhile is not overwritten."""
    theirs = {"README.md": b"# mine\n", "data.csv": b"1\n"}
    hub.on("POST", "/api/repos/create", lambda: hub.add_repo(*KEY, files=theirs))
    with pytest.raises(UsageError, match="contains something else"):
        push()
    assert hub.files(*KEY) == theirs


def test_page_made_by_the_hub(hub):
    """A Space that holds the Hub's template alone counts as new."""
    said = b"\nCheck out the configuration reference at https://huggingface.co/docs/hub/spaces-config-reference\n"
    files = {".gitattributes": b"", **TEMPLATE, "README.md": TEMPLATE["README.md"] + said}
    hub.add_repo("space", SPACE.name, files=files, sdk="gradio")
    done = push_repo(Hub(), SPACE, FILES, tag="v1.0.0", version_hint="", say=str, sdk="gradio")
    assert done.status == "created"
    assert said not in hub.files("space", SPACE.name).get("README.md", b"")


def test_dry_run_says_private(hub):
    """A dry run says that a repository is private."""
    push(private=True)
    _, said = push({**FILES, "b.csv": b""}, tag="v1.1.0", dry_run=True)
    assert said[0] == "dataset alice/toy (private): would be updated, tag v1.1.0"


def test_commands_of_hand_edits(hub, tmp_path, capsys):
    """The commands end with exit code 1 where somebody edited the Hub, and go on with --overwrite."""
    study = new_study(tmp_path / "at_work")[0].parent
    corpus = ("push", "datasets", "occupation_sentiment", "--namespace", "alice")
    for name, words in (
        ("occupation_sentiment", corpus),
        ("at_work", ("study", "push", study, "alice/at_work")),
    ):
        assert command(*words) == 0
        hub.push("dataset", f"alice/{name}", {"README.md": b"# theirs\n"}, "an edit")
        assert command(*words) == 1
        printed = "".join(capsys.readouterr())
        assert (
            f"alice/{name} was changed on the Hub since the last push: changed README.md."
            in printed
        )
        assert "it/s" not in printed  # nor a progress bar
        assert command(*words, "--overwrite") == 0
        assert hub.files("dataset", f"alice/{name}")["README.md"] != b"# theirs\n"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_bars_of_a_push(hub, monkeypatch, is_terminal):
    """The client's progress bars are on during a push to a terminal alone, and afterwards as before."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import are_progress_bars_disabled

    commit = HfApi.create_commit
    disabled = []

    def commit_watched(*arguments, **options):
        disabled.append(are_progress_bars_disabled())
        return commit(*arguments, **options)

    monkeypatch.setattr(HfApi, "create_commit", commit_watched)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
    push()
    assert disabled == [not is_terminal]
    assert not are_progress_bars_disabled()
