"""Runs in object stores: those of a folder to the byte, whoever was killed, whatever put failed in the middle."""

import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow.fs import FileInfo, FileSystemHandler, FileType, PyFileSystem

from swapbias import store as stores
from swapbias.cli import app
from swapbias.cluster import LOCAL, Engine
from swapbias.errors import UsageError
from swapbias.models.classifier import CallableScorer
from swapbias.notes import Notes
from swapbias.outcome import _below as below, audit
from swapbias.runs.audit import _check_store, part_scorer, resume, start
from swapbias.runs.plan import Settings
from swapbias.store import Store
from swapbias.swapping import Job, Swapper, swap_files
from tests import cluster_workers
from tests.conftest import ROOT

QUIET = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
SETTINGS = Settings(
    model="tests.cluster_workers:positive", studies=("occupation_sentiment:sentences",), wordings=False
)
ITEMS, PARTS = "items/occupation_sentiment.parquet", "items/.occupation_sentiment.parts"


class Put(io.BytesIO):
    """What is written appears once it is closed, as in a store; ``after`` so many bytes the network is gone."""

    def __init__(self, objects, path, after):
        super().__init__()
        self.objects, self.path, self.after = objects, path, after

    def write(self, content):
        if self.after is not None and self.tell() + len(content) > self.after:
            self.objects = {}  # nothing appears, whoever closes it
            raise OSError(104, "Connection reset by peer")
        return super().write(content)

    def close(self):
        if not self.closed:
            self.objects[self.path] = self.getvalue()
        super().close()


class Objects(FileSystemHandler):
    """A store in memory: names with bytes. Of ``failing`` names puts fail after some bytes."""

    def __init__(self):
        self.objects, self.failing, self.puts = {}, {}, []

    def get_type_name(self):
        return "objects"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        raise AssertionError("of no use: an object may be gone when it is read")

    def get_file_info_selector(self, selector):
        below = f"{selector.base_dir}/"
        return [FileInfo(path, FileType.File) for path in list(self.objects) if path.startswith(below)]

    def delete_dir(self, path):
        for name in [one for one in self.objects if one.startswith(f"{path}/")]:
            del self.objects[name]

    def delete_file(self, path):
        if self.objects.pop(path, None) is None:
            raise FileNotFoundError(path)

    def open_input_stream(self, path):
        if path not in self.objects:
            raise FileNotFoundError(path)
        return pa.BufferReader(self.objects[path])

    def open_output_stream(self, path, metadata):
        self.puts.append(path)
        after = next((most for name, most in self.failing.items() if path.endswith(name)), None)
        return pa.PythonFile(Put(self.objects, path, after), mode="w")

    open_input_file = open_input_stream
    open_append_stream = create_dir = delete_dir_contents = None
    delete_root_dir_contents = move = copy_file = None


@pytest.fixture
def objects(monkeypatch):
    monkeypatch.setattr(stores, "SETTLE", 0.01)
    monkeypatch.setattr(stores, "BEAT", 0.05)
    monkeypatch.setattr(stores, "LEASE", 1.0)
    monkeypatch.setattr(
        import_module("swapbias.runs.results"), "write_report", lambda run, results: None
    )  # it takes long
    monkeypatch.setattr(CallableScorer, "chunk_rows", 170)  # five parts
    return Objects()


