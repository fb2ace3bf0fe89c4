"""Runs in object stores have the bytes of those in a folder, and are resumed after a kill."""

import pytest
from pyarrow.fs import FileType, LocalFileSystem, SubTreeFileSystem

from swapbias.errors import UsageError
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.outcome import audit
from swapbias.runs import remote_store as stores
from swapbias.runs.audit import start
from swapbias.runs.remote_store import Store
from swapbias.runs.settings import Settings
from swapbias.swapping import Job, swap_files
from tests.conftest import QUIET, files_below

SETTINGS = Settings(
    model="tests.cluster_workers:positive",
    studies=("occupation_sentiment:sentences",),
    wordings=False,
)
URL = "s3://bucket/run"


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    objects = tmp_path / "objects"
    objects.mkdir()

    class Files:
        @staticmethod
        def from_uri(url):
            return SubTreeFileSystem(str(objects), LocalFileSystem()), url.removeprefix("s3://")

    monkeypatch.setattr(stores, "_file_system", Files.from_uri)
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "cache"))
    return objects / "bucket/run"


def test_run_in_a_store(bucket, tmp_path, monkeypatch):
    """A run in a store has the files of one in a folder, and repeating it needs no model."""
    whole, _ = start(SETTINGS, tmp_path / "whole", **QUIET)
    run = audit(SETTINGS.model, SETTINGS.studies, out=URL, wordings=False, progress=False)
    expected = files_below(whole.folder)
    found = files_below(bucket)
    assert found.keys() == expected.keys()
    for name in ("findings.csv", "results.json", "items/occupation_sentiment.parquet"):
        assert found[name] == expected[name]
    assert run.items("occupation_sentiment").equals(whole.items("occupation_sentiment"))
    assert not [
        path
        for path in (tmp_path / "cache").rglob("*")
        if path.suffix in (".json", ".parquet", ".html")
    ]
    monkeypatch.setattr("swapbias.runs.audit.load_readers", lambda *a, **k: pytest.fail("loaded"))
    again = audit(SETTINGS.model, SETTINGS.studies, out=URL, wordings=False, progress=False)
    assert again.findings.equals(run.findings)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_stopped_run_in_a_store(bucket, tmp_path, monkeypatch, stop):
    """A stopped run in a store goes on with the scores saved there."""
    monkeypatch.setattr("swapbias.models.classifier.CallableScorer.chunk_rows", 170)
    read = start(SETTINGS, tmp_path / "whole", **QUIET)[0].items("occupation_sentiment")
    calls = []

    def bar(title, total):
        def advance(done):
            calls.append(done)
            if sum(calls) > 500:
                raise stop

        return advance

    with pytest.raises(stop), Store(URL).mirrored() as here:
        start(SETTINGS, here, **{**QUIET, "bar": bar}, store=Store(URL))
    assert (bucket / "manifest.json").exists()
    saved = len(list((bucket / ".scores").iterdir()))
    assert saved >= 2
    with Store(URL).mirrored() as here:
        run, _ = start(SETTINGS, here, **QUIET, store=Store(URL))
        assert run.items("occupation_sentiment").equals(read)
    assert not list((bucket / ".scores").glob("*"))


def test_swapped_files_in_a_store(bucket, tmp_path):
    """Swapped files in a store equal those in a folder."""
    source = tmp_path / "rows.csv"
    source.write_text("text\nHe saw his wife.\n")
    swap_files(Job(str(source)), tmp_path / "whole")
    with Store(URL).mirrored() as here:
        swap_files(Job(str(source)), here)
    assert files_below(bucket) == files_below(tmp_path / "whole")
    store = Store("s3://bucket/other")
    with store.mirrored() as here:
        pass
    here.mkdir(parents=True)
    (here / "swap.json").write_text("{}")
    with store.mirrored() as again:
        assert (again / "swap.json").read_text() == "{}"
    assert (bucket.parent / "other/swap.json").read_text() == "{}"
    assert not here.exists()


def test_store_keeps_its_files(bucket):
    """Files that a store holds already stay as they are, and paths outside of the run are refused."""
    bucket.mkdir(parents=True)
    (bucket / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="s3://bucket/run is not empty"), Store(URL).mirrored():
        pass
    assert files_below(bucket) == {"mine.txt": b"keep"}

    class Files:
        def get_file_info(self, selector):
            return [type("Info", (), {"path": "bucket/run/../../x", "type": FileType.File})]

    with pytest.raises(UsageError, match="no path of a run"):
        stores._names(Files(), "bucket/run")


def test_unreachable_store(monkeypatch, tmp_path):
    """A store that cannot be reached is an error of one line that names its address."""

    def refuse(url):
        raise OSError("no route\nto host")

    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path))
    monkeypatch.setattr(stores, "_file_system", refuse)
    with pytest.raises(OSError, match="no route") as failed, Store(URL).mirrored():
        pass
    assert failed.value.filename == URL


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://example.com/run", "names no folder of a store"),
        ("s3://bucket", "names no folder of a store"),
        ("s3://key:secret@bucket/run", "contains a key"),
        ("s3://key@bucket/run", "contains a key"),
        ("s3://bucket/run?secret_key=x", "sets secret_key"),
    ],
)
def test_wrong_store_addresses(url, said):
    """An address that names no folder or holds a key is refused, and the key is not repeated."""
    with pytest.raises(UsageError, match=said) as refused:
        Store(url)
    assert "secret@" not in str(refused.value)


def test_private_data_needs_a_declared_store(tmp_path):
    """Chat answers and credentialed notes go to no store that was not declared for them."""
    chat = Settings(
        studies=("adjective_coreference",),
        options=(ChatOptions(model="m", base_url="http://127.0.0.1:1"),),
    )
    with pytest.raises(UsageError, match="saved line by line"):
        start(chat, tmp_path / "chat", **QUIET, store=Store(URL))
    (tmp_path / "own.csv").write_text("text,label,hadm_id\nHe fell.,1,1\nShe is well.,0,2\n")
    own = NoteOptions(data=str(tmp_path / "own.csv"), classifier="tests.cluster_workers:positive")
    notes = Settings(studies=("phenotype_fairness",), options=(own,))
    with pytest.raises(UsageError, match="was not declared as a place for them"):
        start(notes, tmp_path / "notes", **QUIET, store=Store(URL))
