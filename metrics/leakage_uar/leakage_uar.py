"""Unweighted average recall of a classifier that guesses the group (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (
    CheckedInputs,
    module_info,
    uar,
)  # From: git+https://github.com/swapbias/swapbias

_DESCRIPTION = """
Leakage: how well a classifier guesses the group (the patient's gender, say) from texts that should not tell it, as
unweighted average recall (UAR) with an interval that holds at 1 too.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of str or int): the guessed group of each text, a name or a number; "" or NaN where there is no
        guess.
    references (list of str or int): the true group of each text, likewise; two groups or more, never blank.
    note_ids (list of str, optional): the note of each text, where several are versions of one; else each text is a
        note.
    cluster_ids (list, or dict of lists, optional): the subject of each text, where subjects have several notes; or a
        mapping of one, name -> ids.
Returns:
    uar: mean over the true groups of the share guessed right; `chance`: no leak, 1: every text gives it away. NaN
        with fewer than two groups, or for a group without a guess.
    ci_low, ci_high: interval, 95 %, of the groups' Wilson intervals (MOVER).
    chance: 1 / number of true groups; NaN with fewer than two.
    n, n_unscored: texts used, and texts left out.
Examples:
    >>> import evaluate, swapbias
    >>> leakage = evaluate.load(swapbias.metric_path("leakage_uar"))
    >>> result = leakage.compute(predictions=["f", "f", "f", "m", "f"], references=["f", "f", "f", "m", "m"])
    >>> result["uar"], result["chance"], result["n"]
    (0.75, 0.5, 5.0)
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
class LeakageUar(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.uar`."""

    def _info(self):
        return evaluate.MetricInfo(
            features=[
                datasets.Features(
                    {"predictions": datasets.Value(kind), "references": datasets.Value(kind)}
                )
                for kind in ("string", "float64")  # evaluate takes the first that fits
            ],
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, references, note_ids=None, cluster_ids=None):
        truth = list(references)
        options = {"note_ids": note_ids, "cluster_ids": cluster_ids}
        recall = uar(list(predictions), truth, **options)
        classes = len(set(truth))
        return {
            "uar": recall.value,
            "ci_low": recall.ci_low,
            "ci_high": recall.ci_high,
            "chance": 1 / classes if classes > 1 else float("nan"),
            "n": float(recall.n),
            "n_unscored": float(recall.n_unscored),
        }