@pytest.fixture
def store(objects):
    return Store("s3://bucket/run", PyFileSystem(objects), "bucket/run")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run of one process in a folder, and its files."""
    run, _ = start(SETTINGS, tmp_path_factory.mktemp("whole") / "run", **QUIET, draw=False)
    return {path.relative_to(run.folder).as_posix(): path.read_bytes() for path in run.folder.rglob("*.*")}


def begin(store, **more):
    with store.mirrored(begun=False, say=str) as here:
        return start(SETTINGS, here, **{**QUIET, **more}, draw=False, store=store)


def go_on(store, **more):
    with store.mirrored(begun=True, say=str) as here:
        return resume(here, **{**QUIET, **more}, trust=True, store=store)


def check_same(store, whole, *, drawn=False):
    """All that a run in a folder has, byte for byte but for times, and nothing else."""
    names = {name for name in store.names() if not (drawn and name.startswith(("figures/", "report.html")))}
    assert names == set(whole)
    for name in names - {"manifest.json"}:
        assert store.read(name) == whole[name], name
    hashes = [json.loads(one)["sha256"] for one in (store.read("manifest.json"), whole["manifest.json"])]
    assert hashes[0].pop("manifest.json") != ""
    hashes[1].pop("manifest.json")
    assert all(hashlib.sha256(store.read(name)).hexdigest() == one for name, one in hashes[0].items())
    assert {name: one for name, one in hashes[0].items() if name in names} == hashes[1]


def test_a_run_in_a_store_is_that_of_a_folder_to_the_byte(store, objects, whole):
    run, _ = begin(store)
    check_same(store, whole)
    assert run.place is store
    assert not run.folder.exists()
    parts = [path for path in objects.puts if f"{PARTS}/0" in path]
    assert len(parts) == len(set(parts)) == 5
    puts = [path for path in objects.puts if not path.endswith("/.lock")]  # renewed at any time
    for place, path in enumerate(puts):
        if path.endswith(".parquet"):  # none is ever there without its sha256
            assert puts[place - 1] == f"{Path(path).parent}/.{Path(path).name}.sha256"


def test_a_put_that_fails_in_the_middle_leaves_nothing_and_the_rest_is_scored_once(
    store, objects, whole, monkeypatch
):
    asked, read = [], cluster_workers.positive
    monkeypatch.setattr(cluster_workers, "positive", lambda texts: asked.extend(texts) or read(texts))
    begin(store)
    every, asked[:], objects.objects = len(asked), [], {}
    objects.failing["00003.parquet"] = 1_000
    with pytest.raises(OSError, match="Connection reset by peer") as failed:
        begin(store)
    assert failed.value.filename == f"s3://bucket/run/{PARTS}/000-00001-00003.parquet"
    kept = [name for name in store.names() if name.endswith(".parquet")]
    assert kept == [f"{PARTS}/000-00001-0000{number}.parquet" for number in range(3)]
    objects.failing.clear()
    go_on(store)
    check_same(store, whole)
    assert every < len(asked) < 1.3 * every  # the part whose put failed is scored twice, no other


def test_a_conclusion_that_could_not_be_put_is_made_again_from_what_is_there(store, objects, whole):
    objects.failing["results.json"] = 10
    with pytest.raises(OSError, match="Connection reset by peer"):
        begin(store)
    assert store.read("results.json") is None
    assert json.loads(store.read("manifest.json"))["status"] == "running"
    objects.failing.clear()
    objects.puts.clear()
    go_on(store)
    check_same(store, whole)
    assert not any("parquet" in name for name in objects.puts)


def test_a_part_that_is_not_what_was_put_is_scored_again(store, objects, whole):
    objects.failing["00004.parquet"] = 0
    with pytest.raises(OSError, match="reset"):
        begin(store)
    objects.failing.clear()
    name = f"{PARTS}/000-00001-00001.parquet"
    store.write(name, store.read(name)[:-1])
    told = []
    go_on(store, say=told.append)
    assert f"s3://bucket/run/{name} is damaged: it is scored again." in told
    check_same(store, whole)


def test_a_place_that_is_not_empty_or_holds_no_run_is_refused(store):
    store.write("notes.txt", b"mine")
    with pytest.raises(UsageError, match=r"^s3://bucket/run is not empty\. Choose another --out\."):
        begin(store)
    with pytest.raises(UsageError, match=r"^s3://bucket/run holds no run: it has no manifest\.json\."):
        go_on(store)
    assert store.names() == ["notes.txt"]


def test_who_works_in_a_store_keeps_others_out_and_who_was_killed_does_not(store, objects):
    told, other = [], Store("s3://bucket/run", PyFileSystem(objects), "bucket/run")
    with (
        store.held(str),
        pytest.raises(UsageError, match=r"is being worked on by another process \(on"),
        other.held(told.append),
    ):
        pass
    assert "waiting 1 seconds at most, to see whether it lives" in told[0]
    assert store.names() == []
    store._sign("of a process that was killed", 3)
    with other.held(told.append):
        assert json.loads(store.read(".lock"))["holder"].startswith(f"{os.getpid()}-")
    assert store.names() == []


def test_of_two_who_take_a_store_at_once_one_has_it(store, objects, monkeypatch):
    monkeypatch.setattr(stores, "SETTLE", 0.2)
    both, had = threading.Barrier(2), []

    def take(mine):
        monkeypatch.setattr(mine, "_wait", lambda say: both.wait(), raising=False)
        try:
            with mine.held(str):
                had.append(True)
                time.sleep(0.1)
        except UsageError:
            had.append(False)

    two = [threading.Thread(target=take, args=(Store("s3://b/r", PyFileSystem(objects), "b/r"),)) for _ in range(2)]
    for one in two:
        one.start()
    for one in two:
        one.join()
    assert sorted(had) == [False, True]


def test_who_was_taken_for_dead_writes_no_more(store):
    with store.held(str):
        store._sign("another", 0)
        for _ in range(100):
            if store._lost.is_set():
                break
            time.sleep(0.05)
        with pytest.raises(UsageError, match=r"^s3://bucket/run was taken over by another process"):
            store.write("manifest.json", b"{}")
    assert store.names() == [".lock"]  # of the other


def test_who_lost_a_store_removes_nothing_of_who_has_it(store):
    store.write(".planned/00001.arrows", b"rows of the next one")
    store._lost.set()
    for remove in (lambda: store.remove([".planned/00001.arrows"]), lambda: store.remove_folder(".planned")):
        with pytest.raises(UsageError, match="was taken over by another process"):
            remove()
    assert store.names() == [".planned/00001.arrows"]


def test_a_place_that_is_being_taken_is_free_after_ctrl_c(store, monkeypatch):
    def interrupted(seconds):
        assert store.names() == [".lock"]
        raise KeyboardInterrupt

    monkeypatch.setattr(stores.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt), store.held(str):
        pass
    assert store.names() == []


def test_a_place_with_settings_is_told_with_them_and_holds_folders_before_them():
    url = "s3://bucket/run?endpoint_override=localhost:9000&scheme=http&region=us-east-1"
    assert str(Store.open(url)) == url
    assert below(url, "model") == url.replace("/run?", "/run/model?")
    assert below("a/run", "model") == "a/run/model"


def test_names_that_lead_out_of_the_folder_are_not_fetched(store, objects, tmp_path):
    for name in ("../a", "x/../../a", "/a", "x//a", "x\\a"):
        objects.objects[f"bucket/run/{name}"] = b"1"
    store.write("x/a", b"1")
    assert store.names() == ["x/a"]
    store.fetch_all(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]


@given(st.text(st.sampled_from("./\\\\a~\0 "), max_size=9) | st.text(max_size=9))
def test_a_name_that_is_fetched_stays_within_whatever_a_store_holds(name):
    if stores._is_within(name):
        assert Path("/top", name).is_relative_to("/top")
        assert os.path.normpath(f"/top/{name}") == f"/top/{name}"
        assert name not in ("", ".")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("file:///tmp/x", "Of other file systems name the folder where they are mounted."),
        ("hdfs://head/x", "expected s3://, gs:// or abfs:// and then BUCKET/FOLDER."),
        ("s3://bucket", "names no folder of a bucket. Write s3://BUCKET/FOLDER."),
        ("s3://key:secret@bucket/x", "The URL of a folder in bucket holds a key, and URLs are printed."),
        ("abfs://c@a.dfs.core.windows.net/x?sas_token=secret", "sets sas_token, and one may set endpoint_override,"),
    ],
)
def test_a_url_that_is_no_place_for_a_run_is_refused(url, told):
    with pytest.raises(UsageError) as refused:
        Store.open(url)
    assert told in str(refused.value)
    assert "secret@" not in str(refused.value)
    assert "=secret" not in str(refused.value)


def test_what_a_store_cannot_hold_or_may_not_is_refused(store, objects):
    with pytest.raises(UsageError, match=r"^Answers of chat models are written to a log line by line, which s3://b"):
        _check_store(store, [type("Task", (), {"kind": type("Kind", (), {"name": "chat"})()})()])
    notes = Notes("mimic3", ({"credentialed": "True"},), Swapper())
    kind = type("Kind", (), {"name": "classifier"})()
    task = type("Task", (), {"rows": (), "notes": notes, "kind": kind})()
    with pytest.raises(UsageError, match=r"s3://bucket/run was not declared as a place for them\..*add -M own-store"):
        _check_store(store, [task])
    _check_store(Store("s3://bucket/run", PyFileSystem(objects), "bucket/run", own=True), [task])
    _check_store(None, [task])


def test_the_command_refuses_what_it_cannot_do_in_a_store(tmp_path):
    from typer.testing import CliRunner

    for arguments, told in (
        (["vader", "tests.cluster_workers:positive", "--out", "s3://bucket/run"], "runs of one model each"),
        (["vader", "--out", str(tmp_path), "-M", "own-store"], "own-store is about a store"),
    ):
        assert told in str(CliRunner().invoke(app, ["audit", *arguments]).exception)


def test_a_call_in_python_writes_to_a_store_and_goes_on_there(store, objects, whole, monkeypatch):
    monkeypatch.setattr(Store, "open", lambda url, own: store)
    objects.failing["00002.parquet"] = 100
    named = {"studies": SETTINGS.studies, "wordings": False, "progress": False, "out": "s3://bucket/run"}
    with pytest.raises(OSError, match="reset"):
        audit(SETTINGS.model, **named)
    objects.failing.clear()
    run = audit(SETTINGS.model, **named, resume=True)
    check_same(store, whole)
    assert str(run.run.place) == "s3://bucket/run"
    assert len(run.headlines)
    folder = run.run.folder
    del run
    assert not folder.exists()


# --- swapped files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A table of texts, and the folder that it is swapped into, in more than eight parts."""
    place = tmp_path_factory.mktemp("rows")
    source = place / "rows.csv"
    source.write_text("\n".join(["text", *(f"He saw his wife {number} times." for number in range(200))]))
    swap_files(Job(str(source), mode="pairs"), place / "whole", part_bytes=500)
    files = [path for path in (place / "whole").rglob("*") if path.is_file()]
    return source, {path.relative_to(place / "whole").as_posix(): path.read_bytes() for path in files}


