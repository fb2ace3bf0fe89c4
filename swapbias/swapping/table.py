"""Tables of terms to swap: what stands for what in the other group, and the neutral word for both."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from swapbias.errors import UsageError, listed, quoted
from swapbias.studies import corpus_dir, read_table, tables
from swapbias.swapping.rule_tables import DEMOGRAPHIC, UNITS

BUILT_IN = {
    "resolved": "swap_terms.csv",
    "paper": "swap_terms.csv",
    "race": "swap_race.csv",
    "age": "swap_age.csv",
}
"""Files of the built-in tables by name."""
PRONOUNS = ("he", "she", "they", "xe", "ze")
"""Pronouns of which any two make a table: "she-they"."""
COUNTED_BIRTHS = {
    "G#P#": ("g", re.compile(rb"g\s?\d{1,2}[\s,;-]{0,3}p\s?\d", re.IGNORECASE)),
    "para": ("para", re.compile(rb"para\s{0,2}[:-]?\s{0,2}\d", re.IGNORECASE)),
}
"""Clinical terms that count only with numbers behind their first letters: "G2P1", "para 2" and not "para-aortic"."""
_ROLES = ("subject", "object", "possessive", "possessive_pronoun", "reflexive")
_OPTIONAL = frozenset({"neutral", "table", "note"})

# What the context decides; every other term with several others becomes the first.
_CHOICES = (
    ("his", "his", "him"),
    ("her", "hers", "her"),
    ("their", "theirs", "them"),
    ("xyr", "xyrs", "xem"),
    ("zir", "zirs", "zir"),
)
OBJECTS = {
    frozenset({possessive, personal}): possessive
    for possessive, _, personal in _CHOICES
    if possessive != personal
}
"""The possessive by two words that one stands for: "her" is "his" or "him"."""
ALONE = {
    frozenset({possessive, standing_alone}): standing_alone
    for possessive, standing_alone, _ in _CHOICES
    if possessive != standing_alone
}
"""The word that stands alone by two words that one stands for: "his" is "her" or "hers"."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a table."""

    text: str
    """In lower case."""
    side: int
    """0 for the first group of the table, 1 for the second."""
    others: tuple[str, ...]
    """What it may become, as the table has it; the first is taken where nothing decides."""
    neutral: tuple[str, ...]
    """The word for both, aligned with ``others``; empty: it is removed."""
    sides: tuple[int, ...] = ()
    """The side that it tells by what it becomes: "bf" is a woman's letters or a boyfriend."""
    lower_others: tuple[str, ...] = field(init=False)
    """The others in lower case."""
    choices: frozenset[str] = field(init=False)
    """The same as a set."""

    def __post_init__(self) -> None:
        """Set what follows from the others."""
        object.__setattr__(self, "lower_others", tuple(map(str.lower, self.others)))
        object.__setattr__(self, "choices", frozenset(self.lower_others))

    def __reduce__(self) -> tuple[type["Term"], tuple[object, ...]]:
        """Pickle without the set: its order differs between processes."""
        return Term, (self.text, self.side, self.others, self.neutral, self.sides)


@dataclass(frozen=True, slots=True)
class SwapTable:
    """Terms of two groups."""

    name: str
    """``resolved``, ``paper`` or the file's name."""
    groups: tuple[str, str]
    """Names of the two groups, ``male`` and ``female`` in the built-in tables."""
    terms: Mapping[str, Term]
    """By their text in lower case."""
    context: bool = True
    """Whether a term with several others is decided by its context (else the first is taken)."""
    sha256: str = field(default="")
    """Of the rows."""
    neutral: bool = True
    """Whether it has neutral words."""
    plural: Mapping[str, bool] = field(default_factory=dict)
    """Subject pronouns whose verbs change with them, and whether to the plural."""
    inclusive: tuple[Term, ...] = ()
    """Forms of both groups, which are neutralised and never swapped: "s/he"."""


def _pronoun_table(first: str, second: str) -> SwapTable:
    """Return the pronouns of two sets, each the other's: "she-they"."""
    columns = ("pronoun", *_ROLES, "agreement", "source")
    sets = read_table(corpus_dir("gender_lexicon") / "pronoun_sets.csv", columns)
    forms = {row["pronoun"]: row for row in sets}
    rows = [{first: forms[first][role], second: forms[second][role]} for role in _ROLES]
    if "they" in (first, second):  # "themselves" of one person as well
        singular = second if first == "they" else first
        rows.append({singular: forms[singular]["reflexive"], "they": "themselves"})
    table = _table(f"{first}-{second}", (first, second), rows, context=True)
    agreement = {forms[name]["subject"]: forms[name]["agreement"] for name in (first, second)}
    plural: dict[str, bool] = {}
    if len(set(agreement.values())) > 1:
        # A subject's new verb form is that of the other pronoun.
        plural = {word: number == "singular" for word, number in agreement.items()}
    return replace(table, neutral=False, plural=plural)


