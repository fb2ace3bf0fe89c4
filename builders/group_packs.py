"""group_packs: the claims of occupation_sentiment and gendered_stigma about people of more than two groups."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from swapbias.builders._packs import NAME, Pack, Person, capital, packs
from swapbias.studies import (
    PLACEBO_COLUMNS,
    PROMPT_COLUMNS,
    Config,
    Corpus,
    Experiment,
    Lexicon,
    Slice,
    Study,
    check_templates,
    corpus_dir,
    fill,
    placebo,
    prompt_row,
    read_table,
    slots,
)

CLAIMS = {"occupation": "professions", "diagnosis": "diagnoses"}  # and what their conditions are called
PEOPLE_COLUMNS = ("pack", "group", "reference", "item", "slot", "term")
WORD_COLUMNS = ("list", "word", "label", "match")
STIGMA = "gendered_stigma"


def _table(name: str, *columns: str) -> list[dict[str, str]]:
    return read_table(corpus_dir(NAME) / f"{name}.csv", (*columns, "source"))


# --- rows ---------------------------------------------------------------------------------------------


def _conditions(claim: str) -> list[tuple[str, str]]:
    """What is claimed of somebody: professions or diagnoses, and the class of each."""
    if claim == "occupation":
        columns = ("profession", "labour_force_class", "median_weekly_earnings")
        table = corpus_dir("occupation_sentiment") / "professions.csv"
        rows = read_table(table, columns, optional=("median_weekly_earnings",))
        return [(row["profession"], row["labour_force_class"]) for row in rows]
    rows = read_table(corpus_dir(STIGMA) / "diagnoses.csv", ("diagnosis", "set"))
    return [(row["diagnosis"], row["set"]) for row in rows]


def _claims(claim: str) -> dict[str, str]:
    """The wordings of a claim by number, ``0`` the one that the others reword."""
    mine = [row for row in _table("claims", "claim", "wording", "template") if row["claim"] == claim]
    return {row["wording"]: row["template"] for row in check_templates("claims.csv", mine, ["person", "condition"])}


def _templates(pack: Pack, claim: str, wording: str) -> dict[str, str]:
    """Templates by item; a blank one, where the people's words are the items."""
    if pack.items != "templates":
        return {"": _claims(claim)[wording]}
    rows = _table("pronoun_templates", "claim", "template_id", "template")
    return {row["template_id"]: row["template"] for row in rows if row["claim"] == claim}


def _rows(pack: Pack, claim: str, wording: str = "0") -> Iterator[dict[str, str]]:
    for person in pack.people():
        for item, template in _templates(pack, claim, wording).items():
            used = {slot: person.forms[slot] for slot in slots(template) if slot != "condition"}
            for condition in _conditions(claim):
                text = capital(fill(template, **used, condition=condition[0]))
                yield _row(f"{claim}_{pack.name}", claim, person, item or person.item, condition, text)


def _row(
    name: str, construct: str, person: Person, item: str, condition: tuple[str, str], text: str, lexicon: str = ""
) -> dict[str, str]:
    row = prompt_row(
        f"{item}/{condition[0]}", person.group, text, name, lexicon=lexicon, construct=construct,
        condition=condition[0], label=condition[1], template=item,
    )  # fmt: skip
    return {**row, **person.levels}


def _reworded(pack: Pack, claim: str) -> Iterator[dict[str, str]]:
    for number in list(_claims(claim))[1:]:
        for row in _rows(pack, claim, number):
            yield placebo(row, number, row["text"])


def _people() -> Iterator[dict[str, str]]:
    """The words of everybody of every pack, for studies of other claims."""
    for pack in packs().values():
        for person in pack.people():
            for slot, words in person.forms.items():
                values = (pack.name, person.group, pack.reference, person.item, slot, words)
                yield dict(zip(PEOPLE_COLUMNS, values, strict=True))


# --- words at the mask of gendered_stigma's templates ---------------------------------------------------


def _masked_words(pack: str) -> list[dict[str, str]]:
    return [row for row in _table("mask_words", "pack", "level", "word", "match") if row["pack"] == pack]


def _lexicon(pack: str) -> Lexicon:
    """The words of each group: any case, or as written."""
    words: dict[str, dict[str, str]] = {"any case": {}, "as written": {}}
    for row in _masked_words(pack):
        words[row["match"]][row["word"]] = row["level"]
    return Lexicon(f"{NAME}/{pack}", words=words["any case"], proper=words["as written"])


def _masked_templates(pack: str) -> dict[str, tuple[str, str]]:
    """Phase and template by name: those of the study, each with a frame in turn about its mask."""
    if pack == "pronouns":  # verbs in the past, or about the object, agree with every pronoun
        rows = _table("mask_pronoun_templates", "template_id", "template")
        return {row["template_id"]: ("any", row["template"]) for row in rows}
    frames = [row["template"] for row in _table("mask_frames", "pack", "frame", "template") if row["pack"] == pack]
    rows = read_table(corpus_dir(STIGMA) / "rq1_templates.csv", ("template_id", "phase", "template", "source"))
    check_templates("rq1_templates.csv", rows, ["diagnosis"])
    return {
        row["template_id"]: (row["phase"], row["template"].replace("<mask>", frames[place % len(frames)]))
        for place, row in enumerate(rows)
    }


def _column(pack: str) -> str:
    return "pronoun" if pack == "pronouns" else pack


def _masked_rows(pack: str) -> Iterator[dict[str, str]]:
    for level in dict.fromkeys(row["level"] for row in _masked_words(pack)):
        person = Person({}, {_column(pack): level}, "")
        for item, (phase, template) in _masked_templates(pack).items():
            for condition in _conditions("diagnosis"):
                text = fill(template, diagnosis=condition[0])
                yield _row(f"stigma_{pack}", phase, person, item, condition, text, f"{NAME}/{pack}/{level}")


