"""Tables of terms to swap: what stands for what in the other group, and the neutral word for both."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, listed, quoted
from swapbias.studies import corpus_dir, read_table, tables

BUILT_IN = {
    "resolved": "swap_terms.csv",
    "paper": "swap_terms.csv",
    "race": "swap_race.csv",
    "age": "swap_age.csv",
}
PRONOUNS = ("he", "she", "they", "xe", "ze")  # any two make a table: "she-they"
_ROLES = ("subject", "object", "possessive", "possessive_pronoun", "reflexive")
_OPTIONAL = frozenset({"neutral", "table", "note"})
# Letters and letter pairs that name a gender only in a demographic ("72 y/o M"), never as words of their own.
DEMOGRAPHIC = frozenset(
    {"m", "f", "wm", "wf", "bm", "bf", "hm", "hf", "aam", "aaf", "rhm", "rhf", "lhm", "lhf"}
)

UNITS = ("y", "yo", "yr", "yrs", "o")  # the last after "y/"
GLUED = frozenset(f"{unit}{letters}" for unit in UNITS for letters in DEMOGRAPHIC)


def unit_of(glued: str) -> int:
    """How many letters of "yom" are the unit."""
    return max(
        len(unit)
        for unit in UNITS
        if glued[: len(unit)] == unit and glued[len(unit) :] in DEMOGRAPHIC
    )


@cache
def word_list(name: str) -> frozenset[str]:
    """Words that the rules of swapping share, by the name of their list."""
    rows = read_table(corpus_dir("gender_lexicon") / "word_lists.csv", ("list", "words"))
    return frozenset(next(row["words"] for row in rows if row["list"] == name).split())


@cache
def weights_of(name: str) -> Mapping[str, float]:
    """The weights of a logistic model of swapping by what is seen, with ``bias``."""
    rows = read_table(corpus_dir("gender_lexicon") / name, ("feature", "weight"))
    return {row["feature"]: float(row["weight"]) for row in rows}


@cache
def _patterns() -> Mapping[str, tuple[str, bool]]:
    rows = read_table(
        corpus_dir("gender_lexicon") / "patterns.csv", ("name", "ignore_case", "pattern")
    )
    return {row["name"]: (row["pattern"], row["ignore_case"] == "yes") for row in rows}


def filled(text: str) -> str:
    """A regular expression in which ``%name%`` is the pattern or the words (one of them) of that name."""

    def stands(found: re.Match[str]) -> str:
        if found[1] not in _patterns():
            return "|".join(sorted(word_list(found[1])))
        other, ignores_case = _patterns()[found[1]]
        return f"(?i:{filled(other)})" if ignores_case else filled(other)

    return re.sub(r"%(\w+)%", stands, text)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """What the rules of swapping look for beside a word, by its name in ``patterns.csv``."""
    text, ignores_case = _patterns()[name]
    return re.compile(filled(text), re.IGNORECASE if ignores_case else 0)


@cache
def byte_pattern(name: str) -> re.Pattern[bytes]:
    """``pattern`` for bytes."""
    found = pattern(name)
    return re.compile(found.pattern.encode(), found.flags & re.IGNORECASE)


@cache
def rules_by_word(name: str) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """The rows of a table of rules by the words that they are of, in order: of a word the first decides that fits."""
    optional = ("when", "before", "after", "unless")
    found = dict[str, list[Mapping[str, str]]]()
    sets = {"%letters%": DEMOGRAPHIC, "%glued%": GLUED}
    for row in read_table(
        corpus_dir("gender_lexicon") / name, ("words", "says", *optional), optional=optional
    ):
        for word in sets.get(row["words"], row["words"].split()):
            found.setdefault(word, []).append(row)
    return found


@cache
def rules(name: str, word: str, *, of_bytes: bool = False) -> Sequence[tuple[Any, ...]]:
    """The rules of a word: what each says, the values that facts must have, and what finds its patterns.

    These are right behind the word, before it, and not before it, in texts or bytes; a blank one fits anywhere.
    """
    found = []
    for row in rules_by_word(name).get(word, ()):
        when = tuple((fact.lstrip("!"), not fact.startswith("!")) for fact in row["when"].split())
        texts = (filled(row[one]) for one in ("after", "before", "unless"))
        after, *others = (
            text and re.compile(text.encode() if of_bytes else text) for text in texts
        )
        found.append(
            (row["says"], when, after and after.match, *(one and one.search for one in others))
        )
    return found


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a table.

    Attributes:
        text: in lower case.
        side: 0 for the first group of the table, 1 for the second.
        others: what it may become, as the table spells it; the first is taken where nothing decides.
        neutral: the word for both, aligned with ``others``; blank: it is removed.
    """

    text: str
    side: int
    others: tuple[str, ...]
    neutral: tuple[str, ...]
    choices: frozenset[str] = frozenset()
    """The others in lower case."""


