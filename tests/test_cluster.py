"""Workers: refusals without ray; with it a cluster of two nodes, whose results are those of one process."""

import ast
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

from swapbias.errors import MissingExtraError, UsageError
from swapbias.models.chat import ChatOptions
from swapbias.outcome import audit
from swapbias.runs import Settings, audit_several, resume, start
from swapbias.runs.audit import part_scorer
from swapbias.swapping import LOCAL, Engine, Job, cluster as workers, swap_files
from swapbias.swapping.cluster import worker_pool
from tests import cluster_workers, tiny
from tests.cli.test_cli import refused, swapbias
from tests.conftest import QUIET, ROOT
from tests.models.chat.server import ChatServer
from tests.privacy.test_quoting import MODULE, OWN_NOTES, SECRET
from tests.tables import write

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="needs ray: pip install 'swapbias[ray]'"
)
RAY = Engine(name="ray", workers=2)
WORKERS_MODULE = "tests.cluster_workers"
NUMBER = re.compile(rb"-?\d+\.\d+(?:e[-+]\d+)?|-?\d+e[-+]\d+")


def squares(folder, engine, count, *, maker="slow", **options):
    """Parts of numbers, done by a pool: what it gives, in its order."""
    spec = {"folder": str(folder), **options.pop("spec", {})}
    plan = ({"name": f"{number:03d}", "number": number, "rows": 1} for number in range(count))
    with worker_pool(
        engine, getattr(cluster_workers, maker), spec, begin_here=lambda: None, cores=1, **options
    ) as pool:
        yield from pool(plan)


def assert_same(files, expected):
    """The same files with the same bytes; numbers with a point may differ by rounding, as sums in other orders do."""
    assert files.keys() == expected.keys()
    for name, text in files.items():
        assert NUMBER.sub(b"#", text) == NUMBER.sub(b"#", expected[name]), name
        numbers = [np.array(NUMBER.findall(content), float) for content in (text, expected[name])]
        np.testing.assert_allclose(*numbers, rtol=1e-4, atol=1e-6, err_msg=name)


def written(folder):
    return {path.name: path.read_text() for path in folder.glob("*.txt")}


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ({"name": "spark"}, "Unknown engine 'spark': expected local or ray."),
        (
            {"workers": 2},
            "workers is about workers of ray, and the engine is local. Choose the engine ray.",
        ),
        (
            {"name": "ray", "gpus_per_worker": -1.0},
            "gpus_per_worker is -1.0, expected a number of 0 or more.",
        ),
    ],
    ids=["unknown name", "workers of the local engine", "negative GPUs"],
)
def test_impossible_engine(engine, told):
    """An engine with settings that contradict each other is refused with one sentence."""
    with pytest.raises(UsageError) as refused:
        Engine(**engine).check()
    assert told in str(refused.value)


def test_limits_of_an_engine(monkeypatch, tmp_path):
    """Each thing that an engine cannot do is refused with one sentence that names a way out."""
    LOCAL.check()
    monkeypatch.setattr("swapbias.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"Install with pip install 'swapbias\[ray\]'\."):
        Engine(name="ray").check()
    monkeypatch.undo()
    monkeypatch.setattr(workers, "need", lambda what, *names, extra: None)
    with pytest.raises(UsageError, match=r"^toy is in memory, where workers cannot"):
        audit(
            lambda texts: [0.5] * len(texts),
            "occupation_sentiment:control",
            name="toy",
            engine="ray",
        )
    with pytest.raises(
        UsageError, match=r"processes is 2, and workers of ray swap\. Set workers instead\."
    ):
        swap_files(Job("x.csv"), tmp_path / "out", processes=2, engine=RAY)


def test_cluster_by_address(monkeypatch, tmp_path):
    """The cluster is that of the address, its absence is an error with the command to start one,
    and chat models need none."""
    tried = []

    def init(address, **how):
        tried.append(address)
        raise ConnectionError("nobody answers")

    known = SimpleNamespace(
        is_initialized=lambda: False, shutdown=lambda: tried.append("ended"), init=init
    )
    monkeypatch.setitem(sys.modules, "ray", known)
    monkeypatch.setattr(workers, "need", lambda what, *names, extra: None)
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")  # is not read
    for engine in (RAY, replace(RAY, address="head:6379")):
        with pytest.raises(UsageError, match=r"No Ray cluster could be used .*\(nobody answers\)"):
            list(squares(tmp_path, engine, 1))
    with ChatServer(lambda prompt: "mechanic") as server:  # asked by the command itself
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1)
        settings = Settings(studies=("adjective_coreference",), limit=8, options=(chat,))
        start(settings, tmp_path / "chat", **QUIET, draw=False, engine=RAY)
        assert len(server.requests) == 8
    assert tried == ["local", "ended", "head:6379", "ended"]


