"""Sharing a run: results once, cards in place, proposals only when asked for, and never anything half."""

import re
import sys
from functools import cache

import pandas as pd
import pytest
from markdown_it import MarkdownIt

from swapbias import credentialed
from swapbias.audit import Settings, start
from swapbias.cards.model_card import without_section
from swapbias.cards.model_index import without_entries
from swapbias.cli import main
from swapbias.errors import HubError, UsageError
from swapbias.hub import Hub
from swapbias.sharing.parcel import pack
from swapbias.sharing.proposing import COMMIT, FIGURE, PULL_REQUEST
from swapbias.sharing.share import Wanted, share
from swapbias.studies import config_rows
from tests.hub_fixtures import hub as hub  # a fixture
from tests.shared_runs import GAP as STRANGERS
from tests.shared_runs import MANIFEST, results, written
from tests.test_parcel import QUIET, SECRETS, edited
from tests.test_parcel import own_run as own_run  # a fixture

MODEL = "tests.test_sharing:scored"
ASKED = Settings(model=MODEL, studies=("occupation_sentiment:sentences",))
README = "---\nlicense: mit   # mine\ntags: [a,  b]\n---\n# Model\n\nBy alice.\n"
EVAL = ".eval_results/swapbias.yaml"
GAP = {"she": 0.1}  # what `scored` takes off sentences about women
PYTHON_TAG = "a: !!python/object/apply:os.system ['true']"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{new}: &{new} [{', '.join(f'*{old}' for _ in range(9))}]"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
COMMITS = r"/api/models/.*/commit/"


packed = cache(pack)


@cache
def about_women():
    return {row["text"] for row in config_rows("occupation_sentiment", "sentences") if row["group"] == "female"}


def scored(texts):
    """A sentiment system that scores every sentence about a woman lower than the same one about a man."""
    return [0.6 - GAP["she"] * (text in about_women()) for text in texts]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return start(ASKED, tmp_path_factory.mktemp("shared") / "run", **QUIET)[0]


@pytest.fixture(scope="module")
def later_run(tmp_path_factory):
    """The same audit after the model changed."""
    before, GAP["she"] = GAP["she"], 0.2
    try:
        return start(ASKED, tmp_path_factory.mktemp("later") / "run", **QUIET)[0]
    finally:
        GAP["she"] = before


@pytest.fixture(autouse=True)
def packed_once(monkeypatch):
    """Packing draws every figure: runs that nobody edits are packed once (``test_parcel`` tests packing itself)."""
    monkeypatch.setattr("swapbias.sharing.share.pack", packed)


@pytest.fixture
def models(hub):
    hub.add_repo("model", "alice/m", files={"README.md": README.encode(), "weights.txt": b"w"})
    hub.add_repo("model", "bob/m", files={"README.md": b"# Bob's\n"})
    return hub


def without_header(card):
    return card.split("\n---\n", 1)[1]


def put(run, results="alice/audits", **more):
    return share(run, Wanted(results=results, **more), Hub(), say=lambda sentence: None)


def own(run, **more):
    return put(run, model="alice/m", how=COMMIT, audited=MODEL, **more)


def propose(run, model="bob/m", **more):
    return put(
        run, **{"results": "alice/open", "public": True, "how": PULL_REQUEST, "audited": MODEL, **more}, model=model
    )


def statuses(done):
    return [one.status for one in done]


# --- the results -----------------------------------------------------------------------------------------


def test_results_go_to_a_private_repository_once(hub, run):
    assert statuses(put(run)) == ["created"]
    assert hub.repo("dataset", "alice/audits").private
    held = set(hub.files("dataset", "alice/audits"))
    name = next(path.split("/")[1] for path in held if path.startswith("runs/"))
    parts = ("manifest.json", "results.json", "findings.csv", "report.html", "items/occupation_sentiment.parquet")
    assert {f"runs/{name}/{part}" for part in parts} <= held
    assert any(path.startswith(f"runs/{name}/figures/") for path in held)
    before = hub.commits("dataset", "alice/audits")
    assert statuses(put(run)) == ["unchanged"]
    assert hub.commits("dataset", "alice/audits") == before


