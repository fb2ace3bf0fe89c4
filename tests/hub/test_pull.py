"""A pull fetches whole repositories as the Hub lists them, or nothing, and never outside its
folder."""

import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from swapbias import __version__, load_prompts
from swapbias.errors import HubError, UsageError
from swapbias.hub import datasets as building
from swapbias.hub.client import Hub
from swapbias.hub.metric_spaces import space_files
from swapbias.hub.pull import DATASET, METRIC, RECORD, RESULTS, pull_repo as pull, wanted_repos
from swapbias.studies.catalogue import load_corpus
from tests.conftest import files_below
from tests.hub.clients import command
from tests.hub.shared_runs import run_files

CORPUS = "occupation_sentiment"
KEY = ("dataset", f"alice/{CORPUS}")
VERSION = f"v{load_corpus(CORPUS).version}"
TAG = f"v{__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    list(building.build(load_corpus(CORPUS), folder))
    return {
        name: content
        for name, content in files_below(folder / CORPUS).items()
        if name != building.MARKER
    }


@pytest.fixture
def corpus(hub, built):
    """The files of a corpus on the Hub."""
    hub.add_repo(*KEY, files=built, tags=(VERSION,))
    return built


def contents(folder):
    """Every file below a folder, hidden ones too, but for the client's cache and notes of pulls."""
    return {
        name: content
        for name, content in files_below(folder).items()
        if not name.startswith("hf-home/") and not name.endswith(RECORD)
    }


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def offline(hub):
    """Return a function after which nothing may reach the Hub."""
    from huggingface_hub import constants

    with pytest.MonkeyPatch.context() as patch:  # undone before ``hub`` undoes its own
        yield lambda: patch.setattr(constants, "HF_HUB_OFFLINE", True)


def fetched(hub):
    """The paths of files that clients asked for with their content."""
    return [path for method, path, _ in hub.log if method == "GET" and "/resolve/" in path]


def test_pulled_dataset(hub, corpus, tmp_path):
    """A pulled data set has the files and rows that were published."""
    from datasets import load_dataset

    done = pull(Hub(), DATASET, KEY[1], tmp_path, revision=VERSION)
    whole = f"{len(corpus)} of {len(corpus)} files"
    commit = hub.tags(*KEY)[VERSION][:8]
    assert done == f"{KEY[1]} {VERSION} ({commit}): {whole} in {tmp_path / CORPUS}"
    assert contents(tmp_path / CORPUS) == corpus
    assert {*os.listdir(tmp_path)} == {CORPUS, "hf-home"}  # nothing is left beside it
    read = load_dataset(str(tmp_path / CORPUS), "sentences", cache_dir=str(tmp_path / "cache"))[
        "test"
    ]
    assert list(read) == list(load_prompts(CORPUS, "sentences"))


def test_second_pull(hub, corpus, tmp_path):
    """A second pull fetches nothing until there is a new commit."""
    assert "unchanged" not in pull(Hub(), DATASET, KEY[1], tmp_path)
    before = len(fetched(hub))
    assert "unchanged" in pull(Hub(), DATASET, KEY[1], tmp_path)
    assert len(fetched(hub)) == before


def test_folder_is_updated(hub, corpus, tmp_path):
    """A pulled folder is brought to another version: its old files go, its user's own files stay."""
    part = "sentences/test-00001-of-00002.parquet"
    hub.push(*KEY, {part: b"old"})
    pull(Hub(), DATASET, KEY[1], tmp_path, revision="main")
    mine = tmp_path / CORPUS / "sentences" / "notes.txt"
    mine.write_text("mine")
    newer = corpus["README.md"] + b"\nMore.\n"
    hub.push(*KEY, {"README.md": newer}, delete=[part])
    done = pull(Hub(), DATASET, KEY[1], tmp_path, revision="main")
    assert re.search(r"updated from [0-9a-f]{8}, ", done)
    wanted = {**corpus, "README.md": newer, "sentences/notes.txt": b"mine"}
    assert contents(tmp_path / CORPUS) == wanted
    pull(Hub(), DATASET, KEY[1], tmp_path)  # and back
    assert contents(tmp_path / CORPUS) == {**corpus, "sentences/notes.txt": b"mine"}


