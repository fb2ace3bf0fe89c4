"""Accuracy of a swapper on texts whose counterfactual is known: precision and recall over spans, also by doubt."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from swapbias.measures import Estimate, rates
from swapbias.studies import config_rows

if TYPE_CHECKING:
    from swapbias.swapping.swapper import Swapper

SHARES = (1.0, 0.75, 0.5, 0.25)
"""Shares of the texts, those of least doubt, that an accuracy is given of."""
Span = tuple[int, int]
"""The first token, and the one after the last."""
_TOKEN = re.compile(r"\w+|\W")
_PRONOUNS = {"male": {"he", "him", "his", "himself"}, "female": {"she", "her", "hers", "herself"}}


@dataclass(frozen=True, slots=True)
class SwapAccuracy:
    """Accuracy of what a swapper changes, beside what should change."""

    precision: Estimate
    """Share of the spans it changed that should change, 0 to 1; NaN where it changed nothing."""
    recall: Estimate
    """Share of the spans that should change which it changed, 0 to 1; NaN where nothing should."""
    exact: Estimate
    """Share of texts that equal their counterfactual, 0 to 1."""
    others_left: Estimate
    """Share of somebody else's pronouns of the patient's gender that stay, 0 to 1; NaN where there are none."""
    share: float = 1.0
    """The share of the texts, above 0 to 1: those of least doubt."""
    doubt: float = float("nan")
    """The most doubt of any of them, 0 to 1; NaN where it is not known."""


def edited_spans(text: str, changed: str) -> dict[Span, str]:
    """Return what differs between two texts.

    >>> edited_spans("He saw his wife.", "She saw her wife.")
    {(0, 1): 'She', (4, 5): 'her'}

    Args:
        text: the first one.
        changed: the second one.

    Returns:
        Spans of the first text's words and signs, and what stands there in the second.
    """
    first = _TOKEN.findall(text)
    second = _TOKEN.findall(changed)
    if len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return {(index, index + 1): new for index, (old, new) in pairs if old != new}
    steps = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    return {
        (begin, end): "".join(second[low:high])
        for step, begin, end, low, high in steps
        if step != "equal"
    }


def swap_accuracy(
    texts: Sequence[str],
    counterfactuals: Sequence[str],
    swapped: Sequence[str],
    *,
    genders: Sequence[str] | None = None,
) -> SwapAccuracy:
    """Measure precision and recall of a swapper by span.

    Intervals of 95 % are over texts, for spans of one text are dependent.

    >>> accuracy = swap_accuracy(["He saw his mother."], ["She saw her mother."], ["She saw her father."])
    >>> round(accuracy.precision.value, 3), accuracy.recall.value, accuracy.exact.value
    (0.667, 1.0, 0.0)

    Args:
        texts: texts as they are, (n,).
        counterfactuals: what they should become, (n,).
        swapped: what the swapper made of them, (n,).
        genders: ``male`` or ``female``, of each patient; of others no pronouns are counted.

    Raises:
        ValueError: not as many of each.
    """
    if not len(texts) == len(counterfactuals) == len(swapped):
        raise ValueError(
            f"{len(texts)} texts, {len(counterfactuals)} counterfactuals and {len(swapped)} swapped ones, expected "
            "as many of each. Give one for each text."
        )
    precision = _Share()
    recall = _Share()
    exact = _Share()
    others_left = _Share()
    for index, text in enumerate(texts):
        gold = edited_spans(text, counterfactuals[index])
        changed = edited_spans(text, swapped[index])
        precision.add(index, [span in gold for span in changed])
        recall.add(index, [span in changed for span in gold])
        exact.add(index, [counterfactuals[index] == swapped[index]])
        pronouns = _PRONOUNS.get(genders[index]) if genders else None
        if pronouns:
            others_left.add(index, _others_left(text, pronouns, gold, changed))
    return SwapAccuracy(
        precision=precision.estimate(),
        recall=recall.estimate(),
        exact=exact.estimate(),
        others_left=others_left.estimate(),
    )


class _Share:
    """A share of right cases over texts, as it is collected."""

    def __init__(self) -> None:
        self._right: list[bool] = []
        self._texts: list[str] = []

    def add(self, text: int, right: Sequence[bool]) -> None:
        """Add the cases of a text, by its number."""
        self._right += right
        self._texts += [str(text)] * len(right)

    def estimate(self) -> Estimate:
        """Return the share with its interval over texts."""
        return rates.share_right(self._right, self._texts)


def _others_left(
    text: str, pronouns: set[str], gold: Mapping[Span, str], changed: Mapping[Span, str]
) -> list[bool]:
    """Tell for each of the patient's pronouns that should stay whether it does."""
    should_change = _tokens_of(gold)
    was_changed = _tokens_of(changed)
    return [
        index not in was_changed
        for index, word in enumerate(_TOKEN.findall(text))
        if word.lower() in pronouns and index not in should_change
    ]


def _tokens_of(spans: Mapping[Span, str]) -> set[int]:
    """Return the tokens in some spans."""
    return {index for span in spans for index in range(*span)}


def gold_notes(split: str = "test") -> list[Mapping[str, Any]]:
    """Return the notes of ``clinical_swaps`` with their counterfactuals by hand.

    Args:
        split: ``test`` or ``development``.

    Returns:
        Rows with ``text``, ``gender``, ``spans``, ...
    """
    return [row for row in config_rows("clinical_swaps", "notes") if row["split"] == split]


def evaluate(swapper: "Swapper", notes: Sequence[Mapping[str, Any]]) -> list[SwapAccuracy]:
    """Measure the accuracy of a swapper of the patient's words on ``gold_notes``.

    Of all notes, and of three fourths, half and a fourth of them: those of least doubt (``Swapped.doubt``).

    Args:
        swapper: the swapper with ``whose="patient"``.
        notes: rows of ``gold_notes``.
    """
    gold = "counterfactual" if swapper.spouses == "swap" else "counterfactual_keep"
    result = swapper.run([row["text"] for row in notes], genders=[row["gender"] for row in notes])
    swapped = result.texts.to_pylist()
    order = np.argsort(result.doubt, kind="stable")
    accuracies = []
    for share in SHARES:
        chosen = order[: round(share * len(order))].tolist()
        accuracy = swap_accuracy(
            [notes[index]["text"] for index in chosen],
            [notes[index][gold] for index in chosen],
            [swapped[index] for index in chosen],
            genders=[notes[index]["gender"] for index in chosen],
        )
        most_doubt = float(result.doubt[chosen[-1]])
        accuracies.append(replace(accuracy, share=share, doubt=most_doubt))
    return accuracies
