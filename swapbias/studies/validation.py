"""Check a user's own study: the faults for which an audit refuses it, and advice on what may bend its numbers."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain, islice
from typing import Any

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
_RECOMMENDED_WORDINGS = 5  # of each template, as in the studies of the package
_ARTICLE = re.compile(r"\b([Aa]n?) ([A-Za-z][\w'-]*)")
_AN = re.compile(r"[aeio]|u(?!ni|s[aeiu]|t[aei]|r[aeiou]|k|rani)|hour|honest|honou?r|heir", re.IGNORECASE)
_A_AFTER_ALL = re.compile(r"(one|once|eu|ewe|uni(?!n|m))", re.IGNORECASE)
# Of two texts that are no pair, fewer than a quarter of the words of the shorter are in the other, and less than half
# of the letters match (difflib): "El doctor cansado" and "La doctora cansada" share no word and most letters.
_SHARED_WORDS, _SHARED_LETTERS = 1 / 4, 0.5
_FEW_WORDS = 3  # of shorter texts the swapped words may be all
_COMPARED = 200  # letters of each text
_MOST_UNLIKE, _NAMED_UNLIKE = 20, 5  # pairs that are looked for, and those that are named
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")  # Chinese and Japanese have no blanks between words

# --- faults -------------------------------------------------------------------------------------------


def faults(parsed: Parsed) -> list[str]:
    """Everything for which an audit refuses a study, a sentence each with file and line; nothing of what follows."""
    prompts = parsed.prompts  # whose making may find faults of templates
    found = [*parsed.wrong.values(), *parsed.faults]
    whole = not parsed.faults and not parsed.wrong.keys() & {"", "groups", "reference"}
    if whole and len(prompts):
        found += _group_faults(parsed)
    else:
        found += _reference_faults(parsed, parsed.declared.groups)
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
        what = f"The reference {shown(reference)} is none of {_names(groups)}"
        yield f"{parsed.line('reference')}: {what}. Correct {how}."
    columns = list(parsed.table(PROMPTS))
    for one in ("group", "pair") if columns else ():
        if one not in columns and not ("group" not in columns and parsed.labels):
            yield f"{PROMPTS}:1: column {one!r} is missing, found {', '.join(columns)}. Add it."
    # Where words alone name groups, only the spelling of one that nothing compares is looked at.
    words_only = known == parsed.labels
    compared = groups if words_only else known
    words = parsed.table(LEXICON).get("group", pd.Series(dtype=object)) if len(parsed.labels) > 1 else pd.Series()
    for line, name in words[~words.isin(compared)].items():
        if not words_only or did_you_mean(name, compared):
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


def _of_rows(rows: pd.DataFrame, fault: Callable[[Any], str]) -> Iterator[str]:
    return first_few(dict.fromkeys(f"{row.where}: {fault(row)}" for row in rows.itertuples()))


def _text_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    text = prompts["text"].astype(str)
    where = f"{LEXICON} has no words of {{}}" if parsed.labels else "no words are given to count there"
    how = f"Add {LEXICON} (-M lexicon) or a column candidates."
    checks: tuple[tuple[pd.Series, Callable[[Any], str]], ...] = (
        (
            text.map(slots).astype(bool),
            lambda row: (
                f"the slot [{slots(row.text)[0]}] is not filled. Put a word there, or take the brackets away."
            ),
        ),
        (
            text.str.upper().str.contains("[MASK]", regex=False),
            lambda row: f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK].",
        ),
        (
            text.str.count(MASK) > 1,
            lambda row: f"{row.text.count(MASK)} times {MASK}, expected one at most. Split the text.",
        ),
        (
            prompts["masked"] & (prompts["counted"] == ""),
            lambda row: f"the text holds {MASK} and {where.format(shown(row.group))}. {how}",
        ),
    )
    for wrong, sentence in checks:
        yield from _of_rows(prompts[wrong], sentence)
    kinds, masked = set(parsed.declared.kind), prompts["masked"].any()
    if kinds and not (masked and "masked" in kinds) and not (kinds - {"masked"} and not prompts["masked"].all()):
        yield f"{parsed.line('kind')}: no text can be read by a model of kind {', '.join(sorted(kinds))}. Change it."


def _pair_faults(parsed: Parsed) -> Iterator[str]:
    """Of each pair, in each of its wordings."""
    prompts, groups = parsed.prompts, parsed.groups
    first_of_group = prompts.groupby(["unit", "group"], sort=False)["where"].transform("first")
    again = prompts.assign(before=first_of_group)[prompts.duplicated(["unit", "group"])]
    what = "already in {0.before}. Remove one."
    yield from _of_pairs(again, lambda row: f"has group {shown(row.group)} {what.format(row)}")
    units = prompts.drop_duplicates("unit").set_index("unit")
    compared = prompts[prompts["group"].isin(groups)].drop_duplicates(["unit", "group"])
    has = pd.crosstab(compared["unit"], compared["group"]).reindex(units.index, columns=groups, fill_value=0) > 0
    why = "Add it, so that the groups are balanced."
    for group in sorted(groups):
        yield from _of_pairs(units[~has[group]], f"has no row of {shown(group)}. {why}")
    by_unit = compared.groupby("unit", sort=False)
    mixed = (by_unit["masked"].nunique() > 1).reindex(units.index, fill_value=False)
    yield from _of_pairs(units[mixed], f"holds {MASK} in one text and not in another. Write both alike.")
    differ = compared.drop_duplicates(["unit", "text", "counted"]).groupby("unit", sort=False).size()
    same = units[((differ == 1) & (by_unit.size() > 1)).reindex(units.index, fill_value=False)]
    what = "has the same text in every group: nothing is swapped"
    yield from _of_pairs(same[same["counted"] == ""], f"{what}. Change one.")
    yield from _of_pairs(
        same[same["counted"] != ""],
        lambda row: f"{what}, for the words of {shown(row.counted)} alone are counted there. Change one.",
    )


def _of_pairs(rows: pd.DataFrame, fault: str | Callable[[Any], str]) -> Iterator[str]:
    def named(row: Any) -> str:
        wording = f" in wording {shown(row.wording)}" if row.wording else ""
        return f"pair {shown(row.pair_id)}{wording} {fault if isinstance(fault, str) else fault(row)}"

    return _of_rows(rows, named)


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
    parts = (warnings(parsed), _of_texts(parsed), _of_masks(parsed), _of_wordings(parsed))
    return list(dict.fromkeys(chain(*parts)))


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
    yield from _unlike_pairs(parsed)


def _unlike_pairs(parsed: Parsed) -> Iterator[str]:
    """A sentence that names the rows of pairs whose texts share almost nothing."""
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


def article_is_wrong(article: str, word: str) -> bool:
    """Whether "a" or "an" does not go with a word, by its letters; of a word in capitals nobody can tell.

    >>> [article_is_wrong("a", one) for one in ("engineer", "university", "hour", "nurse", "MRI")]
    [True, False, True, False, False]
    """
    if word.isupper():
        return False
    wants_an = bool(_AN.match(word)) and not _A_AFTER_ALL.match(word)
    return wants_an != (article.lower() == "an")


def _of_texts(parsed: Parsed) -> Iterator[str]:
    """Articles that do not go with what follows, once a template; texts that stand twice."""
    prompts = parsed.prompts
    for where, texts in prompts.groupby("where", sort=False)["text"]:
        for article, word in dict.fromkeys(found for text in texts for found in _ARTICLE.findall(text)):
            if article_is_wrong(article, word):
                better = "a" if article.lower() == "an" else "an"
                yield f"{where}: '{article} {word}', expected '{better} {word}'. Write it into the value."
    keys = ["text", "group", "counted"]
    first = prompts.groupby(keys, sort=False)["where"].transform("first")
    for row in prompts.assign(before=first)[prompts.duplicated(keys)].drop_duplicates("where").itertuples():
        before = "the same line" if row.before == row.where else row.before
        yield f"{row.where}: the text stands in {before} already: pairs of the same texts count once. Remove one."


def _of_masks(parsed: Parsed) -> Iterator[str]:
    """Articles before a mask favour words by their first letter; words that no token can be."""
    prompts, words = parsed.prompts, parsed.table(LEXICON).get("word", {})
    if len({article_is_wrong("a", word) for _, word in words.items()}) > 1:
        for where in prompts["where"][prompts["text"].str.contains(rf"\b[Aa]n? {MASK}").astype(bool)].unique():
            yield f"{where}: the article before {MASK} favours words by their first letter. Put it elsewhere."
    for line, word in words.items():
        if not re.fullmatch(r"[^\W_]+(['’][^\W_]+)?", word):
            yield f"{LEXICON}:{line}: {word!r} is no single word and can never be counted. Replace it."


def _of_wordings(parsed: Parsed) -> Iterator[str]:
    if TEMPLATES not in parsed.tables:
        yield f"{PROMPTS}: there are no other wordings of the texts, and nothing tells whether a gap hangs on them."
        return
    reworded = set(parsed.table(WORDINGS).get("template_id", ()))
    for line, name in parsed.templates["template_id"].items():
        if name not in reworded:
            yield (
                f"{TEMPLATES}:{line}: template {name} has no other wording in {WORDINGS}: nothing tells whether a "
                f"gap hangs on its words. Add some; the studies of the package have {_RECOMMENDED_WORDINGS}."
            )
