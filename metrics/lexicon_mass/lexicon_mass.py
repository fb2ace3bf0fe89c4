"""Probability mass of labelled words among a model's most likely tokens (an `evaluate` module)."""

import datasets
import evaluate
import numpy as np

from swapbias.measures import (  # From: git+https://github.com/swapbias/swapbias
    CheckedInputs,
    mass_by_label,
    mean_score,
    module_info,
    plain_word,
)

_DESCRIPTION = """
Lexicon mass: of each prompt's most likely tokens, the probability that falls on words of each label (female and male,
or positive, negative and neutral), averaged over prompts.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of lists of str): for each prompt the list of its most likely tokens, as text or as a tokenizer
        writes them: "He", " he", "Ġhe", "▁he" and "he</w>" are the word "he", "##he" goes on a word and is none.
    probabilities (list of lists of float): for each prompt their probabilities, as many as tokens.
    lexicon (dict of str to str): a mapping of word to label, whatever their case; other tokens count as
        "unspecified". No label is "n" or "n_unscored", or begins with "ci_low_" or "ci_high_".
    threshold (float): tokens below this probability are not counted; 0 by default.
    cluster_ids (list, or dict of lists, optional): the cluster of each prompt (its template, say), or several that
        cross by name: the intervals then hold over clusters, as those of audits do.
Returns:
    one key per label and "unspecified": mean mass over prompts, 0 to 1, not renormalised.
    ci_low_LABEL, ci_high_LABEL: of each, its t interval, 95 %; NaN where nothing varies.
    n, n_unscored: prompts used, and prompts without any token.
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
@inproceedings{lin-etal-2022-gendered,
  title = {Gendered Mental Health Stigma in Masked Language Models}, author = {Lin, Inna Wanyin and Njoo, Lucille
  and Field, Anjalie and Sharma, Ashish and Reinecke, Katharina and Althoff, Tim and Tsvetkov, Yulia}, booktitle =
  {Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing}, year = {2022}, url =
  {https://arxiv.org/abs/2210.15144}
}
@inproceedings{mei-etal-2023-bias,
  title = {Bias Against 93 Stigmatized Groups in Masked Language Models and Downstream Sentiment Classification
  Tasks}, author = {Mei, Katelyn X. and Fereidooni, Sonia and Caliskan, Aylin}, booktitle = {ACM Conference on
  Fairness, Accountability, and Transparency}, year = {2023}, url = {https://arxiv.org/abs/2306.05550}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class LexiconMass(CheckedInputs, evaluate.Metric):
    """The `evaluate` face of `swapbias.measures.mass_by_label`."""

    def _info(self):
        names = {"predictions": "string", "probabilities": "float64"}
        return evaluate.MetricInfo(
            features=datasets.Features(
                {name: datasets.Sequence(datasets.Value(kind)) for name, kind in names.items()}
            ),
            **module_info(_DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION),
        )

    def _compute(self, predictions, probabilities, lexicon, threshold=0.0, cluster_ids=None):
        if not 0 <= threshold <= 1:
            raise ValueError(
                f"threshold is {threshold}, expected a probability. Give one, such as 0."
            )
        words = _words(lexicon)
        labels = [*dict.fromkeys([*words.values(), "unspecified"])]
        masses = np.full((len(predictions), len(labels)), np.nan)
        for row, (tokens, p) in enumerate(zip(predictions, probabilities, strict=True)):
            p = np.asarray(p, dtype=np.float64)
            if p.shape != (len(tokens),):
                raise ValueError(
                    f"{len(tokens)} tokens and probabilities of shape {p.shape}, expected one for each."
                )
            if not np.all((p >= 0) & (p <= 1)) or p.sum() > 1 + 1e-4:
                raise ValueError(
                    f"probabilities that sum to {p.sum():g}, expected each in 0..1 and at most 1 in all."
                )
            if len(tokens):
                codes = np.array(
                    [labels.index(words.get(plain_word(token), "unspecified")) for token in tokens]
                )
                masses[row] = mass_by_label(p[None], codes, len(labels), threshold=threshold)[0]
        means = {}
        ends = {}
        for label, mass in zip(labels, masses.T, strict=True):
            mean = mean_score(mass, cluster_ids=cluster_ids)
            means[label] = mean.value
            ends[f"ci_low_{label}"] = mean.ci_low
            ends[f"ci_high_{label}"] = mean.ci_high
        return {**means, **ends, "n": float(mean.n), "n_unscored": float(mean.n_unscored)}


def _words(lexicon):
    """The lexicon with every word as tokens are compared; what would vanish from the result is refused."""
    texts = [*lexicon, *lexicon.values()] if hasattr(lexicon, "values") else [lexicon]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("The lexicon is no mapping of words to labels. Write {'she': 'female'}.")
    words = {}
    for word, label in lexicon.items():
        earlier = words.setdefault(plain_word(word), label)
        if earlier != label:
            raise ValueError(
                f"The lexicon has {word!r} as {label!r} and, in other letters, as {earlier!r}, expected one "
                "label, for the case of tokens is not told apart. Drop one."
            )
    reserved = [label for label in dict.fromkeys(words.values()) if _is_reserved(label)]
    if reserved:
        raise ValueError(
            f"The lexicon has the labels {reserved}, which are keys of the result. Rename them."
        )
    return words


def _is_reserved(label):
    """Tell whether a label would be a key of the result beside the labels' own."""
    return label in {"n", "n_unscored"} or label.startswith(("ci_low_", "ci_high_"))
