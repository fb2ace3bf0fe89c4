"""Correlation of two bias scores of the same units (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    correlation,
    module_info,
)

_DESCRIPTION = """
Bias correlation: do two scores of the same units (a condition's P(negative) and its share of negative labels) rise
together? Pearson and Spearman with intervals (Fisher's; Bonett and Wright's of ranks) and tests. A difference between
groups alone makes a correlation over all units: compute it for each group as well.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): one score per unit; NaN where it could not be scored.
    references (list of float): the other score of the same unit.
Returns:
    pearson, pearson_ci_low, pearson_ci_high, pearson_p_value: -1 to 1; 0: no linear relation.
    spearman, spearman_ci_low, spearman_ci_high, spearman_p_value: the same of the ranks.
    n, n_unscored: units used, units with a NaN.
Examples:
    >>> import evaluate, swapbias
    >>> relation = evaluate.load(swapbias.metric_path("bias_correlation"))
    >>> result = relation.compute(predictions=[1.0, 2.0, 3.0, 4.0], references=[1.0, 3.0, 2.0, 4.0])
    >>> round(result["pearson"], 6), result["n"]
    (0.8, 4.0)
"""

_CITATION = """
@inproceedings{mei-etal-2023-bias,
  title = {Bias Against 93 Stigmatized Groups in Masked Language Models and Downstream Sentiment Classification
  Tasks}, author = {Mei, Katelyn X. and Fereidooni, Sonia and Caliskan, Aylin}, booktitle = {ACM Conference on
  Fairness, Accountability, and Transparency}, year = {2023}, url = {https://arxiv.org/abs/2306.05550}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class BiasCorrelation(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.correlation`."""

    def _info(self):
        return evaluate.MetricInfo(
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, references):
        result = {}
        for method in ("pearson", "spearman"):
            estimate = correlation(predictions, references, method=method)
            result[method] = estimate.value
            result[f"{method}_ci_low"] = estimate.ci_low
            result[f"{method}_ci_high"] = estimate.ci_high
            result[f"{method}_p_value"] = estimate.p_value
        return {**result, "n": float(estimate.n), "n_unscored": float(estimate.n_unscored)}
