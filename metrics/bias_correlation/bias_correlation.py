"""Correlation of two bias scores of the same units (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import CheckedInputs, correlation  # From: git+https://github.com/swapbias/swapbias

_DESCRIPTION = """
Bias correlation: do two scores of the same units (a condition's P(negative) and its share of negative labels) rise
together? Pearson and Spearman, over all units with intervals (Fisher's; Bonett and Wright's of ranks) and tests, and
within each group without.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): one score per unit; NaN where it could not be scored.
    references (list of float): the other score of the same unit.
    groups (list of str, optional): group of each unit, for correlations within groups: a difference between groups
        alone makes a correlation over all units.
    confidence (float): coverage of the intervals, above 0 and below 1; .95 by default.
Returns:
    pearson, pearson_ci_low, pearson_ci_high, pearson_p_value: -1 to 1; 0: no linear relation.
    spearman, spearman_ci_low, spearman_ci_high, spearman_p_value: the same of the ranks.
    n, n_unscored: units used, units with a NaN.
    pearson_within_GROUP, spearman_within_GROUP, n_within_GROUP: for each group, if groups are given; no intervals
        and no tests.
Examples:
    >>> import evaluate, swapbias
    >>> relation = evaluate.load(swapbias.metric_path("bias_correlation"))
    >>> result = relation.compute(predictions=[1.0, 2.0, 3.0, 4.0], references=[1.0, 3.0, 2.0, 4.0])
    >>> round(result["pearson"], 6), result["n"]
    (0.8, 4.0)
"""

_CITATION = """
@software{swapbias,
  title   = {swapbias: social bias in language models by swapping one slot of a text},
  author  = {{The swapbias authors}},
  year    = {2026},
  url     = {https://github.com/swapbias/swapbias}
}

@inproceedings{mei-etal-2023-bias,
  title     = {Bias Against 93 Stigmatized Groups in Masked Language Models and Downstream Sentiment Classification
    Tasks},
  author    = {Mei, Katelyn X. and Fereidooni, Sonia and Caliskan, Aylin},
  booktitle = {ACM Conference on Fairness, Accountability, and Transparency},
  year      = {2023},
  url       = {https://arxiv.org/abs/2306.05550}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class BiasCorrelation(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.correlation`."""

    def _info(self):
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
            ),
            codebase_urls=["https://github.com/swapbias/swapbias"],
            reference_urls=[
                "https://arxiv.org/abs/2306.05550",
            ],
        )

    def _compute(self, predictions, references, groups=None, confidence=0.95):
        found = _both(predictions, references, confidence)
        if groups is not None and len(groups) != len(predictions):
            raise ValueError(f"{len(predictions)} predictions and {len(groups)} groups, expected one per unit.")
        for group in dict.fromkeys(groups or []):
            members = [index for index, name in enumerate(groups) if name == group]
            within = _both([predictions[i] for i in members], [references[i] for i in members], confidence)
            for key in ("pearson", "spearman", "n"):
                found[f"{key}_within_{group}"] = within[key]
        return found


def _both(x, y, confidence):
    found = {}
    for method in ("pearson", "spearman"):
        one = correlation(x, y, method=method, confidence=confidence)
        found[method] = one.value
        found[f"{method}_ci_low"], found[f"{method}_ci_high"] = one.ci_low, one.ci_high
        found[f"{method}_p_value"] = one.p_value
    return {**found, "n": float(one.n), "n_unscored": float(one.n_unscored)}
