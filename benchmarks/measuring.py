"""What the machine is, what it can do at most, and who else was using it."""

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PACKAGES = ("swapbias", "numpy", "scipy", "torch", "transformers", "datasets", "pyarrow", "pandas")
_TRIES = 5
_clock = time.perf_counter


# --- the machine --------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Return what the numbers were taken on: processor, cores, system, versions, date."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": versions,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _cpu_model() -> str:
    try:
        lines = (_PROC / "cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    facts = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    wide = [
        flag
        for flag in ("avx512f", "avx512_bf16", "amx_bf16", "avx2")
        if flag in facts.get("flags", "").split()
    ]
    return (
        f"{facts.get('model name', platform.processor())} ({', '.join(wide) or platform.machine()})"
    )


# --- the load of others -------------------------------------------------------------------------------


def watch_others() -> Callable[[], float]:
    """Begin to watch; what is returned gives the share of all cores that others used since then (NaN: unknown)."""
    try:
        busy, total, own = *_machine_ticks(), _own_ticks()
    except OSError:  # no /proc
        return lambda: float("nan")

    def since() -> float:
        busy_now, total_now = _machine_ticks()
        return max(0.0, (busy_now - busy) - (_own_ticks() - own)) / max(1, total_now - total)

    return since


def _machine_ticks() -> tuple[int, int]:
    """Busy and all ticks of all cores; time that a hypervisor took away counts as busy."""
    fields = [int(field) for field in (_PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def _own_ticks() -> int:
    """Ticks of this process and all below it, ended ones included."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        process = int(path.parent.name)
        parents[process] = int(fields[1])
        used[process] = sum(int(field) for field in fields[11:15])
    own = {os.getpid()}
    while new := {process for process, parent in parents.items() if parent in own} - own:
        own |= new
    return sum(used.get(process, 0) for process in own)


# --- memory -------------------------------------------------------------------------------------------


def peak_of(run: Callable[[], Any]) -> tuple[float, float]:
    """MB resident before ``run`` and at most while it ran (of this process; a Linux kernel resets the peak)."""
    before = _status("VmRSS")
    with suppress(OSError):  # where it cannot be reset the peak of the preparation stays in
        (_PROC / "self/clear_refs").write_text("5")
    run()
    return before, peak()


def peak() -> float:
    """The most MB that were resident in this process so far."""
    return _status("VmHWM")


def _status(field: str) -> float:
    try:
        lines = (_PROC / "self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


def timed_process(arguments: Sequence[str]) -> tuple[float, str]:
    """Seconds and output of a Python process of its own: ``python ARGUMENTS``.

    Its peak memory is its own to tell (``peak``): what the kernel tells a parent begins with the parent's. It keeps
    bytecode, as every installation does: compiling the package anew each time is no part of a start.

    Raises:
        ValueError: it failed; the last line it wrote is quoted.
    """
    begun = time.perf_counter()
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=kept
    )
    seconds = time.perf_counter() - begun
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise ValueError(f"python {' '.join(arguments)} failed: {last}")
    return seconds, done.stdout


# --- what the hardware can do at most -----------------------------------------------------------------


def count_processor_time() -> None:
    """Measure rates from now on by the processor's seconds, as the sides are where others use the machine."""
    global _clock
    _clock = time.process_time


def gemm_rate(
    shapes: Sequence[tuple[int, int, int]],
    *,
    dtype: str = "float32",
    prepacked: bool = False,
    tries: int = _TRIES,
    device: str = "cpu",
) -> float:
    """FLOP/s of matrix products, the best of some tries: what a model of these layers cannot exceed.

    Args:
        shapes: (rows, inputs, outputs) of each product, as ``[(1024, 768, 3072), (1024, 3072, 768)]``.
        dtype: ``float32`` or ``bfloat16``.
        prepacked: weights in oneDNN's own order, where this torch can do that; else as they are.
        tries: how often all shapes are run.
        device: where, by torch's name.
    """
    import torch

    kind = getattr(torch, dtype)
    products = [
        _product(torch.rand(rows, inside, dtype=kind, device=device), outside, prepacked)
        for rows, inside, outside in shapes
    ]
    finished = torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)
    clock = time.perf_counter if device.startswith("cuda") else _clock
    best = float("inf")
    with torch.inference_mode():
        for _ in range(
            tries + 1
        ):  # the first is a warm-up that may not win, but does no harm either
            finished()
            begun = clock()
            for product in products:
                product()
            finished()
            best = min(best, clock() - begun)
    return 2.0 * sum(rows * inside * outside for rows, inside, outside in shapes) / best


def _product(values: Any, outputs: int, prepacked: bool) -> Callable[[], Any]:
    import torch
    from torch.nn.functional import linear

    weight = torch.rand(outputs, values.shape[1], dtype=values.dtype, device=values.device)
    operations = torch.ops.mkldnn
    if prepacked and hasattr(operations, "_linear_pointwise"):
        packed = operations._reorder_linear_weight(weight, values.shape[0])
        return lambda: operations._linear_pointwise(values, packed, None, "none", [], "")
    return lambda: linear(values, weight)


def least_seconds(weights: float, tokens: float, rate: float) -> float:
    """Seconds that the products alone take: each weight is multiplied and added once for each token."""
    return 2.0 * weights * tokens / rate


def memcpy_rate(size: int = 256_000_000, tries: int = _TRIES) -> float:
    """Bytes copied per second on one core, the best of some tries."""
    import numpy as np

    source = np.ones(size, dtype=np.uint8)
    target = np.empty(size, dtype=np.uint8)
    target[:] = 0  # the pages are there before they are timed
    return size / _best(lambda: np.copyto(target, source), tries)


def parquet_write_rate(table: Any, *, compression: str = "snappy", tries: int = 3) -> float:
    """Bytes of an Arrow table written to Parquet per second, the best of some tries."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        return float(
            table.nbytes
            / _best(lambda: pq.write_table(table, path, compression=compression), tries)
        )


def _best(run: Callable[[], Any], tries: int) -> float:
    best = float("inf")
    for _ in range(tries):
        begun = _clock()
        run()
        best = min(best, _clock() - begun)
    return best
