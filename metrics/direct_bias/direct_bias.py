"""Mean absolute cosine of words to the gender direction (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    direct_bias,
    module_info,
)

_DESCRIPTION = """
Direct bias: the mean |cosine| of words to the gender direction, which is the first principal component of centred
definitional pairs (she/he, woman/man), and the mean cosine, which tells the side.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of lists of float): one word vector per word; a zero or non-finite one leaves its word out.
    female, male (list of lists of float): the vectors of the definitional pairs, two or more; row i of both is one
        pair.
Returns:
    direct_bias: mean |cosine|; 0: orthogonal to the gender direction, 1: along it.
    ci_low, ci_high: t interval (95 %) over words and, from three pairs on, over pairs; NaN where nothing
        varies.
    signed_mean: mean cosine; above 0: nearer to the female side, below 0: nearer to the male side.
    signed_ci_low, signed_ci_high: its interval.
    random_direction: mean |cosine| expected of a direction at random in so many dimensions.
    explained_variance: share of the pairs' variance along the direction, 0 to 1.
    n, n_unscored: words used, and words left out.
Examples:
    >>> import evaluate, swapbias
    >>> direct = evaluate.load(swapbias.metric_path("direct_bias"))
    >>> result = direct.compute(
    ...     predictions=[[1.0, 0.0], [0.0, 2.0], [-3.0, 4.0]],
    ...     female=[[1.0, 0.0], [3.0, 4.0]],
    ...     male=[[-1.0, 0.0], [-3.0, 4.0]],
    ... )
    >>> round(result["direct_bias"], 3), round(result["signed_mean"], 3), result["n"]
    (0.533, 0.133, 3.0)
"""

_CITATION = """
@inproceedings{bolukbasi-etal-2016-man,
  title = {Man is to Computer Programmer as Woman is to Homemaker? Debiasing Word Embeddings}, author = {Bolukbasi,
  Tolga and Chang, Kai-Wei and Zou, James and Saligrama, Venkatesh and Kalai, Adam}, booktitle = {Advances in Neural
  Information Processing Systems}, volume = {29}, year = {2016}
}
@inproceedings{sogancioglu-etal-2023-effects,
  title = {The Effects of Gender Bias in Word Embeddings on Patient Phenotyping in the Mental Health Domain}, author
  = {Sogancioglu, Gizem and Kaya, Heysem and Salah, Albert Ali}, booktitle = {11th International Conference on
  Affective Computing and Intelligent Interaction}, year = {2023}, url =
  {https://research-portal.uu.nl/en/publications/the-effects-of-gender-bias-in-word-embeddings-on-patient-phenotyp/}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class DirectBias(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.direct_bias`."""

    def _info(self):
        return evaluate.MetricInfo(
            features=datasets.Features(
                {"predictions": datasets.Sequence(datasets.Value("float64"))}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, female, male):
        given = {"predictions": predictions, "female": female, "male": male}
        bias = direct_bias(*(self.vectors(name, rows) for name, rows in given.items()))
        return {
            "direct_bias": bias.direct_bias.value,
            "ci_low": bias.direct_bias.ci_low,
            "ci_high": bias.direct_bias.ci_high,
            "signed_mean": bias.signed.value,
            "signed_ci_low": bias.signed.ci_low,
            "signed_ci_high": bias.signed.ci_high,
            "random_direction": bias.random_direction,
            "explained_variance": bias.explained_variance,
            "n": float(bias.direct_bias.n),
            "n_unscored": float(bias.direct_bias.n_unscored),
        }
