"""Shared runs are read at one commit, and unreadable ones are named; a card keeps the owner's
bytes."""

from dataclasses import replace

import pyarrow as pa
import pytest

from swapbias.hub.bundle import parquet
from swapbias.hub.cards import load, split
from swapbias.hub.client import Hub
from swapbias.hub.read_shared import load_all_shared
from swapbias.hub.repository import is_shared_name
from swapbias.hub.run_cards import results_card
from swapbias.studies.prompt import PROMPT_COLUMNS
from tests.hub.shared_runs import GAP, MANIFEST, run_files


def test_broken_runs_are_named(hub):
    """Runs are read at one commit, and each broken one is named with its reason."""
    torn = {**run_files("torn"), "runs/torn/results.json": b'{"swapbias": "0.1.0", "findings": ['}
    files = {
        **run_files("good"),
        **run_files("..."),
        **run_files("A"),
        "runs/alone/results.json": b"{}",
        **run_files("held", credentialed=True),
        **torn,
        "runs/deep/in/results.json": b"{}",
        "README.md": b"# results\n",
        **run_files("twice", found=[GAP, replace(GAP, higher_group="again")]),
        **run_files("unfinished", status="running"),
    }
    hub.add_repo("dataset", "alice/results", files=files)
    runs, reasons = load_all_shared(Hub(), ["alice/results"])
    assert [one.name for one in runs] == ["good"]
    assert runs[0].found[0] == GAP
    assert runs[0].commit == hub.commits("dataset", "alice/results")[0][0]
    words = "no name of|'A' is no name|manifest.json is missing|credentialed|no JSON|appears twice|not complete"
    for sentence, expected in zip(
        reasons, words.split("|"), strict=True
    ):  # by the names of the runs
        assert expected in sentence


def test_run_changed_while_read(hub):
    """A run that changes while it is read is read as it was."""
    hub.add_repo("dataset", "alice/results", files=run_files("one"))
    later = run_files("one", found=[replace(GAP, model_id="later")])
    hub.on("GET", r".*manifest\.json", lambda *_: hub.push("dataset", "alice/results", later))
    runs, _ = load_all_shared(Hub(), ["alice/results"])
    assert len(hub.commits("dataset", "alice/results")) == 2
    assert {one.model_id for one in runs[0].found} == {"lab/small"}


def test_many_runs_from_one_listing(hub):
    """Sixty runs are found by one listing of the repository."""
    runs = {
        path: content
        for number in range(60)
        for path, content in run_files(f"r{number:02}").items()
    }
    hub.add_repo("dataset", "alice/results", files=runs)
    found, broken = load_all_shared(Hub(), ["alice/results"])
    assert [one.name for one in found] == [f"r{number:02}" for number in range(60)]
    assert broken == []
    assert (
        sum("recursive=true" in path.lower() for _, path, _ in hub.log) == 1
    )  # all that it holds is listed once


def test_unreadable_repository(hub):
    """A repository that gives no file is tried for one run only."""
    files = {
        path: content
        for number in range(20)
        for path, content in run_files(f"r{number:02}").items()
    }
    hub.add_repo("dataset", "alice/results", files=files)
    hub.fail("GET", r"/resolve/", status=403, times=-1)
    hub.fail("HEAD", r"/resolve/", status=403, times=-1)
    runs, broken = load_all_shared(Hub(), ["alice/results"])
    assert (runs, len(broken)) == ([], 1)
    tried = {path.partition("/runs/")[2][:3] for _, path, _ in hub.log if "/resolve/" in path}
    assert tried == {"r00"}


def test_missing_repository(hub):
    """A repository that is gone does not stop the others."""
    hub.add_repo("dataset", "alice/results", files=run_files("one"))
    hub.add_repo("dataset", "alice/other", files={"README.md": b"x"})
    hub.add_repo("dataset", "bob/secret", files=run_files("one"), private=True)
    names = ["alice/results", "bob/gone", "bob/secret", "alice/other", "../etc", "alice/results"]
    runs, broken = load_all_shared(Hub(), names)
    assert [(one.place, one.name) for one in runs] == [("alice/results", "one")]
    assert [one.split()[0] for one in broken] == [
        "bob/gone",
        "bob/secret",
        "alice/other",
        "'../etc'",
    ]
    assert ["cannot be seen" in one for one in broken] == [True, True, False, False]
    assert "contains no results.json in a folder of runs" in broken[2]
    hub.fail("GET", r".*", status=403, times=-1)
    assert "The token may not" in load_all_shared(Hub(), ["alice/results"])[1][0]


