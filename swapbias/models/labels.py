"""Which labels of a classifier mean positive sentiment and which negative: plain names, or those that are named."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError, did_you_mean
from swapbias.measures import Unit
from swapbias.models.scorer import Scored, not_scored, ranked

Named = (
    str | Sequence[str] | None
)  # labels as a user gives them: one, several, or one text with commas between
POSITIVE = ("positive", "pos")
NEGATIVE = ("negative", "neg")
NEUTRAL = ("neutral", "neu")
_LISTED = 12  # labels that a sentence lists
_STEP = "Pass -M positive-label with each label that means positive, commas between them."


@dataclass(frozen=True, slots=True)
class Sides:
    """The labels of a classifier by what they mean.

    Attributes:
        labels: every label, in the order of the model's outputs.
        positive: the places of those that mean positive sentiment; none where nobody named them.
        negative: the places of those that mean negative sentiment; none where it is not known.
    """

    labels: tuple[str, ...]
    positive: tuple[int, ...]
    negative: tuple[int, ...] = ()

    @property
    def positive_label(self) -> str | tuple[str, ...] | None:
        """The name of the positive label, or the names of several."""
        return self._names(self.positive)

    @property
    def negative_label(self) -> str | tuple[str, ...] | None:
        """The name of the negative label, or the names of several; None where it is not known."""
        return self._names(self.negative)

    @property
    def unit(self) -> Unit | None:
        """What the score of these labels is; None where they say positive sentiment themselves."""
        names = [self.labels[place] for place in self.positive]
        if all(_is(name, POSITIVE) for name in names):
            return None
        return Unit(
            f"probability of the label{'s' if len(names) > 1 else ''} {', '.join(names)}", 0.0, 1.0
        )

    def _names(self, places: Sequence[int]) -> str | tuple[str, ...] | None:
        names = tuple(self.labels[place] for place in places)
        if len(names) > 1:
            return names
        return names[0] if names else None

    @property
    def are_summed(self) -> bool:
        """Whether a side has several labels, whose probabilities are summed."""
        return max(len(self.positive), len(self.negative)) > 1

    def check_positive(self) -> None:
        """Raise a UsageError where no label is known to mean positive."""
        if not self.positive:
            raise UsageError(_unclear(self.labels))

    def scored(self, probabilities: NDArray[Any]) -> Scored:
        """Give the score of a text from the probabilities of its labels.

        Args:
            probabilities: one for each label.

        Returns:
            The summed probability of the positive labels; the likeliest label as the answer, where labels of a side
            count together and the likeliest of them stands for it. NaN where a probability is not finite.
        """
        if not np.isfinite(probabilities).all():
            return not_scored(finite=False)
        likelihoods = np.array(probabilities, dtype=np.float64)
        for side in (self.positive, self.negative):
            if len(side) > 1:
                members = list(side)
                likeliest = max(members, key=probabilities.__getitem__)
                likelihoods[members] = -np.inf
                likelihoods[likeliest] = probabilities[members].sum()
        order = np.argsort(-probabilities, kind="stable")
        ranking = ranked([self.labels[place] for place in order], probabilities[order].tolist())
        return Scored(
            self._positive_score(probabilities), self.labels[int(likelihoods.argmax())], ranking
        )

    def _positive_score(self, probabilities: NDArray[Any]) -> float:
        if not self.positive:
            return float("nan")
        total = float(probabilities[list(self.positive)].sum())
        return min(total, 1.0) if len(self.positive) > 1 else total  # a sum may pass 1 by rounding


def find_sides(labels: Sequence[str], positive: Named = None, negative: Named = None) -> Sides:
    """Find which labels mean positive and which negative.

    Without names only plain sets are read: one of positive (pos), one of negative (neg) at most, and neutral (neu).
    Any other label could be of a side ("Very Positive", "mixed", "5 stars"), and is never dropped in silence.

    >>> find_sides(["neg", "neu", "pos"])
    Sides(labels=('neg', 'neu', 'pos'), positive=(2,), negative=(0,))
    >>> find_sides(["bad", "good", "best"], positive="good,best").positive
    (1, 2)

    Args:
        labels: every label, in the order of the model's outputs.
        positive: the labels that the user named as positive.
        negative: the labels that the user named as negative.

    Returns:
        The sides. Where only ``negative`` is named, ``positive`` may be empty.

    Raises:
        UsageError: a name that is no label, a label named for both sides, or labels whose meaning is not clear.
    """
    named_positive = _places(labels, positive, "positive-label")
    named_negative = _places(labels, negative, "negative-label")
    if both := set(named_positive) & set(named_negative):
        label = labels[min(both)]
        raise UsageError(
            f"{label!r} is named by positive_label and negative_label. Correct one of them."
        )
    if not named_positive and not named_negative:
        return _plain_sides(labels)
    found_positive = named_positive or _rest(labels, named_negative, POSITIVE)
    found_negative = named_negative or _rest(labels, named_positive, NEGATIVE)
    return Sides(tuple(labels), found_positive, found_negative)


def binary(label: str, positive: Named = None, negative: Named = None) -> Sides:
    """Find the sides of a model with one output: its label, or not.

    Args:
        label: what the output is the probability of; ``LABEL_0`` counts as positive.
        positive: as of ``find_sides``.
        negative: as of ``find_sides``.

    Returns:
        The sides of two labels, of which the second is the first with "not" before it.

    Raises:
        UsageError: as of ``find_sides``.
    """
    labels = (label, f"not {label}")
    is_plain = label == "LABEL_0" or _is(label, POSITIVE)
    if is_plain and not positive and not negative:
        return Sides(labels, (0,), (1,))
    return find_sides(labels, positive, negative)


def _places(labels: Sequence[str], named: Named, setting: str) -> tuple[int, ...]:
    """The places of labels that a user named: exactly so, else in any case."""
    if not named:
        return ()
    if not isinstance(named, str):
        names = list(named)
    elif _matching(labels, named):
        names = [named]  # a label may have a comma of its own
    else:
        names = [name.strip() for name in named.split(",") if name.strip()]
    places: dict[int, None] = {}
    for name in names:
        matches = _matching(labels, name)
        if len(matches) != 1:
            problem = (
                f"none is {name!r}" if not matches else f"{name!r} could be {len(matches)} of them"
            )
            hint = did_you_mean(name, list(labels)) if not matches else ""
            raise UsageError(
                f"The model's labels are {_listed(labels)}: {problem}.{hint} Correct -M {setting}."
            )
        places[matches[0]] = None
    return tuple(sorted(places))


def _matching(labels: Sequence[str], name: str) -> list[int]:
    exact = [place for place, label in enumerate(labels) if label == name]
    folded = name.strip().casefold()
    return exact or [
        place for place, label in enumerate(labels) if label.strip().casefold() == folded
    ]


def _plain_sides(labels: Sequence[str]) -> Sides:
    """The sides of plain labels; a UsageError where more than one label, or another one, could be of a side."""
    positive = [place for place, label in enumerate(labels) if _is(label, POSITIVE)]
    negative = [place for place, label in enumerate(labels) if _is(label, NEGATIVE)]
    neutral = [place for place, label in enumerate(labels) if _is(label, NEUTRAL)]
    are_plain = len(positive) == 1 and len(negative) <= 1
    if not are_plain or len(positive) + len(negative) + len(neutral) < len(labels):
        raise UsageError(_unclear(labels))
    return Sides(tuple(labels), tuple(positive), tuple(negative))


def _rest(labels: Sequence[str], side: Collection[int], names: Sequence[str]) -> tuple[int, ...]:
    """The other side of labels of which one was named: the only label left, where its meaning is clear."""
    rest = [
        place for place, label in enumerate(labels) if place not in side and not _is(label, NEUTRAL)
    ]
    is_clear = len(rest) == 1 and (len(labels) == 2 or _is(labels[rest[0]], names))
    return tuple(rest) if is_clear else ()


def _is(label: str, names: Sequence[str]) -> bool:
    return label.strip().casefold() in names


def _unclear(labels: Sequence[str]) -> str:
    problem = f"none is {' or '.join(POSITIVE)}"
    if any(_is(label, POSITIVE) for label in labels):
        problem = "others than positive, neutral and negative are among them"
    return f"The model's labels are {_listed(labels)}: {problem}. {_STEP}"


def _listed(labels: Sequence[str]) -> str:
    if len(labels) <= _LISTED:
        return str(list(labels))
    return f"{list(labels[:_LISTED])} and {len(labels) - _LISTED} more"