def load_table(name: str | Path) -> SwapTable:
    """Load a table by name or from a CSV file.

    Two of he, she, they, xe and ze become each other, and the verbs beside "they" agree with what stands there.

    A file has a header: the two groups, then optionally ``neutral`` and ``note`` (``male,female,neutral,note``). Each
    row is one pair of terms. Where a term stands twice, the first row says what it becomes.

    Args:
        name: ``resolved``, ``paper``, ``race``, ``age``, two pronouns as ``she-they``, or the path of a file.

    Raises:
        UsageError: no such table or file.
        ValueError: a broken one.
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
    content = path.read_bytes()
    rows = []
    for line, row, faults in tables.table_rows(
        path.name, content, _header_faults, optional=_OPTIONAL
    ):
        if faults:
            raise ValueError(f"{path.name}:{line}: {faults[0]}")
        if not built_in or row.get("table", name) == name:
            rows.append(row)
    first, second, *further = rows[0] if rows else ("", "")
    shown_name = str(name) if built_in else path.name
    table = _table(
        shown_name, (first, second), rows, context=name != "paper", built_in=bool(built_in)
    )
    inclusive: tuple[Term, ...] = ()
    if name == "resolved":
        inclusive = tuple(
            Term(form, 0, (form,), (new,), (0,)) for form, new in inclusive_forms().items()
        )
    return replace(table, neutral="neutral" in further, inclusive=inclusive)


def _header_faults(header: Sequence[str]) -> Iterator[str]:
    """Yield the fault of a header that is not that of a table of terms."""
    groups = header[:2]
    if len({*groups} - _OPTIONAL) < 2 or not _OPTIONAL.issuperset(header[2:]):
        yield (
            f"columns {tables.shown_names(header)}, expected two groups and then neutral, table or note. "
            "Fix the header."
        )


def _table(
    name: str,
    groups: tuple[str, str],
    rows: Sequence[Mapping[str, str]],
    *,
    context: bool,
    built_in: bool = True,
) -> SwapTable:
    """Make a table of rows; ValueError: a row that is no pair of terms.

    A term of a built-in table may belong to both groups ("BF", "my bf"); its side is that of the first row.
    """
    if not rows:
        raise ValueError(f"{name}: no rows, expected at least one pair of terms. Add one.")
    # By text: the side, the others, and the neutral word for each.
    columns: dict[str, tuple[int, list[str], list[str]]] = {}
    for line, row in enumerate(rows, start=2):
        first, second = (" ".join(row[group].split()) for group in groups)
        for text, counterpart, side in ((first, second, 0), (second, first, 1)):
            _refuse_pair(f"{name}:{line}", text, counterpart)
            first_side, others, neutral = columns.setdefault(text.lower(), (side, [], []))
            if first_side != side and not built_in:
                raise ValueError(
                    f"{name}:{line}: {quoted(text)} belongs to both groups, expected one. Drop a row."
                )
            if counterpart not in others:
                others.append(counterpart)
                neutral.append(row.get("neutral", ""))
    _add_glued(columns)
    terms = {
        text: Term(
            text,
            side,
            tuple(others),
            tuple(neutral),
            tuple(
                _side_of_choice(columns, side, number, other) for number, other in enumerate(others)
            ),
        )
        for text, (side, others, neutral) in columns.items()
    }
    content = [(term.text, term.side, term.others, term.neutral) for term in terms.values()]
    digest = hashlib.sha256(repr((groups, context, content)).encode()).hexdigest()
    return SwapTable(name, groups, terms, context, digest)


def _side_of_choice(
    columns: Mapping[str, tuple[int, list[str], list[str]]], side: int, number: int, other: str
) -> int:
    """Return the side that a term tells where it becomes a word: "bf" is a man where it becomes "gf", not "bm"."""
    of_other, _, _ = columns.get(other.lower(), (1 - side, [], []))
    return 1 - side if number and of_other == side else side


def _refuse_pair(line: str, text: str, counterpart: str) -> None:
    """Refuse a term without a letter, and one that is its own counterpart: ValueError."""
    if not any(letter.isalpha() for letter in text):
        raise ValueError(f"{line}: term {quoted(text)} has no letter, expected a word. Correct it.")
    if text.lower() == counterpart.lower():
        raise ValueError(f"{line}: {quoted(text)} is its own counterpart. Drop the row.")


def _add_glued(columns: dict[str, tuple[int, list[str], list[str]]]) -> None:
    """Add letters of demographics as they are written onto the unit of an age: "72yoM", "60y/oWM"."""
    for text in sorted(DEMOGRAPHIC & columns.keys()):
        side, others, neutral = columns[text]
        for unit in UNITS:
            pairs = [
                (f"{unit}{target}", f"{unit}{new}")
                for target, new in zip(others, neutral, strict=True)
                if target.lower() in DEMOGRAPHIC
            ]
            glued_others, glued_neutral = (list(words) for words in zip(*pairs, strict=True))
            columns[f"{unit}{text}"] = (side, glued_others, glued_neutral)


def clinical_terms() -> dict[str, str]:
    """Return gender-specific clinical terms (pregnant, prostate) and their gender: reported, never swapped."""
    rows = read_table(corpus_dir("gender_lexicon") / "clinical_terms.csv", ("term", "group"))
    return {row["term"]: row["group"] for row in rows}


@cache
def inclusive_forms() -> Mapping[str, str]:
    """Return forms that are of both genders already and their neutral words: "s/he" is "they".

    They stay when words are swapped.
    """
    rows = read_table(
        corpus_dir("gender_lexicon") / "inclusive_forms.csv",
        ("form", "neutral"),
        optional=("neutral",),
    )
    return {row["form"]: row["neutral"] for row in rows}


@cache
def kept_phrases() -> frozenset[str]:
    """Return names of other things with a gendered word in them ("widow's peak", "man-made"): never swapped."""
    rows = read_table(corpus_dir("gender_lexicon") / "kept_phrases.csv", ("phrase", "why"))
    return frozenset(row["phrase"] for row in rows)


def cased(written: str, new: str) -> str:
    """Return a new word in the case of what was written, with its apostrophe.

    Args:
        written: the word as it was.
        new: the word that stands in.
    """
    if "’" in written:
        new = new.replace("'", "’")
    if written.isupper() and len(written) > 1:
        return new.upper()
    return new[:1].upper() + new[1:] if written[0].isupper() else new