def test_run_and_revision_by_name(hub):
    """A run and a revision can be named."""
    first = hub.add_repo(
        "dataset", "alice/results", files={**run_files("one"), **run_files("two")}, tags=("v1",)
    )
    hub.push("dataset", "alice/results", run_files("three"))
    assert [one.name for one in load_all_shared(Hub(), ["alice/results/two"])[0]] == ["two"]
    runs, _ = load_all_shared(
        Hub(), ["alice/results@v1", "alice/results/three", f"alice/results/one@{first}"]
    )
    assert [(one.name, one.commit == first) for one in runs][1:3] == [
        ("two", True),
        ("three", False),
    ]
    assert runs[0].key == runs[3].key  # one run, named in two ways
    assert (
        "contains no runs/four/results.json" in load_all_shared(Hub(), ["alice/results/four"])[1][0]
    )
    assert (
        "has no revision v9, expected main or one of"
        in load_all_shared(Hub(), ["alice/results@v9"])[1][0]
    )


def test_names_of_shared_runs():
    """Names of shared runs are distinguished from folders."""
    for name in ("a/b", "a/b/run-1", "a/b@v1.0.0", "a/b/run-1@refs/pr/2"):
        assert is_shared_name(name)
    for name in ("run", "./a/b", "../a/b", "/a/b", "a/b/c/d", "a@v1", "a/b@"):
        assert not is_shared_name(name)


ROWS = {name: [name] for name in (*PROMPT_COLUMNS, "model_id", "surprise")} | {"score": [0.5]}
ITEMS = "runs/one/items/gendered_stigma.parquet"


def test_scored_rows_on_demand(hub):
    """Scored rows are fetched when they are used, at the commit that was read."""
    files = {
        **run_files("one"),
        ITEMS: parquet(pa.table(ROWS)),
        "runs/one/items/strange.parquet": b"x",
    }
    hub.add_repo("dataset", "alice/results", files={**files, **run_files("bare")})
    bare, one = load_all_shared(Hub(), ["alice/results"])[0]
    assert not [path for _, path, _ in hub.log if "items" in path]
    assert dict(bare.items) == {}
    rows = one.items["gendered_stigma"]
    assert rows.to_dict("records") == [{name: ROWS[name][0] for name in rows}]
    hub.push("dataset", "alice/results", {ITEMS: b"later"})
    assert len(one.items["gendered_stigma"]) == 1  # of the commit that was read


@pytest.mark.parametrize(
    "content",
    [b"PAR1 not really", parquet(pa.table(ROWS).drop(["group"]))],
    ids=["no parquet", "missing column"],
)
def test_wrong_scored_rows(hub, content):
    """Scored rows that no audit writes are refused."""
    hub.add_repo("dataset", "eve/results", files={**run_files("one"), ITEMS: content})
    run = load_all_shared(Hub(), ["eve/results"])[0][0]
    with pytest.raises(
        ValueError, match=r"^eve/results/runs/one: its scored prompts cannot be read\."
    ):
        run.items["gendered_stigma"]


def test_parts_of_other_runs_stay():
    """The card keeps the parts of other runs while their folders exist."""

    def card(name, *paths, existing=""):
        return results_card("o/r", name, [GAP], MANIFEST, paths, existing)

    first, second = "runs/x-1/results.json", "runs/y-2/items/gendered_stigma.parquet"
    both = card("y-2", first, second, existing=card("x-1", first))
    assert both.index("\n## x-1\n") < both.index("\n## y-2\n")
    names = [one["config_name"] for one in load(split(both).header, "card")["configs"]]
    assert names == ["findings", "y-2-gendered_stigma"]
    assert "\n## x-1\n" not in card("y-2", second, existing=both)
