"""How much more often answers are right where a pronoun fits the stereotype (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import CLASSES, answer_bias, answer_class  # From: git+https://github.com/swapbias/swapbias

_DESCRIPTION = """
Answer bias: for sentence pairs that differ in the gender of a pronoun, the accuracy of answers to "who does it refer
to?" on the pro-stereotyped version minus that on the anti-stereotyped one, in percentage points, with the
paired t interval and test over pairs and the shares of right, wrong, unsure and unreadable answers.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: raw answers, one per question; None where nothing was asked.
    references: the right answer to each, as "the mechanic".
    incorrect: the other occupation of each sentence.
    sides: "pro" or "anti" for each.
    pair_ids: the sentence pair of each; each id stands once per side.
    parser: "tolerant" (case, article, plural, an answer inside a sentence) or "strict" (the first word alone).
Returns:
    accuracy_pro, accuracy_anti: percent of right answers; unsure and unreadable ones count as wrong.
    bias: accuracy_pro minus accuracy_anti, in percentage points; 0: equal, above 0: the stereotype helps.
    ci_low, ci_high: 95 % paired t interval; NaN where all pairs are alike.
    p_value: paired t test, two-sided; NaN where all pairs are alike.
    share_correct_pro, share_incorrect_pro, share_unsure_pro, share_other_pro: shares of the answers, 0 to 1;
        `other` is what names neither occupation, or both. Likewise for anti.
    n: pairs used.
    n_unscored: pairs left out because a version was not asked.
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
@software{swapbias,
  title   = {swapbias: social bias in language models by swapping one slot of a text},
  author  = {{The swapbias authors}},
  year    = {2026},
  url     = {https://github.com/swapbias/swapbias}
}

@misc{briegel-chen-2023-adjectives,
  title  = {Adjectives Can Reveal Gender Biases Within {NLP} Models},
  author = {Briegel, Jason and Chen, Hannah},
  year   = {2023},
  url    = {https://uvasrg.github.io/adjectives-can-reveal-gender-biases-within-nlp-models/}
}

@inproceedings{zhao-etal-2018-gender,
  title     = {Gender Bias in Coreference Resolution: Evaluation and Debiasing Methods},
  author    = {Zhao, Jieyu and Wang, Tianlu and Yatskar, Mark and Ordonez, Vicente and Chang, Kai-Wei},
  booktitle = {NAACL},
  year      = {2018},
  doi       = {10.18653/v1/N18-2003}
}
"""

_TEXTS = ("predictions", "references", "incorrect", "sides", "pair_ids")


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class AnswerBias(evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.answer_bias`."""

    def _info(self):
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            # As "string", evaluate would refuse a first answer of None.
            features=datasets.Features({name: datasets.Value("large_string") for name in _TEXTS}),
        )

    def _compute(self, predictions, references, incorrect, sides, pair_ids, parser="tolerant"):
        classes = [
            answer_class(answer, correct=right, incorrect=wrong, parser=parser)
            for answer, right, wrong in zip(predictions, references, incorrect, strict=True)
        ]
        strange = sorted(set(sides) - {"pro", "anti"})
        if strange:
            raise ValueError(f"sides {strange[:3]}, expected 'pro' or 'anti'. Rename them.")
        found = answer_bias(classes, list(sides), pair_ids=list(pair_ids), reference_group="anti")
        shares = {f"share_{name}_{side}": found.shares[side][name] for side in ("pro", "anti") for name in CLASSES}
        return {
            "accuracy_pro": found.accuracies["pro"],
            "accuracy_anti": found.accuracies["anti"],
            "bias": found.estimate.value,
            "ci_low": found.estimate.ci_low,
            "ci_high": found.estimate.ci_high,
            "p_value": found.estimate.p_value,
            **shares,
            "n": float(found.estimate.n),
            "n_unscored": float(found.estimate.n_unscored),
        }