def test_changed_files_stay(hub, corpus, tmp_path):
    """A pulled folder in which files were changed or added is not updated, and they are named."""
    pull(Hub(), DATASET, KEY[1], tmp_path)
    (tmp_path / CORPUS / "README.md").write_bytes(b"mine")
    (tmp_path / CORPUS / "sentences" / "more.parquet").write_bytes(b"mine")
    hub.push(*KEY, {"README.md": b"newer"})
    told = "changed since it was pulled: README.md, sentences/more.parquet. Move"
    with pytest.raises(UsageError, match=told):
        pull(Hub(), DATASET, KEY[1], tmp_path, revision="main")
    assert (tmp_path / CORPUS / "README.md").read_bytes() == b"mine"


def test_update_keeps_closed_folders(hub, corpus, tmp_path):
    """A folder that its user closed stays closed when it is updated, and so do folders in it."""
    pull(Hub(), DATASET, KEY[1], tmp_path)
    inner = tmp_path / CORPUS / "private" / "notes"
    inner.mkdir(parents=True)
    (inner / "mine.txt").write_text("mine")
    for folder in (tmp_path / CORPUS, inner.parent):
        folder.chmod(0o700)
    hub.push(*KEY, {"README.md": b"newer"})
    assert "updated" in pull(Hub(), DATASET, KEY[1], tmp_path, revision="main")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / CORPUS, inner.parent)]
    assert modes == [0o700, 0o700]
    assert (inner / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("step", ["rename", "rmtree"])
def test_cut_update_loses_nothing(hub, corpus, tmp_path, monkeypatch, step):
    """An update that fails while the new folder takes the place of the old one loses no file of the user's."""
    pull(Hub(), DATASET, KEY[1], tmp_path)
    mine = tmp_path / CORPUS / "mine.txt"
    mine.write_text("mine")
    hub.push(*KEY, {"README.md": b"newer"})
    rename, rmtree = Path.rename, shutil.rmtree

    def broken_rename(path, new):
        if path.name == f".{CORPUS}.new":
            raise OSError(16, "busy")
        return rename(path, new)

    def broken_rmtree(path, **options):
        if not options:
            raise OSError(13, "denied")
        rmtree(path, **options)

    with monkeypatch.context() as patch:
        if step == "rename":
            patch.setattr(Path, "rename", broken_rename)
        else:
            patch.setattr("swapbias.files.shutil.rmtree", broken_rmtree)
        with pytest.raises(OSError, match=r"busy|denied"):
            pull(Hub(), DATASET, KEY[1], tmp_path, revision="main")
    assert mine.read_text() == "mine"
    pull(Hub(), DATASET, KEY[1], tmp_path, revision="main")
    assert contents(tmp_path / CORPUS) == {**corpus, "README.md": b"newer", "mine.txt": b"mine"}


def test_killed_update(hub, corpus, tmp_path):
    """What a process that was killed between two steps left under another name is back."""
    pull(Hub(), DATASET, KEY[1], tmp_path)
    (tmp_path / CORPUS / "mine.txt").write_text("mine")
    (tmp_path / CORPUS).rename(tmp_path / f".{CORPUS}.replaced")
    with pytest.raises(UsageError, match="back as it was before a run that was stopped"):
        pull(Hub(), DATASET, KEY[1], tmp_path)
    assert "unchanged" in pull(Hub(), DATASET, KEY[1], tmp_path)
    assert contents(tmp_path / CORPUS) == {**corpus, "mine.txt": b"mine"}


def test_folder_of_another_owner(hub, corpus, tmp_path):
    """A folder pulled from somebody else is not updated."""
    hub.add_repo("dataset", f"bob/{CORPUS}", files={**corpus, "README.md": b"x"}, tags=(VERSION,))
    pull(Hub(), DATASET, KEY[1], tmp_path)
    with pytest.raises(UsageError, match="is a folder that is not empty"):
        pull(Hub(), DATASET, f"bob/{CORPUS}", tmp_path)
    assert contents(tmp_path / CORPUS) == corpus


def test_installed_version(hub, corpus, tmp_path):
    """The version of the installed package is pulled, whatever main holds; a missing one is told with the tags."""
    hub.push(*KEY, {"README.md": b"later"})
    assert f"{KEY[1]} {VERSION} (" in pull(Hub(), DATASET, KEY[1], tmp_path)
    assert contents(tmp_path / CORPUS) == corpus
    files = {"paired_gap.py": b"x"}
    hub.add_repo("space", "alice/paired_gap", files=files, sdk="static", tags=("v0.0.9",))
    told = rf"has no revision v{re.escape(__version__)}, expected main or one of v0\.0\.9\. "
    with pytest.raises(HubError, match=told):
        pull(Hub(), METRIC, "alice/paired_gap", tmp_path)


def test_pull_offline(hub, corpus, tmp_path, offline):
    """What was pulled comes from the cache without the Hub: into its folder and into a new one."""
    pull(Hub(), DATASET, KEY[1], tmp_path / "first")
    hub.push(*KEY, {"README.md": b"later"})
    pull(Hub(), DATASET, KEY[1], tmp_path / "first", revision="main")
    offline()
    done = pull(Hub(), DATASET, KEY[1], tmp_path / "first")
    assert VERSION in done
    assert "updated from" in done
    assert done.endswith("The Hub was not reached.")
    pull(Hub(), DATASET, KEY[1], tmp_path / "second")
    assert contents(tmp_path / "first" / CORPUS) == contents(tmp_path / "second" / CORPUS) == corpus
    assert wanted_repos(Hub(), DATASET, "alice", []) == [KEY[1]]


def test_offline_without_an_earlier_pull(hub, corpus, tmp_path, offline):
    """Nothing is pulled offline that was not pulled before, not even from a cache that holds part of it."""
    state = Hub().existing_state(building.Repo(*KEY))
    Hub().fetch(state, ["README.md"])
    offline()
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        pull(Hub(), DATASET, KEY[1], tmp_path / "out")
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        wanted_repos(Hub(), DATASET, "alice", [])
    assert contents(tmp_path) == {}


def test_pull_resumes(hub, tmp_path):
    """A pull that broke off fetches the rest alone when it is run again."""
    files = {**run_files("r"), "runs/r/items/x.parquet": b"PAR1" * 9}
    hub.add_repo("dataset", "bob/results", files=files)
    hub.fail("*", r".*x\.parquet.*", status=403, times=20)
    with pytest.raises(HubError):
        pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert contents(tmp_path) == {}
    hub.plans.clear()
    pull(Hub(), RESULTS, "bob/results", tmp_path)
    names = [path.rpartition("/")[2] for path in fetched(hub)]
    assert sorted(set(names)) == sorted(names)  # each once
    assert contents(tmp_path / "bob" / "results") == files


@pytest.mark.parametrize("path", ["README.md", "sentences/test-00000-of-00001.parquet"])
def test_changed_bytes(corpus, tmp_path, monkeypatch, path):
    """Bytes other than the Hub lists, by sha256 or by git's id, are refused."""
    snapshot = Hub.snapshot

    def other(*given, **options):
        file = snapshot(*given, **options) / path
        content = file.read_bytes()
        file.unlink()  # a link to the cache
        file.write_bytes(content[:-1] + b"x")
        return snapshot(*given, **options)

    monkeypatch.setattr(Hub, "snapshot", other)
    with pytest.raises(HubError, match="other files came than it lists"):
        pull(Hub(), DATASET, KEY[1], tmp_path / "out")
    assert contents(tmp_path / "out") == {}


def test_file_added_meanwhile(corpus, tmp_path, monkeypatch):
    """A file that somebody puts into the empty folder meanwhile stays."""
    mine = tmp_path / CORPUS / "mine.txt"
    mine.parent.mkdir()
    copy = shutil.copyfile

    def copying(*paths):
        mine.write_text("mine")
        copy(*paths)

    monkeypatch.setattr("swapbias.hub.pull.shutil.copyfile", copying)
    with pytest.raises(OSError, match="not empty"):
        pull(Hub(), DATASET, KEY[1], tmp_path)
    assert contents(tmp_path / CORPUS) == {"mine.txt": b"mine"}


def test_repository_changed_meanwhile(hub, corpus, tmp_path):
    """A repository that changes during a pull is pulled as it was."""
    hub.on("GET", r"/resolve/", lambda: hub.push(*KEY, {"README.md": b"later"}))
    pull(Hub(), DATASET, KEY[1], tmp_path, revision="main")
    assert len(hub.commits(*KEY)) == 2
    assert (tmp_path / CORPUS / "README.md").read_bytes() == corpus["README.md"]


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
    ids=[
        "parent folder",
        "absolute",
        "backslash",
        "device name",
        "trailing blank",
        "other case",
        "file as folder",
        "too long",
    ],
)
def test_unsafe_paths(hub, tmp_path, name):
    """Paths that leave the folder or clash with each other are not fetched."""
    hub.add_repo("dataset", "bob/results", files={"README.md": b"x", **run_files("r"), name: b"{}"})
    assert "3 of 4 files" in pull(Hub(), RESULTS, "bob/results", tmp_path / "out")
    found = {path.removeprefix("out/bob/results/") for path in contents(tmp_path)}
    assert found == {"README.md", *run_files("r")}


