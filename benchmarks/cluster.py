"""Workers of a Ray cluster of two nodes on this machine: killed at random, held against one node, given many rows."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.frame import NotHereError, Scale, Series, scaled
from benchmarks.measuring import peak, timed_process

KILLS = 100
KINDS = ("worker", "node", "driver")
STUDY = "occupation_sentiment:sentences"
MODEL = "benchmarks.cluster:slow"
# of an audit of several: tiny ones, one of them broken, and prompts of each
MODELS = 12
PROMPTS = 102
ROWS = 10_000_000  # of the swap whose memory is told
# own prompts of the audit that is timed, and the part of them that processes read alone
ASKED = 30_000
ALONE = 10
STORE = 80 << 20
_LOADED = ["pandas", "scipy.stats", "ray", "swapbias.runs.several_models"]


def slow(texts: Sequence[str]) -> list[float]:
    """A cheap scorer with a planted gap, as slow as a model is."""
    time.sleep(0.05)
    return [0.7 - 0.1 * (text.startswith("She") and len(text) % 2) for text in texts]


@contextmanager
def _nodes(count: int) -> Iterator[Any]:
    """A cluster of so many nodes of one core each."""
    if find_spec("ray") is None:
        raise NotHereError("ray is not installed (pip install 'swapbias[ray]')")
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
    )
    for _ in range(count - 1):
        made.add_node(num_cpus=1, object_store_memory=STORE)
    try:
        yield made
    finally:
        made.shutdown()


# --- killed ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    """A command that is killed.

    Attributes:
        audit: begins it in a folder or goes on with it; given an address by workers of that cluster.
        done: how much of it is on disk.
        whole: whether nothing is left to do.
        loaded: modules that a driver begins with.
    """

    audit: Callable[[str, str], None]
    done: Callable[[Path], int]
    whole: Callable[[Path], bool]
    loaded: Sequence[str]


def _soak(job: _Job, scale: Scale) -> list[tuple[str, ...]]:
    """One row a count: what, how many, what is wanted, whether it is met."""
    draw = random.Random(20_261_122)
    kills = Counter[str]()
    runs = 0
    lost = doubled = differing = 0
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(list(job.loaded))
    with _nodes(2) as cluster, tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"  # of all, since a comparison names the places of its runs
        job.audit(str(folder), "")
        whole = _results(folder)
        expected = _ids(folder)
        while kills.total() < scaled(KILLS, scale):
            shutil.rmtree(folder)
            while not _lived(job, processes, cluster, folder, draw, kills, scaled(KILLS, scale)):
                pass
            runs += 1
            found = _results(folder)
            rows = _ids(folder)
            differing += sum(found.get(name) != whole[name] for name in whole) + len(
                set(found) - set(whole)
            )
            lost = lost + (expected - rows).total()
            doubled = doubled + (rows - expected).total()
            sys.stderr.write(
                f"{kills.total()} kills, {runs} runs, {lost} lost, {doubled} doubled, {differing} differ\n"
            )
    counts = [
        *(
            (f"kill -9 of a {kind}" if kind != "node" else "nodes removed", kills[kind], None)
            for kind in KINDS
        ),
        ("runs that were finished", runs, None),
        ("rows lost", lost, 0),
        ("rows doubled", doubled, 0),
        (f"files of results that differ from one process, of {len(whole)} a run", differing, 0),
    ]
    return [
        (
            what,
            f"{count:,}",
            "" if most is None else f"{most}",
            "" if most is None else "yes" if count <= most else "no",
        )
        for what, count, most in counts
    ]


def _lived(
    job: _Job,
    processes: Any,
    cluster: Any,
    folder: Path,
    draw: random.Random,
    kills: Counter[str],
    most: int,
) -> bool:
    """One life of a driver, with kills around it; whether the run is finished."""
    life = processes.Process(target=job.audit, args=(str(folder), cluster.address))
    life.start()
    while life.is_alive():
        # Some kills wait for a part to be written, some do not.
        due = job.done(folder) + draw.choice((0, 1, 2))
        until = time.monotonic() + draw.uniform(0.5, 30.0)
        while life.is_alive() and time.monotonic() < until and job.done(folder) < due:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 1.0))
        if kills.total() >= most or not life.is_alive():
            life.join()
            continue
        kind = draw.choice(KINDS)
        if kind == "driver":
            life.kill()
            life.join()
            kills[kind] += 1
            return False
        if kind == "worker" and (found := list(_workers())):
            os.kill(draw.choice(found), signal.SIGKILL)
            kills[kind] += 1
        elif kind == "node":
            node = next(iter(cluster.worker_nodes))
            cluster.remove_node(node, allow_graceful=False)
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
            kills[kind] += 1
    if life.exitcode:
        raise ValueError(f"A driver ended with {life.exitcode} by itself.")
    return job.whole(folder)


def _audit(folder: str, address: str) -> None:
    """Begin the audit, or go on with it; by one process where no cluster is named."""
    from swapbias.runs import Settings, resume, start
    from swapbias.swapping.cluster import LOCAL, Engine

    quiet: Any = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
    engine = Engine(name="ray", address=address, workers=2) if address else LOCAL
    if (Path(folder) / "manifest.json").exists():
        resume(Path(folder), **quiet, engine=engine, trust=True)
        return
    settings = Settings(model=MODEL, studies=(STUDY,), wordings=True)
    start(settings, Path(folder), **quiet, draw=False, engine=engine)


def _parts(folder: Path) -> int:
    return len(list((folder / "items").glob(".*.parts/*.parquet")))


def _audit_models(folder: str, address: str) -> None:
    """Run as ``_audit``, of several models: tiny ones beside the folder, and one that cannot be loaded."""
    from benchmarks.models import STUDY as CONFIG, save_models
    from swapbias.runs import Settings, audit_several
    from swapbias.swapping.cluster import LOCAL, Engine

    quiet: Any = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
    quiet["engine"] = Engine(name="ray", address=address, workers=2) if address else LOCAL
    out = Path(folder)
    models = Path(folder).parent / "models"
    if not models.exists():
        save_models(models, MODELS)
        (models / "model-0000/model.safetensors").write_bytes(b"broken")
    audit_several(
        [str(one) for one in sorted(models.iterdir())],
        Settings(studies=(CONFIG,), limit=PROMPTS),
        out,
        **quiet,
    )


def _finished(folder: Path) -> int:
    """Models whose results are there."""
    return len(list(folder.glob("model-*/results.json")))


def _failed_alone(folder: Path) -> bool:
    """Tell whether nothing failed but the broken model; one whose workers were killed too often is tried again."""
    names = sorted(one.name for one in (folder.parent / "models").iterdir())
    return [name for name in names if not (folder / name / "results.json").exists()] == [
        "model-0000"
    ]


def _workers() -> Iterator[int]:
    """Processes that are workers: Ray names them after the class."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.read_bytes().startswith(b"ray::Hand"):
                yield int(place.parent.name)
        except OSError:  # it is gone
            continue


