"""Whether intervals of decisions and of quantile gaps hold: audits of own prompts by models without a gap.

Scores have effects of templates and of words, which groups share, and effects of each group's own, drawn alike for
both groups: gaps at every quantile and threshold are 0. The true share of decisions that flip is found of many draws.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from benchmarks.frame import Scale, Series, scaled
from benchmarks.simulating import EFFECTS, Floats, rate_text, share_of, yes_or_no
from swapbias.findings import Finding, disaggregate
from swapbias.studies import PROMPT_COLUMNS, Experiment, Study
from swapbias.studies.experiment import Compares, Design, Shows

AUDITS = 400
SIZES = {
    "30 templates": (30, 1),
    "8 templates x 8 words": (8, 8),
    "12 templates x 10 words": (12, 10),
    "20 templates x 20 words": (20, 20),
}
KINDS = ("normal", "heavy", "lognormal")
THRESHOLDS = (0.0, 1.0, 2.0)
QUANTILES = (0.1, 0.5, 0.9)
MOST = 0.07  # intervals at .95 that miss, with two standard errors of so many audits
_SHARED = 1.0  # SD of the effects of templates and of words that groups share
_OWN = 0.4  # SD of the effects of templates and of words on one group
_REST = 0.3
_DRAWS = 2_000


def prompts_of(title: str) -> tuple[Study, pd.DataFrame]:
    """Return own prompts of so many templates and words, and the study that asks about their tails."""
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
        experiment="tails",
        model_id="simulated",
        text=rows["pair_id"],
        lexicon="",
    )
    random = {"template": "templates", **({"condition": "words"} if words > 1 else {})}
    experiment = Experiment(
        name="tails",
        kind="classifier",
        compares=Compares(groups=("f",), reference="m", unit={"name": "stars", "range": [-40, 40]}),
        design=Design(random=random),
        shows=Shows(decisions=THRESHOLDS, quantiles=QUANTILES),
    )
    return Study(name="tails", title="Tails", experiments=(experiment,)), rows


def draw_scores(rng: np.random.Generator, title: str, kind: str) -> Floats:
    """Draw the scores of all prompts, shape (pairs, groups)."""
    templates, words = SIZES[title]

    def effects(*shape: int) -> Floats:
        return np.asarray(EFFECTS[kind](rng, int(np.prod(shape))).reshape(shape))

    shared = _SHARED * effects(templates, 1, 1)
    own = _OWN * effects(templates, 1, 2)
    if words > 1:
        shared = shared + _SHARED / 2 * effects(1, words, 1)
        own = own + _OWN * effects(1, words, 2)
    scores = shared + own + _REST * effects(templates, words, 2)
    return np.asarray(scores.reshape(-1, 2))


def true_flips(title: str, kind: str, count: int = _DRAWS) -> dict[float, float]:
    """Return the share of pairs that each threshold decides otherwise, of so many draws."""
    rng = np.random.default_rng(0)
    draws = [draw_scores(rng, title, kind) for _ in range(count)]
    return {
        threshold: float(np.mean([np.diff(scores >= threshold, axis=1) for scores in draws]))
        for threshold in THRESHOLDS
    }


def audited(title: str, kind: str, count: int, seed: int = 7) -> Iterator[list[Finding]]:
    """Yield the findings of so many audits, those at thresholds and quantiles alone."""
    study, rows = prompts_of(title)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        scores = draw_scores(rng, title, kind).ravel()
        found = disaggregate(rows.assign(score=scores), study, expected={}, robustness=False)
        yield [finding for finding in found if finding.record.at_cut]


def misses(found: list[Finding], truth: dict[float, float]) -> dict[str, bool]:
    """Return by measure and cut whether the 95 % interval of one question leaves out what is true."""
    missed = {}
    for finding in found:
        cut = finding.contrast.rpartition(", ")[2]
        estimate = finding.estimate
        true_value = 0.0
        if finding.measure == "decision_flips":
            true_value = truth[float(cut.split()[2])]
        if np.isnan(estimate.ci_low):
            continue
        missed[f"{finding.measure} {cut}"] = (
            estimate.p_value < 0.05
            if finding.measure != "decision_flips"
            else not estimate.ci_low <= true_value <= estimate.ci_high
        )
    return missed


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    count = scaled(AUDITS, scale, least=2)
    return [
        row for title, kind in product(SIZES, KINDS) for row in measure_rows(title, kind, count)
    ]


def measure_rows(title: str, kind: str, count: int) -> list[tuple[str, ...]]:
    """Return a row for each measure and cut, of so many audits of a design and kind of effects."""
    truth = true_flips(title, kind)
    by_audit = [misses(found, truth) for found in audited(title, kind, count)]
    rows = []
    for name in dict.fromkeys(name for missed in by_audit for name in missed):
        values = [missed[name] for missed in by_audit if name in missed]
        share = share_of(values)
        measure, _, cut = name.partition(" ")
        held = yes_or_no(share <= MOST)
        rows.append((title, kind, measure, cut, f"{len(values):,}", rate_text(share), held))
    return rows


COLUMNS = (
    "design",
    "effects",
    "measure",
    "at",
    "audits with an interval",
    "95 % intervals that miss",
    "bar met",
)
SERIES = (
    Series(
        "tails",
        "Decisions and quantiles: audits by models without a gap",
        COLUMNS,
        _rows,
        timed=False,
    ),
)