def test_auditing_again_updates_in_place_and_another_run_stands_beside(hub, run, later_run, tmp_path):
    put(run)
    paths = set(hub.files("dataset", "alice/audits"))
    assert statuses(put(later_run)) == ["updated"]
    assert set(hub.files("dataset", "alice/audits")) == paths
    put(edited(run, tmp_path / "seed", settings=run.manifest()["settings"] | {"seed": 7}))
    runs = {path.split("/")[1] for path in hub.files("dataset", "alice/audits") if path.startswith("runs/")}
    assert len(runs) == 2
    card = hub.files("dataset", "alice/audits")["README.md"].decode()
    assert all(name in card for name in runs)


def test_a_run_that_lost_a_figure_loses_it_on_the_hub_and_nothing_else_goes(hub, run):
    put(run)
    name = next(path.split("/")[1] for path in hub.files("dataset", "alice/audits") if path.startswith("runs/"))
    hub.push("dataset", "alice/audits", {f"runs/{name}/figures/old.svg": b"<svg/>", "notes.md": b"mine"}, "by hand")
    put(run)
    held = hub.files("dataset", "alice/audits")
    assert f"runs/{name}/figures/old.svg" not in held
    assert held["notes.md"] == b"mine"


def test_a_repository_that_holds_something_else_is_left_alone(hub, run):
    hub.add_repo("dataset", "alice/data", files={"README.md": b"# Data\n", "a.csv": b"1\n"}, private=True)
    with pytest.raises(UsageError, match="holds something else than shared runs"):
        put(run, results="alice/data")
    with pytest.raises(UsageError, match=r"bob/x is not yours: expected one of alice, lab"):
        put(run, results="bob/x")


def test_visibility_is_never_changed_and_never_guessed(hub, run):
    hub.add_repo("dataset", "alice/seen", files={}, private=False)
    hub.add_repo("dataset", "alice/hidden", files={}, private=True)
    with pytest.raises(UsageError, match=r"is public, and runs are shared privately unless you say --public"):
        put(run, results="alice/seen")
    with pytest.raises(UsageError, match="is private, with all that it holds"):
        put(run, results="alice/hidden", public=True)
    assert not hub.repo("dataset", "alice/seen").private
    assert hub.repo("dataset", "alice/hidden").private
    put(run, results="alice/seen", public=True)


def test_names_of_strangers_are_escaped_in_the_card(hub, run):
    put(run)
    hostile = "<script>alert(1)</script>|[x](javascript:x)<!-- swapbias:end -->"
    manifest = MANIFEST | {"models": [{"model_id": hostile}]}
    found = results(
        [type(STRANGERS)(**{n: getattr(STRANGERS, n) for n in STRANGERS.__slots__} | {"model_id": hostile})]
    )
    hub.push(
        "dataset", "alice/audits", {"runs/x/manifest.json": written(manifest), "runs/x/results.json": found}, "x"
    )
    put(run)
    card = hub.files("dataset", "alice/audits")["README.md"].decode()
    page = MarkdownIt("commonmark").enable("table").render(without_header(card))
    assert "alert" in page  # it is listed
    assert "<script" not in page
    assert "<!--" not in page
    assert 'href="javascript' not in page


# --- one's own model -------------------------------------------------------------------------------------


def test_the_own_card_gets_a_section_and_keeps_every_other_byte(models, run):
    assert statuses(own(run)) == ["created", "updated"]
    held = models.files("model", "alice/m")
    card = held["README.md"].decode()
    assert "## Bias audit" in card
    assert "−0.100" in card  # by hand: .5 minus .6 in every pair that differs
    assert "model-index:" in card
    assert held[FIGURE].startswith(b"\x89PNG")
    assert held["weights.txt"] == b"w"
    assert without_entries(without_section(card), where="README.md") == README
    source = re.search(r"tree/([0-9a-f]{40})/runs/", card)[1]
    assert source == models.commits("dataset", "alice/audits")[0][0]


def test_sharing_twice_changes_nothing_even_when_others_shared_in_between(models, run, tmp_path):
    own(run)
    card = models.files("model", "alice/m")["README.md"]
    before = models.commits("model", "alice/m")
    put(edited(run, tmp_path / "seed", settings=run.manifest()["settings"] | {"seed": 7}))
    assert statuses(own(run)) == ["unchanged", "unchanged"]
    assert models.files("model", "alice/m")["README.md"] == card
    assert models.commits("model", "alice/m") == before


