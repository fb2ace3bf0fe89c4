"""Sharing a run: private data stays, results are updated in place, cards, pull requests and
commands."""

import hashlib
import re
from dataclasses import replace
from functools import cache

import pytest
import yaml
from huggingface_hub import ModelCard

from swapbias import Audit
from swapbias.errors import HubError, UsageError
from swapbias.hub import bundle, share
from swapbias.hub.cards import TAGS, markdown, with_keys
from swapbias.hub.client import Hub
from swapbias.hub.repository import Repo
from swapbias.hub.run_cards import BEGIN, END, prompts_read
from swapbias.hub.share import COMMIT, PULL_REQUEST, TITLE, commit_read, findings_of
from swapbias.privacy import credentialed
from swapbias.runs.audit import start
from swapbias.runs.settings import Settings
from swapbias.studies.catalogue import load_corpus
from tests.hub.clients import command, writes
from tests.hub.own_runs import MODEL, QUIET, README, WEIGHTS, edited, limited, of_weights
from tests.hub.shared_runs import GAP

COMMITS = r"/api/models/.*/commit/"
EVAL = ".eval_results/swapbias.yaml"
bundle_once = cache(bundle.bundle_run)


@pytest.fixture(autouse=True)
def packed_once(monkeypatch):
    """Packing draws every figure: runs that nobody edits are packed once (``test_bundle`` tests packing itself)."""
    monkeypatch.setattr(share, "bundle_run", bundle_once)


def share_results(run, results="alice/audits", *, say=str, **options):
    return share.share_run(run, share.ShareOptions(results=results, **options), Hub(), say=say)


def share_on_page(run, **options):
    return share_results(run, model="alice/m", model_change=COMMIT, audited=MODEL, **options)


def propose(run, model="bob/m", **options):
    usual = {
        "results": "alice/open",
        "public": True,
        "model_change": PULL_REQUEST,
        "audited": MODEL,
    }
    return share_results(run, **{**usual, **options}, model=model)


def statuses(done):
    return [step.status for step in done]


def as_it_was(card):
    """A card without what was added to it: the section at its end, and its results in the header."""
    return re.sub(r"^model-index:\n(?:[- ].*\n)+(?=---$)", "", without_section(card), flags=re.M)


def without_section(card):
    """A card without the section that was added to its end."""
    before, _, section = card.partition(f"\n{BEGIN}")
    assert section.index(END) == len(section) - len(f"{END}\n")
    return before


def test_credentialed_run_asks_nothing(hub, run, tmp_path):
    """A credentialed run is refused before any request to the Hub."""
    copied = edited(run, tmp_path / "held")
    credentialed.mark(copied.folder)
    for more in (
        {},
        {"findings_only": True},
        {"dry_run": True},
        {"model": "alice/m", "model_change": COMMIT},
    ):
        with pytest.raises(UsageError, match="credentialed clinical data"):
            share_results(copied, **more)
    assert hub.log == []


def test_private_data_stops_the_share(hub, run, monkeypatch, tmp_path):
    """A key or a path of the machine stops the share and its dry run."""
    monkeypatch.setenv(
        "SWAPBIAS_API_KEY", "is a doctor"
    )  # stands in the texts of the scored prompts
    place = tmp_path / "place"
    skipped_here = [
        {"study": "occupation_sentiment", "experiment": "x", "reason": f"no file {place} here"}
    ]
    named = edited(run, place, skipped=skipped_here)
    for dry_run in (False, True):
        with pytest.raises(
            UsageError,
            match=r"occupation_sentiment\.parquet contains the value of SWAPBIAS_API_KEY",
        ):
            share_results(run, dry_run=dry_run)
        with monkeypatch.context() as patch:
            patch.delenv("SWAPBIAS_API_KEY")
            with pytest.raises(UsageError, match="names a place of this machine"):
                share_results(named, dry_run=dry_run)
    assert ("dataset", "alice/audits") not in hub.repositories  # no empty one is left behind


def test_dry_run_names_every_file(models, run):
    """A dry run writes nothing and names every file."""
    calls = []
    assert statuses(share_results(run, dry_run=True, say=calls.append)) == ["would be created"]
    assert writes(models) == []
    share_results(run)
    there = {path for path in models.files("dataset", "alice/audits") if path != ".gitattributes"}
    assert {line.split()[1] for line in calls if line.startswith("  A ")} == there


