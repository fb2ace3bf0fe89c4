"""Units of scores: the range that scores can have, and what a gap of them comes to in points."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from swapbias.measures.record import Record


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio that the exponential of a gap of logs is.

    >>> PROBABILITIES.plural, PROBABILITIES.whole
    ('probabilities', 4.0)
    """

    noun: str
    """The quantity of which one is divided by another, in the singular."""
    plural: str
    """That quantity in the plural."""
    article: str = "a"
    """The article before ``noun ratio``."""
    whole: float = 4.0
    """The gap of logs that a share of 1 comes to. A change of probability, at even odds, is a quarter of that of
    log-odds; a gap of log lengths is nearly the share by which one text is longer."""


ODDS = Ratio("odds", "odds", "an")
PROBABILITIES = Ratio("probability", "probabilities")
LENGTHS = Ratio("length", "lengths", whole=1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Unit(Record):
    """The unit of a score.

    >>> likert = Unit("agreement", 1, 5)
    >>> likert.in_points, likert.margin(0.05), likert.margin(1.0)
    (True, 0.2, 4.0)
    """

    name: str
    """The quantity that a score is, as findings name it."""
    low: float = math.nan
    """The least score there can be; -infinite for logs, NaN where nobody says."""
    high: float = math.nan
    """The largest score there can be; infinite for logs, NaN where nobody says."""
    ratio_of: Ratio | None = None
    """The ratio that the exponential of a gap is; None for no log."""
    is_rate: bool = False
    """Whether it says how often something is done, from 0 to 1."""
    is_right_answer: bool = False
    """Whether it says if an answer is right, so that equal scores may be those of no error."""
    is_points: bool = False
    """Whether a score is in points itself."""
    is_named: bool = True
    """Whether somebody says what a score is."""
    has_no_range: bool = False
    """Whether there is no range, also where all scores lie between 0 and 1."""
    symbol: str | None = None
    """The text behind a number; None: the name."""
    in_words: str = ""
    """The name in sentences; blank: ``name``."""
    taken_from: str = ""
    """What the model itself gives, where its study takes that as this unit; blank: the same."""

    @property
    def span(self) -> float:
        """Return the largest gap that scores can have; infinite for logs, NaN where the range is not known."""
        return self.high - self.low

    @property
    def in_points(self) -> bool:
        """Tell whether gaps are written in points, hundredths of the range."""
        return 0 < self.span < math.inf

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends of a range as findings have it; NaN where it is unknown or without end."""
        return (self.low, self.high) if self.in_points else (math.nan, math.nan)

    def margin(self, share: float) -> float:
        """Return the largest gap that counts as none: a share of the range, of logs of ``Ratio.whole``.

        Args:
            share: the share from 0 to 1.

        Returns:
            NaN where neither is known.
        """
        if math.isinf(self.span) and self.ratio_of is not None:
            return share * self.ratio_of.whole
        return share * self.span

    def with_range_of(self, scores: Iterable[float]) -> "Unit":
        """Return the unit, and where nobody says its range that from 0 to 1 if all scores lie there.

        Args:
            scores: shape (rows,), NaN where a row has none.

        >>> Unit("stars").with_range_of([0.2, 0.9]).span, Unit("stars").with_range_of([2, 5]).span
        (1.0, nan)
        """
        if self.has_no_range or not math.isnan(self.span):
            return self
        scored = [score for score in scores if not math.isnan(score)]
        if not scored or min(scored) < 0 or max(scored) > 1:
            return self
        return replace(self, low=0.0, high=1.0)


def _probabilities(*names: str) -> dict[str, Unit]:
    """Return units from 0 to 1 by name."""
    return {name: Unit(name, 0.0, 1.0) for name in names}


def _logs(ratio: Ratio, *names: str) -> dict[str, Unit]:
    """Return units of logs by name."""
    symbol = "log-odds" if ratio is ODDS else None
    return {name: Unit(name, -math.inf, math.inf, ratio, symbol=symbol) for name in names}


def _by_name(*units: Unit) -> dict[str, Unit]:
    """Return units by name."""
    return {unit.name: unit for unit in units}


UNNAMED_SCORE = Unit("score", is_named=False, symbol="")
"""The unit of scores that nobody has named."""
RAW_SCORE = Unit("raw score of the model", has_no_range=True)
_RIGHT = ("share of prompts whose right answer is more likely", "correct answer is more likely")
# Every unit of the package by name; findings that are read back say no more of theirs than name and range. A raw
# score and a sum of log-probabilities have no range, whatever the scores are.
UNITS: Mapping[str, Unit] = {
    **_probabilities(
        "probability mass of phrases",
        "probability of positive sentiment",
        "compound valence moved to 0..1",
        "P(negative)",
        "rating moved to 0..1",
        "probability of an option",
        "probability of female",
        "probability of the phenotype",
        "logistic of the SVM's decision value",
        "share of the rubric",
        "share of the facts of a checklist",
        "sentiment from 0 to 1",
        "share of a name's letters found",
        "share of other documents ranked lower",
    ),
    **_by_name(
        Unit("probability mass at the mask", 0.0, 1.0, in_words="probability at the blank"),
        *(
            Unit(name, 0.0, 1.0, is_rate=True)
            for name in (
                "share of negative labels",
                "share of answers",
                "share of words labelled as people",
            )
        ),
        *(
            Unit(name, 0.0, 1.0, is_rate=True, is_right_answer=True)
            for name in (
                "share of right answers",
                "share of answers that name a person",
                "share of names found",
            )
        ),
        *(Unit(name, 0.0, 1.0, is_right_answer=True) for name in _RIGHT),
        Unit("percentage points", 0.0, 100.0, is_points=True),
    ),
    **_logs(
        ODDS,
        "mean log-odds of the disapproving antonym",
        "natural log-odds of the right answer",
        "natural log-odds of the options that count more",
        "natural log-odds of the words at the mask",
    ),
    **_logs(PROBABILITIES, "natural log-probability"),
    **_logs(LENGTHS, "natural log of words"),
    **_by_name(
        UNNAMED_SCORE,
        RAW_SCORE,
        Unit("log-probability", ratio_of=PROBABILITIES, has_no_range=True),
        *(
            Unit(name, has_no_range=True)
            for name in ("cosine with the gender direction", "words in 100", "similarity")
        ),
    ),
}


def named_unit(name: str, low: float = math.nan, high: float = math.nan) -> Unit:
    """Return the unit of that name; with another range than the package's own, or of another name, as it is given.

    Args:
        name: the name of the unit.
        low: the least score there can be; NaN: that of the package's unit.
        high: the largest score there can be.

    >>> named_unit("share of answers").is_rate, named_unit("share of answers", 1, 5).is_rate
    (True, False)
    """
    unit = UNITS.get(name)
    if unit is None:
        return Unit(name, float(low), float(high))
    if math.isnan(low) or (low, high) == unit.ends:
        return unit
    return Unit(name, float(low), float(high), is_named=unit.is_named, symbol=unit.symbol)
