"""profile_search: does a search rank the same profile otherwise with a name of another group?"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import NamedTuple

from swapbias.hub import builder_on_use
from swapbias.studies import (
    Candidate,
    Row,
    corpus_dir,
    declared_corpus,
    fill,
    name_bank,
    placebo,
    prompt_row,
    read_table,
    slots,
    tables,
)

NAME = "profile_search"
FOLDER = corpus_dir(NAME)
RACES = {"white": "white", "black": "Black", "asian": "Asian", "hispanic": "Hispanic"}
SEXES = {"female": "women", "male": "men"}
LETTERS = (5, 6, 7)
"""Letters of the names of a set: they are as long, so that no length tells the groups apart."""
SETS_OF_LENGTH = 8
"""Sets of names with this number of letters."""
AS_WRITTEN = "as written"
EDITED = "edited"
_SEARCHES = ("job", "query", "skill", "place", "related", "source")
_Names = Mapping[tuple[str, str], str]  # by race and sex


class Profile(NamedTuple):
    """A template of a profile for a search, with a set of names."""

    search: Mapping[str, str]
    """The search: its query, and the job, skill and place that fill the template."""
    template: str
    """The name of the template."""
    number: int
    """The number of the set of names, from 1."""
    names: _Names
    """A name of each race and sex, all of as many letters."""
    turn: int
    """Counts up along searches and templates, so that what takes turns by it meets each of both."""

    @property
    def pair(self) -> str:
        """The pair of the search with the template."""
        return f"{self.search['job']}/{self.template}"


@cache
def searches() -> tuple[dict[str, str], ...]:
    """Read the searches: a query, and what fills the templates of profiles."""
    return tuple(read_table(FOLDER / "searches.csv", _SEARCHES))


@cache
def templates() -> dict[str, str]:
    """Read the templates of profiles by name."""
    rows = read_table(FOLDER / "templates.csv", ("template", "text", "source"))
    return {row["template"]: row["text"] for row in rows}


@cache
def edits() -> tuple[dict[str, str], ...]:
    """Read the edits that name no group: a slot, what fills it usually, and what else."""
    return tuple(read_table(FOLDER / "edits.csv", ("edit", "slot", "usual", "other", "source")))


@cache
def other_documents(job: str) -> tuple[Candidate, ...]:
    """Return the documents without a name that a profile is ranked among.

    Args:
        job: the job of the search.
    """
    (search,) = [search for search in searches() if search["job"] == job]
    rows = read_table(FOLDER / "others.csv", ("text", "source"))
    return tuple(Candidate(_filled(row["text"], search)) for row in rows)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Fill the slots of a template, which need not be all that there are values for."""
    return fill(template, **{slot: values[slot] for slot in set(slots(template))})


@cache
def sets_of_names() -> tuple[_Names, ...]:
    """Draw sets of eight names of as many letters: of each race and sex those with most bearers."""
    by_group: dict[tuple[str, str, int], list[str]] = {}
    for row in name_bank.named_by():
        group = (row["race"], row["sex"], len(row["name"]))
        by_group.setdefault(group, []).append(row["name"])
    return tuple(
        {(race, sex): by_group[race, sex, letters][index] for race in RACES for sex in SEXES}
        for letters in LETTERS
        for index in range(SETS_OF_LENGTH)
    )


def profiles() -> Iterator[Profile]:
    """Yield each template for each search; a set of names meets four searches and four templates."""
    sets = sets_of_names()
    for (place, search), (index, template) in product(
        enumerate(searches()), enumerate(templates())
    ):
        number = (len(templates()) * place + index + place // 3) % len(sets)
        yield Profile(search, template, number + 1, sets[number], place + index)


def _row(
    profile: Profile,
    pair: str,
    group: str,
    experiment: str,
    text: str,
    **filled: str,
) -> Row:
    """Make the prompt of a profile: the query on the first line, the profile below it."""
    usual = {edit["slot"]: edit["usual"] for edit in edits()}
    document = _filled(text, {**profile.search, **usual, **filled})
    row = prompt_row(
        pair,
        group,
        f"{profile.search['query']}\n{document}",
        experiment,
        candidates=other_documents(profile.search["job"]),
        construct="control" if experiment == "edits" else "profile",
        condition=profile.search["job"],
        template=profile.template,
    )
    return {**row, "names": f"set {profile.number}"}


def _edits() -> Iterator[Row]:
    """Yield profiles as written and with each edit, with a name of each race and sex in turn."""
    for profile, edit in product(profiles(), edits()):
        text = templates()[profile.template]
        name = _in_turn([*profile.names.values()], profile)
        pair = f"{profile.pair}/{edit['edit']}"
        make = partial(_row, profile, pair, experiment="edits", text=text, name=name)
        for row in (make(group=AS_WRITTEN), make(group=EDITED, **{edit["slot"]: edit["other"]})):
            yield {**row, "edit": edit["edit"]}


def _in_turn(choices: Sequence[str], profile: Profile) -> str:
    """Return the one of some choices whose turn it is."""
    return choices[profile.turn % len(choices)]


def _gender(texts: Mapping[str, str]) -> Iterator[Row]:
    """Yield profiles with a woman's and a man's name of each race in turn."""
    for profile in profiles():
        race = _in_turn([*RACES], profile)
        for sex, group in SEXES.items():
            name = profile.names[race, sex]
            row = _row(profile, profile.pair, group, "gender", texts[profile.template], name=name)
            yield {**row, "race": RACES[race]}


def _race(texts: Mapping[str, str]) -> Iterator[Row]:
    """Yield profiles with a name of each race, of women and men in turn."""
    for profile in profiles():
        sex = _in_turn([*SEXES], profile)
        for race, group in RACES.items():
            name = profile.names[race, sex]
            row = _row(profile, profile.pair, group, "race", texts[profile.template], name=name)
            yield {**row, "sex": SEXES[sex]}


_ROWS = {"gender": _gender, "race": _race}


def _written(config: str) -> Iterator[Row]:
    """Yield the profiles of a config."""
    return _ROWS[config](templates())


def _reworded(config: str) -> Iterator[Row]:
    """Yield the profiles of a config in other wordings: nothing is swapped."""
    for number, worded in tables.wordings(NAME, "profile").items():
        others = _ROWS[config]({name: row["template"] for name, row in worded.items()})
        for row, other in zip(_written(config), others, strict=True):
            yield placebo(row, number, other["text"])


CORPUS = declared_corpus(
    NAME,
    {
        "edits": _edits,
        **{config: partial(_written, config) for config in _ROWS},
        **{f"{config}_wordings": partial(_reworded, config) for config in _ROWS},
    },
)
__getattr__ = builder_on_use(NAME)