SHARE = ("--results", "alice/audits", "--model", "alice/m", "--audited", MODEL, "--commit")


def test_share_command(models, run, capsys):
    """The command shares a run and names the options that need each other."""
    assert command("share", run.folder, *SHARE) == 0
    assert "alice/m: updated." in capsys.readouterr().out
    assert command("share", run.folder, "--results", "alice/audits", "--commit") == 2
    assert "--commit needs --model" in capsys.readouterr().err
    assert command("share", run.folder, *SHARE, "--again") == 2
    assert "--again needs --create-pr" in capsys.readouterr().err


def test_plan_from_a_shared_run(models, run, capsys):
    """A plan takes spreads and speed from a shared run."""
    assert command("share", run.folder, *SHARE) == 0
    capsys.readouterr()
    assert (
        command("plan", "vader", "--study", "occupation_sentiment", "--like", "alice/audits") == 0
    )
    shown = capsys.readouterr().out
    # The model of this run gives all pairs one gap.
    assert "alice/audits shows no spread of this gap" in shown
    manifest = run.manifest()  # whose times are to the second
    assert ("at the speed of alice/audits" in shown) == (manifest["started"] < manifest["finished"])


def test_check_of_a_shared_run(models, run, capsys, tmp_path):
    """A shared run can be checked and can be a baseline."""
    assert command("share", run.folder, *SHARE) == 0
    capsys.readouterr()
    alone = command("check", run.folder)
    assert command("check", "alice/audits") == alone
    assert command("check", run.folder, "--baseline", "alice/audits") == 0
    assert "both models score these prompts the same" in capsys.readouterr().out
    Audit.open(run.folder).assert_below(0.05, baseline="alice/audits")
    assert command("check", run.folder, "--baseline", "alice/gone") == 2
    assert "alice/gone is no folder here, and no run on the Hub" in capsys.readouterr().err
    corpora = [{**one, "sha256": "0" * 64} for one in run.manifest()["corpora"]]
    other = edited(run, tmp_path / "other", corpora=corpora)
    assert command("check", other.folder, "--baseline", "alice/audits") == 2
    assert "the runs read different prompts" in capsys.readouterr().err


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["plain", "debug"])
def test_failure_hides_the_token(models, run, capsys, debug):
    """A failure of the Hub is one sentence and never shows the token."""
    models.fail("*", r"/api/", status=500, times=-1)
    assert command("share", run.folder, "--results", "alice/audits", *debug) == 1
    printed = capsys.readouterr()
    assert "The Hub has trouble of its own" in printed.err
    assert "hf_alice" not in printed.err + printed.out
    if not debug:
        assert printed.err.count("\n") == 1


def test_private_results_are_updated(hub, run, later_run, tmp_path):
    """Results go to a private repository once and are updated in place."""
    key = ("dataset", "alice/audits")
    assert statuses(share_results(run)) == ["created"]
    assert hub.repo(*key).private
    paths = set(hub.files(*key))
    (name,) = {path.split("/")[1] for path in paths if path.startswith("runs/")}
    parts = (
        "manifest.json",
        "results.json",
        "findings.csv",
        "report.html",
        "items/occupation_sentiment.parquet",
    )
    assert {f"runs/{name}/{part}" for part in parts} <= paths
    before = hub.commits(*key)
    assert statuses(share_results(run)) == ["unchanged"]
    assert hub.commits(*key) == before
    assert statuses(share_results(later_run)) == ["updated"]
    assert set(hub.files(*key)) == paths
    # A figure that the run lost goes, and nothing else does. What its owner wrote into the card stays.
    card = (
        with_keys(hub.files(*key)["README.md"].decode(), OWNER_HEADER, file="")
        + "\n## Notes\n\nBy alice.\n"
    )
    odd = {
        f"runs/{name}/figures/old.svg": b"<svg/>",
        "notes.md": b"mine",
        "README.md": card.encode(),
    }
    hub.push(*key, odd, "by hand")
    assert statuses(share_results(later_run)) == ["updated"]
    assert set(hub.files(*key)) == {*paths, "notes.md"}
    # An audit of another seed stands beside it.
    share_results(edited(run, tmp_path / "seed", settings=run.manifest()["settings"] | {"seed": 7}))
    runs = {path.split("/")[1] for path in hub.files(*key) if path.startswith("runs/")}
    assert len(runs) == 2
    after = hub.files(*key)["README.md"].decode()
    assert all(f"\n## {one}\n" in after for one in runs)
    assert after.endswith("\n\n## Notes\n\nBy alice.\n")
    header = yaml.safe_load(after.split("---\n")[1])
    ours = header["configs"][:3]  # the findings, and the prompts of each run
    expected = OWNER_HEADER | {
        "license": ["cc-by-4.0", "apache-2.0", "mit"],
        "configs": [*ours, *OWNER_HEADER["configs"]],
    }
    assert header == {**header, **expected}