NOT_IN_TIME = "The current node timed out during startup. This could happen because the GCS has become overloaded."
TROUBLE = {
    "not in time": (
        Exception(NOT_IN_TIME),
        r"\(The current node timed out during startup\. .* overloaded\)",
    ),
    "no memory": (OSError(12, "Cannot allocate memory"), "Cannot allocate memory"),
    "a process that ended": (
        RuntimeError("Failed to start GCS.\nLast line"),
        r"\(Failed to start GCS\)",
    ),
}


@pytest.mark.parametrize("place", ["init", "nodes"])
@pytest.mark.parametrize("case", TROUBLE)
def test_ray_start_failure(case, place, monkeypatch, tmp_path):
    """Ray that does not start ends the command with a sentence about Ray, not about a bug."""
    error, words = TROUBLE[case]

    def fail(*_, **how):
        raise error

    steps = {"init": lambda **how: None, "nodes": list, place: fail}
    known = SimpleNamespace(is_initialized=lambda: False, shutdown=lambda: None, **steps)
    monkeypatch.setitem(sys.modules, "ray", known)
    monkeypatch.setattr(workers, "need", lambda what, *names, extra: None)
    with pytest.raises(
        UsageError,
        match=rf"^No Ray cluster could be used on this machine .*{words}.*engine local\.$",
    ):
        list(squares(tmp_path, RAY, 1))
    with pytest.raises(
        UsageError, match=r"could be used at head:6379 .* Check the address and ray status\.$"
    ):
        list(squares(tmp_path, replace(RAY, address="head:6379"), 1))
    done = swapbias(
        "swap",
        write(tmp_path / "notes.csv", {"text": ["He fell."]}),
        "--out",
        tmp_path / "out",
        "-M",
        "engine=ray",
    )
    refused(done, 2, "No Ray cluster could be used on this machine")
    assert "bug in swapbias" not in done.stderr


