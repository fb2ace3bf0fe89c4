"""resume_ranking: which of eight equal CVs does a chat model rank first when only names differ (Bloomberg 2024)?"""

import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from swapbias.studies import (
    PROMPT_COLUMNS,
    Applicant,
    Candidate,
    Config,
    Corpus,
    Released,
    balanced_rankings,
    conversation,
    corpus_dir,
    declared_study,
    drawn_names,
    fill,
    names_of,
    pinned_files,
    prompt_row,
    read_table,
    shown_cvs,
    table_config,
    upstream_file,
)

NAME = "resume_ranking"
FOLDER = corpus_dir(NAME)
RESUMES = "data/intermediary/resumes_to_rank.json"
NAMES = {"men": "data/input/top_mens_names.json", "women": "data/input/top_womens_names.json"}
RANKINGS = "data/intermediary/resume_ranking/"
JOBS = ("software engineer", "HR specialist", "retail", "financial analyst")
RACES = {"B": "Black", "A": "Asian", "H": "Hispanic", "W": "White"}
GENDERS = {"W": "women", "M": "men"}
GROUPS = {f"{race}_{gender}": f"{RACES[race]} {GENDERS[gender]}" for race in RACES for gender in GENDERS}
BLOCKS = 12  # of eight runs a job
USED = 8 * BLOCKS  # names of a group
FIRST, LAST = "shown first", "shown last"
_OVERSAMPLED = "oversampled"  # the folder of runs that the authors exchanged for others
_COLUMNS = (*PROMPT_COLUMNS, "race", "gender", "name", "names", "position", "resume")
QUESTIONS = ("form", "system", "user", "source")
_INVITES = (Candidate("Yes", 1.0), Candidate("No", 0.0), Candidate("Do not know"))
_TYPES = {"position": "int64", "resume": "int64"}


# --- tables -------------------------------------------------------------------------------------------


@cache
def _jobs() -> dict[str, dict[str, Any]]:
    """Of each job eight CVs with the slot ``{name}`` (``resumes``) and the description (``jd``)."""
    jobs: dict[str, dict[str, Any]] = json.loads(upstream_file(NAME, RESUMES).read_text(encoding="utf-8"))
    return jobs


@cache
def names() -> dict[str, list[str]]:
    """The names of each group that prompts use, in an order drawn once."""
    found: dict[str, list[str]] = {group: [] for group in GROUPS.values()}
    for gender, path in NAMES.items():
        for race, every in json.loads(upstream_file(NAME, path).read_text(encoding="utf-8")).items():
            found[f"{RACES[race]} {gender}"] = every
    return drawn_names(found)


def _asked(form: str, job: str, resumes: Sequence[str]) -> str:
    """The conversation that poses some CVs; the authors put ``<hr>`` after each."""
    (row,) = (one for one in read_table(FOLDER / "questions.csv", QUESTIONS) if one["form"] == form)
    system = fill(row["system"], description=_jobs()[job]["jd"])
    return conversation(("system", system), ("user", fill(row["user"], job=job, resumes=shown_cvs(resumes))))


# --- rows ---------------------------------------------------------------------------------------------


def runs() -> Iterator[tuple[str, str, list[Applicant]]]:
    """Of each run its job, its id, and the candidates in the order shown."""
    for job, number, order in balanced_rankings(dict.fromkeys(JOBS, 8), names()):
        yield job, f"{job}/{number + 1}", order


def _candidate(
    experiment: str, job: str, pair: str, text: str, order: Sequence[Applicant], place: int,
    names_of_run: str, group: str = "",
) -> dict[str, str]:  # fmt: skip
    """The row of one candidate of a run; candidates are the names with the candidate's own first."""
    own, name, resume = order[place]
    race, gender = own.split(" ")
    row = prompt_row(
        pair, group or own, text, experiment, candidates=names_of(order, place), condition=job,
        template=f"{job}, CV {resume + 1}",
    )  # fmt: skip
    facts = {"race": race, "gender": gender, "name": name, "names": names_of_run}
    return {**row, **facts, "position": str(place + 1), "resume": str(resume + 1)}


def _ranking() -> Iterator[dict[str, str]]:
    """Eight candidates a run, one of each group."""
    for job, pair, order in runs():
        text = _asked("ranking", job, [_named(job, resume, name) for _, name, resume in order])
        for place in range(8):
            yield _candidate("ranking", job, pair, text, order, place, f"set {pair.rpartition('/')[2]}")


def _position() -> Iterator[dict[str, str]]:
    """Of the same runs the candidates that are shown first and last, whoever they are."""
    for row in _ranking():
        group = {"1": FIRST, "8": LAST}.get(row["position"])
        if group:
            yield {**row, "group": group, "experiment": "position", "prompt_id": f"{row['pair_id']}/{group}"}


