"""Statistics: many paired tests and many bootstrap intervals at once, beside a loop over scipy's calls."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.frame import Prepared, Scale, Side, Workload, scaled
from benchmarks.measuring import gemm_rate, least_seconds, memcpy_rate

Floats = NDArray[np.float64]
TESTS, PAIRS, RESAMPLES, SLICE = 2_000, 374, 10_000, 40
EQUAL = 1e-9
OURS, LOOP, ONE_CALL = "swapbias", "scipy in a loop", "scipy on the whole array"


def _scores(tests: int) -> tuple[Floats, Floats]:
    """Scores of two groups, shape (tests, pairs): shares of probability mass with small gaps."""
    rng = np.random.default_rng(0)
    reference = rng.beta(2, 5, (tests, PAIRS))
    return np.clip(reference + rng.normal(0.005, 0.05, reference.shape), 0, 1), reference


# --- paired tests -------------------------------------------------------------------------------------


def _prepare_tests(scale: Scale) -> Prepared:
    from scipy import stats

    from swapbias.measures.gaps import paired_gaps

    other, reference = _scores(scaled(TESTS, scale))

    def loop() -> Floats:
        return np.array([stats.ttest_rel(one, two).pvalue for one, two in zip(other, reference, strict=True)])

    def check(outputs: Mapping[str, Any]) -> str:
        found = np.array([gap.p_value for gap in outputs[OURS]])
        apart = max(float(np.abs(found - outputs[peer]).max()) for peer in (LOOP, ONE_CALL))
        if not apart <= EQUAL:
            raise ValueError(f"p-values differ from scipy's by up to {apart:.1e}, expected at most {EQUAL:g}.")
        alone = max(_from_single(gap, other[row], reference[row]) for row, gap in enumerate(outputs[OURS][:SLICE]))
        if not alone <= EQUAL:
            raise ValueError(f"a test differs from the same test alone by {alone:.1e}, expected at most {EQUAL:g}.")
        return f"p-values within {apart:.0e} of scipy's; all numbers within {alone:.0e} of each test alone"

    return Prepared(
        ours=(Side(OURS, lambda: paired_gaps(other, reference)),),
        peers=(
            Side(LOOP, loop),
            Side(ONE_CALL, lambda: stats.ttest_rel(other, reference, axis=1).pvalue),
        ),
        check=check,
        limit=lambda: (2 * other.nbytes / memcpy_rate(), "every score copied once"),
        size=f"{len(other):,} tests of {PAIRS} pairs; ours gives interval and both effect sizes too",
    )


def _from_single(gap: Any, other: Floats, reference: Floats) -> float:
    """How far any number of a test is from that of the same test made alone."""
    from swapbias.measures.gaps import paired_gap

    scores = np.concatenate([other, reference])
    ids = [str(pair) for pair in range(len(other))] * 2
    single = paired_gap(scores, ["f"] * len(other) + ["m"] * len(other), ids, reference_group="m")
    named = ("value", "ci_low", "ci_high", "effect_size", "effect_size_z", "p_value")
    return max(float(abs(getattr(gap, name) - getattr(single, name))) for name in named)


# --- bootstrap intervals ------------------------------------------------------------------------------


def _prepare_intervals(scale: Scale) -> Prepared:
    from scipy import stats

    from swapbias.measures.intervals import bootstrap_intervals

    other, reference = _scores(scaled(TESTS, scale))
    differences = other - reference
    few = differences[:SLICE]

    def loop() -> Floats:
        ends = []
        for sample in few:
            made = stats.bootstrap((sample,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=0)
            ends.append(made.confidence_interval)
        return np.array(ends).T

    def check(outputs: Mapping[str, Any]) -> str:
        found = np.array(outputs[OURS])[:, : len(few)]
        apart = float(np.abs(found - outputs[LOOP]).max())  # scipy makes the same draws from the same seed
        if not apart <= EQUAL:
            raise ValueError(f"intervals differ from scipy's by up to {apart:.1e}, expected at most {EQUAL:g}.")
        return f"both ends within {apart:.0e} of scipy's by the same draws"

    def limit() -> tuple[float, str]:
        block = (min(400, len(differences)), PAIRS, RESAMPLES)
        rate = gemm_rate([block], dtype="float64")
        return least_seconds(PAIRS * RESAMPLES, len(differences), rate), "the matrix product of scores and draws"

    return Prepared(
        ours=(Side(OURS, lambda: bootstrap_intervals(differences, n_resamples=RESAMPLES)),),
        peers=(Side(LOOP, loop, share=len(few) / len(differences)),),
        check=check,
        limit=limit,
        size=f"{len(differences):,} intervals of {PAIRS} pairs, {RESAMPLES:,} resamples",
    )


WORKLOAD = (
    Workload("statistics-tests", "Paired tests", {(OURS, LOOP): 50.0}, _prepare_tests),
    Workload("statistics-intervals", "Bootstrap intervals", {(OURS, LOOP): 90.0}, _prepare_intervals, memory=True),
)
