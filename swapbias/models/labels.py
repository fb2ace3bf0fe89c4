"""Which labels of a classifier mean positive sentiment and which negative: plain names, or those that are named."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError, did_you_mean
from swapbias.measures import Unit
from swapbias.models.scorer import Scored, not_scored, ranked

Named = str | Sequence[str] | None
"""Labels as a user gives them: one, several, or one text with commas between."""
POSITIVE = ("positive", "pos")
NEGATIVE = ("negative", "neg")
NEUTRAL = ("neutral", "neu")
HATEFUL = ("hate", "hateful", "hate speech", "hatespeech", "toxic", "toxicity")
"""Names of the label of a detector of hate, with blanks for ``_`` and ``-``."""
_LISTED = 12  # labels that a sentence lists
_GIVEN = 0.5  # least probability of an independent label that a text has
_STEP = "Pass -M positive-label with each label that means positive, commas between them."


@dataclass(frozen=True, slots=True)
class Sides:
    """The labels of a classifier by what they mean."""

    labels: tuple[str, ...]
    """Every label, in the order of the model's outputs."""
    positive: tuple[int, ...]
    """Indices of the labels that mean positive sentiment; none where nobody named them."""
    negative: tuple[int, ...] = ()
    """Indices of the labels that mean negative sentiment; none where it is not known."""
    are_independent: bool = False
    """Whether each label has a probability of its own, so that a text has several labels or none."""

    @property
    def positive_label(self) -> str | tuple[str, ...] | None:
        """Return the name of the positive label, or the names of several."""
        return self._names(self.positive)

    @property
    def negative_label(self) -> str | tuple[str, ...] | None:
        """Return the name of the negative label, or the names of several; None where it is not known."""
        return self._names(self.negative)

    @property
    def unit(self) -> Unit | None:
        """Return the unit of the score of these labels; None where they say positive sentiment themselves."""
        names = [self.labels[index] for index in self.positive]
        if all(_is(name, POSITIVE) for name in names):
            return None
        if len(names) > 1:
            return Unit(f"probability of the labels {', '.join(names)}", 0.0, 1.0)
        return Unit(f"probability of the label {names[0]}", 0.0, 1.0)

    def _names(self, indices: Sequence[int]) -> str | tuple[str, ...] | None:
        """Return the label at an index, or the labels at several; None for none."""
        names = tuple(self.labels[index] for index in indices)
        if len(names) > 1:
            return names
        return names[0] if names else None

    @property
    def are_summed(self) -> bool:
        """Return whether a side has several labels, whose probabilities are summed."""
        return max(len(self.positive), len(self.negative)) > 1

    def check_positive(self) -> None:
        """Raise a UsageError where no label is known to mean positive."""
        if not self.positive:
            raise UsageError(_unclear(self.labels))

    def scored(self, probabilities: NDArray[Any]) -> Scored:
        """Score a text by the probabilities of its labels.

        Args:
            probabilities: one for each label.

        Returns:
            The summed probability of the positive labels; the likeliest label as the answer, where labels of a side
            count together and the likeliest of them stands for it. Of independent labels the negative one is the
            answer where its own probability is .5 or more. NaN where a probability is not finite.
        """
        if not np.isfinite(probabilities).all():
            return not_scored(finite=False)
        order = np.argsort(-probabilities, kind="stable")
        ranking = ranked([self.labels[index] for index in order], probabilities[order].tolist())
        return Scored(self._positive_score(probabilities), self._answer(probabilities), ranking)

    def _answer(self, probabilities: NDArray[Any]) -> str:
        """Return the label that a text gets by the probabilities of all labels."""
        if self.are_independent and len(self.negative) == 1:
            return self._independent_answer(probabilities)
        likelihoods = np.array(probabilities, dtype=np.float64)
        for side in (self.positive, self.negative):
            if len(side) > 1:
                members = list(side)
                likeliest = max(members, key=probabilities.__getitem__)
                likelihoods[members] = -np.inf
                likelihoods[likeliest] = probabilities[members].sum()
        return self.labels[int(likelihoods.argmax())]

    def _independent_answer(self, probabilities: NDArray[Any]) -> str:
        """Return the negative label if a text has it, else its likeliest label, else that it is not negative."""
        (negative,) = self.negative
        likeliest = int(probabilities.argmax())
        answer = negative if probabilities[negative] >= _GIVEN else likeliest
        if probabilities[answer] >= _GIVEN:
            return self.labels[answer]
        return f"not {self.labels[negative]}"

    def _positive_score(self, probabilities: NDArray[Any]) -> float:
        """Sum the probabilities of the positive labels; NaN where there are none."""
        if not self.positive:
            return float("nan")
        total = float(probabilities[list(self.positive)].sum())
        return min(total, 1.0) if len(self.positive) > 1 else total  # a sum may pass 1 by rounding


