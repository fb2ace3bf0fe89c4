"""Whether intervals of the median gap hold: audits of own prompts by models without a gap, and at the margin.

Effects of templates, of words and of pairs add up. Their gaps are centred at what the measure estimates of very many,
so that 0 is true of each kind. Every other measure of pairs that is no mean is simulated alike, by its name alone:
``python -m benchmarks median_gaps-NAME``.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from benchmarks.frame import Scale, Series, scaled
from benchmarks.simulating import Design, Floats, conclusion, rate_text, share_of, yes_or_no
from swapbias.errors import UsageError
from swapbias.findings import check_gaps
from swapbias.findings.terms import FOUND, MARGIN, PASSES, SMALL
from swapbias.measures import comparison_of
from swapbias.measures.comparisons import COMPARISONS
from swapbias.studies import PROMPT_COLUMNS, Experiment, Study
from swapbias.studies.experiment import Compares, Design as Declared

MEASURE = "median_gap"
AUDITS = 400
SIZES = {
    "8 templates": (8, 1),
    "30 templates": (30, 1),
    "6 templates x 8 words": (6, 8),
    "12 templates x 10 words": (12, 10),
}
MOST = 0.07  # false gaps at .05, with two standard errors of so many audits
CALLED = (FOUND, SMALL)
SHARP = 6  # standard errors of a normal mean in a margin, where a gate is looked at
_DRAWS = 200_000
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]  # effects on a gap
KINDS: Mapping[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape),
    "skewed scores": lambda rng, shape: rng.lognormal(size=shape) - rng.lognormal(size=shape),
    "lognormal gaps": lambda rng, shape: rng.lognormal(size=shape),
    "normal, in steps": lambda rng, shape: rng.standard_normal(shape),
}


def design(title: str, measure: str = MEASURE) -> Design:
    """Return own prompts of so many templates and words, a pair for each of their combinations, and their measure."""
    templates, words = SIZES[title]
    cells = [
        (f"{template}/{word}", group, str(template), str(word))
        for template, word in product(range(templates), range(words))
        for group in ("f", "m")
    ]
    rows = pd.DataFrame(cells, columns=["pair_id", "group", "template", "condition"])
    rows = rows.reindex(columns=[*PROMPT_COLUMNS], fill_value="")
    rows = rows.assign(
        prompt_id=rows["pair_id"] + "/" + rows["group"],
        experiment="medians",
        model_id="simulated",
        label="",
        construct="",
        text=rows["pair_id"],
        lexicon="",
    )
    random = {"template": "templates", **({"condition": "words"} if words > 1 else {})}
    experiment = Experiment(
        name="medians",
        kind="classifier",
        compares=Compares(
            measure=measure,
            groups=("f",),
            reference="m",
            unit={"name": "stars", "range": [-20, 20]},
        ),
        design=Declared(random=random),
    )
    return Design(
        title, title, Study(name="medians", title="Medians", experiments=(experiment,)), rows, {}
    )


def _gaps(rng: np.random.Generator, title: str, kind: str, centre: float) -> Floats:
    """Draw the gap of each pair."""
    templates, words = SIZES[title]
    shapes = ((templates, 1), (1, words), (templates, words)) if words > 1 else ((templates, 1),)
    gaps = np.zeros((templates, words))
    for shape in shapes:
        gaps = gaps + KINDS[kind](rng, shape)
    return np.asarray(np.round(gaps) if "steps" in kind else gaps - centre).ravel()


def _centre(title: str, kind: str, measure: str = MEASURE) -> float:
    """Return what the measure estimates of gaps, found of very many of them; 0 of kinds that are symmetric."""
    if kind != "lognormal gaps":
        return 0.0
    rng = np.random.default_rng(0)
    parts = 3 if SIZES[title][1] > 1 else 1
    gaps = np.asarray(sum(KINDS[kind](rng, (_DRAWS,)) for _ in range(parts)))
    comparison = comparison_of(measure)
    if comparison is None:
        raise UsageError(f"Unknown measure {measure!r} of two groups.")
    return comparison.value(gaps, np.zeros(_DRAWS, dtype=np.intp), (1.0,), {}, None)


def measure_cell(title: str, kind: str, count: int, measure: str = MEASURE) -> tuple[str, ...]:
    """Return the cells of one design and kind of effects, of so many audits by a measure."""
    asked = design(title, measure)
    centre = _centre(title, kind, measure)
    rng = np.random.default_rng(7)
    first = _gaps(rng, title, kind, centre)
    sign = np.tile([0.5, -0.5], len(asked.rows) // 2)
    conclude = conclusion(asked, sign * np.repeat(first, 2), detectable=False)
    margin = MARGIN * 40
    drawn = [_gaps(rng, title, kind, centre) for _ in range(count)]
    spread = float(np.std([gaps.mean() for gaps in drawn]))
    null = [gap for gaps in drawn for gap in conclude(sign * np.repeat(gaps, 2))]
    at_margin = [
        gap
        for gaps in drawn
        for gap in conclude(sign * np.repeat(margin + gaps * margin / SHARP / spread, 2))
    ]
    called = share_of(gap.verdict in CALLED for gap in null)
    # Where more than half of the pairs are tied nothing is measured, and there is no interval that could err.
    covered = share_of(not (gap.estimate.ci_low > 0 or gap.estimate.ci_high < 0) for gap in null)
    passed = share_of(check.outcome == PASSES for check in check_gaps(at_margin).checks)
    width = float(np.nanmedian([gap.estimate.ci_high - gap.estimate.ci_low for gap in null]))
    held = called <= MOST and covered >= 1 - MOST
    return (
        title,
        kind,
        f"{count:,}",
        rate_text(called),
        rate_text(covered),
        rate_text(passed),
        f"{width:.2f}",
        yes_or_no(held),
    )


def _rows(measure: str, scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    count = scaled(AUDITS, scale, least=2)
    return [measure_cell(title, kind, count, measure) for title in SIZES for kind in KINDS]


COLUMNS = (
    "design",
    "effects on a gap",
    "audits",
    "called a gap, without one",
    "95 % interval covers 0",
    "gate passes a gap as large as the margin",
    "median width of the interval",
    "bars met",
)


def series_of(measure: str) -> Series:
    """Return the simulation of a measure of pairs, which its name tells from that of the median gap."""
    if measure == MEASURE:
        return Series(
            "median_gaps",
            "Median gaps: audits by models without a gap",
            COLUMNS,
            partial(_rows, measure),
            timed=False,
        )
    title = f"{measure}: audits by models without a gap"
    return Series(f"median_gaps-{measure}", title, COLUMNS, partial(_rows, measure), timed=False)


# Of each measure of pairs that is no mean; that of means is ``truth``.
_COMPARISONS = (comparison_of(name) for name in COMPARISONS.names())
SERIES = tuple(
    series_of(one.name) for one in _COMPARISONS if one and one.is_paired and not one.is_mean
)