def swap(store, source, **more):
    with store.mirrored(begun=False, say=str) as here:
        job = Job(str(source), mode="pairs", credentialed=more.pop("credentialed", False))
        return swap_files(job, here, part_bytes=500, store=store, **more)


def test_swapped_files_in_a_store_are_those_of_a_folder_and_a_job_goes_on(store, objects, rows):
    source, expected = rows
    objects.failing["part-00004.parquet"] = 100
    with pytest.raises(OSError, match="reset") as failed:
        swap(store, source)
    assert failed.value.filename == "s3://bucket/run/data/part-00004.parquet"
    assert [name for name in store.names() if name.endswith(".parquet")] == [
        f"data/part-0000{n}.parquet" for n in range(4)
    ]
    objects.failing.clear()
    objects.objects["bucket/run/data/part-00001.parquet"] = b"half"
    store.remove(["data/.part-00002.parquet.sha256"])
    objects.puts.clear()
    told = []
    swap(store, source, say=told.append)
    damaged = [f"s3://bucket/run/data/part-0000{n}.parquet is damaged: it is written again." for n in (1, 2)]
    assert told == damaged
    assert {name: store.read(name) for name in store.names()} == expected
    again = [path.rpartition("/")[2] for path in objects.puts if path.endswith(".parquet")]
    assert "part-00001.parquet" in again
    assert not {"part-00000.parquet", "part-00003.parquet"} & set(again)
    with pytest.raises(UsageError, match=r"^s3://bucket/run is complete\."):
        swap(store, source)
    store.remove(["data/part-00003.parquet"])  # lost since: made again
    swap(store, source)
    assert {name: store.read(name) for name in store.names()} == expected