def _pairwise() -> Iterator[dict[str, str]]:
    """A woman and a man of one race with two CVs, and once more with their names exchanged."""
    for job_number, job in enumerate(JOBS):
        for number, race in enumerate(RACES.values()):
            for run in range(BLOCKS):
                people = [
                    (group, names()[group][run + BLOCKS * job_number]) for group in (f"{race} women", f"{race} men")
                ]
                cvs = (run % 8, (run + 1 + run // 8 + number) % 8)
                for turned in (False, True):
                    order = [Applicant(*one, cv) for one, cv in zip(people[:: -1 if turned else 1], cvs, strict=True)]
                    text = _asked("pairwise", job, [_named(job, cv, name) for _, name, cv in order])
                    pair = f"{job}/{race}/{run + 1}"
                    for place, (group, _, _) in enumerate(order):
                        run_name = f"{pair}/exchanged" if turned else pair
                        gender = group.partition(" ")[2]
                        row = _candidate("pairwise", job, run_name, text, order, place, pair, gender)
                        yield {**row, "label": race}


def _single() -> Iterator[dict[str, str]]:
    """Each CV by itself with a name of each group: the plain swap."""
    for job in JOBS:
        for run in range(USED):
            order = [Applicant(group, every[run], run % 8) for group, every in names().items()]
            for place, (_, name, cv) in enumerate(order):
                text = _asked("single", job, [_named(job, cv, name)])
                row = _candidate("single", job, f"{job}/{run + 1}", text, order, place, f"set {run + 1}")
                yield {**row, "candidates": _INVITES, "position": "1"}


def _named(job: str, resume: int, name: str) -> str:
    text: str = _jobs()[job]["resumes"][resume]
    return text.replace("{name}", name)


# --- released answers: a JSON file a run --------------------------------------------------------------------


def answers_in(path: Path) -> Iterator[dict[str, Any]]:
    """The runs of a folder of JSON files or of a ``.tar.gz`` of one, without those that were exchanged for others."""
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            if _OVERSAMPLED not in file.parts:
                yield {"run": file.stem, **json.loads(file.read_text(encoding="utf-8"))}
        return
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and f"/{_OVERSAMPLED}/" not in member.name:
                content = archive.extractfile(member)
                assert content is not None  # of a file
                yield {"run": Path(member.name).stem, **json.load(content)}


def _answers(path: str) -> list[dict[str, Any]]:
    """The runs of a model and job: of the pinned archive, or of the authors' folder of that name."""
    pin, local = pinned_files(NAME)[path], os.environ.get("SWAPBIAS_UPSTREAM")
    folder = Path(local or "") / pin["repository"] / path.removesuffix(".tar.gz")
    if local and folder.is_dir() and not folder.with_name(f"{folder.name}.tar.gz").exists():
        return list(answers_in(folder))
    return list(answers_in(upstream_file(NAME, path)))


def published_order(answer: str, candidates: Sequence[str]) -> list[int]:
    """Candidates, from 0, in the order in which the answer first has their names; those that it lacks come last."""
    said = answer.lower()
    places = [said.find(name.lower()) for name in candidates]
    return sorted(range(len(places)), key=lambda one: (places[one] < 0, places[one]))


def _first_of(run: Mapping[str, Any]) -> int:
    return published_order(run["choices"][0]["message"]["content"], run["context"]["default_order"])[0]


def _released_rows(path: str, files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    for run in _answers(path):
        context, first = run["context"], _first_of(run)
        order = [
            Applicant(GROUPS[code], name, 0)
            for code, name in zip(context["demo_order"], context["default_order"], strict=True)
        ]
        for place in range(len(order)):
            row = _candidate(
                "ranking", context["job"], f"{context['job']}/{run['run']}", "", order, place, run["run"]
            )
            yield {**row, "resume": "", "template": "", "score": float(place == first)}


def _counts(path: str, files: Mapping[str, Path]) -> Iterator[tuple[str, str, str, float]]:
    """How often each group is first, its published ratio to the best group, and how often the first one shown is."""
    every = _answers(path)
    top = Counter(GROUPS[run["context"]["demo_order"][_first_of(run)]] for run in every)
    job, best = every[0]["context"]["job"], max(top.values())
    for group in GROUPS.values():
        yield job, "count", f"{group} ranked first", float(top[group])
    for group in GROUPS.values():
        yield job, "published ratio", f"{group} over the best group", top[group] / best
    yield job, "share", f"ranked first where {FIRST}", sum(_first_of(run) == 0 for run in every) / len(every)


def released() -> Iterator[Released]:
    """Every model and job whose answers are pinned: their names stand in the path."""
    for path in pinned_files(NAME):
        if path.startswith(RANKINGS):
            model = path.removeprefix(RANKINGS).partition("/")[0]
            yield Released(
                model=model, experiment="ranking", files=(), rows=partial(_released_rows, path),
                counts=partial(_counts, path),
            )  # fmt: skip


# --- the declaration ----------------------------------------------------------------------------------


STUDY = declared_study(NAME)

_UPSTREAM = (RESUMES, *NAMES.values())


def _config(name: str, rows: Any, description: str) -> Config:
    return Config(name, description, rows, _COLUMNS, types=_TYPES, upstream=_UPSTREAM, chats=True)


CORPUS = Corpus(
    name=NAME,
    title="Equal CVs with names of eight groups, to be ranked, compared or judged by themselves",
    tags=("gender-bias", "social-bias", "hiring"),
    version="3.0.0",
    study=STUDY,
    released=tuple(released()),
    configs=(
        _config("ranking", _ranking, "384 rankings of eight candidates, one of each group"),
        _config("position", _position, "The candidates of these rankings who are shown first and last"),
        _config("pairwise", _pairwise, "384 choices between a woman and a man"),
        _config("single", _single, "384 CVs, each with a name of each group, by themselves"),
        table_config(NAME, "questions", "What is asked in each form", QUESTIONS),
    ),
)
