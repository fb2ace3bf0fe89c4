"""Many tiny models in one audit: seconds a model, memory, how often each was loaded, and what was lost.

``python -m benchmarks models``; a step alone is ``python -m benchmarks.models FOLDER COUNT OUT``.
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console

from benchmarks.frame import Scale, Series, scaled
from benchmarks.measuring import peak, timed_process

MODELS = (10, 100, 1_000)
# of each model: whole pairs of the config
STUDY = "gendered_stigma:rq1"
PROMPTS = 102


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a step: models, seconds and processor seconds a model, peaks, most loads of one model, rows lost."""
    sizes = sorted({scaled(size, scale, least=2) for size in MODELS})
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_models(folder / "models", max(sizes))
        rows = []
        for size in sizes:
            arguments = [str(folder / "models"), str(size), str(folder / f"audited-{size}")]
            told = json.loads(
                timed_process(["-m", "benchmarks.models", *arguments])[1].splitlines()[-1]
            )
            each = told["seconds"] / size
            busy = told["processor"] / size
            peaks = (f"{told['first']:,.0f}", f"{told['audited']:,.0f}", f"{told['peak']:,.0f}")
            compared = f"{told['compared']:.1f}"
            rows.append(
                (
                    f"{size:,}",
                    f"{each:.2f}",
                    f"{busy:.2f}",
                    compared,
                    *peaks,
                    told["loads"],
                    told["lost"],
                )
            )
        return rows


def save_models(folder: Path, count: int) -> None:
    """Save so many tiny masked models of different random weights, whose tokenizer is one file with many names."""
    import torch
    from transformers import AutoModelForMaskedLM

    from tests import tiny

    first = folder / "model-0000"
    first.mkdir(parents=True)
    tiny.save("roberta", first)  # type: ignore[no-untyped-call]
    shared = [path for path in first.iterdir() if path.suffix != ".safetensors"]
    model = AutoModelForMaskedLM.from_pretrained(first)
    for number in range(1, count):
        torch.manual_seed(number)
        for weights in model.parameters():
            torch.nn.init.normal_(weights, std=0.6)
        place = folder / f"model-{number:04}"
        model.save_pretrained(place)
        for path in shared:
            if not (place / path.name).exists():
                os.link(path, place / path.name)


# --- a step, in its own process -----------------------------------------------------------------------


def audit_models(folder: Path, count: int, out: Path) -> dict[str, Any]:
    """Audit so many models as ``swapbias audit models.txt`` does; what that took, and what is on disk."""
    from swapbias.models import loading
    from swapbias.runs import Settings, audit_several

    several = import_module("swapbias.runs.several_models")
    loads = Counter[str]()
    peaks = list[float]()
    begun = time.perf_counter()
    load = loading.load_model
    one = several.start
    compare = several.compare_runs

    def counted(model: str, *given: Any, **options: Any) -> Any:
        loads[model] += 1
        return load(model, *given, **options)

    def watched(*given: Any, **options: Any) -> Any:
        done = one(*given, **options)
        peaks.append(peak())
        return done

    def timed(*given: Any) -> Any:
        peaks.append(time.perf_counter())
        return compare(*given)

    models = [str(path) for path in sorted(folder.iterdir())[:count]]
    settings = Settings(studies=(STUDY,), limit=PROMPTS)
    shown: dict[str, Any] = {
        "say": lambda sentence: None,
        "bar": lambda title, total: lambda done: None,
    }
    with (
        mock.patch.object(loading, "load_model", counted),
        mock.patch.object(several, "start", watched),
        mock.patch.object(several, "compare_runs", timed),
    ):
        done = audit_several(models, settings, out, **shown)
    ended = time.perf_counter()
    asked = peaks.pop()
    return {
        "seconds": asked - begun,
        "compared": ended - asked,
        "processor": time.process_time(),
        "first": peaks[0],
        "audited": peaks[-1],
        "peak": peak(),
        "loads": f"{max(loads.values())}" if len(loads) == count else f"{len(loads)} models loaded",
        "lost": f"{len(done.failed)} models, {_lost([run.folder for run in done.runs.values()])} rows",
    }


def _lost(runs: list[Path]) -> int:
    """Rows that some runs lack that others have: all read the same prompts."""
    import pyarrow.parquet as pq

    rows = [
        sum(pq.read_metadata(path).num_rows for path in (run / "items").glob("*.parquet"))
        for run in runs
    ]
    return sum(max(rows) - one for one in rows)


def _main() -> None:
    folder = Path(sys.argv[1])
    count = int(sys.argv[2])
    out = Path(sys.argv[3])
    told = audit_models(folder, count, out)
    Console(soft_wrap=True, highlight=False).print(json.dumps(told), markup=False)


SERIES = Series(
    "models",
    "Many tiny models in one audit, one after the other",
    (
        "models",
        "seconds a model",
        "processor seconds a model",
        "seconds to compare them",
        "peak after the first (MB)",
        "peak after the last (MB)",
        "peak with the comparison (MB)",
        "most loads of a model",
        "lost",
    ),
    _rows,
)

if __name__ == "__main__":
    _main()
