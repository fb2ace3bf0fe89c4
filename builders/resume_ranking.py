"""resume_ranking: which of eight equal CVs does a chat model rank first when only names differ (Bloomberg 2024)?"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from swapbias.builders._resume_ranking_released import (
    FIRST,
    GROUPS,
    LAST,
    NAME,
    RACES,
    candidate_row,
    released,
)
from swapbias.hub import builder_on_use
from swapbias.studies import (
    Candidate,
    chats,
    corpus_dir,
    declared_corpus,
    fill,
    ranking,
    read_table,
    tables,
)

FOLDER = corpus_dir(NAME)
RESUMES = "data/intermediary/resumes_to_rank.json"
NAMES = {"men": "data/input/top_mens_names.json", "women": "data/input/top_womens_names.json"}
JOBS = ("software engineer", "HR specialist", "retail", "financial analyst")
BLOCKS = 12  # of eight runs a job
USED = 8 * BLOCKS  # names of a group
QUESTIONS = ("form", "system", "user", "source")
_INVITES = (Candidate("Yes", 1.0), Candidate("No", 0.0), Candidate("Do not know"))


@cache
def _jobs() -> dict[str, dict[str, Any]]:
    """Read eight CVs of each job, with the slot ``{name}`` (``resumes``), and its description (``jd``)."""
    content = tables.upstream_file(NAME, RESUMES).read_text(encoding="utf-8")
    jobs: dict[str, dict[str, Any]] = json.loads(content)
    return jobs


@cache
def names() -> dict[str, list[str]]:
    """Draw the names of each group that prompts use, in an order drawn once."""
    by_group: dict[str, list[str]] = {group: [] for group in GROUPS.values()}
    for gender, path in NAMES.items():
        by_race = json.loads(tables.upstream_file(NAME, path).read_text(encoding="utf-8"))
        for race, of_race in by_race.items():
            by_group[f"{RACES[race]} {gender}"] = of_race
    return ranking.drawn_names(by_group)


def _conversation(form: str, job: str, resumes: Sequence[str]) -> str:
    """Write the conversation that poses some CVs; the authors put ``<hr>`` after each."""
    questions = {row["form"]: row for row in read_table(FOLDER / "questions.csv", QUESTIONS)}
    question = questions[form]
    system = fill(question["system"], description=_jobs()[job]["jd"])
    user = fill(question["user"], job=job, resumes=ranking.shown_cvs(resumes))
    return chats.conversation(("system", system), ("user", user))


def runs() -> Iterator[tuple[str, str, list[ranking.Applicant]]]:
    """Give the job of each run, its id, and the candidates in the order shown."""
    # each time, so that every config is seen to be made of them
    for path in (RESUMES, *NAMES.values()):
        tables.upstream_file(NAME, path)
    for job, number, order in ranking.balanced_rankings(dict.fromkeys(JOBS, 8), names()):
        yield job, f"{job}/{number + 1}", order


def _ranking() -> Iterator[dict[str, str]]:
    """Make the prompts of eight candidates a run, one of each group."""
    for job, pair, order in runs():
        cvs = [_resume(job, resume, name) for _, name, resume in order]
        text = _conversation("ranking", job, cvs)
        names_of_run = f"set {pair.rpartition('/')[2]}"
        for index in range(8):
            yield candidate_row("ranking", job, pair, text, order, index, names_of_run)


def _position() -> Iterator[dict[str, str]]:
    """Make the prompts of the candidates that are shown first and last in the same runs, whoever they are."""
    for row in _ranking():
        group = {"1": FIRST, "8": LAST}.get(row["position"])
        if group:
            yield {
                **row,
                "group": group,
                "experiment": "position",
                "prompt_id": f"{row['pair_id']}/{group}",
            }


def _pairwise() -> Iterator[dict[str, str]]:
    """Make the prompts of a woman and a man of one race with two CVs, and once more with their names exchanged."""
    for job_number, job in enumerate(JOBS):
        for race_number, race in enumerate(RACES.values()):
            for run in range(BLOCKS):
                number = run + BLOCKS * job_number
                people = [
                    (group, names()[group][number]) for group in (f"{race} women", f"{race} men")
                ]
                cvs = (run % 8, (run + 1 + run // 8 + race_number) % 8)
                pair = f"{job}/{race}/{run + 1}"
                for row in _two_candidates(job, pair, pair, people, cvs):
                    yield {**row, "label": race}
                exchanged = people[::-1]
                for row in _two_candidates(job, f"{pair}/exchanged", pair, exchanged, cvs):
                    yield {**row, "label": race}


def _two_candidates(
    job: str,
    run_name: str,
    pair: str,
    people: Sequence[tuple[str, str]],
    cvs: Sequence[int],
) -> Iterator[dict[str, str]]:
    """Make the prompts of two candidates, each with a CV."""
    order = [
        ranking.Applicant(group, name, cv) for (group, name), cv in zip(people, cvs, strict=True)
    ]
    resumes = [_resume(job, cv, name) for _, name, cv in order]
    text = _conversation("pairwise", job, resumes)
    for index, (group, _, _) in enumerate(order):
        gender = group.partition(" ")[2]
        yield candidate_row("pairwise", job, run_name, text, order, index, pair, gender)


def _single() -> Iterator[dict[str, str]]:
    """Make the prompts of each CV by itself with a name of each group: the plain swap."""
    for job in JOBS:
        for run in range(USED):
            order = [
                ranking.Applicant(group, of_group[run], run % 8)
                for group, of_group in names().items()
            ]
            for index, (_, name, cv) in enumerate(order):
                text = _conversation("single", job, [_resume(job, cv, name)])
                pair = f"{job}/{run + 1}"
                row = candidate_row("single", job, pair, text, order, index, f"set {run + 1}")
                yield {**row, "candidates": _INVITES, "position": "1"}


def _resume(job: str, number: int, name: str) -> str:
    """Give a CV of a job with a name."""
    text: str = _jobs()[job]["resumes"][number]
    return text.replace("{name}", name)


ROWS = {"ranking": _ranking, "position": _position, "pairwise": _pairwise, "single": _single}
CORPUS = declared_corpus(NAME, ROWS, released=tuple(released()))
__getattr__ = builder_on_use(NAME)
