"""Packs of people as data: who is named, by which words, and what their groups are; any study may name one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from swapbias.studies import corpus_dir, fill, read_table, slots

NAME = "group_packs"
GENDERS = ("woman", "man")
_AN = tuple("aeiou")
_ROLES = ("subject", "object", "possessive", "possessive_pronoun", "reflexive")
_VERBS = {
    "singular": {"be": "is", "have": "has", "was": "was"},
    "plural": {"be": "are", "have": "have", "was": "were"},
}
_VOWEL_NUMBERS = ("8", "11-", "18-")  # eight, eleven, eighteen and all that begin with eight


def table(name: str, *columns: str, optional: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """A table of the folder, whose last column is the source."""
    return read_table(corpus_dir(NAME) / f"{name}.csv", (*columns, "source"), optional=optional)


@dataclass(frozen=True, slots=True)
class Person:
    """One way to name somebody of a group.

    Attributes:
        forms: the words by slot of a template: ``person``, or the forms of a pronoun and of the verbs that agree.
        levels: of each factor.
        item: what the words are made with: the name, term or phrase. Blank: templates are the items.
    """

    forms: Mapping[str, str]
    levels: Mapping[str, str]
    item: str

    @property
    def group(self) -> str:
        """The name of the group."""
        return group(self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Groups of people, and what their words are a sample of: a row of ``packs.csv``.

    Attributes:
        factors: columns whose levels make up a group, and of each the reference level.
        items: what a person's item is: the names, terms or phrases that stand for a group.
        nested: each group (or level of its last factor) has items of its own, so that rows are not paired. Such a
            pack has one frame, and placebo rows; items that all groups share are phrases or templates, which reword
            each other as it is.
    """

    name: str
    question: str
    factors: Mapping[str, str]
    items: str
    nested: bool

    @property
    def reference(self) -> str:
        """The group that is subtracted."""
        return group(self.factors)

    @property
    def groups(self) -> list[str]:
        """All groups in the order of the people, the reference last."""
        names = dict.fromkeys(person.group for person in self.people())
        return [*(name for name in names if name != self.reference), self.reference]

    def people(self) -> Iterator[Person]:
        """Everybody of the pack."""
        if self.name == "pronouns":
            return _pronouns()
        return _names(self) if "race" in self.factors else _described(self)


def packs() -> dict[str, Pack]:
    """Every pack by its name."""
    columns = ("pack", "question", "factors", "reference", "items", "nested")
    return {
        row["pack"]: Pack(
            name=row["pack"],
            question=row["question"],
            factors=dict(
                zip(row["factors"].split("; "), row["reference"].split("; "), strict=True)
            ),
            items=row["items"],
            nested=row["nested"] == "yes",
        )
        for row in read_table(corpus_dir(NAME) / "packs.csv", columns)
    }


def group(levels: Mapping[str, str]) -> str:
    """Write the name of a group: its levels, the gender last.

    >>> group({"gender": "woman", "race": "black"}), group({"religion": "Jewish"}), group({"age": "older"})
    ('black woman', 'Jewish', 'older')
    """
    if {"gender", "disability"} <= set(levels):
        return f"{levels['gender']} with {levels['disability']}"
    others = [level for factor, level in levels.items() if factor != "gender"]
    return " ".join([*others, levels.get("gender", "")]).strip()


def article(words: str) -> str:
    """The indefinite article of words that begin with a letter as they sound, or with a number below a hundred.

    >>> article("atheist"), article("81-year-old"), article("18-year-old"), article("28-year-old")
    ('an', 'an', 'an', 'a')
    """
    return "an" if words.lower().startswith((*_AN, *_VOWEL_NUMBERS)) else "a"


def capital(text: str) -> str:
    """The text with a capital at its start; the rest stays."""
    return text[:1].upper() + text[1:]


def _names(pack: Pack) -> Iterator[Person]:
    optional = ("rating", "rated_by")
    for row in table("names", "pack", "name", "gender", "race", *optional, optional=optional):
        if row["pack"] == pack.name:
            yield Person(
                {"person": row["name"]},
                {factor: row[factor] for factor in pack.factors},
                row["name"],
            )


def _described(pack: Pack) -> Iterator[Person]:
    """A phrase with a noun and a term of the level, of every term where groups have terms of their own."""
    rows = table("phrases", "pack", "phrase", "template", "woman", "man")
    phrases = [row for row in rows if row["pack"] == pack.name]
    genders = GENDERS if "gender" in pack.factors else GENDERS[:1]
    for (level, terms), phrase, gender in product(_terms(pack), phrases, genders):
        used = slots(phrase["template"])
        term = next(terms[slot] for slot in used if slot in terms)
        words = {**terms, "noun": phrase[gender], "article": article(term)}
        text = fill(phrase["template"], **{slot: words[slot] for slot in used})
        levels = {"gender": gender, pack.name: level}
        pack_levels = {factor: levels[factor] for factor in pack.factors}
        item = term if pack.nested else phrase["phrase"]
        yield Person({"person": capital(text)}, pack_levels, item)


def _terms(pack: Pack) -> Iterator[tuple[str, dict[str, str]]]:
    """Give the terms of each level, by the form of the words: each term alone where items are terms."""
    together: dict[str, dict[str, str]] = {}
    for row in table("terms", "pack", "level", "form", "term"):
        if row["pack"] == pack.name and pack.nested:
            yield row["level"], {row["form"]: row["term"]}
        elif row["pack"] == pack.name:
            together.setdefault(row["level"], {})[row["form"]] = row["term"]
    yield from together.items()


def _pronouns() -> Iterator[Person]:
    """Give the forms of each pronoun and those of the verbs that agree with it."""
    sets = corpus_dir("gender_lexicon") / "pronoun_sets.csv"
    for row in read_table(sets, ("pronoun", *_ROLES, "agreement", "source")):
        forms = {role: row[role] for role in _ROLES} | _VERBS[row["agreement"]]
        yield Person(forms, {"pronoun": row["pronoun"]}, "")


def people_rows() -> Iterator[dict[str, str]]:
    """The words of everybody of every pack by the slot of a template, for studies of other claims."""
    for pack in packs().values():
        for person in pack.people():
            description = {
                "pack": pack.name,
                "group": person.group,
                "reference": pack.reference,
                "item": person.item,
            }
            for slot, words in person.forms.items():
                yield {**description, "slot": slot, "term": words}
