"""spanish_occupations: professions by gender and nationality in Spanish, where templates agree with the person."""

from collections.abc import Iterator
from functools import cache
from itertools import product

from swapbias import studies
from swapbias.hub import builder_on_use

NAME = "spanish_occupations"
GENDERS = ("woman", "man")


def _table(name: str, *columns: str) -> list[dict[str, str]]:
    return studies.read_table(studies.corpus_dir(NAME) / f"{name}.csv", (*columns, "source"))


@cache
def _forms(gender: str) -> dict[str, str]:
    """Articles and participles by slot."""
    return {row["slot"]: row[gender] for row in _table("agreement", "slot", "man", "woman")}


def _agreeing(template: str, gender: str, **words: str) -> str:
    """The template with the words given, and articles and participles in the form of the gender."""
    forms = {**_forms(gender), **words}
    return studies.fill(template, **{slot: forms[slot] for slot in studies.slots(template)})


def _rows(wording: int = 0) -> Iterator[dict[str, str]]:
    claim = _table("claims", "wording", "template")[wording]["template"]
    phrases = _table("phrases", "phrase", "man", "woman", "template")
    nationalities = _table("nationalities", "nationality", "man", "woman", "country")
    professions = _table("professions", "profession", "man", "woman")
    for nationality, gender, phrase in product(nationalities, GENDERS, phrases):
        words = {
            "noun": phrase[gender],
            "nationality": nationality[gender],
            "country": nationality["country"],
        }
        person = _agreeing(phrase["template"], gender, **words)
        start = person[:1].upper() + person[1:]
        group = f"{nationality['nationality']} {gender}"
        for profession in professions:
            row = studies.prompt_row(
                f"{phrase['phrase']}/{profession['profession']}",
                group,
                _agreeing(claim, gender, person=start, profession=profession[gender]),
                "sentences_es",
                construct="occupation",
                condition=profession["profession"],
                template=phrase["phrase"],
                label="one form" if profession["man"] == profession["woman"] else "two forms",
            )
            yield {**row, "gender": gender, "nationality": nationality["nationality"]}


def _reworded() -> Iterator[dict[str, str]]:
    for number in range(1, len(_table("claims", "wording", "template"))):
        for row in _rows(number):
            yield studies.placebo(row, str(number), row["text"])


ROWS = {"sentences_es": _rows, "sentences_es_wordings": _reworded}
CORPUS = studies.declared_corpus(NAME, ROWS)
__getattr__ = builder_on_use(NAME)