def test_cut_pull(hub, tmp_path):
    """A pull that breaks off leaves the old folder as it was, and the next one clears what a killed
    one left."""
    hub.add_repo("dataset", "bob/results", files=run_files("r"))
    (tmp_path / "bob" / ".results.new" / "runs").mkdir(parents=True)
    pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert os.listdir(tmp_path / "bob") == ["results"]
    before = contents(tmp_path)
    hub.push("dataset", "bob/results", {**run_files("second"), "runs/second/results.json": b"{}"})
    hub.fail("GET", r".*second/results\.json.*", status=403, times=20)
    with pytest.raises(HubError):
        pull(Hub(), RESULTS, "bob/results", tmp_path / "other")
    assert contents(tmp_path) == before
    del hub.repositories["dataset", "bob/results"]
    with pytest.raises(UsageError, match="is not there"):
        pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert contents(tmp_path) == before


def test_unusable_folder(hub, tmp_path):
    """A path that is no folder, or a folder with files of the user, is refused."""
    hub.add_repo("dataset", "bob/results", files=run_files("r"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "results").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"results is a link"):
        pull(Hub(), RESULTS, "bob/results", tmp_path)
    mine = tmp_path / "full" / "bob" / "results" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(UsageError, match="is a folder that is not empty"):
        pull(Hub(), RESULTS, "bob/results", tmp_path / "full")
    assert contents(tmp_path / "full") == {"bob/results/notes.txt": b"mine"}
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="file"):
            pull(Hub(), RESULTS, "bob/results", out)


