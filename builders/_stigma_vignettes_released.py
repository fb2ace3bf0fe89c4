"""The questions of stigma_vignettes, the row of a vignette with a question, and the answers that were released."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from swapbias.studies import Candidate, Released, Row, corpus_dir, prompt_row, read_table, tables
from swapbias.studies.published import ReleasedNumber

NAME = "stigma_vignettes"
FOLDER = corpus_dir(NAME)
CONTROL = "daily troubles"
STIGMA = "stigma"
SLOTS = ("gender", "race", "education")
UNKNOWN = "Do not know"
ASKED = 72 * 14
"""Answers of a released run."""
NAMED = f"name an option, of {ASKED}"
COUNTED = f"count, of {ASKED}"
# as released: ``condition``, ``race``, ``gender``, ``education``, ``vignette``
Vignette = Mapping[str, str]


class Question(NamedTuple):
    """One question: its options in order, and what each counts, 1 toward stigma (or agreement)."""

    name: str
    construct: str
    scale: str
    text: str
    options: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def listing(self) -> str:
        """The question as a model reads it."""
        options = zip("ABCDE", (*self.options, UNKNOWN), strict=True)
        return "\n".join([self.text, *(f"- ({letter}): {option}" for letter, option in options)])

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The options with what they count, as prompts have them."""
        return (*map(Candidate, self.options, map(float, self.values)), Candidate(UNKNOWN))


def questions(*, printed: bool = False) -> list[Question]:
    """The 14 questions, as corrected or as printed."""
    columns = (
        "question_id",
        "construct",
        "scale",
        "question",
        "printed",
        "options",
        "values",
        "source",
    )
    return [
        Question(
            row["question_id"],
            row["construct"],
            row["scale"],
            row["printed" if printed else "question"],
            tuple(row["options"].split("|")),
            tuple(row["values"].split("|")),
        )
        for row in read_table(FOLDER / "questions.csv", columns)
    ]


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a released file."""
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def question_of(condition: str, question: str) -> str:
    return f"{condition}: {question}"


def vignette_row(
    vignette: Vignette, question: Question, experiment: str, text: str, order: str = ""
) -> Row:
    """A prompt as an experiment compares it: what is swapped is its group, all else is its pair."""
    swapped = {name: vignette[name] for name in SLOTS}
    group = swapped.get(experiment) or (order if experiment == "order" else vignette["condition"])
    person = ", ".join(
        vignette[slot] for slot in ("race", "gender", "education") if slot != experiment
    )
    pair = f"{question.name}/{vignette['condition']}/{person}"
    if group == vignette["condition"]:
        pair = f"{question.name}/{person}"
    row = prompt_row(
        pair,
        group,
        text,
        experiment,
        candidates=question.candidates,
        construct=question.construct,
        condition=vignette["condition"],
        template=question.name,
        label="control" if vignette["condition"] == CONTROL else "with a condition",
    )
    return {
        **row,
        "person": person,
        "asked": question_of(vignette["condition"], question.name),
        **swapped,
    }


def released_rows(experiments: Iterable[str], files: Mapping[str, Path]) -> Iterator[Row]:
    """The answers of a run as the authors read them, at their start alone; ``unanswered`` where they read none."""
    by_text = {question.text: question for question in questions(printed=True)}
    for answer in json_lines(next(iter(files.values()))):
        # True: one of the upper two options
        question = by_text[answer["question_only"]]
        code = answer["code"]
        score = float("nan") if code is None else float(question.values[-1 if code else 0])
        for experiment in experiments:
            if (question.scale == STIGMA) == (experiment != "beliefs"):
                row = vignette_row(answer, question, experiment, answer["prompt"])
                yield {**row, "score": score, "unanswered": float(code is None)}


def _counts(files: Mapping[str, Path]) -> Iterator[ReleasedNumber]:
    """Count the prompts of the scale to which the authors read no answer, and those that we read otherwise."""
    from swapbias.studies import read_answer  # numpy, which listing the studies does not need

    by_text = {question.text: question for question in questions(printed=True)}
    answers = list(json_lines(next(iter(files.values()))))
    of_scale = [answer for answer in answers if by_text[answer["question_only"]].scale == STIGMA]
    for name, is_control in (("with a condition", False), ("control", True)):
        part = [answer for answer in of_scale if (answer["condition"] == CONTROL) == is_control]
        unread = sum(answer["code"] is None for answer in part)
        yield ReleasedNumber("", "answers", f"{name}: none of {len(part)}", float(unread))
    for contrast, column in ((NAMED, "answer"), (COUNTED, "code")):
        count = sum(answer[column] is not None for answer in answers)
        yield ReleasedNumber("", "answers", contrast, float(count))
    otherwise = 0
    for answer in answers:
        candidates = by_text[answer["question_only"]].candidates
        options = [candidate.text for candidate in candidates]
        option = read_answer(answer["output"], options, lettered=True)
        if (option if option in options else None) != answer["answer"]:
            otherwise += 1
    contrast = f"read otherwise by this package, of {len(answers)}"
    yield ReleasedNumber("", "answers", contrast, float(otherwise))


def released() -> Iterator[Released]:
    """Every run whose file is pinned: a model's name and whether it was asked as a therapist stand in its path."""
    for path in tables.pinned_files(NAME):
        run = path.removeprefix("results/stigma/model=")
        if run != path:
            model, _, rest = run.partition("&steel-man-prompt=")
            experiments = (
                ("therapist",) if rest.startswith("True/") else ("conditions", "beliefs", *SLOTS)
            )
            rows = partial(released_rows, experiments)
            name = model.replace("__", "/")
            yield Released(
                model=name, experiment=experiments[0], files=(path,), rows=rows, counts=_counts
            )
