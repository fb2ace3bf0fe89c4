"""Models compared in one page: seconds and memory of ``swapbias compare`` by their number, and what the page weighs.

``python -m benchmarks comparing``; a step alone is ``python -m benchmarks.comparing FOLDER COUNT OUT``.
"""

import gc
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.frame import Scale, Series, scaled
from benchmarks.measuring import peak, timed_process

MODELS = (2, 10, 30, 100)
ASKED = {  # study -> experiment and the config that it reads
    "adjective_coreference": ("odds", "wino_style-stereotype"),
    "gendered_stigma": ("rq1", "rq1"),
    "occupation_sentiment": ("sentences", "sentences"),
    "social_distance": ("sentiment", "sentiment"),
    "spanish_occupations": ("sentences_es", "sentences_es"),
}
REPORT = "report.html"
RESULTS = "results.json"
ANALYSED = 5  # models whose findings are computed
NOISE = 0.05  # SD of what is added to a score


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a step: models, seconds, seconds a model, peak memory, megabytes of the page, what a browser needs."""
    sizes = sorted({scaled(size, scale, least=2) for size in MODELS})
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_runs(folder / "runs", max(sizes))
        rows = []
        for size in sizes:
            page = folder / f"{size}"
            told = [_step(folder / "runs", size, page) for _ in range(repeat)]
            seconds, peak_mb = (
                statistics.median(one[key] for one in told) for key in ("seconds", "peak")
            )
            opened = [opening(page / REPORT) for _ in range(repeat)]
            painted = f"{statistics.median(opened):.2f}" if None not in opened else "no browser"  # type: ignore[type-var]
            weight = f"{(page / REPORT).stat().st_size / 1e6:.1f}"
            rows.append(
                (
                    f"{size}",
                    f"{seconds:.1f}",
                    f"{seconds / size:.2f}",
                    f"{peak_mb:,.0f}",
                    weight,
                    painted,
                )
            )
        return rows


def _step(runs: Path, size: int, out: Path) -> dict[str, float]:
    _, said = timed_process(["-m", "benchmarks.comparing", str(runs), str(size), str(out)])
    told: dict[str, float] = json.loads(said.splitlines()[-1])
    return told


# --- the runs -----------------------------------------------------------------------------------------


def save_runs(folder: Path, count: int) -> None:
    """Finished runs of so many models in five studies, with their scored prompts; biases of known size are planted.

    A few models are scored and analysed. Each further one has the findings of one of them under its own name, and its
    scores with noise of its own: analysing takes far longer than comparing, which reads every file of every run.
    """
    from swapbias.studies import config_rows
    from swapbias.studies.tables import fingerprint

    asked = {study: (one, config_rows(study, config)) for study, (one, config) in ASKED.items()}
    corpora = [
        {"corpus": study, "config": ASKED[study][1], "rows": len(rows), "sha256": fingerprint(rows)}
        for study, (_, rows) in asked.items()
    ]
    analysed = {}
    for number in range(min(count, ANALYSED)):
        place = folder / f"model-{number:03}"
        analysed[number] = _save_run(place, number, asked, corpora)
    for number in range(ANALYSED, count):
        source = number % ANALYSED
        content = (folder / f"model-{source:03}" / RESULTS).read_bytes()
        findings = content.replace(_name(source).encode(), _name(number).encode())
        run = _create_run(folder / f"model-{number:03}", number, analysed[source], corpora)
        run.write(RESULTS, findings)


def _name(number: int) -> str:
    """The name of a model."""
    return f"lab-{number % 7}/model-{number:03}"


def _save_run(place: Path, number: int, asked: Any, corpora: Any) -> Any:
    """Score and analyse a model, save its run, and return its scored rows by study."""
    import pandas as pd

    from swapbias.findings import disaggregate, with_verdicts
    from swapbias.runs import Results
    from swapbias.runs.results import write_results
    from tests.baselines import RuleScorer
    from tests.scoring import score_rows

    scorer = RuleScorer(_rule(number), model_id=_name(number))
    items = {}
    found = []
    for study, (experiment, rows) in asked.items():
        items[study] = pd.DataFrame(score_rows(rows, scorer)).assign(experiment=experiment)
        found += disaggregate(items[study], study, expected={}, robustness=False)
    run = _create_run(place, number, items, corpora)
    write_results(run, Results(run.manifest(), with_verdicts(found), items), draw=False)
    return items


def _create_run(place: Path, number: int, items: Any, corpora: Any) -> Any:
    """A run of a model with its scored rows, which get noise of its own where they are another's."""
    import numpy as np

    from swapbias.runs import Run

    name = _name(number)
    manifest = {
        "swapbias": "1", "status": "complete", "credentialed": False, "skipped": [], "versions": {},
        "started": "2026-01-01T00:00:00", "finished": "2026-01-01T00:00:00", "settings": {"model": name},
        "corpora": corpora, "models": [{"model_id": name, "kind": "made", "dtype": "float32"}],
    }  # fmt: skip
    run = Run.create(place, manifest)
    drawn = np.random.default_rng(number)
    for study, rows in items.items():
        if number >= ANALYSED:
            noise = drawn.normal(0, NOISE, len(rows))
            rows = rows.assign(score=(rows["score"] + noise).clip(0, 1), model_id=name)
        run.write_parquet(f"items/{study}.parquet", rows.drop(columns="candidates"))
    return run


