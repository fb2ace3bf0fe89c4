"""Check a user's own study: the faults for which an audit refuses it, and advice on what may bend its numbers."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice

import pandas as pd

from swapbias.errors import quoted
from swapbias.studies.parsed import (
    LEXICON,
    PROMPTS,
    SLOTS,
    TEMPLATES,
    WORDINGS,
    Parsed,
    constant_columns,
    first_few,
    shown,
)
from swapbias.studies.prompt import MASK, slots
from swapbias.studies.study import did_you_mean

_MOST_GROUPS = 10  # that one sentence names
_ARTICLE = re.compile(r"\b([Aa]n?) ([A-Za-z][\w'-]*)")
_AN = re.compile(r"[aeio]|u(?!ni|s[aeiu]|t[aei]|r[aeiou]|k|rani)|hour|honest|honou?r|heir", re.IGNORECASE)
_A_AFTER_ALL = re.compile(r"(one|once|eu|ewe|uni(?!n|m))", re.IGNORECASE)
_MOST_UNLIKE, _NAMED_UNLIKE = 20, 5  # pairs that are looked for, and those that are named
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")  # Chinese and Japanese have no blanks between words

# --- faults -------------------------------------------------------------------------------------------


def faults(parsed: Parsed) -> list[str]:
    """Everything for which an audit refuses a study, a sentence each with file and line; nothing of what follows."""
    prompts = parsed.prompts  # whose making may find faults of templates
    found = [*parsed.wrong.values(), *parsed.faults]
    whole = len(prompts) > 0 and not parsed.faults and not parsed.wrong.keys() & {"", "groups", "reference"}
    found += _group_faults(parsed) if whole else _reference_faults(parsed, parsed.declared.groups)
    if len(prompts):
        found += _text_faults(parsed)
        found += _pair_faults(parsed) if whole else ()
        found += _column_faults(parsed)
    return list(dict.fromkeys(found))


def _group_faults(parsed: Parsed) -> Iterator[str]:
    groups, known, reference = parsed.groups, parsed.group_names, parsed.declared.reference
    for name in parsed.declared.groups:
        if known and name not in (*known, reference):
            yield f"{parsed.line('groups', name)}: The group {_none_of(name, known)}"
    yield from _reference_faults(parsed, known)
    how = "--reference (in a folder: reference = ... in study.toml)"
    if len(groups) < 2:
        table = PROMPTS if PROMPTS in parsed.tables else SLOTS
        yield f"{table}: the groups are {_names(groups)}, expected two or more. Add rows of another."
    elif not reference:
        yield f"The groups are {_names(groups)}, and none is the reference. Name it with {how}."
    elif reference not in groups and reference in known:
        yield f"{parsed.line('reference')}: The reference {_none_of(reference, groups)}"
    columns = list(parsed.table(PROMPTS))
    for one in ("group", "pair") if columns else ():
        if one not in columns and not ("group" not in columns and parsed.labels):
            yield f"{PROMPTS}:1: column {one!r} is missing, found {', '.join(columns)}. Add it."
    # Where words alone name groups, only the spelling of one that nothing compares is looked at.
    words_only = known == parsed.labels
    compared = groups if words_only else known
    for line, name in parsed.table(LEXICON).get("group", pd.Series()).items() if len(parsed.labels) > 1 else ():
        if name not in compared and (not words_only or did_you_mean(name, compared)):
            yield f"{LEXICON}:{line}: group {_none_of(name, compared)}"


def _reference_faults(parsed: Parsed, known: Sequence[str]) -> Iterator[str]:
    name = parsed.declared.reference
    if name and known and name not in known:
        yield f"{parsed.line('reference')}: The reference {_none_of(name, known)}"


def _none_of(name: str, known: Sequence[str]) -> str:
    return f"{shown(name)} is none of {_names(known)}.{did_you_mean(name, known) or ' Correct it.'}"


def _names(groups: Sequence[str]) -> str:
    names = [one if shown(one) == quoted(one) else shown(one) for one in groups]
    more = len(names) - _MOST_GROUPS
    return (", ".join(names[:_MOST_GROUPS]) or "none") + (f" and {more} more" if more > 0 else "")


def _of_rows(rows: pd.DataFrame, sentence: str) -> Iterator[str]:
    """The sentence about each of the prompts, with its pair, group, words, slot and number of masks filled in."""
    found = {}
    for row in rows.to_dict("records"):
        wording = f" in wording {shown(row['wording'])}" if row["wording"] else ""
        what = sentence.format(
            pair=f"pair {shown(row['pair_id'])}{wording}", group=shown(row["group"]), words=shown(row["counted"]),
            slot=next(iter(slots(row["text"])), ""), masks=row["text"].count(MASK), before=row.get("before"),
        )  # fmt: skip
        found[f"{row['where']}: {what}"] = None
    return first_few(found)


def _text_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    text, masked = prompts["text"].astype(str), prompts["masked"]
    what = "is not filled. Put a word there, or take the brackets away."
    yield from _of_rows(prompts[text.map(slots).astype(bool)], f"the slot [{{slot}}] {what}")
    what = f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK]."
    yield from _of_rows(prompts[text.str.upper().str.contains("[MASK]", regex=False)], what)
    what = f"{{masks}} times {MASK}, expected one at most. Split the text."
    yield from _of_rows(prompts[text.str.count(MASK) > 1], what)
    what = f"{LEXICON} has no words of {{group}}" if parsed.labels else "no words are given to count there"
    what = f"the text holds {MASK} and {what}. Add {LEXICON} (-M lexicon) or a column candidates."
    yield from _of_rows(prompts[masked & (prompts["counted"] == "")], what)
    kinds = set(parsed.declared.kind)
    if kinds and not ("masked" in kinds and masked.any()) and not (kinds - {"masked"} and not masked.all()):
        yield f"{parsed.line('kind')}: no text can be read by a model of kind {', '.join(sorted(kinds))}. Change it."


def _pair_faults(parsed: Parsed) -> Iterator[str]:
    """Of each pair, in each of its wordings."""
    prompts, groups = parsed.prompts, parsed.groups
    first = prompts.groupby(["unit", "group"], sort=False)["where"].transform("first")
    again = prompts.assign(before=first)[prompts.duplicated(["unit", "group"])]
    yield from _of_rows(again, "{pair} has group {group} already in {before}. Remove one.")
    units = prompts.drop_duplicates("unit").set_index("unit")
    compared = prompts[prompts["group"].isin(groups)].drop_duplicates(["unit", "group"])
    for group in sorted(groups):
        lacking = units[~units.index.isin(compared["unit"][compared["group"] == group])].assign(group=group)
        yield from _of_rows(lacking, "{pair} has no row of {group}. Add it, so that the groups are balanced.")
    by_unit = compared.groupby("unit", sort=False)
    mixed = units[(by_unit["masked"].nunique() > 1).reindex(units.index, fill_value=False)]
    yield from _of_rows(mixed, f"{{pair}} holds {MASK} in one text and not in another. Write both alike.")
    differ = compared.drop_duplicates(["unit", "text", "counted"]).groupby("unit", sort=False).size()
    same = units[((differ == 1) & (by_unit.size() > 1)).reindex(units.index, fill_value=False)]
    what = "{pair} has the same text in every group: nothing is swapped"
    yield from _of_rows(same[same["counted"] == ""], f"{what}. Change one.")
    what = f"{what}, for the words of {{words}} alone are counted there. Change one."
    yield from _of_rows(same[same["counted"] != ""], what)


def _column_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    headers = {one for table in parsed.tables.values() for one in table} | {"words", "condition"}
    known = {*prompts, *(headers if parsed.faults else ())} - {"text", "group"}
    for key in ("random", "slices"):
        for column in getattr(parsed.declared, key):
            where, name = parsed.line(key, column), "pair_id" if column == "pair" else column
            if name not in known:
                yield f"{where}: {key} names the column {shown(column)}, and no table has it. Correct it."
            elif not parsed.faults and name not in constant_columns(prompts, [name]):
                yield f"{where}: {shown(column)} differs within a pair, expected one value. Take it out."


# --- advice -------------------------------------------------------------------------------------------


def advice(parsed: Parsed) -> list[str]:
    """What an audit does not refuse and what may bend the numbers, a sentence each."""
    return list(dict.fromkeys([*warnings(parsed), *_of_texts(parsed), *_of_words(parsed), *_of_wordings(parsed)]))


def warnings(parsed: Parsed) -> Iterator[str]:
    """Groups that are written nearly alike, texts with blanks at their ends, pairs that share almost nothing."""
    alike: dict[str, list[str]] = {}
    for group in dict.fromkeys((*parsed.group_names, *parsed.labels)):
        alike.setdefault(unicodedata.normalize("NFKC", group).casefold(), []).append(group)
    for names in alike.values():
        if len(names) > 1:  # with codes for letters that may look alike
            plain = (shown(one) if unicodedata.is_normalized("NFKC", one) else ascii(one) for one in names)
            yield f"{' and '.join(plain)} are {len(names)} groups, written nearly alike. Write a group in one way."
    texts = parsed.prompts["text"].astype(str)
    ends = parsed.prompts["where"][texts != texts.str.strip()]
    if len(ends):
        counted = f"{len(ends):,} texts begin or end" if len(ends) > 1 else "A text begins or ends"
        yield f"{ends.iloc[0]}: {counted} with blanks, which models read too. Remove those that should not be there."
    if found := list(islice(_unlike_pairs(parsed.prompts), _MOST_UNLIKE + 1)):
        more = len(found) - _NAMED_UNLIKE
        rest = f"; {more}{' or more' if len(found) > _MOST_UNLIKE else ''} others" if more > 0 else ""
        why = "A gap between them does not come from the swapped words. Check the pairs."
        yield f"Texts of one pair share almost nothing: {'; '.join(found[:_NAMED_UNLIKE])}{rest}. {why}"


def _unlike_pairs(prompts: pd.DataFrame) -> Iterator[str]:
    """Where texts of a pair stand that share almost nothing.

    Fewer than a quarter of the words of the shorter are in the other, and less than half of the letters match: "El
    doctor cansado" and "La doctora cansada" share no word and most letters. Of fewer than three words all may differ.
    """
    first = prompts.groupby("unit", sort=False)[["where", "text"]].transform("first")
    rows = zip(prompts["text"], prompts["where"], first["text"], first["where"], prompts["pair_id"], strict=True)
    for text, where, other, before, pair in (row for row in rows if row[0] != row[2]):
        one, two = text.lower(), other.lower()
        words, others = set(_WORD.findall(one)), set(_WORD.findall(two))
        fewest = min(len(words), len(others))
        unlike = fewest >= 3 and len(words & others) < fewest / 4
        if unlike and SequenceMatcher(None, one[:200], two[:200], autojunk=False).ratio() < 0.5:
            yield f"{' and '.join(dict.fromkeys((before, where)))} (pair {shown(pair)})"


def article_is_wrong(article: str, word: str) -> bool:
    """Whether "a" or "an" does not go with a word, by its letters; of a word in capitals nobody can tell.

    >>> [article_is_wrong("a", one) for one in ("engineer", "university", "hour", "nurse", "MRI")]
    [True, False, True, False, False]
    """
    wants_an = bool(_AN.match(word)) and not _A_AFTER_ALL.match(word)
    return not word.isupper() and wants_an != (article.lower() == "an")


def _of_texts(parsed: Parsed) -> Iterator[str]:
    """Articles that do not go with what follows, once a template; texts that stand twice."""
    prompts = parsed.prompts
    for where, texts in prompts.groupby("where", sort=False)["text"]:
        for article, word in dict.fromkeys(found for text in texts for found in _ARTICLE.findall(text)):
            if article_is_wrong(article, word):
                better = "a" if article.lower() == "an" else "an"
                yield f"{where}: '{article} {word}', expected '{better} {word}'. Write it into the value."
    keys = ["text", "group", "counted"]
    again = prompts.assign(before=prompts.groupby(keys, sort=False)["where"].transform("first"))
    for row in again[prompts.duplicated(keys)].drop_duplicates("where").itertuples():
        before = "the same line" if row.before == row.where else row.before
        yield f"{row.where}: the text stands in {before} already: pairs of the same texts count once. Remove one."


def _of_words(parsed: Parsed) -> Iterator[str]:
    """Articles before a mask favour words by their first letter; words that no token can be."""
    prompts, words = parsed.prompts, parsed.table(LEXICON).get("word", pd.Series())
    if len({article_is_wrong("a", word) for word in words}) > 1:
        for where in prompts["where"][prompts["text"].str.contains(rf"\b[Aa]n? {MASK}").astype(bool)].unique():
            yield f"{where}: the article before {MASK} favours words by their first letter. Put it elsewhere."
    for line, word in words.items():
        if not re.fullmatch(r"[^\W_]+(['’][^\W_]+)?", word):
            yield f"{LEXICON}:{line}: {word!r} is no single word and can never be counted. Replace it."


def _of_wordings(parsed: Parsed) -> Iterator[str]:
    if TEMPLATES not in parsed.tables:
        yield f"{PROMPTS}: there are no other wordings of the texts, and nothing tells whether a gap hangs on them."
        return
    for line, name in parsed.templates["template_id"].items():
        if name not in set(parsed.table(WORDINGS).get("template_id", ())):
            what = f"{TEMPLATES}:{line}: template {name} has no other wording in {WORDINGS}"
            why = "nothing tells whether a gap hangs on its words"
            yield f"{what}: {why}. Add some; the studies of the package have 5."
