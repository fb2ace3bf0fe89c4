"""Shared runs side by side as a static Space: what was read stands beside it, nothing private, nothing twice."""

from dataclasses import replace

import pytest
from huggingface_hub import RepoCard

from swapbias.errors import UsageError
from swapbias.hub.client import Hub
from swapbias.hub.shared_runs import NO_RANKING, PAGE, push_comparison
from tests.hub.clients import command
from tests.hub.shared_runs import GAP, shared

SPACE = "alice/side-by-side"
HOSTILE = "=cmd|'<script>x</script>"


@pytest.fixture
def results(hub):
    """Two repositories of results, one of them somebody else's."""
    hub.add_repo("dataset", "alice/audits", files=shared("mine", [replace(GAP, model_id="small")]))
    theirs = replace(GAP, model_id=HOSTILE, estimate=replace(GAP.estimate, value=-0.1, ci_low=-0.2, ci_high=0.0))
    hub.add_repo("dataset", "bob/audits", files=shared("theirs", [theirs]))
    return hub


def push(*names, **more):
    said = []
    done = push_comparison(Hub(), names or ("alice/audits", "bob/audits"), SPACE, say=said.append, **more)
    return done, said


def test_the_space_is_static_and_says_what_was_read_at_which_commit(results):
    done, _ = push()
    held = results.files("space", SPACE)
    assert (done.status, results.repo("space", SPACE).sdk) == ("created", "static")
    assert {"README.md", PAGE, "side_by_side.csv"} <= set(held)
    card = held["README.md"].decode()
    assert RepoCard(card).data.to_dict()["app_file"] == PAGE
    for name in ("alice/audits", "bob/audits"):
        (commit, _), *_ = results.commits("dataset", name)
        assert f"/datasets/{name}/tree/{commit})" in card
    assert NO_RANKING in card
    for value in ("+0.250", "−0.100"):
        assert value in held[PAGE].decode()


def test_a_strangers_name_is_text_on_the_card_and_the_page(results):
    push()
    held = results.files("space", SPACE)
    page = held[PAGE].decode()
    assert "<script>x" not in page + held["README.md"].decode()
    assert "&lt;script&gt;x" in page


def test_the_same_results_change_nothing_and_new_ones_make_a_commit_and_a_tag(results):
    first, _ = push()
    assert push()[0].status == "unchanged"
    results.push("dataset", "bob/audits", shared("more", [replace(GAP, model_id="third")]), "more")
    second, _ = push()
    assert second.status == "updated"
    assert results.tags("space", SPACE) == {first.tag: first.commit, second.tag: second.commit}
    assert "third" in results.files("space", SPACE)[PAGE].decode()


def test_private_results_are_shown_to_nobody_who_could_not_read_them(results):
    results.repo("dataset", "alice/audits").private = True
    with pytest.raises(UsageError, match=r"alice/audits is private.*Add --private"):
        push()
    assert ("space", SPACE) not in results.repositories
    assert push(private=True)[0].private
    with pytest.raises(UsageError, match="alice/audits is private"):
        push(private=False)


def test_what_cannot_be_read_is_named_and_too_little_is_refused(results):
    done, said = push("alice/audits", "bob/audits", "bob/gone", dry_run=True)
    assert (done.status, said[0].startswith("Left out: bob/gone is no dataset repository")) == (
        "would be created",
        True,
    )
    with pytest.raises(UsageError, match="1 shared runs can be read, expected two or more"):
        push("alice/audits")
    assert ("space", SPACE) not in results.repositories


def test_the_script_pushes_and_refuses_in_a_sentence(results, capsys):
    assert command("push", "comparison", SPACE, "alice/audits", "bob/audits", "--dry-run") == 0
    assert f"A {PAGE} (" in capsys.readouterr().out
    assert command("push", "comparison", "bob/side", "alice/audits", "bob/audits") == 2
    assert capsys.readouterr().err.startswith("swapbias: The token may not write to 'bob'")
    assert command("push", "comparison", SPACE, "alice/audits") == 1
    assert "expected two or more" in capsys.readouterr().err