OWNER_HEADER = {
    "license": "cc-by-4.0", "pretty_name": "Audits of the lab", "homepage": "https://a.b", "tags": ["lab", *TAGS],
    "configs": [{"config_name": "extra", "data_files": "extra/*.csv"}],
}  # fmt: skip


def test_other_repository_stays(hub, run):
    """A repository that holds something else is left alone."""
    hub.add_repo(
        "dataset", "alice/data", files={"README.md": b"# Data\n", "a.csv": b"1\n"}, private=True
    )
    with pytest.raises(UsageError, match="contains something else than shared runs"):
        share_results(run, results="alice/data")
    logs = {"README.md": b"# Training logs\n", "runs/exp1/results.json": b'{"loss": 1}'}
    hub.add_repo("dataset", "alice/logs", files=logs, private=True)
    with pytest.raises(UsageError, match="contains something else than shared runs"):
        share_results(run, results="alice/logs")
    assert hub.files("dataset", "alice/logs") == logs
    with pytest.raises(UsageError, match=r"bob/x is not yours: expected one of alice, lab"):
        share_results(run, results="bob/x")


def test_visibility_is_never_changed(hub, run):
    """The visibility of a repository is never changed and never guessed."""
    hub.add_repo("dataset", "alice/seen", files={}, private=False)
    hub.add_repo("dataset", "alice/hidden", files={}, private=True)
    with pytest.raises(
        UsageError, match=r"is public, and runs are shared privately unless you say --public"
    ):
        share_results(run, results="alice/seen")
    with pytest.raises(UsageError, match="is private, with all that it contains"):
        share_results(run, results="alice/hidden", public=True)
    assert not hub.repo("dataset", "alice/seen").private
    assert hub.repo("dataset", "alice/hidden").private
    share_results(run, results="alice/seen", public=True)


def test_repository_made_public_meanwhile(hub, run):
    """Nothing is written to a repository that turns out to be public."""
    hub.on("POST", "repos/create", lambda: hub.add_repo("dataset", "alice/audits", private=False))
    with pytest.raises(UsageError, match="Somebody changed alice/audits in between"):
        share_results(run)
    assert not hub.files("dataset", "alice/audits")

    def opened():
        hub.repo("dataset", "alice/later").private = False

    hub.add_repo("dataset", "alice/later", private=True)
    hub.on(
        "GET", r"datasets/alice/later/refs", opened
    )  # after its visibility was read for the first time
    with pytest.raises(UsageError, match="Somebody changed alice/later in between"):
        share_results(run, results="alice/later")
    assert not hub.files("dataset", "alice/later")


@pytest.fixture(scope="module")
def other_study(tmp_path_factory):
    settings = Settings(model=MODEL, studies=("social_distance:sentiment",))
    return of_weights(start(settings, tmp_path_factory.mktemp("other") / "run", **QUIET)[0])


def entries_of(models):
    return yaml.safe_load(models.files("model", "alice/m")[EVAL])