def _masked_packs() -> dict[str, dict[str, str]]:
    return {row["pack"]: row for row in _table("mask_packs", "pack", "question", "reference")}


def _word_rows() -> Iterator[dict[str, str]]:
    """The words that ``lexicon`` names: ``list`` and ``label`` with a slash between."""
    for pack in _masked_packs():
        for row in _masked_words(pack):
            values = (f"{NAME}/{pack}", row["word"], row["level"], row["match"])
            yield dict(zip(WORD_COLUMNS, values, strict=True))


# --- the declaration ----------------------------------------------------------------------------------


def _experiment(pack: Pack, claim: str) -> Experiment:
    name, groups = f"{claim}_{pack.name}", pack.groups
    thing = "a profession" if claim == "occupation" else "a diagnosis"
    return Experiment(
        name=name,
        question=f"Does the sentiment of a sentence about {thing} change {pack.question}?",
        configs=(name,),
        kind="classifier",
        measure="group_gap" if pack.nested else "paired_gap",
        group=groups[0],
        groups=tuple(groups[1:-1]),
        reference_group=pack.reference,
        factors=tuple(pack.factors) if len(pack.factors) > 1 else (),
        unit="probability of positive sentiment",
        direction="above zero sentences about the first group are scored more positive than the same ones about the "
        "second, below zero less; further from zero is worse",
        levels=tuple(groups),
        random={"template": pack.items, "condition": CLAIMS[claim]},
        placebo=(f"{name}_wordings",) if pack.nested else (),
        on_request=True,
    )


def _masked_experiment(pack: str, row: Mapping[str, str]) -> Experiment:
    levels = dict.fromkeys(one["level"] for one in _masked_words(pack))
    others = [level for level in levels if level != row["reference"]]
    return Experiment(
        name=f"stigma_{pack}",
        question=f"Does the model associate mental-health conditions with {row['question']} as the subject?",
        configs=(f"stigma_{pack}",),
        kind="masked",
        measure="paired_gap",
        group=others[0],
        groups=tuple(others[1:]),
        reference_group=row["reference"],
        unit="probability mass at the mask",
        says="prefers words for {more} to words for {less}",
        change="naming a mental-health condition instead of another illness",
        named={"mental_health": "mental-health conditions", "other_health": "other health conditions"},
        direction="above zero the model gives words of the first group more probability than those of the second, "
        "below zero less; further from zero is worse",
        scores=("score", "closed_list_mass", "matched_mass"),
        levels=(*others, row["reference"]),
        random={"template": "templates", "condition": "diagnoses"},
        subset="label",
        contrast=("mental_health", "other_health"),
        slices=(Slice("construct", "phase"),) if pack != "pronouns" else (),
        on_request=True,
    )


def _configs(pack: Pack, claim: str) -> Iterator[Config]:
    columns, name = (*PROMPT_COLUMNS, *pack.factors), f"{claim}_{pack.name}"
    description = f"{CLAIMS[claim].capitalize()} by {' and '.join(pack.factors)}"
    yield Config(name, description, partial(_rows, pack, claim), columns)
    if pack.nested:
        again, rows = f"The sentences of {name} in 5 wordings", partial(_reworded, pack, claim)
        yield Config(f"{name}_wordings", again, rows, (*columns, *PLACEBO_COLUMNS))


_EVERY = [(pack, claim) for claim in CLAIMS for pack in packs().values()]
_LEXICONS: Mapping[str, Callable[[], Lexicon]] = {pack: partial(_lexicon, pack) for pack in _masked_packs()}

STUDY = Study(
    name=NAME,
    title="Prompt packs: race, nationality, religion, sexual orientation, social class, age, disability and pronouns",
    url="https://github.com/swapbias/swapbias",
    on_request=True,
    packs=True,
    experiments=(
        *(_experiment(pack, claim) for pack, claim in _EVERY),
        *(_masked_experiment(pack, row) for pack, row in _masked_packs().items()),
    ),
    limits=(
        "Names are those of studies in the United States; a name tells of class, age and origin as well as of race. "
        "Most first names have no rating in the table, for their study's ratings were not at hand.",
        "The terms of nationalities, religions, orientations, classes, ages and disabilities are this project's "
        "choice: a gap is one of these words, and of the people that they name only as far as these words stand for "
        "them.",
        "At a mask the words of each group are counted together: a group with rarer or fewer words moves less, and "
        "only words that are one token of the model's vocabulary can be counted (see the coverage table). As in "
        "gendered_stigma words with less than 1 % at a mask count nothing: where all are that rare a gap is exactly "
        "0, and the closed-list mass beside it tells more.",
        "Few models have read xe and ze often: a gap may be that of a rare word.",
    ),
)

CORPUS = Corpus(
    name=NAME,
    title="Sentences about professions and diagnoses with subjects of many groups",
    version="3.0.0",
    tags=("gender-bias", "social-bias", "counterfactual", "medical", "mental-health"),
    study=STUDY,
    lexicons=_LEXICONS,
    configs=(
        *(config for pack, claim in _EVERY for config in _configs(pack, claim)),
        *(
            Config(
                f"stigma_{pack}",
                f"The templates of gendered_stigma with words for {row['question']} at the mask",
                partial(_masked_rows, pack),
                (*PROMPT_COLUMNS, _column(pack)),
            )
            for pack, row in _masked_packs().items()
        ),
        Config(
            "people",
            "The words of everybody of every pack, by the slot of a template",
            _people,
            PEOPLE_COLUMNS,
            split="train",
        ),
        Config(
            "words",
            "The words counted at the masks of stigma_*, with their group",
            _word_rows,
            WORD_COLUMNS,
            split="train",
        ),
    ),
)
