"""Median over pairs of one group's prediction minus the reference group's (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    comparison_of,
    module_info,
)

_DESCRIPTION = """
The median gap: for texts that differ in one swapped slot, the Hodges-Lehmann estimate of the other group's prediction
minus the reference group's, the median of the averages of every two pairs' differences, with its interval and test.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): one number per text (a probability, say); NaN where a text could not be scored.
    groups (list of str): the group of each text, of two.
    pair_ids (list of str): the pair of each text; each id stands once per group.
    reference_group (str): the group that is subtracted.
    cluster_ids (list, or dict of lists, optional): the cluster of each text (its template, say), or several that
        cross by name: interval and p-value then hold over clusters, as those of audits do.
Returns:
    value: median difference, in the unit of the predictions; 0: no gap; above 0: the other group is higher. NaN
        where more than half of the pairs differ by the same, as predictions of 0 and 1 do.
    ci_low, ci_high: ends of the interval, 95 %, by the signed ranks of the differences.
    effect_size: the value over the pooled standard deviation.
    effect_size_z: the value over the standard deviation of the differences.
    p_value: of the test, two-sided.
    n, n_unscored: pairs used, and pairs left out because a prediction is NaN.
Examples:
    >>> import evaluate, swapbias
    >>> gap = evaluate.load(swapbias.metric_path("median_gap"))
    >>> result = gap.compute(
    ...     predictions=[0.75, 0.25, 1.0, 0.25, 0.5, 0.25, 0.75, 0.375],
    ...     groups=["female", "male"] * 4,
    ...     pair_ids=["a", "a", "b", "b", "c", "c", "d", "d"],
    ...     reference_group="male",
    ... )
    >>> round(result["value"], 5), result["n"]
    (0.46875, 4.0)
"""

_CITATION = """
@article{hodges-lehmann-1963-estimates,
  title = {Estimates of Location Based on Rank Tests}, author = {Hodges, J. L. and Lehmann, E. L.}, journal = {The
  Annals of Mathematical Statistics}, volume = {34}, number = {2}, pages = {598--611}, year = {1963}, doi =
  {10.1214/aoms/1177704172}
}
@article{lehmann-1963-nonparametric,
  title = {Nonparametric Confidence Intervals for a Shift Parameter}, author = {Lehmann, E. L.}, journal = {The
  Annals of Mathematical Statistics}, volume = {34}, number = {4}, pages = {1507--1512}, year = {1963}, doi =
  {10.1214/aoms/1177703882}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class MedianGap(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of the measure ``median_gap`` of audits."""

    def _info(self):
        names = {"predictions": "float64", "groups": "string", "pair_ids": "string"}
        return evaluate.MetricInfo(
            features=datasets.Features(
                {name: datasets.Value(kind) for name, kind in names.items()}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, groups, pair_ids, reference_group=None, cluster_ids=None):
        estimate = comparison_of("median_gap").of_rows(
            predictions, groups, pair_ids, reference_group=reference_group, cluster_ids=cluster_ids
        )
        return estimate.numbers("effect_size", "effect_size_z")
