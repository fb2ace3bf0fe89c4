"""Selection rates of groups and their impact ratios (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    module_info,
    selection_rate,
)

_DESCRIPTION = """
Selection rate: the share of each group's candidates who are selected, and the impact ratio: that share over the mean
of all groups' shares, or over a reference group's, with intervals.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): 1 for a candidate who is selected, 0 for one who is not; NaN where that is not known.
    groups (list of str): the group of each candidate; two or more.
    pair_ids (list, optional): the choice that a candidate belongs to (a ranking, say), with one candidate of each
        group. None: candidates are not compared with each other.
    reference_group (str, optional): whose rate the ratios divide by. None: the mean of the groups' rates.
    cluster_ids (list, or dict of lists, optional): the cluster of each candidate (the names, say), or several that
        cross by name: intervals and p-values then hold over clusters.
Returns:
    for each group: rate_GROUP (0: none, 1: all), rate_low_GROUP, rate_high_GROUP, ratio_GROUP (1: as the reference;
    below 1: selected less), ratio_low_GROUP, ratio_high_GROUP, p_value_GROUP, n_GROUP and n_unscored_GROUP.
Examples:
    >>> import evaluate, swapbias
    >>> rates = evaluate.load(swapbias.metric_path("selection_rate"))
    >>> result = rates.compute(predictions=[1, 1, 0, 1, 0, 0], groups=["female"] * 3 + ["male"] * 3)
    >>> round(result["rate_female"], 3), round(result["ratio_male"], 3)
    (0.667, 0.667)
"""

_CITATION = """
@misc{yin-etal-2024-gpt,
  title = {{OpenAI's} {GPT} Is a Recruiter's Dream Tool. Tests Show There's Racial Bias}, author = {Yin, Leon and
  Alba, Davey and Nicoletti, Leonardo}, howpublished = {Bloomberg}, year = {2024}, url =
  {https://www.bloomberg.com/graphics/2024-openai-gpt-hiring-racial-discrimination}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class SelectionRate(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.selection_rate`."""

    def _info(self):
        return evaluate.MetricInfo(
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "groups": datasets.Value("string")}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, groups, pair_ids=None, reference_group=None, cluster_ids=None):
        pairs = []
        options = {
            "pair_ids": pair_ids,
            "reference_group": reference_group,
            "cluster_ids": cluster_ids,
        }
        for group, (rate, ratio) in selection_rate(predictions, groups, **options).items():
            pairs += [
                (f"rate_{group}", rate.value),
                (f"ratio_{group}", ratio.value),
                (f"rate_low_{group}", rate.ci_low),
                (f"rate_high_{group}", rate.ci_high),
                (f"ratio_low_{group}", ratio.ci_low),
                (f"ratio_high_{group}", ratio.ci_high),
                (f"p_value_{group}", ratio.p_value),
                (f"n_{group}", float(rate.n)),
                (f"n_unscored_{group}", float(rate.n_unscored)),
            ]
        return self.keyed(pairs)
