"""Lines of tables of papers that builders calculate: what is published of a model, and what a run has of it."""

import math
from collections.abc import Iterator, Mapping, Sequence

from swapbias.findings import Finding
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.studies import paper_models
from swapbias.studies.paper import PaperRun
from swapbias.studies.published import PRINTED, RECOMPUTED, published_rows

NOTHING = "–"


def published_by_model(study: str) -> Iterator[tuple[str, str, list[Mapping[str, str]]]]:
    """Yield title, ``printed`` or ``recomputed``, and the rows of ``published.csv`` of each model of a paper.

    Args:
        study: the name of the study.
    """
    rows = published_rows(study)
    for model in paper_models.list_models(study):
        of_model = [row for row in rows if row["model"] == model.model]
        printed = [row for row in of_model if row["origin"] != RECOMPUTED]
        recomputed = [row for row in of_model if row["origin"] == RECOMPUTED]
        yield model.title, PRINTED, [*printed]
        yield model.title, RECOMPUTED, [*recomputed]


def find_finding(run: PaperRun, measure: str, **key: str) -> Finding | None:
    """Find the finding of a run that a cell is of, by the paper's own statistic before the design's.

    Args:
        run: the model of a run.
        measure: the measure.
        key: further attributes; without a slice that of all rows.
    """
    key = {"slice_by": "all", "score": "score", **key}
    matches = [
        finding
        for finding in run.findings
        if finding.measure == measure
        and finding.view in ("", AS_PUBLISHED)
        and all(getattr(finding, name) == value for name, value in key.items())
    ]
    return max(matches, key=lambda finding: finding.view == AS_PUBLISHED, default=None)


def write_number(number: float, decimals: int) -> str:
    """Write a number with its decimals; a dash for NaN, and no minus before zero.

    >>> write_number(-0.0004, 3), write_number(float("nan"), 3)
    ('0.000', '–')

    Args:
        number: the number.
        decimals: its decimals.
    """
    if not math.isfinite(number):
        return NOTHING
    text = f"{number:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def put_beside(published: Sequence[list[str]], of_runs: Sequence[list[str]]) -> list[list[str]]:
    """List published lines before those of runs; no line where no run has any.

    Args:
        published: the lines of the paper.
        of_runs: the lines of runs.
    """
    return [*published, *of_runs] if of_runs else []
