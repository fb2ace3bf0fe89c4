"""What was published comes back whole and checked, or not at all, and never outside its folder."""

import json
import os
from pathlib import Path

import pytest

from scripts import pull as script
from swapbias import building
from swapbias.publishing import pulling
from swapbias.errors import HubError, UsageError
from swapbias.hub import Hub
from swapbias.publishing.pulling import DATASET, METRIC, RESULTS, SOURCE, pull, wanted_repos
from swapbias.studies import load_prompts, metric_path
from tests.hub_fixtures import hub
from tests.shared_runs import shared

__all__ = ["hub"]  # a fixture

CORPUS = "gendered_stigma"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The files of a built corpus, as they are published."""
    folder = tmp_path_factory.mktemp("built")
    list(building.build(CORPUS, folder))
    built = folder / CORPUS
    paths = [path for path in built.rglob("*") if path.is_file() and path.name != building.MARKER]
    return {path.relative_to(built).as_posix(): path.read_bytes() for path in paths}


def metric_files(name):
    return {
        path.name: path.read_bytes()
        for path in Path(metric_path(name)).iterdir()
        if path.suffix in (".py", ".md", ".txt")
    }


def contents(folder):
    """Every file below a folder, hidden ones too."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- datasets -----------------------------------------------------------------------------------------


def test_a_dataset_comes_back_as_it_was_published(hub, corpus, tmp_path):
    from datasets import load_dataset

    commit = hub.add_repo("dataset", f"alice/{CORPUS}", files=corpus, tags=("v1.0.0",))
    done = pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path, revision="v1.0.0")
    assert done.told() == f"alice/{CORPUS} v1.0.0 ({commit[:8]}): {len(corpus)} files in {tmp_path / CORPUS}"
    got = contents(tmp_path / CORPUS)
    source = json.loads(got.pop(SOURCE))
    assert got == corpus
    assert (source["repo"], source["commit"], source["tag"]) == (f"alice/{CORPUS}", commit, "v1.0.0")
    assert os.listdir(tmp_path) == [CORPUS]  # nothing is left beside it
    read = load_dataset(str(tmp_path / CORPUS), "rq1", cache_dir=str(tmp_path / "cache"))["test"]
    assert list(read) == list(load_prompts(CORPUS, "rq1"))


def test_pulling_again_fetches_nothing_until_there_is_a_new_commit(hub, corpus, tmp_path):
    hub.add_repo("dataset", f"alice/{CORPUS}", files=corpus)
    assert not pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path).unchanged
    before = len([one for one in hub.log if "/resolve/" in one[1]])
    assert pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path).unchanged
    assert len([one for one in hub.log if "/resolve/" in one[1]]) == before
    newer = corpus["README.md"] + b"\nMore.\n"
    hub.push("dataset", f"alice/{CORPUS}", {"README.md": newer})
    assert not pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path).unchanged
    assert (tmp_path / CORPUS / "README.md").read_bytes() == newer


def test_a_file_that_was_removed_is_fetched_again(hub, corpus, tmp_path):
    hub.add_repo("dataset", f"alice/{CORPUS}", files=corpus)
    pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    (tmp_path / CORPUS / "README.md").unlink()
    assert not pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path).unchanged
    assert (tmp_path / CORPUS / "README.md").exists()


