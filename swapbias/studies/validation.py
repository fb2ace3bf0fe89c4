"""What is wrong with a study of one's own, and what may bend its numbers: sentences with file and line."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

import pandas as pd

from swapbias.errors import quoted
from swapbias.studies.parsed import (
    DECLARATION,
    LEXICON,
    PROMPTS,
    SLOTS,
    Parsed,
    constant_columns,
    first_few,
    line_of,
    shown,
)
from swapbias.studies.prompt import MASK, slots
from swapbias.studies.study import did_you_mean

# Of two texts that are no pair, fewer than a quarter of the words of the shorter are in the other, and less than half
# of the letters match (difflib): "El doctor cansado" and "La doctora cansada" share no word and most letters.
_SHARED_WORDS, _SHARED_LETTERS = 1 / 4, 0.5
_FEW_WORDS = 3  # of shorter texts the swapped words may be all
_COMPARED = 200  # letters of each text
_MOST_UNLIKE, _NAMED_UNLIKE = 20, 5  # pairs that are looked for, and those that are named
_MOST_GROUPS = 10  # that one sentence names
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")  # Chinese and Japanese have no blanks between words


def faults(parsed: Parsed) -> list[str]:
    """Everything for which an audit refuses a study, a sentence each with file and line; nothing of what follows."""
    prompts = parsed.prompts  # whose making may find faults of templates
    found = [*parsed.wrong.values(), *parsed.faults]
    if not len(prompts):
        return [*found, *_reference_faults(parsed, parsed.declared.groups)]
    whole = not parsed.faults
    named = not parsed.wrong.keys() & {"", "groups", "reference"}
    found += _group_faults(parsed) if whole and named else _reference_faults(parsed, parsed.declared.groups)
    found += _text_faults(parsed)
    found += _pair_faults(parsed) if whole and named else ()
    found += _column_faults(parsed)
    return found


def _group_faults(parsed: Parsed) -> Iterator[str]:
    declared, groups, known = parsed.declared, parsed.groups, parsed.group_names
    named = _names(groups)
    how = f"--reference (in a folder: reference = ... in {DECLARATION})"
    for name in declared.groups:
        if known and name not in (*known, declared.reference):
            where = _declared_at(parsed, "groups", name)
            yield f"{where}: The group {shown(name)} is none of {_names(known)}.{_correction(name, known)}"
    yield from _reference_faults(parsed, known)
    if len(groups) < 2:
        table = PROMPTS if PROMPTS in parsed.tables else SLOTS
        yield f"{table}: the groups are {named}, expected two or more. Add rows of another."
    elif not declared.reference:
        yield f"The groups are {named}, and none is the reference. Name it with {how}."
    elif declared.reference not in groups and declared.reference in known:
        where = _declared_at(parsed, "reference")
        yield f"{where}: The reference {shown(declared.reference)} is none of {named}. Correct {how}."
    columns = list(parsed.table(PROMPTS))
    for one in ("group", "pair") if PROMPTS in parsed.tables else ():
        if one not in columns and not ("group" not in columns and parsed.labels):
            yield f"{PROMPTS}:1: column {one!r} is missing, found {', '.join(columns)}. Add it."
    alone = (
        known == parsed.labels
    )  # words alone name groups: of one that nothing compares only the spelling is looked at
    compared = groups if alone else known
    words = parsed.table(LEXICON).get("group", pd.Series(dtype=object)) if len(parsed.labels) > 1 else pd.Series()
    for line, name in words[~words.isin(compared)].items():
        if not alone or did_you_mean(name, compared):
            yield f"{LEXICON}:{line}: group {shown(name)} is none of {_names(compared)}.{_correction(name, compared)}"


def _reference_faults(parsed: Parsed, known: Sequence[str]) -> Iterator[str]:
    name = parsed.declared.reference
    if name and known and name not in known:
        where = _declared_at(parsed, "reference")
        yield f"{where}: The reference {shown(name)} is none of {_names(known)}.{_correction(name, known)}"


def _declared_at(parsed: Parsed, key: str, value: str = "") -> str:
    text = parsed.files.get(DECLARATION, b"").decode("utf-8-sig", "replace")
    return f"{DECLARATION}:{line_of(text, key, value)}"


def _names(groups: Sequence[str]) -> str:
    names = [one if shown(one) == quoted(one) else shown(one) for one in groups]
    more = len(names) - _MOST_GROUPS
    return (", ".join(names[:_MOST_GROUPS]) or "none") + (f" and {more} more" if more > 0 else "")


def _correction(name: str, known: Sequence[str]) -> str:
    return did_you_mean(name, known) or " Correct it."


def _of_rows(rows: pd.DataFrame, fault: Callable[[Any], str]) -> Iterator[str]:
    return first_few(dict.fromkeys(f"{row.where}: {fault(row)}" for row in rows.itertuples()))


def _text_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    text = prompts["text"].astype(str)
    odd = prompts[text.str.contains("[", regex=False)]
    yield from _of_rows(
        odd[odd["text"].map(slots).astype(bool)],
        lambda row: f"the slot [{slots(row.text)[0]}] is not filled. Put a word there, or take the brackets away.",
    )
    yield from _of_rows(
        odd[odd["text"].map(str.upper).str.contains("[MASK]", regex=False)],
        lambda row: f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK].",
    )
    yield from _of_rows(
        prompts[text.str.count(MASK) > 1],
        lambda row: f"{row.text.count(MASK)} times {MASK}, expected one at most. Split the text.",
    )
    yield from _of_rows(
        prompts[prompts["masked"] & (prompts["counted"] == "")],
        lambda row: (
            f"the text holds {MASK} and "
            + (
                f"{LEXICON} has no words of {shown(row.group)}"
                if parsed.labels
                else "no words are given to count there"
            )
            + f". Add {LEXICON} (-M lexicon) or a column candidates."
        ),
    )
    if not parsed.declared.groups:
        known = parsed.groups
        yield from _of_rows(
            prompts[~prompts["group"].isin(known)],
            lambda row: f"group {shown(row.group)} is none of {_names(known)}. Correct it.",
        )


def _pair_faults(parsed: Parsed) -> Iterator[str]:
    """Of each pair, in each of its wordings."""
    prompts, groups, reference = parsed.prompts, parsed.groups, parsed.declared.reference
    first_of_group = prompts.groupby(["unit", "group"], sort=False)["where"].transform("first")
    again = prompts.assign(before=first_of_group)[prompts.duplicated(["unit", "group"])]
    yield from _of_rows(
        again,
        lambda row: f"pair {_named(row)} has group {shown(row.group)} already in {row.before}. Remove one.",
    )
    units = prompts.drop_duplicates("unit").set_index("unit")
    compared = prompts[prompts["group"].isin(groups)].drop_duplicates(["unit", "group"])
    has = pd.crosstab(compared["unit"], compared["group"]).reindex(units.index, columns=groups, fill_value=0) > 0
    many = len(groups) > 2
    for group in sorted({reference} & {*groups} if many else groups):
        yield from _of_pairs(
            units[~has[group]], f"has no row of {shown(group)}. Add it, so that the groups are balanced."
        )
    if many and reference in groups:
        alone = units[has[reference] & ~has.drop(columns=reference).any(axis=1)]
        yield from _of_pairs(alone, "holds the reference alone. Add a row of another group.")
    by_unit = compared.groupby("unit", sort=False)
    mixed = by_unit["masked"].nunique() > 1
    mixed = units[mixed.reindex(units.index, fill_value=False)]
    yield from _of_pairs(mixed, f"holds {MASK} in one text and not in another. Write both alike.")
    differ = compared.drop_duplicates(["unit", "text", "counted"]).groupby("unit", sort=False).size()
    same = (differ == 1) & (by_unit.size() > 1)
    yield from _of_rows(
        units[same.reindex(units.index, fill_value=False)],
        lambda row: (
            f"pair {_named(row)} has the same text in every group: nothing is swapped"
            + (f", for the words of {shown(row.counted)} alone are counted there" if row.counted else "")
            + ". Change one."
        ),
    )


def _of_pairs(rows: pd.DataFrame, what: str) -> Iterator[str]:
    return _of_rows(rows, lambda row: f"pair {_named(row)} {what}")


def _named(row: Any) -> str:
    return shown(row.pair_id) + (f" in wording {shown(row.wording)}" if row.wording else "")


def _column_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    headers = {one for table in parsed.tables.values() for one in table} | {"words", "condition"}
    for key in ("random", "slices"):
        for column in getattr(parsed.declared, key):
            where, name = _declared_at(parsed, key, column), "pair_id" if column == "pair" else column
            if name in ("text", "group") or name not in {*prompts, *(headers if parsed.faults else ())}:
                yield f"{where}: {key} names the column {shown(column)}, and no table has it. Correct it."
            elif not parsed.faults and name not in constant_columns(prompts, [name]):
                yield f"{where}: {shown(column)} differs within a pair, expected one value. Take it out."


def spellings(parsed: Parsed) -> Iterator[str]:
    """Groups that are spelled nearly alike, and texts with blanks at their ends, a sentence each."""
    alike: dict[str, list[str]] = {}
    for group in dict.fromkeys((*parsed.group_names, *parsed.labels)):
        alike.setdefault(unicodedata.normalize("NFKC", group).casefold(), []).append(group)
    for names in alike.values():
        if len(names) > 1:
            # with codes for letters that may look alike
            named = " and ".join(
                shown(one) if unicodedata.is_normalized("NFKC", one) else ascii(one) for one in names
            )
            yield f"{named} are {len(names)} groups, spelled nearly alike. Spell a group in one way."
    texts = parsed.prompts["text"].astype(str)
    ends = parsed.prompts["where"][texts != texts.str.strip()]
    if len(ends):
        counted = f"{len(ends):,} texts begin or end" if len(ends) > 1 else "A text begins or ends"
        yield f"{ends.iloc[0]}: {counted} with blanks, which models read too. Remove those that should not be there."


def unlike_pairs(parsed: Parsed) -> Iterator[str]:
    """A warning that names the rows of pairs whose texts share almost nothing; none where there are no such pairs."""
    prompts = parsed.prompts
    first = prompts.groupby("unit", sort=False)[["where", "text"]].transform("first")
    rows = zip(prompts["text"], prompts["where"], first["text"], first["where"], prompts["pair_id"], strict=True)
    unlike = (
        f"{' and '.join(dict.fromkeys((before, where)))} (pair {shown(pair)})"
        for text, where, other, before, pair in rows
        if text != other and _is_unlike(text.lower(), other.lower())
    )
    if found := list(islice(unlike, _MOST_UNLIKE + 1)):
        more = len(found) - _NAMED_UNLIKE
        rest = f"; {more}{' or more' if len(found) > _MOST_UNLIKE else ''} others" if more > 0 else ""
        why = "A gap between them does not come from the swapped words. Check the pairs."
        yield f"Texts of one pair share almost nothing: {'; '.join(found[:_NAMED_UNLIKE])}{rest}. {why}"


def _is_unlike(one: str, other: str) -> bool:
    words = [set(_WORD.findall(text)) for text in (one, other)]
    fewest = min(map(len, words))
    if fewest < _FEW_WORDS or len(words[0] & words[1]) >= _SHARED_WORDS * fewest:
        return False
    return SequenceMatcher(None, one[:_COMPARED], other[:_COMPARED], autojunk=False).ratio() < _SHARED_LETTERS