def test_section_in_own_card(models, run):
    """The card of the user's model gets a section and keeps every other byte."""
    assert statuses(share_on_page(run)) == ["created", "updated"]
    files = models.files("model", "alice/m")
    card = files["README.md"].decode()
    assert "## Bias audit" in card
    assert "−10.0 points" in card  # by hand: .5 minus .6 in every pair that differs
    assert " with the prompts of this study." in card
    assert "value: 0.9\n" in files[EVAL].decode()  # by hand: 1 - |-.1|, higher is fairer
    assert files["model.safetensors"] == b"w"
    assert as_it_was(card) == README
    source = re.search(r"tree/([0-9a-f]{40})/runs/", card)[1]
    assert source == models.commits("dataset", "alice/audits")[0][0]
    assert f"measured alice/m, audited as {markdown(MODEL)}, which has the same weights" in card
    assert "\nswapbias audit alice/m --study occupation_sentiment:sentences\n```" in card


def test_sharing_twice(models, run, tmp_path):
    """Sharing twice changes nothing, also when others shared in between."""
    share_on_page(run)
    card = models.files("model", "alice/m")["README.md"]
    before = models.commits("model", "alice/m")
    share_results(edited(run, tmp_path / "seed", settings=run.manifest()["settings"] | {"seed": 7}))
    for more in ({"dry_run": True}, {}):
        assert statuses(share_on_page(run, **more)) == ["unchanged", "unchanged"]
    assert models.files("model", "alice/m")["README.md"] == card
    assert models.commits("model", "alice/m") == before


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ({"README.md": b"---\n{ a: b\n---\n# M\n"}, r"alice/m/README\.md"),
        ({"README.md": b"---\nlicense:\tmit\n---\n"}, r"alice/m/README\.md:2: its YAML"),
        ({"README.md": b"---\na: 1\na: 2\n---\n"}, r"alice/m/README\.md:3: this key .* twice"),
        ({"README.md": f"---\na: 1\n---\n{BEGIN}\n".encode()}, r"alice/m/README\.md:4: 1 lines"),
        ({"model.safetensors": b"trained further"}, "alice/m has other weights than"),
    ],
    ids=["card", "tab", "key twice", "marker", "weights"],
)
def test_unusable_page(models, run, there, message):
    """A page that cannot take the section stops everything before the first write."""
    models.push("model", "alice/m", there)
    for dry_run in (True, False):
        with pytest.raises(ValueError, match=message):
            share_on_page(run, dry_run=dry_run)
    assert writes(models) == []


def test_failed_card(models, run):
    """If the card fails, the results stay and the next try finishes."""
    models.fail("POST", COMMITS, status=403, times=1)
    with pytest.raises(
        HubError,
        match=r"The results are at http.*, but alice/m was not changed: .*The token may not",
    ):
        share_on_page(run)
    assert models.files("model", "alice/m")["README.md"].decode() == README
    assert statuses(share_on_page(run)) == ["unchanged", "updated"]


@pytest.mark.parametrize(
    ("commits", "again"), [(0, ["unchanged", "updated"]), (1, ["unchanged", "unchanged"])]
)
def test_lost_answer(models, run, commits, again):
    """A commit whose answer is lost is there: the next try goes on after it."""
    models.fail("POST", "/commit/", times=-1, skips=commits, unanswered=True)
    with pytest.raises(HubError, match="could not be reached to write to alice/"):
        share_on_page(run)
    models.plans.clear()
    assert statuses(share_on_page(run)) == again
    assert len(models.commits("model", "alice/m")) == 2


def test_lost_answer_of_a_pull_request(models, run):
    """A pull request whose answer is lost is not opened a second time."""
    models.fail("POST", COMMITS, unanswered=True)
    with pytest.raises(HubError, match="could not be reached to write to bob/m"):
        propose(run)
    assert statuses(propose(run)) == ["unchanged", "not proposed again: pull request 1 is open"]


def test_card_edited_meanwhile(models, run):
    """A card that somebody edits meanwhile is not overwritten."""
    edited_by_hand = README.replace("By alice.", "By alice and bob.")
    models.on(
        "POST",
        COMMITS,
        lambda: models.push("model", "alice/m", {"README.md": edited_by_hand.encode()}, "hand"),
    )
    with pytest.raises(HubError, match="Somebody else wrote in between"):
        share_on_page(run)
    share_on_page(run)
    card = models.files("model", "alice/m")["README.md"].decode()
    assert as_it_was(card) == edited_by_hand