def test_another_row_count_than_the_card_says_is_refused(hub, corpus, tmp_path):
    card = corpus["README.md"].replace(b"num_examples: 1122", b"num_examples: 1123")
    assert card != corpus["README.md"]
    hub.add_repo("dataset", f"alice/{CORPUS}", files={**corpus, "README.md": card})
    with pytest.raises(ValueError, match=r"1122.* its card says .*1123"):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("../../secret/test-*.parquet", "reads other files than its own"),
        ("/etc/passwd", "reads other files than its own"),
        ("https://evil.example/x.parquet", "reads other files than its own"),
        ("hf://datasets/a/b/c.parquet", "reads other files than its own"),
    ],
)
def test_a_card_that_reads_files_from_elsewhere_is_refused(hub, corpus, tmp_path, path, told):
    card = corpus["README.md"].replace(b"rq1/test-*.parquet", path.encode())
    assert card != corpus["README.md"]
    hub.add_repo("dataset", f"alice/{CORPUS}", files={**corpus, "README.md": card})
    with pytest.raises(ValueError, match=told):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "card",
    [
        b"# no header\n",
        b"---\nconfigs: 3\n---\n",
        b"---\nconfigs: []\ndataset_info: [1]\n---\n",
        b"---\nconfigs: [{config_name: a, data_dir: /etc, data_files: []}]\ndataset_info: []\n---\n",
        b"---\na: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
        b"d: &d [*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n---\n",
        b"---\nconfigs: !!python/object/apply:os.system ['true']\n---\n",
        b"---\n\xff\n---\n",
    ],
)
def test_a_card_of_another_shape_is_one_sentence(hub, corpus, tmp_path, card):
    hub.add_repo("dataset", f"alice/{CORPUS}", files={**corpus, "README.md": card})
    with pytest.raises(ValueError, match=rf"alice/{CORPUS}/README\.md"):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert os.listdir(tmp_path) == []


def test_data_that_is_no_parquet_is_refused(hub, corpus, tmp_path):
    files = {path: content if path == "README.md" else b"PAR1 not really" for path, content in corpus.items()}
    hub.add_repo("dataset", f"alice/{CORPUS}", files=files)
    with pytest.raises(ValueError, match="cannot be read as a dataset"):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert os.listdir(tmp_path) == []


# --- trouble ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "runs/../../../escaped.json",
        "/etc/escaped",
        "runs\\x.json",
        "CON",
        "runs/r/results.json ",
        "Readme.md",
        "a" * 300,
    ],
)
def test_names_that_leave_the_folder_or_clash_are_refused(hub, tmp_path, name):
    hub.add_repo("dataset", "bob/results", files={"README.md": b"x", **shared("r"), name: b"{}"})
    with pytest.raises(HubError):
        pull(Hub(), RESULTS, "bob/results", tmp_path / "out")
    assert contents(tmp_path) == {}


def test_a_pull_that_is_cut_leaves_the_old_folder_as_it_was(hub, tmp_path):
    hub.add_repo("dataset", "bob/results", files=shared("r"))
    pull(Hub(), RESULTS, "bob/results", tmp_path)
    before = contents(tmp_path)
    hub.push("dataset", "bob/results", shared("second"))
    hub.fail("GET", r".*second/results\.json.*", status=403, times=20)
    with pytest.raises(HubError):
        pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert contents(tmp_path) == before
    hub.push("dataset", "bob/results", {"runs/third/manifest.json": b"{", "runs/third/results.json": b"{"})
    hub.remove_repo("dataset", "bob/results")
    with pytest.raises(UsageError, match="is not there"):
        pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert contents(tmp_path) == before


def test_a_folder_of_the_users_is_not_replaced(hub, tmp_path):
    hub.add_repo("dataset", "bob/results", files=shared("r"))
    mine = tmp_path / "bob" / "results" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(UsageError, match="something else than what was pulled"):
        pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert contents(tmp_path) == {"bob/results/notes.txt": b"mine"}


# --- results ------------------------------------------------------------------------------------------


def test_results_come_with_their_runs_and_without_other_files(hub, tmp_path):
    files = {"README.md": b"x", **shared("r"), "runs/r/figures/a b.svg": b"<svg/>", "run.sh": b"rm", "x.pkl": b"."}
    hub.add_repo("dataset", "bob/results", files=files)
    done = pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert done.left_out == 2
    assert set(contents(tmp_path / "bob" / "results")) == set(files) - {"run.sh", "x.pkl"} | {SOURCE}


def test_results_that_cannot_be_read_are_refused(hub, tmp_path):
    hub.add_repo("dataset", "bob/results", files={**shared("r"), "runs/r/results.json": b'{"findings": []}'})
    with pytest.raises(ValueError, match=r"bob/results/runs/r/results\.json: its keys"):
        pull(Hub(), RESULTS, "bob/results", tmp_path)
    hub.add_repo("dataset", "bob/half", files={"runs/r/results.json": b"{}"})
    with pytest.raises(ValueError, match=r"bob/half/runs/r: manifest\.json is missing"):
        pull(Hub(), RESULTS, "bob/half", tmp_path)
    hub.add_repo("dataset", "bob/none", files={"README.md": b"x"})
    with pytest.raises(ValueError, match="holds no runs"):
        pull(Hub(), RESULTS, "bob/none", tmp_path)
    assert contents(tmp_path) == {}


