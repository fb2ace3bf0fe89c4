"""Random factors: the cluster of each row in each factor that a design takes as a sample of many."""

from collections.abc import Mapping, Sized

import numpy as np
from numpy.typing import NDArray

from swapbias.measures.estimate import (
    ClusterIds,
    Codes,
    Factors as Factors,
    Ids,
    known_ids,
    values_of,
)

_DENSE = 8  # numbers a unit, up to which they are counted in place of sorted


def factor_codes(cluster_ids: ClusterIds, rows: int, pair_ids: Ids | None = None) -> Factors:
    """Return the clusters of each random factor as integers from 0; one sequence of ids is one factor without a name.

    Args:
        cluster_ids: shape (rows,), or by the name of a factor; None: no factor.
        rows: their number.
        pair_ids: shape (rows,), whose rows must lie in one cluster; None: rows are not paired.

    Raises:
        ValueError: ids of another length, a missing id, or a pair in two clusters.
    """
    if cluster_ids is None:
        return {}
    by_factor = cluster_ids if isinstance(cluster_ids, Mapping) else {"": cluster_ids}
    factors = {}
    pairs = [] if pair_ids is None else values_of(pair_ids)
    for name, ids in by_factor.items():
        of_name = f" of {name}" if name else ""
        if not isinstance(ids, Sized):
            raise ValueError(
                f"cluster_ids{of_name} are a {type(ids).__name__}, expected one per row. Fix cluster_ids."
            )
        if len(ids) != rows:
            raise ValueError(
                f"{rows} scores and {len(ids)} cluster_ids{of_name}, expected one per row."
            )
        codes = np.unique(known_ids(ids, f"cluster_ids{of_name}"), return_inverse=True)[1]
        if pairs and len(set(zip(pairs, codes.tolist(), strict=True))) != len(set(pairs)):
            raise ValueError(
                f"A pair lies in two clusters{of_name}, expected all of its rows in one. Fix cluster_ids."
            )
        factors[name] = codes
    return factors


def rows_of(factors: Factors, rows: Codes | NDArray[np.bool_] | slice) -> Factors:
    """Return the clusters of some of the rows.

    Args:
        factors: the cluster of each row in each random factor.
        rows: the rows to take.
    """
    return {name: codes[rows] for name, codes in factors.items()}


def numbered(codes: Codes) -> Codes:
    """Return codes numbered from 0 in their order, without gaps.

    Args:
        codes: shape (units,), whole numbers.

    >>> numbered(np.array([4, 0, 4, 2])).tolist()
    [2, 0, 2, 1]
    """
    if not len(codes) or codes.min() < 0 or codes.max() > _DENSE * len(codes):
        return np.unique(codes, return_inverse=True)[1]
    is_used = np.bincount(codes) > 0
    return codes if is_used.all() else (np.cumsum(is_used) - 1)[codes]
