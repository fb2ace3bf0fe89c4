"""The mean over pairs of one group's score minus the reference group's."""

from collections.abc import Sequence

from swapbias.measures.comparison import PairedComparison
from swapbias.measures.estimate import ClusterIds, Estimate, Floats, Ids
from swapbias.measures.gaps import paired_gap


class PairedGap(PairedComparison):
    """The mean difference of pairs; papers report the paired t test."""

    name = "paired_gap"
    harness = "gap_of_pairs"

    def of_rows(
        self,
        scores: Floats,
        groups: Sequence[str],
        pair_ids: Ids,
        *,
        reference_group: str,
        cluster_ids: ClusterIds = None,
    ) -> Estimate:
        """Estimate as ``measures.paired_gap``.

        Args:
            scores: shape (rows,), any unit; NaN where a row could not be scored.
            groups: shape (rows,), the name of each row's group; two of them.
            pair_ids: shape (rows,), the pair of each row.
            reference_group: the group that is subtracted.
            cluster_ids: shape (rows,), or by the name of a random factor; None: no factor.
        """
        return paired_gap(
            scores, groups, pair_ids, reference_group=reference_group, cluster_ids=cluster_ids
        )


COMPARISON = PairedGap()