def test_sharing_a_later_audit_changes_the_section_in_place(models, run, later_run):
    own(run)
    assert statuses(own(later_run)) == ["updated", "updated"]
    card = models.files("model", "alice/m")["README.md"].decode()
    assert card.count("## Bias audit") == 1
    assert "−0.200" in card
    assert "−0.100" not in card
    assert without_entries(without_section(card), where="README.md") == README


def test_a_card_that_cannot_be_added_to_stops_everything_before_anything_is_written(models, run):
    models.push("model", "alice/m", {"README.md": b"---\n{ a: b\n---\n# M\n"}, "broken")
    with pytest.raises(ValueError, match=r"alice/m/README\.md"):
        own(run)
    assert not [path for method, path, _ in models.log if method == "POST" and "create" in path]


@pytest.mark.parametrize("header", [PYTHON_TAG, LAUGHS], ids=["python tag", "billion laughs"])
def test_a_hostile_header_is_refused_in_one_sentence(models, run, header):
    models.push("model", "alice/m", {"README.md": f"---\n{header}\n---\n# M\n".encode()}, "hostile")
    with pytest.raises(ValueError, match=r"alice/m/README\.md") as refused:
        own(run)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_another_models_numbers_do_not_go_onto_a_card(models, run):
    with pytest.raises(UsageError, match="alice/m is none of them"):
        put(run, model="alice/m", how=COMMIT)


def test_when_the_card_fails_the_results_stay_and_the_next_try_finishes(models, run):
    models.fail("POST", COMMITS, status=403, times=1)
    with pytest.raises(HubError, match=r"The results are at http.*, but alice/m was not changed: The token may not"):
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
    assert without_entries(without_section(card), where="README.md") == edited_by_hand


# --- somebody else's model -------------------------------------------------------------------------------


def test_a_strangers_model_gets_one_file_in_a_pull_request_and_nothing_else(models, run):
    assert statuses(propose(run)) == ["created", "pull request opened"]
    (one,) = models.pull_requests("model", "bob/m")
    assert set(models.files("model", "bob/m")) == {"README.md"}  # main is untouched
    proposed = models.files("model", "bob/m", revision="refs/pr/1")
    assert set(proposed) == {"README.md", EVAL}
    assert proposed["README.md"] == b"# Bob's\n"
    assert "value: 0.9\n" in proposed[EVAL].decode()  # by hand: 1 - |-.1|, higher is fairer
    assert re.search(r"url: \S+/tree/[0-9a-f]{40}/runs/", proposed[EVAL].decode())
    assert "!!" not in proposed[EVAL].decode()
    assert one


def test_nothing_is_proposed_unasked(models, run):
    with pytest.raises(UsageError, match="Add --create-pr"):
        propose(run, how="")
    with pytest.raises(UsageError, match="not yours, and nobody writes to it unasked"):
        propose(run, how=COMMIT)
    with pytest.raises(UsageError, match="could not open private results"):
        propose(run, results="alice/audits", public=False)
    assert models.pull_requests("model", "bob/m") == []
    assert not [path for method, path, _ in models.log if method == "POST"]


def test_an_open_pull_request_is_brought_up_to_date_not_doubled(models, run, later_run):
    propose(run)
    assert statuses(propose(run)) == ["unchanged", "pull request 1 unchanged"]
    assert statuses(propose(later_run)) == ["updated", "pull request 1 updated"]
    assert len(models.pull_requests("model", "bob/m")) == 1
    assert "value: 0.8\n" in models.files("model", "bob/m", revision="refs/pr/1")[EVAL].decode()


def test_a_closed_pull_request_is_not_opened_again_with_the_same_content(models, run):
    propose(run)
    models.close_pull_request("model", "bob/m", 1)
    assert statuses(propose(run)) == ["unchanged", "not proposed again: its owners closed pull request 1"]
    assert len(models.pull_requests("model", "bob/m")) == 1


def test_a_merged_pull_request_leaves_nothing_to_do(models, run):
    propose(run)
    models.merge_pull_request("model", "bob/m", 1)
    assert statuses(propose(run)) == ["unchanged", "unchanged"]


def test_results_of_others_in_the_file_stay(models, run):
    theirs = "- dataset:\n    id: other/bench\n    task_id: t\n  value: 0.5\n"
    models.push("model", "bob/m", {EVAL: theirs.encode()}, "theirs")
    propose(run)
    proposed = models.files("model", "bob/m", revision="refs/pr/1")[EVAL].decode()
    assert "other/bench" in proposed
    assert "occupation_sentiment" in proposed


