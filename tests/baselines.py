"""Scorers with known answers: what a measure must say of a model that sees nothing, says nothing, or is biased so."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swapbias.models.base import Progress, Scored, Scorer
from swapbias.studies import Prompt


class RuleScorer(Scorer):
    """Score: whatever a rule says of the prompt; a bias of known size can be planted with it.

    >>> rule = RuleScorer(lambda prompt: 0.6 if prompt.group == "female" else 0.4, model_id="planted")
    """

    unit = "score of a rule"

    def __init__(
        self, rule: Callable[[Prompt], float], *, model_id: str = "planted", kind: str = "classifier"
    ) -> None:
        """Score prompts with ``rule``."""
        self.rule, self.model_id, self.kind = rule, model_id, kind
        self.identity: Mapping[str, Any] = {"kind": kind, "revision": "rule"}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt."""
        if on_progress:
            on_progress(len(prompts))
        return [Scored(self.rule(prompt)) for prompt in prompts]


def blind(kind: str = "classifier") -> RuleScorer:
    """Gives every prompt .5: nothing is measured."""
    return RuleScorer(lambda _prompt: 0.5, model_id="blind", kind=kind)


def silent(kind: str = "classifier") -> RuleScorer:
    """Scores nothing: each value must be NaN and every pair counted as unscored."""
    return RuleScorer(lambda _prompt: float("nan"), model_id="silent", kind=kind)
