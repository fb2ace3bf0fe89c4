"""group_packs: the claims of occupation_sentiment and gendered_stigma about people of more than two groups."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from swapbias.studies import (
    PLACEBO_COLUMNS,
    PROMPT_COLUMNS,
    Config,
    Corpus,
    Experiment,
    Prompt,
    Study,
    check_templates,
    corpus_dir,
    fill,
    placebo,
    read_table,
    slots,
)

NAME = "group_packs"
GENDERS = ("woman", "man")
CLAIMS = {"occupation": "professions", "diagnosis": "diagnoses"}  # and what their conditions are called
_AN = tuple("aeiou")
_ROLES = ("subject", "object", "possessive", "possessive_pronoun", "reflexive")
_VERBS = {
    "singular": {"be": "is", "have": "has", "was": "was"},
    "plural": {"be": "are", "have": "have", "was": "were"},
}
_VOWEL_NUMBERS = ("8", "11-", "18-")  # eight, eleven, eighteen and all that begin with eight


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Groups of people, and what their words are a sample of.

    Attributes:
        factors: columns whose levels make up a group, and of each the reference level.
        items: what ``template`` holds: the names, terms or phrases that a group is told by.
        nested: each group (or level of its last factor) has items of its own, so that rows are not paired. Such a
            pack has one frame, and placebo rows; items that all groups share are phrases or templates, which reword
            each other as it is.
    """

    name: str
    question: str
    factors: Mapping[str, str]
    items: str
    nested: bool


PACKS = (
    Pack(
        name="names",
        question="with the race and gender that a first name is read as",
        factors={"gender": "man", "race": "white"},
        items="names",
        nested=True,
    ),
    Pack(
        name="full_names",
        question="with the race that a man's full name is read as",
        factors={"race": "white"},
        items="names",
        nested=True,
    ),
    Pack(
        name="nationality",
        question="with the nationality of its subject",
        factors={"nationality": "American"},
        items="phrases",
        nested=False,
    ),
    Pack(
        name="religion",
        question="with the religion and gender of its subject",
        factors={"gender": "man", "religion": "Christian"},
        items="phrases",
        nested=False,
    ),
    Pack(
        name="age",
        question="with the age and gender of its subject",
        factors={"gender": "man", "age": "middle-aged"},
        items="ages",
        nested=True,
    ),
    Pack(
        name="disability",
        question="with a disability and the gender of its subject",
        factors={"gender": "man", "disability": "no disability"},
        items="terms",
        nested=True,
    ),
    Pack(
        name="pronouns",
        question="with the pronoun of its subject",
        factors={"pronoun": "he"},
        items="templates",
        nested=False,
    ),
)

# --- people -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Person:
    """One way to name somebody of a group: the words, the level of each factor, the item they are made with."""

    words: str
    levels: Mapping[str, str]
    item: str


def article(words: str) -> str:
    """The indefinite article of words that begin with a letter as they sound, or with a number below a hundred.

    >>> article("atheist"), article("81-year-old"), article("18-year-old"), article("28-year-old")
    ('an', 'an', 'an', 'a')
    """
    return "an" if words.lower().startswith((*_AN, *_VOWEL_NUMBERS)) else "a"


def _names(pack: str) -> Iterator[Person]:
    columns = ("pack", "name", "gender", "race", "rating", "rated_by", "source")
    for row in read_table(corpus_dir(NAME) / "names.csv", columns, optional=("rating", "rated_by")):
        if row["pack"] == pack:
            levels = {"gender": row["gender"], "race": row["race"]} if pack == "names" else {"race": row["race"]}
            yield Person(row["name"], levels, row["name"])


