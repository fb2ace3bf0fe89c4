"""Results of a run in a repository of one's own: once, in place, and nothing of anybody else's is touched."""

import pytest

from swapbias.errors import UsageError
from tests.hub.own_runs import edited, limited
from tests.hub.sharing_runs import put, statuses

pytestmark = pytest.mark.usefixtures("packed_once")


def test_results_go_to_a_private_repository_once(hub, run):
    assert statuses(put(run)) == ["created"]
    assert hub.repo("dataset", "alice/audits").private
    held = set(hub.files("dataset", "alice/audits"))
    name = next(path.split("/")[1] for path in held if path.startswith("runs/"))
    parts = ("manifest.json", "results.json", "findings.csv", "report.html", "items/occupation_sentiment.parquet")
    assert {f"runs/{name}/{part}" for part in parts} <= held
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
    logs = {"README.md": b"# Training logs\n", "runs/exp1/results.json": b'{"loss": 1}'}
    hub.add_repo("dataset", "alice/logs", files=logs, private=True)
    with pytest.raises(UsageError, match="holds something else than shared runs"):
        put(run, results="alice/logs")
    assert hub.files("dataset", "alice/logs") == logs
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


def test_what_the_owner_wrote_into_the_card_stays(hub, run, tmp_path):
    put(run)
    card = hub.files("dataset", "alice/audits")["README.md"].decode()
    edited_card = (
        card.replace("pretty_name: ", "homepage: https://a.b\npretty_name: Our ", 1) + "\n## Notes\n\nBy alice.\n"
    )
    hub.push("dataset", "alice/audits", {"README.md": edited_card.encode()}, "by hand")
    assert statuses(put(run)) == ["unchanged"]
    put(edited(run, tmp_path / "seed", settings=run.manifest()["settings"] | {"seed": 7}))
    after = hub.files("dataset", "alice/audits")["README.md"].decode()
    assert "homepage: https://a.b\npretty_name: Our Bias audits in alice/audits\n" in after
    assert after.endswith("\n\n## Notes\n\nBy alice.\n")
    assert after.count("### ") > card.count("### ")  # the second run is listed


def test_nothing_is_written_to_a_repository_that_turns_out_to_be_public(hub, run):
    hub.on("POST", "repos/create", lambda: hub.add_repo("dataset", "alice/audits", private=False))
    with pytest.raises(UsageError, match="Somebody changed alice/audits in between"):
        put(run)
    assert not hub.files("dataset", "alice/audits")

    def opened():
        hub.repo("dataset", "alice/later").private = False

    hub.add_repo("dataset", "alice/later", private=True)
    hub.on("GET", r"datasets/alice/later/refs", opened)  # after its visibility was read for the first time
    with pytest.raises(UsageError, match="Somebody changed alice/later in between"):
        put(run, results="alice/later")
    assert not hub.files("dataset", "alice/later")


def test_the_card_says_what_was_read_in_place_of_the_studies_prompts(hub, run, tmp_path):
    put(run)
    assert "with the prompts of this study" in hub.files("dataset", "alice/audits")["README.md"].decode()
    put(limited(run, tmp_path / "part", 40), results="alice/part")
    part = hub.files("dataset", "alice/part")["README.md"].decode()
    assert "Read: at most 40 rows of each table" in part