@dataclass(frozen=True, slots=True)
class SwapTable:
    """Terms of two groups.

    Attributes:
        name: ``resolved``, ``paper`` or the file's name.
        groups: names of the two groups, ``male`` and ``female`` in the built-in tables.
        terms: by their text in lower case.
        context: whether a term with several others is decided by its context (else the first is taken).
        sha256: of the rows.
        neutral: whether it has neutral words.
        plural: subject pronouns whose verbs change with them, and whether to the plural.
    """

    name: str
    groups: tuple[str, str]
    terms: Mapping[str, Term]
    context: bool = True
    sha256: str = field(default="")
    neutral: bool = True
    plural: Mapping[str, bool] = field(default_factory=dict)


# What the context decides; every other term with several others becomes the first.
_CHOICES = (
    ("his", "his", "him"),
    ("her", "hers", "her"),
    ("their", "theirs", "them"),
    ("xyr", "xyrs", "xem"),
    ("zir", "zirs", "zir"),
)
# "her" is "his" or "him": the two words that one stands for, and which is the possessive.
OBJECTS = {frozenset({own, them}): own for own, _, them in _CHOICES if own != them}
# "his" is "her" or "hers": and which stands alone.
ALONE = {frozenset({own, alone}): alone for own, alone, _ in _CHOICES if own != alone}


def _pronoun_table(first: str, second: str) -> SwapTable:
    """The pronouns of two sets, each the other's: "she-they"."""
    columns = ("pronoun", *_ROLES, "agreement", "source")
    found = read_table(corpus_dir("gender_lexicon") / "pronoun_sets.csv", columns)
    forms = {row["pronoun"]: row for row in found}
    rows = [{first: forms[first][role], second: forms[second][role]} for role in _ROLES]
    if "they" in (first, second):  # "themselves" of one person as well
        other = second if first == "they" else first
        rows.append({other: forms[other]["reflexive"], "they": "themselves"})
    table = _table(f"{first}-{second}", (first, second), rows, context=True)
    subjects = {forms[one]["subject"]: forms[one]["agreement"] for one in (first, second)}
    agree = len(set(subjects.values())) > 1
    # A subject's new verb form is that of the other pronoun.
    plural = {word: number == "singular" for word, number in subjects.items()} if agree else {}
    return replace(table, neutral=False, plural=plural)


def load_table(name: str | Path) -> SwapTable:
    """A table by name (``resolved``, ``paper``, ``race``, ``age``, two pronouns as ``she-they``) or from a CSV file.

    Two of he, she, they, xe and ze become each other, and the verbs beside "they" agree with what stands there.

    A file has a header: the two groups, then optionally ``neutral`` and ``note`` (``male,female,neutral,note``). Each
    row is one pair of terms. Where a term stands twice, the first row says what it becomes.

    Raises:
        UsageError: no such table or file. ValueError: a broken one.
    """
    pair = str(name).split("-")
    if len(pair) == len({*pair} & {*PRONOUNS}) == 2:
        return _pronoun_table(*pair)
    built_in = BUILT_IN.get(str(name))
    path = corpus_dir("gender_lexicon") / built_in if built_in else Path(name)
    if not path.is_file():
        raise UsageError(
            f"No swap table {str(name)!r}: expected {' or '.join(BUILT_IN)}, two of "
            f"{listed(PRONOUNS)} as she-they, or a CSV file. Check the path."
        )
    rows = []
    for line, row, faults in tables.table_rows(
        path.name, path.read_bytes(), _header_faults, optional=_OPTIONAL
    ):
        if faults:
            raise ValueError(f"{path.name}:{line}: {faults[0]}")
        if not built_in or row.get("table", name) == name:
            rows.append(row)
    first, second, *more = rows[0] if rows else ("", "")
    table = _table(
        str(name) if built_in else path.name, (first, second), rows, context=name != "paper"
    )
    return replace(table, neutral="neutral" in more)