def test_a_part_of_the_prompts_is_not_proposed_beside_whole_audits(models, run, tmp_path):
    part = edited(run, tmp_path / "part", settings=run.manifest()["settings"] | {"limit": 40})
    with pytest.raises(UsageError, match="only a part of the prompts"):
        propose(part)
    assert not [path for method, path, _ in models.log if method == "POST"]


# --- what never leaves -----------------------------------------------------------------------------------


def test_a_credentialed_run_is_refused_before_anything_is_asked_of_the_hub(hub, run, tmp_path):
    held = edited(run, tmp_path / "held")
    credentialed.mark(held.folder)
    for more in ({}, {"findings_only": True}, {"dry_run": True}, {"model": "alice/m", "how": COMMIT}):
        with pytest.raises(UsageError, match="credentialed clinical data"):
            put(held, **more)
    with pytest.raises(UsageError, match="credentialed clinical data"):
        put(edited(run, tmp_path / "said", credentialed=True))
    assert hub.log == []


def test_private_texts_stay_and_their_findings_go_only_when_asked(hub, own_run):
    with pytest.raises(UsageError, match="--findings-only"):
        put(own_run)
    assert hub.log == []
    put(own_run, findings_only=True)
    held = hub.files("dataset", "alice/audits")
    assert any(path.endswith("findings.csv") for path in held)
    assert not any("items/" in path for path in held)
    for path, content in held.items():
        assert not [secret for secret in SECRETS if secret.encode() in content], path


def test_a_key_in_any_file_stops_the_share(hub, run, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_API_KEY", "is a doctor")  # stands in the texts of the scored prompts
    with pytest.raises(UsageError, match=r"items/occupation_sentiment\.parquet holds the value of SWAPBIAS_API_KEY"):
        put(run)
    with pytest.raises(UsageError, match="holds the value of SWAPBIAS_API_KEY"):
        put(run, dry_run=True)
    assert not [path for path in hub.files("dataset", "alice/audits") if "runs/" in path]


# --- dry run and command line ----------------------------------------------------------------------------


def test_a_dry_run_writes_nothing_and_shows_the_very_bytes(models, run, tmp_path):
    said = []
    wanted = Wanted(results="alice/audits", dry_run=True, out=tmp_path)
    assert statuses(share(run, wanted, Hub(), say=said.append)) == ["would be created"]
    assert not [path for method, path, _ in models.log if method in ("POST", "PUT") and "paths-info" not in path]
    put(run)
    held = {p: c for p, c in models.files("dataset", "alice/audits").items() if p != ".gitattributes"}
    shown = {
        path.relative_to(tmp_path / "alice/audits").as_posix(): path.read_bytes()
        for path in (tmp_path / "alice/audits").rglob("*")
        if path.is_file()
    }
    assert shown == held
    assert all(any(path in line for line in said) for path in held)


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["swapbias", *map(str, arguments)])
    with pytest.raises(SystemExit) as done:
        main()
    return done.value.code


def test_the_commands_share_and_list(models, run, monkeypatch, capsys, tmp_path):
    asked = ["share", run.folder, "--results", "alice/audits", "--model", "alice/m", "--audited", MODEL, "--commit"]
    assert command(monkeypatch, *asked) == 0
    assert "alice/m: updated." in capsys.readouterr().out
    assert command(monkeypatch, "shared", "alice/audits", "--out", tmp_path / "c.csv") == 0
    told = capsys.readouterr().out
    assert "not a ranking" in told
    table = pd.read_csv(tmp_path / "c.csv")
    assert table[f"{MODEL} @ alice/audits: value"][0] == pytest.approx(-0.1)
    assert command(monkeypatch, "share", run.folder, "--results", "alice/audits", "--commit") == 2
    assert "none is given" in capsys.readouterr().err


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["plain", "debug"])
def test_trouble_is_one_sentence_and_never_shows_the_token(models, run, monkeypatch, capsys, debug):
    models.fail("*", r"/api/", status=500, times=-1)
    assert command(monkeypatch, "share", run.folder, "--results", "alice/audits", *debug) == 1
    told = capsys.readouterr()
    assert "The Hub has trouble of its own" in told.err
    assert "hf_alice" not in told.err + told.out
    if not debug:
        assert told.err.count("\n") == 1
