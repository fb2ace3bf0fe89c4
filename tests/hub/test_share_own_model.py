"""A run on the card of one's own model: beside all that is there, and never as more than was measured."""

import hashlib
import re
from dataclasses import replace

import pytest
import yaml

from swapbias.errors import HubError, UsageError
from swapbias.hub.cards import markdown, prompts_read
from swapbias.hub.client import Hub, Repo
from swapbias.hub.shared_runs import commit_read, findings_of
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
from swapbias.studies.catalogue import load_corpus
from tests.hub.card_findings import without_section
from tests.hub.own_runs import QUIET, edited, limited
from tests.hub.shared_runs import GAP
from tests.hub.sharing_runs import COMMITS, EVAL, MODEL, README, of_weights, own, propose, put, statuses

pytestmark = pytest.mark.usefixtures("packed_once")

TAG = f"v{load_corpus('occupation_sentiment').version}"


@pytest.fixture(scope="module")
def other_study(tmp_path_factory):
    asked = Settings(model=MODEL, studies=("social_distance:sentiment",))
    return of_weights(start(asked, tmp_path_factory.mktemp("other") / "run", **QUIET)[0])


def entries_of(models):
    return yaml.safe_load(models.files("model", "alice/m")[EVAL])


def test_the_own_card_gets_a_section_and_keeps_every_other_byte(models, run):
    assert statuses(own(run)) == ["created", "updated"]
    held = models.files("model", "alice/m")
    card = held["README.md"].decode()
    assert "## Bias audit" in card
    assert "−10.0 points" in card  # by hand: .5 minus .6 in every pair that differs
    assert "value: 0.9\n" in held[EVAL].decode()  # by hand: 1 - |-.1|, higher is fairer
    assert held["model.safetensors"] == b"w"
    assert without_section(card) == README
    source = re.search(r"tree/([0-9a-f]{40})/runs/", card)[1]
    assert source == models.commits("dataset", "alice/audits")[0][0]
    assert f"measured alice/m, audited as {markdown(MODEL)}, which has the same weights" in card
    assert "\nswapbias audit alice/m --study occupation_sentiment:sentences\n```" in card


def test_sharing_twice_changes_nothing_even_when_others_shared_in_between(models, run, tmp_path):
    own(run)
    card = models.files("model", "alice/m")["README.md"]
    before = models.commits("model", "alice/m")
    put(edited(run, tmp_path / "seed", settings=run.manifest()["settings"] | {"seed": 7}))
    for more in ({"dry_run": True}, {}):
        assert statuses(own(run, **more)) == ["unchanged", "unchanged"]
    assert models.files("model", "alice/m")["README.md"] == card
    assert models.commits("model", "alice/m") == before


def test_a_card_that_cannot_be_added_to_stops_everything_before_anything_is_written(models, run):
    models.push("model", "alice/m", {"README.md": b"---\n{ a: b\n---\n# M\n"}, "broken")
    with pytest.raises(ValueError, match=r"alice/m/README\.md"):
        own(run)
    assert not [path for method, path, _ in models.log if method == "POST" and "create" in path]


def test_when_the_card_fails_the_results_stay_and_the_next_try_finishes(models, run):
    models.fail("POST", COMMITS, status=403, times=1)
    with pytest.raises(
        HubError, match=r"The results are at http.*, but alice/m was not changed: .*The token may not"
    ):
        own(run)
    assert models.files("model", "alice/m")["README.md"].decode() == README
    assert statuses(own(run)) == ["unchanged", "updated"]


def test_somebody_who_writes_in_between_is_not_overwritten(models, run):
    edited_by_hand = README.replace("By alice.", "By alice and bob.")
    models.on(
        "POST", COMMITS, lambda: models.push("model", "alice/m", {"README.md": edited_by_hand.encode()}, "hand")
    )
    with pytest.raises(HubError, match="Somebody else wrote in between"):
        own(run)
    own(run)
    card = models.files("model", "alice/m")["README.md"].decode()
    assert without_section(card) == edited_by_hand


