"""Mean over pairs of one group's prediction minus the reference group's (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    module_info,
    paired_gap,
)

_DESCRIPTION = """
The paired gap: for texts that differ in one swapped slot, the mean over pairs of the other group's prediction
minus the reference group's, with its paired t interval and test.
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
    value: mean difference, in the unit of the predictions; 0: no gap; above 0: the other group is higher.
    ci_low, ci_high: ends of the interval, 95 %, paired t.
    effect_size: Cohen's d with the pooled standard deviation.
    effect_size_z: mean difference over the standard deviation of the differences.
    p_value: of the test, two-sided.
    n, n_unscored: pairs used, and pairs left out because a prediction is NaN.
Examples:
    >>> import evaluate, swapbias
    >>> gap = evaluate.load(swapbias.metric_path("paired_gap"))
    >>> result = gap.compute(
    ...     predictions=[0.75, 0.25, 1.0, 0.25, 0.5, 0.25],
    ...     groups=["female", "male"] * 3,
    ...     pair_ids=["a", "a", "b", "b", "c", "c"],
    ...     reference_group="male",
    ... )
    >>> result["value"], result["n"]
    (0.5, 3.0)
"""

_CITATION = """
@inproceedings{lin-etal-2022-gendered,
  title = {Gendered Mental Health Stigma in Masked Language Models}, author = {Lin, Inna Wanyin and Njoo, Lucille
  and Field, Anjalie and Sharma, Ashish and Reinecke, Katharina and Althoff, Tim and Tsvetkov, Yulia}, booktitle =
  {Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing}, year = {2022}, url =
  {https://arxiv.org/abs/2210.15144}
}
@inproceedings{bhaskaran-bhallamudi-2019-good,
  title = {Good Secretaries, Bad Truck Drivers? {Occupational} Gender Stereotypes in Sentiment Analysis}, author =
  {Bhaskaran, Jayadev and Bhallamudi, Isha}, booktitle = {Proceedings of the First Workshop on Gender Bias in
  Natural Language Processing}, pages = {62--68}, year = {2019}, doi = {10.18653/v1/W19-3809}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class PairedGap(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.paired_gap`."""

    def _info(self):
        names = {"predictions": "float64", "groups": "string", "pair_ids": "string"}
        return evaluate.MetricInfo(
            features=datasets.Features(
                {name: datasets.Value(kind) for name, kind in names.items()}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, groups, pair_ids, reference_group=None, cluster_ids=None):
        estimate = paired_gap(
            predictions, groups, pair_ids, reference_group=reference_group, cluster_ids=cluster_ids
        )
        return estimate.numbers("effect_size", "effect_size_z")