def test_unequal_worker(monkeypatch, tmp_path):
    """A worker with other prompts, another model or other libraries is refused."""
    settings = Settings(
        model=f"{WORKERS_MODULE}:positive",
        studies=("occupation_sentiment:control",),
        wordings=False,
    )
    manifest = start(settings, tmp_path / "run", **QUIET, draw=False)[0].manifest()
    assert part_scorer({"manifest": manifest, "studies": {}})
    for name, sentence in (
        ("corpora", "has other prompts or word lists"),
        ("models", "another version of"),
    ):
        first, *others = manifest[name]
        changed = {**manifest, name: [{**first, "sha256": "0" * 64}, *others]}
        with pytest.raises(UsageError, match=sentence):
            part_scorer({"manifest": changed, "studies": {}})
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "1")  # back to what it was
    with pytest.raises(
        UsageError, match=r"has numpy \S+, and the command 0\. Install the same on every machine\."
    ):
        workers._settle(1, "", False, (("numpy", "0"),))


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core each on this machine, to which this process is connected."""
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'swapbias[ray]'")
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)  # workers import what they do from the tests
    size = {"num_cpus": 1, "object_store_memory": 80 << 20}
    started = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    started.add_node(**size)
    ray.init(address=started.address, log_to_driver=False, logging_level="ERROR")
    yield started
    ray.shutdown()
    started.shutdown()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


@needs_ray
def test_masked_audit_by_workers(cluster, tmp_path, monkeypatch):
    """An audit of a masked model by workers has the files of one process."""
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        model=str(tiny.save("bert", tmp_path / "model")),
        studies=("gendered_stigma:rq1",),
        wordings=False,
    )
    shown = []

    def bar(title, total):
        return lambda done: shown.append(done / total)

    here, _ = start(settings, tmp_path / "here", **QUIET, draw=False)
    there, _ = start(settings, tmp_path / "there", say=str, bar=bar, draw=False, engine=RAY)
    names = ("results.json", "findings.csv")
    assert_same(
        *({name: (run.folder / name).read_bytes() for name in names} for run in (there, here))
    )
    scored = [
        pq.read_table(run.folder / "items/gendered_stigma.parquet").to_pandas()
        for run in (there, here)
    ]
    assert_frame_equal(*scored, rtol=1e-4)
    assert len(shown) > 1
    assert sum(shown) == pytest.approx(1)
    assert not list(there.folder.rglob(".*"))


@needs_ray
def test_ray_data(cluster, tmp_path):
    """Prompts that workers of Ray Data score on two nodes have the gaps of an audit on one machine."""
    model = tiny.save("bert", tmp_path / "model")
    printed = python(
        tmp_path,
        *(ROOT / "examples" / "ray_data.py", model, "--study", "gendered_stigma:rq1"),
        *("--address", cluster.address, "--workers", "2", "--rows", "200"),
    )
    assert printed.returncode == 0, printed.stderr
    here = audit(str(model), "gendered_stigma:rq1", wordings=False, progress=False)
    count, *lines = printed.stdout.splitlines()
    assert count == "1,122 prompts, 1,122 with a score"
    gaps = here.primary[["contrast", "value", "ci_low", "ci_high"]].to_numpy().tolist()
    assert len(lines) == len(gaps) > 0
    for line, (contrast, *expected) in zip(lines, gaps, strict=True):
        assert line.startswith(f"{contrast} ")
        numbers = [float(number) for number in re.findall(r"[+-]\d\.\d{4}", line)]
        assert numbers == pytest.approx(expected, abs=1e-3)


@needs_ray
def test_config_of_ray_data_llm():
    """Ray Data LLM knows the settings of the page on clusters, without vLLM."""
    llm = pytest.importorskip("ray.data.llm")
    page = (ROOT / "docs" / "cluster.md").read_text()
    (code,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    (statement,) = [
        node for node in ast.parse(code).body if ast.unparse(node).startswith("config =")
    ]
    names = {"vLLMEngineProcessorConfig": llm.vLLMEngineProcessorConfig}
    exec(compile(ast.Module([statement], []), "page", "exec"), names)
    assert names["config"].engine_kwargs["enable_prefix_caching"] is True
    assert callable(llm.build_processor)


class StoppedError(Exception):
    pass


def stopping(after):
    """A bar whose job ends when so many parts are done."""
    left = ["a part"] * after

    def advance(more):
        if not left:
            raise StoppedError
        left.pop()

    return lambda title, total: advance


@needs_ray
def test_engine_change_midway(cluster, tmp_path):
    """Swapped files that one engine began are finished by the other one with equal bytes."""
    source = tmp_path / "rows.csv"
    source.write_text(
        "\n".join(["text", *(f"He saw his wife {number} times." for number in range(200))])
    )
    job = Job(str(source), mode="pairs")
    swap_files(job, tmp_path / "whole", part_bytes=500)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "whole/data").iterdir()}
    assert len(expected) > 8

    for number, engines in enumerate([(LOCAL, RAY), (RAY, LOCAL)]):
        out = tmp_path / str(number)
        with pytest.raises(StoppedError):
            swap_files(job, out, part_bytes=500, engine=engines[0], bar=stopping(after=6))
        assert 0 < len(list((out / "data").glob("part-*"))) < len(expected)
        kept = sorted((out / "data").glob("part-*"))
        times = [path.stat().st_mtime_ns for path in kept]
        swap_files(job, out, part_bytes=500, engine=engines[1])
        assert {path.name: path.read_bytes() for path in (out / "data").iterdir()} == expected
        assert [path.stat().st_mtime_ns for path in kept] == times  # none was written twice
        for name in ("swap.json", "report.csv", "README.md"):
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert not (out / ".planned").exists()


@needs_ray
def test_killed_workers(cluster, tmp_path):
    """The parts of killed workers go to other workers, and each is done."""
    killed = set()
    for part, done in squares(tmp_path, RAY, 24):
        assert done["threads"] == "1"
        if part["number"] % 7 == 3 and done["pid"] not in killed:
            os.kill(done["pid"], signal.SIGKILL)
            killed.add(done["pid"])
    assert len(killed) > 1
    assert written(tmp_path) == {f"{number:03d}.txt": str(number**2) for number in range(24)}


@needs_ray
def test_removed_node(cluster, tmp_path):
    """The parts of a removed node go to other nodes, and each is done."""
    node = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    given = []
    for part, _ in squares(tmp_path, Engine(name="ray", workers=3), 24):
        given.append(part["name"])
        if len(given) == 6:
            cluster.remove_node(node, allow_graceful=False)
    assert sorted(given) == [f"{number:03d}" for number in range(24)]
    assert written(tmp_path) == {f"{number:03d}.txt": str(number**2) for number in range(24)}


@needs_ray
def test_part_that_kills_workers(cluster, tmp_path, monkeypatch):
    """A part on which every worker dies ends the job with a sentence about memory."""
    monkeypatch.setattr(workers, "MOST_DEATHS", 2)
    with pytest.raises(
        ValueError, match=r"2 workers died on part 00\d, most likely for want of memory\."
    ):
        list(squares(tmp_path, Engine(name="ray", workers=1), 3, maker="deadly"))


@needs_ray
def test_failure_in_a_worker(cluster, tmp_path):
    """A failure in a worker has the sentence that one process gives."""
    settings = Settings(
        model=f"{WORKERS_MODULE}:failing", studies=("occupation_sentiment:control",), wordings=False
    )
    sentences = []
    for engine in (LOCAL, Engine(name="ray", workers=1)):
        with pytest.raises(ValueError, match="shape") as failed:
            start(settings, tmp_path / engine.name, **QUIET, engine=engine)
        sentences.append(str(failed.value))
    assert sentences[0] == sentences[1]
    with pytest.raises(OSError, match="Input/output error") as failed:
        list(
            squares(
                tmp_path,
                Engine(name="ray", workers=1),
                2,
                maker="broken",
                spec={"file": "/x/model"},
            )
        )
    assert failed.value.filename == "/x/model"


@needs_ray
def test_several_models_by_workers(cluster, tmp_path):
    """Audits of several models by workers equal those of one process."""
    models = [f"{WORKERS_MODULE}:positive", f"{WORKERS_MODULE}:failing"]
    settings = Settings(studies=("occupation_sentiment:control",))
    done = {
        engine.name: audit_several(models, settings, tmp_path / engine.name, **QUIET, engine=engine)
        for engine in (LOCAL, RAY)
    }
    assert done["ray"].failed == done["local"].failed
    runs = [one.runs[models[0]].folder for one in done.values()]
    assert len({(folder / "findings.csv").read_bytes() for folder in runs}) == 1


DRIVER = """
import sys, ray
from pathlib import Path
from swapbias.runs.audit import start
from swapbias.runs.settings import Settings
from swapbias.swapping.cluster import Engine
quiet = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
settings = Settings(model=sys.argv[3], studies=("occupation_sentiment:sentences",), wordings=True)
start(settings, Path(sys.argv[1]), **quiet, engine=Engine(name="ray", workers=1, address=sys.argv[2]))
"""


@needs_ray
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "SIGINT"])
def test_stopped_driver(cluster, tmp_path, by):
    """One process finishes a run whose driver was stopped, with equal files."""
    model = f"{WORKERS_MODULE}:positive"
    settings = Settings(model=model, studies=("occupation_sentiment:sentences",), wordings=True)
    whole, _ = start(settings, tmp_path / "whole", **QUIET, draw=False)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path / "run"), cluster.address, model],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    parts = tmp_path / "run/.scores"
    while driver.poll() is None and not list(parts.glob("*.parquet")):
        time.sleep(0.01)
    driver.send_signal(by)
    driver.communicate(timeout=60)
    run, _ = resume(tmp_path / "run", **QUIET, trust=True)
    for name in ("items/occupation_sentiment.parquet", "results.json"):
        assert (run.folder / name).read_bytes() == (whole.folder / name).read_bytes()


AUDITS = """
import sys, ray
from swapbias.cli import main
address, *names = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")  # one job, whose workers live on
asked = "audit --study phenotype_fairness --debug -M data=own.csv -M engine=ray".split()
for name in names:
    more = ["-M", f"classifier=own_quoting:{name}", "-M", f"address={address}", "--out", f"run-{name}"]
    sys.argv = ["swapbias", *asked, *more]
    try:
        main()
    except SystemExit as end:
        print(name, "ended with", end.code)