def test_a_network_that_fails_for_a_moment_damages_no_part(store, objects, rows, monkeypatch):
    source, expected = rows
    objects.failing["part-00004.parquet"] = 100
    with pytest.raises(OSError, match="reset"):
        swap(store, source)
    objects.failing.clear()
    kept, opened = dict(objects.objects), objects.open_input_file

    def gone(path):
        if path.endswith("part-00002.parquet"):
            raise OSError("AWS Error NETWORK_CONNECTION: Timeout was reached")
        return opened(path)

    with monkeypatch.context() as broken:
        broken.setattr(objects, "open_input_file", gone)
        with pytest.raises(OSError, match="Timeout was reached"):
            swap(store, source)
    assert {name: objects.objects[name] for name in kept if "part-" in name} == {
        name: content for name, content in kept.items() if "part-" in name
    }
    told = []
    swap(store, source, say=told.append)
    assert told == []
    assert {name: store.read(name) for name in store.names()} == expected


def test_credentialed_rows_go_to_a_store_that_was_declared_for_them_alone(store, objects, rows):
    with pytest.raises(UsageError, match=r"credentialed \(--credentialed was given\), and s3://bucket/run was not"):
        swap(store, rows[0], credentialed=True)
    assert store.names() == []
    swap(Store("s3://bucket/run", PyFileSystem(objects), "bucket/run", own=True), rows[0], credentialed=True)
    assert {"CREDENTIALED", "swap.json"} <= set(store.names())