def test_second_study(models, run, later_run, other_study):
    """A second study stands beside the first, and each is replaced alone."""
    models.add_repo(
        "dataset", "swapbias/social_distance", tags=[f"v{load_corpus('social_distance').version}"]
    )
    share_on_page(run)
    share_on_page(other_study)
    both = models.files("model", "alice/m")["README.md"].decode()
    assert both.count("## Bias audit") == 1
    assert "### occupation\\_sentiment" in both
    assert "### social\\_distance" in both
    audited = [one["dataset"]["id"] for one in entries_of(models)]
    assert audited == ["swapbias/occupation_sentiment", "swapbias/social_distance"]
    assert (
        statuses(share_on_page(run))
        == statuses(share_on_page(other_study))
        == ["unchanged", "unchanged"]
    )
    assert statuses(share_on_page(later_run)) == ["updated", "updated"]
    later = models.files("model", "alice/m")["README.md"].decode()
    start, end = (f"<!-- swapbias:{what} social_distance -->" for what in ("begin", "end"))
    assert both[both.index(start) : both.index(end)] == later[later.index(start) : later.index(end)]
    assert later.count("## Bias audit") == 1
    assert "−20.0 points" in later
    assert "−10.0 points" not in later
    assert as_it_was(later) == README


def test_partial_prompts_have_no_entry(models, run, tmp_path):
    """A part of the prompts, or other rows, are not listed as the data set."""
    (commit, _), *_ = models.commits("dataset", "swapbias/occupation_sentiment")
    corpora = [
        {**one, "sha256": "00" * 32} for one in run.manifest()["corpora"]
    ]  # of a later table
    share_on_page(edited(run, tmp_path / "older", corpora=corpora), findings_only=True)
    assert EVAL not in models.files("model", "alice/m")
    assert b"model-index" not in models.files("model", "alice/m")["README.md"]
    share_on_page(limited(run, tmp_path / "part", 40))
    assert EVAL not in models.files("model", "alice/m")
    for key in (("model", "alice/m"), ("dataset", "alice/audits")):
        assert "Read: at most 40 rows of each table" in models.files(*key)["README.md"].decode()
    share_on_page(run)
    (whole,) = entries_of(models)
    assert whole["dataset"]["revision"] == commit


def test_model_index_stays(models, run):
    """Entries of model-index stay byte-equal where ours is added, and results of others stay."""
    header = (
        "model-index:\n- name: m   # mine\n  results:\n  # swapbias:begin\n"
        "  - {task: {type:  x}, dataset: {type: a/b, name: B},"
        " source: {name: swapbias, url: https://a.b}, metrics: [{type: gap, value: 0.10}]}\n  # swapbias:end\n"
    )
    theirs = "# by hand\n- dataset: {id: other/bench,  task_id: t}\n  value: 0.50\n"
    before = f"---\n{header}---\n# M\n"
    models.push("model", "alice/m", {"README.md": before.encode(), EVAL: theirs.encode()}, "theirs")
    share_on_page(run)
    files = models.files("model", "alice/m")
    card = without_section(files["README.md"].decode())
    added = card[card.index("- name: m\n  results:\n  - task:") : card.index("  # swapbias:end")]
    assert card.replace(added, "") == before
    assert yaml.safe_load(files[EVAL])[:1] == yaml.safe_load(theirs)
    assert b"occupation_sentiment" in files[EVAL]
    assert statuses(share_on_page(run)) == ["unchanged", "unchanged"]


def test_unusual_configs():
    """Configs other than the default ones are named."""
    manifest = {
        "settings": {"limit": None}, "corpora": [{"corpus": "gendered_stigma", "config": "rq1_original", "rows": 10}],
    }  # fmt: skip
    read = prompts_read(manifest, "gendered_stigma", "rq1")
    assert read == "config rq1_original in place of the usual one"
    manifest["corpora"][0]["config"] = "rq1"
    assert prompts_read(manifest, "gendered_stigma", "rq1") == ""


