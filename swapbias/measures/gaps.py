"""Means, correlations, and gaps between two or more groups, paired or not: value, interval, effect size, test."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, product
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.contrast import (
    clustered_name,
    level_sizes,
    linear_contrast,
    mean_of,
    pooled_spread,
    shares_in,
    spread_of,
    t_ends,
    t_p,
    t_reach,
)
from swapbias.measures.estimate import (
    ClusterIds,
    Codes,
    Estimate,
    Factors,
    Floats,
    Ids,
    by_group,
    by_pair,
    factor_codes,
    known_ids,
    named_group,
    numbers,
    rows_of,
    two_groups,
)

_ROUNDING = 1e-12
_MINUS_REFERENCE = np.array([1.0, -1.0])  # weights of the two means


@dataclass(frozen=True, slots=True)
class Omnibus:
    """Bonferroni test of several contrasts: whether the interval of any, at .05 / their number, excludes 0.

    The estimate is the SD of the groups' means, in the unit of the scores; 0: all are equal. Chance alone makes it
    larger than 0, so it has no interval, and only its p-value tests it.
    """

    estimate: Estimate
    contrasts: int
    """Their number, by which the smallest of their p-values is multiplied."""
    means: Mapping[str, float]
    """Of each group."""

    def with_p_values(self, p_values: Sequence[float]) -> "Omnibus":
        """A copy whose p-value is made from those of the contrasts (Bonferroni); NaN where all of them are NaN."""
        known = [p for p in p_values if not math.isnan(p)]
        p_value = min(1.0, self.contrasts * min(known)) if known else math.nan
        return replace(self, estimate=replace(self.estimate, p_value=p_value))


@dataclass(frozen=True, slots=True)
class _Groups:
    """Scores of k groups, those that cannot be used left out and counted."""

    names: Sequence[str]
    values: Floats
    """Of pairs shape (pairs, groups), else (rows,), without NaN."""
    sides: Codes
    """Paired: the sample of each pair (0, or 1: subtracted); else the index of each row's group."""
    factors: Factors
    paired: bool
    n_unscored: int
    shares: Floats | None = None

    @classmethod
    def of(
        cls,
        score: Floats,
        codes: Codes,
        names: Sequence[str],
        cluster_ids: ClusterIds,
        pair_ids: Ids | None = None,
        *,
        sample_ids: Sequence[Any] | None = None,
        weights: ArrayLike | None = None,
    ) -> "_Groups":
        if pair_ids is None:
            known = ~np.isnan(score)
            factors = rows_of(factor_codes(cluster_ids, len(score)), known)
            sides = codes[known]
            shares = shares_in(weights, known, sides)
            return cls(names, score[known], sides, factors, False, int((~known).sum()), shares)
        table, first = by_pair(score, codes, pair_ids, names)
        whole = np.flatnonzero(~np.isnan(table).any(axis=1))
        factors = rows_of(factor_codes(cluster_ids, len(score), pair_ids), first[whole])
        samples = np.zeros(len(score), np.intp)
        if sample_ids is not None:
            samples = np.unique(known_ids(sample_ids, "sample_ids"), return_inverse=True)[1]
        return cls(
            names, table[whole], samples[first[whole]], factors, True, len(table) - len(whole)
        )

    @property
    def means(self) -> Floats:
        """Of each group, less that of the sample that is subtracted; NaN of a group without a row."""
        places = range(len(self.names))
        if not self.paired:
            return np.array([mean_of(self.values[self.sides == place]) for place in places])
        samples = [
            self.values[self.sides == side] for side in range(int(self.sides.max(initial=0)) + 1)
        ]
        means = np.array([[mean_of(sample[:, place]) for place in places] for sample in samples])
        return np.asarray(means[0] if len(means) == 1 else means[0] - means[1])

    def contrast(self, weights: Floats, *, test_constant: bool = False) -> Estimate:
        """The weighted sum of the means of rows, or of pairs (of two samples the difference of those sums).

        ``test_constant``: with the exact test of levels where nothing varies, which no paper has.
        """
        used = np.flatnonzero(np.abs(weights) > _ROUNDING)
        scale = self.values
        if self.paired:
            values = self.values @ weights
            sides = self.sides
            factors = self.factors
            shares = None
            signs = (1.0, -1.0)[: int(sides.max(initial=0)) + 1]
            samples = list(self.values.T[used])
        else:
            chosen = np.isin(self.sides, used)
            values = self.values[chosen]
            sides = np.searchsorted(used, self.sides[chosen])
            factors = rows_of(self.factors, chosen)
            shares = None if self.shares is None else self.shares[chosen]
            signs = tuple(weights[used])
            samples = [values[sides == side] for side in range(len(used))]
        found = linear_contrast(
            values, sides, signs, factors, shares=shares, scale=scale, n_unscored=self.n_unscored
        )
        test = found.test
        if test_constant:
            found = with_exact_test(found, values, sides, factors)
        pooled = pooled_spread(samples)
        found = replace(found, effect_size=found.value / pooled if pooled > 0 else math.nan)
        if not self.paired or len(signs) > 1:
            return found
        name = clustered_name(factors, "paired t")
        spread = spread_of(values, scale)
        if found.test == test:
            found = replace(found, test=name)
        return replace(
            found, interval=name, effect_size_z=found.value / spread if spread > 0 else math.nan
        )

    def omnibus(self, weights: Sequence[Floats]) -> Omnibus:
        """Whether any of these contrasts is not 0."""
        p_values = (
            [self.contrast(one, test_constant=True).p_value for one in weights]
            if len(self.values)
            else []
        )
        count = len(weights)
        means = self.means
        matrix = np.array(weights)
        centred = np.linalg.pinv(matrix) @ matrix @ means
        estimate = Estimate(
            float(np.sqrt((centred**2).mean())),
            n=len(self.values),
            n_unscored=self.n_unscored,
            interval="none",
            test=f"any of {count} contrasts at .05 / {count}",
        )
        return Omnibus(
            estimate, count, dict(zip(self.names, means.tolist(), strict=True))
        ).with_p_values(p_values)


