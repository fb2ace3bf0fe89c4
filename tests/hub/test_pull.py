"""What was published comes back whole and checked, or not at all, and never outside its folder."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scripts import pull as script
from swapbias.errors import HubError, UsageError
from swapbias.hub import corpora as building, pull as pulling
from swapbias.hub.client import Hub
from swapbias.hub.pull import DATASET, METRIC, RESULTS, SOURCE, pull_repos as pull, wanted_repos
from swapbias.studies.catalogue import load_prompts, metric_path
from tests.conftest import ROOT
from tests.hub.clients import environment
from tests.hub.shared_runs import shared

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
        ("../test-*.parquet", "reads other files than its own"),
        ("rq2/test-*.parquet", "reads other files than its own"),
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
        b"---\nconfigs: [{config_name: null, data_files: []}]\ndataset_info: [{config_name: 1, splits: []}]\n---\n",
        b"---\nconfigs: [{config_name: a, data_files: [{split: 1, path: x}]}]\ndataset_info: []\n---\n",
        b"---\nconfigs: [[]]\ndataset_info: {}\n---\n",
    ],
)
def test_a_card_of_another_shape_is_one_sentence(hub, corpus, tmp_path, card):
    hub.add_repo("dataset", f"alice/{CORPUS}", files={**corpus, "README.md": card})
    with pytest.raises(ValueError, match=rf"alice/{CORPUS}/README\.md"):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert os.listdir(tmp_path) == []


FIRST = b"  - name: prompt_id\n    dtype: string\n"


@pytest.mark.parametrize("kind", [b"image", b"audio", b"int64", b"string\n    decode: true"])
def test_a_column_that_is_declared_as_something_to_fetch_is_refused(hub, corpus, tmp_path, kind):
    assert FIRST in corpus["README.md"]
    card = corpus["README.md"].replace(FIRST, FIRST.replace(b"string", kind), 1)
    hub.add_repo("dataset", f"alice/{CORPUS}", files={**corpus, "README.md": card})
    with pytest.raises(ValueError, match="declared as something else than text"):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert os.listdir(tmp_path) == []


def table(corpus, change):
    """The files with the first config's table changed."""
    path = "rq1/test-00000-of-00001.parquet"
    content = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(corpus[path]))), content)
    return {**corpus, path: content.getvalue()}


PICTURE = json.dumps({"info": {"features": {"prompt_id": {"_type": "Image"}}}})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda read: read.replace_schema_metadata({"huggingface": PICTURE}), "something else than text"),
        (lambda read: read.set_column(0, "prompt_id", pa.array([b"x"] * len(read))), "something else than text"),
        (lambda read: read.append_column("more", pa.array(["x"] * len(read))), "not those of the card"),
        (lambda read: read.replace_schema_metadata({"huggingface": "[]"}), "cannot be read as a dataset"),
    ],
)
def test_a_table_that_holds_more_than_the_declared_texts_is_refused(hub, corpus, tmp_path, change, told):
    hub.add_repo("dataset", f"alice/{CORPUS}", files=table(corpus, change))
    with pytest.raises(ValueError, match=told):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert os.listdir(tmp_path) == []


def test_tables_that_no_config_reads_are_left_out(hub, corpus, tmp_path):
    more = {"other/evil.parquet": b"x", "rq1/evil.parquet": b"x", "rq1/train-0.parquet": b"x", "run.py": b"x"}
    hub.add_repo("dataset", f"alice/{CORPUS}", files={**corpus, **more})
    for unchanged in (False, True):
        done = pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
        assert (done.unchanged, done.left_out) == (unchanged, 4)
    assert set(contents(tmp_path / CORPUS)) == {*corpus, SOURCE}


def test_data_that_is_no_parquet_is_refused(hub, corpus, tmp_path, caplog):
    files = {path: content if path == "README.md" else b"PAR1 not really" for path, content in corpus.items()}
    hub.add_repo("dataset", f"alice/{CORPUS}", files=files)
    with pytest.raises(ValueError, match="cannot be read as a dataset"):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert os.listdir(tmp_path) == []
    assert caplog.text == ""  # datasets would name a temporary folder


def test_a_file_that_broke_since_is_fetched_again(hub, corpus, tmp_path):
    hub.add_repo("dataset", f"alice/{CORPUS}", files=corpus)
    pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    broken = tmp_path / CORPUS / "rq1" / "test-00000-of-00001.parquet"
    broken.write_bytes(broken.read_bytes()[:-1])
    assert not pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path).unchanged
    assert broken.read_bytes() == corpus["rq1/test-00000-of-00001.parquet"]


