"""Share and count of units above a threshold, per group (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    module_info,
    share_above,
)

_DESCRIPTION = """
Share above: how many units (conditions) of each group score strictly above a threshold, as a count and as a share
with Wilson's interval.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): one score per unit; NaN where it could not be scored.
    groups (list of str): the group of each unit.
    threshold (float): strict; 0.5 by default. 1 counts the units that reach it.
Returns:
    for each group: share_GROUP (0: none, 1: all), ci_low_GROUP, ci_high_GROUP, count_GROUP, n_GROUP and
    n_unscored_GROUP.
Examples:
    >>> import evaluate, swapbias
    >>> share = evaluate.load(swapbias.metric_path("share_above"))
    >>> result = share.compute(predictions=[0.9, 0.6, 0.5, 0.1], groups=["stigmatized"] * 2 + ["other"] * 2)
    >>> result["share_stigmatized"], result["count_other"]
    (1.0, 0.0)
"""

_CITATION = """
@inproceedings{mei-etal-2023-bias,
  title = {Bias Against 93 Stigmatized Groups in Masked Language Models and Downstream Sentiment Classification
  Tasks}, author = {Mei, Katelyn X. and Fereidooni, Sonia and Caliskan, Aylin}, booktitle = {ACM Conference on
  Fairness, Accountability, and Transparency}, year = {2023}, url = {https://arxiv.org/abs/2306.05550}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class ShareAbove(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.share_above`."""

    def _info(self):
        return evaluate.MetricInfo(
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "groups": datasets.Value("string")}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, groups, threshold=0.5):
        if not groups:
            raise ValueError("share_above is given no rows, expected one or more. Add them.")
        pairs = []
        for group in dict.fromkeys(groups):
            scores = [
                score for score, name in zip(predictions, groups, strict=True) if name == group
            ]
            share = share_above(scores, threshold=threshold)
            count = float(round(share.value * share.n)) if share.n else float("nan")
            pairs += [
                (f"share_{group}", share.value),
                (f"count_{group}", count),
                (f"ci_low_{group}", share.ci_low),
                (f"ci_high_{group}", share.ci_high),
                (f"n_{group}", float(share.n)),
                (f"n_unscored_{group}", float(share.n_unscored)),
            ]
        return self.keyed(pairs)
