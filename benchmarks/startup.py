"""Start-up: importing, listing, and an audit until its first batch besides loading weights.

The first batch stands beside the import of the classes of a model and its tokenizer, which no reader of a model by
transformers can do without.

``python -m benchmarks startup``; the audit alone is ``python -m benchmarks.startup BEGUN FOLDER``.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from benchmarks.frame import Scale, Series
from benchmarks.measuring import timed_process

FIRST_BATCH = "swapbias audit, first batch"
IMPORTED = "import of a model's class and AutoTokenizer"
CLASSES = "from transformers import AutoTokenizer, RobertaForMaskedLM"
GOALS = {
    "import swapbias": 0.3,
    "swapbias --help": 0.45,
    "swapbias list": 0.5,
    FIRST_BATCH: 2.5,
}


class _Reached(BaseException):
    """The first batch is about to be scored."""


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a step: what, the median of its seconds, what is wanted, whether it is met. ``scale`` means nothing."""
    with tempfile.TemporaryDirectory() as place:
        _save_model(Path(place))
        steps: dict[str, Callable[[], float]] = {
            "python": lambda: timed_process(["-c", "pass"])[0],
            "import swapbias": lambda: timed_process(["-c", "import swapbias"])[0],
            "swapbias --help": lambda: timed_process(["-m", "swapbias", "--help"])[0],
            "swapbias list": lambda: timed_process(["-m", "swapbias", "list"])[0],
            IMPORTED: lambda: timed_process(["-c", CLASSES])[0],
            FIRST_BATCH: lambda: _first_batch(Path(place)),
        }
        taken: dict[str, list[float]] = {name: [] for name in steps}
        for number in range(repeat + 1):  # the first brings the files into memory
            for name, run in steps.items():
                seconds = run()
                if number:
                    taken[name].append(seconds)
    rows: list[tuple[str, ...]] = []
    for name, each in taken.items():
        median = statistics.median(each)
        goal = GOALS.get(name)
        met = "" if goal is None else "yes" if median <= goal else "no"
        rows.append((name, f"{median:.2f}", "" if goal is None else f"at most {goal:g}", met))
    ratios = [
        batch / classes for batch, classes in zip(taken[FIRST_BATCH], taken[IMPORTED], strict=True)
    ]
    rows.append(
        (f"{FIRST_BATCH}, over that import", f"{statistics.median(ratios):.2f} times", "", "")
    )
    return rows


def _save_model(folder: Path) -> None:
    from tests.tiny import save

    save("roberta", folder)  # type: ignore[no-untyped-call]


def _first_batch(folder: Path) -> float:
    """Seconds from starting Python to the first batch, less those in which weights were read."""
    _, said = timed_process(["-m", "benchmarks.startup", repr(time.time()), str(folder)])
    told: dict[str, float] = json.loads(said.splitlines()[-1])
    return told["until"] - told["weights"]


def _main() -> None:
    begun = float(sys.argv[1])
    folder = sys.argv[2]
    from swapbias.cli import main
    from swapbias.models.text_kinds import Masked

    weights: list[float] = []
    load = Masked.load

    def watched(*arguments: Any, **options: Any) -> Any:
        _watch(weights)
        return load(*arguments, **options)

    Masked.load = watched  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as place:
            sys.argv = [
                "swapbias",
                "audit",
                folder,
                "--no-cache",
                "--out",
                str(Path(place) / "run"),
            ]
            main()
    except _Reached:
        told = {"until": time.time() - begun, "weights": sum(weights)}
        Console(soft_wrap=True, highlight=False).print(json.dumps(told), markup=False)


def _watch(seconds: list[float]) -> None:
    """Have the reading of weights timed and the first batch raise; called when torch is to be loaded anyway."""
    from swapbias.models import loading
    from swapbias.models.masked import MaskedScorer

    quiet = loading.quiet  # around the reading of weights

    @contextmanager
    def timed() -> Iterator[None]:
        start = time.perf_counter()
        with quiet():
            yield
        seconds.append(time.perf_counter() - start)

    def reached(*_: Any) -> NoReturn:
        raise _Reached

    loading.quiet = timed  # type: ignore[assignment]
    MaskedScorer.score = reached  # type: ignore[method-assign,assignment]


SERIES = Series("startup", "Start-up", ("what", "seconds", "wanted", "met"), _rows)

if __name__ == "__main__":
    _main()
