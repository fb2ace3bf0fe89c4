"""How much more often answers are right where a pronoun fits the stereotype (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CLASSES,
    CheckedInputs,
    answer_bias,
    contrasts,
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
    sides (list of str): "pro" or "anti" for each; any two or more with reference_group or every_pair.
    pair_ids (list of str): the sentence pair of each; each id stands once per side.
    parser (str): "tolerant" (`swapbias.read_answer`: the occupation, and nothing that takes it back) or
        "strict" (the first word alone).
    reference_group (str, optional): None: the sides are "pro" and "anti". A side: each other one is compared with
        it.
    every_pair (bool): every two sides are compared, by name.
    cluster_ids (list, or dict of lists, optional): the cluster of each question (its template, say), or a mapping of
        several that cross, name -> cluster of each question: interval and p-value then hold over clusters, as those
        of audits do.
    confidence (float): coverage of the interval, above 0 and below 1; .95 by default.
Returns:
    accuracy_pro, accuracy_anti: percent of right answers; unsure and unreadable ones count as wrong.
    bias: accuracy_pro minus accuracy_anti, in percentage points; 0: equal, above 0: the stereotype helps.
    ci_low, ci_high: paired t interval, 95 % by default; NaN where all pairs are alike.
    p_value: paired t test, two-sided; NaN where all pairs are alike.
    share_correct_pro, share_incorrect_pro, share_unsure_pro, share_other_pro: shares of the answers, 0 to 1;
        `other` is what is refused or unreadable. Likewise for anti.
    n: pairs used.
    n_unscored: pairs left out because a version was not asked.
    with a reference_group or every_pair:
    contrasts: a list: of each contrast group and reference_group, the keys above, named after its sides,
        and p_adjusted, corrected over all contrasts (Holm).
    omnibus: whether right answers differ between any sides: p_value, contrasts (how many), spread (SD of the
        accuracies), n and n_unscored.
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
class AnswerBias(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.answer_bias`."""

    def _info(self):
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            # As "string", evaluate would refuse a first answer of None.
            features=datasets.Features({name: datasets.Value("large_string") for name in _TEXTS}),
            codebase_urls=["https://github.com/swapbias/swapbias"],
            reference_urls=[
                "https://uvasrg.github.io/adjectives-can-reveal-gender-biases-within-nlp-models/",
                "https://doi.org/10.18653/v1/N18-2003",
            ],
        )

    def _compute(
        self, predictions, references, incorrect, sides, pair_ids, parser="tolerant", reference_group=None,
        every_pair=False, cluster_ids=None, confidence=0.95,
    ):  # fmt: skip
        classes = [
            answer_class(answer, correct=right, incorrect=wrong, parser=parser)
            for answer, right, wrong in zip(predictions, references, incorrect, strict=True)
        ]
        options = {"pair_ids": list(pair_ids), "cluster_ids": cluster_ids, "confidence": confidence}
        if reference_group is not None or every_pair:
            wanted = None if every_pair else reference_group
            found = contrasts(answer_bias, classes, list(sides), reference_group=wanted, **options)
            each = [
                {"group": group, "reference_group": reference, **_keys(one, (group, reference)),
                 "p_adjusted": one.estimate.p_adjusted}
                for (group, reference), one in found.each.items()
            ]  # fmt: skip
            return {"contrasts": each, "omnibus": found.omnibus.numbers}
        strange = sorted(set(sides) - {"pro", "anti"})
        if strange:
            raise ValueError(
                f"sides {strange[:3]}, expected 'pro' or 'anti'. Rename them, or give the reference_group."
            )
        found = answer_bias(classes, list(sides), reference_group="anti", **options)
        return _keys(found, ("pro", "anti"))


def _keys(found, sides):
    shares = {f"share_{name}_{side}": found.shares[side][name] for side in sides for name in CLASSES}
    return {
        **{f"accuracy_{side}": found.accuracies[side] for side in sides},
        "bias": found.estimate.value,
        "ci_low": found.estimate.ci_low,
        "ci_high": found.estimate.ci_high,
        "p_value": found.estimate.p_value,
        **shares,
        "n": float(found.estimate.n),
        "n_unscored": float(found.estimate.n_unscored),
    }
