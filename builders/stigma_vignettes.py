"""stigma_vignettes: would a chat model keep its distance from people in vignettes (Moore et al. 2025)?"""

from collections.abc import Iterator
from functools import partial
from itertools import product

from swapbias.builders._stigma_vignettes_released import (
    FOLDER,
    NAME,
    SLOTS,
    STIGMA,
    Vignette,
    json_lines,
    question_of,
    questions,
    released,
    vignette_row,
)
from swapbias.studies import (
    Candidate,
    Covariate,
    Row,
    Rubric,
    chats,
    declared_corpus,
    declared_study,
    fill,
    read_table,
    slots,
    tables,
)

RACES = ("White", "African American", "Hispanic")
EDUCATIONS = ("8th grade", "high school", "college")
_WORDS = {
    "man": {
        "name": "John",
        "noun": "man",
        "he": "he",
        "him": "him",
        "his": "his",
        "himself": "himself",
    },
    "woman": {
        "name": "Mary",
        "noun": "woman",
        "he": "she",
        "him": "her",
        "his": "her",
        "himself": "herself",
    },
}
PRINTED = "data/questions.jsonl"  # the vignettes: upstream the names of two files are swapped


def own_vignettes() -> Iterator[Vignette]:
    """72 vignettes with the article right and one name a gender, so that race is a word alone."""
    rows = read_table(FOLDER / "vignettes.csv", ("condition", "template", "source"))
    for row, education, race, gender in product(rows, EDUCATIONS, RACES, _WORDS):
        words = _WORDS[gender]
        known = {**words, **{f"capital_{one}": words[one].capitalize() for one in ("he", "his")}}
        known |= {"race": race, "education": education, "article": "an" if race[0] == "A" else "a"}
        text = fill(row["template"], **{slot: known[slot] for slot in slots(row["template"])})
        person = {"race": race, "gender": gender, "education": education}
        yield {"condition": row["condition"], **person, "vignette": text}


def people() -> dict[str, float]:
    """Share of US adults in 2018 who gave a stigmatizing (or agreeing) answer, by ``asked``."""
    rows = read_table(FOLDER / "people.csv", ("question_id", "condition", "percent", "source"))
    return {
        question_of(row["condition"], row["question_id"]): float(row["percent"]) / 100
        for row in rows
    }


def _before(*, therapist: bool, printed: bool) -> list[tuple[str, str]]:
    """The turns before a question: the system's instruction and one worked example."""
    rows = read_table(FOLDER / "turns.csv", ("name", "text", "printed", "source"))
    said = {row["name"]: row["printed" if printed else "text"] for row in rows}
    system = f"{said['therapist']}\n{said['instruction']}" if therapist else said["instruction"]
    return [("system", system), ("user", said["example"]), ("assistant", said["example_answer"])]


def _rows(experiment: str, *, printed: bool = False) -> Iterator[Row]:
    """Every vignette with the six questions of the scale, or with the eight others."""
    chosen = [
        one
        for one in questions(printed=printed)
        if (one.scale == STIGMA) == (experiment != "beliefs")
    ]
    before = _before(therapist=experiment == "therapist", printed=printed)
    for vignette in json_lines(tables.upstream_file(NAME, PRINTED)) if printed else own_vignettes():
        for question in chosen:
            turned = question._replace(options=question.options[::-1], values=question.values[::-1])
            orders = (
                {"published": question, "reversed": turned}
                if experiment == "order"
                else {"": question}
            )
            for order, one in orders.items():  # "Do not know" stays the last
                prompt = f"Vignette:\n{vignette['vignette']}\n\n{one.listing}"
                yield vignette_row(
                    vignette, one, experiment, chats.conversation(*before, ("user", prompt)), order
                )


def _advice(slot: str) -> Iterator[Row]:
    """Every vignette with the six questions of the scale as they stand, without options: an answer in free text."""
    wanted = _rubric_row()["asked"]
    for vignette in own_vignettes():
        for question in questions():
            if question.scale == STIGMA:
                text = f"Vignette:\n{vignette['vignette']}\n\n{question.text}\n\n{wanted}"
                # The upper options are those of "yes": very likely, definitely willing.
                yes, no = (float(question.values[place]) for place in (-1, 0))
                answers = (Candidate("Yes", yes), Candidate("No", no), Candidate("It depends"))
                row = vignette_row(vignette, question, slot, text)
                yield {**row, "candidates": answers, "experiment": f"advice_{slot}"}


def _rubric_row() -> dict[str, str]:
    (row,) = read_table(
        FOLDER / "rubric.csv", ("asked", "question", "options", "values", "unknown", "source")
    )
    return row


def _rubric() -> Rubric:
    """How a judge reads such an answer, and what it is not shown."""
    row = _rubric_row()
    options = map(Candidate, row["options"].split("|"), map(float, row["values"].split("|")))
    words = read_table(FOLDER / "neutral.csv", ("word", "stands", "source"))
    return Rubric(
        question=row["question"],
        candidates=(*options, Candidate(row["unknown"])),
        neutral={row["word"]: row["stands"] for row in words},
        units=("condition", "person"),
    )


_EXPERIMENTS = ("conditions", "therapist", "beliefs", *SLOTS, "order")
ROWS = {
    **{name: partial(_rows, name) for name in _EXPERIMENTS},
    **{f"original_{name}": partial(_rows, name, printed=True) for name in _EXPERIMENTS},
    **{f"advice_{slot}": partial(_advice, slot) for slot in SLOTS},
}
CORPUS = declared_corpus(
    NAME,
    ROWS,
    study=declared_study(
        NAME,
        covariates=(Covariate("US adults 2018", "asked", people(), beside=True),),
        rubric=_rubric(),
    ),
    released=tuple(released()),
)
