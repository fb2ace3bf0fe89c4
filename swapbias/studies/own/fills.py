"""Find the words that fill the swapped slot of pairs: names are a sample of many, as templates are."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from swapbias.studies.own.fill_slots import Labels, label_pairs
from swapbias.studies.own.text_pairs import FEWEST_FILLS, SLOT, difference, is_word

UNNAMED = (
    "The names or words that these texts swap could not be found, so there is no verdict. "
    "Add a column name that says which one each row has."
)
FILLS = ("group_fill", "reference_fill", "fill_pair")
GROUP_FILL, REFERENCE_FILL, FILL_PAIR = FILLS


class Fills(NamedTuple):
    """The fills of the slots of pairs; a sample: two or more that are named or in one text, or four that recur."""

    words: dict[str, list[str]]
    """Every fill, by group."""
    random: dict[str, str]
    """Columns of fills that are a sample, with what sentences call them."""
    random_of: dict[str, str]
    """The one of several groups whose fills a column holds."""
    by_pair: pd.DataFrame
    """These columns by pair_id, and ``template`` where texts recur and no column names their templates."""
    unclear: bool = False
    """Whether fills may recur in forms that no rule separates."""


class FilledPairs(NamedTuple):
    """The fills of the pairs of two groups."""

    pairs: pd.DataFrame
    """The columns of ``FILLS`` and ``template``, by pair_id."""
    sampled: list[str]
    """Those of the columns that are a sample."""
    noun: str
    """The noun for fills: names or words."""
    are_templates: bool
    """Whether texts recur with several fills, and no column names their templates."""
    unclear: bool
    """Whether fills may recur in forms that no rule separates."""


def fills_of(
    prompts: pd.DataFrame, groups: Sequence[str], reference: str, *, with_templates: bool = False
) -> Fills:
    """Find what fills the slots of pairs: their column ``name``, else what recurs over texts where pairs differ.

    Args:
        prompts: rows with ``pair_id``, ``group``, ``text`` and ``template``, perhaps with ``name``.
        groups: the groups that are compared with ``reference``.
        reference: the group that is subtracted.
        with_templates: give ``by_pair`` the templates also where no text recurs, unless a column names them.
    """
    fills = Fills({}, {}, {}, pd.DataFrame(index=prompts["pair_id"].unique()))
    if not len(prompts):
        return fills
    filled = [filled_pairs(prompts, group, reference) for group in groups]
    gives_templates = with_templates and not (prompts["template"] != "").all()
    for number, (group, part) in enumerate(zip(groups, filled, strict=True), start=1):
        fills.words[group] = list(part.pairs[GROUP_FILL].unique())
        fills.words[reference] = list(part.pairs[REFERENCE_FILL].unique())
        if (part.are_templates or gives_templates) and "template" not in fills.by_pair:
            fills.by_pair["template"] = part.pairs["template"]
        owners = {GROUP_FILL: group, REFERENCE_FILL: reference}
        _add_columns(fills, part, owners, number if len(groups) > 1 else 0)
    if not any(part.unclear for part in filled):
        return fills
    # All fills are one, of which no interval can be made.
    by_pair = fills.by_pair.assign(**dict.fromkeys(fills.random, ""))
    return fills._replace(by_pair=by_pair, unclear=True)


def _add_columns(fills: Fills, part: FilledPairs, owners: Mapping[str, str], number: int) -> None:
    """Add the columns of fills that are a sample; of several groups each has its own, by the number of the group.

    A gap of two groups is not about the others.
    """
    sides: Sequence[str] = part.sampled
    if number and part.sampled == [FILL_PAIR]:
        sides = FILLS[:2]
    for side in sides:
        column = f"{side}_{number}" if number and side == GROUP_FILL else side
        if column in fills.random:
            continue
        owner = owners.get(side, "")
        fills.by_pair[column] = part.pairs[side]
        fills.random[column] = f"{part.noun} for {owner}" if owner else f"pairs of {part.noun}"
        if number:
            fills.random_of[column] = owner


def _has_words(template: str) -> bool:
    """Tell whether a template holds more than its slot: texts that share only a period have no template in common."""
    return any(token != SLOT and is_word(token) for token in template.split())


def filled_pairs(rows: pd.DataFrame, group: str, reference: str) -> FilledPairs:
    """Find the fills of each pair of two groups, and which of them are a sample.

    Args:
        rows: rows with ``pair_id``, ``group``, ``text`` and ``template``, perhaps with ``name``.
        group: the one that is compared.
        reference: the one that is subtracted.
    """
    both = _texts_of_pairs(rows, group, reference)
    # else the column names something else
    has_names = bool((both["name"] != both["name_reference"]).any())
    names = None
    if has_names:
        names = list(zip(both["name"], both["name_reference"], strict=True))
    differences = [
        difference(text, text_reference)
        for text, text_reference in zip(both["text"], both["text_reference"], strict=True)
    ]
    labels = label_pairs(differences, names)
    pairs = pd.DataFrame(labels.labels, columns=list(FILLS[:2]), index=both.index, dtype=object)
    pairs["template"] = labels.templates
    pairs[FILL_PAIR] = pairs[GROUP_FILL] + " / " + pairs[REFERENCE_FILL]
    count = pairs["template"].nunique()
    recur = any(len(pairs.drop_duplicates([side, "template"])) > count for side in FILLS[:2])
    templates = both["template"]
    are_named = templates.nunique() > 1 or (count == 1 and bool((templates != "").all()))
    are_templates = False
    if recur and not are_named:
        are_templates = count > 1 or _has_words(labels.templates[0])
    return FilledPairs(
        pairs=pairs,
        sampled=_sampled_columns(pairs, labels, is_clear_sample=has_names or recur),
        noun="names" if has_names else "words",
        are_templates=are_templates,
        unclear=labels.unclear,
    )


def _texts_of_pairs(rows: pd.DataFrame, group: str, reference: str) -> pd.DataFrame:
    """Give text, name and template of both rows of each pair, by pair_id."""
    rows = rows.assign(name=rows.get("name", ""))
    rows = rows.drop_duplicates(["pair_id", "group"]).set_index("pair_id")
    columns = ["text", "name", "template"]
    of_group = rows.loc[rows["group"] == group, columns]
    of_reference = rows.loc[rows["group"] == reference, columns]
    return of_group.merge(
        of_reference, left_index=True, right_index=True, suffixes=("", "_reference")
    )


def _sampled_columns(pairs: pd.DataFrame, labels: Labels, *, is_clear_sample: bool) -> list[str]:
    """List the columns of fills that are a sample; one of pairs where each fill has one partner."""
    counts = pairs.nunique()
    sampled: list[str] = []
    for side, forms in zip(FILLS[:2], labels.forms, strict=True):
        recurs = forms >= FEWEST_FILLS and counts[side] < len(pairs)
        is_sample = counts[side] > 1 and (is_clear_sample or recurs)
        if labels.unclear or is_sample:
            sampled.append(side)
    if len(sampled) > 1 and counts[FILL_PAIR] == counts[GROUP_FILL] == counts[REFERENCE_FILL]:
        return [FILL_PAIR]
    return sampled