def paired_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    pair_ids: Ids,
    *,
    reference_group: str,
    cluster_ids: ClusterIds = None,
) -> Estimate:
    """Mean over pairs of the other group's score minus the reference group's.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups, pair_ids: shape (rows,); exactly two groups, each id stands once in both.
        reference_group: the group that is subtracted. Swapping it flips the sign of value and effect sizes.
        cluster_ids: shape (rows,); pairs of one cluster are not independent: interval and test generalise to new
            clusters. For crossed random factors a mapping: ``{"template": [...], "condition": [...]}``.

    Returns:
        value 0: no gap; above 0: the other group scores higher. ``n`` counts pairs. No pairs: NaN. One pair, or no
        variance among the differences (or sums of clusters): interval, d_z and p are NaN.

    >>> gap = paired_gap([0.3, 0.1, 0.5, 0.2], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
    >>> round(gap.value, 3), gap.n
    (0.25, 2)
    """
    return _Groups.of(*two_groups(scores, groups, reference_group), cluster_ids, pair_ids).contrast(
        _MINUS_REFERENCE
    )


def group_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    test: str = "welch",
    cluster_ids: ClusterIds = None,
) -> Estimate:
    """Mean score of the other group minus mean score of the reference group, rows not paired.

    Arguments and value as in ``paired_gap``; a cluster may have rows in both groups. ``test`` is ``welch`` or ``t``
    (pooled: assumes equal variances, as many papers do). ``n`` counts rows. Fewer than two scored rows in a
    group, or no variance: interval and p are NaN.

    >>> round(group_gap([1.0, 2.0, 4.0, 5.0], ["m", "m", "f", "f"], reference_group="m").value, 3)
    3.0
    """
    if test not in ("welch", "t"):
        raise ValueError(f"test {test!r}, expected 'welch' or 't'.")
    rows = _Groups.of(*two_groups(scores, groups, reference_group), cluster_ids)
    found = rows.contrast(_MINUS_REFERENCE)
    if test == "welch" or rows.factors:
        return found
    samples = [rows.values[rows.sides == side] for side in (0, 1)]
    spread = pooled_spread(samples)
    counts = [len(one) for one in samples]
    std_error = spread * math.sqrt(1 / counts[0] + 1 / counts[1]) if spread > 0 else math.nan
    df = math.nan if math.isnan(std_error) else sum(counts) - 2
    low, high = t_ends(found.value, std_error, df, 0.95)
    return replace(
        found,
        ci_low=low,
        ci_high=high,
        std_error=std_error,
        df=df,
        p_value=t_p(found.value, std_error, df),
        test="independent t (equal variance)",
        interval="pooled t",
    )


