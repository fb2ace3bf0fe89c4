"""Find what is wrong with a user's own study, for which an audit refuses it, and what may bend its numbers."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice

import pandas as pd

from swapbias.errors import did_you_mean, quoted
from swapbias.studies.own.factors import column_of, constant_columns, own_columns
from swapbias.studies.own.own_declaration import shown
from swapbias.studies.own.own_files import CVS, LEXICON, PROMPTS, SLOTS
from swapbias.studies.own.own_prompts import Parsed
from swapbias.studies.own.own_tables import table_column
from swapbias.studies.own.shared_fills import shared_fills, shared_names
from swapbias.studies.prompt import MASK, slots

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]|\w+"
)  # Chinese and Japanese have no blanks between words


def faults(parsed: Parsed) -> list[str]:
    """Everything for which an audit refuses a study, a sentence each with file and line; nothing of what follows."""
    found = [*parsed.wrong.values(), *parsed.faults]
    is_made = len(parsed.prompts) > 0
    whole = is_made and not parsed.faults and not parsed.wrong.keys() & {"", "groups", "reference"}
    found += _group_faults(parsed, whole)
    if is_made:
        found += [
            *_text_faults(parsed),
            *(_pair_faults(parsed) if whole else ()),
            *_column_faults(parsed),
        ]
    found += shared_names(parsed)
    if whole and not found:
        found += shared_fills(parsed)
    return list(dict.fromkeys(found))


def _group_faults(parsed: Parsed, whole: bool) -> Iterator[str]:
    """Of names of groups; where other faults hide some of them only whether the declaration agrees with itself."""
    groups = parsed.groups
    declared = parsed.declared.compares.groups
    reference = parsed.declared.compares.reference
    known = parsed.group_names if whole else tuple(dict.fromkeys((*declared, *parsed.group_names)))
    for name in declared:
        if known and name not in (*known, reference):
            yield f"{parsed.line('groups', name)}: The group {_none_of(name, known)}"
    is_wrong = reference not in known and (whole or bool(did_you_mean(reference, known)))
    if reference and known and is_wrong:
        yield f"{parsed.line('reference')}: The reference {_none_of(reference, known)}"
    if not whole:
        return
    by_form: dict[str, str] = {}
    for name in known:
        if by_form.setdefault(name.casefold(), name) != name:
            first = shown(by_form[name.casefold()])
            yield f"The groups {first} and {shown(name)} differ by case alone. Write both alike."
    how = "--reference (in a folder: reference = ... in study.toml)"
    if len(groups) < 2:
        table = PROMPTS if PROMPTS in parsed.tables else SLOTS
        yield f"{table}: the groups are {_names(groups)}, expected two or more. Add rows of another."
    elif not reference:
        yield f"The groups are {_names(groups)}, and none is the reference. Name it with {how}."
    elif reference not in groups and reference in known:
        yield f"{parsed.line('reference')}: The reference {_none_of(reference, groups)}"
    columns = list(parsed.tables.get(PROMPTS, ()))
    for one in ("group", "pair") if columns else ():
        if one not in columns and not ("group" not in columns and parsed.labels):
            yield f"{PROMPTS}:1: column {one!r} is missing, found {', '.join(columns)}. Add it."
    # Where words alone name groups, only the spelling of one that nothing compares is looked at.
    words_only = known == parsed.labels
    compared = groups if words_only else known
    for line, name in (
        table_column(parsed.tables, LEXICON, "group").items() if len(parsed.labels) > 1 else ()
    ):
        if name not in compared and (not words_only or did_you_mean(name, compared)):
            yield f"{LEXICON}:{line}: group {_none_of(name, compared)}"


def _none_of(name: str, known: Sequence[str]) -> str:
    return f"{shown(name)} is none of {_names(known)}.{did_you_mean(name, known) or ' Correct it.'}"


def _names(groups: Sequence[str]) -> str:
    names = [one if shown(one) == quoted(one) else shown(one) for one in groups]
    return (", ".join(names[:10]) or "none") + (
        f" and {len(names) - 10} more" if len(names) > 10 else ""
    )


def _of_rows(rows: pd.DataFrame, sentence: str) -> Iterator[str]:
    """The sentence about the first prompt of each line, with its pair, group, words, slot and masks filled in."""
    for row in rows.drop_duplicates("where").to_dict("records"):
        wording = f" in wording {shown(row['wording'])}" if row["wording"] else ""
        what = sentence.format(
            pair=f"pair {shown(row['pair_id'])}{wording}",
            group=shown(row["group"]),
            words=shown(row["counted"]),
            slot=next(iter(slots(row["text"])), ""),
            masks=row["text"].count(MASK),
            before=row.get("before"),
        )
        yield f"{row['where']}: {what}"


def _text_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    text = prompts["text"].astype(str)
    masked = prompts["masked"]
    what = "is not filled. Put a word there, or take the brackets away."
    yield from _of_rows(prompts[text.map(slots).astype(bool)], f"the slot [{{slot}}] {what}")
    what = f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK]."
    yield from _of_rows(prompts[text.str.upper().str.contains("[MASK]", regex=False)], what)
    what = f"{{masks}} times {MASK}, expected one at most. Split the text."
    yield from _of_rows(prompts[text.str.count(MASK) > 1], what)
    what = (
        f"{LEXICON} has no words of {{group}}"
        if parsed.labels
        else "no words are given to count there"
    )
    what = f"the text holds {MASK} and {what}. Add {LEXICON} (-M lexicon) or a column candidates."
    yield from _of_rows(prompts[masked & (prompts["counted"] == "")], what)
    kinds = set(parsed.declared.kind)
    if (
        kinds
        and not ("masked" in kinds and masked.any())
        and not (kinds - {"masked"} and not masked.all())
    ):
        yield f"{parsed.line('kind')}: no text can be read by a model of kind {', '.join(sorted(kinds))}. Change it."


def _pair_faults(parsed: Parsed) -> Iterator[str]:
    """Of each pair, in each of its wordings."""
    prompts = parsed.prompts
    groups = parsed.groups
    first = prompts.groupby(["unit", "group"], sort=False)["where"].transform("first")
    again = prompts.assign(before=first)[prompts.duplicated(["unit", "group"])]
    yield from _of_rows(again, "{pair} has group {group} already in {before}. Remove one.")
    units = prompts.drop_duplicates("unit")
    compared = prompts[prompts["group"].isin(groups)].drop_duplicates(["unit", "group"])
    misspelled = {
        name
        for name in groups
        if name not in parsed.group_names and did_you_mean(name, parsed.group_names)
    }
    for group in sorted({*groups} - misspelled):
        lacking = units[~units["unit"].isin(compared["unit"][compared["group"] == group])].assign(
            group=group
        )
        yield from _of_rows(
            lacking, "{pair} has no row of {group}. Add it, so that the groups are balanced."
        )
    counts = compared.assign(read=compared["text"] + "\n" + compared["counted"]).groupby("unit")
    counts = (
        counts[["group", "masked", "read"]]
        .nunique()
        .reindex(units["unit"], fill_value=1)
        .set_axis(units.index)
    )
    mixed = units[counts["masked"] > 1]
    yield from _of_rows(
        mixed, f"{{pair}} holds {MASK} in one text and not in another. Write both alike."
    )
    same = units[(counts["read"] == 1) & (counts["group"] > 1)]
    what = "{pair} has the same text in every group: nothing is swapped"
    yield from _of_rows(same[same["counted"] == ""], f"{what}. Change one.")
    what = f"{what}, for the words of {{words}} alone are counted there. Change one."
    yield from _of_rows(same[same["counted"] != ""], what)


def _column_faults(parsed: Parsed) -> Iterator[str]:
    """Of columns that the declaration names."""
    known = {*own_columns(parsed.prompts), "template"}
    if parsed.faults:  # of tables that could not be read
        known |= {column for table in parsed.tables.values() for column in table} | {
            "words",
            "condition",
        }
    declared = parsed.declared
    named = {
        "random": [*declared.design.random],
        "fixed": [*declared.design.fixed],
        "slices": [one.column for one in declared.shows.slices],
    }
    for key, names in named.items():
        for name in names:
            column = column_of(name, is_ranking=CVS in parsed.tables)
            where = parsed.line(key, name)
            if column not in known:
                hint = (
                    did_you_mean(name, sorted(known - {"text", "group", "pair_id"}))
                    or " Correct it."
                )
                yield f"{where}: {key} names the column {shown(name)}, and no table has it.{hint}"
            elif not parsed.faults and column not in constant_columns(parsed.prompts, [column]):
                yield f"{where}: {shown(name)} differs within a pair, expected one value. Take it out."
            elif key == "fixed" and name in declared.design.random:
                yield f"{where}: {shown(name)} stands in random and in fixed. Take it out of one."
            elif key == "fixed" and column == "pair_id":
                yield f"{where}: fixed names the pairs, and every interval is about other pairs too. Take it out."


def warnings(parsed: Parsed) -> Iterator[str]:
    """Texts with blanks at their ends, pairs that share almost nothing."""
    texts = parsed.prompts["text"].astype(str)
    ends = parsed.prompts["where"][texts != texts.str.strip()]
    if len(ends):
        counted = f"{len(ends):,} texts begin or end" if len(ends) > 1 else "A text begins or ends"
        yield f"{ends.iloc[0]}: {counted} with blanks, which models read too. Remove those that should not be there."
    if found := list(
        islice(_unlike_pairs(parsed.prompts), 21)
    ):  # so many are looked for, and five are named
        rest = (
            f"; {len(found) - 5}{' or more' if len(found) > 20 else ''} others"
            if len(found) > 5
            else ""
        )
        why = "A gap between them does not come from the swapped words. Check the pairs."
        yield f"Texts of one pair share almost nothing: {'; '.join(found[:5])}{rest}. {why}"


def _unlike_pairs(prompts: pd.DataFrame) -> Iterator[str]:
    """Where texts of a pair stand that share hardly a word and, unlike "doctor" and "doctora", hardly a letter."""
    first = prompts.groupby("unit", sort=False)[["where", "text"]].transform("first")
    rows = zip(
        prompts["text"],
        prompts["where"],
        first["text"],
        first["where"],
        prompts["pair_id"],
        strict=True,
    )
    for text, where, other, before, pair in (row for row in rows if row[0] != row[2]):
        one = text.lower()
        two = other.lower()
        words = set(_WORD.findall(one))
        others = set(_WORD.findall(two))
        fewest = min(len(words), len(others))
        unlike = fewest >= 3 and len(words & others) < fewest / 4
        if unlike and SequenceMatcher(None, one[:200], two[:200], autojunk=False).ratio() < 0.5:
            yield f"{' and '.join(dict.fromkeys((before, where)))} (pair {shown(pair)})"
