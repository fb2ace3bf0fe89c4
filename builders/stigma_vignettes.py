"""stigma_vignettes: would a chat model keep its distance from people in vignettes (Moore et al. 2025)?"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.studies import (
    PROMPT_COLUMNS,
    Candidate,
    Config,
    Corpus,
    Covariate,
    Released,
    Rubric,
    conversation,
    corpus_dir,
    declared_study,
    fill,
    pinned_files,
    prompt_row,
    read_table,
    slots,
    table_config,
    upstream_file,
)

NAME = "stigma_vignettes"
FOLDER = corpus_dir(NAME)
PEOPLE = ("question_id", "condition", "percent", "source")
COLUMNS = (*PROMPT_COLUMNS, "person", "asked", "gender", "race", "education")
CONTROL, STIGMA, REVERSED, ADVICE = "daily troubles", "stigma", "reversed", "advice"
RACES = ("White", "African American", "Hispanic")
GENDERS = ("man", "woman")
EDUCATIONS = ("8th grade", "high school", "college")
SLOTS = ("gender", "race", "education")
UNKNOWN = "Do not know"
_WORDS = {
    "man": {"name": "John", "noun": "man", "he": "he", "him": "him", "his": "his", "himself": "himself"},
    "woman": {"name": "Mary", "noun": "woman", "he": "she", "him": "her", "his": "her", "himself": "herself"},
}
# Trap: the names of the two files are swapped upstream.
PRINTED = {"vignettes": "data/questions.jsonl", "questions": "data/vignettes.jsonl"}


@dataclass(frozen=True, slots=True)
class Question:
    """One question: its options in order, and what each counts, 1 toward stigma (or agreement)."""

    name: str
    construct: str
    scale: str
    text: str
    options: tuple[str, ...]
    values: tuple[str, ...]

    def reversed(self) -> "Question":
        """With the options in reverse order; "Do not know" stays the last."""
        return replace(self, options=self.options[::-1], values=self.values[::-1])

    @property
    def listing(self) -> str:
        """As a model reads it."""
        lines = (f"- ({letter}): {one}" for letter, one in zip("ABCDE", (*self.options, UNKNOWN), strict=True))
        return "\n".join([self.text, *lines])

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The options with what they count, as prompts have them."""
        return (*map(Candidate, self.options, map(float, self.values)), Candidate(UNKNOWN))


@dataclass(frozen=True, slots=True)
class Vignette:
    """A paragraph about one person."""

    condition: str
    race: str
    gender: str
    education: str
    text: str

    def people(self, *but: str) -> str:
        """Who it is about, but for some of the slots."""
        every = {"race": self.race, "gender": self.gender, "education": self.education}
        return ", ".join(value for slot, value in every.items() if slot not in but)


# --- tables -------------------------------------------------------------------------------------------


def questions(*, printed: bool = False) -> list[Question]:
    """The 14 questions, as corrected or as printed."""
    columns = ("question_id", "construct", "scale", "question", "printed", "options", "values", "source")
    return [
        Question(
            row["question_id"], row["construct"], row["scale"], row["printed" if printed else "question"],
            tuple(row["options"].split("|")), tuple(row["values"].split("|")),
        )
        for row in read_table(FOLDER / "questions.csv", columns)
    ]  # fmt: skip


def own_vignettes() -> Iterator[Vignette]:
    """72 vignettes with the article right and one name a gender, so that race is a word alone."""
    for row in read_table(FOLDER / "vignettes.csv", ("condition", "template", "source")):
        for education in EDUCATIONS:
            for race in RACES:
                for gender in GENDERS:
                    words = _WORDS[gender]
                    capital = {f"capital_{one}": words[one].capitalize() for one in ("he", "his")}
                    shown = {"race": race, "education": education, "article": "an" if race[0] == "A" else "a"}
                    known = {**words, **capital, **shown}
                    text = fill(row["template"], **{slot: known[slot] for slot in slots(row["template"])})
                    yield Vignette(row["condition"], race, gender, education, text)


