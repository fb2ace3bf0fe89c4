"""A run proposed to the owners of a model: asked for, once, and never again after a no."""

import re

import pytest

from swapbias.errors import HubError, UsageError
from swapbias.hub.client import Hub
from swapbias.hub.shared_runs import COMMIT, PULL_REQUEST, TITLE, ShareOptions, share_run as share
from tests.hub.clients import writes
from tests.hub.own_runs import edited, limited
from tests.hub.sharing_runs import EVAL, MODEL, WEIGHTS, propose, statuses

pytestmark = pytest.mark.usefixtures("packed_once")


def test_a_strangers_model_gets_two_files_in_a_pull_request_and_nothing_else(models, run):
    assert statuses(propose(run)) == ["created", "pull request opened"]
    (one,) = models.repo("model", "bob/m").pulls
    assert set(models.files("model", "bob/m")) == {"README.md", *WEIGHTS}  # main is untouched
    proposed = models.files("model", "bob/m", revision="refs/pr/1")
    assert set(proposed) == {"README.md", *WEIGHTS, EVAL}
    assert proposed["README.md"].startswith(b"# Bob's\n")
    assert b"## Bias audit" in proposed["README.md"]
    assert "value: 0.9\n" in proposed[EVAL].decode()  # by hand: 1 - |-.1|, higher is fairer
    assert re.search(r"url: \S+/tree/[0-9a-f]{40}/runs/", proposed[EVAL].decode())
    assert "!!" not in proposed[EVAL].decode()
    assert (one.author, one.status) == ("alice", "open")


def test_nothing_is_proposed_unasked(models, run):
    with pytest.raises(UsageError, match="Add --create-pr"):
        propose(run, how="")
    with pytest.raises(UsageError, match="not yours, and nobody writes to it unasked"):
        propose(run, how=COMMIT)
    with pytest.raises(UsageError, match="could not open private results"):
        propose(run, results="alice/audits", public=False)
    assert models.repo("model", "bob/m").pulls == []
    assert writes(models) == []


def test_an_open_pull_request_is_not_doubled(models, run, later_run):
    propose(run)
    assert statuses(propose(run)) == ["unchanged", "not proposed again: pull request 1 is open"]
    for again in (False, True):
        status = statuses(propose(later_run, again=again))[1]
        assert status == "not proposed again: pull request 1 is open"
    assert len(models.repo("model", "bob/m").pulls) == 1


def test_a_part_of_the_prompts_is_not_proposed_beside_whole_audits(models, run, tmp_path):
    part = limited(run, tmp_path / "part", 40)
    with pytest.raises(UsageError, match="The run read at most 40 rows of each table"):
        propose(part)
    assert writes(models) == []


def test_the_same_numbers_of_another_day_are_not_proposed_again(models, run, tmp_path):
    propose(run)
    models.repo("model", "bob/m").pulls[0].status = "closed"
    again = edited(run, tmp_path / "again", finished="2031-01-01T00:00:00+00:00")
    assert statuses(propose(again)) == ["updated", "not proposed again: pull request 1 is closed"]
    assert statuses(propose(again, again=True))[1] == "pull request opened"


def test_what_the_owners_took_out_after_they_merged_it_is_not_proposed_again(models, run):
    propose(run)
    models.merge_pull_request("model", "bob/m", 1)
    assert statuses(propose(run)) == ["unchanged", "unchanged"]  # nothing is left to do
    models.push("model", "bob/m", {}, "no", delete=[EVAL])
    assert statuses(propose(run))[1] == "not proposed again: pull request 1 is merged"
    assert statuses(propose(run, again=True))[1] == "pull request opened"


def test_a_model_without_pull_requests_is_refused_before_anything_is_published(hub, run):
    hub.add_repo("model", "bob/m", files={"README.md": b"# Bob's\n", **WEIGHTS}, discussions=False)
    with pytest.raises(HubError, match="Discussions are disabled"):
        propose(run)
    assert ("dataset", "alice/open") not in hub.repositories


def test_a_rehearsal_tells_what_would_happen_to_the_pull_request(models, run, later_run):
    said = []

    def rehearsed(one):
        said.clear()
        wanted = ShareOptions(
            results="alice/open", model="bob/m", how=PULL_REQUEST, audited=MODEL, public=True, dry_run=True
        )
        return statuses(share(one, wanted, Hub(), say=said.append))

    assert rehearsed(run) == ["would be created", "pull request would be opened"]
    shown = "\n".join(said)
    assert f"Title: {TITLE}" in shown
    assert "Description: Gap" in shown
    assert "Adds this with intervals, limits and the command that repeats it to the card" in shown
    assert "value: 0.9" in shown
    propose(run)
    assert rehearsed(run) == ["unchanged", "not proposed again: pull request 1 is open"]
    assert rehearsed(later_run) == ["would be updated", "not proposed again: pull request 1 is open"]
    models.repo("model", "bob/m").pulls[0].status = "closed"
    assert rehearsed(run) == ["unchanged", "not proposed again: pull request 1 is closed"]
