"""More than two groups: each contrast, a test of all at once, and crossed group factors with their interactions."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import combinations, product
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.answer_accuracy import CLASSES, answer_bias
from swapbias.measures.contrast import clustered_name, linear_contrast, mean_of, pooled_spread, ratio, spread_of
from swapbias.measures.estimate import (
    ClusterIds,
    Estimate,
    Factors,
    Floats,
    factor_codes,
    factors_of_pairs,
    known_ids,
    named_group,
    rows_of,
)
from swapbias.measures.gaps import group_gap, paired_gap
from swapbias.measures.levels import adjust
from swapbias.measures.rates import flip_rate, rate_ratio

T = TypeVar("T")
Contrast = tuple[str, str]  # a group, and the one that is subtracted
_GROUPS = ("groups", "sides")  # what measures call the group of a row
_ROWS = ("scores", "answers", "labels", "classes", "pair_ids", "trial_ids", "sentence_ids")
_HIGHEST = 3  # order of interactions: a fourth would be a difference of eight gaps, which nobody reads
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Omnibus:
    """Whether any of several groups differs: whether any contrast's interval at .05 / contrasts leaves out 0.

    Attributes:
        estimate: the SD of the groups' means (of two groups half their gap), in the unit of the scores; 0: all are
            equal. It is above 0 by chance alone, so that only the p-value says whether it is more. No interval.
        contrasts: how many there are: the p-value is the smallest of theirs, so many times.
        means: of each group.
    """

    estimate: Estimate
    contrasts: int
    means: Mapping[str, float]

    @property
    def numbers(self) -> dict[str, float]:
        """What the `evaluate` modules return of it."""
        found = self.estimate
        return {
            "spread": found.value, "p_value": found.p_value, "contrasts": float(self.contrasts), "n": float(found.n),
            "n_unscored": float(found.n_unscored),
        }  # fmt: skip

    def of_contrasts(self, p_values: Sequence[float]) -> "Omnibus":
        """The same with the p-value that those of the contrasts make; NaN where all are."""
        known = [p for p in p_values if not math.isnan(p)]
        p_value = min(1.0, self.contrasts * min(known)) if known else math.nan
        return replace(self, estimate=replace(self.estimate, p_value=p_value))


@dataclass(frozen=True, slots=True)
class Contrasts(Generic[T]):
    """Several groups compared two at a time.

    Attributes:
        each: what the measure says of two groups, by the group and the one that is subtracted, ("female", "male");
            p-values are corrected over all contrasts (``p_adjusted``, by Holm).
        omnibus: the one test that all groups are alike.
    """

    each: Mapping[Contrast, T]
    omnibus: Omnibus


@dataclass(frozen=True, slots=True)
class Effect:
    """One contrast of crossed group factors.

    Attributes:
        term: the factors that it is about, "gender" or "gender x race".
        name: "female - male", averaged over the other factors; "(female - male) x (black - white)": the gap between
            the first two for the third less that for the fourth.
        levels: of each of its factors the level, and the reference level that is subtracted.
        weights: what the mean of each cell (its levels, in the order of the factors) weighs in it.
        estimate: as of ``paired_gap`` or ``group_gap``; NaN where no scores were given.
    """

    term: str
    name: str
    levels: Mapping[str, Contrast]
    weights: Mapping[tuple[str, ...], float]
    estimate: Estimate

    @property
    def order(self) -> int:
        """1 of a main effect, 2 or 3 of an interaction."""
        return len(self.levels)


@dataclass(frozen=True, slots=True)
class Intersection:
    """One cell of crossed group factors beside what its parts add up to.

    Attributes:
        name: its levels, "female, black".
        gap: its mean less the mean of all cells.
        parts: what the main effects of its levels add up to.
        estimate: by how much ``gap`` goes beyond ``parts``, away from the mean of all: above 0: further from it
            than its parts, below 0: nearer.
    """

    name: str
    gap: float
    parts: float
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Factorial:
    """Crossed group factors: effects and intersections, each a family of p-values for Holm, and a test of a term."""

    effects: tuple[Effect, ...]
    intersections: tuple[Intersection, ...]
    terms: Mapping[str, Omnibus]


# --- each contrast ------------------------------------------------------------------------------------


def contrasts(
    measure: Callable[..., T], *rows: Any, reference_group: str | None = None, **options: Any
) -> Contrasts[T]:
    """A measure of two groups for any number of them: each against the reference group, or every two.

    Args:
        measure: ``paired_gap``, ``group_gap``, ``flip_rate``, ``rate_ratio`` or ``answer_bias``.
        rows, options: as the measure takes them, with two groups or more; each pair stands once per group.
        reference_group: what is subtracted from each other group; None: every two groups are compared, the one whose
            name comes first in the alphabet minus the other.

    Returns:
        Of each contrast what the measure gives for the rows of these two groups alone, so that a further group
        changes nothing but the correction; and the omnibus test of these contrasts, with the means of pairs scored
        in all groups.

    Raises:
        ValueError: fewer than two groups, a reference group that is not there, what the measure refuses.

    >>> found = contrasts(
    ...     paired_gap, [0.4, 0.2, 0.1, 0.6, 0.3, 0.2], list("abcabc"), list("ppprrr"), reference_group="c"
    ... )
    >>> {contrast: round(one.value, 3) for contrast, one in found.each.items()}
    {('a', 'c'): 0.35, ('b', 'c'): 0.1}
    """
    given = inspect.signature(measure).bind(*rows, **options, reference_group=reference_group or "").arguments
    column = next(name for name in _GROUPS if name in given)
    groups = np.asarray([str(name) for name in given[column]])
    found: dict[Contrast, T] = {}
    for other, reference in compared(groups.tolist(), reference_group):
        chosen = (groups == other) | (groups == reference)
        part = {name: _some(name, value, chosen) for name, value in given.items()}
        found[other, reference] = measure(**{**part, "reference_group": reference})
    test = _omnibus_of(measure, given, groups)
    if measure is paired_gap:
        test = test.of_contrasts([cast("Estimate", one).p_value for one in found.values()])
    return Contrasts(_corrected(found), test)


def compared(groups: Sequence[str], reference_group: str | None) -> list[Contrast]:
    """Which two groups each contrast is of, the one that is subtracted last.

    >>> compared(["m", "f", "x"], "m"), compared(["m", "f", "x"], None)
    ([('f', 'm'), ('x', 'm')], [('f', 'm'), ('f', 'x'), ('m', 'x')])
    """
    names = sorted(set(groups))
    if reference_group is not None:
        reference_group = named_group(reference_group, names)
    if len(names) < 2 or (reference_group is not None and reference_group not in names):
        wanted = "at least two" + ("" if reference_group is None else f" with {reference_group!r} as reference_group")
        raise ValueError(f"groups {names}, expected {wanted}.")
    if reference_group is None:
        return list(combinations(names, 2))
    return [(name, reference_group) for name in names if name != reference_group]


def _some(name: str, value: Any, chosen: NDArray[np.bool_]) -> Any:
    """An argument of a measure for some of the rows."""
    if name == "cluster_ids" and isinstance(value, Mapping):
        return {factor: _some("cluster_ids", ids, chosen) for factor, ids in value.items()}
    if value is None or name not in (*_ROWS, *_GROUPS, "cluster_ids"):
        return value
    if len(value) != len(chosen):
        raise ValueError(f"{len(value)} {name} and {len(chosen)} groups, expected one of each per row.")
    return [one for one, used in zip(value, chosen, strict=True) if used]


def _corrected(found: Mapping[Contrast, T]) -> dict[Contrast, T]:
    """Every estimate of each contrast with its p-value corrected over the contrasts."""
    corrected = dict(found)
    first = next(iter(found.values()))
    if isinstance(first, Estimate):
        estimates = holm(cast("Sequence[Estimate]", list(found.values())), "contrasts")
        return dict(zip(found, cast("list[T]", estimates), strict=True))
    for field in fields(first) if is_dataclass(first) else ():
        mine = [getattr(one, field.name) for one in corrected.values()]
        if all(isinstance(one, Estimate) for one in mine):
            both = zip(corrected.items(), holm(mine, "contrasts"), strict=True)
            corrected = {
                name: cast("T", replace(cast("Any", one), **{field.name: each})) for (name, one), each in both
            }
    return corrected


def holm(found: Sequence[Estimate], family: str) -> list[Estimate]:
    """Estimates with their p-values corrected together."""
    adjusted = adjust([one.p_value for one in found])
    tests = int((~np.isnan(adjusted)).sum())
    name = f"{family}: {tests} tests, holm"
    return [
        one if math.isnan(p) else replace(one, p_adjusted=float(p), family=name)
        for one, p in zip(found, adjusted, strict=True)
    ]


def module_result(
    measure: Callable[..., T],
    numbers: Callable[[T, str], dict[str, float]],
    *rows: Any,
    reference_group: str | None,
    **options: Any,
) -> dict[str, Any]:
    """What an `evaluate` module returns of two groups, and of more or without a reference group.

    Args:
        measure, rows, options: as in ``contrasts``.
        numbers: of what the measure gives, and the reference group, the keys of the module.
        reference_group: as in ``contrasts``.

    Returns:
        The keys themselves where two groups are compared; else ``contrasts``, a mapping for each with ``group``,
        ``reference_group``, the keys and ``p_adjusted``, and ``omnibus``.
    """
    groups = inspect.signature(measure).bind_partial(*rows).arguments
    column = next(groups[name] for name in _GROUPS if name in groups)
    if reference_group is not None:
        reference_group = named_group(reference_group, set(map(str, column)))
    if reference_group is not None and len(set(column)) < 3:
        return numbers(measure(*rows, reference_group=reference_group, **options), reference_group)
    found = contrasts(measure, *rows, reference_group=reference_group, **options)
    each = [
        {"group": group, "reference_group": reference, **numbers(one, reference),
         "p_adjusted": cast("Any", getattr(one, "estimate", one)).p_adjusted}
        for (group, reference), one in found.each.items()
    ]  # fmt: skip
    return {"contrasts": each, "omnibus": found.omnibus.numbers}


def _omnibus_of(measure: Callable[..., Any], given: Mapping[str, Any], groups: NDArray[np.str_]) -> Omnibus:
    """The test of all groups that goes with a measure: of what each of its contrasts is a difference of."""
    clusters, pairs, reference = given.get("cluster_ids"), given.get("pair_ids"), given["reference_group"] or None
    options: dict[str, Any] = {"cluster_ids": clusters, "reference_group": reference}
    if measure is group_gap:
        return omnibus(given["scores"], groups.tolist(), **options)
    if measure is paired_gap:
        return omnibus(given["scores"], groups.tolist(), pair_ids=pairs, **options)
    if measure is flip_rate:
        return omnibus(given["answers"], groups.tolist(), pair_ids=pairs, **options)
    if measure is answer_bias:
        right = [math.nan if not name or name != name else 100.0 * (name == CLASSES[0]) for name in given["classes"]]
        units = given.get("sentence_ids") if given.get("sentence_ids") is not None else pairs
        return _of_units(right, groups, pairs, units, clusters, reference)
    if measure is rate_ratio:
        asked = np.asarray(given["labels"]) == (1 if given.get("rate", "tpr") == "tpr" else 0)
        unit = clusters if clusters is not None else pairs
        return omnibus_of_rates(given["answers"], asked, groups.tolist(), **{**options, "cluster_ids": unit})
    raise ValueError(f"measure {measure!r}, expected one of two groups with an omnibus test.")


def _of_units(
    scores: Sequence[float],
    groups: NDArray[np.str_],
    pairs: Any,
    units: Any,
    clusters: ClusterIds,
    reference: str | None,
) -> Omnibus:
    """Of units with several rows a group (trials, adjectives): their means, over pairs first."""
    names, ids, own = sorted(set(groups.tolist())), np.asarray(pairs), np.asarray(units)
    score, each = np.asarray(scores, dtype=np.float64), np.unique(ids)
    known = ~np.isnan(score)
    means_of = ([mean_of(score[known & (ids == pair) & (groups == name)]) for name in names] for pair in each)
    whole, unit_of = np.array(list(means_of)), np.array([own[ids == pair][0] for pair in each])
    known = ~np.isnan(whole).any(axis=1)
    kept = np.unique(unit_of[known])
    means = np.array([whole[known & (unit_of == one)].mean(axis=0) for one in kept]).reshape(-1, len(names))
    first = [int(np.flatnonzero(own == one)[0]) for one in kept]
    factors = rows_of(factors_of_pairs(clusters, own.tolist()), np.array(first, dtype=np.intp))
    return Cells(
        tuple(names), means, np.zeros(len(means), np.intp), factors, True, len(np.unique(own)) - len(kept)
    ).omnibus(reference_group=reference)


def omnibus(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    pair_ids: Sequence[str] | None = None,
    cluster_ids: ClusterIds = None,
    sample_ids: Sequence[str] | None = None,
    reference_group: str | None = None,
) -> Omnibus:
    """Whether any of k groups differs: whether the interval of any contrast, at .05 over their number, leaves out 0.

    Args:
        scores: shape (rows,); NaN where a row could not be scored.
        groups: shape (rows,), two values or more.
        pair_ids: shape (rows,), each id stands once per group; pairs that are not scored in all groups are left out.
            None: rows are not paired.
        cluster_ids: as in ``paired_gap``.
        sample_ids: shape (rows,), with pairs only: two samples of pairs; tested is whether their gaps are the same.
        reference_group: each other group is compared with it; None: every two groups are.

    Raises:
        ValueError: fewer than two groups, unequal lengths, an incomplete or repeated pair.

    >>> found = omnibus([1.0, 2.0, 4.0, 2.0, 4.0, 5.0], list("abcabc"), pair_ids=list("ppprrr"))
    >>> found.contrasts, {name: round(mean, 2) for name, mean in found.means.items()}
    (3, {'a': 1.5, 'b': 3.0, 'c': 4.5})
    """
    found = cells(scores, groups, pair_ids=pair_ids, cluster_ids=cluster_ids, sample_ids=sample_ids)
    return found.omnibus(reference_group=reference_group)


def omnibus_of_rates(
    answers: ArrayLike,
    asked: ArrayLike,
    groups: Sequence[str],
    *,
    cluster_ids: ClusterIds = None,
    reference_group: str | None = None,
) -> Omnibus:
    """Whether the share of answer 1 among the rows that are asked for differs between any of k groups.

    Args:
        answers: shape (rows,), 1 or 0; NaN where there is none.
        asked: shape (rows,), whether a row counts: those of label 1 for true positive rates.
        groups, cluster_ids, reference_group: as in ``omnibus``; the versions of a note are of one cluster.

    Returns:
        NaN where a group has fewer than two rows.
    """
    answer, counted = np.asarray(answers, dtype=np.float64), np.asarray(asked, dtype=np.bool_)
    scores = np.where(counted, answer, np.nan)
    found = omnibus(scores, groups, cluster_ids=cluster_ids, reference_group=reference_group)
    lost = int((counted & np.isnan(answer)).sum())
    return replace(found, estimate=replace(found.estimate, n_unscored=lost))


# --- means of groups and their covariance ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cells:
    """Scores of k groups.

    Attributes:
        names: of the groups.
        values: of pairs shape (pairs, groups), else (rows,); no NaN.
        sides: shape (pairs or rows,): the sample of each pair, 1 for what is subtracted; or the group of each row.
        factors: the cluster of each pair or row.
        paired: whether groups stand side by side in a pair.
        n_unscored: pairs or rows left out.
    """

    names: tuple[str, ...]
    values: Floats
    sides: NDArray[np.intp]
    factors: Factors
    paired: bool
    n_unscored: int

    @property
    def means(self) -> Floats:
        """Of each group, less that of the sample that is subtracted; NaN of a group without a row."""
        if not self.paired:
            return np.array([mean_of(self.values[self.sides == side]) for side in range(len(self.names))])
        samples = [self.values[self.sides == side] for side in range(int(self.sides.max(initial=0)) + 1)]
        if not all(len(sample) for sample in samples):
            return np.full(len(self.names), math.nan)
        first = samples[0].mean(axis=0)
        return np.asarray(first if len(samples) == 1 else first - samples[1].mean(axis=0))

    def contrast(self, weights: Floats, confidence: float = 0.95) -> Estimate:
        """The weighted sum of the means of rows, or of pairs (of two samples the difference of those sums).

        ``weights`` has shape (groups,).
        """
        used, z = np.flatnonzero(np.abs(weights) > _ROUNDING), math.nan
        if self.paired:
            values, sides, factors = self.values @ weights, self.sides, self.factors
            signs, samples = (1.0, -1.0)[: int(sides.max(initial=0)) + 1], list(self.values.T[used])
            name = "paired t" if len(signs) == 1 else "Welch t"
        else:
            chosen = np.isin(self.sides, used)
            values, factors = self.values[chosen], rows_of(self.factors, chosen)
            sides, signs = np.searchsorted(used, self.sides[chosen]), tuple(weights[used])
            samples, name = [values[sides == side] for side in range(len(used))], "Welch t"
        found = linear_contrast(
            values, sides, signs, factors, scale=self.values, confidence=confidence, n_unscored=self.n_unscored
        )
        if self.paired and len(signs) == 1:
            z = ratio(found.value, spread_of(values, self.values))
        tested, size = clustered_name(factors, name), ratio(found.value, pooled_spread(samples))
        return replace(
            found, test=tested, interval=tested, effect_size=size, effect_size_z=z if self.paired else math.nan
        )

    def omnibus(self, weights: Floats | None = None, *, reference_group: str | None = None) -> Omnibus:
        """Whether any contrast is not 0; ``weights`` has shape (contrasts, groups), by default those of the gaps."""
        if weights is None:
            places = {name: place for place, name in enumerate(self.names)}
            each = np.eye(len(self.names))
            weights = np.array([each[places[a]] - each[places[b]] for a, b in compared(self.names, reference_group)])
        p_values = [self.contrast(one).p_value for one in weights] if len(self.values) else []
        count, means = len(weights), self.means
        centred = np.linalg.pinv(weights) @ weights @ means
        estimate = Estimate(
            float(np.sqrt((centred**2).mean())), n=len(self.values), n_unscored=self.n_unscored, interval="none",
            test=f"any of {count} contrasts at .05 / {count}",
        )  # fmt: skip
        found = Omnibus(estimate, count, dict(zip(self.names, means.tolist(), strict=True)))
        return found.of_contrasts(p_values)


def cells(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    pair_ids: Sequence[str] | None = None,
    cluster_ids: ClusterIds = None,
    sample_ids: Sequence[str] | None = None,
) -> Cells:
    """Scores by group, and by pair where rows are paired; arguments and errors as in ``omnibus``."""
    score, group = np.asarray(scores, dtype=np.float64), np.asarray([str(name) for name in groups])
    if np.any(np.isinf(score)):
        raise ValueError("scores hold an infinite number, expected finite ones or NaN for what could not be scored.")
    if score.ndim != 1 or len(score) != len(group):
        raise ValueError(f"scores of shape {score.shape} and {len(group)} groups, expected one score per row.")
    named, codes = np.unique(group, return_inverse=True)
    told = tuple(named.tolist())
    if len(told) < 2:
        raise ValueError(f"groups {list(told)}, expected at least two.")
    if pair_ids is None:
        known = ~np.isnan(score)
        factors = rows_of(factor_codes(cluster_ids, len(score)), known)
        return Cells(told, score[known], codes[known], factors, False, int((~known).sum()))
    table, first = _by_pair(score, codes, pair_ids, told)
    whole = np.flatnonzero(~np.isnan(table).any(axis=1))
    factors = rows_of(factors_of_pairs(cluster_ids, pair_ids), first[whole])
    sides = np.zeros(len(table), np.intp)
    if sample_ids is not None:
        sides = np.unique(np.asarray(sample_ids), return_inverse=True)[1][first]
    return Cells(told, table[whole], sides[whole], factors, True, len(table) - len(whole))


def _by_pair(
    score: Floats, codes: NDArray[np.intp], pair_ids: Sequence[str], names: tuple[str, ...]
) -> tuple[Floats, NDArray[np.intp]]:
    """Scores of shape (pairs, groups), and the first row of each pair, in the order of those."""
    if len(pair_ids) != len(score):
        raise ValueError(f"{len(score)} scores and {len(pair_ids)} pair_ids, expected one per row.")
    ids, first, places = np.unique(known_ids(pair_ids, "pair_ids"), return_index=True, return_inverse=True)
    times = np.bincount(places * len(names) + codes, minlength=len(ids) * len(names)).reshape(len(ids), len(names))
    wrong = np.argwhere(times != 1)
    if len(wrong):
        pair, group = wrong[0]
        raise ValueError(f"pair {ids[pair]!s} has {times[pair, group]} rows of {names[group]!r}, expected one.")
    table = np.empty((len(ids), len(names)))
    table[places, codes] = score
    order = np.argsort(first)
    return table[order], first[order]


# --- crossed group factors ------------------------------------------------------------------------------


def factorial(
    scores: ArrayLike,
    levels: Mapping[str, Sequence[str]],
    *,
    reference: Mapping[str, str],
    pair_ids: Sequence[str] | None = None,
    cluster_ids: ClusterIds = None,
    confidence: float = 0.95,
) -> Factorial:
    """Main effects of crossed group factors, their interactions, and each intersection beside its parts.

    All are weighted sums of the means of the cells (every combination of levels), each cell weighing the same, with
    the inference of ``paired_gap`` or ``group_gap``.

    Args:
        scores: shape (rows,); NaN where a row could not be scored.
        levels: of each factor ("gender", "race") the level of each row.
        reference: of each factor the level that is subtracted.
        pair_ids: shape (rows,), each id stands once per cell; None: rows are not paired.
        cluster_ids: as in ``paired_gap``.
        confidence: coverage of the intervals.

    Returns:
        Effects of all levels but the reference (interactions of up to three factors), a test of each term, and the
        intersections. In two factors of two levels all four cells lie equally far from their parts: it is one test.

    Raises:
        ValueError: fewer than two factors, a factor of one level, a reference that is no level, a cell without rows.

    >>> scores, gender, race = [0.9, 0.5, 0.5, 0.5, 0.7, 0.5, 0.5, 0.3], ["f", "f", "m", "m"] * 2, ["b", "w"] * 4
    >>> found = factorial(scores, {"gender": gender, "race": race}, reference={"gender": "m", "race": "w"})
    >>> [(one.name, round(one.estimate.value, 3)) for one in found.effects]
    [('f - m', 0.2), ('b - w', 0.2), ('(f - m) x (b - w)', 0.2)]
    """
    names = _levels(levels, reference)
    rows = ["\0".join(map(str, row)) for row in zip(*levels.values(), strict=True)]
    if lacking := sorted(set(product(*names.values())) - {tuple(row.split("\0")) for row in rows}):
        wanted = f"every combination of {', '.join(levels)}"
        raise ValueError(f"no row of {', '.join(lacking[0])}, expected {wanted}. Add its prompts.")
    found = cells(scores, rows, pair_ids=pair_ids, cluster_ids=cluster_ids)
    place = [found.names.index("\0".join(cell)) for cell in product(*names.values())]

    def sums(weights: Floats) -> Floats:
        """Weights of the cells in the order of ``product``, in that of ``found``."""
        moved = np.zeros(weights.shape)
        moved[..., place] = weights
        return moved

    effects = crossed_effects(levels, reference)
    weights = [sums(np.array(list(one.weights.values()))) for one in effects]
    estimates = holm([found.contrast(one, confidence) for one in weights], "effects")
    terms = {
        term: found.omnibus(np.array([w for one, w in zip(effects, weights, strict=True) if one.term == term]))
        for term in dict.fromkeys(one.term for one in effects)
    }
    return Factorial(
        tuple(replace(one, estimate=each) for one, each in zip(effects, estimates, strict=True)),
        _intersections(found, names, sums, confidence),
        terms,
    )


def crossed_effects(levels: Mapping[str, Sequence[str]], reference: Mapping[str, str]) -> list[Effect]:
    """The main effects and interactions of crossed factors, with the weights of their cells and no estimates.

    Args:
        levels, reference: as in ``factorial``.

    Raises:
        ValueError: fewer than two factors, a factor of one level, a reference that is no level, two effects that
            would have one name.

    >>> levels = {"gender": ["f", "m", "f", "m"], "race": ["b", "b", "w", "w"]}
    >>> found = crossed_effects(levels, {"gender": "m", "race": "w"})
    >>> found[0].name, found[0].weights["f", "b"], found[2].weights["m", "b"]
    ('f - m', 0.5, -1.0)
    """
    names = _levels(levels, reference)
    made = []
    for order in range(1, min(len(names), _HIGHEST) + 1):
        for chosen in combinations(names, order):
            for picked in product(*(names[factor][1:] for factor in chosen)):
                apart = {factor: (level, names[factor][0]) for factor, level in zip(chosen, picked, strict=True)}
                gaps = [" - ".join(one) for one in apart.values()]
                name = gaps[0] if order == 1 else " x ".join(f"({gap})" for gap in gaps)
                sides = [_side(names[factor], apart[factor][0] if factor in apart else None) for factor in names]
                weights = zip(product(*names.values()), _product(sides).tolist(), strict=True)
                made.append(Effect(" x ".join(chosen), name, apart, dict(weights), Estimate(math.nan)))
    told = [(one.term, one.name) for one in made]
    if twice := next((one for one in told if told.count(one) > 1), None):
        raise ValueError(f"two effects of {twice[0]} would be called {twice[1]!r}. Rename the levels.")
    return made


def _levels(levels: Mapping[str, Sequence[str]], reference: Mapping[str, str]) -> dict[str, list[str]]:
    """Of each factor its levels, the reference first."""
    if len(levels) < 2:
        raise ValueError(f"factors {list(levels)}, expected two or more. Compare groups of one with contrasts.")
    names: dict[str, list[str]] = {}
    for factor, column in levels.items():
        found = sorted({str(level) for level in column})
        if len(found) < 2 or reference.get(factor) not in found:
            wanted = f"two or more with {reference.get(factor)!r}, the reference, among them"
            raise ValueError(f"levels {found} of {factor}, expected {wanted}.")
        names[factor] = sorted(found, key=lambda level: (level != reference[factor], level))
    return names


def _product(sides: Sequence[Floats]) -> Floats:
    """Weights of the cells, from those of each factor's levels."""
    weights: Floats = np.ones(1)
    for side in sides:
        weights = np.outer(weights, side).ravel()
    return weights


