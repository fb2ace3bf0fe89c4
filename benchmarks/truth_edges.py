"""The inference at its edges: audits of own studies that are unbalanced, few, nested, skewed, rare or missing.

Each row is one design and one kind of effects: models without a gap, with one of 3.2 standard errors, and with one as
large as the margin, which a gate should not pass.
"""

import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.edge_designs import BOTH, EDGES, FIVE, Edge
from benchmarks.frame import Scale, Series, scaled
from benchmarks.simulating import Concluded, Floats, conclusion, rate_text, share_of, yes_or_no
from swapbias.findings import Check, Finding, check_gaps, disaggregate, primary_findings
from swapbias.findings.terms import (
    FAILS,
    FOUND,
    LEVEL,
    MARGIN,
    NONE,
    PASSES,
    SMALL,
    TOO_FEW,
    UNDECIDED,
    UNMEASURED,
    UNSTABLE,
)
from swapbias.measures import MEASURES
from swapbias.measures.intervals import at_level

AUDITS = 2_000
WHOLE = 4  # audits that cannot be replayed are fewer, by this factor
CALLED = (FOUND, SMALL, UNSTABLE)  # verdicts that say that there is a gap
OPEN_VERDICTS = (UNDECIDED, TOO_FEW, UNMEASURED)
AWAY = 3.2  # standard errors, of the gaps whose power is told
SHARP = 6  # standard errors in a margin, where a gate is looked at: with effects of the usual size it decides little
SIDES = {"lognormal": (1.0, -1.0)}  # of a gap at the margin, where they differ
# the bars of normal effects
MOST_CALLED = 0.06
MOST_COVERED = 0.98
MOST_PASSED = 0.035
Audit = Sequence[Check]


@dataclass(frozen=True, slots=True)
class Measured:
    """Conclusions of audits of one design and one kind of effects.

    Attributes:
        effects: the kind.
        cells: of the table.
        called: of each audit without a gap whether any gap is called one; empty where there are none.
    """

    effects: str
    cells: tuple[str, ...]
    called: tuple[bool, ...] = ()


class Auditor:
    """Audits models of one design and one kind of effects, and counts where a verdict and a gate disagree."""

    def __init__(self, edge: Edge, effects: str, count: int, seed: int) -> None:
        self.edge = edge
        self.effects = effects
        self.count = count
        self.rng = np.random.default_rng(seed)
        self.checks = self.disagreeing = 0
        self.conclude: Concluded = self._audited
        if edge.replayed:
            self.conclude = conclusion(
                edge.design, edge.drawer(self.rng, effects)(0.0), detectable=False
            )

    def audits(self, gap: float, *, edge: Edge | None = None, count: int = 0) -> Iterator[Audit]:
        """Yield the checks of the primary gaps of models with this gap; ``edge``: with smaller effects."""
        chosen = edge or self.edge
        draw = chosen.drawer(self.rng, self.effects)
        latent = chosen.latent_gap(self.effects, gap)
        for _ in range(count or self.count):
            checks = check_gaps(self.conclude(draw(latent))).checks
            self.checks += len(checks)
            self.disagreeing += sum(map(disagrees, checks))
            yield checks

    def passed(self) -> float:
        """Return how often a gate passes a gap as large as the margin, of both signs the larger share.

        Where effects can be made smaller, they leave a sixth of the margin as the standard error.
        """
        sharp = self._sharp()
        shares = []
        for side in SIDES.get(self.effects, (1.0,)):
            audits = self.audits(side * sharp.limit, edge=sharp)
            shares.append(share_of(check.outcome == PASSES for audit in audits for check in audit))
        return max(shares)

    def _sharp(self) -> Edge:
        if not self.edge.can_shrink:
            return self.edge
        usual = self.audits(0.0, count=min(50, self.count))
        std_error = float(
            np.nanmean([check.finding.estimate.std_error for audit in usual for check in audit])
        )
        spreads = {
            name: MARGIN / SHARP / std_error * spread
            for name, spread in self.edge.design.spreads.items()
        }
        return replace(self.edge, design=replace(self.edge.design, spreads=spreads))

    def _audited(self, scores: Floats) -> list[Finding]:
        """Return the primary gaps of a whole audit, with what missing scores could change."""
        design = self.edge.design
        lacking = bool(np.isnan(scores).any())
        rows = design.rows.assign(score=scores)
        audited = disaggregate(rows, design.study, expected={}, robustness=lacking)
        return [gap for gap in primary_findings(audited) if MEASURES[gap.measure].gap_span]


