"""Texts as nurses, posts and tables write them: each kind of sentence becomes the right one."""

import json
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from swapbias.swapping.rule_tables import DEMOGRAPHIC, GLUED
from swapbias.swapping.swapper import Swapper
from tests.conftest import ROOT
from tests.tables import rows_of

CASES = ROOT.parent / "shared" / "cases" / "swaps" / "cases.json"
LEXICON = ROOT / "datasets_src" / "gender_lexicon"
LEAST = 0.95  # of each kind
# Gendered nouns that stay, and why.
UNSWAPPED = {
    "guys": "said to anybody: you guys",
    "gals": "beside guys",
    "dude": "said to anybody",
    "chick": "a bird as well",
    "lad": "in capitals an artery",
    "lass": "beside lad",
    "lord": "mostly of God",
    "bachelor": "of a degree as well",
    "spinster": "beside bachelor",
    "monk": "a surname and a state of life, not a word for men",
    "nun": "beside monk",
}
# Terms without a plural in the table, and why.
NO_PLURAL = {
    **dict.fromkeys(("him", "his", "himself", "herself"), "pronouns"),
    **dict.fromkeys(
        ("miss", "ms", "sir", "madam", "ma'am"), "said to one person, or before one name"
    ),
    **dict.fromkeys(("fatherhood", "motherhood", "brotherhood", "sisterhood"), "states of life"),
    **dict.fromkeys(("manhood", "womanhood", "boyhood", "girlhood"), "states of life"),
    **dict.fromkeys(("gpa", "gma", "gramps", "mam"), "one of a family"),
    **dict.fromkeys(("fil", "mil", "bil", "sil"), "letters; mil and bil are units as well"),
    **dict.fromkeys(("bf/gf", "gf/bf", "bfs", "bb", "bg"), "letters for persons"),
    **dict.fromkeys(("f2m", "m2f", "f-to-m", "m-to-f"), "said of one person"),
    **dict.fromkeys(("mgm", "mgf", "pgm", "pgf", "fob", "mob"), "letters for one of a family"),
    **dict.fromkeys(("guy", "gal"), "guys is said to anybody"),
    "sis": "sisters is its plural",
}


def plural_of(noun):
    """The regular plural of a noun."""
    for ending, of_several in (("man", "men"), ("wife", "wives"), ("hero", "heroes")):
        if noun.endswith(ending):
            return noun.removesuffix(ending) + of_several
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    ends_in_y = noun.endswith("y") and noun[-2] not in "aeiou"
    return f"{noun[:-1]}ies" if ends_in_y else f"{noun}s"


KINDS = defaultdict(list)
for sentence in rows_of(Path(__file__).parent / "kinds.csv"):
    KINDS[sentence["kind"]].append(sentence)


@cache
def swapper_of(table, whose):
    return Swapper(table, whose=whose)


def swapped(case):
    swapper = swapper_of(case["table"], case["whose"])
    genders = [case["gender"] or None]
    return swapper.run([case["text"]], case["mode"], genders=genders).texts.to_pylist()[0]


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_of_a_kind(kind):
    """Each sentence of a kind becomes the one written down for it, and a guard stays right."""
    wrong = [
        (case["text"], swapped(case)) for case in KINDS[kind] if swapped(case) != case["becomes"]
    ]
    assert wrong == []


def test_judged_texts():
    """Of the texts judged by others 95 % of each kind become a right one."""
    if not CASES.is_file():
        pytest.skip("needs the judged texts of cases/swaps beside the checkout")
    right = defaultdict(list)
    for case in json.loads(CASES.read_text(encoding="utf-8")):
        right[case["kind"]].append(swapped(case) in case["right"])
    shares = {kind: sum(answers) / len(answers) for kind, answers in right.items()}
    assert {kind: share for kind, share in shares.items() if share < LEAST} == {}


def test_nouns_without_a_swap():
    """Each gendered noun has a swap, or stands in the list of those that stay with a reason."""
    nouns = {row["word"].rstrip(".") for row in rows_of(LEXICON / "nouns.csv")}
    assert nouns - swapper_of("resolved", "everyone").table.terms.keys() == UNSWAPPED.keys()


def test_each_noun_has_its_plural():
    """The plural of each term is a term too, or the term stands in the list of those without, with a reason."""
    terms = swapper_of("resolved", "everyone").table.terms.keys() - DEMOGRAPHIC - GLUED
    plurals = {plural_of(term) for term in terms}
    without = {term for term in terms if plural_of(term) not in terms and term not in plurals}
    assert without == NO_PLURAL.keys()
    assert plural_of("housewife") == "housewives"
    assert plural_of("lady") == "ladies"