# --- metrics ------------------------------------------------------------------------------------------


def test_a_metric_comes_back_and_is_not_run(hub, tmp_path):
    trap = tmp_path / "was-run"
    files = {**metric_files("paired_gap"), "index.html": b"<p>"}
    files["paired_gap.py"] += f"\nopen({str(trap)!r}, 'w')\n".encode()
    hub.add_repo("space", "alice/paired_gap", files={**files, ".gitattributes": b""}, sdk="static")
    pull(Hub(), METRIC, "alice/paired_gap", tmp_path / "out")
    assert set(contents(tmp_path / "out" / "paired_gap")) == {*files, SOURCE}
    assert not trap.exists()


@pytest.mark.parametrize("odd", ["setup.sh", "model.pkl", "lib/x.py", "paired_gap.so", ".hidden"])
def test_a_metric_with_files_of_other_kinds_is_refused(hub, tmp_path, odd):
    hub.add_repo("space", "alice/paired_gap", files={**metric_files("paired_gap"), odd: b"x"}, sdk="static")
    with pytest.raises(ValueError, match="holds the file"):
        pull(Hub(), METRIC, "alice/paired_gap", tmp_path)
    assert contents(tmp_path) == {}


def test_a_space_without_the_module_is_refused(hub, tmp_path):
    hub.add_repo("space", "alice/paired_gap", files={"README.md": b"x"}, sdk="static")
    with pytest.raises(ValueError, match=r"holds no paired_gap\.py"):
        pull(Hub(), METRIC, "alice/paired_gap", tmp_path)


# --- the command --------------------------------------------------------------------------------------


def test_all_that_the_package_knows_is_pulled_by_default(hub):
    for name in ("paired_gap", "group_gap", "game"):
        hub.add_repo("space", f"alice/{name}", files={"README.md": b"x"}, sdk="static")
    assert wanted_repos(Hub(), METRIC, "alice", []) == ["alice/group_gap", "alice/paired_gap"]
    with pytest.raises(UsageError, match="bob has no dataset of swapbias"):
        wanted_repos(Hub(), DATASET, "bob", [])


def test_the_command_says_a_line_for_each_and_goes_on_after_trouble(hub, tmp_path, capsys):
    for name in ("paired_gap", "group_gap"):
        hub.add_repo("space", f"alice/{name}", files=metric_files(name), sdk="static")
    hub.push("space", "alice/group_gap", {"x.sh": b"x"})
    out = str(tmp_path / "out")
    assert script.main(["metrics", "alice", "group_gap", "paired_gap", "--out", out]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("alice/paired_gap ")
    assert said.err.splitlines()[0].startswith("pull: alice/group_gap holds the file 'x.sh'")
    assert said.err.splitlines()[1] == "pull: 1 of 2 could not be pulled"
    assert os.listdir(out) == ["paired_gap"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["metrics", "alice", "bleu"], "Unknown measure 'bleu'"),
        (["datasets", "alice", "imdb"], "Unknown corpus 'imdb'"),
        (["datasets", "../x"], "OWNER/NAME"),
        (["results", "nothing"], "OWNER/NAME"),
        (["results", "alice/nothing"], "is not there"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_sentence_and_code_2(hub, tmp_path, capsys, arguments, told):
    assert script.main([*arguments, "--out", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err.splitlines()[0]


def test_a_hub_in_trouble_is_one_sentence_and_code_1(hub, tmp_path, capsys):
    hub.fail("GET", r".*", status=500, times=50)
    assert script.main(["results", "alice/results", "--out", str(tmp_path)]) == 1
    assert "trouble of its own" in capsys.readouterr().err


def test_what_is_stopped_says_so(hub, tmp_path, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    hub.add_repo("dataset", "bob/results", files=shared("r"))
    monkeypatch.setattr(pulling, "_fetch", stop)
    assert script.main(["results", "bob/results", "--out", str(tmp_path)]) == 130
    assert "stopped" in capsys.readouterr().err
    assert contents(tmp_path) == {}
