"""Find errors in a user's own study, for which an audit refuses it, and warn of texts that may distort results."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice

import pandas as pd

from swapbias.errors import did_you_mean, quoted
from swapbias.studies.own.factors import column_of, constant_columns, own_columns
from swapbias.studies.own.own_declaration import quote_name
from swapbias.studies.own.own_files import CVS, LEXICON, PROMPTS, SLOTS
from swapbias.studies.own.own_prompts import Parsed
from swapbias.studies.own.own_tables import table_column
from swapbias.studies.own.searches import control_advice, search_faults
from swapbias.studies.own.shared_fills import shared_fills, shared_names
from swapbias.studies.prompt import MASK, slots

# Chinese and Japanese have no blanks between words: each letter is one.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")
_MOST_NAMED = 10  # groups that a sentence names
_MOST_UNLIKE = 20  # pairs that share almost nothing, of which more are not searched
_UNLIKE_NAMED = 5  # pairs that share almost nothing, as a warning names them
_COMPARED_LETTERS = 200  # first letters of the two texts of a pair, by which they are compared


def find_faults(parsed: Parsed) -> list[str]:
    """List every error for which an audit refuses a study, without errors that another one causes.

    Args:
        parsed: the files of the study.

    Returns:
        A sentence each, with file and line.
    """
    sentences = [*parsed.declaration_faults.values(), *parsed.table_faults]
    has_prompts = len(parsed.prompts) > 0
    # A blank key: the declaration could not be read at all.
    group_keys = {"", "groups", "reference"}
    declares_groups = not parsed.declaration_faults.keys() & group_keys
    is_whole = has_prompts and not parsed.table_faults and declares_groups
    sentences += _group_faults(parsed, is_whole=is_whole)
    line = parsed.line("decisions")
    sentences += [f"{line}: {sentence}" for sentence in parsed.declared.decision_faults()]
    if has_prompts:
        sentences += _text_faults(parsed)
        if is_whole:
            sentences += _pair_faults(parsed)
        sentences += _column_faults(parsed)
        sentences += _name_faults(parsed)
        sentences += search_faults(parsed)
    sentences += shared_names(parsed)
    if is_whole and not sentences:
        sentences += shared_fills(parsed)
    return list(dict.fromkeys(sentences))


# --- groups ---------------------------------------------------------------------------------------------


def _group_faults(parsed: Parsed, *, is_whole: bool) -> Iterator[str]:
    """Find wrong names of groups; unless ``is_whole``, other errors may hide groups, and fewer names are checked."""
    names = parsed.group_names
    if not is_whole:
        names = tuple(dict.fromkeys((*parsed.declared.compares.groups, *parsed.group_names)))
    yield from _declared_group_faults(parsed, names, is_whole=is_whole)
    if is_whole:
        yield from _case_faults(names)
        yield from _comparison_faults(parsed, names)
        yield from _prompt_column_faults(parsed)
        yield from _lexicon_group_faults(parsed, names)


def _declared_group_faults(
    parsed: Parsed, names: Sequence[str], *, is_whole: bool
) -> Iterator[str]:
    """Find groups of the declaration that no table has."""
    reference = parsed.declared.compares.reference
    for group in parsed.declared.compares.groups:
        if names and group not in (*names, reference):
            yield f"{parsed.line('groups', group)}: The group {_is_none_of(group, names)}"
    # Rows that could not be read may have the reference, but not where it is nearly the name of another group.
    is_wrong = reference not in names and (is_whole or bool(did_you_mean(reference, names)))
    if reference and names and is_wrong:
        yield f"{parsed.line('reference')}: The reference {_is_none_of(reference, names)}"


def _case_faults(names: Sequence[str]) -> Iterator[str]:
    """Find groups that differ only by case."""
    by_form: dict[str, str] = {}
    for name in names:
        earlier = by_form.setdefault(name.casefold(), name)
        if earlier != name:
            yield (
                f"The groups {quote_name(earlier)} and {quote_name(name)} differ by case alone. "
                "Write both alike."
            )


def _comparison_faults(parsed: Parsed, names: Sequence[str]) -> Iterator[str]:
    """Find too few groups, and a reference that is missing or none of those that are compared."""
    groups = parsed.groups
    reference = parsed.declared.compares.reference
    if len(groups) < 2:
        table = PROMPTS if PROMPTS in parsed.tables else SLOTS
        yield (
            f"{table}: the groups are {_list_groups(groups)}, expected two or more. "
            "Add rows of another."
        )
    elif not reference:
        yield (
            f"The groups are {_list_groups(groups)}, and none is the reference. "
            "Name it with --reference (in a folder: reference = ... in study.toml)."
        )
    elif reference not in groups and reference in names:
        yield f"{parsed.line('reference')}: The reference {_is_none_of(reference, groups)}"


def _prompt_column_faults(parsed: Parsed) -> Iterator[str]:
    """Find the columns group and pair where a table of prompts lacks them; a lexicon's groups stand in for both."""
    columns = list(parsed.tables.get(PROMPTS, ()))
    if not columns or ("group" not in columns and parsed.labels):
        return
    for column in ("group", "pair"):
        if column not in columns:
            yield f"{PROMPTS}:1: column {column!r} is missing, found {', '.join(columns)}. Add it."