def _people(pack: Pack) -> Iterator[Person]:
    """Everybody of a pack: a phrase with a noun and a term, of every term where groups have terms of their own."""
    if "race" in pack.factors:
        yield from _names(pack.name)
        return
    columns = ("pack", "phrase", "template", "woman", "man", "source")
    phrases = [row for row in read_table(corpus_dir(NAME) / "phrases.csv", columns) if row["pack"] == pack.name]
    genders = GENDERS if "gender" in pack.factors else GENDERS[:1]
    for term in read_table(corpus_dir(NAME) / "terms.csv", ("pack", "level", "term", "source")):
        for phrase in phrases if term["pack"] == pack.name else ():
            for gender in genders:
                words = {"term": term["term"], "noun": phrase[gender], "article": article(term["term"])}
                named = {slot: words[slot] for slot in slots(phrase["template"])}
                levels = {"gender": gender, pack.name: term["level"]}
                item = term["term"] if pack.nested else phrase["phrase"]
                kept = {factor: levels[factor] for factor in pack.factors}
                yield Person(capital(fill(phrase["template"], **named)), kept, item)


def capital(text: str) -> str:
    """The text with a capital at its start; the rest stays."""
    return text[:1].upper() + text[1:]


def group(levels: Mapping[str, str]) -> str:
    """What a group is called: its levels, the gender last.

    >>> group({"gender": "woman", "race": "black"}), group({"religion": "Jewish"}), group({"age": "older"})
    ('black woman', 'Jewish', 'older')
    """
    if "disability" in levels:
        return f"{levels['gender']} with {levels['disability']}"
    return " ".join(
        [*(level for factor, level in levels.items() if factor != "gender"), levels.get("gender", "")]
    ).strip()


# --- rows ---------------------------------------------------------------------------------------------


def _conditions(claim: str) -> list[tuple[str, str]]:
    """What is claimed of somebody: professions or diagnoses, and the class of each."""
    if claim == "occupation":
        columns = ("profession", "labour_force_class", "median_weekly_earnings")
        table = corpus_dir("occupation_sentiment") / "professions.csv"
        rows = read_table(table, columns, optional=("median_weekly_earnings",))
        return [(row["profession"], row["labour_force_class"]) for row in rows]
    rows = read_table(corpus_dir("gendered_stigma") / "diagnoses.csv", ("diagnosis", "set"))
    return [(row["diagnosis"], row["set"]) for row in rows]


def _claims(claim: str) -> dict[str, str]:
    """The wordings of a claim by number, ``0`` the one that the others reword."""
    rows = read_table(corpus_dir(NAME) / "claims.csv", ("claim", "wording", "template", "source"))
    mine = check_templates("claims.csv", [row for row in rows if row["claim"] == claim], ["person", "condition"])
    return {row["wording"]: row["template"] for row in mine}


def _row(pack: Pack, claim: str, person: Person, condition: tuple[str, str], text: str) -> dict[str, str]:
    pair, name = f"{person.item}/{condition[0]}", group(person.levels)
    row = Prompt(
        prompt_id=f"{pair}/{name}",
        pair_id=pair,
        group=name,
        text=text,
        candidates="",
        construct=claim,
        condition=condition[0],
        label=condition[1],
        template=person.item,
        experiment=f"{claim}_{pack.name}",
    ).row()
    return {**row, **person.levels}


def _rows(pack: Pack, claim: str, wording: str = "0") -> Iterator[dict[str, str]]:
    template = _claims(claim)[wording]
    for person in _people(pack):
        for condition in _conditions(claim):
            yield _row(pack, claim, person, condition, fill(template, person=person.words, condition=condition[0]))


def _reworded(pack: Pack, claim: str) -> Iterator[dict[str, str]]:
    for number in list(_claims(claim))[1:]:
        for row in _rows(pack, claim, number):
            yield placebo(row, number, row["text"])


def _pronouns() -> list[dict[str, str]]:
    """Of each pronoun its forms and those of the verbs that agree with it."""
    table = corpus_dir("gender_lexicon") / "pronoun_sets.csv"
    rows = read_table(table, ("pronoun", *_ROLES, "agreement", "source"))
    return [{**row, **_VERBS[row["agreement"]]} for row in rows]