def test_results_with_runs(hub, tmp_path):
    """Results are pulled with their runs and without files of other kinds."""
    files = {
        "README.md": b"x",
        **run_files("r"),
        "runs/r/figures/a b.svg": b"<svg/>",
        "run.sh": b"rm",
        "x.pkl": b".",
    }
    hub.add_repo("dataset", "bob/results", files=files)
    done = pull(Hub(), RESULTS, "bob/results", tmp_path)
    assert "4 of 6 files" in done
    assert set(contents(tmp_path / "bob" / "results")) == set(files) - {"run.sh", "x.pkl"}


@pytest.mark.parametrize(
    ("kind", "held", "told"), [(RESULTS, "dataset", "results"), (METRIC, "space", "metric")]
)
def test_repository_without_content(hub, tmp_path, kind, held, told):
    """A repository without runs or module is refused."""
    hub.add_repo(held, "alice/paired_gap", files={"README.md": b"x"}, tags=(TAG,))
    with pytest.raises(ValueError, match=f"alice/paired_gap contains no {told} of swapbias"):
        pull(Hub(), kind, "alice/paired_gap", tmp_path)
    assert contents(tmp_path) == {}


def test_pulled_metric_is_not_run(hub, tmp_path):
    """A metric is pulled with its files alone, and none of its code runs."""
    trap = tmp_path / "was-run"
    files = space_files(
        "paired_gap", namespace="alice", version="1.0.0"
    )  # with every module that it reads
    files["paired_gap.py"] += f"\nopen({str(trap)!r}, 'w')\n".encode()
    odd = (
        "setup.sh",
        "lib/x.py",
        "paired_gap.so",
        "sitecustomize.py",
        "__init__.py",
        "group_gap.py",
        "x.md",
    )
    there = {**files, ".gitattributes": b"", **dict.fromkeys(odd, b"x")}
    hub.add_repo("space", "alice/paired_gap", files=there, sdk="gradio", tags=(TAG,))
    pull(Hub(), METRIC, "alice/paired_gap", tmp_path / "out")
    assert set(contents(tmp_path / "out" / "paired_gap")) == set(files)
    assert not trap.exists()


