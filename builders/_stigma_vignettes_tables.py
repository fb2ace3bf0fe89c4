"""The table of stigma_vignettes that no single finding gives: how many answers name an option, and how many count."""

from collections.abc import Iterator, Mapping, Sequence

from swapbias.builders._paper_lines import NOTHING, published_by_model, put_beside
from swapbias.builders._stigma_vignettes_released import ASKED, COUNTED, NAME, NAMED
from swapbias.studies.corpus import CalculatedTable
from swapbias.studies.paper import PaperRun

_HEADER = ["model", "numbers", "prompt", "asked", "name an option", "count", "share that counts"]
_PROMPTS: Mapping[str, tuple[str, ...]] = {
    "asked as a good therapist": ("therapist",),
    "without system text": ("conditions", "beliefs"),
}


def count_answers(runs: Sequence[PaperRun]) -> CalculatedTable:
    """Count answers by model and prompt: asked, naming an option, and counting toward a rate.

    Args:
        runs: the models of runs; those without scored rows have no line.
    """
    of_runs = [line for run in runs for line in _lines_of_run(run)]
    return CalculatedTable(_HEADER, put_beside([*_published_lines()], of_runs))


def _published_lines() -> Iterator[list[str]]:
    """Yield a line for each model and prompt whose released answers are counted."""
    for title, origin, rows in published_by_model(NAME):
        counts = {(row["experiment"], row["contrast"]): row["value"] for row in rows}
        for prompt, (experiment, *_) in _PROMPTS.items():
            cells = [counts.get((experiment, contrast), "") for contrast in (NAMED, COUNTED)]
            if all(cells):
                share = f"{int(cells[1]) / ASKED:.3f}"
                yield [title, origin, prompt, str(ASKED), *cells, share]


def _lines_of_run(run: PaperRun) -> Iterator[list[str]]:
    """Yield a line for each prompt that a run asked."""
    if run.rows is None or "unanswered" not in run.rows:
        return
    for prompt, experiments in _PROMPTS.items():
        rows = run.rows[run.rows["experiment"].isin(experiments)]
        asked = len(rows)
        if not asked:
            continue
        counted = asked - float(rows["unanswered"].sum())
        named = NOTHING
        if "said_unsure" in rows:
            named = f"{counted + float(rows['said_unsure'].sum()):.6g}"
        share = f"{counted / asked:.3f}"
        yield [run.title, run.label, prompt, str(asked), named, f"{counted:.6g}", share]