def find_sides(labels: Sequence[str], positive: Named = None, negative: Named = None) -> Sides:
    """Find which labels mean positive and which negative.

    Without names only plain sets are read: one of positive (pos), one of negative (neg) at most, and neutral (neu).
    Any other label could be of a side ("Very Positive", "mixed", "5 stars"), and is never dropped in silence.
    A detector of hate has one label of ``HATEFUL``: it is negative, and no other is positive sentiment.

    >>> find_sides(["neg", "neu", "pos"])
    Sides(labels=('neg', 'neu', 'pos'), positive=(2,), negative=(0,), are_independent=False)
    >>> find_sides(["bad", "good", "best"], positive="good,best").positive
    (1, 2)

    Args:
        labels: every label, in the order of the model's outputs.
        positive: the labels that the user named as positive.
        negative: the labels that the user named as negative.

    Returns:
        The sides. Where only ``negative`` is named, and of a detector of hate, ``positive`` may be empty.

    Raises:
        UsageError: A name that is no label, a label named for both sides, or labels whose meaning is not clear.
    """
    positive_indices = _indices(labels, positive, "positive-label")
    negative_indices = _indices(labels, negative, "negative-label")
    if both := set(positive_indices) & set(negative_indices):
        label = labels[min(both)]
        raise UsageError(
            f"{label!r} is named by positive_label and negative_label. Correct one of them."
        )
    if not positive_indices and not negative_indices:
        return _plain_sides(labels)
    return Sides(
        tuple(labels),
        positive_indices or _only_rest(labels, negative_indices, POSITIVE),
        negative_indices or _only_rest(labels, positive_indices, NEGATIVE),
    )


def binary(label: str, positive: Named = None, negative: Named = None) -> Sides:
    """Find the sides of a model with one output: its label, or not.

    Args:
        label: the label of the output, which is its probability; ``LABEL_0`` counts as positive.
        positive: as in ``find_sides``.
        negative: as in ``find_sides``.

    Returns:
        The sides of two labels, of which the second is the first with "not" before it.

    Raises:
        UsageError: as in ``find_sides``.
    """
    labels = (label, f"not {label}")
    is_plain = label == "LABEL_0" or _is(label, POSITIVE)
    if is_plain and not positive and not negative:
        return Sides(labels, (0,), (1,))
    return find_sides(labels, positive, negative)


def _indices(labels: Sequence[str], names: Named, setting: str) -> tuple[int, ...]:
    """Return the indices of labels that a user named: exactly so, else in any case."""
    indices: set[int] = set()
    for name in _split_names(labels, names):
        matches = _matching(labels, name)
        if len(matches) == 1:
            indices.add(matches[0])
            continue
        begin = f"The model's labels are {_list_labels(labels)}"
        if matches:
            problem = f"{name!r} could be {len(matches)} of them."
        else:
            problem = f"none is {name!r}.{did_you_mean(name, list(labels))}"
        raise UsageError(f"{begin}: {problem} Correct -M {setting}.")
    return tuple(sorted(indices))


def _split_names(labels: Sequence[str], names: Named) -> list[str]:
    """Split labels as a user names them; a label may have a comma of its own."""
    if not names:
        return []
    if not isinstance(names, str):
        return list(names)
    if _matching(labels, names):
        return [names]
    return [name.strip() for name in names.split(",") if name.strip()]


def _matching(labels: Sequence[str], name: str) -> list[int]:
    """Return the indices of the labels of a name: exactly so, else in any case."""
    exact = [index for index, label in enumerate(labels) if label == name]
    if exact:
        return exact
    folded = name.strip().casefold()
    return [index for index, label in enumerate(labels) if label.strip().casefold() == folded]


def _plain_sides(labels: Sequence[str]) -> Sides:
    """Return the sides of plain labels; a UsageError where more than one, or another one, could be of a side."""
    hateful = [index for index, label in enumerate(labels) if _is_hateful(label)]
    if len(hateful) == 1 and not any(_is(label, POSITIVE + NEGATIVE) for label in labels):
        return Sides(tuple(labels), (), tuple(hateful))
    positive = [index for index, label in enumerate(labels) if _is(label, POSITIVE)]
    negative = [index for index, label in enumerate(labels) if _is(label, NEGATIVE)]
    neutral = [index for index, label in enumerate(labels) if _is(label, NEUTRAL)]
    are_plain = len(positive) == 1 and len(negative) <= 1
    if not are_plain or len(positive) + len(negative) + len(neutral) < len(labels):
        raise UsageError(_unclear(labels))
    return Sides(tuple(labels), tuple(positive), tuple(negative))


def _only_rest(
    labels: Sequence[str], side: Collection[int], names: Sequence[str]
) -> tuple[int, ...]:
    """Return the other side of labels of which one was named: the only label left, where its meaning is clear."""
    rest = [
        index for index, label in enumerate(labels) if index not in side and not _is(label, NEUTRAL)
    ]
    is_clear = len(rest) == 1 and (len(labels) == 2 or _is(labels[rest[0]], names))
    return tuple(rest) if is_clear else ()


def _is(label: str, names: Sequence[str]) -> bool:
    """Return whether a label has one of these names, in any case."""
    return label.strip().casefold() in names


def _is_hateful(label: str) -> bool:
    """Return whether a label has a name of hate."""
    return _is(label.replace("_", " ").replace("-", " "), HATEFUL)


def _unclear(labels: Sequence[str]) -> str:
    """Return the sentence that refuses labels of which none, or more than one, could be positive."""
    problem = f"none is {' or '.join(POSITIVE)}"
    if any(_is(label, POSITIVE) for label in labels):
        problem = "others than positive, neutral and negative are among them"
    return f"The model's labels are {_list_labels(labels)}: {problem}. {_STEP}"


def _list_labels(labels: Sequence[str]) -> str:
    """Write labels for a sentence, the first of them where there are many."""
    if len(labels) <= _LISTED:
        return str(list(labels))
    return f"{list(labels[:_LISTED])} and {len(labels) - _LISTED} more"
