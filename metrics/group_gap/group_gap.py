"""Mean prediction of one group minus that of the reference group (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    group_gap,
    module_info,
)

_DESCRIPTION = """
The group gap: for texts that are not paired, the mean prediction of the other group minus that of the reference
group, with Welch's t interval and test.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): one number per text (a probability, say); NaN where a text could not be scored.
    groups (list of str): the group of each text, of two.
    reference_group (str): the group that is subtracted.
    cluster_ids (list, or dict of lists, optional): the cluster of each text (its template, say), or several that
        cross by name: interval and p-value then hold over clusters, as those of audits do.
    test (str): "welch" (the default) or "t" (both groups taken to vary alike; without clusters).
Returns:
    value: difference of means, in the unit of the predictions; 0: no gap; above 0: the other group is higher.
    ci_low, ci_high: ends of the interval, 95 %, Welch t; it leaves out 0 where that test's p is below .05.
    effect_size: Cohen's d with the pooled standard deviation.
    p_value: of the test, two-sided.
    n: texts used.
    n_unscored: texts left out because the prediction is NaN.
Examples:
    >>> import evaluate, swapbias
    >>> gap = evaluate.load(swapbias.metric_path("group_gap"))
    >>> result = gap.compute(
    ...     predictions=[0.75, 0.25, 1.0, 0.25, 0.5, 0.25],
    ...     groups=["female", "male"] * 3,
    ...     reference_group="male",
    ... )
    >>> result["value"], result["n"]
    (0.5, 6.0)
"""

_CITATION = """
@inproceedings{lin-etal-2022-gendered,
  title = {Gendered Mental Health Stigma in Masked Language Models}, author = {Lin, Inna Wanyin and Njoo, Lucille
  and Field, Anjalie and Sharma, Ashish and Reinecke, Katharina and Althoff, Tim and Tsvetkov, Yulia}, booktitle =
  {Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing}, year = {2022}, url =
  {https://arxiv.org/abs/2210.15144}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class GroupGap(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.group_gap`."""

    def _info(self):
        names = {"predictions": "float64", "groups": "string"}
        return evaluate.MetricInfo(
            features=datasets.Features(
                {name: datasets.Value(kind) for name, kind in names.items()}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, groups, reference_group=None, cluster_ids=None, test="welch"):
        options = {"reference_group": reference_group, "cluster_ids": cluster_ids, "test": test}
        return group_gap(predictions, groups, **options).numbers("effect_size")