def test_findings_of_the_named_model():
    """Findings are those of the model that the user names."""
    found = [replace(GAP, model_id=name) for name in ("m", "bob/m")]
    assert {one.model_id for one in findings_of(found, "bob/m", None)} == {"bob/m"}
    assert {one.model_id for one in findings_of(found, "alice/m", "m")} == {"m"}
    for model, audited, words in (
        ("alice/m", None, "alice/m is none of them"),
        ("bob/m", "x", "Correct --audited"),
    ):
        with pytest.raises(UsageError, match=words):
            findings_of(found, model, audited)


def weights_of(models, identity, model="bob/m"):
    return commit_read(Hub(), Repo("model", model), {"models": [identity]}, identity["model_id"])


def test_same_name_is_not_same_model(models):
    """A model that only has the name of one on the Hub is not taken for it."""
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


def test_model_by_commit_or_weights(
    models,
):
    """A model is identified on the Hub by its commit or its weights, and by pickled ones where
    there are no others."""
    (commit, _), *_ = models.commits("model", "bob/m")
    expected = {"model.safetensors": hashlib.sha256(b"w").hexdigest()}
    assert weights_of(models, {"model_id": "bob/m", "revision": commit}) == commit
    assert weights_of(models, {"model_id": "m", "sha256": "a" * 64, "weights": expected}) == ""
    features = {
        "sha256": "a" * 64,
        "weights": expected,
    }  # of an encoder whose classifier the audit trained
    assert weights_of(models, {"model_id": "m+svm", "features": features}) == ""
    # Another repository on the Hub with the same weights, and one with others.
    assert weights_of(models, {"model_id": "bob/m", "revision": commit}, "alice/m") == ""
    models.push("model", "alice/m", {"model.safetensors": b"trained further"}, "more")
    with pytest.raises(UsageError, match="alice/m has other weights than bob/m"):
        weights_of(models, {"model_id": "bob/m", "revision": commit}, "alice/m")
    pickled = {"pytorch_model.bin": b"w", "optimizer.bin": b"x"}
    models.add_repo("model", "bob/old", files=pickled)
    expected = {"pytorch_model.bin": hashlib.sha256(b"w").hexdigest()}
    identity = {"model_id": "m", "weights": expected}
    assert weights_of(models, identity, "bob/old") == ""
    models.push("model", "bob/old", {"model.safetensors": b"read in their place"}, "more")
    with pytest.raises(UsageError, match="has other weights"):
        weights_of(models, identity, "bob/old")


@pytest.mark.parametrize("model", ["alice/m", "bob/m"])
def test_pull_request_has_two_files(models, run, model):
    """A model gets two files in a pull request and nothing else."""
    before = models.files("model", model)
    assert statuses(propose(run, model=model)) == ["created", "pull request opened"]
    assert models.files("model", model) == before
    proposed = models.files("model", model, revision="refs/pr/1")
    assert set(proposed) == {*before, EVAL}
    assert as_it_was(proposed["README.md"].decode()).encode() == before["README.md"]
    entries = proposed[EVAL].decode()
    assert "value: 0.9\n" in entries  # by hand: 1 - |-.1|, higher is fairer
    assert re.search(r"url: \S+/tree/[0-9a-f]{40}/runs/", entries)
    assert "!!" not in entries
    (one,) = models.repo("model", model).pulls
    assert (one.author, one.status) == ("alice", "open")


def test_no_unwanted_pull_request(models, run, tmp_path):
    """Nothing is proposed without the option, nor a part of the prompts beside whole audits."""
    with pytest.raises(UsageError, match="Add --create-pr"):
        propose(run, model_change="")
    with pytest.raises(UsageError, match="not yours, and nobody writes to it unasked"):
        propose(run, model_change=COMMIT)
    with pytest.raises(UsageError, match="could not open private results"):
        propose(run, results="alice/audits", public=False)
    with pytest.raises(UsageError, match="The run read at most 40 rows of each table"):
        propose(limited(run, tmp_path / "part", 40))
    assert models.repo("model", "bob/m").pulls == []
    assert writes(models) == []