def test_a_file_of_the_users_beside_what_was_pulled_is_not_deleted(hub, corpus, tmp_path):
    hub.add_repo("dataset", f"alice/{CORPUS}", files=corpus)
    pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    mine = tmp_path / CORPUS / "rq1" / "notes.txt"
    mine.write_text("mine")
    hub.push("dataset", f"alice/{CORPUS}", {"README.md": corpus["README.md"] + b"\nMore.\n"})
    with pytest.raises(UsageError, match=r"holds 'rq1/notes\.txt', which was not pulled and would be lost"):
        pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    assert mine.read_text() == "mine"


def test_a_folder_that_was_pulled_from_somebody_else_is_not_replaced(hub, corpus, tmp_path):
    for owner in ("alice", "bob"):
        hub.add_repo(
            "dataset", f"{owner}/{CORPUS}", files={**corpus, "README.md": corpus["README.md"] + owner.encode()}
        )
    pull(Hub(), DATASET, f"alice/{CORPUS}", tmp_path)
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=f"was pulled from another repository, alice/{CORPUS}"):
        pull(Hub(), DATASET, f"bob/{CORPUS}", tmp_path)
    assert contents(tmp_path) == before


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
        "readme.md/x.json",
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


def test_a_place_that_is_no_folder_is_one_sentence(hub, tmp_path):
    hub.add_repo("dataset", "bob/results", files=shared("r"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "results").symlink_to(tmp_path / "nowhere")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "bob").symlink_to(tmp_path / "nowhere")
    for out, told in (
        (tmp_path / "file", r"file is no folder\. Choose another --out"),
        (tmp_path / "file" / "below", r"file is no folder\. Choose another --out"),
        (tmp_path, r"results is a link\. Choose another --out"),
        (tmp_path / "more", r"bob is no folder\. Choose another --out"),
    ):
        with pytest.raises(UsageError, match=told):
            pull(Hub(), RESULTS, "bob/results", out)


def test_a_folder_whose_replacement_was_killed_is_back_even_without_the_hub(hub, tmp_path):
    hub.add_repo("dataset", "bob/results", files=shared("r"))
    pull(Hub(), RESULTS, "bob/results", tmp_path)
    before = contents(tmp_path)
    (tmp_path / "bob" / "results").rename(tmp_path / "bob" / ".results.old")  # killed between the two renames
    hub.fail("GET", r".*", status=500, times=-1)
    with pytest.raises(HubError):
        pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert contents(tmp_path) == before


def test_an_unfinished_folder_of_a_process_that_is_gone_is_swept(hub, tmp_path):
    hub.add_repo("dataset", "bob/results", files=shared("r"))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = building._here()
    left = [here.replace(str(os.getpid()), str(gone.pid)), here, f"{gone.pid}@elsewhere"]
    for name in left:
        (tmp_path / "bob" / f".results.{name}.abc").mkdir(parents=True)
    pull(Hub(), RESULTS, "bob/results", tmp_path)
    # Of processes that run, and of other machines, nothing is touched.
    assert sorted(os.listdir(tmp_path / "bob")) == sorted([*(f".results.{name}.abc" for name in left[1:]), "results"])


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


@pytest.mark.parametrize(
    "odd",
    ["setup.sh", "lib/x.py", "paired_gap.so", ".hidden", "sitecustomize.py", "__init__.py", "group_gap.py", "x.md"],
)
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
    assert said.out.splitlines()[1] == "A metric is code of its owner: read it before you load it."
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


def test_a_place_that_cannot_be_written_is_one_sentence(hub, tmp_path, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "/x/y")

    hub.add_repo("dataset", "bob/results", files=shared("r"))
    monkeypatch.setattr(pulling, "_fetch", full)
    assert script.main(["results", "bob/results", "--out", str(tmp_path)]) == 1
    told = "pull: bob/results: /x/y: No space left on device. Check the place and its free space."
    assert capsys.readouterr().err.splitlines()[0] == told


def test_what_nobody_thought_of_in_one_repository_does_not_stop_the_others(hub, tmp_path, capsys, monkeypatch):
    def check(folder, where):
        if where == "bob/odd":
            raise RuntimeError("\x1b[31m")

    monkeypatch.setitem(pulling._CHECKS, RESULTS, check)
    for name in ("odd", "results"):
        hub.add_repo("dataset", f"bob/{name}", files=shared("r"))
    assert script.main(["results", "bob/odd", "bob/results", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("bob/results ")
    assert said.err.startswith("pull: bob/odd: RuntimeError. Nothing of it was kept.")
    assert os.listdir(tmp_path / "bob") == ["results"]


def test_a_reader_that_stops_reading_does_not_stop_the_pull(hub, tmp_path):
    hub.add_repo("dataset", "bob/results", files=shared("r"))
    command = f"'{sys.executable}' scripts/pull.py results bob/results --out '{tmp_path}/out' | head -0"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        env=environment(hub, home=tmp_path / "hf"), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "bob" / "results" / SOURCE).exists()