def _rule(number: int) -> Any:
    """A gap of the model's own, from -.2 to .2, a part of it for each condition, and noise."""
    drawn = random.Random(number)
    gap = drawn.uniform(-0.2, 0.2)
    parts: dict[str, float] = {}

    def rule(prompt: Any) -> float:
        own = parts.setdefault(f"{prompt.group} {prompt.condition}", drawn.gauss(0, NOISE))
        first = prompt.group in ("female", "male_answer", "stigmatized") or prompt.group.endswith(
            "woman"
        )
        return min(1.0, max(0.0, 0.5 + gap * first + own + drawn.gauss(0, NOISE)))

    return rule


# --- a step, in its own process -----------------------------------------------------------------------


def opening(path: Path) -> float | None:
    """Seconds from the request for a page to its load and first picture in Chromium; None where there is none."""
    from tests.report.browser import Browser, find

    program = find()  # type: ignore[no-untyped-call]
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as place:
        browser = Browser(program, place)  # type: ignore[no-untyped-call]
        try:
            browser.open(path.resolve())  # type: ignore[no-untyped-call]
            loaded = "performance.getEntriesByType('navigation')[0].loadEventEnd"
            painted = "performance.getEntriesByType('paint').map((one) => one.startTime)"
            browser.wait(f"{painted}.length > 0 && {loaded} > 0")  # type: ignore[no-untyped-call]
            told: float = browser.run(f"Math.max({loaded}, ...{painted})")  # type: ignore[no-untyped-call]
        finally:
            browser.close()  # type: ignore[no-untyped-call]
    return told / 1000


def _main() -> None:
    from swapbias.cli import COLLECT_AFTER
    from swapbias.runs import compare_runs, read_run, write_comparison

    gc.set_threshold(COLLECT_AFTER)  # as the command does
    folder = Path(sys.argv[1])
    size = int(sys.argv[2])
    out = Path(sys.argv[3])
    begun = time.perf_counter()
    write_comparison(out, compare_runs([read_run(one) for one in sorted(folder.iterdir())[:size]]))
    told = {"seconds": time.perf_counter() - begun, "peak": peak()}
    Console(soft_wrap=True, highlight=False).print(json.dumps(told), markup=False)


SERIES = Series(
    "comparing",
    "Models compared in one page, in five studies",
    (
        "models",
        "seconds",
        "seconds a model",
        "peak memory (MB)",
        "page (MB)",
        "seconds to load and paint it",
    ),
    _rows,
)

if __name__ == "__main__":
    _main()