def test_nothing_measured_is_not_proposed(models, tmp_path):
    """A run that measured nothing is proposed to nobody; on a page of one's own it says so, without a number."""
    name = "tests.hub.own_runs:constant"
    settings = Settings(model=name, studies=("occupation_sentiment:sentences",))
    run = of_weights(start(settings, tmp_path / "run", **QUIET)[0])
    with pytest.raises(UsageError, match="measured nothing of bob/m, so there is nothing to"):
        propose(run, audited=name)
    assert writes(models) == []
    share_results(run, model="alice/m", model_change=COMMIT, audited=name)
    card = models.files("model", "alice/m")["README.md"].decode()
    assert "sentences: Not measured: " in card
    assert "| women minus men | – | – |" in card
    assert as_it_was(card) == README
    assert EVAL not in models.files("model", "alice/m")


@pytest.mark.parametrize("prompts", ["nothing measured", "part of them", "other rows"])
def test_earlier_number_goes(models, run, tmp_path, prompts):
    """A later audit without a number for a question takes the earlier one out of header and file of results."""
    audited = MODEL
    if prompts == "nothing measured":
        audited = "tests.hub.own_runs:constant"
        settings = Settings(model=audited, studies=("occupation_sentiment:sentences",))
        later = of_weights(start(settings, tmp_path / "run", **QUIET)[0])
    elif prompts == "part of them":
        later = limited(run, tmp_path / "part", 40)
    else:
        corpora = [{**entry, "sha256": "00" * 32} for entry in run.manifest()["corpora"]]
        later = edited(run, tmp_path / "older", corpora=corpora)
    share_on_page(run)
    options = {"model": "alice/m", "model_change": COMMIT, "audited": audited}
    options["findings_only"] = prompts == "other rows"
    shown = []
    share_results(later, dry_run=True, say=shown.append, **options)
    assert f"  D {EVAL}" in shown
    assert statuses(share_results(later, **options))[1] == "updated"
    files = models.files("model", "alice/m")
    assert EVAL not in files
    assert without_section(files["README.md"].decode()) == README
    assert statuses(share_results(later, **options)) == ["unchanged", "unchanged"]
    share_on_page(run)
    assert as_it_was(models.files("model", "alice/m")["README.md"].decode()) == README
    assert len(entries_of(models)) == 1


def test_open_pull_request(models, run, later_run, tmp_path):
    """An open pull request is not doubled, and the same numbers are not proposed again."""
    propose(run)
    assert statuses(propose(run)) == ["unchanged", "not proposed again: pull request 1 is open"]
    for again in (False, True):
        status = statuses(propose(later_run, repropose=again))[1]
        assert status == "not proposed again: pull request 1 is open"
    assert len(models.repo("model", "bob/m").pulls) == 1
    models.repo("model", "bob/m").pulls[0].status = "closed"
    again = edited(run, tmp_path / "again", finished="2031-01-01T00:00:00+00:00")
    assert statuses(propose(again)) == ["updated", "not proposed again: pull request 1 is closed"]
    assert statuses(propose(again, repropose=True))[1] == "pull request opened"


def test_removed_section(models, run):
    """A section that the owners removed after merging it is not proposed again."""
    propose(run)
    models.merge_pull_request("model", "bob/m", 1)
    assert statuses(propose(run)) == ["unchanged", "unchanged"]  # nothing is left to do
    models.push("model", "bob/m", {}, "no", delete=[EVAL])
    assert statuses(propose(run))[1] == "not proposed again: pull request 1 is merged"
    assert statuses(propose(run, repropose=True))[1] == "pull request opened"


def test_model_without_pull_requests(hub, run):
    """A model without pull requests is refused before anything is published."""
    hub.add_repo("model", "bob/m", files={"README.md": b"# Bob's\n", **WEIGHTS}, discussions=False)
    with pytest.raises(HubError, match="Discussions are disabled"):
        propose(run)
    assert ("dataset", "alice/open") not in hub.repositories


def test_dry_run_of_a_pull_request(models, run):
    """A dry run shows what the pull request would hold."""
    calls = []
    done = propose(run, dry_run=True, say=calls.append)
    assert statuses(done) == ["would be created", "pull request would be opened"]
    shown = "\n".join(calls)
    assert f"Title: {TITLE}" in shown
    assert "Description: Gap" in shown
    assert "Adds this with intervals, limits and the command that repeats it to the card" in shown
    assert "value: 0.9" in shown
    propose(run)
    assert statuses(propose(run, dry_run=True)) == [
        "unchanged",
        "not proposed again: pull request 1 is open",
    ]