def measure_edge(name: str, count: int) -> list[Measured]:
    """Return what so many audits of an edge conclude, of each kind of its effects."""
    edge = EDGES[name]()
    count = count if edge.replayed else max(2, count // WHOLE)
    auditors = [
        Auditor(edge, effects, count, zlib.crc32(f"{name} {effects}".encode()))
        for effects in edge.effects
    ]
    return [_of_few(auditor) if edge.gate_alone else _of_many(auditor) for auditor in auditors]


def _of_few(auditor: Auditor) -> Measured:
    """Return what a gate does with gaps that a few levels make."""
    audits = list(auditor.audits(auditor.edge.limit))
    passed = share_of(check.outcome == PASSES for audit in audits for check in audit)
    cells = ("", "", "", rate_text(passed), "", rate_text(_undecided(audits)))
    return Measured(auditor.effects, (*_title(auditor), *cells, _disagreeing(auditor), ""))


def _of_many(auditor: Auditor) -> Measured:
    """Return what audits conclude without a gap, with one of 3.2 standard errors, and with one at the margin."""
    null = list(auditor.audits(0.0))
    called = tuple(any(check.finding.verdict in CALLED for check in audit) for audit in null)
    rejected = share_of(
        any(check.finding.estimate.p_adjusted < LEVEL for check in audit) for audit in null
    )
    covered = share_of(_covers(check.finding, 0.0) for audit in null for check in audit)
    std_error = np.std(
        [[check.finding.estimate.value for check in audit] for audit in null], axis=0
    ).mean()
    away = auditor.audits(AWAY * float(std_error))
    power = share_of(check.finding.verdict in CALLED for audit in away for check in audit)
    passed = auditor.passed()
    undecided = _undecided(null)
    shares = (share_of(called), rejected, covered, passed, power, undecided)
    edge = auditor.edge
    if edge.too_few:
        held = undecided == 1 and passed == 0
    else:
        held = (
            max(shares[:2]) <= MOST_CALLED
            and edge.least_covered <= covered <= MOST_COVERED
            and passed <= MOST_PASSED
            and power >= edge.least_power
        )
    met = yes_or_no(held and not auditor.disagreeing) if auditor.effects == "normal" else ""
    cells = (*_title(auditor), *map(rate_text, shares), _disagreeing(auditor), met)
    return Measured(auditor.effects, cells, called)


def _title(auditor: Auditor) -> tuple[str, ...]:
    return (
        auditor.edge.design.title,
        auditor.edge.design.clusters,
        auditor.effects,
        f"{auditor.count:,}",
    )


def _disagreeing(auditor: Auditor) -> str:
    return f"{auditor.disagreeing:,} of {auditor.checks:,}"


def disagrees(check: Check) -> bool:
    """Tell whether the gate of a gap says something else than the word beside it."""
    verdict = check.finding.verdict
    if (check.outcome == PASSES) != (verdict in (NONE, SMALL)):
        return True
    return check.outcome == FAILS and verdict != FOUND


def _covers(gap: Finding, value: float) -> bool:
    """Tell whether the plain 95 % interval covers a value; without an interval it does not err."""
    estimate = at_level(gap.estimate, LEVEL)
    return math.isnan(estimate.ci_low) or estimate.ci_low <= value <= estimate.ci_high


def _undecided(audits: Sequence[Audit]) -> float:
    return share_of(check.finding.verdict in OPEN_VERDICTS for audit in audits for check in audit)


# --- the table ----------------------------------------------------------------------------------------


def _edges(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """Return a row for each design and kind of effects, as many at a time as there are cores."""
    count = scaled(AUDITS, scale, least=2)
    if count < 20:  # a few audits take less than a process
        measured = [measure_edge(name, count) for name in EDGES]
    else:
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            measured = list(pool.map(measure_edge, EDGES, [count] * len(EDGES)))
    return edge_rows(dict(zip(EDGES, measured, strict=True)), count)


def edge_rows(measured: Mapping[str, Sequence[Measured]], count: int) -> list[tuple[str, ...]]:
    """Return the rows of the designs, and those of five of them in one run of so many audits."""
    rows = [kind.cells for kinds in measured.values() for kind in kinds]
    for effects in BOTH:
        chosen = [
            kind.called for name in FIVE for kind in measured[name] if kind.effects == effects
        ]
        title = (
            "five own studies in one run, any of them",
            "five of these designs",
            effects,
            f"{count:,}",
        )
        rows.append((*title, rate_text(share_of(map(any, zip(*chosen, strict=False)))), *[""] * 7))
    return rows


SERIES = Series(
    "truth_edges",
    "The inference at its edges: own studies that are unbalanced, few, nested, skewed, rare or missing",
    (
        "design",
        "levels",
        "effects",
        "audits",
        "called a gap, without one",
        "p < .05, without one",
        "95 % interval covers",
        "gate passes a gap as large as the margin",
        "finds a gap of 3.2 standard errors",
        "undecided or too few, without a gap",
        "word and gate disagree",
        "bars met",
    ),
    _edges,
    timed=False,
)
