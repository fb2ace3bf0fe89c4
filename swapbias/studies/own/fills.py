"""Find the words that fill the swapped slot of pairs: names are a sample of many, as templates are."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from swapbias.studies.own.fill_slots import label_pairs
from swapbias.studies.own.text_pairs import FEWEST_FILLS, SLOT, difference, is_word

UNNAMED = (
    "The names or words that these texts swap could not be found, so there is no verdict. "
    "Add a column name that says which one each row has."
)
GROUP_FILL, REFERENCE_FILL, FILL_PAIR = FILLS = ("group_fill", "reference_fill", "fill_pair")


class Fills(NamedTuple):
    """What fills the slot of each pair; a sample: two or more that are named or in one text, or four that recur."""

    words: dict[str, list[str]]
    """By group every fill."""
    random: dict[str, str]
    """Columns of fills that are a sample, by what they are called."""
    random_of: dict[str, str]
    """Of several groups the one whose fills a column holds."""
    by_pair: pd.DataFrame
    """These columns, and ``template`` where texts recur and no column names their templates."""
    unclear: bool = False
    """Whether fills may recur in forms that could not be told apart."""


class FilledPairs(NamedTuple):
    """The fills of the pairs of two groups."""

    pairs: pd.DataFrame
    """By pair_id the columns of ``FILLS`` and ``template``."""
    sampled: list[str]
    """Those of the columns that are a sample."""
    noun: str
    """What fills are called."""
    are_templates: bool
    """Whether texts recur with several fills, and no column names their templates."""
    unclear: bool


def fills_of(
    prompts: pd.DataFrame, groups: Sequence[str], reference: str, *, with_templates: bool = False
) -> Fills:
    """Find what fills the slots of pairs: their column ``name``, else what recurs over texts where pairs differ.

    Args:
        prompts: rows with ``pair_id``, ``group``, ``text`` and ``template``, perhaps with ``name``.
        groups: those that are compared with ``reference``.
        reference: the group that is subtracted.
        with_templates: give ``by_pair`` the templates also where no text recurs, unless a column names them.
    """
    found = Fills({}, {}, {}, pd.DataFrame(index=prompts["pair_id"].unique()))
    if not len(prompts):
        return found
    filled = [filled_pairs(prompts, group, reference) for group in groups]
    gives_templates = with_templates and not (prompts["template"] != "").all()
    for number, (group, part) in enumerate(zip(groups, filled, strict=True), start=1):
        found.words[group], found.words[reference] = (
            list(part.pairs[side].unique()) for side in FILLS[:2]
        )
        if (part.are_templates or gives_templates) and "template" not in found.by_pair:
            found.by_pair["template"] = part.pairs["template"]
        _add_columns(
            found,
            part,
            {GROUP_FILL: group, REFERENCE_FILL: reference},
            number if len(groups) > 1 else 0,
        )
    if not any(part.unclear for part in filled):
        return found
    # All fills are one, of which no interval can be made.
    return found._replace(
        by_pair=found.by_pair.assign(**dict.fromkeys(found.random, "")), unclear=True
    )


def _add_columns(found: Fills, part: FilledPairs, owners: Mapping[str, str], number: int) -> None:
    """Add the columns of fills that are a sample; of several groups each has its own, by the number of the group.

    A gap of two groups is not about the others.
    """
    for side in FILLS[:2] if number and part.sampled == [FILL_PAIR] else part.sampled:
        column = f"{side}_{number}" if number and side == GROUP_FILL else side
        owner = owners.get(side, "")
        if column in found.random:
            continue
        found.by_pair[column] = part.pairs[side]
        found.random[column] = f"{part.noun} for {owner}" if owner else f"pairs of {part.noun}"
        if number:
            found.random_of[column] = owner


def _has_words(template: str) -> bool:
    """Whether a template holds more than its slot: texts that share a period alone are of no one template."""
    return any(token != SLOT and is_word(token) for token in template.split())


def filled_pairs(rows: pd.DataFrame, group: str, reference: str) -> FilledPairs:
    """Find the fills of each pair of two groups, and which of them are a sample."""
    rows = (
        rows.assign(name=rows.get("name", ""))
        .drop_duplicates(["pair_id", "group"])
        .set_index("pair_id")
    )
    sides = [
        rows.loc[rows["group"] == side, ["text", "name", "template"]] for side in (group, reference)
    ]
    both = sides[0].merge(sides[1], left_index=True, right_index=True, suffixes=("", "_reference"))
    named = bool(
        (both["name"] != both["name_reference"]).any()
    )  # else the column names something else
    slots = [difference(*texts) for texts in zip(both["text"], both["text_reference"], strict=True)]
    known = list(zip(both["name"], both["name_reference"], strict=True)) if named else None
    found = label_pairs(slots, known)
    pairs = pd.DataFrame(found.labels, columns=list(FILLS[:2]), index=both.index, dtype=object)
    pairs["template"] = found.templates
    pairs[FILL_PAIR] = pairs[GROUP_FILL] + " / " + pairs[REFERENCE_FILL]
    texts = pairs["template"].nunique()
    counts = pairs.nunique()
    recur = any(len(pairs.drop_duplicates([side, "template"])) > texts for side in FILLS[:2])
    sampled = [
        side
        for side, forms in zip(FILLS[:2], found.forms, strict=True)
        if found.unclear
        or (
            counts[side] > 1
            and (named or recur or (forms >= FEWEST_FILLS and counts[side] < len(pairs)))
        )
    ]
    if len(sampled) > 1 and counts[FILL_PAIR] == counts[GROUP_FILL] == counts[REFERENCE_FILL]:
        sampled = [FILL_PAIR]
    are_named = both["template"].nunique() > 1 or (
        texts == 1 and bool((both["template"] != "").all())
    )
    are_templates = recur and not are_named and (texts > 1 or _has_words(found.templates[0]))
    return FilledPairs(pairs, sampled, "names" if named else "words", are_templates, found.unclear)
