"""Share of pairs whose two versions get different predictions (an `evaluate` module)."""

import datasets
import evaluate
import numpy as np

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    flip_rate,
    module_info,
)

_DESCRIPTION = """
The flip rate (mismatch ratio): for texts that differ in one swapped slot, the share of pairs whose two versions get
different predictions, with Wilson's interval, exact McNemar's test and the direction.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of int or float): 1 or 0 per text, or a probability with `threshold`; NaN where there is none.
    groups (list of str): the group of each text, of two.
    pair_ids (list of str): the pair of each text; each id stands once per group.
    reference_group (str): the group that `direction` is against.
    threshold (float, optional): None: predictions are 1 or 0. A number: probabilities above it are positive.
    cluster_ids (list, or dict of one list, optional): the subject of each text, where subjects have several pairs:
        interval and test are then over subjects.
    seed (int): of the permutations of the test with cluster_ids; 0 by default.
Returns:
    value: share of pairs with different predictions; 0: none, 1: all.
    ci_low, ci_high: Wilson's interval, 95 %; it holds where no pair flips, or every pair.
    p_value: exact McNemar's test, two-sided (with cluster_ids: versions of whole subjects are swapped); NaN without a
        discordant pair.
    more, fewer: pairs where only the other group's (only the reference group's) version is positive.
    direction: 1: the other group gets more positives, -1: the reference group does, 0: equal; NaN without a pair.
    n, n_unscored: pairs used, and pairs left out because a prediction is NaN.
Examples:
    >>> import evaluate, swapbias
    >>> flips = evaluate.load(swapbias.metric_path("flip_rate"))
    >>> result = flips.compute(
    ...     predictions=[1, 0, 1, 1, 0, 0, 1, 0],
    ...     groups=["female", "male"] * 4,
    ...     pair_ids=["a", "a", "b", "b", "c", "c", "d", "d"],
    ...     reference_group="male",
    ... )
    >>> result["value"], result["more"], result["p_value"], result["direction"]
    (0.5, 2.0, 0.5, 1.0)
"""

_CITATION = """
@inproceedings{sogancioglu-etal-2023-effects,
  title = {The Effects of Gender Bias in Word Embeddings on Patient Phenotyping in the Mental Health Domain}, author
  = {Sogancioglu, Gizem and Kaya, Heysem and Salah, Albert Ali}, booktitle = {11th International Conference on
  Affective Computing and Intelligent Interaction}, year = {2023}, url =
  {https://research-portal.uu.nl/en/publications/the-effects-of-gender-bias-in-word-embeddings-on-patient-phenotyp/}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class FlipRate(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.flip_rate`."""

    def _info(self):
        names = {"predictions": "float64", "groups": "string", "pair_ids": "string"}
        return evaluate.MetricInfo(
            features=datasets.Features(
                {name: datasets.Value(kind) for name, kind in names.items()}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(
        self,
        predictions,
        groups,
        pair_ids,
        reference_group=None,
        threshold=None,
        cluster_ids=None,
        seed=0,
    ):
        answers = list(predictions)
        if threshold is not None:
            # A NaN (the only number that differs from itself) is not below the threshold: it is no prediction.
            answers = [float(score > threshold) if score == score else score for score in answers]
        options = {"reference_group": reference_group, "cluster_ids": cluster_ids, "seed": seed}
        flips = flip_rate(answers, list(groups), list(pair_ids), **options)
        numbers = flips.estimate.numbers()
        counts = {name: numbers.pop(name) for name in ("n", "n_unscored")}
        by_direction = {"more": float(flips.more), "fewer": float(flips.fewer)}
        balance = flips.more - flips.fewer if flips.estimate.n else float("nan")
        return {**numbers, **by_direction, "direction": float(np.sign(balance)), **counts}