def _lexicon_group_faults(parsed: Parsed, names: Sequence[str]) -> Iterator[str]:
    """Find groups of words that are none of those that are compared."""
    if len(parsed.labels) < 2:
        return
    # Where words alone name groups, only the spelling of one that nothing compares is looked at.
    words_only = names == parsed.labels  # no table has a column of groups
    compared = parsed.groups if words_only else names
    for line, group in table_column(parsed.tables, LEXICON, "group").items():
        if group not in compared and (not words_only or did_you_mean(group, compared)):
            yield f"{LEXICON}:{line}: group {_is_none_of(group, compared)}"


def _is_none_of(name: str, groups: Sequence[str]) -> str:
    """Write the end of a sentence about a name that is none of the groups."""
    hint = did_you_mean(name, groups) or " Correct it."
    return f"{quote_name(name)} is none of {_list_groups(groups)}.{hint}"


def _list_groups(groups: Sequence[str]) -> str:
    """List groups for a sentence: ten by name, the others by their number."""
    names = [group if quote_name(group) == quoted(group) else quote_name(group) for group in groups]
    if not names:
        return "none"
    first = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        return f"{first} and {len(names) - _MOST_NAMED} more"
    return first


# --- prompts --------------------------------------------------------------------------------------------


def _describe_rows(prompts: pd.DataFrame, template: str) -> Iterator[str]:
    """Fill a template of ``str.format`` for the first prompt of each line: pair, group, words, slot, masks."""
    for prompt in prompts.drop_duplicates("where").to_dict("records"):
        pair = f"pair {quote_name(prompt['pair_id'])}"
        if prompt["wording"]:
            pair = f"{pair} in wording {quote_name(prompt['wording'])}"
        text = template.format(
            pair=pair,
            group=quote_name(prompt["group"]),
            words=quote_name(prompt["counted"]),
            slot=next(iter(slots(prompt["text"])), ""),
            masks=prompt["text"].count(MASK),
            before=prompt.get("before"),
        )
        yield f"{prompt['where']}: {text}"


def _text_faults(parsed: Parsed) -> Iterator[str]:
    """Find slots that are not filled, masks that are wrong, and texts that no declared model reads."""
    prompts = parsed.prompts
    texts = prompts["text"].astype(str)
    masked = prompts["masked"]
    yield from _describe_rows(
        prompts[texts.map(slots).astype(bool)],
        "the slot [{slot}] is not filled. Put a word there, or take the brackets away.",
    )
    yield from _describe_rows(
        prompts[texts.str.upper().str.contains("[MASK]", regex=False)],
        f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK].",
    )
    yield from _describe_rows(
        prompts[texts.str.count(MASK) > 1],
        f"{{masks}} times {MASK}, expected one at most. Split the text.",
    )
    reason = "no words are given to count there"
    if parsed.labels:
        reason = f"{LEXICON} has no words of {{group}}"
    yield from _describe_rows(
        prompts[masked & (prompts["counted"] == "")],
        f"the text contains {MASK} and {reason}. Add {LEXICON} (-M lexicon) or a column candidates.",
    )
    kinds = set(parsed.declared.kind)
    reads_masks = "masked" in kinds and masked.any()
    reads_texts = bool(kinds - {"masked"}) and not masked.all()
    if kinds and not reads_masks and not reads_texts:
        names = ", ".join(sorted(kinds))
        yield f"{parsed.line('kind')}: no text can be read by a model of kind {names}. Change it."


