"""Differences and ratios of two groups' true and false positive rates (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    module_info,
    rate_ratio,
)

_DESCRIPTION = """
The true and the false positive rates of two groups: their difference and the log of their ratio, each with interval
and p-value over pairs, and the ratio as published (TPRR, FPRR), the smaller over the larger.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of int): 1 or 0 per text; NaN where there is no prediction.
    references (list of int): the true label of each text, 1 or 0.
    groups (list of str): the group of each text, of two.
    pair_ids (list of str): the pair (note) of each text; its texts are dependent.
    reference_group (str): the group that is subtracted and divided by.
    cluster_ids (list, or dict of one list, optional): the subject of each text, where subjects have several notes.
Returns:
    tpr_difference, fpr_difference: the other group's rate minus the reference group's; 0: equal.
    log_tprr, log_fprr: natural log of the other group's rate over the reference one; 0: equal; NaN of a rate of 0.
    each with _ci_low, _ci_high and _p_value: interval (95 %) of the rates' Wilson intervals (MOVER),
        and the p-value of "equal rates" that goes with it.
    tprr, fprr: smaller over larger rate, as published; 1: equal, 0: one group gets no positive. Biased below 1 where
        rates are equal. With _n and _n_unscored (texts of label 1 and of label 0), and _direction: 1: the other
        group's rate is higher, -1: the reference group's is.
    tpr_GROUP, fpr_GROUP: each group's rate; NaN, as all that is made of it, without a text of the label.
    n_undefined: how many of the two ratios are undefined.
Examples:
    >>> import evaluate, swapbias
    >>> ratios = evaluate.load(swapbias.metric_path("rate_ratio"))
    >>> result = ratios.compute(
    ...     predictions=[1, 1, 1, 0, 0, 0, 0, 1],
    ...     references=[1, 1, 1, 1, 0, 0, 0, 0],
    ...     groups=["female", "male"] * 4,
    ...     pair_ids=["a", "a", "b", "b", "c", "c", "d", "d"],
    ...     reference_group="male",
    ... )
    >>> result["tpr_difference"], result["tprr"], result["tprr_direction"], result["fpr_difference"]
    (0.5, 0.5, 1.0, -0.5)
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
class RateRatio(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.rate_ratio`."""

    def _info(self):
        names = {
            "predictions": "float64",
            "references": "float64",
            "groups": "string",
            "pair_ids": "string",
        }
        return evaluate.MetricInfo(
            features=datasets.Features(
                {name: datasets.Value(kind) for name, kind in names.items()}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(
        self, predictions, references, groups, pair_ids, reference_group=None, cluster_ids=None
    ):
        rows = list(predictions), list(references), list(groups)
        options = {
            "reference_group": reference_group,
            "pair_ids": list(pair_ids),
            "cluster_ids": cluster_ids,
        }
        result = {}
        undefined = 0
        for rate in ("tpr", "fpr"):
            ratio = rate_ratio(*rows, rate=rate, **options)
            gap = ratio.difference.value
            is_defined = (
                ratio.estimate.value == ratio.estimate.value
            )  # only NaN differs from itself
            if not is_defined:
                undefined += 1
            parts = {f"{rate}_difference": ratio.difference, f"log_{rate}r": ratio.log_ratio}
            for name, estimate in parts.items():
                result |= {name: estimate.value, f"{name}_p_value": estimate.p_value}
                result |= {f"{name}_ci_low": estimate.ci_low, f"{name}_ci_high": estimate.ci_high}
            result[f"{rate}r"] = ratio.estimate.value
            result[f"{rate}r_direction"] = (
                float((gap > 0) - (gap < 0)) if is_defined else float("nan")
            )
            result[f"{rate}r_n"] = float(ratio.estimate.n)
            result[f"{rate}r_n_unscored"] = float(ratio.estimate.n_unscored)
            of_groups = [(f"{rate}_{group}", value) for group, value in ratio.rates.items()]
            result = self.keyed([*result.items(), *of_groups])
        return {**result, "n_undefined": float(undefined)}
