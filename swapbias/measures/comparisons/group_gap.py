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
        """Make a unit of each row, whose sample is its group."""
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
        """Estimate as ``measures.group_gap``; ``pair_ids`` say nothing of rows that are no pairs."""
        return group_gap(scores, groups, reference_group=reference_group, cluster_ids=cluster_ids)

    def published(
        self,
        scores: Floats,
        groups: Sequence[str],
        pair_ids: Ids,
        *,
        reference_group: str,
        test: str,
    ) -> Estimate:
        """Welch's test, or the t test of equal variances."""
        return group_gap(scores, groups, reference_group=reference_group, test=test)


COMPARISON = GroupGap()
