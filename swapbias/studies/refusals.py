"""What a study of one's own must not hold, and what is no pair of texts: sentences with file and line."""

import re
import unicodedata
from array import array
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import groupby

from swapbias.errors import quoted
from swapbias.studies.declaration import DECLARATION, line_of, text_of
from swapbias.studies.draft import LEXICON, PROMPTS, SLOTS, Columns, Draft, Line, Lines
from swapbias.studies.prompt import MASK, slots
from swapbias.studies.study import meant

# Of two texts that are no pair, fewer than a quarter of the words of the shorter are in the other, and less than half
# of the letters match (difflib): "El doctor cansado" and "La doctora cansada" share no word and most letters.
_SHARED_WORDS, _SHARED_LETTERS = 1 / 4, 0.5
_FEW_WORDS = 3  # of shorter texts the swapped words may be all
_COMPARED = 200  # letters of each text
_MOST_UNLIKE, _NAMED_UNLIKE = 20, 5  # pairs that are looked for, and those that are named
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")  # Chinese and Japanese have no blanks between words


def faults(draft: Draft, made: Lines) -> Iterator[str]:
    """What an audit refuses, a sentence each with file and line."""
    yield from draft.faults
    yield from made.faults
    if draft.broken:
        return
    whole = not draft.partial
    yield from _faults_of_groups(draft) if whole else ()
    yield from _faults_of_texts(draft, made)
    yield from _faults_of_pairs(draft, made) if whole else ()
    yield from _faults_of_columns(draft, made) if whole and not made.faults else ()


def _faults_of_groups(draft: Draft) -> Iterator[str]:
    declared, groups = draft.declared, draft.groups
    named = ", ".join(groups) or "none"
    how = f"--reference (in a folder: reference = ... in {DECLARATION})"
    known = draft.group_names
    others = (("group", one) for one in declared.groups if one != declared.reference)
    for what, name in (*others, ("reference", declared.reference)):
        if name and known and name not in known:
            yield f"The {what} {quoted(name)} is none of {', '.join(known)}.{_meant(name, known)}"
    if len(groups) < 2:
        table = PROMPTS if PROMPTS in draft.sheets else SLOTS
        yield f"{table}: the groups are {named}, expected two or more. Add rows of another."
    elif not declared.reference:
        yield f"The groups are {named}, and none is the reference. Name it with {how}."
    elif declared.reference not in groups and declared.reference in known:
        yield f"The reference {quoted(declared.reference)} is none of {named}. Correct {how}."
    if PROMPTS in draft.sheets:
        columns = draft.sheet(PROMPTS).columns
        for one in ("group", "pair"):
            if one not in columns and not ("group" not in columns and draft.labels):
                yield f"{PROMPTS}:1: column {quoted(one)} is missing, found {', '.join(columns)}. Add it."

    yield from _faults_of_labels(draft)


def _faults_of_labels(draft: Draft) -> Iterator[str]:
    """Words of a group that no table has; where words alone name groups, of one spelled nearly as one compared."""
    alone = draft.group_names == draft.labels
    known = draft.groups if alone else draft.group_names
    for line, row in draft.sheet(LEXICON).rows if len(draft.labels) > 1 else ():
        if row["group"] not in known and (not alone or meant(row["group"], known)):
            what = f"{LEXICON}:{line}: group {quoted(row['group'])} is none of {', '.join(known)}."
            yield what + _meant(row["group"], known)


def _meant(name: str, known: Sequence[str]) -> str:
    return meant(name, known) or " Correct it."


def spellings(draft: Draft, made: Lines) -> Iterator[str]:
    """Groups that are spelled nearly alike, and texts with blanks at their ends, a sentence each."""
    alike: dict[str, list[str]] = {}
    for group in dict.fromkeys((*draft.group_names, *draft.labels)):
        alike.setdefault(unicodedata.normalize("NFKC", group).casefold(), []).append(group)
    for names in alike.values():
        if len(names) > 1:
            shown = " and ".join(map(_shown, names))
            yield f"{shown} are {len(names)} groups, spelled nearly alike. Spell a group in one way."
    ends = [line.where for line in made if line.cells["text"] != line.cells["text"].strip()]
    if ends:
        texts = f"{len(ends):,} texts begin or end" if len(ends) > 1 else "A text begins or ends"
        yield f"{ends[0]}: {texts} with blanks, which models read too. Remove those that should not be there."


def _shown(name: str) -> str:
    """A name in quotes, with codes for letters that may look alike."""
    return quoted(name) if unicodedata.is_normalized("NFKC", name) else ascii(name)


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
        yield f"the text holds {MASK} and {held}. Add {LEXICON} (-M lexicon) or a column candidates."
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


def unlike_pairs(made: Lines) -> str:
    """A warning that names the rows of pairs whose texts share almost nothing; blank where there are none."""
    found: list[str] = []
    first: dict[int, tuple[str, str]] = {}  # of each pair and wording, until it is whole
    whole = len(made.groups) < 3
    for unit, line in zip(made.unit, made, strict=True):
        text = line.cells["text"]
        if unit not in first:
            first[unit] = line.where, text
            continue
        where, other = first.pop(unit) if whole else first[unit]
        if _is_unlike(text, other):
            rows = " and ".join(dict.fromkeys((where, line.where)))
            found.append(f"{rows} (pair {quoted(line.cells['pair_id'])})")
        if len(found) > _MOST_UNLIKE:
            break
    if not found:
        return ""
    more = len(found) - _NAMED_UNLIKE
    rest = f"; {more}{' or more' if len(found) > _MOST_UNLIKE else ''} others" if more > 0 else ""
    named = "; ".join(found[:_NAMED_UNLIKE])
    why = "A gap between them does not come from the swapped words. Check the pairs."
    return f"Texts of one pair share almost nothing: {named}{rest}. {why}"


def _is_unlike(one: str, other: str) -> bool:
    if one == other:
        return False
    one, other = one.lower(), other.lower()
    words = [set(_WORD.findall(text)) for text in (one, other)]
    fewest = min(map(len, words))
    if fewest < _FEW_WORDS or len(words[0] & words[1]) >= _SHARED_WORDS * fewest:
        return False
    return SequenceMatcher(None, one[:_COMPARED], other[:_COMPARED], autojunk=False).ratio() < _SHARED_LETTERS
