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
    """Of each job eight CVs with the slot ``{name}`` (``resumes``) and the description (``jd``)."""
    jobs: dict[str, dict[str, Any]] = json.loads(
        tables.upstream_file(NAME, RESUMES).read_text(encoding="utf-8")
    )
    return jobs


@cache
def names() -> dict[str, list[str]]:
    """The names of each group that prompts use, in an order drawn once."""
    found: dict[str, list[str]] = {group: [] for group in GROUPS.values()}
    for gender, path in NAMES.items():
        for race, every in json.loads(
            tables.upstream_file(NAME, path).read_text(encoding="utf-8")
        ).items():
            found[f"{RACES[race]} {gender}"] = every
    return ranking.drawn_names(found)


def _asked(form: str, job: str, resumes: Sequence[str]) -> str:
    """The conversation that poses some CVs; the authors put ``<hr>`` after each."""
    (row,) = (one for one in read_table(FOLDER / "questions.csv", QUESTIONS) if one["form"] == form)
    system = fill(row["system"], description=_jobs()[job]["jd"])
    return chats.conversation(
        ("system", system), ("user", fill(row["user"], job=job, resumes=ranking.shown_cvs(resumes)))
    )


def runs() -> Iterator[tuple[str, str, list[ranking.Applicant]]]:
    """Of each run its job, its id, and the candidates in the order shown."""
    for path in (
        RESUMES,
        *NAMES.values(),
    ):  # each time, so that every config is seen to be made of them
        tables.upstream_file(NAME, path)
    for job, number, order in ranking.balanced_rankings(dict.fromkeys(JOBS, 8), names()):
        yield job, f"{job}/{number + 1}", order


def _ranking() -> Iterator[dict[str, str]]:
    """Eight candidates a run, one of each group."""
    for job, pair, order in runs():
        text = _asked("ranking", job, [_named(job, resume, name) for _, name, resume in order])
        for place in range(8):
            yield candidate_row(
                "ranking", job, pair, text, order, place, f"set {pair.rpartition('/')[2]}"
            )


def _position() -> Iterator[dict[str, str]]:
    """Of the same runs the candidates that are shown first and last, whoever they are."""
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
    """A woman and a man of one race with two CVs, and once more with their names exchanged."""
    for job_number, job in enumerate(JOBS):
        for number, race in enumerate(RACES.values()):
            for run in range(BLOCKS):
                people = [
                    (group, names()[group][run + BLOCKS * job_number])
                    for group in (f"{race} women", f"{race} men")
                ]
                cvs = (run % 8, (run + 1 + run // 8 + number) % 8)
                for turned in (False, True):
                    order = [
                        ranking.Applicant(*one, cv)
                        for one, cv in zip(people[:: -1 if turned else 1], cvs, strict=True)
                    ]
                    text = _asked("pairwise", job, [_named(job, cv, name) for _, name, cv in order])
                    pair = f"{job}/{race}/{run + 1}"
                    for place, (group, _, _) in enumerate(order):
                        run_name = f"{pair}/exchanged" if turned else pair
                        gender = group.partition(" ")[2]
                        row = candidate_row(
                            "pairwise", job, run_name, text, order, place, pair, gender
                        )
                        yield {**row, "label": race}


def _single() -> Iterator[dict[str, str]]:
    """Each CV by itself with a name of each group: the plain swap."""
    for job in JOBS:
        for run in range(USED):
            order = [
                ranking.Applicant(group, every[run], run % 8) for group, every in names().items()
            ]
            for place, (_, name, cv) in enumerate(order):
                text = _asked("single", job, [_named(job, cv, name)])
                row = candidate_row(
                    "single", job, f"{job}/{run + 1}", text, order, place, f"set {run + 1}"
                )
                yield {**row, "candidates": _INVITES, "position": "1"}


def _named(job: str, resume: int, name: str) -> str:
    text: str = _jobs()[job]["resumes"][resume]
    return text.replace("{name}", name)


ROWS = {"ranking": _ranking, "position": _position, "pairwise": _pairwise, "single": _single}
CORPUS = declared_corpus(NAME, ROWS, released=tuple(released()))
