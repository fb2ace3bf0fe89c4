"""stigma_vignettes: would a chat model keep its distance from people in vignettes (Moore et al. 2025)?"""

from collections.abc import Iterator
from functools import partial
from itertools import product

from swapbias.builders._stigma_vignettes_released import (
    FOLDER,
    NAME,
    SLOTS,
    STIGMA,
    Question,
    Vignette,
    json_lines,
    question_of,
    questions,
    released,
    vignette_row,
)
from swapbias.builders._stigma_vignettes_tables import count_answers
from swapbias.hub import builder_on_use
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
        values = {
            **words,
            "capital_he": words["he"].capitalize(),
            "capital_his": words["his"].capitalize(),
            "race": race,
            "education": education,
            "article": "an" if race[0] == "A" else "a",
        }
        text = fill(row["template"], **{slot: values[slot] for slot in slots(row["template"])})
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
    texts = {row["name"]: row["printed" if printed else "text"] for row in rows}
    system = texts["instruction"]
    if therapist:
        system = f"{texts['therapist']}\n{system}"
    return [("system", system), ("user", texts["example"]), ("assistant", texts["example_answer"])]


def _rows(experiment: str, *, printed: bool = False) -> Iterator[Row]:
    """Every vignette with the six questions of the scale, or with the eight others."""
    asks_scale = experiment != "beliefs"
    chosen = [
        question
        for question in questions(printed=printed)
        if (question.scale == STIGMA) == asks_scale
    ]
    before = _before(therapist=experiment == "therapist", printed=printed)
    for vignette, question in product(_vignettes(printed=printed), chosen):
        for order, ordered in _orders(question, experiment).items():
            prompt = f"Vignette:\n{vignette['vignette']}\n\n{ordered.listing}"
            text = chats.conversation(*before, ("user", prompt))
            yield vignette_row(vignette, ordered, experiment, text, order)


def _vignettes(*, printed: bool) -> Iterator[Vignette]:
    """Give the vignettes as the authors released them, or ours."""
    if printed:
        return json_lines(tables.upstream_file(NAME, PRINTED))
    return own_vignettes()


def _orders(question: Question, experiment: str) -> dict[str, Question]:
    """Give a question in both orders of its options where these are compared; "Do not know" stays the last."""
    if experiment != "order":
        return {"": question}
    reversed_question = question._replace(
        options=question.options[::-1], values=question.values[::-1]
    )
    return {"published": question, "reversed": reversed_question}


def _advice(slot: str) -> Iterator[Row]:
    """Every vignette with the six questions of the scale as they stand, without options: an answer in free text."""
    wanted = _rubric_row()["asked"]
    for vignette in own_vignettes():
        for question in questions():
            if question.scale == STIGMA:
                text = f"Vignette:\n{vignette['vignette']}\n\n{question.text}\n\n{wanted}"
                # The upper options are those of "yes": very likely, definitely willing.
                yes = float(question.values[-1])
                no = float(question.values[0])
                answers = (Candidate("Yes", yes), Candidate("No", no), Candidate("It depends"))
                row = vignette_row(vignette, question, slot, text)
                yield {**row, "candidates": answers, "experiment": f"advice_{slot}"}


def _rubric_row() -> dict[str, str]:
    """Read the only row of the rubric."""
    columns = ("asked", "question", "options", "values", "unknown", "source")
    (row,) = read_table(FOLDER / "rubric.csv", columns)
    return row


def _rubric() -> Rubric:
    """Give the question to a judge of such an answer, and the words that it is not shown."""
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
    calculated_tables={"answers": count_answers},
)
__getattr__ = builder_on_use(NAME)