def selection_rate(
    selected: ArrayLike,
    groups: Sequence[str],
    *,
    pair_ids: Ids | None = None,
    reference_group: str | None = None,
    cluster_ids: ClusterIds = None,
) -> dict[str, tuple[Estimate, Estimate]]:
    """Of each group the share of its candidates who are selected, 0 to 1, and the impact ratio (1: as the reference).

    A ratio's interval and p-value are those of its natural log by the delta method. A rate of 0 or of everyone has a
    ratio without them.

    Args:
        selected: shape (rows,), 1 for a candidate who is selected, 0 for others (or a share of trials), or NaN.
        pair_ids: shape (rows,), of the choice that a row belongs to (a ranking), with one row of each group; None:
            rows are not compared with each other.
        reference_group: whose rate the ratios divide by; None: the mean of the groups' rates.

    >>> found = selection_rate([1, 1, 0, 1, 0, 0], ["f"] * 3 + ["m"] * 3, reference_group="f")
    >>> {group: (round(rate.value, 2), ratio.value) for group, (rate, ratio) in found.items()}
    {'f': (0.67, 1.0), 'm': (0.33, 0.5)}
    """
    score, codes, names = by_group(selected, groups)
    reference = None if reference_group is None else named_group(reference_group, names)
    if len(names) < 2 or reference not in (None, *names):
        raise ValueError(
            f"groups {names or 'none'}, expected two or more, {reference_group!r} among them."
        )
    if np.any((score < 0) | (score > 1)):
        raise ValueError(
            "selected holds a number outside of 0 to 1. Give whether each candidate is selected."
        )
    rows = _Groups.of(score, codes, names, cluster_ids, pair_ids)
    shares = np.array(
        [1 / len(names) if reference is None else float(name == reference) for name in names]
    )
    base = float(shares @ rows.means)
    found = {}
    for name, own in zip(names, np.eye(len(names)), strict=True):
        mean = rows.contrast(own)
        low, high = (float(np.clip(end, 0, 1)) for end in (mean.ci_low, mean.ci_high))
        rate = replace(
            mean, ci_low=low, ci_high=high, p_value=math.nan, test="none", effect_size=math.nan
        )
        value = mean.value / base if base > 0 else math.nan
        impact = Estimate(value, n=mean.n, n_unscored=mean.n_unscored, test="none")
        if mean.value > 0 and base > 0 and name != reference:
            log = rows.contrast(
                own / mean.value - shares / base
            )  # delta method; its own value is 0
            low, high = (value * math.exp(min(end, 700.0)) for end in (log.ci_low, log.ci_high))
            p_value = t_p(math.log(value), log.std_error, log.df, log.skewness)
            method = f"{log.test} of the log"
            impact = replace(
                log,
                value=value,
                ci_low=low,
                ci_high=high,
                p_value=p_value,
                test=method,
                interval=method,
                effect_size=math.nan,
                effect_size_z=math.nan,
            )
        found[name] = (rate, impact)
    return found


