"""What a study of one's own must not hold: a sentence each, with file and line."""

import re
from array import array
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import groupby

from swapbias.errors import quoted
from swapbias.studies.declaration import DECLARATION, line_of, text_of
from swapbias.studies.draft import LEXICON, PROMPTS, SLOTS, Columns, Draft, Line, Lines
from swapbias.studies.prompt import MASK, slots


def faults(draft: Draft, made: Lines) -> Iterator[str]:
    """What an audit refuses, a sentence each with file and line."""
    yield from _faults_of_groups(draft)
    yield from _faults_of_texts(draft, made)
    yield from _faults_of_pairs(draft, made)
    yield from _faults_of_columns(draft, made)


def _faults_of_groups(draft: Draft) -> Iterator[str]:
    declared, groups = draft.declared, draft.groups
    named = ", ".join(groups) or "none"
    how = f"--reference (in a folder: reference = ... in {DECLARATION})"
    if len(groups) < 2:
        table = PROMPTS if PROMPTS in draft.sheets else SLOTS
        yield f"{table}: the groups are {named}, expected two or more. Add rows of another."
    elif not declared.reference:
        yield f"The groups are {named}, and none is the reference. Name it with {how}."
    elif declared.reference not in groups:
        yield f"The reference {quoted(declared.reference)} is none of {named}. Correct {how}."
    if PROMPTS in draft.sheets:
        columns = draft.sheet(PROMPTS).columns
        for one in ("group", "pair"):
            if one not in columns and not ("group" not in columns and draft.labels):
                yield f"{PROMPTS}:1: column {quoted(one)} is missing, found {', '.join(columns)}. Add it."


def _faults_of_texts(draft: Draft, made: Lines) -> Iterator[str]:
    told: set[tuple[str, str]] = set()
    known = set(draft.groups)
    for line in made:
        for trouble in _trouble(draft, line, known):
            if (line.where, trouble) not in told:
                told.add((line.where, trouble))
                yield f"{line.where}: {trouble}"


def _trouble(draft: Draft, line: Line, known: Collection[str]) -> Iterator[str]:
    text, group = line.cells["text"], line.cells["group"]
    if slots(text):
        yield f"the slot [{slots(text)[0]}] is not filled. Put a word there, or take the brackets away."
    if re.search(r"\[mask\]", text, re.IGNORECASE):
        yield f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK]."
    if text.count(MASK) > 1:
        yield f"{text.count(MASK)} times {MASK}, expected one at most. Split the text."
    if MASK in text and not line.counted:
        held = f"{LEXICON} has no words of {quoted(group)}" if draft.labels else "no words are given to count there"
        yield f"the text holds {MASK} and {held}. Add {LEXICON} (--lexicon) or a column candidates."
    if group not in known and not draft.declared.groups:
        yield f"group {quoted(group)} is none of {', '.join(draft.groups)}. Correct it."


def _faults_of_pairs(draft: Draft, made: Lines) -> Iterator[str]:
    """Of each pair, in each of its wordings, by the numbers of its lines: no text is read where nothing is wrong."""
    order = array("i", sorted(range(len(made)), key=made.unit.__getitem__))
    twice = (one for unit in _by_unit(made, order) for one in _repeated(made, unit))
    for again, first in sorted(twice):
        line, before = made[again], made[first]
        pair, group = line.cells["pair_id"], line.cells["group"]
        yield f"{line.where}: pair {quoted(pair)} has group {quoted(group)} already in {before.where}. Remove one."
    compared = {draft.declared.reference} & set(draft.groups)
    known = set(draft.groups)
    names, many = list(made.groups), len(draft.groups) > 2
    wanted = compared if many else known
    for unit in _by_unit(made, order):
        first_of = {names[made.group[place]]: place for place in reversed(unit)}
        first, of_pair = unit[0], partial(_named_pair, made, unit[0])
        for group in sorted(wanted - first_of.keys()):
            lacks = f"{of_pair()} has no row of {quoted(group)}"
            yield f"{made[first].where}: {lacks}. Add it, so that the groups are balanced."
        if many and compared and not first_of.keys() - compared:
            yield f"{made[first].where}: {of_pair()} holds the reference alone. Add a row of another group."
        both = sorted(place for group, place in first_of.items() if group in known)
        if len({made.masked[place] for place in both}) > 1:
            yield f"{made[first].where}: {of_pair()} holds {MASK} in one text and not in another. Write both alike."
        if len(both) > 1 and len({made.content[place] for place in both}) == 1:
            counted = _same(made, both)
            if counted is None:
                continue
            words = f", for the words of {counted!r} alone are counted there" if counted else ""
            yield (
                f"{made[first].where}: {of_pair()} has the same text in every group: nothing is swapped{words}. "
                "Change one."
            )


def _by_unit(made: Lines, order: Sequence[int]) -> Iterator[list[int]]:
    """The places of the lines of each pair in each wording, in the order in which these first stand."""
    return (list(places) for _, places in groupby(order, key=made.unit.__getitem__))


def _repeated(made: Lines, unit: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each line of a pair whose group it has already, with the first of that group."""
    if len({made.group[place] for place in unit}) == len(unit):
        return
    first: dict[int, int] = {}
    for place in unit:
        if first.setdefault(made.group[place], place) != place:
            yield place, first[made.group[place]]


def _named_pair(made: Lines, place: int) -> str:
    line = made[place]
    wording = f" in wording {line.wording}" if line.wording else ""
    return f"pair {quoted(line.cells['pair_id'])}{wording}"


def _same(made: Lines, places: Sequence[int]) -> str | None:
    """What is counted in lines whose hashes are alike; None where they are others after all."""
    found = {(line.cells["text"], line.counted) for line in made.at(places)}
    return next(iter(found))[1] if len(found) == 1 else None


def _faults_of_columns(draft: Draft, made: Lines) -> Iterator[str]:
    text = text_of(DECLARATION, draft.files.get(DECLARATION, b""))
    named = [(key, column) for key in ("random", "slices") for column in getattr(draft.declared, key)]
    constant = Columns(made, range(len(made))).constant if named else ()
    for key, column in named:
        where, name = f"{DECLARATION}:{line_of(text, key)}", "pair_id" if column == "pair" else column
        if name in ("text", "group") or name not in made.columns:
            yield f"{where}: {key} names the column {quoted(column)}, and no table has it. Correct it."
        elif name not in constant:
            yield f"{where}: {quoted(column)} differs within a pair, and a gap of a pair has one value. Take it out."
