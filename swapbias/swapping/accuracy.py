"""How well a swapper does on texts whose counterfactual is known: precision and recall over spans, also by doubt."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from swapbias.measures import Estimate, share_right
from swapbias.studies import config_rows

if TYPE_CHECKING:
    from swapbias.swapping.swapper import Swapper

_TOKEN = re.compile(r"\w+|\W")
_PRONOUNS = {"male": {"he", "him", "his", "himself"}, "female": {"she", "her", "hers", "herself"}}
SHARES = (1.0, 0.75, 0.5, 0.25)
Span = tuple[int, int]  # the first token, and the one after the last


@dataclass(frozen=True, slots=True)
class SwapAccuracy:
    """What a swapper changes, beside what should change.

    Attributes:
        precision: share of the spans it changed that should change, 0 to 1; NaN where it changed nothing.
        recall: share of the spans that should change which it changed; NaN where nothing should.
        exact: share of texts that equal their counterfactual.
        others_left: share of somebody else's pronouns of the patient's gender that stay; NaN where there are none.
        share: of the texts, above 0 to 1: those of least doubt.
        doubt: the most of them, 0 to 1; NaN where it is not known.
    """

    precision: Estimate
    recall: Estimate
    exact: Estimate
    others_left: Estimate
    share: float = 1.0
    doubt: float = float("nan")


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
    return {
        (begin, end): "".join(second[low:high])
        for what, begin, end, low, high in found
        if what != "equal"
    }


def swap_accuracy(
    texts: Sequence[str],
    counterfactuals: Sequence[str],
    swapped: Sequence[str],
    *,
    genders: Sequence[str] | None = None,
) -> SwapAccuracy:
    """Precision and recall of a swapper by span, with 95 % intervals over texts: spans of one text are dependent.

    >>> found = swap_accuracy(["He saw his mother."], ["She saw her mother."], ["She saw her father."])
    >>> round(found.precision.value, 3), found.recall.value, found.exact.value
    (0.667, 1.0, 0.0)

    Args:
        texts: as they are, (n,).
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
    found: dict[str, list[tuple[bool, str]]] = {
        "precision": [],
        "recall": [],
        "exact": [],
        "others_left": [],
    }
    for at, (text, wanted, got) in enumerate(zip(texts, counterfactuals, swapped, strict=True)):
        gold = edited_spans(text, wanted)
        changed = edited_spans(text, got)
        right = {
            "precision": [span in gold for span in changed],
            "recall": [span in changed for span in gold],
            "exact": [wanted == got],
        }
        if own := _PRONOUNS.get(genders[at]) if genders else None:
            places = [
                place for place, word in enumerate(_TOKEN.findall(text)) if word.lower() in own
            ]
            stay, moved = (
                {place for span in spans for place in range(*span)} for spans in (gold, changed)
            )
            right["others_left"] = [place not in moved for place in places if place not in stay]
        for name, each in right.items():
            found[name] += [(one, str(at)) for one in each]
    shares: dict[str, Any] = {
        name: share_right([one for one, _ in each], [text for _, text in each])
        for name, each in found.items()
    }
    return SwapAccuracy(**shares)


def gold_notes(split: str = "test") -> list[Mapping[str, Any]]:
    """The notes of ``clinical_swaps`` with their counterfactuals by hand: ``text``, ``gender``, ``spans``, ..."""
    return [row for row in config_rows("clinical_swaps", "notes") if row["split"] == split]


def evaluate(swapper: "Swapper", notes: Sequence[Mapping[str, Any]]) -> list[SwapAccuracy]:
    """``swap_accuracy`` of a swapper of the patient's words on ``gold_notes``.

    Of all notes, and of three fourths, half and a fourth of them: those of least doubt (``Swapped.doubt``).
    """
    wanted = "counterfactual" if swapper.spouses == "swap" else "counterfactual_keep"
    done = swapper.run([row["text"] for row in notes], genders=[row["gender"] for row in notes])
    swapped = done.texts.to_pylist()
    order = np.argsort(done.doubt, kind="stable")
    found = []
    for share in SHARES:
        chosen = order[: round(share * len(order))].tolist()
        texts, others, genders = (
            [notes[at][name] for at in chosen] for name in ("text", wanted, "gender")
        )
        accuracy = swap_accuracy(texts, others, [swapped[at] for at in chosen], genders=genders)
        found.append(replace(accuracy, share=share, doubt=float(done.doubt[chosen[-1]])))
    return found
