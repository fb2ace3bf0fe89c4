"""spanish_occupations: professions by gender and nationality in Spanish, where templates agree with the person."""

from collections.abc import Iterator
from functools import cache
from itertools import product

from swapbias.studies import (
    PLACEBO_COLUMNS,
    PROMPT_COLUMNS,
    Config,
    Corpus,
    corpus_dir,
    declared_study,
    fill,
    placebo,
    prompt_row,
    read_table,
    slots,
)

NAME = "spanish_occupations"
GENDERS = ("woman", "man")
COLUMNS = (*PROMPT_COLUMNS, "gender", "nationality")


def _table(name: str, *columns: str) -> list[dict[str, str]]:
    return read_table(corpus_dir(NAME) / f"{name}.csv", (*columns, "source"))


@cache
def _forms(gender: str) -> dict[str, str]:
    """Articles and participles by slot."""
    return {row["slot"]: row[gender] for row in _table("agreement", "slot", "man", "woman")}


def _agreeing(template: str, gender: str, **words: str) -> str:
    """The template with the words given, and articles and participles in the form of the gender."""
    forms = {**_forms(gender), **words}
    return fill(template, **{slot: forms[slot] for slot in slots(template)})


def _rows(wording: int = 0) -> Iterator[dict[str, str]]:
    claim = _table("claims", "wording", "template")[wording]["template"]
    phrases = _table("phrases", "phrase", "man", "woman", "template")
    nationalities = _table("nationalities", "nationality", "man", "woman", "country")
    professions = _table("professions", "profession", "man", "woman")
    for nationality, gender, phrase in product(nationalities, GENDERS, phrases):
        words = {"noun": phrase[gender], "nationality": nationality[gender], "country": nationality["country"]}
        person = _agreeing(phrase["template"], gender, **words)
        start, group = person[:1].upper() + person[1:], f"{nationality['nationality']} {gender}"
        for profession in professions:
            row = prompt_row(
                f"{phrase['phrase']}/{profession['profession']}", group,
                _agreeing(claim, gender, person=start, profession=profession[gender]), "sentences_es",
                construct="occupation", condition=profession["profession"], template=phrase["phrase"],
                label="one form" if profession["man"] == profession["woman"] else "two forms",
            )  # fmt: skip
            yield {**row, "gender": gender, "nationality": nationality["nationality"]}


def _reworded() -> Iterator[dict[str, str]]:
    for number in range(1, len(_table("claims", "wording", "template"))):
        for row in _rows(number):
            yield placebo(row, str(number), row["text"])


STUDY = declared_study(NAME)

CORPUS = Corpus(
    name=NAME,
    title="Spanish sentences about professions by gender and nationality",
    version="3.0.0",
    tags=("gender-bias", "social-bias", "counterfactual"),
    study=STUDY,
    configs=(
        Config("sentences_es", "2 genders x 4 nationalities x 12 phrases x 20 professions", _rows, COLUMNS),
        Config("sentences_es_wordings", "The 1,920 sentences in 5 wordings", _reworded, (*COLUMNS, *PLACEBO_COLUMNS)),
    ),
)