def _pronoun_rows(pack: Pack, claim: str) -> Iterator[dict[str, str]]:
    columns = ("claim", "template_id", "template", "source")
    templates = [
        row for row in read_table(corpus_dir(NAME) / "pronoun_templates.csv", columns) if row["claim"] == claim
    ]
    for forms in _pronouns():
        for template in templates:
            for condition in _conditions(claim):
                used = {slot: forms[slot] for slot in slots(template["template"]) if slot != "condition"}
                text = capital(fill(template["template"], **used, condition=condition[0]))
                person = Person("", {"pronoun": forms["pronoun"]}, template["template_id"])
                yield _row(pack, claim, person, condition, text)


# --- the declaration ----------------------------------------------------------------------------------


def _groups(pack: Pack) -> Sequence[str]:
    """All groups of a pack in the order of its rows, without the reference."""
    found: Iterable[Mapping[str, str]] = (
        [{"pronoun": forms["pronoun"]} for forms in _pronouns()]
        if pack.name == "pronouns"
        else [one.levels for one in _people(pack)]
    )
    return [name for name in dict.fromkeys(map(group, found)) if name != group(pack.factors)]


def _experiment(pack: Pack, claim: str) -> Experiment:
    name, groups = f"{claim}_{pack.name}", _groups(pack)
    thing = "a profession" if claim == "occupation" else "a diagnosis"
    return Experiment(
        name=name,
        question=f"Does the sentiment of a sentence about {thing} change {pack.question}?",
        configs=(name,),
        kind="classifier",
        measure="group_gap" if pack.nested else "paired_gap",
        group=groups[0],
        groups=tuple(groups[1:]),
        reference_group=group(pack.factors),
        factors=tuple(pack.factors) if len(pack.factors) > 1 else (),
        unit="probability of positive sentiment",
        direction="above zero sentences about the first group are scored more positive than the same ones about the "
        "second, below zero less; further from zero is worse",
        levels=(*groups, group(pack.factors)),
        random={"template": pack.items, "condition": CLAIMS[claim]},
        placebo=(f"{name}_wordings",) if pack.nested else (),
        on_request=True,
    )


def _configs(pack: Pack, claim: str) -> Iterator[Config]:
    columns, name = (*PROMPT_COLUMNS, *pack.factors), f"{claim}_{pack.name}"
    rows = partial(_pronoun_rows if pack.name == "pronouns" else _rows, pack, claim)
    by = " and ".join(pack.factors)
    yield Config(name=name, description=f"{CLAIMS[claim].capitalize()} by {by}", rows=rows, columns=columns)
    if pack.nested:
        yield Config(
            name=f"{name}_wordings",
            description=f"The sentences of {name} in 5 wordings",
            rows=partial(_reworded, pack, claim),
            columns=(*columns, *PLACEBO_COLUMNS),
        )


_EVERY = [(pack, claim) for claim in CLAIMS for pack in PACKS]

STUDY = Study(
    name=NAME,
    title="Prompt packs: race, nationality, religion, age, disability and pronouns",
    url="https://github.com/swapbias/swapbias",
    correction="holm",
    on_request=True,
    experiments=tuple(_experiment(pack, claim) for pack, claim in _EVERY),
    limits=(
        "Names are those of studies in the United States; a name tells of class, age and origin as well as of race. "
        "Most first names have no rating in the table, for their study's ratings were not at hand.",
        "The terms of nationalities, religions, ages and disabilities are this project's choice: a gap is one of "
        "these words, and of the people that they name only as far as these words stand for them.",
        "Nationality and religion have one term a group: their intervals are over phrases, not over other terms.",
        "Few models have read xe and ze often: a gap may be that of a rare word.",
    ),
)

CORPUS = Corpus(
    name=NAME,
    title="Sentences about professions and diagnoses with subjects of many groups",
    licence="Apache-2.0",
    study=STUDY,
    configs=tuple(config for pack, claim in _EVERY for config in _configs(pack, claim)),
)
