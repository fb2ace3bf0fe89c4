"""Units of scores: the range that scores can have, and what a gap of them comes to in points."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SCORE = "score"  # the unit of scores that nobody has named
PERCENTAGE_POINTS = "percentage points"
_EVEN_ODDS = 4  # a change of log-odds over the change of probability, at even odds


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a score.

    >>> likert = Unit("agreement", 1, 5)
    >>> likert.in_points, likert.margin(0.05), likert.margin(1.0)
    (True, 0.2, 4.0)

    Attributes:
        name: what a score is, as findings name it.
        low, high: the least and the largest score there can be; infinite for logs, NaN where nobody says.
        ratio: what the exponential of a gap is a ratio of (``odds``, ``probability``, ``length``); blank for no log.
        is_rate: whether it says how often something is done, from 0 to 1.
    """

    name: str
    low: float = math.nan
    high: float = math.nan
    ratio: str = ""
    is_rate: bool = False

    @property
    def span(self) -> float:
        """The largest gap that scores can have; infinite for logs, NaN where the range is not known."""
        return self.high - self.low

    @property
    def in_points(self) -> bool:
        """Whether gaps are written in points, hundredths of the range."""
        return 0 < self.span < math.inf

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of a range as findings hold it; NaN where it is unknown or without end."""
        return (self.low, self.high) if self.in_points else (math.nan, math.nan)

    def margin(self, share: float) -> float:
        """The largest gap that counts as none: a share of the range; NaN where that is not known.

        Log-odds have no range: a change of probability, at even odds, is a quarter of theirs. A gap of log lengths is
        nearly the share by which one text is longer.
        """
        if math.isinf(self.span):
            return share * (1 if self.ratio == "length" else _EVEN_ODDS)
        return share * self.span


def _probabilities(*names: str) -> dict[str, Unit]:
    return {name: Unit(name, 0.0, 1.0) for name in names}


def _logs(ratio: str, *names: str) -> dict[str, Unit]:
    return {name: Unit(name, -math.inf, math.inf, ratio) for name in names}


# Those of the package. A raw score and a sum of log-probabilities have no range, whatever the scores are.
UNITS: Mapping[str, Unit] = {
    **_probabilities(
        "probability mass at the mask", "probability mass of phrases", "probability of positive sentiment",
        "compound valence moved to 0..1", "P(negative)", "rating moved to 0..1",
        "share of prompts whose right answer is likelier", "correct answer is likelier", "probability of female",
        "probability of the phenotype", "logistic of the SVM's decision value", "share of the rubric",
        "share of the facts of a checklist", "sentiment from 0 to 1",
    ),
    **{name: Unit(name, 0.0, 1.0, is_rate=True) for name in ("share of negative labels", "share of answers")},
    PERCENTAGE_POINTS: Unit(PERCENTAGE_POINTS, 0.0, 100.0),
    **_logs(
        "odds", "mean log-odds of the disapproving antonym", "natural log-odds of the right answer",
        "natural log-odds of the options that count more", "natural log-odds of the words at the mask",
    ),
    **_logs("probability", "natural log-probability"),
    **_logs("length", "natural log of words"),
    "log-probability": Unit("log-probability", ratio="probability"),
    **{name: Unit(name) for name in ("raw score of the model", "cosine with the gender direction", "words in 100")},
}  # fmt: skip


def named_unit(name: str, low: float = math.nan, high: float = math.nan) -> Unit:
    """The unit of that name; with another range than the package's own, or of another name, as it is given.

    >>> named_unit("share of answers").is_rate, named_unit("share of answers", 1, 5).is_rate
    (True, False)
    """
    known = UNITS.get(name)
    if known is not None and (math.isnan(low) or (low, high) == known.ends):
        return known
    return Unit(name, float(low), float(high))


def with_range_of(unit: Unit, scores: Iterable[float]) -> Unit:
    """The unit, and where nobody says its range that from 0 to 1 if all scores lie there.

    >>> with_range_of(Unit("stars"), [0.2, 0.9]).span, with_range_of(Unit("stars"), [2, 5]).span
    (1.0, nan)
    """
    if unit.name in UNITS or not math.isnan(unit.span):
        return unit
    known = [one for one in scores if not math.isnan(one)]
    if not known or min(known) < 0 or max(known) > 1:
        return unit
    return Unit(unit.name, 0.0, 1.0)