def mean_score(
    scores: ArrayLike, *, cluster_ids: ClusterIds = None, weights: ArrayLike | None = None
) -> Estimate:
    """Mean of the scores with its t interval; nothing is tested. ``n`` counts rows; NaN scores are left out.

    ``cluster_ids`` are those of ``paired_gap``; ``weights`` of rows, from 0; None: all weigh the same.
    """
    score = numbers(scores)
    if score.ndim != 1:
        raise ValueError(f"scores of shape {score.shape}, expected one score per row.")
    rows = _Groups.of(score, np.zeros(len(score), np.intp), ("",), cluster_ids, weights=weights)
    found = rows.contrast(np.ones(1))
    return replace(found, p_value=math.nan, effect_size=math.nan, test="none", independent=0)


def correlation(x: ArrayLike, y: ArrayLike, *, method: str = "pearson") -> Estimate:
    """Correlation of two numbers known for the same units, -1 to 1; ``method`` is ``pearson`` or ``spearman``.

    The interval is Fisher's, of ranks Bonett and Wright's (2000). Fewer than four units, or a correlation of 1: none.
    """
    if method not in ("pearson", "spearman"):
        raise ValueError(f"method {method!r}, expected 'pearson' or 'spearman'.")
    first, second = numbers(x), numbers(y)
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} and {len(second)} numbers, expected one of each per unit.")
    ranks = method == "spearman"
    known = ~(np.isnan(first) | np.isnan(second))
    n = int(known.sum())
    a = first[known]
    b = second[known]
    name = "Bonett-Wright" if ranks else "Fisher z"
    found = Estimate(math.nan, n=n, n_unscored=len(first) - n, test=f"{method} r", interval=name)
    if n < 3 or spread_of(a, a) == 0 or spread_of(b, b) == 0:
        return found
    result = scipy.stats.spearmanr(a, b) if ranks else scipy.stats.pearsonr(a, b)
    r = float(result.statistic)
    found = replace(found, value=r, p_value=float(result.pvalue))
    if n < 4 or abs(r) >= 1:
        return found
    half = t_reach(0.95, math.inf) * math.sqrt((1 + r**2 / 2 if ranks else 1.0) / (n - 3))
    return replace(
        found, ci_low=math.tanh(math.atanh(r) - half), ci_high=math.tanh(math.atanh(r) + half)
    )


def sign_test_p(difference: Floats, factors: Factors) -> float:
    """Two-sided exact p of the sign test of the clusters' means, the largest of any factor; NaN where all are 0."""
    found = []
    for codes in factors.values() or (np.arange(len(difference)),):
        sums = np.bincount(
            np.unique(codes, return_inverse=True)[1], weights=difference
        )  # signs are those of means
        above = int((sums > 0).sum())
        unequal = int((sums != 0).sum())
        found.append(float(scipy.stats.binomtest(above, unequal).pvalue) if unequal else math.nan)
    return max(found, default=math.nan)


def with_exact_test(estimate: Estimate, values: Floats, sides: Codes, factors: Factors) -> Estimate:
    """Return an estimate without spread with an exact p-value over levels, where all levels agree on a gap.

    Of differences of pairs (one side) that of the sign test: 2 / 2**levels where all are equal. So of levels that
    several sides share. Of sides with levels of their own that of a permutation: 2 / the number of ways to choose one
    side's levels among those of the two sides with the fewest. The largest of any factor.

    Args:
        estimate: of ``linear_contrast``.
        values, sides, factors: as there.

    Returns:
        The estimate as it is where it has a spread, is 0, or levels differ or are one.
    """
    has_gap = estimate.value != 0 and not math.isnan(estimate.value)
    agrees = estimate.level_spread <= _ROUNDING * abs(estimate.value)
    if not math.isnan(estimate.std_error) or not has_gap or not agrees or estimate.independent < 2:
        return estimate
    count = int(sides.max(initial=0)) + 1
    names = " and ".join(filter(None, factors))
    over = f" ({names})" if names else ""
    if count == 1:
        return replace(estimate, p_value=sign_test_p(values, factors), test=f"sign test{over}")
    return replace(
        estimate, p_value=_permutation_p(sides, factors), test=f"permutation of levels{over}"
    )