def printed_vignettes() -> Iterator[Vignette]:
    """The 72 vignettes of the authors."""
    for row in _lines(upstream_file(NAME, PRINTED["vignettes"])):
        yield Vignette(row["condition"], row["race"], row["gender"], row["education"], row["vignette"])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def people() -> dict[str, float]:
    """Share of US adults in 2018 who gave a stigmatizing (or agreeing) answer, by ``asked``."""
    rows = read_table(FOLDER / "people.csv", PEOPLE)
    return {_question_of(row["condition"], row["question_id"]): float(row["percent"]) / 100 for row in rows}


def _question_of(condition: str, question: str) -> str:
    return f"{condition}: {question}"


def _before(*, therapist: bool, printed: bool) -> list[tuple[str, str]]:
    """The turns before a question: the system's instruction and one worked example."""
    rows = read_table(FOLDER / "turns.csv", ("name", "text", "printed", "source"))
    said = {row["name"]: row["printed" if printed else "text"] for row in rows}
    system = f"{said['therapist']}\n{said['instruction']}" if therapist else said["instruction"]
    return [("system", system), ("user", said["example"]), ("assistant", said["example_answer"])]


# --- rows ---------------------------------------------------------------------------------------------


def _row(vignette: Vignette, question: Question, experiment: str, text: str, order: str = "") -> dict[str, str]:
    """A prompt as an experiment compares it: what is swapped is its group, all else is its pair."""
    swapped = {name: getattr(vignette, name) for name in ("gender", "race", "education")}
    group = swapped.get(experiment) or (order if experiment == "order" else vignette.condition)
    person = vignette.people(experiment)
    pair = [question.name, *([vignette.condition] if group != vignette.condition else []), person]
    row = prompt_row(
        "/".join(pair), group, text, experiment, candidates=question.candidates, construct=question.construct,
        condition=vignette.condition, template=question.name,
        label="control" if vignette.condition == CONTROL else "with a condition",
    )  # fmt: skip
    return {**row, "person": person, "asked": _question_of(vignette.condition, question.name), **swapped}


def _rows(experiment: str, *, printed: bool = False) -> Iterator[dict[str, str]]:
    """Every vignette with the six questions of the scale, or with the eight others."""
    chosen = [one for one in questions(printed=printed) if (one.scale == STIGMA) == (experiment != "beliefs")]
    before = _before(therapist=experiment == "therapist", printed=printed)
    for vignette in printed_vignettes() if printed else own_vignettes():
        for question in chosen:
            for order, one in _orders(question) if experiment == "order" else [("", question)]:
                prompt = f"Vignette:\n{vignette.text}\n\n{one.listing}"
                yield _row(vignette, one, experiment, conversation(*before, ("user", prompt)), order)


def _advice(slot: str) -> Iterator[dict[str, str]]:
    """Every vignette with the six questions of the scale as they stand, without options: an answer in free text."""
    wanted = _rubric_row()["asked"]
    for vignette in own_vignettes():
        for question in questions():
            if question.scale == STIGMA:
                row = _row(vignette, question, slot, f"Vignette:\n{vignette.text}\n\n{question.text}\n\n{wanted}")
                # The upper options are those of "yes": very likely, definitely willing.
                yes, no = (float(question.values[place]) for place in (-1, 0))
                answers = (Candidate("Yes", yes), Candidate("No", no), Candidate("It depends"))
                yield {**row, "candidates": answers, "experiment": f"{ADVICE}_{slot}"}


def _rubric_row() -> dict[str, str]:
    (row,) = read_table(FOLDER / "rubric.csv", ("asked", "question", "options", "values", "unknown", "source"))
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


def _orders(question: Question) -> list[tuple[str, Question]]:
    return [("published", question), (REVERSED, question.reversed())]


# --- what the authors released ------------------------------------------------------------------------