def test_a_second_study_stands_beside_the_first_and_each_is_replaced_alone(models, run, later_run, other_study):
    models.add_repo("dataset", "swapbias/social_distance", tags=[f"v{load_corpus('social_distance').version}"])
    own(run)
    alone = models.files("model", "alice/m")["README.md"].decode()
    own(other_study)
    both = models.files("model", "alice/m")["README.md"].decode()
    assert both.count("## Bias audit") == 1
    assert "### occupation\\_sentiment" in both
    assert "### social\\_distance" in both
    audited = [one["dataset"]["id"] for one in entries_of(models)]
    assert audited == ["swapbias/occupation_sentiment", "swapbias/social_distance"]
    assert statuses(own(run)) == statuses(own(other_study)) == ["unchanged", "unchanged"]
    assert statuses(own(later_run)) == ["updated", "updated"]
    later = models.files("model", "alice/m")["README.md"].decode()
    start, end = (f"<!-- swapbias:{what} social_distance -->" for what in ("begin", "end"))
    assert both[both.index(start) : both.index(end)] == later[later.index(start) : later.index(end)]
    assert later.count("## Bias audit") == 1
    assert "−20.0 points" in later
    assert "−10.0 points" not in later
    assert without_section(later) == README
    assert alone != later


def test_a_part_of_the_prompts_is_not_listed_as_the_whole_data_set(models, run, tmp_path):
    commit = models.add_repo("dataset", "swapbias/occupation_sentiment", tags=[TAG])
    own(limited(run, tmp_path / "part", 40))
    assert EVAL not in models.files("model", "alice/m")
    assert "Read: at most 40 rows of each table" in models.files("model", "alice/m")["README.md"].decode()
    own(run)
    (whole,) = entries_of(models)
    assert whole["dataset"]["revision"] == commit


def test_a_commit_of_the_data_set_is_named_only_for_the_rows_that_it_holds(models, run, tmp_path):
    models.add_repo("dataset", "swapbias/occupation_sentiment", tags=[TAG])
    corpora = [{**one, "sha256": "00" * 32} for one in run.manifest()["corpora"]]  # of a later table
    own(edited(run, tmp_path / "older", corpora=corpora), findings_only=True)
    assert EVAL not in models.files("model", "alice/m")


def test_model_index_entries_stay_byte_for_byte_and_results_of_others_stay(models, run):
    header = (
        "model-index:\n- name: m   # mine\n  results:\n  # swapbias:begin\n"
        "  - {task: {type:  x}, dataset: {type: a/b, name: B},"
        " source: {name: swapbias, url: https://a.b}, metrics: [{type: gap, value: 0.10}]}\n  # swapbias:end\n"
    )
    theirs = "# by hand\n- dataset: {id: other/bench,  task_id: t}\n  value: 0.50\n"
    before = f"---\n{header}---\n# M\n"
    models.push("model", "alice/m", {"README.md": before.encode(), EVAL: theirs.encode()}, "theirs")
    own(run)
    held = models.files("model", "alice/m")
    assert without_section(held["README.md"].decode()) == before
    assert yaml.safe_load(held[EVAL])[:1] == yaml.safe_load(theirs)
    assert b"occupation_sentiment" in held[EVAL]
    assert statuses(own(run)) == ["unchanged", "unchanged"]


def test_the_own_card_and_its_numbers_can_be_proposed_first(models, run):
    assert statuses(propose(run, model="alice/m")) == ["created", "pull request opened"]
    assert set(models.files("model", "alice/m")) == {"README.md", "model.safetensors"}
    proposed = models.files("model", "alice/m", revision="refs/pr/1")
    assert EVAL in proposed
    assert without_section(proposed["README.md"].decode()) == README
    assert statuses(propose(run, model="alice/m"))[1] == "not proposed again: pull request 1 is open"