def _results(folder: Path) -> dict[str, bytes]:
    """Files of results by name: of a run, or of each of several and of their comparison."""
    names = ("results.json", "findings.csv", "items/*.parquet")
    files = [
        path for where in ("", "model-*/") for name in names for path in folder.glob(where + name)
    ]
    files += [path for path in (folder / "comparison").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _ids(folder: Path) -> Counter[str]:
    """Count how often each row is there: by run, experiment and prompt."""
    import pyarrow.parquet as pq

    found = Counter[str]()
    for path in (*folder.glob("items/*.parquet"), *folder.glob("model-*/items/*.parquet")):
        rows = pq.read_table(path, columns=["experiment", "prompt_id"]).to_pylist()
        found.update(
            f"{path.relative_to(folder)} {one['experiment']} {one['prompt_id']}" for one in rows
        )
    return found


# --- two nodes against one -------------------------------------------------------------------------------


def _swapped(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A quarter, a half and all rows by two nodes of one thread, all by one: seconds, growth, the nodes' memory."""
    rows: list[tuple[str, ...]] = []
    jobs: dict[tuple[int, int], float] = {}
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "rows.parquet"
        every = scaled(ROWS, scale, least=4)
        for size, count in ((every // 4, 2), (every // 2, 2), (every, 2), (every, 1)):
            _write_rows(source, size)
            told = _by_nodes("swap", str(source), f"{place}/out", count)
            shutil.rmtree(f"{place}/out")
            jobs[size, count] = told["all"] - told["start"]
            grown = jobs[size, count] / jobs.get((size // 2, count), jobs[size, count])
            cells = (
                f"{told['start']:.1f}",
                f"{jobs[size, count]:.1f}",
                f"{grown:.2f}" if grown != 1 else "",
            )
            told_of = (f"{told[name]:,.0f}" for name in ("driver", "worker", "rest"))
            both = f"{jobs[size, 1] / 2 / jobs[size, 2]:.2f}" if (size, 1) in jobs else ""
            rows.append((f"{size:,}", f"{count}", *cells, both, *told_of))
    return rows


def _audited(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """An audit as a whole by one and by two nodes of one thread, and by two processes without a cluster."""
    from benchmarks.made_models import distilbert, tokenizer

    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        distilbert().save_pretrained(folder / "model")
        tokenizer().save_pretrained(folder / "model")
        asked = scaled(ASKED, scale)
        _write_prompts(folder / "few.csv", max(asked // ALONE, 2))
        _write_prompts(folder / "prompts.csv", asked)
        alone = [_together(folder, count) for count in (1, 2)]
        whole: dict[int, float] = {}
        for count in (1, 2):
            told = _by_nodes("audit", str(folder / "prompts.csv"), f"{place}/{count}", count)
            whole[count] = told["all"]
            cells = (
                f"{told['start']:.1f}",
                f"{told['all']:.1f}",
                f"{whole[1] / count / whole[count]:.2f}",
            )
            limit = f"{alone[0] / alone[count - 1]:.2f}"
            rows.append(
                (
                    f"{count}",
                    *cells,
                    limit,
                    *(f"{told[one]:,.0f}" for one in ("driver", "worker", "rest")),
                )
            )
    return rows


def _by_nodes(job: str, source: str, out: str, count: int) -> dict[str, float]:
    with _nodes(count) as cluster:
        _, said = timed_process(
            ["-m", "benchmarks.cluster", job, source, out, cluster.address, str(count)]
        )
    told: dict[str, float] = json.loads(said.splitlines()[-1])
    return told


def _together(folder: Path, count: int) -> float:
    """Seconds of so many audits of few prompts at once, each a process of one thread: what the processor allows."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(count) as threads, mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):
        for _ in threads.map(
            lambda one: timed_process(
                ["-m", "swapbias", *_asked(folder / "few.csv", f"{folder}/alone-{count}-{one}")]
            ),
            range(count),
        ):
            pass
    return time.perf_counter() - begun


def _asked(prompts: Path, out: str) -> list[str]:
    told = (
        "--prompts",
        str(prompts),
        "--reference",
        "male",
        "--no-wordings",
        "--no-cache",
        "--out",
        out,
    )
    return ["audit", str(prompts.parent / "model"), *told]


def _write_prompts(path: Path, count: int) -> None:
    """Pairs of sentences, no two alike."""
    with path.open("w", encoding="utf-8") as handle:
        handle.write("text,group,pair,template\n")
        for pair in range(count // 2):
            told = f"came to the clinic on day {pair} and asked whether the letter had arrived.,"
            handle.writelines(
                f"{who} {told}{group},p{pair},t{pair % 40}\n"
                for group, who in (("female", "She"), ("male", "He"))
            )


def _write_rows(path: Path, count: int) -> None:
    """Synthetic rows, streamed to the disk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, count, 100_000):
            ids = range(first, min(first + 100_000, count))
            texts = [f"He said that his wife saw Mr. {one} and gave him her book." for one in ids]
            writer.write_table(pa.table({"id": list(ids), "text": texts}, schema=schema))


def _resident(pids: Sequence[int]) -> float:
    """MB that processes have in memory of their own; shared pages count once each."""
    pages = 0
    for pid in pids:
        try:
            resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
            pages += resident - shared
        except (OSError, ValueError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _of_ray() -> Iterator[int]:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::") or b"/ray/" in line:
            yield int(place.parent.name)


def _driver(job: str, source: str, out: str, address: str, count: int) -> dict[str, float]:
    """Do the job, and tell seconds and the most memory of this process, of a worker, and of the rest of Ray."""
    begun = time.perf_counter()
    ended = threading.Event()
    most = {"worker": 0.0, "rest": 0.0, "start": 0.0}

    def watch() -> None:
        while not ended.wait(0.5):
            if not most["start"] and next(Path(out).rglob("*.parquet"), None):
                most["start"] = time.perf_counter() - begun
            workers = list(_workers())
            most["worker"] = max([most["worker"], *(_resident([pid]) for pid in workers)])
            most["rest"] = max(
                most["rest"], _resident([pid for pid in _of_ray() if pid not in workers])
            )

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    if job == "swap":
        from swapbias.swapping import Job, swap_files
        from swapbias.swapping.cluster import Engine

        engine = Engine(name="ray", address=address, workers=count)
        swap_files(Job(source), Path(out), part_bytes=8 << 20, engine=engine)
    else:
        _say_nothing(
            [
                *_asked(Path(source), out),
                "-M",
                "engine=ray",
                "-M",
                f"address={address}",
                "-M",
                f"workers={count}",
            ]
        )
    whole = time.perf_counter() - begun
    ended.set()
    watching.join()
    return {"all": whole, "driver": peak(), **most}


def _say_nothing(arguments: Sequence[str]) -> None:
    """``swapbias`` with these arguments; what it says goes to where errors go."""
    from swapbias.cli import main

    sys.argv = ["swapbias", *arguments]
    with redirect_stdout(sys.stderr):
        try:
            main()
        except SystemExit as done:
            if done.code:
                raise


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_driver(*sys.argv[1:5], int(sys.argv[5]))) + "\n")


_ONE = _Job(_audit, _parts, lambda folder: True, _LOADED)
_SEVERAL = _Job(_audit_models, _finished, _failed_alone, [*_LOADED, "torch", "transformers"])
_COUNTS = ("what", "count", "wanted", "met")

SERIES = (
    Series(
        "cluster-soak",
        "A run of two nodes, killed and resumed",
        _COUNTS,
        lambda scale, repeat: _soak(_ONE, scale),
        timed=False,
    ),
    Series(
        "cluster-models",
        f"{MODELS} models spread over two nodes, killed and resumed",
        _COUNTS,
        lambda scale, repeat: _soak(_SEVERAL, scale),
        timed=False,
    ),
    Series(
        "cluster-rows",
        f"{ROWS:,} rows swapped by nodes of one thread",
        (
            "rows",
            "nodes",
            "s to the first part",
            "s after it",
            "times half as many",
            "efficiency of two nodes",
            "driver MB",
            "worker MB",
            "rest of Ray MB",
        ),
        _swapped,
        detached=True,
    ),
    Series(
        "cluster-audit",
        f"{ASKED:,} own prompts read by nodes of one thread, the shape of DistilBERT",
        (
            "nodes",
            "s to the first part",
            "s in all",
            "efficiency",
            "of processes without a cluster",
            "driver MB",
            "worker MB",
            "rest of Ray MB",
        ),
        _audited,
        detached=True,
    ),
)