def _released(experiments: tuple[str, ...], files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """The answers of a run as the authors read them, at their start alone; ``unanswered`` where they read none."""
    known = {one.text: one for one in questions(printed=True)}
    for one in _lines(next(iter(files.values()))):
        vignette = Vignette(one["condition"], one["race"], one["gender"], one["education"], one["vignette"])
        question = known[one["question_only"]]
        for experiment in experiments:
            if (question.scale == STIGMA) == (experiment != "beliefs"):
                row = _row(vignette, question, experiment, one["prompt"])
                yield {**row, "score": _score(question, one["code"]), "unanswered": float(one["code"] is None)}


def _score(question: Question, code: bool | None) -> float:
    """What an answer counts whose option is one of the upper two (True) or the lower two."""
    return float("nan") if code is None else float(question.values[-1 if code else 0])


def _counts(experiment: str, files: Mapping[str, Path]) -> Iterator[tuple[str, str, str, float]]:
    """To how many prompts of the scale the authors read no answer, and how many this package reads otherwise."""
    from swapbias.studies import read_answer  # numpy, which listing the studies does not need

    known = {one.text: one for one in questions(printed=True)}
    rows = list(_lines(next(iter(files.values()))))
    scale = [one for one in rows if known[one["question_only"]].scale == STIGMA]
    for name, control in (("with a condition", False), ("control", True)):
        some = [one for one in scale if (one["condition"] == CONTROL) == control]
        yield "", "answers", f"{name}: none of {len(some)}", float(sum(one["code"] is None for one in some))
    otherwise = 0
    for one in rows:
        options = [option.text for option in known[one["question_only"]].candidates]
        said = read_answer(one["output"], options, lettered=True)
        otherwise += (said if said in options else None) != one["answer"]
    yield "", "answers", f"read otherwise by this package, of {len(rows)}", float(otherwise)


def released() -> Iterator[Released]:
    """Every run whose file is pinned: a model's name and whether it was asked as a therapist stand in its path."""
    for path in pinned_files(NAME):
        run = path.removeprefix("results/stigma/model=")
        if run != path:
            model, _, rest = run.partition("&steel-man-prompt=")
            experiments = ("therapist",) if rest.startswith("True/") else ("conditions", "beliefs", *SLOTS)
            yield Released(
                model=model.replace("__", "/"),
                experiment=experiments[0],
                files=(path,),
                rows=partial(_released, experiments),
                counts=partial(_counts, experiments[0]),
            )


# --- the declaration ----------------------------------------------------------------------------------


STUDY = declared_study(
    NAME, covariates=(Covariate("US adults 2018", "asked", people(), beside=True),), rubric=_rubric()
)

_DESCRIPTIONS = {
    "conditions": "72 vignettes x the 6 questions of the stigma scale",
    "therapist": "The same with a system text that asks for a good therapist",
    "beliefs": "72 vignettes x the 8 other questions",
    "gender": "The prompts of conditions in pairs of a man and a woman",
    "race": "The prompts of conditions in triples of three races",
    "education": "The prompts of conditions in triples of three educations",
    "order": "The prompts of conditions with the options in both orders",
}


def _config(name: str, *, printed: bool) -> Config:
    before, after = ("original_", ", as published") if printed else ("", "")
    rows = partial(_rows, name, printed=printed)
    upstream = (PRINTED["vignettes"],) if printed else ()
    return Config(f"{before}{name}", f"{_DESCRIPTIONS[name]}{after}", rows, COLUMNS, upstream=upstream, chats=True)


def _advice_config(slot: str) -> Config:
    description = f"The prompts of {slot} without options, to be answered in free text"
    return Config(f"{ADVICE}_{slot}", description, partial(_advice, slot), COLUMNS, chats=True)


CORPUS = Corpus(
    name=NAME,
    title="Vignettes of people with mental health conditions, and questions of social distance",
    version="3.0.0",
    study=STUDY,
    released=tuple(released()),
    configs=(
        *(_config(name, printed=False) for name in _DESCRIPTIONS),
        table_config(
            NAME, "people", "Share of US adults in 2018 by question and condition", PEOPLE, types={"percent": "int64"}
        ),
        *(_config(name, printed=True) for name in _DESCRIPTIONS),
        *(_advice_config(slot) for slot in SLOTS),
    ),
)