def _pair_faults(parsed: Parsed) -> Iterator[str]:
    """Find pairs, in each of their wordings, that have a group twice or not, or in which nothing is swapped."""
    prompts = parsed.prompts
    first = prompts.groupby(["unit", "group"], sort=False)["where"].transform("first")
    repeated = prompts.assign(before=first)[prompts.duplicated(["unit", "group"])]
    yield from _describe_rows(repeated, "{pair} has group {group} already in {before}. Remove one.")
    units = prompts.drop_duplicates("unit")
    compared = prompts[prompts["group"].isin(parsed.groups)].drop_duplicates(["unit", "group"])
    yield from _missing_group_faults(parsed, units, compared)
    yield from _swap_faults(units, compared)


def _missing_group_faults(
    parsed: Parsed, units: pd.DataFrame, compared: pd.DataFrame
) -> Iterator[str]:
    """Find pairs that lack a group; a group whose name is misspelled is skipped, as another error names it."""
    for group in sorted({*parsed.groups}):
        if group not in parsed.group_names and did_you_mean(group, parsed.group_names):
            continue
        with_group = compared["unit"][compared["group"] == group]
        lacking = units[~units["unit"].isin(with_group)].assign(group=group)
        yield from _describe_rows(
            lacking, "{pair} has no row of {group}. Add it, so that the groups are balanced."
        )


def _swap_faults(units: pd.DataFrame, compared: pd.DataFrame) -> Iterator[str]:
    """Find pairs with a mask in only one text, and pairs in which nothing is swapped."""
    reads = compared.assign(shown_to_model=compared["text"] + "\n" + compared["counted"])
    counts = reads.groupby("unit")[["group", "masked", "shown_to_model"]].nunique()
    counts = counts.reindex(units["unit"], fill_value=1).set_axis(units.index)
    yield from _describe_rows(
        units[counts["masked"] > 1],
        f"{{pair}} contains {MASK} in one text and not in another. Write both alike.",
    )
    same = units[(counts["shown_to_model"] == 1) & (counts["group"] > 1)]
    yield from _describe_rows(
        same[same["counted"] == ""],
        "{pair} has the same text in every group: nothing is swapped. Change one.",
    )
    yield from _describe_rows(
        same[same["counted"] != ""],
        "{pair} has the same text in every group: nothing is swapped, "
        "for the words of {words} alone are counted there. Change one.",
    )


# --- names ----------------------------------------------------------------------------------------------


def _name_faults(parsed: Parsed) -> Iterator[str]:
    """Find prompts of token classifiers that do not say which name to find, or in whose text it is not."""
    if "tagger" not in parsed.declared.kind:
        return
    prompts = parsed.prompts[~parsed.prompts["masked"].astype(bool)]
    unnamed = prompts[prompts["inserted"] == ""]
    if len(unnamed):
        yield (
            f"{unnamed['where'].iloc[0]}: kind names tagger, and nothing says which name to find. "
            f"Add a slot [name], or a column name to {PROMPTS}."
        )
        return
    columns = prompts[["where", "inserted", "text"]]
    for line, name, text in columns.itertuples(index=False):
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
            yield f"{line}: the name {quote_name(name)} is not in the text. Correct one of them."


# --- columns --------------------------------------------------------------------------------------------


def _column_faults(parsed: Parsed) -> Iterator[str]:
    """Find columns in random, fixed or slices that no table has, that vary within a pair, or that contradict."""
    columns = {*own_columns(parsed.prompts), "template"}
    if parsed.table_faults:
        # Tables that could not be read made no prompts: any column that they have may be right.
        columns |= {column for table in parsed.tables.values() for column in table}
        columns |= {"words", "condition"}
    design = parsed.declared.design
    names_by_key = {
        "random": [*design.random],
        "fixed": [*design.fixed],
        "slices": [part.column for part in parsed.declared.shows.slices],
    }
    for key, names in names_by_key.items():
        for name in names:
            fault = _column_fault(parsed, columns, key, name)
            if fault:
                yield f"{parsed.line(key, name)}: {fault}"
    for name in parsed.declared.shows.categories.values():
        if name not in columns | {"group"}:
            yield f"{parsed.line('categories', name)}: {_unknown_column('categories', name, columns)}"