def _side(levels: Sequence[str], level: str | None) -> Floats:
    """Weights of a factor's levels: one less the reference, or the mean of all."""
    if level is None:
        return np.full(len(levels), 1 / len(levels))
    return np.array([(name == level) - (place == 0) for place, name in enumerate(levels)], dtype=np.float64)


def _intersections(
    found: Cells, names: Mapping[str, Sequence[str]], sums: Callable[[Floats], Floats], confidence: float
) -> tuple[Intersection, ...]:
    shape = [len(levels) for levels in names.values()]
    whole = np.full(math.prod(shape), 1 / math.prod(shape))
    made = []
    for cell in product(*(range(size) for size in shape)):
        own = _product([np.eye(size)[place] for size, place in zip(shape, cell, strict=True)])
        sides = [[np.eye(size)[cell[at]] if at == one else np.full(size, 1 / size) for at, size in enumerate(shape)]
                 for one in range(len(shape))]  # fmt: skip
        parts = sum((_product(side) - whole for side in sides), np.zeros(len(whole)))
        away, expected = (float(found.means @ sums(weights)) for weights in (own - whole, parts))
        outward = 1.0 if away >= 0 else -1.0
        name = ", ".join(levels[place] for levels, place in zip(names.values(), cell, strict=True))
        beyond = found.contrast(sums(outward * (own - whole - parts)), confidence)
        made.append(Intersection(name, away, expected, beyond))
    corrected = holm([one.estimate for one in made], "intersections")
    return tuple(replace(one, estimate=each) for one, each in zip(made, corrected, strict=True))