def test_other_configs_than_the_usual_are_named():
    manifest = {
        "settings": {"limit": None}, "corpora": [{"corpus": "gendered_stigma", "config": "rq1_original", "rows": 10}],
    }  # fmt: skip
    read = prompts_read(manifest, "gendered_stigma", "rq1")
    assert read == "config rq1_original in place of the usual one"
    manifest["corpora"][0]["config"] = "rq1"
    assert prompts_read(manifest, "gendered_stigma", "rq1") == ""


def test_findings_are_of_the_model_that_is_named():
    found = [replace(GAP, model_id=name) for name in ("m", "bob/m")]
    assert {one.model_id for one in findings_of(found, "bob/m", None)} == {"bob/m"}
    assert {one.model_id for one in findings_of(found, "alice/m", "m")} == {"m"}
    for model, audited, words in (("alice/m", None, "alice/m is none of them"), ("bob/m", "x", "Correct --audited")):
        with pytest.raises(UsageError, match=words):
            findings_of(found, model, audited)


def weights_of(models, identity, model="bob/m"):
    return commit_read(Hub(), Repo("model", model), {"models": [identity]}, identity["model_id"])


def test_no_model_is_taken_for_one_of_the_hub_that_only_has_its_name(models):
    for odd in (
        {"model_id": "bob/m", "sha256": "a" * 64},  # in memory, or a function
        {"model_id": "bob/m", "host": "own endpoint", "revision": "c" * 40},
        {"model_id": "bob/m", "provider": "together", "host": ""},
        {"model_id": "bob/m", "revision": "c" * 40},  # no commit of it
        {"model_id": "m", "revision": "c" * 40},
    ):
        with pytest.raises(UsageError, match="Nothing tells which weights the run read as"):
            weights_of(models, odd)
    other = {"model.safetensors": hashlib.sha256(b"other").hexdigest()}
    with pytest.raises(UsageError, match="bob/m has other weights than m, which the run read"):
        weights_of(models, {"model_id": "m", "weights": other})


def test_a_model_is_the_one_on_the_hub_by_its_commit_or_by_the_sha256_of_its_weights(models):
    (commit, _), *_ = models.commits("model", "bob/m")
    held = {"model.safetensors": hashlib.sha256(b"w").hexdigest()}
    assert weights_of(models, {"model_id": "bob/m", "revision": commit}) == commit
    assert weights_of(models, {"model_id": "m", "sha256": "a" * 64, "weights": held}) == ""
    features = {"sha256": "a" * 64, "weights": held}  # of an encoder whose classifier the audit trained
    assert weights_of(models, {"model_id": "m+svm", "features": features}) == ""
    # Another repository on the Hub with the same weights, and one with others.
    assert weights_of(models, {"model_id": "bob/m", "revision": commit}, "alice/m") == ""
    models.push("model", "alice/m", {"model.safetensors": b"trained further"}, "more")
    with pytest.raises(UsageError, match="alice/m has other weights than bob/m"):
        weights_of(models, {"model_id": "bob/m", "revision": commit}, "alice/m")


def test_pickled_weights_count_where_there_are_no_others(models):
    pickled = {"pytorch_model.bin": b"w", "optimizer.bin": b"x"}
    models.add_repo("model", "bob/old", files=pickled)
    held = {"pytorch_model.bin": hashlib.sha256(b"w").hexdigest()}
    identity = {"model_id": "m", "weights": held}
    assert weights_of(models, identity, "bob/old") == ""
    models.push("model", "bob/old", {"model.safetensors": b"read in their place"}, "more")
    with pytest.raises(UsageError, match="has other weights"):
        weights_of(models, identity, "bob/old")


def test_other_weights_refuse_a_share_before_anything_is_written(models, run):
    models.push("model", "alice/m", {"model.safetensors": b"trained further"}, "more")
    with pytest.raises(UsageError, match="alice/m has other weights than"):
        own(run)
    with pytest.raises(UsageError, match="alice/m has other weights than"):
        own(run, dry_run=True)
    assert ("dataset", "alice/audits") not in models.repositories
