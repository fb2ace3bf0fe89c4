"""Closed questions for causal models: which of the options is likely to follow the question."""

import math
from collections.abc import Hashable, Sequence

from swapbias.measures import answer_accuracy
from swapbias.models.causal import start_of_answer
from swapbias.models.chat.local import open_ids
from swapbias.models.engine.loglikelihood import TokenisedText
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import DerivedScorer, Scored, not_scored, ranked
from swapbias.studies import Prompt

PER_CHARACTER = "per_character"


class OptionScorer(DerivedScorer):
    """Score: what the options count on average, weighted by their probabilities after the prompt.

    Each option of ``candidates`` follows the prompt after a space. The probabilities are the softmax of the options'
    log-probabilities, each summed over its tokens; those of options that count nothing are left out of the mean.
    ``per_character``: the same with each log-probability divided by the number of the option's characters. NaN: a
    prompt with an option is longer than the model reads, or no option has a finite log-probability.
    """

    kind = "causal"
    unit = "probability of an option"
    chunk_rows = 96

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by their options; prompts with the same text and options are read once.

        Args:
            prompts: prompts with two candidates or more.
            on_progress: called with the number of further prompts that are done.

        Raises:
            ValueError: A prompt has fewer than two options, or a blank one.
        """
        keys = [_question_of(prompt) for prompt in prompts]
        firsts = dict(zip(keys, prompts, strict=True))
        texts: list[TokenisedText] = []
        for prompt in firsts.values():
            texts += self._tokens(prompt)
        share = len(prompts) / len(texts) if texts else 1.0
        logs = iter(
            self.inner.continuation_log_probs(texts, lambda done: on_progress(done * share))
        )
        logs_of = {key: [next(logs) for _ in prompt.candidates] for key, prompt in firsts.items()}
        return [
            self._score_of_logs(prompt, logs_of[key])
            for prompt, key in zip(prompts, keys, strict=True)
        ]

    def _score_of_logs(self, prompt: Prompt, logs: Sequence[float | None]) -> Scored:
        """Return the score of a prompt by the log-probabilities of its options; None: a text was too long."""
        if any(log is None for log in logs):
            return not_scored([PER_CHARACTER])
        sums = [math.nan if log is None else log for log in logs]
        if any(math.isnan(log) for log in sums) or max(sums) == -math.inf:
            return not_scored([PER_CHARACTER], finite=False)
        names = [candidate.text for candidate in prompt.candidates]
        shares = _softmax(sums)
        by_character = [log / len(name) for log, name in zip(sums, names, strict=True)]
        best = sorted(zip(names, shares, strict=True), key=lambda pair: -pair[1])
        return Scored(
            self._number(prompt, sums),
            best[0][0],
            ranked([name for name, _ in best], [share for _, share in best]),
            parts={PER_CHARACTER: self._number(prompt, by_character)},
        )

    def _number(self, prompt: Prompt, logs: Sequence[float]) -> float:
        """Return the number of a prompt whose options have these logs, of which not all are -inf."""
        return _mean_value(prompt, _softmax(logs))

    def _tokens(self, prompt: Prompt) -> list[TokenisedText]:
        """Return the tokens of the prompt with each option, and the index at which the option starts."""
        options = [candidate.text for candidate in prompt.candidates]
        if len(options) < 2 or not all(options):
            raise ValueError(
                f"{prompt.prompt_id}: options {options}, expected two or more that are not blank. Correct the row."
            )
        tokenizer = self.inner.tokenizer
        before = open_ids(tokenizer, prompt.text)
        encoded = [open_ids(tokenizer, f"{prompt.text} {option}") for option in options]
        start = min(start_of_answer(before, ids) for ids in encoded)
        return [(ids, start) for ids in encoded]


class OptionOddsScorer(OptionScorer):
    """Score: log-odds of the options that count more, after the prompt: natural log p(these) - log p(the others).

    Options count more that count more than the middle of what options count. What makes one option likelier after
    every prompt, as a common or a short word, adds the same to the log-odds of all of them. ``per_character``: the
    same with each log-probability divided by the number of the option's characters. NaN: as of ``OptionScorer``, or
    either side is impossible.
    """

    unit = "natural log-odds of the options that count more"

    def _number(self, prompt: Prompt, logs: Sequence[float]) -> float:
        """Return the log-odds of the options that count more."""
        values = [
            math.nan if candidate.value is None else candidate.value
            for candidate in prompt.candidates
        ]
        return answer_accuracy.option_odds([logs], values).log_odds


def _question_of(prompt: Prompt) -> Hashable:
    """Return what is read of a prompt: its text and the texts of its options."""
    return prompt.text, tuple(candidate.text for candidate in prompt.candidates)


def _softmax(logs: Sequence[float]) -> list[float]:
    """Return probabilities that add up to 1."""
    most = max(logs)
    weights = [math.exp(log - most) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _mean_value(prompt: Prompt, shares: Sequence[float]) -> float:
    """Return the mean of what options count, weighted by their shares; NaN where none that counts has a share."""
    counting = [
        (share, candidate.value)
        for share, candidate in zip(shares, prompt.candidates, strict=True)
        if candidate.value is not None
    ]
    total = math.fsum(share for share, _ in counting)
    return math.fsum(share * value for share, value in counting) / total if total > 0 else math.nan