# --- a server that speaks S3 ---------------------------------------------------------------------------

MOTO = os.environ.get("SWAPBIAS_TEST_S3")  # a folder: it takes other libraries than the rest is tested with
needs_s3 = pytest.mark.skipif(MOTO is None, reason="needs moto[server], where SWAPBIAS_TEST_S3 says: make test-s3")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs ray: pip install 'swapbias[ray]'")


@pytest.fixture(scope="module")
def server():
    """An S3 server on this machine with an empty bucket; where it is and the keys are in the environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = os.pathsep.join(filter(None, [MOTO, os.environ.get("PYTHONPATH")]))
    made = subprocess.Popen(
        [sys.executable, "-P", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "PYTHONPATH": here}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        _make_bucket(url)
        yield url
    made.kill()
    made.wait()


def _make_bucket(url):
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    for _ in range(600):
        try:
            urlopen(Request(f"{url}/bucket", method="PUT")).close()
            return
        except URLError:
            time.sleep(0.1)
    raise AssertionError("the server does not start")


def kill_in_the_middle(url, *arguments):
    """The command, killed with all that it started once its first part is there."""
    command = subprocess.Popen(
        [
            sys.executable, "-m", "swapbias", "audit", "tests.cluster_workers:slowly", "--study",
            SETTINGS.studies[0], "--wordings", "--no-cache", "--out", url, *arguments,
        ],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    store = Store.open(url)
    while command.poll() is None and not any(name.endswith(".parquet") for name in store.names()):
        time.sleep(0.02)
    os.killpg(command.pid, signal.SIGKILL)
    command.wait()
    left = store.names()
    assert ITEMS not in left
    assert ".lock" in left
    return store


@pytest.fixture(scope="module")
def slow_whole(whole, tmp_path_factory):
    run, _ = start(
        Settings(model="tests.cluster_workers:slowly", studies=SETTINGS.studies, wordings=True),
        tmp_path_factory.mktemp("slow") / "run", **QUIET, draw=False,
    )  # fmt: skip
    return {path.relative_to(run.folder).as_posix(): path.read_bytes() for path in run.folder.rglob("*.*")}


@needs_s3
def test_on_a_server_a_command_that_is_killed_goes_on(server, slow_whole, monkeypatch, tmp_path):
    monkeypatch.setattr(stores, "LEASE", 1.0)
    store = kill_in_the_middle("s3://bucket/killed")
    kept = {name: store.read(name) for name in store.names(PARTS)}
    told = []
    with store.mirrored(begun=True, say=told.append) as here:
        resume(here, **QUIET, trust=True, store=store)
    assert "to see whether it lives" in told[0]
    check_same(store, slow_whole, drawn=True)
    assert kept
    store.fetch_all(tmp_path)  # the same files are a run in a folder
    assert resume(tmp_path, **QUIET, trust=True)[0].folder == tmp_path


@needs_s3
@needs_ray
def test_on_a_server_what_one_engine_began_the_other_one_finishes(server, slow_whole, monkeypatch):
    monkeypatch.setattr(stores, "LEASE", 1.0)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ray = Engine(name="ray", workers=2)
    for name, arguments, then in (("ray", ("-M", "engine=ray", "-M", "workers=1"), LOCAL), ("local", (), ray)):
        store = kill_in_the_middle(f"s3://bucket/{name}", *arguments)
        go_on(store, engine=then)
        check_same(store, slow_whole, drawn=True)


@needs_s3
@needs_ray
def test_on_a_server_workers_finish_swapped_files_and_one_process_theirs(server, rows):
    source, expected = rows

    class StoppedError(Exception):
        pass

    def stop(step):
        if step.rows > 40:
            raise StoppedError

    ray = Engine(name="ray", workers=2)
    for name, first, then in (("swapped", LOCAL, ray), ("by-ray", ray, LOCAL)):
        store = Store.open(f"s3://bucket/{name}")
        with pytest.raises(StoppedError):
            swap(store, source, engine=first, on_progress=stop)
        kept = {one: store.read(one) for one in store.names("data")}
        assert 0 < len(kept) < len(expected)
        swap(store, source, engine=then)
        assert {one: store.read(one) for one in store.names()} == expected


@needs_s3
def test_on_a_server_a_connection_that_breaks_in_a_put_leaves_nothing(server, monkeypatch):
    """Between the two a relay that passes half of each put of one name on, and then hangs up."""
    host, port = server.removeprefix("http://").split(":")
    relay = socket.create_server(("127.0.0.1", 0))

    def pass_on(near):
        with near, socket.create_connection((host, int(port))) as far:
            answers = threading.Thread(target=copy, args=(far, near, None), daemon=True)
            answers.start()
            copy(near, far, b"broken")
            for one in (near, far):
                one.close()

    def copy(source, target, broken):
        try:
            while content := source.recv(1 << 16):
                if broken and b"PUT" in content and broken in content:
                    target.sendall(content[: len(content) - 100])
                    return
                target.sendall(content)
        except OSError:
            return

    def accept():
        while True:
            try:
                near, _ = relay.accept()
            except OSError:
                return
            threading.Thread(target=pass_on, args=(near,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{relay.getsockname()[1]}")
    store = Store.open("s3://bucket/relay")
    store.write("whole", bytes(5_000))
    with pytest.raises(OSError, match="AWS Error") as failed:
        store.write("broken", bytes(5_000))
    assert failed.value.filename == "s3://bucket/relay/broken"
    assert store.read("whole") == bytes(5_000)
    assert store.names() == ["whole"]
    relay.close()


@needs_s3
def test_a_worker_that_does_not_see_the_run_in_a_store_says_so(server):
    with pytest.raises(UsageError, match=r"does not see the run in s3://bucket/elsewhere\."):
        part_scorer({"run": "s3://bucket/elsewhere", "started": "now", "cache": False, "allow_pickle": False})
