"""The words that fill the swapped slot of a user's own prompts: names are a sample of many, as templates are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

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
    """What fills the slot of each pair, and the text around it.

    Attributes:
        words: by group every fill of it.
        random: columns of fills that are a sample, by what they are called: of two or more that the prompts name or
            that stand in the same text, or of four or more that recur. Of two groups whose fills go together in the
            same pairs it is the pair of both.
        of_groups: of each column of a comparison of several groups the group whose fills it holds.
        named: a column of the prompts says the fills.
        templates: texts recur with other fills, so that they are templates, and no column tells such apart.
        of_pairs: a row a pair, by its id, with the columns.
    """

    words: Mapping[str, list[str]] = field(default_factory=dict)
    random: Mapping[str, str] = field(default_factory=dict)
    of_groups: Mapping[str, str] = field(default_factory=dict)
    named: bool = False
    templates: bool = False
    of_pairs: pd.DataFrame = field(default_factory=pd.DataFrame)

    def columns(self, pair_ids: pd.Series) -> dict[str, pd.Series]:
        """The columns of rows of these pairs: the random ones, and the template where texts are one."""
        names = [*(["template"] if self.templates else []), *self.random]
        return {name: pair_ids.map(self.of_pairs[name]) for name in names}


def fills_of(prompts: pd.DataFrame, groups: Sequence[str], reference: str) -> Fills:
    """What fills the slots of prompts: their column ``name``, else the words in which the texts of a pair differ.

    A column ``name`` with the same in both rows of every pair names something else.

    Args:
        prompts: rows with ``pair_id``, ``group``, ``text``, ``template`` and ``wording``, of which the first is read.
        groups: compared with the reference.
        reference: the group that is subtracted.
    """
    rows = prompts[prompts["wording"] == ""] if len(prompts) else prompts
    if not len(rows):
        return Fills()
    found = [_of_two(rows[rows["group"].isin([one, reference])], one, reference) for one in groups]
    if len(groups) == 1:
        return found[0]
    # Of several groups each has a column of its own, for a gap of two is not about the others.
    columns = pd.DataFrame(index=rows["pair_id"].unique())
    random: dict[str, str] = {}
    of_groups: dict[str, str] = {}
    for number, (group, fills) in enumerate(zip(groups, found, strict=True), start=1):
        sampled = {GROUP_FILL, REFERENCE_FILL} if FILL_PAIR in fills.random else {*fills.random}
        what = _called(fills.named)
        for side, name in ((GROUP_FILL, group), (REFERENCE_FILL, reference)):
            column = f"{side}_{number}" if side == GROUP_FILL else side
            if side in sampled and column not in random:
                columns[column], random[column], of_groups[column] = fills.of_pairs[side], f"{what} for {name}", name
    templates = [fills for fills in found if fills.templates]
    if templates:
        columns["template"] = templates[0].of_pairs["template"]
    words = {name: listed for fills in found for name, listed in fills.words.items()}
    return Fills(words, random, of_groups, templates=bool(templates), of_pairs=columns)


def _of_two(rows: pd.DataFrame, group: str, reference: str) -> Fills:
    rows = rows.assign(**{NAME: rows.get(NAME, "")})
    rows = rows.drop_duplicates(["pair_id", "group"]).set_index("pair_id")[["group", "text", NAME, "template"]]
    is_reference = rows["group"] == reference
    both = rows[~is_reference].merge(
        rows[is_reference], left_index=True, right_index=True, suffixes=("", "_reference")
    )
    pairs = pd.DataFrame(
        [swapped(one, other) for one, other in zip(both["text"], both["text_reference"], strict=True)],
        columns=[GROUP_FILL, REFERENCE_FILL, "template"], index=both.index, dtype=object,
    )  # fmt: skip
    named = bool((both[NAME] != both[f"{NAME}_reference"]).any())
    if named:
        pairs[GROUP_FILL], pairs[REFERENCE_FILL] = both[NAME], both[f"{NAME}_reference"]
    sides = (GROUP_FILL, REFERENCE_FILL)
    words = [list(pairs[side].unique()) for side in sides]
    texts = pairs["template"].nunique()
    recur = any(len(pairs.drop_duplicates([side, "template"])) > texts for side in sides)
    sampled = [
        side
        for side, mine in zip(sides, words, strict=True)
        if len(mine) > 1 and (named or recur or _SAMPLE <= len(mine) < len(pairs))
    ]
    if len(sampled) > 1 and len(pairs.drop_duplicates(list(sides))) == len(words[0]) == len(words[1]):
        sampled = [FILL_PAIR]
    pairs[FILL_PAIR] = pairs[GROUP_FILL] + " / " + pairs[REFERENCE_FILL]
    what = _called(named)
    called = dict(zip(FILLS, (f"{what} for {group}", f"{what} for {reference}", f"pairs of {what}"), strict=True))
    templates = recur and texts > 1 and both["template"].nunique() < 2
    return Fills(
        {group: words[0], reference: words[1]}, {one: called[one] for one in sampled}, named=named,
        templates=templates, of_pairs=pairs,
    )  # fmt: skip


def _called(named: bool) -> str:
    return "names" if named else "words"


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
