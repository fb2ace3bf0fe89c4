"""What the authors of resume_ranking released: a JSON file a run; and the row of a candidate of a run."""

import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.studies import Released, prompt_row, ranking, tables
from swapbias.studies.published import ReleasedNumber

NAME = "resume_ranking"
RANKINGS = "data/intermediary/resume_ranking/"
RACES = {"B": "Black", "A": "Asian", "H": "Hispanic", "W": "White"}
GENDERS = {"W": "women", "M": "men"}
GROUPS = {
    f"{race}_{gender}": f"{RACES[race]} {GENDERS[gender]}" for race in RACES for gender in GENDERS
}
FIRST = "shown first"
LAST = "shown last"
_OVERSAMPLED = "oversampled"  # the folder of runs that the authors exchanged for others


def candidate_row(
    experiment: str,
    job: str,
    pair: str,
    text: str,
    order: Sequence[ranking.Applicant],
    index: int,
    names_of_run: str,
    group: str = "",
) -> dict[str, str]:
    """Make the row of one candidate of a run; candidates are the names with the candidate's own first."""
    name_group, name, resume = order[index]
    race, gender = name_group.split(" ")
    row = prompt_row(
        pair,
        group or name_group,
        text,
        experiment,
        candidates=ranking.names_of(order, index),
        condition=job,
        template=f"{job}, CV {resume + 1}",
    )
    facts = {"race": race, "gender": gender, "name": name, "names": names_of_run}
    return {**row, **facts, "position": str(index + 1), "resume": str(resume + 1)}


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
    pin = tables.pinned_files(NAME)[path]
    local = os.environ.get("SWAPBIAS_UPSTREAM")
    folder = Path(local or "") / pin["repository"] / path.removesuffix(".tar.gz")
    if local and folder.is_dir() and not folder.with_name(f"{folder.name}.tar.gz").exists():
        return list(answers_in(folder))
    return list(answers_in(tables.upstream_file(NAME, path)))


def published_order(answer: str, candidates: Sequence[str]) -> list[int]:
    """Candidates, from 0, in the order in which the answer first has their names; those that it lacks come last."""
    text = answer.lower()
    starts = [text.find(name.lower()) for name in candidates]
    return sorted(range(len(starts)), key=lambda number: (starts[number] < 0, starts[number]))


def _first_of(run: Mapping[str, Any]) -> int:
    """Give the number of the candidate that a run ranks first."""
    answer = run["choices"][0]["message"]["content"]
    return published_order(answer, run["context"]["default_order"])[0]


def _released_rows(path: str, files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    for run in _answers(path):
        context = run["context"]
        first = _first_of(run)
        order = [
            ranking.Applicant(GROUPS[code], name, 0)
            for code, name in zip(context["demo_order"], context["default_order"], strict=True)
        ]
        job = context["job"]
        for index in range(len(order)):
            row = candidate_row("ranking", job, f"{job}/{run['run']}", "", order, index, run["run"])
            yield {**row, "resume": "", "template": "", "score": float(index == first)}


def _counts(path: str, files: Mapping[str, Path]) -> Iterator[ReleasedNumber]:
    """Compute the share of runs that rank the candidate first who is shown first."""
    runs = _answers(path)
    job = runs[0]["context"]["job"]
    share = sum(_first_of(run) == 0 for run in runs) / len(runs)
    yield ReleasedNumber(job, "share", f"ranked first where {FIRST}", share)


def released() -> Iterator[Released]:
    """Every model and job whose answers are pinned: their names stand in the path."""
    for path in tables.pinned_files(NAME):
        if path.startswith(RANKINGS):
            model = path.removeprefix(RANKINGS).partition("/")[0]
            yield Released(
                model=model,
                experiment="ranking",
                files=(),
                rows=partial(_released_rows, path),
                counts=partial(_counts, path),
            )