"""


@needs_ray
def test_ray_files_hold_no_note(cluster, tmp_path):
    """No file of Ray holds a word of credentialed notes after an audit."""
    (tmp_path / "own_quoting.py").write_text(
        f"{MODULE}\ndef printed(texts):\n    print(texts)\n    return [0.5 for _ in texts]\n"
    )
    lines = OWN_NOTES.splitlines()
    (tmp_path / "own.csv").write_text(
        "\n".join([f"{lines[0]},hadm_id", *(f"{one},1" for one in lines[1:])])
    )
    codes = {"raises": 2, "floats": 2, "arrow": 2, "remote": 2, "printed": 0}
    done = python(tmp_path, "-c", AUDITS, cluster.address, *codes)
    for name, code in codes.items():
        assert f"{name} ended with {code}" in done.stdout, done.stderr
        assert all(
            path.stat().st_mode & 0o077 == 0 for path in (tmp_path / f"run-{name}").rglob("*")
        )
    assert SECRET not in done.stdout + done.stderr
    assert not [str(path) for path in ray_files() if SECRET.encode() in path.read_bytes()]


@needs_ray
def test_swapped_notes_on_a_cluster(cluster, tmp_path):
    """A cluster swaps credentialed notes, and no file of Ray holds a word of them."""
    (tmp_path / "own.csv").write_text(OWN_NOTES)
    arguments = ["swap", "own.csv", "--credentialed", "--out", "swapped", "-M", "engine=ray"]
    done = python(tmp_path, "-m", "swapbias", *arguments, "-M", f"address={cluster.address}")
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert SECRET in str(pq.read_table(tmp_path / "swapped" / "data")["text"].to_pylist())
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "swapped").rglob("*"))
    assert not [str(path) for path in ray_files() if SECRET.encode() in path.read_bytes()]


def python(folder, *arguments):
    environment = {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def ray_files():
    """Files of Ray's session: logs, events, spilled objects."""
    private = pytest.importorskip("ray._private.worker")
    session = Path(private._global_node.get_session_dir_path())
    files = [path for path in session.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.name.startswith("worker-") for path in files)
    return files
