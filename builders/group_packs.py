"""group_packs: the claims of occupation_sentiment and gendered_stigma about people of more than two groups."""

from collections.abc import Iterator
from functools import partial

from swapbias import studies
from swapbias.builders._packs import NAME, Pack, Person, capital, packs, people_rows, table
from swapbias.hub import builder_on_use

# claims, with what their conditions are called
CLAIMS = {"occupation": "professions", "diagnosis": "diagnoses"}
STIGMA = "gendered_stigma"


def _conditions(claim: str) -> list[tuple[str, str]]:
    """Read what is claimed of somebody: professions or diagnoses, and the class of each."""
    if claim == "occupation":
        columns = ("profession", "labour_force_class", "median_weekly_earnings")
        path = studies.corpus_dir("occupation_sentiment") / "professions.csv"
        rows = studies.read_table(path, columns, optional=("median_weekly_earnings",))
        return [(row["profession"], row["labour_force_class"]) for row in rows]
    rows = studies.read_table(studies.corpus_dir(STIGMA) / "diagnoses.csv", ("diagnosis", "set"))
    return [(row["diagnosis"], row["set"]) for row in rows]


def _claims(claim: str) -> dict[str, str]:
    """The wordings of a claim by number, ``0`` the one that the others reword."""
    rows = table("claims", "claim", "wording", "template")
    return {row["wording"]: row["template"] for row in rows if row["claim"] == claim}


def _templates(pack: Pack, claim: str, wording: str) -> dict[str, str]:
    """Templates by item; a blank one, where the people's words are the items."""
    if pack.items != "templates":
        return {"": _claims(claim)[wording]}
    rows = table("pronoun_templates", "claim", "template_id", "template")
    return {row["template_id"]: row["template"] for row in rows if row["claim"] == claim}


def _rows(pack: Pack, claim: str, wording: str = "0") -> Iterator[dict[str, str]]:
    for person in pack.people():
        for item, template in _templates(pack, claim, wording).items():
            used = {
                slot: person.forms[slot] for slot in studies.slots(template) if slot != "condition"
            }
            for condition in _conditions(claim):
                text = capital(studies.fill(template, **used, condition=condition[0]))
                yield _row(
                    f"{claim}_{pack.name}", claim, person, item or person.item, condition, text
                )


def _row(
    name: str,
    construct: str,
    person: Person,
    item: str,
    condition: tuple[str, str],
    text: str,
    lexicon: str = "",
) -> dict[str, str]:
    row = studies.prompt_row(
        f"{item}/{condition[0]}",
        person.group,
        text,
        name,
        lexicon=lexicon,
        construct=construct,
        condition=condition[0],
        label=condition[1],
        template=item,
    )
    return {**row, **person.levels}


def _reworded(pack: Pack, claim: str) -> Iterator[dict[str, str]]:
    for number in list(_claims(claim))[1:]:
        for row in _rows(pack, claim, number):
            yield studies.placebo(row, number, row["text"])


def _masked_words(pack: str) -> list[dict[str, str]]:
    return [
        row for row in table("mask_words", "pack", "level", "word", "match") if row["pack"] == pack
    ]


def _lexicon(pack: str) -> studies.Lexicon:
    """The words of each group: any case, or as written."""
    words: dict[str, dict[str, str]] = {"any case": {}, "as written": {}}
    for row in _masked_words(pack):
        words[row["match"]][row["word"]] = row["level"]
    return studies.Lexicon(f"{NAME}/{pack}", words=words["any case"], proper=words["as written"])


def _masked_templates(pack: str) -> dict[str, tuple[str, str]]:
    """Phase and template by name: those of the study, each with a frame in turn about its mask."""
    if pack == "pronouns":  # verbs in the past, or about the object, agree with every pronoun
        rows = table("mask_pronoun_templates", "template_id", "template")
        return {row["template_id"]: ("any", row["template"]) for row in rows}
    frames = [
        row["template"]
        for row in table("mask_frames", "pack", "frame", "template")
        if row["pack"] == pack
    ]
    path = studies.corpus_dir(STIGMA) / "rq1_templates.csv"
    rows = studies.read_table(path, ("template_id", "phase", "template", "source"))
    templates: dict[str, tuple[str, str]] = {}
    for index, row in enumerate(rows):
        frame = frames[index % len(frames)]
        templates[row["template_id"]] = (row["phase"], row["template"].replace("<mask>", frame))
    return templates


def _column(pack: str) -> str:
    return "pronoun" if pack == "pronouns" else pack


def _masked_rows(pack: str) -> Iterator[dict[str, str]]:
    for level in dict.fromkeys(row["level"] for row in _masked_words(pack)):
        person = Person({}, {_column(pack): level}, "")
        for item, (phase, template) in _masked_templates(pack).items():
            for condition in _conditions("diagnosis"):
                text = studies.fill(template, diagnosis=condition[0])
                yield _row(
                    f"stigma_{pack}", phase, person, item, condition, text, f"{NAME}/{pack}/{level}"
                )


def _masked_packs() -> dict[str, dict[str, str]]:
    return {row["pack"]: row for row in table("mask_packs", "pack", "question", "reference")}


def _word_rows() -> Iterator[dict[str, str]]:
    """The words that ``lexicon`` names: ``list`` and ``label`` with a slash between."""
    for pack in _masked_packs():
        for row in _masked_words(pack):
            yield {
                "list": f"{NAME}/{pack}",
                "word": row["word"],
                "label": row["level"],
                "match": row["match"],
            }


_EVERY = [(pack, claim) for claim in CLAIMS for pack in packs().values()]
_AT_MASKS = _masked_packs()
ROWS = {
    "people": people_rows,
    "words": _word_rows,
    **{f"{claim}_{pack.name}": partial(_rows, pack, claim) for pack, claim in _EVERY},
    **{
        f"{claim}_{pack.name}_wordings": partial(_reworded, pack, claim)
        for pack, claim in _EVERY
        if pack.nested
    },
    **{f"stigma_{pack}": partial(_masked_rows, pack) for pack in _AT_MASKS},
}
CORPUS = studies.declared_corpus(
    NAME, ROWS, lexicons={pack: partial(_lexicon, pack) for pack in _AT_MASKS}
)
__getattr__ = builder_on_use(NAME)