def _permutation_p(sides: Codes, factors: Factors) -> float:
    """Return the two-sided p where all levels of one side differ from others', the largest of any factor."""
    p_values = []
    for codes in factors.values() or (np.arange(len(sides)),):
        is_there = level_sizes(sides, codes) > 0
        counts = sorted(is_there.sum(axis=0).tolist())
        distinct = int(is_there.any(axis=1).sum())
        if distinct < sum(counts):  # a level that sides share has a gap of its own
            p_values.append(math.ldexp(2.0, -distinct))
        if distinct > counts[0]:
            p_values.append(2 / math.comb(counts[0] + counts[1], counts[0]))
    return min(1.0, max(p_values))


def omnibus(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
    sample_ids: Sequence[Any] | None = None,
    reference_group: str | None = None,
) -> Omnibus:
    """Bonferroni test whether any of k groups differs, by contrasts of every two groups or with the reference.

    Args:
        scores, groups, cluster_ids: as in ``paired_gap``, with two groups or more.
        pair_ids: pairs that are not scored in all groups are left out. None: rows are not paired.
        sample_ids: shape (rows,), with pairs only: two samples of pairs; tested is whether their gaps are the same.
        reference_group: each other group is compared with it; None: every two groups are.

    >>> found = omnibus([1.0, 2.0, 4.0, 2.0, 4.0, 5.0], list("abcabc"), pair_ids=list("ppprrr"))
    >>> found.contrasts, {name: round(mean, 2) for name, mean in found.means.items()}
    (3, {'a': 1.5, 'b': 3.0, 'c': 4.5})
    """
    score, codes, names = by_group(scores, groups)
    reference = None if reference_group is None else named_group(reference_group, names)
    if len(names) < 2 or reference not in (None, *names):
        wanted = "at least two" + (
            "" if reference is None else f" with {reference_group!r} as reference_group"
        )
        raise ValueError(f"groups {names or 'none'}, expected {wanted}.")
    each = dict(zip(names, np.eye(len(names)), strict=True))
    gaps = (
        combinations(names, 2)
        if reference is None
        else [(one, reference) for one in names if one != reference]
    )
    found = _Groups.of(score, codes, names, cluster_ids, pair_ids, sample_ids=sample_ids)
    return found.omnibus([each[one] - each[other] for one, other in gaps])


@dataclass(frozen=True, slots=True)
class Effect:
    """One contrast of crossed group factors; its estimate is NaN where there are no scores.

    "female - male" is averaged over the other factors; "(female - male) x (black - white)" is the gap between the
    first two for the third less that for the fourth.
    """

    term: str
    """The factors that it is about, "gender" or "gender x race"."""
    name: str
    levels: Mapping[str, tuple[str, str]]
    """Of each of its factors the level, and the one that is subtracted."""
    weights: Mapping[tuple[str, ...], float]
    """Of the mean of each cell (its levels, in the order of the factors)."""
    estimate: Estimate

    @property
    def title(self) -> str:
        """Term and name, "gender: female - male"."""
        return f"{self.term}: {self.name}"


@dataclass(frozen=True, slots=True)
class Factorial:
    """Effects of crossed group factors, and of each term (``gender x race``) whether any of its effects is not 0."""

    effects: tuple[Effect, ...]
    terms: Mapping[str, Omnibus]