def test_results_in_own_header(models, run):
    """The header of one's own card gets the results, with value, interval and n, as the Hub's client reads them."""
    share_on_page(run)
    card = models.files("model", "alice/m")["README.md"].decode()
    assert card.startswith("---\nlicense: mit   # mine\ntags: [a,  b]\nmodel-index:\n- name: m\n")
    (result,) = ModelCard(card).data.eval_results
    assert (result.task_type, result.task_name) == (
        "text-classification",
        "occupation_sentiment sentences",
    )
    assert (result.dataset_type, result.dataset_config) == (
        "swapbias/occupation_sentiment",
        "sentences",
    )
    tag = f"v{load_corpus('occupation_sentiment').version}"
    assert result.dataset_revision == models.tags("dataset", "swapbias/occupation_sentiment")[tag]
    assert (result.metric_type, result.metric_value) == ("paired_gap", -0.1)  # 0.6 - 0.1 and 0.6
    assert result.metric_args["n"] == 400
    commit = models.commits("dataset", "alice/audits")[0][0]
    assert f"/tree/{commit}/" in result.source_url


def at_commit(run, folder, commit):
    """The run as if it had read alice/m at a commit of the Hub."""
    run = edited(run, folder)
    manifest = run.manifest()
    (pin,) = manifest["models"]
    read = {"model_id": pin["model_id"], "kind": pin["kind"], "revision": commit}
    run.write_manifest({**manifest, "models": [read]})
    return run


def test_revisions_of_one_model(models, run, later_run, tmp_path):
    """Numbers of an earlier revision name it in card, header, file of results and the repository of results."""
    (first, _), *_ = models.commits("model", "alice/m")
    models.push("model", "alice/m", {"model.safetensors": b"trained further"}, "more")
    (second, _), *_ = models.commits("model", "alice/m")
    for commit, of_commit in ((second, run), (first, later_run)):  # the older one last
        share_on_page(at_commit(of_commit, tmp_path / commit, commit))
        files = models.files("model", "alice/m")
        card = files["README.md"].decode()
        other = first if commit == second else second
        (result,) = ModelCard(card).data.eval_results
        assert result.metric_args["model_revision"] == commit
        assert f"at commit {commit}" in card
        assert other not in card
        assert entries_of(models)[0]["notes"].startswith(
            f"Measured: {MODEL} at commit {commit[:12]}"
        )
        results_card = models.files("dataset", "alice/audits")["README.md"].decode()
        assert f"at commit {commit}" in results_card


def test_header_of_somebody_else(models, run):
    """A pull request to somebody else's card changes no header."""
    propose(run)
    proposed = models.files("model", "bob/m", revision="refs/pr/1")["README.md"].decode()
    assert proposed.startswith("# Bob's\n")


def test_refused_numbers(models, run):
    """Where the Hub refuses the file of results as wrong, the card goes alone, and sharing again changes nothing."""
    models.fail("POST", COMMITS, status=400, body=b'{"error": "not a benchmark"}')
    done = share_on_page(run)
    assert statuses(done) == ["created", f"updated without {EVAL}, which the Hub refused"]
    files = models.files("model", "alice/m")
    assert EVAL not in files
    assert BEGIN in files["README.md"].decode()
    models.fail("POST", COMMITS, status=400, body=b'{"error": "not a benchmark"}')
    again = ["unchanged", f"unchanged, without {EVAL}, which the Hub refused"]
    assert statuses(share_on_page(run)) == again
    assert statuses(share_on_page(run)) == ["unchanged", "updated"]  # once the Hub takes it
    assert EVAL in models.files("model", "alice/m")


def test_other_refusals(models, run):
    """A refusal that is not about the file of results is told, and nothing is left out for it."""
    models.fail("POST", COMMITS, status=403, times=9)
    with pytest.raises(HubError, match="403"):
        share_on_page(run)
    models.plans.clear()
    models.fail("POST", COMMITS, status=400, times=2)
    with pytest.raises(HubError, match="400"):
        share_on_page(run)
    assert models.files("model", "alice/m")["README.md"].decode() == README