def test_default_selection(hub):
    """All known repositories of an owner are pulled by default."""
    for name in ("paired_gap", "group_gap", "game"):
        hub.add_repo("space", f"alice/{name}", files={"README.md": b"x"}, sdk="gradio")
    assert wanted_repos(Hub(), METRIC, "alice", []) == ["alice/group_gap", "alice/paired_gap"]
    with pytest.raises(UsageError, match="bob has no dataset of swapbias"):
        wanted_repos(Hub(), DATASET, "bob", [])


def test_pull_command_goes_on(hub, tmp_path, capsys):
    """The command prints a line for each repository and goes on after a failure."""
    for name in ("paired_gap", "group_gap"):
        files = {f"{name}.py": b"x"}
        hub.add_repo("space", f"alice/{name}", files=files, sdk="gradio", tags=(TAG,))
    hub.fail("GET", r"alice/group_gap/resolve", status=403, times=-1)
    hub.fail("HEAD", r"alice/group_gap/resolve", status=403, times=-1)
    out = str(tmp_path / "out")
    assert command("pull", "metrics", "alice", "group_gap", "paired_gap", "--out", out) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("alice/paired_gap ")
    assert (
        printed.out.splitlines()[1] == "A metric is code of its owner: read it before you load it."
    )
    assert printed.err.splitlines()[0].startswith(
        "swapbias: alice/group_gap: Could not read alice/group_gap (403"
    )
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
    ids=["measure", "corpus", "unsafe name", "name without owner", "missing repository"],
)
def test_impossible_pull(hub, tmp_path, capsys, arguments, told):
    """A command with unknown or malformed names is one sentence and exits with code 2."""
    assert command("pull", *arguments, "--out", str(tmp_path)) == 2
    assert told in capsys.readouterr().err.splitlines()[0]


def test_stopped_pull(hub, tmp_path, capsys, monkeypatch):
    """A stopped pull says so, exits with code 130 and leaves no partial folder."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    hub.add_repo("dataset", "bob/results", files=run_files("r"))
    monkeypatch.setattr(Hub, "snapshot", stop)
    assert command("pull", "results", "bob/results", "--out", str(tmp_path)) == 130
    assert (
        capsys.readouterr().err
        == "Stopped. What is complete stays: run the same command again to resume.\n"
    )
    assert contents(tmp_path) == {}
