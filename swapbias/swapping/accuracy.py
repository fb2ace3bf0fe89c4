"""How well a swapper does on texts whose counterfactual is known: precision and recall over spans."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from swapbias.measures import Estimate, share_right

_TOKEN = re.compile(r"\w+|\W")
Span = tuple[int, int]  # the first token, and the one after the last


@dataclass(frozen=True, slots=True)
class SwapAccuracy:
    """What a swapper changes, beside what should change.

    Attributes:
        precision: share of the spans it changed that should change, 0 to 1; NaN where it changed nothing.
        recall: share of the spans that should change which it changed; NaN where nothing should.
        worded: share of the spans that both change which become the very words; NaN where there are none.
        exact: share of texts that equal their counterfactual.
    """

    precision: Estimate
    recall: Estimate
    worded: Estimate
    exact: Estimate


def edited_spans(text: str, other: str) -> dict[Span, str]:
    """What differs between two texts: spans of the first one's words and signs, and what stands there in the other.

    >>> edited_spans("He saw his wife.", "She saw her wife.")
    {(0, 1): 'She', (4, 5): 'her'}
    """
    first, second = _TOKEN.findall(text), _TOKEN.findall(other)
    if len(first) == len(second):
        pairs = zip(first, second, strict=True)
        return {(at, at + 1): new for at, (old, new) in enumerate(pairs) if old != new}
    found = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    return {(begin, end): "".join(second[low:high]) for what, begin, end, low, high in found if what != "equal"}


def swap_accuracy(
    texts: Sequence[str], counterfactuals: Sequence[str], swapped: Sequence[str], *, confidence: float = 0.95
) -> SwapAccuracy:
    """Precision and recall of a swapper by span, with intervals over texts: spans of one text are dependent.

    >>> found = swap_accuracy(["He saw his mother."], ["She saw her mother."], ["She saw her father."])
    >>> round(found.precision.value, 3), found.recall.value, found.exact.value
    (0.667, 1.0, 0.0)

    Args:
        texts: as they are, (n,).
        counterfactuals: what they should become, (n,).
        swapped: what the swapper made of them, (n,).
        confidence: coverage of the intervals.

    Raises:
        ValueError: not as many of each.
    """
    if not len(texts) == len(counterfactuals) == len(swapped):
        raise ValueError(
            f"{len(texts)} texts, {len(counterfactuals)} counterfactuals and {len(swapped)} swapped ones, expected "
            "as many of each. Give one for each text."
        )
    precise: list[tuple[bool, int]] = []
    recalled: list[tuple[bool, int]] = []
    worded: list[tuple[bool, int]] = []
    for number, (text, wanted, got) in enumerate(zip(texts, counterfactuals, swapped, strict=True)):
        gold, found = edited_spans(text, wanted), edited_spans(text, got)
        precise += [(span in gold, number) for span in found]
        recalled += [(span in found, number) for span in gold]
        worded += [(gold[span] == found[span], number) for span in gold.keys() & found.keys()]
    exact = [
        (wanted == got, number) for number, (wanted, got) in enumerate(zip(counterfactuals, swapped, strict=True))
    ]
    return SwapAccuracy(*(_share(pairs, confidence) for pairs in (precise, recalled, worded, exact)))


def _share(pairs: Sequence[tuple[bool, int]], confidence: float) -> Estimate:
    return share_right([right for right, _ in pairs], [str(text) for _, text in pairs], confidence=confidence)
