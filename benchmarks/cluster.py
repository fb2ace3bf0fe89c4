"""Workers of a Ray cluster of two nodes on this machine: killed at random, held against one node, given many rows."""

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.frame import NotHereError, Scale, Series, scaled
from benchmarks.measuring import peak, timed_process

KILLS = 100
KINDS = ("worker", "node", "driver")
STUDY = "occupation_sentiment:sentences"
MODEL = "benchmarks.cluster:slow"
ROWS = 10_000_000  # of the swap whose memory is told
STORE = 80 << 20
_LOADED = ["pandas", "scipy.stats", "ray", "swapbias.audit.audit", "swapbias.audit.conclusion"]


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
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    )
    for _ in range(count - 1):
        made.add_node(num_cpus=1, object_store_memory=STORE)
    try:
        yield made
    finally:
        made.shutdown()


# --- killed ----------------------------------------------------------------------------------------------


def _soak(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a count: what, how many, what is wanted, whether it is met. ``repeat`` means nothing."""
    draw, kills, runs = random.Random(20_261_122), Counter[str](), 0
    lost = doubled = differing = 0
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(_LOADED)
    with _nodes(2) as cluster, tempfile.TemporaryDirectory() as place:
        _audit(str(Path(place) / "whole"), "")
        whole = _results(Path(place) / "whole")
        while kills.total() < scaled(KILLS, scale):
            folder = Path(place) / f"run{runs}"
            while not _lived(processes, cluster, folder, draw, kills, scaled(KILLS, scale)):
                pass
            runs += 1
            found = _results(folder)
            differing += sum(found[name] != whole[name] for name in whole)
            rows = Counter(_ids(folder))
            lost += len(set(_ids(Path(place) / "whole")) - set(rows))
            doubled += sum(count - 1 for count in rows.values())
            sys.stderr.write(
                f"{kills.total()} kills, {runs} runs, {lost} lost, {doubled} doubled, {differing} differ\n"
            )
    counts = [
        *((f"kill -9 of a {kind}" if kind != "node" else "nodes removed", kills[kind], None) for kind in KINDS),
        ("runs that were finished", runs, None),
        ("rows lost", lost, 0), ("rows doubled", doubled, 0),
        (f"files of results that differ from one process, of {len(whole)} a run", differing, 0),
    ]  # fmt: skip
    return [
        (
            what,
            f"{count:,}",
            "" if most is None else f"{most}",
            "" if most is None else "yes" if count <= most else "no",
        )
        for what, count, most in counts
    ]


def _lived(processes: Any, cluster: Any, folder: Path, draw: random.Random, kills: Counter[str], most: int) -> bool:
    """One life of a driver, with kills around it; whether the run is finished."""
    life = processes.Process(target=_audit, args=(str(folder), cluster.address))
    life.start()
    while life.is_alive():
        # Some kills wait for a part to be written, some do not.
        due = _parts(folder) + draw.choice((0, 1, 2))
        until = time.monotonic() + draw.uniform(0.5, 30.0)
        while life.is_alive() and time.monotonic() < until and _parts(folder) < due:
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
    return True


def _audit(folder: str, address: str) -> None:
    """Begin the audit, or go on with it; by one process where no cluster is named."""
    from swapbias.audit import Settings, resume, start
    from swapbias.workers import LOCAL, Engine

    quiet: Any = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
    engine = Engine(name="ray", address=address, workers=2) if address else LOCAL
    if (Path(folder) / "manifest.json").exists():
        resume(Path(folder), **quiet, engine=engine, trust=True)
        return
    settings = Settings(model=MODEL, studies=(STUDY,), wordings=True)
    start(settings, Path(folder), **quiet, draw=False, engine=engine)


def _parts(folder: Path) -> int:
    return len(list((folder / "items").glob(".*.parts/*.parquet")))


def _workers() -> Iterator[int]:
    """Processes that are workers: Ray names them after the class."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.read_bytes().startswith(b"ray::Hand"):
                yield int(place.parent.name)
        except OSError:  # it is gone
            continue


def _results(folder: Path) -> dict[str, bytes]:
    files = [folder / "results.json", folder / "findings.csv", *sorted((folder / "items").iterdir())]
    return {path.name: path.read_bytes() for path in files}


def _ids(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    (path,) = (folder / "items").glob("*.parquet")
    table = pq.read_table(path, columns=["experiment", "prompt_id"])
    return [f"{one['experiment']} {one['prompt_id']}" for one in table.to_pylist()]


# --- two nodes against one -------------------------------------------------------------------------------


def _speed(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """Seconds to the first part and of the job after it, by one and by two nodes of one thread; the nodes' memory."""
    rows: list[tuple[str, ...]] = []
    jobs: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "rows.parquet"
        _write_rows(source, scaled(ROWS, scale))
        for count in (1, 2):
            with _nodes(count) as cluster:
                arguments = ["-m", "benchmarks.cluster", str(source), f"{place}/{count}", cluster.address, str(count)]
                _, said = timed_process(arguments)
                told = json.loads(said.splitlines()[-1])
            jobs[count] = told["job"]
            efficiency = jobs[1] / count / jobs[count]
            cells = (f"{told['start']:.1f}", f"{told['job']:.1f}", f"{efficiency:.2f}")
            rows.append((f"{count}", *cells, *(f"{told[name]:,.0f}" for name in ("driver", "worker", "rest"))))
    return rows


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


def _driver(source: str, out: str, address: str, count: int) -> dict[str, float]:
    """Swap the rows, and tell seconds and the most memory of this process, of a worker, and of the rest of Ray."""
    from swapbias.swapping import Job, Step, swap_files
    from swapbias.workers import Engine

    begun, first = time.perf_counter(), 0.0
    most = {"worker": 0.0, "rest": 0.0}

    def told(step: Step) -> None:
        nonlocal first
        first = first or time.perf_counter()
        workers = list(_workers())
        most["worker"] = max([most["worker"], *(_resident([pid]) for pid in workers)])
        most["rest"] = max(most["rest"], _resident([pid for pid in _of_ray() if pid not in workers]))

    part = 8 << 20
    engine = Engine(name="ray", address=address, workers=count)
    swap_files(Job(source), Path(out), part_bytes=part, on_progress=told, engine=engine)
    end = time.perf_counter()
    return {"start": first - begun, "job": end - first, "driver": peak(), **most}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_driver(*sys.argv[1:4], int(sys.argv[4]))) + "\n")


SERIES = (
    Series(
        "cluster-soak", "A run of two nodes, killed and resumed", ("what", "count", "wanted", "met"), _soak,
        timed=False,
    ),
    Series(
        "cluster-rows", f"{ROWS:,} rows swapped by nodes of one thread",
        ("nodes", "s to the first part", "s after it", "efficiency", "driver MB", "worker MB", "rest of Ray MB"),
        _speed,
    ),
)  # fmt: skip
