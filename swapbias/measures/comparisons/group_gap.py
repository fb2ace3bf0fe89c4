"""The mean score of one group minus that of the reference group, of rows that are no pairs."""

from collections.abc import Mapping, Sequence

import numpy as np

from swapbias.measures.comparison import Comparison
from swapbias.measures.estimate import ClusterIds, Codes, Estimate, Floats, Ids
from swapbias.measures.gaps import group_gap
from swapbias.measures.pair_units import ComparedUnits


class GroupGap(Comparison):
    """The difference of two groups' means; papers report Welch's test or the t test of equal variances."""

    name = "group_gap"
    noun = "prompts"
    is_paired = False
    tests = ("t", "welch")
    harness = "gap_of_groups"

    def units(
        self, scores: Floats, groups: Codes, pairs: Codes, weights: Mapping[str, float]
    ) -> ComparedUnits:
        """Make a unit of each row, whose sample is its group.

        Args:
            scores: shape (rows,), NaN where a row has none.
            groups: shape (rows,): the index of each row's group in ``weights``.
            pairs: shape (rows,): the number of each row's pair, from 0 in the order of the first rows.
            weights: the weight of each group's score, by name; 1 and -1 for the gap between two.
        """
        return ComparedUnits(np.arange(len(scores)), scores, groups, tuple(weights.values()))

    def of_rows(
        self,
        scores: Floats,
        groups: Sequence[str],
        pair_ids: Ids,
        *,
        reference_group: str,
        cluster_ids: ClusterIds = None,
    ) -> Estimate:
        """Estimate as ``measures.group_gap``.

        Args:
            scores: shape (rows,), any unit; NaN where a row could not be scored.
            groups: shape (rows,), the name of each row's group; two of them.
            pair_ids: shape (rows,), the pair of each row; not used, as rows are no pairs.
            reference_group: the group that is subtracted.
            cluster_ids: shape (rows,), or by the name of a random factor; None: no factor.
        """
        return group_gap(scores, groups, reference_group=reference_group, cluster_ids=cluster_ids)

    def gap_by_papers_test(
        self,
        scores: Floats,
        groups: Sequence[str],
        pair_ids: Ids,
        *,
        reference_group: str,
        test: str,
    ) -> Estimate:
        """Estimate by Welch's test, or the t test of equal variances.

        Args:
            scores: shape (rows,), any unit; NaN where a row could not be scored.
            groups: shape (rows,), the name of each row's group; two of them.
            pair_ids: shape (rows,), the pair of each row; not used, as rows are no pairs.
            reference_group: the group that is subtracted.
            test: ``t`` (equal variances) or ``welch``.
        """
        return group_gap(scores, groups, reference_group=reference_group, test=test)


COMPARISON = GroupGap()