def _unknown_column(key: str, name: str, columns: set[str]) -> str:
    """Write that a key of the declaration names a column that no table has."""
    near = did_you_mean(name, sorted(columns - {"text", "group", "pair_id"}))
    return (
        f"{key} names the column {quote_name(name)}, and no table has it.{near or ' Correct it.'}"
    )


def _column_fault(parsed: Parsed, columns: set[str], key: str, name: str) -> str:
    """Write what is wrong with a column that a key of the declaration names; blank where nothing is."""
    column = column_of(name, is_ranking=CVS in parsed.tables)
    if column not in columns:
        return _unknown_column(key, name, columns)
    if not parsed.table_faults and column not in constant_columns(parsed.prompts, [column]):
        return f"{quote_name(name)} differs within a pair, expected one value. Take it out."
    if key == "fixed" and name in parsed.declared.design.random:
        return f"{quote_name(name)} is in both random and fixed. Remove it from one."
    # Pairs are always random: an interval generalises to other pairs.
    if key == "fixed" and column == "pair_id":
        return "fixed names the pairs, and every interval is about other pairs too. Take it out."
    return ""


# --- advice ---------------------------------------------------------------------------------------------


def find_warnings(parsed: Parsed) -> Iterator[str]:
    """Find texts with blanks at their ends, pairs that share almost nothing, and searches without a control.

    Args:
        parsed: the files of a study without faults.

    Yields:
        A sentence each.
    """
    texts = parsed.prompts["text"].astype(str)
    ends = parsed.prompts["where"][texts != texts.str.strip()]
    if len(ends):
        subject = "A text begins or ends"
        if len(ends) > 1:
            subject = f"{len(ends):,} texts begin or end"
        yield (
            f"{ends.iloc[0]}: {subject} with blanks, which models read too. "
            "Remove those that should not be there."
        )
    unlike = list(islice(_unlike_pairs(parsed.prompts), _MOST_UNLIKE + 1))
    if unlike:
        pairs = "; ".join(unlike[:_UNLIKE_NAMED])
        count = len(unlike) - _UNLIKE_NAMED
        if len(unlike) > _MOST_UNLIKE:
            pairs = f"{pairs}; {count} or more others"
        elif count > 0:
            pairs = f"{pairs}; {count} others"
        yield (
            f"Texts of one pair share almost nothing: {pairs}. "
            "A gap between them does not come from the swapped words. Check the pairs."
        )
    yield from control_advice(parsed)


def _unlike_pairs(prompts: pd.DataFrame) -> Iterator[str]:
    """Find texts of a pair that share hardly a word and, unlike "doctor" and "doctora", hardly a letter."""
    first = prompts.groupby("unit", sort=False)[["where", "text"]].transform("first")
    rows = zip(
        prompts["text"],
        prompts["where"],
        first["text"],
        first["where"],
        prompts["pair_id"],
        strict=True,
    )
    for text, line, first_text, first_line, pair in rows:
        if text != first_text and _is_unlike(text.lower(), first_text.lower()):
            lines = " and ".join(dict.fromkeys((first_line, line)))
            yield f"{lines} (pair {quote_name(pair)})"


def _is_unlike(text: str, first_text: str) -> bool:
    """Tell whether two texts share less than a quarter of their words, and less than half of their letters."""
    words = set(_WORD.findall(text))
    first_words = set(_WORD.findall(first_text))
    fewest = min(len(words), len(first_words))
    if fewest < 3 or len(words & first_words) >= fewest / 4:
        return False
    start = text[:_COMPARED_LETTERS]
    first_start = first_text[:_COMPARED_LETTERS]
    return SequenceMatcher(None, start, first_start, autojunk=False).ratio() < 0.5
