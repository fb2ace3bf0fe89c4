"""Any measure of two groups for more than two: each contrast, corrected together, and a test of all at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from swapbias.measures.answer_accuracy import answer_bias, rows_by_sentence
from swapbias.measures.contrast import holm
from swapbias.measures.estimate import Estimate, named_group
from swapbias.measures.gaps import Contrast, Omnibus, compared, group_gap, omnibus, omnibus_of_rates, paired_gap
from swapbias.measures.rates import flip_rate, rate_ratio

T = TypeVar("T")
_POSITIONS: Mapping[Callable[..., Any], tuple[str, ...]] = {
    paired_gap: ("scores", "groups", "pair_ids"),
    group_gap: ("scores", "groups"),
    flip_rate: ("answers", "groups", "pair_ids"),
    rate_ratio: ("answers", "labels", "groups"),
    answer_bias: ("classes", "sides"),
}
_BY_ROW = frozenset({"scores", "pair_ids", "trial_ids", "sentence_ids", "cluster_ids"}.union(*_POSITIONS.values()))


@dataclass(frozen=True, slots=True)
class Contrasts(Generic[T]):
    """What a measure says of each contrast, by its two groups, corrected by Holm; and the test of all at once."""

    each: Mapping[Contrast, T]
    omnibus: Omnibus


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
        changes nothing but the correction; and the omnibus test, with the means of pairs scored in all groups.

    >>> found = contrasts(
    ...     paired_gap, [0.4, 0.2, 0.1, 0.6, 0.3, 0.2], list("abcabc"), list("ppprrr"), reference_group="c"
    ... )
    >>> {contrast: round(one.value, 3) for contrast, one in found.each.items()}
    {('a', 'c'): 0.35, ('b', 'c'): 0.1}
    """
    arguments = dict(zip(_POSITIONS[measure], rows, strict=False)) | options
    groups = np.asarray([str(name) for name in arguments[_group_column(measure)]])
    found: dict[Contrast, Any] = {}
    for other, reference in compared(groups.tolist(), reference_group):
        chosen = (groups == other) | (groups == reference)
        part = {name: _some(name, value, chosen) for name, value in arguments.items()}
        found[other, reference] = measure(**part, reference_group=reference)
    results = list(found.values())
    if isinstance(results[0], Estimate):
        results = holm(results, "contrasts")
    else:
        for name in [one.name for one in fields(results[0]) if isinstance(getattr(results[0], one.name), Estimate)]:
            corrected = holm([getattr(one, name) for one in results], "contrasts")
            results = [replace(one, **{name: each}) for one, each in zip(results, corrected, strict=True)]
    test = _omnibus_of(measure, arguments, groups.tolist(), reference_group)
    if measure is paired_gap:
        test = test.of_contrasts([one.p_value for one in results])
    return Contrasts(dict(zip(found, results, strict=True)), test)


def _group_column(measure: Callable[..., Any]) -> str:
    return "sides" if measure is answer_bias else "groups"


def _some(name: str, value: Any, chosen: NDArray[np.bool_]) -> Any:
    """An argument of a measure for some of the rows."""
    if name == "cluster_ids" and isinstance(value, Mapping):
        return {factor: _some(name, ids, chosen) for factor, ids in value.items()}
    if value is None or name not in _BY_ROW:
        return value
    if len(value) != len(chosen):
        raise ValueError(f"{len(value)} {name} and {len(chosen)} groups, expected one of each per row.")
    return [one for one, used in zip(value, chosen, strict=True) if used]


def _omnibus_of(
    measure: Callable[..., Any], arguments: Mapping[str, Any], groups: Sequence[str], reference_group: str | None
) -> Omnibus:
    """The test of all groups that goes with a measure: of what each of its contrasts is a difference of."""
    pairs: Any = arguments.get("pair_ids")
    clusters = arguments.get("cluster_ids")
    if measure is rate_ratio:
        counted = np.asarray(arguments["labels"]) == (arguments.get("rate", "tpr") == "tpr")
        clusters = pairs if clusters is None else clusters
        return omnibus_of_rates(
            arguments["answers"], counted, groups, cluster_ids=clusters, reference_group=reference_group
        )
    if measure is answer_bias:
        rows = rows_by_sentence(arguments["classes"], groups, pairs, arguments.get("sentence_ids"), clusters)
        return omnibus(**rows, reference_group=reference_group)
    scores = arguments[_POSITIONS[measure][0]]
    return omnibus(scores, groups, pair_ids=pairs, cluster_ids=clusters, reference_group=reference_group)


def module_result(
    measure: Callable[..., T], numbers: Callable[[T, str], dict[str, float]], *rows: Any,
    reference_group: str | None, **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """What an `evaluate` module returns: ``numbers`` of the measure and the reference group where two are compared.

    Of more groups, or without a reference group: ``contrasts``, for each the same keys with ``group``,
    ``reference_group`` and ``p_adjusted``, and ``omnibus``. Other arguments as in ``contrasts``.
    """
    column = rows[_POSITIONS[measure].index(_group_column(measure))]
    if reference_group is not None:
        reference_group = named_group(reference_group, set(map(str, column)))
        if len(set(column)) < 3:
            return numbers(measure(*rows, reference_group=reference_group, **options), reference_group)
    found = contrasts(measure, *rows, reference_group=reference_group, **options)
    each = []
    for (group, reference), one in found.each.items():
        estimate: Any = getattr(one, "estimate", one)
        keys = {"group": group, "reference_group": reference, **numbers(one, reference)}
        each.append({**keys, "p_adjusted": estimate.p_adjusted})
    return {"contrasts": each, "omnibus": found.omnibus.numbers}
