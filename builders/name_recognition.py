"""name_recognition: whose first names does a token classifier find in short notes?"""

from collections.abc import Iterator
from functools import cache, partial

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
    tables,
)

NAME = "name_recognition"
FOLDER = corpus_dir(NAME)
LEAD = "Progress note:"
RACES = {"black": "Black", "asian": "Asian", "hispanic": "Hispanic", "white": "White"}
SEXES = {"female": "women", "male": "men"}
SETS = 72
"""Sets of names, of one name of each group."""
IN_TEMPLATE = 4
"""Sets of names in each template, and names in each template of the control."""
SENTENCE = "sentence"


def templates() -> list[Row]:
    """Read the templates with their form."""
    return [*read_table(FOLDER / "templates.csv", ("template", "form", "source"))]


@cache
def groups() -> dict[str, tuple[str, str, list[str]]]:
    """Draw the names of each group, with its race and sex."""
    return {
        f"{race_word} {sex_word}": (race, sex, name_bank.draw_names(race, sex, SETS))
        for race, race_word in RACES.items()
        for sex, sex_word in SEXES.items()
    }


def _row(
    experiment: str, pair: str, group: str, fills: tuple[str, str, str], row: Row, lead: str
) -> Row:
    """Make the row of a template with a name or a common word, which is to be found."""
    race, sex, word = fills
    text = fill(row["template"], name=word if race else f"the {word}")
    prompt = prompt_row(
        pair,
        group,
        f"{lead} {text[0].upper()}{text[1:]}".strip(),
        experiment,
        candidates=(Candidate(word, 1.0),),
        construct="control" if experiment == "control" else "",
        label=row["form"],
        template=row["template"],
    )
    race_word = f"{RACES[race]} people" if race else ""
    return {**prompt, "race": race_word, "sex": SEXES.get(sex, ""), "name": word}


def names(lead: str = LEAD) -> Iterator[Row]:
    """Yield each template with four sets of names; each set is in four templates.

    Args:
        lead: what each text begins with; blank: nothing.
    """
    for number, row in enumerate(templates()):
        for step in range(IN_TEMPLATE):
            chosen = (number + step * SETS // IN_TEMPLATE) % SETS
            for group, (race, sex, of_group) in groups().items():
                pair = f"{number + 1}/{chosen + 1}"
                made = _row("names", pair, group, (race, sex, of_group[chosen]), row, lead)
                yield {**made, "names": f"set {chosen + 1}"}


def reworded() -> Iterator[Row]:
    """Yield the same rows with every other lead: nothing is swapped."""
    for number, worded in tables.wordings(NAME, "frame").items():
        for row, other in zip(names(), names(worded[LEAD]["template"]), strict=True):
            yield placebo(row, number, other["text"])


def control(lead: str = LEAD) -> Iterator[Row]:
    """Yield each sentence with four names of different groups, and each time with a common word in its place.

    Args:
        lead: what each text begins with; blank: nothing.
    """
    words = [row["word"] for row in read_table(FOLDER / "words.csv", ("word", "source"))]
    drawn = [*groups().values()]
    sentences = [row for row in templates() if row["form"] == SENTENCE]
    for number, row in enumerate(sentences):
        for step in range(IN_TEMPLATE):
            race, sex, of_group = drawn[(number + 2 * step) % len(drawn)]
            name = of_group[(number + step * len(sentences) // 2) % SETS]
            word = words[(IN_TEMPLATE * number + step) % len(words)]
            fills = {"name": (race, sex, name), "common word": ("", "", word)}
            for group, of_fill in fills.items():
                made = _row("control", f"{number + 1}/{step + 1}", group, of_fill, row, lead)
                yield {**made, "names": word}


CORPUS = declared_corpus(
    NAME,
    {
        "names": names,
        "names_wordings": reworded,
        "names_bare": partial(names, ""),
        "control": control,
        "control_bare": partial(control, ""),
        "templates": templates,
    },
)
__getattr__ = builder_on_use(NAME)