def factorial(
    scores: ArrayLike,
    levels: Mapping[str, Sequence[str]],
    *,
    reference: Mapping[str, str],
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
) -> Factorial:
    """Main effects of crossed group factors and their interactions.

    All are weighted sums of the means of the cells (every combination of levels), each cell weighing the same, with
    the inference of ``paired_gap`` or, without ``pair_ids``, of ``group_gap``. Effects are of all levels but the
    reference, interactions of up to three factors. ``adjust`` corrects their p-values.

    Args:
        levels: of each factor ("gender", "race") the level of each row.
        reference: of each factor the level that is subtracted.

    >>> scores, gender, race = [0.9, 0.5, 0.5, 0.5, 0.7, 0.5, 0.5, 0.3], ["f", "f", "m", "m"] * 2, ["b", "w"] * 4
    >>> found = factorial(scores, {"gender": gender, "race": race}, reference={"gender": "m", "race": "w"})
    >>> [(one.name, round(one.estimate.value, 3)) for one in found.effects]
    [('f - m', 0.2), ('b - w', 0.2), ('(f - m) x (b - w)', 0.2)]
    """
    for factor, column in levels.items():
        known_ids(column, f"levels of {factor}")
    effects = crossed_effects(levels, reference)
    cells = list(effects[0].weights)
    rows = [tuple(map(str, row)) for row in zip(*levels.values(), strict=True)]
    if empty := set(cells) - set(rows):
        wanted = f"every combination of {', '.join(levels)}"
        raise ValueError(f"no row of {', '.join(min(empty))}, expected {wanted}. Add its prompts.")
    places = {cell: place for place, cell in enumerate(cells)}
    names = [", ".join(cell) for cell in cells]
    codes = np.array([places[row] for row in rows])
    score = by_group(scores, rows)[0]
    found = _Groups.of(score, codes, names, cluster_ids, pair_ids)
    weights = [np.array(list(one.weights.values())) for one in effects]
    tested = tuple(
        replace(one, estimate=found.contrast(each, test_constant=True))
        for one, each in zip(effects, weights, strict=True)
    )
    terms = {
        term: found.omnibus(
            [w for one, w in zip(effects, weights, strict=True) if one.term == term]
        )
        for term in dict.fromkeys(one.term for one in effects)
    }
    return Factorial(tested, terms)


def crossed_effects(
    levels: Mapping[str, Sequence[str]], reference: Mapping[str, str]
) -> list[Effect]:
    """The main effects and interactions of crossed factors, with the weights of their cells and no estimates."""
    if len(levels) < 2:
        raise ValueError(
            f"factors {list(levels)}, expected two or more. Compare groups of one with omnibus."
        )
    names: dict[str, list[str]] = {}  # of each factor its levels, the reference first
    for factor, column in levels.items():
        found = sorted({str(level) for level in column})
        if len(found) < 2 or reference.get(factor) not in found:
            wanted = f"two or more with {reference.get(factor)!r}, the reference, among them"
            raise ValueError(f"levels {found} of {factor}, expected {wanted}.")
        names[factor] = sorted(found, key=lambda level: (level != reference[factor], level))
    made = []
    for order in range(
        1, min(len(names), 3) + 1
    ):  # a fourth would be a difference of eight gaps, which nobody reads
        for chosen in combinations(names, order):
            for picked in product(*(names[factor][1:] for factor in chosen)):
                gaps = {
                    factor: (level, names[factor][0])
                    for factor, level in zip(chosen, picked, strict=True)
                }
                titles = [" - ".join(one) for one in gaps.values()]
                name = titles[0] if order == 1 else " x ".join(f"({gap})" for gap in titles)
                sides = [  # of a factor's levels: one less the reference, or the mean of all
                    [float(one == gaps[factor][0]) - (one == gaps[factor][1]) for one in each]
                    if factor in gaps
                    else [1 / len(each)] * len(each)
                    for factor, each in names.items()
                ]
                cells = reduce(
                    lambda one, other: np.outer(one, other).ravel(), sides[1:], np.array(sides[0])
                )
                weights = dict(zip(product(*names.values()), cells.tolist(), strict=True))
                made.append(Effect(" x ".join(chosen), name, gaps, weights, Estimate(math.nan)))
    named = [(one.term, one.name) for one in made]
    if twice := next((one for one in named if named.count(one) > 1), None):
        raise ValueError(
            f"two effects of {twice[0]} would be called {twice[1]!r}. Rename the levels."
        )
    return made
