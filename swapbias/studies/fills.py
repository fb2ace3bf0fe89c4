"""The words that fill the swapped slot of a user's own prompts: names are a sample of many, as templates are."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from swapbias.studies.draft import Line

GROUP_FILL, REFERENCE_FILL, FILL_PAIR = FILLS = ("group_fill", "reference_fill", "fill_pair")
NAME = "name"  # the column that says what fills the slot, where texts are not compared
_PRONOUNS = frozenset((
    "he", "she", "they", "him", "her", "them", "his", "hers", "their",
    "theirs", "himself", "herself", "themselves", "themself", "it", "its", "itself",
))  # fmt: skip
_EDGES = ".,;:!?\"'()[]“”‘’"
_SLOT = "_"
_SAMPLE = 4  # fills that recur, each in texts of its own: fewer are forms of a word (woman, women)


@dataclass(frozen=True)
class Fills:
    """What fills the slot of each pair of two groups, and the text around it.

    Attributes:
        words: every fill of the group, and every fill of the reference.
        random: the columns of fills that are a sample: of two or more that the prompts name or that stand in the same
            text, or of four or more that recur. Where each fill of the group goes with one of the reference it is the
            pair of both.
        templates: texts recur with other fills, so that they are templates, and no column tells such apart.
        named: a column of the prompts says the fills.
        of_pairs: by id of a pair the group's fill, the reference's and the text around them.
    """

    words: tuple[list[str], list[str]] = ([], [])
    random: tuple[str, ...] = ()
    templates: bool = False
    named: bool = False
    of_pairs: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)

    def cells(self, pair_id: str, template: str) -> dict[str, str]:
        """The columns of both rows of a pair, its template among them."""
        group, reference, text = self.of_pairs.get(pair_id, ("", "", ""))
        cells = {GROUP_FILL: group, REFERENCE_FILL: reference, FILL_PAIR: f"{group} / {reference}"}
        return {"template": text if self.templates else template, **{name: cells[name] for name in self.random}}


def fills_of(lines: Iterable[Line], reference: str) -> Fills:
    """What fills the slots of these pairs: their column ``name``, else the words in which the texts of a pair differ.

    A column ``name`` with the same in both rows of every pair names something else.

    Args:
        lines: of two groups.
        reference: the group that is subtracted.
    """
    waiting: dict[str, Line] = {}
    of_pairs: dict[str, tuple[str, str, str]] = {}
    names: dict[str, tuple[str, str]] = {}
    given: set[str] = set()
    for line in lines:
        pair = line.cells["pair_id"]
        if line.wording or pair in of_pairs:
            continue
        if pair not in waiting:
            waiting[pair] = line
            continue
        both = (waiting.pop(pair), line)
        second, first = both if both[0].cells["group"] == reference else both[::-1]
        group, other, text = swapped(first.cells["text"], second.cells["text"])
        of_pairs[pair] = sys.intern(group), sys.intern(other), sys.intern(text)
        names[pair] = first.cells.get(NAME, ""), second.cells.get(NAME, "")
        given.add(line.cells["template"])
    named = any(one != other for one, other in names.values())
    if named:
        of_pairs = {pair: (*names[pair], one[2]) for pair, one in of_pairs.items()}
    words = [list(dict.fromkeys(one[side] for one in of_pairs.values())) for side in (0, 1)]
    texts = len({one[2] for one in of_pairs.values()})
    recur = any(len({(one[side], one[2]) for one in of_pairs.values()}) > texts for side in (0, 1))
    sampled = [len(mine) > 1 and (named or recur or _SAMPLE <= len(mine) < len(of_pairs)) for mine in words]
    chosen = [name for name, one in zip(FILLS, sampled, strict=False) if one]
    if len(chosen) > 1 and len({one[:2] for one in of_pairs.values()}) == len(words[0]) == len(words[1]):
        chosen = [FILL_PAIR]
    templates = recur and texts > 1 and len(given) < 2
    kept = of_pairs if chosen or templates else {}
    return Fills((words[0], words[1]), tuple(chosen), templates, named, kept)


def swapped(text: str, other: str) -> tuple[str, str, str]:
    """Where two texts differ: the words of each without pronouns, and the text around them.

    >>> swapped("Emily lost her keys.", "Greg lost his keys.")
    ('Emily', 'Greg', '_ lost _ keys.')
    >>> swapped("Mary Ann is late.", "Greg is late.")
    ('Mary Ann', 'Greg', '_ is late.')
    """
    first, second = text.split(), other.split()
    if len(first) == len(second):
        frame = [one if one == two else _SLOT for one, two in zip(first, second, strict=True)]
        places = [place for place, one in enumerate(frame) if one == _SLOT]
        sides = [[words[place] for place in places] for words in (first, second)]
        return _fill(sides[0]), _fill(sides[1]), " ".join(frame)
    start = _alike(first, second)
    end = _alike(first[start:][::-1], second[start:][::-1])
    frame = [*first[:start], _SLOT, *first[len(first) - end :]]
    return _fill(first[start : len(first) - end]), _fill(second[start : len(second) - end]), " ".join(frame)


def _alike(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words both begin with."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (one, two) in enumerate(pairs) if one != two), min(len(first), len(second)))


def _fill(words: Sequence[str]) -> str:
    bare = [one.strip(_EDGES).removesuffix("'s").removesuffix("’s") for one in words]
    return " ".join(dict.fromkeys(one for one in bare if one.casefold() not in _PRONOUNS))