def _header_faults(header: Sequence[str]) -> Iterator[str]:
    groups = header[:2]
    more = header[2:]
    if len({*groups} - _OPTIONAL) < 2 or not _OPTIONAL.issuperset(more):
        yield (
            f"columns {tables.shown_names(header)}, expected two groups and then neutral, table or note. "
            "Fix the header."
        )


def _table(
    name: str, groups: tuple[str, str], rows: Sequence[Mapping[str, str]], *, context: bool
) -> SwapTable:
    if not rows:
        raise ValueError(f"{name}: no rows, expected at least one pair of terms. Add one.")
    found: dict[str, tuple[int, list[str], list[str]]] = {}
    for line, row in enumerate(rows, start=2):
        first, second = (" ".join(row[group].split()) for group in groups)
        for text, other, side in ((first, second, 0), (second, first, 1)):
            if not any(letter.isalpha() for letter in text):
                raise ValueError(
                    f"{name}:{line}: term {quoted(text)} has no letter, expected a word. Correct it."
                )
            if text.lower() == other.lower():
                raise ValueError(
                    f"{name}:{line}: {quoted(text)} is its own counterpart. Drop the row."
                )
            known, others, neutral = found.setdefault(text.lower(), (side, [], []))
            if known != side:
                raise ValueError(
                    f"{name}:{line}: {quoted(text)} belongs to both groups, expected one. Drop a row."
                )
            if other not in others:
                others.append(other)
                neutral.append(row.get("neutral", ""))
    for text in sorted(
        DEMOGRAPHIC & found.keys()
    ):  # also written onto the unit of an age: "72yoM", "60y/oWM"
        side, others, neutral = found[text]
        for unit in UNITS:
            found[f"{unit}{text}"] = (
                side,
                [f"{unit}{other}" for other in others],
                [f"{unit}{n}" for n in neutral],
            )
    terms = {
        text: Term(text, side, tuple(o), tuple(n), frozenset(map(str.lower, o)))
        for text, (side, o, n) in found.items()
    }
    content = [(term.text, term.side, term.others, term.neutral) for term in terms.values()]
    digest = hashlib.sha256(repr((groups, context, content)).encode()).hexdigest()
    return SwapTable(name, groups, terms, context, digest)


def clinical_terms() -> dict[str, str]:
    """Gender-specific clinical terms (pregnant, prostate) and their gender: reported, never swapped."""
    rows = read_table(corpus_dir("gender_lexicon") / "clinical_terms.csv", ("term", "group"))
    return {row["term"]: row["group"] for row in rows}


@cache
def kept_phrases() -> frozenset[str]:
    """Names of other things with a gendered word in them ("widow's peak", "man-made"): never swapped."""
    rows = read_table(corpus_dir("gender_lexicon") / "kept_phrases.csv", ("phrase", "why"))
    return frozenset(row["phrase"] for row in rows)


# Clinical terms that count only with numbers behind their first letters: "G2P1", "para 2" and not "para-aortic".
COUNTED_BIRTHS = {
    "G#P#": ("g", re.compile(rb"g\s?\d{1,2}[\s,;-]{0,3}p\s?\d", re.IGNORECASE)),
    "para": ("para", re.compile(rb"para\s{0,2}[:-]?\s{0,2}\d", re.IGNORECASE)),
}

_GENDER_COLUMN = re.compile(
    r"(?:(?:patient|subject|person|anchor)[ _]?)?(?:gender|sex)", re.IGNORECASE
)
_OTHER_GENDER = {"male": "female", "m": "f", "man": "woman", "boy": "girl"}
_OTHER_GENDER |= {other: one for one, other in _OTHER_GENDER.items()}


def gender_columns(names: Iterable[str]) -> list[str]:
    """Those of the names that a column of patients' genders has: ``gender``, ``sex``, ``patient_sex``."""
    return [name for name in names if _GENDER_COLUMN.fullmatch(name.strip())]


def other_gender(value: Any) -> Any:
    """The other gender, written alike; what names none is given back.

    >>> other_gender("F"), other_gender("Male"), other_gender("unknown"), other_gender(None)
    ('M', 'Female', 'unknown', None)
    """
    found = _OTHER_GENDER.get(value.strip().lower()) if isinstance(value, str) else None
    return cased(value.strip(), found) if found else value


def cased(written: str, new: str) -> str:
    """The new word in the case of what was written, with its apostrophe."""
    new = new.replace("'", "’") if "’" in written else new
    if written.isupper() and len(written) > 1:
        return new.upper()
    return new[:1].upper() + new[1:] if written[0].isupper() else new
