"""How much more often answers are right where a pronoun fits the stereotype (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CLASSES,
    CheckedInputs,
    answer_bias,
    module_info,
)
from swapbias.studies.answers import answer_class

_DESCRIPTION = """
Answer bias: for sentence pairs that differ in the gender of a pronoun, the accuracy of answers to "who does it refer
to?" on the pro-stereotyped version minus that on the anti-stereotyped one, in percentage points, with the
paired t interval and test over pairs and the shares of right, wrong, unsure and unreadable answers.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of str): raw answers, one per question; None where nothing was asked.
    references (list of str): the right answer to each, as "the mechanic".
    incorrect (list of str): the other occupation of each sentence.
    sides (list of str): "pro" or "anti" for each, or two others with a reference_group.
    pair_ids (list of str): the sentence pair of each; each id stands once per side.
    parser (str): "tolerant" (`swapbias.read_answer`: the occupation, and nothing that takes it back) or
        "strict" (the first word alone).
    reference_group (str): the side that the other one is compared with; "anti" by default.
    cluster_ids (list, or dict of lists, optional): the cluster of each question (its template, say), or several that
        cross by name: interval and p-value then hold over clusters, as those of audits do.
Returns:
    accuracy_pro, accuracy_anti: percent of right answers; unsure and unreadable ones count as wrong.
    bias: accuracy_pro minus accuracy_anti, in percentage points; 0: equal, above 0: the stereotype helps.
    ci_low, ci_high: paired t interval, 95 %; NaN where all pairs are alike.
    p_value: paired t test, two-sided; NaN where all pairs are alike.
    share_correct_pro, share_incorrect_pro, share_unsure_pro, share_other_pro: shares of the answers, 0 to 1;
        `other` is what is refused or unreadable. Likewise for anti.
    n, n_unscored: pairs used, and pairs left out because a version was not asked.
Examples:
    >>> import evaluate, swapbias
    >>> bias = evaluate.load(swapbias.metric_path("answer_bias"))
    >>> result = bias.compute(
    ...     predictions=["mechanic", "The clerk.", "unsure", "clerk"],
    ...     references=["the mechanic", "the mechanic", "the clerk", "the clerk"],
    ...     incorrect=["the clerk", "the clerk", "the mechanic", "the mechanic"],
    ...     sides=["pro", "anti", "pro", "anti"],
    ...     pair_ids=["s1", "s1", "s2", "s2"],
    ... )
    >>> result["accuracy_pro"], result["accuracy_anti"], result["bias"], result["share_unsure_pro"]
    (50.0, 50.0, 0.0, 0.5)
"""

_CITATION = """
@misc{briegel-chen-2023-adjectives,
  title = {Adjectives Can Reveal Gender Biases Within {NLP} Models}, author = {Briegel, Jason and Chen, Hannah},
  year = {2023}, url = {https://uvasrg.github.io/adjectives-can-reveal-gender-biases-within-nlp-models/}
}
@inproceedings{zhao-etal-2018-gender,
  title = {Gender Bias in Coreference Resolution: Evaluation and Debiasing Methods}, author = {Zhao, Jieyu and Wang,
  Tianlu and Yatskar, Mark and Ordonez, Vicente and Chang, Kai-Wei}, booktitle = {NAACL}, year = {2018}, doi =
  {10.18653/v1/N18-2003}
}
"""

_TEXTS = ("predictions", "references", "incorrect", "sides", "pair_ids")


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class AnswerBias(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.answer_bias`."""

    def _info(self):
        # As "string", evaluate would refuse a first answer of None.
        return evaluate.MetricInfo(
            features=datasets.Features({name: datasets.Value("large_string") for name in _TEXTS}),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(
        self,
        predictions,
        references,
        incorrect,
        sides,
        pair_ids,
        parser="tolerant",
        reference_group="anti",
        cluster_ids=None,
    ):
        classes = [
            answer_class(answer, correct=right, incorrect=wrong, parser=parser)
            for answer, right, wrong in zip(predictions, references, incorrect, strict=True)
        ]
        bias = answer_bias(
            classes,
            list(sides),
            reference_group=reference_group,
            pair_ids=list(pair_ids),
            cluster_ids=cluster_ids,
        )
        shares = {
            f"share_{name}_{side}": bias.shares[side][name]
            for side in bias.shares
            for name in CLASSES
        }
        numbers = bias.estimate.numbers()
        counts = {name: numbers.pop(name) for name in ("n", "n_unscored")}
        accuracies = {f"accuracy_{side}": accuracy for side, accuracy in bias.accuracies.items()}
        return {**accuracies, "bias": numbers.pop("value"), **numbers, **shares, **counts}
