"""Probability mass of labelled words among a model's likeliest tokens (an `evaluate` module)."""

import datasets
import evaluate

from swapbias.measures import label_masses, mean_score  # From: git+https://github.com/swapbias/swapbias

_DESCRIPTION = """
Lexicon mass: of each prompt's likeliest tokens, the probability that falls on words of each label (female and male,
or positive, negative and neutral), averaged over prompts.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each prompt the list of its likeliest tokens.
    probabilities: for each prompt their probabilities, as many as tokens.
    lexicon: a mapping of word to label; other tokens count as "unspecified". Words are in lower case without spaces
        around them; no label is "n" or "n_unscored".
    threshold: tokens below this probability are not counted; 0 by default.
Returns:
    one key per label and "unspecified": mean mass over prompts, 0 to 1, not renormalised.
    n: prompts used.
    n_unscored: prompts without any token.
Examples:
    >>> import evaluate, swapbias
    >>> mass = evaluate.load(swapbias.metric_path("lexicon_mass"))
    >>> result = mass.compute(
    ...     predictions=[["she", "he", "it"], ["He", "they", "she"]],
    ...     probabilities=[[0.5, 0.25, 0.125], [0.75, 0.125, 0.0625]],
    ...     lexicon={"she": "female", "he": "male"},
    ... )
    >>> result["female"], result["male"], result["unspecified"]
    (0.28125, 0.5, 0.125)
"""

_CITATION = """
@software{swapbias,
  title   = {swapbias: social bias in language models by swapping one slot of a text},
  author  = {{The swapbias authors}},
  year    = {2026},
  url     = {https://github.com/swapbias/swapbias}
}

@inproceedings{lin-etal-2022-gendered,
  title     = {Gendered Mental Health Stigma in Masked Language Models},
  author    = {Lin, Inna Wanyin and Njoo, Lucille and Field, Anjalie and Sharma, Ashish and Reinecke, Katharina and
    Althoff, Tim and Tsvetkov, Yulia},
  booktitle = {Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing},
  year      = {2022},
  url       = {https://arxiv.org/abs/2210.15144}
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
class LexiconMass(evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.label_masses`."""

    def _info(self):
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features(
                {
                    "predictions": datasets.Sequence(datasets.Value("string")),
                    "probabilities": datasets.Sequence(datasets.Value("float64")),
                }
            ),
        )

    def _compute(self, predictions, probabilities, lexicon, threshold=0.0):
        _check(lexicon)
        labels = [*dict.fromkeys(lexicon.values()), "unspecified"]
        masses = [
            label_masses(tokens, p, lexicon, threshold=threshold)
            for tokens, p in zip(predictions, probabilities, strict=True)
            if len(tokens)
        ]
        means = {label: mean_score([mass[label] for mass in masses]).value for label in labels}
        return {**means, "n": float(len(masses)), "n_unscored": float(len(predictions) - len(masses))}


def _check(lexicon):
    """What would vanish from the result or match no token is refused."""
    odd = [word for word in lexicon if word != word.strip().lower()]
    if odd:
        raise ValueError(
            f"The lexicon has {odd[:3]}, expected words in lower case without spaces around them, for no token would "
            "match. Rewrite them."
        )
    taken = [label for label in dict.fromkeys(lexicon.values()) if label in ("n", "n_unscored")]
    if taken:
        raise ValueError(f"The lexicon has the labels {taken}, which are keys of the result. Rename them.")
