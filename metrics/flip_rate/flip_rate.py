"""Share of pairs whose two versions get different predictions (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import flip_rate, module_result  # From: git+https://github.com/swapbias/swapbias

_DESCRIPTION = """
The flip rate (mismatch ratio): for texts that differ in one swapped slot, the share of pairs whose two versions get
different predictions, with Wilson's interval, exact McNemar's test and the direction.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: 1 or 0 per text, or a probability with `threshold`; NaN where there is no prediction.
    groups: the group of each text; two or more.
    pair_ids: the pair of each text; each id stands once per group.
    reference_group: the group that `direction` is told against. None: every two groups are compared, by name.
    threshold: None: predictions are 1 or 0. A number: probabilities above it are positive, and the mean
        probability tells the direction where both groups get as many positives.
    cluster_ids: optional, the subject of each text, where subjects have several pairs: interval and test are then
        over subjects.
Returns:
    value: share of pairs with different predictions; 0: none, 1: all.
    ci_low, ci_high: 95 % Wilson interval; it holds where no pair flips, or every pair.
    p_value: exact McNemar's test, two-sided (with cluster_ids: versions of whole subjects are swapped); NaN without a
        discordant pair.
    more: pairs where only the other group's version is positive.
    fewer: pairs where only the reference group's version is positive.
    direction: 1: the other group gets more positives, -1: the reference group does, 0: equal; NaN without a pair.
    n: pairs used.
    n_unscored: pairs left out because a prediction is NaN.
    with more than two groups, or without a reference_group:
    contrasts: a list: of each contrast group and reference_group, the keys above, and p_adjusted, corrected over
        all contrasts (Holm).
    omnibus: whether any group differs: p_value, f, df_between, df_within, spread (SD of the groups' means), n and
        n_unscored.
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
@software{swapbias,
  title   = {swapbias: social bias in language models by swapping one slot of a text},
  author  = {{The swapbias authors}},
  year    = {2026},
  url     = {https://github.com/swapbias/swapbias}
}

@inproceedings{sogancioglu-etal-2023-effects,
  title     = {The Effects of Gender Bias in Word Embeddings on Patient Phenotyping in the Mental Health Domain},
  author    = {Sogancioglu, Gizem and Kaya, Heysem and Salah, Albert Ali},
  booktitle = {11th International Conference on Affective Computing and Intelligent Interaction},
  year      = {2023},
  url       =
    {https://research-portal.uu.nl/en/publications/the-effects-of-gender-bias-in-word-embeddings-on-patient-phenotyp/}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class FlipRate(evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.flip_rate`."""

    def _info(self):
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features(
                {
                    "predictions": datasets.Value("float64"),
                    "groups": datasets.Value("string"),
                    "pair_ids": datasets.Value("string"),
                }
            ),
        )

    def _compute(self, predictions, groups, pair_ids, reference_group=None, threshold=None, cluster_ids=None):
        answers = scores = list(predictions)
        if threshold is not None:
            # A NaN (the only number that differs from itself) is not below the threshold: it is no prediction.
            answers = [float(score > threshold) if score == score else score for score in scores]
        options = {"scores": None if threshold is None else scores, "cluster_ids": cluster_ids}
        rows = answers, list(groups), list(pair_ids)
        return module_result(flip_rate, _keys, *rows, reference_group=reference_group, **options)


def _keys(found, reference_group):
    direction = 0.0 if found.higher_group == "" else -1.0 if found.higher_group == reference_group else 1.0
    return {
        **found.estimate.numbers(),
        "more": float(found.more),
        "fewer": float(found.fewer),
        "direction": direction if found.estimate.n else float("nan"),
    }
